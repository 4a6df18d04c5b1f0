//! Packets that a receiver holds.

use crate::model::{Stream, line};
use crate::pair::Pair;

pub fn held_packets_are_released_in_any_order(pair: &mut Pair) {
    pair.link("depth = 8;buffer = 65536", 4);
    let (mut stream, keys) = (Stream::default(), ["a", "b", "c"]);
    // Some packets are too large to stay where the sender wrote them.
    let sizes = [10, 0, 20_000, 700];
    let mut sent = 0;
    let mut send = |pair: &mut Pair, count: usize| {
        sent += count;
        pair.sender().expect(&format!("send out {count} 10,0,20000,700"), &format!("ok {sent}"));
        stream.send(count, &sizes)
    };
    let tokens = send(pair, 3);
    for (key, token) in keys.iter().zip(&tokens) {
        pair.receiver().expect(&format!("hold in {key} 60000"), token);
    }
    for round in 0..20 {
        // The sender continues, round after round through the buffer.
        let others = send(pair, 4);
        pair.receiver().expect("take in 4 60000", &line(&others, "done"));
        if round == 10 {
            pair.receiver().ok("release b");
        }
    }
    for (key, token) in [("a", &tokens[0]), ("c", &tokens[2])] {
        pair.receiver().expect(&format!("check {key}"), token);
    }
    // Held packets outlive their subscriber.
    pair.sender().ok("finish out 60000");
    pair.receiver().expect("take in 1 60000", "ended");
    pair.receiver().ok("drop in");
    pair.sender().ok("drop out");
    pair.receiver().ok("release c");
    pair.receiver().expect("check a", &tokens[0]);
    pair.receiver().ok("release a");
}

pub fn too_many_held_are_refused_and_nothing_is_lost(pair: &mut Pair) {
    pair.link("", 2);
    pair.sender().expect("send out 4 8", "ok 4");
    let tokens = Stream::default().send(4, &[8]);
    pair.receiver().expect("hold in a 60000", &tokens[0]);
    pair.receiver().expect("hold in b 60000", &tokens[1]);
    for _ in 0..2 {
        let message = pair.receiver().fails("hold in c 60000", "too-many-held");
        assert!(message.contains("numbers") && message.contains('2'), "{message}");
    }
    pair.receiver().ok("release a");
    pair.receiver().expect("hold in c 60000", &tokens[2]);
    pair.receiver().expect("check b", &tokens[1]);
    pair.receiver().ok("release b");
    pair.receiver().ok("release c");
    pair.receiver().expect("take in 1 60000", &line(&tokens[3..], "done"));
}

pub fn held_packets_outlive_a_killed_sender(pair: &mut Pair) {
    pair.link("", 4);
    pair.sender().expect("send out 3 500,0,3", "ok 3");
    let tokens = Stream::default().send(3, &[500, 0, 3]);
    for (key, token) in ["a", "b", "c"].iter().zip(&tokens) {
        pair.receiver().expect(&format!("hold in {key} 60000"), token);
    }
    pair.kill_sender();
    pair.await_sender_end();
    pair.receiver().ok("drop in");
    for (key, token) in ["b", "a", "c"].iter().zip([&tokens[1], &tokens[0], &tokens[2]]) {
        pair.receiver().expect(&format!("check {key}"), token);
        pair.receiver().ok(&format!("release {key}"));
    }
}
