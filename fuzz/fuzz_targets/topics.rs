//! Topics files.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::node::Topics;
use stripline_fuzz as _; // for the allocator

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Topics::parse(text) {
        Ok(topics) => {
            for topic in ["", "spectrum", "a"] {
                let rules = topics.of(topic);
                rules.link.check().unwrap();
                stripline::transport::check(&rules.transport, &rules.link).unwrap();
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
