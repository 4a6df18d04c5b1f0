//! The report of a run names a source that was held up, and the receiver that held it up.

use crate::common::waveform::File;
use crate::common::{run, wait_until};
use serde_json::Value;

/// Writes a source, a component that keeps up with it, and a throttle with a hundredth of the
/// source's pace.
///
/// The throttle takes 100 ms for a packet. No machine makes the other component slower than that.
fn held_up(overflow: &str) -> File {
    // On `tcp`, the kernel may hold 30 MB, which is all data sent in that time.
    let flow = if overflow == "block" { "flow = \"credit\"" } else { "" };
    File::new(&format!(
        r#"
        [component.source]
        type = "signal-generator"
        properties = {{ rate = 4.8e6, output = "f32", packet = 4800 }}
        [component.level]
        type = "tee"
        [component.slow]
        type = "throttle"
        properties = {{ rate = 48e3 }}
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "source.out"
        to = "level.in"
        depth = 4
        flow = "credit"
        [[connection]]
        from = "level.out1"
        to = "slow.in"
        depth = 4
        overflow = "{overflow}"
        {flow}
        [[connection]]
        from = "slow.out"
        to = "sink.in"
        "#
    ))
}

/// Runs the waveform for two seconds. Returns the printed text and the report.
fn ran(file: &File, options: &[&str]) -> (String, Value) {
    let (waveform, result) = (file.path("file.toml"), file.path("result.json"));
    let (waveform, result) = (waveform.to_str().unwrap(), result.to_str().unwrap());
    let ended = run(&[&["run", waveform, "--duration", "2", "--output", result][..], options].concat());
    ended.says(0, &[]);
    (ended.stdout.replace("\n  ", " "), serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap())
}

#[test]
fn the_report_names_the_receiver_that_holds_a_source_up() {
    let file = held_up("block");
    for options in [
        &["--transport", "shm"][..],
        &["--placement", "threads"],
        &["--transport", "uds"],
        &["--transport", "tcp"],
    ] {
        let (text, report) = ran(&file, options);
        for words in
            ["source is ", " behind its pace: ", "held up by level.out1 -> slow.in (", "a packet takes"]
        {
            assert!(text.contains(words), "{options:?}: no {words:?} in {text}");
        }
        let pace = &report["components"][0]["pace"];
        assert_eq!(pace["rate"], 4.8e6, "{report}");
        assert!(pace["achieved_rate"].as_f64() < Some(4.5e6), "{report}");
        assert!(pace["behind_max_s"].as_f64() >= pace["behind_s"].as_f64(), "{report}");
        let held = &pace["held_up_by"];
        assert_eq!(held["connection"], "level.out1 -> slow.in", "{report}");
        assert!(held["service_mean_ns"].as_f64() > Some(0.0), "{report}");
        assert!(report["connections"][1]["full"].as_f64() > Some(0.0), "{report}");
        // The throttle has no pace in the report.
        assert!(report["components"][2].get("pace").is_none(), "{report}");
    }
}

/// Runs a chain of throttles. A throttle that is late passes a packet on at once, so all queues
/// before the slowest one fill. The sink does next to nothing.
#[test]
fn the_slowest_component_of_a_chain_of_full_queues_is_named() {
    let throttle = |name: &str, rate: u32| {
        format!("[component.{name}]\ntype = \"throttle\"\nproperties = {{ rate = {rate} }}\n")
    };
    let connection = |from: &str, to: &str| {
        format!("[[connection]]\nfrom = \"{from}.out\"\nto = \"{to}.in\"\ndepth = 2\n")
    };
    let file = File::new(&format!(
        r#"
        [component.source]
        type = "signal-generator"
        properties = {{ rate = 480e3, output = "f32", packet = 2400 }}
        [component.sink]
        type = "null-sink"
        {}{}{}{}{}{}{}"#,
        throttle("first", 210_000),
        throttle("second", 140_000),
        throttle("third", 48_000),
        connection("source", "first"),
        connection("first", "second"),
        connection("second", "third"),
        connection("third", "sink"),
    ));
    for options in [&["--transport", "shm"][..], &["--placement", "threads"], &["--transport", "uds"]] {
        let (text, report) = ran(&file, options);
        let held = &report["components"][0]["pace"]["held_up_by"];
        assert_eq!(held["connection"], "second.out -> third.in", "{options:?}: {report}");
        assert!(text.contains("held up by second.out -> third.in (its queue was full for "), "{text}");
    }
}

#[test]
fn a_receiver_that_drops_holds_up_nothing() {
    let (_, report) = ran(&held_up("drop-oldest"), &[]);
    assert!(report["connections"][1]["lost"].as_u64() > Some(0), "{report}");
    let pace = &report["components"][0]["pace"];
    assert_eq!(pace["rate"], 4.8e6, "{report}");
    assert_ne!(pace["held_up_by"]["connection"], "level.out1 -> slow.in", "{report}");
}

/// Writes a source that waits for a slow receiver, and a display that is not slow.
///
/// The slow receiver takes 200 ms for a packet. No machine makes the display slower than that.
fn acknowledged(overflow: &str, deadline: &str) -> File {
    File::new(&format!(
        r#"
        [component.source]
        type = "signal-generator"
        properties = {{ rate = 4.8e6, output = "f32", packet = 48000 }}
        [component.slow]
        type = "throttle"
        properties = {{ rate = 240e3 }}
        [component.sink]
        type = "null-sink"
        [component.display]
        type = "null-sink"
        [[connection]]
        from = "source.out"
        to = "slow.in"
        overflow = "{overflow}"
        scope = "target"
        {deadline}
        [[connection]]
        from = "source.out"
        to = "display.in"
        [[connection]]
        from = "slow.out"
        to = "sink.in"
        "#
    ))
}

#[test]
fn a_receiver_that_acknowledges_late_is_the_reason_under_any_policy() {
    for overflow in ["block", "drop-oldest"] {
        for transport in ["shm", "tcp"] {
            let (text, report) = ran(&acknowledged(overflow, ""), &["--transport", transport]);
            for words in ["held up by source.out -> slow.in (its sender waited for", "to acknowledge"] {
                assert!(text.contains(words), "{overflow} {transport}: no {words:?} in {text}");
            }
            let held = &report["components"][0]["pace"]["held_up_by"];
            assert!(held["unacknowledged"].as_f64() > Some(0.0), "{report}");
            assert!(report["connections"][0]["full"].as_f64() > Some(0.0), "{report}");
        }
    }
}

#[test]
fn the_deadline_of_a_connection_holds_beside_one_without_a_deadline() {
    let file = acknowledged("block", "deadline-ms = 1");
    let ended = run(&["run", file.path("file.toml").to_str().unwrap(), "--duration", "20"]);
    // The other receiver may not have answered in time either.
    ended.says(1, &["component source failed: connection ", " did not answer within 1ms"]);
}

#[test]
fn a_source_behind_its_pace_is_shown_while_it_runs() {
    let file = held_up("block");
    let running = file.start(&[], 4);
    running.wait_for_line("warning: source: is ");
    let listed =
        || -> Value { serde_json::from_str(&run(&["waveforms", &file.name, "--json"]).stdout).unwrap() };
    let behind = |listed: &Value| listed["waveforms"][0]["components"][0]["behind_s"].as_f64();
    wait_until("the delay is listed", || behind(&listed()) >= Some(1.0));
    let text = run(&["waveforms", &file.name]).stdout;
    assert!(text.contains(" behind "), "{text}");
}
