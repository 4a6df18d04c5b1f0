//! Finding the running waveforms of this user, and asking them.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::service::NAME_PREFIX;
use super::{
    ComponentChange, ControlError, Operation, PropertyReading, Reply, RunningWaveform, Setting, Stopped,
    TestRun, wire,
};
use crate::error::{Error, Result};
use crate::sys::process::state_and_parent;
use crate::sys::{names, socket};

/// How long a launcher may take for what it knows itself.
const PATIENCE: Duration = Duration::from_secs(3);
/// Launchers asked at a time.
const AT_ONCE: usize = 32;
/// Launchers asked in all: anybody may choose such names.
const LAUNCHERS_MAX: usize = 1024;
/// Between two looks at how far a waveform has stopped.
const PROGRESS_TIME: Duration = Duration::from_millis(250);

/// The running waveforms of this user, and the launchers that did not answer.
///
/// ```
/// let overview = stripline::waveform::control::Running::default();
/// assert!(overview.waveforms.is_empty());
/// ```
#[derive(Debug, Default, Serialize)]
pub struct Running {
    /// By name and process.
    pub waveforms: Vec<RunningWaveform>,
    /// Processes that hold a launcher's name and do not answer as one, and why.
    pub problems: Vec<(u32, String)>,
}

/// Finds the running waveforms of this user. Takes as long as the slowest answers, three seconds at most for one that
/// does not.
///
/// # Errors
/// When the kernel's list of sockets cannot be read.
///
/// ```
/// for waveform in stripline::waveform::control::running()?.waveforms {
///     println!("{} has run for {:.0} s", waveform.name, waveform.elapsed_s);
/// }
/// # Ok::<(), stripline::Error>(())
/// ```
pub fn running() -> Result<Running> {
    let mut found = Running::default();
    for (client, answer) in launchers()? {
        match answer {
            Ok(waveform) => found.waveforms.push(waveform),
            // It ended just now.
            Err(ControlError::Gone { .. }) => {}
            Err(error) => found.problems.push((client.pid, error.to_string())),
        }
    }
    found.waveforms.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
    Ok(found)
}

/// A running waveform that can be asked. Each call is a connection of its own; when the launcher ends meanwhile, the
/// call says so.
///
/// ```no_run
/// use std::time::Duration;
/// use stripline::waveform::control::{Client, Taken};
///
/// let radio = Client::find("radio", None)?;
/// let changes = radio.set(&["fm.deviation=5e3".parse().expect("well formed")], Duration::from_secs(5))?;
/// assert!(changes.iter().all(|change| change.taken == Taken::Applied));
/// for reading in radio.get(Some("fm"), None)? {
///     println!("{} = {:?}", reading.property, reading.value);
/// }
/// # Ok::<(), stripline::waveform::control::ControlError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    name: String,
    pid: u32,
    socket: String,
}

impl Client {
    /// Finds a running waveform of this user by its name; where several have it, by its launcher's process.
    ///
    /// # Errors
    /// [`ControlError::NoSuchWaveform`], [`ControlError::Several`], or when sockets cannot be listed.
    pub fn find(waveform: &str, pid: Option<u32>) -> Result<Self, ControlError> {
        let (mut found, mut running, mut silent) = (Vec::new(), Vec::new(), Vec::new());
        for (client, answer) in launchers()? {
            match answer {
                Ok(shown) if shown.name == waveform && pid.is_none_or(|pid| client.pid == pid) => {
                    found.push(client);
                }
                Ok(shown) => running.push((shown.name, client.pid)),
                Err(ControlError::Gone { .. }) => {}
                // Which one it is cannot be asked, but was said.
                Err(error) if pid == Some(client.pid) => return Err(error),
                Err(_) => silent.push(client.pid),
            }
        }
        match (found.pop(), &found[..]) {
            (Some(client), []) => Ok(client),
            (Some(client), others) => {
                let mut pids: Vec<u32> = others.iter().map(|c| c.pid).chain([client.pid]).collect();
                pids.sort_unstable();
                Err(ControlError::Several { name: waveform.into(), pids })
            }
            (None, _) => {
                running.sort();
                silent.sort_unstable();
                Err(ControlError::NoSuchWaveform { name: waveform.into(), pid, running, silent })
            }
        }
    }

