//! The cost of a packet, compared with `docs/transports`: the system calls of each thread, the
//! threads, and the copies.
//!
//! A child process sends to itself, and is traced. So the counts cover the whole path, including
//! the library's own threads.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../common/middleware.rs"]
mod middleware;
mod tracer;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use stripline::node::{Node, Publisher, Subscriber, Topics};
use stripline::transport::{self, Capabilities};
use stripline_conformance::message_queue_turn::MessageQueueTurn;
use tracer::{Calls, Counts, Mark, be_traced, mark, trace};

/// The variable set in the traced process: the transport and the case.
const JOB: &str = "STRIPLINE_PACKET_COST";
const PACKETS: usize = 100;
/// The receive buffer that most systems allow for datagrams.
const USUAL_BUFFER: u64 = 212_992;
/// Packets before the counted ones: more than a session has in transit, which keeps memory for as
/// many copies.
const WARM_UP: usize = 500;
/// The number of times that a case is counted before it fails. On a busy machine, two threads often
/// want the same lock at once, which is one call more.
const ATTEMPTS: usize = 10;
/// Transports over a middleware with its own threads.
const FOREIGN: [&str; 4] = ["zeromq", "zenoh", "dds", "corba"];
/// A time limit that only ends a hang.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A way to send and to receive.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    /// Sends each packet alone, and receives it.
    Alone,
    /// Sends each packet alone, to a receiver that sleeps.
    Asleep,
    /// Sends each packet alone, and receives it, with packets of 32 KiB.
    Large,
    /// Sends all packets with one call, and then receives all.
    Together,
    /// Queues all packets under scope `none`, then sends and receives all.
    Queued,
}

impl Case {
    const ALL: [Self; 5] = [Self::Alone, Self::Asleep, Self::Large, Self::Together, Self::Queued];

    /// Returns the name of the case in the table.
    fn name(self) -> &'static str {
        match self {
            Self::Alone => "64 B",
            Self::Asleep => "64 B, receiver asleep",
            Self::Large => "32 KiB",
            Self::Together => "64 B, `send_many` and `drain`",
            Self::Queued => "64 B, scope `none`",
        }
    }
}

/// Returns the transports that every build has.
fn transports() -> impl Iterator<Item = Capabilities> {
    transport::all().filter(|transport| {
        !["pipe", "faulty", "lossy", "multicast", "callback"].contains(&transport.name)
            && !FOREIGN.contains(&transport.name)
    })
}

#[test]
fn the_page_of_each_transport_has_what_a_packet_costs() {
    let mut wrong = String::new();
    for transport in transports() {
        let name = transport.name;
        let page = page_of(name);
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let copies = format!("Copies: {}.", transport.copies);
        if !words.contains(&copies) {
            let _ = writeln!(wrong, "{name}: {copies}");
        }
        let _turn = MessageQueueTurn::take(name);
        for case in Case::ALL {
            // A lock that two threads want at once takes one call more, so a few attempts are made.
            let attempts: Vec<String> = (0..ATTEMPTS)
                .map_while(|_| {
                    let counts = count(name, case);
                    let threads = format!("Threads of its own: {}.", listed(&counts.threads));
                    let row = row(case, &counts);
                    let calls = [&counts.sender, &counts.receiver, &counts.others];
                    let has_calls = calls.iter().any(|calls| !calls.is_empty());
                    let is_same = |line: &str| comparable(name, line) == comparable(name, &row);
                    let is_right = page.lines().find(|line| is_row(line, case)).map_or(!has_calls, is_same)
                        && (case != Case::Alone || words.contains(&threads));
                    (!is_right).then(|| format!("{name}: {threads}\n{row}"))
                })
                .collect();
            if attempts.len() == ATTEMPTS {
                let _ = writeln!(wrong, "{}", attempts[ATTEMPTS - 1]);
            }
        }
    }
    assert!(wrong.is_empty(), "not in docs/transports/NAME.md:\n{wrong}");
}

