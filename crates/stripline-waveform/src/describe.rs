//! Queries to an executable. `EXECUTABLE --describe` prints a [`ComponentSpec`] as JSON.
//! `EXECUTABLE --check` reads [`Properties`] and prints an [`InvalidProperties`] or `null`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use stripline::SystemLimit;
use stripline::component::{ComponentSpec, InvalidProperties, Properties};
use stripline::internal::{CHECK_OPTION, DESCRIBE_OPTION, PollSet};

use super::file::is_name;
use super::program_command::ProgramCommand;
use super::spec_check::check_spec;
use super::text::{quoted, quoted_line};

/// Time limit within which an executable must describe itself.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Limit of the output of the executable.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Lines of a panic message that are quoted.
const PANIC_LINES_MAX: usize = 10;
/// Exit code of a Rust program that panicked.
const PANIC_CODE: i32 = 101;
/// The maximum number of transports of an executable.
const TRANSPORTS_MAX: usize = 64;
/// The maximum number of bytes of the standard error that are kept.
const STDERR_BYTES_MAX: usize = 16 << 10;

/// Runs `executable --describe`, without standard input and for at most 20 seconds, and reads the
/// description that it prints.
///
/// # Errors
/// The reason why the executable gives no description, with the remedy.
///
/// ```
/// let error = stripline_waveform::internal::describe(&"no/such/program".into()).unwrap_err();
/// assert_eq!(error.to_string(), "there is no executable `program`");
/// ```
pub fn describe(executable: &ProgramCommand) -> Result<ExecutableSpecs, DescribeError> {
    describe_within(executable, TIME_MAX)
}

/// The component types of an executable.
///
/// ```
/// use stripline::component::ComponentSpec;
/// use stripline_waveform::ExecutableSpecs;
///
/// let alone = ExecutableSpecs::from(ComponentSpec::new("gain", "Multiplies."));
/// assert!(!alone.shares_process && alone.specs.len() == 1 && alone.transports.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct ExecutableSpecs {
    /// The component types. Each has a different name.
    pub specs: Vec<ComponentSpec>,
    /// Whether the components may share a process as threads: the executable describes itself by a
    /// list.
    pub shares_process: bool,
    /// The transports of the executable; `None` if the description does not list them.
    pub transports: Option<Vec<String>>,
}

/// The part of a description that is about the whole program.
#[derive(Deserialize)]
struct ProgramPart {
    transports: Option<Vec<String>>,
}

impl From<ComponentSpec> for ExecutableSpecs {
    fn from(spec: ComponentSpec) -> Self {
        Self { specs: vec![spec], shares_process: false, transports: None }
    }
}

impl ExecutableSpecs {
    fn parse(text: &[u8]) -> serde_json::Result<Self> {
        // A list and a single description are parsed separately, so that the error messages fit.
        match text.trim_ascii_start().first() {
            Some(b'[') => {
                let specs = serde_json::from_slice(text)?;
                let parts: Vec<ProgramPart> = serde_json::from_slice(text)?;
                let transports = parts.into_iter().next().and_then(|part| part.transports);
                Ok(Self { specs, shares_process: true, transports })
            }
            _ => {
                let spec: ComponentSpec = serde_json::from_slice(text)?;
                let part: ProgramPart = serde_json::from_slice(text)?;
                Ok(Self { transports: part.transports, ..Self::from(spec) })
            }
        }
    }

    /// Returns the faults of all descriptions.
    fn faults(&self) -> Vec<String> {
        let is_many = self.specs.len() > 1;
        let faults_of = |spec: &ComponentSpec| {
            let name = if is_many { format!("{}: ", quoted(&spec.name)) } else { String::new() };
            check_spec(spec).into_iter().map(move |fault| format!("{name}{fault}"))
        };
        let mut faults: Vec<String> = self.specs.iter().flat_map(faults_of).collect();
        let mut names = BTreeSet::new();
        let twice = self.specs.iter().filter(|spec| !names.insert(&spec.name));
        faults.extend(twice.map(|spec| format!("it has two types of the name {}", quoted(&spec.name))));
        if self.specs.is_empty() {
            faults.push("it has no component type".into());
        }
        let transports = self.transports.as_deref().unwrap_or_default();
        if transports.len() > TRANSPORTS_MAX {
            faults.push(format!("it has more than {TRANSPORTS_MAX} transports"));
        }
        let wrong = transports.iter().find(|name| !is_name(name));
        faults.extend(wrong.map(|name| format!("{} is not a valid transport name", quoted(name))));
        faults
    }
}

