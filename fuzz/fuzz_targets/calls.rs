//! Requests of a client and replies of a server of two-way calls.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::{reply, request};

fuzz_target!(|data: &[u8]| {
    let Some((&outstanding, bytes)) = data.split_first() else { return };
    if let Ok(payload) = request(bytes) {
        assert!(bytes.ends_with(payload) && payload.len() + 16 <= bytes.len());
    }
    match reply(bytes, u32::from(outstanding % 8)) {
        Ok(_) => assert!(bytes.len() >= 16),
        Err(deed) => assert!(deed.starts_with("sent a reply of"), "{deed}"),
    }
});
