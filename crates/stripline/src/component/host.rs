//! The runtime of a component process, which follows the launcher's commands, with one thread per
//! component.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::control::{
    self, Ask, Assignment, CONTROL_VARIABLE, ConnectionAssignment, ControlChannel, LAUNCHER_VARIABLE,
    LauncherCommand, OpenOutput, Report, RequestAnswer, WaitTimes,
};
use super::file_log::FileLog;
use super::log_to_stderr::{log_to_stderr, print_error};
use super::pace_log::PaceLog;
use super::registry::Run;
use super::requests::PendingRequests;
use super::{
    Access, Component, ComponentSpec, Direction, InvalidProperties, Ports, Properties, Registry, Value,
};
use crate::error::{Error, Result, catch_panic};
use crate::fail_point::fail_point;
use crate::inspect;
use crate::link::policy;
use crate::link::{
    ConnectionOptions, ConnectionReport, FullReport, Incoming, MoveSlot, Outgoing, PortBuilder, PortEnd,
    PortEvent, PortEvents, TapSlot,
};
use crate::packet::payload::TypeName;
use crate::sys::clock::now_ns;
use crate::sys::credentials::Peer;
use crate::sys::fork::{Descriptor, Local, OwnerProcess};
use crate::sys::mutex::lock;
use crate::sys::process;
use crate::terms::{LinkOptions, SenderOptions};
use crate::transport::{self, ConnectRequest, StopToken, Wait};

/// Makes an executable print the component's specification as JSON and exit. An executable with
/// several types, or made for several, prints a list.
pub const DESCRIBE_OPTION: &str = "--describe";

/// Makes an executable read properties as JSON from standard input and exit. The executable prints
/// the problem with the properties as JSON (`null`: no problem). The name of the type follows this
/// option.
pub const CHECK_OPTION: &str = "--check";

/// The longest wait of an ending component for receivers to take the remaining packets.
const FINISH_TIME: Duration = Duration::from_secs(30);

/// Runs as the `main` of an executable with one component type: follows a launcher, prints the
/// component's specification, or prints the usage. See the [module](super) for an example.
///
/// Call this before the program starts threads: it removes the launcher's variables from the
/// environment, so that programs started by a component do not inherit them.
///
/// Prints the library's [log](crate#the-log) on standard error, unless the program has already
/// installed a logger.
pub fn main<C: Component>() -> ExitCode {
    let registry = Registry::new().with::<C>();
    let describe = |specs: &Specs| serde_json::to_string(&specs.values().next().map(DescribedSpec::of));
    run_main(&registry, std::env::args_os().skip(1), describe)
}

/// Runs as the `main` of an executable with the component types of a registry, as [`main`] does for
/// one type. A waveform selects a type with `exec` and `type`. Components of such an executable may
/// share a process as threads, so they must not depend on anything that exists once per process.
///
/// ```no_run
/// use stripline::component::{Registry, main_of};
/// # use stripline::{Result, component::{Component, ComponentSpec, Ports, Properties}};
/// # struct Fft;
/// # struct Chirp;
/// # impl Component for Fft {
/// #     fn describe() -> ComponentSpec { ComponentSpec::new("fft", "A spectrum.") }
/// #     fn new(_: &Properties) -> Result<Self> { Ok(Self) }
/// #     fn run(self, _: Ports) -> Result<()> { Ok(()) }
/// # }
/// # impl Component for Chirp {
/// #     fn describe() -> ComponentSpec { ComponentSpec::new("chirp", "A chirp.") }
/// #     fn new(_: &Properties) -> Result<Self> { Ok(Self) }
/// #     fn run(self, _: Ports) -> Result<()> { Ok(()) }
/// # }
///
/// fn main() -> std::process::ExitCode {
///     main_of(&Registry::new().with::<Fft>().with::<Chirp>())
/// }
/// ```
pub fn main_of(registry: &Registry) -> ExitCode {
    main_with_args(registry, std::env::args_os().skip(1))
}

