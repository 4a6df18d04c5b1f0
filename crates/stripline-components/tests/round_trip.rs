//! Streams that are written and read back, for every pair of writer and reader.
//!
//! `STRIPLINE_ROUND_TRIPS` sets the number of streams; by default there are a few.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stripline::payload::{Scalar, TypeName};
use stripline::{ClockReference, Gap, GapReason, StreamClock, StreamInfo};
use stripline_components::formats::{
    Existing, FileReader, FileReaderOptions, RecordedPacket, RecordingEntry, RecordingInfo, RecordingReader,
    RecordingWriter, SamplePlace, StreamFileWriter, WavEncoding, WavFileWriter, WavSettings,
};

const TYPES: [&str; 20] = [
    "cf32", "cu8", "cs8", "cs16", "f32", "f64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "cf64",
    "cu16", "cu32", "cu64", "cs32", "cs64",
];
const START_NS: i64 = 1_700_000_000_000_000_000;

/// A part of a stream without a gap.
#[derive(Clone, Debug)]
struct Run {
    /// The number of samples missing before this part, unless the description changes.
    ahead: u64,
    /// The rate of a channel, the number of channels and the frequency; `None`: unchanged.
    change: Option<(u32, usize, u32)>,
    has_time: bool,
    packets: Vec<usize>,
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let change = prop::option::of((1u32..4, 1usize..9, 0u32..3));
    let run = (0u64..50, change, any::<bool>(), prop::collection::vec(1usize..40, 1..5));
    let run = run.prop_map(|(ahead, change, has_time, packets)| Run { ahead, change, has_time, packets });
    prop::collection::vec(run, 1..8)
}

/// A packet with its description.
struct Sent {
    stream: Arc<StreamInfo>,
    place: SamplePlace,
    gap: Option<Gap>,
    bytes: Vec<u8>,
}

/// Returns the packets of a stream, with different bytes in all samples.
fn packets(runs: &[Run], size: usize) -> Vec<Sent> {
    let mut index = 0;
    let mut kind = (1, 1, 0);
    let mut sent = Vec::new();
    let mut counter = 0u8;
    let mut stream = Arc::default();
    for (number, run) in runs.iter().enumerate() {
        let is_new = number == 0 || run.change.is_some_and(|change| change != kind);
        if is_new {
            kind = run.change.unwrap_or(kind);
            let (rate, channels, frequency) = kind;
            let rate = 48e3 * f64::from(rate) * channels as f64;
            let info = StreamInfo::new("s").sample_rate_hz(rate);
            let clock = StreamClock::new(ClockReference::Gps).error_ns(frequency.into());
            let info = match frequency {
                0 => info,
                _ => info.center_frequency_hz(1e6 * f64::from(frequency)).clock(clock),
            };
            let names = (1..=channels).map(|channel| channel.to_string());
            stream = Arc::new(if channels > 1 { info.channels(names) } else { info });
        }
        index += run.ahead;
        let gap = Gap { first: 0, packets: 1, samples: run.ahead, reason: GapReason::Overflow };
        let mut gap = Some(gap).filter(|gap| !is_new && gap.samples > 0);
        let rate = stream.sample_rate_hz.unwrap();
        for samples in &run.packets {
            let after = (index as f64 * 1e9 / rate).round() as i64;
            let time_ns = if run.has_time { START_NS + after } else { 0 };
            let mut byte = || {
                counter = counter.wrapping_mul(5).wrapping_add(3);
                counter
            };
            let bytes = (0..samples * size).map(|_| byte()).collect();
            let place = SamplePlace { sample_index: index, time_ns, samples: *samples as u64 };
            sent.push(Sent { stream: Arc::clone(&stream), place, gap: gap.take(), bytes });
            index += *samples as u64;
        }
    }
    sent
}

/// A sample with its position: index, time, frequency and clock.
type Placed = (u64, Option<i64>, (Option<f64>, Option<StreamClock>), Vec<u8>);

/// Returns the index after a packet.
fn end_of(packet: &Sent) -> u64 {
    packet.place.sample_index + packet.place.samples
}

