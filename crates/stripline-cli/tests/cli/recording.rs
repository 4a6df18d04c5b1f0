//! `stripline record` and `replay`, and the component `replay`, against real runs.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::waveform::File;
use crate::common::{Run, run, send, stripline, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use stripline::Received;
use stripline::node::{Node, Topics};
use stripline::payload::TypeName;
use stripline_components::formats::{
    RecordingEntry, RecordingInfo, RecordingReader, RecordingWriter, SigMfRecording,
};

/// The size of the last record in a recording, in bytes.
const END_BYTES: usize = 48;

/// Starts a recording of a port, and waits until it is attached.
fn recorder(file: &File, ports: &[&str], options: &[&str]) -> Child {
    let folder = file.path("rec");
    let arguments = [&["record", &file.name], ports, &["--to", folder.to_str().unwrap()], options].concat();
    let mut child =
        stripline().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("recording "), "{line}");
    // The reader stays, so that later lines can be written.
    std::thread::spawn(move || errors.lines().map_while(Result::ok).for_each(drop));
    child
}

/// Waits for the end of a recording. Returns the exit code and the summary.
fn summary(child: Child) -> (Option<i32>, Value) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns the number, sample index and payload of all packets of a recording, and whether the
/// recording is truncated.
fn packets(path: &Path) -> (Vec<(u64, u64, Vec<u8>)>, bool) {
    let mut reader = RecordingReader::open(path).unwrap();
    let mut packets = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        if let RecordingEntry::Packet(packet) = entry {
            packets.push((packet.sequence, packet.sample_index, reader.payload().to_vec()));
        }
    }
    (packets, reader.is_truncated())
}

/// Returns a recording with one bit changed.
fn damaged(bytes: &[u8], place: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[place] ^= 1;
    bytes
}

/// Returns a recording without gaps in the old form without checksums.
fn without_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    let mut at = (16 + length(&bytes, 12)).next_multiple_of(8);
    bytes[10..12].fill(0);
    while at < bytes.len() {
        bytes[at + 40..at + 44].fill(0);
        at += 48 + length(&bytes, at + 4).next_multiple_of(8);
    }
    bytes
}

/// Writes a source that reads samples of aircraft from a pipe, and the receiver after the source.
fn aircraft(source: &str, frames: &str) -> File {
    File::new(&format!(
        r#"
        [component.source]
        {source}
        [component.demodulator]
        type = "adsb-demodulator"
        [component.decoder]
        type = "adsb-decoder"
        [component.sink]
        type = "adsb-sink"
        properties = {{ path = "{frames}", table = false }}
        [[connection]]
        from = "source.out"
        to = "demodulator.in"
        [[connection]]
        from = "demodulator.out"
        to = "decoder.in"
        [[connection]]
        from = "decoder.out"
        to = "sink.in"
        "#
    ))
}

