//! Tests of counters at their limits, and of payloads that equal the words of the ring itself.
//!
//! The 32-bit frame count of the ring wraps, and positions pass 2^32. Each test runs in a separate
//! process, because an environment variable sets the start of the rings.
#![allow(clippy::unwrap_used, reason = "what cannot be in a test is a failure of the test")]

use std::process::Command;
use std::time::Duration;

use stripline::Received;
use stripline::node::{Node, Topics};

const START: &str = "STRIPLINE_RING_START";
const TIMEOUT: Duration = Duration::from_secs(30);
/// Packets that are sent across the limit.
const PACKETS: u64 = 3000;

/// Runs a test of this file again, in a process with this start of the rings.
fn start_at(test: &str, position: u64, count: u64) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(START, format!("{position},{count}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{position}, {count}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn packets_pass_the_edge_of_32_bits() {
    let edge = 1 << 32;
    for (position, count) in [(0, edge - 100), (edge - 4096, 0), (edge - 64 * 100, edge - 100)] {
        start_at("play_across", position, count);
    }
    // Further than any ring can get in a year.
    start_at("play_across", 1 << 60, (1 << 40) - 100);
}

#[test]
fn a_payload_that_equals_a_header_is_a_payload() {
    for position in [0, (1 << 32) - 4096] {
        start_at("play_words_of_the_ring", position, (1 << 32) - 50);
    }
}

fn join(rules: &str) -> Node {
    let topics = Topics::parse(&format!("[default]\ntransport = 'shm'\nbuffer = 4096\n{rules}")).unwrap();
    Node::join(&format!("edges-{}-{}", std::process::id(), rules.len()), topics).unwrap()
}

#[test]
fn play_across() {
    let Ok(start) = std::env::var(START) else { return };
    let first: u64 = start.split_once(',').unwrap().1.parse().unwrap();
    let (blocking, lossy) = (join(""), join("overflow = 'drop-oldest'\ndepth = 65536"));
    let mut publisher = blocking.publisher::<u64>("block").unwrap();
    let mut subscriber = blocking.subscriber::<u64>("block").unwrap();
    let mut lossy_publisher = lossy.publisher::<u64>("drop").unwrap();
    let mut lossy_subscriber = lossy.subscriber::<u64>("drop").unwrap();
    assert!(publisher.wait_for_receivers(1, TIMEOUT).unwrap());
    assert!(lossy_publisher.wait_for_receivers(1, TIMEOUT).unwrap());
    assert_eq!((publisher.sequence(), lossy_publisher.sequence()), (first, first));
    let sender = std::thread::spawn(move || {
        for publisher in [&mut publisher, &mut lossy_publisher] {
            for sequence in first..first + PACKETS {
                let mut loan = publisher.loan(1 + sequence as usize % 60).unwrap();
                loan.fill(sequence);
                loan.send().unwrap();
            }
        }
        publisher.finish().unwrap();
        lossy_publisher.finish().unwrap();
    });
    let mut next = first;
    while let Received::Packet(packet) = subscriber.receive_timeout(TIMEOUT).unwrap() {
        assert_eq!((packet.sequence(), packet.gap()), (next, None));
        assert_eq!(*packet, vec![next; 1 + next as usize % 60]);
        next += 1;
    }
    assert_eq!(next, first + PACKETS);
    let mut next = first;
    while let Received::Packet(packet) = lossy_subscriber.receive_timeout(TIMEOUT).unwrap() {
        if let Some(gap) = packet.gap() {
            assert_eq!((gap.first, gap.first + gap.packets), (next, packet.sequence()));
            next = packet.sequence();
        }
        assert_eq!(packet.sequence(), next);
        assert_eq!(*packet, vec![next; 1 + next as usize % 60]);
        next += 1;
    }
    next += lossy_subscriber.gap_at_end().map_or(0, |gap| gap.packets);
    assert_eq!(next, first + PACKETS);
    sender.join().unwrap();
}

/// Fills every line of the payload with the words that the ring would have for a frame in this lap
/// or the next.
#[test]
fn play_words_of_the_ring() {
    let Ok(start) = std::env::var(START) else { return };
    let (position, count) = start.split_once(',').unwrap();
    let (position, count): (u64, u64) = (position.parse().unwrap(), count.parse().unwrap());
    let node = join("depth = 64");
    let lossy = join("overflow = 'drop-newest'\ndepth = 65536");
    let mut publisher = node.publisher::<u64>("block").unwrap();
    let mut lossy_publisher = lossy.publisher::<u64>("drop").unwrap();
    let mut subscriber = node.subscriber::<u64>("block").unwrap();
    let mut lossy_subscriber = lossy.subscriber::<u64>("drop").unwrap();
    assert!(publisher.wait_for_receivers(1, TIMEOUT).unwrap());
    assert!(lossy_publisher.wait_for_receivers(1, TIMEOUT).unwrap());
    for publisher in [&mut publisher, &mut lossy_publisher] {
        // The start of the frame that is written. The ring is one page, so the address of a payload
        // gives the place in the ring. Between two packets there is at most one stream description.
        let mut at = position;
        for number in 0..PACKETS {
            let words = 8 * (1 + number as usize % 28);
            let mut loan = publisher.loan(words).unwrap();
            let offset = loan.as_ptr() as u64 % 4096 + 4096 - 64;
            at += offset.wrapping_sub(at) % 4096;
            for (index, word) in loan.iter_mut().enumerate() {
                let line = at + 64 + (index as u64 / 8) * 64;
                let lap = [0, 4096][(number % 2) as usize];
                *word = match index % 8 {
                    0 => (line + lap) | 1,
                    1 => 48 | (count + number + 1) << 32,
                    other => other as u64,
                };
            }
            let copy = loan.to_vec();
            loan.send().unwrap();
            at += 64 + words as u64 * 8;
            if publisher.name() == "block" {
                let Received::Packet(packet) = subscriber.receive_timeout(TIMEOUT).unwrap() else {
                    panic!("no packet {number}")
                };
                assert_eq!((packet.sequence(), packet.gap()), (count + number, None));
                assert_eq!(*packet, copy);
            }
        }
    }
    publisher.finish().unwrap();
    lossy_publisher.finish().unwrap();
    assert!(matches!(subscriber.receive_timeout(TIMEOUT).unwrap(), Received::Ended));
    let mut next = count;
    while let Received::Packet(packet) = lossy_subscriber.receive_timeout(TIMEOUT).unwrap() {
        next += packet.gap().map_or(0, |gap| gap.packets) + 1;
        assert_eq!(packet.sequence() + 1, next);
    }
    next += lossy_subscriber.gap_at_end().map_or(0, |gap| gap.packets);
    assert_eq!(next, count + PACKETS);
}