/// Runs as [`main_of`] does, with the given arguments, which exclude the name of the program and of
/// a script. For programs with arguments in front of the component's, and for interpreters, for
/// example with `exec = ["python3", "gain.py"]` in a waveform file.
///
/// ```
/// use stripline::component::{ComponentSpec, Ports, Properties, Registry, main_with_args};
///
/// let idle = ComponentSpec::new("idle", "Does nothing.");
/// let registry = Registry::new().with_value(idle, |_: &Properties| Ok(|_: Ports| Ok(())));
/// let described = main_with_args(&registry, ["--describe".into()]);
/// assert_eq!(described, std::process::ExitCode::SUCCESS);
/// ```
pub fn main_with_args(registry: &Registry, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run_main(registry, args, |specs| {
        serde_json::to_string(&specs.values().map(DescribedSpec::of).collect::<Vec<_>>())
    })
}

/// A specification as `--describe` prints it.
#[derive(Serialize)]
struct DescribedSpec<'s> {
    #[serde(flatten)]
    spec: &'s ComponentSpec,
    /// The transports that this program supports.
    transports: Vec<&'static str>,
}

impl<'s> DescribedSpec<'s> {
    fn of(spec: &'s ComponentSpec) -> Self {
        Self { spec, transports: transport::all().map(|transport| transport.name).collect() }
    }
}

type Specs = BTreeMap<String, ComponentSpec>;

fn run_main(
    registry: &Registry,
    args: impl IntoIterator<Item = OsString>,
    describe: fn(&Specs) -> serde_json::Result<String>,
) -> ExitCode {
    log_to_stderr();
    if let Some(code) = host_if_launched(registry) {
        return code;
    }
    let specs = registry.specs();
    let mut args = args.into_iter();
    let (option, type_name) = (args.next(), args.next());
    match option.as_deref().and_then(OsStr::to_str) {
        Some(DESCRIBE_OPTION) => answer(describe(specs)),
        Some(CHECK_OPTION) => match named(specs, type_name.as_deref()) {
            Some(spec) => answer(checked(spec)),
            None => {
                let names: Vec<&str> = specs.keys().map(String::as_str).collect();
                print_error!("{CHECK_OPTION} needs one of the types {}", names.join(", "));
                ExitCode::from(2)
            }
        },
        _ => {
            print_usage(specs);
            ExitCode::from(2)
        }
    }
}

/// Returns the type with that name. Without a name, returns the only type.
fn named<'s>(specs: &'s Specs, name: Option<&OsStr>) -> Option<&'s ComponentSpec> {
    match name {
        Some(name) => specs.get(name.to_str()?),
        None => specs.values().next().filter(|_| specs.len() == 1),
    }
}

fn print_usage(specs: &Specs) {
    let options = format!(
        "`{DESCRIBE_OPTION}` prints its ports and properties as JSON; `{CHECK_OPTION}` reads properties as JSON \
         and prints their mistakes."
    );
    if let [spec] = specs.values().collect::<Vec<_>>()[..] {
        print_error!(
            "This is the component `{name}` of a waveform: {summary}\nIt is started by `stripline run FILE`, \
             with this in FILE:\n\n    [component.{name}]\n    exec = \"PATH OF THIS EXECUTABLE\"\n\n{options}",
            name = spec.name,
            summary = spec.summary,
        );
        return;
    }
    let rows: Vec<String> =
        specs.values().map(|spec| format!("    {}: {}", spec.name, spec.summary)).collect();
    print_error!(
        "These are components of a waveform:\n\n{}\n\nThey are started by `stripline run FILE`, with this in \
         FILE:\n\n    [component.NAME]\n    exec = \"PATH OF THIS EXECUTABLE\"\n    type = \"ONE OF THEM\"\n\n\
         {options}",
        rows.join("\n"),
    );
}

