//! Child processes of a test: this test binary, started again, executing commands line by line.
//!
//! A puppet joins one domain and has at most one publisher and one subscriber of `u64`. Every
//! packet that it sends contains only the number of the packet, and it checks this in every packet
//! that it receives.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use stripline::node::{Dispatch, Node, Publisher, Subscriber, Topics, wait_any};
use stripline::payload::{Cbor, NoSchema};
use stripline::transport::Reach;
use stripline::{Error, Gap, GapReason, Received};

use crate::dispatch::Gate;
use crate::order::PlainDetection;
use crate::refusals::Refusal;
use crate::support::{
    DEADLINE, abstract_names, await_that, domain, fill, join, meeting_point, take, this_binary, topics_text,
};
use crate::test_process::{MARK, TestProcess};

const DOMAIN: &str = "STRIPLINE_CONFORMANCE_DOMAIN";
const TOPICS: &str = "STRIPLINE_CONFORMANCE_TOPICS";
/// The number of samples in a puppet's packet, which has 8000 bytes.
pub const SAMPLES: usize = 1000;

/// A child process that executes commands. A drop kills the process, and waits for its end.
pub struct Puppet {
    process: TestProcess,
    stderr: Arc<Mutex<String>>,
}

impl Puppet {
    /// Starts a puppet in a domain, with the rules of all topics.
    pub fn start(domain: &str, transport: &str, rules: &str) -> Self {
        Self::start_from(this_binary(), domain, transport, rules)
    }

    /// Starts a puppet from the given executable.
    pub fn start_from(mut command: Command, domain: &str, transport: &str, rules: &str) -> Self {
        command.env(DOMAIN, domain).env(TOPICS, topics_text(transport, rules)).stderr(Stdio::piped());
        let (process, pipe) = TestProcess::start(&mut command);
        let stderr = Arc::new(Mutex::new(String::new()));
        let (lines, printed) = (BufReader::new(pipe.unwrap()).lines(), Arc::clone(&stderr));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                printed.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let mut puppet = Self { process, stderr };
        assert_eq!(puppet.answer(), "ready");
        puppet
    }

    /// Sends a command, waits until it is done, and returns the answer.
    pub fn order(&mut self, order: &str) -> String {
        self.begin(order);
        self.answer()
    }

    /// Sends a command that may not end before another event.
    pub fn begin(&mut self, order: &str) {
        self.process.order(order);
    }

    /// Returns the answer to the last command.
    pub fn answer(&mut self) -> String {
        match self.process.answer(DEADLINE) {
            Ok(answer) => answer,
            Err(error) => {
                self.process.kill();
                panic!("a puppet does not answer ({error}); its errors: {}", self.stderr.lock().unwrap());
            }
        }
    }

    /// Makes the puppet take `count` packets in order, with at most one gap, before the first.
    /// Returns the number of the first packet, and that gap.
    pub fn take(&mut self, count: usize) -> (u64, Option<Gap>) {
        self.take_by("take", count)
    }

    /// Makes the puppet take packets as `take` does, by another command: `take-any` takes packets
    /// with any content, `take-messages` takes messages.
    pub fn take_by(&mut self, order: &str, count: usize) -> (u64, Option<Gap>) {
        let answer = self.order(&format!("{order} {count}"));
        let mut words = answer.split(' ');
        let mut number = || words.next().unwrap().parse::<u64>();
        let first = number().unwrap();
        let Ok(from) = number() else { return (first, None) };
        let (packets, samples) = (number().unwrap(), number().unwrap());
        let reason = match words.next().unwrap() {
            "PeerRestart" => GapReason::PeerRestart,
            "Overflow" => GapReason::Overflow,
            other => panic!("a gap because of {other}"),
        };
        (first, Some(Gap { first: from, packets, samples, reason }))
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills the puppet without warning, and waits for its exit.
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Sends `quit`, and waits until the puppet exits by itself.
    pub fn end(mut self) {
        assert_eq!(self.order("quit"), "bye");
        assert!(self.process.wait().success());
    }

    /// Waits until the puppet has printed this on standard error. Returns the line.
    pub fn await_error(&self, part: &str) -> String {
        let said = || {
            let all = self.stderr.lock().unwrap();
            all.lines().find(|line| line.contains(part)).map(String::from)
        };
        await_that(&format!("an error with `{part}`"), || said().is_some());
        said().unwrap()
    }

    /// Stops the puppet, and waits until it is stopped.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    pub fn thaw(&self) {
        self.process.thaw();
    }
}

