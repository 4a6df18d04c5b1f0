//! Recordings of ports.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use stripline_components::formats::{RecordingEntry, RecordingReader};
use stripline_fuzz as _; // for the allocator

/// The start of a recording of bytes.
const START: &[u8] = b"SLREC\r\n\x1a\x01\0\0\0\x0d\0\0\0{\"type\":\"u8\"}\0\0\0";

fuzz_target!(|data: &[u8]| {
    read(data);
    // The records alone, behind a correct start.
    read(&[START, data].concat());
});

fn read(bytes: &[u8]) {
    let path = Path::new("a.slrec");
    let mut reader = match RecordingReader::new(bytes, path) {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut payload = 0;
    loop {
        match reader.next_entry() {
            Ok(Some(RecordingEntry::Packet(_))) => payload += reader.payload().len(),
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
        // The entries never have more bytes than the file.
        assert!(payload <= bytes.len());
    }
    assert!(reader.next_entry().is_ok_and(|entry| entry.is_none()));
}
