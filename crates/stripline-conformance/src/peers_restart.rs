//! Section 5: peers that restart.

use std::time::Duration;

use stripline::payload::{Cbor, NoSchema};
use stripline::{Gap, GapReason, Received, StreamInfo};

use crate::puppet::{Puppet, SAMPLES, beside_another, refuses_other_processes};
use crate::refusals::Refusal;
use crate::support::{
    DEADLINE, abstract_names, await_receivers, await_that, domain, expect_end, expect_nothing, join, node,
    pair, refuses_repair, take, take_number, thread_names,
};

pub fn a_restarted_sender_comes_back_with_a_gap(transport: &'static str) {
    if refuses_repair(transport) {
        return;
    }
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    for life in 0..3_u64 {
        let mut sender = Puppet::start(&domain, transport, "");
        sender.order("publish numbers");
        sender.order("receivers 1");
        sender.order("send 5");
        let first = take(&mut subscriber);
        assert_eq!(first.sequence, 0, "a sender counts from 0 again");
        match first.gap {
            None => assert_eq!(life, 0, "a restart is reported"),
            Some(gap) => {
                // The gap starts after the last packet of the previous life. How many packets were
                // never sent is unknown.
                assert_eq!((gap.first, gap.packets, gap.reason), (5, 0, GapReason::PeerRestart));
                assert!(life > 0);
            }
        }
        (1..5).for_each(|sequence| drop(take_number(&mut subscriber, sequence)));
        sender.kill();
        await_that("the death is noticed", || {
            expect_nothing(&mut subscriber);
            subscriber.senders() == 0
        });
    }
    let reports = node.connections();
    assert_eq!(reports.iter().map(|report| report.peer_deaths).sum::<u64>(), 3);
    assert_eq!(reports.iter().map(|report| report.gaps).sum::<u64>(), 2);
    assert_eq!(reports.iter().map(|report| report.packets).sum::<u64>(), 15);
}

pub fn a_sender_restarted_before_its_last_packets_are_read_comes_after_them(transport: &'static str) {
    if refuses_repair(transport) {
        return;
    }
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    for _ in 0..2 {
        let mut sender = Puppet::start(&domain, transport, "");
        sender.order("publish numbers");
        sender.order("receivers 1");
        sender.order("send 5");
        sender.kill();
    }
    (0..5).for_each(|sequence| drop(take_number(&mut subscriber, sequence)));
    let next = take(&mut subscriber);
    assert_eq!((next.sequence, next.gap.map(|gap| gap.reason)), (0, Some(GapReason::PeerRestart)));
    (1..5).for_each(|sequence| drop(take_number(&mut subscriber, sequence)));
}

pub fn a_stream_that_follows_an_ended_one_begins_without_a_gap(transport: &'static str) {
    if refuses_repair(transport) {
        return;
    }
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    for _ in 0..2 {
        let mut sender = Puppet::start(&domain, transport, "");
        sender.order("publish numbers");
        sender.order("receivers 1");
        sender.order("send 5");
        sender.order("finish");
        sender.kill();
    }
    let mut expected = (0..5).chain(0..5).peekable();
    await_that("both streams are received", || {
        // The first stream may end before the receiver has the second connection.
        if let Received::Packet(packet) = subscriber.try_receive().unwrap() {
            assert_eq!((Some(packet.sequence()), packet.gap()), (expected.next(), None));
        }
        expected.peek().is_none()
    });
    expect_end(&mut subscriber);
}

pub fn the_end_comes_after_a_restarted_sender_finishes(transport: &'static str) {
    if refuses_repair(transport) {
        return;
    }
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish numbers");
    sender.order("receivers 1");
    sender.order("send 1");
    sender.kill();
    take_number(&mut subscriber, 0);
    // A dead sender has not ended its stream, so the receiver keeps waiting.
    await_that("the death is noticed", || {
        expect_nothing(&mut subscriber);
        subscriber.senders() == 0
    });
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish numbers");
    sender.order("receivers 1");
    sender.order("send 1");
    sender.order("finish");
    assert_eq!(take(&mut subscriber).sequence, 0);
    expect_end(&mut subscriber);
}