#[test]
fn samples_are_recorded_as_sigmf_and_played_from_it() {
    let tone = File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = { output = "cf32", frequency = 1000.0, sample_rate = 48e3, rate = 48e3, packet = 480 }
        [component.envelope]
        type = "magnitude"
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "tone.out"
        to = "envelope.in"
        [[connection]]
        from = "envelope.out"
        to = "sink.in"
        "#,
    );
    let running = tone.start(&[], 3);
    let options = ["--sigmf", "--json", "--count", "20"];
    let (code, found) = summary(recorder(&tone, &["tone.out", "envelope.out"], &options));
    drop(running);
    assert_eq!((code, &found[0]["packets"], &found[0]["missing"]), (Some(0), &20.into(), &0.into()));
    let real = SigMfRecording::open(&tone.path("rec/envelope.out.sigmf-meta")).unwrap();
    assert_eq!(real.meta.format.to_string(), "f32");
    assert_eq!(std::fs::read(real.data_path).unwrap().len(), 20 * 480 * 4);
    let meta = tone.path("rec/tone.out.sigmf-meta");
    assert_eq!(found[0]["path"], meta.to_str().unwrap());
    let recording = SigMfRecording::open(&meta).unwrap();
    let data = std::fs::read(&recording.data_path).unwrap();
    assert_eq!((data.len(), recording.meta.sample_rate_hz), (20 * 480 * 8, Some(48e3)));
    // The tap attached in the middle of the stream. The recording has the index of the first
    // sample.
    let index = recording.meta.captures[0].global_index.unwrap();
    assert!(index.is_multiple_of(480), "{index}");

    let again = File::new(&format!(
        r#"
        [component.source]
        type = "file-source"
        properties = {{ path = "{}", rate = 0.0 }}
        [component.sink]
        type = "file-sink"
        properties = {{ path = "again.cf32" }}
        [[connection]]
        from = "source.out"
        to = "sink.in"
        "#,
        meta.display()
    ));
    run(&["run", again.path("file.toml").to_str().unwrap(), "--quiet"]).says(0, &[]);
    assert!(std::fs::read(again.path("again.cf32")).unwrap() == data);

    // The existing recording is kept.
    let _running = tone.start(&[], 3);
    let folder = tone.path("rec");
    let refused = run(&["record", &tone.name, "tone.out", "--sigmf", "--to", folder.to_str().unwrap()]);
    refused.says(1, &["tone.out.sigmf-meta", "the file exists already"]);
    assert!(std::fs::read(&recording.data_path).unwrap() == data);
}

#[test]
fn a_recording_is_on_the_disk_as_its_option_states() {
    let tone = File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = { sample_rate = 48e3, rate = 48e3, packet = 480 }
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "tone.out"
        to = "sink.in"
        "#,
    );
    let _running = tone.start(&[], 2);
    for (sync, form, name) in [
        ("packet", &["--sigmf"][..], "tone.out.sigmf-data"),
        ("second", &["--sigmf"], "tone.out.2.sigmf-data"),
        ("packet", &[], "tone.out.slrec"),
        ("second", &[], "tone.out.2.slrec"),
    ] {
        let options = ["--json", "--sync", sync, "--existing", "number"];
        let child = recorder(&tone, &["tone.out"], &[&options, form].concat());
        // The size shows that packets were written: any description before them is smaller.
        let path = tone.path("rec").join(name);
        wait_until("packets are in the file", || path.metadata().is_ok_and(|file| file.len() > 20_000));
        send(child.id(), Signal::INT);
        let (code, found) = summary(child);
        assert_eq!((code, &found[0]["complete"]), (Some(0), &true.into()), "{found}");
    }
    let folder = tone.path("other");
    let options = ["--to", folder.to_str().unwrap(), "--sync", "minute"];
    let wrong = run(&[&["record", &tone.name, "tone.out"], &options[..]].concat());
    wrong.says(2, &["--sync", "use one of end, second, packet"]);
}

