use proptest::prelude::*;

use super::super::header::tests::{chunk, format, npy, riff};
use super::*;

fn scalar(name: &str) -> Scalar {
    Scalar::parse(name).unwrap()
}

fn open(path: &Path, name: &str, repeat: u64, truncate_partial: bool) -> Result<FileReader, FormatError> {
    let format = Some(scalar(name));
    FileReader::open(path, &FileReaderOptions { format, repeat, truncate_partial, ..Default::default() })
}

/// Writes a file and opens it with the type of its header or name.
fn opened(dir: &Path, name: &str, bytes: &[u8]) -> Result<FileReader, FormatError> {
    std::fs::write(dir.join(name), bytes).unwrap();
    FileReader::open(&dir.join(name), &FileReaderOptions::default())
}

fn all(reader: &mut FileReader) -> Vec<u8> {
    let (mut all, mut out) = (Vec::new(), vec![0; 40 * reader.frame_bytes()]);
    loop {
        match reader.read(&mut out).unwrap() {
            0 => return all,
            count => all.extend_from_slice(&out[..count]),
        }
    }
}

/// Returns the bytes compressed with gzip.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a WAV file with two channels of 16 bits.
fn stereo(samples: &[u8]) -> Vec<u8> {
    riff(&[format(1, 2, 48_000, 16), chunk(b"data", samples), chunk(b"LIST", b"behind the samples")])
}

#[test]
fn the_header_of_a_wav_file_is_used_and_not_played() {
    let dir = tempfile::tempdir().unwrap();
    let samples: Vec<u8> = (0..200).collect();
    let mut reader = opened(dir.path(), "a.wav", &stereo(&samples)).unwrap();
    assert_eq!((reader.scalar(), reader.channels(), reader.sample_rate_hz()), (scalar("s16"), 2, Some(48e3)));
    assert_eq!(all(&mut reader), samples);
    // The first bytes decide, with any name.
    let mut reader = opened(dir.path(), "a.cs8", &stereo(&samples)).unwrap();
    assert!(reader.join_channels() && !reader.join_channels());
    assert_eq!((reader.scalar(), reader.channels()), (scalar("cs16"), 1));
    assert_eq!(all(&mut reader), samples);
    // The type of the parts or of the pairs may be given, and no other type.
    let path = dir.path().join("a.wav");
    for name in ["s16", "cs16"] {
        open(&path, name, 2, false).unwrap();
    }
    let message = open(&path, "cf32", 1, false).unwrap_err().to_string();
    assert!(
        message.ends_with("a.wav: the file has s16, but the property `format` is cf32: leave it out"),
        "{message}"
    );
    // Silence is 128 in 8 bits.
    let quiet = riff(&[format(1, 2, 8000, 8), chunk(b"data", &[128, 0])]);
    let mut reader = opened(dir.path(), "c.wav", &quiet).unwrap();
    assert!(reader.join_channels());
    let mut out = [[1; 4]; 2];
    let bytes = all(&mut reader);
    reader.to_f32(&bytes, &mut out);
    assert_eq!(out.map(f32::from_ne_bytes), [0.0, -1.0]);
    // The 24 bits become the upper bits of 32.
    let small = riff(&[format(1, 1, 8000, 24), chunk(b"data", &[1, 2, 3, 4, 5, 6])]);
    assert_eq!(all(&mut opened(dir.path(), "b.wav", &small).unwrap()), [0, 1, 2, 3, 0, 4, 5, 6]);
}

