//! Section 2: scopes that are reached when the receivers acknowledge.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::json;
use stripline::node::{Dispatch, Publisher, Subscriber};
use stripline::payload::{Cbor, NoSchema};
use stripline::terms::Scope;
use stripline::{Error, Received, Result, Sample};

use crate::refusals::Refusal;
use crate::support::{
    DEADLINE, abstract_names, await_receivers, await_that, domain, endpoint_of, expect_end, join,
    meeting_point, node, pair, shares_a_socket, take, take_number,
};
use crate::trust_network::{Scene, last_words, message};

/// A deadline longer than a rule may take. A send that reaches it fails the rule.
pub const TARGET: &str = "scope = \"target\"\ndeadline-ms = 3600000";

/// Sends a packet with its own scope and deadline.
pub fn send_as<T: Sample>(publisher: &mut Publisher<T>, samples: &[T], scope: Scope, ms: u64) -> Result<()> {
    let mut loan = publisher.loan(samples.len())?;
    loan.copy_from_slice(samples);
    loan.scope(scope).deadline(Duration::from_millis(ms)).send()
}

/// Takes all packets, and counts each as finished before it is dropped.
fn finish_all(subscriber: &mut Subscriber<u64>, finished: &AtomicU64) -> u64 {
    let mut next = 0;
    while let Some(packet) = subscriber.receive().unwrap() {
        assert_eq!((packet.sequence(), packet.gap()), (next, None));
        assert!(packet.iter().all(|sample| *sample == next));
        next += 1;
        finished.fetch_add(1, Ordering::SeqCst);
    }
    next
}

pub fn server_returns_when_the_packet_is_in_the_queue(transport: &'static str) {
    let node = node(transport, "scope = \"server\"\ndeadline-ms = 3600000\ndepth = 4");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "served");
    for round in 0..50 {
        // The receiver takes no packet while these four are sent.
        for number in 0..4 {
            publisher.send(&[round * 4 + number; 100]).unwrap();
        }
        for number in 0..4 {
            // The packet is already in the queue.
            let packet = subscriber.try_receive().unwrap().packet().expect("it was accepted");
            assert_eq!(
                (packet.sequence(), packet[99], packet.gap()),
                (round * 4 + number, round * 4 + number, None)
            );
        }
    }
    publisher.finish().unwrap();
    expect_end(&mut subscriber);
}

pub fn server_waits_for_every_policy_that_takes_the_packet(transport: &'static str) {
    for policy in ["block", "drop-oldest", "drop-newest", "eject"] {
        let node =
            node(transport, &format!("scope = \"server\"\ndeadline-ms = 3600000\noverflow = \"{policy}\""));
        let (mut publisher, mut first) = pair::<u64>(&node, "served");
        let mut second = node.subscriber::<u64>("served").unwrap();
        await_receivers(&mut publisher, 2);
        for number in 0..20 {
            publisher.send(&[number]).unwrap();
            for subscriber in [&mut first, &mut second] {
                let packet = subscriber.try_receive().unwrap().packet().expect("it was accepted");
                assert_eq!((packet.sequence(), packet[0]), (number, number), "{policy}");
            }
        }
    }
}

pub fn target_returns_when_the_packet_is_dropped(transport: &'static str) {
    for rules in ["wait = \"block\"", "wait = \"adaptive\"", "depth = 1", "overflow = \"drop-oldest\""] {
        let node = node(transport, &format!("{TARGET}\n{rules}"));
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "waited-for");
        let finished = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let component = scope.spawn(|| finish_all(&mut subscriber, &finished));
            for number in 0..200 {
                publisher.send(&[number; 10]).unwrap();
                assert_eq!(finished.load(Ordering::SeqCst), number + 1, "{rules}");
            }
            publisher.finish().unwrap();
            assert_eq!(component.join().unwrap(), 200);
        });
    }
}