/// Runs `executable --check TYPE` with these properties on standard input, and reads the problem
/// with the properties as a set. Use it only for an executable that has
/// [`validates`](ComponentSpec::validates) in the description.
///
/// # Errors
/// The same as for [`describe`].
pub(super) fn ask_validity(
    executable: &ProgramCommand,
    type_name: &str,
    properties: &Properties,
) -> Result<Option<InvalidProperties>, DescribeError> {
    let text = serde_json::to_vec(properties).map_err(|error| nonsense(executable, &[], &error))?;
    let answer = run(executable, &[CHECK_OPTION, type_name], Some(&text), TIME_MAX)?;
    serde_json::from_slice(&answer).map_err(|error| nonsense(executable, &answer, &error))
}

/// The reason why an executable could not be queried. `Display` prints one sentence;
/// [`DescribeError::remedy`] returns the remedy.
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
    /// There is no such file, or no such program in the folders of `PATH`.
    Missing(ProgramCommand),
    /// The executable could not be started: it is a folder, has no execute permission, or is for
    /// another machine.
    NotStarted(ProgramCommand, String),
    /// The executable could not be started because this process or the system has run out of a
    /// resource. The number is the error number of the system.
    Exhausted(ProgramCommand, i32),
    /// The executable ended with an exit code other than 0. The text is the last line of the
    /// standard error, or a panic message in up to ten lines.
    Failed(ProgramCommand, i32, String),
    /// A signal ended the executable.
    Killed(ProgramCommand, i32),
    /// The executable did not end in time.
    TooLong(ProgramCommand, Duration),
    /// The executable printed more than 1 MiB.
    TooMuch(ProgramCommand),
    /// The output is not a description.
    Nonsense(ProgramCommand, String),
    /// The script in Python has printed nothing, because it does not call `stripline.main`.
    WithoutMain(ProgramCommand),
    /// The description breaks the rules. There is a sentence for each fault.
    BadSpec(ProgramCommand, Vec<String>),
}

impl DescribeError {
    /// Returns the problem that occurred when the executable was run with this option.
    pub(super) fn of_option(&self, option: &str) -> String {
        let (Self::Missing(path)
        | Self::NotStarted(path, _)
        | Self::Exhausted(path, _)
        | Self::Failed(path, ..)
        | Self::Killed(path, _)
        | Self::TooLong(path, _)
        | Self::TooMuch(path)
        | Self::Nonsense(path, _)
        | Self::WithoutMain(path)
        | Self::BadSpec(path, _)) = self;
        let name = path.quoted();
        match self {
            Self::Missing(command) if command.is_not_in_path() => {
                format!(
                    "there is no program {} in the folders of PATH",
                    quoted(&command.program.display().to_string())
                )
            }
            Self::Missing(_) => format!("there is no executable {name}"),
            Self::NotStarted(_, error) => format!("{name} cannot be started: {error}"),
            Self::Exhausted(_, number) => {
                format!("{name} cannot be started: {}", io::Error::from_raw_os_error(*number))
            }
            Self::Failed(_, code, said) => {
                let said = said.lines().next().unwrap_or_default();
                let printed = if said.is_empty() {
                    String::new()
                } else {
                    format!(" and printed {}", quoted_line(said))
                };
                format!("{name} {option} ended with exit code {code}{printed}")
            }
            Self::Killed(_, signal) => format!("{name} {option} was ended by signal {signal}"),
            Self::TooLong(_, time) => format!("{name} {option} did not end within {} s", time.as_secs_f32()),
            Self::TooMuch(_) => format!("{name} {option} printed more than 1 MiB"),
            Self::Nonsense(_, why) => {
                let what = if option == CHECK_OPTION { "check result" } else { "component description" };
                format!("{name} {option} printed no {what}: {why}")
            }
            Self::WithoutMain(_) => {
                format!("{name} {option}: the script ends without `stripline.main(...)`")
            }
            Self::BadSpec(_, errors) => format!("{name} describes itself wrongly: {}", errors.join("; ")),
        }
    }

