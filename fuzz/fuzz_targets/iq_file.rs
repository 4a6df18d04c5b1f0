//! I/Q files, raw and SigMF, read in all supported ways.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use num_complex::Complex;
use stripline_components::formats::{IqFileReader, IqReaderOptions, SampleFormat};
use stripline_fuzz::Choices;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
const FORMATS: [&str; 10] =
    ["cu8", "cs8", "cs16", "cf32", "u8", "iq", "sigmf-meta", "sigmf-data", "sigmf", ""];

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let (way, chosen) = (choices.byte(), choices.byte());
    let path = |extension: &str| FOLDER.path().join("a").with_extension(extension);
    let extension = FORMATS[usize::from(chosen & 15) % FORMATS.len()];
    let named = |name: &str| SampleFormat::from_extension(&PathBuf::from("a").with_extension(name));
    let options = IqReaderOptions {
        format: (way & 1 == 0).then(|| named(FORMATS[usize::from(chosen >> 4) % 4])).flatten(),
        repeat: if way & 2 == 0 { 1 } else { choices.number() },
        truncate_partial: way & 4 == 0,
    };
    let piece = usize::from(way >> 4) + 1;
    if extension.starts_with("sigmf") {
        let length = usize::from(choices.byte()) * 4;
        std::fs::write(path("sigmf-meta"), choices.bytes(length)).unwrap();
        std::fs::write(path("sigmf-data"), choices.rest()).unwrap();
    } else {
        std::fs::write(path(extension), choices.rest()).unwrap();
    }
    let mut reader = match IqFileReader::open(path(extension), &options) {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    // A file compressed with gzip is read as a stream, with an unknown number of samples.
    let Some(per_pass) = reader.samples_per_pass() else { return };
    let wanted = per_pass.checked_mul(options.repeat).filter(|wanted| *wanted > 0 && *wanted < 5000);
    let mut samples = vec![Complex::default(); piece];
    let mut read = 0;
    // A file that repeats for ever is read for a limited number of blocks.
    for _ in 0..10_000 {
        let now = reader.read_samples(&mut samples).unwrap();
        assert!(now <= piece);
        read += now as u64;
        assert_eq!(reader.samples_read(), read);
        if now == 0 {
            assert_eq!(Some(read), wanted.or(Some(read)));
            return;
        }
        if wanted.is_none() && read > 5000 {
            return;
        }
    }
    panic!("no end");
});
