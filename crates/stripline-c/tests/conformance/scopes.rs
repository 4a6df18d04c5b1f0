//! Section 2: the event after which a send returns.

use crate::model::{Stream, line};
use crate::pair::Pair;

/// A deadline longer than a rule may take: a send that reaches it fails the rule.
const TARGET: &str = "scope = 'target';deadline-ms = 3600000";

pub fn none_delivers_everything(pair: &mut Pair) {
    pair.link("scope = 'none';depth = 4", 0);
    let mut stream = Stream::default();
    // In one process, send only as many packets as may wait.
    let (rounds, count) = if pair.is_one() { (50, 4) } else { (1, 200) };
    for round in 1..=rounds {
        if !pair.is_one() {
            pair.receiver().begin(&format!("take in {count} 60000"));
        }
        pair.sender().expect(&format!("send out {count} 100,0"), &format!("ok {}", round * count));
        let expected = line(&stream.send(count, &[100, 0]), "done");
        if pair.is_one() {
            pair.receiver().expect(&format!("take in {count} 60000"), &expected);
        } else {
            assert_eq!(pair.receiver().answer(), expected);
        }
    }
    pair.sender().ok("finish out 60000");
    pair.receiver().expect("take in 1 60000", "ended");
}

pub fn server_returns_when_the_packet_is_in_the_queue(pair: &mut Pair) {
    for policy in ["block", "drop-oldest", "drop-newest", "eject"] {
        pair.link(&format!("scope = 'server';deadline-ms = 3600000;depth = 8;overflow = '{policy}'"), 0);
        let mut stream = Stream::default();
        // The receiving port has the connection, too: packets that are sent from now on go to the
        // queue.
        Pair::await_peers(pair.receiver(), "in", 1);
        for round in 1..=5 {
            pair.sender().expect("send out 4 12,100", &format!("ok {}", 4 * round));
            // The packets are in the queue already.
            pair.receiver().expect("take in 4 0", &line(&stream.send(4, &[12, 100]), "done"));
        }
        pair.close();
    }
}

pub fn target_returns_when_the_packet_is_finished(pair: &mut Pair) {
    pair.link(TARGET, 2);
    let mut stream = Stream::default();
    for round in 1..=3 {
        pair.sender().begin("send out 1 50");
        pair.receiver().expect("hold in a 60000", &stream.send(1, &[50])[0]);
        pair.await_sender_waits();
        pair.receiver().ok("release a");
        assert_eq!(pair.sender().answer(), format!("ok {round}"));
    }
    // Packets that are released at once, several in a row, and larger than the buffer.
    pair.receiver().begin("take in 1000 60000");
    pair.sender().expect("send out 20 5,300000", "ok 23");
    pair.sender().ok("finish out 60000");
    assert_eq!(pair.receiver().answer(), line(&stream.send(20, &[5, 300_000]), "ended"));
}

pub fn a_refused_packet_is_an_error_of_its_sender(pair: &mut Pair) {
    pair.link(TARGET, 2);
    pair.sender().begin("send out 1 50");
    pair.receiver().expect("hold in a 60000", "0/0/50");
    pair.receiver().ok("refuse a it is of no use");
    let answer = pair.sender().answer();
    let message = pair.sender().is_failure(&answer, "packet-refused");
    assert!(message.contains("it is of no use") && message.contains("-> numbers"), "{message}");
    // The packet stays sent, and the next send is another packet.
    pair.receiver().begin("take in 1 60000");
    pair.sender().expect("send out 1 50", "ok 2");
    assert_eq!(pair.receiver().answer(), "1/50/50 done");
}

pub fn a_deadline_passes_and_the_packet_arrives(pair: &mut Pair) {
    pair.link("scope = 'target';deadline-ms = 20", 0);
    let message = pair.sender().fails("send out 1 50", "unanswered");
    assert!(message.contains("-> numbers"), "{message}");
    // A packet may have a deadline and a scope of its own.
    pair.sender().fails("send out 1 50 deadline=1", "unanswered");
    pair.sender().expect("send out 1 50 scope=transport", "ok 3");
    pair.sender().expect("send out 1 50 scope=none", "ok 4");
    pair.receiver().expect("take in 4 60000", &line(&Stream::default().send(4, &[50]), "done"));
}

pub fn a_killed_receiver_ends_the_wait(pair: &mut Pair) {
    pair.link(TARGET, 2);
    pair.sender().begin("send out 1 50");
    pair.receiver().expect("hold in a 60000", "0/0/50");
    pair.await_sender_waits();
    pair.kill_receiver();
    let answer = pair.sender().answer();
    let message = pair.sender().is_failure(&answer, "receiver-gone");
    assert!(message.contains("-> numbers"), "{message}");
    Pair::await_peers(pair.sender(), "out", 0);
    pair.sender().expect("send out 1 50", "ok 2");
}
