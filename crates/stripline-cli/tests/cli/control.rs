//! `stripline get`, `set` and `test` against real runs.

use std::process::Stdio;

use crate::common::waveform::{File, PLACEMENTS};
use crate::common::{example, run, send, stripline, wait_until};
use rustix::process::Signal;
use serde_json::Value;

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
        file.ask("get", &["level.amplitude"]).prints("1\n");
        let set = file.ask("set", &["level.amplitude=0.25"]);
        set.prints("level.amplitude = 0.25 (was 1)\n");
        running.wait_for_line("level: amplitude = 0.25 (was 1)");
        file.ask("get", &["level.amplitude"]).prints("0.25\n");
        // Another value is set just before the end. The value sent before it still arrives.
        file.ask("set", &["level.amplitude=-1", "level.offset=0.5"]).says(0, &[]);
        let stop = file.ask("stop", &[]);
        stop.says(0, &[]);
        assert!(stop.stdout.contains("stopped (stripline stop) after"), "{}", stop.stdout);
        assert!(stop.stdout.contains("level.out -> recorder.in"), "{}", stop.stdout);
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{text}");
        let bytes = std::fs::read(file.path("level.raw")).unwrap();
        // Each sample is complex. Only the real part is compared.
        let real = |sample: &[u8]| f32::from_le_bytes(sample[..4].try_into().unwrap());
        let mut levels: Vec<f32> = bytes.chunks_exact(8).map(real).collect();
        levels.dedup();
        assert!([1.0, 0.25].iter().zip(&levels).all(|(a, b)| a == b), "{levels:?}");
        // Both changes apply at once, so no sample has only one of them.
        assert!(levels.iter().all(|level| [1.0, 0.25, -0.5].contains(level)), "{levels:?}");
    }
}

/// Writes a tone with these properties through the example handler, with the given dispatch.
fn handled(tone: &str, dispatch: &str) -> File {
    File::new(&format!(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = {{ {tone} }}
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
    ))
}

#[test]
fn a_handler_takes_what_is_set_whatever_runs_it() {
    for dispatch in ["queue", "pool(3)"] {
        let file = handled("rate = 48e3, packet = 480", dispatch);
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
    // Output to a pipe is not cut.
    assert!(text.stdout.contains("kaiser by `attenuation`"), "{}", text.stdout);
    assert!(!file.ask("get", &["filter"]).stdout.contains("tone."));
    file.ask("set", &["filter.high=3e3"]).says(0, &[]);
    assert_eq!(file.property("filter.high")["changed"], true);
    assert!(file.ask("get", &["filter"]).stdout.contains("3000 (changed)"));
    file.ask("get", &["fliter"]).says(2, &["no component `fliter`", "did you mean `filter`?"]);
    file.ask("get", &["filter.hgih"]).says(2, &["no property `hgih`", "did you mean `high`?"]);
    // The list of running waveforms has the component, too.
    let listed = run(&["waveforms", &file.name]);
    listed.says(0, &[]);
    for words in [&file.name, "running", "fir-filter", "passband, stopband"] {
        assert!(listed.stdout.contains(words), "{words}: {}", listed.stdout);
    }
    assert!(run(&["waveforms"]).stdout.contains(&file.name));
    let json: Value = serde_json::from_str(&run(&["waveforms", "--json"]).stdout).unwrap();
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
        ("tone.rate_hz=1", &["no property `rate_hz`", "its properties are"]),
        ("tone.sample=1", &["no property `sample`", "did you mean `sample_rate`?"]),
        ("tone.frequency=loud", &["`frequency` takes a number, not `loud`"]),
        ("tone.frequency=1 kHz", &["not `1 kHz`; write the number alone, in Hz: 1000"]),
        ("filter.high=-1", &["`high` is -1; it must be from 0 to 1e12"]),
        ("tone.waveform=sin", &["must be one of sine, square"]),
        ("tone.sample_rate=96e3", &["cannot be changed while it runs", "--set tone.sample_rate="]),
        ("sink.packets=0", &["is read-only"]),
    ] {
        // If one value of a group of settings is wrong, none of the group is applied, in any
        // component.
        let printed = file.ask("set", &["tone.amplitude=0.5", setting, "filter.low=1e3"]);
        printed.says(2, words);
        assert_eq!(printed.stdout, "");
    }
    // All problems are reported at once.
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
    // Names and values come from other users, so they are escaped.
    let printed = file.ask("set", &["tone.\u{1b}[2Jx=1", "tone.waveform=\u{1b}[31m"]);
    printed.says(2, &["no property"]);
    assert!(!printed.stderr.contains('\u{1b}'), "{:?}", printed.stderr);
    // Only the component can check this rule. The component refuses the whole group with its own
    // message, and continues with the old values.
    let printed = file.ask("set", &["filter.low=9e3", "filter.window=blackman", "tone.amplitude=0.5"]);
    printed.says(1, &["filter.low = 9000", "refused", "it must be above `low`, 9000 Hz"]);
    // The settings of the other component are independent.
    assert_eq!(printed.stdout, "tone.amplitude = 0.5 (was 1)\n");
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
    let printed = file.ask("test", &["filter"]);
    printed.says(0, &[]);
    for words in ["filter.passband", "filter.stopband", "passed", "dB at"] {
        assert!(printed.stdout.contains(words), "{words}: {}", printed.stdout);
    }
    let json = file.json("test", &["filter", "stopband"]);
    assert_eq!((json.as_array().unwrap().len(), &json[0]["result"]["passed"]), (1, &true.into()));
    assert!(json[0]["result"]["value"].as_f64().unwrap() < -50.0, "{json}");
    file.ask("test", &["filter", "pasband"]).says(2, &["no self-test `pasband`", "did you mean `passband`?"]);
    file.ask("test", &["sink"]).says(2, &["`sink` has no self-tests"]);
    file.ask("test", &["skin"]).says(2, &["did you mean `sink`?"]);
}