#[test]
fn a_recorded_run_of_aircraft_gives_the_same_frames_again() {
    // The file has two seconds of samples.
    let simulated = File::new(
        r#"
        [component.sky]
        type = "adsb-source"
        properties = { aircraft = 20, duration_s = 2.0, rate = 0.0 }
        [component.file]
        type = "file-sink"
        properties = { path = "sky.cu8" }
        [[connection]]
        from = "sky.out"
        to = "file.in"
        "#,
    );
    run(&["run", simulated.path("file.toml").to_str().unwrap(), "--quiet"]).says(0, &[]);
    let samples = std::fs::read(simulated.path("sky.cu8")).unwrap();
    assert_eq!(samples.len(), 8_000_000);

    // The source waits at a pipe, within the first packet, until the recorder is attached. The
    // first packet is silence, and the recording has every later packet.
    let live =
        aircraft("type = \"adsb-source\"\nproperties = { path = \"pipe\", packet = 16384 }", "live.avr");
    let pipe = live.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut writer = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let running = live.start(&[], 4);
    let recording = recorder(&live, &["source.out", "decoder.in"], &["--json"]);
    let silence = vec![128; 2 * 16384];
    writer.write_all(&silence).unwrap();
    writer.write_all(&samples).unwrap();
    drop(writer);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");
    let (code, summary) = summary(recording);
    assert_eq!((code, &summary[0]["missing"], &summary[1]["missing"]), (Some(0), &0.into(), &0.into()));
    let file = live.path("rec/source.out.slrec");
    let (recorded, truncated) = packets(&file);
    assert_eq!((truncated, recorded[0].0, recorded[0].1), (false, 1, 16384));
    assert!(recorded.iter().flat_map(|(.., bytes)| bytes).eq(&samples));

    let frames = std::fs::read_to_string(live.path("live.avr")).unwrap();
    assert!(frames.lines().count() > 10, "{frames}");
    for (speed, transport) in [(0.0, "shm"), (8.0, "uds")] {
        let source = format!(
            "type = \"replay\"\nproperties = {{ path = \"{}\", type = \"cu8\", speed = {speed:?} }}",
            file.display()
        );
        let again = aircraft(&source, "again.avr");
        let path = again.path("file.toml");
        run(&["run", path.to_str().unwrap(), "--quiet", "--transport", transport]).says(0, &[]);
        assert_eq!(std::fs::read_to_string(again.path("again.avr")).unwrap(), frames, "{speed} {transport}");
    }
}

#[test]
fn a_recording_ends_with_its_count_and_ctrl_c_and_keeps_existing_files() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let (code, first) = summary(recorder(&file, &["tone.out"], &["--count", "5", "--json"]));
    assert_eq!((code, &first[0]["packets"], &first[0]["type"]), (Some(0), &5.into(), &"f32".into()));
    let folder = file.path("rec");
    let folder = folder.to_str().unwrap();
    file.ask("record", &["tone.out", "--to", folder]).says(1, &["tone.out.slrec", "exists already"]);
    file.ask("record", &["tone.uot", "--to", folder]).says(2, &["did you mean `out`?"]);
    let twice = file.ask("record", &["filter.out", "filter.out", "--to", folder]);
    twice.says(2, &["two of the ports are `", "name it once; nothing was recorded"]);
    assert!(!file.path("rec/filter.out.slrec").exists());
    file.ask("record", &["--to", folder]).says(2, &["<COMPONENT.PORT>"]);

    // The summary would overwrite the recording.
    let other = file.path("rec/filter.out.slrec");
    let mut redirected = stripline();
    redirected.args([
        "record",
        &file.name,
        "tone.out",
        "filter.out",
        "--to",
        folder,
        "--existing",
        "replace",
    ]);
    let printed = Run::of(redirected.stdout(std::fs::File::create(&other).unwrap()).output().unwrap());
    printed.says(1, &["filter.out.slrec: this command prints there", "record to another folder"]);
    assert_eq!(packets(&file.path("rec/tone.out.slrec")).0.len(), 5, "it is as it was");
    std::fs::remove_file(other).unwrap();

    let second = recorder(&file, &["filter.out"], &["--json"]);
    send(second.id(), Signal::INT);
    let (code, second) = summary(second);
    assert_eq!((code, &second[0]["problem"]), (Some(0), &Value::Null));
    assert!(!packets(&file.path("rec/filter.out.slrec")).1, "it has its end");

    // One stop may be several signals.
    let third = recorder(&file, &["sink.in"], &["--json", "--existing", "number"]);
    let signals = [Signal::TERM, Signal::HUP, Signal::TERM, Signal::HUP];
    signals.into_iter().for_each(|signal| send(third.id(), signal));
    let (code, third) = summary(third);
    assert_eq!((code, &third[0]["complete"]), (Some(0), &true.into()), "{third}");
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn what_a_killed_recorder_has_written_is_played_up_to_there() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let mut recording = recorder(&file, &["tone.out"], &[]);
    let path = file.path("rec/tone.out.slrec");
    wait_until("some packets are written", || !packets(&path).0.is_empty());
    send(recording.id(), Signal::KILL);
    recording.wait().unwrap();
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
    // Half a packet at the end is not played either.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    let (recorded, truncated) = packets(&path);
    assert!(truncated && !recorded.is_empty());

    let again = replayed(&path, "f32");
    let report = again.path("report.json");
    let played = run_file(&again, &["--output", report.to_str().unwrap()]);
    // All complete packets arrive before the error.
    played.says(1, &["tone.out.slrec", "truncated at byte"]);
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    assert_eq!(report["connections"][0]["packets"], recorded.len());
}

