//! Writers that are killed (SIGKILL) at random times: the file has all packets that were reported
//! as written.
//!
//! The test starts itself as the writer, which prints the number of each packet after writing it.
//! `STRIPLINE_KILLS` sets the number of kills; by default there are a few.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use stripline::StreamInfo;
use stripline::payload::{Scalar, TypeName};
use stripline_components::formats::{
    Durability, Existing, FileReader, FileReaderOptions, RecordedPacket, RecordingEntry, RecordingInfo,
    RecordingReader, RecordingWriter, SamplePlace, StreamFileWriter, WavEncoding, WavFileWriter, WavSettings,
};

/// The environment variable with the path of the writer's file.
const FILE: &str = "STRIPLINE_KILLED_WRITER";
const NAMES: [&str; 5] = ["a.u8", "a.sigmf-meta", "gathered.sigmf-meta", "a.wav", "a.slrec"];
/// The number of samples in a packet. Each sample has the number of the packet as value.
const SAMPLES: usize = 100;
/// More packets than a writer writes before the kill.
const PACKETS: u64 = 100_000;

#[test]
fn what_was_stated_as_written_is_there_after_a_kill() {
    if let Some(path) = std::env::var_os(FILE) {
        return write(path.as_ref());
    }
    let kills: usize = std::env::var("STRIPLINE_KILLS").ok().map_or(60, |text| text.parse().unwrap());
    let mut seed = 0x9e37_79b9_7f4a_7c15u64 ^ u64::from(std::process::id());
    for kill in 0..kills {
        let name = NAMES[kill % NAMES.len()];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (packets, steps) = ((seed >> 33) % 20, (seed >> 50) % 2000);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_was_stated_as_written_is_there_after_a_kill", "--nocapture"])
            .env(FILE, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut stated = 0;
        let mut line = String::new();
        while stated <= packets {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the writer has ended");
            stated += u64::from(line.starts_with("written "));
        }
        // Kill the writer at any step of its next writes.
        for step in 0..steps {
            std::hint::black_box(step);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let rest = lines.lines().map_while(Result::ok).filter(|line| line.starts_with("written ")).count();
        let stated = stated + rest as u64;
        check(&path, stated, kill);
    }
    println!("{kills} kills");
}

/// Writes packets, and reports each packet after it is in the file.
fn write(path: &Path) {
    let u8s = Scalar::parse("u8").unwrap();
    let streams = [1e8, 2e8]
        .map(|frequency| Arc::new(StreamInfo::new("s").sample_rate_hz(1e6).center_frequency_hz(frequency)));
    let state = |number: u64| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "written {number}").and_then(|()| out.flush()).unwrap();
    };
    let bytes = |number: u64| [number as u8; SAMPLES];
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("wav") => {
            let settings = WavSettings { encoding: WavEncoding::Float32, ..WavSettings::default() };
            let mut writer = WavFileWriter::create(path, &settings).unwrap();
            for number in 0..PACKETS {
                writer.write(&bytes(number).map(f32::from)).unwrap();
                writer.sync_disk().unwrap();
                state(number);
            }
        }
        Some("slrec") => {
            let payload = TypeName::new("u8").unwrap();
            let mut writer = RecordingWriter::create(path, &RecordingInfo::new(payload)).unwrap();
            for number in 0..PACKETS {
                let packet = RecordedPacket { sequence: number, ..RecordedPacket::default() };
                writer.packet(&packet, &bytes(number)).unwrap();
                writer.flush().unwrap();
                state(number);
            }
        }
        _ => {
            let writer = StreamFileWriter::new(path, u8s, u8s, Existing::Refuse);
            let mut writer = match is_gathered(path) {
                true => writer,
                false => writer.durable(Durability::Packet),
            };
            for number in 0..PACKETS {
                // A step of frequency, and a step of the index.
                let stream = &streams[(number / 3 % 2) as usize];
                let sample_index = (number + number / 5) * SAMPLES as u64;
                let place = SamplePlace { sample_index, time_ns: 0, samples: SAMPLES as u64 };
                writer.packet(stream, place, None, &bytes(number)).unwrap();
                if is_gathered(path) && number % 7 == 6 {
                    writer.sync().unwrap();
                }
                state(number);
            }
        }
    }
}

/// Returns whether the writer collects packets, so that the last reported packets may be missing.
fn is_gathered(path: &Path) -> bool {
    path.file_stem().is_some_and(|name| name == "gathered")
}

/// Reads the file of a killed writer.
fn check(path: &Path, stated: u64, kill: usize) {
    let mut found = 0;
    let stated = if is_gathered(path) { stated.saturating_sub(7) } else { stated };
    if stated == 0 {
        return;
    }
    if path.extension().is_some_and(|extension| extension == "slrec") {
        let mut reader = RecordingReader::open(path).unwrap();
        while let Some(entry) = reader.next_entry().unwrap() {
            assert!(matches!(entry, RecordingEntry::Packet(_)), "{kill}: {entry:?}");
            assert_eq!(reader.payload(), [found as u8; SAMPLES], "{kill}");
            found += 1;
        }
    } else {
        let options = FileReaderOptions { truncate_partial: true, ..FileReaderOptions::default() };
        let mut reader = FileReader::open(path, &options).unwrap();
        let is_sigmf = reader.sigmf().is_some();
        let size = reader.scalar().size();
        let mut all = Vec::new();
        let mut places = Vec::new();
        loop {
            let place = reader.place();
            let mut bytes = vec![0; size * SAMPLES];
            let count = reader.read(&mut bytes).unwrap();
            if count == 0 {
                break;
            }
            places.push((all.len() / size, place));
            all.extend_from_slice(&bytes[..count]);
        }
        for (number, packet) in (0u64..).zip(all.chunks_exact(size * SAMPLES)) {
            let is_right = match size {
                1 => packet.iter().all(|sample| *sample == number as u8),
                _ => packet.chunks(4).all(|sample| sample == f32::from(number as u8).to_ne_bytes()),
            };
            assert!(is_right, "{kill}: {} has other samples in packet {number}", path.display());
            found += 1;
        }
        for (start, place) in places.into_iter().filter(|_| is_sigmf) {
            let number = (start / SAMPLES) as u64;
            let index = (number + number / 5) * SAMPLES as u64 + (start % SAMPLES) as u64;
            let frequency = if (number / 3).is_multiple_of(2) { 1e8 } else { 2e8 };
            assert_eq!((place.sample_index, place.frequency_hz), (index, Some(frequency)), "{kill}");
        }
    }
    assert!(found >= stated, "{kill}: {}: {stated} packets were written, {found} are there", path.display());
}