#[test]
fn a_component_that_waits_for_a_packet_is_woken() {
    let ways = [
        ("processes", 3, ""),
        ("threads", 1, ""),
        ("processes", 3, "resequence = { window = 8, skip-after-ms = 10 }"),
    ];
    for (placement, processes, key) in ways {
        let file = File::idle();
        let path = file.path("file.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let to = "to = \"filter.in\"";
        std::fs::write(&path, text.replace(to, &format!("{to}\n{key}"))).unwrap();
        let running = file.start(&["--placement", placement], processes);
        let set = file.ask("set", &["filter.high=2e3", "--timeout", "60"]);
        set.prints("filter.high = 2000 Hz (was 4000)\n");
        file.ask("set", &["filter.low=3e3", "--timeout", "60"]).says(1, &["refused", "above `low`, 3000 Hz"]);
        file.ask("test", &["filter", "--timeout", "60"]).says(0, &[]);
        assert_eq!(file.property("filter.high")["value"], 2e3);
        file.ask("stop", &[]).says(0, &[]);
        assert_eq!(running.end().0, Some(0));
    }
}

#[test]
fn what_cannot_be_judged_without_a_packet_waits_for_one() {
    let file = File::idle_without_rate();
    let running = file.start(&[], 3);
    // Too narrow for a filter at any usual rate: it would fail with the first packet.
    file.ask("set", &["filter.high=0.2", "--timeout", "0.2"]).says(1, &["not applied yet"]);
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_handler_that_waits_for_a_packet_is_woken() {
    for (dispatch, transport) in [("queue", "shm"), ("direct", "uds"), ("pool(3)", "shm"), ("pool(2)", "tcp")]
    {
        let file = handled("rate = 1e-3", dispatch);
        let running = file.start(&["--transport", transport], 3);
        file.ask("set", &["power.pause=0.5", "--timeout", "60"]).says(0, &[]);
        assert_eq!(file.property("power.pause")["value"], 0.5, "{dispatch}");
        file.ask("stop", &[]).says(0, &[]);
        assert_eq!(running.end().0, Some(0));
    }
}

#[test]
fn a_component_that_does_not_look_is_late_and_looks_later() {
    let file = File::idle();
    let running = file.start(&[], 3);
    let printed = file.ask("set", &["source.amplitude=2", "--timeout", "0.2"]);
    printed.says(
        1,
        &[
            "source.amplitude = 2: not applied yet",
            "or for its time",
            "when the component checks for requests",
        ],
    );
    assert_eq!(printed.stdout, "");
    let reading = file.property("source.amplitude");
    assert_eq!((&reading["value"], &reading["waiting"]), (&1.0.into(), &2.0.into()));
    let printed = file.ask("get", &["source.amplitude"]);
    printed.says(0, &["was set to 2, which the component has not applied yet"]);
    assert_eq!(printed.stdout, "1\n");
    assert!(file.ask("get", &["source"]).stdout.contains("1 (2 not applied yet)"));
    // The number of waiting requests is limited.
    for _ in 0..70 {
        let json = file.json("set", &["source.amplitude=3", "--timeout", "0.001"]);
        if json[0]["taken"] == "refused" {
            assert!(json[0]["reason"].as_str().unwrap().contains("wait for it already"), "{json}");
            let stop = file.ask("stop", &[]);
            stop.says(0, &[]);
            let (code, text) = running.end();
            assert_eq!(code, Some(0));
            // A client that got the reply "passed on" is also informed that the change was not
            // applied.
            assert!(
                text.contains("warning: source: did not take amplitude = 2: the component ended"),
                "{text}"
            );
            return;
        }
        assert_eq!(json[0]["taken"], "not-yet");
    }
    panic!("there is no end to what waits");
}

#[test]
fn whoever_does_not_wait_for_a_setting_is_told_that_it_stays() {
    let file = File::radio();
    let running = file.start(&[], 3);
    send(running.component("filter"), Signal::STOP);
    let mut set = stripline();
    set.args(["set", &file.name, "filter.high=2e3", "--timeout", "600"]);
    let set = set.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it waits", || file.property("filter.high")["waiting"] == 2e3);
    send(set.id(), Signal::INT);
    let output = set.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("filter.high = 2000 is not applied yet; it will be"), "{printed}");
    assert!(printed.contains(&format!("stripline set {} filter.high=4000", file.name)), "{printed}");
    send(running.component("filter"), Signal::CONT);
    wait_until("it is taken", || file.property("filter.high")["value"] == 2e3);
}

#[test]
fn a_stopped_process_is_named_and_takes_what_was_set_when_it_goes_on() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let filter = running.component("filter");
    send(filter, Signal::STOP);
    let stopped = format!("its process {filter} is stopped; `kill -CONT {filter}` resumes it");
    file.ask("set", &["filter.high=2e3", "--timeout", "0.2"]).says(1, &["not applied yet", &stopped]);
    file.ask("test", &["filter", "--timeout", "0.2"]).says(1, &["was not run", &stopped]);
    // Neither the launcher's own data nor the other components are affected.
    file.ask("get", &["tone.amplitude"]).says(0, &[]);
    assert!(file.property("sink.packets")["value"].is_i64());
    assert_eq!(file.property("filter.high")["waiting"], 2e3);
    // A process that never reads its requests must not block the launcher, even with many requests.
    let value = "2".repeat(50_000);
    let setting = format!("filter.high=0.{value}");
    for _ in 0..30 {
        let json = file.json("set", &[&setting, "--timeout", "0.001"]);
        assert_ne!(json[0]["taken"], "applied");
    }
    send(running.component("sink"), Signal::STOP);
    let printed = file.ask("get", &["sink.packets"]);
    printed.says(1, &["sink.packets is unavailable", "is stopped"]);
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
    let file = File::radio_with("restart = \"on-failure\"");
    let running = file.start(&[], 3);
    file.ask("set", &["filter.high=2e3"]).says(0, &[]);
    let filter = running.component("filter");
    send(filter, Signal::KILL);
    running.wait_for_line("with high = 2000 as it was set");
    wait_until("it runs again", || {
        let listed: Value = serde_json::from_str(&run(&["waveforms", &file.name, "--json"]).stdout).unwrap();
        let filter = &listed["waveforms"][0]["components"][1];
        filter["restarts"] == 1 && filter["state"] == "running"
    });
    assert_eq!(file.property("filter.high")["value"], 2e3);
    // The component itself has the new property, not only the launcher. The message is from the
    // component.
    file.ask("set", &["filter.low=3e3"]).says(1, &["`high` is 2000 Hz; it must be above `low`, 3000 Hz"]);
    // A change that is waiting when the component dies is not applied, and this is reported.
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
        let listed: Value = serde_json::from_str(&run(&["waveforms", &file.name, "--json"]).stdout).unwrap();
        listed["waveforms"][0]["components"][0]["state"] == "ended"
    };
    wait_until("it has ended", ended);
    file.ask("set", &["tone.amplitude=0.5"])
        .says(1, &["tone.amplitude = 0.5: not applied: the component has ended"]);
    file.ask("get", &["tone.amplitude"]).prints("1\n");
    assert_eq!(file.ask("get", &["end.packets"]).code, Some(0));
}
