//! Section 4 and related rules: several senders and receivers, and waiting for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use stripline::node::{Node, Publisher, Subscriber, wait_any};
use stripline::payload::{Cbor, NoSchema};
use stripline::{Error, Received};

use crate::support::{
    DEADLINE, await_asleep, await_receivers, await_senders, domain, expect_end, fill, join, node, pair, take,
    take_number,
};

const PACKETS: u64 = 200;

fn send_all(mut publisher: Publisher<u64>, source: u64) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for i in 0..PACKETS {
            publisher.send(&[source, i]).unwrap();
        }
        publisher.finish().unwrap();
    })
}

/// Receives to the end of stream. Returns the packets of each sender, in order.
fn receive_all(mut subscriber: Subscriber<u64>) -> std::thread::JoinHandle<BTreeMap<u64, Vec<u64>>> {
    std::thread::spawn(move || {
        let mut seen: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        while let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() {
            assert_eq!((packet.gap(), packet.sequence()), (None, packet[1]));
            seen.entry(packet[0]).or_default().push(packet[1]);
        }
        expect_end(&mut subscriber);
        seen
    })
}

fn complete(sources: u64) -> BTreeMap<u64, Vec<u64>> {
    (0..sources).map(|source| (source, (0..PACKETS).collect())).collect()
}

/// Runs many senders and receivers, spread over four nodes.
fn many(transport: &'static str, senders: u64, receivers: usize) {
    let domain = domain();
    let nodes: Vec<Node> = (0..4).map(|_| join(&domain, transport, "depth = 16")).collect();
    let mut publishers: Vec<_> =
        (0..senders).map(|i| nodes[i as usize % 4].publisher::<u64>("many").unwrap()).collect();
    let mut subscribers: Vec<_> =
        (0..receivers).map(|i| nodes[(i + 1) % 4].subscriber::<u64>("many").unwrap()).collect();
    publishers.iter_mut().for_each(|publisher| await_receivers(publisher, receivers));
    subscribers.iter_mut().for_each(|subscriber| await_senders(subscriber, senders as usize));
    let receiving: Vec<_> = subscribers.into_iter().map(receive_all).collect();
    let sending: Vec<_> = publishers.into_iter().zip(0..).map(|(p, source)| send_all(p, source)).collect();
    sending.into_iter().for_each(|thread| thread.join().unwrap());
    for thread in receiving {
        assert_eq!(thread.join().unwrap(), complete(senders));
    }
}

pub fn one_to_many(transport: &'static str) {
    many(transport, 1, 5);
}

pub fn many_to_one(transport: &'static str) {
    many(transport, 5, 1);
}

pub fn many_to_many(transport: &'static str) {
    many(transport, 3, 3);
}

pub fn a_late_joiner_starts_at_the_current_packet(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut early) = pair::<u64>(&node, "late");
    for i in 0..10 {
        publisher.send(&[i]).unwrap();
    }
    let mut late = node.subscriber::<u64>("late").unwrap();
    await_receivers(&mut publisher, 2);
    publisher.send(&[10]).unwrap();
    publisher.finish().unwrap();
    // Packets sent before the late receiver joined are not losses.
    take_number(&mut late, 10);
    expect_end(&mut late);
    (0..=10).for_each(|sequence| drop(take_number(&mut early, sequence)));
    expect_end(&mut early);
    assert!(node.connections().iter().all(|report| (report.lost, report.gaps) == (0, 0)));
}

/// Checks that a send right after creation is received: the ends of one node are connected once
/// both exist.
pub fn ends_of_a_node_are_connected_when_they_are_made(transport: &'static str) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // These threads keep the machine busy, so that the node's own thread is late.
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let outcome = std::panic::catch_unwind(|| {
            for round in 0..60 {
                let node = node(transport, "");
                let first = (round % 2 == 0).then(|| node.subscriber::<u64>("ends").unwrap());
                let mut publisher = node.publisher::<u64>("ends").unwrap();
                let mut subscriber = first.unwrap_or_else(|| node.subscriber::<u64>("ends").unwrap());
                assert_eq!((publisher.receivers(), subscriber.senders()), (1, 1), "round {round}");
                publisher.send(&[round]).unwrap();
                take_number(&mut subscriber, 0);
            }
        });
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
}

pub fn receive_timeout_and_try_receive_report_their_outcome(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "polled");
    let short = Duration::from_millis(1);
    assert!(matches!(subscriber.try_receive().unwrap(), Received::Empty));
    assert!(matches!(subscriber.receive_timeout(short).unwrap(), Received::Empty));
    publisher.send(&[1]).unwrap();
    publisher.send(&[2]).unwrap();
    assert!(matches!(subscriber.receive_timeout(DEADLINE).unwrap(), Received::Packet(p) if p[0] == 1));
    take_number(&mut subscriber, 1);
    assert!(matches!(subscriber.receive_timeout(short).unwrap(), Received::Empty));
    publisher.finish().unwrap();
    assert!(matches!(subscriber.receive_timeout(DEADLINE).unwrap(), Received::Ended));
    assert!(matches!(subscriber.try_receive().unwrap(), Received::Ended));
}

