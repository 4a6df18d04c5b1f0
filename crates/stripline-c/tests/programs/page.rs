//! Checks that the examples of `docs/c.md` print the output shown there.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::build::{Kind, program, repository};
use crate::domain;

/// A time limit that only ends a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running example. Killed and waited for when dropped.
struct Running {
    child: Child,
    lines: Receiver<String>,
    page: String,
}

impl Running {
    fn start(example: &str, domain: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program(&format!("examples/{example}.c"), Kind::Plain));
        command.args(arguments).env("STRIPLINE_DOMAIN", domain).env_remove("STRIPLINE_TOPICS");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (give, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| give.send(line)));
        let page = std::fs::read_to_string(repository().join("docs/c.md")).unwrap();
        Self { child, lines, page }
    }

    /// Waits for a line with these words. The page must contain them, too.
    #[track_caller]
    fn prints(&self, words: &str) -> String {
        assert!(self.page.contains(words), "docs/c.md does not have `{words}`");
        let deadline = Instant::now() + TIMEOUT;
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => before.push(line),
                Err(error) => panic!("no line with `{words}`: {error}, but {before:?}"),
            }
        }
    }

    fn ctrl_c(&self) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::INT).unwrap();
    }

    fn end(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_examples_print_what_the_page_shows() {
    for transport in [None, Some("uds"), Some("tcp")] {
        let domain = domain(&format!("page-{}", transport.unwrap_or("default")));
        let publisher = Running::start("publisher", &domain, transport.as_slice());
        publisher.prints("publishing `iq`; Ctrl-C ends it");
        let subscriber = Running::start("subscriber", &domain, &[]);
        subscriber.prints("waiting for `iq`; Ctrl-C ends it");
        subscriber.prints("of `tone`: 1000 samples, power 1.000");
        publisher.ctrl_c();
        publisher.prints("published ");
        subscriber.prints("end of the stream");
        let counts = subscriber.prints("took ");
        assert!(counts.ends_with(" packets, lost 0"), "{counts}");
        subscriber.prints_nothing_more();
        publisher.end();
        subscriber.end();
    }
}

#[test]
fn a_slow_subscriber_prints_its_losses_and_ends_on_ctrl_c() {
    let domain = domain("page-slow");
    let publisher = Running::start("publisher", &domain, &[]);
    let subscriber = Running::start("subscriber", &domain, &["50"]);
    let loss = subscriber.prints("lost 4 packets from ").replace("lost 4 packets from ", "");
    assert!(loss.ends_with(" on (reason 1): 4000 samples"), "{loss}");
    assert!(subscriber.page.contains(" on (reason 1): 4000 samples"));
    subscriber.ctrl_c();
    subscriber.prints("took ");
    subscriber.end();
    publisher.ctrl_c();
    publisher.end();
}

impl Running {
    fn prints_nothing_more(&self) {
        assert_eq!(self.lines.recv_timeout(TIMEOUT).ok(), None);
    }
}