    /// Returns the remedy.
    pub fn remedy(&self) -> String {
        match self {
            Self::Missing(command) if command.is_not_in_path() => {
                "install it, or write its path; `./` is the folder of the waveform file".into()
            }
            Self::Missing(command) => {
                split_remedy(command).unwrap_or_else(|| missing_remedy(&command.program))
            }
            Self::NotStarted(command, _) if command.program.is_dir() => {
                "name the executable file in it".into()
            }
            Self::NotStarted(command, _) if !is_executable(&command.program) => {
                let path = command.program.display();
                let chmod = format!("make it executable: chmod +x {path}");
                match script_remedy(command) {
                    Some(list) => format!("{list}, or {chmod}"),
                    None => format!("name the program, or {chmod}"),
                }
            }
            Self::NotStarted(command, _) if missing_interpreter(&command.program).is_some() => {
                let interpreter = missing_interpreter(&command.program).unwrap_or_default();
                format!("its first line names {}, which does not exist", quoted(&interpreter))
            }
            Self::NotStarted(command, _) => script_remedy(command)
                .unwrap_or_else(|| "it must be an executable file of this machine; build it again".into()),
            Self::Exhausted(_, number) => exhausted_remedy(*number),
            Self::BadSpec(..) => "correct the ComponentSpec in its source".into(),
            Self::WithoutMain(_) => {
                "end the script with `stripline.main(Gain)`, where `Gain` is the class of its component"
                    .into()
            }
            Self::Failed(_, PANIC_CODE, said) if said.contains(PANIC_WORDS) => {
                "the component panicked while it was asked: correct its `describe` or its validation".into()
            }
            Self::Nonsense(command, _) if command.is_list() => {
                "it must print nothing on standard output before \
                                                                its description: print on standard error"
                    .into()
            }
            Self::TooLong(command, _) if command.is_list() => {
                "it must describe itself before it does anything slow: do slow work in `run`".into()
            }
            Self::Failed(_, _, said) if said.ends_with(WITHOUT_PACKAGE) => {
                "activate the environment that has the package `stripline`, or install the package".into()
            }
            Self::Failed(command, ..) if command.is_list() => {
                "start it by hand to see all that it prints; a script is found beside the waveform file"
                    .into()
            }
            Self::Nonsense(..) => "its `main` must call stripline::component::main first, and print \
                                   nothing before it; is it linked with stripline?"
                .into(),
            _ => "is it linked with stripline, and does its `main` call stripline::component::main first?"
                .into(),
        }
    }
}

impl DescribeError {
    /// Returns the printed text if it has several lines.
    pub(super) fn printed(&self) -> Option<&str> {
        match self {
            Self::Failed(_, _, said) => Some(said.as_str()).filter(|said| said.contains('\n')),
            _ => None,
        }
    }
}

impl fmt::Display for DescribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of_option(DESCRIBE_OPTION))
    }
}

impl std::error::Error for DescribeError {}

/// The words by which Python reports that it does not find the package.
const WITHOUT_PACKAGE: &str = "No module named 'stripline'";

/// The words by which a Rust program reports a panic.
const PANIC_WORDS: &str = "panicked at";

/// Returns the lines of standard error to quote: the panic message if there is one, otherwise the
/// last line.
fn quotable(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = || text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let is_rest = |line: &&str| line.starts_with("note: run with") || line.starts_with("stack backtrace:");
    let panic = lines().skip_while(|line| !line.contains(PANIC_WORDS));
    let panic: Vec<&str> = panic.take_while(|line| !is_rest(line)).take(PANIC_LINES_MAX).collect();
    if panic.is_empty() { lines().next_back().unwrap_or_default().into() } else { panic.join("\n") }
}

/// Returns the error for output that cannot be parsed, with the beginning of the output.
fn nonsense(command: &ProgramCommand, output: &[u8], error: &serde_json::Error) -> DescribeError {
    if output.is_empty() && command.is_python() {
        return DescribeError::WithoutMain(command.clone());
    }
    let (error, text) = (quoted_line(&error.to_string()), String::from_utf8_lossy(output));
    let why = match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("it printed {} ({error})", quoted(line.trim())),
        None if output.is_empty() => format!("it printed nothing ({error})"),
        None => format!("it printed empty lines ({error})"),
    };
    DescribeError::Nonsense(command.clone(), why)
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.permissions().mode() & 0o111 != 0)
}

