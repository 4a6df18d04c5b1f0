//! Components that play recordings of ports and write files.

use std::process::Command;
use std::time::Duration;

use rustix::fs::inotify;
use stripline::component::FileReport;
use stripline::payload::TypeName;
use stripline::{Axis, Gap, GapReason, StreamInfo};
use stripline_components::formats::{Existing, RecordedPacket, RecordingInfo, RecordingWriter};
use stripline_waveform::RunReport;

use super::bench::{Bench, Job};

/// A record of a recording of samples.
enum Entry {
    Stream(StreamInfo),
    /// The index and the number of the samples.
    Packet(u64, usize),
    /// The number of samples that are missing.
    Gap(u64),
}

use Entry::{Gap as Lost, Packet, Stream};

/// Creates a waveform that plays a recording to a sink with these properties.
fn job(bench: &Bench, entries: &[Entry], sink: &str, properties: &str) -> Job {
    let (played, mut sequence) = (bench.path("t.slrec"), 0);
    let mut writer =
        RecordingWriter::open(&played, &RecordingInfo::new(TypeName::of::<f32>()), Existing::Replace)
            .unwrap();
    for entry in entries {
        match entry {
            Stream(stream) => writer.stream(stream).unwrap(),
            Packet(sample_index, samples) => {
                let packet =
                    RecordedPacket { sequence, sample_index: *sample_index, ..RecordedPacket::default() };
                let bytes = 0.25f32.to_ne_bytes().repeat(*samples);
                writer.packet(&packet, &bytes).unwrap();
                sequence += 1;
            }
            Lost(samples) => {
                let gap = Gap { first: sequence, packets: 1, samples: *samples, reason: GapReason::Overflow };
                writer.gap(&gap).unwrap();
                sequence += 1;
            }
        }
    }
    writer.finish().unwrap();
    bench.text(&format!(
        "[component]\nplayer = {{ type = 'replay', properties = {{ path = '{}', speed = 0 }} }}\n\
         sink = {{ type = '{sink}', properties = {{ {properties} }} }}\n\
         [[connection]]\nfrom = 'player'\nto = 'sink'\n",
        played.display()
    ))
}

fn path(bench: &Bench, name: &str) -> String {
    format!("path = '{}'", bench.path(name).display())
}

fn counts(report: &RunReport) -> Vec<(u64, u64, u64)> {
    let files = report.components.iter().flat_map(|component| &component.files);
    files.map(|FileReport { samples, missing, places, .. }| (*samples, *missing, *places)).collect()
}

fn mono() -> StreamInfo {
    StreamInfo::new("x").sample_rate_hz(8e3)
}

pub fn a_partial_frame_before_another_file_is_counted() {
    let bench = Bench::new();
    let stereo = mono().channels(["1", "2"].map(String::from));
    let entries = [Stream(stereo), Packet(0, 11), Stream(mono()), Packet(11, 10)];
    let report = job(&bench, &entries, "wav-sink", &path(&bench, "a.wav")).run().ended();
    assert_eq!(counts(&report), [(10, 1, 1), (10, 0, 0)]);
}

pub fn a_loss_behind_the_last_packet_is_noted() {
    let bench = Bench::new();
    let entries = [Stream(mono()), Packet(0, 11), Lost(5), Packet(16, 1), Lost(500), Lost(20)];
    let outcome = job(&bench, &entries, "null-sink", "").run();
    outcome.logged("2 packets with 520 samples missing behind the last one").ended();
}

pub fn a_sink_without_a_packet_reports_that() {
    let bench = Bench::new();
    let entries = [Stream(mono())];
    let properties = format!("path = \"{}\\u001b.wav\"", bench.path("a").display());
    let outcome = job(&bench, &entries, "wav-sink", &properties).run();
    let report = outcome.logged("a\\u{1b}.wav is not written").ended();
    assert!(counts(&report).is_empty());
}

pub fn a_rate_that_wav_cannot_have_is_an_error() {
    let bench = Bench::new();
    for (rate, shown) in [(0.3, "is 0.3 Hz"), (1e12, "is 1000000000000 Hz")] {
        let entries = [Stream(mono().sample_rate_hz(rate)), Packet(0, 10)];
        job(&bench, &entries, "wav-sink", &path(&bench, "a.wav")).run().failed(&[shown, "put a `resampler`"]);
    }
}

pub fn a_rate_with_a_fraction_is_noted() {
    let bench = Bench::new();
    let entries = [Stream(mono().sample_rate_hz(8000.25)), Packet(0, 10)];
    let outcome = job(&bench, &entries, "wav-sink", &path(&bench, "a.wav")).run();
    let report = outcome.logged("a.wav: the rate is 8000 Hz, not 8000.25: the header has whole").ended();
    assert_eq!(report.components[1].files[0].not_kept, ["sample_rate_hz"]);
}

pub fn a_packet_without_a_file_is_counted() {
    for (sink, ending) in [("wav-sink", ".wav"), ("file-sink", ".sigmf-meta")] {
        let bench = Bench::new();
        let name = "n".repeat(255 - ending.len()) + ending;
        let entries = [Stream(mono()), Packet(0, 11), Stream(mono().sample_rate_hz(9e3)), Packet(11, 10)];
        let outcome = job(&bench, &entries, sink, &path(&bench, &name)).run();
        assert_eq!(counts(outcome.report()), [(11, 10, 1)], "{sink}");
        outcome.failed(&["the name is too long: name a file of at most"]);
    }
}

