//! Section 7: the counters of every connection.

use std::time::{SystemTime, UNIX_EPOCH};

use stripline::inspect::AgeReport;
use stripline::node::{Node, Publisher, Subscriber};
use stripline::{ClockReference, Received, StreamClock, StreamInfo};

use crate::support::{
    DEADLINE, Dice, await_receivers, await_senders, expect_end, node, pair, take, take_number,
};

pub fn packets_and_bytes_are_exact(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u32>(&node, "counted");
    let (mut rng, mut bytes) = (Dice::new(3), 0);
    for sequence in 0..300 {
        let samples = rng.below(2000);
        publisher.send(&vec![0; samples]).unwrap();
        bytes += 4 * samples as u64;
        take_number(&mut subscriber, sequence);
        let report = &node.connections()[0];
        assert_eq!((report.packets, report.bytes), (sequence + 1, bytes));
    }
    publisher.finish().unwrap();
    expect_end(&mut subscriber);
    let report = &node.connections()[0];
    assert_eq!((report.packets, report.bytes), (300, bytes));
    assert_eq!((report.lost, report.lost_samples, report.gaps), (0, 0, 0));
    assert_eq!((report.reordered, report.peer_deaths), (0, 0));
}

pub fn losses_add_up(transport: &'static str) {
    const PACKETS: u64 = 1000;
    for policy in ["drop-oldest", "drop-newest"] {
        let node = node(transport, &format!("overflow = \"{policy}\"\ndepth = 3"));
        let (mut publisher, mut subscriber) = pair::<u16>(&node, "counted");
        let (mut rng, mut all_samples) = (Dice::new(5), 0);
        let sizes: Vec<usize> = (0..PACKETS).map(|_| rng.below(50)).collect();
        for samples in &sizes {
            publisher.send(&vec![1; *samples]).unwrap();
            all_samples += *samples as u64;
        }
        publisher.finish().unwrap();
        let (mut packets, mut samples, mut gaps, mut lost) = (0, 0, 0, 0);
        let mut count_gap = |gap: Option<stripline::Gap>| {
            gaps += u64::from(gap.is_some());
            lost += gap.map_or(0, |gap| gap.packets);
        };
        while let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() {
            assert_eq!(packet.len(), sizes[packet.sequence() as usize]);
            packets += 1;
            samples += packet.len() as u64;
            count_gap(packet.gap().copied());
        }
        expect_end(&mut subscriber);
        count_gap(subscriber.gap_at_end());
        let report = &node.connections()[0];
        assert_eq!((report.packets, report.bytes, report.gaps), (packets, 2 * samples, gaps));
        assert_eq!((report.lost, report.lost_samples), (PACKETS - packets, all_samples - samples));
        assert_eq!(report.lost, lost);
    }
}

pub fn every_connection_is_counted_by_itself(transport: &'static str) {
    let node = node(transport, "");
    let (mut first, mut subscriber) = pair::<u8>(&node, "counted");
    let mut second = node.publisher::<u8>("counted").unwrap();
    await_receivers(&mut second, 1);
    await_senders(&mut subscriber, 2);
    (0..10).for_each(|_| first.send(&[1]).unwrap());
    (0..3).for_each(|_| second.send(&[2, 2]).unwrap());
    let mut of_second = String::new();
    for _ in 0..13 {
        let parcel = take(&mut subscriber);
        if parcel.samples[0] == 2 {
            of_second = parcel.connection;
        }
    }
    for report in node.connections() {
        let expected = if report.connection == of_second { (3, 6) } else { (10, 10) };
        assert_eq!((report.packets, report.bytes), expected, "{}", report.connection);
    }
    assert_eq!(node.connections().len(), 2);
}

pub fn connections_that_have_ended_are_summed_up(transport: &'static str) {
    const SENDERS: usize = Node::ENDED_MAX + 20;
    let node = node(transport, "buffer = 4096");
    let mut subscriber = node.subscriber::<u64>("visited").unwrap();
    for number in 0..SENDERS as u64 {
        let mut publisher = node.publisher::<u64>("visited").unwrap();
        await_receivers(&mut publisher, 1);
        publisher.send(&[number]).unwrap();
        assert_eq!(take_number(&mut subscriber, 0).samples, [number]);
        publisher.finish().unwrap();
        expect_end(&mut subscriber);
    }
    let (unlisted, sums) = node.ended_connection_totals();
    let listed = node.connections();
    // The last connection, and the connection that it replaced, were still held at the last cleanup
    // of the connection log.
    assert!(unlisted > 0 && listed.len() <= Node::ENDED_MAX + 2, "{unlisted}, {}", listed.len());
    assert_eq!(unlisted as usize + listed.len(), SENDERS);
    let packets: u64 = listed.iter().map(|report| report.packets).sum();
    assert_eq!((packets + sums.packets, sums.bytes), (SENDERS as u64, 8 * unlisted));
}

/// Sends a packet with a time, and returns the ages after it was taken.
fn age_behind(
    node: &Node,
    publisher: &mut Publisher<u8>,
    subscriber: &mut Subscriber<u8>,
    time_ns: i64,
) -> Option<AgeReport> {
    publisher.loan(1).unwrap().at_time_ns(time_ns).send().unwrap();
    take(subscriber);
    node.connections()[0].age
}

pub fn packets_with_a_time_have_an_age(transport: &'static str) {
    const HOUR_NS: i64 = 3_600_000_000_000;
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u8>(&node, "aged");
    let clock = StreamClock::new(ClockReference::Gps).error_ns(100);
    publisher.set_stream(StreamInfo::new("antenna").clock(clock));
    let mut age = |time_ns| age_behind(&node, &mut publisher, &mut subscriber, time_ns);
    for _ in 0..300 {
        assert_eq!(age(0), None, "a packet without a time");
    }
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    // Only packets with a measured latency are measured.
    let old = std::iter::repeat_with(|| age(now_ns - HOUR_NS)).flatten().next().unwrap();
    assert_eq!((old.samples, old.clock, old.error().as_deref()), (1, Some(clock), Some("100 ns")));
    assert!(old.last_ns >= HOUR_NS && old.max_ns == old.last_ns, "{old:?}");
    let ahead =
        std::iter::repeat_with(|| age(now_ns + HOUR_NS).unwrap()).find(|age| age.samples > 1).unwrap();
    assert!(ahead.last_ns < 0 && ahead.max_ns == old.max_ns, "a time in the future: {ahead:?}");
    for _ in 0..300 {
        assert_eq!(age(0).unwrap(), ahead, "a packet without a time");
    }
}
