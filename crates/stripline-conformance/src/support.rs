//! Helpers of the rules: nodes with the rules under test, bounded waits, and payloads that identify
//! their place.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use stripline::node::{Node, Publisher, Subscriber, Topics};
use stripline::payload::Content;
use stripline::{Error, Gap, Received, Sample};

use crate::message_queue_turn::MessageQueueTurn;
use crate::refusals::Refusal;

/// A time longer than any step takes on a busy machine, so that only a hang reaches this limit.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// The time limit of a whole rule.
const RULE_TIME: Duration = Duration::from_secs(540);
/// The variable that is set in a process that runs a single rule.
const APART: &str = "STRIPLINE_CONFORMANCE_APART";

/// The process in which a rule runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a thread of this process.
    Here,
    /// Alone in a process.
    Apart,
}

/// Runs a rule, and fails if it hangs.
pub fn run(transport: &'static str, name: &str, place: Place, rule: fn(&'static str)) {
    // The process that started this one already holds the turn.
    let is_alone = std::env::var_os(APART).is_some();
    let _turn = if is_alone { None } else { MessageQueueTurn::take(transport) };
    if place == Place::Apart && !is_alone {
        return run_apart(&format!("{transport}::{name}"));
    }
    let (done, outcome) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = std::panic::catch_unwind(|| rule(transport));
        let _ = done.send(());
        result
    });
    match outcome.recv_timeout(RULE_TIME) {
        Err(RecvTimeoutError::Timeout) => panic!("hangs for more than {RULE_TIME:?}"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {}
    }
    if let Err(cause) = thread.join().unwrap() {
        std::panic::resume_unwind(cause);
    }
}

fn run_apart(test: &str) {
    let output = this_binary()
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(APART, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&both);
    assert!(output.status.success() && text.contains("1 passed"), "{test} in its own process:\n{text}");
}

/// Returns the command that starts this test binary again.
///
/// In an emulator, `STRIPLINE_TEST_RUNNER` names the program that runs it.
pub fn this_binary() -> Command {
    binary(&std::env::current_exe().unwrap())
}

/// Returns the command that starts a binary.
pub fn binary(binary: &Path) -> Command {
    match std::env::var_os("STRIPLINE_TEST_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(binary);
            command
        }
        None => Command::new(binary),
    }
}

