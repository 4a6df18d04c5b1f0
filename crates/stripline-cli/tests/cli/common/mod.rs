//! Runs the `stripline` command as users run it.

pub mod page;
pub mod pty;
pub mod waveform;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The time limit of every step. A step that hangs fails the test.
pub const TIMEOUT: Duration = Duration::from_secs(240);

/// Returns the command. Signals that a shell ignores in background programs have their default
/// effect.
pub fn stripline() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_stripline")]);
    command.stdin(Stdio::null()).env_remove("RUST_BACKTRACE").env_remove("COLUMNS");
    command
}

/// Returns the path of a file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Returns a port of this host that no other test gets until this process ends.
///
/// The system gives ports from 32768 on to programs that do not choose. A socket in the abstract
/// namespace reserves the number, and the port itself stays closed.
pub fn free_port() -> u16 {
    let is_free = |port: &u16| {
        let name = SocketAddr::from_abstract_name(format!("stripline-test-port-{port}")).unwrap();
        let Ok(reserved) = UnixListener::bind_addr(&name) else { return false };
        std::mem::forget(reserved);
        TcpListener::bind(("127.0.0.1", *port)).is_ok()
    };
    (20_000..32_768).find(is_free).unwrap()
}

/// Returns whether this build has a transport.
pub fn has_transport(name: &str) -> bool {
    stripline_middleware::register();
    stripline::transport::all().any(|transport| transport.name == name)
}

/// Returns the static library for C of this build, and the middleware features in it.
pub fn c_library() -> (PathBuf, String) {
    stripline_middleware::register();
    let middleware = stripline::transport::all().filter(|transport| transport.library.is_some());
    let features: Vec<&str> = middleware.map(|transport| transport.name).collect();
    (std::env::current_exe().unwrap().with_file_name("libstripline_c.a"), features.join(","))
}

/// Writes an executable script from a separate process. A program that a process has open for
/// writing cannot be started, and a fork of this process by another test would keep it open.
pub fn write_script(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("cat > \"$0\" && chmod 755 \"$0\"").arg(path).stdin(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Runs the command to the end. Returns the output and the exit code.
pub fn run(arguments: &[&str]) -> Run {
    Run::of(stripline().args(arguments).output().unwrap())
}

pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into(),
            stderr: String::from_utf8_lossy(&output.stderr).into(),
        }
    }

    /// Asserts that the command succeeded and printed this text.
    #[track_caller]
    pub fn prints(&self, expected: &str) {
        self.says(0, &[]);
        assert_eq!(self.stdout, expected, "stderr:\n{}", self.stderr);
    }

    /// Asserts the exit code, and that the error output has all these words.
    #[track_caller]
    pub fn says(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in:\n{}", self.stderr);
        }
    }
}

/// A run in the background, which is killed when the value is dropped.
pub struct Running {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Running {
    /// Starts the command and waits until all components run in this number of processes. With 0,
    /// the components may have ended by then.
    pub fn start(arguments: &[&str], processes: usize) -> Self {
        let mut child =
            stripline().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = std::sync::mpsc::channel();
        let outputs: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for output in outputs {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let running = Self { child, lines };
        running.wait_for_line("is running");
        assert!(processes == 0 || running.components().len() == processes);
        running
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the name and process number of each component process.
    pub fn components(&self) -> Vec<(String, u32)> {
        children(self.child.id())
            .into_iter()
            .filter_map(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
                let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
                (words.get(1)? == b"component")
                    .then(|| String::from_utf8_lossy(words[2]).into_owned())
                    .map(|name| (name, pid))
            })
            .collect()
    }

    pub fn component(&self, name: &str) -> u32 {
        let found = self.components().into_iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("no component {name}: {:?}", self.components())).1
    }

    pub fn wait_until(&self, what: &str, done: impl Fn() -> bool) {
        wait_until(what, done);
    }

    /// Returns the next line of output that contains the words.
    pub fn wait_for_line(&self, words: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(remaining) {
                Ok(line) if line.contains(words) => return line,
                Ok(_) => {}
                Err(error) => panic!("no line with `{words}`: {error}"),
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    /// Waits for the end. Returns the exit code and the rest of the output.
    pub fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the run does not end");
            std::thread::yield_now();
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut text = String::new();
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            text.push_str(&line);
            text.push('\n');
        }
        (status.code(), text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let ended = self.child.try_wait().ok().flatten();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("the run had ended: {ended:?}; it printed:");
            self.lines.iter().for_each(|line| println!("    {line}"));
        }
    }
}

pub fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Polls a condition that another process fulfils.
pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the live processes that inherited the variable `STRIPLINE_TEST_MARKER` with this
/// folder's name.
pub fn with_marker(folder: &Path) -> Vec<u32> {
    let marker = format!("STRIPLINE_TEST_MARKER={}", folder.display());
    let has = |process: &Path| {
        std::fs::read_link(process.join("exe"))
            .is_ok_and(|exe| exe == Path::new(env!("CARGO_BIN_EXE_stripline")))
            && std::fs::read(process.join("environ"))
                .is_ok_and(|text| text.split(|byte| *byte == 0).any(|word| word == marker.as_bytes()))
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| has(&entry.path()));
    processes.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok()).collect()
}

/// Returns whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next().map(str::to_owned));
    state.is_some_and(|state| state != "Z" && state != "X")
}

fn children(pid: u32) -> Vec<u32> {
    let mut text = String::new();
    if let Ok(mut file) = std::fs::File::open(format!("/proc/{pid}/task/{pid}/children")) {
        let _ = file.read_to_string(&mut text);
    }
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Returns a well-known capture and the output of a well-known decoder for it, if both are present.
pub fn capture() -> Option<(PathBuf, String)> {
    let path = std::env::var_os("STRIPLINE_ADSB_CAPTURE")
        .map_or_else(|| repository("../shared/data/adsb/modes1.bin"), PathBuf::from);
    let reference = std::fs::read_to_string(path.with_extension("avr")).ok()?;
    path.exists().then_some((path, reference))
}

/// Returns the example of a user-defined component.
pub fn gain_example() -> PathBuf {
    example("gain")
}

/// Returns an example component of the library. A test run of the whole workspace builds it. With
/// this package alone, the example may be missing or have another protocol version, and is built
/// here.
pub fn example(name: &str) -> PathBuf {
    static BUILDING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let one_at_a_time = BUILDING.lock().unwrap();
    let command = Path::new(env!("CARGO_BIN_EXE_stripline"));
    let example = command.with_file_name("examples").join(name);
    let built = std::fs::metadata(&example).and_then(|file| file.modified()).ok();
    if built.is_none_or(|built| built < newest(&repository("crates/stripline/src"))) {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "-p", "stripline", "--example", name]);
        if command.parent().is_some_and(|folder| folder.ends_with("release")) {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the example does not build");
    }
    drop(one_at_a_time);
    example
}

/// Returns the time of the newest change below the folder.
fn newest(folder: &Path) -> std::time::SystemTime {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let times = entries.map(|path| {
        if path.is_dir() { newest(&path) } else { std::fs::metadata(path).unwrap().modified().unwrap() }
    });
    // An empty folder has no changes.
    times.max().unwrap_or(std::time::SystemTime::UNIX_EPOCH)
}

/// Returns the description that the example prints.
pub fn run_gain_description() -> String {
    let output = Command::new(gain_example()).arg("--describe").output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}
