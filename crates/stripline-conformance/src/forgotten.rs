//! Packets, windows and loans that the program forgets: no peer is blamed, and the link continues.

use std::mem::forget;

use stripline::node::{Subscriber, WaitSet, Waitable, wait_any};
use stripline::{Error, Received};

use crate::scope_answered::TARGET;
use crate::support::{
    DEADLINE, await_receivers, await_senders, expect_end, expect_nothing, node, pair, take_number,
};

pub fn a_forgotten_packet_is_over_when_the_next_is_asked_for(transport: &'static str) {
    for rules in ["", "sampling = 'all'", "overflow = 'drop-oldest'"] {
        let node = node(transport, rules);
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        let mut next = 0;
        for _ in 0..50 {
            publisher.send(&[next; 8]).unwrap();
            let found = subscriber.receive_timeout(DEADLINE).unwrap();
            let packet = found.packet().expect("a packet in time");
            assert_eq!((packet.sequence(), packet[7], packet.gap()), (next, next, None), "{rules}");
            forget(packet);
            next += 1;
        }
        expect_nothing(&mut subscriber);
        // The other ways to request the next packet.
        let forget_next = |subscriber: &mut Subscriber<u64>, number: u64| {
            let found = subscriber.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time");
            assert_eq!((found.sequence(), found[0]), (number, number));
            forget(found);
        };
        (next..next + 6).for_each(|number| publisher.send(&[number; 8]).unwrap());
        forget_next(&mut subscriber, next);
        assert_eq!(subscriber.drain(1, |packet| assert_eq!(packet[0], next + 1)).unwrap(), 1);
        forget_next(&mut subscriber, next + 2);
        assert_eq!(subscriber.senders(), 1);
        assert_eq!(wait_any(&mut [&mut subscriber], Some(DEADLINE)).unwrap(), [0]);
        forget_next(&mut subscriber, next + 3);
        let received = subscriber.receive_with(|| ()).unwrap().expect("a packet");
        assert_eq!(received[0], next + 4);
        forget(received);
        // Ports that hold packets and ports that give windows continue after it.
        let mut holding = subscriber.holding(4).unwrap();
        let held = holding.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time");
        assert_eq!((held.sequence(), held[0]), (next + 5, next + 5));
        (next + 6..next + 9).for_each(|number| publisher.send(&[number; 8]).unwrap());
        publisher.finish().unwrap();
        drop(held);
        for number in next + 6..next + 9 {
            let held = holding.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time");
            assert_eq!((held.sequence(), held[7], held.gap()), (number, number, None), "{rules}");
        }
        assert!(matches!(holding.receive_timeout(DEADLINE).unwrap(), Received::Ended));
    }
}

pub fn forgotten_packets_of_two_senders_are_over(transport: &'static str) {
    let node = node(transport, "");
    let mut publishers = [(); 2].map(|()| node.publisher::<u64>("numbers").unwrap());
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    publishers.iter_mut().for_each(|publisher| await_receivers(publisher, 1));
    await_senders(&mut subscriber, 2);
    for number in 0..20 {
        for publisher in &mut publishers {
            publisher.send(&[number]).unwrap();
        }
        for _ in &publishers {
            let found = subscriber.receive_timeout(DEADLINE).unwrap();
            let packet = found.packet().expect("a packet in time");
            assert_eq!((packet.sequence(), packet[0], packet.gap()), (number, number, None));
            forget(packet);
        }
    }
    publishers.into_iter().for_each(|publisher| publisher.finish().unwrap());
    assert!(node.connections().iter().all(|connection| connection.lost == 0 && connection.packets == 20));
}

pub fn a_forgotten_packet_is_acknowledged_when_the_next_is_asked_for(transport: &'static str) {
    let node = node(transport, TARGET);
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let sender = std::thread::spawn(move || {
        (0..3).try_for_each(|number| publisher.send(&[number]))?;
        publisher.finish()
    });
    for number in 0..3 {
        let packet = subscriber.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time");
        assert_eq!((packet.sequence(), packet[0]), (number, number));
        forget(packet);
    }
    expect_end(&mut subscriber);
    sender.join().unwrap().unwrap();
}