pub fn target_waits_for_every_receiver(transport: &'static str) {
    let node = node(transport, TARGET);
    let (mut publisher, mut quick) = pair::<u64>(&node, "waited-for");
    let mut slow = node.subscriber::<u64>("waited-for").unwrap();
    await_receivers(&mut publisher, 2);
    let done_slow = AtomicU64::new(0);
    let (is_quick, go_on) = channel();
    std::thread::scope(|scope| {
        let done_slow = &done_slow;
        let quick = scope.spawn(move || {
            let mut packets = 0;
            while let Some(packet) = quick.receive().unwrap() {
                drop(packet);
                packets += 1;
                is_quick.send(()).unwrap();
            }
            packets
        });
        let slow = scope.spawn(move || {
            let mut packets = 0;
            while let Some(packet) = slow.receive().unwrap() {
                // The other receiver has finished, so only the first is still awaited.
                go_on.recv_timeout(DEADLINE).unwrap();
                done_slow.fetch_add(1, Ordering::SeqCst);
                drop(packet);
                packets += 1;
            }
            packets
        });
        for number in 0..20 {
            publisher.send(&[number]).unwrap();
            assert_eq!(done_slow.load(Ordering::SeqCst), number + 1);
        }
        publisher.finish().unwrap();
        assert_eq!((quick.join().unwrap(), slow.join().unwrap()), (20, 20));
    });
}

pub fn target_waits_for_handlers(transport: &'static str) {
    for dispatch in [Dispatch::Queue, Dispatch::Direct, Dispatch::pool(3).unwrap()] {
        let node = node(transport, TARGET);
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "waited-for");
        let finished = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let component = scope.spawn(|| {
                subscriber.serve(dispatch, |_| {
                    finished.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                })
            });
            for number in 0..50 {
                publisher.send(&[number]).unwrap();
                assert_eq!(finished.load(Ordering::SeqCst), number + 1, "{dispatch}");
            }
            publisher.finish().unwrap();
            component.join().unwrap().unwrap();
        });
    }
}

pub fn target_takes_large_packets(transport: &'static str) {
    let node = node(transport, &format!("{TARGET}\nbuffer = 4096"));
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "waited-for");
    let finished = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let component = scope.spawn(|| finish_all(&mut subscriber, &finished));
        for number in 0..20 {
            // Small and fragmented packets are sent in turn.
            publisher.send(&vec![number; if number % 2 == 0 { 3 } else { 5000 }]).unwrap();
            assert_eq!(finished.load(Ordering::SeqCst), number + 1);
        }
        publisher.finish().unwrap();
        assert_eq!(component.join().unwrap(), 20);
    });
}

pub fn a_send_may_choose_its_scope(transport: &'static str) {
    let node = node(transport, TARGET);
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "chosen");
    // The receiver takes none of these packets.
    send_as(&mut publisher, &[0], Scope::None, 0).unwrap();
    send_as(&mut publisher, &[1; 20], Scope::Transport, 0).unwrap();
    send_as(&mut publisher, &[2], Scope::Server, DEADLINE.as_millis() as u64).unwrap();
    for number in 0..3 {
        assert_eq!(take_number(&mut subscriber, number).samples[0], number);
    }
    let mut loan = publisher.loan(1).unwrap();
    loan[0] = 7;
    // The scope of a loan that is not sent applies to no other packet.
    drop(loan.scope(Scope::Transport));
    let error = send_as(&mut publisher, &[3], Scope::Target, 1).unwrap_err();
    assert!(matches!(error, Error::Unanswered { scope: Scope::Target, .. }), "{error}");
    take_number(&mut subscriber, 3);
    let mut loan = publisher.loan(1).unwrap();
    loan[0] = 4;
    let error = loan.deadline(Duration::ZERO).send().unwrap_err();
    assert!(matches!(error, Error::Unanswered { deadline: Duration::ZERO, .. }), "{error}");
    take_number(&mut subscriber, 4);
}

pub fn a_stronger_scope_than_the_connections(transport: &'static str) {
    for own in ["none", "transport"] {
        let node = node(transport, &format!("scope = \"{own}\"\nsampling = \"off\""));
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "chosen");
        // These packets would otherwise have a short header.
        publisher.send(&[0]).unwrap();
        take_number(&mut subscriber, 0);
        let outcome = send_as(&mut publisher, &[1], Scope::Target, 1).unwrap_err();
        let text = outcome.to_string();
        match outcome {
            Error::Unsupported { transport: named, rule, .. } => {
                assert!(named == transport && rule.contains("target") && rule.contains(own), "{text}");
                Refusal::StrongerScope.print(transport, "a stronger scope than the connection's", &text);
                // No packet was sent.
                publisher.send(&[1]).unwrap();
                assert_eq!(take_number(&mut subscriber, 1).samples, [1]);
            }
            Error::Unanswered { .. } => {
                assert!(!Refusal::StrongerScope.is_of(transport));
                assert_eq!(take_number(&mut subscriber, 1).samples, [1]);
                std::thread::scope(|scope| {
                    let component = scope.spawn(|| take_number(&mut subscriber, 2).samples);
                    send_as(&mut publisher, &[2], Scope::Target, DEADLINE.as_millis() as u64).unwrap();
                    assert_eq!(component.join().unwrap(), [2]);
                });
                publisher.send(&[3]).unwrap();
                assert_eq!(take_number(&mut subscriber, 3).samples, [3]);
            }
            _ => panic!("{text}"),
        }
    }
}