/// Prints the requested text and returns the exit code.
fn answer(text: serde_json::Result<String>) -> ExitCode {
    let printed = match text {
        Ok(text) => writeln!(std::io::stdout(), "{text}").is_ok(),
        Err(error) => {
            print_error!("{error}");
            false
        }
    };
    if printed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the problem with the properties on standard input, as JSON.
fn checked(spec: &ComponentSpec) -> serde_json::Result<String> {
    let mut values: BTreeMap<String, Value> = serde_json::from_reader(std::io::stdin())?;
    // The component itself sets the read-only properties.
    values.retain(|name, _| spec.find_property(name).is_none_or(|known| known.access != Access::ReadOnly));
    let invalid = match Properties::new(spec, values) {
        Ok(properties) => spec.validate(&properties).err(),
        Err(errors) => Some(InvalidProperties::new(errors.join("; "))),
    };
    serde_json::to_string(&invalid)
}

/// Runs the components that a launcher assigns and returns the exit code. Returns `None` in a
/// process that was not started by a launcher.
pub fn host_if_launched(registry: &Registry) -> Option<ExitCode> {
    let [descriptor, launcher] = [CONTROL_VARIABLE, LAUNCHER_VARIABLE].map(|name| std::env::var(name).ok());
    let descriptor = descriptor?;
    log_to_stderr();
    // Programs started by a component must not inherit these variables.
    process::remove_variables(&[CONTROL_VARIABLE, LAUNCHER_VARIABLE]);
    let stream = process::prepare_for_limits().and_then(|()| inherit(&descriptor, launcher));
    let host = stream.and_then(|stream| ComponentHost::new(registry.clone(), stream));
    Some(match host.and_then(ComponentHost::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error!("{error}");
            ExitCode::FAILURE
        }
    })
}

/// Takes over the inherited control socket.
fn inherit(descriptor: &str, launcher: Option<String>) -> Result<UnixStream> {
    let wrong = |what: &str| Error::Configuration(format!("{CONTROL_VARIABLE}={descriptor}: {what}"));
    let number: RawFd = descriptor.parse().map_err(|_| wrong("not a descriptor"))?;
    if number <= 2 {
        return Err(wrong("not a control socket"));
    }
    // SAFETY: the launcher passed this descriptor for this process to own, and nothing in this
    // process uses it yet. If the variable is wrong, the checks below find a descriptor that is not
    // a socket.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)
        .map_err(|e| Error::system(CONTROL_VARIABLE, e))?;
    let stream = UnixStream::from(fd);
    Peer::of(&stream)?.check(None).map_err(|who| wrong(&who))?;
    let launcher = launcher.and_then(|text| text.parse().ok());
    process::die_with_parent(launcher.ok_or_else(|| wrong("no launcher"))?)?;
    Ok(stream)
}

/// The sending side of the control socket, shared by the component threads and the control thread.
struct Reporter {
    stream: Mutex<Descriptor<UnixStream>>,
    process: OwnerProcess,
}

impl Reporter {
    /// Sends a report. A failure means that the launcher has ended this process or is about to.
    fn send(&self, report: &Report) {
        // A child forked by a component sends no reports.
        if !self.process.is_current() {
            return;
        }
        let stream = lock(&self.stream);
        let _ = control::send(&stream, report);
    }

    fn reply(&self, component: &str, number: u64, answer: RequestAnswer) {
        self.send(&Report::Answer { component: component.into(), number, answer });
    }

    fn warn(&self, component: &str, text: impl ToString) {
        self.send(&Report::Warning { component: component.into(), text: text.to_string() });
    }
}

struct ComponentHost {
    registry: Registry,
    channel: ControlChannel<Report, LauncherCommand>,
    reporter: Arc<Reporter>,
    components: BTreeMap<String, HostedComponent>,
    /// The last thread that worked on each connection.
    connecting: HashMap<String, JoinHandle<()>>,
}

