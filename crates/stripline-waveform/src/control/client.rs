//! The client side: finds the running waveforms of this user and calls their launchers.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use stripline::call::{CallError, CallOptions, ClientOptions, Payload, ServiceClient};
use stripline::internal::process::state_and_parent;
use stripline::internal::{observe, socket_names};
use stripline::node::Node;
use stripline::terms::WaitStrategy;
use stripline::{Error, Result};

use super::service::{SERVICE, VERSION, tag};
use super::{
    ComponentChange, ControlError, GetRequest, PropertyReading, RequestFault, RunningWaveform, SetRequest,
    Setting, StopRequest, Stopped, TestRequest, TestRun,
};
use crate::at_once::at_once;

/// Time limit for requests that a launcher answers without a component.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);
/// Concurrent calls on one connection: `stripline web` has one call for each client and spectrum.
const OUTSTANDING: u32 = 256;
/// Launchers that are queried at the same time.
const AT_ONCE: usize = 32;
/// Time limit, for all launchers together, until launchers with full queues accept a connection.
const QUEUE_TIME: Duration = Duration::from_millis(300);
/// The interval between two attempts to connect to launchers with full queues.
const QUEUE_INTERVAL: Duration = Duration::from_millis(10);
/// The maximum number of attempts to find a waveform that is listed.
const ATTEMPTS: u32 = 3;
/// The interval between progress reports of a stop.
const PROGRESS_TIME: Duration = Duration::from_millis(250);

/// The running waveforms of this user, and the launchers that did not respond.
///
/// ```
/// let overview = stripline_waveform::control::Running::default();
/// assert!(overview.waveforms.is_empty());
/// ```
#[derive(Debug, Default, Serialize)]
pub struct Running {
    /// The waveforms, by name and process.
    pub waveforms: Vec<RunningWaveform>,
    /// Processes that hold the name of a launcher's socket but do not respond as a launcher, and
    /// the reason.
    pub problems: Vec<(u32, String)>,
}

/// Finds the running waveforms of this user. The call takes as long as the slowest response, at
/// most three seconds.
///
/// # Errors
/// When the kernel's list of sockets cannot be read.
///
/// ```
/// for waveform in stripline_waveform::control::running()?.waveforms {
///     println!("{} has run for {:.0} s", waveform.name, waveform.elapsed_s);
/// }
/// # Ok::<(), stripline::Error>(())
/// ```
pub fn running() -> Result<Running> {
    let mut found = Running::default();
    for (pid, answer) in launchers(socket_names::listening(&prefix(VERSION), true)?, "?") {
        match answer {
            Ok((_, waveform)) => found.waveforms.push(waveform),
            // The launcher has just ended.
            Err(ControlError::Gone { .. }) => {}
            Err(error) => found.problems.push((pid, error.to_string())),
        }
    }
    found.problems.extend(others()?);
    found.waveforms.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
    Ok(found)
}

/// A client of a running waveform. If the launcher ends during a call, the call returns an error.
///
/// ```no_run
/// use std::time::Duration;
/// use stripline_waveform::control::{ChangeState, ControlClient};
///
/// let radio = ControlClient::find("radio", None)?;
/// let changes = radio.set(&["filter.high=6e3".parse().expect("well formed")], Duration::from_secs(5))?;
/// assert!(changes.iter().all(|change| change.taken == ChangeState::Applied));
/// for reading in radio.get(Some("fm"), None)? {
///     println!("{} = {:?}", reading.property, reading.value);
/// }
/// # Ok::<(), stripline_waveform::control::ControlError>(())
/// ```
#[derive(Clone)]
pub struct ControlClient {
    name: String,
    pid: u32,
    link: Arc<ServiceConnection>,
}

/// The connection to one launcher.
struct ServiceConnection {
    calls: ServiceClient,
    /// Keeps the launcher's domain joined.
    _node: Node,
}