#[test]
fn a_raw_file_has_the_channels_that_are_given() {
    let dir = tempfile::tempdir().unwrap();
    let samples: Vec<u8> = (0..60).collect();
    let at = |name: &str, bytes: &[u8]| {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        dir.path().join(name)
    };
    let three = FileReaderOptions { channels: NonZeroU16::new(3), ..Default::default() };
    let raw = at("a.s16", &samples);
    for path in [&raw, &at("a.s16.gz", &gzip(&samples))] {
        let mut reader = FileReader::open(path, &three).unwrap();
        assert_eq!((reader.channels(), reader.frame_bytes()), (3, 6));
        assert_eq!(all(&mut reader), samples);
    }
    let refused = |path: &Path| FileReader::open(path, &three).unwrap_err().to_string();
    let message = refused(&at("cut.s16", &samples[..56]));
    assert!(message.contains("2 of its 56 bytes are left over, as a s16 (3 channels) sample"), "{message}");
    let message = refused(&at("a.wav", &stereo(&samples)));
    let words = "the file has 2 channels, but the property `channels` is 3: leave it out";
    assert!(message.ends_with(words), "{message}");
    at("b.sigmf-data", &samples);
    let message = refused(&at("b.sigmf-meta", br#"{"global": {"core:datatype": "ru8"}}"#));
    assert!(message.contains("the file has 1 channel, but the property `channels` is 3"), "{message}");
}

#[test]
fn an_unfinished_wav_file_is_played_up_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let samples: Vec<u8> = (0..203).collect();
    let crashed = [&b"RIFF\0\0\0\0WAVE"[..], &format(1, 2, 48_000, 16), b"data\0\0\0\0", &samples].concat();
    let mut reader = opened(dir.path(), "crashed.wav", &crashed).unwrap();
    assert!(reader.notes()[0].contains("no length"), "{:?}", reader.notes());
    assert_eq!(all(&mut reader), samples[..200]);
    let mut whole = stereo(&samples);
    whole.truncate(12 + 24 + 8 + 100);
    let mut reader = opened(dir.path(), "cut.wav", &whole).unwrap();
    assert_eq!((all(&mut reader), reader.notes().len()), (samples[..100].to_vec(), 0));
    let cut = reader.truncation().unwrap().to_string();
    assert!(cut.contains("cut.wav: it is truncated: its header has 203 bytes"), "{cut}");
    let mut packed = opened(dir.path(), "cut.wav.gz", &gzip(&whole)).unwrap();
    assert_eq!(all(&mut packed), samples[..100]);
    let cut = packed.truncation().unwrap().to_string();
    assert!(cut.contains("203 bytes of samples, and the file 100"), "{cut}");
    let empty = opened(dir.path(), "empty.wav", &stereo(&[])).unwrap_err();
    assert!(matches!(empty, FormatError::Empty { .. }), "{empty}");
}

#[test]
fn arrays_of_numpy_and_compressed_files_are_played() {
    let dir = tempfile::tempdir().unwrap();
    let text = "{'descr': '>i2', 'fortran_order': False, 'shape': (2, 2), }";
    let mut reader = opened(dir.path(), "a.npy", &npy(text, &[0, 1, 0, 2, 0, 3, 0, 4])).unwrap();
    assert_eq!((reader.channels(), reader.scalar()), (2, scalar("s16")));
    assert_eq!(all(&mut reader), [1u16, 2, 3, 4].iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>());
    let samples: Vec<u8> = (0..100).collect();
    assert_eq!(all(&mut opened(dir.path(), "a.cu8.gz", &gzip(&samples)).unwrap()), samples);
    let mut reader = opened(dir.path(), "a.wav.gz", &gzip(&stereo(&samples))).unwrap();
    assert_eq!((reader.channels(), reader.sample_rate_hz()), (2, Some(48e3)));
    assert_eq!(all(&mut reader), samples);
    let message = open(&dir.path().join("a.cu8.gz"), "cu8", 2, false).unwrap_err().to_string();
    assert!(message.contains("compressed file cannot be repeated"), "{message}");
    // The checksum is behind the samples and the chunks.
    let mut damaged = gzip(&stereo(&samples));
    let checksum = damaged.len() - 8;
    damaged[checksum] ^= 1;
    for bytes in [&damaged[..], &damaged[..checksum]] {
        let mut reader = opened(dir.path(), "damaged.wav.gz", bytes).unwrap();
        let mut out = [0; 100];
        assert_eq!((reader.read(&mut out).unwrap(), &out[..]), (100, &samples[..]));
        let message = reader.read(&mut out).unwrap_err().to_string();
        assert!(message.contains("after 100 bytes: damaged or truncated gzip"), "{message}");
    }
    // The remaining samples of a truncated file are returned first.
    let whole =
        gzip(&(0..100_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_ne_bytes()).collect::<Vec<_>>());
    let mut reader = opened(dir.path(), "cut.u32.gz", &whole[..whole.len() / 2]).unwrap();
    let (mut out, mut count) = ([0; 4096], 0);
    let error = loop {
        match reader.read(&mut out) {
            Ok(bytes) => count += bytes,
            Err(error) => break error.to_string(),
        }
    };
    assert!(count > 100_000 && error.contains("damaged or truncated gzip"), "{count}, {error}");
}

#[test]
fn names_and_first_bytes_contradict_each_other() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes, words) in [
        ("a.wav", &[1; 40][..], &["ends in .wav", "does not begin like", "`format`"][..]),
        ("a.cf32", b"SLREC\r\n\x1a\0\0\0\0\0\0\0\0", &["a recording of a port", "component `replay`"]),
        ("a.cu8", b"fLaC\0\0\0\0\0\0\0\0", &["FLAC", "convert it"]),
        ("a.bin", &[1; 40], &["the sample format is unknown", "`format`", "cs64"]),
        ("a.sigmf", b"x", &["not a SigMF archive, which is a tar file", "unpack it"]),
        ("a.sigmf.gz", &gzip(&[0; 600]), &["a SigMF file compressed with gzip", "with `gunzip`"]),
        ("a.sigmf.xz", b"\xfd7zXZ\0\0\0\0\0", &["a file compressed with xz: unpack it with `unxz`"]),
        ("a.sigmf.zip", b"PK\x03\x04\0\0\0\0", &["a ZIP file: unpack it, and give the file"]),
    ] {
        let message = opened(dir.path(), name, bytes).unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "`{word}` in {message}");
        }
    }
    // Test the remedy for a wrong name.
    assert_eq!(all(&mut open(&dir.path().join("a.wav"), "u8", 1, false).unwrap()), [1; 40]);
    let missing = FileReader::open(&dir.path().join("missing.sigmf"), &FileReaderOptions::default());
    assert!(missing.unwrap_err().to_string().contains("no such file"));
}

