//! `stripline stop` against real runs, and other ways in which runs end.

use std::process::Stdio;

use crate::common;
use crate::common::waveform::{File, PLACEMENTS, sockets_of};
use crate::common::{is_alive, run, send, stripline, wait_until};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn one_component_is_stopped_and_the_rest_goes_on() {
    for (placement, processes) in PLACEMENTS {
        one_is_stopped(placement, processes);
    }
}

fn one_is_stopped(placement: &str, processes: usize) {
    let file = File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = { rate = 48e3, packet = 480 }
        [component.one]
        type = "null-sink"
        [component.other]
        type = "null-sink"
        [[connection]]
        from = "tone.out"
        to = "one.in"
        [[connection]]
        from = "tone.out"
        to = "other.in"
        "#,
    );
    let running = file.start(&["--placement", placement], processes);
    wait_until("packets have come", || file.property("one.packets")["value"].as_i64() > Some(0));
    let stop = file.ask("stop", &["one"]);
    stop.prints("one has ended\n");
    let before = file.property("other.packets")["value"].as_i64();
    wait_until("the other goes on", || file.property("other.packets")["value"].as_i64() > before);
    // The last report of the stopped component is still available. New settings are refused.
    assert!(file.property("one.packets")["value"].as_i64() > Some(0));
    file.ask("stop", &["one"]).says(0, &[]);
    file.ask("stop", &["two"]).says(2, &["no component `two`"]);
    file.ask("stop", &["tone"]).says(0, &[]);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");
    file.ask("set", &["tone.amplitude=1"]).says(2, &["no waveform", &file.name]);
}

/// A waveform with a component that describes itself and never registers. The launcher waits 30 s
/// for it.
struct Unfinished {
    file: File,
    run: std::process::Child,
}

