//! `stripline ls`, `get`, `set`, `test` and `stop` against real runs.

#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use common::{Run, Running, example, is_alive, run, send, stripline, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use stripline::call::{CallError, ClientOptions, ServiceClient};
use stripline::node::{Node, Topics};
use tempfile::TempDir;

/// An account that no process here has otherwise.
const ANOTHER_USER: u32 = 65_534;
/// What a test that plays another user's process is told.
const PLAY: &str = "STRIPLINE_TEST_ASK_AS_ANOTHER_USER";

/// Where components run, and in how many processes three of them do.
const PLACEMENTS: [(&str, usize); 2] = [("processes", 3), ("threads", 1)];

/// A waveform file with a name that no other test has.
struct File {
    folder: TempDir,
    name: String,
}

impl File {
    fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("w{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[waveform]\nname = \"{name}\"\n{text}");
        std::fs::write(folder.path().join("file.toml"), text).unwrap();
        Self { folder, name }
    }

    /// A tone through a filter, in real time.
    fn radio() -> Self {
        Self::new(
            r#"
            [component.tone]
            type = "signal-generator"
            properties = { rate = 48e3, output = "f32", packet = 480 }
            [component.filter]
            type = "fir-filter"
            properties = { high = 4e3 }
            [component.sink]
            type = "null-sink"
            [[connection]]
            from = "tone.out"
            to = "filter.in"
            [[connection]]
            from = "filter.out"
            to = "sink.in"
            "#,
        )
    }

    /// A filter that waits for a packet for hours.
    fn idle() -> Self {
        Self::new(
            r#"
            [component.source]
            type = "null-source"
            properties = { rate = 1e-3, output = "f32" }
            [component.filter]
            type = "fir-filter"
            properties = { high = 4e3, sample_rate = 48e3 }
            [component.sink]
            type = "null-sink"
            [[connection]]
            from = "source.out"
            to = "filter.in"
            [[connection]]
            from = "filter.out"
            to = "sink.in"
            "#,
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, options: &[&str], processes: usize) -> Running {
        let path = self.path("file.toml");
        Running::start(&[&["run", path.to_str().unwrap()], options].concat(), processes)
    }

    /// `stripline COMMAND NAME …`.
    fn ask(&self, command: &str, arguments: &[&str]) -> Run {
        run(&[&[command, &self.name], arguments].concat())
    }

    fn json(&self, command: &str, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ask(command, &[arguments, &["--json"]].concat()).stdout).unwrap()
    }

    /// What `get` says of one property.
    fn property(&self, place: &str) -> Value {
        self.json("get", &[place])[0].clone()
    }
}

/// What the names of launchers' sockets begin with.
fn prefix() -> String {
    format!("stripline-{}-run-1-", rustix::process::geteuid().as_raw())
}

/// The sockets that a launcher can be asked by.
fn sockets_of(pid: u32) -> Vec<String> {
    let list = std::fs::read("/proc/net/unix").unwrap();
    let list = String::from_utf8_lossy(&list);
    let names = list.lines().filter_map(|line| line.split_whitespace().nth(7));
    let its = |name: &&str| name.starts_with(&format!("@{}", prefix())) && name.contains(&format!("-{pid}-"));
    let mut names: Vec<String> = names.filter(its).map(|name| name[1..].to_string()).collect();
    names.sort();
    names.dedup();
    names
}

fn connect(name: &str) -> UnixStream {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    stream
}

/// The launcher's domain, joined, and its service.
fn service_of(pid: u32) -> (Node, ServiceClient) {
    let name = sockets_of(pid).pop().unwrap();
    let user = format!("stripline-{}-", rustix::process::geteuid().as_raw());
    let node = Node::join(name.strip_prefix(&user).unwrap(), Topics::default()).unwrap();
    let client = node.service_client("waveform-control", ClientOptions::default()).unwrap();
    (node, client)
}