pub fn wait_any_names_those_that_are_ready(transport: &'static str) {
    let node = node(transport, "");
    let (mut floats, mut float_in) = pair::<f32>(&node, "floats");
    let (mut shorts, mut short_in) = pair::<i16>(&node, "shorts");
    let mut texts = node.publisher::<Cbor<String, NoSchema>>("texts").unwrap();
    let mut text_in = node.subscriber::<Cbor<String, NoSchema>>("texts").unwrap();
    assert!(texts.wait_for_receivers(1, DEADLINE).unwrap());
    shorts.send(&[1]).unwrap();
    let wait = Some(DEADLINE);
    assert_eq!(wait_any(&mut [&mut float_in, &mut short_in, &mut text_in], wait).unwrap(), [1]);
    // The wait took no packet.
    assert_eq!(wait_any(&mut [&mut float_in, &mut short_in, &mut text_in], wait).unwrap(), [1]);
    take_number(&mut short_in, 0);
    texts.send(&"hello".into()).unwrap();
    assert_eq!(wait_any(&mut [&mut text_in, &mut float_in, &mut short_in], wait).unwrap(), [0]);
    assert_eq!(text_in.receive().unwrap().unwrap().decode().unwrap(), "hello");
    floats.send(&[0.5]).unwrap();
    assert_eq!(wait_any(&mut [&mut float_in, &mut short_in], wait).unwrap(), [0]);
    take_number(&mut float_in, 0);
}

pub fn wait_any_ends_with_its_time(transport: &'static str) {
    let node = node(transport, "");
    let (_publisher, mut left) = pair::<u64>(&node, "left");
    let mut right = node.subscriber::<u8>("without a sender").unwrap();
    for millis in [0, 1, 5] {
        let ready = wait_any(&mut [&mut left, &mut right], Some(Duration::from_millis(millis))).unwrap();
        assert!(ready.is_empty(), "{ready:?}");
    }
}

pub fn wait_any_wakes_at_the_end_of_stream(transport: &'static str) {
    let node = node(transport, "");
    let (_busy, mut left) = pair::<u64>(&node, "left");
    let (ending, mut right) = pair::<u64>(&node, "right");
    let (tell, thread) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        assert_eq!(wait_any(&mut [&mut left, &mut right], Some(DEADLINE)).unwrap(), [1]);
        expect_end(&mut right);
    });
    await_asleep(std::process::id(), thread.recv().unwrap());
    ending.finish().unwrap();
    waiter.join().unwrap();
}

pub fn wait_any_wakes_for_a_packet_sent_later(transport: &'static str) {
    const ROUNDS: u64 = 300;
    let node = node(transport, "");
    let (mut first, mut left) = pair::<u64>(&node, "left");
    let (mut second, mut right) = pair::<u8>(&node, "right");
    let (mut answer, mut answered) = pair::<u64>(&node, "answers");
    let waiter = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            let ready = wait_any(&mut [&mut left, &mut right], Some(DEADLINE)).unwrap();
            assert_eq!(ready, [round as usize % 2]);
            match ready[0] {
                0 => drop(take_number(&mut left, round / 2)),
                _ => drop(take_number(&mut right, round / 2)),
            }
            answer.send(&[round]).unwrap();
        }
    });
    for round in 0..ROUNDS {
        match round % 2 {
            0 => first.send(&[round]).unwrap(),
            _ => second.send(&[0]).unwrap(),
        }
        assert_eq!(take_number(&mut answered, round).samples, [round]);
    }
    waiter.join().unwrap();
}

pub fn wait_any_is_not_fooled_by_one_end_of_two(transport: &'static str) {
    let node = node(transport, "");
    let (first, mut subscriber) = pair::<u64>(&node, "two senders");
    let mut second = node.publisher::<u64>("two senders").unwrap();
    await_receivers(&mut second, 1);
    await_senders(&mut subscriber, 2);
    first.finish().unwrap();
    // The end of one sender is not the end of stream: `receive` would still block.
    let ready = wait_any(&mut [&mut subscriber], Some(Duration::from_millis(20))).unwrap();
    assert!(ready.is_empty(), "{ready:?}");
    second.send(&[4]).unwrap();
    assert_eq!(wait_any(&mut [&mut subscriber], Some(DEADLINE)).unwrap(), [0]);
    assert_eq!(take(&mut subscriber).samples, [4]);
    second.finish().unwrap();
    assert_eq!(wait_any(&mut [&mut subscriber], Some(DEADLINE)).unwrap(), [0]);
    expect_end(&mut subscriber);
}

pub fn stop_wakes_everything_that_blocks(transport: &'static str) {
    let domain = domain();
    let node = join(&domain, transport, "depth = 4");
    let stopped = join(&domain, transport, "depth = 4");
    // A receiver outside the stopped node that never reads, and a sender inside it that waits for
    // this receiver.
    let mut full = stopped.publisher::<u8>("full").unwrap();
    let _never_reads = node.subscriber::<u8>("full").unwrap();
    await_receivers(&mut full, 1);
    fill(&mut full, &[0; 16_000]);
    let mut idle = stopped.subscriber::<u8>("idle").unwrap();
    let mut silent = stopped.subscriber::<u8>("silent").unwrap();
    let (tell, threads) = mpsc::channel();
    let blocks = |work: Box<dyn FnOnce() -> Result<(), Error> + Send>| {
        let tell = tell.clone();
        std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            assert!(matches!(work(), Err(Error::Stopped)));
        })
    };
    let waiting = [
        blocks(Box::new(move || {
            let outcome = full.send(&[0; 16_000]);
            // The publisher is forgotten, so that dropping it does not wait for a receiver that
            // never reads.
            std::mem::forget(full);
            outcome
        })),
        blocks(Box::new(move || idle.receive().map(drop))),
        blocks(Box::new(move || wait_any(&mut [&mut silent], None).map(drop))),
    ];
    threads.iter().take(waiting.len()).for_each(|thread| await_asleep(std::process::id(), thread));
    stopped.stop();
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
}
