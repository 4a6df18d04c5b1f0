//! Messages: values in CBOR, of every kind, with schemas on both sides.

use crate::languages::Language;
use crate::pair::Pair;
use crate::support::await_that;

/// Values of every kind, each as the shortest CBOR in hexadecimal.
const VALUES: [&str; 22] = [
    // Whole numbers, at the limits of each width.
    "00",
    "17",
    "1818",
    "18ff",
    "190100",
    "1a00010000",
    "1bffffffffffffffff",
    "20",
    "3863",
    "3b7fffffffffffffff",
    // Numbers that need all 64 bits of a float.
    "fb3fb999999999999a",
    "fbc37e43c8800759b9",
    // false, true, nothing.
    "f4",
    "f5",
    "f6",
    // Texts (one is not ASCII), and bytes.
    "60",
    "66c3b87dc3a962",
    "40",
    "4400ff7f80",
    // Lists and maps, nested.
    "80",
    "a0",
    "a261618301a16162f6824100206163fb3fb999999999999a",
];

/// The payload of a large message, in bytes: more than fits one frame.
const LARGE: usize = 3_000_000;

pub fn messages_of_every_kind_travel(pair: &mut Pair) {
    pair.open("depth = 64");
    pair.receiver().ok("subscribe-messages in news message/cbor");
    pair.sender().ok("publish-messages out news message/cbor");
    pair.sender().ok("receivers out 1");
    pair.sender().expect(&format!("send-messages out {}", VALUES.join(" ")), &format!("ok {}", VALUES.len()));
    let tokens: Vec<String> =
        VALUES.iter().enumerate().map(|(number, value)| format!("{number}/{value}")).collect();
    let expected = format!("{} done", tokens.join(" "));
    pair.receiver().expect(&format!("take-messages in {} 60000", VALUES.len()), &expected);
    // A message is not divided, however large it is. With both ends in one process, the sender
    // would have to wait.
    if !pair.is_one() {
        pair.receiver().begin("take-messages in 1 60000");
        pair.sender()
            .expect(&format!("send-messages out bytes:{LARGE}"), &format!("ok {}", VALUES.len() + 1));
        let sum: u64 = [0x5a, 0, 0x2d, 0xc6, 0xc0].into_iter().sum::<u64>()
            + (0..LARGE as u64).map(|place| place * 7 % 256).sum::<u64>();
        let token = format!("{}/#{}.{sum} done", VALUES.len(), LARGE + 5);
        assert_eq!(pair.receiver().answer(), token);
    }
    pair.sender().ok("finish out 60000");
    pair.receiver().expect("take-messages in 1 60000", "ended");
}

pub fn what_is_no_message_is_refused_by_those_that_read_it(pair: &mut Pair) {
    pair.open("");
    pair.receiver().ok("subscribe-messages in news message/cbor");
    pair.sender().ok("publish-messages out news message/cbor");
    pair.sender().ok("receivers out 1");
    // Python sends values, so none of its messages is malformed.
    if pair.sender().language != Language::Python {
        // A text that is cut off, and bytes after a value.
        for (place, malformed) in ["6361", "0000"].into_iter().enumerate() {
            pair.sender().expect(&format!("send-messages out {malformed}"), &format!("ok {}", place + 1));
            if pair.receiver().language == Language::Python {
                pair.receiver().fails("take-messages in 1 60000", "decode");
            } else {
                pair.receiver().expect("take-messages in 1 60000", &format!("{place}/{malformed} done"));
            }
        }
    }
    // The next message is not affected.
    pair.sender().number("send-messages out 182a");
    let answer = pair.receiver().order("take-messages in 1 60000");
    assert!(answer.ends_with("/182a done"), "{answer}");
}

pub fn a_message_is_checked_by_its_sender(pair: &mut Pair) {
    pair.open("");
    pair.receiver().ok("subscribe-messages in tuning message/tune{hz:f64,name?:text}");
    pair.sender().ok("publish-messages out tuning message/tune{hz:f64,name?:text}");
    pair.sender().ok("receivers out 1");
    let value = "a162687afb3fb999999999999a";
    // Nothing, a value of another kind, a field too many, and a text that is not there.
    for (number, wrong) in
        ["a0", "a162687a6161", "a262687afb3fb999999999999a617800", "f6"].into_iter().enumerate()
    {
        pair.sender().fails(&format!("send-messages out {wrong}"), "invalid-argument");
        pair.sender().expect(&format!("send-messages out {value}"), &format!("ok {}", number + 1));
        pair.receiver().expect("take-messages in 1 60000", &format!("{number}/{value} done"));
    }
}

pub fn schemas_are_compared(pair: &mut Pair) {
    pair.open("");
    pair.sender().ok("publish-messages out tuning message/tune{hz:f64}");
    pair.receiver().ok("subscribe-messages other tuning message/tune{hz:u32}");
    let receiver = pair.receiver();
    await_that("the refusal is listed", || {
        let refusals = receiver.order("refusals other");
        refusals.contains("tune{hz:f64}") && refusals.contains("tune{hz:u32}")
    });
    receiver.expect("take-messages other 1 0", "empty");
    // An equal schema fits, and so does no schema.
    pair.receiver().ok("subscribe-messages same tuning message/tune{hz:f64}");
    pair.receiver().ok("subscribe-messages any tuning message/cbor");
    pair.sender().ok("receivers out 2");
    let value = "a162687afb3fb999999999999a";
    pair.sender().expect(&format!("send-messages out {value}"), "ok 1");
    for name in ["same", "any"] {
        pair.receiver().expect(&format!("take-messages {name} 1 60000"), &format!("0/{value} done"));
    }
    // Samples are not messages.
    pair.receiver().ok("subscribe samples tuning u8 0");
    let receiver = pair.receiver();
    await_that("the refusal is listed", || receiver.order("refusals samples").contains("not u8"));
}