/// Returns the samples that files of whole frames have, file by file, and the number of dropped
/// samples.
fn expected(sent: &[Sent], size: usize) -> (Vec<Vec<Placed>>, u64) {
    let kind = |sent: &Sent| (sent.stream.sample_rate_hz, sent.stream.channels.len());
    let (mut files, mut missing) = (Vec::<Vec<Placed>>::new(), 0);
    for (number, packet) in sent.iter().enumerate() {
        let before = number.checked_sub(1).map(|before| &sent[before]);
        if before.is_none_or(|before| kind(before) != kind(packet)) {
            files.push(Vec::new());
        }
        missing += before.map_or(0, |before| packet.place.sample_index - end_of(before));
        let channels = packet.stream.channels.len().max(1) as u64;
        // Find the contiguous part around the packet.
        let mut first = number;
        while first > 0 && sent[first].gap.is_none() && sent[first - 1].stream == packet.stream {
            first -= 1;
        }
        let last = number
            + sent[number + 1..].iter().take_while(|o| o.gap.is_none() && o.stream == packet.stream).count();
        let start = sent[first].place.sample_index.next_multiple_of(channels);
        let end = sent[last].place.sample_index + sent[last].place.samples;
        let end = end - end % channels;
        for (at, bytes) in packet.bytes.chunks(size).enumerate() {
            let index = packet.place.sample_index + at as u64;
            if index < start || index >= end {
                missing += 1;
                continue;
            }
            let after = (at as f64 * 1e9 / packet.stream.sample_rate_hz.unwrap()).round() as i64;
            let time = Some(packet.place.time_ns).filter(|time| *time != 0).map(|time| time + after);
            let described = (packet.stream.center_frequency_hz, packet.stream.clock);
            let placed = (index, time, described, bytes.to_vec());
            files.last_mut().unwrap().push(placed);
        }
    }
    (files, missing)
}

/// Reads all samples of a file.
fn read(path: &Path, room: usize) -> (FileReader, Vec<Placed>) {
    let mut reader = FileReader::open(path, &FileReaderOptions::default()).unwrap();
    let (size, rate) = (reader.scalar().size(), reader.sample_rate_hz().unwrap_or(1.0));
    let rate = rate * reader.channels() as f64;
    let (mut found, mut bytes) = (Vec::new(), vec![0; room * reader.frame_bytes()]);
    loop {
        let place = reader.place();
        let count = reader.read(&mut bytes).unwrap();
        if count == 0 {
            return (reader, found);
        }
        for (at, sample) in bytes[..count].chunks(size).enumerate() {
            let time = place.time_ns.map(|time| time + (at as f64 * 1e9 / rate).round() as i64);
            let described = (place.frequency_hz, place.clock);
            found.push((place.sample_index + at as u64, time, described, sample.to_vec()));
        }
    }
}

