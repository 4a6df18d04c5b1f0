//! Wakers: a wake ends one wait of a port, and nothing is lost.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use stripline::node::{Dispatch, Publisher, Received, SingleThread, Subscriber, Waker, wait_any};
use stripline::payload::{Cbor, NoSchema};
use stripline::{Error, Result};

use crate::scope_answered::TARGET;
use crate::support::{
    DEADLINE, Dice, await_receivers, await_that, expect_end, expect_nothing, fill, node, pair, state, take,
    take_number,
};

/// Returns a packet that the transport does not take at once. The buffers of sockets hold many
/// megabytes. Over other transports such a packet takes long, and a drop waits for at most 10 s.
fn large(transport: &str) -> Vec<u64> {
    (0..if matches!(transport, "uds" | "tcp") { 3_000_000 } else { 200_000 }).collect()
}

fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Returns whether the packet of an interrupted call was sent. Any other outcome is a failure.
fn interrupted<T>(outcome: Result<T>) -> bool {
    match outcome.map(drop) {
        Err(Error::Interrupted { sent, .. }) => sent,
        other => panic!("not interrupted: {other:?}"),
    }
}

/// Runs a call that waits, and wakes it once it sleeps or has ended without sleeping.
fn wake_asleep<R: Send>(waker: &Waker, wait: impl FnOnce() -> R + Send) -> R {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || {
            tell.send(thread_id()).unwrap();
            wait()
        });
        let stat = format!("/proc/self/task/{}/stat", told.recv().unwrap());
        let mut looks = 0;
        await_that("the thread sleeps", || {
            looks = if state(Path::new(&stat)) == Some('S') { looks + 1 } else { 0 };
            looks >= 3 || waits.is_finished()
        });
        waker.wake();
        waits.join().unwrap()
    })
}

pub fn a_wake_ends_one_wait_of_a_receiver(transport: &'static str) {
    for rules in ["wait = 'block'", "wait = 'adaptive'", "overflow = 'drop-oldest'"] {
        let node = node(transport, rules);
        let mut lonely = node.subscriber::<u64>("nobody").unwrap();
        let waker = lonely.waker().unwrap();
        assert!(!interrupted(wake_asleep(&waker, || lonely.receive().map(drop))));
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "woken");
        let waker = subscriber.waker().unwrap();
        for round in 0..3 {
            assert!(!interrupted(wake_asleep(&waker, || subscriber.receive().map(drop))), "{rules}");
            // Several wakes before a wait count as one, and calls that never wait leave the wake.
            waker.wake();
            subscriber.waker().unwrap().wake();
            expect_nothing(&mut subscriber);
            assert!(!interrupted(subscriber.receive_timeout(DEADLINE).map(drop)));
            let short =
                subscriber.receive_timeout(Duration::from_millis(1)).map(|found| found.packet().is_none());
            assert!(short.unwrap());
            publisher.send(&[round]).unwrap();
            take_number(&mut subscriber, round);
        }
        publisher.finish().unwrap();
        expect_end(&mut subscriber);
        waker.wake();
        drop(subscriber);
        waker.wake();
    }
}

pub fn a_wake_ends_a_wait_that_never_sleeps(transport: &'static str) {
    let node = node(transport, "wait = 'spin'");
    let (_publisher, mut subscriber) = pair::<u64>(&node, "woken");
    let waker = subscriber.waker().unwrap();
    let begins = Barrier::new(2);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            begins.wait();
            interrupted(subscriber.receive().map(drop))
        });
        begins.wait();
        waker.wake();
        assert!(!waits.join().unwrap());
    });
}

pub fn a_wake_ends_the_loop_of_a_busy_receiver(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "busy");
    (0..4).for_each(|number| publisher.send(&[number]).unwrap());
    take_number(&mut subscriber, 0);
    subscriber.waker().unwrap().wake();
    // The call would not have to wait, but ends nevertheless.
    let mut next = || subscriber.try_receive().unwrap().packet().map(|packet| packet[0]);
    await_that("the next packet", || next() == Some(1));
    assert!(!interrupted(subscriber.receive().map(drop)));
    assert_eq!(take(&mut subscriber).samples, [2]);
    subscriber.waker().unwrap().wake();
    assert!(!interrupted(subscriber.drain(10, |_| panic!("taken"))));
    assert_eq!(subscriber.drain(10, |packet| assert_eq!(packet[0], 3)).unwrap(), 1);
}

