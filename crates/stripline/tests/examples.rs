//! The examples, run as processes. The examples of `docs/guide.md` must work as it describes, and
//! print the lines that it shows. `examples/README.md` must list all examples.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

/// A time limit that only ends a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running example, which is killed and waited for when it is dropped.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(example: &str, domain: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(built(example));
        command.args(arguments);
        Self::run(command, domain)
    }

    fn run(mut command: Command, domain: &str) -> Self {
        let (ours, theirs) = std::io::pipe().unwrap();
        command.env("STRIPLINE_DOMAIN", domain).env_remove("STRIPLINE_TOPICS");
        command.stdin(Stdio::null()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let child = command.spawn().unwrap();
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(ours).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        Self { child, lines }
    }

    /// Returns the next line that contains these words.
    #[track_caller]
    fn says(&self, words: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => said.push(line),
                Err(error) => panic!("no line with `{words}`: {error}, but {said:?}"),
            }
        }
    }

    /// Works like [`Running::says`], and checks that the guide has the words too.
    #[track_caller]
    fn says_as_in_the_guide(&self, words: &str) -> String {
        let guide = include_str!("../../../docs/guide.md");
        assert!(guide.contains(words), "docs/guide.md does not have `{words}`");
        self.says(words)
    }

    /// Returns the remaining lines up to the end of the output.
    fn rest(&self) -> Vec<String> {
        let deadline = Instant::now() + TIMEOUT;
        let mut rest = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("the output does not end: {rest:?}"),
            }
        }
    }

    fn ctrl_c(&self) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::INT).unwrap();
    }

    /// Waits for the end of the example and returns the exit code.
    fn end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns an example's executable. The tests of the package build it. If only this test is run,
/// the executable may be missing or old.
fn built(example: &str) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let one_at_a_time = BUILDING.lock();
    let folder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_path_buf();
    let path = folder.join("examples").join(example);
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let newest = newest(&package.join("src")).max(newest(&package.join("examples")));
    if std::fs::metadata(&path).and_then(|file| file.modified()).map_or(true, |built| built < newest) {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "-p", "stripline", "--example", example]);
        build.args(folder.ends_with("release").then_some("--release"));
        assert!(build.status().unwrap().success(), "the example does not build");
    }
    drop(one_at_a_time);
    path
}

