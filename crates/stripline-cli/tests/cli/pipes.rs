//! Pipes as files of a waveform: silent pipes, pipes without another end, and standard output.

use std::fs::File as SystemFile;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use stripline::payload::TypeName;
use stripline_components::formats::{RecordedPacket, RecordingInfo, RecordingWriter};

use crate::common::waveform::File;
use crate::common::{Run, stripline, wait_until};

const TONE: &str = r#"type = "signal-generator"
    properties = { output = "cf32", sample_rate = 1e6, rate = 1e6, packet = 1000 }"#;

fn waveform(source: &str, sink: &str) -> File {
    File::new(&format!(
        "[component.source]\n{source}\n[component.sink]\n{sink}\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"sink.in\"\n"
    ))
}

fn make_fifo(file: &File) -> std::path::PathBuf {
    let path = file.path("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn spawn(file: &File, input: Stdio, output: Stdio, options: &[&str]) -> Child {
    let mut command = stripline();
    command.args(["run", file.path("file.toml").to_str().unwrap()]).args(options);
    command.stdin(input).stdout(output).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the waveform runs.
fn runs(file: &File) {
    wait_until("it runs", || {
        let listed: serde_json::Value =
            serde_json::from_str(&crate::common::run(&["waveforms", "--json"]).stdout).unwrap();
        let mut waveforms = listed["waveforms"].as_array().unwrap().iter();
        waveforms.any(|waveform| waveform["name"] == *file.name && waveform["phase"] == "running")
    });
}

/// Stops a run with Ctrl-C, and asserts that the run ended in order.
#[track_caller]
fn ends_in_order(child: Child) -> Vec<u8> {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("stopping in order (Ctrl-C)") && !text.contains("killed"), "{text}");
    output.stdout
}

#[test]
fn a_source_stops_at_a_pipe_that_is_silent() {
    for (path, placement) in [("pipe", "processes"), ("pipe", "threads"), ("-", "processes")] {
        for output in ["cf32", "s16"] {
            let format = if output == "cf32" { "format = \"cu8\"," } else { "" };
            let source = format!(
                "type = \"file-source\"\nproperties = {{ path = \"{path}\", {format} output = \"{output}\", \
                 sample_rate = 2e6 }}"
            );
            let file = waveform(&source, "type = \"null-sink\"");
            let pipe = make_fifo(&file);
            let mut child = spawn(&file, Stdio::piped(), Stdio::null(), &["--placement", placement]);
            let mut writer: Box<dyn Write> = match path {
                "-" => Box::new(child.stdin.take().unwrap()),
                _ => Box::new(SystemFile::options().write(true).open(pipe).unwrap()),
            };
            writer.write_all(&[128; 4000]).unwrap();
            runs(&file);
            wait_until("samples have come", || {
                file.property("sink.packets")["value"].as_i64().is_some_and(|packets| packets > 0)
            });
            ends_in_order(child);
            drop(writer);
        }
    }
}

#[test]
fn a_pipe_without_another_end_holds_up_neither_start_nor_stop() {
    let source = "type = \"file-source\"\nproperties = { path = \"pipe\", format = \"cf32\" }";
    let sink = "type = \"file-sink\"\nproperties = { path = \"pipe\" }";
    for file in [waveform(source, "type = \"null-sink\""), waveform(TONE, sink)] {
        make_fifo(&file);
        let child = spawn(&file, Stdio::null(), Stdio::null(), &[]);
        runs(&file);
        ends_in_order(child);
    }
}

#[test]
fn samples_on_standard_output_are_alone_there() {
    let tone = TONE.replace("packet", "duration_s = 0.01, packet");
    let sink = "type = \"file-sink\"\nproperties = { path = \"-\", format = \"cu8\" }";
    let file = waveform(&tone, sink);
    let output = spawn(&file, Stdio::null(), Stdio::piped(), &[]).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 20_000), "{text}");
    assert!(text.contains("source.out -> sink.in"), "the report is on standard error: {text}");
    let both = spawn(&file, Stdio::null(), Stdio::piped(), &["--json"]).wait_with_output().unwrap();
    Run::of(both).says(2, &["`sink` writes to standard output: give `--output` a file"]);
}