/// Runs a restart: a receiver takes some of 10 packets and is killed, more packets are sent, and
/// the receiver is started again. Returns the number of the first packet that it then gets, and the
/// gap before this packet.
fn restart(transport: &'static str, taken: usize, between: u64) -> Option<(u64, Option<Gap>)> {
    if refuses_other_processes(transport, "a receiver in another process") {
        return None;
    }
    let domain = domain();
    let node = join(&domain, transport, "");
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut receiver = Puppet::start(&domain, transport, "");
    receiver.order("subscribe numbers");
    await_receivers(&mut publisher, 1);
    let mut send = |count: u64| {
        for _ in 0..count {
            publisher.send(&[publisher.sequence(); SAMPLES]).unwrap();
        }
        publisher.receivers()
    };
    send(10);
    receiver.take(taken);
    receiver.kill();
    if between > 0 {
        // The first packets may be written before the death is detected, and are then lost with the
        // receiver.
        await_that("the sender goes on alone", || send(between) == 0);
        send(between);
    }
    let mut receiver = Puppet::start(&domain, transport, "");
    receiver.order("subscribe numbers");
    receiver.order("senders 1");
    if between > 0 {
        await_that("it is back", || send(0) == 1);
    }
    send(5);
    let (first, gap) = receiver.take(1);
    if let Some(gap) = gap {
        assert_eq!(gap.reason, GapReason::PeerRestart);
        assert_eq!(gap.first + gap.packets, first, "up to the first packet that it gets again");
    }
    Some((first, gap))
}

pub fn a_restarted_receiver_gets_a_gap(transport: &'static str) {
    if let Some((first, gap)) = restart(transport, 3, 5) {
        assert!(first >= 15);
        exactly_from(transport, gap, 3);
    }
}

pub fn a_receiver_restarted_before_its_death_is_detected_gets_a_gap(transport: &'static str) {
    if let Some((first, gap)) = restart(transport, 3, 0) {
        assert_eq!(first, 10);
        match Refusal::ExactSuccessor.is_of(transport) {
            // All ten packets had been accepted for the dead receiver.
            true => assert_eq!(gap, None),
            false => exactly_from(transport, gap, 3),
        }
    }
}

pub fn a_restarted_receiver_that_was_up_to_date_gets_a_gap(transport: &'static str) {
    if let Some((first, gap)) = restart(transport, 10, 5) {
        assert!(first >= 15);
        exactly_from(transport, gap, 10);
    }
}

pub fn an_unread_gap_passes_to_the_successor_of_a_receiver(transport: &'static str) {
    if refuses_other_processes(transport, "a receiver in another process") {
        return;
    }
    let domain = domain();
    let node = join(&domain, transport, "");
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut send = |count: u64, receivers: usize| {
        await_receivers(&mut publisher, receivers);
        await_that("departed receivers are detected", || publisher.receivers() == receivers);
        (0..count).for_each(|_| publisher.send(&[publisher.sequence(); SAMPLES]).unwrap());
    };
    let subscribe = || {
        let mut receiver = Puppet::start(&domain, transport, "");
        receiver.order("subscribe numbers");
        receiver
    };
    let mut first = subscribe();
    send(5, 1);
    first.take(3);
    first.kill();
    send(5, 0);
    // The second receiver is attached, and dies with unread packets.
    let second = subscribe();
    send(5, 1);
    second.kill();
    send(5, 0);
    let mut third = subscribe();
    send(5, 1);
    let (number, gap) = third.take(1);
    let gap = gap.expect("its gap is reported");
    assert_eq!((number, gap.first + gap.packets, gap.reason), (20, 20, GapReason::PeerRestart));
    let instead = "what the kernel had accepted for it died with it";
    if Refusal::ExactSuccessor.excludes(transport, "a successor's gap", instead) {
        assert!(gap.first >= 5, "{gap:?}");
    } else {
        assert_eq!(gap.first, 3);
    }
}

pub fn a_receiver_killed_before_the_first_packet_has_a_successor_with_a_gap(transport: &'static str) {
    if refuses_other_processes(transport, "a receiver in another process") {
        return;
    }
    for is_let_in in [true, false] {
        let domain = domain();
        let node = join(&domain, transport, "");
        let mut publisher = node.publisher::<u64>("numbers").unwrap();
        let mut receiver = Puppet::start(&domain, transport, "");
        receiver.order("subscribe numbers");
        receiver.order("senders 1");
        if is_let_in {
            await_receivers(&mut publisher, 1);
        }
        receiver.kill();
        await_that("the sender continues alone", || {
            publisher.send(&[publisher.sequence(); SAMPLES]).unwrap();
            publisher.receivers() == 0
        });
        (0..3).for_each(|_| publisher.send(&[publisher.sequence(); SAMPLES]).unwrap());
        let missed = publisher.sequence();
        let mut receiver = Puppet::start(&domain, transport, "");
        receiver.order("subscribe numbers");
        receiver.order("senders 1");
        await_receivers(&mut publisher, 1);
        publisher.send(&[missed; SAMPLES]).unwrap();
        let (first, gap) = receiver.take(1);
        let gap = gap.unwrap_or_else(|| panic!("packet {first} came without a gap ({is_let_in})"));
        assert_eq!((first, gap.first + gap.packets, gap.reason), (missed, missed, GapReason::PeerRestart));
        // Over a byte stream, the kernel may have accepted the first packets for the dead receiver.
        assert!(gap.first == 0 || Refusal::ExactSuccessor.is_of(transport), "{gap:?}");
    }
}