/// Runs the puppet's side.
pub fn play_if_asked() {
    let (Ok(domain), Ok(topics)) = (std::env::var(DOMAIN), std::env::var(TOPICS)) else { return };
    stripline::internal::log_to_stderr();
    let node = Node::join(&domain, Topics::parse(&topics).unwrap()).unwrap();
    let mut stage =
        Stage { node, publisher: None, bare: None, subscriber: None, messages: None, last: String::new() };
    // The line break is needed because the test harness has begun a line.
    println!("\n{MARK} ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        if line == "quit" {
            drop(stage);
            println!("{MARK} bye");
            return;
        }
        let answer = stage.perform(&line);
        println!("{MARK} {answer}");
    }
}

struct Stage {
    node: Node,
    publisher: Option<Publisher<u64>>,
    /// A publisher of a type without a layout.
    bare: Option<Publisher<PlainDetection>>,
    subscriber: Option<Subscriber<u64>>,
    messages: Option<Subscriber<Cbor<u64, NoSchema>>>,
    /// The connection of the packet taken last.
    last: String,
}

impl Stage {
    fn perform(&mut self, order: &str) -> String {
        let (verb, object) = order.split_once(' ').unwrap_or((order, ""));
        let number = || object.parse::<usize>().unwrap();
        match verb {
            "publish" => self.publisher = Some(self.node.publisher(object).unwrap()),
            "publish-bare" => self.bare = Some(self.node.publisher(object).unwrap()),
            "send-bare" => {
                let publisher = self.bare.as_mut().unwrap();
                assert!(publisher.wait_for_receivers(number(), DEADLINE).unwrap());
                publisher.send(&[PlainDetection { range_bin: 7, level_db: 0.5 }]).unwrap();
            }
            "subscribe" => self.subscriber = Some(self.node.subscriber(object).unwrap()),
            "subscribe-messages" => self.messages = Some(self.node.subscriber(object).unwrap()),
            // This subscriber has another type than the puppets' packets.
            "mistake" => std::mem::forget(self.node.subscriber::<i16>(object).unwrap()),
            "receivers" => {
                let publisher = self.publisher.as_mut().unwrap();
                assert!(publisher.wait_for_receivers(number(), DEADLINE).unwrap());
            }
            "senders" => {
                let subscriber = self.subscriber.as_mut().unwrap();
                await_that("senders", || subscriber.senders() == number());
            }
            "send" => {
                let publisher = self.publisher.as_mut().unwrap();
                for _ in 0..number() {
                    publisher.send(&[publisher.sequence(); SAMPLES]).unwrap();
                }
                return publisher.sequence().to_string();
            }
            "send-many" => {
                let publisher = self.publisher.as_mut().unwrap();
                let first = publisher.sequence();
                publisher
                    .send_many(number(), SAMPLES, |index, place| place.fill(first + index as u64))
                    .unwrap();
                return publisher.sequence().to_string();
            }
            "send-then-large" => {
                let publisher = self.publisher.as_mut().unwrap();
                publisher.send(&[publisher.sequence(); SAMPLES]).unwrap();
                publisher.send(&vec![publisher.sequence(); number()]).unwrap();
            }
            "fill" => return fill(self.publisher.as_mut().unwrap(), &[0; SAMPLES]).0.to_string(),
            // A packet waits and is not taken.
            "await-packet" => {
                let subscriber = self.subscriber.as_mut().unwrap();
                assert_eq!(wait_any(&mut [subscriber], Some(DEADLINE)).unwrap(), [0]);
            }
            "take" => return self.take(number(), true),
            "take-any" => return self.take(number(), false),
            "take-messages" => return self.take_messages(number()),
            "drain" => return self.drain(),
            "forward" => self.forward(object),
            "connection" => return self.last.clone(),
            "finish" => self.publisher.take().unwrap().finish_within(DEADLINE).unwrap(),
            "unsubscribe" => drop(self.subscriber.take()),
            "end" => crate::support::expect_end(self.subscriber.as_mut().unwrap()),
            _ => panic!("unknown order `{order}`"),
        }
        "ok".into()
    }

