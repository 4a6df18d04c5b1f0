//! The log of a run: levels, times, files and the output of components.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::common;
use crate::common::{
    Run, Running, gain_example, repository, run, run_gain_description, stripline, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

const COMPONENTS: [&str; 4] = ["source", "demodulator", "decoder", "sink"];

/// Runs the receiver for a second of simulated samples.
fn short(more: &[&str]) -> Run {
    let waveform = repository("waveforms/adsb.toml");
    let arguments =
        ["run", waveform.to_str().unwrap(), "--set", "source.rate=0", "--set", "source.duration_s=1"];
    run(&[&arguments, more].concat())
}

fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Makes a named pipe.
fn pipe(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
}

#[test]
fn a_log_in_json_has_the_steps_of_each_component_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    short(&["--quiet", "--log-file", path.to_str().unwrap(), "--log-format", "json"]).says(0, &[]);
    let records = records(&path);
    let mut before = String::new();
    for record in &records {
        let keys: Vec<&String> = record.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["component", "level", "message", "target", "time"], "{record}");
        let time = record["time"].as_str().unwrap();
        assert!(time.len() == 27 && time.ends_with('Z') && *time >= *before, "{before} {record}");
        before = time.into();
        assert_eq!((&record["level"], &record["target"]), (&"info".into(), &"stripline::waveform".into()));
    }
    for component in COMPONENTS {
        let steps: Vec<&str> = records
            .iter()
            .filter(|record| record["component"] == component)
            .map(|record| record["message"].as_str().unwrap())
            .collect();
        assert!(steps[0].starts_with("process ") && steps[0].ends_with(" started"), "{steps:?}");
        assert_eq!(steps[1..], ["ready", "running", "ended"], "{component}");
    }
    let launcher = records.iter().filter(|record| record["component"].is_null());
    let launcher: Vec<&str> = launcher.map(|record| record["message"].as_str().unwrap()).collect();
    let apart = |from: &str, to: &str| {
        format!(
            "{from}.out -> {to}.in: shm, chosen by auto (inproc: `{from}` and `{to}` are processes of their own)"
        )
    };
    let ends = [("source", "demodulator"), ("demodulator", "decoder"), ("decoder", "sink")];
    assert_eq!(launcher[0], "adsb is running");
    assert_eq!(launcher[1..], ends.map(|(from, to)| apart(from, to)));
}

#[test]
fn a_source_that_is_started_again_has_its_end_once_among_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("again.toml"), folder.path().join("run.log"));
    let text = "[component.source]\ntype = \"signal-generator\"\nrestart = \"always\"\n\
                properties = { duration_s = 0.01 }\n[component.end]\ntype = \"null-sink\"\n\
                [[connection]]\nfrom = \"source.out\"\nto = \"end.in\"\n";
    std::fs::write(&path, text).unwrap();
    let arguments = ["run", path.to_str().unwrap(), "--log-format", "json", "--log-file"];
    let running = Running::start(&[&arguments[..], &[log.to_str().unwrap()]].concat(), 0);
    let restarts = || std::fs::read_to_string(&log).unwrap().matches("\"restart 2\"").count();
    wait_until("it is started for the third time", || restarts() == 1);
    running.signal(Signal::INT);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");
    let records = records(&log);
    let steps = records.iter().filter(|record| record["component"] == "source" && record["level"] == "info");
    let steps: Vec<&str> = steps.map(|record| record["message"].as_str().unwrap()).collect();
    // The component is killed after it has reported the end. The kill is not a step.
    assert_eq!(steps[1..5], ["ready", "running", "ended", "restart 1"], "{steps:?}");
    assert!(
        !records.iter().any(|record| record["message"].as_str().unwrap().contains("killed")),
        "{steps:?}"
    );
}

#[test]
fn a_text_log_is_appended_to_and_verbose_prints_the_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    std::fs::write(&path, "earlier\n").unwrap();
    let told = short(&["-v", "--log-file", path.to_str().unwrap()]);
    told.says(0, &[" [source] ready", " [sink] ended"]);
    let timed = told.stderr.lines().find(|line| line.contains("[source] ready")).unwrap();
    assert_eq!(timed.find("Z "), Some(26), "{timed}");
    let log = std::fs::read_to_string(path).unwrap();
    assert!(log.starts_with("earlier\n"), "{log}");
    assert!(log.contains("Z info  stripline::waveform: [source] ready\n"), "{log}");
    let told = short(&[]);
    assert!(!told.stderr.contains("ready"), "{}", told.stderr);
}

#[test]
fn a_log_file_that_cannot_be_opened_is_named_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let (missing, fifo) = (folder.path().join("no/run.log"), folder.path().join("fifo"));
    pipe(&fifo);
    let missing = missing.to_str().unwrap();
    short(&["--log-file", missing]).says(2, &["error: cannot write", missing, "No such file"]);
    short(&["--log-file", fifo.to_str().unwrap()]).says(2, &["a pipe without a reader"]);
    short(&["--log-file", folder.path().to_str().unwrap()]).says(2, &["Is a directory"]);
    short(&["--log-format", "json"]).says(2, &["--log-file"]);
    short(&["-v", "-q"]).says(2, &["cannot be used with"]);
}

#[test]
fn a_full_disk_is_reported_once_and_does_not_stop_the_waveform() {
    let told = short(&["--log-file", "/dev/full"]);
    told.says(0, &["warning: --log-file: cannot write /dev/full: No space left", "lines are lost"]);
    assert_eq!(told.stderr.matches("cannot write").count(), 1, "{}", told.stderr);
    assert!(told.stdout.contains("callsign"), "{}", told.stdout);
}