impl Unfinished {
    /// Starts the waveform, and waits until the filter is made.
    fn start() -> Self {
        let filter = "properties = { high = 4e3, sample_rate = 48e3 }";
        let file = File::filtered("source", "exec = \"./mute\"", filter);
        let port = r#"{"name":"out","direction":"output","mandatory":true,"many_writers":false,"types":{"one-of":["cf32"]},"summary":""}"#;
        let spec = format!(r#"{{"name":"mute","summary":"","ports":[{port}],"properties":[]}}"#);
        let script =
            format!("#!/bin/sh\n[ \"$1\" = --describe ] && echo '{spec}' && exit\nexec sleep 1000\n");
        common::write_script(&file.path("mute"), &script);
        let mut run = stripline();
        run.args(["run", file.path("file.toml").to_str().unwrap()]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let unfinished = Self { file, run };
        let made = Some(("starting".into(), "ready".into()));
        wait_until("the filter is made", || unfinished.state(1) == made);
        unfinished
    }

    /// Returns the phase of the waveform, and the state of a component.
    fn state(&self, component: usize) -> Option<(Value, Value)> {
        let listed: Value = serde_json::from_str(&common::run(&["waveforms", "--json"]).stdout).unwrap();
        let mut waveforms = listed["waveforms"].as_array().unwrap().iter();
        let mine = waveforms.find(|waveform| waveform["name"] == *self.file.name)?.clone();
        Some((mine["phase"].clone(), mine["components"][component]["state"].clone()))
    }

    /// Stops the waveform, and returns the errors that the run has printed.
    fn stop(self, arguments: &[&str]) -> String {
        let stop = self.file.ask("stop", arguments);
        stop.says(0, &[]);
        assert!(stop.stdout.contains("was stopped before it ran"), "{}", stop.stdout);
        let ended = self.run.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{printed}");
        printed
    }
}

#[test]
fn a_waveform_that_is_still_starting_can_be_asked_and_stopped() {
    let starting = Unfinished::start();
    let file = &starting.file;
    file.ask("set", &["filter.high=2e3", "--timeout", "0.1"])
        .says(1, &["not applied yet", "has not been started yet"]);
    assert_eq!(starting.state(0), Some(("starting".into(), "starting".into())));
    file.ask("test", &["filter", "--timeout", "0.1"]).says(1, &["was not run", "has not been started yet"]);
    file.ask("get", &["sink.packets"]).says(0, &[]);
    let printed = starting.stop(&[]);
    assert!(printed.contains("filter: did not take high = 2000"), "{printed}");
}

#[test]
fn a_wait_for_a_waveform_names_the_components_that_are_ready() {
    let starting = Unfinished::start();
    let words = format!("`{}` is starting (2 of 3 components are ready)", starting.file.name);
    starting.file.ask("get", &["sink.packets", "--wait=0.2"]).says(1, &[&words]);
    starting.file.ask("set", &["source.level=1"]).says(2, &["`source` has no property"]);
    starting.stop(&["--wait"]);
}

#[test]
fn a_waveform_whose_components_are_being_checked_is_found() {
    let gain = common::gain_example();
    let file = File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = { rate = 48e3, output = "cf32", packet = 480 }
        [component.filter]
        exec = ["sh", "slow.sh"]
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "tone.out"
        to = "filter.in"
        [[connection]]
        from = "filter.out"
        to = "sink.in"
        "#,
    );
    // The description comes when the file `go` is there.
    let script = format!(
        "if [ \"$1\" = --describe ]; then while [ ! -e {} ]; do sleep 0.02; done; fi\nexec {} \"$@\"\n",
        file.path("go").display(),
        gain.display()
    );
    std::fs::write(file.path("slow.sh"), script).unwrap();
    let start = || {
        let mut run = stripline();
        run.args(["run", file.path("file.toml").to_str().unwrap()]);
        run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let run = start();
    let starting = format!("`{}` is starting (its components are being checked)", file.name);
    wait_until("it is announced", || file.ask("get", &[]).stderr.contains(&starting));
    file.ask("set", &["filter.factor=2"]).says(1, &[&starting]);
    file.ask("get", &["--wait=0.1"]).says(1, &[&starting]);
    file.ask("stop", &["filter"]).says(1, &[&starting]);
    let stop = file.ask("stop", &[]);
    stop.says(0, &[]);
    assert!(stop.stdout.contains("was stopped before it ran"), "{}", stop.stdout);
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("stopped before it ran"));
    file.ask("get", &[]).says(2, &["no waveform"]);

    // A request that comes during the check is answered by the run.
    let run = start();
    wait_until("it is announced", || file.ask("get", &[]).stderr.contains(&starting));
    let mut echo = stripline();
    echo.args(["echo", &file.name, "filter.out", "--count", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let echo = echo.spawn().unwrap();
    file.ask("get", &[]).says(1, &[&starting]);
    std::fs::write(file.path("go"), "").unwrap();
    let echo = echo.wait_with_output().unwrap();
    assert_eq!(echo.status.code(), Some(0), "{}", String::from_utf8_lossy(&echo.stderr));
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn a_command_waits_for_a_waveform_that_is_being_started() {
    let file = File::radio();
    let wait = |command: &str, more: &[&str]| {
        let mut asked = stripline();
        asked.args([&[command, &file.name, "--wait"], more].concat());
        asked.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // The commands begin before the waveform does.
    let set = wait("set", &["filter.high=2e3"]);
    let get = wait("get", &["tone.rate"]);
    let running = file.start(&[], 3);
    let (set, get) = (set.wait_with_output().unwrap(), get.wait_with_output().unwrap());
    assert_eq!(String::from_utf8_lossy(&set.stdout), "filter.high = 2000 Hz (was 4000)\n");
    assert_eq!((set.status.code(), get.status.code()), (Some(0), Some(0)));
    file.ask("stop", &["--wait=1"]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
    // Nothing of that name is started.
    file.ask("get", &["--wait=0.1"]).says(2, &["no waveform", "has not started within 0.1 s"]);
    file.ask("get", &["--wait=never"]).says(2, &["--wait", "number of seconds"]);
}

#[test]
fn stop_now_ends_everything_at_once() {
    let file = File::idle();
    let running = file.start(&[], 3);
    let pid = running.pid();
    assert_eq!(sockets_of(pid).len(), 1);
    file.ask("stop", &["filter", "--now"]).says(2, &["--now"]);
    let components = running.components();
    let stop = file.ask("stop", &["--now"]);
    stop.says(0, &["ended at once by `stripline stop --now`; packets on their way are lost"]);
    assert!(stop.stdout.contains("was ended at once after"), "{}", stop.stdout);
    assert!(!stop.stdout.contains("failed"), "{}", stop.stdout);
    let (code, text) = running.end();
    // The run ends as it does after a second Ctrl-C.
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("ended at once by `stripline stop --now`"), "{text}");
    assert!(components.iter().all(|(_, pid)| !is_alive(*pid)));
    assert_eq!(sockets_of(pid), Vec::<String>::new());
    file.ask("stop", &[]).says(2, &["no waveform"]);
}

#[test]
fn what_does_not_stop_is_killed_and_said() {
    let file = File::radio();
    let running = file.start(&[], 3);
    send(running.component("tone"), Signal::STOP);
    let stop = file.ask("stop", &[]);
    stop.says(1, &["tone did not stop and had to be killed"]);
    assert_eq!(running.end().0, Some(1));
}

#[test]
fn who_only_waits_for_one_that_does_not_stop_is_not_blamed() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let filter = running.component("filter");
    send(filter, Signal::STOP);
    let listed = run(&["waveforms", &file.name]);
    listed.says(0, &[&format!("process {filter} is suspended; `kill -CONT {filter}` resumes it")]);
    assert!(listed.stdout.contains("suspended"), "{}", listed.stdout);
    // The wait is long enough for the tone to have packets that it cannot send.
    wait_until("the tone waits", || {
        run(&["links", &file.name]).stdout.contains("tone.out waits for filter.in (full)")
    });
    let stop = file.ask("stop", &[]);
    let suspended = format!("process {filter} of filter was suspended (SIGSTOP)");
    stop.says(1, &["filter did not stop", &suspended, "tone waited for filter to take packets"]);
    assert!(!stop.stderr.contains("tone, filter did not stop"), "{}", stop.stderr);
    // The run itself reports in good time what the stop waits for.
    let (_, text) = running.end();
    assert_eq!(text.matches("s after the stop, which waits for it").count(), 1, "{text}");
    assert!(text.contains("warning: filter: has not ended"), "{text}");
}

#[test]
fn a_launcher_that_dies_or_is_stopped_is_no_silent_hang() {
    let file = File::idle();
    let running = file.start(&[], 3);
    send(running.pid(), Signal::STOP);
    let pid = running.pid().to_string();
    file.ask("get", &["--pid", &pid])
        .says(1, &["is stopped and does not answer", &format!("kill -CONT {pid}")]);
    file.ask("get", &[])
        .says(1, &[&format!("launcher of `{}`", file.name), "is stopped and does not answer"]);
    // A launcher that runs another waveform does not affect the request.
    let other = File::radio();
    let _other = other.start(&[], 3);
    other.ask("get", &[]).says(0, &[]);
    assert!(run(&["waveforms"]).stderr.contains(&format!("process {pid}")));
    send(running.pid(), Signal::CONT);
    // The launcher is killed during a set request and during a stop.
    for arguments in [&["set", "source.amplitude=2", "--timeout", "600"][..], &["stop", "filter"]] {
        let file = File::idle();
        let running = file.start(&[], 3);
        if arguments[0] == "stop" {
            send(running.component("filter"), Signal::STOP);
        }
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| file.ask(arguments[0], &arguments[1..]));
            if arguments[0] == "set" {
                wait_until("it waits", || file.property("source.amplitude")["waiting"] == 2.0);
            }
            wait_until("it has been asked", || !sockets_of(running.pid()).is_empty());
            send(running.pid(), Signal::KILL);
            let printed = asking.join().unwrap();
            let is_late = printed.stderr.contains("no waveform");
            assert!(is_late || printed.stderr.contains("ended before it answered"), "{}", printed.stderr);
            assert_eq!(printed.code, Some(if is_late { 2 } else { 1 }), "{}", printed.stderr);
        });
        wait_until("nothing is left of it", || sockets_of(running.pid()).is_empty());
    }
}
