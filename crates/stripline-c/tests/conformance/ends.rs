//! Section 5: ends of streams, and ends of processes.

use crate::model::{Stream, behind, line};
use crate::pair::Pair;

/// A gap after five packets of a sender that has left: the number of packets that it never sent is
/// unknown.
const RESTART: &str = "peer-restart:5:0:0";

pub fn an_abandoned_stream_resumes_with_a_gap(pair: &mut Pair) {
    pair.link("", 0);
    pair.sender().expect("send out 5 40", "ok 5");
    pair.sender().ok("abandon out");
    // All packets that were sent arrive, without an end of stream.
    pair.receiver().expect("take in 5 60000", &line(&Stream::default().send(5, &[40]), "done"));
    resumes(pair);
}

/// Checks that another sender replaces a sender that has left.
fn resumes(pair: &mut Pair) {
    pair.await_sender_end();
    pair.sender().ok("publish out numbers u8");
    pair.sender().ok("receivers out 1");
    pair.sender().expect("send out 2 40", "ok 2");
    pair.sender().ok("finish out 60000");
    let tokens = behind(RESTART, Stream::default().send(2, &[40]));
    pair.receiver().expect("take in 1000 60000", &line(&tokens, "ended"));
}

pub fn a_killed_sender_loses_nothing_and_resumes(pair: &mut Pair) {
    pair.link("", 0);
    pair.sender().expect("send out 5 40", "ok 5");
    pair.kill_sender();
    pair.receiver().expect("take in 5 60000", &line(&Stream::default().send(5, &[40]), "done"));
    resumes(pair);
}

pub fn a_loan_of_a_killed_sender_is_not_sent(pair: &mut Pair) {
    pair.link("", 0);
    pair.sender().expect("send out 5 40", "ok 5");
    pair.sender().expect("loan out 40", "lent");
    pair.kill_sender();
    pair.receiver().expect("take in 5 60000", &line(&Stream::default().send(5, &[40]), "done"));
    resumes(pair);
}

pub fn a_killed_receiver_frees_its_sender(pair: &mut Pair) {
    // More than any kernel buffers for the receiver.
    pair.link("depth = 4;buffer = 65536", 4);
    pair.sender().begin("send out 2000 10000");
    // The receiver holds packets while the sender has no room.
    pair.receiver().expect("hold in a 60000", "0/0/10000");
    pair.receiver().expect("hold in b 60000", "1/10000/10000");
    pair.await_sender_waits();
    pair.kill_receiver();
    assert_eq!(pair.sender().answer(), "ok 2000");
    // A successor gets a gap up to the first packet that it receives.
    pair.receiver().ok("subscribe in numbers u8 0");
    pair.sender().ok("receivers out 1");
    pair.sender().expect("send out 1 10000", "ok 2001");
    let answer = pair.receiver().order("take in 1 60000");
    let gap =
        answer.strip_prefix("2000/20000000/10000/peer-restart:").and_then(|rest| rest.strip_suffix(" done"));
    let gap = gap.unwrap_or_else(|| panic!("{answer}"));
    let numbers: Vec<u64> = gap.split(':').map(|number| number.parse().unwrap()).collect();
    assert_eq!((numbers[0] + numbers[1], numbers[2]), (2000, 10_000 * numbers[1]), "{answer}");
}

pub fn a_receiver_that_leaves_is_not_waited_for(pair: &mut Pair) {
    pair.link("depth = 4;buffer = 16384", 0);
    // The connection may not be complete yet when the port leaves.
    pair.sender().order("fill out 1000");
    pair.receiver().ok("drop in");
    let sent = pair.sender().number("send out 100 1000");
    // A receiver that connects later is not a successor: it has no gap.
    Pair::await_peers(pair.sender(), "out", 0);
    pair.receiver().ok("subscribe in numbers u8 0");
    pair.sender().ok("receivers out 1");
    pair.sender().expect("send out 1 1000", &format!("ok {}", sent + 1));
    pair.receiver().expect("take in 1 60000", &format!("{sent}/{}/1000 done", sent * 1000));
}
