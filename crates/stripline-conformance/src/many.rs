//! Many packets at a time: each packet keeps the promises of a single packet.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use stripline::node::{Dispatch, Publisher, Subscriber};
use stripline::terms::Scope;
use stripline::{Error, Gap, GapReason, Received, Sample};

use crate::puppet::{Puppet, SAMPLES, beside_another};
use crate::refusals::Refusal;
use crate::support::{
    DEADLINE, Dice, await_asleep, await_receivers, await_senders, await_that, domain, expect_end,
    expect_nothing, fill, is_stream, join, node, pair, refuses_repair, take, take_number,
};

/// Sends packets that contain their number, from the port's next number up to `end`, with
/// `send_many` in batches of any size.
fn send_up_to(publisher: &mut Publisher<u64>, end: u64, samples: usize) {
    let mut rng = Dice::new(end);
    while publisher.sequence() < end {
        let first = publisher.sequence();
        let packets = (1 + rng.below(40)).min((end - first) as usize);
        publisher.send_many(packets, samples, |index, place| place.fill(first + index as u64)).unwrap();
        assert_eq!(publisher.sequence(), first + packets as u64);
    }
}

fn send_all(mut publisher: Publisher<u64>, end: u64, samples: usize) -> JoinHandle<()> {
    std::thread::spawn(move || {
        send_up_to(&mut publisher, end, samples);
        publisher.finish().unwrap();
    })
}

/// Drains packets that contain their number, with limits of any size, up to the end of stream.
fn drain_all(subscriber: &mut Subscriber<u64>, end: u64, samples: usize) {
    let (mut rng, mut next) = (Dice::new(end + 1), 0);
    loop {
        let limit = 1 + rng.below(50);
        let before = next;
        let drained = subscriber.drain(limit, |packet| {
            assert_eq!((packet.sequence(), packet.gap()), (next, None));
            assert_eq!(packet.sample_index(), next * samples as u64);
            assert!(packet.len() == samples && packet.iter().all(|sample| *sample == next));
            next += 1;
        });
        let drained = drained.unwrap();
        assert!(drained <= limit);
        assert_eq!(drained as u64, next - before);
        if drained == 0 {
            break;
        }
    }
    assert_eq!(next, end);
}

/// Drains up to the limit and returns the sequence numbers.
fn numbers<T: Sample>(subscriber: &mut Subscriber<T>, limit: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    let drained = subscriber.drain(limit, |packet| numbers.push(packet.sequence())).unwrap();
    assert_eq!(drained, numbers.len());
    numbers
}

/// Drains packets with exactly these numbers. Where a kernel delivers them, it waits until they
/// arrive.
fn drain_exactly(subscriber: &mut Subscriber<u64>, range: std::ops::Range<u64>) {
    let mut next = range.start;
    while next < range.end {
        let more = numbers(subscriber, (range.end - next) as usize);
        assert!(more.iter().copied().eq(next..next + more.len() as u64), "{more:?} after {next}");
        next += more.len() as u64;
    }
}

