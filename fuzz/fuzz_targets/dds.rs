//! Messages of DDS applications, in their serialised form.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline_middleware::internal::{DdsSampleMessage, DdsSampleType, FramesSample};
use stripline_fuzz as _; // for the allocator

fuzz_target!(|data: &[u8]| {
    if let Some(sample) = FramesSample::parse(data) {
        assert!(data.get(sample.frames).is_some());
    }
    for (name, bytes) in [("cf32", 8), ("f32", 4), ("cs16", 4), ("s16", 2), ("u8", 1)] {
        let kind = DdsSampleType::of_samples(name).expect("it has a type");
        if let Ok(message) = DdsSampleMessage::parse(kind, data) {
            assert_eq!(message.samples.len() % bytes, 0);
        }
    }
});
