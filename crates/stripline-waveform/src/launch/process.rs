//! A component process, from the launcher's side.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};

use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use stripline::internal::PollSet;
use stripline::internal::control::{
    self, CONTROL_VARIABLE, ControlChannel, LAUNCHER_VARIABLE, LauncherCommand, Report,
};
use stripline::internal::{LOG_VARIABLE, process};
use stripline::{Error, Result, SystemLimit};

use super::line_reader::{LineReader, plain};
use crate::program_command::ProgramCommand;

/// Lines of standard error kept for the report of a failure.
const STDERR_TAIL: usize = 12;

/// The maximum number of bytes that wait for a process to read them. Beyond that, the process gets
/// no further requests.
const UNSENT_MAX: usize = 1 << 20;

/// The log and the output of components.
///
/// ```
/// use stripline_waveform::ComponentOutput;
///
/// let output = ComponentOutput { log: Some("info".into()), captured: true };
/// assert_ne!(output, ComponentOutput::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentOutput {
    /// The value of `STRIPLINE_LOG` in component processes; `None` keeps the launcher's value.
    pub log: Option<String>,
    /// Whether [`Observer::output`](super::Observer::output) receives the lines of standard output. Otherwise the components
    /// write directly to the launcher's standard output.
    pub captured: bool,
}

/// A running process with the control socket and the standard error.
pub(super) struct ComponentProcess {
    child: Child,
    /// Becomes readable when the process has ended.
    pidfd: Option<OwnedFd>,
    /// `None` once the other end has closed the socket.
    channel: Option<ControlChannel<LauncherCommand, Report>>,
    stderr: Option<LineReader>,
    /// Also `None` if the component writes directly to the launcher's standard output.
    stdout: Option<LineReader>,
    /// Bytes that the socket has not accepted yet: a stopped process must not block the launcher.
    unsent: Vec<u8>,
    /// The last lines of standard error.
    pub stderr_tail: VecDeque<String>,
    pub exit: Option<ExitStatus>,
}

impl ComponentProcess {
    pub(super) fn spawn(program: &ProgramCommand, names: &str, output: &ComponentOutput) -> Result<Self> {
        let spawn = || -> io::Result<Self> {
            let (ours, theirs) = UnixStream::pair()?;
            // Only this thread starts processes, so no other child can inherit the descriptor here.
            rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
            let mut command = program.command();
            if let Some(log) = &output.log {
                command.env(LOG_VARIABLE, log);
            }
            if output.captured {
                command.stdout(Stdio::piped());
            }
            let mut child = command
                // The arguments are for users that list the processes. The program does not read
                // them.
                .args(["component", names])
                .env(CONTROL_VARIABLE, theirs.as_raw_fd().to_string())
                .env(LAUNCHER_VARIABLE, std::process::id().to_string())
                .stderr(Stdio::piped())
                // With a separate process group, Ctrl-C reaches only the launcher, which stops the
                // components in order.
                .process_group(0)
                .spawn()?;
            let stderr = child.stderr.take().map(OwnedFd::from);
            let stdout = child.stdout.take().map(OwnedFd::from);
            // If a step below fails, this value is dropped and the child is killed.
            let mut process = Self {
                child,
                pidfd: None,
                channel: Some(ControlChannel::new(ours)),
                stderr: stderr.map(LineReader::new).transpose()?,
                stdout: stdout.map(LineReader::new).transpose()?,
                unsent: Vec::new(),
                stderr_tail: VecDeque::new(),
                exit: None,
            };
            process.pidfd = Some(pidfd_open(Pid::from_child(&process.child), PidfdFlags::empty())?);
            Ok(process)
        };
        spawn().map_err(|e| Error::not_started(format!("cannot start {}", program.line()), e))
    }