pub fn a_wake_ends_every_way_to_receive(transport: &'static str) {
    let node = node(transport, "");
    for dispatch in [Dispatch::Queue, Dispatch::Direct, Dispatch::pool(3).unwrap()] {
        let (mut publisher, mut subscriber) =
            pair::<u64>(&node, &format!("served-{}", u8::from(dispatch == Dispatch::Queue)));
        let waker = subscriber.waker().unwrap();
        let handled = AtomicU64::new(0);
        let mut serve = || {
            subscriber.serve(dispatch, |packet| {
                assert_eq!(packet[0], packet.sequence());
                handled.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
        };
        assert!(!interrupted(wake_asleep(&waker, &mut serve)), "{dispatch}");
        (0..20).for_each(|number| publisher.send(&[number]).unwrap());
        publisher.finish().unwrap();
        serve().unwrap();
        assert_eq!(handled.into_inner(), 20, "{dispatch}");
    }
    let (_publisher, mut first) = pair::<u64>(&node, "first");
    let mut second = node.subscriber::<Cbor<String, NoSchema>>("second").unwrap();
    let waker = second.waker().unwrap();
    let all = || wait_any(&mut [&mut first, &mut second], None);
    assert!(!interrupted(wake_asleep(&waker, all)));
    let run = || SingleThread::new().packets(&mut first, |_| Ok(())).packets(&mut second, |_| Ok(())).run();
    assert!(!interrupted(wake_asleep(&waker, run)));
    assert!(!interrupted(wake_asleep(&waker, || second.receive().map(drop))));
    let mut holding = first.holding(2).unwrap();
    let waker = holding.waker().unwrap();
    assert!(!interrupted(wake_asleep(&waker, || holding.receive().map(drop))));
}

pub fn a_wake_keeps_the_samples_of_a_window(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, subscriber) = pair::<u64>(&node, "cut");
    let mut windows = subscriber.windowed();
    let waker = windows.waker().unwrap();
    publisher.send(&[1, 2, 3]).unwrap();
    // Part of the window has arrived.
    assert!(!interrupted(wake_asleep(&waker, || windows.window(5).map(drop))));
    publisher.send(&[4, 5]).unwrap();
    let window = windows.window(5).unwrap().expect("a window");
    assert!(window.is_whole() && *window == [1, 2, 3, 4, 5]);
}

pub fn a_wake_ends_a_wait_for_room(transport: &'static str) {
    for rules in ["depth = 8\nwait = 'block'", "depth = 8\nsend-timeout-ms = 3600000"] {
        let node = node(transport, rules);
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "full");
        let waker = publisher.waker().unwrap();
        let samples = vec![7; 500];
        fill(&mut publisher, &samples);
        // A socket may have taken part of the packet. The call then returns without an error, and
        // the wake is left for the next call.
        let mut refused = 0;
        while refused < 2 {
            let before = publisher.sequence();
            match wake_asleep(&waker, || publisher.send(&samples)) {
                Ok(()) => assert_eq!(publisher.sequence(), before + 1, "{rules}"),
                outcome => {
                    assert!(!interrupted(outcome));
                    assert_eq!(publisher.sequence(), before, "{rules}");
                    refused += 1;
                }
            }
        }
        // The kernel may still make room in a socket. A loan that does not wait leaves the wake.
        waker.wake();
        loop {
            fill(&mut publisher, &samples);
            let outcome = publisher.loan(10).map(drop);
            if outcome.is_err() {
                assert!(!interrupted(outcome));
                break;
            }
        }
        let sent = publisher.sequence();
        let sender = std::thread::spawn(move || publisher.finish().unwrap());
        for number in 0..sent {
            assert!(take_number(&mut subscriber, number).samples == samples);
        }
        expect_end(&mut subscriber);
        sender.join().unwrap();
    }
}

