//! Messages that strangers and other versions send to the ends of a path.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use proptest::prelude::*;

use stripline::carrier::test_path::{WriteBytes, carry_steady_packets, frame, path, read, sink, write};

use super::*;
use crate::transit::FRAMES_MAX;
use crate::zenoh::session::{ZenohSession, put};

#[test]
fn a_ticket_that_does_not_fit_is_refused_by_name() {
    let ticket = |key: &str, address: &str, frames: u64| {
        let bound = format!(r#"{{"key":5,"frames":{frames},"unit":null}}"#);
        format!(r#"{{"address":"{address}","key":"{key}","bound":{bound}}}"#)
    };
    let (key, address) = ("stripline/12-ab", "127.0.0.1:9");
    let good = ticket(key, address, 7);
    assert!(ZenohTicket::parse(&good).is_ok());
    for key in ["", "stripline/", "x/12", "stripline/*", "stripline/a/b", "stripline/12 "] {
        let refusal = ZenohTicket::parse(&ticket(key, address, 7)).unwrap_err();
        assert!(refusal.contains("names no key"), "{key}: {refusal}");
    }
    for address in ["0.0.0.0:9", "127.0.0.1:0"] {
        let refusal = ZenohTicket::parse(&ticket(key, address, 7)).unwrap_err();
        assert!(refusal.contains("not an address"), "{address}: {refusal}");
    }
    let away = ZenohTicket::parse(&ticket(key, "192.0.2.1:9", 7)).unwrap();
    let insecure = ZenohOptions { insecure: true, ..ZenohOptions::default() };
    let routed = ZenohOptions { router: "127.0.0.1:7447".parse().ok(), ..insecure };
    assert!(away.reach(&ZenohOptions::default()).unwrap_err().contains("insecure"));
    assert!(away.reach(&insecure).is_ok());
    assert!(away.reach(&routed).unwrap_err().contains("name one on both"));
    let unrouted = ZenohTicket { address: None, ..away };
    assert!(unrouted.reach(&insecure).unwrap_err().contains("name one on both"));
    assert!(unrouted.reach(&routed).is_ok());
    for frames in [0, FRAMES_MAX + 1, u64::MAX] {
        let refusal = ZenohTicket::parse(&ticket(key, address, frames)).unwrap_err();
        assert!(refusal.contains(&format!("allows {frames} frames")), "{refusal}");
    }
    let other_version = good.replace(r#""bound""#, r#""version":2,"bound""#);
    for text in ["", "{", &good[..good.len() - 1], &other_version, "[]", "5"] {
        let refusal = ZenohTicket::parse(text).unwrap_err();
        assert!(refusal.contains("does not parse"), "{text}: {refusal}");
    }
}

#[test]
fn a_ticket_without_its_descriptors_or_with_others_is_refused() {
    let (_source, ticket) = path(&ZENOH, 8);
    let address = ticket.address.clone();
    let with = |fds| Ticket::new(address.clone(), fds);
    let [page, doorbell]: [OwnedFd; 2] = ticket.fds.try_into().unwrap();
    let refusal = sink(&ZENOH, with(vec![page.try_clone().unwrap()])).err().unwrap();
    assert!(refusal.contains("two descriptors"), "{refusal}");
    let refusal = sink(&ZENOH, with(vec![doorbell, page])).err().unwrap();
    assert!(refusal.contains("shared memory"), "{refusal}");
}

#[test]
fn a_receiver_that_is_gone_is_an_error_and_nothing_waits() {
    let (source, ticket) = path(&ZENOH, 8);
    drop(source);
    let sink = sink(&ZENOH, ticket).unwrap();
    let error = loop {
        match sink.end.write_bytes(&frame(0)) {
            Ok(_) => panic!("there is no receiver"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{error}");
}

#[test]
fn garbage_at_the_port_harms_nothing() {
    let (mut source, ticket) = path(&ZENOH, 8);
    let address = ZenohTicket::parse(&ticket.address).unwrap().address.unwrap();
    let strangers = || {
        for bytes in [&[0xff; 70_000][..], b"GET / HTTP/1.1\r\n\r\n", &[0, 0], &u16::MAX.to_le_bytes(), b""] {
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    };
    strangers();
    let sink = sink(&ZENOH, ticket).unwrap();
    for sequence in 0..20 {
        write(&sink, &frame(sequence));
        assert_eq!(read(&mut source).unwrap(), frame(sequence), "{sequence}");
        if sequence == 10 {
            strangers();
        }
    }
}

#[test]
fn messages_without_the_key_are_dropped() {
    let (mut source, ticket) = path(&ZENOH, 8);
    let parsed = ZenohTicket::parse(&ticket.address).unwrap();
    // The stranger has found the port and the key, and comes first.
    let stranger = ZenohSession::open(&SessionReach::Connect(parsed.address.unwrap())).unwrap();
    let publisher = stranger.publisher(&parsed.data_key()).unwrap();
    let wrong = [&(parsed.bound.key ^ 1).to_le_bytes()[..], &1_u64.to_le_bytes(), &frame(9)].concat();
    for message in [&[][..], b"zenoh", &wrong[..15], &wrong[..16], &wrong, &vec![0xff; 1 << 20]] {
        put(&publisher, message.to_vec()).unwrap();
    }
    let right = [&parsed.bound.prefix(1)[..], &frame(3)].concat();
    put(&publisher, right).unwrap();
    assert_eq!(read(&mut source).unwrap(), frame(3));
    // The sender finds that its place is taken.
    let sink = sink(&ZENOH, ticket).unwrap();
    let error = loop {
        match sink.end.write_bytes(&frame(0)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{error}");
}

#[test]
fn steady_packets_of_every_length_arrive_as_they_were() {
    carry_steady_packets(&ZENOH);
}

#[test]
fn a_path_is_bounded_and_has_room_again() {
    let (mut source, ticket) = path(&ZENOH, 4);
    let sink = sink(&ZENOH, ticket).unwrap();
    (0..4).for_each(|sequence| write(&sink, &frame(sequence)));
    assert_eq!(sink.end.write_bytes(&frame(4)).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(read(&mut source).unwrap(), frame(0));
    write(&sink, &frame(4));
    (1..5).for_each(|sequence| assert_eq!(read(&mut source).unwrap(), frame(sequence)));
    assert_eq!(source.last_sent.as_ref().unwrap()().unwrap().sequence, 4);
}

proptest! {
    #[test]
    fn arbitrary_tickets_never_panic(text in ".{0,200}") {
        let _ = ZenohTicket::parse(&text);
    }
}