impl fmt::Debug for ControlClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlClient")
            .field("name", &self.name)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl ControlClient {
    /// Finds a running waveform of this user by name. The process of the launcher selects between
    /// waveforms of the same name.
    ///
    /// # Errors
    /// [`ControlError::NoSuchWaveform`], [`ControlError::Several`], or when sockets cannot be
    /// listed.
    pub fn find(waveform: &str, pid: Option<u32>) -> Result<Self, ControlError> {
        let mut attempts = 0;
        loop {
            if let Some(found) = Self::find_now(waveform, pid)? {
                return Ok(found);
            }
            attempts += 1;
            let all = running()?;
            let mut running: Vec<(String, u32)> =
                all.waveforms.into_iter().map(|waveform| (waveform.name, waveform.pid)).collect();
            // The waveform has just started, or a busy launcher closed the first connection.
            let is_there =
                running.iter().any(|(name, launcher)| name == waveform && pid.is_none_or(|p| p == *launcher));
            if is_there && attempts < ATTEMPTS {
                continue;
            }
            running.sort();
            let mut silent: Vec<u32> = all.problems.into_iter().map(|(pid, _)| pid).collect();
            silent.dedup();
            return Err(ControlError::NoSuchWaveform { name: waveform.into(), pid, running, silent });
        }
    }

    /// Queries the launchers of that name once.
    fn find_now(waveform: &str, pid: Option<u32>) -> Result<Option<Self>, ControlError> {
        let mut named = socket_names::listening(&format!("{}{}-", prefix(VERSION), tag(waveform)), false)?;
        named.retain(|(_, launcher)| pid.is_none_or(|pid| pid == *launcher));
        let (mut found, mut silent_one) = (Vec::new(), None);
        for (_, answer) in launchers(named, waveform) {
            match answer {
                Ok((client, registered)) if registered.name == waveform => found.push(client),
                Ok(_) | Err(ControlError::Gone { .. }) => {}
                // The name of the domain identifies the waveform, although the launcher did not
                // respond.
                Err(error) => silent_one = Some(error),
            }
        }
        match (found.pop(), silent_one) {
            (Some(only), _) if found.is_empty() => Ok(Some(only)),
            (Some(last), _) => {
                let mut pids: Vec<u32> = found.iter().chain([&last]).map(Self::pid).collect();
                pids.sort_unstable();
                Err(ControlError::Several { name: waveform.into(), pids })
            }
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// Returns the name of the waveform.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process of the launcher.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the components and the phase of the waveform.
    ///
    /// # Errors
    /// When the launcher has ended or does not respond within three seconds. All calls have this
    /// error.
    pub fn show(&self) -> Result<RunningWaveform, ControlError> {
        self.call("show", &(), TIMEOUT)
    }

    /// Returns the current values of properties: of all components, of one component, or of a
    /// single property. The call neither disturbs a component nor waits for one. Values of a
    /// process that is stopped are reported as unknown after a second.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] if no component or property has that name.
    pub fn get(
        &self,
        component: Option<&str>,
        property: Option<&str>,
    ) -> Result<Vec<PropertyReading>, ControlError> {
        let request = GetRequest { component: component.map(Into::into), property: property.map(Into::into) };
        self.call("get", &request, TIMEOUT)
    }

    /// Sets properties. A component accepts either all new values or none of them. If a property is
    /// unknown, invalid or not changeable at run time, nothing is set at any component.
    ///
    /// Blocks until the components have accepted or refused the values, at most for `timeout` (an
    /// hour at most). Components that have not polled for requests by then apply the values later.
    /// A relative path is resolved against the current folder.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] with all problems of the request.
    pub fn set(&self, settings: &[Setting], timeout: Duration) -> Result<Vec<ComponentChange>, ControlError> {
        let folder = std::env::current_dir().ok().and_then(|path| path.into_os_string().into_string().ok());
        let timeout_ms = milliseconds(timeout);
        let request = SetRequest { folder, settings: settings.to_vec(), timeout_ms };
        self.call("set", &request, timeout.saturating_add(TIMEOUT))
    }

    /// Runs the named self-tests of a component, or all of them, between two packets. A test that
    /// has not started within `timeout` is not run.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] if the component has no self-tests, or no self-test of that name.
    pub fn test(
        &self,
        component: &str,
        tests: &[String],
        timeout: Duration,
    ) -> Result<Vec<TestRun>, ControlError> {
        let timeout_ms = milliseconds(timeout);
        let request = TestRequest { component: component.into(), tests: tests.to_vec(), timeout_ms };
        self.call("test", &request, timeout.saturating_add(TIMEOUT))
    }

    /// Stops the waveform and waits until it has ended.
    ///
    /// By default the sources stop first, so that all packets in transit still arrive. With `now`
    /// everything stops at once, and packets in transit are lost. With the name of a component only
    /// that component stops, and the other components go on as far as they can. `progress` receives
    /// the state of the run every quarter of a second.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] if there is no such component; [`ControlError::Cannot`] if the
    /// component does not stop.
    pub fn stop(
        &self,
        component: Option<&str>,
        now: bool,
        progress: &mut dyn FnMut(&RunningWaveform),
    ) -> Result<Stopped, ControlError> {
        let request = StopRequest { component: component.map(Into::into), now };
        let stop = self.link.calls.operation::<StopRequest, Stopped, RequestFault>("stop")?;
        // No deadline here: the launcher kills components that do not stop in time.
        let mut stopping = stop.start(&request).map_err(|error| self.failed(error))?;
        let stopped = loop {
            match stopping.wait_timeout(PROGRESS_TIME) {
                Some(stopped) => break stopped.map_err(|error| self.failed(error))?,
                None => match self.show() {
                    Ok(registered) => progress(&registered),
                    // The waveform is already ending.
                    Err(ControlError::Cannot(_)) => {}
                    Err(error) => return Err(error),
                },
            }
        };
        if component.is_none() {
            // The launcher waits for this acknowledgement, so that it does not exit before the
            // reply has arrived.
            let _ = self.call::<(), ()>("heard", &(), TIMEOUT);
        }
        Ok(stopped)
    }

    /// Calls an operation, with a deadline of an hour at most.
    pub(super) fn call<Req: Payload, Rep: Payload>(
        &self,
        operation: &str,
        request: &Req,
        deadline: Duration,
    ) -> Result<Rep, ControlError> {
        let operation = self.link.calls.operation::<Req, Rep, RequestFault>(operation)?;
        let limited = operation.with(CallOptions::deadline(deadline));
        limited.call(request).map_err(|error| self.failed(error))
    }

    /// Converts the error of a call that got no reply.
    fn failed(&self, error: CallError<RequestFault>) -> ControlError {
        let (name, pid) = (self.name.clone(), self.pid);
        match error {
            CallError::User(RequestFault::Wrong(faults)) => ControlError::Wrong(faults),
            CallError::User(RequestFault::Cannot(why)) => ControlError::Cannot(why),
            CallError::ServerGone { .. } | CallError::Link(Error::Stopped) => {
                ControlError::Gone { name, pid }
            }
            CallError::NoServer { .. } | CallError::Unanswered { .. } => match state_and_parent(pid).0 {
                None | Some('Z' | 'X') => ControlError::Gone { name, pid },
                Some('T' | 't') => {
                    let how = format!("is stopped and does not answer; `kill -CONT {pid}` resumes it");
                    ControlError::Silent { name, pid, how }
                }
                Some(_) => ControlError::Silent { name, pid, how: "does not answer".into() },
            },
            CallError::Link(error) => error.into(),
            error => {
                let message = format!("the launcher of `{name}` (process {pid}): {error}");
                Error::Call { code: error.code(), message }.into()
            }
        }
    }
}

/// The process of a launcher, with the client and the description of the waveform, or the reason
/// why both are missing.
type Launcher = (u32, Result<(ControlClient, RunningWaveform), ControlError>);

/// Finds launchers of other protocol versions, which this client cannot query.
fn others() -> Result<Vec<(u32, String)>> {
    // Covers one earlier version and the next few. Later versions come with another `stripline`
    // command.
    let mut found = Vec::new();
    for version in (0..VERSION + 8).filter(|version| *version != VERSION) {
        for (_, pid) in socket_names::listening(&prefix(version), true)? {
            found.push((
                pid,
                format!(
                    "the launcher in process {pid} uses version {version} of this protocol, not {VERSION}; use the \
                     `stripline` that it was started with"
                ),
            ));
        }
    }
    Ok(found)
}

/// Returns the prefix of the names of all domains of this user.
fn user() -> String {
    format!("stripline-{}-", rustix::process::geteuid().as_raw())
}

/// Returns the prefix of the names of all launchers' domains.
fn prefix(version: u32) -> String {
    format!("{}run-{version}-", user())
}

/// Queries launchers for descriptions of their waveforms. `waveform` is the name in errors of
/// launchers that do not send a name.
///
/// Any user may listen under such a name, but a connection shows the user of the other end at once.
/// All names with full queues share one time limit.
fn launchers(mut names: Vec<(String, u32)>, waveform: &str) -> Vec<Launcher> {
    let (user, until) = (user(), Instant::now() + QUEUE_TIME);
    let mut found = Vec::new();
    loop {
        let mut full = Vec::new();
        for batch in names.chunks(AT_ONCE) {
            let mut connected = Vec::new();
            for (name, pid) in batch {
                match observe(name.strip_prefix(&user).unwrap_or_default()) {
                    Ok(node) => connected.push((node, *pid)),
                    Err(Error::System { source, .. }) if source.kind() == ErrorKind::WouldBlock => {
                        full.push((name.clone(), *pid));
                    }
                    // The launcher has just ended, or another user runs it.
                    Err(Error::System { source, .. }) if source.kind() == ErrorKind::ConnectionRefused => {}
                    Err(Error::PeerMisbehaved { .. }) => {}
                    Err(error) => found.push((*pid, Err(error.into()))),
                }
            }
            found.extend(at_once(connected, |(node, pid)| (pid, launcher(node, pid, waveform))));
        }
        if full.is_empty() || Instant::now() >= until {
            let silent = |pid| ControlError::Silent {
                name: waveform.into(),
                pid,
                how: "accepts no connection: its queue is full".into(),
            };
            found.extend(full.into_iter().map(|(_, pid)| (pid, Err(silent(pid)))));
            return found;
        }
        names = full;
        std::thread::sleep(QUEUE_INTERVAL);
    }
}

fn launcher(node: Node, pid: u32, waveform: &str) -> Result<(ControlClient, RunningWaveform), ControlError> {
    let options = ClientOptions {
        deadline: ClientOptions::DEADLINE_MAX,
        wait: WaitStrategy::Block,
        outstanding: OUTSTANDING,
        ..ClientOptions::default()
    };
    let calls = node.service_client(SERVICE, options)?;
    let link = Arc::new(ServiceConnection { calls, _node: node });
    let mut client = ControlClient { name: waveform.into(), pid, link };
    let registered = client.show()?;
    client.name.clone_from(&registered.name);
    Ok((client, registered))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