#[test]
fn captures_of_sigmf_are_read_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let meta = r#"{"global": {"core:datatype": "ri16_be", "core:sample_rate": "1000", "core:num_channels": 2},
        "captures": [{"core:sample_start": 0.0, "core:datetime": "1970-01-01T00:00:01Z"},
        {"core:sample_start": 3, "core:global_index": 10, "core:frequency": 1e6}]}"#;
    std::fs::write(dir.path().join("A.SIGMF-META"), [b"\xef\xbb\xbf", meta.as_bytes()].concat()).unwrap();
    let samples: Vec<u8> = (0..10u8).flat_map(|n| [0, n]).collect();
    let path = dir.path().join("A.SIGMF-DATA");
    std::fs::write(&path, samples).unwrap();
    let mut reader = FileReader::open(&path, &FileReaderOptions { repeat: 2, ..Default::default() }).unwrap();
    let (mut seen, mut out) = (Vec::new(), [0; 100]);
    loop {
        let place = reader.place();
        let count = reader.read(&mut out).unwrap();
        if count == 0 {
            break;
        }
        let first = i16::from_ne_bytes([out[0], out[1]]);
        seen.push((place.sample_index, place.time_ns, place.frequency_hz, first, count / 4));
    }
    assert_eq!(
        seen,
        [
            (0, Some(1_000_000_000), None, 0, 3),
            (20, None, Some(1e6), 6, 2),
            (24, None, None, 0, 3),
            (44, None, Some(1e6), 6, 2),
        ]
    );
}

#[test]
fn what_is_behind_the_samples_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let array = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", &[1, 2, 3, 4]);
    let wav = stereo(&[1, 0, 2, 0, 3, 0, 4, 0]);
    for (name, bytes, samples, note) in [
        (
            "two.npy",
            array.repeat(2),
            4,
            Some(format!("{} bytes behind its array are not played", array.len())),
        ),
        ("one.npy", array, 4, None),
        (
            "two.wav",
            [wav.clone(), b"data\x02\0\0\0\x07\x07".to_vec()].concat(),
            8,
            Some("10 bytes behind its samples are not played: another chunk `data`".into()),
        ),
        ("one.wav", wav, 8, None),
    ] {
        let mut reader = opened(dir.path(), name, &bytes).unwrap();
        assert_eq!((all(&mut reader).len(), reader.notes().first()), (samples, note.as_ref()), "{name}");
    }
}

