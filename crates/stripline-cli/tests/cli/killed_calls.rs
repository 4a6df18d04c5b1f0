//! Writers that are killed at each of their system calls. Afterwards the files are read, and
//! another run continues.
//!
//! A library in C, preloaded into the writer, kills it. Without `STRIPLINE_KILLS`, only some of the
//! calls are tested.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use stripline_components::formats::{
    FileReader, FileReaderOptions, FormatError, RecordingEntry, RecordingReader, SigMfRecording,
};

use crate::common::waveform::File;
use crate::common::{Run, repository, stripline};

/// The size of a packet's samples in bytes. A write that is killed ends at a page.
const PACKET_BYTES: usize = 8000;
const PACKETS: usize = 3;

/// The library that kills the writer, in a temporary folder.
struct Killer {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl Killer {
    fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("kill_at_call.so");
        let source = repository("crates/stripline-cli/tests/cli/common/kill_at_call.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC"]);
        let built = compiler.arg(source).arg("-o").arg(&library).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Self { folder, library }
    }

    /// Runs a command and kills the writer at this call, counted among the calls that concern the
    /// folder. Returns the size that the file of samples had on the disk, and the result of the
    /// command.
    fn run(&self, at: usize, written: &Path, arguments: &[&str]) -> (u64, Run) {
        let log = self.folder.path().join("log");
        let _ = std::fs::remove_file(&log);
        let mut command = stripline();
        command.args(arguments).env("LD_PRELOAD", &self.library).env("STRIPLINE_KILL_FOLDER", written);
        command.env("STRIPLINE_KILL_AT", at.to_string()).env("STRIPLINE_KILL_LOG", &log);
        let done = Run::of(command.output().unwrap());
        let log = std::fs::read_to_string(log).unwrap_or_default();
        // Metadata are first written to a `.part` file.
        let mut sizes = log.lines().filter(|line| !line.ends_with(".part"));
        let last = sizes.next_back().and_then(|line| line.split_once(' '));
        (last.map_or(0, |(size, _)| size.parse().unwrap()), done)
    }
}

/// Returns the numbers of the calls at which a writer is killed.
fn calls() -> impl Iterator<Item = usize> {
    let step = if std::env::var_os("STRIPLINE_KILLS").is_some() { 1 } else { 5 };
    (1..).step_by(step)
}

/// Returns the samples of a file. Returns `None` if the file does not exist yet.
fn samples(path: &Path) -> Option<Vec<u8>> {
    let data = path.with_extension("sigmf-data");
    if !path.exists() {
        // Metadata are written as soon as the file of samples exists.
        assert!(!data.exists() || data.metadata().unwrap().len() == 0, "{} has no metadata", data.display());
        return None;
    }
    if path.extension().is_some_and(|ending| ending == "sigmf-meta") {
        let recording = SigMfRecording::open(path).unwrap();
        // A source would refuse a recording without samples.
        if recording.data_path.metadata().unwrap().len() == 0 {
            return Some(Vec::new());
        }
    } else if path.metadata().unwrap().len() == 0 {
        assert!(path.extension().is_some_and(|ending| ending == "f32"), "{} is empty", path.display());
        return Some(Vec::new());
    }
    let options = FileReaderOptions { truncate_partial: true, ..FileReaderOptions::default() };
    let mut reader = match FileReader::open(path, &options) {
        // The file has only a header.
        Err(FormatError::Empty { .. }) => return Some(Vec::new()),
        opened => opened.unwrap(),
    };
    let mut all = Vec::new();
    let mut bytes = vec![0; 4096];
    loop {
        let count = reader.read(&mut bytes).unwrap();
        if count == 0 {
            return Some(all);
        }
        all.extend_from_slice(&bytes[..count]);
    }
}

/// Writes a waveform with a short tone and this kind of sink.
fn tone(kind: &str, name: &str, existing: &str) -> String {
    let more = if kind == "wav-sink" { ", encoding = \"float32\"" } else { "" };
    let (packet, rate) = (PACKET_BYTES / 4, 1e6);
    let seconds = (PACKETS * packet) as f64 / rate;
    format!(
        "[component.tone]\ntype = \"signal-generator\"\nproperties = {{ output = \"f32\", sample_rate = {rate}, \
         packet = {packet}, duration_s = {seconds} }}\n\
         [component.sink]\ntype = \"{kind}\"\nproperties = {{ path = \"out/{name}\", sync = \"packet\", \
         existing = \"{existing}\"{more} }}\n\
         [[connection]]\nfrom = \"tone.out\"\nto = \"sink.in\"\n"
    )
}

/// Runs the waveform again, and returns the report of the written file.
fn run_again(file: &File, kind: &str, name: &str, existing: &str) -> Value {
    let text = std::fs::read_to_string(file.path("file.toml")).unwrap();
    let (head, _) = text.split_once("[component.tone]").unwrap();
    std::fs::write(file.path("next.toml"), format!("{head}{}", tone(kind, name, existing))).unwrap();
    let (next, report) = (file.path("next.toml"), file.path("report.json"));
    let arguments = ["run", next.to_str().unwrap(), "-q", "--output", report.to_str().unwrap()];
    crate::common::run(&arguments).says(0, &[]);
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    report["components"][1]["files"][0].clone()
}