#[test]
fn what_is_set_acts_on_the_samples_and_stop_delivers_all_of_them() {
    for placement in ["processes", "threads"] {
        let file = File::new(
            r#"
            [component.level]
            type = "signal-generator"
            properties = { waveform = "constant", rate = 48e3, packet = 480 }
            [component.recorder]
            type = "file-sink"
            properties = { path = "level.raw" }
            [[connection]]
            from = "level.out"
            to = "recorder.in"
            "#,
        );
        let processes = if placement == "threads" { 1 } else { 2 };
        let running = file.start(&["--placement", placement], processes);
        assert_eq!(file.ask("get", &["level.amplitude"]).stdout, "1\n");
        let set = file.ask("set", &["level.amplitude=0.25"]);
        set.says(0, &[]);
        assert_eq!(set.stdout, "level.amplitude = 0.25 (was 1)\n");
        running.wait_for_line("level: amplitude = 0.25 (was 1)");
        assert_eq!(file.ask("get", &["level.amplitude"]).stdout, "0.25\n");
        // Another value in its place, and then the end: what was sent before arrives.
        file.ask("set", &["level.amplitude=-1", "level.offset=0.5"]).says(0, &[]);
        let stop = file.ask("stop", &[]);
        stop.says(0, &[]);
        assert!(stop.stdout.contains("stopped (stripline stop) after"), "{}", stop.stdout);
        assert!(stop.stdout.contains("level.out -> recorder.in"), "{}", stop.stdout);
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{text}");
        let bytes = std::fs::read(file.path("level.raw")).unwrap();
        // The real part of each.
        let real = |sample: &[u8]| f32::from_le_bytes(sample[..4].try_into().unwrap());
        let mut levels: Vec<f32> = bytes.chunks_exact(8).map(real).collect();
        levels.dedup();
        assert!([1.0, 0.25].iter().zip(&levels).all(|(a, b)| a == b), "{levels:?}");
        // Both at once: there is no sample of only one of them.
        assert!(levels.iter().all(|level| [1.0, 0.25, -0.5].contains(level)), "{levels:?}");
    }
}

#[test]
fn a_handler_takes_what_is_set_whatever_runs_it() {
    for dispatch in ["queue", "pool(3)"] {
        let file = File::new(&format!(
            r#"
            [component.tone]
            type = "signal-generator"
            properties = {{ rate = 48e3, packet = 480 }}
            [component.power]
            exec = "{}"
            dispatch = "{dispatch}"
            [component.sink]
            type = "null-sink"
            [[connection]]
            from = "tone.out"
            to = "power.in"
            [[connection]]
            from = "power.out"
            to = "sink.in"
            "#,
            example("handler").display()
        ));
        let running = file.start(&[], 3);
        let set = file.ask("set", &["power.pause=0.5"]);
        set.says(0, &[]);
        assert_eq!(set.stdout, "power.pause = 0.5 ms (was 0)\n", "{dispatch}");
        file.ask("set", &["power.pause=-1"]).says(2, &["from 0 to 1000"]);
        assert_eq!(file.property("power.pause")["value"], 0.5, "{dispatch}");
        file.ask("stop", &[]).says(0, &[]);
        assert_eq!(running.end().0, Some(0));
    }
}