pub fn many_keep_the_order(transport: &'static str) {
    for rules in ["", "wait = 'block'", "sampling = 'all'", "buffer = 16384\ndepth = 5"] {
        let node = node(transport, rules);
        let (publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        let sender = send_all(publisher, 3000, 3);
        drain_all(&mut subscriber, 3000, 3);
        expect_end(&mut subscriber);
        sender.join().unwrap();
        let report = &node.connections()[0];
        assert_eq!((report.packets, report.bytes, report.lost), (3000, 3000 * 3 * 8, 0));
    }
}

pub fn many_mix_with_one(transport: &'static str) {
    let node = node(transport, "buffer = 16384\nwait = 'block'");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let sender = std::thread::spawn(move || {
        for round in 1..200 {
            publisher.send(&[publisher.sequence(); 2]).unwrap();
            send_up_to(&mut publisher, round * 20, 2);
            if round % 10 == 0 {
                publisher.set_stream(stripline::StreamInfo::new(&format!("part-{round}")));
            }
        }
        publisher.finish().unwrap();
    });
    let mut next = 0;
    while next < 199 * 20 {
        assert_eq!(take_number(&mut subscriber, next).samples, [next; 2]);
        next += 1;
        if next == 199 * 20 {
            break;
        }
        subscriber
            .drain(7, |packet| {
                let part = next / 200 * 10;
                let stream = if part == 0 { "numbers".into() } else { format!("part-{part}") };
                assert_eq!((packet.sequence(), packet.stream().id.clone()), (next, stream));
                next += 1;
            })
            .unwrap();
    }
    expect_end(&mut subscriber);
    sender.join().unwrap();
}

pub fn a_drain_stops_at_its_limit_and_at_the_end(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let error = subscriber.drain(0, |_| panic!("no packet may be taken")).unwrap_err();
    assert!(error.to_string().contains("the limit must be at least 1"), "{error}");
    publisher.send_many(0, 1, |_, _| panic!("there is no packet to write")).unwrap();
    send_up_to(&mut publisher, 10, 1);
    // Over a socket, a packet may not have arrived yet unless it was waited for.
    drain_exactly(&mut subscriber, 0..4);
    assert_eq!(numbers(&mut subscriber, 1), [4]);
    publisher.finish().unwrap();
    drain_exactly(&mut subscriber, 5..10);
    for _ in 0..3 {
        assert_eq!(subscriber.drain(5, |_| panic!("the stream has ended")).unwrap(), 0);
    }
    assert_eq!(subscriber.gap_at_end(), None);
    assert_eq!(node.connections()[0].peer_deaths, 0);
}

pub fn a_drain_waits_for_the_first_only(transport: &'static str) {
    let node = node(transport, "wait = 'block'");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    await_senders(&mut subscriber, 1);
    let (tell, thread) = std::sync::mpsc::channel();
    let receiver = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        assert_eq!(numbers(&mut subscriber, 100), [0]);
    });
    await_asleep(std::process::id(), thread.recv().unwrap());
    publisher.send_many(1, 1, |_, place| place[0] = 7).unwrap();
    receiver.join().unwrap();
}

pub fn a_drain_takes_from_every_connection(transport: &'static str) {
    let node = node(transport, "buffer = 16384\ndepth = 16");
    let mut subscriber = node.subscriber::<u64>("many").unwrap();
    let publishers: Vec<Publisher<u64>> = (0..3).map(|_| node.publisher("many").unwrap()).collect();
    await_senders(&mut subscriber, 3);
    let senders: Vec<_> = publishers
        .into_iter()
        .map(|mut publisher| {
            await_receivers(&mut publisher, 1);
            send_all(publisher, 1000, 2)
        })
        .collect();
    let mut next = std::collections::BTreeMap::new();
    while subscriber
        .drain(20, |packet| {
            let next: &mut u64 = next.entry(packet.connection().to_string()).or_default();
            assert_eq!((packet.sequence(), &packet[..], packet.gap()), (*next, &[*next; 2][..], None));
            *next += 1;
        })
        .unwrap()
        > 0
    {}
    assert_eq!(next.into_values().collect::<Vec<_>>(), [1000; 3]);
    senders.into_iter().for_each(|thread| thread.join().unwrap());
}

pub fn a_drain_frees_a_blocked_sender(transport: &'static str) {
    for rules in ["depth = 8", "depth = 64\nlow-watermark = 20", "buffer = 4096", "depth = 1"] {
        let node = node(transport, &format!("wait = 'block'\n{rules}"));
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        let mut next = fill(&mut publisher, &[0; 40]).0;
        let before = next;
        let (tell, thread) = std::sync::mpsc::channel();
        let sender = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            send_up_to(&mut publisher, next + 3000, 40);
            publisher.finish().unwrap();
        });
        await_asleep(std::process::id(), thread.recv().unwrap());
        // A lost wake-up would leave the sender asleep, and then the receiver.
        next = 0;
        while subscriber
            .drain(1 + next as usize % 77, |packet| {
                assert_eq!((packet.sequence(), packet[0]), (next, if next < before { 0 } else { next }));
                next += 1;
            })
            .unwrap()
            > 0
        {}
        assert_eq!(next, before + 3000);
        sender.join().unwrap();
    }
}

pub fn a_sender_killed_during_a_drain_loses_nothing(transport: &'static str) {
    if refuses_repair(transport) {
        return;
    }
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish numbers");
    sender.order("receivers 1");
    assert_eq!(sender.order("send-many 20"), "20");
    let (mut sender, mut next) = (Some(sender), 0);
    while next < 20 {
        subscriber
            .drain(100, |packet| {
                assert_eq!((packet.sequence(), &packet[..]), (next, &[next; SAMPLES][..]));
                next += 1;
                if next == 5 {
                    sender.take().unwrap().kill();
                }
            })
            .unwrap();
    }
    await_that("the death is noticed", || {
        expect_nothing(&mut subscriber);
        subscriber.senders() == 0
    });
    assert_eq!((node.connections()[0].peer_deaths, node.connections()[0].packets), (1, 20));
}