/// A component of this process.
struct HostedComponent {
    stop: StopToken,
    port_events: BTreeMap<String, Arc<PortEvents>>,
    stats: Arc<Statistics>,
    requests: Arc<PendingRequests>,
    keeps_streams: Arc<AtomicBool>,
    pace: PaceLog,
    files: FileLog,
    ready: Option<Ready>,
    /// By the name of the output.
    output_slots: BTreeMap<String, OutputSlots>,
}

/// The slots in which the process leaves work for the thread that owns an output.
struct OutputSlots {
    payload: TypeName,
    tap: Arc<TapSlot>,
    path: Arc<MoveSlot>,
}

impl OutputSlots {
    /// Serves a request to the output and replies. A reply to a move is sent once the move was
    /// made.
    fn answer(&self, ask: &Ask, reply: impl FnOnce(RequestAnswer) + Send + 'static) {
        let payload = &self.payload;
        let opened = match ask {
            Ask::PrepareMove(output) => {
                let prepared = self.path.prepare(&output.transport, payload, output.options);
                prepared.map(|open| open.map(RequestAnswer::MovePrepared))
            }
            Ask::Move(_) => {
                let moved = |outcome: std::result::Result<u64, PortEnd>| outcome.map(RequestAnswer::Moved);
                return self.path.request(Box::new(move |outcome| reply(not_over(moved(outcome)))));
            }
            Ask::CancelMove(_) => {
                self.path.cancel();
                Ok(Ok(RequestAnswer::MoveCancelled))
            }
            _ => self.tap.open(payload).map(|open| open.map(|at| RequestAnswer::Tapped(at, payload.clone()))),
        };
        reply(opened.map_or_else(|error| RequestAnswer::NotTaken(error.to_string()), not_over));
    }
}

/// Returns the answer of an output, or the answer for an output that has ended.
fn not_over(answer: std::result::Result<RequestAnswer, PortEnd>) -> RequestAnswer {
    answer.unwrap_or_else(|end| match end {
        PortEnd::Ended => RequestAnswer::StreamEnded,
        PortEnd::Gone => RequestAnswer::Ended,
    })
}

/// The statistics of one component's inputs, by connection.
#[derive(Default)]
struct Statistics(Mutex<BTreeMap<String, ConnectionOptions>>);

/// A component that has been created and waits to be started.
struct Ready {
    run: Run,
    ports: Ports,
    finished: Receiver<Outgoing>,
    keeps_streams: Arc<AtomicBool>,
    pace: PaceLog,
    files: FileLog,
    assignment: Assignment,
}

impl ComponentHost {
    fn new(registry: Registry, stream: UnixStream) -> Result<Self> {
        let channel = ControlChannel::new(stream);
        let copy =
            channel.try_clone().map_err(|e| Error::system("cannot duplicate the control socket", e))?;
        let stream = Mutex::new(Descriptor::new(copy));
        let reporter = Arc::new(Reporter { stream, process: OwnerProcess::current() });
        reporter.send(&Report::Registered { version: control::VERSION });
        Ok(Self { registry, channel, reporter, components: BTreeMap::new(), connecting: HashMap::new() })
    }

    fn run(mut self) -> Result<()> {
        let mut orders = VecDeque::new();
        loop {
            let listening =
                self.channel.receive(&mut orders).map_err(|e| Error::system("the launcher's socket", e))?;
            if !listening {
                // The launcher has ended, and no other process can stop or collect this one.
                return Err(Error::of_system("the launcher is gone"));
            }
            while let Some(command) = orders.pop_front() {
                if matches!(command, LauncherCommand::Release) {
                    return Ok(());
                }
                self.handle(command)?;
            }
        }
    }