/// Returns a domain that no other test uses.
pub fn domain() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the numbers need only differ.
    format!("conformance-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Builds the text of a topics file that sets one transport and other rules for all topics.
///
/// A message queue holds ten messages, fewer than most rules leave unread. For this transport,
/// credits move the packets to the port's queue, unless the rules select a flow control themselves.
pub fn topics_text(transport: &str, rules: &str) -> String {
    let small = transport == "mqueue" && !rules.lines().any(|rule| rule.starts_with("flow"));
    let credits = if small { "flow = \"credit\"\n" } else { "" };
    let bind = bind().map(|bind| format!("[default.{transport}]\nbind = \"{bind}\"\n"));
    let bind = bind.unwrap_or_default();
    format!("[default]\ntransport = \"{transport}\"\n{credits}{rules}\n{bind}")
}

/// Returns the address to which the senders of all rules are bound, if the environment names one.
/// Transports with such an option then use their path between hosts.
pub fn bind() -> Option<String> {
    std::env::var("STRIPLINE_CONFORMANCE_BIND").ok()
}

/// Returns whether frames travel as a stream of bytes rather than in shared memory.
pub fn is_stream(transport: &str) -> bool {
    !matches!(transport, "inproc" | "shm")
}

pub fn join(domain: &str, transport: &str, rules: &str) -> Node {
    Node::join(domain, Topics::parse(&topics_text(transport, rules)).unwrap()).unwrap()
}

/// Creates a node alone in its domain.
pub fn node(transport: &str, rules: &str) -> Node {
    join(&domain(), transport, rules)
}

/// Creates a publisher and its only subscriber.
pub fn pair<T: Sample>(node: &Node, topic: &str) -> (Publisher<T>, Subscriber<T>) {
    let mut publisher = node.publisher(topic).unwrap();
    let subscriber = node.subscriber(topic).unwrap();
    await_receivers(&mut publisher, 1);
    (publisher, subscriber)
}

pub fn await_receivers<T: Content>(publisher: &mut Publisher<T>, count: usize) {
    assert!(publisher.wait_for_receivers(count, DEADLINE).unwrap(), "no {count} receivers in {DEADLINE:?}");
}

pub fn await_senders<T: Content>(subscriber: &mut Subscriber<T>, count: usize) {
    await_that(&format!("{count} senders"), || subscriber.senders() == count);
}

/// Polls until a condition holds.
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        // The pause is the interval between polls of a condition without a wake-up. No result
        // depends on its length.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A packet, copied out.
#[derive(Clone, Debug, PartialEq)]
pub struct Parcel<T> {
    pub sequence: u64,
    pub samples: Vec<T>,
    pub gap: Option<Gap>,
    pub stream: String,
    pub connection: String,
}

/// Takes the next packet. Any other outcome, or a timeout, is a failure.
pub fn take<T: Sample>(subscriber: &mut Subscriber<T>) -> Parcel<T> {
    match subscriber.receive_timeout(DEADLINE).unwrap() {
        Received::Packet(packet) => Parcel {
            sequence: packet.sequence(),
            samples: packet.to_vec(),
            gap: packet.gap().copied(),
            stream: packet.stream().id.clone(),
            connection: packet.connection().into(),
        },
        Received::Empty => panic!("no packet within {DEADLINE:?}"),
        Received::Ended => panic!("end of stream instead of a packet"),
    }
}

/// Takes the next packet, which must have this number and no gap before it.
pub fn take_number<T: Sample>(subscriber: &mut Subscriber<T>, sequence: u64) -> Parcel<T> {
    let parcel = take(subscriber);
    assert_eq!((parcel.sequence, parcel.gap), (sequence, None));
    parcel
}

pub fn expect_end<T: Content>(subscriber: &mut Subscriber<T>) {
    match subscriber.receive_timeout(DEADLINE).unwrap() {
        Received::Ended => {}
        Received::Empty => panic!("no end of stream within {DEADLINE:?}"),
        Received::Packet(packet) => panic!("packet {} instead of the end of stream", packet.sequence()),
    }
}

pub fn expect_nothing<T: Content>(subscriber: &mut Subscriber<T>) {
    assert!(matches!(subscriber.try_receive().unwrap(), Received::Empty), "nothing should be there");
}

/// Sends until a receiver is full. Returns the number of packets taken, and the full connection.
pub fn fill<T: Sample>(publisher: &mut Publisher<T>, samples: &[T]) -> (u64, String) {
    let before = publisher.sequence();
    let mut is_settled = false;
    loop {
        match publisher.try_send(samples) {
            Ok(()) => {
                is_settled = false;
                assert!(publisher.sequence() - before < 1_000_000, "never full");
            }
            Err(Error::Full { connection }) if is_settled => {
                return (publisher.sequence() - before, connection);
            }
            // A thread at the receiver may still take some packets.
            Err(Error::Full { .. }) => {
                await_pumps_asleep();
                is_settled = true;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until a thread of a process sleeps or has ended, so that only another thread can wake it.
pub fn await_asleep(process: u32, thread: i32) {
    let stat = PathBuf::from(format!("/proc/{process}/task/{thread}/stat"));
    let mut looks = 0;
    await_that("a thread sleeps or has ended", || {
        looks = if matches!(state(&stat), Some('S') | None) { looks + 1 } else { 0 };
        looks >= 3
    });
}

/// The names of the thread that fills a receive queue, and of the thread of the transport
/// `callback`.
const PUMPS: [&str; 2] = ["stripline-pump", "callback-thread"];

/// Waits until every thread of this process that fills a receive queue is idle.
fn await_pumps_asleep() {
    threads_named(&PUMPS).into_iter().for_each(|thread| await_asleep(std::process::id(), thread));
}

/// Returns the numbers of this process's threads with one of these names.
pub fn threads_named(names: &[&str]) -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_named = |task: &PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| names.contains(&name.trim()))
    };
    let number = |task: PathBuf| task.file_name().unwrap().to_str().unwrap().parse().unwrap();
    tasks.filter(is_named).map(number).collect()
}

/// Waits until all threads of a process, except the calling thread, sleep at the same time.
pub fn await_all_asleep(process: u32) {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    // A reading has each thread's state and the number of times it has slept. A thread that did not
    // run between two readings has the same values in both. So at some moment between two equal
    // readings, no thread was running.
    let reading = || {
        let mut threads = Vec::new();
        for entry in std::fs::read_dir(format!("/proc/{process}/task")).unwrap() {
            let folder = entry.unwrap().path();
            let Ok(status) = std::fs::read_to_string(folder.join("status")) else { continue };
            let is_fact = |line: &&str| line.starts_with("State:") || line.contains("_switches:");
            let facts: Vec<_> = status.lines().filter(is_fact).map(String::from).collect();
            if !folder.ends_with(&own) {
                threads.push((folder, facts));
            }
        }
        threads
    };
    let mut before = Vec::new();
    await_that("all threads sleep", || {
        let now = reading();
        let asleep = now.iter().all(|(_, facts)| facts[0].ends_with("S (sleeping)"));
        std::mem::replace(&mut before, now) == before && asleep
    });
}

/// Returns the state of a process or thread, from the `stat` file.
pub fn state(stat: &Path) -> Option<char> {
    let text = std::fs::read_to_string(stat).ok()?;
    // The name in parentheses may contain any character. The state follows the last parenthesis.
    text.rsplit_once(") ")?.1.chars().next()
}

/// Returns the names of this process's threads.
pub fn thread_names() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
}

/// Returns the folder of the sockets, if the suite runs with `STRIPLINE_RUNTIME_DIR`.
fn runtime_folder() -> Option<PathBuf> {
    std::env::var_os("STRIPLINE_RUNTIME_DIR").map(PathBuf::from)
}

/// Returns the abstract Unix names on this host, without the `@`. With a folder of sockets, returns
/// the names and addresses of the sockets with a living process.
pub fn abstract_names() -> Vec<String> {
    if let Some(folder) = runtime_folder() {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        // A datagram socket cannot connect to any of them, but the kernel's error shows which are
        // alive.
        let probe = UnixDatagram::unbound().unwrap();
        let is_dead = |error: std::io::Error| {
            matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound)
        };
        let living = files.filter(|file| !probe.connect(file).is_err_and(is_dead));
        let names = living.map(|file| file.file_name().unwrap().to_str().unwrap().to_string());
        return names.flat_map(|name| [socket_address(&name), name]).collect();
    }
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    table.lines().filter_map(|line| Some(line.rsplit_once(" @")?.1.to_string())).collect()
}

