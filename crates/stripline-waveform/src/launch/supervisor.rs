//! The loop that starts, connects, watches and stops the components of a waveform.

mod ages;
mod ending;
mod moves;
mod reports;
mod requests;
mod restarting;
mod settings;
mod taps;
mod wiring;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use stripline::component::{FileReport, Properties, Value};
use stripline::internal::control::LauncherCommand;
use stripline::internal::{Endpoint, PaceReport, PollSet};
use stripline::terms::WaitStrategy;
use stripline::{Error, Result};

use super::bottleneck::held_up_by;
use super::connection_state::{ConnectionState, WaitShare};
use super::paths::PathTimes;
use super::process::{ComponentProcess, exit_text};
use super::report::{ComponentResult, ConnectionResult, PaceResult, Progress, RunReport};
use super::signals::Signals;
use super::{Observer, RunOptions, Step};
use crate::control::{Announcement, ControlService, RequestInbox};
use crate::machine_check::Schedule;
use crate::placement::Placement;
use crate::plan::{ComponentPlan, Program, Waveform};
use crate::program_command::ProgramCommand;
use crate::restart::RestartHistory;
use moves::MoveState;
use requests::Requests;

/// Time limit for a process to register, if no process of the same program has registered before.
/// The limit only ends the wait for a program that never registers. On an overloaded machine,
/// registration has taken 10 s.
const REGISTER_TIME: Duration = Duration::from_secs(30);
/// Time limit for all components to be created and connected. A restarted process must register
/// within it.
const CONNECT_TIME: Duration = Duration::from_secs(60);
/// After the sources were ordered to stop, the other components are ordered to stop once no
/// receiver has taken a packet for this time. After the same time again, they are killed.
const STOP_TIME: Duration = Duration::from_secs(5);
/// The longest wait, after the stop of the sources, for receivers that still take packets.
const DRAIN_TIME: Duration = Duration::from_secs(60);
/// The time that the other components have to end after a failure. After the failure of a component
/// that had sent packets, they have first had `STOP_TIME` to receive these.
const FAILURE_TIME: Duration = Duration::from_secs(2);
/// Time after the stop of the sources from which components that have not ended are reported.
const REPORT_TIME: Duration = Duration::from_secs(3);
/// The interval between requests for counters.
const POLL_TIME: Duration = Duration::from_millis(250);

pub(super) struct Supervisor<'a> {
    waveform: &'a Waveform,
    options: &'a RunOptions,
    observer: &'a mut dyn Observer,
    groups: Vec<ProcessGroup>,
    members: Vec<LaunchedComponent<'a>>,
    connections: Vec<ConnectionState<'a>>,
    signals: Signals,
    phase: Phase,
    /// While starting: the time limit for all components to be created and connected.
    connect_by: Instant,
    started: Option<Instant>,
    ended: Option<Instant>,
    next_poll: Instant,
    /// The wait for components to end, since the sources were ordered to stop.
    ending: Option<EndWait>,
    failure: Option<String>,
    stopped: Option<String>,
    inbox: RequestInbox,
    requests: Requests,
    moves: Vec<MoveState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Lasts until every component is created and every connection is made.
    Starting,
    Running,
    /// The sources were ordered to stop.
    Draining(Drain),
    /// All components were ordered to stop. Components that have not stopped by this time are
    /// killed.
    Stopping(Instant),
}

/// The wait for packets in transit.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Drain {
    /// The time at which all components must stop, even if packets are still taken.
    until: Instant,
    /// The last time at which a packet was taken, and the number of packets taken by then.
    taken: (Instant, u64),
}

/// The state at the time when the sources were ordered to stop.
struct EndWait {
    since: Instant,
    /// The waits of each connection: of the sender, and of the receiving port.
    waits: Vec<[WaitShare; 2]>,
}

