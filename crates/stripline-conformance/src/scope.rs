//! Section 2: when a send returns.

use std::panic::AssertUnwindSafe;

use stripline::StreamInfo;

use crate::support::{await_receivers, expect_end, expect_nothing, fill, node, pair, take_number};

const DEPTH: u64 = 16;

pub fn none_returns_while_the_receiver_does_not_read(transport: &'static str) {
    returns_early(transport, "none");
}

pub fn transport_returns_while_the_receiver_does_not_read(transport: &'static str) {
    returns_early(transport, "transport");
}

/// Checks a receiver that does not read: at least `depth` packets are taken, then the send fails,
/// and no packet is lost.
fn returns_early(transport: &'static str, scope: &str) {
    let node = node(transport, &format!("scope = \"{scope}\"\ndepth = {DEPTH}"));
    let (mut publisher, mut subscriber) = pair::<u8>(&node, "unread");
    for _ in 0..DEPTH {
        publisher.send(&[1; 1000]).unwrap();
    }
    let (more, _) = fill(&mut publisher, &[2; 1000]);
    for sequence in 0..DEPTH + more {
        take_number(&mut subscriber, sequence);
    }
    publisher.send(&[3]).unwrap();
    assert_eq!(take_number(&mut subscriber, DEPTH + more).samples, [3]);
    expect_nothing(&mut subscriber);
}

pub fn none_delivers_everything(transport: &'static str) {
    let node = node(transport, "scope = \"none\"\ndepth = 4");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "queued");
    let sender = std::thread::spawn(move || {
        for i in 0..1000 {
            publisher.send(&[i; 100]).unwrap();
        }
        publisher.finish().unwrap();
    });
    for sequence in 0..1000 {
        assert_eq!(take_number(&mut subscriber, sequence).samples, [sequence; 100]);
    }
    expect_end(&mut subscriber);
    sender.join().unwrap();
}

pub fn none_describes_streams_to_late_joiners(transport: &'static str) {
    let node = node(transport, "scope = \"none\"");
    let (mut publisher, mut early) = pair::<u8>(&node, "queued");
    publisher.set_stream(StreamInfo::new("described"));
    publisher.send(&[0]).unwrap();
    assert_eq!(take_number(&mut early, 0).stream, "described");
    let mut late = node.subscriber::<u8>("queued").unwrap();
    await_receivers(&mut publisher, 2);
    publisher.send(&[1]).unwrap();
    assert_eq!(take_number(&mut late, 1).stream, "described");
    assert_eq!(take_number(&mut early, 1).stream, "described");
}

pub fn none_lets_go_of_a_receiver_that_does_not_read(transport: &'static str) {
    let node = node(transport, "scope = \"none\"\ndepth = 4");
    let (mut publisher, _subscriber) = pair::<u8>(&node, "stuck");
    fill(&mut publisher, &[0; 10_000]);
    // The publisher is closed without an end of stream, as when its thread panics, so that no
    // acknowledgement is left to wait for.
    let unwinding = AssertUnwindSafe(move || {
        let _held = publisher;
        std::panic::resume_unwind(Box::new("over"));
    });
    assert!(std::panic::catch_unwind(unwinding).is_err());
}
