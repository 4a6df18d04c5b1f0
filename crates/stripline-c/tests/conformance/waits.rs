//! Waits that another thread or a signal ends: nothing is lost.

use crate::languages::End;
use crate::model::{Stream, line};
use crate::pair::Pair;
use crate::support::await_asleep;

/// Begins a command that waits, interrupts it, and checks the outcome.
fn interrupted(end: &mut End, command: &str) {
    end.begin(command);
    await_asleep(end.id());
    assert!(end.is_silent());
    end.interrupt();
    let answer = end.answer();
    end.is_failure(&answer, "interrupted");
}

pub fn a_wait_for_a_packet_is_interrupted(pair: &mut Pair) {
    pair.link("", 0);
    let mut stream = Stream::default();
    pair.receiver().ok("watch in");
    for round in 1..=3 {
        interrupted(pair.receiver(), "take in 1 60000");
        pair.sender().expect("send out 2 9", &format!("ok {}", 2 * round));
        pair.receiver().expect("take in 2 60000", &line(&stream.send(2, &[9]), "done"));
    }
    pair.sender().ok("finish out 60000");
    pair.receiver().expect("take in 1 60000", "ended");
}

pub fn a_wait_for_room_is_interrupted(pair: &mut Pair) {
    // More than any kernel buffers for the receiver.
    pair.link("depth = 4;buffer = 65536", 0);
    pair.sender().ok("watch out");
    pair.sender().begin("send out 2000 10000");
    pair.await_sender_waits();
    pair.sender().interrupt();
    let answer = pair.sender().answer();
    pair.sender().is_failure(&answer, "interrupted");
    // Packets that were sent arrive, and packets that were not sent have no number.
    let sent = pair.sender().number("fill out 10000");
    let tokens = Stream::default().send(sent as usize, &[10_000]);
    pair.receiver().expect(&format!("take in {sent} 60000"), &line(&tokens, "done"));
    pair.receiver().expect("take in 1 0", "empty");
    pair.sender().expect("send out 1 5", &format!("ok {}", sent + 1));
    pair.receiver().expect("take in 1 60000", &format!("{sent}/{}/5 done", sent * 10_000));
}

pub fn a_wait_for_a_reply_is_interrupted(pair: &mut Pair) {
    pair.open("");
    pair.receiver().ok("server desk radio");
    pair.sender().ok("client radio radio 3600000");
    pair.sender().ok("servers radio 1");
    pair.sender().ok("watch radio");
    interrupted(pair.sender(), "call radio double 1");
    // The call is cancelled: the server, which has not started it, serves the next call.
    pair.receiver().begin("serve desk 1 60000");
    pair.sender().expect("call radio double 8", "ok 16");
    assert_eq!(pair.receiver().answer(), "ok");
}
