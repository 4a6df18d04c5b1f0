//! Datagrams and control records at the receiving side of a session, and records of members at a
//! group.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::{group, session};
use stripline_fuzz::Choices;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let is_repaired = choices.byte() & 1 != 0;
    let mut events = Vec::new();
    let mut control = Vec::new();
    while !choices.is_empty() {
        let kind = choices.byte();
        let length = usize::from(choices.byte());
        let bytes = choices.bytes(length);
        if kind & 1 != 0 {
            control.extend_from_slice(bytes);
        }
        events.push((kind, bytes));
    }
    if let Ok([in_transit, answered]) = group(events.iter().copied()) {
        // No member has more bytes in transit than the window of the buffer, and each datagram in
        // transit is sent again at most once per member.
        assert!(in_transit <= 1 << 14 && answered <= 1 << 20, "{in_transit} {answered}");
    }
    if let Ok((delivered, again)) = session(is_repaired, events.into_iter()) {
        // The ranges are delivered in order, each once, and without gaps.
        let begins = [0].into_iter().chain(delivered.iter().map(|range| range.end));
        assert!(delivered.iter().map(|range| range.start).eq(begins.take(delivered.len())), "{delivered:?}");
        // Every valid record has exactly one encoding.
        assert_eq!(again, control[..again.len()]);
    }
});