#[test]
fn a_closed_or_full_pipe_does_not_stop_the_waveform() {
    for is_closed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        pipe(&path);
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let reader = OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap();
        let waveform = repository("waveforms/adsb.toml");
        let arguments = ["run", waveform.to_str().unwrap(), "--set", "source.duration_s=3600", "--log-file"];
        let running = Running::start(&[&arguments[..], &[path.to_str().unwrap()]].concat(), 4);
        let mut reader = Some(reader);
        if is_closed {
            drop(reader.take());
            // A process that another test is starting may still have a copy of the reader.
            let has_no_reader = || OpenOptions::new().write(true).custom_flags(flags).open(&path).is_err();
            wait_until("the pipe has no reader", has_no_reader);
        } else {
            // The pipe is full.
            let options = OpenOptions::new().write(true).custom_flags(flags).open(&path);
            let mut writer = options.unwrap();
            while std::io::Write::write(&mut writer, &[b'\n'; 4096]).is_ok() {}
            while std::io::Write::write(&mut writer, b"\n").is_ok() {}
        }
        running.signal(Signal::INT);
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("warning: --log-file: cannot write"), "{text}");
        assert!(text.contains("lines are lost"), "{text}");
    }
}

#[test]
fn standard_output_is_raw_by_default_and_lines_if_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raw.toml");
    let text = "[component.source]\ntype = \"signal-generator\"\n\
                properties = { waveform = \"constant\", amplitude = 1.0, duration_s = 0.01, sample_rate = 1e6 }\n\
                [component.file]\ntype = \"file-sink\"\nproperties = { path = \"-\", format = \"cf32\" }\n\
                [[connection]]\nfrom = \"source.out\"\nto = \"file.in\"\n";
    std::fs::write(&path, text).unwrap();
    let output = stripline().args(["run", path.to_str().unwrap(), "--quiet"]).output().unwrap();
    assert!(output.status.success());
    let samples: Vec<f32> =
        output.stdout.chunks(8).map(|s| f32::from_le_bytes(s[..4].try_into().unwrap())).collect();
    assert_eq!(samples, vec![1.0; 10_000]);

    let log = folder.path().join("run.log");
    let told = short(&["--stdout", "lines", "--log-file", log.to_str().unwrap()]);
    told.says(0, &[]);
    let line = told.stdout.lines().find(|line| line.contains("received,")).unwrap();
    assert!(line.starts_with("[sink] "), "{line}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains(&format!("info  stdout: {line}\n")), "{log}");
}

#[test]
fn a_full_standard_output_is_reported_once_for_all_lines() {
    let waveform = repository("waveforms/adsb.toml");
    let mut command = stripline();
    command.args(["run", waveform.to_str().unwrap(), "--set", "source.rate=0", "--stdout", "lines"]);
    command.args(["--set", "source.duration_s=1"]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    // The second message is about the table at the end.
    assert_eq!(text.matches("cannot write to standard output").count(), 2, "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
}

#[test]
fn a_record_of_a_component_keeps_its_level_and_target() {
    let folder = tempfile::tempdir().unwrap();
    let (program, path, log) =
        (folder.path().join("talker"), folder.path().join("own.toml"), folder.path().join("run.log"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --describe ]; then\ncat <<'END'\n{}\nEND\nexit\nfi\n\
         if [ \"$1\" = component ]; then\n\
         echo 'stripline[warn stripline::node]: topic iq: odd' >&2\n\
         echo 'stripline[debug stripline::node]: hidden on the screen' >&2\n\
         echo \"plain $STRIPLINE_LOG\" >&2\nfi\nexec {} \"$@\"\n",
        run_gain_description(),
        gain_example().display(),
    );
    common::write_script(&program, &script);
    let text = format!(
        "[component.source]\ntype = \"signal-generator\"\nproperties = {{ duration_s = 0.01 }}\n\
         [component.gain]\nexec = \"{}\"\n[component.end]\ntype = \"null-sink\"\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"gain.in\"\n\
         [[connection]]\nfrom = \"gain.out\"\nto = \"end.in\"\n",
        program.display(),
    );
    std::fs::write(&path, text).unwrap();
    let arguments = ["run", path.to_str().unwrap(), "--log-format", "json", "--log-file"];
    let told = run(&[&arguments[..], &[log.to_str().unwrap()]].concat());
    told.says(0, &["[gain] stripline: topic iq: odd\n", "[gain] plain info,stripline=info\n"]);
    assert!(!told.stderr.contains("hidden"), "{}", told.stderr);
    let records = records(&log);
    let with = |message: &str| records.iter().find(|record| record["message"] == message);
    let record = with("topic iq: odd").unwrap();
    assert_eq!(record["level"], "warn");
    assert_eq!(record["target"], "stripline::node");
    assert_eq!(record["component"], "gain");
    assert_eq!(with("plain info,stripline=info").unwrap()["target"], "stderr");
    assert!(with("hidden on the screen").is_none());
}

#[test]
fn a_wrong_level_is_named_and_the_command_goes_on() {
    let output = stripline().args(["waveforms", "--json"]).env("STRIPLINE_LOG", "loud").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    for words in ["warning: STRIPLINE_LOG=loud", "`loud` is not a level", "warn,stripline::node=debug"] {
        assert!(text.contains(words), "{text}");
    }
}
