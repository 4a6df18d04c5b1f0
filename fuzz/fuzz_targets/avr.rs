//! AVR lines, with the frame and message in each.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline_components::adsb::message::Message;
use stripline_components::adsb::{Accepted, Frame, Tracker, TrackerConfig};
use stripline_fuzz as _; // for the allocator

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut tracker = Tracker::new(TrackerConfig::default());
    for (number, line) in text.lines().enumerate() {
        match line.parse::<Frame>() {
            Ok(frame) => {
                let again = frame.to_string();
                assert_eq!(again, line.trim_ascii().to_ascii_lowercase());
                assert_eq!(again.parse(), Ok(frame));
                assert_eq!(Frame::new(frame.as_bytes()), Ok(frame));
                let _ = format!("{:?}", Message::of(&frame));
                tracker.update(&Accepted::whole(frame, number as u64));
            }
            Err(error) => drop(error.to_string()),
        }
    }
    assert_eq!(tracker.iter().len(), tracker.len());
});
