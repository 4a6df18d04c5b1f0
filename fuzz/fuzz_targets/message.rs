//! CBOR messages with hostile nesting and announced lengths, as a subscriber decodes them, and as a
//! sender checks them against a schema.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::collections::BTreeMap;
use std::io::Write;

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stripline::Error;
use stripline::fuzzing::Switchboard;
use stripline::fuzzing::{Header, Kind};
use stripline::node::Received;
use stripline::terms::Overflow;
use stripline::payload::{Cbor, MessageCheck, NoSchema, Schema, decode_message};
use stripline_fuzz::Choices;

/// A message with every kind of value that serde supports.
#[derive(Debug, Serialize, Deserialize)]
struct Everything {
    number: Option<i64>,
    #[serde(default)]
    floats: Vec<f64>,
    #[serde(default)]
    bytes: Vec<u8>,
    #[serde(default)]
    map: BTreeMap<String, u128>,
    #[serde(default)]
    pair: (char, bool),
    next: Option<Box<Everything>>,
    #[serde(default)]
    tree: Tree,
}

#[derive(Debug, Default, Serialize, Deserialize)]
enum Tree {
    #[default]
    Nothing,
    Leaf(String),
    List(Vec<Tree>),
    Named {
        left: Box<Tree>,
        right: Box<Tree>,
    },
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    match choices.byte() & 7 {
        0 => drop(decode::<Everything>(choices.rest())),
        1 => drop(decode::<Tree>(choices.rest())),
        2 => drop(decode::<serde_json::Value>(choices.rest())),
        4 => check(choices.rest()),
        _ => {
            let bytes = choices.rest();
            if let Some(value) = decode::<ciborium::Value>(bytes) {
                let mut again = Vec::new();
                ciborium::into_writer(&value, &mut again).unwrap();
                decode::<ciborium::Value>(&again).expect("what was decoded decodes again");
            }
        }
    }
});

/// Checks a message, behind the length and the text of a schema.
fn check(data: &[u8]) {
    let Some((&length, rest)) = data.split_first() else { return };
    let (text, message) = rest.split_at(rest.len().min(length.into()));
    let Ok(schema) = String::from_utf8_lossy(text).parse::<Schema>() else { return };
    let check = MessageCheck::new(&schema);
    if let Err(problem) = check.check(message) {
        assert!(problem.starts_with('`') && problem.len() < 4 * (Schema::TEXT_MAX + message.len() + 100));
    } else {
        // Nothing is replaced in a message that fits.
        assert_eq!(check.with_floats(message).as_deref(), Ok(message));
    }
    if let Ok(made) = check.with_floats(message) {
        assert_eq!(check.check(&made), Ok(()));
    }
    if decode_message::<ciborium::Value>(message).is_ok() {
        assert_eq!(MessageCheck::new(&Schema::any()).check(message), Ok(()));
    }
}

/// Sends the bytes as one message, and receives it.
fn decode<M: DeserializeOwned + 'static>(bytes: &[u8]) -> Option<M> {
    let (switchboard, mut subscriber) = Switchboard::subscriber::<Cbor<M, NoSchema>>(Overflow::Block).unwrap();
    let mut socket = switchboard.connect("a -> in", Overflow::Block, None).unwrap();
    let header = Header {
        sequence: 0,
        sample_index: 0,
        time_ns: 0,
        intended_ns: 0,
        sent_ns: 0,
        length: bytes.len() as u32,
        stream: 0,
        kind: Kind::Data as u8,
        flags: 0,
    };
    let mut frame = bytemuck::bytes_of(&header).to_vec();
    frame.extend_from_slice(bytes);
    frame.resize(frame.len().next_multiple_of(16), 0);
    socket.write_all(&frame).unwrap();
    match subscriber.try_receive() {
        Ok(Received::Packet(packet)) => match packet.decode() {
            Ok(message) => Some(message),
            Err(Error::Decode { what, reason }) => {
                assert!(what == "a -> in" && !reason.is_empty());
                None
            }
            Err(error) => panic!("{error}"),
        },
        // The message is too long for the connection's buffer.
        Err(Error::PeerMisbehaved { .. }) => None,
        Ok(_) => panic!("the message is missing"),
        Err(error) => panic!("{error}"),
    }
}