/// Writes a waveform that plays a recording into a sink of real samples.
fn replayed(path: &Path, payload: &str) -> File {
    File::new(&format!(
        r#"
        [component.tone]
        type = "replay"
        properties = {{ path = "{}", type = "{payload}", speed = 0.0 }}
        [component.sink]
        type = "wav-sink"
        properties = {{ path = "out.wav" }}
        [[connection]]
        from = "tone.out"
        to = "sink.in"
        "#,
        path.display()
    ))
}

fn run_file(file: &File, options: &[&str]) -> Run {
    run(&[&["run", file.path("file.toml").to_str().unwrap()], options].concat())
}

#[test]
fn a_replay_takes_its_type_and_rate_from_its_recording() {
    let file = File::radio();
    let running = file.start(&[], 3);
    assert_eq!(summary(recorder(&file, &["tone.out"], &["--count", "3", "--json"])).0, Some(0));
    drop(running);
    let path = file.path("rec/tone.out.slrec");
    let source = |properties: &str| {
        let text =
            format!("type = \"replay\"\nproperties = {{ path = \"{}\", {properties} }}", path.display());
        File::filtered("tone", &text, "properties = { high = 30e3 }")
    };
    let check = |file: &File, options: &[&str]| {
        run(&[&["check", file.path("file.toml").to_str().unwrap()], options].concat())
    };
    let mine = source("speed = 0");
    check(&mine, &[]).says(2, &["`filter`: `high` is 30000 Hz", "48000 samples/s arrive"]);
    check(&mine, &["--set", "filter.high=4e3"]).says(0, &[]);
    let played = run_file(&mine, &["--set", "filter.high=4e3", "--json"]);
    played.says(0, &[]);
    let report: Value = serde_json::from_str(&played.stdout).unwrap();
    assert_eq!(
        (&report["connections"][0]["payload"], &report["connections"][0]["packets"]),
        (&"f32".into(), &3.into())
    );
    check(&source("type = \"cf32\""), &[])
        .says(2, &["holds packets of type f32, not cf32", "or leave it out"]);
    // A pipe is not read before the recording is played.
    let pipe = file.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let piped = format!("tone.path={}", pipe.display());
    let options = ["--set", &piped, "--set", "filter.high=4e3"];
    check(&mine, &options).says(2, &["not a regular file", "set the property `type`"]);
    check(&mine, &[&options[..], &["--set", "tone.type=f32"]].concat()).says(0, &[]);
}

