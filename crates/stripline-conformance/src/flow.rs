//! Section 4: the points at which a receiver blocks its sender and the sender resumes: watermarks,
//! credits, stop and resume.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use stripline::node::{Publisher, Subscriber};
use stripline::terms::Flow;
use stripline::{Error, Received, StreamInfo};

use crate::puppet::{Puppet, SAMPLES, beside_another};
use crate::support::{
    DEADLINE, abstract_names, await_asleep, await_receivers, await_that, domain, expect_end, expect_nothing,
    fill, is_stream, join, meeting_point, node, pair, shares_a_socket, take, take_number,
};
use crate::trust_memory::offered;
use crate::trust_network::{Fake, last_words, message, stranger_at, welcome};

const HIGH: u64 = 8;
const LOW: u64 = 2;

fn rules(flow: Flow) -> String {
    format!("depth = 16\nhigh-watermark = {HIGH}\nlow-watermark = {LOW}\nflow = \"{flow}\"")
}

/// Returns whether packets of any size are counted one by one: by a ring's cursors, or by credits.
/// On sockets, stop and resume leave some packets in transit, and the transport itself counts
/// bytes.
fn is_exact(transport: &str, flow: Flow) -> bool {
    matches!(transport, "inproc" | "shm") || flow == Flow::Credit
}

/// Creates a pair with a stream description that was already sent, so that only packets wait from
/// now on.
fn described(transport: &str, rules: &str) -> (Publisher<u64>, Subscriber<u64>) {
    let node = node(transport, rules);
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "held");
    publisher.send(&[0]).unwrap();
    take_number(&mut subscriber, 0);
    expect_nothing(&mut subscriber);
    (publisher, subscriber)
}

/// Sends until the receiver is full and at least `least` packets were sent in total. Returns the
/// full connection.
///
/// The report of room for packets that were taken may still be on the way to the sender: between
/// hosts, messages carry it. The receiver cannot see when these messages have arrived.
fn fill_up_to(publisher: &mut Publisher<u64>, least: u64) -> String {
    let mut connection = String::new();
    await_that(&format!("room for {least} packets"), || {
        connection = fill(publisher, &[1]).1;
        publisher.sequence() >= least
    });
    connection
}

pub fn a_sender_refused_as_full_resumes_at_the_low_watermark(transport: &'static str) {
    for flow in Flow::ALL {
        let (mut publisher, mut subscriber) = described(transport, &rules(flow));
        let mut next = 1;
        for round in 0..3 {
            // A credit has been spent.
            let is_spent = round == 0 && flow == Flow::Credit;
            let connection = fill_up_to(&mut publisher, next + HIGH - u64::from(is_spent));
            let mut waiting = publisher.sequence() - next;
            // A ring may hold one packet more, in the place of a stream description.
            assert!(!is_exact(transport, flow) || waiting <= HIGH + 1, "{flow}: {waiting} packets");
            while waiting > LOW {
                if is_exact(transport, flow) {
                    let error = publisher.try_send(&[1]).unwrap_err();
                    assert!(
                        matches!(&error, Error::Full { connection: named } if *named == connection),
                        "{error}"
                    );
                }
                take_number(&mut subscriber, next);
                (next, waiting) = (next + 1, waiting - 1);
            }
            // The permission to resume may be in transit.
            await_that("there is room again", || publisher.try_send(&[2]).is_ok());
        }
        while next < publisher.sequence() {
            take_number(&mut subscriber, next);
            next += 1;
        }
        publisher.finish_within(DEADLINE).unwrap();
        expect_end(&mut subscriber);
    }
}

