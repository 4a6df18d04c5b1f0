//! Section 6, for sessions of datagrams: peers that send invalid datagrams, records and
//! acknowledgements. The bytes follow `flow/session/mod.rs`, and are written here by hand.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use serde_json::{Value, json};
use stripline::Error;

use crate::puppet::Puppet;
use crate::refusals::Refusal;
use crate::support::{DEADLINE, domain, join, take_number};
use crate::trust::connect;
use crate::trust_memory::{offered, send_with};
use crate::trust_network::{Fake, Scene, last_words, message, welcome};

/// Reports, for a transport without a session of one receiver, that the rule does not apply.
fn has_no_session(transport: &str, rule: &str) -> bool {
    Refusal::Session.excludes(transport, rule, "there is no session, or it is one of a group")
}

/// Builds a datagram with complete frames, without records before them.
fn datagram(token: u64, number: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [token.to_le_bytes(), number.to_le_bytes(), [0; 8]].concat();
    bytes[20] = 3;
    bytes.extend_from_slice(payload);
    bytes
}

/// Builds a record of the control socket.
fn record(number: u64, kind: u8, length: u32) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[kind, 0, 0, 0], &length.to_le_bytes()].concat()
}

/// A hand-made sender with a receiver.
struct Violator {
    stream: UnixStream,
    control: UnixStream,
    _acks: UnixStream,
    socket: UdpSocket,
    /// The token in the receiver's ticket.
    token: u64,
}

impl Violator {
    /// Welcomes the next receiver.
    fn accept(fake: &Fake) -> Self {
        let Fake::Unix(listener, _) = fake else { unreachable!() };
        let stream = listener.accept().unwrap().0;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut parts = RecvAncillaryBuffer::new(&mut space);
        let mut hello = [0; 8192];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(&stream, &mut [IoSliceMut::new(&mut hello)], &mut parts, flags);
        let fds: Vec<OwnedFd> = parts
            .drain()
            .filter_map(|part| match part {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        let [control, acks]: [OwnedFd; 2] = fds.try_into().unwrap();
        let hello: Value = serde_json::from_slice(&hello[12..received.unwrap().bytes]).unwrap();
        let ticket: Value = serde_json::from_str(hello["path"].as_str().unwrap()).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(ticket["address"].as_str().unwrap()).unwrap();
        let token = ticket["token"].as_u64().unwrap();
        let [control, acks] = [control, acks].map(UnixStream::from);
        // Until the receiver has acknowledged a probe, it discards other datagrams.
        let mut probe = datagram(token, 1, &[]);
        probe[20] = 4;
        socket.send(&probe).unwrap();
        (&acks).read_exact(&mut [0; 8]).unwrap();
        (&stream).write_all(&welcome(1 << 21, 22)).unwrap();
        Self { stream, control, _acks: acks, socket, token }
    }
}

pub fn a_sender_with_invalid_datagrams_is_cut_off_and_named(transport: &'static str) {
    if has_no_session(transport, "a sender with invalid datagrams") {
        return;
    }
    let Some(mut scene) = Scene::set(transport) else { return };
    // An empty packet.
    let mut packet = vec![0; 48];
    packet[14] = 1;
    let (data, sent, lost) = (1, 2, 3);
    let by_datagram = |number: u64| (number, Vec::new());
    let lies = [
        (by_datagram(1 << 40), "sent datagram 1099511627776, and 1 is the next"),
        ((1, record(0, 9, 0)), "sent a control record of kind 9"),
        ((1, record(u64::MAX, sent, 0)), "sent a control record with the number 18446744073709551615"),
        ((1, record(1 << 40, sent, 0)), "named datagram 1099511627776, and "),
        ((1, record(9, lost, 1)), "lost datagram 9, which was not missing"),
        ((1, record(2, data, u32::MAX)), "announced a repair of 4294967295 bytes"),
    ];
    for ((number, record), violation) in lies {
        let fake = Fake::open(transport);
        let offer = fake.offer(&scene.domain, transport);
        let violator = Violator::accept(&fake);
        violator.socket.send(&datagram(violator.token, 0, &packet)).unwrap();
        let first = scene.subscriber.receive_timeout(DEADLINE).unwrap();
        assert_eq!(first.packet().map(|packet| packet.sequence()), Some(0));
        violator.socket.send(&datagram(violator.token, number, &[])).unwrap();
        (&violator.control).write_all(&record).unwrap();
        let error = scene.subscriber.receive_timeout(DEADLINE).map(drop).unwrap_err();
        let text = error.to_string();
        let Error::PeerMisbehaved { peer, .. } = error else { panic!("{text}") };
        assert!(peer.contains(&fake.address()) && text.contains(violation), "{text}");
        // The sender's connection is closed.
        assert_eq!(last_words(Box::new(violator.stream)), "");
        drop(offer);
    }
    scene.publisher.send(&[1]).unwrap();
    take_number(&mut scene.subscriber, 1);
}

pub fn a_receiver_with_invalid_records_is_cut_off_and_named(transport: &'static str) {
    if has_no_session(transport, "a receiver with invalid records") {
        return;
    }
    let domain = domain();
    let node = join(&domain, transport, "");
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish numbers");
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    sender.order("receivers 1");
    let forged_ack = (1_u64 << 40).to_le_bytes().to_vec();
    let lies = [
        (forged_ack, Vec::new(), "acknowledged datagram 1099511627776, which was not sent"),
        (Vec::new(), record(0, 9, 0), "sent a control record of kind 9"),
        (Vec::new(), record(0, 4, 0), "sent a control record about 0 datagrams"),
    ];
    let mut taken = 0;
    for (forged_ack, record, violation) in lies {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let ([control, peer_control], [acks, peer_acks]) = (pair(), pair());
        let ticket = json!({
            "address": socket.local_addr().unwrap().to_string(),
            "token": 7, "buffer": 65_536, "is_repaired": true,
        });
        let (address, key) = offered(&domain);
        let hello = json!({
            "key": key, "connection": "liar -> numbers", "payload": "u64", "overflow": "block", "depth": 4,
            "path": ticket.to_string(),
        });
        let stream = connect(&address);
        send_with(&stream, &message(&hello), &[peer_control.as_fd(), peer_acks.as_fd()]);
        let mut probe = [0; 24];
        socket.recv(&mut probe).unwrap();
        let number = u64::from_le_bytes(probe[8..16].try_into().unwrap());
        (&acks).write_all(&(number | 1 << 63).to_le_bytes()).unwrap();
        sender.order("receivers 2");
        // The violator takes no packet, and the sender waits for room until the violation arrives.
        sender.begin("send 20");
        while socket.recv(&mut [0; 8192]).unwrap() == 24 {}
        (&acks).write_all(&forged_ack).unwrap();
        (&control).write_all(&record).unwrap();
        (taken..taken + 20).for_each(|number| drop(take_number(&mut subscriber, number)));
        taken += 20;
        assert_eq!(sender.answer(), taken.to_string());
        let said = sender.await_error(violation);
        assert!(said.contains("liar -> numbers") && said.contains("its connection was closed"), "{said}");
        // After the welcome comes the end of the socket.
        last_words(Box::new(stream));
        sender.order("receivers 1");
    }
}

fn pair() -> [UnixStream; 2] {
    UnixStream::pair().unwrap().into()
}
