//! Packets owned by a receiver: held packets stay valid, and the sender continues.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use stripline::node::{HeldPacket, Holding, wait_any};
use stripline::{Error, Received, Sample};

use crate::puppet::{Puppet, SAMPLES, beside_another};
use crate::support::{DEADLINE, Dice, await_receivers, await_senders, await_that, node, pair, take_number};

/// Takes the next packet; any other outcome, or a timeout, is a failure.
fn own<T: Sample>(holding: &mut Holding<T>) -> HeldPacket<T> {
    holding.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time")
}

fn check(packet: &HeldPacket<u64>, number: u64) {
    assert_eq!((packet.sequence(), packet.gap()), (number, None));
    assert!(packet.iter().all(|sample| *sample == number), "packet {number}: {:?}", &packet[..]);
}

pub fn held_packets_keep_their_samples(transport: &'static str) {
    for rules in ["buffer = 65536", "buffer = 65536\nsampling = 'all'", "wait = 'block'", "depth = 3"] {
        let node = node(transport, rules);
        let (mut publisher, subscriber) = pair::<u64>(&node, "held");
        let mut holding = subscriber.holding(4).unwrap();
        let sender = std::thread::spawn(move || {
            let mut rng = Dice::new(7);
            for number in 0..1000 {
                // Some packets are too large to stay in place, and some arrive in fragments.
                let samples = [1, 30, 400, 1500, 9000][rng.below(5)];
                publisher.send(&vec![number; samples]).unwrap();
                if number % 100 == 50 {
                    publisher.set_stream(stripline::StreamInfo::new(&format!("part-{number}")));
                }
            }
            publisher.finish().unwrap();
        });
        // Another thread reads the packets again and releases them, in any order.
        let (pass, passed) = std::sync::mpsc::sync_channel::<HeldPacket<u64>>(1);
        let reader = std::thread::spawn(move || {
            let mut packets = 0;
            for packet in passed {
                check(&packet, packet.sequence());
                packets += 1;
            }
            packets
        });
        let (mut held, mut rng, mut next) = (VecDeque::new(), Dice::new(3), 0);
        loop {
            // A packet is on the way to the other thread, which has another one.
            match holding.receive_timeout(DEADLINE) {
                Ok(Received::Packet(packet)) => {
                    check(&packet, next);
                    let part = if next > 50 { (next - 51) / 100 * 100 + 50 } else { 0 };
                    let stream = if part == 0 { "held".into() } else { format!("part-{part}") };
                    assert_eq!(packet.stream().id, stream);
                    next += 1;
                    held.push_back(packet);
                }
                Ok(Received::Ended) => break,
                Ok(Received::Empty) => panic!("nothing within {DEADLINE:?}"),
                Err(Error::TooManyHeld { packets_max, held, .. }) => assert!(held.len() <= packets_max),
                Err(error) => panic!("{error}"),
            }
            while held.len() > rng.below(4) {
                let packet = held.remove(rng.below(held.len())).unwrap();
                check(&packet, packet.sequence());
                pass.send(packet).unwrap();
            }
        }
        let left = held.len();
        drop(pass);
        assert_eq!((next, reader.join().unwrap() + left), (1000, 1000), "{rules}");
        held.iter().for_each(|packet| check(packet, packet.sequence()));
        sender.join().unwrap();
        let report = &node.connections()[0];
        assert_eq!((report.packets, report.lost), (1000, 0));
    }
}

pub fn too_many_held_are_named_and_nothing_is_lost(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, subscriber) = pair::<u64>(&node, "held");
    let error = node.subscriber::<u64>("held").unwrap().holding(0).map(drop).unwrap_err();
    assert!(error.to_string().contains("from 1 to 4096"), "{error}");
    await_receivers(&mut publisher, 1);
    let mut holding = subscriber.holding(3).unwrap();
    (0..5).for_each(|number| publisher.send(&[number; 8]).unwrap());
    let mut held: Vec<_> = (0..3).map(|_| own(&mut holding)).collect();
    assert_eq!(holding.held(), 3);
    for _ in 0..2 {
        let Err(Error::TooManyHeld { port, packets_max: 3, held }) = holding.try_receive() else {
            panic!("three are held")
        };
        let numbers: Vec<_> = held.iter().map(|(_, number)| *number).collect();
        assert!(port == "held" && numbers == [0, 1, 2], "{port} {numbers:?}");
        assert!(held[0].0.ends_with("-> held"), "{}", held[0].0);
    }
    drop(held.remove(1));
    check(&own(&mut holding), 3);
    held.push(own(&mut holding));
    for (packet, number) in held.iter().zip([0, 2, 4]) {
        check(packet, number);
    }
    publisher.finish().unwrap();
    drop(held);
    assert!(holding.receive().unwrap().is_none());
    assert_eq!(holding.gap_at_end(), None);
}

/// Holds the first packet, and other packets from time to time, while the ring is overwritten many
/// times.
pub fn holding_never_stalls_a_sender(transport: &'static str) {
    for rules in
        ["buffer = 16384", "buffer = 16384\ndepth = 8", "depth = 2", "buffer = 16384\nlow-watermark = 0"]
    {
        let node = node(transport, rules);
        let (mut publisher, subscriber) = pair::<u64>(&node, "held");
        let mut holding = subscriber.holding(4).unwrap();
        let sender = std::thread::spawn(move || {
            for number in 0..2000u64 {
                publisher.send(&vec![number; 1 + number as usize % 50]).unwrap();
            }
            publisher.send(&vec![2000; 5000]).unwrap();
            publisher.finish().unwrap();
        });
        let (mut held, mut next) = (Vec::new(), 0);
        while let Some(packet) = holding.receive().unwrap() {
            check(&packet, next);
            if next % 700 == 0 {
                held.push(packet);
            }
            next += 1;
        }
        sender.join().unwrap();
        assert_eq!((next, held.len()), (2001, 3));
        for (packet, number) in held.iter().zip([0, 700, 1400]) {
            check(packet, number);
        }
    }
}

