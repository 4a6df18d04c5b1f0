//! Section 1, for packets larger than a frame: they are fragmented, which components do not see.

use std::sync::mpsc;
use std::time::Duration;

use stripline::node::{Subscriber, wait_any};
use stripline::payload::{Cbor, NoSchema};
use stripline::{Error, Gap, GapReason, Received, StreamInfo};

use crate::puppet::{Puppet, beside_another};
use crate::support::{
    DEADLINE, Dice, await_all_asleep, await_asleep, await_receivers, await_that, domain, expect_end,
    expect_nothing, is_stream, join, node, pair, take, take_number,
};

/// Builds samples that identify their packet and their position in it.
fn samples(sequence: u64, count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) ^ sequence as u32).collect()
}

fn take_whole(subscriber: &mut Subscriber<u32>, sequence: u64, count: usize) {
    let parcel = take_number(subscriber, sequence);
    assert!(parcel.samples == samples(sequence, count), "packet {sequence} is not what was sent");
}

pub fn large_packets_travel_whole_among_small_ones(transport: &'static str) {
    const PACKETS: u64 = 120;
    let node = node(transport, "buffer = 65536");
    let (mut publisher, mut subscriber) = pair::<u32>(&node, "large");
    let at_once = publisher.in_place_samples_max();
    let size = move |sequence: u64| match sequence % 10 {
        0 => 0,
        1 => at_once,
        2 => at_once + 1,
        3 => 65_536,
        4 => Dice::new(sequence).below(200_000),
        _ => Dice::new(sequence).below(500),
    };
    let sender = std::thread::spawn(move || {
        for sequence in 0..PACKETS {
            if sequence % 16 == 0 {
                publisher.set_stream(StreamInfo::new(&format!("part-{}", sequence / 16)));
            }
            let mut loan = publisher.loan(size(sequence) + 7).unwrap();
            loan.truncate(size(sequence));
            loan.copy_from_slice(&samples(sequence, size(sequence)));
            loan.at_sample(1000 * sequence).at_time_ns(sequence as i64).send().unwrap();
        }
        publisher.finish_within(DEADLINE).unwrap();
    });
    let mut bytes = 0;
    for sequence in 0..PACKETS {
        let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() else {
            panic!("nothing")
        };
        assert!(*packet == samples(sequence, size(sequence)), "packet {sequence}");
        assert_eq!((packet.sequence(), packet.gap()), (sequence, None));
        assert_eq!((packet.sample_index(), packet.time_ns()), (1000 * sequence, sequence as i64));
        assert_eq!(packet.stream().id, format!("part-{}", sequence / 16));
        bytes += size_of_val(&*packet) as u64;
        drop(packet);
        let report = &node.connections()[0];
        assert_eq!((report.packets, report.bytes), (sequence + 1, bytes), "counted as whole packets");
    }
    expect_end(&mut subscriber);
    assert_eq!(node.connections()[0].lost, 0);
    sender.join().unwrap();
}

pub fn the_smallest_ring_carries_the_largest_packets(transport: &'static str) {
    let node = node(transport, "buffer = 4096\ndepth = 1");
    let (mut publisher, mut subscriber) = pair::<u32>(&node, "large");
    let sender = std::thread::spawn(move || {
        for sequence in 0..3 {
            publisher.send(&samples(sequence, 262_144)).unwrap();
        }
        publisher.finish_within(DEADLINE).unwrap();
    });
    for sequence in 0..3 {
        take_whole(&mut subscriber, sequence, 262_144);
    }
    expect_end(&mut subscriber);
    sender.join().unwrap();
}

pub fn messages_may_be_large(transport: &'static str) {
    let node = node(transport, "buffer = 4096");
    let mut publisher = node.publisher::<Cbor<String, NoSchema>>("text").unwrap();
    let mut subscriber = node.subscriber::<Cbor<String, NoSchema>>("text").unwrap();
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    let text = "all work and no play ".repeat(5000);
    let sent = text.clone();
    let sender = std::thread::spawn(move || publisher.send(&sent).unwrap());
    assert_eq!(subscriber.receive_timeout(DEADLINE).unwrap().packet().unwrap().decode().unwrap(), text);
    sender.join().unwrap();
}

