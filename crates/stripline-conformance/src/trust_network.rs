//! Section 6: peers that connect to an endpoint and violate the protocol, and senders that send
//! invalid data. The protocol is written here by hand, so that the bytes on the wire are tested
//! too.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::{Value, json};
use stripline::Error;
use stripline::node::{Node, Publisher, Subscriber};

use crate::puppet::Puppet;
use crate::refusals::Refusal;
use crate::support::{
    DEADLINE, Dice, abstract_names, await_receivers, await_that, domain, endpoint_of, join, meeting_point,
    shares_a_socket, socket_address, take, take_number, unix_socket,
};
use crate::trust::{connect, join_by_hand, offered_endpoint, send_message};

pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A publisher with a subscriber, and the address for untrusted peers.
pub struct Scene {
    pub node: Node,
    pub domain: String,
    pub publisher: Publisher<u64>,
    pub subscriber: Subscriber<u64>,
    pub endpoint: String,
}

impl Scene {
    /// Creates the scene; `None` if the transport has no endpoint that another process can reach.
    pub fn set(transport: &'static str) -> Option<Self> {
        let domain = domain();
        let node = join(&domain, transport, "");
        await_that("the meeting point", || abstract_names().contains(&meeting_point(&domain)));
        let mut publisher = node.publisher::<u64>("numbers").unwrap();
        let mut subscriber = node.subscriber("numbers").unwrap();
        await_receivers(&mut publisher, 1);
        publisher.send(&[0]).unwrap();
        let endpoint = endpoint_of(&take(&mut subscriber).connection);
        if Refusal::OtherProcesses.excludes(transport, "strangers", "nothing else can reach it") {
            assert!(!abstract_names().contains(&endpoint) && endpoint.parse::<SocketAddr>().is_err());
            return None;
        }
        Some(Self { node, domain, publisher, subscriber, endpoint })
    }

    pub fn stranger(&self) -> Box<dyn Stream> {
        stranger_at(&self.endpoint)
    }

    /// Checks that the existing connection continues, and that other connections can still be made.
    pub fn goes_on(mut self) {
        let before = self.publisher.receivers();
        let mut late = self.node.subscriber::<u64>("numbers").unwrap();
        await_receivers(&mut self.publisher, before + 1);
        self.publisher.send(&[1]).unwrap();
        take_number(&mut self.subscriber, 1);
        take_number(&mut late, 1);
    }

    /// Returns the publisher's keys, as offered by the rendezvous.
    pub fn keys(&self) -> Vec<u64> {
        let endpoint = offered_endpoint(&self.domain);
        let keys = endpoint["keys"].as_array().unwrap();
        keys.iter().map(|key| key.as_u64().unwrap()).collect()
    }
}

/// Connects an untrusted peer to an endpoint.
pub fn stranger_at(endpoint: &str) -> Box<dyn Stream> {
    match endpoint.parse::<SocketAddr>() {
        Ok(address) => {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            Box::new(stream)
        }
        Err(_) => Box::new(connect(endpoint)),
    }
}

