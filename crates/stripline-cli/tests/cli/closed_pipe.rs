//! The end of commands when standard output loses the reader, as with `| head`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::common::waveform::File;
use crate::common::{TIMEOUT, repository, stripline};

/// Starts the command and reads the first line. After that, the command's output has no reader.
fn after_one_line(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

/// Starts the command with an output that never has a reader.
fn without_reader(command: &mut Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    child
}

#[track_caller]
fn code_at_end(mut child: Child) -> Option<i32> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() >= deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn a_watch_ends_with_its_reader() {
    // The second command would write the next list only in an hour.
    for arguments in [
        &["links", "--watch=0.01"][..],
        &["links", "--watch=3600"],
        &["links", "--watch=0.01", "--json"],
        &["links", "--watch=3600", "--json"],
    ] {
        let (child, line) = after_one_line(stripline().args(arguments));
        assert!(!line.is_empty(), "{arguments:?}");
        assert_eq!(code_at_end(child), Some(0), "{arguments:?}");
    }
}

#[test]
fn commands_that_print_once_end() {
    for arguments in [
        &["links"][..],
        &["waveforms", "--json"],
        &["services", "closed-pipe-test", "--json"],
        &["components"],
        &["transports"],
        &["--help"],
    ] {
        assert_eq!(code_at_end(without_reader(stripline().args(arguments))), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_run_stops_in_order_when_its_output_has_no_reader() {
    for form in [&[][..], &["--stdout", "lines"]] {
        let waveform = File::idle();
        let path = waveform.path("file.toml");
        let result = waveform.path("result.json");
        let child = without_reader(
            stripline()
                .args(["run", "--output"])
                .arg(&result)
                .arg(&path)
                .args(form)
                .env("RUST_BACKTRACE", "0"),
        );
        assert_eq!(code_at_end(child), Some(0));
        let result: serde_json::Value = serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap();
        assert_eq!((&result["stopped"], &result["failure"]), (&"SIGTERM".into(), &serde_json::Value::Null));
    }
}

#[test]
fn a_receiver_that_prints_and_writes_a_file_ends_with_the_reader_of_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let frames = format!("sink.path={}", folder.path().join("frames.avr").display());
    let mut command = stripline();
    command.arg("run").arg(repository("waveforms/adsb.toml"));
    command.args(["--set", "source.duration_s=3600", "--set", &frames]);
    let (child, line) = after_one_line(&mut command);
    assert!(line.contains("received"), "{line}");
    assert_eq!(code_at_end(child), Some(0));
}

#[test]
fn an_experiment_ends_with_the_reader_of_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.toml");
    let text =
        "[experiment]\nname = 'long'\n[[case]]\nname = 'slow'\nstages = 1\npackets = 10000\npace-ms = 1000\n";
    std::fs::write(&path, text).unwrap();
    // The benchmark ends as it does after Ctrl-C.
    assert_eq!(code_at_end(without_reader(stripline().arg("bench").arg(&path))), Some(1));
}
