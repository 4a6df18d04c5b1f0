//! Messages that strangers and other versions send to the ends of a path.

use std::io;
use std::os::fd::OwnedFd;

use proptest::prelude::*;

use stripline::carrier::packet::Kind;
use stripline::carrier::test_path::{WriteBytes, carry_steady_packets, frame, frame_of, path, read, sink};

use super::*;
use crate::transit::FRAMES_MAX;

fn parse(text: &str) -> Result<ZeromqTicket, String> {
    ZeromqTicket::parse(text)
}

#[test]
fn a_ticket_that_does_not_fit_is_refused_by_name() {
    let ticket = |name: &str, frames: u64| {
        format!(r#"{{"name":"{name}","bound":{{"key":5,"frames":{frames},"unit":null}}}}"#)
    };
    assert!(parse(&ticket("stripline-zeromq-12-ab", 7)).is_ok());
    let names = ["", "stripline-zeromq-", "x-12", "stripline-zeromq-a/../b", "stripline-zeromq-12 "];
    for name in names.map(String::from).into_iter().chain([format!("{PREFIX}{}", "a".repeat(41))]) {
        let refusal = parse(&ticket(&name, 7)).unwrap_err();
        assert!(refusal.contains("names no socket"), "{name}: {refusal}");
    }
    for frames in [0, FRAMES_MAX + 1, u64::MAX] {
        let refusal = parse(&ticket("stripline-zeromq-12", frames)).unwrap_err();
        assert!(refusal.contains(&format!("allows {frames} frames")), "{refusal}");
    }
    let good = ticket("stripline-zeromq-12", 7);
    let other_version = good.replace(r#""key""#, r#""version":2,"key""#);
    let zero_unit = good.replace("null", "0");
    for text in ["", "{", &good[..good.len() - 1], &other_version, &zero_unit, "[]", "5"] {
        let refusal = parse(text).unwrap_err();
        assert!(refusal.contains("does not parse"), "{text}: {refusal}");
    }
}

#[test]
fn a_ticket_without_its_descriptors_or_with_others_is_refused() {
    let (_source, ticket) = path(&ZEROMQ, 8);
    let address = ticket.address.clone();
    let with = |fds| Ticket::new(address.clone(), fds);
    let refusal = sink(&ZEROMQ, with(Vec::new())).err().unwrap();
    assert!(refusal.contains("two descriptors"), "{refusal}");
    let [page, doorbell]: [OwnedFd; 2] = ticket.fds.try_into().unwrap();
    let refusal =
        sink(&ZEROMQ, with(vec![doorbell.try_clone().unwrap(), page.try_clone().unwrap()])).err().unwrap();
    assert!(refusal.contains("shared memory"), "{refusal}");
    let refusal =
        sink(&ZEROMQ, with(vec![page.try_clone().unwrap(), page.try_clone().unwrap()])).err().unwrap();
    assert!(refusal.contains("doorbell"), "{refusal}");
    assert!(sink(&ZEROMQ, with(vec![page, doorbell])).is_ok());
}

#[test]
fn messages_of_strangers_are_dropped_and_their_end_ends_nothing() {
    let (mut source, ticket) = path(&ZEROMQ, 8);
    let parsed = parse(&ticket.address).unwrap();
    let sink = sink(&ZEROMQ, ticket).unwrap();
    let context = zmq::Context::new();
    let stranger = context.socket(zmq::PUSH).unwrap();
    stranger.connect(&parsed.address()).unwrap();
    let wrong = [&(parsed.bound.key ^ 1).to_le_bytes()[..], &1_u64.to_le_bytes(), &frame(9)].concat();
    for message in [&[][..], b"GNU Radio", &wrong[..15], &wrong[..16], &wrong, &vec![0xff; 1 << 20]] {
        stranger.send(message, 0).unwrap();
    }
    stranger.send_multipart([&b"one"[..], b"two"], 0).unwrap();
    // The stranger's messages have arrived once the stranger's connection has ended; nothing is
    // sent at the same time here.
    drop(stranger);
    drop(context);
    for sequence in 0..20 {
        assert_eq!(sink.end.write_bytes(&frame(sequence)).unwrap(), frame(sequence).len());
        assert_eq!(read(&mut source).unwrap(), frame(sequence), "{sequence}");
    }
}

#[test]
fn steady_packets_of_every_length_arrive_as_they_were() {
    carry_steady_packets(&ZEROMQ);
}

#[test]
fn a_path_is_bounded_and_has_room_again() {
    let (mut source, ticket) = path(&ZEROMQ, 4);
    let sink = sink(&ZEROMQ, ticket).unwrap();
    for sequence in 0..4 {
        sink.end.write_bytes(&frame(sequence)).unwrap();
    }
    assert_eq!(sink.end.write_bytes(&frame(4)).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(read(&mut source).unwrap(), frame(0));
    sink.end.write_bytes(&frame(4)).unwrap();
    (1..5).for_each(|sequence| assert_eq!(read(&mut source).unwrap(), frame(sequence)));
    assert_eq!(source.last_sent.as_ref().unwrap()().unwrap().sequence, 4);
}

#[test]
fn descriptions_that_are_not_read_find_no_room_in_the_end() {
    let (mut source, ticket) = path(&ZEROMQ, 4);
    let sink = sink(&ZEROMQ, ticket).unwrap();
    let description = frame_of(0, 100, Kind::Stream);
    let mut sent = 0;
    let error = loop {
        match sink.end.write_bytes(&description) {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), sent), (io::ErrorKind::WouldBlock, 12));
    (0..4).for_each(|sequence| {
        assert_eq!(sink.end.write_bytes(&frame(sequence)).unwrap(), frame(sequence).len())
    });
    for _ in 0..12 {
        assert_eq!(read(&mut source).unwrap(), description);
    }
    sink.end.write_bytes(&description).unwrap();
}

proptest! {
    #[test]
    fn arbitrary_tickets_never_panic(text in ".{0,200}") {
        let _ = parse(&text);
    }
}