#[test]
fn what_cannot_be_played_is_refused_before_anything_starts() {
    let file = File::radio();
    let running = file.start(&[], 3);
    assert_eq!(summary(recorder(&file, &["tone.out"], &["--count", "1", "--json"])).0, Some(0));
    drop(running);
    let path = file.path("rec/tone.out.slrec");
    run_file(&replayed(&path, "cf32"), &[]).says(2, &["holds packets of type f32, not cf32", "1 error"]);
    let bytes = std::fs::read(&path).unwrap();
    let mut newer = bytes.clone();
    newer[8] = 9;
    for (name, bytes, words) in [
        ("foreign", b"RIFF, and so on".to_vec(), "this is not a recording of a port"),
        ("newer", newer, "version 9"),
        ("short", bytes[..20].to_vec(), "ends within its description"),
        ("empty", Vec::new(), "the file is empty"),
    ] {
        let path = file.path(&format!("{name}.slrec"));
        std::fs::write(&path, bytes).unwrap();
        run_file(&replayed(&path, "f32"), &[]).says(2, &[words, "help: "]);
        run(&["replay", path.to_str().unwrap()]).says(2, &[words]);
    }
    run_file(&replayed(&file.path("none.slrec"), "f32"), &[]).says(2, &["no such file"]);
    let folder = tempfile::tempdir().unwrap();
    run(&["replay", folder.path().to_str().unwrap()]).says(2, &["has no recordings"]);
    let info = RecordingInfo { port: "a.out".into(), ..RecordingInfo::new(TypeName::of::<f32>()) };
    for name in ["a.out.slrec", "a.out.2.slrec"] {
        RecordingWriter::create(&folder.path().join(name), &info).unwrap().finish().unwrap();
    }
    run(&["replay", folder.path().to_str().unwrap()])
        .says(2, &["a.out.2.slrec and ", "a.out.slrec are both of `a.out`: play one after the other"]);
}

#[test]
fn a_damaged_recording_fails_its_run_or_is_refused() {
    let file = File::radio();
    let running = file.start(&[], 3);
    assert_eq!(summary(recorder(&file, &["tone.out"], &["--count", "3", "--json"])).0, Some(0));
    drop(running);
    let path = file.path("rec/tone.out.slrec");
    let bytes = std::fs::read(&path).unwrap();
    // The changed byte belongs to a sample of the last packet.
    let place = bytes.len() - END_BYTES - 8;
    let changed = damaged(&bytes, place);
    for (bytes, code, words) in [
        (changed, 1, "the record there was changed"),
        ([&bytes[..], b"and more"].concat(), 1, "the file goes on behind the end"),
        // The changed byte belongs to the description.
        (damaged(&bytes, 20), 2, "its description is damaged"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        run_file(&replayed(&path, "f32"), &[]).says(code, &["tone.out.slrec: ", words]);
    }
    std::fs::write(&path, without_checksums(bytes)).unwrap();
    run_file(&replayed(&path, "f32"), &[]).says(0, &["the recording has no checksums"]);
}

#[test]
fn a_full_disk_keeps_what_was_written() {
    let file = File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = { rate = 4.8e6, output = "f32", packet = 4800 }
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "tone.out"
        to = "sink.in"
        "#,
    );
    let running = file.start(&[], 2);
    let folder = file.path("rec");
    // The limit of a file is 4 MiB. The write beyond it fails.
    let command = format!(
        "trap '' XFSZ; ulimit -f 8192; exec {} record {} tone.out --to {}",
        env!("CARGO_BIN_EXE_stripline"),
        file.name,
        folder.display()
    );
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("tone.out.slrec: cannot write"), "{errors}");
    let (recorded, truncated) = packets(&folder.join("tone.out.slrec"));
    assert!(truncated && recorded.len() > 100, "{} packets", recorded.len());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("tone.out: {} packets of f32", recorded.len())), "{text}");
    assert!(text.contains(" missing, in ") && !text.contains("none missing"), "{text}");
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0), "the waveform is none the worse");
}