/// Builds a message of the handshake.
pub fn message(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let mut bytes = b"SLNK\x05\0\0\0".to_vec();
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

fn hello(key: u64, payload: &str) -> Vec<u8> {
    let name = "stranger -> numbers";
    message(&json!({"key": key, "connection": name, "payload": payload, "overflow": "block", "depth": 4}))
}

/// Returns the data that the other end sends before it closes the connection.
pub fn last_words(mut stream: Box<dyn Stream>) -> String {
    let mut bytes = Vec::new();
    // A reset is accepted in place of an end.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn garbage_at_an_endpoint_disturbs_no_connection(transport: &'static str) {
    let Some(scene) = Scene::set(transport) else { return };
    let mut rng = Dice::new(1090);
    for length in [12, 100, 10_000] {
        let mut stranger = scene.stranger();
        let noise: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
        let _ = stranger.write_all(&noise);
        last_words(stranger);
    }
    let mut stranger = scene.stranger();
    stranger.write_all(&message(&json!(["no", "hello"]))).unwrap();
    assert!(last_words(stranger).contains("does not parse"));
    // The stranger closes the connection at once, or in the middle of a message.
    drop(scene.stranger());
    let _ = scene.stranger().write_all(b"SLN");
    scene.goes_on();
}

pub fn an_oversized_handshake_disturbs_no_connection(transport: &'static str) {
    let Some(scene) = Scene::set(transport) else { return };
    for length in [8193, u32::MAX] {
        let mut stranger = scene.stranger();
        let mut bytes = b"SLNK\x05\0\0\0".to_vec();
        bytes.extend_from_slice(&length.to_le_bytes());
        stranger.write_all(&bytes).unwrap();
        let words = last_words(stranger);
        assert!(words.contains(&length.to_string()), "{words}");
    }
    scene.goes_on();
}

pub fn a_silent_peer_disturbs_no_connection(transport: &'static str) {
    let Some(scene) = Scene::set(transport) else { return };
    let mut silent: Vec<_> = (0..10).map(|_| scene.stranger()).collect();
    // On a busy machine, the sender may have closed it, because it keeps silent connections for
    // only a second.
    let _ = silent[0].write_all(b"SLNK");
    let other = scene.stranger();
    scene.goes_on();
    drop(other);
}

pub fn a_wrong_key_is_refused(transport: &'static str) {
    let Some(scene) = Scene::set(transport) else { return };
    let keys = scene.keys();
    let mut stranger = scene.stranger();
    stranger.write_all(&hello(keys[0] ^ 1, "u64")).unwrap();
    let words = last_words(stranger);
    // The stranger is refused, and the reply does not reveal the sender's own key.
    assert!(words.contains("refused") && words.contains("key"), "{words}");
    assert!(!words.contains(&keys[1].to_string()), "{words}");
    let mut stranger = scene.stranger();
    stranger.write_all(&hello(keys[0], "cf32")).unwrap();
    let words = last_words(stranger);
    assert!(words.contains("u64") && words.contains("cf32"), "{words}");
    scene.goes_on();
}

/// An endpoint without a real sender behind it.
pub enum Fake {
    Unix(UnixListener, String),
    Tcp(TcpListener),
}

impl Fake {
    pub fn open(transport: &str) -> Self {
        if transport == "tcp" {
            return Self::Tcp(TcpListener::bind("127.0.0.1:0").unwrap());
        }
        let name = format!("fake-{}", domain());
        Self::Unix(UnixListener::bind_addr(&unix_socket(&name)).unwrap(), socket_address(&name))
    }

    pub fn address(&self) -> String {
        match self {
            Self::Unix(_, name) => name.clone(),
            Self::Tcp(listener) => listener.local_addr().unwrap().to_string(),
        }
    }

    /// Offers this endpoint in a domain for as long as the returned connection is open.
    pub fn offer(&self, domain: &str, transport: &str) -> UnixStream {
        let endpoint = json!({"transport": transport, "address": self.address(), "keys": [11, 22]});
        let word = json!({"Offer": {"topic": "numbers", "payload": "u64", "endpoint": endpoint}}).to_string();
        let mut host = join_by_hand(domain);
        send_message(&mut host, &word);
        host
    }

    /// Accepts the next receiver and reads the hello.
    pub fn accept(&self) -> Box<dyn Stream> {
        let mut stream: Box<dyn Stream> = match self {
            Self::Unix(listener, _) => Box::new(listener.accept().unwrap().0),
            Self::Tcp(listener) => Box::new(listener.accept().unwrap().0),
        };
        let mut prefix = [0; 12];
        stream.read_exact(&mut prefix).unwrap();
        let mut body = vec![0; u32::from_le_bytes(prefix[8..].try_into().unwrap()) as usize];
        stream.read_exact(&mut body).unwrap();
        let hello: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&hello["key"], &hello["payload"]), (&json!(11), &json!("u64")));
        stream
    }
}

pub fn welcome(ring: u64, key: u64) -> Vec<u8> {
    message(&json!({"welcome": {"key": key, "resume_from": null, "buffer": ring}}))
}

pub fn a_sender_with_an_invalid_welcome_disturbs_no_receiver(transport: &'static str) {
    let Some(mut scene) = Scene::set(transport) else { return };
    let mut oversized = b"SLNK\x05\0\0\0".to_vec();
    oversized.extend_from_slice(&u32::MAX.to_le_bytes());
    let mut lies = vec![
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "does not use this protocol"),
        (b"SLNK\x63\0\0\0\0\0\0\0".to_vec(), "version 99"),
        (oversized, "4294967295"),
        (welcome(1 << 21, 23), "key"),
        (welcome(1 << 40, 22), "does not parse"),
        (welcome(u64::from(u32::MAX), 22), "4294967295"),
    ];
    if transport == "shm" {
        lies.push((welcome(1 << 21, 22), "0 descriptors"));
    }
    let mut victim = Puppet::start(&scene.domain, transport, "");
    victim.order("subscribe numbers");
    await_receivers(&mut scene.publisher, 2);
    for (answer, words) in lies {
        let fake = Fake::open(transport);
        let _offer = fake.offer(&scene.domain, transport);
        // The test's own node is a receiver too: both connect, in any order.
        for _ in 0..2 {
            let _ = fake.accept().write_all(&answer);
        }
        victim.await_error(words);
    }
    scene.publisher.send(&[1; crate::puppet::SAMPLES]).unwrap();
    take_number(&mut scene.subscriber, 1);
    assert_eq!(victim.take(1), (1, None));
}