    /// The waveform's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The launcher's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What runs, and where it stands.
    ///
    /// # Errors
    /// When the launcher has ended or does not answer within three seconds, as for all calls.
    pub fn show(&self) -> Result<RunningWaveform, ControlError> {
        match self.call(&Operation::Show, Some(PATIENCE))? {
            Reply::Shown(shown) => Ok(shown),
            other => Err(self.unexpected(other)),
        }
    }

    /// What properties are now: of all components, of one, or one of them. A component is not disturbed by this, nor
    /// waited for: what a process that is stopped would have to say is unknown after a second.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] when there is none of that name.
    pub fn get(
        &self,
        component: Option<&str>,
        property: Option<&str>,
    ) -> Result<Vec<PropertyReading>, ControlError> {
        let operation =
            Operation::Get { component: component.map(Into::into), property: property.map(Into::into) };
        match self.call(&operation, Some(PATIENCE))? {
            Reply::Got(readings) => Ok(readings),
            other => Err(self.unexpected(other)),
        }
    }

    /// Sets properties, those of one component all or none. If one of them is unknown, does not fit or cannot be
    /// changed at run time, nothing is set at all. Waits until the components have taken or refused them, at most for
    /// `timeout` (an hour at most); what they have not looked at by then they take when they do. A path is relative to
    /// the current folder.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] with everything that is wrong with them.
    pub fn set(&self, settings: &[Setting], timeout: Duration) -> Result<Vec<ComponentChange>, ControlError> {
        let folder = std::env::current_dir().ok().and_then(|path| path.into_os_string().into_string().ok());
        let timeout_ms = milliseconds(timeout);
        let operation = Operation::Set { folder, settings: settings.to_vec(), timeout_ms };
        match self.call(&operation, Some(timeout.saturating_add(PATIENCE)))? {
            Reply::Set(changes) => Ok(changes),
            other => Err(self.unexpected(other)),
        }
    }

    /// Runs self-tests of a component, those named or all that it has, between its packets. What it has not begun
    /// within `timeout` is not run.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] when the component has no self-tests, or none of that name.
    pub fn test(
        &self,
        component: &str,
        tests: &[String],
        timeout: Duration,
    ) -> Result<Vec<TestRun>, ControlError> {
        let timeout_ms = milliseconds(timeout);
        let operation = Operation::Test { component: component.into(), tests: tests.to_vec(), timeout_ms };
        match self.call(&operation, Some(timeout.saturating_add(PATIENCE)))? {
            Reply::Tested(runs) => Ok(runs),
            other => Err(self.unexpected(other)),
        }
    }

    /// Stops the waveform and waits for its end: the sources first, so that everything on its way still arrives; or
    /// everything `now`, with what is on its way lost; or one component, after which the rest goes on as far as it
    /// can. `progress` is told every quarter of a second where it stands.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] when there is no such component; [`ControlError::Cannot`] when it does not stop.
    pub fn stop(
        &self,
        component: Option<&str>,
        now: bool,
        progress: &mut dyn FnMut(&RunningWaveform),
    ) -> Result<Stopped, ControlError> {
        let operation = Operation::Stop { component: component.map(Into::into), now };
        let stream = self.ask(&operation, Instant::now() + PATIENCE)?;
        loop {
            let mut sleep = crate::sys::doorbell::Sleep::default();
            sleep.readable(std::os::fd::AsFd::as_fd(&stream));
            if sleep.until(Some(Instant::now() + PROGRESS_TIME))? {
                break;
            }
            // Over a connection of its own. Who does not answer this would not answer the other.
            match self.show() {
                Ok(shown) => progress(&shown),
                // Its end is on its way.
                Err(ControlError::Gone { .. } | ControlError::Cannot(_)) => {}
                Err(error) => return Err(error),
            }
        }
        match self.answer(&stream, Some(PATIENCE))? {
            Reply::Stopped(stopped) => Ok(stopped),
            other => Err(self.unexpected(other)),
        }
    }