#[test]
fn properties_are_shown_as_they_are_now() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let all = file.json("get", &[]);
    let find = |place: &str| {
        let (component, property) = place.split_once('.').unwrap();
        all.as_array()
            .unwrap()
            .iter()
            .find(|r| r["component"] == component && r["property"] == property)
            .unwrap()
    };
    assert_eq!(
        (&find("filter.high")["value"], &find("filter.high")["access"]),
        (&4e3.into(), &"changeable".into())
    );
    assert_eq!(
        (&find("tone.packet")["value"], &find("tone.packet")["access"]),
        (&480.into(), &"fixed".into())
    );
    assert_eq!(find("sink.packets")["access"], "read-only");
    wait_until("the sink has counted", || file.property("sink.packets")["value"].as_i64() > Some(3));
    let text = file.ask("get", &[]);
    text.says(0, &[]);
    for words in ["tone.waveform", "any time", "at start", "read-only", "filter.high", "4000"] {
        assert!(text.stdout.contains(words), "{words}: {}", text.stdout);
    }
    assert!(!file.ask("get", &["filter"]).stdout.contains("tone."));
    file.ask("set", &["filter.high=3e3"]).says(0, &[]);
    assert_eq!(file.property("filter.high")["changed"], true);
    assert!(file.ask("get", &["filter"]).stdout.contains("3000 (changed)"));
    file.ask("get", &["fliter"]).says(2, &["no component `fliter`", "did you mean `filter`?"]);
    file.ask("get", &["filter.hgih"]).says(2, &["no property `hgih`", "did you mean `high`?"]);
    // And in the list of what runs.
    let listed = run(&["ls", &file.name]);
    listed.says(0, &[]);
    for words in [&file.name, "running", "fir-filter", "passband, stopband"] {
        assert!(listed.stdout.contains(words), "{words}: {}", listed.stdout);
    }
    assert!(run(&["ls"]).stdout.contains(&file.name));
    let json: Value = serde_json::from_str(&run(&["ls", "--json"]).stdout).unwrap();
    let mut mine = json["waveforms"].as_array().unwrap().iter().filter(|w| w["name"] == *file.name);
    assert_eq!(mine.next().unwrap()["pid"], running.pid());
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_set() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    for (setting, words) in [
        ("tnoe.frequency=1", &["no component `tnoe`", "did you mean `tone`?"][..]),
        ("tone.freqency=1", &["no property `freqency`", "did you mean `frequency`?"]),
        ("tone.frequency=loud", &["`frequency` takes a number, not `loud`"]),
        ("filter.high=-1", &["`high` is -1; it must be from 0 to 1e12"]),
        ("tone.waveform=sin", &["must be one of sine, square"]),
        ("tone.sample_rate=96e3", &["cannot be changed while it runs", "--set tone.sample_rate="]),
        ("sink.packets=0", &["is read-only"]),
    ] {
        // Of all that is set at once, nothing is if one of them is wrong, also not of other components.
        let said = file.ask("set", &["tone.amplitude=0.5", setting, "filter.low=1e3"]);
        said.says(2, words);
        assert_eq!(said.stdout, "");
    }
    // All faults at once.
    file.ask("set", &["tone.frequency=loud", "filter.high=-1"]).says(2, &["`frequency`", "`high`"]);
    for (mistyped, words) in [
        ("frequency=1", "COMPONENT.PROPERTY=VALUE"),
        ("tone.frequency", "COMPONENT.PROPERTY=VALUE"),
        (".frequency=1", "COMPONENT.PROPERTY=VALUE"),
        (&format!("tone.waveform={}", "x".repeat(100_000)), "at most 65536 bytes"),
    ] {
        file.ask("set", &[mistyped]).says(2, &[words]);
    }
    let many: Vec<String> = (0..300).map(|n| format!("tone.amplitude={n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    file.ask("set", &many).says(2, &["from 1 to 256"]);
    // Names and values are other people's words.
    let said = file.ask("set", &["tone.\u{1b}[2Jx=1", "tone.waveform=\u{1b}[31m"]);
    said.says(2, &["no property"]);
    assert!(!said.stderr.contains('\u{1b}'), "{:?}", said.stderr);
    // What only the component knows: it refuses all of it, with its words, and goes on with the old.
    let said = file.ask("set", &["filter.low=9e3", "filter.window=blackman", "tone.amplitude=0.5"]);
    said.says(1, &["filter.low = 9000", "refused", "it must be above `low`, 9000 Hz"]);
    // The other component's are its own.
    assert_eq!(said.stdout, "tone.amplitude = 0.5 (was 1)\n");
    let json = file.json("set", &["filter.low=9e3"]);
    assert_eq!((&json[0]["taken"], &json[0]["values"]["low"]["before"]), (&"refused".into(), &0.0.into()));
    for (place, value) in [("filter.low", "0"), ("filter.window", "hamming"), ("tone.amplitude", "0.5")] {
        assert_eq!(file.ask("get", &[place]).stdout, format!("{value}\n"));
    }
}

#[test]
fn self_tests_run_between_packets() {
    for (placement, processes) in PLACEMENTS {
        self_tests_run(placement, processes);
    }
}

fn self_tests_run(placement: &str, processes: usize) {
    let file = File::radio();
    let _running = file.start(&["--placement", placement], processes);
    let said = file.ask("test", &["filter"]);
    said.says(0, &[]);
    for words in ["filter.passband", "filter.stopband", "passed", "dB at"] {
        assert!(said.stdout.contains(words), "{words}: {}", said.stdout);
    }
    let json = file.json("test", &["filter", "stopband"]);
    assert_eq!((json.as_array().unwrap().len(), &json[0]["result"]["passed"]), (1, &true.into()));
    assert!(json[0]["result"]["value"].as_f64().unwrap() < -50.0, "{json}");
    file.ask("test", &["filter", "pasband"]).says(2, &["no self-test `pasband`", "did you mean `passband`?"]);
    file.ask("test", &["sink"]).says(2, &["`sink` has no self-tests"]);
    file.ask("test", &["skin"]).says(2, &["did you mean `sink`?"]);
}

#[test]
fn a_component_that_does_not_look_is_late_and_looks_later() {
    let file = File::idle();
    let running = file.start(&[], 3);
    let said = file.ask("set", &["filter.high=2e3", "--timeout", "0.2"]);
    said.says(1, &["filter.high = 2000: not applied yet", "waits for a packet", "when the component looks"]);
    assert_eq!(said.stdout, "");
    let reading = file.property("filter.high");
    assert_eq!((&reading["value"], &reading["waiting"]), (&4e3.into(), &2e3.into()));
    let said = file.ask("get", &["filter.high"]);
    said.says(0, &["was set to 2000, which the component has not taken yet"]);
    assert_eq!(said.stdout, "4000\n");
    assert!(file.ask("get", &["filter"]).stdout.contains("4000 (2000 not applied yet)"));
    let said = file.ask("test", &["filter", "--timeout", "0.2"]);
    said.says(1, &["filter.passband was not run", "waits for a packet"]);
    // So many may wait, no more.
    for _ in 0..70 {
        let json = file.json("set", &["filter.high=1e3", "--timeout", "0.001"]);
        if json[0]["taken"] == "refused" {
            assert!(json[0]["reason"].as_str().unwrap().contains("wait for it already"), "{json}");
            let stop = file.ask("stop", &[]);
            stop.says(0, &[]);
            let (code, text) = running.end();
            assert_eq!(code, Some(0));
            // Whoever was told that they would be taken is told that they were not.
            assert!(
                text.contains("warning: filter: did not take high = 2000: the component ended"),
                "{text}"
            );
            return;
        }
        assert_eq!(json[0]["taken"], "not-yet");
    }
    panic!("there is no end to what waits");
}

#[test]
fn a_stopped_process_is_named_and_takes_what_was_set_when_it_goes_on() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let filter = running.component("filter");
    send(filter, Signal::STOP);
    let stopped = format!("its process {filter} is stopped; `kill -CONT {filter}` lets it go on");
    file.ask("set", &["filter.high=2e3", "--timeout", "0.2"]).says(1, &["not applied yet", &stopped]);
    file.ask("test", &["filter", "--timeout", "0.2"]).says(1, &["was not run", &stopped]);
    // Neither is what the launcher knows itself affected, nor what the others say.
    file.ask("get", &["tone.amplitude"]).says(0, &[]);
    assert!(file.property("sink.packets")["value"].is_i64());
    assert_eq!(file.property("filter.high")["waiting"], 2e3);
    // A process that reads nothing must not stop the launcher, however much it is asked.
    let value = "2".repeat(50_000);
    let setting = format!("filter.high=0.{value}");
    for _ in 0..30 {
        let json = file.json("set", &[&setting, "--timeout", "0.001"]);
        assert_ne!(json[0]["taken"], "applied");
    }
    send(running.component("sink"), Signal::STOP);
    let said = file.ask("get", &["sink.packets"]);
    said.says(1, &["sink.packets is not known", "is stopped"]);
    send(running.component("sink"), Signal::CONT);
    send(filter, Signal::CONT);
    wait_until("it has taken them", || {
        let reading = file.property("filter.high");
        reading["waiting"] == Value::Null && reading["changed"] == true
    });
    running.wait_for_line("filter: high = 2000 Hz (was 4000)");
    file.ask("stop", &[]).says(0, &[]);
}