/// A process and the components in it.
#[derive(Default)]
struct ProcessGroup {
    program: ProgramCommand,
    members: Vec<usize>,
    process: Option<ComponentProcess>,
    /// Whether a process of this program has registered before.
    has_registered: bool,
    /// The time limit for registration; `None` once the process has registered.
    register_by: Option<Instant>,
    /// The time of the next restart.
    restart_at: Option<Instant>,
    history: RestartHistory,
    /// The result that the component reported, before the process was killed in order to restart
    /// it.
    reported: Option<Result<(), String>>,
    /// The reason for the last restart.
    last_end: Option<String>,
}

struct LaunchedComponent<'a> {
    plan: &'a ComponentPlan,
    group: usize,
    endpoints: BTreeMap<(String, String), Endpoint>,
    state: ComponentState,
    /// The component has reported the number of packets sent.
    counted: bool,
    /// The component was ordered to stop, and is not restarted when it has ended.
    is_stopping: bool,
    /// The failure of the component, if the waveform goes on without it.
    given_up: Option<String>,
    /// The properties from the file, with the changes that were set since.
    properties: Properties,
    /// The pace so far.
    pace: Option<PaceReport>,
    /// The warning that the component is behind its pace has been given.
    is_delay_reported: bool,
    /// The warning that the stop waits for the component has been given.
    is_wait_reported: bool,
    /// The files of the present process, and the files of earlier processes.
    files: Vec<FileReport>,
    earlier_files: Vec<FileReport>,
    /// The values set since the start.
    set: BTreeMap<String, Value>,
}

impl ProcessGroup {
    /// Returns the time limit for registration.
    fn register_time(&self) -> Duration {
        if self.has_registered { CONNECT_TIME } else { REGISTER_TIME }
    }
}