pub fn a_sleeping_sender_resumes_at_the_low_watermark(transport: &'static str) {
    for flow in Flow::ALL {
        for wait in ["block", "adaptive"] {
            let rules = format!("{}\nwait = \"{wait}\"", rules(flow));
            let (mut publisher, mut subscriber) = described(transport, &rules);
            fill(&mut publisher, &[1]);
            let sent = publisher.sequence();
            let ((tell, thread), (done, is_done)) = (mpsc::channel(), mpsc::channel());
            let sender = std::thread::spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                publisher.send(&[1]).unwrap();
                done.send(()).unwrap();
                publisher.finish_within(DEADLINE).unwrap();
            });
            let thread = thread.recv().unwrap();
            for next in 1..sent {
                if is_exact(transport, flow) && sent - next > LOW {
                    // The sender does not resume each time it is woken.
                    await_asleep(std::process::id(), thread);
                    assert_eq!(
                        is_done.try_recv(),
                        Err(mpsc::TryRecvError::Empty),
                        "{flow} at {}",
                        sent - next
                    );
                }
                take_number(&mut subscriber, next);
                if is_exact(transport, flow) && sent - next - 1 == LOW {
                    is_done.recv_timeout(DEADLINE).unwrap();
                }
            }
            take_number(&mut subscriber, sent);
            expect_end(&mut subscriber);
            sender.join().unwrap();
        }
    }
}

pub fn every_flow_delivers_everything_in_order(transport: &'static str) {
    const PACKETS: u64 = 400;
    // Most packets are small, so the kernel's buffers hold many; some are fragmented; and at these
    // depths every sender has to wait.
    for (flow, marks) in Flow::ALL.into_iter().flat_map(|flow| {
        ["depth = 1", "depth = 2\nlow-watermark = 0", "depth = 64", "depth = 64\nlow-watermark = 63"]
            .map(|marks| (flow, marks))
    }) {
        for scope in ["none", "transport", "server", "target"] {
            let rules = format!(
                "flow = \"{flow}\"\n{marks}\nscope = \"{scope}\"\nbuffer = 4096\ndeadline-ms = 3600000"
            );
            let node = node(transport, &rules);
            let (mut publisher, mut subscriber) = pair::<u64>(&node, "flows");
            let sender = std::thread::spawn(move || {
                for number in 0..PACKETS {
                    let samples = if number % 50 == 7 { 3000 } else { number as usize % 40 };
                    publisher.send(&vec![number; samples]).unwrap();
                }
                publisher.finish_within(DEADLINE).unwrap();
            });
            for number in 0..PACKETS {
                let samples = if number % 50 == 7 { 3000 } else { number as usize % 40 };
                assert_eq!(take_number(&mut subscriber, number).samples, vec![number; samples], "{rules}");
            }
            expect_end(&mut subscriber);
            sender.join().unwrap();
        }
    }
}

pub fn try_send_is_all_or_nothing_under_every_flow(transport: &'static str) {
    for flow in Flow::ALL {
        let node = node(transport, &rules(flow));
        let (mut publisher, mut reads_later) = pair::<u8>(&node, "both");
        let mut reads = node.subscriber::<u8>("both").unwrap();
        await_receivers(&mut publisher, 2);
        let mut sent = 0;
        // A packet for which one receiver had no room was not sent to the other either.
        while publisher.try_send(&[0; 16_000]).is_ok() {
            take_number(&mut reads, sent);
            sent += 1;
            assert!(sent < 100_000, "never full");
        }
        expect_nothing(&mut reads);
        (0..sent).for_each(|sequence| drop(take_number(&mut reads_later, sequence)));
        expect_nothing(&mut reads_later);
        publisher.send(&[2]).unwrap();
        take_number(&mut reads, sent);
        take_number(&mut reads_later, sent);
    }
}