#[test]
fn standard_output_that_is_closed_at_the_start_keeps_nothing_and_is_named() {
    let tone = TONE.replace("packet", "duration_s = 0.1, packet");
    let file = waveform(&tone, "type = \"file-sink\"\nproperties = { path = \"-\" }");
    let path = file.path("file.toml");
    let command =
        ["-c", "exec \"$0\" run \"$1\" >&-", env!("CARGO_BIN_EXE_stripline"), path.to_str().unwrap()];
    let output = std::process::Command::new("sh").args(command).output().unwrap();
    Run::of(output).says(0, &["sink found that standard output is /dev/null, which keeps nothing"]);
}

#[test]
fn an_output_that_is_closed_ends_the_run_in_order() {
    for sink in ["type = \"print-sink\"", "type = \"file-sink\"\nproperties = { path = \"-\" }"] {
        let file = waveform(TONE, sink);
        let mut child = spawn(&file, Stdio::null(), Stdio::piped(), &["-q"]);
        child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(!text.contains("error") && !text.contains("Broken pipe"), "{text}");
    }
}

#[test]
fn a_reader_that_leaves_is_named_in_the_report() {
    for (sink, end) in [("file-sink", ", reader_gone = \"end\""), ("print-sink", "")] {
        let file = waveform(TONE, &format!("type = \"{sink}\"\nproperties = {{ path = \"pipe\"{end} }}"));
        let pipe = make_fifo(&file);
        let child = spawn(&file, Stdio::null(), Stdio::piped(), &["--duration", "20", "--json", "-q"]);
        SystemFile::open(pipe).unwrap().read_exact(&mut [0; 100]).unwrap();
        let output = child.wait_with_output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut components = report["components"].as_array().unwrap().iter();
        let sink = components.find(|component| component["name"] == "sink").unwrap();
        let problem = "its reader has closed it; any later packets are missing, too, and not counted";
        assert_eq!(sink["files"][0]["problem"], problem, "{report}");
        let connection = &report["connections"][0];
        let count = |key: &str| connection[key].as_u64().unwrap();
        assert_eq!(count("sent"), count("packets") + count("unaccounted"), "{report}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn a_result_waits_for_the_reader_of_a_pipe_as_long_as_the_user_does() {
    let file = waveform(&TONE.replace("rate = 1e6, p", "duration_s = 0.01, p"), "type = \"null-sink\"");
    let pipe = make_fifo(&file);
    let options = ["-q", "--output", pipe.to_str().unwrap()];
    let mut child = spawn(&file, Stdio::null(), Stdio::null(), &options);
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("waiting for a reader of the pipe"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));

    let child = spawn(&file, Stdio::null(), Stdio::null(), &options);
    let text = std::fs::read_to_string(&pipe).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["duration_s"].is_f64());
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn a_source_reports_that_nothing_writes_to_its_pipe() {
    let source =
        "type = \"file-source\"\nproperties = { path = \"pipe\", format = \"f32\", output = \"f32\" }";
    let file = waveform(source, "type = \"null-sink\"");
    let pipe = make_fifo(&file);
    let mut child = spawn(&file, Stdio::null(), Stdio::null(), &[]);
    let expected = format!("waiting for a program that writes to {}", pipe.display());
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains(&expected) {
        assert!(errors.read_line(&mut text).unwrap() > 0, "{text}");
    }
    std::fs::write(&pipe, [0; 4000]).unwrap();
    errors.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    assert_eq!(text.matches(&expected).count(), 1, "{text}");
}

#[test]
fn one_signal_ends_a_replay_of_a_silent_pipe() {
    let file = waveform(TONE, "type = \"null-sink\"");
    let pipe = make_fifo(&file);
    let mut command = stripline();
    command.args(["replay", pipe.to_str().unwrap()]).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // This open waits until the command has opened the other end of the pipe.
    let writer = SystemFile::options().write(true).open(&pipe).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("pipe: ended by Ctrl-C"), "{text}");
    drop(writer);
}

