//! Messages between the launcher and the component processes.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::{orders, reports};
use stripline_fuzz::{Choices, pieces};

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let way = choices.byte();
    let pattern_length = usize::from(way >> 1 & 7);
    let pattern = choices.bytes(pattern_length);
    let rest = choices.rest();
    let framed;
    let bytes = if way & 0x80 != 0 {
        rest
    } else {
        // Texts are separated by zeros, so that the fuzzer need not guess lengths.
        framed = rest.split(|byte| *byte == 0).flat_map(message).collect::<Vec<u8>>();
        &framed
    };
    let listen = |bytes: &[u8], pattern: &[u8]| {
        if way & 1 == 0 { orders(pieces(bytes, pattern)) } else { reports(pieces(bytes, pattern)) }
    };
    let (words, sound) = listen(bytes, pattern);
    let (all, all_sound) = listen(bytes, &[]);
    assert!(all_sound == sound && all == words, "it matters how the bytes are cut");
    let again: Vec<u8> = words.iter().flat_map(|word| message(word.as_bytes())).collect();
    assert_eq!(listen(&again, &[]), (words, true));
});

fn message(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text].concat()
}