#[test]
fn what_was_set_survives_a_restart() {
    let text = std::fs::read_to_string(File::radio().path("file.toml")).unwrap();
    let text = text.split_once('[').unwrap().1.split_once('[').unwrap().1;
    let text = format!("[{text}")
        .replace("type = \"fir-filter\"", "type = \"fir-filter\"\nrestart = \"on-failure\"");
    let file = File::new(&text);
    let running = file.start(&[], 3);
    file.ask("set", &["filter.high=2e3"]).says(0, &[]);
    let filter = running.component("filter");
    send(filter, Signal::KILL);
    running.wait_for_line("with high = 2000 as it was set");
    wait_until("it runs again", || {
        let listed: Value = serde_json::from_str(&run(&["ls", &file.name, "--json"]).stdout).unwrap();
        let filter = &listed["waveforms"][0]["components"][1];
        filter["restarts"] == 1 && filter["state"] == "running"
    });
    assert_eq!(file.property("filter.high")["value"], 2e3);
    // The component has them, too, not only the launcher: in its words.
    file.ask("set", &["filter.low=3e3"]).says(1, &["`high` is 2000 Hz; it must be above `low`, 3000 Hz"]);
    // What waited when it died is not applied, and said so.
    send(running.component("filter"), Signal::STOP);
    let waiting = std::thread::scope(|scope| {
        let asking = scope.spawn(|| file.json("set", &["filter.high=1e3", "--timeout", "60"]));
        wait_until("it waits", || file.property("filter.high")["waiting"] == 1e3);
        send(running.component("filter"), Signal::KILL);
        asking.join().unwrap()
    });
    assert_eq!(waiting[0]["taken"], "ended", "{waiting}");
    assert_eq!(file.property("filter.high")["value"], 2e3);
    let stopped = file.json("stop", &[]);
    assert_eq!(stopped["waveform"]["components"][1]["set"]["high"], 2e3, "{stopped}");
    assert_eq!(running.end().0, Some(0));
}

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
    stop.says(0, &[]);
    assert_eq!(stop.stdout, "one has ended\n");
    let before = file.property("other.packets")["value"].as_i64();
    wait_until("the other goes on", || file.property("other.packets")["value"].as_i64() > before);
    // What it said last is still known; what it is told is not taken any more.
    assert!(file.property("one.packets")["value"].as_i64() > Some(0));
    file.ask("stop", &["one"]).says(0, &[]);
    file.ask("stop", &["two"]).says(2, &["no component `two`"]);
    file.ask("stop", &["tone"]).says(0, &[]);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");
    file.ask("set", &["tone.amplitude=1"]).says(1, &["no waveform", &file.name]);
}

