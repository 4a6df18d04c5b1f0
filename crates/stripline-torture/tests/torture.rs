//! The torture as a test: every fail point kills at least one process, and no survivor is harmed.
#![allow(clippy::unwrap_used, reason = "what cannot be in a test is a failure of the test")]

use std::process::Command;

use serde_json::Value;
use stripline::fail_point::POINTS;

/// Points that other runs reach: `--transport udp`, `--transport lossy` and `--waveforms`.
const OTHERS: [&str; 15] = [
    "probe",
    "probe-answered",
    "probed",
    "session-end",
    "session-ended",
    "repair",
    "repaired",
    "missing",
    "missing-asked",
    "move-prepared",
    "move-connected",
    "move",
    "moved",
    "moved-receiver",
    "move-left",
];

/// The prefixes of points within the steps of a middleware. `--transport` reaches those points.
const OF_MIDDLEWARE: [&str; 3] = ["iceoryx2-", "dds-", "corba-"];

#[test]
fn deaths_over_datagrams_harm_no_survivor() {
    let output = Command::new(env!("CARGO_BIN_EXE_stripline-torture"))
        .args(["torture", "--transport", "udp", "--kills", "300", "--lanes", "4"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["points_never_reached"], Value::Array(Vec::new()));
    assert!(report["deaths"]["session-end"].as_u64() > Some(0), "{report:#}");
}

#[test]
fn five_hundred_deaths_harm_no_survivor() {
    let output = Command::new(env!("CARGO_BIN_EXE_stripline-torture"))
        .args(["torture", "--kills", "500"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kills"], 500);
    let is_other =
        |point: &str| OTHERS.contains(&point) || OF_MIDDLEWARE.iter().any(|name| point.starts_with(name));
    for point in POINTS.iter().filter(|point| !is_other(point)) {
        assert!(report["deaths"][point].as_u64() > Some(0), "no process died at {point}: {report:#}");
    }
    assert!(report["receivers_told_what_they_missed"].as_u64() > Some(0));
    println!("{report:#}");
}

#[test]
fn components_and_launchers_die_in_random_waveforms() {
    let output = Command::new(env!("CARGO_BIN_EXE_stripline-torture"))
        .args(["torture", "--waveforms", "--kills", "100", "--lanes", "2"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["kills"].as_u64() >= Some(100), "{report:#}");
    assert!(report["packets_received"].as_u64() > Some(0), "{report:#}");
    assert_eq!(report["violations"], 0);
    assert!(report["moves"].is_u64() && report["deaths_in_moves"].is_object(), "{report:#}");
}

#[test]
fn outputs_move_at_random_and_nothing_is_missing() {
    let output = Command::new(env!("CARGO_BIN_EXE_stripline-torture"))
        .args(["torture", "--waveforms", "--moves", "100", "--lanes", "2"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["moves"].as_u64() >= Some(100), "{report:#}");
    assert_eq!((&report["kills"], &report["violations"]), (&0.into(), &0.into()), "{report:#}");
    assert_eq!(report["waveforms"], report["waveforms_without_failure"], "{report:#}");
}

#[test]
fn help_has_examples() {
    for order in [&["--help"][..], &["torture", "--help"], &["stop", "--help"], &["impair", "--help"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_stripline-torture")).args(order).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("Examples:\n"), "{order:?}: {text}");
    }
}
