//! Queries to an executable. `EXECUTABLE --describe` prints a [`ComponentSpec`] as JSON.
//! `EXECUTABLE --check` reads [`Properties`] and prints an [`InvalidProperties`] or `null`.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use stripline::component::{ComponentSpec, InvalidProperties, Properties};
use stripline::internal::{CHECK_OPTION, DESCRIBE_OPTION, PollSet};

use super::spec_check::check_spec;
use super::text::quoted;

/// Time limit of an executable for its description.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Limit of its output.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Limit of the standard error that is kept.
const STDERR_BYTES_MAX: usize = 16 << 10;

/// Runs `executable --describe`, without standard input and for at most 5 seconds, and reads the
/// description that it prints.
///
/// # Errors
/// The reason that the executable gives no description, with the remedy.
///
/// ```
/// let error = stripline_waveform::internal::describe("no/such/program".as_ref()).unwrap_err();
/// assert_eq!(error.to_string(), "there is no executable `program`");
/// ```
pub fn describe(executable: &Path) -> Result<ComponentSpec, DescribeError> {
    describe_within(executable, TIME_MAX)
}

/// Runs `executable --check` with these properties on its standard input, for at most 5 seconds,
/// and reads the problem with the set. Only for an executable with
/// [`validates`](ComponentSpec::validates) in its description.
///
/// # Errors
/// As [`describe`].
pub(super) fn ask_validity(
    executable: &Path,
    properties: &Properties,
) -> Result<Option<InvalidProperties>, DescribeError> {
    let nonsense = |error: serde_json::Error| {
        DescribeError::Nonsense(executable.to_path_buf(), quoted(&error.to_string()))
    };
    let text = serde_json::to_vec(properties).map_err(nonsense)?;
    let answer = run(executable, CHECK_OPTION, Some(&text), TIME_MAX)?;
    serde_json::from_slice(&answer).map_err(nonsense)
}

/// The reason that an executable could not be queried. `Display` is one sentence;
/// [`DescribeError::remedy`] is the remedy.
///
/// ```
/// use stripline_waveform::DescribeError;
///
/// let error = DescribeError::Missing("target/release/gain".into());
/// assert_eq!(error.to_string(), "there is no executable `gain`");
/// assert_eq!(error.remedy(), "build it first: cargo build --release --workspace --bin gain");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescribeError {
    /// There is no such file.
    Missing(PathBuf),
    /// It could not be started: a folder, without permission, of another machine.
    NotStarted(PathBuf, String),
    /// It ended with another exit code than 0; the last line of its standard error.
    Failed(PathBuf, i32, String),
    /// A signal ended it.
    Killed(PathBuf, i32),
    /// It did not end in time.
    TooLong(PathBuf, Duration),
    /// It printed more than 1 MiB.
    TooMuch(PathBuf),
    /// Its output is not a description.
    Nonsense(PathBuf, String),
    /// The description breaks the rules; a sentence for each.
    BadSpec(PathBuf, Vec<String>),
}

impl DescribeError {
    /// Returns the problem when it was run with this option.
    pub(super) fn of_option(&self, option: &str) -> String {
        let (Self::Missing(path)
        | Self::NotStarted(path, _)
        | Self::Failed(path, ..)
        | Self::Killed(path, _)
        | Self::TooLong(path, _)
        | Self::TooMuch(path)
        | Self::Nonsense(path, _)
        | Self::BadSpec(path, _)) = self;
        let name = quoted(&path.file_name().unwrap_or_default().to_string_lossy());
        match self {
            Self::Missing(_) => format!("there is no executable {name}"),
            Self::NotStarted(_, error) => format!("{name} cannot be started: {error}"),
            Self::Failed(_, code, said) => {
                let printed =
                    if said.is_empty() { String::new() } else { format!(" and printed {}", quoted(said)) };
                format!("{name} {option} ended with exit code {code}{printed}")
            }
            Self::Killed(_, signal) => format!("{name} {option} was ended by signal {signal}"),
            Self::TooLong(_, time) => format!("{name} {option} did not end within {} s", time.as_secs_f32()),
            Self::TooMuch(_) => format!("{name} {option} printed more than 1 MiB"),
            Self::Nonsense(_, why) => {
                let what = if option == CHECK_OPTION { "check result" } else { "component description" };
                format!("{name} {option} printed no {what}: {why}")
            }
            Self::BadSpec(_, errors) => format!("{name} describes itself wrongly: {}", errors.join("; ")),
        }
    }

