//! Section 4: the policies that lose packets. Each rule runs in a separate process, so that the
//! thread that fills a lossy receiver's queue is the only thread with that name. The end of the
//! thread shows that the policy has acted.

use stripline::node::wait_any;
use stripline::{Error, Gap, GapReason, Received};

use crate::support::{
    DEADLINE, await_asleep, await_receivers, await_that, domain, expect_end, join, node, pair, state, take,
    take_number, threads_named,
};

const PACKETS: u64 = 100;
const DEPTH: u64 = 8;
const SAMPLES: u64 = 3;

/// The thread that fills the receive queue. The thread is found once by name, and then by number,
/// because a list of threads may be incomplete while another thread ends.
struct Pump(i32);

impl Pump {
    /// Waits until the thread runs under the name, before any packet that would end it is sent.
    fn started() -> Self {
        let mut found = None;
        await_that("the start of the pump", || {
            found = threads_named(&["stripline-pump"]).first().copied();
            found.is_some()
        });
        Self(found.unwrap())
    }

    /// Waits until the thread has taken the sent packets, before the ten messages of a queue are
    /// full. A packet that finds no room in the message queue would be lost under every policy that
    /// drops.
    fn keep_up(&self, transport: &str, number: u64) {
        if transport == "mqueue" && number.is_multiple_of(5) {
            await_asleep(std::process::id(), self.0);
        }
    }

    /// Waits until all sent packets have passed the receiver's policy.
    fn ended(self) {
        let stat = format!("/proc/self/task/{}/stat", self.0);
        await_that("the end of the pump", || state(stat.as_ref()).is_none());
    }
}

pub fn drop_oldest_keeps_the_newest(transport: &'static str) {
    let node = node(transport, &format!("overflow = \"drop-oldest\"\ndepth = {DEPTH}"));
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "lossy");
    let pump = Pump::started();
    for i in 0..PACKETS {
        publisher.send(&[i; SAMPLES as usize]).unwrap();
        pump.keep_up(transport, i);
    }
    publisher.finish_within(DEADLINE).unwrap();
    pump.ended();
    let lost = PACKETS - DEPTH;
    for sequence in lost..PACKETS {
        let parcel = take(&mut subscriber);
        // No packet was received before, so only the number, which starts at 0, shows the loss.
        assert_eq!((parcel.sequence, parcel.samples), (sequence, vec![sequence; SAMPLES as usize]));
        let gap = Gap { first: 0, packets: lost, samples: lost * SAMPLES, reason: GapReason::Overflow };
        assert_eq!(parcel.gap, (sequence == lost).then_some(gap));
    }
    expect_end(&mut subscriber);
    assert_eq!(subscriber.gap_at_end(), None);
    let report = &node.connections()[0];
    assert_eq!((report.packets, report.lost, report.gaps), (DEPTH, lost, 1));
    assert_eq!((report.lost_samples, report.peer_deaths), (lost * SAMPLES, 0));
}

pub fn drop_newest_keeps_the_oldest(transport: &'static str) {
    let node = node(transport, &format!("overflow = \"drop-newest\"\ndepth = {DEPTH}"));
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "lossy");
    let pump = Pump::started();
    for i in 0..PACKETS {
        publisher.send(&[i; SAMPLES as usize]).unwrap();
        pump.keep_up(transport, i);
    }
    publisher.finish_within(DEADLINE).unwrap();
    pump.ended();
    for sequence in 0..DEPTH {
        take_number(&mut subscriber, sequence);
    }
    expect_end(&mut subscriber);
    let lost = PACKETS - DEPTH;
    let gap = Gap { first: DEPTH, packets: lost, samples: lost * SAMPLES, reason: GapReason::Overflow };
    assert_eq!(subscriber.gap_at_end(), Some(gap));
    assert_eq!(subscriber.gap_at_end(), None, "reported once");
    let report = &node.connections()[0];
    assert_eq!((report.packets, report.lost, report.gaps), (DEPTH, lost, 1));
}

pub fn eject_notifies_the_receiver_and_harms_no_other(transport: &'static str) {
    let domain = domain();
    // This receiver has no pump.
    let node = join(&domain, transport, "flow = \"transport\"");
    let (mut publisher, mut blocking) = pair::<u64>(&node, "strict");
    let elsewhere = join(&domain, transport, &format!("overflow = \"eject\"\ndepth = {DEPTH}"));
    let mut strict = elsewhere.subscriber::<u64>("strict").unwrap();
    await_receivers(&mut publisher, 2);
    let pump = Pump::started();
    for i in 0..PACKETS {
        publisher.send(&[i]).unwrap();
        take_number(&mut blocking, i);
    }
    pump.ended();
    // The packets that fitted can be taken, followed by the reason for the end.
    for sequence in 0..DEPTH {
        take_number(&mut strict, sequence);
    }
    let error = strict.receive_timeout(DEADLINE).unwrap_err();
    let text = error.to_string();
    let Error::Ejected { connection, depth } = error else { panic!("{text}") };
    assert_eq!(u64::from(depth), DEPTH);
    assert!(connection.contains("strict") && text.contains(&connection), "{text}");
    assert!(matches!(strict.try_receive().unwrap(), Received::Ended), "reported once");
    await_that("the sender has noticed", || {
        publisher.send(&[0]).unwrap();
        take_number(&mut blocking, publisher.sequence() - 1);
        publisher.receivers() == 1
    });
    publisher.finish_within(DEADLINE).unwrap();
    expect_end(&mut blocking);
    assert_eq!(elsewhere.connections()[0].peer_deaths, 0, "the sender is alive");
}

pub fn a_flood_of_large_packets_is_counted_to_the_last(transport: &'static str) {
    for policy in ["drop-oldest", "drop-newest"] {
        let node = node(transport, &format!("overflow = \"{policy}\"\ndepth = 4"));
        let (mut publisher, mut subscriber) = pair::<u8>(&node, "flood");
        for i in 0..300_u64 {
            // The flood has several streams, and no stream's description may be lost.
            if i % 60 == 0 {
                publisher.set_stream(stripline::StreamInfo::new(&format!("part-{}", i / 60)));
            }
            publisher.send(&vec![i as u8; 100_000]).unwrap();
        }
        publisher.finish_within(DEADLINE).unwrap();
        let (mut received, mut next) = (0, 0);
        loop {
            match subscriber.receive_timeout(DEADLINE).unwrap() {
                Received::Packet(packet) => {
                    next += packet.gap().map_or(0, |gap| gap.packets);
                    assert_eq!(packet.sequence(), next);
                    assert_eq!(packet.stream().id, format!("part-{}", next / 60));
                    next += 1;
                    received += 1;
                }
                Received::Ended => break,
                Received::Empty => panic!("no end of stream"),
            }
        }
        next += subscriber.gap_at_end().map_or(0, |gap| gap.packets);
        assert_eq!(next, 300, "everything is either received or reported");
        let report = &node.connections()[0];
        assert_eq!((report.packets, report.packets + report.lost), (received, 300));
    }
}

pub fn wait_any_does_not_swallow_an_ejection(transport: &'static str) {
    let node = node(transport, "overflow = \"eject\"\ndepth = 1");
    let (mut publisher, mut strict) = pair::<u64>(&node, "strict");
    let pump = Pump::started();
    for i in 0..10 {
        publisher.send(&[i]).unwrap();
    }
    pump.ended();
    take_number(&mut strict, 0);
    assert_eq!(wait_any(&mut [&mut strict], Some(DEADLINE)).unwrap(), [0]);
    assert!(matches!(strict.receive_timeout(DEADLINE), Err(Error::Ejected { .. })));
}