    /// Follows a command. A command for a component that is not in this process has no effect.
    fn handle(&mut self, command: LauncherCommand) -> Result<()> {
        let member = |name: &str| self.components.get(name);
        match command {
            LauncherCommand::Assign(assignments) => self.assign(assignments),
            LauncherCommand::Connect(connection) => self.connect(*connection),
            LauncherCommand::Abandon { component, port, connection } => {
                if let Some(events) = self.events_of(&component, &port) {
                    let abandon = PortEvent::Abandoned(connection.clone());
                    self.in_turn(connection, false, move || events.push(abandon));
                }
            }
            LauncherCommand::CancelMove { component, port, connection, endpoint } => {
                if let Some(events) = self.events_of(&component, &port) {
                    let cancel = PortEvent::MoveCancelled(connection.clone(), endpoint);
                    self.in_turn(connection, false, move || events.push(cancel));
                }
            }
            LauncherCommand::Start { component } => self.start(&component)?,
            LauncherCommand::Stop { component } => {
                member(&component).iter().for_each(|member| {
                    member.end_streams();
                    member.stop.stop();
                });
            }
            LauncherCommand::EndStreams { component } => {
                member(&component).iter().for_each(|member| member.end_streams());
            }
            LauncherCommand::Poll => {
                let inputs = self.components.values().flat_map(|m| m.stats.counters()).collect();
                let pace =
                    |(name, member): (&String, &HostedComponent)| Some((name.clone(), member.pace.report()?));
                let paces = self.components.iter().filter_map(pace).collect();
                let waits = WaitTimes::of(inspect::snapshot(), now_ns());
                let files =
                    self.components.iter().map(|(name, member)| (name.clone(), member.files.reports()));
                let files = files.filter(|(_, files)| !files.is_empty()).collect();
                self.reporter.send(&Report::Counters { inputs, waits, paces, files });
            }
            LauncherCommand::Ask { component, number, ask } => match member(&component) {
                Some(member) if ask.port().is_some() => self.ask_port(member, &component, number, ask),
                Some(member) => {
                    member.requests.push(number, ask);
                    // Wakes a component that sleeps until a packet arrives, so that it takes the
                    // request.
                    member.port_events.values().for_each(|events| events.notify_request());
                }
                None => self.reporter.reply(&component, number, RequestAnswer::Ended),
            },
            LauncherCommand::Withdraw { component, number } => {
                member(&component).iter().for_each(|member| member.requests.withdraw(number));
            }
            LauncherCommand::Query { component, number } => {
                let answer = member(&component).map_or(RequestAnswer::Ended, |member| {
                    RequestAnswer::Values(member.requests.statuses.values(&member.requests.spec))
                });
                self.reporter.reply(&component, number, answer);
            }
            LauncherCommand::Release => {}
        }
        Ok(())
    }

    /// Answers a request to an output that the process serves without the component.
    fn ask_port(&self, member: &HostedComponent, component: &str, number: u64, ask: Ask) {
        let (reporter, component) = (Arc::clone(&self.reporter), component.to_string());
        let reply = move |answer| reporter.reply(&component, number, answer);
        let port = ask.port().unwrap_or_default();
        match member.output_slots.get(port) {
            Some(slots) => slots.answer(&ask, reply),
            None => {
                let why = format!(
                    "output `{port}` is not connected, so that it has no payload type; connect it, for example to a `null-sink`"
                );
                reply(RequestAnswer::NotTaken(why));
            }
        }
    }

    fn assign(&mut self, assignments: Vec<Assignment>) {
        for assignment in assignments {
            let component = assignment.name.clone();
            let report = match self.initialize(assignment) {
                Ok((member, endpoints)) => {
                    self.components.insert(component.clone(), member);
                    Report::Initialized { component, endpoints }
                }
                Err(error) => {
                    let (outcome, lasting) = (Err(error.to_string()), error.code().is_lasting());
                    let (reports, sent, files) = (Vec::new(), Vec::new(), Vec::new());
                    Report::Ended { component, outcome, lasting, reports, sent, pace: None, files }
                }
            };
            self.reporter.send(&report);
        }
    }

