//! Many packets in one call: `send_many`, and `drain`.

use crate::languages::Language;
use crate::model::{Stream, line};
use crate::pair::Pair;

pub fn packets_sent_together_arrive_one_by_one(pair: &mut Pair) {
    pair.link("depth = 64", 0);
    let mut stream = Stream::default();
    for (round, samples) in [(1, 12), (2, 300)] {
        pair.sender().expect(&format!("many out 30 {samples}"), &format!("ok {}", 30 * round));
        pair.receiver().expect("take in 30 60000", &line(&stream.send(30, &[samples]), "done"));
    }
    // There are more packets than room: the sender waits in between.
    if !pair.is_one() {
        pair.receiver().begin("take in 500 60000");
        pair.sender().expect("many out 500 40", "ok 560");
        assert_eq!(pair.receiver().answer(), line(&stream.send(500, &[40]), "done"));
    }
    pair.sender().ok("finish out 60000");
    pair.receiver().expect("take in 1 60000", "ended");
}

pub fn a_drain_takes_what_is_there_in_order(pair: &mut Pair) {
    // In Python, drained packets are held.
    let hold = if pair.receiver().language == Language::Python { 16 } else { 0 };
    pair.link("depth = 64", hold);
    let mut stream = Stream::default();
    pair.sender().expect("send out 20 40,7", "ok 20");
    let expected = stream.send(20, &[40, 7]);
    let mut found = Vec::new();
    while found.len() < expected.len() {
        // At least one packet, and no more than the limit.
        let answer = pair.receiver().order("drain in 6");
        let tokens: Vec<String> = answer.split(' ').map(String::from).collect();
        let (last, tokens) = tokens.split_last().unwrap();
        assert!(last == "done" && (1..=6).contains(&tokens.len()), "{answer}");
        found.extend_from_slice(tokens);
    }
    assert_eq!(found, expected);
    pair.sender().ok("finish out 60000");
    pair.receiver().expect("drain in 6", "done");
    let code = if pair.receiver().language == Language::Python { "invalid-argument" } else { "port" };
    pair.receiver().fails("drain in 0", code);
}