pub fn a_deadline_names_the_connection_and_the_packet_arrives(transport: &'static str) {
    let node = node(transport, "scope = \"target\"\ndeadline-ms = 1");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "late");
    for number in 0..5 {
        let error = publisher.send(&[number; 7]).unwrap_err();
        let text = error.to_string();
        let Error::Unanswered { connection, scope, deadline } = error else { panic!("{text}") };
        assert_eq!((scope, deadline), (Scope::Target, Duration::from_millis(1)));
        assert!(connection.ends_with("-> late") && text.contains("deadline-ms"), "{text}");
    }
    for number in 0..5 {
        assert_eq!(take_number(&mut subscriber, number).samples, [number; 7]);
    }
    // Late acknowledgements belong to other packets.
    std::thread::scope(|scope| {
        let (finished, go_on) = channel::<()>();
        let component = scope.spawn(move || {
            let packet = subscriber.receive().unwrap().unwrap();
            go_on.recv_timeout(DEADLINE).unwrap();
            drop(packet);
        });
        let error = send_as(&mut publisher, &[5], Scope::Target, 1).unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
        finished.send(()).unwrap();
        component.join().unwrap();
    });
}

pub fn a_component_may_refuse_a_packet(transport: &'static str) {
    let node = node(transport, TARGET);
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "disputed");
    let long = "zu groß ".repeat(100);
    std::thread::scope(|scope| {
        let component = scope.spawn(|| {
            subscriber.receive().unwrap().unwrap().refuse("the\x07 antenna is not plugged in");
            drop(subscriber.receive().unwrap().unwrap());
            subscriber.receive().unwrap().unwrap().refuse(&long);
            let mut windows = subscriber.windowed();
            drop(windows.window(1).unwrap().unwrap());
        });
        let error = publisher.send(&[0]).unwrap_err();
        let text = error.to_string();
        let Error::PacketRefused { connection, reason } = error else { panic!("{text}") };
        assert!(connection.ends_with("-> disputed"), "{connection}");
        assert_eq!(reason, "the  antenna is not plugged in");
        publisher.send(&[1]).unwrap();
        match publisher.send(&[2]).unwrap_err() {
            Error::PacketRefused { reason, .. } => {
                assert!(long.starts_with(&reason) && (253..=256).contains(&reason.len()), "{reason}");
            }
            error => panic!("{error}"),
        }
        publisher.send(&[3]).unwrap();
        component.join().unwrap();
    });
}

pub fn a_handler_error_is_reported_to_the_sender(transport: &'static str) {
    for dispatch in [Dispatch::Queue, Dispatch::pool(2).unwrap()] {
        let node = node(transport, TARGET);
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "disputed");
        let component = std::thread::spawn(move || {
            let failed = subscriber.serve(dispatch, |_| Err(Error::failed("no lock")));
            let panicked = subscriber.serve(dispatch, |_| panic!("no bits"));
            (failed.unwrap_err(), panicked.unwrap_err())
        });
        for (number, says) in [(0, "no lock"), (1, "no bits")] {
            match publisher.send(&[number]).unwrap_err() {
                Error::PacketRefused { reason, .. } => assert!(reason.contains(says), "{reason}"),
                error => panic!("{error}"),
            }
        }
        let (failed, panicked) = component.join().unwrap();
        assert!(matches!(failed, Error::Handler { packet: 0, .. }), "{failed}");
        assert!(matches!(panicked, Error::Handler { packet: 1, .. }), "{panicked}");
    }
}