pub fn a_stop_ends_a_drain_behind_its_packet(transport: &'static str) {
    let domain = domain();
    let (node, stopped) = (join(&domain, transport, ""), join(&domain, transport, ""));
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut subscriber = stopped.subscriber::<u64>("numbers").unwrap();
    await_receivers(&mut publisher, 1);
    await_senders(&mut subscriber, 1);
    send_up_to(&mut publisher, 10, 1);
    assert_eq!(subscriber.drain(10, |_| stopped.stop()).unwrap(), 1);
    assert!(matches!(subscriber.drain(10, |_| ()), Err(Error::Stopped)));
    assert!(matches!(subscriber.try_receive(), Err(Error::Stopped)));
}

pub fn a_panic_in_a_drain_finishes_its_packet(transport: &'static str) {
    let node = node(transport, "depth = 16");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    send_up_to(&mut publisher, 10, 1);
    let mut next = 0;
    while next < 4 {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            subscriber.drain(10, |packet| {
                assert_eq!(packet.sequence(), next);
                next += 1;
                if next == 4 {
                    std::panic::resume_unwind(Box::new("intended"));
                }
            })
        }));
        assert_eq!(outcome.is_err(), next == 4);
    }
    drain_exactly(&mut subscriber, 4..10);
    // All room is free again.
    let more = fill(&mut publisher, &[0]).0;
    drain_exactly(&mut subscriber, 10..10 + more);
    publisher.finish().unwrap();
    expect_end(&mut subscriber);
}

/// Checks when packets reach a receiver that polls: over memory, each packet at once; over sockets,
/// several together.
pub fn packets_leave_together_where_each_takes_a_system_call(transport: &'static str) {
    // Both ends are on one thread, and a sender with a full window would wait for the receiver.
    let rule = "packets in time while a repair is due";
    if Refusal::Repair.excludes(transport, rule, "those behind it wait") {
        return;
    }
    // The transport's threads may deliver nothing while this thread sends, so everything is in
    // transit.
    let depth = if transport == "corba" { "\ndepth = 200" } else { "" };
    let node = node(transport, &format!("flow = \"transport\"{depth}"));
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    publisher.send(&[0]).unwrap();
    take_number(&mut subscriber, 0);
    // A packet in memory leaves at once.
    let leave_together = is_stream(transport) && transport != "iceoryx2";
    // 100 packets of 64 bytes fit in 64 KiB. Packets of 8848 bytes leave eight at a time.
    for (samples, fits) in [(1, true), (1100, false)] {
        // The transport's pipe has no room for more while its thread delivers nothing.
        let packets = if transport == "callback" && !fits { 12 } else { 100 };
        let leaving = packets / 8 * 8;
        let mut taken = 0;
        let first = publisher.sequence();
        publisher
            .send_many(packets as usize, samples, |index, place| {
                place.fill(first + index as u64);
                while let Received::Packet(packet) = subscriber.try_receive().unwrap() {
                    assert_eq!((packet.sequence(), packet[0]), (first + taken, first + taken));
                    taken += 1;
                }
            })
            .unwrap();
        match (leave_together, fits) {
            (true, true) => assert_eq!(taken, 0),
            // The transport's thread may not have read the last packets.
            (true, false) if ["callback", "corba"].contains(&transport) => {
                assert!(taken <= leaving, "{taken}");
            }
            (true, false) => assert_eq!(taken, leaving),
            (false, _) => assert_eq!(taken, packets - 1),
        }
        for number in first + taken..first + packets {
            assert_eq!(take_number(&mut subscriber, number).samples, vec![number; samples]);
        }
    }
}