fn config() -> ProptestConfig {
    let cases = std::env::var("STRIPLINE_ROUND_TRIPS").ok().map_or(20, |text| text.parse().unwrap());
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn streams_read_back_as_they_were_written(
        runs in runs(), kind in 0usize..TYPES.len(), room in 1usize..50,
    ) {
        let scalar = Scalar::parse(TYPES[kind]).unwrap();
        let sent = packets(&runs, scalar.size());
        let folder = tempfile::tempdir().unwrap();
        let at = |name: String| folder.path().join(name);

        // SigMF keeps everything but packet boundaries, in files of one rate and one number of
        // channels.
        let mut writer =
            StreamFileWriter::new(at("a.sigmf-meta".into()), scalar, scalar, Existing::Refuse);
        // A raw file keeps only the samples. Missing samples are counted.
        let raw = at(format!("a.{scalar}"));
        let mut bare = StreamFileWriter::new(&raw, scalar, scalar, Existing::Refuse);
        let payload = TypeName::new(TYPES[kind]).unwrap();
        let port = at("a.slrec".into());
        let mut recording = RecordingWriter::create(&port, &RecordingInfo::new(payload)).unwrap();
        let mut entries = Vec::new();
        for (number, packet) in (0..).zip(&sent) {
            let Sent { stream, place, gap, bytes, .. } = packet;
            writer.packet(stream, *place, gap.as_ref(), bytes).unwrap();
            bare.packet(stream, *place, gap.as_ref(), bytes).unwrap();
            let (sample_index, time_ns) = (place.sample_index, place.time_ns);
            let recorded = RecordedPacket { sequence: number, sample_index, time_ns, received_ns: number };
            if let Some(gap) = gap {
                recording.gap(gap).unwrap();
                entries.push(RecordingEntry::Gap(*gap));
            }
            recording.stream(stream).unwrap();
            recording.packet(&recorded, bytes).unwrap();
            entries.extend([RecordingEntry::Stream((**stream).clone()), RecordingEntry::Packet(recorded)]);
        }
        let (files, missing) = expected(&sent, scalar.size());
        let reports = writer.finish(None).unwrap().to_vec();
        prop_assert_eq!(reports.len(), files.len());
        prop_assert_eq!(reports.iter().map(|it| it.missing).sum::<u64>(), missing);
        for (report, file) in reports.iter().zip(&files) {
            prop_assert_eq!(report.samples, file.len() as u64);
            if file.is_empty() {
                continue;
            }
            let (reader, found) = read(report.path.as_ref(), room);
            prop_assert_eq!(reader.scalar(), scalar);
            prop_assert_eq!(found.len(), file.len());
            for (found, sample) in found.iter().zip(file) {
                prop_assert_eq!((found.0, found.2, &found.3), (sample.0, sample.2, &sample.3));
                // Times are read in microseconds, and continue from the last time in the file.
                if let Some(time) = sample.1 {
                    prop_assert!(found.1.is_some_and(|it| it.abs_diff(time) <= 2000), "{found:?} {sample:?}");
                }
            }
        }

        let reports = bare.finish(None).unwrap().to_vec();
        let gaps: u64 = sent.windows(2).map(|pair| pair[1].place.sample_index - end_of(&pair[0])).sum();
        prop_assert_eq!((reports.len(), reports[0].missing), (1, gaps));
        let all: Vec<u8> = sent.iter().flat_map(|packet| packet.bytes.clone()).collect();
        let (reader, found) = read(&raw, room);
        prop_assert_eq!(reader.scalar(), scalar);
        prop_assert!(found.into_iter().flat_map(|sample| sample.3).eq(all.iter().copied()));

        recording.finish().unwrap();
        let mut reader = RecordingReader::open(&port).unwrap();
        let mut payloads = sent.iter().map(|packet| &packet.bytes);
        for entry in entries {
            prop_assert_eq!(reader.next_entry().unwrap(), Some(entry.clone()));
            if matches!(entry, RecordingEntry::Packet(_)) {
                prop_assert_eq!(reader.payload(), &payloads.next().unwrap()[..]);
            }
        }
        let is_end = matches!(reader.next_entry().unwrap(), Some(RecordingEntry::End { .. }));
        prop_assert!(is_end);

        // WAV keeps the samples, the rate and the channels.
        let (channels, rate) = (1 + kind as u16 % 8, 1000 * (1 + kind as u32));
        let settings =
            WavSettings { sample_rate_hz: rate, channels, encoding: WavEncoding::Float32 };
        let numbers: Vec<f32> = all.iter().map(|byte| f32::from(*byte)).collect();
        let whole = &numbers[..numbers.len() - numbers.len() % usize::from(channels)];
        if !whole.is_empty() {
            let wav = at("a.wav".into());
            let mut writer = WavFileWriter::create(&wav, &settings).unwrap();
            writer.write(whole).unwrap();
            writer.finish().unwrap();
            let (reader, found) = read(&wav, room);
            prop_assert_eq!((reader.channels(), reader.sample_rate_hz()), (channels.into(), Some(rate.into())));
            let found = found.into_iter().map(|sample| f32::from_ne_bytes(sample.3.try_into().unwrap()));
            prop_assert!(found.eq(whole.iter().copied()));
        }
    }
}

#[test]
fn samples_that_another_program_has_left_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let scalar = Scalar::parse("u16").unwrap();
    for name in ["a.u16", "a.sigmf-meta"] {
        let path = folder.path().join(name);
        let data = path.with_extension(if name == "a.u16" { "u16" } else { "sigmf-data" });
        let mut writer = StreamFileWriter::new(&path, scalar, scalar, Existing::Refuse);
        let place = SamplePlace { samples: 10, ..SamplePlace::default() };
        let stream = Arc::new(StreamInfo::new("s").sample_rate_hz(1e3));
        writer.packet(&stream, place, None, &[1; 20]).unwrap();
        writer.sync().unwrap();
        std::fs::File::options().write(true).open(&data).unwrap().set_len(7).unwrap();
        let changed = writer.finish(None).unwrap_err().to_string();
        assert!(changed.contains("shortened by another program"), "{changed}");
        let report = writer.report();
        assert_eq!((report.samples, report.missing, report.places), (3, 7, 1), "{name}");
        std::fs::remove_file(&data).unwrap();
        assert_eq!((writer.report().samples, writer.report().missing), (0, 10), "{name}");
    }
}
