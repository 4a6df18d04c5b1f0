//! The names of the transport `iceoryx2`: a kill of everything at once leaves names behind, and the
//! next port removes them.
#![cfg(feature = "iceoryx2")]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use stripline::node::{Node, Topics};

/// The domain of a child process.
const DOMAIN: &str = "STRIPLINE_ICEORYX2_DOMAIN";
/// A time limit that only ends a hang.
const DEADLINE: Duration = Duration::from_secs(120);

fn node(domain: &str) -> Node {
    stripline_middleware::register();
    Node::join(domain, Topics::parse("[default]\ntransport = 'iceoryx2'").unwrap()).unwrap()
}

/// Returns the names of these processes in `/dev/shm`.
fn names_of(pids: &[u32]) -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_theirs = |name: &String| {
        let owner = name.strip_prefix("stripline-iceoryx2-").and_then(|rest| rest.split('-').nth(1));
        owner.and_then(|pid| pid.parse().ok()).is_some_and(|pid| pids.contains(&pid))
    };
    names.filter(is_theirs).collect()
}

/// Starts a process that makes connections one after the other.
fn start(domain: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "connecting", "--nocapture", "--test-threads=1"])
        .env(DOMAIN, domain)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line.ends_with("connects")), "it does not start");
    child
}

/// Stops a process that makes connections, at a moment when it has names.
fn stop_with_names(child: &Child) {
    let deadline = Instant::now() + DEADLINE;
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    let is_stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
    loop {
        kill_process(pid, Signal::STOP).unwrap();
        while !is_stopped() {
            std::thread::yield_now();
        }
        if !names_of(&[child.id()]).is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "it has no names");
        kill_process(pid, Signal::CONT).unwrap();
        std::thread::yield_now();
    }
}

/// Does nothing unless it is started as one of these processes.
#[test]
fn connecting() {
    let Ok(domain) = std::env::var(DOMAIN) else { return };
    let node = node(&domain);
    println!("\nconnects");
    loop {
        let mut publisher = node.publisher::<u8>("numbers").unwrap();
        let _subscriber = node.subscriber::<u8>("numbers").unwrap();
        assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    }
}

#[test]
fn a_kill_of_everything_leaves_nothing_to_the_next_start() {
    for round in 0..3 {
        let domain = format!("iceoryx2-names-{}-{round}", std::process::id());
        let mut children = [start(&domain), start(&format!("{domain}-beside"))];
        let pids = children.each_ref().map(Child::id);
        // The kill of this process leaves some names.
        stop_with_names(&children[0]);
        children.iter_mut().for_each(|child| child.kill().unwrap());
        children.iter_mut().for_each(|child| assert!(!child.wait().unwrap().success()));
        let next = node(&domain);
        let mut publisher = next.publisher::<u8>("numbers").unwrap();
        assert_eq!(names_of(&pids), Vec::<String>::new(), "the next port removes them");
        let mut subscriber = next.subscriber::<u8>("numbers").unwrap();
        assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
        assert_eq!(names_of(&[std::process::id()]), Vec::<String>::new(), "a connection has none");
        publisher.send(&[7]).unwrap();
        assert_eq!(subscriber.receive().unwrap().unwrap()[0], 7);
    }
}