#[test]
fn a_component_that_has_ended_takes_nothing() {
    let text = "[component.tone]\ntype = \"signal-generator\"\nproperties = { duration_s = 0.1 }\n\
        [component.end]\ntype = \"null-sink\"\n\
        [component.other]\ntype = \"signal-generator\"\nproperties = { rate = 48e3 }\n\
        [component.last]\ntype = \"null-sink\"\n\
        [[connection]]\nfrom = \"tone.out\"\nto = \"end.in\"\n\
        [[connection]]\nfrom = \"other.out\"\nto = \"last.in\"\n";
    let file = File::new(text);
    let _running = file.start(&[], 4);
    let ended = || {
        let listed: Value = serde_json::from_str(&run(&["ls", &file.name, "--json"]).stdout).unwrap();
        listed["waveforms"][0]["components"][0]["state"] == "ended"
    };
    wait_until("it has ended", ended);
    file.ask("set", &["tone.amplitude=0.5"])
        .says(1, &["tone.amplitude = 0.5: not applied: the component has ended"]);
    assert_eq!(file.ask("get", &["tone.amplitude"]).stdout, "1\n");
    assert_eq!(file.ask("get", &["end.packets"]).code, Some(0));
}

#[test]
fn a_waveform_that_is_still_starting_can_be_asked_and_stopped() {
    let file = File::new(
        r#"
        [component.source]
        type = "file-source"
        properties = { path = "pipe", format = "cf32" }
        [component.filter]
        type = "fir-filter"
        properties = { high = 4e3, sample_rate = 48e3 }
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "source.out"
        to = "filter.in"
        [[connection]]
        from = "filter.out"
        to = "sink.in"
        "#,
    );
    // A pipe that nobody writes to: it is never opened.
    assert!(Command::new("mkfifo").arg(file.path("pipe")).status().unwrap().success());
    let mut run = stripline();
    run.args(["run", file.path("file.toml").to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = run.spawn().unwrap();
    let state = |component: usize| {
        let listed: Value = serde_json::from_str(&common::run(&["ls", "--json"]).stdout).unwrap();
        let mut waveforms = listed["waveforms"].as_array().unwrap().iter();
        let mine = waveforms.find(|waveform| waveform["name"] == *file.name)?.clone();
        Some((mine["phase"].clone(), mine["components"][component]["state"].clone()))
    };
    wait_until("the filter is made", || state(1) == Some(("starting".into(), "ready".into())));
    file.ask("set", &["filter.high=2e3", "--timeout", "0.1"])
        .says(1, &["not applied yet", "has not been started yet"]);
    assert_eq!(state(0), Some(("starting".into(), "starting".into())));
    file.ask("test", &["filter", "--timeout", "0.1"]).says(1, &["was not run", "has not been started yet"]);
    file.ask("get", &["sink.packets"]).says(0, &[]);
    let stop = file.ask("stop", &[]);
    stop.says(0, &[]);
    assert!(stop.stdout.contains("was stopped before it ran"), "{}", stop.stdout);
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("filter: did not take high = 2000"), "{said}");
}

#[test]
fn stop_now_ends_everything_at_once() {
    let file = File::idle();
    let running = file.start(&[], 3);
    let pid = running.pid();
    assert_eq!(sockets_of(pid).len(), 1);
    file.ask("stop", &["filter", "--now"]).says(2, &["--now"]);
    let components = running.components();
    file.ask("stop", &["--now"]).says(0, &[]);
    let (code, text) = running.end();
    // As after a second Ctrl-C.
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("ended at once by `stripline stop --now`"), "{text}");
    assert!(components.iter().all(|(_, pid)| !is_alive(*pid)));
    assert_eq!(sockets_of(pid), Vec::<String>::new());
    file.ask("stop", &[]).says(1, &["no waveform"]);
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
fn a_launcher_that_dies_or_is_stopped_is_no_silent_hang() {
    let file = File::idle();
    let running = file.start(&[], 3);
    send(running.pid(), Signal::STOP);
    let pid = running.pid().to_string();
    file.ask("get", &["--pid", &pid])
        .says(1, &["is stopped and does not answer", &format!("kill -CONT {pid}")]);
    file.ask("get", &[])
        .says(1, &[&format!("launcher of `{}`", file.name), "is stopped and does not answer"]);
    // What has another name is asked all the same.
    let other = File::radio();
    let _other = other.start(&[], 3);
    other.ask("get", &[]).says(0, &[]);
    assert!(run(&["ls"]).stderr.contains(&format!("process {pid}")));
    send(running.pid(), Signal::CONT);
    // In the middle of a request, and of a stop.
    for arguments in [&["set", "filter.high=2e3", "--timeout", "600"][..], &["stop", "filter"]] {
        let file = File::idle();
        let running = file.start(&[], 3);
        if arguments[0] == "stop" {
            send(running.component("filter"), Signal::STOP);
        }
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| file.ask(arguments[0], &arguments[1..]));
            if arguments[0] == "set" {
                wait_until("it waits", || file.property("filter.high")["waiting"] == 2e3);
            }
            wait_until("it has been asked", || !sockets_of(running.pid()).is_empty());
            send(running.pid(), Signal::KILL);
            let said = asking.join().unwrap();
            assert_eq!(said.code, Some(1), "{}", said.stderr);
            let gone =
                said.stderr.contains("ended before it answered") || said.stderr.contains("no waveform");
            assert!(gone, "{}", said.stderr);
        });
        wait_until("nothing is left of it", || sockets_of(running.pid()).is_empty());
    }
}