/// The number of samples in the packet with a given number.
type Lengths = fn(u64) -> usize;

pub fn a_successors_gap_counts_its_samples(transport: &'static str) {
    if refuses_other_processes(transport, "a receiver in another process") {
        return;
    }
    // Over a ring: short headers without a sample index, long headers with one, both, and
    // fragments.
    let cases: [(&str, Lengths); 7] = [
        ("", |_| 3),
        ("", |number| 1 + number as usize * 7 % 100),
        ("", |_| SAMPLES),
        ("", |number| if number % 5 == 4 { SAMPLES } else { 2 }),
        ("buffer = 65_536", |number| if number == 13 { 20 * SAMPLES } else { 5 }),
        ("overflow = 'drop-oldest'", |number| 1 + number as usize % 4),
        ("scope = 'none'", |number| 1 + number as usize % 4),
    ];
    for (rules, length) in cases {
        let domain = domain();
        let node = join(&domain, transport, rules);
        let mut publisher = node.publisher::<u64>("numbers").unwrap();
        let subscribe = || {
            let mut receiver = Puppet::start(&domain, transport, rules);
            receiver.order("subscribe numbers");
            receiver
        };
        let mut receiver = subscribe();
        await_receivers(&mut publisher, 1);
        let mut send = |count: u64| {
            for _ in 0..count {
                publisher.send(&vec![7; length(publisher.sequence())]).unwrap();
            }
            publisher.receivers()
        };
        // The successor dies as well: a second gap begins where the first one has ended.
        for life in 0..2 {
            send(6);
            receiver.take_by("take-any", 3);
            receiver.kill();
            await_that("the sender goes on alone", || send(5) == 0);
            send(5);
            receiver = subscribe();
            receiver.order("senders 1");
            await_that("it is back", || send(0) == 1);
            send(1);
            let (first, gap) = receiver.take_by("take-any", 1);
            let gap = gap.unwrap_or_else(|| panic!("`{rules}`: packet {first} has no gap before it"));
            let missing: usize = (gap.first..first).map(length).sum();
            let found = (gap.first + gap.packets, gap.samples, gap.reason);
            assert_eq!(found, (first, missing as u64, GapReason::PeerRestart), "`{rules}`, life {life}");
        }
    }
}

pub fn a_successors_gap_counts_messages(transport: &'static str) {
    if refuses_other_processes(transport, "a receiver in another process") {
        return;
    }
    let domain = domain();
    let node = join(&domain, transport, "");
    let mut publisher = node.publisher::<Cbor<u64, NoSchema>>("numbers").unwrap();
    let subscribe = || {
        let mut receiver = Puppet::start(&domain, transport, "");
        receiver.order("subscribe-messages numbers");
        receiver
    };
    let mut receiver = subscribe();
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    let mut send = |count: u64| {
        (0..count).for_each(|number| publisher.send(&(number << (8 * number))).unwrap());
        usize::from(publisher.wait_for_receivers(1, Duration::ZERO).unwrap())
    };
    send(6);
    receiver.take_by("take-messages", 3);
    receiver.kill();
    await_that("the sender goes on alone", || send(5) == 0);
    send(5);
    let mut receiver = subscribe();
    await_that("it is back", || send(0) == 1);
    send(1);
    let (first, gap) = receiver.take_by("take-messages", 1);
    let gap = gap.unwrap();
    assert_eq!((gap.first + gap.packets, gap.samples), (first, gap.packets));
}

pub fn a_gap_across_two_streams_has_an_unknown_number_of_samples(transport: &'static str) {
    if refuses_other_processes(transport, "a receiver in another process") {
        return;
    }
    let domain = domain();
    let node = join(&domain, transport, "");
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut receiver = Puppet::start(&domain, transport, "");
    receiver.order("subscribe numbers");
    await_receivers(&mut publisher, 1);
    let mut send = |count: u64| {
        (0..count).for_each(|_| publisher.send(&[7; 5]).unwrap());
        publisher.receivers()
    };
    send(6);
    receiver.take_by("take-any", 3);
    receiver.kill();
    await_that("the sender goes on alone", || send(5) == 0);
    send(5);
    let mut receiver = Puppet::start(&domain, transport, "");
    receiver.order("subscribe numbers");
    await_receivers(&mut publisher, 1);
    publisher.set_stream(StreamInfo::new("another"));
    (0..2).for_each(|_| publisher.send(&[7; 5]).unwrap());
    let (first, gap) = receiver.take_by("take-any", 1);
    let gap = gap.unwrap();
    assert!(gap.packets > 0);
    assert_eq!((gap.first + gap.packets, gap.samples), (first, 0));
    assert_eq!(receiver.take_by("take-any", 1), (first + 1, None));
}

