//! The end in Rust of a link to a program in another language. The tests start it.
//!
//! Usage: `numbers send|receive|receive-part DOMAIN TOPICS PACKETS SAMPLES`. The numbers are the
//! indexes of the samples in the stream. After the packets, `receive` waits for the end of stream,
//! and `receive-part` checks for a short time that no end of stream arrives.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program of tests")]

use std::time::Duration;

use stripline::StreamInfo;
use stripline::node::{Node, Topics};

/// A time limit that only ends a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, role, domain, topics, packets, samples] = arguments.as_slice() else {
        panic!("usage: numbers send|receive|receive-part DOMAIN TOPICS PACKETS SAMPLES");
    };
    let (packets, samples): (u32, u32) = (packets.parse().unwrap(), samples.parse().unwrap());
    let node = Node::join(domain, Topics::parse(topics).unwrap()).unwrap();
    match role.as_str() {
        "send" => send(&node, packets, samples),
        "receive" => receive(&node, packets, TIMEOUT),
        "receive-part" => receive(&node, packets, Duration::from_millis(100)),
        _ => panic!("`{role}` is not a role"),
    }
}

fn send(node: &Node, packets: u32, samples: u32) {
    let mut publisher = node.publisher::<u32>("numbers").unwrap();
    publisher.set_stream(StreamInfo::new("of Rust").sample_rate_hz(2.5e5));
    assert!(publisher.wait_for_receivers(1, TIMEOUT).unwrap());
    for number in 0..packets {
        let mut loan = publisher.loan(samples as usize).unwrap();
        loan.iter_mut().zip(number * samples..).for_each(|(sample, value)| *sample = value);
        loan.send().unwrap();
    }
    publisher.finish().unwrap();
    println!("sent {packets}");
}

/// Receives `packets` packets, and then waits for the end of stream.
fn receive(node: &Node, packets: u32, for_the_end: Duration) {
    let mut subscriber = node.subscriber::<u32>("numbers").unwrap();
    println!("waits");
    let mut next = 0;
    for number in 0..u64::from(packets) {
        let packet = subscriber.receive_timeout(TIMEOUT).unwrap().packet().unwrap();
        assert_eq!((packet.sequence(), packet.sample_index(), packet.gap()), (number, next, None));
        assert_eq!((packet.stream().id.as_str(), packet.stream().sample_rate_hz), ("of C++", Some(5e5)));
        assert!(packet.iter().zip(next as u32..).all(|(sample, value)| *sample == value));
        next += packet.len() as u64;
    }
    match subscriber.receive_timeout(for_the_end).unwrap() {
        stripline::Received::Ended => println!("received {packets}, and the end"),
        stripline::Received::Empty => println!("received {packets}, and no end"),
        stripline::Received::Packet(_) => panic!("a packet more"),
    }
}
