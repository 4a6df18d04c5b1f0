//! Section 4: a slow receiver.

use crate::model::{Stream, behind, line};
use crate::pair::Pair;

/// The number of packets sent to a receiver that takes none.
const PACKETS: usize = 100;
const DEPTH: usize = 8;
const SAMPLES: usize = 30;

pub fn a_full_receiver_holds_its_sender_up(pair: &mut Pair) {
    pair.link("depth = 8;buffer = 16384;send-timeout-ms = 20", 0);
    let mut sent = pair.sender().number("fill out 1000");
    assert!(sent >= 8, "so many may wait: {sent}");
    let message = loop {
        // Packets that are still on the way to the receiver may make room.
        let answer = pair.sender().order("send out 1 1000");
        match answer.strip_prefix("error stalled ") {
            Some(message) => break message.to_string(),
            None => assert_eq!(answer, format!("ok {}", sent + 1)),
        }
        sent += 1;
    };
    assert!(message.contains("-> numbers"), "{message}");
    pair.sender().fails("send out 1 1000 way=try", "full");
    let mut stream = Stream::default();
    let tokens = stream.send(sent as usize, &[1000]);
    pair.receiver().expect(&format!("take in {sent} 60000"), &line(&tokens, "done"));
    pair.sender().expect("send out 1 1000", &format!("ok {}", sent + 1));
    pair.receiver().expect("take in 1 60000", &line(&stream.send(1, &[1000]), "done"));
    pair.sender().ok("finish out 60000");
    pair.receiver().expect("take in 1 60000", "ended");
}

/// Connects both ends by these rules, and sends more packets than fit, and the end of stream.
fn flood(pair: &mut Pair, rules: &str) {
    let pump = pair.link_with_pump(rules);
    // Under every policy that drops, packets that find no room among the ten messages of a queue
    // are lost.
    let at_once = if pair.transport == "mqueue" { 5 } else { PACKETS };
    for _ in 0..PACKETS / at_once {
        pair.sender().order(&format!("send out {at_once} {SAMPLES}"));
        pair.await_pump_asleep(pump);
    }
    pair.sender().ok("finish out 60000");
    pair.sender().ok("drop out");
    pair.await_pump_end(pump);
}

pub fn drop_oldest_keeps_the_newest(pair: &mut Pair) {
    flood(pair, &format!("overflow = 'drop-oldest';depth = {DEPTH}"));
    let mut stream = Stream::default();
    let lost = PACKETS - DEPTH;
    stream.send(lost, &[SAMPLES as u64]);
    let gap = format!("overflow:0:{lost}:{}", lost * SAMPLES);
    let tokens = behind(&gap, stream.send(DEPTH, &[SAMPLES as u64]));
    pair.receiver().expect("take in 1000 60000", &line(&tokens, "ended"));
}

pub fn drop_newest_keeps_the_oldest(pair: &mut Pair) {
    flood(pair, &format!("overflow = 'drop-newest';depth = {DEPTH}"));
    let tokens = Stream::default().send(DEPTH, &[SAMPLES as u64]);
    let lost = PACKETS - DEPTH;
    let outcome = format!("ended/{lost}:{}", lost * SAMPLES);
    pair.receiver().expect("take in 1000 60000", &line(&tokens, &outcome));
}

pub fn eject_ends_the_connection(pair: &mut Pair) {
    let pump = pair.link_with_pump(&format!("overflow = 'eject';depth = {DEPTH}"));
    let before = PACKETS / 2;
    for _ in 0..before {
        pair.sender().order(&format!("send out 1 {SAMPLES}"));
    }
    pair.await_pump_end(pump);
    let tokens = Stream::default().send(DEPTH, &[SAMPLES as u64]);
    let answer = pair.receiver().order("take in 1000 60000");
    let message = answer.strip_prefix(&line(&tokens, "error ejected ")).unwrap_or_else(|| panic!("{answer}"));
    assert!(message.contains("numbers") && message.contains("eject"), "{message}");
    pair.receiver().expect("take in 1 60000", "ended");
    // The sender continues without this receiver.
    Pair::await_peers(pair.sender(), "out", 0);
    pair.sender().order("send out 1 1");
}