#[test]
fn the_recording_of_a_sigmf_archive_is_played_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    let meta = br#"{"global": {"core:datatype": "ci16_be", "core:sample_rate": 8}, "captures":
        [{"core:sample_start": 0, "core:global_index": 9, "core:frequency": 5}]}"#;
    for (name, content) in [
        ("r/r.sigmf-meta", &meta[..]),
        ("r/r.sigmf-data", &[0, 1, 0, 2, 0, 3, 0, 4]),
        ("r/notes", &[7; 5000]),
    ] {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, name, content).unwrap();
    }
    let bytes = archive.into_inner().unwrap();
    std::fs::write(dir.path().join("r.SIGMF"), &bytes).unwrap();
    let options = FileReaderOptions { repeat: 2, ..Default::default() };
    let mut reader = FileReader::open(&dir.path().join("r.SIGMF"), &options).unwrap();
    assert_eq!((reader.sample_rate_hz(), reader.samples_per_pass()), (Some(8.0), Some(2)));
    assert_eq!((reader.place().sample_index, reader.place().frequency_hz), (9, Some(5.0)));
    let samples: Vec<u8> = [1u16, 2, 3, 4].repeat(2).iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(all(&mut reader), samples);
    // An archive that was truncated within the samples is played up to there.
    let mut reader = opened(dir.path(), "cut.sigmf", &bytes[..3 * 512 + 6]).unwrap();
    assert_eq!((all(&mut reader), reader.notes().len()), (samples[..4].to_vec(), 0));
    let cut = reader.truncation().unwrap().to_string();
    assert!(cut.contains("8 bytes of samples, and the file 6"), "{cut}");
    let mut wav = bytes;
    wav[3 * 512..3 * 512 + 8].copy_from_slice(b"fLaC\0\0\0\0");
    let message = opened(dir.path(), "flac.sigmf", &wav).unwrap_err().to_string();
    assert!(message.contains("a FLAC file"), "{message}");
}

#[test]
fn the_first_read_of_a_pipe_returns_all_that_has_arrived() {
    let contents = Contents::of(Path::new("pipe"), Encoding::raw(scalar("u8")), 1);
    let input = Box::new(io::Cursor::new([7; 100]));
    let mut reader = FileReader::stream(contents, input, &FileReaderOptions::default(), false);
    let counts: Vec<usize> = (0..3).map(|_| reader.read(&mut [0; 64]).unwrap()).collect();
    assert_eq!(counts, [64, 36, 0]);
}