pub fn a_panic_while_writing_keeps_what_was_sent(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    publisher.send(&[0]).unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        publisher.send_many(10, 1, |index, place| {
            if index == 5 {
                std::panic::resume_unwind(Box::new("intended"));
            }
            place[0] = 1 + index as u64;
        })
    }));
    assert!(outcome.is_err());
    assert_eq!(publisher.sequence(), 6);
    for number in 0..6 {
        assert_eq!(take_number(&mut subscriber, number).samples, [number]);
    }
    publisher.send_many(2, 1, |index, place| place[0] = 6 + index as u64).unwrap();
    for number in 6..8 {
        assert_eq!(take_number(&mut subscriber, number).samples, [number]);
    }
}

pub fn scopes_hold_for_each_of_many(transport: &'static str) {
    for scope in [Scope::None, Scope::Server, Scope::Target] {
        let node = node(transport, &format!("scope = \"{scope}\"\ndeadline-ms = 120000"));
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        let written = std::sync::Arc::new(AtomicU64::new(0));
        let count = std::sync::Arc::clone(&written);
        let sender = std::thread::spawn(move || {
            publisher
                .send_many(100, 2, |index, place| {
                    place.fill(index as u64);
                    // Relaxed: the packet orders it.
                    count.store(index as u64 + 1, Ordering::Relaxed);
                })
                .unwrap();
            publisher.finish().unwrap();
        });
        let mut next = 0;
        while subscriber
            .drain(10, |packet| {
                assert_eq!((packet.sequence(), packet[0]), (next, next));
                next += 1;
                if scope == Scope::Target {
                    assert_eq!(written.load(Ordering::Relaxed), next, "it is not finished yet");
                }
            })
            .unwrap()
            > 0
        {}
        assert_eq!(next, 100);
        sender.join().unwrap();
    }
}

pub fn a_drain_may_refuse_a_packet(transport: &'static str) {
    let node = node(transport, "scope = \"target\"\ndeadline-ms = 120000");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let sender = std::thread::spawn(move || {
        let error = publisher.send_many(10, 1, |index, place| place[0] = index as u64).unwrap_err();
        assert!(matches!(&error, Error::PacketRefused { .. }), "{error}");
        assert!(error.to_string().contains("an unlucky number"), "{error}");
        assert_eq!(publisher.sequence(), 5, "the packet refused stays sent");
        publisher.finish().unwrap();
    });
    let mut taken = Vec::new();
    while subscriber
        .drain(10, |packet| {
            taken.push(packet[0]);
            if packet[0] == 4 {
                packet.refuse("an unlucky number");
            }
        })
        .unwrap()
        > 0
    {}
    assert_eq!(taken, [0, 1, 2, 3, 4]);
    sender.join().unwrap();
}

pub fn many_may_be_larger_than_the_buffer(transport: &'static str) {
    for samples in [1, 400, 10_000] {
        let node = node(transport, "buffer = 8192\nwait = 'block'");
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        let packets = 20_000 / samples as u64;
        let sender = std::thread::spawn(move || {
            publisher
                .send_many(packets as usize, samples, |index, place| {
                    assert_eq!(place.len(), samples);
                    place.fill(index as u64);
                })
                .unwrap();
            publisher.finish().unwrap();
        });
        drain_all(&mut subscriber, packets, samples);
        sender.join().unwrap();
    }
}

pub fn many_wait_for_room_no_longer_than_a_send(transport: &'static str) {
    let node = node(transport, "buffer = 16384\nsend-timeout-ms = 50");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let error = publisher.send_many(1_000_000, 500, |index, place| place.fill(index as u64)).unwrap_err();
    assert!(matches!(&error, Error::Stalled { .. }), "{error}");
    let sent = publisher.sequence();
    let too_many = publisher.samples_max() + 1;
    for samples in [too_many, usize::MAX] {
        let error = publisher.send_many(1, samples, |_, _| panic!("it is too large")).unwrap_err();
        assert!(matches!(&error, Error::TooLarge { .. }), "{error}");
    }
    assert_eq!(publisher.sequence(), sent);
    let finishing = std::thread::spawn(move || publisher.finish().unwrap());
    drain_all(&mut subscriber, sent, 500);
    finishing.join().unwrap();
}