pub fn a_large_packet_that_overtakes_its_receiver_is_refused(transport: &'static str) {
    const PACKETS: u64 = 150;
    for (scope, policy) in [("server", "drop-newest"), ("target", "drop-oldest"), ("target", "drop-newest")] {
        // The rings are smaller than the packets. A send that reached the deadline would fail the
        // rule.
        let rules = format!(
            "scope = '{scope}'\ndeadline-ms = 3600000\noverflow = '{policy}'\ndepth = 3\nbuffer = 4096"
        );
        let node = node(transport, &rules);
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "large");
        let component = std::thread::spawn(move || {
            let (mut received, mut next) = (0, 0);
            while let Some(packet) = subscriber.receive().unwrap() {
                next += packet.gap().map_or(0, |gap| gap.packets);
                assert_eq!((packet.sequence(), packet.len()), (next, 4000));
                assert!(packet.iter().all(|sample| *sample == next));
                (received, next) = (received + 1, next + 1);
            }
            (received, next + subscriber.gap_at_end().map_or(0, |gap| gap.packets))
        });
        let mut refused = 0;
        for number in 0..PACKETS {
            match publisher.send(&[number; 4000]) {
                Ok(()) => {}
                Err(Error::PacketRefused { reason, .. }) => {
                    assert!(reason.contains("policy") || reason.contains("its stream was lost"), "{reason}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        publisher.finish().unwrap();
        assert_eq!(
            component.join().unwrap(),
            (PACKETS - refused, PACKETS),
            "{scope}, {policy}: {refused} refused"
        );
        if matches!(transport, "inproc" | "shm") {
            assert!(refused > 0, "{scope}, {policy}: no receiver was ever overtaken");
        }
    }
}

pub fn a_message_may_have_its_own_scope_and_deadline(transport: &'static str) {
    let node = node(transport, TARGET);
    let mut publisher = node.publisher::<Cbor<u64, NoSchema>>("commands").unwrap();
    let mut subscriber = node.subscriber::<Cbor<u64, NoSchema>>("commands").unwrap();
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    // The receiver does not take this packet.
    publisher.loan_copy_of(&0).unwrap().scope(Scope::Transport).send().unwrap();
    let loan = publisher.loan_copy_of(&1).unwrap().deadline(Duration::from_millis(1));
    assert!(matches!(loan.send(), Err(Error::Unanswered { .. })));
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(message) = subscriber.receive().unwrap() {
                taken.store(message.decode().unwrap(), Ordering::SeqCst);
            }
        });
        for number in 2..20 {
            publisher.loan_copy_of(&number).unwrap().scope(Scope::Target).deadline(DEADLINE).send().unwrap();
            // A message counts as finished when it has been decoded, and the component gets it at
            // that moment.
            assert!(taken.load(Ordering::SeqCst) + 1 >= number);
        }
        publisher.finish().unwrap();
    });
    assert_eq!(taken.into_inner(), 19);
}

pub fn a_handler_may_refuse_a_packet_and_go_on(transport: &'static str) {
    for dispatch in [Dispatch::Queue, Dispatch::Direct, Dispatch::pool(2).unwrap()] {
        let node = node(transport, TARGET);
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "disputed");
        let component = std::thread::spawn(move || {
            subscriber.serve(dispatch, |packet| {
                if packet[0].is_multiple_of(3) {
                    packet.refuse("a multiple of three");
                    packet.refuse("and that is that");
                }
                Ok(())
            })
        });
        for number in 0..12 {
            match publisher.send(&[number]) {
                Ok(()) => assert_ne!(number % 3, 0),
                Err(Error::PacketRefused { reason, .. }) => {
                    assert_eq!((number % 3, &*reason), (0, "a multiple of three"));
                }
                Err(error) => panic!("{error}"),
            }
        }
        publisher.finish().unwrap();
        component.join().unwrap().unwrap();
    }
}

pub fn a_packet_dropped_by_policy_is_reported_to_the_sender(transport: &'static str) {
    let rules = "scope = \"server\"\ndeadline-ms = 3600000\noverflow = \"drop-newest\"\ndepth = 1";
    let node = node(transport, rules);
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "full");
    publisher.send(&[0]).unwrap();
    for scope in [Scope::Server, Scope::Target] {
        match send_as(&mut publisher, &[1], scope, DEADLINE.as_millis() as u64).unwrap_err() {
            Error::PacketRefused { connection, reason } => {
                assert!(
                    connection.ends_with("-> full") && reason.contains("policy"),
                    "{connection}: {reason}"
                );
            }
            error => panic!("{error}"),
        }
    }
    take_number(&mut subscriber, 0);
    publisher.send(&[3]).unwrap();
    let parcel = take(&mut subscriber);
    assert_eq!((parcel.sequence, parcel.gap.map(|gap| gap.packets)), (3, Some(2)));
}