    /// Creates a component and opens its ports.
    fn initialize(&self, assignment: Assignment) -> Result<(HostedComponent, Vec<OpenOutput>)> {
        let type_name = &assignment.type_name;
        let unknown = || Error::Configuration(format!("this executable has no component type `{type_name}`"));
        let spec = self.registry.specs().get(type_name).cloned().ok_or_else(unknown)?;
        let make = || self.registry.make(type_name, &assignment.properties).ok_or_else(unknown)?;
        let run = catch_panic(make)?;
        let stop = StopToken::new()?;
        let stats = Arc::new(Statistics::default());
        let (finished_tx, finished_rx) = mpsc::channel();
        let (reporter, name) = (Arc::clone(&self.reporter), assignment.name.clone());
        let answer = move |number, answer| reporter.reply(&name, number, answer);
        let pending = PendingRequests::new(spec.clone(), assignment.properties.clone(), answer);
        let (pace, files) = (PaceLog::default(), FileLog::default());
        let mut ports = Ports {
            component: assignment.name.clone(),
            process: OwnerProcess::current(),
            types: assignment.port_types.clone(),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            finished: Some(Local::new(finished_tx)),
            stop: stop.clone(),
            pace: pace.clone(),
            files: files.clone(),
            restarts: assignment.restarts,
            dispatch: assignment.dispatch,
            quiet: assignment.quiet,
            pending: Arc::clone(&pending),
        };
        inspect::set_waveform(&assignment.waveform);
        let mut endpoints = Vec::new();
        let mut output_slots = BTreeMap::new();
        let mut port_events = BTreeMap::new();
        for port in &spec.ports {
            let full_name = format!("{}.{}", assignment.name, port.name);
            match port.direction {
                Direction::Output => {
                    let mut outgoing = open(&assignment, &port.name, &full_name, &stop, &mut endpoints)?;
                    if let Some(payload) = assignment.port_types.get(&port.name) {
                        let connections = assignment.outputs.iter().filter(|output| output.port == port.name);
                        let buffer = connections.map(|output| output.options.buffer).max().unwrap_or(0);
                        let strongest = strongest_of(&assignment, &port.name);
                        let slots = OutputSlots {
                            payload: payload.clone(),
                            tap: outgoing.tap_slot(buffer),
                            path: outgoing.move_slot(&strongest),
                        };
                        output_slots.insert(port.name.clone(), slots);
                    }
                    ports.outputs.insert(port.name.clone(), outgoing);
                }
                Direction::Input => {
                    let events = Arc::new(PortEvents::new()?);
                    let inputs = || assignment.inputs.iter().filter(|input| input.port == port.name);
                    for input in inputs() {
                        stats.expect(&input.connection, &input.options);
                        events.push(PortEvent::Expect(input.connection.clone()));
                    }
                    let port_stats = Arc::clone(&stats);
                    let terms_for = Arc::new(move |name: &str| port_stats.of(name));
                    let (to_port, stop) = (Arc::clone(&events), stop.clone());
                    let mut incoming = Incoming::new(full_name, to_port, terms_for, stop, false, None);
                    if inputs().any(|input| input.options.resequence.is_some()) {
                        incoming.resequence(None);
                    }
                    ports.inputs.insert(port.name.clone(), incoming);
                    port_events.insert(port.name.clone(), events);
                }
            }
        }
        let keeps_streams = Arc::new(AtomicBool::new(assignment.keeps_streams));
        let kept = Arc::clone(&keeps_streams);
        let ready = Some(Ready {
            run,
            ports,
            finished: finished_rx,
            keeps_streams: kept,
            pace: pace.clone(),
            files: files.clone(),
            assignment,
        });
        let member = HostedComponent {
            stop,
            port_events,
            stats,
            requests: pending,
            keeps_streams,
            pace,
            files,
            ready,
            output_slots,
        };
        Ok((member, endpoints))
    }