#[test]
fn a_file_that_is_shortened_meanwhile_has_its_packets_counted() {
    for options in [&["--json"][..], &["--json", "--sigmf"]] {
        let file = File::radio();
        let running = file.start(&[], 3);
        let child = recorder(&file, &["tone.out"], options);
        let path =
            file.path(if options.len() == 1 { "rec/tone.out.slrec" } else { "rec/tone.out.sigmf-data" });
        wait_until("it has written", || path.metadata().is_ok_and(|about| about.len() > 50_000));
        std::fs::File::options().write(true).open(&path).unwrap().set_len(50_000).unwrap();
        send(child.id(), Signal::INT);
        let (code, summary) = summary(child);
        let count = |key: &str| summary[0][key].as_u64().unwrap();
        assert_eq!(code, Some(1), "{summary}");
        assert!(
            summary.to_string().contains("the file was shortened by another program meanwhile"),
            "{summary}"
        );
        assert!(count("missing_samples") > 0 && count("places") > 0 && count("packets") > 0, "{summary}");
        if options.len() == 1 {
            assert!(count("missing") > 0, "{summary}");
            assert_eq!(packets(&path).0.len() as u64, count("packets"), "{summary}");
        }
        running.signal(Signal::INT);
        assert_eq!(running.end().0, Some(0));
    }
}

#[test]
fn a_second_ctrl_c_prints_the_packets_in_the_file() {
    let file = File::radio();
    let running = file.start(&[], 3);
    // The disk never takes the data.
    let library = file.path("disk.so");
    let code = "int pause(void);\nint fsync(int file) { for (;;) pause(); return file; }\n";
    std::fs::write(file.path("disk.c"), code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &file.path("disk.c")]);
    assert!(compiler.status().unwrap().success());
    let to = file.path("rec");
    let mut command = stripline();
    command.args(["record", &file.name, "tone.out", "--count", "5", "--to", to.to_str().unwrap()]);
    let child = command.env("LD_PRELOAD", &library).stderr(Stdio::piped()).spawn().unwrap();
    let child = RefCell::new(child);
    let path = to.join("tone.out.slrec");
    wait_until("all packets are written", || path.exists() && packets(&path).0.len() == 5);
    // Signals that arrive at one time are one signal.
    wait_until("it ends", || {
        send(child.borrow().id(), Signal::INT);
        child.borrow_mut().try_wait().unwrap().is_some()
    });
    let mut child = child.into_inner();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let line = format!("tone.out: ended at once with 5 packets in {}, which is not complete", path.display());
    assert!(text.contains(&line), "{text}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_folder_that_is_removed_meanwhile_is_an_error() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let child = recorder(&file, &["tone.out"], &["--json"]);
    let folder = file.path("rec");
    wait_until("a file", || folder.join("tone.out.slrec").exists());
    std::fs::remove_dir_all(&folder).unwrap();
    send(child.id(), Signal::INT);
    let (code, summary) = summary(child);
    assert_eq!(code, Some(1), "{summary}");
    let summary = summary.to_string();
    assert!(summary.contains("the file was removed or replaced meanwhile"), "{summary}");
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_port_whose_file_fails_is_reported_while_the_others_go_on() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let folder = file.path("rec");
    let to = ["--to", folder.to_str().unwrap(), "--sync", "second"];
    let mut command = stripline();
    command.args([&["record", &file.name, "tone.out", "filter.out"], &to[..]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().starts_with("recording "));
    std::fs::remove_file(folder.join("tone.out.slrec")).unwrap();
    let is_reported = |line: String| line.contains("tone.out.slrec") && line.contains("removed or replaced");
    assert!(lines.any(is_reported));
    assert!(child.try_wait().unwrap().is_none(), "the other port is recorded");
    send(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(running);
}

#[test]
fn a_recording_that_waits_for_its_topic_has_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let domain = format!("record-none-{}", std::process::id());
    let to = folder.path().join("rec");
    let mut child =
        in_domain(&domain, &["record", "--topic", "none", "--json", "--to", to.to_str().unwrap()]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().starts_with("waiting for a publisher"));
    send(child.id(), Signal::TERM);
    assert_eq!(lines.next().unwrap(), "ended by SIGTERM; nothing was recorded");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"[]\n"[..]));
    assert!(!to.exists());
}