pub fn a_forgotten_packet_keeps_the_sequence(transport: &'static str) {
    let node = node(transport, "resequence = { window = 8, skip-after-ms = 60000 }");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    (0..6).for_each(|number| publisher.send(&[number]).unwrap());
    publisher.finish().unwrap();
    for number in 0..3 {
        let packet = subscriber.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time");
        assert_eq!((packet.sequence(), packet[0]), (number, number));
        forget(packet);
    }
    let mut subscriber = subscriber.resequenced(4, DEADLINE).unwrap();
    (3..6).for_each(|number| drop(take_number(&mut subscriber, number)));
    expect_end(&mut subscriber);
}

pub fn forgotten_held_packets_stay_in_use(transport: &'static str) {
    let node = node(transport, "buffer = 16384");
    let (mut publisher, subscriber) = pair::<u64>(&node, "held");
    let mut holding = subscriber.holding(3).unwrap();
    let mut kept: Vec<&'static [u64]> = Vec::new();
    for number in 0..2000 {
        publisher.send(&vec![number; 50]).unwrap();
        let packet = holding.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time");
        assert_eq!((packet.sequence(), packet[49], packet.gap()), (number, number, None));
        if number == 0 || number == 1000 {
            // The samples of a packet that is never dropped stay valid.
            kept.push(Box::leak(Box::new(packet)));
        }
    }
    assert_eq!(holding.held(), 2);
    publisher.send(&[2000]).unwrap();
    publisher.send(&[2001]).unwrap();
    forget(holding.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time"));
    // The error blames this program and has the remedy.
    let error = holding.try_receive().unwrap_err();
    assert!(matches!(&error, Error::TooManyHeld { packets_max: 3, .. }), "{error}");
    assert!(error.to_string().contains("drop one, hold more"), "{error}");
    drop((holding, publisher));
    assert_eq!(kept, [vec![0; 50], vec![1000; 50]]);
}

pub fn a_forgotten_window_is_given_again(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, subscriber) = pair::<u64>(&node, "numbers");
    publisher.send(&[0, 1, 2]).unwrap();
    publisher.send(&[3, 4, 5]).unwrap();
    publisher.finish().unwrap();
    let mut windows = subscriber.windowed();
    for expected in [[0, 1], [2, 3], [4, 5]] {
        for _ in 0..2 {
            let window = windows.window_timeout(2, DEADLINE).unwrap().packet().expect("a window in time");
            assert_eq!(*window, expected);
            forget(window);
        }
        drop(windows.window(2).unwrap());
    }
    assert!(windows.window(2).unwrap().is_none());
}

pub fn a_forgotten_loan_sends_nothing(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let large = 200_000;
    let mut sent = 0;
    for round in 0..20 {
        // Some loans are plain, some have their own options, and some are in fragments.
        forget(publisher.loan(8).unwrap());
        let loan = publisher.loan(4).unwrap().at_sample(1_000_000).at_time_ns(7);
        forget(loan.deadline(DEADLINE));
        if round % 5 == 0 {
            forget(publisher.loan(large).unwrap());
        }
        publisher.send(&[sent; 8]).unwrap();
        let packet = subscriber.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time");
        assert_eq!((packet.sequence(), packet.sample_index(), packet.time_ns()), (sent, 8 * sent, 0));
        assert_eq!(*packet, [sent; 8]);
        drop(packet);
        sent += 1;
    }
    forget(publisher.loan(8).unwrap());
    publisher.send_many(3, 8, |index, place| place.fill(sent + index as u64)).unwrap();
    (sent..sent + 3).for_each(|number| assert_eq!(take_number(&mut subscriber, number).samples, [number; 8]));
    forget(publisher.loan(8).unwrap());
    publisher.finish().unwrap();
    expect_end(&mut subscriber);
}

/// Checks that a descriptor in the program's event loop is not ready for a packet that was
/// forgotten.
pub fn a_forgotten_packet_does_not_wake(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let _descriptor = subscriber.ready_descriptor().unwrap();
    let set = WaitSet::new().unwrap();
    publisher.send(&[0]).unwrap();
    forget(subscriber.receive_timeout(DEADLINE).unwrap().packet().expect("a packet in time"));
    let ready = set.wait(&mut [&mut subscriber], Some(std::time::Duration::ZERO)).unwrap();
    assert!(ready.is_empty());
    publisher.send(&[1]).unwrap();
    let ready = set.wait(&mut [&mut subscriber], Some(DEADLINE)).unwrap();
    assert!(!ready.is_empty());
    take_number(&mut subscriber, 1);
}
