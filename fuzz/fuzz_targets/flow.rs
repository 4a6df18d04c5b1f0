//! Messages between the two sides of flow control, on either kind of channel.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::flow;
use stripline_fuzz::Choices;

/// The high watermark in `stripline::fuzzing::flow`: the most packets that may wait.
const HIGH: u64 = 8;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let (way, sent) = (choices.byte(), u64::from(choices.byte()) % 32);
    let (credits, lossy) = (way & 1 != 0, way & 2 != 0);
    let bytes = choices.rest();
    if let Ok((more, again)) = flow(credits, lossy, sent, 2 * HIGH, bytes) {
        // Every valid message has exactly one encoding.
        assert_eq!(again, bytes[..again.len()]);
        // No message makes the sender exceed its window.
        assert!(!credits || more <= HIGH, "{more} packets more");
    }
});