#[test]
fn a_recording_of_a_topic_is_published_again() {
    let domain = format!("recording-{}", std::process::id());
    let node = Node::join(&domain, Topics::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("rec");
    let mut levels = node.publisher::<i16>("levels").unwrap();
    let recording = stripline()
        .env("STRIPLINE_DOMAIN", &domain)
        .args(["record", "--topic", "levels", "--count", "3", "--json", "--to", to.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(levels.wait_for_receivers(1, Duration::from_secs(60)).unwrap());
    for number in 0..3 {
        let mut loan = levels.loan(2).unwrap();
        loan.copy_from_slice(&[number, -number]);
        loan.at_sample(100 * number as u64).at_time_ns(5 + i64::from(number)).send().unwrap();
    }
    assert_eq!(summary(recording).0, Some(0));
    drop(levels);

    let mut subscriber = node.subscriber::<i16>("levels").unwrap();
    let mut playing = stripline()
        .env("STRIPLINE_DOMAIN", &domain)
        .args(["replay", to.to_str().unwrap(), "--speed", "0"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for number in 0..3 {
        match subscriber.receive_timeout(Duration::from_secs(60)).unwrap() {
            Received::Packet(packet) => {
                assert_eq!(*packet, [number, -number]);
                let times = (packet.sample_index(), packet.time_ns());
                assert_eq!(times, (100 * number as u64, 5 + i64::from(number)));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(playing.wait().unwrap().success());
}

/// Starts a command in a domain.
fn in_domain(domain: &str, arguments: &[&str]) -> Child {
    let mut command = stripline();
    command.env("STRIPLINE_DOMAIN", domain).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Records this number of packets of the topic `levels` to a folder.
fn record_levels(domain: &str, node: &Node, to: &str, packets: usize) {
    let mut levels = node.publisher::<i16>("levels").unwrap();
    let count = packets.to_string();
    let arguments = ["record", "--topic", "levels", "--count", &count, "--json", "--to", to];
    let recording = in_domain(domain, &arguments);
    assert!(levels.wait_for_receivers(1, Duration::from_secs(60)).unwrap());
    (0..packets).for_each(|_| levels.send(&[1, 2]).unwrap());
    assert_eq!(summary(recording).0, Some(0));
}

#[test]
fn an_echo_that_blocks_gets_all_of_a_fast_replay() {
    const PACKETS: usize = 3000;
    let domain = format!("replay-all-{}", std::process::id());
    let (node, folder) = (Node::join(&domain, Topics::default()).unwrap(), tempfile::tempdir().unwrap());
    let to = folder.path().join("rec");
    record_levels(&domain, &node, to.to_str().unwrap(), PACKETS);
    let count = PACKETS.to_string();
    let arguments = ["echo", "--topic", "levels", "--block", "--json", "--depth", "4", "--count", &count];
    let echo = in_domain(&domain, &arguments);
    let playing = in_domain(&domain, &["replay", to.to_str().unwrap(), "--speed", "0"]);
    let text = String::from_utf8(echo.wait_with_output().unwrap().stdout).unwrap();
    assert!(playing.wait_with_output().unwrap().status.success());
    assert_eq!(text.matches("\"packet\"").count(), PACKETS);
    assert!(!text.contains("\"gap\""), "{text}");
}

#[test]
fn a_replay_names_the_topic_that_has_no_subscriber_and_what_ended_it() {
    let domain = format!("replay-waits-{}", std::process::id());
    let (node, folder) = (Node::join(&domain, Topics::default()).unwrap(), tempfile::tempdir().unwrap());
    let to = folder.path().join("rec");
    record_levels(&domain, &node, to.to_str().unwrap(), 1);
    let mut playing = in_domain(&domain, &["replay", to.to_str().unwrap()]);
    let mut lines = BufReader::new(playing.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().unwrap(), "levels: waiting for 1 subscriber; Ctrl-C ends it");
    send(playing.id(), Signal::TERM);
    assert_eq!(lines.next().unwrap(), "levels: ended by SIGTERM after 0 packets");
    assert!(playing.wait().unwrap().success());
}

#[test]
fn a_replay_that_waits_for_a_subscriber_ends_on_a_signal() {
    let domain = format!("replay-blocked-{}", std::process::id());
    let (node, folder) = (Node::join(&domain, Topics::default()).unwrap(), tempfile::tempdir().unwrap());
    let to = folder.path().join("rec");
    record_levels(&domain, &node, to.to_str().unwrap(), 3000);
    let mut subscriber = node.subscriber::<i16>("levels").unwrap();
    let mut playing = in_domain(&domain, &["replay", to.to_str().unwrap(), "--speed", "0"]);
    assert!(matches!(subscriber.receive_timeout(Duration::from_secs(60)).unwrap(), Received::Packet(_)));
    send(playing.id(), Signal::TERM);
    let mut text = String::new();
    playing.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(playing.wait().unwrap().success(), "{text}");
    assert!(text.contains("levels: ended by SIGTERM after ") && !text.contains("after 3,000"), "{text}");
    loop {
        match subscriber.try_receive().unwrap() {
            Received::Packet(_) => {}
            Received::Empty => break,
            Received::Ended => panic!("it looks like a whole recording"),
        }
    }
}

#[test]
fn damage_is_never_published_and_does_not_end_the_stream() {
    let domain = format!("replay-damage-{}", std::process::id());
    let (node, folder) = (Node::join(&domain, Topics::default()).unwrap(), tempfile::tempdir().unwrap());
    let to = folder.path().join("rec");
    record_levels(&domain, &node, to.to_str().unwrap(), 3);
    let path = to.join("levels.slrec");
    let bytes = std::fs::read(&path).unwrap();
    // The changed byte belongs to a sample of the second packet. The third packet has 56 bytes, and
    // each payload 8.
    let changed = damaged(&bytes, bytes.len() - END_BYTES - 56 - 8);
    let mut subscriber = node.subscriber::<i16>("levels").unwrap();
    let mut replay = |bytes: &[u8], packets: usize| {
        std::fs::write(&path, bytes).unwrap();
        let playing = in_domain(&domain, &["replay", path.to_str().unwrap(), "--speed", "0"]);
        for _ in 0..packets {
            // If the replay before had ended the stream, the end would arrive before the packets.
            match subscriber.receive_timeout(Duration::from_secs(60)).unwrap() {
                Received::Packet(packet) => assert_eq!(*packet, [1, 2]),
                other => panic!("{other:?}"),
            }
        }
        let output = playing.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, printed, errors) = replay(&changed, 1);
    assert_eq!((code, &printed[..]), (Some(1), ""), "{errors}");
    assert!(errors.contains("levels.slrec: the recording is damaged at byte"), "{errors}");
    // The next publisher continues the stream.
    let (code, printed, errors) = replay(&bytes[..bytes.len() - END_BYTES], 3);
    assert_eq!(code, Some(1), "{errors}");
    assert!(printed.contains("3 packets") && printed.contains("truncated"), "{printed}");
    let place = format!("truncated at byte {}", bytes.len() - END_BYTES);
    assert!(errors.contains("levels.slrec: ") && errors.contains(&place), "{errors}");
    assert!(matches!(subscriber.receive_timeout(Duration::from_secs(60)).unwrap(), Received::Ended));
    // Dropped first: the replay would start as soon as the old subscriber has connected.
    drop(subscriber);
    let mut subscriber = node.subscriber::<i16>("levels").unwrap();
    std::fs::write(&path, without_checksums(bytes)).unwrap();
    let playing = in_domain(&domain, &["replay", path.to_str().unwrap(), "--speed", "0"]);
    for _ in 0..3 {
        assert!(subscriber.receive().unwrap().is_some());
    }
    let output = playing.wait_with_output().unwrap();
    assert!(output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("note: levels: the recording has no checksums"), "{errors}");
}