/// Compares the calls of the sender and the receiver with the rows of the page. The calls of the
/// middleware's threads depend on timing.
#[test]
fn the_page_of_each_middleware_has_what_a_packet_costs() {
    let mut wrong = String::new();
    for transport in transport::all().filter(|transport| FOREIGN.contains(&transport.name)) {
        let name = transport.name;
        let page = page_of(name);
        for case in Case::ALL {
            let most = page.lines().find_map(|line| calls_of(line, case)).unwrap_or_default();
            let attempts: Vec<Counts> = (0..ATTEMPTS)
                .map_while(|_| {
                    let counts = count(name, case);
                    let found = [&counts.sender, &counts.receiver];
                    let is_right = found.iter().zip(&most).all(|(found, most)| is_within(found, most));
                    (!is_right).then_some(counts)
                })
                .collect();
            if attempts.len() == ATTEMPTS {
                let last = &attempts[ATTEMPTS - 1];
                let _ = writeln!(
                    wrong,
                    "{name}: | {} | {} | {} |",
                    case.name(),
                    cell(&last.sender),
                    cell(&last.receiver)
                );
            }
        }
    }
    assert!(wrong.is_empty(), "not in docs/transports/NAME.md:\n{wrong}");
}

/// Returns whether a line of a page is the row of this case. A case without calls has no row.
fn is_row(line: &str, case: Case) -> bool {
    line.strip_prefix("| ").and_then(|cells| cells.split_once(" |")).is_some_and(|it| it.0 == case.name())
}

/// Returns the calls of the sender and the receiver in a row for this case.
fn calls_of(line: &str, case: Case) -> Option<[Calls; 2]> {
    is_row(line, case).then_some(())?;
    let mut cells = line.split('|').skip(2).map(str::trim);
    let mut calls = || {
        let cell = cells.next()?;
        let listed = cell.split(", ").filter(|call| *call != "none");
        listed
            .map(|call| {
                let (count, name) = call.split_once(' ')?;
                Some((name.trim_matches('`').to_string(), count.parse().ok()?))
            })
            .collect::<Option<Calls>>()
    };
    Some([calls()?, calls()?])
}

/// Returns whether the calls match a row. For the calls that only a sleeping thread makes, the row
/// has the largest number; for other calls, about the number. On a busy machine, a middleware wakes
/// a thread a few times more often.
fn is_within(found: &Calls, most: &Calls) -> bool {
    let depends_on_timing = |name: &str| ["futex", "poll"].contains(&name);
    let is_allowed =
        |(name, count): (&String, &usize)| most.get(name).is_some_and(|most| *count <= most + most / 10);
    let is_there = |(name, most): (&String, &usize)| {
        depends_on_timing(name) || found.get(name).is_some_and(|count| 2 * count >= *most)
    };
    found.iter().all(is_allowed) && most.iter().all(is_there)
}

/// Returns a row in the form in which it is compared. How often a receiver acknowledges datagrams
/// depends on the buffer that the system allows. If it allows less than usual, acknowledgements are
/// left out.
fn comparable(transport: &str, row: &str) -> String {
    let allowed = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap_or_default();
    if transport != "udp" || allowed.trim().parse().is_ok_and(|bytes: u64| bytes >= USUAL_BUFFER) {
        return row.into();
    }
    let is_other = |call: &&str| !call.contains("`sendto`") && !call.contains("`recvfrom`");
    let cells = row.split('|').map(|cell| cell.split(',').filter(is_other).collect::<Vec<_>>().join(","));
    cells.map(|cell| cell.trim().to_string()).collect::<Vec<_>>().join("|")
}

/// Returns a row of the table.
fn row(case: Case, counts: &Counts) -> String {
    let [sender, receiver, others] = [&counts.sender, &counts.receiver, &counts.others].map(cell);
    format!("| {} | {sender} | {receiver} | {others} |", case.name())
}

fn page_of(transport: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/transports/{transport}.md"));
    std::fs::read_to_string(path).unwrap_or_default()
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn cell(calls: &Calls) -> String {
    let calls: Vec<String> = calls.iter().map(|(name, count)| format!("{count} `{name}`")).collect();
    if calls.is_empty() { "none".into() } else { calls.join(", ") }
}

fn count(transport: &str, case: Case) -> Counts {
    let index = Case::ALL.iter().position(|other| *other == case).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "play", "--nocapture", "--test-threads=1"])
        .env(JOB, format!("{transport} {index}"));
    trace(&mut command, case == Case::Asleep, FOREIGN.contains(&transport))
}