/// Checks a receiver that never takes packets: a stop without a resume.
pub fn a_stop_that_never_resumes_names_the_receiver_and_the_time(transport: &'static str) {
    for flow in Flow::ALL {
        let (mut publisher, mut subscriber) =
            described(transport, &format!("{}\nsend-timeout-ms = 20", rules(flow)));
        // The last packets may have found room in the kernel.
        let error = loop {
            if let Err(error) = publisher.send(&[7; 1000]) {
                break error;
            }
        };
        let Error::Stalled { connection, flow: named, since, timeout } = &error else { panic!("{error}") };
        assert!(connection.ends_with("-> held"), "{connection}");
        assert!(*since >= *timeout && *timeout == Duration::from_millis(20), "{since:?} {timeout:?}");
        let text = error.to_string();
        let violation = match flow {
            Flow::Credit if is_stream(transport) => "has granted no credit for",
            // Unless the kernel's buffers were full first.
            Flow::StopResume if is_stream(transport) && *named == flow => "has sent stop and not resume for",
            _ => "has had no room for",
        };
        assert!(text.contains(violation) && text.contains(connection), "{text}");
        assert!(text.contains("raise the connection's `send-timeout-ms` or `depth`"), "{text}");
        // The error is repeated, and no packet was sent. After a late resume the connection works
        // normally.
        assert!(matches!(publisher.send(&[7; 1000]), Err(Error::Stalled { .. })));
        let sent = publisher.sequence();
        (1..sent).for_each(|sequence| drop(take_number(&mut subscriber, sequence)));
        expect_nothing(&mut subscriber);
        publisher.send(&[8]).unwrap();
        take_number(&mut subscriber, sent);
    }
}

pub fn a_request_to_stop_ends_the_wait_under_every_flow(transport: &'static str) {
    for flow in Flow::ALL {
        let node = node(transport, &rules(flow));
        let (mut publisher, subscriber) = pair::<u8>(&node, "stopped");
        fill(&mut publisher, &[0; 16_000]);
        std::thread::scope(|scope| {
            let (tell, thread) = mpsc::channel();
            let sender = scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                // The kernel may have found room for more packets since then.
                let outcome = (0..1000).try_for_each(|_| publisher.send(&[1; 16_000]));
                // The publisher waits for connected receivers when it ends.
                (outcome, publisher)
            });
            await_asleep(std::process::id(), thread.recv().unwrap());
            node.stop();
            let (outcome, _publisher) = sender.join().unwrap();
            assert!(matches!(outcome, Err(Error::Stopped)), "{outcome:?}");
            drop(subscriber);
        });
    }
}

pub fn a_killed_receiver_ends_the_wait_at_once(transport: &'static str) {
    for flow in Flow::ALL {
        let Some((domain, node)) = beside_another(transport, "a receiver that is killed", &rules(flow))
        else {
            return;
        };
        // The killed process must not be the rendezvous host of the domain.
        await_that("the meeting point", || abstract_names().contains(&meeting_point(&domain)));
        let mut publisher = node.publisher::<u64>("numbers").unwrap();
        let mut receiver = Puppet::start(&domain, transport, &rules(flow));
        receiver.order("subscribe numbers");
        await_receivers(&mut publisher, 1);
        fill(&mut publisher, &[0; SAMPLES]);
        let (tell, thread) = mpsc::channel();
        let sender = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            for _ in 0..1000 {
                publisher.send(&[publisher.sequence(); SAMPLES]).unwrap();
            }
            publisher
        });
        await_asleep(std::process::id(), thread.recv().unwrap());
        receiver.kill();
        // The sender resumes without the receiver. The next receiver gets all credits.
        let mut publisher = sender.join().unwrap();
        let mut next = Puppet::start(&domain, transport, &rules(flow));
        next.order("subscribe numbers");
        await_receivers(&mut publisher, 1);
        let first = publisher.sequence();
        for _ in 0..3 {
            publisher.send(&[publisher.sequence(); SAMPLES]).unwrap();
        }
        assert_eq!(next.take(3).0, first);
    }
}