/// Checks that a receiver with a late hello, as on an overloaded machine, connects again later.
pub fn a_receiver_with_a_late_hello_connects_again(transport: &'static str) {
    let Some(scene) = Scene::set(transport) else { return };
    let fake = Fake::open(transport);
    let _offer = fake.offer(&scene.domain, transport);
    let late = message(&json!({"late": "sent no hello in time"}));
    fake.accept().write_all(&late).unwrap();
    fake.accept().write_all(&late).unwrap();
    drop(fake.accept());
    scene.goes_on();
}

pub fn a_sender_with_invalid_frames_is_cut_off_and_named(transport: &'static str) {
    if !shares_a_socket(transport, "forged frames") {
        return;
    }
    let Some(mut scene) = Scene::set(transport) else { return };
    let frame = |length: u32, kind: u8, payload: &[u8]| {
        let mut bytes = vec![0; 48];
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes[14] = kind;
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        bytes
    };
    let described = |text: &str| frame(text.len() as u32, 2, text.as_bytes());
    let flagged = |sequence: u64, offset: u64, flags: u8, length: usize| {
        let mut bytes = frame(length as u32, 1, &vec![0; length]);
        bytes[..8].copy_from_slice(&sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&offset.to_le_bytes());
        bytes[15] = flags;
        bytes
    };
    let (begin, go_on, end, ordered) = (1, 3, 2, 8);
    let an_end_with_a_turn = {
        let mut bytes = frame(0, 3, &[]);
        bytes[15] = ordered;
        bytes
    };
    let in_pieces = |second: Vec<u8>| [flagged(5, 0, begin, 8), second].concat();
    let lies = [
        (flagged(0, 0, 64, 8), "unknown flags 0x40"),
        (flagged(0, 0, ordered | 4, 8), "unknown flags 0x0c"),
        (an_end_with_a_turn, "a frame of kind 3 as a piece"),
        // A short header is invalid on a socket.
        (flagged(0, 0, 4, 8), "a short header"),
        (flagged(0, 0, end, 8), "without its beginning"),
        (flagged(0, 0, begin, 0), "empty piece"),
        (in_pieces(flagged(5, 16, go_on, 8)), "at byte 16 after 8 bytes"),
        (in_pieces(flagged(5, 0, go_on, 8)), "at byte 0 after 8 bytes"),
        (in_pieces(flagged(6, 8, end, 8)), "continued packet 6 without its beginning"),
        (in_pieces(flagged(5, 0, 0, 8)), "inside packet 5"),
        (in_pieces(frame(0, 3, &[])), "inside packet 5"),
        (in_pieces(flagged(5, 8, end, 4)), "12 bytes as samples"),
        (frame(u32::MAX, 1, &[]), "announced a frame of 4294967295 bytes"),
        (frame(0, 9, &[]), "kind 9"),
        (
            described(r#"{"id": "a", "row_length": 0}"#),
            "an invalid stream description: its rows have no samples",
        ),
        (described(r#"{"id": "a", "axes": [{"start": 0, "step": 0}]}"#), "has the step 0"),
        (described(r#"{"id": "a", "row_length": -1}"#), "a stream description that does not parse"),
        (frame(4, 2, b"{no}"), "does not parse"),
        (frame(7, 1, &[0; 7]), "7 bytes"),
        ([flagged(5, 0, 0, 8), flagged(5, 1, 0, 8)].concat(), "sent number 5, although 6 is the next"),
        ([flagged(5, 0, 0, 8), flagged(3, 1, 0, 8)].concat(), "sent number 3, although 6 is the next"),
        ([flagged(5, 0, 0, 8), frame(0, 3, &[])].concat(), "sent number 0, although 6 is the next"),
    ];
    for (lie, violation) in lies {
        let fake = Fake::open(transport);
        let offer = fake.offer(&scene.domain, transport);
        let mut violator = fake.accept();
        violator.write_all(&welcome(1 << 21, 22)).unwrap();
        violator.write_all(&lie).unwrap();
        // A packet before the violation is delivered.
        let error = loop {
            match scene.subscriber.receive_timeout(DEADLINE) {
                Ok(received) => assert!(received.packet().is_some()),
                Err(error) => break error,
            }
        };
        let text = error.to_string();
        let Error::PeerMisbehaved { peer, .. } = error else { panic!("{text}") };
        assert!(peer.contains(&fake.address()) && text.contains(violation), "{text}");
        // The violator's connection is closed.
        assert_eq!(last_words(violator), "");
        drop(offer);
    }
    scene.publisher.send(&[1]).unwrap();
    take_number(&mut scene.subscriber, 1);
}