    /// Returns the remedy.
    pub fn remedy(&self) -> String {
        match self {
            Self::Missing(path) => missing_remedy(path),
            Self::NotStarted(path, _) if path.is_dir() => "name the executable file in it".into(),
            Self::NotStarted(..) => "it must be an executable file of this machine; build it again".into(),
            Self::BadSpec(..) => "correct the ComponentSpec in its source".into(),
            _ => "is it linked with stripline, and does its `main` call stripline::component::main first?"
                .into(),
        }
    }
}

impl fmt::Display for DescribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of_option(DESCRIBE_OPTION))
    }
}

impl std::error::Error for DescribeError {}

/// Returns the command that builds an executable below `target`.
fn missing_remedy(path: &Path) -> String {
    let parts: Vec<&str> = path.iter().rev().take(4).filter_map(|part| part.to_str()).collect();
    let (name, kind, profile, target) = match parts[..] {
        [name, "examples", profile, target] => (name, "example", profile, target),
        [name, profile, target, ..] => (name, "bin", profile, target),
        _ => ("", "", "", ""),
    };
    let profile = match (target, profile) {
        ("target", "debug") => "",
        ("target", "release") => " --release",
        _ => return "build it first, or correct the path: it is relative to the waveform file".into(),
    };
    // The whole workspace: the program may be any package's.
    format!("build it first: cargo build{profile} --workspace --{kind} {name}")
}

fn describe_within(path: &Path, time_max: Duration) -> Result<ComponentSpec, DescribeError> {
    let answer = run(path, DESCRIBE_OPTION, None, time_max)?;
    let spec: ComponentSpec = serde_json::from_slice(&answer)
        .map_err(|error| DescribeError::Nonsense(path.to_path_buf(), quoted(&error.to_string())))?;
    let errors = check_spec(&spec);
    if errors.is_empty() { Ok(spec) } else { Err(DescribeError::BadSpec(path.to_path_buf(), errors)) }
}

/// Runs an executable with an option; returns its output.
fn run(
    path: &Path,
    option: &str,
    input: Option<&[u8]>,
    time_max: Duration,
) -> Result<Vec<u8>, DescribeError> {
    let owned = || path.to_path_buf();
    if !path.exists() {
        return Err(DescribeError::Missing(owned()));
    }
    let not_started = |error: io::Error| DescribeError::NotStarted(owned(), error.to_string());
    if path.is_dir() {
        return Err(DescribeError::NotStarted(owned(), "it is a folder".into()));
    }
    let stdin = match input {
        Some(text) => holding(text).map_err(not_started)?.into(),
        None => Stdio::null(),
    };
    let child = Command::new(path)
        .arg(option)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A process group of its own, so that all its children end with it.
        .process_group(0)
        .spawn()
        .map_err(not_started)?;
    let mut asked = DescribeProcess { child, stdout: Vec::new(), stderr: Vec::new() };
    let status = match asked.wait(Instant::now() + time_max) {
        Ok(Some(status)) => status,
        Ok(None) if asked.stdout.len() > OUTPUT_BYTES_MAX => return Err(DescribeError::TooMuch(owned())),
        Ok(None) => return Err(DescribeError::TooLong(owned(), time_max)),
        Err(error) => return Err(not_started(error)),
    };
    if let Some(signal) = status.signal() {
        return Err(DescribeError::Killed(owned(), signal));
    }
    if !status.success() {
        let said = String::from_utf8_lossy(&asked.stderr);
        let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(DescribeError::Failed(owned(), status.code().unwrap_or(-1), said.to_owned()));
    }
    Ok(std::mem::take(&mut asked.stdout))
}

