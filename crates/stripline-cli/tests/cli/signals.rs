//! Signals that are ignored when a command starts, as under `nohup`.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::waveform::File;
use crate::common::{send as send_to, wait_until};

/// Starts the command with these signals ignored.
fn start(signals: &str, arguments: &[&str]) -> Child {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("trap '' {signals}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_stripline")]);
    shell.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the set of signals in this line of the process's status. Bit 0 stands for signal 1.
fn signals_of(child: &Child, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let set = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    u64::from_str_radix(set.trim_start_matches(':').trim(), 16).unwrap()
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_run_ends_on_the_signals_that_were_not_ignored() {
    let file = File::radio();
    let path = file.path("file.toml");
    let mut child = start("HUP INT", &["run", path.to_str().unwrap()]);
    wait_until("the launcher handles SIGTERM", || signals_of(&child, "SigCgt") & bit(Signal::TERM) != 0);
    for signal in [Signal::HUP, Signal::INT] {
        assert_eq!(signals_of(&child, "SigIgn") & bit(signal), bit(signal), "{signal:?}");
        send(&child, signal);
    }
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with("is running")));
    send(&child, Signal::TERM);
    let text = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text}");
    assert!(text.contains("stopping in order (SIGTERM)"), "{text}");
    assert!(!text.contains("SIGHUP") && !text.contains("(Ctrl-C)"), "{text}");
}

#[test]
fn several_signals_of_one_stop_end_in_order_and_a_second_ctrl_c_at_once() {
    let file = File::radio();
    let running = file.start(&[], 3);
    for signal in [Signal::TERM, Signal::HUP, Signal::TERM, Signal::HUP] {
        running.signal(signal);
    }
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");

    let tone = r#"type = "signal-generator"
        properties = { rate = 48e3, output = "f32", packet = 480 }"#;
    let file = File::new(&format!(
        "[component.tone]\n{tone}\n[component.sink]\ntype = \"file-sink\"\n\
         properties = {{ path = \"a.f32\" }}\n[[connection]]\nfrom = \"tone.out\"\nto = \"sink.in\"\n"
    ));
    let (trace, result) = (file.path("trace.json"), file.path("result.json"));
    let options = ["--trace", trace.to_str().unwrap(), "--output", result.to_str().unwrap()];
    let running = file.start(&options, 2);
    running.wait_until("the sink has reported its file", || {
        let text = std::fs::read_to_string(&trace).unwrap();
        let rates = text.lines().filter_map(|line| line.split_once("\"args\":{\"bytes/s\":"));
        rates.filter(|(_, rate)| !rate.starts_with("0.0")).count() > 0
    });
    send_to(running.component("sink"), Signal::STOP);
    running.signal(Signal::TERM);
    running.wait_for_line("stopping in order (SIGTERM); Ctrl-C ends at once");
    running.signal(Signal::HUP);
    running.signal(Signal::INT);
    let (code, text) = running.end();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("ended at once on a second Ctrl-C"), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap();
    let problem = report["components"][1]["files"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("may have more or fewer samples"), "{report}");
}

#[test]
fn other_commands_leave_ignored_signals_ignored() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let folder = file.path("taken");
    let folder = folder.to_str().unwrap();
    let name = &*file.name;
    for arguments in [
        &["hz", name, "tone.out"][..],
        &["echo", name, "tone.out"],
        &["record", name, "tone.out", "--to", folder],
    ] {
        let mut child = start("HUP INT", arguments);
        wait_until("it handles SIGTERM", || signals_of(&child, "SigCgt") & bit(Signal::TERM) != 0);
        let ignored = bit(Signal::HUP) | bit(Signal::INT);
        assert_eq!(signals_of(&child, "SigIgn") & ignored, ignored, "{arguments:?}");
        send(&child, Signal::TERM);
        child.stdout.take();
        assert_eq!(child.wait().unwrap().signal(), None, "{arguments:?}");
    }
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
}
