//! The trace of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common::waveform::File;
use crate::common::{Run, Running, repository, run, send, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Returns the complete lines of a trace as events, and whether the file is complete.
fn events(text: &str) -> (Vec<Value>, bool) {
    if let Ok(Value::Array(events)) = serde_json::from_str(text) {
        return (events, true);
    }
    let whole = &text[..=text.rfind('\n').unwrap()];
    let mut lines = whole.lines();
    assert_eq!(lines.next(), Some("["));
    let event = |line: &str| serde_json::from_str(line.strip_suffix(',').unwrap()).unwrap();
    (lines.map(event).collect(), false)
}

/// Asserts that events are in order, that their tracks were named before, and that slices are
/// closed once. Returns the names of the tracks.
fn check(events: &[Value]) -> BTreeMap<u64, String> {
    let mut tracks = BTreeMap::new();
    let mut open = BTreeSet::new();
    let mut before = 0;
    for event in events {
        let track = event["pid"].as_u64().unwrap();
        let time = event["ts"].as_u64().unwrap();
        assert!(time >= before, "{event}");
        before = time;
        match event["ph"].as_str().unwrap() {
            "M" if event["name"] == "process_name" => {
                let name = event["args"]["name"].as_str().unwrap();
                assert_eq!(tracks.insert(track, name.to_string()), None, "{event}");
                continue;
            }
            "M" => {}
            "B" => assert!(open.insert(track), "{event}"),
            "E" => assert!(open.remove(&track), "{event}"),
            "C" => assert!(event["args"].as_object().unwrap().values().all(Value::is_number), "{event}"),
            "i" => assert!(event["name"].is_string(), "{event}"),
            other => panic!("{other}"),
        }
        assert!(tracks.contains_key(&track), "no track: {event}");
    }
    tracks
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Starts an endless receiver in which a component may fail.
fn start(folder: &Path, trace: &Path) -> (Running, String) {
    let name = format!("traced-{}-{}", std::process::id(), folder.file_name().unwrap().to_str().unwrap());
    let name = name.replace('.', "");
    let path = folder.join("traced.toml");
    let text = format!(
        "[waveform]\nname = \"{name}\"\n[component.source]\ntype = \"signal-generator\"\n\
         properties = {{ rate = 48e3, packet = 480 }}\n\
         [component.filter]\ntype = \"fir-filter\"\nrestart = \"on-failure\"\n\
         properties = {{ high = 5e3 }}\n[component.end]\ntype = \"null-sink\"\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"filter.in\"\n\
         [[connection]]\nfrom = \"filter.out\"\nto = \"end.in\"\n"
    );
    std::fs::write(&path, text).unwrap();
    let arguments = ["run", path.to_str().unwrap(), "--trace", trace.to_str().unwrap()];
    (Running::start(&arguments, 3), name)
}

#[test]
fn a_trace_has_a_restart_a_change_counters_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let (running, name) = start(folder.path(), &path);
    run(&["set", &name, "filter.high=6e3"]).says(0, &[]);
    send(running.component("filter"), Signal::KILL);
    let restarted = || read(&path).matches("\"name\":\"running\",\"ph\":\"B\"").count() == 4;
    wait_until("the filter runs again", restarted);
    let is_sampled = |event: &Value| {
        event["name"] == "source.out -> filter.in bytes/s"
            && event["args"]["bytes/s"].as_f64().is_some_and(|rate| rate > 0.0)
    };
    wait_until("counters are sampled", || events(&read(&path)).0.iter().any(is_sampled));
    running.signal(Signal::INT);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");

    let (events, is_complete) = events(&read(&path));
    assert!(is_complete);
    let tracks = check(&events);
    let names: Vec<&str> = tracks.values().map(String::as_str).collect();
    assert_eq!(names, [name.as_str(), "source", "filter", "end"]);
    let marks = |track: &str| -> Vec<(String, String)> {
        let of = |event: &&Value| event["ph"] == "i" && tracks[&event["pid"].as_u64().unwrap()] == track;
        let pair = |event: &Value| {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_string();
            (text("cat"), text("name"))
        };
        events.iter().filter(of).map(pair).collect()
    };
    let position = |category: &str, words: &str| {
        let found = marks("filter").iter().position(|(kind, text)| kind == category && text.contains(words));
        found.unwrap_or_else(|| panic!("no {category} `{words}`: {:?}", marks("filter")))
    };
    let order = [
        position("step", "started"),
        position("step", "ready"),
        position("step", "running"),
        position("property", "high = 6"),
        position("step", "was killed (SIGKILL)"),
        position("warn", "it is started again"),
        position("step", "restart 1"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert!(marks(&name).iter().any(|(_, text)| text == "stopping in order (Ctrl-C)"), "{:?}", marks(&name));
    assert!(events.iter().any(is_sampled));
}

#[test]
fn a_trace_of_a_killed_launcher_can_be_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let (running, _) = start(folder.path(), &path);
    wait_until("counters are sampled", || read(&path).contains("\"ph\":\"C\""));
    send(running.pid(), Signal::KILL);
    let _ = running.end();
    let (events, is_complete) = events(&read(&path));
    assert!(!is_complete);
    assert_eq!(check(&events).len(), 4);
    assert_eq!(events.iter().filter(|event| event["ph"] == "B").count(), 3);
}

#[test]
fn a_trace_that_cannot_be_written_is_reported_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let earlier = folder.path().join("trace.json");
    std::fs::write(&earlier, "of an earlier run").unwrap();
    let waveform = repository("waveforms/adsb.toml");
    let run_with = |trace: &str| {
        let arguments = ["run", waveform.to_str().unwrap(), "--set", "source.rate=0", "--trace", trace];
        run(&[&arguments[..], &["--set", "source.duration_s=1"]].concat())
    };
    run_with("/nowhere/trace.json").says(2, &["error: cannot write /nowhere/trace.json: No such file"]);
    run_with(earlier.to_str().unwrap()).says(2, &["trace.json: the file exists already: name another one"]);
    assert_eq!(read(&earlier), "of an earlier run");
    run_with("/dev/full").says(2, &["error: cannot write /dev/full: No space left"]);
    // An empty trace would be refused by the next run.
    let fresh = folder.path().join("fresh.json");
    let limited = format!(
        "trap '' XFSZ; ulimit -f 0; exec {} run {} --trace {}",
        env!("CARGO_BIN_EXE_stripline"),
        waveform.display(),
        fresh.display()
    );
    let done = std::process::Command::new("sh").args(["-c", &limited]).output().unwrap();
    Run::of(done).says(2, &["fresh.json: File too large"]);
    assert!(!fresh.exists());
}

#[test]
fn a_trace_and_a_log_that_are_removed_meanwhile_are_reported() {
    let file = File::radio();
    let [trace, log] = ["trace.json", "run.log"].map(|name| file.path(name));
    let options = ["--trace", trace.to_str().unwrap(), "--log-file", log.to_str().unwrap()];
    let running = file.start(&options, 3);
    std::fs::remove_file(trace).unwrap();
    std::fs::remove_file(log).unwrap();
    running.signal(Signal::INT);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");
    for (option, name) in [("--trace", "trace.json"), ("--log-file", "run.log")] {
        let problem = format!("{name} was removed or replaced while it was written: its lines are lost");
        let is_reported = |line: &str| line.contains(option) && line.contains(&problem);
        assert!(text.lines().any(is_reported), "{text}");
    }
}
