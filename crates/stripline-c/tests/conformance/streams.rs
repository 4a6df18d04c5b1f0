//! Sections 1 and 4: order, completeness, metadata, and several ends of a topic.

use crate::languages::End;
use crate::model::{Stream, line, list};
use crate::pair::Pair;

pub fn packets_arrive_in_order_and_complete(pair: &mut Pair) {
    let mut stream = Stream::default();
    if pair.is_one() {
        pair.link("depth = 8", 0);
        let sizes = [0, 1, 64, 4096];
        for _ in 0..50 {
            let tokens = stream.send(8, &sizes);
            pair.sender().order("send out 8 0,1,64,4096");
            pair.receiver().expect("take in 8 60000", &line(&tokens, "done"));
        }
        pair.sender().ok("finish out 60000");
        pair.receiver().expect("take in 1 60000", "ended");
        return;
    }
    // The last size is larger than the buffer.
    let sizes = [0, 1, 64, 4096, 3, 100_000];
    pair.link("depth = 16;buffer = 65536", 0);
    pair.receiver().begin("take in 1000 60000");
    pair.sender().expect(&format!("send out 300 {}", list(&sizes)), "ok 300");
    pair.sender().ok("finish out 60000");
    assert_eq!(pair.receiver().answer(), line(&stream.send(300, &sizes), "ended"));
}

/// Sends numbers, complex numbers, and a structure that each language defines.
pub fn every_type_of_samples_travels(pair: &mut Pair) {
    pair.open("");
    let types = ["s16", "u64", "f32", "cf64", "cs16", "det{range_bin:u32,doppler_bin:s32,level_db:f32}"];
    for (number, samples) in types.iter().enumerate() {
        pair.receiver().ok(&format!("subscribe in types-{number} {samples} 0"));
        pair.sender().ok(&format!("publish out types-{number} {samples}"));
        pair.sender().ok("receivers out 1");
        pair.sender().expect("send out 4 5,0,7", "ok 4");
        let tokens = Stream::default().send(4, &[5, 0, 7]);
        pair.receiver().expect("take in 4 60000", &line(&tokens, "done"));
        pair.sender().ok("finish out 60000");
        pair.receiver().expect("take in 1 60000", "ended");
        pair.sender().ok("drop out");
        pair.receiver().ok("drop in");
    }
}

pub fn stamps_and_descriptions_are_whole(pair: &mut Pair) {
    pair.link("", 0);
    let more = r#"{"axes":[{"start":-1.5,"step":0.25,"unit":"Hz"},{"start":0.0,"step":0.01,"unit":"s"}],"channels":["left","right"],"keywords":{"gain_db":38.6,"site":"north mast"}}"#;
    pair.sender().ok(&format!("stream out antenna 2000000 1090000000.5 4 {more}"));
    pair.sender().expect("send out 1 8 index=4000000000000 time=1790000000123456789 intended=77", "ok 1");
    let answer = pair.receiver().order("describe in 60000");
    let words: Vec<&str> = answer.splitn(8, ' ').collect();
    let [_, time, intended, id, rate, frequency, row, json] = words[..] else { panic!("{answer}") };
    assert_eq!((time, intended, id, row), ("1790000000123456789", "77", "antenna", "4"), "{answer}");
    let numbers = (rate.parse::<f64>().unwrap(), frequency.parse::<f64>().unwrap());
    assert_eq!(numbers, (2e6, 1_090_000_000.5), "{answer}");
    let expected: serde_json::Value = serde_json::from_str(more).unwrap();
    let found: serde_json::Value = serde_json::from_str(json).unwrap();
    for part in ["axes", "channels", "keywords"] {
        assert_eq!(found[part], expected[part], "{answer}");
    }
    // The next packet continues the index, and a new stream begins with the next packet.
    pair.sender().expect("send out 1 3", "ok 2");
    pair.receiver().expect("take in 1 60000", "1/4000000000008/3 done");
    pair.sender().ok("stream out other - - - {}");
    pair.sender().expect("send out 1 1 index=5", "ok 3");
    let answer = pair.receiver().order("describe in 60000");
    assert!(answer.starts_with("ok 0 0 other - - - {"), "{answer}");
}