    pub(super) fn sleep_on<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        if let Some(pidfd) = self.pidfd.as_ref().filter(|_| self.exit.is_none()) {
            poll_set.readable(pidfd.as_fd());
        }
        if let Some(channel) = &self.channel {
            poll_set.readable(channel.as_fd());
            if !self.unsent.is_empty() {
                poll_set.writable(channel.as_fd());
            }
        }
        for output in [&self.stderr, &self.stdout].into_iter().flatten().filter(|output| output.is_open()) {
            poll_set.readable(output.as_fd());
        }
    }

    /// Sends a command without blocking. The exit of a process that no longer reads is detected
    /// elsewhere.
    pub(super) fn order(&mut self, order: &LauncherCommand) {
        // A process that has not read earlier commands needs no further requests for counters.
        if matches!(order, LauncherCommand::Poll) && !self.unsent.is_empty() {
            return;
        }
        if self.channel.is_some()
            && let Ok(bytes) = control::framed(order)
        {
            self.unsent.extend_from_slice(&bytes);
            self.flush();
        }
    }

    /// Sends queued bytes, as far as the socket accepts them.
    pub(super) fn flush(&mut self) {
        while let Some(channel) = self.channel.as_ref().filter(|_| !self.unsent.is_empty()) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(channel, &self.unsent, flags) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // The process has ended; the exit is detected elsewhere.
                Err(_) => self.unsent.clear(),
            }
        }
    }

    /// Returns whether the process may get more requests, because few bytes wait for it.
    pub(super) fn reads_commands(&self) -> bool {
        self.channel.is_some() && self.unsent.len() < UNSENT_MAX
    }

    /// Returns the process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the probable reason why the process sends no reports.
    pub(super) fn silence(&self) -> String {
        let pid = self.pid();
        match self.is_stopped() {
            true => format!("its process {pid} is stopped; `kill -CONT {pid}` resumes it"),
            false => format!("its process {pid} does not answer"),
        }
    }

    /// Returns whether the process is stopped, for example by a debugger or SIGSTOP.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(process::state_and_parent(self.pid()).0, Some('T' | 't'))
    }

    /// Returns the reports received since the last call, without blocking.
    ///
    /// # Errors
    /// The text describes the invalid message that the process sent.
    pub(super) fn reports(&mut self) -> Result<VecDeque<Report>, String> {
        self.flush();
        let mut reports = VecDeque::new();
        while let Some(channel) = &mut self.channel {
            let mut poll_set = PollSet::default();
            poll_set.readable(channel.as_fd());
            if !poll_set.wait(Some(std::time::Instant::now())).unwrap_or(false) {
                break;
            }
            drop(poll_set);
            match channel.receive(&mut reports) {
                Ok(true) => {}
                Ok(false) => self.channel = None,
                Err(error) => {
                    self.channel = None;
                    return Err(format!("sent an invalid message: {error}"));
                }
            }
        }
        Ok(reports)
    }

    /// Returns the complete lines of standard error since the last call.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let lines = self.stderr.as_mut().map(LineReader::lines).unwrap_or_default();
        self.stderr_tail.extend(lines.iter().map(|line| plain(line)));
        self.stderr_tail.drain(..self.stderr_tail.len().saturating_sub(STDERR_TAIL));
        lines
    }

    /// Returns the complete lines of standard output since the last call, if it is captured.
    pub(super) fn output(&mut self) -> Vec<String> {
        self.stdout.as_mut().map(LineReader::lines).unwrap_or_default()
    }

    /// Checks whether the process has exited. Returns true only the first time.
    pub(super) fn has_exited(&mut self) -> bool {
        if self.exit.is_some() {
            return false;
        }
        self.exit = self.child.try_wait().ok().flatten();
        self.exit.is_some()
    }

    pub(super) fn kill(&mut self) {
        if self.exit.is_none() {
            // The whole process group is killed, so that children of the component end too.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.kill();
        }
    }
}

impl Drop for ComponentProcess {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// Describes how a process ended.
pub(super) fn exit_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "exited before its work was done".into(),
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(9)) => "was killed (SIGKILL)".into(),
        (None, Some(11)) => "crashed (SIGSEGV)".into(),
        (None, Some(6)) => "aborted (SIGABRT)".into(),
        (None, Some(7)) => "crashed (SIGBUS)".into(),
        (None, Some(15)) => "was terminated (SIGTERM)".into(),
        (None, Some(signal_hook::consts::SIGXFSZ)) => {
            let limit = SystemLimit::of(&rustix::io::Errno::FBIG.into());
            let limit = limit.map_or_else(String::new, |limit| format!(": {limit}"));
            format!("was ended because a file was too large (SIGXFSZ){limit}")
        }
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}
