//! A link between a program in C and this program in Rust.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stripline::call::{CallError, ClientOptions, Operation, ServerOptions};
use stripline::node::{Node, Publisher, Topics};
use stripline::payload::Cbor;
use stripline::{GapReason, StreamInfo};

use crate::build::{Kind, program};
use crate::domain;

const TRANSPORTS: [&str; 3] = ["shm", "uds", "tcp"];
/// A time limit that only ends a hang.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The number of packets, and of samples in each: several laps of a ring.
const PACKETS: u32 = 2000;
const SAMPLES: u32 = 600;

/// A running program. Killed and waited for when dropped.
struct Running(Child);

impl Running {
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).env_remove("STRIPLINE_TOPICS").env_remove("STRIPLINE_DOMAIN");
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Returns the next line of output.
    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    /// Waits until the program ends, which must be a success.
    fn end(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn topics(transport: &str) -> String {
    format!("[default]\ntransport = '{transport}'")
}

fn join(domain: &str, transport: &str) -> Node {
    Node::join(domain, Topics::parse(&topics(transport)).unwrap()).unwrap()
}

fn send(publisher: &mut Publisher<u32>, packets: u32) {
    for number in 0..packets {
        let mut loan = publisher.loan(SAMPLES as usize).unwrap();
        loan.iter_mut().zip(number * SAMPLES..).for_each(|(sample, value)| *sample = value);
        loan.send().unwrap();
    }
}

#[test]
fn a_sender_in_c_reaches_a_receiver_in_rust() {
    let sender = program("tests/c/sender.c", Kind::Plain);
    for transport in TRANSPORTS {
        let domain = domain(&format!("to-rust-{transport}"));
        let node = join(&domain, transport);
        let mut subscriber = node.subscriber::<u32>("numbers").unwrap();
        let (packets, samples) = (PACKETS.to_string(), SAMPLES.to_string());
        let mut running = Running::start(&sender, &[&domain, &topics(transport), &packets, &samples]);
        let mut next = 0;
        for number in 0..u64::from(PACKETS) {
            let packet = subscriber.receive_timeout(TIMEOUT).unwrap().packet().unwrap();
            assert_eq!((packet.sequence(), packet.sample_index(), packet.gap()), (number, next, None));
            assert_eq!((packet.stream().id.as_str(), packet.stream().sample_rate_hz), ("of C", Some(5e5)));
            assert!(packet.iter().zip(next as u32..).all(|(sample, value)| *sample == value), "{transport}");
            next += packet.len() as u64;
        }
        assert!(subscriber.receive().unwrap().is_none(), "{transport}: the end of stream");
        assert_eq!(running.line(), format!("sent {PACKETS}\n"));
        running.end();
    }
}

#[test]
fn a_sender_in_rust_reaches_a_receiver_in_c() {
    let receiver = program("tests/c/receiver.c", Kind::Plain);
    for transport in TRANSPORTS {
        let domain = domain(&format!("to-c-{transport}"));
        let node = join(&domain, transport);
        let mut publisher = node.publisher::<u32>("numbers").unwrap();
        publisher.set_stream(StreamInfo::new("of Rust").sample_rate_hz(2.5e5));
        let mut running = Running::start(&receiver, &[&domain, &topics(transport)]);
        assert!(publisher.wait_for_receivers(1, TIMEOUT).unwrap());
        send(&mut publisher, PACKETS);
        publisher.finish().unwrap();
        assert_eq!(running.line(), format!("received {PACKETS} of {} samples\n", PACKETS * SAMPLES));
        running.end();
    }
}

#[test]
fn a_receiver_in_c_that_is_killed_with_a_packet_does_not_stop_its_sender() {
    let receiver = program("tests/c/receiver.c", Kind::Plain);
    for transport in TRANSPORTS {
        let domain = domain(&format!("killed-receiver-{transport}"));
        let node = join(&domain, transport);
        let mut publisher = node.publisher::<u32>("numbers").unwrap();
        let mut running = Running::start(&receiver, &[&domain, &topics(transport), "hold"]);
        assert!(publisher.wait_for_receivers(1, TIMEOUT).unwrap());
        send(&mut publisher, 1);
        assert_eq!(running.line(), "holds a packet\n");
        drop(running);
        // There are more packets than room: this can return only because the receiver ends.
        send(&mut publisher, PACKETS);
        publisher.finish().unwrap();
    }
}

#[test]
fn a_sender_in_c_that_is_killed_with_a_loan_leaves_a_gap_and_no_packet() {
    let sender = program("tests/c/sender.c", Kind::Plain);
    for transport in TRANSPORTS {
        let domain = domain(&format!("killed-sender-{transport}"));
        let node = join(&domain, transport);
        let mut subscriber = node.subscriber::<u32>("numbers").unwrap();
        let mut first = Running::start(&sender, &[&domain, &topics(transport), "3", "10", "hold"]);
        assert_eq!(first.line(), "holds a loan\n");
        drop(first);
        let mut take = |number: u64| {
            let packet = subscriber.receive_timeout(TIMEOUT).unwrap().packet().unwrap();
            assert_eq!(packet.sequence(), number, "{transport}");
            packet.gap().map(|gap| gap.reason)
        };
        assert!((0..3).all(|number| take(number).is_none()), "{transport}");
        let second = Running::start(&sender, &[&domain, &topics(transport), "2", "10"]);
        assert_eq!((take(0), take(1)), (Some(GapReason::PeerRestart), None), "{transport}");
        assert!(subscriber.receive().unwrap().is_none(), "{transport}: the end of stream");
        second.end();
    }
}

#[derive(serde::Serialize, serde::Deserialize, stripline::Message, Clone, Debug, PartialEq)]
struct Tune {
    hz: f64,
}

#[test]
fn messages_of_rust_come_back_from_c() {
    let echo = program("tests/c/messages.c", Kind::Plain);
    for transport in TRANSPORTS {
        let domain = domain(&format!("messages-{transport}"));
        let node = join(&domain, transport);
        let mut commands = node.publisher::<Cbor<Tune>>("commands").unwrap();
        let mut status = node.subscriber::<Cbor<Tune>>("status").unwrap();
        let mut running = Running::start(&echo, &[&domain, &topics(transport)]);
        assert!(commands.wait_for_receivers(1, TIMEOUT).unwrap());
        for hz in [0.0, 433.92e6, -1.5] {
            commands.send(&Tune { hz }).unwrap();
            let packet = status.receive_timeout(TIMEOUT).unwrap().packet().unwrap();
            assert_eq!(packet.decode().unwrap(), Tune { hz }, "{transport}");
        }
        commands.finish().unwrap();
        assert!(status.receive().unwrap().is_none(), "{transport}: the end of stream");
        assert_eq!(running.line(), "messages: done\n");
        running.end();
    }
}

#[test]
fn rust_and_c_call_each_other() {
    let program = program("tests/c/calls.c", Kind::Plain);
    for transport in TRANSPORTS {
        let domain = domain(&format!("calls-{transport}"));
        let node = join(&domain, transport);
        let double = |x: u32| Ok::<u32, String>(2 * x);
        let mut server = node.server("double", double, ServerOptions::default()).unwrap();
        let mut running = Running::start(&program, &[&domain, &topics(transport)]);
        assert!(server.serve_one(TIMEOUT).unwrap(), "{transport}");
        let client = node.service_client("text", ClientOptions::default()).unwrap();
        assert!(client.wait_for_servers(1, TIMEOUT).unwrap());
        let documented = |operation: &Operation| operation.doc == "What it does.";
        assert!(client.servers()[0].operations.iter().all(documented), "{transport}");
        let echo = client.operation::<String, String, String>("echo").unwrap();
        assert_eq!(echo.call(&"from Rust".into()).unwrap(), "from Rust");
        let fail = client.operation::<String, String, String>("fail").unwrap();
        let error = fail.call(&"out of range".into()).unwrap_err();
        assert!(matches!(&error, CallError::User(text) if text == "out of range"), "{error}");
        let refuse = client.operation::<String, String, String>("refuse").unwrap();
        let error = refuse.call(&String::new()).unwrap_err().to_string();
        assert!(error.contains("the antenna is not plugged in"), "{error}");
        drop(running.0.stdin.take());
        assert_eq!(running.line(), "calls: done\n");
        running.end();
    }
}
