//! A source that is held up is in the report of the run, with the receiver that is the reason.

#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use common::run;
use common::waveform::File;
use serde_json::Value;

/// Writes a source, a component that keeps up with it, and a throttle at half the source's pace.
fn held_up(overflow: &str) -> File {
    File::new(&format!(
        r#"
        [component.source]
        type = "signal-generator"
        properties = {{ rate = 4.8e6, output = "f32", packet = 4800 }}
        [component.level]
        type = "tee"
        [component.slow]
        type = "throttle"
        properties = {{ rate = 2.4e6 }}
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "source.out"
        to = "level.in"
        depth = 4
        [[connection]]
        from = "level.out1"
        to = "slow.in"
        depth = 4
        overflow = "{overflow}"
        [[connection]]
        from = "slow.out"
        to = "sink.in"
        "#
    ))
}

/// Runs it for two seconds. Returns what it prints, and its report.
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
        // Its pace is that of its input.
        assert!(report["components"][2].get("pace").is_none(), "{report}");
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