/// Returns the interpreter that the first line of a script names, if the interpreter does not
/// exist.
fn missing_interpreter(path: &Path) -> Option<String> {
    let mut start = [0; 128];
    let read = File::open(path).and_then(|mut file| file.read(&mut start)).ok()?;
    let line = start[..read].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let interpreter = line.split_whitespace().next()?;
    (!Path::new(interpreter).exists()).then(|| interpreter.to_string())
}

/// Returns the remedy for a start that failed because a resource ran out, by the number of the
/// error.
fn exhausted_remedy(number: i32) -> String {
    let error = io::Error::from_raw_os_error(number);
    if let Some(limit) = SystemLimit::of(&error).or_else(|| SystemLimit::of_thread(&error)) {
        return limit.to_string();
    }
    match Errno::from_raw_os_error(number) {
        Errno::NFILE => "the system may open no more files: end other programs, or raise fs.file-max",
        Errno::AGAIN => "the system has no more processes: end some, or raise kernel.pid_max",
        _ => "the system is out of memory: end other programs",
    }
    .into()
}

/// Returns the error for a program that did not start.
fn not_started(command: &ProgramCommand, error: &io::Error) -> DescribeError {
    match error.raw_os_error() {
        Some(number)
            if [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM]
                .contains(&Errno::from_raw_os_error(number)) =>
        {
            DescribeError::Exhausted(command.clone(), number)
        }
        _ => DescribeError::NotStarted(command.clone(), error.to_string()),
    }
}

/// Returns the remedy for a command line that is written as the name of one file.
fn split_remedy(command: &ProgramCommand) -> Option<String> {
    let program = command.program.as_path();
    // A folder that exists may have spaces in its name.
    let missing = program.ancestors().take_while(|path| !path.exists()).last()?;
    let line = program.strip_prefix(missing.parent()?).ok()?.to_str()?;
    let words: Vec<String> = line.split_whitespace().map(|word| format!("{word:?}")).collect();
    let is_line = words.len() > 1 && !command.is_list();
    is_line.then(|| format!("write the program and its arguments as a list: exec = [{}]", words.join(", ")))
}

/// Returns the remedy for a script in Python without its interpreter.
fn script_remedy(command: &ProgramCommand) -> Option<String> {
    let script = command.program.file_name()?.to_str()?;
    let is_script = command.is_python() && script.ends_with(".py") && !command.is_list();
    is_script.then(|| format!("name the interpreter: exec = [\"python3\", {script:?}]"))
}

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
    // `--workspace`, because the program may belong to any package.
    format!("build it first: cargo build{profile} --workspace --{kind} {name}")
}

fn describe_within(path: &ProgramCommand, time_max: Duration) -> Result<ExecutableSpecs, DescribeError> {
    let answer = run(path, &[DESCRIBE_OPTION], None, time_max)?;
    let specs = ExecutableSpecs::parse(&answer).map_err(|error| nonsense(path, &answer, &error))?;
    let errors = specs.faults();
    if errors.is_empty() { Ok(specs) } else { Err(DescribeError::BadSpec(path.clone(), errors)) }
}

/// Runs an executable with an option, and returns the output.
fn run(
    command: &ProgramCommand,
    arguments: &[&str],
    input: Option<&[u8]>,
    time_max: Duration,
) -> Result<Vec<u8>, DescribeError> {
    let owned = || command.clone();
    if command.is_not_in_path() || !command.program.exists() {
        return Err(DescribeError::Missing(owned()));
    }
    let not_started = |error: io::Error| not_started(command, &error);
    if command.program.is_dir() {
        return Err(DescribeError::NotStarted(owned(), "it is a folder".into()));
    }
    let stdin = match input {
        Some(text) => holding(text).map_err(not_started)?.into(),
        None => Stdio::null(),
    };
    let child = command
        .command()
        .args(arguments)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A separate process group, so that all children of the process end with it.
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
        let said = quotable(&asked.stderr);
        return Err(DescribeError::Failed(owned(), status.code().unwrap_or(-1), said));
    }
    Ok(std::mem::take(&mut asked.stdout))
}

/// Creates a file in memory that holds the text. A pipe would have to be filled while the output is
/// read.
fn holding(text: &[u8]) -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("properties", flags)?);
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}