#[test]
fn a_reader_that_takes_nothing_leaves_a_count_of_what_it_missed() {
    for (sink, output) in [("file-sink", "cf32"), ("file-sink", "f32")] {
        let tone = TONE.replace("cf32", output);
        let file = waveform(&tone, &format!("type = \"{sink}\"\nproperties = {{ path = \"pipe\" }}"));
        let pipe = make_fifo(&file);
        let child = spawn(&file, Stdio::null(), Stdio::piped(), &["--duration", "0.5", "--json", "-q"]);
        // The reader opens the pipe, and reads nothing.
        let reader = SystemFile::open(pipe).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(reader);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut components = report["components"].as_array().unwrap().iter();
        let sink = components.find(|component| component["name"] == "sink").unwrap();
        assert!(sink["files"][0]["missing"].as_u64().unwrap() > 0, "{report}");
        assert_eq!(sink["files"][0]["places"], 1, "{report}");
        assert!(text.contains("missing in 1 place"), "{text}");
    }
}

#[test]
fn a_pipe_that_nothing_reads_leaves_a_count_of_lines() {
    let tone = TONE.replace("cf32", "f32");
    for has_reader in [false, true] {
        let file = waveform(&tone, "type = \"print-sink\"\nproperties = { path = \"pipe\", samples = 1000 }");
        let pipe = make_fifo(&file);
        let reader = has_reader.then(|| {
            // The reader exists before the run, and reads nothing.
            SystemFile::options().read(true).write(true).open(&pipe).unwrap()
        });
        let child = spawn(&file, Stdio::null(), Stdio::piped(), &["--duration", "0.5", "--json", "-q"]);
        let output = child.wait_with_output().unwrap();
        drop(reader);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut components = report["components"].as_array().unwrap().iter();
        let sink = components.find(|component| component["name"] == "sink").unwrap();
        let lines = sink["files"][0]["lines_missing"].as_u64().unwrap();
        let packets = report["connections"][0]["packets"].as_u64().unwrap();
        assert!(lines > 0 && !sink["files"][0]["finished"].as_bool().unwrap(), "{report}");
        // There is a line for each packet, one for the stream and one for the end.
        assert!(has_reader || lines >= packets && lines <= packets + 2, "{report}");
        assert!(text.contains("lines missing"), "{text}");
    }
}

#[test]
fn a_wav_file_is_no_pipe() {
    let tone = TONE.replace("cf32", "f32");
    let file = waveform(&tone, "type = \"wav-sink\"\nproperties = { path = \"pipe\" }");
    make_fifo(&file);
    let path = file.path("file.toml");
    let path = path.to_str().unwrap();
    let expected = ["a pipe cannot have the header of a WAV file", "give the path of a regular file"];
    crate::common::run(&["check", path]).says(2, &expected);
    std::fs::remove_file(file.path("pipe")).unwrap();
    crate::common::run(&["check", path]).says(0, &[]);
}

#[test]
fn a_recording_is_replayed_from_a_pipe() {
    let source = "type = \"replay\"\nproperties = { path = \"pipe\", type = \"f32\", speed = 0.0 }";
    let file = waveform(source, "type = \"file-sink\"\nproperties = { path = \"out.raw\" }");
    let pipe = make_fifo(&file);
    let silent = spawn(&file, Stdio::null(), Stdio::null(), &[]);
    runs(&file);
    ends_in_order(silent);
    std::fs::remove_file(file.path("out.raw")).unwrap();

    let recording = file.path("port.slrec");
    let info = RecordingInfo::new(TypeName::of::<f32>());
    let mut writer = RecordingWriter::create(&recording, &info).unwrap();
    writer.packet(&RecordedPacket::default(), &[7; 40]).unwrap();
    writer.finish().unwrap();
    let child = spawn(&file, Stdio::null(), Stdio::null(), &[]);
    std::fs::write(pipe, std::fs::read(recording).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(file.path("out.raw")).unwrap(), [7; 40]);
}

#[test]
fn a_picture_is_written_to_a_pipe() {
    let file = File::new(
        r#"
        [component.source]
        type = "signal-generator"
        properties = { output = "cf32", sample_rate = 1e6, duration_s = 0.01 }
        [component.fft]
        type = "fft"
        properties = { size = 64 }
        [component.sink]
        type = "waterfall-sink"
        properties = { path = "pipe", terminal = false }
        [[connection]]
        from = "source.out"
        to = "fft.in"
        [[connection]]
        from = "fft.out"
        to = "sink.in"
        "#,
    );
    let pipe = make_fifo(&file);
    let child = spawn(&file, Stdio::null(), Stdio::null(), &[]);
    let picture = std::fs::read(pipe).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(picture.starts_with(b"\x89PNG"), "{} bytes", picture.len());
}