pub fn channels_that_take_turns_in_rows_are_refused_before_a_file_is_written() {
    let pair = mono().channels(["1", "2"].map(String::from));
    let rows = StreamInfo { row_length: Some(4), ..pair.clone() };
    let frames = StreamInfo { frame_rows: Some(2), ..rows.clone() };
    for (sink, name) in [("wav-sink", "a.wav"), ("file-sink", "a.sigmf-meta")] {
        for (stream, order) in [(&rows, "row by row"), (&frames, "frame by frame")] {
            let bench = Bench::new();
            let outcome =
                job(&bench, &[Stream(stream.clone()), Packet(0, 16)], sink, &path(&bench, name)).run();
            assert_eq!(counts(outcome.report()), [(0, 16, 1)], "{sink}");
            outcome.failed(&[order, "sample by sample", "put a `demultiplexer` before the sink"]);
            assert!(!bench.path(name).exists());
        }
        // A file up to this stream stays as it is.
        let bench = Bench::new();
        let entries = [Stream(pair.clone()), Packet(0, 6), Stream(rows.clone()), Packet(6, 16)];
        let outcome = job(&bench, &entries, sink, &path(&bench, name)).run();
        assert_eq!(counts(outcome.report()), [(6, 16, 1)], "{sink}");
        outcome.failed(&["row by row"]);
    }
}

pub fn rows_that_are_not_drawn_are_counted() {
    let bench = Bench::new();
    let rows = mono().rows(16, Axis::new(0.0, 1.0, "Hz"), Axis::new(0.0, 1.0, "s"));
    // The last packet begins within a row.
    let entries = [Stream(rows), Packet(0, 16), Packet(16, 15), Packet(40, 30)];
    let properties = format!("{}, terminal = false", path(&bench, "a.png"));
    let report = job(&bench, &entries, "waterfall-sink", &properties).run().ended();
    assert_eq!(counts(&report), [(0, 15 + 8 + 6, 2)]);
}

pub fn a_name_of_another_format_is_refused() {
    let bench = Bench::new();
    let refused = |sink, name| {
        let words = ["a.", "give the file the ending ."];
        job(&bench, &[Stream(mono())], sink, &path(&bench, name)).refused(&words);
    };
    for name in ["a.cf32", "a.wav.gz", "a.npy", "a.slrec", "a.sigmf-meta"] {
        refused("wav-sink", name);
    }
    for name in ["a.sigmf", "a.sigmf-collection"] {
        refused("file-sink", name);
    }
    let zero = job(&bench, &[Stream(mono())], "file-sink", "path = \"a\\u0000\"");
    zero.refused(&["`path` has a zero character", "remove it"]);
}

/// The metadata of a recording with its samples in `d.f32`.
const META: &str = r#"{"global": {"core:datatype": "rf32_le", "core:version": "1.2.0", "core:dataset": "d.f32"},
    "captures": [], "annotations": []}"#;

pub fn samples_from_a_pipe_reach_the_run() {
    let bench = Bench::new();
    let source =
        |name| format!("type = 'file-source', properties = {{ {}, output = 'f32' }}", path(&bench, name));
    let copy = |name| {
        let (source, sink) = (source(name), path(&bench, "copy.f32"));
        let text = format!(
            "[component]\nplayer = {{ {source} }}\nsink = {{ type = 'file-sink', properties = {{ {sink} }} }}\n\
             [[connection]]\nfrom = 'player'\nto = 'sink'\n"
        );
        bench.text(&text)
    };
    std::fs::write(bench.path("a.sigmf-meta"), META).unwrap();
    for name in ["d.f32", "b.sigmf-meta"] {
        assert!(Command::new("mkfifo").arg(bench.path(name)).status().unwrap().success());
    }
    let pipe = bench.path("d.f32");
    // A check that opens the pipe would lose the samples of a writer that waits.
    std::fs::write(bench.path("copy.f32"), "").unwrap();
    let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&opened, &pipe, inotify::WatchFlags::OPEN).unwrap();
    copy("a.sigmf-meta").refused(&["copy.f32", "exists already"]);
    assert_eq!(rustix::io::read(&opened, &mut [0; 1000]), Err(rustix::io::Errno::AGAIN));
    std::fs::remove_file(bench.path("copy.f32")).unwrap();
    let writer = std::thread::Builder::new().spawn(move || std::fs::write(pipe, [1; 400]));
    let report = copy("a.sigmf-meta").duration(Duration::from_secs(60)).run().ended();
    assert_eq!(counts(&report), [(100, 0, 0)]);
    writer.unwrap().join().unwrap().unwrap();
    copy("b.sigmf-meta").refused(&["b.sigmf-meta", "SigMF metadata in a pipe", "regular file"]);
}

pub fn a_data_file_that_is_read_is_not_written() {
    let bench = Bench::new();
    std::fs::write(bench.path("a.sigmf-meta"), META).unwrap();
    std::fs::write(bench.path("d.f32"), [0; 400]).unwrap();
    let text = format!(
        "[component]\nplayer = {{ type = 'file-source', properties = {{ {}, output = 'f32' }} }}\n\
         sink = {{ type = 'file-sink', properties = {{ {}, existing = 'replace' }} }}\n\
         [[connection]]\nfrom = 'player'\nto = 'sink'\n",
        path(&bench, "a.sigmf-meta"),
        path(&bench, "d.f32"),
    );
    bench.text(&text).refused(&["`sink` writes the file that `player` reads", "d.f32"]);
}