impl LaunchedComponent<'_> {
    /// Records a pace. The longest delay is the maximum over all incarnations.
    fn set_pace(&mut self, pace: Option<PaceReport>) {
        let before = self.pace.map_or(0.0, |pace| pace.behind_max_s);
        let longest = |pace: PaceReport| pace.behind_max_s.max(before);
        self.pace = pace.map(|pace| PaceReport { behind_max_s: longest(pace), ..pace });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ComponentState {
    /// The process is missing or has not created the component yet.
    Absent,
    Initialized,
    Running,
    Ended,
    Failed,
}

impl ComponentState {
    fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Failed)
    }

    /// Returns whether the component is created and has not ended.
    fn is_alive(self) -> bool {
        matches!(self, Self::Initialized | Self::Running)
    }
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        waveform: &'a Waveform,
        options: &'a RunOptions,
        observer: &'a mut dyn Observer,
    ) -> Result<Self> {
        let mut groups: Vec<ProcessGroup> = Vec::new();
        let mut members = Vec::new();
        // The shared processes of components placed in threads, by program.
        let mut threads: BTreeMap<&Program, usize> = BTreeMap::new();
        for plan in &waveform.components {
            let is_thread = plan.placement == Placement::Thread;
            let next = groups.len();
            let group = if is_thread { *threads.entry(&plan.program).or_insert(next) } else { next };
            if group == groups.len() {
                groups.push(ProcessGroup {
                    program: match &plan.program {
                        Program::Stock => options.host.clone().into(),
                        Program::Executable(command) => command.clone(),
                    },
                    ..ProcessGroup::default()
                });
            }
            groups[group].members.push(members.len());
            members.push(LaunchedComponent {
                plan,
                group,
                endpoints: BTreeMap::new(),
                state: ComponentState::Absent,
                counted: false,
                is_stopping: false,
                given_up: None,
                pace: None,
                is_delay_reported: false,
                is_wait_reported: false,
                properties: plan.properties.clone(),
                files: Vec::new(),
                earlier_files: Vec::new(),
                set: BTreeMap::new(),
            });
        }
        let member = |name: &str| {
            let index = waveform.components.iter().position(|plan| plan.name == name);
            index.ok_or_else(|| {
                Error::Configuration(format!("a connection names `{name}`, which is not a component"))
            })
        };
        let connections = waveform.connections.iter().map(|plan| {
            let (from, to) = (member(&plan.from.component)?, member(&plan.to.component)?);
            Ok(ConnectionState::new(plan, from, to))
        });
        let now = Instant::now();
        Ok(Self {
            connections: connections.collect::<Result<_>>()?,
            waveform,
            options,
            observer,
            groups,
            members,
            signals: Signals::catch()?,
            phase: Phase::Starting,
            connect_by: now + CONNECT_TIME,
            started: None,
            ended: None,
            next_poll: now,
            ending: None,
            failure: None,
            stopped: None,
            inbox: RequestInbox::new()?,
            requests: Requests::default(),
            moves: Vec::new(),
        })
    }

    pub(super) fn run(mut self, announcement: Option<Announcement>) -> Result<RunReport> {
        let announced = announcement.map(Announcement::hand_over);
        let service = match announced {
            Some((Some(service), inbox)) => {
                self.inbox = inbox;
                Some(service)
            }
            // A waveform also works without a control service.
            _ => ControlService::start(&self.waveform.name, self.inbox.clone())
                .map_err(|e| {
                    self.observer.warning("stripline", &format!("it serves no requests while it runs: {e}"));
                })
                .ok(),
        };
        for group in 0..self.groups.len() {
            self.spawn(group);
        }
        while !self.is_over() {
            self.sleep()?;
            self.handle_signals();
            for group in 0..self.groups.len() {
                self.read_reports(group);
            }
            self.handle_time();
            self.handle_requests();
        }
        self.ended.get_or_insert_with(Instant::now);
        self.stop_processes();
        self.release_processes();
        self.check_ages();
        let report = self.final_report();
        // The service ends only after all clients have received the final report.
        drop(service);
        Ok(report)
    }

    fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.state.is_over())
            || self.groups.iter().all(|group| group.process.is_none() && group.restart_at.is_none())
    }

    fn spawn(&mut self, group: usize) {
        let names = self.names(group);
        let entry = &mut self.groups[group];
        let now = Instant::now();
        entry.restart_at = None;
        entry.register_by = Some(now + entry.register_time());
        entry.history.start(now);
        let is_again = entry.history.total > 0;
        match ComponentProcess::spawn(&entry.program, &names, &self.options.output) {
            Ok(process) => {
                let step = Step::Spawned { pid: process.pid() };
                entry.process = Some(process);
                self.observe_group(group, &step);
            }
            // The file of the program may be in the middle of a replacement.
            Err(error) if is_again && self.may_restart(group, true) => {
                self.prepare_restart(group, &names, &error.to_string(), true);
            }
            Err(error) => {
                self.mark_failed(group);
                self.fail(format!("component {names}: {error}"));
            }
        }
    }

    /// Sleeps until a process reports or dies, a request arrives, or a time limit is reached.
    fn sleep(&self) -> Result<()> {
        let end = self.started.zip(self.options.duration).and_then(|(start, time)| start.checked_add(time));
        let times = self.groups.iter().filter_map(|group| group.restart_at);
        let times = times.chain(end).chain(self.request_deadline());
        let deadline = times.fold(self.next_poll, Instant::min);
        let mut poll_set = PollSet::default();
        self.signals.sleep_on(&mut poll_set);
        poll_set.readable(self.inbox.as_fd());
        self.groups.iter().filter_map(|g| g.process.as_ref()).for_each(|p| p.sleep_on(&mut poll_set));
        poll_set.wait(Some(deadline.max(Instant::now()))).map(drop)
    }

    fn handle_signals(&mut self) {
        for signal in self.signals.pending() {
            let name = match signal {
                signal_hook::consts::SIGINT => "Ctrl-C",
                signal_hook::consts::SIGHUP => "SIGHUP",
                _ => "SIGTERM",
            };
            // One stop may be several signals: systemd sends SIGTERM and SIGHUP, and the kernel and
            // a shell each send SIGHUP for a closed terminal. Only a user sends SIGINT later.
            if !self.stop_in_order(name) && signal == signal_hook::consts::SIGINT {
                self.fail("ended at once on a second Ctrl-C; packets on their way are lost".into());
                self.stop_all(Duration::ZERO);
            }
        }
    }

    fn handle_time(&mut self) {
        let now = Instant::now();
        for group in 0..self.groups.len() {
            if self.groups[group].restart_at.is_some_and(|at| now >= at) {
                self.spawn(group);
            }
            let entry = &self.groups[group];
            let is_awaited = entry.process.is_some() && !matches!(self.phase, Phase::Stopping(_));
            if is_awaited && entry.register_by.is_some_and(|at| now >= at) {
                let names = self.names(group);
                let (program, time) = (entry.program.line(), entry.register_time().as_secs());
                let cause = match entry.has_registered {
                    true => "is the machine overloaded?",
                    false => "does its main call stripline::component::main?",
                };
                self.fail(format!("component {names}: {program} did not register within {time} s; {cause}"));
            }
        }
        match self.phase {
            Phase::Starting if now >= self.connect_by => {
                let absent = self.members.iter().filter(|member| member.state == ComponentState::Absent);
                let slow: Vec<&str> = absent.map(|member| member.plan.name.as_str()).collect();
                self.fail(format!("not ready after {} s: {}", CONNECT_TIME.as_secs(), slow.join(", ")));
            }
            Phase::Running => {
                if let (Some(started), Some(duration)) = (self.started, self.options.duration)
                    && now.duration_since(started) >= duration
                {
                    self.stop_in_order(&format!("the duration of {} s is over", duration.as_secs_f64()));
                }
            }
            Phase::Draining(mut drain) => {
                let taken = self.taken();
                if taken > drain.taken.1 && self.failure.is_none() {
                    drain.taken = (now, taken);
                    self.phase = Phase::Draining(drain);
                }
                if now >= drain.until || now >= drain.taken.0 + STOP_TIME {
                    self.stop_all(if self.failure.is_some() { FAILURE_TIME } else { STOP_TIME });
                }
            }
            Phase::Stopping(deadline) if now >= deadline => self.kill_all(),
            Phase::Starting | Phase::Stopping(_) => {}
        }
        if now >= self.next_poll {
            self.report_unended(now);
            self.next_poll = now + POLL_TIME;
            if self.started.is_some() {
                self.connect_ready();
                self.start_ready();
                // The reports of the poll before are complete, as far as processes answer in time.
                self.check_ages();
                self.order_all(&LauncherCommand::Poll);
                let progress = self.progress();
                self.observer.progress(&progress);
            }
        }
    }

    fn order(&mut self, group: usize, order: &LauncherCommand) {
        if let Some(process) = &mut self.groups[group].process {
            process.order(order);
        }
    }

    fn order_all(&mut self, order: &LauncherCommand) {
        self.groups.iter_mut().filter_map(|g| g.process.as_mut()).for_each(|p| p.order(order));
    }

    fn names(&self, group: usize) -> String {
        let names = self.groups[group].members.iter().map(|index| self.members[*index].plan.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    fn member_of(&self, component: &str) -> Option<usize> {
        self.members.iter().position(|member| member.plan.name == component)
    }

    /// Finds a component by name, if it belongs to that group. A process may not report on
    /// components of other processes.
    fn index_in(&self, group: usize, component: &str) -> Option<usize> {
        self.member_of(component).filter(|index| self.members[*index].group == group)
    }

    fn connection_mut(&mut self, connection: &str) -> Option<&mut ConnectionState<'a>> {
        self.connections.iter_mut().find(|link| link.name == connection)
    }

    fn progress(&self) -> Progress {
        Progress {
            elapsed_s: self.elapsed().as_secs_f64(),
            connections: self.connections.iter().map(|link| link.total().counters).collect(),
            ended: (self.members.iter().filter(|m| m.state.is_over()).count(), self.members.len()),
        }
    }

    /// Returns the number of packets that all receivers have taken so far.
    fn taken(&self) -> u64 {
        self.connections.iter().map(ConnectionState::taken).sum()
    }

    fn elapsed(&self) -> Duration {
        self.started
            .map_or(Duration::ZERO, |started| self.ended.unwrap_or_else(Instant::now).duration_since(started))
    }

    /// Returns the pace of a source so far. Only sources have a pace here: a component behind
    /// others follows their pace.
    fn source_pace(&self, index: usize) -> Option<PaceReport> {
        let is_source = !self.connections.iter().any(|link| link.to == index);
        self.members[index].pace.filter(|_| is_source)
    }

    /// Returns the seconds by which a running source is behind its pace now; `None` if it is not
    /// behind.
    fn delay_of(&self, index: usize) -> Option<f64> {
        let is_running = self.members[index].state == ComponentState::Running;
        let behind_s = self.source_pace(index).filter(|_| is_running)?.behind_s;
        PaceResult::is_delay(behind_s, self.elapsed().as_secs_f64()).then_some(behind_s)
    }

    /// Returns how well a source kept its pace.
    fn pace_of(&self, index: usize, duration_s: f64) -> Option<PaceResult> {
        let pace = self.source_pace(index)?;
        let mut result = PaceResult {
            rate: pace.rate,
            achieved_rate: pace.achieved_rate,
            behind_s: pace.behind_s,
            behind_max_s: pace.behind_max_s,
            held_up_by: None,
            starved_by: None,
        };
        if result.is_behind(duration_s) {
            result.starved_by = self.starved_by(index);
            result.held_up_by = held_up_by(index, &self.connections);
        }
        Some(result)
    }

    /// Returns the component at the other end of a connection that spins and leaves this component
    /// no time.
    fn starved_by(&self, index: usize) -> Option<String> {
        let schedule = |index: usize| {
            let plan = self.members[index].plan;
            Schedule { priority: plan.priority, cpus: &plan.cpus }
        };
        let links = self.connections.iter().filter(|link| link.plan.options.wait == WaitStrategy::Spin);
        let mut others = links.filter_map(|link| match (link.from == index, link.to == index) {
            (true, false) => Some(link.to),
            (false, true) => Some(link.from),
            _ => None,
        });
        let other = others.find(|other| schedule(*other).starves(schedule(index)))?;
        Some(self.members[other].plan.name.clone())
    }

    fn report(self) -> RunReport {
        let duration_s = self.elapsed().as_secs_f64();
        let component = |(index, member): (usize, &LaunchedComponent)| ComponentResult {
            name: member.plan.name.clone(),
            type_name: member.plan.spec.name.clone(),
            placement: member.plan.placement.as_str().into(),
            restarts: self.groups[member.group].history.total,
            last_restart: self.groups[member.group].last_end.clone(),
            outcome: match member.state {
                ComponentState::Ended => "ended".into(),
                ComponentState::Failed if self.failure.is_some() || member.given_up.is_some() => {
                    "failed".into()
                }
                _ => "stopped".into(),
            },
            problem: member.given_up.clone(),
            pace: self.pace_of(index, duration_s),
            files: member.earlier_files.iter().chain(&member.files).cloned().collect(),
            set: member.set.clone(),
        };
        let connection = |link: &ConnectionState| ConnectionResult::new(link, duration_s);
        let connections: Vec<_> = self.connections.iter().map(connection).collect();
        RunReport {
            waveform: self.waveform.name.clone(),
            duration_s,
            components: self.members.iter().enumerate().map(component).collect(),
            paths: PathTimes::slowest(&connections),
            connections,
            failure: self.failure,
            stopped: self.stopped,
        }
    }
}