    /// Takes packets until the packets with these numbers have been forwarded in this order, as the
    /// threads of a pool would forward them.
    fn forward(&mut self, numbers: &str) {
        let turns: Vec<u64> = numbers.split(',').map(|number| number.parse().unwrap()).collect();
        let (gate, output) = (Gate::default(), Mutex::new(self.publisher.as_mut().unwrap()));
        let pool = Dispatch::pool(turns.len()).unwrap();
        let outcome = self.subscriber.as_mut().unwrap().serve(pool, |packet| {
            let Some(place) = turns.iter().position(|turn| *turn == packet.sequence()) else { return Ok(()) };
            if place > 0 {
                gate.wait_for(turns[place - 1]);
            }
            let mut output = output.lock().unwrap();
            let mut loan = output.loan(packet.len())?;
            loan.copy_from_slice(&packet);
            loan.send_like(&packet)?;
            gate.reach(packet.sequence());
            if place + 1 == turns.len() { Err(Error::Stopped) } else { Ok(()) }
        });
        assert!(matches!(outcome, Err(Error::Stopped)), "{outcome:?}");
    }

    /// Takes all packets up to the end of stream. Returns the number of packets received or
    /// reported lost.
    fn drain(&mut self) -> String {
        let subscriber = self.subscriber.as_mut().unwrap();
        let mut next = 0;
        loop {
            match subscriber.receive_timeout(DEADLINE).unwrap() {
                Received::Packet(packet) => {
                    next += packet.gap().map_or(0, |gap| gap.packets);
                    assert_eq!((packet.sequence(), packet[0]), (next, next));
                    assert_eq!(packet.stream().id, format!("part-{}", next / 500 * 500));
                    next += 1;
                }
                Received::Ended => break,
                Received::Empty => panic!("no end of stream"),
            }
        }
        (next + subscriber.gap_at_end().map_or(0, |gap| gap.packets)).to_string()
    }

    fn take(&mut self, count: usize, checks: bool) -> String {
        let subscriber = self.subscriber.as_mut().unwrap();
        let mut first = None;
        for _ in 0..count {
            let parcel = take(subscriber);
            assert!(!checks || parcel.samples == vec![parcel.sequence; SAMPLES], "{parcel:?}");
            if let Some((sequence, _)) = first {
                assert_eq!(parcel.gap, None, "packet {}", parcel.sequence);
                assert!(parcel.sequence > sequence);
            } else {
                first = Some((parcel.sequence, parcel.gap));
            }
            self.last = parcel.connection;
        }
        describe(first)
    }

    fn take_messages(&mut self, count: usize) -> String {
        let messages = self.messages.as_mut().unwrap();
        let mut first = None;
        for _ in 0..count {
            let packet = messages.receive().unwrap().unwrap();
            first.get_or_insert((packet.sequence(), packet.gap().copied()));
            packet.decode().unwrap();
        }
        describe(first)
    }
}

/// Returns the number of the first packet that was taken, and the gap before it, as text.
fn describe(first: Option<(u64, Option<Gap>)>) -> String {
    match first {
        Some((sequence, Some(Gap { first, packets, samples, reason }))) => {
            format!("{sequence} {first} {packets} {samples} {reason:?}")
        }
        Some((sequence, None)) => format!("{sequence} -"),
        None => String::new(),
    }
}

/// Creates a node in a new domain that puppets may join. Returns `None` for a transport within one
/// process, after checking that it refuses another process and therefore the rule.
pub fn beside_another(transport: &'static str, rule: &str, options: &str) -> Option<(String, Node)> {
    if refuses_other_processes(transport, rule) {
        return None;
    }
    let domain = domain();
    let node = join(&domain, transport, options);
    Some((domain, node))
}

/// Checks that a transport within one process refuses another process with a message. Returns
/// whether the transport refuses other processes.
pub fn refuses_other_processes(transport: &'static str, rule: &str) -> bool {
    let reach = stripline::transport::all().find(|t| t.name == transport).unwrap().reach;
    assert_eq!(Refusal::OtherProcesses.is_of(transport), reach == Reach::Process);
    if reach != Reach::Process {
        return false;
    }
    let domain = domain();
    let node = join(&domain, transport, "");
    let mut publisher = node.publisher::<u64>("elsewhere").unwrap();
    await_that("the meeting point", || abstract_names().contains(&meeting_point(&domain)));
    let mut puppet = Puppet::start(&domain, transport, "");
    puppet.order("subscribe elsewhere");
    let said = puppet.await_error("one process only");
    assert!(said.contains("elsewhere") && said.contains(transport), "{said}");
    assert_eq!(publisher.receivers(), 0);
    Refusal::OtherProcesses.print(transport, rule, said.trim());
    puppet.end();
    true
}
