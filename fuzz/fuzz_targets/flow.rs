//! What the two sides of flow control say to each other, on either kind of channel.
#![no_main]
#![allow(missing_docs)] // made by the macro

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::flow;
use stripline_fuzz::Choices;

/// Packets that may wait in `stripline::fuzzing::flow`.
const HIGH: u64 = 8;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let (way, sent) = (choices.byte(), u64::from(choices.byte()) % 32);
    let (credits, lossy) = (way & 1 != 0, way & 2 != 0);
    let bytes = choices.rest();
    if let Ok((more, again)) = flow(credits, lossy, sent, 2 * HIGH, bytes) {
        // What means something is said in one way only.
        assert_eq!(again, bytes[..again.len()]);
        // Whatever it hears, it does not overrun the window.
        assert!(!credits || more <= HIGH, "{more} packets more");
    }
});