/// Checks a slow receiver that has sent final acknowledgements, which the sender has not read when
/// it ends. Over `tcp`, a socket closed in that state would discard data in transit.
pub fn packets_in_transit_at_the_end_arrive(transport: &'static str) {
    if !shares_a_socket(transport, "a socket that is closed too early") {
        return;
    }
    const PACKETS: u64 = 40;
    let record = |number: u64, kind: u8| {
        let words = [number, u64::from(kind) | 16 << 16, 1, 1];
        words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
    };
    let (stop, resume, over) = (17, 18, 20);
    for scope in ["none", "transport"] {
        let domain = domain();
        let node = join(&domain, transport, &format!("scope = \"{scope}\""));
        await_that("the meeting point", || abstract_names().contains(&meeting_point(&domain)));
        let mut publisher = node.publisher::<u64>("numbers").unwrap();
        let (address, key) = offered(&domain);
        let mut slow = stranger_at(&address);
        let hello = json!({
            "key": key, "connection": "slow -> numbers", "payload": "u64", "overflow": "block",
            "depth": 64, "watermarks": [64, 48], "flow": "stop-resume",
        });
        slow.write_all(&message(&hello)).unwrap();
        await_receivers(&mut publisher, 1);
        let mut prefix = [0; 12];
        slow.read_exact(&mut prefix).unwrap();
        let mut welcome = vec![0; u32::from_le_bytes(prefix[8..].try_into().unwrap()) as usize];
        slow.read_exact(&mut welcome).unwrap();
        let sender = std::thread::spawn(move || {
            // The packets are more than the buffers between the two ends hold.
            (0..PACKETS).for_each(|number| publisher.send(&[number; 8000]).unwrap());
            publisher.finish_within(DEADLINE).unwrap();
        });
        let mut packets = 0;
        loop {
            let mut header = [0; 48];
            slow.read_exact(&mut header).unwrap();
            let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
            let mut payload = vec![0; length.next_multiple_of(16)];
            for piece in payload.chunks_mut(1000) {
                slow.read_exact(piece).unwrap();
                std::thread::yield_now();
            }
            match header[14] {
                // The sender reads flow control only when it must.
                1 => {
                    packets += 1;
                    let said = slow.write_all(&[record(packets, stop), record(packets, resume)].concat());
                    assert!(said.is_ok() || transport == "uds", "{scope}: {said:?}");
                }
                3 => break,
                _ => {}
            }
        }
        assert_eq!(packets, PACKETS, "{scope}");
        // Over `uds`, the sent data stays readable, and the sender does not wait for this record.
        let said = slow.write_all(&record(PACKETS, over));
        assert!(said.is_ok() || transport == "uds", "{scope}: {said:?}");
        sender.join().unwrap();
    }
}

pub fn a_receiver_with_invalid_flow_control_is_cut_off_and_named(transport: &'static str) {
    if !shares_a_socket(transport, "forged flow control") {
        return;
    }
    let record = |number: u64, kind: u8, sender: u64, receiver: u64| {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[kind, 0, 16, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&sender.to_le_bytes());
        bytes.extend_from_slice(&receiver.to_le_bytes());
        bytes
    };
    let (grant, stop, resume, ask, over) = (16, 17, 18, 19, 20);
    for (flow, lie, violation) in [
        ("credit", record(u64::MAX, grant, 1, 1), "flow control with the number 18446744073709551615"),
        ("credit", record(1 << 40, grant, 1, 1), "granted packets up to 1099511627776"),
        (
            "credit",
            [record(5, grant, 1, 1), record(4, grant, 1, 1)].concat(),
            "granted packets up to 4 after 5",
        ),
        ("credit", record(1, stop, 1, 1), "sent stop or resume where credits were agreed on"),
        ("credit", record(5, grant, 2, 1), "sent flow control for another sender"),
        ("credit", record(5, grant, 1, 2), "sent flow control of another receiver"),
        ("credit", record(0, ask, 1, 1), "sent an ask, which only a sender sends"),
        ("credit", record(9, over, 1, 1), "has got 9 packets"),
        ("stop-resume", record(9, stop, 1, 1), "sent stop 9"),
        ("stop-resume", record(9, resume, 1, 1), "sent stop 9"),
        ("stop-resume", record(0, stop, 1, 1), "a stop without its number"),
        ("stop-resume", record(5, grant, 1, 1), "granted credits where stop and resume were agreed on"),
    ] {
        let domain = domain();
        let node = join(&domain, transport, "");
        let mut sender = Puppet::start(&domain, transport, "");
        sender.order("publish numbers");
        let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
        sender.order("receivers 1");
        let (address, key) = offered(&domain);
        let mut violator = stranger_at(&address);
        let hello = json!({
            "key": key, "connection": "liar -> numbers", "payload": "u64", "overflow": "block",
            "depth": 4, "watermarks": [4, 3], "flow": flow,
        });
        violator.write_all(&message(&hello)).unwrap();
        sender.order("receivers 2");
        sender.order("send 1");
        violator.write_all(&lie).unwrap();
        // The receiver has room for fewer packets and takes none. The sender does not wait for a
        // receiver that violates the protocol.
        sender.order("send 19");
        let said = sender.await_error("its connection was closed");
        assert!(said.contains("liar -> numbers") && said.contains(violation), "{said}");
        (0..20).for_each(|number| drop(take_number(&mut subscriber, number)));
        // The connection is closed: after the sent data comes the end of the socket.
        last_words(violator);
        sender.order("receivers 1");
    }
}

