//! Publishers in a program's own event loop, and all kinds of members in one wait set.

use std::io::Write;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stripline::call::{ClientOptions, ServerOptions, Service};
use stripline::node::{Node, Publisher, Subscriber, WaitInterest, WaitSet, Waitable};
use stripline::{Error, Received};

use crate::arm::is_ready;
use crate::support::{
    DEADLINE, await_receivers, await_that, expect_end, fill, node, pair, take, take_number,
};

/// Sends numbers in packets of ten from a separate event loop. Returns how often it waited.
fn send_in_a_loop(publisher: &mut Publisher<u64>, packets: u64, rules: &str) -> u64 {
    let descriptor = publisher.ready_descriptor().unwrap();
    let (mut sent, mut waited, mut full) = (0, 0, 0);
    while sent < packets {
        match publisher.try_send(&[sent; 10]) {
            Ok(()) => sent += 1,
            Err(Error::Full { .. }) => {
                full += 1;
                assert!(full < 1000 * packets, "{rules}: it is ready for nothing");
                if publisher.arm(10).unwrap() {
                    assert!(is_ready(&descriptor, DEADLINE), "{rules}: not woken for {sent}");
                    waited += 1;
                }
            }
            Err(error) => panic!("{rules}: {error}"),
        }
    }
    waited
}

pub fn a_sender_in_a_loop_sends_every_packet(transport: &'static str) {
    const PACKETS: u64 = 300;
    for (rules, receivers) in [
        ("depth = 4", 1),
        ("depth = 4", 2),
        ("depth = 1", 1),
        ("scope = 'none'\ndepth = 4", 1),
        ("flow = 'credit'\ndepth = 4", 1),
        ("flow = 'stop-resume'\ndepth = 8", 1),
        ("buffer = 4096", 1),
    ] {
        let node = node(transport, rules);
        let mut publisher = node.publisher::<u64>("looped").unwrap();
        let receivers: Vec<_> = (0..receivers)
            .map(|_| {
                let mut subscriber = node.subscriber::<u64>("looped").unwrap();
                std::thread::spawn(move || {
                    let mut next = 0;
                    while let Some(packet) = subscriber.receive().unwrap() {
                        assert_eq!((packet.sequence(), packet[9], packet.gap()), (next, next, None));
                        next += 1;
                    }
                    next
                })
            })
            .collect();
        await_receivers(&mut publisher, receivers.len());
        send_in_a_loop(&mut publisher, PACKETS, rules);
        // After the last `arm`, the steady stream costs nothing extra and does not change.
        (PACKETS..2 * PACKETS).for_each(|number| publisher.send(&[number; 10]).unwrap());
        publisher.finish().unwrap();
        for receiver in receivers {
            assert_eq!(receiver.join().unwrap(), 2 * PACKETS, "{rules}");
        }
    }
}

/// Sends until a receiver is full, and prepares the descriptor.
fn fill_and_arm(publisher: &mut Publisher<u64>) {
    loop {
        fill(publisher, &[1; 100]);
        if publisher.arm(100).unwrap() {
            break;
        }
    }
}

pub fn what_ends_a_wait_of_a_sender_ends_one_in_a_loop(transport: &'static str) {
    let node = node(transport, "depth = 4");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "looped");
    let descriptor = publisher.ready_descriptor().unwrap();
    assert!(!publisher.arm(100).unwrap(), "there is room");
    let many = publisher.in_place_samples_max() + 1;
    assert!(matches!(publisher.arm(many), Err(Error::TooLarge { .. })));
    assert!(matches!(publisher.arm(usize::MAX), Err(Error::TooLarge { .. })));
    fill(&mut publisher, &[1; 100]);
    // Wakes, before the loop waits and while it waits.
    let waker = publisher.waker().unwrap();
    for is_early in [true, false] {
        if !is_early {
            fill_and_arm(&mut publisher);
        }
        waker.wake();
        assert!(is_early || is_ready(&descriptor, DEADLINE));
        assert!(matches!(publisher.arm(100), Err(Error::Interrupted { .. })));
    }
    // The receiver makes room.
    let mut next = 0;
    while publisher.arm(100).unwrap() {
        if !is_ready(&descriptor, Duration::ZERO)
            && let Received::Packet(packet) = subscriber.try_receive().unwrap()
        {
            assert_eq!(packet.sequence(), next);
            next += 1;
        }
    }
    publisher.try_send(&[2; 100]).unwrap();
    // The receiver leaves.
    fill_and_arm(&mut publisher);
    drop(subscriber);
    while publisher.arm(100).unwrap() {
        assert!(is_ready(&descriptor, DEADLINE), "the end of its receiver wakes it");
    }
    let mut subscriber = node.subscriber::<u64>("looped").unwrap();
    await_receivers(&mut publisher, 1);
    fill_and_arm(&mut publisher);
    node.stop();
    assert!(is_ready(&descriptor, DEADLINE));
    assert!(matches!(publisher.arm(100), Err(Error::Stopped)));
    assert!(matches!(publisher.arm_for_receivers(9), Err(Error::Stopped)));
    // The descriptor outlives the publisher.
    drop(publisher);
    is_ready(&descriptor, Duration::ZERO);
    while subscriber.try_receive().is_ok_and(|received| matches!(received, Received::Packet(_))) {}
}