/// A running `--describe` or `--check`. Dropping it ends the process and all processes that it has
/// started.
struct DescribeProcess {
    child: Child,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl DescribeProcess {
    /// Reads until the child ends; `None` if it took too long or printed too much.
    fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        // The interval between checks for the end of a child that prints nothing.
        const INTERVAL: Duration = Duration::from_millis(10);
        let (mut stdout, mut stderr) = (self.child.stdout.take(), self.child.stderr.take());
        loop {
            let ended = self.has_ended()?;
            // After the end of the child, the output may still be in the pipes. Later output is not
            // awaited.
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

    /// Returns whether the child has ended. The child is not reaped, so that the process id is not
    /// reused.
    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
            Ok(status) => Ok(status.is_some()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the child if it is still running, and all processes that it has started. Call this only
    /// before the child is reaped.
    fn kill_group(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }
}

impl Drop for DescribeProcess {
    fn drop(&mut self) {
        // An error means that the child has been reaped, after the end of the group.
        if self.has_ended().is_ok() {
            self.kill_group();
        }
        let _ = self.child.wait();
    }
}

/// Waits at most `time`, and returns which of the two pipes has data or has ended.
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

/// Reads once. Keeps up to `max` bytes in total, and closes the pipe at its end.
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
    use std::path::PathBuf;

    use super::*;

    fn program(name: &str) -> ProgramCommand {
        folder().join(name).into()
    }

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waveforms/programs")
    }

    /// Returns a script that an interpreter runs, as `exec = ["sh", "NAME"]`.
    fn script(name: &str) -> ProgramCommand {
        ProgramCommand::find("sh", &[name.into()], &folder())
    }

    #[test]
    fn a_script_behind_an_interpreter_describes_itself() {
        let spec = describe(&script("leaves-a-child.sh")).unwrap();
        assert_eq!(spec.specs[0].name, "left");
    }

    #[test]
    fn faults_of_scripts_are_named_with_what_helps_them() {
        let error = describe(&script("nonsense.sh")).unwrap_err();
        assert!(error.to_string().starts_with("`sh nonsense.sh` --describe printed no"), "{error}");
        assert!(error.remedy().contains("nothing on standard output before its description"));
        let error = describe_within(&script("hangs.sh"), Duration::from_millis(300)).unwrap_err();
        assert!(error.to_string().contains("`sh hangs.sh` --describe did not end within 0.3 s"), "{error}");
        assert!(error.remedy().contains("before it does anything slow"));
        let error = describe(&script("no-such-script.sh")).unwrap_err();
        assert!(matches!(&error, DescribeError::Failed(..)), "{error}");
        assert!(error.remedy().contains("beside the waveform file"));
        let missing = ProgramCommand::find("no-such-interpreter", &["gain.py".into()], &folder());
        let error = describe(&missing).unwrap_err();
        assert_eq!(error.to_string(), "there is no program `no-such-interpreter` in the folders of PATH");
        assert!(error.remedy().contains("install it"));
        let error = describe(&ProgramCommand::find("./not-executable.txt", &[], &folder())).unwrap_err();
        assert!(error.remedy().contains("chmod +x"), "{error}");
    }

    #[test]
    fn a_script_in_python_that_prints_nothing_lacks_its_main() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["gain.py", "gain.sh"] {
            std::fs::write(folder.path().join(name), "exit 0\n").unwrap();
        }
        let error = describe(&ProgramCommand::find("sh", &["gain.py".into()], folder.path())).unwrap_err();
        let expected = "`sh gain.py` --describe: the script ends without `stripline.main(...)`";
        assert_eq!(error.to_string(), expected);
        assert!(error.remedy().contains("end the script with `stripline.main(Gain)`"), "{}", error.remedy());
        let error = describe(&ProgramCommand::find("sh", &["gain.sh".into()], folder.path())).unwrap_err();
        assert!(matches!(error, DescribeError::Nonsense(..)), "{error}");
    }

    #[test]
    fn a_script_with_a_missing_interpreter_in_its_first_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gain.py");
        std::fs::write(&path, "#!/no/such/python3 -u\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        let remedy = not_started(&path.into(), &io::Error::from_raw_os_error(2)).remedy();
        assert!(remedy.contains("its first line names `/no/such/python3`, which does not exist"), "{remedy}");
    }

    #[test]
    fn a_hanging_executable_is_ended_with_all_that_it_started() {
        let error = describe_within(&program("hangs.sh"), Duration::from_millis(300)).unwrap_err();
        assert!(matches!(error, DescribeError::TooLong(..)), "{error}");
    }