/// Builds the frames of a stream: a description, and packets of one sample.
fn frames(packets: u64) -> Vec<u8> {
    let frame = |sequence: u64, kind: u8, payload: &[u8]| {
        let mut bytes = vec![0; 48];
        bytes[..8].copy_from_slice(&sequence.to_le_bytes());
        bytes[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes[14] = kind;
        bytes[16..24].copy_from_slice(&sequence.to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        bytes
    };
    let description = serde_json::to_vec(&StreamInfo::new("fake")).unwrap();
    let mut bytes = frame(0, 2, &description);
    (0..packets).for_each(|number| bytes.extend(frame(number, 1, &number.to_le_bytes())));
    bytes
}

pub fn a_sender_that_overruns_its_credit_is_cut_off_and_named(transport: &'static str) {
    if !shares_a_socket(transport, "a sender that overruns its credit") {
        return;
    }
    let domain = domain();
    let node = join(&domain, transport, "depth = 4\nflow = \"credit\"");
    await_that("the meeting point", || abstract_names().contains(&meeting_point(&domain)));
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let fake = Fake::open(transport);
    let _offer = fake.offer(&domain, transport);
    let mut stream = fake.accept();
    stream.write_all(&welcome(1 << 21, 22)).unwrap();
    stream.write_all(&frames(6)).unwrap();
    // The receiver has not taken any packet yet. The connection is closed, and earlier packets can
    // still be received.
    assert_eq!(last_words(stream), "");
    (0..4).for_each(|number| drop(take_number(&mut subscriber, number)));
    let error = loop {
        match subscriber.receive_timeout(DEADLINE) {
            Ok(Received::Packet(_)) => {}
            Ok(_) => panic!("nothing was wrong"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("sent packet 4, where packets up to 4 were granted"), "{error}");
}

pub fn a_low_watermark_of_one_receiver_does_not_hold_its_sibling(transport: &'static str) {
    let domain = domain();
    let node = join(&domain, transport, "depth = 16\nlow-watermark = 0\nflow = \"credit\"");
    let (mut publisher, mut slow) = pair::<u64>(&node, "shared");
    let quick = join(&domain, transport, "depth = 64");
    let mut quick = quick.subscriber::<u64>("shared").unwrap();
    await_receivers(&mut publisher, 2);
    // A message queue may be full before the credits are used up.
    fill_up_to(&mut publisher, 16);
    let sent = publisher.sequence();
    (0..sent).for_each(|number| drop(take_number(&mut quick, number)));
    (0..sent - 1).for_each(|number| drop(take_number(&mut slow, number)));
    assert!(matches!(publisher.try_send(&[1]), Err(Error::Full { .. })), "one packet is left");
    assert_eq!(take(&mut slow).sequence, sent - 1);
    await_that("there is room again", || publisher.try_send(&[2]).is_ok());
    take_number(&mut quick, sent);
    take_number(&mut slow, sent);
}
