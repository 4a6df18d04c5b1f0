//! Ports in a program's own event loop: the descriptor and `arm`.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stripline::Error;
use stripline::node::{ReadyDescriptor, Received, Subscriber, Waitable};

use crate::dispatch::send_numbers;
use crate::support::{DEADLINE, await_receivers, expect_nothing, node, pair, take_number};

pub fn is_ready(descriptor: &ReadyDescriptor, within: Duration) -> bool {
    let until = Instant::now() + within;
    loop {
        let time = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits in a separate event loop until a receive would return at once. Returns how often it slept.
fn loop_until_ready(subscriber: &mut Subscriber<u64>, descriptor: &ReadyDescriptor) -> usize {
    let mut slept = 0;
    while subscriber.arm().unwrap() {
        assert!(is_ready(descriptor, DEADLINE), "it is not woken");
        slept += 1;
    }
    slept
}

pub fn a_loop_of_its_own_gets_every_packet_and_the_end(transport: &'static str) {
    const PACKETS: u64 = 300;
    for rules in [
        "",
        "depth = 2",
        "scope = 'target'",
        "flow = 'credit'\ndepth = 4",
        "overflow = 'drop-oldest'\ndepth = 512",
        "resequence = { window = 4, skip-after-ms = 1 }",
    ] {
        let node = node(transport, rules);
        let mut subscriber = node.subscriber::<u64>("looped").unwrap();
        let descriptor = subscriber.ready_descriptor().unwrap();
        // A new sender makes the descriptor readable, too.
        assert!(subscriber.arm().unwrap() && !is_ready(&descriptor, Duration::ZERO), "{rules}");
        let mut publisher = node.publisher::<u64>("looped").unwrap();
        await_receivers(&mut publisher, 1);
        let sender = std::thread::spawn(move || send_numbers(publisher, PACKETS));
        let (mut next, mut empty) = (0, 0);
        loop {
            match subscriber.try_receive().unwrap() {
                Received::Packet(packet) => {
                    let lost = packet.gap().map_or(0, |gap| gap.packets);
                    assert!(lost == 0 || rules.contains("drop"), "{rules}");
                    assert_eq!(packet.sequence(), next + lost, "{rules}");
                    next += lost + 1;
                    continue;
                }
                Received::Empty => {}
                Received::Ended => break,
            }
            empty += 1;
            assert!(empty < 100 * PACKETS, "it is ready for nothing");
            if subscriber.arm().unwrap() {
                assert!(is_ready(&descriptor, DEADLINE), "{rules}: not woken for {next}");
            }
        }
        next += subscriber.gap_at_end().map_or(0, |gap| gap.packets);
        assert_eq!(next, PACKETS, "{rules}");
        sender.join().unwrap();
    }
}

pub fn what_ends_a_wait_ends_one_in_a_loop(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "looped");
    let descriptor = subscriber.ready_descriptor().unwrap();
    // A sender that has connected may still have something to report.
    while !subscriber.arm().unwrap() || is_ready(&descriptor, Duration::ZERO) {
        expect_nothing(&mut subscriber);
    }
    publisher.send(&[0]).unwrap();
    loop_until_ready(&mut subscriber, &descriptor);
    // A packet has arrived: nothing is prepared, and the packet stays.
    assert!(!subscriber.arm().unwrap());
    take_number(&mut subscriber, 0);
    // Wakes, before the loop waits and while it waits.
    let waker = subscriber.waker().unwrap();
    for is_early in [true, false] {
        if is_early {
            waker.wake();
        } else {
            while !subscriber.arm().unwrap() || is_ready(&descriptor, Duration::ZERO) {
                expect_nothing(&mut subscriber);
            }
            waker.wake();
            assert!(is_ready(&descriptor, DEADLINE));
        }
        assert!(matches!(subscriber.arm(), Err(Error::Interrupted { .. })));
    }
    // Another wait of the port undoes the preparation, and `arm` prepares the descriptor again.
    assert!(subscriber.arm().unwrap());
    publisher.send(&[1]).unwrap();
    take_number(&mut subscriber, 1);
    expect_nothing(&mut subscriber);
    publisher.send(&[2]).unwrap();
    loop_until_ready(&mut subscriber, &descriptor);
    take_number(&mut subscriber, 2);
    // `arm` finishes a packet that is held.
    let mut holding = subscriber.holding(2).unwrap();
    publisher.send(&[3]).unwrap();
    assert_eq!(holding.receive().unwrap().expect("a packet")[0], 3);
    while !holding.arm().unwrap() || is_ready(&descriptor, Duration::ZERO) {}
    node.stop();
    assert!(is_ready(&descriptor, DEADLINE));
    assert!(matches!(holding.arm(), Err(Error::Stopped)));
    // The descriptor outlives the receiver.
    drop(holding);
    is_ready(&descriptor, Duration::ZERO);
}

pub fn a_sender_in_place_of_a_dead_one_wakes_a_loop(transport: &'static str) {
    let node = node(transport, "");
    let (publisher, mut subscriber) = pair::<u64>(&node, "looped");
    let descriptor = subscriber.ready_descriptor().unwrap();
    publisher.abandon();
    for _ in 0..3 {
        let mut publisher = node.publisher::<u64>("looped").unwrap();
        let sender = std::thread::spawn(move || {
            await_receivers(&mut publisher, 1);
            publisher.send(&[7]).unwrap();
            publisher.abandon();
        });
        let mut asked = 0;
        while subscriber.try_receive().unwrap().packet().is_none() {
            asked += 1;
            assert!(asked < 1000, "it is ready for nothing");
            assert!(!subscriber.arm().unwrap() || is_ready(&descriptor, DEADLINE), "it is not woken");
        }
        sender.join().unwrap();
    }
}

pub fn windows_come_in_a_loop_of_its_own(transport: &'static str) {
    const PACKETS: u64 = 31;
    // Each packet has ten samples.
    const SAMPLES: u64 = 10 * PACKETS;
    let node = node(transport, "");
    let (publisher, subscriber) = pair::<u64>(&node, "looped");
    let mut windows = subscriber.windowed();
    let descriptor = windows.ready_descriptor().unwrap();
    let sender = std::thread::spawn(move || send_numbers(publisher, PACKETS));
    let mut next = 0;
    loop {
        if windows.arm(4).unwrap() {
            assert!(is_ready(&descriptor, DEADLINE), "not woken for {next}");
            continue;
        }
        match windows.try_window(4).unwrap() {
            Received::Packet(window) => {
                assert_eq!(window.is_whole(), next + 4 <= SAMPLES);
                assert!(window.iter().copied().eq((next..(next + 4).min(SAMPLES)).map(|index| index / 10)));
                next += 4;
            }
            Received::Empty => panic!("`arm` has found a window"),
            Received::Ended => break,
        }
    }
    assert!(next >= SAMPLES);
    sender.join().unwrap();
    assert!(matches!(windows.arm(0), Err(Error::Port { .. })));
}