pub fn receivers_that_come_wake_a_sender_in_a_loop(transport: &'static str) {
    for rules in ["", "scope = 'none'"] {
        let node = node(transport, rules);
        let mut publisher = node.publisher::<u64>("looped").unwrap();
        let descriptor = publisher.ready_descriptor().unwrap();
        assert!(!publisher.arm_for_receivers(0).unwrap());
        let mut subscribers = Vec::new();
        for count in 1..=3 {
            assert!(publisher.arm_for_receivers(count).unwrap(), "{rules}: there are {}", count - 1);
            subscribers.push(node.subscriber::<u64>("looped").unwrap());
            let mut asked = 0;
            while publisher.arm_for_receivers(count).unwrap() {
                assert!(is_ready(&descriptor, DEADLINE), "{rules}: not woken");
                asked += 1;
                assert!(asked < 100_000, "{rules}: it is ready for nothing");
            }
            assert_eq!(publisher.receivers(), count, "{rules}");
        }
        publisher.send(&[7]).unwrap();
        publisher.finish().unwrap();
        for subscriber in &mut subscribers {
            assert_eq!(take_number(subscriber, 0).samples, [7]);
            expect_end(subscriber);
        }
    }
}

pub fn a_wait_set_waits_for_ports_and_descriptors(transport: &'static str) {
    let node = node(transport, "depth = 4");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let (mut other, mut windows) = {
        let (publisher, subscriber) = pair::<u64>(&node, "windows");
        (publisher, subscriber.windowed())
    };
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let set = WaitSet::new().unwrap();
    set.add_descriptor(40, theirs, WaitInterest::Readable).unwrap();
    let time = Some(DEADLINE);
    let of_windows = windows.ready_descriptor().unwrap();
    let mut window = (of_windows.clone(), || windows.arm(4));
    // A packet is ready until it is taken.
    publisher.send(&[1; 10]).unwrap();
    for _ in 0..2 {
        let ready = set.wait(&mut [&mut window, &mut subscriber], time).unwrap();
        assert_eq!((ready.members, ready.added.len()), (vec![1], 0));
    }
    take_number(&mut subscriber, 0);
    // A window arrives in two parts, and the program's descriptor becomes ready.
    other.send(&[1, 2]).unwrap();
    let sender = std::thread::spawn(move || {
        other.send(&[3, 4]).unwrap();
        other
    });
    let ready = set.wait(&mut [&mut window, &mut subscriber], time).unwrap();
    assert_eq!((ready.members, ready.added.len()), (vec![0], 0));
    let mut other = sender.join().unwrap();
    ours.write_all(b"x").unwrap();
    await_that("both are ready", || {
        let ready = set.wait(&mut [&mut window, &mut subscriber], time).unwrap();
        ready.members == [0] && ready.added.iter().any(|added| added.key == 40 && added.readable)
    });
    assert!(set.remove(40).unwrap() && !set.remove(40).unwrap());
    // A receiver that takes packets on another thread makes room.
    let descriptor = publisher.ready_descriptor().unwrap();
    fill_and_arm(&mut publisher);
    let taken = Arc::new(Mutex::new(subscriber));
    let receiving = Arc::clone(&taken);
    let sent = publisher.sequence();
    let receiver = std::thread::spawn(move || take_all(&mut receiving.lock().unwrap(), 1..sent));
    let mut room = (descriptor, || publisher.arm(100));
    let ready = set.wait(&mut [&mut room], time).unwrap();
    assert_eq!(ready.members, [0]);
    receiver.join().unwrap();
    // A wake loses nothing, and an end of stream is ready.
    let waker = set.waker().unwrap();
    let subscriber = &mut *taken.lock().unwrap();
    publisher.send(&[5]).unwrap();
    waker.wake();
    assert!(matches!(set.wait(&mut [subscriber], time), Err(Error::Interrupted { .. })));
    assert_eq!(set.wait(&mut [subscriber], time).unwrap().members, [0]);
    take_all(subscriber, sent..publisher.sequence());
    publisher.finish().unwrap();
    await_that("the end has come", || {
        set.wait(&mut [subscriber], time).unwrap().members == [0]
            && matches!(subscriber.try_receive().unwrap(), Received::Ended)
    });
    // A timeout ends a wait, and so does the stop of the node.
    let mut silent = node.subscriber::<u64>("silent").unwrap();
    let short = Some(Duration::from_millis(1));
    assert!(set.wait(&mut [&mut silent], short).unwrap().is_empty());
    other.send(&[5]).unwrap();
    node.stop();
    assert!(matches!(set.wait(&mut [&mut silent], time), Err(Error::Stopped)));
}

