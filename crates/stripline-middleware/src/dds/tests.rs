//! Messages that strangers and other versions send to the ends of a path.

use std::io;
use std::sync::Arc;

use proptest::prelude::*;

use stripline::carrier::test_path::{WriteBytes, frame, path, read, sink, write};

use super::*;
use crate::dds::ends::{EndEvents, WriterEnd};

fn parse(text: &str) -> Result<DdsTicket, String> {
    DdsTicket::parse(text)
}

#[test]
fn a_ticket_that_does_not_fit_is_refused_by_name() {
    let ticket = |topic: &str, frames: u64| {
        let bound = format!(r#"{{"key":5,"frames":{frames},"unit":null}}"#);
        format!(r#"{{"topic":"{topic}","bound":{bound},"window":9}}"#)
    };
    assert!(parse(&ticket("stripline_12_ab", 7)).is_ok());
    let names = ["", "stripline_", "x_12", "stripline_a/../b", "stripline_12 ", "stripline_1*"];
    for name in names.map(String::from).into_iter().chain([format!("{PREFIX}{}", "a".repeat(41))]) {
        let refusal = parse(&ticket(&name, 7)).unwrap_err();
        assert!(refusal.contains("names no topic"), "{name}: {refusal}");
    }
    for frames in [0, u64::MAX] {
        let refusal = parse(&ticket("stripline_12", frames)).unwrap_err();
        assert!(refusal.contains(&format!("allows {frames} frames")), "{refusal}");
    }
    let good = ticket("stripline_12", 7);
    let other_version = good.replace(r#""window""#, r#""version":2,"window""#);
    for text in ["", "{", &good[..good.len() - 1], &other_version, "[]", "5"] {
        let refusal = parse(text).unwrap_err();
        assert!(refusal.contains("does not parse"), "{text}: {refusal}");
    }
}

#[test]
fn a_ticket_without_its_descriptors_or_with_others_is_refused() {
    let (_source, ticket) = path(&DDS, 8);
    let address = ticket.address.clone();
    let refusal = sink(&DDS, Ticket::new(address, vec![])).err().unwrap();
    assert!(refusal.contains("two descriptors"), "{refusal}");
    assert!(sink(&DDS, ticket).is_ok());
}

/// The events of a stranger's writer, which ignores them.
struct Deaf;

impl EndEvents for Deaf {
    fn matched(&self) {}
}

#[test]
fn samples_of_strangers_are_dropped_and_their_end_ends_nothing() {
    let (mut source, ticket) = path(&DDS, 8);
    let parsed = parse(&ticket.address).unwrap();
    let sink = sink(&DDS, ticket).unwrap();
    let stranger = WriterEnd::new(&parsed.topic, Arc::new(Deaf)).unwrap();
    // The stranger has read the key as well.
    for key in [parsed.bound.key, parsed.bound.key ^ 1] {
        for number in [0, 1, 1000, PROBE] {
            for bytes in [&[][..], b"GNU Radio", &frame(9), &vec![0xff; 1 << 20]] {
                stranger.write(key, number, bytes).unwrap();
            }
        }
    }
    drop(stranger);
    for sequence in 0..20 {
        write(&sink, &frame(sequence));
        assert_eq!(read(&mut source).unwrap(), frame(sequence), "{sequence}");
    }
}

/// Returns datagrams that are garbage, or that begin like datagrams of DDS and continue with
/// lengths and numbers that do not fit.
fn garbage(seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = move || {
        // xorshift64, so that a failure can be repeated.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let random: Vec<u8> = (0..next() % 1400).map(|_| next() as u8).collect();
    let header = [&b"RTPS\x02\x01\x01\x10"[..], &next().to_le_bytes(), &[7; 4]].concat();
    match seed % 4 {
        0 => random,
        // Submessages of every kind, with a length that is right, too large or zero.
        kind => {
            let length = [random.len() as u16, u16::MAX, 0][kind as usize - 1].to_le_bytes();
            let submessage = [[next() as u8 % 0x40, 1, length[0], length[1]].to_vec(), random].concat();
            [header, submessage].concat()
        }
    }
}

#[test]
fn garbage_at_the_ports_of_participants_ends_nothing() {
    let (mut source, ticket) = path(&DDS, 8);
    let sink = sink(&DDS, ticket).unwrap();
    write(&sink, &frame(0));
    assert_eq!(read(&mut source).unwrap(), frame(0));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // The ports of the first participants of domain 87.
    for (sequence, round) in (1..).zip(0..60) {
        for port in 29_150..29_190_u16 {
            let datagram = garbage(u64::from(port) * 1000 + round);
            // No participant may listen at this port.
            let _ = socket.send_to(&datagram, ("127.0.0.1", port));
        }
        write(&sink, &frame(sequence));
        assert_eq!(read(&mut source).unwrap(), frame(sequence), "{round}");
    }
}

#[test]
fn a_path_is_bounded_and_has_room_again() {
    let (mut source, ticket) = path(&DDS, 4);
    let sink = sink(&DDS, ticket).unwrap();
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
        let _ = parse(&text);
    }
}
