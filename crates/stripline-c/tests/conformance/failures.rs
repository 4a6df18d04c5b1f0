//! Refusals: with the same code in each language, and words that name the cause.

use crate::languages::Language;
use crate::pair::Pair;
use crate::support::await_that;

pub fn another_type_is_refused_naming_both(pair: &mut Pair) {
    // If the topic asks for an error, the wait for a packet returns it, once for each sender.
    pair.open("refusal-is-error = true");
    pair.receiver().ok("subscribe in numbers s16 0");
    pair.sender().ok("publish out numbers cf32");
    let message = pair.receiver().fails("take in 1 60000", "refused");
    assert!(message.contains("type cf32, not s16"), "{message}");
    pair.receiver().expect("take in 1 0", "empty");
    let refusals = pair.receiver().order("refusals in");
    assert!(refusals.starts_with("ok numbers@") && refusals.contains("type cf32, not s16"), "{refusals}");
    // A port with a matching type is connected, and gets all packets.
    pair.receiver().ok("subscribe fits numbers cf32 0");
    pair.sender().ok("receivers out 1");
    pair.sender().expect("send out 1 6", "ok 1");
    pair.receiver().expect("take fits 1 60000", "0/0/6 done");
    pair.close();
    // Otherwise the refusal is only listed. Two layouts of one name are two types.
    pair.open("");
    pair.sender().ok("publish out structures det{range_bin:u32,doppler_bin:s32,level_db:f32}");
    pair.receiver().ok("subscribe in structures u64 0");
    let both = "type det{range_bin:u32,doppler_bin:s32,level_db:f32}, not u64";
    let receiver = pair.receiver();
    await_that("the refusal is listed", || receiver.order("refusals in").contains(both));
    receiver.expect("take in 1 0", "empty");
    // The list has the sender for as long as it exists.
    pair.sender().ok("drop out");
    let receiver = pair.receiver();
    await_that("no refusal is left", || receiver.order("refusals in").trim() == "ok");
}

pub fn failures_have_the_same_code(pair: &mut Pair) {
    let domain = "node somewhere";
    for (rules, words) in [
        ("[default];depth = 0", "depth"),
        ("[default];transport = 'pigeon'", "pigeon"),
        ("[default];overflow = 'leak'", "leak"),
        ("[default];speed = 3", "speed"),
        ("[default", "["),
    ] {
        for end in [0, 1] {
            let end = if end == 0 { pair.sender() } else { pair.receiver() };
            let message = end.fails(&format!("{domain} {rules}"), "configuration");
            assert!(message.contains(words), "{}: {message}", end.language);
        }
    }
    pair.link("buffer = 16384;depth = 4", 0);
    // A text that is not a type. In C++, the compiler checks types.
    for (end, command) in [(0, "publish bad numbers"), (1, "subscribe bad numbers")] {
        let end = if end == 0 { pair.sender() } else { pair.receiver() };
        if end.language == Language::Cpp {
            continue;
        }
        let hold = if command.starts_with("s") { " 0" } else { "" };
        let message = end.fails(&format!("{command} det{{x:u7}}{hold}"), "invalid-argument");
        assert!(message.contains("u7"), "{message}");
    }
    // A packet that does not fit one frame needs a wait.
    let message = pair.sender().fails("send out 1 1000000 way=try", "too-large");
    assert!(message.contains("do not fit one frame"), "{message}");
    // A scope that is fixed when the connection is made.
    pair.close();
    pair.link("scope = 'none'", 0);
    if pair.is_stream() {
        let message = pair.sender().fails("send out 1 5 scope=target", "unsupported");
        assert!(message.contains("target") && message.contains(pair.transport), "{message}");
    }
    pair.sender().ok("finish out 60000");
    let message = pair.sender().fails("send out 1 5", "port");
    assert!(message.contains("numbers"), "{message}");
    pair.receiver().expect("take in 1 60000", "ended");
}
