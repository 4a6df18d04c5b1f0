//! Restart rules for hardware that is missing for long, waveforms that continue, and sources that
//! end.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::common::waveform::File;
use crate::common::{Running, gain_example, run, send, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// The number of restarts after which the short form gives up.
const TODAY: u64 = 5;

/// Writes a waveform with a source that plays a recording, and a second pipeline. Returns the
/// waveform and the path of the recording.
fn player(rule: &str, properties: &str) -> (File, PathBuf) {
    let file = File::new(&format!(
        "[component.source]\ntype = \"file-source\"\nrestart = {rule}\n\
         properties = {{ path = \"recording.cf32\", packet = 16, {properties} }}\n\
         [component.sink]\ntype = \"null-sink\"\n\
         [component.tone]\ntype = \"signal-generator\"\nproperties = {{ rate = 48e3, packet = 480 }}\n\
         [component.other]\ntype = \"null-sink\"\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"sink.in\"\n\
         [[connection]]\nfrom = \"tone.out\"\nto = \"other.in\"\n"
    ));
    let recording = file.path("recording.cf32");
    plug_in(&recording);
    (file, recording)
}

fn plug_in(recording: &Path) {
    // The recording is renamed, so that the source finds a complete file or none.
    let part = recording.with_extension("part");
    std::fs::write(&part, [0u8; 8 * 64]).unwrap();
    std::fs::rename(part, recording).unwrap();
}

fn list(file: &File) -> Value {
    let listed = run(&["waveforms", &file.name, "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
    listed["waveforms"][0].clone()
}

fn component(file: &File, name: &str) -> Value {
    let listed = list(file);
    let components = listed["components"].as_array().unwrap();
    components.iter().find(|component| component["name"] == name).unwrap().clone()
}

fn packets(report: &Value, connection: usize) -> u64 {
    report["connections"][connection]["packets"].as_u64().unwrap()
}

/// Starts the waveform with a report, and kills the source while the recording is missing.
fn unplugged(file: &File, recording: &Path) -> Running {
    let running = file.start(&["--output", file.path("report.json").to_str().unwrap()], 4);
    std::fs::remove_file(recording).unwrap();
    send(running.component("source"), Signal::KILL);
    running
}

fn report(file: &File) -> Value {
    serde_json::from_slice(&std::fs::read(file.path("report.json")).unwrap()).unwrap()
}

const ENDLESS: &str = "repeat = 0, rate = 1600";

#[test]
fn hardware_that_is_missing_for_longer_than_five_restarts_comes_back() {
    let rule = r#"{ when = "on-failure", pause-max-ms = 1000, give-up-after = "never" }"#;
    let (file, recording) = player(rule, ENDLESS);
    let running = unplugged(&file, &recording);
    running.wait_until("it would have been given up", || {
        component(&file, "source")["restarts"].as_u64() > Some(TODAY + 1)
    });
    running.wait_until("it shows the next attempt and the reason", || {
        let source = component(&file, "source");
        let reason = source["problem"].as_str().unwrap_or_default();
        source["next_restart_ms"].as_u64().is_some() && reason.contains("recording.cf32")
    });
    running.wait_until("the table shows it, too", || {
        file.ask("waveforms", &[])
            .stdout
            .lines()
            .any(|line| line.contains("source") && line.contains(", next in "))
    });
    assert_eq!(component(&file, "tone")["state"], "running");
    plug_in(&recording);
    running.wait_until("it is back", || {
        let source = component(&file, "source");
        source["state"] == "running" && source["next_restart_ms"].is_null()
    });
    file.ask("stop", &[]).says(0, &[]);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");
    let report = report(&file);
    assert!(report["components"][0]["restarts"].as_u64() > Some(TODAY), "{report}");
    let reason = report["components"][0]["last_restart"].as_str().unwrap_or_default();
    assert!(reason.contains("recording.cf32"), "{report}");
    assert!(report["components"][1].get("last_restart").is_none(), "{report}");
    assert!(text.contains("\nsource was started again "), "{text}");
    assert!(report["connections"][0]["peer_deaths"].as_u64() >= Some(1), "{report}");
}

#[test]
fn a_waveform_with_hardware_that_is_missing_at_the_start_waits_for_it() {
    let rule = r#"{ when = "on-failure", pause-max-ms = 1000, give-up-after = "never" }"#;
    let (file, recording) = player(rule, ENDLESS);
    // The check accepts a path that is not a regular file. The source cannot open the socket.
    std::fs::remove_file(&recording).unwrap();
    let _socket = UnixListener::bind(&recording).unwrap();
    let running = std::thread::scope(|scope| {
        let start = scope.spawn(|| file.start(&[], 4));
        wait_until("it would have been given up", || {
            let listed = list(&file);
            let source = listed["components"][0]["restarts"].as_u64();
            listed["phase"] == "starting" && source > Some(TODAY + 1)
        });
        plug_in(&recording);
        start.join().unwrap()
    });
    running.wait_until("packets arrive", || list(&file)["packets"].as_u64() > Some(0));
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn the_rest_of_the_waveform_goes_on() {
    let rule = r#"{ when = "on-failure", give-up-after = "2 in 60s", then = "go-on" }"#;
    let (file, recording) = player(rule, ENDLESS);
    let running = unplugged(&file, &recording);
    let line = running.wait_for_line("the waveform goes on without it");
    assert!(line.contains("after 2 restarts within 60 s it is given up"), "{line}");
    // The receiver sees the end of the stream.
    running.wait_until("the receiver has ended", || component(&file, "sink")["state"] == "ended");
    let source = component(&file, "source");
    assert_eq!((&source["state"], &source["restarts"]), (&"failed".into(), &2.into()), "{source}");
    assert!(source["problem"].as_str().unwrap().contains("recording.cf32"), "{source}");
    let total = || list(&file)["packets"].as_u64();
    let before = total();
    running.wait_until("the other pipeline goes on", || total() > before);
    file.ask("stop", &[]).says(0, &[]);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");
    let report = report(&file);
    assert_eq!(report["components"][0]["outcome"], "failed", "{report}");
    assert!(report["components"][0]["problem"].as_str().unwrap().contains("recording.cf32"), "{report}");
    assert_eq!(report["failure"], Value::Null);
}

#[test]
fn a_sender_that_is_stopped_holds_up_no_other() {
    let tone = "type = \"signal-generator\"\nproperties = { rate = 48e3, packet = 480 }";
    let sink = "type = \"null-sink\"\nrestart = \"on-failure\"";
    let connection = |from, to| format!("[[connection]]\nfrom = \"{from}.out\"\nto = \"{to}.in\"\n");
    let file = File::new(&format!(
        "[component.late]\n{tone}\n[component.healthy]\n{tone}\n\
         [component.sink]\n{sink}\n[component.other]\n{sink}\n{}{}{}",
        connection("late", "sink"),
        connection("healthy", "sink"),
        connection("healthy", "other")
    ));
    let running = file.start(&["--output", file.path("report.json").to_str().unwrap()], 4);
    let total = || list(&file)["packets"].as_u64();
    running.wait_until("packets", || total() > Some(0));
    let late = running.component("late");
    send(late, Signal::STOP);
    send(running.component("sink"), Signal::KILL);
    running.wait_until("the receiver is back", || {
        let sink = component(&file, "sink");
        sink["restarts"] == 1 && sink["state"] == "running"
    });
    // The number of packets is more than any queue takes.
    let before = total().unwrap();
    running.wait_until("the healthy sender goes on", || total() > Some(before + 400));
    send(late, Signal::CONT);
    file.ask("stop", &[]).says(0, &[]);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");
    // The receiver had received packets of both senders when it was killed.
    let report = report(&file);
    assert!((0..3).all(|connection| packets(&report, connection) > 0), "{report}");
    assert_eq!(report["connections"][2]["lost"], 0, "{report}");
}

#[test]
fn a_component_that_is_never_restarted_may_end_alone() {
    let (file, _) = player(r#"{ when = "never", then = "go-on" }"#, ENDLESS);
    let running = file.start(&[], 4);
    send(running.component("source"), Signal::KILL);
    running.wait_for_line("component source was killed (SIGKILL); the waveform goes on without it");
    running.wait_until("the receiver has ended", || component(&file, "sink")["state"] == "ended");
    // The second pipeline continues.
    assert_eq!(component(&file, "tone")["state"], "running");
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn the_short_form_still_gives_up_and_ends_the_waveform() {
    let (file, recording) = player("\"on-failure\"", ENDLESS);
    let running = unplugged(&file, &recording);
    let (code, text) = running.end();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("after 5 restarts within 10 s it is given up"), "{text}");
}

#[test]
fn a_source_that_ends_is_started_again_and_its_stream_goes_on() {
    for transport in ["shm", "uds", "tcp", "udp"] {
        // Each run of the source sends four packets.
        let (file, _) = player(r#"{ when = "always", pause-max-ms = 100 }"#, "rate = 0");
        let json = file.path("report.json");
        // The source may be between two runs.
        let running = file.start(&["--transport", transport, "--output", json.to_str().unwrap()], 0);
        running.wait_until("it was started more often than failures allow", || {
            component(&file, "source")["restarts"].as_u64() > Some(TODAY + 2)
        });
        assert_eq!(component(&file, "sink")["state"], "running", "{transport}: its stream goes on");
        running.signal(Signal::INT);
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{transport}: {text}");
        let report = report(&file);
        let restarts = report["components"][0]["restarts"].as_u64().unwrap();
        let (sent, lost) = (&report["connections"][0]["sent"], &report["connections"][0]["lost"]);
        // Each packet of each run arrives, because the streams are flushed before the process ends.
        // The last run may have been stopped early.
        let got = packets(&report, 0);
        assert_eq!((sent.as_u64(), lost), (Some(got), &0.into()), "{transport}: {report}");
        assert!(got >= 4 * restarts, "{transport}: {got} packets of {restarts} restarts");
        assert!(packets(&report, 1) > 0);
    }
}

#[test]
fn a_source_that_is_stopped_alone_is_not_started_again() {
    let (file, _) = player(r#"{ when = "always", pause-max-ms = 100 }"#, ENDLESS);
    let running = file.start(&[], 4);
    file.ask("stop", &["source"]).says(0, &[]);
    running.wait_until("its receiver has ended, too", || component(&file, "sink")["state"] == "ended");
    let source = component(&file, "source");
    assert_eq!((&source["state"], &source["restarts"]), (&"ended".into(), &0.into()), "{source}");
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

/// Writes a waveform with the gain behind a script. The script passes the description on to
/// `describe`. Otherwise it writes a line to the file STARTS, and runs `start` before the gain.
fn scripted(restart: &str, types: &str, describe: &str, start: &str) -> File {
    let file = File::new(&format!(
        r#"
        [component.source]
        type = "signal-generator"
        properties = {{ rate = 48e3, packet = 480{types} }}
        [component.gain]
        exec = ["sh", "gain.sh"]
        restart = {restart}
        [component.end]
        type = "null-sink"
        [[connection]]
        from = "source.out"
        to = "gain.in"
        [[connection]]
        from = "gain.out"
        to = "end.in"
        "#
    ));
    let gain = gain_example();
    let script = format!(
        "if [ \"$1\" = --describe ]; then {} --describe {describe}; exit; fi\n\
         echo started >> STARTS\n{start}\nexec {} \"$@\"\n",
        gain.display(),
        gain.display()
    );
    let script = script.replace("STARTS", file.path("starts").to_str().unwrap());
    std::fs::write(file.path("gain.sh"), script).unwrap();
    file
}

fn starts(file: &File) -> usize {
    std::fs::read_to_string(file.path("starts")).unwrap().lines().count()
}

/// The end of a message about a failure that a restart would repeat.
const LASTING: &str =
    "(not restarted: the same configuration fails again; correct it, then run the waveform again)";

#[test]
fn a_failure_that_a_restart_would_repeat_is_final() {
    // A module of the script is missing.
    let missing = "echo \"No module named 'radio'\" >&2; exit 1";
    let file = scripted("\"on-failure\"", "", "", missing);
    let path = file.path("file.toml");
    let ended = run(&["run", path.to_str().unwrap()]);
    let exited = format!("component gain exited with code 1 before it registered {LASTING}");
    ended.says(1, &[&exited, "No module named 'radio'"]);
    assert_eq!(starts(&file), 1);

    // The script describes another type than the program opens.
    let file = scripted("\"always\"", ", output = \"f32\"", "| sed s/cf32/f32/g", "");
    let ended = run(&["run", file.path("file.toml").to_str().unwrap()]);
    ended.says(1, &["port `in`: carries f32 in this waveform, not cf32", LASTING]);
    assert_eq!(starts(&file), 1);

    // The waveform goes on, if it should.
    let file = scripted(r#"{ when = "on-failure", then = "go-on" }"#, "", "", missing);
    let running = Running::start(&["run", file.path("file.toml").to_str().unwrap()], 0);
    let gain = component(&file, "gain");
    assert_eq!((&gain["state"], &gain["restarts"]), (&"failed".into(), &0.into()), "{gain}");
    assert!(gain["problem"].as_str().unwrap().contains(LASTING), "{gain}");
    assert_eq!(starts(&file), 1);
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));

    // A rule that never gives up waits.
    let rule = r#"{ when = "on-failure", pause-max-ms = 1000, give-up-after = "never" }"#;
    let file = scripted(rule, "", "", "[ $(wc -l < STARTS) -gt 1 ] || exit 1");
    let running = file.start(&[], 3);
    assert_eq!((&component(&file, "gain")["restarts"], starts(&file)), (&1.into(), 2));
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_program_that_a_signal_ends_before_it_registers_is_started_again() {
    let file = scripted("\"on-failure\"", "", "", "[ $(wc -l < STARTS) -gt 1 ] || kill -9 $$");
    let running = file.start(&[], 3);
    assert_eq!((&component(&file, "gain")["restarts"], starts(&file)), (&1.into(), 2));
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}