/// Checks that the gap starts with the first packet that the dead receiver had not taken. Over a
/// byte stream, the sender cannot determine that packet. There the gap starts with the first packet
/// that the kernel had not accepted, and includes at least the five packets sent after it.
fn exactly_from(transport: &str, gap: Option<Gap>, taken: u64) {
    let gap = gap.expect("its gap is reported");
    let instead = "the gap starts with the first packet that the kernel had not accepted for it";
    if Refusal::ExactSuccessor.excludes(transport, "a successor's gap", instead) {
        assert!(gap.first >= 10 && gap.packets >= 5, "{gap:?}");
    } else {
        assert_eq!(gap.first, taken);
    }
}

pub fn no_descriptor_or_thread_is_left_behind(transport: &'static str) {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    // The threads of zenoh belong to the process, and continue with it.
    let is_of_library = |name: &String| {
        transport == "zenoh" && ["app-", "acc-", "tx-", "rx-", "net-"].iter().any(|it| name.starts_with(it))
    };
    let count = || thread_names().iter().filter(|name| !is_of_library(name)).count();
    if transport == "zenoh" {
        let node = node(transport, "");
        let (mut publisher, _subscriber) = pair::<u64>(&node, "first");
        await_receivers(&mut publisher, 1);
    }
    // A process keeps its ORB, which closes ended connections on separate threads.
    let is_kept = transport == "corba";
    if is_kept {
        pair::<u64>(&node(transport, ""), "used");
    }
    let (descriptors, threads) = (open(), count());
    for rules in ["", "scope = \"none\"", "overflow = \"drop-oldest\"", "overflow = \"eject\"\ndepth = 1"] {
        let node = node(transport, rules);
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "used");
        let gone = node.subscriber::<u64>("used").unwrap();
        await_receivers(&mut publisher, 2);
        drop(gone);
        publisher.send(&[1]).unwrap();
        take(&mut subscriber);
        publisher.finish().unwrap();
        expect_end(&mut subscriber);
    }
    // A thread of zenoh may be counted before it has a name, and a descriptor before it is closed.
    let may_be_fewer = is_kept || transport == "zenoh";
    let is_as_before = |now: usize, then| if may_be_fewer { now <= then } else { now == then };
    await_that("the threads are gone", || is_as_before(count(), threads));
    // The list of threads may be incomplete while another thread ends.
    await_that("its descriptors are closed", || is_as_before(open(), descriptors));
    let prefix = format!("conformance-{}-", std::process::id());
    let ours = abstract_names().into_iter().find(|name| name.contains(&prefix));
    assert_eq!(ours, None);
}

pub fn a_receiver_that_left_has_no_successor(transport: &'static str) {
    for rules in ["", "overflow = 'drop-oldest'", "scope = 'server'", "scope = 'none'"] {
        let node = node(transport, rules);
        let (mut publisher, mut first) = pair::<u64>(&node, "visited");
        publisher.send(&[0]).unwrap();
        take_number(&mut first, 0);
        // Packets that the first receiver leaves unread are not a loss of the successor.
        publisher.send(&[1]).unwrap();
        drop(first);
        if rules.is_empty() {
            await_that("it is gone", || publisher.receivers() == 0);
        }
        (2..5).for_each(|number| drop(publisher.send(&[number])));
        let mut second = node.subscriber::<u64>("visited").unwrap();
        await_receivers(&mut publisher, 1);
        await_that("only the second is there", || publisher.receivers() == 1);
        publisher.send(&[5]).unwrap();
        // Under `none`, packets may wait in the sender's own queue until the second receiver
        // connects, which then gets them.
        let first = take(&mut second);
        assert!(
            first.gap.is_none() && (first.sequence == 5 || rules == "scope = 'none'"),
            "{rules}: {first:?}"
        );
        (first.sequence..5).for_each(|number| drop(take_number(&mut second, number + 1)));
        publisher.finish().unwrap();
        expect_end(&mut second);
        let lost: u64 = node.connections().iter().map(|report| report.lost + report.gaps).sum();
        assert_eq!(lost, 0, "{rules}");
    }
}

pub fn a_receiver_that_left_before_it_received_has_no_successor(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, first) = pair::<u64>(&node, "visited");
    publisher.send(&[0]).unwrap();
    drop(first);
    await_that("it is gone", || publisher.receivers() == 0);
    publisher.send(&[1]).unwrap();
    let mut second = node.subscriber::<u64>("visited").unwrap();
    await_receivers(&mut publisher, 1);
    publisher.send(&[2]).unwrap();
    take_number(&mut second, 2);
}