/// Creates a file in memory with this text; a pipe would have to be filled while the output is
/// read.
fn holding(text: &[u8]) -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("properties", flags)?);
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}

/// A running `--describe` or `--check`; ended, with all that it started, when dropped.
struct DescribeProcess {
    child: Child,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl DescribeProcess {
    /// Reads until the child ends; `None` when it took too long or printed too much.
    fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        // The interval between checks for the child's end while it prints nothing.
        const INTERVAL: Duration = Duration::from_millis(10);
        let (mut stdout, mut stderr) = (self.child.stdout.take(), self.child.stderr.take());
        loop {
            let ended = self.has_ended()?;
            // After its end its output is still in the pipes, but later output is not awaited.
            let interval = if ended { Duration::ZERO } else { INTERVAL };
            let [out_ready, err_ready] = readable(stdout.as_ref(), stderr.as_ref(), interval)?;
            if out_ready {
                read_some(&mut stdout, &mut self.stdout, OUTPUT_BYTES_MAX + 1)?;
            }
            if err_ready {
                read_some(&mut stderr, &mut self.stderr, STDERR_BYTES_MAX)?;
            }
            if self.stdout.len() > OUTPUT_BYTES_MAX {
                return Ok(None);
            }
            let late = Instant::now() >= deadline;
            if ended && (late || !(out_ready || err_ready)) {
                self.kill_group();
                return self.child.wait().map(Some);
            }
            if late {
                return Ok(None);
            }
        }
    }

    /// Returns whether the child has ended; it is not reaped, so that its process id is not reused.
    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
            Ok(status) => Ok(status.is_some()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the child, if it still runs, and all processes that it started. Only before the child
    /// is reaped.
    fn kill_group(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }
}

impl Drop for DescribeProcess {
    fn drop(&mut self) {
        // An error means that it has been reaped already, and its group ended before.
        if self.has_ended().is_ok() {
            self.kill_group();
        }
        let _ = self.child.wait();
    }
}

/// Waits at most `time`; returns which of the two pipes has data, or its end.
fn readable(
    stdout: Option<&ChildStdout>,
    stderr: Option<&ChildStderr>,
    time: Duration,
) -> io::Result<[bool; 2]> {
    let fds = [stdout.map(AsFd::as_fd), stderr.map(AsFd::as_fd)];
    let mut polled = PollSet::default();
    fds.iter().flatten().for_each(|fd| polled.readable(*fd));
    polled.wait(Some(Instant::now() + time)).map_err(io::Error::other)?;
    let mut index = 0..;
    Ok(fds.map(|fd| fd.is_some() && index.next().is_some_and(|index| polled.is_ready(index))))
}

/// Reads once; keeps up to `max` bytes of all, and closes the pipe at its end.
fn read_some(pipe: &mut Option<impl Read>, into: &mut Vec<u8>, max: usize) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    let Some(reader) = pipe else { return Ok(()) };
    match reader.read(&mut buffer) {
        Ok(0) => *pipe = None,
        Ok(n) => into.extend_from_slice(&buffer[..n.min(max - into.len())]),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waveforms/programs").join(name)
    }

    #[test]
    fn a_hanging_executable_is_ended_with_all_that_it_started() {
        let error = describe_within(&program("hangs.sh"), Duration::from_millis(300)).unwrap_err();
        assert!(matches!(error, DescribeError::TooLong(..)), "{error}");
    }

    #[test]
    fn a_child_that_outlives_the_executable_is_not_waited_for() {
        let spec = describe_within(&program("leaves-a-child.sh"), Duration::from_secs(600)).unwrap();
        assert_eq!(spec.name, "left");
    }

    #[test]
    fn the_remedy_for_a_missing_executable_builds_it() {
        let remedy = |path: &str| missing_remedy(Path::new(path));
        assert_eq!(
            remedy("/w/target/release/examples/gain"),
            "build it first: cargo build --release --workspace --example gain"
        );
        assert_eq!(remedy("/w/target/debug/gain"), "build it first: cargo build --workspace --bin gain");
        assert!(remedy("/opt/gain").contains("correct the path"));
    }
}