pub fn a_wake_before_a_send_sends_nothing(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "woken");
    (0..3).for_each(|number| publisher.send(&[number]).unwrap());
    let waker = publisher.waker().unwrap();
    waker.wake();
    // Calls that never wait leave the wake, and so does counting the receivers.
    publisher.try_send(&[3]).unwrap();
    assert_eq!(publisher.receivers(), 1);
    publisher.try_send(&[4]).unwrap();
    assert!(!interrupted(publisher.send(&[5])));
    waker.wake();
    let mut written = 0;
    assert!(!interrupted(publisher.send_many(3, 1, |_, _| written += 1)));
    assert_eq!((written, publisher.sequence()), (0, 5));
    publisher.send(&[5]).unwrap();
    for number in 0..6 {
        assert_eq!(take_number(&mut subscriber, number).samples, [number]);
    }
}

pub fn a_wake_ends_a_wait_for_acks(transport: &'static str) {
    let node = node(transport, TARGET);
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "waited-for");
    let mut second = node.subscriber::<u64>("waited-for").unwrap();
    await_receivers(&mut publisher, 2);
    let waker = publisher.waker().unwrap();
    for number in 0..3 {
        assert!(interrupted(wake_asleep(&waker, || publisher.send(&[number]))), "it is sent");
        assert_eq!(publisher.sequence(), number + 1);
        take_number(&mut subscriber, number);
        take_number(&mut second, number);
    }
    // The next send waits for the packet's own acknowledgement.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for subscriber in [&mut subscriber, &mut second] {
            scope.spawn(|| {
                let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() else {
                    panic!("no packet within {DEADLINE:?}");
                };
                assert_eq!((packet.sequence(), packet.gap()), (3, None));
                // Set the flag before the drop, which sends the acknowledgement.
                done.store(true, Ordering::SeqCst);
                drop(packet);
            });
        }
        publisher.send(&[3]).unwrap();
        assert!(done.load(Ordering::SeqCst));
    });
}

pub fn a_wake_between_fragments_keeps_the_packet_whole(transport: &'static str) {
    let node = node(transport, "buffer = 16384\ndepth = 4");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "large");
    let waker = publisher.waker().unwrap();
    let large = large(transport);
    publisher.send(&[1]).unwrap();
    let mut outcome = wake_asleep(&waker, || publisher.send(&large));
    if outcome.is_ok() {
        // If the transport took the whole packet, the wake is left for the next call.
        outcome = publisher.send(&[2]);
        assert!(!interrupted(outcome));
    } else {
        assert!(interrupted(outcome), "it is sent");
    }
    assert_eq!(publisher.sequence(), 2);
    // The rest of the packet is sent before anything else, and interrupting this changes nothing.
    waker.wake();
    assert!(!interrupted(publisher.send(&[2])));
    publisher.set_stream(stripline::StreamInfo::new("behind"));
    assert_eq!(publisher.sequence(), 2);
    let sender = std::thread::spawn(move || {
        publisher.send(&[2]).unwrap();
        publisher.finish().unwrap();
    });
    take_number(&mut subscriber, 0);
    let parcel = take_number(&mut subscriber, 1);
    assert!(parcel.samples == large && parcel.stream != "behind");
    let parcel = take_number(&mut subscriber, 2);
    assert_eq!((parcel.samples, &*parcel.stream), (vec![2], "behind"));
    expect_end(&mut subscriber);
    sender.join().unwrap();
}

pub fn an_interrupted_packet_is_completed_by_the_end(transport: &'static str) {
    let node = node(transport, "buffer = 16384\ndepth = 4");
    for by_drop in [false, true] {
        let (mut publisher, mut subscriber) = pair::<u64>(&node, if by_drop { "dropped" } else { "ended" });
        let waker = publisher.waker().unwrap();
        let large = large(transport);
        let mut outcome = wake_asleep(&waker, || publisher.send(&large));
        // The thread slept before anything was sent, so the packet has not begun.
        while matches!(outcome, Err(Error::Interrupted { sent: false, .. })) {
            outcome = wake_asleep(&waker, || publisher.send(&large));
        }
        if outcome.is_ok() {
            assert!(!interrupted(publisher.send(&[2])));
        }
        let sender = std::thread::spawn(move || {
            // The drop is not interrupted.
            waker.wake();
            if by_drop {
                return drop(publisher);
            }
            while let Err(error) = publisher.end(DEADLINE) {
                assert!(matches!(error, Error::Interrupted { .. }), "{error}");
            }
            publisher.end(DEADLINE).unwrap();
            assert!(matches!(publisher.send(&[3]), Err(Error::Port { .. } | Error::Interrupted { .. })));
        });
        assert!(take_number(&mut subscriber, 0).samples == large);
        expect_end(&mut subscriber);
        sender.join().unwrap();
    }
}