#[test]
fn a_pipe_without_samples_or_with_a_header_is_an_error() {
    let null = open(Path::new("/dev/null"), "cu8", 1, false).unwrap().read(&mut [0; 10]).unwrap_err();
    assert!(null.to_string().contains("the input had no samples"), "{null}");
    let options = FileReaderOptions::default();
    for (bytes, words) in [
        (stereo(&[0; 8]), "a WAV file in a pipe"),
        (gzip(&[0; 8]), "compressed with gzip"),
        (b"SLREC\r\n\x1a".to_vec(), "a recording of a port"),
    ] {
        let contents = Contents::of(Path::new("pipe"), Encoding::raw(scalar("u8")), 1);
        let mut reader = FileReader::stream(contents, Box::new(io::Cursor::new(bytes)), &options, false);
        let message = reader.read(&mut [0; 10]).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn what_cannot_be_played_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message =
        |name: &str, repeat| open(&dir.path().join(name), "f64", repeat, false).unwrap_err().to_string();
    std::fs::write(dir.path().join("odd"), [0; 17]).unwrap();
    std::fs::write(dir.path().join("empty"), []).unwrap();
    assert!(message("odd", 1).contains("1 of its 17 bytes are left over, as a f64 sample has 8"));
    assert!(message("empty", 1).contains("the file is empty"));
    assert!(message("missing", 1).contains("there is no such file"));
    assert!(message("", 1).contains("directory"));
    let repeated = open(Path::new("/dev/zero"), "u8", 2, false);
    assert!(repeated.unwrap_err().to_string().contains("cannot be repeated"));
}

#[test]
fn a_pipe_gives_whole_samples_as_they_arrive() {
    use std::io::Write;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let writer = std::thread::Builder::new().spawn({
        let path = path.clone();
        move || {
            let mut fifo = std::fs::File::options().write(true).open(path).unwrap();
            fifo.write_all(&[1, 2, 3]).unwrap();
            fifo.write_all(&[4, 5, 6, 7]).unwrap();
        }
    });
    let writer = writer.unwrap();
    let mut reader = open(&path, "u16", 1, true).unwrap();
    let (mut bytes, mut all) = ([0; 8], Vec::new());
    loop {
        let count = reader.read(&mut bytes).unwrap();
        assert_eq!(count % 2, 0);
        all.extend_from_slice(&bytes[..count]);
        if count == 0 {
            break;
        }
    }
    writer.join().unwrap();
    assert_eq!(all, [1, 2, 3, 4, 5, 6]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_sigmf_recording_gives_back_its_indexes_times_and_frequencies(
        parts in prop::collection::vec(
            (0u64..1000, 1usize..40, prop::option::of(1u32..9), prop::option::of(1u64..1 << 40)), 1..8),
        room in 1usize..30,
    ) {
        use super::super::{IqFileWriter, SampleFormat, SigMfCapture, utc_datetime};
        use std::time::{Duration, UNIX_EPOCH};

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sigmf-meta");
        let meta = SigMfMeta { sample_rate_hz: Some(1e6), ..SigMfMeta::new(SampleFormat::Cs8) };
        let mut writer = IqFileWriter::create_sigmf(&path, meta).unwrap();
        // The index, time and frequency of each sample.
        let (mut expected, mut index) = (Vec::new(), 0);
        for (gap, length, frequency, micros) in parts {
            index += gap;
            let frequency_hz = frequency.map(f64::from);
            let datetime = micros.map(|micros| utc_datetime(UNIX_EPOCH + Duration::from_micros(micros)));
            let global_index = Some(index);
            let capture = SigMfCapture { global_index, frequency_hz, datetime, ..Default::default() };
            writer.begin_capture(capture).unwrap();
            writer.write(&[1, 2].repeat(length)).unwrap();
            for sample in 0..length as u64 {
                // A sample takes a microsecond.
                let time_ns = micros.map(|micros| ((micros + sample) * 1000) as i64);
                expected.push(FilePlace { sample_index: index + sample, time_ns, frequency_hz, clock: None });
            }
            index += length as u64;
        }
        writer.finish().unwrap();
        let mut reader = FileReader::open(&path, &FileReaderOptions::default()).unwrap();
        let (mut found, mut out) = (Vec::new(), vec![0; 2 * room]);
        loop {
            let place = reader.place();
            let count = reader.read(&mut out).unwrap() as u64 / 2;
            if count == 0 {
                break;
            }
            found.extend((0..count).map(|sample| FilePlace {
                sample_index: place.sample_index + sample,
                time_ns: place.time_ns.map(|time| time + sample as i64 * 1000),
                ..place
            }));
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn every_pass_is_read_whole_in_any_pieces(
        name in prop::sample::select(vec!["u8", "s16", "f32", "cf64"]),
        samples in 1usize..40,
        over in 0usize..16,
        repeat in 1u64..4,
        room in 1usize..20,
    ) {
        let scalar = scalar(name);
        let over = over % scalar.size();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let bytes: Vec<u8> = (0..samples * scalar.size() + over).map(|n| n as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let mut reader = open(&path, name, repeat, true).unwrap();
        let mut out = vec![0; room * scalar.size()];
        let mut all = Vec::new();
        loop {
            let count = reader.read(&mut out).unwrap();
            if count == 0 {
                break;
            }
            prop_assert_eq!(count % scalar.size(), 0);
            all.extend_from_slice(&out[..count]);
        }
        prop_assert_eq!(all, bytes[..samples * scalar.size()].repeat(repeat as usize));
    }
}