    #[test]
    fn a_child_that_outlives_the_executable_is_not_waited_for() {
        let spec = describe_within(&program("leaves-a-child.sh"), Duration::from_secs(600)).unwrap();
        assert_eq!(spec.specs[0].name, "left");
    }

    #[test]
    fn a_list_of_types_is_read_and_checked() {
        let spec = |name: &str| ComponentSpec::new(name, "Does something.");
        let parse = |specs: &[ComponentSpec]| {
            let text = format!("\n {}", serde_json::to_string(specs).unwrap());
            ExecutableSpecs::parse(text.as_bytes()).unwrap()
        };
        let good = parse(&[spec("a"), spec("b")]);
        assert!(good.shares_process && good.faults().is_empty());
        let twice = parse(&[spec("a"), spec("a")]).faults();
        assert!(twice.iter().any(|fault| fault.contains("two types of the name `a`")), "{twice:?}");
        assert_eq!(parse(&[]).faults(), ["it has no component type"]);
        assert!(parse(&[spec("a"), spec("")]).faults().iter().all(|fault| fault.starts_with('`')));
        for bad in ["[", "[1]", "[{}]", "{", "", "7"] {
            assert!(ExecutableSpecs::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_panic_is_quoted_from_its_place_on() {
        let text = b"starting\n\nthread 'main' (7) panicked at src/main.rs:3:5:\n`Detection` is not a valid name\nin \
                     it\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        let said = quotable(text);
        assert_eq!(
            said,
            "thread 'main' (7) panicked at src/main.rs:3:5:\n`Detection` is not a valid name\nin it"
        );
        let error = DescribeError::Failed("x".into(), PANIC_CODE, said);
        assert!(error.to_string().contains("panicked at src/main.rs:3:5"), "{error}");
        assert!(error.printed().is_some_and(|text| text.contains("`Detection` is not a valid name")));
        assert!(error.remedy().contains("panicked"), "{}", error.remedy());
        let long = format!("panicked at x\n{}", "line\n".repeat(100));
        assert_eq!(quotable(long.as_bytes()).lines().count(), PANIC_LINES_MAX);
        assert_eq!(quotable(b"usage\nunknown option\n\n"), "unknown option");
        assert_eq!(quotable(b""), "");
        assert!(!quotable(b"\xff panicked at \xff").is_empty());
    }

    #[test]
    fn the_remedy_fits_the_error() {
        let remedy = |errno: Errno| {
            not_started(&"/x".into(), &io::Error::from_raw_os_error(errno.raw_os_error())).remedy()
        };
        assert!(remedy(Errno::MFILE).contains("ulimit -n"));
        assert!(remedy(Errno::AGAIN).contains("ulimit -u"));
        assert!(remedy(Errno::NOMEM).contains("memory"));
        let exec = not_started(&program("fails.sh"), &io::Error::from_raw_os_error(8)).remedy();
        assert!(exec.contains("of this machine"), "{exec}");
        assert!(describe(&program("not-executable.txt")).unwrap_err().remedy().contains("chmod +x"));
        let line = describe(&program("python3 scripts/radar.py")).unwrap_err().remedy();
        assert!(line.ends_with(r#"a list: exec = ["python3", "scripts/radar.py"]"#), "{line}");
        let script = not_started(&program("radar.py"), &io::Error::from_raw_os_error(8)).remedy();
        assert!(
            script.starts_with(r#"name the interpreter: exec = ["python3", "radar.py"], or make it"#),
            "{script}"
        );
        let said = |module: &str| {
            let script = ProgramCommand::find("python3", &["gain.py".into()], &folder());
            let said = format!("ModuleNotFoundError: No module named '{module}'");
            DescribeError::Failed(script, 1, said).remedy()
        };
        assert!(said("stripline").contains("activate the environment"), "{}", said("stripline"));
        assert!(said("scipy").contains("start it by hand"), "{}", said("scipy"));
    }

    #[test]
    fn what_was_printed_in_place_of_a_description_is_shown() {
        let error = describe(&program("nonsense.sh")).unwrap_err();
        assert!(error.to_string().contains("it printed `Hello, world!`"), "{error}");
        let error = describe(&program("panics.sh")).unwrap_err();
        assert!(error.printed().is_some_and(|text| text.ends_with("a name has only small letters")));
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