pub fn try_send_refuses_a_packet_that_needs_fragments(transport: &'static str) {
    let node = node(transport, "buffer = 16384");
    let (mut publisher, mut subscriber) = pair::<u32>(&node, "large");
    let at_once = publisher.in_place_samples_max();
    publisher.try_send(&samples(0, at_once)).unwrap();
    let error = publisher.try_send(&samples(1, at_once + 1)).unwrap_err();
    let text = error.to_string();
    let Error::TooLarge { bytes, bytes_max } = error else { panic!("{text}") };
    assert_eq!((bytes, bytes_max / 4), (4 * (at_once + 1), at_once));
    assert!(text.contains("`send`") && text.contains(&bytes.to_string()), "{text}");
    // These loans are for fragments, and are then truncated to one frame, or not sent at all.
    drop(publisher.loan(100_000).unwrap());
    take_whole(&mut subscriber, 0, at_once);
    let mut loan = publisher.loan(100_000).unwrap();
    loan.truncate(10);
    loan.copy_from_slice(&samples(1, 10));
    loan.send().unwrap();
    take_whole(&mut subscriber, 1, 10);
    let too_many = publisher.samples_max() + 1;
    let error = publisher.loan(too_many).map(drop).unwrap_err();
    assert!(error.to_string().contains(&(4 * too_many).to_string()), "{error}");
    assert_eq!(publisher.sequence(), 2);
}

pub fn large_packets_are_forwarded(transport: &'static str) {
    let node = node(transport, "buffer = 65536");
    let (mut publisher, mut middle) = pair::<u32>(&node, "first");
    let (mut forward, mut subscriber) = pair::<u32>(&node, "second");
    let sender = std::thread::spawn(move || {
        publisher.set_stream(StreamInfo::new("recording").sample_rate_hz(2e6));
        publisher.loan(100_000).unwrap().at_sample(77).at_time_ns(5).send().unwrap();
    });
    let forwarder = std::thread::spawn(move || {
        let Received::Packet(packet) = middle.receive_timeout(DEADLINE).unwrap() else { panic!("nothing") };
        let mut loan = forward.loan(packet.len()).unwrap();
        loan.copy_from_slice(&packet);
        loan.send_like(&packet).unwrap();
    });
    let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() else { panic!("nothing") };
    assert_eq!((packet.len(), packet.sample_index(), packet.time_ns()), (100_000, 77, 5));
    assert_eq!((&*packet.stream().id, packet.stream().sample_rate_hz), ("recording", Some(2e6)));
    drop(packet);
    sender.join().unwrap();
    forwarder.join().unwrap();
}

pub fn wait_any_waits_for_the_whole_packet(transport: &'static str) {
    let node = node(transport, "buffer = 4096");
    let (mut publisher, mut subscriber) = pair::<u32>(&node, "large");
    let sender = std::thread::spawn(move || {
        for sequence in 0..5 {
            publisher.send(&samples(sequence, 50_000)).unwrap();
        }
        publisher.finish_within(DEADLINE).unwrap();
    });
    for sequence in 0..5 {
        assert_eq!(wait_any(&mut [&mut subscriber], Some(DEADLINE)).unwrap(), [0]);
        let Received::Packet(packet) = subscriber.try_receive().unwrap() else { panic!("announced") };
        assert!(packet.sequence() == sequence && *packet == samples(sequence, 50_000));
    }
    expect_end(&mut subscriber);
    sender.join().unwrap();
}