/// Returns the address in an offer for a Unix name.
pub fn socket_address(name: &str) -> String {
    if runtime_folder().is_some() { format!("./{name}") } else { name.into() }
}

/// Returns the Unix socket with a name or an address.
pub fn unix_socket(name: &str) -> SocketAddr {
    match runtime_folder() {
        Some(folder) => SocketAddr::from_pathname(folder.join(name)).unwrap(),
        None => SocketAddr::from_abstract_name(name).unwrap(),
    }
}

/// Returns the name of a domain's rendezvous.
pub fn meeting_point(domain: &str) -> String {
    format!("stripline-{}-{domain}", rustix::process::geteuid().as_raw())
}

/// Returns the endpoint in a connection's name, `topic@endpoint -> topic`.
pub fn endpoint_of(connection: &str) -> String {
    let (_, rest) = connection.split_once('@').unwrap();
    rest.split_once(" -> ").unwrap().0.into()
}

/// Returns whether frames and signalling share a socket. If not, prints that a rule about forged
/// bytes on the socket holds by the same code as on `uds`.
pub fn shares_a_socket(transport: &str, rule: &str) -> bool {
    let how = match is_stream(transport) {
        true => "its signalling is the same as over `uds`, where this is tested",
        false => "no bytes cross a socket: the ring's own tests cover what a peer can write there",
    };
    !Refusal::FramesOnTheSocket.excludes(transport, rule, how)
}

/// Returns whether packets of a killed or stopped sender may be missing over this transport.
pub fn refuses_repair(transport: &str) -> bool {
    let rule = "packets of a killed or stopped sender";
    Refusal::Repair.excludes(transport, rule, "no process repairs what was lost")
}

/// A reproducible pseudorandom generator (xorshift64; Marsaglia 2003).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}