pub fn losses_add_up_over_many(transport: &'static str) {
    const PACKETS: u64 = 5000;
    for policy in ["drop-oldest", "drop-newest"] {
        let node = node(transport, &format!("overflow = \"{policy}\"\ndepth = 8\nbuffer = 16384"));
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "lossy");
        let (mut received, mut lost, mut next) = (0, 0, 0);
        let mut count = |sequence: u64, gap: Option<&Gap>| {
            if let Some(gap) = gap {
                assert_eq!((gap.first, gap.reason), (next, GapReason::Overflow));
                lost += gap.packets;
                next += gap.packets;
            }
            assert_eq!(sequence, next);
            next += 1;
            received += 1;
        };
        let sender = std::thread::spawn(move || {
            send_up_to(&mut publisher, PACKETS, 2);
            publisher.finish().unwrap();
        });
        while subscriber
            .drain(6, |packet| {
                assert_eq!(packet[..], [packet.sequence(); 2]);
                count(packet.sequence(), packet.gap());
            })
            .unwrap()
            > 0
        {}
        sender.join().unwrap();
        let at_end = subscriber.gap_at_end().map_or(0, |gap| gap.packets);
        assert_eq!(received + lost + at_end, PACKETS, "{policy}");
        let report = &node.connections()[0];
        assert_eq!((report.packets, report.lost), (received, lost + at_end));
    }
}

pub fn an_error_behind_a_drain_is_kept(transport: &'static str) {
    let node = node(transport, "overflow = \"eject\"\ndepth = 4");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "strict");
    send_up_to(&mut publisher, 200, 1);
    await_that("the receiver is ejected", || publisher.receivers() == 0);
    let mut drained = 0;
    let error = loop {
        match subscriber.drain(100, |packet| {
            assert_eq!(packet.sequence(), drained);
            drained += 1;
        }) {
            Ok(packets) => assert!(packets > 0, "the end before the error"),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Ejected { .. }), "{error}");
    assert_eq!(drained, 4);
    assert!(matches!(subscriber.try_receive().unwrap(), Received::Ended), "reported once");
}

pub fn a_resequenced_port_is_drained(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, subscriber) = pair::<u64>(&node, "numbers");
    let mut subscriber = subscriber.resequenced(64, Duration::from_secs(60)).unwrap();
    let (mut source, mut forwarded) = pair::<u64>(&node, "source");
    send_up_to(&mut source, 20, 1);
    source.finish().unwrap();
    // The threads forward packets as they finish, in any order.
    let output = Mutex::new(&mut publisher);
    forwarded
        .serve(Dispatch::pool(4).unwrap(), |packet| {
            let mut output = output.lock().unwrap();
            let mut loan = output.loan(1)?;
            loan[0] = packet[0];
            loan.send_like(&packet)
        })
        .unwrap();
    publisher.finish().unwrap();
    let mut next = 0;
    while subscriber
        .drain(7, |packet| {
            assert_eq!((packet.order().number(), packet[0]), (next, next));
            next += 1;
        })
        .unwrap()
        > 0
    {}
    assert_eq!(next, 20);
}

pub fn many_go_to_every_receiver(transport: &'static str) {
    let domain = domain();
    let node = join(&domain, transport, "buffer = 16384");
    let elsewhere = join(&domain, transport, "overflow = \"drop-oldest\"\ndepth = 4");
    let (publisher, mut one) = pair::<u64>(&node, "numbers");
    let mut publisher = publisher;
    let mut two = node.subscriber::<u64>("numbers").unwrap();
    let mut lossy = elsewhere.subscriber::<u64>("numbers").unwrap();
    await_receivers(&mut publisher, 3);
    let sender = send_all(publisher, 2000, 5);
    let other = std::thread::spawn(move || drain_all(&mut two, 2000, 5));
    drain_all(&mut one, 2000, 5);
    other.join().unwrap();
    sender.join().unwrap();
    let mut total = 0;
    while let Received::Packet(packet) = lossy.receive_timeout(DEADLINE).unwrap() {
        total += 1 + packet.gap().map_or(0, |gap| gap.packets);
    }
    total += lossy.gap_at_end().map_or(0, |gap| gap.packets);
    assert_eq!(total, 2000);
}

pub fn a_receiver_may_come_between_many(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut first) = pair::<u64>(&node, "numbers");
    send_up_to(&mut publisher, 10, 1);
    let mut second = node.subscriber::<u64>("numbers").unwrap();
    await_receivers(&mut publisher, 2);
    send_up_to(&mut publisher, 20, 1);
    let parcel = take(&mut second);
    assert_eq!((parcel.sequence, parcel.gap, &*parcel.stream), (10, None, "numbers"));
    drain_exactly(&mut second, 11..20);
    drain_exactly(&mut first, 0..20);
}