/// Returns the time of the last change to a file below the folder.
fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let times = entries.map(|path| match path.is_dir() {
        true => newest(&path),
        false => path.metadata().unwrap().modified().unwrap(),
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Tests containers with separate process namespaces: neither process has a number at the other
/// end.
#[test]
fn samples_pass_between_containers_in_one_network() {
    const OPTIONS: [&str; 6] = ["--map-current-user", "--pid", "--ipc", "--fork", "--kill-child", "--"];
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(OPTIONS);
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("NOT RUN: this machine permits no process namespaces (unshare {})", OPTIONS.join(" "));
        return;
    }
    for transport in ["shm", "uds", "tcp", "udp"] {
        let domain = domain(&format!("container-{transport}"));
        let publisher = Running::start("publisher", &domain, &[transport]);
        publisher.says("publishing `iq`");
        let mut command = unshare();
        command.arg(built("subscriber"));
        let subscriber = Running::run(command, &domain);
        subscriber.says("00 of `tone`: 1000 samples, power 1.000");
        publisher.ctrl_c();
        publisher.says("published ");
        subscriber.says("end of the stream");
        assert_eq!(subscriber.end(), Some(0), "{transport}");
    }
}

/// Returns a domain that no other test uses.
fn domain(test: &str) -> String {
    format!("examples-{test}-{}", std::process::id())
}

fn samples_pass(transport: &str) {
    let domain = domain(transport);
    let publisher = Running::start("publisher", &domain, &[transport]);
    publisher.says_as_in_the_guide("publishing `iq`; Ctrl-C ends it");
    let subscriber = Running::start("subscriber", &domain, &[]);
    subscriber.says_as_in_the_guide("waiting for `iq`; Ctrl-C ends it");
    subscriber.says_as_in_the_guide("00 of `tone`: 1000 samples, power 1.000");
    publisher.ctrl_c();
    publisher.says("published ");
    subscriber.says_as_in_the_guide("end of the stream");
    let took = subscriber.says_as_in_the_guide("took ");
    assert!(took.ends_with(" packets, lost 0"), "{took}");
    assert_eq!((publisher.end(), subscriber.end()), (Some(0), Some(0)));
}

#[test]
fn samples_pass_over_shm() {
    samples_pass("shm");
}

#[test]
fn samples_pass_over_uds() {
    samples_pass("uds");
}

#[test]
fn samples_pass_over_tcp() {
    samples_pass("tcp");
}

#[test]
fn a_slow_subscriber_reports_its_losses() {
    let domain = domain("slow");
    let publisher = Running::start("publisher", &domain, &[]);
    let subscriber = Running::start("subscriber", &domain, &["50"]);
    let lost = subscriber.says_as_in_the_guide(" packets from ");
    assert!(lost.starts_with("lost ") && lost.contains(" on (Overflow): "), "{lost}");
    subscriber.ctrl_c();
    let took = subscriber.says("took ");
    assert!(!took.ends_with(" lost 0"), "{took}");
    assert_eq!(subscriber.end(), Some(0));
    publisher.ctrl_c();
    assert_eq!(publisher.end(), Some(0));
}

fn calls_are_answered(transport: &str) {
    let domain = domain(&format!("calls-{transport}"));
    let server = Running::start("tuner", &domain, &["serve", transport]);
    server.says_as_in_the_guide("serving `tuner` at ");
    for (words, said, code) in [
        (&["tune", "433.92"][..], "433.9250 MHz", 0),
        (&["tune", "7000"], "error: 7000 MHz is not from 1 to 6000 MHz", 1),
        (&["status"], "433.9250 MHz, tuned 1 times", 0),
    ] {
        let client = Running::start("tuner", &domain, words);
        client.says_as_in_the_guide(said);
        assert_eq!(client.end(), Some(code), "{words:?}");
    }
    server.ctrl_c();
    server.says_as_in_the_guide("answered 3 calls");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn calls_are_answered_over_shm() {
    calls_are_answered("shm");
}

#[test]
fn calls_are_answered_over_uds() {
    calls_are_answered("uds");
}

#[test]
fn calls_are_answered_over_tcp() {
    calls_are_answered("tcp");
}

#[test]
fn windows_have_the_length_of_the_receiver() {
    let example = Running::start("windows", &domain("windows"), &[]);
    let lines = example.rest();
    let windows = (0..18).map(|window| {
        let first = 512 * window;
        format!("window from {first}: mean {}", f64::from(first) + 511.5)
    });
    let expected: Vec<_> = windows.chain(["784 samples are left from 9216".into()]).collect();
    assert_eq!(lines, expected);
    assert_eq!(example.end(), Some(0));
}

#[test]
fn a_program_embeds_publishers_and_subscribers() {
    let (own, domain) = (domain("embedded"), domain("elsewhere"));
    // The environment names another domain, which the example does not use.
    let example = Running::start("embedded", &domain, &[&own]);
    let joined = format!("joined the domain `{own}`");
    let expected = [&joined, "the level is 1", "the level is 2", "the measurement is stopped"];
    assert_eq!(example.rest(), expected);
    assert_eq!(example.end(), Some(0));
}

#[test]
fn the_cost_of_a_scope_is_printed_with_its_error() {
    let example = Running::start("scope_cost", &domain("scope-cost"), &["3"]);
    example.says("scope target, 64 B: shm ");
    example.says("the same twice: shm ");
    assert_eq!(example.end(), Some(0));
}

#[test]
fn all_examples_are_listed() {
    let list = include_str!("../../../examples/README.md");
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(list.contains(&format!("(../crates/stripline/examples/{name})")), "{name}");
    }
}
