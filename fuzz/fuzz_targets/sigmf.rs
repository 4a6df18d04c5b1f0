//! SigMF metadata.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use stripline_components::formats::{SigMfMeta, utc_datetime};
use stripline_fuzz as _; // for the allocator

fuzz_target!(|data: &[u8]| {
    let path = Path::new("recording.sigmf-meta");
    match SigMfMeta::parse(data, path) {
        Ok(meta) => {
            let text = meta.to_json(path).unwrap();
            assert_eq!(SigMfMeta::parse(text.as_bytes(), path).unwrap(), meta);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Some((seconds, rest)) = data.split_first_chunk::<8>()
        && let Some((nanos, _)) = rest.split_first_chunk::<4>()
    {
        // Times beyond the end of the system's clock are skipped.
        let since = Duration::new(u64::from_le_bytes(*seconds) >> 24, u32::from_le_bytes(*nanos) >> 2);
        if let Some(time) = UNIX_EPOCH.checked_add(since) {
            assert!(utc_datetime(time).ends_with('Z'));
        }
    }
});
