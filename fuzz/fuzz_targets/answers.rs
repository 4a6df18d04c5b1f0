//! Acknowledgements of a receiver on a socket, as the sender parses them.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::answer;

fuzz_target!(|data: &[u8]| {
    let Some((&sequence, bytes)) = data.split_first() else { return };
    let sequence = u64::from(sequence);
    let whole = answer(sequence, &[bytes]);
    let parts: Vec<&[u8]> = bytes.chunks(7).collect();
    assert_eq!(answer(sequence, &parts), whole, "cuts change the result");
    if let Ok(Some(Err(reason))) = whole {
        assert!(!reason.chars().any(char::is_control) && reason.chars().count() <= 256);
    }
});