#[test]
fn a_sink_is_killed_at_each_call_and_a_next_run_goes_on() {
    let killer = Killer::build();
    for (kind, name, second, head) in [
        ("file-sink", "a.f32", "a.2.f32", 0),
        ("file-sink", "a.sigmf-meta", "a.2.sigmf-meta", 0),
        ("wav-sink", "a.wav", "a.2.wav", 94),
    ] {
        let mut whole = None;
        // The first run is not killed. Other runs are compared with it.
        for at in std::iter::once(0).chain(calls()) {
            let file = File::new(&tone(kind, name, "refuse"));
            let out = file.path("out");
            std::fs::create_dir(&out).unwrap();
            let path = out.join(name);
            let arguments = ["run", file.path("file.toml").to_str().unwrap(), "-q"].map(String::from);
            let (durable, done) = killer.run(at, &out, &arguments.each_ref().map(|word| &**word));
            let found = samples(&path);
            let Some(whole) = &whole else {
                done.says(0, &[]);
                assert_eq!(durable as usize, head + PACKETS * PACKET_BYTES);
                whole = found;
                continue;
            };
            let kept = found.clone().unwrap_or_default();
            if done.code == Some(0) {
                assert!(&kept == whole && at > 15, "{name}: {at}");
                break;
            }
            done.says(1, &["component sink was killed (SIGKILL)"]);
            assert!(whole.starts_with(&kept), "{name}: {at}: other samples");
            assert!(
                kept.len() + head >= durable as usize,
                "{name}: {at}: {durable} bytes, and {}",
                kept.len()
            );

            let existing = if at % 2 == 0 { "append" } else { "number" };
            // SigMF may have an empty file of samples, and no metadata yet.
            let data = out.join(name.replace("-meta", "-data"));
            let stored = std::fs::read(data).ok();
            // The header of a WAV file may not count the last samples yet.
            let all = stored.as_deref().and_then(|bytes| bytes.get(head..)).unwrap_or_default();
            let all = &all[..all.len() / 4 * 4];
            assert!(all.starts_with(&kept) && (head > 0 || all == kept), "{name}: {at}");
            let report = run_again(&file, kind, name, existing);
            let expected = if existing == "append" { [all, whole].concat() } else { whole.clone() };
            let written = if existing == "number" && stored.is_some() { second } else { name };
            assert!(samples(&out.join(written)).unwrap() == expected, "{name}: {at}: {existing}: {report}");
            let says = report["found"].as_str().unwrap_or_default();
            let is_found = stored.is_some_and(|bytes| existing == "number" || !bytes.is_empty());
            assert_eq!(!says.is_empty(), is_found, "{name}: {at}: {report}");
        }
    }
}

/// Returns the number of packets in a recording. Returns `None` if the recording does not exist
/// yet.
fn packets(path: &Path) -> Option<usize> {
    if path.extension().is_some_and(|ending| ending == "sigmf-meta") {
        return samples(path).map(|bytes| bytes.len() / PACKET_BYTES);
    }
    if !path.exists() {
        return None;
    }
    let mut reader = RecordingReader::open(path).unwrap();
    let mut packets = 0;
    while let Some(entry) = reader.next_entry().unwrap() {
        packets += usize::from(matches!(entry, RecordingEntry::Packet(_)));
    }
    Some(packets)
}

#[test]
fn a_recorder_is_killed_at_each_call_and_a_next_one_goes_on() {
    let killer = Killer::build();
    let packet = PACKET_BYTES / 4;
    let tone = File::new(&format!(
        "[component.tone]\ntype = \"signal-generator\"\nproperties = {{ output = \"f32\", sample_rate = 1e6, \
         rate = 1e6, packet = {packet} }}\n[component.sink]\ntype = \"null-sink\"\n\
         [[connection]]\nfrom = \"tone.out\"\nto = \"sink.in\"\n"
    ));
    let _running = tone.start(&[], 2);
    for (form, name, second) in [
        (&[][..], "tone.out.slrec", "tone.out.2.slrec"),
        (&["--sigmf"], "tone.out.sigmf-meta", "tone.out.2.sigmf-meta"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for at in calls() {
            let rec = folder.path().join(at.to_string());
            let to = rec.to_str().unwrap();
            let count = PACKETS.to_string();
            let common =
                ["record", &tone.name, "tone.out", "--count", &count, "--to", to, "--sync", "packet"];
            let (durable, done) = killer.run(at, &rec, &[&common, form].concat());
            let found = packets(&rec.join(name));
            if done.code.is_some() {
                done.says(0, &[]);
                assert!(found == Some(PACKETS) && at > 10, "{name}: {at}");
                break;
            }
            // The description is shorter than a packet, so it does not change the quotient.
            let stated = (durable as usize / PACKET_BYTES).min(PACKETS);
            assert!(found.unwrap_or(0) >= stated, "{name}: {at}: {durable} bytes, and {found:?}");
            let existing = if at % 2 == 0 && !form.is_empty() { "append" } else { "number" };
            let arguments = [&common, form, &["--existing", existing, "--json"]].concat();
            let next = crate::common::run(&arguments);
            next.says(0, &[]);
            let summary: Value = serde_json::from_str(&next.stdout).unwrap();
            assert_eq!(summary[0]["packets"], PACKETS, "{name}: {at}: {summary}");
            let written = Path::new(summary[0]["path"].as_str().unwrap());
            let before = if existing == "append" { found.unwrap_or(0) } else { 0 };
            assert!(packets(written) >= Some(before + PACKETS), "{name}: {at}: {summary}");
            assert_eq!(written.ends_with(second), existing == "number" && written != rec.join(name));
        }
    }
}