#[test]
fn of_several_with_one_name_one_is_chosen_by_its_process() {
    let file = File::radio();
    let (one, other) = (file.start(&[], 3), file.start(&[], 3));
    let pids = [one.pid().to_string(), other.pid().to_string()];
    for (command, arguments) in
        [("get", &[][..]), ("set", &["tone.amplitude=2"]), ("stop", &[]), ("test", &["filter"])]
    {
        file.ask(command, arguments).says(1, &["2 waveforms", &pids[0], &pids[1], "--pid"]);
    }
    file.ask("set", &["--pid", &pids[0], "tone.amplitude=2"]).says(0, &[]);
    assert_eq!(file.ask("get", &["--pid", &pids[0], "tone.amplitude"]).stdout, "2\n");
    assert_eq!(file.ask("get", &["--pid", &pids[1], "tone.amplitude"]).stdout, "1\n");
    file.ask("get", &["--pid", "1"]).says(1, &["no waveform", "in process 1", &pids[0]]);
    file.ask("stop", &["--pid", &pids[0]]).says(0, &[]);
    // The name alone is enough again.
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!((one.end().0, other.end().0), (Some(0), Some(0)));
}

#[test]
fn many_may_ask_at_once() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    std::thread::scope(|scope| {
        let asking: Vec<_> = (1..=12)
            .map(|n| {
                let file = &file;
                scope.spawn(move || file.ask("set", &[&format!("tone.amplitude=0.{n}"), "filter.high=5e3"]))
            })
            .collect();
        for ask in asking {
            ask.join().unwrap().says(0, &[]);
        }
    });
    assert_eq!(file.ask("get", &["filter.high"]).stdout, "5000\n");
}