pub fn every_policy_takes_large_packets(transport: &'static str) {
    for policy in ["block", "drop-oldest", "drop-newest", "eject"] {
        // The packets are sent one at a time, so that no policy has to act. A whole packet fits
        // into the ring. On a socket, the sender may not have read yet that the previous packet was
        // taken completely. A policy may then act after all.
        let may_lose = is_stream(transport) && policy != "block";
        let timeout = if may_lose { Duration::from_secs(1) } else { DEADLINE };
        let node = node(transport, &format!("overflow = \"{policy}\"\nbuffer = 1048576\ndepth = 2"));
        let (mut publisher, mut subscriber) = pair::<u32>(&node, "large");
        let (go, gone) = mpsc::channel();
        let sender = std::thread::spawn(move || {
            while gone.recv().is_ok() {
                publisher.send(&samples(publisher.sequence(), 150_000)).unwrap();
            }
            publisher.finish_within(DEADLINE).unwrap();
        });
        let mut taken = 0;
        while taken < 10 {
            go.send(()).unwrap();
            match subscriber.receive_timeout(timeout) {
                Ok(Received::Packet(packet)) => {
                    assert!(*packet == samples(packet.sequence(), 150_000), "packet {}", packet.sequence());
                    assert!(packet.gap().is_none() || may_lose);
                    taken += 1;
                }
                Ok(Received::Empty) if may_lose => {}
                Err(Error::Ejected { .. }) if may_lose && policy == "eject" => break,
                other => panic!("{policy}: {other:?}"),
            }
        }
        drop(go);
        loop {
            match subscriber.receive_timeout(DEADLINE) {
                // This packet arrived after the timeout.
                Ok(Received::Packet(_)) if may_lose => taken += 1,
                Err(Error::Ejected { .. }) if may_lose && policy == "eject" => {}
                Ok(Received::Ended) => break,
                other => panic!("{policy}: {other:?}"),
            }
        }
        assert_eq!(node.connections()[0].packets, taken);
        sender.join().unwrap();
    }
}

pub fn a_flood_of_packets_larger_than_the_ring_is_counted_to_the_last(transport: &'static str) {
    const PACKETS: u64 = 60;
    for policy in ["drop-oldest", "drop-newest"] {
        let node = node(transport, &format!("overflow = \"{policy}\"\nbuffer = 65536\ndepth = 3"));
        let (mut publisher, mut subscriber) = pair::<u32>(&node, "flood");
        let size = |sequence: u64| if sequence.is_multiple_of(3) { 100 } else { 40_000 };
        for sequence in 0..PACKETS {
            publisher.send(&samples(sequence, size(sequence))).unwrap();
        }
        publisher.finish_within(DEADLINE).unwrap();
        let (mut received, mut next) = (0, 0);
        while let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() {
            next += packet.gap().map_or(0, |gap| gap.packets);
            assert_eq!(packet.sequence(), next);
            assert!(*packet == samples(next, size(next)), "packet {next} came, but not as sent");
            next += 1;
            received += 1;
        }
        expect_end(&mut subscriber);
        next += subscriber.gap_at_end().map_or(0, |gap| gap.packets);
        assert_eq!(next, PACKETS, "everything is either received or reported");
        let report = &node.connections()[0];
        assert_eq!((report.packets, report.packets + report.lost), (received, PACKETS));
    }
}

pub fn none_queues_large_packets_whole(transport: &'static str) {
    let node = node(transport, "scope = \"none\"\nbuffer = 65536\ndepth = 8");
    let (mut publisher, mut first) = pair::<u32>(&node, "large");
    let sender = std::thread::spawn(move || {
        (0..4).for_each(|sequence| publisher.send(&samples(sequence, 100_000)).unwrap());
        publisher
    });
    if is_stream(transport) {
        // The send returns although no receiver reads. On memory the ring is the queue, and cannot
        // hold such a packet.
        await_that("all is queued", || sender.is_finished());
    }
    // The subscriber connects during a packet, or before it.
    let mut second = node.subscriber::<u32>("large").unwrap();
    let reader = std::thread::spawn(move || {
        (0..5).for_each(|sequence| take_whole(&mut first, sequence, 100_000));
        expect_end(&mut first);
    });
    let late = std::thread::spawn(move || {
        loop {
            let parcel = take(&mut second);
            assert!(parcel.samples == samples(parcel.sequence, 100_000));
            if parcel.sequence == 4 {
                return expect_end(&mut second);
            }
        }
    });
    let mut publisher = sender.join().unwrap();
    await_receivers(&mut publisher, 2);
    publisher.send(&samples(4, 100_000)).unwrap();
    publisher.finish_within(DEADLINE).unwrap();
    reader.join().unwrap();
    late.join().unwrap();
}