pub fn a_wake_ends_waits_for_receivers_and_the_end(transport: &'static str) {
    let node = node(transport, "depth = 8");
    let mut publisher = node.publisher::<u64>("late").unwrap();
    let waker = publisher.waker().unwrap();
    assert!(!interrupted(wake_asleep(&waker, || publisher.wait_for_receivers(1, Duration::MAX))));
    let mut subscriber = node.subscriber::<u64>("late").unwrap();
    await_receivers(&mut publisher, 1);
    let samples = vec![7; 500];
    fill(&mut publisher, &samples);
    let sent = publisher.sequence();
    // A ring has room for the end.
    if let Err(error) = wake_asleep(&waker, || publisher.end(DEADLINE)) {
        assert!(matches!(error, Error::Interrupted { sent: false, .. }), "{error}");
    } else {
        waker.wake();
    }
    let sender = std::thread::spawn(move || {
        while let Err(error) = publisher.end(DEADLINE) {
            assert!(matches!(error, Error::Interrupted { .. }), "{error}");
        }
    });
    (0..sent).for_each(|number| drop(take_number(&mut subscriber, number)));
    expect_end(&mut subscriber);
    sender.join().unwrap();
}

/// Sends packets of every size, and repeats each one until it is sent.
fn send_all(publisher: &mut Publisher<u64>, packets: u64) -> u64 {
    let (mut dice, mut interrupts) = (Dice::new(5), 0);
    for number in 0..packets {
        let samples = vec![number; [1, 30, 400, 9000][dice.below(4)]];
        loop {
            match publisher.send(&samples) {
                Ok(()) => break,
                Err(Error::Interrupted { sent, .. }) => {
                    interrupts += 1;
                    assert_eq!(publisher.sequence(), number + u64::from(sent));
                    if sent {
                        break;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    while let Err(error) = publisher.end(DEADLINE) {
        assert!(matches!(error, Error::Interrupted { .. }), "{error}");
        interrupts += 1;
    }
    interrupts
}

fn take_all(subscriber: &mut Subscriber<u64>) -> (u64, u64) {
    let (mut next, mut interrupts) = (0, 0);
    loop {
        match subscriber.receive() {
            Ok(Some(packet)) => {
                assert_eq!((packet.sequence(), packet.gap()), (next, None));
                assert!(packet.iter().all(|sample| *sample == next));
                next += 1;
            }
            Ok(None) => return (next, interrupts),
            Err(Error::Interrupted { .. }) => interrupts += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

pub fn wakes_at_any_moment_lose_nothing(transport: &'static str) {
    const PACKETS: u64 = 600;
    for rules in
        ["buffer = 16384\ndepth = 4", "buffer = 16384\ndepth = 4\nscope = 'target'\ndeadline-ms = 3600000"]
    {
        let node = node(transport, rules);
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "woken");
        let wakers = [publisher.waker().unwrap(), subscriber.waker().unwrap()];
        let is_over = AtomicBool::new(false);
        let woken = std::thread::scope(|scope| {
            let sender = scope.spawn(|| send_all(&mut publisher, PACKETS));
            let receiver = scope.spawn(|| {
                let taken = take_all(&mut subscriber);
                is_over.store(true, Ordering::SeqCst);
                taken
            });
            let mut dice = Dice::new(11);
            while !is_over.load(Ordering::SeqCst) {
                wakers[dice.below(2)].wake();
                (0..dice.below(2000)).for_each(|_| std::hint::spin_loop());
                if dice.below(8) == 0 {
                    std::thread::yield_now();
                }
            }
            let (packets, interrupts) = receiver.join().unwrap();
            assert_eq!(packets, PACKETS, "{rules}");
            interrupts + sender.join().unwrap()
        });
        assert!(woken > 0, "{rules}");
        await_that("the connection is counted", || node.connections()[0].packets == PACKETS);
        assert_eq!(node.connections()[0].lost, 0);
    }
}