#[test]
fn hostile_requests_harm_nobody() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let (_node, service) = service_of(running.pid());
    // Somebody else's types, and operations that are not there.
    for (operation, request) in [
        ("set", json!({"settings": "all of them"})),
        ("set", json!([1, 2, 3])),
        ("stop", json!("now")),
        ("explode", json!(null)),
    ] {
        let operation = service.operation::<Value, Value, Value>(operation).unwrap();
        let error = operation.call(&request).unwrap_err();
        assert!(matches!(error, CallError::Refused { .. }), "{error}");
    }
    let wrong = |operation: &str, request: Value, words: &str| {
        let operation = service.operation::<Value, Value, Value>(operation).unwrap();
        let CallError::User(fault) = operation.call(&request).unwrap_err() else { panic!("{words}") };
        assert!(fault["wrong"][0].as_str().unwrap().contains(words), "{words}: {fault}");
    };
    let set = |settings: Value, timeout_ms: u64| json!({"folder": null, "settings": settings, "timeout_ms": timeout_ms});
    wrong("set", set(json!([]), 0), "from 1 to 256");
    let setting = |component: &str, value: &str| json!({"component": component, "property": "waveform", "value": value});
    wrong("set", set(json!(vec![setting("tone", "sine"); 1000]), 0), "from 1 to 256");
    wrong("set", set(json!([setting(&"x".repeat(1 << 20), "sine")]), u64::MAX), "no component");
    wrong("set", set(json!([setting("tone", &"x".repeat(1 << 20))]), u64::MAX), "must be one of");
    wrong("test", json!({"component": "", "tests": [], "timeout_ms": u64::MAX}), "no component");
    // Whoever hangs is not waited for, and whoever hangs up is not missed.
    let name = sockets_of(running.pid()).pop().unwrap();
    let mut hanging: Vec<UnixStream> = (0..8).map(|_| connect(&name)).collect();
    let _ = hanging[0].write_all(&[0xff; 64]);
    drop(connect(&name));
    let operation = service.operation::<Value, Value, Value>("set").unwrap();
    let amplitude = json!([{"component": "tone", "property": "amplitude", "value": "0.5"}]);
    operation.start(&set(amplitude, 1000)).unwrap().cancel();
    wait_until("it was heard all the same", || file.ask("get", &["tone.amplitude"]).stdout == "0.5\n");
    // Nor does anybody take a place for good.
    for _ in 0..150 {
        file.ask("get", &["tone.amplitude"]).says(0, &[]);
    }
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn forged_launchers_are_told_apart() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    let me = std::process::id();
    let forge = |number: u32, say: fn(UnixStream)| {
        let name = format!("{}{:016x}-{me}-{number:016x}", prefix(), 0);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        std::thread::spawn(move || listener.incoming().for_each(|stream| say(stream.unwrap())));
    };
    forge(1, |mut stream| drop(stream.write_all(b"\x1b[2J{\"version\": 1")));
    forge(2, |mut stream| drop(stream.write_all(&u32::MAX.to_le_bytes())));
    // Neither a word nor an end: kept until the test is over.
    forge(3, std::mem::forget);
    // A launcher of another version, which has another name.
    let other = format!("stripline-{}-run-2-{:016x}-{me}-{:016x}", rustix::process::geteuid().as_raw(), 0, 4);
    let _other = UnixListener::bind_addr(&SocketAddr::from_abstract_name(other).unwrap()).unwrap();
    let listed = run(&["ls"]);
    listed.says(0, &[&format!("process {me}) does not answer"), "speaks version 2 of this protocol, not 1"]);
    assert!(!listed.stderr.contains('\u{1b}'), "{:?}", listed.stderr);
    assert!(listed.stdout.contains(&file.name));
    file.ask("get", &["tone.amplitude"]).says(0, &[]);
    run(&["get", "no-such-waveform"]).says(1, &["no waveform", &format!("process {me} does not answer")]);
}