/// More bytes than any ring or socket holds in this test.
const ENDLESS: usize = 64 << 20;

pub fn a_packet_given_up_is_reported_as_lost(transport: &'static str) {
    let domain = domain();
    let node = join(&domain, transport, "buffer = 65536");
    let stopped = join(&domain, transport, "buffer = 65536");
    let mut publisher = stopped.publisher::<u8>("large").unwrap();
    let mut subscriber = node.subscriber::<u8>("large").unwrap();
    await_receivers(&mut publisher, 1);
    let (tell, thread) = mpsc::channel();
    let sender = std::thread::spawn(move || {
        let endless = vec![0; ENDLESS];
        publisher.send(&[1, 2, 3]).unwrap();
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        assert!(matches!(publisher.send(&endless), Err(Error::Stopped)));
        assert_eq!(publisher.sequence(), 2, "its number is used up");
        publisher.finish_within(DEADLINE).unwrap();
    });
    await_asleep(std::process::id(), thread.recv().unwrap());
    stopped.stop();
    assert_eq!(take_number(&mut subscriber, 0).samples, [1, 2, 3]);
    expect_end(&mut subscriber);
    let gap = Gap { first: 1, packets: 1, samples: ENDLESS as u64, reason: GapReason::Transport };
    assert_eq!(subscriber.gap_at_end(), Some(gap));
    sender.join().unwrap();
}

pub fn a_sender_killed_in_a_packet_leaves_nothing_of_it(transport: &'static str) {
    let rule = "a sender in another process";
    let Some((domain, node)) = beside_another(transport, rule, "buffer = 65536") else { return };
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let mut victim = Puppet::start(&domain, transport, "buffer = 65536");
    victim.order("publish numbers");
    victim.order("receivers 1");
    victim.begin(&format!("send-then-large {}", ENDLESS / 8));
    take_number(&mut subscriber, 0);
    // The only call that can block is the send of the large packet.
    await_all_asleep(victim.id());
    // Some fragments are taken, but too few for the whole packet to arrive.
    victim.freeze();
    expect_nothing(&mut subscriber);
    victim.kill();
    await_that("the death is noticed", || {
        expect_nothing(&mut subscriber);
        subscriber.senders() == 0
    });
    let mut successor = Puppet::start(&domain, transport, "buffer = 65536");
    successor.order("publish numbers");
    successor.order("receivers 1");
    successor.order("send 1");
    let parcel = take(&mut subscriber);
    let gap = Gap { first: 1, packets: 0, samples: 0, reason: GapReason::PeerRestart };
    assert_eq!((parcel.sequence, parcel.gap), (0, Some(gap)));
    let reports = node.connections();
    assert_eq!(reports.iter().map(|report| report.packets).sum::<u64>(), 2);
    assert_eq!(reports.iter().map(|report| report.peer_deaths).sum::<u64>(), 1);
}

pub fn a_receiver_killed_in_a_packet_misses_it(transport: &'static str) {
    let rule = "a receiver in another process";
    let Some((domain, node)) = beside_another(transport, rule, "buffer = 65536") else { return };
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut victim = Puppet::start(&domain, transport, "buffer = 65536");
    victim.order("subscribe numbers");
    await_receivers(&mut publisher, 1);
    victim.freeze();
    let (tell, thread) = mpsc::channel();
    let sender = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        publisher.send(&vec![0; ENDLESS / 8]).unwrap();
        publisher
    });
    await_asleep(std::process::id(), thread.recv().unwrap());
    victim.kill();
    let mut publisher = sender.join().unwrap();
    let mut late = node.subscriber::<u64>("numbers").unwrap();
    await_receivers(&mut publisher, 1);
    publisher.send(&[7]).unwrap();
    let parcel = take(&mut late);
    assert_eq!((parcel.sequence, parcel.samples), (1, vec![7]));
}
