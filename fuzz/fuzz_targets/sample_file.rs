//! Sample files of all formats with a header: WAV, numpy, gzip, SigMF with captures, and SigMF
//! archives.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::num::NonZeroU16;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use stripline_components::formats::{FileReader, FileReaderOptions};
use stripline_fuzz::Choices;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
const ENDINGS: [&str; 9] = ["wav", "npy", "gz", "cu8", "sigmf-meta", "cf64", "slrec", "", "sigmf"];

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let (way, chosen) = (choices.byte(), choices.byte());
    let ending = ENDINGS[usize::from(chosen) % ENDINGS.len()];
    let path = |ending: &str| FOLDER.path().join("a").with_extension(ending);
    if ending == "sigmf-meta" {
        let length = usize::from(choices.byte()) * 4;
        std::fs::write(path("sigmf-meta"), choices.bytes(length)).unwrap();
        std::fs::write(path("sigmf-data"), choices.rest()).unwrap();
    } else {
        std::fs::write(path(ending), choices.rest()).unwrap();
    }
    let options = FileReaderOptions {
        repeat: if way & 1 == 0 { 1 } else { 2 },
        truncate_partial: way & 2 == 0,
        channels: NonZeroU16::new(if way & 8 == 0 { 0 } else { 3 }),
        ..Default::default()
    };
    let mut reader = match FileReader::open(&path(ending), &options) {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if way & 4 == 0 {
        reader.join_channels();
    }
    let wanted = reader.samples_per_pass().map(|samples| samples * options.repeat);
    let frame = reader.frame_bytes();
    let mut out = vec![0; frame * (usize::from(way >> 4) + 1)];
    let mut bytes = 0;
    loop {
        let place = reader.place();
        assert_eq!(place.sample_index % reader.channels() as u64 * u64::from(place.sample_index < u64::MAX), 0);
        match reader.read(&mut out) {
            Ok(0) => break,
            Ok(count) => {
                assert!(count <= out.len() && count % frame == 0);
                bytes += count;
                assert_eq!(reader.samples_read() * reader.scalar().size() as u64, bytes as u64);
            }
            // A compressed file may be damaged anywhere.
            Err(error) => return assert!(wanted.is_none() && !error.to_string().is_empty()),
        }
        // An input of a few bytes may unpack to a huge number of bytes.
        if bytes > 1 << 20 {
            return;
        }
    }
    assert_eq!(Some((bytes / reader.scalar().size()) as u64), wanted.or(Some(reader.samples_read())));
});