pub fn a_late_packet_dropped_by_policy_is_not_taken_for_the_newest(transport: &'static str) {
    let node =
        node(transport, "scope = \"server\"\ndeadline-ms = 3600000\noverflow = \"drop-oldest\"\ndepth = 1");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "full");
    for number in 0..5 {
        // The receiver drops the previous packet. The sender no longer waits for the result of that
        // packet.
        let error = send_as(&mut publisher, &[2 * number], Scope::Target, 1).unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
        publisher.send(&[2 * number + 1]).unwrap();
    }
    let parcel = take(&mut subscriber);
    assert_eq!((parcel.sequence, parcel.samples, parcel.gap.map(|gap| gap.packets)), (9, vec![9], Some(9)));
}

pub fn a_send_without_receivers_does_not_wait(transport: &'static str) {
    let node = node(transport, TARGET);
    let mut publisher = node.publisher::<u64>("alone").unwrap();
    publisher.send(&[0]).unwrap();
    publisher.try_send(&[1]).unwrap();
    publisher.finish().unwrap();
}

pub fn the_end_comes_after_late_acks(transport: &'static str) {
    let node = node(transport, "scope = \"target\"\ndeadline-ms = 1");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "late");
    for number in 0..3 {
        publisher.send(&[number; 1000]).unwrap_err();
    }
    let ending = std::thread::spawn(move || publisher.finish());
    for number in 0..3 {
        take_number(&mut subscriber, number);
    }
    expect_end(&mut subscriber);
    assert!(matches!(subscriber.try_receive().unwrap(), Received::Ended));
    ending.join().unwrap().unwrap();
}

pub fn a_receiver_that_forges_acks_is_cut_off_and_named(transport: &'static str) {
    if !shares_a_socket(transport, "forged answers") {
        return;
    }
    let record = |sequence: u64, kind: u8, reason: u16| {
        let mut bytes = sequence.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[kind, 0]);
        bytes.extend_from_slice(&reason.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes
    };
    for (forged, violation) in [
        (record(2, 2, 0), "acknowledged packet 2, which was not sent"),
        (record(1, 1, 0), "acknowledged packet 1 before it was finished"),
        (record(1, 9, 0), "sent an invalid acknowledgement"),
        (record(1, 3, 257), "announced a reason of 257 bytes"),
        ([record(1, 2, 0), record(0, 2, 0)].concat(), "acknowledged packet 0 without a request"),
        (vec![0xa5; 100_000], "sent an invalid acknowledgement"),
    ] {
        let domain = domain();
        let node = join(&domain, transport, TARGET);
        await_that("the meeting point", || abstract_names().contains(&meeting_point(&domain)));
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        send_as(&mut publisher, &[0], Scope::Transport, 0).unwrap();
        let endpoint = endpoint_of(&take(&mut subscriber).connection);
        let mut scene = Scene { node, domain, publisher, subscriber, endpoint };
        let hello = json!({
            "key": scene.keys()[0], "connection": "stranger -> numbers", "payload": "u64", "overflow": "block", "depth": 4
        });
        let mut stranger = scene.stranger();
        stranger.write_all(&message(&hello)).unwrap();
        await_receivers(&mut scene.publisher, 2);
        let _ = stranger.write_all(&forged);
        std::thread::scope(|scope| {
            let Scene { publisher, subscriber, .. } = &mut scene;
            let component = scope.spawn(|| [1, 2].map(|number| take_number(subscriber, number).samples[0]));
            let error = publisher.send(&[1]).unwrap_err();
            let text = error.to_string();
            let Error::PeerMisbehaved { peer, .. } = error else { panic!("{text}") };
            assert_eq!(peer, "stranger -> numbers");
            assert!(text.contains(violation), "{text}");
            // The violating receiver is disconnected, and the other continues.
            assert_eq!(publisher.receivers(), 1);
            publisher.send(&[2]).unwrap();
            assert_eq!(component.join().unwrap(), [1, 2]);
        });
        last_words(stranger);
    }
}
