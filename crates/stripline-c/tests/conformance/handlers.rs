//! Section 3: a function that handles each packet. In Python, this is the body of a loop.

use crate::model::{Stream, line};
use crate::pair::Pair;

/// A deadline longer than a rule may take.
const TARGET: &str = "scope = 'target';deadline-ms = 3600000";

pub fn a_handler_gets_every_packet_until_the_end(pair: &mut Pair) {
    pair.link("", 0);
    pair.receiver().begin("handle in -");
    pair.sender().expect("send out 30 40,0", "ok 30");
    pair.sender().ok("finish out 60000");
    assert_eq!(pair.receiver().answer(), line(&Stream::default().send(30, &[40, 0]), "ended"));
}

pub fn a_failing_handler_fails_its_sender_and_loses_nothing(pair: &mut Pair) {
    pair.link(TARGET, 0);
    pair.receiver().begin("handle in 1");
    pair.sender().expect("send out 1 40", "ok 1");
    let message = pair.sender().fails("send out 1 40", "packet-refused");
    assert!(message.contains("-> numbers"), "{message}");
    let answer = pair.receiver().answer();
    assert!(answer.starts_with("0/0/40 1/40/40 error handler "), "{answer}");
    // The port continues after that packet.
    pair.receiver().begin("handle in -");
    pair.sender().expect("send out 2 40", "ok 4");
    pair.sender().ok("finish out 60000");
    assert_eq!(pair.receiver().answer(), "2/80/40 3/120/40 ended");
}
