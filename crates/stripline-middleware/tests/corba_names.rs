//! The transport `corba` leaves no names behind when everything is killed at once. A receiver that
//! is stopped for a long time loses nothing.

#![cfg(feature = "corba")]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use stripline::node::{Node, Topics};

/// The variable with the domain, set in a process of these tests.
const ROLE: &str = "STRIPLINE_CORBA_ROLE";
const PACKETS: u64 = 750;
const STOPPED: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);

fn join(domain: &str) -> Node {
    stripline_middleware::register();
    Node::join(domain, Topics::parse("[default]\ntransport = 'corba'").unwrap()).unwrap()
}

/// Returns the names of processes over `corba`.
fn names(of: &[u32]) -> Vec<String> {
    let entries = std::fs::read_dir("/tmp").unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_of = |name: &String| {
        let owner = name.strip_prefix("stripline-corba-").and_then(|rest| rest.split('-').nth(1));
        owner.and_then(|owner| owner.parse().ok()).is_some_and(|owner: u32| of.contains(&owner))
    };
    names.filter(is_of).collect()
}

/// A process of these tests.
struct Other {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    _input: ChildStdin,
}

impl Other {
    fn start(role: &str, domain: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_of_these_tests", "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{role}:{domain}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (output, input) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Self { child, lines: BufReader::new(output).lines(), _input: input }
    }

    /// Waits for a line with a word, and returns the rest of the line.
    fn hear(&mut self, word: &str) -> String {
        loop {
            let line = self.lines.next().expect("the process has ended").unwrap();
            if let Some((_, said)) = line.split_once(word) {
                return said.trim().to_string();
            }
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does nothing unless it is started as one of the processes.
#[test]
fn a_process_of_these_tests() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, domain) = role.split_once(':').unwrap();
    let node = join(domain);
    match role {
        "send" => {
            let mut publisher = node.publisher::<u64>("numbers").unwrap();
            assert!(publisher.wait_for_receivers(1, Duration::from_secs(60)).unwrap());
            println!("said sends");
            for number in 0.. {
                if publisher.send(&[number; 10]).is_err() {
                    break;
                }
            }
        }
        _ => {
            let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
            let mut expected = 0;
            while let Some(packet) = subscriber.receive().unwrap() {
                assert!(packet.gap().is_none(), "{:?}", packet.gap());
                assert_eq!(packet[0], expected);
                expected += 1;
                drop(packet);
                if expected == 1 {
                    println!("said receives");
                }
            }
            println!("said {expected}");
        }
    }
    std::io::stdout().flush().unwrap();
}

#[test]
fn a_kill_of_everything_at_once_leaves_no_name() {
    for round in 0..5 {
        let domain = format!("corba-names-{}-{round}", std::process::id());
        let mut sender = Other::start("send", &domain);
        let mut receiver = Other::start("receive", &domain);
        if round % 2 == 0 {
            sender.hear("said sends");
            receiver.hear("said receives");
        }
        let of = [sender.child.id(), receiver.child.id()];
        sender.signal(rustix::process::Signal::KILL);
        receiver.signal(rustix::process::Signal::KILL);
        drop((sender, receiver));
        // The next start removes names left by a kill at the moment of a start.
        drop(join(&format!("{domain}-next")).publisher::<u64>("numbers").unwrap());
        assert_eq!(names(&of), Vec::<String>::new());
    }
}

#[test]
fn a_receiver_that_is_stopped_for_long_loses_nothing() {
    let domain = format!("corba-stopped-{}", std::process::id());
    let node = join(&domain);
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut receiver = Other::start("receive", &domain);
    assert!(publisher.wait_for_receivers(1, Duration::from_secs(60)).unwrap());
    publisher.send(&[0; 128]).unwrap();
    receiver.hear("said receives");
    receiver.signal(rustix::process::Signal::STOP);
    let stopped = Instant::now();
    let sending = std::thread::spawn(move || {
        for number in 1..PACKETS {
            publisher.send(&[number; 128]).unwrap();
            // The pause is the pace of the packets. No check depends on the pause.
            std::thread::sleep(PAUSE);
        }
        publisher.finish().unwrap();
    });
    std::thread::sleep(STOPPED.saturating_sub(stopped.elapsed()));
    receiver.signal(rustix::process::Signal::CONT);
    sending.join().unwrap();
    assert_eq!(receiver.hear("said "), PACKETS.to_string());
}