    /// Connects an input on a separate thread, because a stopped sender answers late and must not
    /// delay anything else.
    fn connect(&mut self, connection: ConnectionAssignment) {
        let ConnectionAssignment { component, port, connection, payload, options, endpoint, moves } =
            connection;
        let Some(events) = self.events_of(&component, &port) else { return };
        let request = ConnectRequest { connection: connection.clone(), payload, options, moves };
        let (reporter, name) = (Arc::clone(&self.reporter), connection.clone());
        let connect = move || {
            reporter.send(&match policy::connect(&endpoint, &request) {
                Ok(inlet) => {
                    events.push(if moves {
                        fail_point!("move-connected");
                        PortEvent::Moving(connection.clone(), inlet, endpoint)
                    } else {
                        PortEvent::Connected(connection.clone(), inlet)
                    });
                    Report::Connected { component, connection }
                }
                Err(error) => Report::ConnectFailed { component, connection, problem: error.to_string() },
            });
        };
        self.in_turn(name, true, connect);
    }

    /// Does work on a connection after earlier work on the same connection. Work that is slow or
    /// has to wait runs on a separate thread.
    fn in_turn(&mut self, connection: String, is_slow: bool, act: impl FnOnce() + Send + 'static) {
        let before = self.connecting.remove(&connection).filter(|thread| !thread.is_finished());
        if before.is_none() && !is_slow {
            return act();
        }
        // The work is shared so that it can be done on this thread if no other can be started.
        let work = Arc::new(Mutex::new(Some((before, act))));
        let shared_work = Arc::clone(&work);
        let run = move || {
            let Some((before, act)) = lock(&shared_work).take() else { return };
            before.map(JoinHandle::join);
            act();
        };
        match std::thread::Builder::new().name("stripline-connec".into()).spawn(run.clone()) {
            Ok(thread) => drop(self.connecting.insert(connection, thread)),
            Err(_) => run(),
        }
    }

    fn events_of(&self, component: &str, port: &str) -> Option<Arc<PortEvents>> {
        self.components.get(component)?.port_events.get(port).cloned()
    }

    fn start(&mut self, component: &str) -> Result<()> {
        let Some(member) = self.components.get_mut(component) else { return Ok(()) };
        let Some(ready) = member.ready.take() else { return Ok(()) };
        let (reporter, stats) = (Arc::clone(&self.reporter), Arc::clone(&member.stats));
        let pending = Arc::clone(&member.requests);
        std::thread::Builder::new()
            .name(component.chars().take(15).collect())
            .spawn(move || run(ready, &reporter, &stats, &pending))
            .map_err(|e| Error::not_started(format!("cannot start a thread for `{component}`"), e))?;
        Ok(())
    }
}

impl HostedComponent {
    /// Makes the component end the streams when it ends without an error, because the run ends.
    fn end_streams(&self) {
        // Relaxed: if the component was faster, the launcher ends the streams itself.
        self.keeps_streams.store(false, Ordering::Relaxed);
        self.stop.set_ending();
    }
}

/// Opens one output over all transports.
fn open(
    assignment: &Assignment,
    port: &str,
    full_name: &str,
    stop: &StopToken,
    endpoints: &mut Vec<OpenOutput>,
) -> Result<Outgoing> {
    let mut builder = PortBuilder::new(full_name, strongest_of(assignment, port), stop);
    for output in assignment.outputs.iter().filter(|output| output.port == port) {
        let payload = assignment
            .port_types
            .get(port)
            .ok_or_else(|| Error::port(full_name, "is connected but was given no type"))?;
        let endpoint = builder.bind(&output.transport, payload, output.options)?;
        endpoints.push(OpenOutput { port: port.into(), endpoint });
    }
    Ok(builder.build(assignment.sampling))
}

