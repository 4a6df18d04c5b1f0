//! Section 4: slow receivers that make the sender wait, and receivers beside them that lose
//! packets.

use std::sync::mpsc;

use stripline::{Error, GapReason, Received};

use crate::support::{
    DEADLINE, await_asleep, await_receivers, domain, expect_end, expect_nothing, fill, join, node, pair,
    take_number,
};

/// A packet size that is large enough to fill the kernel's buffers soon, and small enough for a
/// small ring.
const BYTES: usize = 16_000;

pub fn block_loses_nothing(transport: &'static str) {
    const PACKETS: u64 = 500;
    let node = node(transport, "depth = 2\nbuffer = 65536");
    let (mut publisher, mut subscriber) = pair::<u8>(&node, "slow");
    let sender = std::thread::spawn(move || {
        for i in 0..PACKETS {
            publisher.send(&vec![i as u8; BYTES]).unwrap();
        }
        publisher.finish_within(DEADLINE).unwrap();
    });
    for sequence in 0..PACKETS {
        // The receiver is slow, so the sender gets as far ahead as it can.
        std::thread::yield_now();
        assert_eq!(take_number(&mut subscriber, sequence).samples, [sequence as u8; BYTES]);
    }
    expect_end(&mut subscriber);
    sender.join().unwrap();
}

pub fn try_send_reports_full_and_names_the_connection(transport: &'static str) {
    let node = node(transport, "depth = 8\nflow = \"transport\"");
    let (mut publisher, mut subscriber) = pair::<u8>(&node, "full");
    // A message queue counts messages. Each of these packets takes two messages.
    let bytes = if transport == "mqueue" { BYTES / 2 } else { BYTES };
    let (sent, connection) = fill(&mut publisher, &vec![0; bytes]);
    assert!(sent >= 8, "{sent} packets only");
    // A full queue stays full, also for a loan, and no attempt uses up a number.
    assert!(matches!(publisher.try_send(&[1]), Err(Error::Full { .. })));
    assert!(matches!(publisher.try_loan(1).map(drop), Err(Error::Full { .. })));
    assert_eq!(publisher.sequence(), sent);
    for sequence in 0..sent {
        assert_eq!(take_number(&mut subscriber, sequence).connection, connection);
    }
    expect_nothing(&mut subscriber);
    publisher.send(&[2]).unwrap();
    take_number(&mut subscriber, sent);
}

pub fn try_send_is_all_or_nothing(transport: &'static str) {
    let node = node(transport, "depth = 8");
    let (mut publisher, mut reads_later) = pair::<u8>(&node, "both");
    let mut reads = node.subscriber::<u8>("both").unwrap();
    await_receivers(&mut publisher, 2);
    let mut sent = 0;
    loop {
        match publisher.try_send(&[0; BYTES]) {
            Ok(()) => drop(take_number(&mut reads, sent)),
            Err(Error::Full { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        sent += 1;
        assert!(sent < 1_000_000, "never full");
    }
    for _ in 0..10 {
        assert!(matches!(publisher.try_send(&[1]), Err(Error::Full { .. })));
    }
    expect_nothing(&mut reads);
    for sequence in 0..sent {
        take_number(&mut reads_later, sequence);
    }
    expect_nothing(&mut reads_later);
    publisher.send(&[2]).unwrap();
    assert_eq!(take_number(&mut reads, sent).samples, [2]);
    assert_eq!(take_number(&mut reads_later, sent).samples, [2]);
}

pub fn a_blocked_sender_resumes(transport: &'static str) {
    let node = node(transport, "depth = 8");
    let (mut publisher, mut subscriber) = pair::<u8>(&node, "resumes");
    let (sent, _) = fill(&mut publisher, &[0; BYTES]);
    let (tell, thread) = mpsc::channel();
    let sender = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        for _ in 0..20 {
            publisher.send(&[1; BYTES]).unwrap();
        }
        publisher.finish_within(DEADLINE).unwrap();
    });
    await_asleep(std::process::id(), thread.recv().unwrap());
    for sequence in 0..sent + 20 {
        take_number(&mut subscriber, sequence);
    }
    expect_end(&mut subscriber);
    sender.join().unwrap();
}

pub fn depth_one_lets_one_packet_wait(transport: &'static str) {
    let node = node(transport, "depth = 1");
    let (mut publisher, mut subscriber) = pair::<u8>(&node, "one");
    for sequence in 0..10 {
        publisher.try_send(&[5]).unwrap();
        take_number(&mut subscriber, sequence);
    }
}

pub fn a_slow_lossy_receiver_does_not_slow_its_sibling(transport: &'static str) {
    const PACKETS: u64 = 3000;
    let domain = domain();
    let node = join(&domain, transport, "");
    let (mut publisher, mut blocking) = pair::<u8>(&node, "shared");
    for policy in ["drop-oldest", "drop-newest"] {
        let start = publisher.sequence();
        let elsewhere = join(&domain, transport, &format!("overflow = \"{policy}\"\ndepth = 4"));
        let mut lossy = elsewhere.subscriber::<u8>("shared").unwrap();
        await_receivers(&mut publisher, 2);
        let sender = std::thread::spawn(move || {
            for _ in 0..PACKETS {
                publisher.send(&[0; 4000]).unwrap();
            }
            publisher
        });
        for sequence in start..start + PACKETS {
            take_number(&mut blocking, sequence);
        }
        publisher = sender.join().unwrap();
        // The receiver has the packets that the policy left, in order, with every loss in its
        // place.
        let mut next = start;
        while let Received::Packet(packet) = lossy.try_receive().unwrap() {
            if let Some(gap) = packet.gap() {
                // The gap may come from the receiver that this receiver has replaced.
                assert!(gap.first == next || gap.reason == GapReason::PeerRestart, "{gap:?} at {next}");
                next = gap.first + gap.packets;
            }
            assert_eq!(packet.sequence(), next);
            next += 1;
        }
        assert!(next <= start + PACKETS);
        drop(lossy);
        crate::support::await_that("the lossy receiver is gone", || {
            publisher.send(&[9]).unwrap();
            take_number(&mut blocking, publisher.sequence() - 1);
            publisher.receivers() == 1
        });
    }
    publisher.finish_within(DEADLINE).unwrap();
    assert!(matches!(blocking.receive_timeout(DEADLINE).unwrap(), Received::Ended));
}