pub fn a_sender_without_receivers_goes_on(pair: &mut Pair) {
    // Under `none`, packets may wait for a receiver in the sender's own queue.
    for scope in ["transport", "server", "target"] {
        pair.open(&format!("scope = '{scope}'"));
        let mut stream = Stream::default();
        pair.sender().ok("publish out numbers u8");
        pair.sender().expect("send out 100 10", "ok 100");
        stream.send(100, &[10]);
        // A receiver that connects late gets the later packets, without a gap.
        pair.receiver().ok("subscribe in numbers u8 0");
        pair.sender().ok("receivers out 1");
        // Without a wait for the receiver, which may have both ends.
        pair.sender().expect("send out 2 10 scope=transport", "ok 102");
        pair.receiver().expect("take in 2 60000", &line(&stream.send(2, &[10]), "done"));
        pair.close();
    }
}

/// Sends on several topics. Each has a payload of its own, so a packet of another topic counts as
/// bad.
pub fn topics_do_not_mix(pair: &mut Pair) {
    pair.open("");
    let topics = ["left", "right", "up"];
    for topic in topics {
        pair.receiver().ok(&format!("subscribe in-{topic} {topic} u8 0"));
        pair.sender().ok(&format!("publish out-{topic} {topic} u8"));
        pair.sender().ok(&format!("receivers out-{topic} 1"));
    }
    // And one topic in the other direction.
    pair.sender().ok("subscribe back back u8 0");
    pair.receiver().ok("publish back-out back u8");
    pair.receiver().ok("receivers back-out 1");
    for (number, topic) in topics.iter().enumerate() {
        pair.sender().expect(&format!("send out-{topic} {} 20", number + 1), &format!("ok {}", number + 1));
    }
    pair.receiver().expect("send back-out 2 9", "ok 2");
    pair.sender().expect("take back 2 60000", &line(&Stream::default().send(2, &[9]), "done"));
    for (number, topic) in topics.iter().enumerate() {
        let tokens = Stream::default().send(number + 1, &[20]);
        pair.receiver().expect(&format!("take in-{topic} {} 60000", number + 1), &line(&tokens, "done"));
        pair.receiver().expect(&format!("take in-{topic} 1 0"), "empty");
    }
}

/// Besides the receiver of the pair, there is one in each language.
pub fn a_sender_reaches_receivers_in_all_languages(pair: &mut Pair) {
    pair.link("depth = 16", 0);
    let mut others: Vec<End> = pair.languages.clone().into_iter().map(|one| pair.another(one)).collect();
    others.iter_mut().for_each(|other| other.ok("subscribe in numbers u8 2"));
    let all = others.len() + 1;
    pair.sender().ok(&format!("receivers out {all}"));
    others.iter_mut().chain([pair.receiver()]).for_each(|one| one.begin("take in 1000 60000"));
    pair.sender().expect("send out 100 0,70,2000", "ok 100");
    pair.sender().ok("finish out 60000");
    let expected = line(&Stream::default().send(100, &[0, 70, 2000]), "ended");
    others.iter_mut().chain([pair.receiver()]).for_each(|one| assert_eq!(one.answer(), expected));
    others.into_iter().for_each(End::free);
}

/// Besides the sender of the pair, there is one in each language.
pub fn senders_in_all_languages_reach_a_receiver(pair: &mut Pair) {
    pair.link("depth = 16", 0);
    let mut others: Vec<End> = pair.languages.clone().into_iter().map(|one| pair.another(one)).collect();
    for other in &mut others {
        other.ok("publish out numbers u8");
        other.ok("receivers out 1");
    }
    let all = others.len() + 1;
    Pair::await_peers(pair.receiver(), "in", all as u64);
    pair.receiver().begin("take in 1000 60000");
    others.iter_mut().chain([pair.sender()]).for_each(|one| one.begin("send out 30 5"));
    others.iter_mut().chain([pair.sender()]).for_each(|one| assert_eq!(one.answer(), "ok 30"));
    others.iter_mut().chain([pair.sender()]).for_each(|one| one.ok("finish out 60000"));
    let answer = pair.receiver().answer();
    let mut tokens: Vec<&str> = answer.split(' ').collect();
    assert_eq!(tokens.pop(), Some("ended"), "once, behind all");
    // The packets of each sender are in order. So the first packet with a number comes before the
    // first packet with the next number, and so on.
    let places = |token: &String| -> Vec<usize> {
        let found = tokens.iter().enumerate().filter(|(_, found)| *found == token);
        found.map(|(place, _)| place).collect()
    };
    for neighbours in Stream::default().send(30, &[5]).windows(2) {
        let (before, behind) = (places(&neighbours[0]), places(&neighbours[1]));
        assert_eq!((before.len(), behind.len()), (all, all), "{neighbours:?} of {answer}");
        assert!(before.iter().zip(&behind).all(|(one, next)| one < next), "{neighbours:?} of {answer}");
    }
    assert_eq!(tokens.len(), 30 * all);
    others.into_iter().for_each(End::free);
}
