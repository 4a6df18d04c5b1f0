//! The log: the destination of the library's warnings with the program's logger, with the logger of
//! a component process, and without a logger. A process has only one logger, so each case runs in a
//! separate process.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record};
use stripline::Result;
use stripline::component::{self, Component, ComponentSpec, Ports, Properties};
use stripline::node::{Node, Publisher, Subscriber, Topics};

const ROLE: &str = "STRIPLINE_LOG_ROLE";
/// A time longer than any step takes on a busy machine. The deadline only ends a hang.
const DEADLINE: Duration = Duration::from_secs(60);

/// A component for `component::main`, which prints the usage.
struct Idle;

impl Component for Idle {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("idle", "Does nothing.")
    }

    fn new(_: &Properties) -> Result<Self> {
        Ok(Self)
    }

    fn run(self, _: Ports) -> Result<()> {
        Ok(())
    }
}

/// A logger that passes on the level, target and message of each record.
struct Capture(Mutex<Sender<(Level, String, String)>>);

impl Log for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let entry = (record.level(), record.target().to_string(), record.args().to_string());
        // Without a receiver, the test has ended.
        let _ = self.0.lock().unwrap().send(entry);
    }

    fn flush(&self) {}
}

fn capture() -> Receiver<(Level, String, String)> {
    static LOGGER: OnceLock<Capture> = OnceLock::new();
    let (sender, records) = channel();
    log::set_logger(LOGGER.get_or_init(|| Capture(Mutex::new(sender)))).unwrap();
    log::set_max_level(LevelFilter::Trace);
    records
}

/// Connects two ports of different types on one topic, so that the node reports a refused sender.
fn mismatch() -> (Node, Publisher<u64>, Subscriber<i16>) {
    let domain = format!("log-{}", std::process::id());
    let topics = Topics::parse("[topic.numbers]\ntransport = 'uds'").unwrap();
    let node = Node::join(&domain, topics).unwrap();
    let publisher = node.publisher("numbers").unwrap();
    let subscriber = node.subscriber("numbers").unwrap();
    (node, publisher, subscriber)
}

/// Does nothing unless it is started as the process of a test.
#[test]
fn child_entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match &*role {
        "captured" => {
            let records = capture();
            component::main::<Idle>();
            let _ports = mismatch();
            let record = std::iter::from_fn(|| Some(records.recv_timeout(DEADLINE).unwrap()))
                .find(|(_, _, message)| message.contains("refused"));
            let (level, target, message) = record.unwrap();
            assert_eq!((level, &*target), (Level::Warn, "stripline::node"));
            assert!(message.contains("numbers") && message.contains("u64"), "{message}");
        }
        "printed" => {
            component::main::<Idle>();
            let _ports = mismatch();
            // Blocks until the test has read the line.
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        "none" => {
            let _ports = mismatch();
            assert_eq!(log::max_level(), LevelFilter::Off, "the library has installed a logger");
        }
        _ => panic!("unknown role `{role}`"),
    }
}

fn start(role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_entry", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the standard error of a process that must exit by itself with success.
fn errors_of(role: &str) -> String {
    let output = start(role).wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    errors
}

#[test]
fn a_logger_of_the_program_gets_the_warnings_and_nothing_is_printed() {
    let errors = errors_of("captured");
    assert!(errors.contains("This is the component `idle`"), "{errors}");
    assert!(!errors.contains("refused"), "{errors}");
}

#[test]
fn a_component_process_without_a_logger_prints_the_warnings() {
    let mut child = start("printed");
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let line = lines.find(|line| line.contains("refused")).unwrap();
    assert!(line.starts_with("stripline: topic numbers: "), "{line}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_program_without_a_logger_gets_nothing() {
    assert_eq!(errors_of("none"), "");
}