/// Returns the strongest options of all connections of an output.
fn strongest_of(assignment: &Assignment, port: &str) -> SenderOptions {
    let connections = assignment.outputs.iter().filter(|output| output.port == port);
    let strongest = connections.map(|output| output.options).reduce(SenderOptions::merged);
    strongest.unwrap_or_else(|| SenderOptions::from(&LinkOptions::default()))
}

/// Runs a component from start to end, on the component's own thread.
fn run(ready: Ready, reporter: &Reporter, stats: &Statistics, pending: &PendingRequests) {
    let Ready { run, ports, finished: finished_tx, keeps_streams, pace, files, assignment } = ready;
    let component = assignment.name;
    if let Some(Err(error)) = assignment.priority.map(process::set_priority) {
        reporter.warn(&component, format!("{error}; it runs at normal priority"));
    }
    if !assignment.cpus.is_empty()
        && let Err(error) = process::set_affinity(&assignment.cpus)
    {
        reporter.warn(&component, format!("{error}; it runs anywhere"));
    }
    ports.stop_signal().enter();
    let outcome = match catch_panic(|| run(ports)) {
        Ok(()) | Err(Error::Stopped) => Ok(()),
        // Receivers get no end of stream, because the component may be started again.
        Err(error) => Err(error),
    };
    if !reporter.process.is_current() {
        // The process is a child that the component forked, and returns from it. The component
        // itself continues.
        std::process::exit(i32::from(outcome.is_err()));
    }
    // The pace is taken before the rest is sent, because sending the rest is not part of it.
    let pace = pace.report();
    // Before the end is reported: no request may wait for a component that has ended.
    pending.end();
    let mut outputs: Vec<Outgoing> = finished_tx.try_iter().collect();
    let sent: Vec<_> = outputs.iter().map(|output| (output.port().to_string(), output.sequence())).collect();
    // Relaxed: see `end_streams`.
    let keeps_streams = keeps_streams.load(Ordering::Relaxed);
    let outcome = outcome.and_then(|()| finish(&mut outputs, keeps_streams));
    drop((finished_tx, outputs));
    let (reports, files) = (stats.reports(), files.reports());
    // After the first packet, an error may be due to what was received.
    let is_untouched = sent.iter().all(|(_, packets)| *packets == 0)
        && reports.iter().all(|report| report.counters.packets == 0);
    let lasting = is_untouched && outcome.as_ref().is_err_and(|error| error.code().is_lasting());
    let outcome = outcome.map_err(|error| error.to_string());
    reporter.send(&Report::Ended { component, outcome, lasting, reports, sent, pace, files });
}

/// Ends the streams of a component's outputs, or only sends the rest if the streams go on.
pub(super) fn finish(outputs: &mut [Outgoing], keeps_streams: bool) -> Result<()> {
    let deadline = Wait::Finish(Instant::now() + FINISH_TIME);
    let finish = |output: &mut Outgoing| match keeps_streams {
        true => output.flush(deadline),
        false => output.finish(deadline),
    };
    // All outputs are finished, even after an error of one.
    outputs.iter_mut().map(finish).fold(Ok(()), Result::and)
}

impl Statistics {
    fn expect(&self, connection: &str, options: &LinkOptions) {
        lock(&self.0).insert(connection.into(), ConnectionOptions::new(options));
    }

    fn of(&self, connection: &str) -> ConnectionOptions {
        let default = || ConnectionOptions::new(&LinkOptions::default());
        lock(&self.0).entry(connection.into()).or_insert_with(default).clone()
    }

    fn counters(&self) -> Vec<ConnectionReport> {
        lock(&self.0).iter().map(|(name, options)| options.stats.counters(name)).collect()
    }

    fn reports(&self) -> Vec<FullReport> {
        lock(&self.0).iter().map(|(name, options)| options.stats.report(name)).collect()
    }
}