fn take_all(subscriber: &mut Subscriber<u64>, numbers: Range<u64>) {
    numbers.for_each(|number| drop(take_number(subscriber, number)));
}

pub fn a_wait_set_waits_for_calls(transport: &'static str) {
    let node = Node::isolated().unwrap();
    let service = Service::new("double").unwrap();
    let service = service.operation("double", |x: u32| Ok::<u32, String>(2 * x)).unwrap();
    // Carriers that exist only in tests cannot serve calls.
    let transport = if matches!(transport, "inproc" | "shm" | "uds" | "tcp" | "mqueue" | "udp") {
        transport
    } else {
        "uds"
    };
    let options = ServerOptions { transport: Some(transport.into()), ..ServerOptions::default() };
    let mut server = node.service_server(service, options).unwrap();
    let client = node.service_client("double", ClientOptions::default()).unwrap();
    assert!(client.wait_for_servers(1, DEADLINE).unwrap());
    let double = client.operation::<u32, u32, String>("double").unwrap();
    let set = WaitSet::new().unwrap();
    for number in 0..50 {
        let mut call = double.try_start(&number).unwrap().into_owned();
        let reply = loop {
            if let Some(reply) = call.try_take() {
                break reply.unwrap();
            }
            let ready = set.wait(&mut [&mut server, &mut &client], Some(DEADLINE)).unwrap();
            assert!(!ready.is_empty(), "nothing came");
            if ready.members.contains(&0) {
                server.serve_one(Duration::ZERO).unwrap();
            }
        };
        assert_eq!(reply, 2 * number);
    }
}

pub fn a_wait_set_survives_what_is_done_to_it(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, subscriber) = pair::<u64>(&node, "numbers");
    let set = Arc::new(WaitSet::new().unwrap());
    // A member is dropped by another thread while the set waits for it.
    let shared = Arc::new(Mutex::new(Some(subscriber)));
    let descriptor = shared.lock().unwrap().as_mut().unwrap().ready_descriptor().unwrap();
    let armed = Arc::clone(&shared);
    let arm = move || armed.lock().unwrap().as_mut().map_or(Ok(true), |subscriber| subscriber.arm());
    set.add(1, (descriptor.clone(), arm.clone())).unwrap();
    assert!(set.add(1, (descriptor.clone(), arm.clone())).is_err(), "a key is used once");
    // The same port is added under two keys: both are ready.
    set.add(2, (descriptor, arm)).unwrap();
    publisher.send(&[1]).unwrap();
    let keys = |set: &WaitSet, time| -> Vec<u64> {
        set.wait(&mut [], time).unwrap().added.iter().map(|added| added.key).collect()
    };
    await_that("both keys are ready", || keys(&set, Some(DEADLINE)) == [1, 2]);
    take(shared.lock().unwrap().as_mut().unwrap());
    let waiter = {
        let set = Arc::clone(&set);
        std::thread::spawn(move || set.wait(&mut [], Some(DEADLINE)).unwrap())
    };
    drop(shared.lock().unwrap().take());
    assert!(set.remove(1).unwrap());
    assert!(set.remove(2).unwrap());
    // A descriptor that is added during a wait is waited for.
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(b"x").unwrap();
    set.add_descriptor(3, theirs, WaitInterest::Both).unwrap();
    let ready = waiter.join().unwrap();
    assert_eq!((ready.added[0].key, ready.added[0].closed), (3, false));
    assert!(ready.added[0].writable);
    // A second thread is refused.
    set.remove(3).unwrap();
    let waker = set.waker().unwrap();
    let waiter = {
        let set = Arc::clone(&set);
        // This thread's own short wait may be in progress.
        std::thread::spawn(move || {
            loop {
                match set.wait(&mut [], Some(DEADLINE)) {
                    Err(Error::Port { .. }) => std::thread::yield_now(),
                    outcome => break outcome,
                }
            }
        })
    };
    await_that("the other thread waits", || {
        matches!(set.wait(&mut [], Some(Duration::ZERO)), Err(Error::Port { .. }))
    });
    waker.wake();
    assert!(matches!(waiter.join().unwrap(), Err(Error::Interrupted { .. })));
}