#[test]
fn another_user_is_not_answered() {
    if let Ok(name) = std::env::var(PLAY) {
        return ask_as_another_user(&name);
    }
    if !rustix::process::geteuid().is_root() {
        println!("NOT TESTED: only root can start a process of another user");
        return;
    }
    let file = File::radio();
    let running = file.start(&[], 3);
    let mut command = stripline();
    command.args(["set", &file.name, "tone.amplitude=0.5"]).uid(ANOTHER_USER).gid(ANOTHER_USER);
    let Ok(output) = command.output() else {
        println!("NOT TESTED: another user cannot start the command where it was built");
        return;
    };
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("of this user is running"));
    let mut play = Command::new(std::env::current_exe().unwrap());
    play.args(["--exact", "another_user_is_not_answered", "--nocapture"]);
    play.env(PLAY, sockets_of(running.pid()).pop().unwrap()).stdin(Stdio::null());
    let output = play.uid(ANOTHER_USER).gid(ANOTHER_USER).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(file.ask("get", &["tone.amplitude"]).stdout, "1\n");
}

/// In a process of another user, which knows the socket's name.
fn ask_as_another_user(name: &str) {
    let mut stream = connect(name);
    let mut answer = Vec::new();
    // Hung up on, one way or another, before it has heard of anything that is offered.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "another user was told {} bytes", answer.len());
}

#[test]
fn a_waveform_is_not_waited_for_when_it_is_not_there() {
    let said = run(&["get", "no-such-waveform-anywhere"]);
    said.says(1, &["no waveform `no-such-waveform-anywhere` of this user is running"]);
    let file = File::radio();
    let _running = file.start(&[], 3);
    let near = format!("{}x", file.name);
    run(&["stop", &near]).says(1, &["no waveform", &format!("did you mean `{}`?", file.name)]);
    run(&["ls", "no-such-waveform-anywhere"]).says(1, &["no waveform"]);
}