pub fn held_packets_outlive_their_subscriber(transport: &'static str) {
    let node = node(transport, "buffer = 16384");
    let (mut publisher, subscriber) = pair::<u64>(&node, "held");
    let mut holding = subscriber.holding(4).unwrap();
    let mut other = node.subscriber::<u64>("held").unwrap();
    await_receivers(&mut publisher, 2);
    for number in 0..3 {
        publisher.send(&[number; 20]).unwrap();
        take_number(&mut other, number);
    }
    let held: Vec<_> = (0..3).map(|_| own(&mut holding)).collect();
    drop(holding);
    // The sender continues with the other receiver, over many laps of the ring.
    for number in 3..500 {
        publisher.send(&[number; 20]).unwrap();
        take_number(&mut other, number);
    }
    drop((publisher, other));
    for (packet, number) in held.iter().zip(0..) {
        check(packet, number);
    }
    drop(node);
    for (packet, number) in held.iter().zip(0..) {
        check(packet, number);
    }
}

pub fn held_packets_outlive_a_killed_sender(transport: &'static str) {
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    let mut subscriber = node.subscriber::<u64>("held").unwrap();
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish held");
    sender.order("receivers 1");
    await_senders(&mut subscriber, 1);
    let mut holding = subscriber.holding(4).unwrap();
    assert_eq!(sender.order("send-many 3"), "3");
    let held: Vec<_> = (0..3).map(|_| own(&mut holding)).collect();
    sender.kill();
    await_that("the death is detected", || {
        assert!(matches!(holding.try_receive(), Ok(Received::Empty)));
        holding.senders() == 0
    });
    for (packet, number) in held.iter().zip(0..) {
        assert_eq!((packet.sequence(), &packet[..]), (number, &[number; SAMPLES][..]));
    }
    drop(holding);
    for (packet, number) in held.iter().zip(0..) {
        assert_eq!(packet[..], [number; SAMPLES]);
    }
}

pub fn asking_for_the_next_finishes_the_one_before(transport: &'static str) {
    let node = node(transport, "scope = 'target'\ndeadline-ms = 100000");
    let (mut publisher, subscriber) = pair::<u64>(&node, "held");
    let mut holding = subscriber.holding(3).unwrap();
    let asked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut held = Vec::new();
            for number in 0..3 {
                asked.store(number, Ordering::SeqCst);
                held.push(own(&mut holding));
            }
            // The last packet is also finished when it is dropped on another thread.
            let last = held.pop().unwrap();
            asked.store(3, Ordering::SeqCst);
            std::thread::spawn(move || drop(last)).join().unwrap();
            let refused = own(&mut holding);
            refused.refuse("it is of no use");
            held.iter().zip(0..).for_each(|(packet, number)| check(packet, number));
            assert!(holding.receive().unwrap().is_none());
        });
        for number in 0..3 {
            publisher.send(&[number; 4]).unwrap();
            assert!(asked.load(Ordering::SeqCst) > number, "packet {number} was not finished");
        }
        let error = publisher.send(&[3; 4]).unwrap_err();
        assert!(
            matches!(&error, Error::PacketRefused { reason, .. } if reason == "it is of no use"),
            "{error}"
        );
        publisher.finish().unwrap();
        receiver.join().unwrap();
    });
}

pub fn dropping_receivers_hold_packets(transport: &'static str) {
    let node = node(transport, "overflow = 'drop-oldest'\ndepth = 4\nbuffer = 16384");
    let (mut publisher, subscriber) = pair::<u64>(&node, "held");
    let mut holding = subscriber.holding(2).unwrap();
    publisher.send(&[0; 20]).unwrap();
    let first = own(&mut holding);
    for number in 1..3000 {
        publisher.send(&[number; 20]).unwrap();
    }
    publisher.finish().unwrap();
    let (mut packets, mut lost) = (1, 0);
    while let Some(packet) = holding.receive().unwrap() {
        lost += packet.gap().map_or(0, |gap| gap.packets);
        assert!(packet.iter().all(|sample| *sample == packet.sequence()));
        packets += 1;
    }
    lost += holding.gap_at_end().map_or(0, |gap| gap.packets);
    assert_eq!(packets + lost, 3000);
    check(&first, 0);
}

pub fn a_holding_port_is_waited_for(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, subscriber) = pair::<u64>(&node, "held");
    let mut holding = subscriber.holding(2).unwrap();
    publisher.send(&[0; 3]).unwrap();
    assert_eq!(wait_any(&mut [&mut holding], Some(DEADLINE)).unwrap(), [0]);
    let first = own(&mut holding);
    publisher.send(&[1; 3]).unwrap();
    assert_eq!(wait_any(&mut [&mut holding], Some(DEADLINE)).unwrap(), [0]);
    check(&own(&mut holding), 1);
    publisher.finish().unwrap();
    assert_eq!(wait_any(&mut [&mut holding], Some(DEADLINE)).unwrap(), [0]);
    assert!(holding.receive().unwrap().is_none());
    check(&first, 0);
}