    fn call(&self, operation: &Operation, patience: Option<Duration>) -> Result<Reply, ControlError> {
        let stream = self.ask(operation, Instant::now() + PATIENCE)?;
        self.answer(&stream, patience)
    }

    fn ask(&self, operation: &Operation, deadline: Instant) -> Result<UnixStream, ControlError> {
        let bytes = wire::framed(operation).map_err(Error::from)?;
        if bytes.len() > wire::REQUEST_MAX {
            let why = format!("the request has {} bytes; it may have {}", bytes.len(), wire::REQUEST_MAX);
            return Err(ControlError::Wrong(vec![why]));
        }
        let (stream, pid) = socket::connect_unix_at_once(&self.socket).map_err(|error| match error {
            Error::System { source, .. } if source.kind() == ErrorKind::ConnectionRefused => self.gone(),
            Error::System { source, .. } if source.kind() == ErrorKind::WouldBlock => self.silent(),
            error => error.into(),
        })?;
        if pid != self.pid {
            return Err(self.misbehaved(&format!("has its name held by process {pid}")));
        }
        stream.set_nonblocking(false).map_err(Error::from)?;
        wire::send(&stream, &bytes, deadline).map_err(|error| self.broken(&error))?;
        Ok(stream)
    }

    fn answer(&self, stream: &UnixStream, patience: Option<Duration>) -> Result<Reply, ControlError> {
        let deadline = patience.and_then(|time| Instant::now().checked_add(time));
        let text = wire::receive(stream, wire::REPLY_MAX, deadline).map_err(|error| self.broken(&error))?;
        wire::parse(&text).map_err(|deed| self.misbehaved(&deed))
    }

    fn broken(&self, error: &std::io::Error) -> ControlError {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => self.gone(),
            ErrorKind::TimedOut | ErrorKind::WouldBlock => self.silent(),
            _ => self.misbehaved(&error.to_string()),
        }
    }

    fn gone(&self) -> ControlError {
        ControlError::Gone { name: self.name.clone(), pid: self.pid }
    }

    fn silent(&self) -> ControlError {
        let pid = self.pid;
        let how = match state_and_parent(pid).0 {
            Some('T') => format!("is stopped and does not answer; `kill -CONT {pid}` lets it go on"),
            _ => "does not answer".into(),
        };
        ControlError::Silent { name: self.name.clone(), pid, how }
    }

    fn misbehaved(&self, deed: &str) -> ControlError {
        let who = format!("launcher of `{}` (process {})", self.name, self.pid);
        ControlError::Failed(Error::failed(format!("the {who} {deed}")))
    }

    fn unexpected(&self, reply: Reply) -> ControlError {
        match reply {
            Reply::Wrong(faults) => ControlError::Wrong(faults),
            Reply::Cannot(why) => ControlError::Cannot(why),
            _ => self.misbehaved("answered something else than what it was asked"),
        }
    }
}

/// Asks all launchers of this user who they are.
fn launchers() -> Result<Vec<(Client, Result<RunningWaveform, ControlError>)>> {
    let mut names = names::listening(NAME_PREFIX)?;
    names.truncate(LAUNCHERS_MAX);
    let mut clients = names
        .into_iter()
        .map(|(socket, pid)| Client { name: "?".into(), pid, socket })
        .map(|client| (client, None))
        .collect::<Vec<_>>();
    for batch in clients.chunks_mut(AT_ONCE) {
        std::thread::scope(|scope| {
            for (client, answer) in batch {
                scope.spawn(move || {
                    let shown = client.show();
                    if let Ok(shown) = &shown {
                        client.name.clone_from(&shown.name);
                    }
                    *answer = Some(shown);
                });
            }
        });
    }
    Ok(clients.into_iter().filter_map(|(client, answer)| Some((client, answer?))).collect())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