/// Does nothing unless it is started as the traced process.
#[test]
fn play() {
    let Ok(job) = std::env::var(JOB) else { return };
    let (transport, index) = job.split_once(' ').unwrap();
    let case = Case::ALL[index.parse::<usize>().unwrap()];
    be_traced();
    let wait = if case == Case::Asleep { "block" } else { "spin" };
    let scope = if case == Case::Queued { "none" } else { "transport" };
    let topics =
        format!("[default]\ntransport = '{transport}'\nwait = '{wait}'\nscope = '{scope}'\ndepth = 128");
    let table =
        if transport == "udp" { format!("\n[default.udp]\nbuffer = {USUAL_BUFFER}") } else { String::new() };
    let domain = format!("packet-cost-{}", std::process::id());
    let node = Node::join(&domain, Topics::parse(&(topics + &table)).unwrap()).unwrap();
    let mut publisher = node.publisher::<u8>("packets").unwrap();
    let subscriber = node.subscriber::<u8>("packets").unwrap();
    assert!(publisher.wait_for_receivers(1, TIMEOUT).unwrap());
    mark(Mark::Settled);
    match case {
        Case::Alone => alone(publisher, subscriber, 64),
        Case::Large => alone(publisher, subscriber, 32 << 10),
        Case::Asleep => asleep(publisher, subscriber),
        Case::Together => together(publisher, subscriber),
        Case::Queued => queued(publisher, subscriber),
    }
}

fn alone(mut publisher: Publisher<u8>, mut subscriber: Subscriber<u8>, size: usize) {
    let packet = vec![7; size];
    for number in 0..WARM_UP + PACKETS {
        if number == WARM_UP {
            mark(Mark::Begin);
        }
        mark(Mark::Sender);
        publisher.send(&packet).unwrap();
        mark(Mark::Receiver);
        drop(subscriber.receive().unwrap().unwrap());
        mark(Mark::Nothing);
    }
    mark(Mark::End);
}

fn asleep(mut publisher: Publisher<u8>, mut subscriber: Subscriber<u8>) {
    let receiver = std::thread::spawn(move || {
        mark(Mark::Receiver);
        while subscriber.receive().unwrap().is_some() {
            mark(Mark::Receiver);
        }
    });
    let mut send = || {
        mark(Mark::Sender);
        publisher.send(&[7; 64]).unwrap();
        mark(Mark::Nothing);
    };
    (0..WARM_UP).for_each(|_| send());
    mark(Mark::ReceiverSleeps);
    mark(Mark::Begin);
    for _ in 0..PACKETS {
        send();
        mark(Mark::ReceiverSleeps);
    }
    mark(Mark::End);
    publisher.finish().unwrap();
    receiver.join().unwrap();
}

fn together(mut publisher: Publisher<u8>, mut subscriber: Subscriber<u8>) {
    for number in 0..2 {
        if number == 1 {
            mark(Mark::Begin);
        }
        mark(Mark::Sender);
        publisher.send_many(PACKETS, 64, |_, place| place.fill(7)).unwrap();
        mark(Mark::Receiver);
        drain(&mut subscriber);
        mark(Mark::Nothing);
    }
    mark(Mark::End);
}

fn queued(mut publisher: Publisher<u8>, mut subscriber: Subscriber<u8>) {
    for _ in 0..WARM_UP {
        publisher.send(&[7; 64]).unwrap();
        drop(subscriber.receive().unwrap().unwrap());
    }
    mark(Mark::Begin);
    mark(Mark::HoldQueue);
    mark(Mark::Sender);
    for _ in 0..PACKETS {
        publisher.send(&[7; 64]).unwrap();
    }
    mark(Mark::ReleaseQueue);
    mark(Mark::Receiver);
    drain(&mut subscriber);
    mark(Mark::Nothing);
    mark(Mark::End);
}

fn drain(subscriber: &mut Subscriber<u8>) {
    let mut taken = 0;
    while taken < PACKETS {
        taken += subscriber.drain(PACKETS, |packet| assert_eq!(packet[0], 7)).unwrap();
    }
}
