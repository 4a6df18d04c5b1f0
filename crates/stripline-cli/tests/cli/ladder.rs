//! `stripline bench ladder` measures all cases and leaves nothing behind. Speed is not tested here.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{run, stripline, wait_until, with_marker};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn a_tiny_ladder_has_its_rows_and_ratios() {
    let folder = tempfile::tempdir().unwrap();
    let [json, svg] = ["ladder.json", "ladder.svg"].map(|name| folder.path().join(name));
    let domain = marker(folder.path());
    let child = stripline()
        .args(["bench", "ladder", "--quick", "--runs", "2", "--seconds-per-run", "0.001"])
        .args(["--sizes", "32,64", "--transports", "inproc,shm", "--output"])
        .arg(&json)
        .arg("--svg")
        .arg(&svg)
        .env(domain.0, &domain.1)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let queue = format!("ladder-{}-", child.id());
    let output = child.wait_with_output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    assert!(errors.contains("run 1 of "), "a log has progress, too: {errors}");
    for word in ["ONE WAY", "THROUGHPUT", "PUBLISH", "PIPELINE", "RATIOS", "shm_64_over_atomic"] {
        assert!(text.contains(word), "{word} is not in:\n{text}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    check_rows(&report);
    check_ratios(&report);
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0);
    assert!(std::fs::read_to_string(svg).unwrap().contains(" -->\n<svg"));
    assert_eq!(with_marker(folder.path()), [0; 0], "processes are left");
    let queues = std::fs::read_dir("/dev/mqueue").into_iter().flatten().flatten();
    let left: Vec<_> = queues.filter(|q| q.file_name().to_string_lossy().starts_with(&queue)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_target_that_is_not_decided_is_not_met() {
    let ladder = ["bench", "ladder", "--quick", "--runs", "1", "--seconds-per-run", "0.001", "--sizes", "64"];
    // A single run decides nothing.
    run(&[&ladder[..], &["--transports", "shm", "--require-targets"]].concat())
        .says(3, &["a required target is not met: shm_64_over_atomic", "not decided"]);
}

fn check_rows(report: &Value) {
    let rows = report["rows"].as_array().unwrap();
    let find = |what: &str, transport: &str, wait: &str, size: u64| {
        let row = rows.iter().find(|row| {
            (&row["what"], &row["transport"], &row["wait"]) == (&what.into(), &transport.into(), &wait.into())
                && row["size"] == size
        });
        row.unwrap_or_else(|| panic!("no row {what} {transport} {wait} {size}"))
    };
    for (what, transport, wait, size) in [
        ("two atomics", "memory", "spin", 0),
        ("futex hand-over", "memory", "block", 0),
        ("memcpy", "memory", "none", 64),
        ("minimal ring", "shm", "spin", 64),
        ("bare ring", "shm", "spin", 64),
        ("stripline", "shm", "spin", 64),
        ("stripline", "shm", "block", 64),
        ("stripline", "inproc", "spin", 64),
    ] {
        let row = find(what, transport, wait, size);
        assert!(row["one_way_ns"]["typical"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["runs"], 2, "{row}");
    }
    for what in ["memcpy", "minimal ring", "bare ring", "stripline"] {
        let row = rows.iter().find(|row| row["what"] == what && row["size"] == 32).unwrap();
        let rates = (row["packets_per_s"].as_f64().unwrap(), row["bytes_per_s"].as_f64().unwrap());
        assert!(rates.0 > 0.0 && (rates.1 / rates.0 - 32.0).abs() < 0.001, "{row}");
    }
    // One-way calls in bare omniORB may overtake each other.
    for row in rows.iter().filter(|row| row["what"] != "omniORB") {
        assert_eq!((&row["lost"], &row["reordered"]), (&0.into(), &0.into()), "{row}");
    }
    let publish: Vec<u64> = rows.iter().filter(|r| !r["publish_ns"].is_null()).map(readers).collect();
    assert_eq!(publish, [1, 10, 200]);
    let chains = rows.iter().filter(|row| !row["per_packet_ns"].is_null());
    assert_eq!(chains.filter(|row| row["components"] == 10).count(), 2);
}

fn readers(row: &Value) -> u64 {
    row["readers"].as_u64().unwrap()
}

fn check_ratios(report: &Value) {
    let ratios = report["ratios"].as_object().unwrap();
    let measured = |name: &str| ratios[name]["value"].as_f64().is_some_and(|value| value > 0.0);
    for name in [
        "shm_64_over_atomic",
        "shm_32_over_minimal",
        "shm_64_rate_over_minimal",
        "shm_64_many_rate_over_minimal",
        "call_shm_64_over_two_ways",
        "wake_over_futex",
        "publish_200_over_1",
        "stats_64_on_over_off",
        "stats_32_rate_on_over_off",
        "adaptive_10_over_block",
    ] {
        let ratio = &ratios[name];
        assert!(measured(name), "{name}: {ratio}");
        assert!(ratio["null"]["low"].as_f64() <= ratio["null"]["high"].as_f64(), "{name}: {ratio}");
        // Two runs decide nothing. The range of two runs contains the median with a probability of
        // one half.
        assert_eq!((&ratio["decision"], &ratio["coverage"]), (&"not-decided".into(), &0.5.into()), "{name}");
    }
    // The sizes or transports of these ratios were not selected, so they have a reason in place of
    // a figure.
    for name in ["shm_8192_over_minimal", "shm_64k_over_memcpy", "uds_1024_over_bare", "tcp_1024_over_bare"] {
        assert!(ratios[name]["value"].is_null() && ratios[name]["decision"].is_null(), "{name}");
        assert!(ratios[name]["missing"].is_string(), "{name}");
    }
}

#[test]
fn an_interrupted_ladder_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let domain = marker(folder.path());
    for (signal, code) in [(Signal::INT, Some(1)), (Signal::KILL, None)] {
        let mut child = stripline()
            .args(["bench", "ladder", "--sizes", "64", "--transports", "shm", "--seconds-per-run", "30"])
            .env(domain.0, &domain.1)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains("run 1 of "));
        // The first process of the ladder has started.
        wait_until("its processes are there", || with_marker(folder.path()).len() > 1);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code);
        wait_until("all are gone", || with_marker(folder.path()).is_empty());
    }
}

#[test]
fn wrong_arguments_are_named() {
    run(&["bench", "instructions", "--check", "/no/such/table.md"]).says(2, &["/no/such/table.md"]);
    let ladder = |more: &[&str]| run(&[&["bench", "ladder"], more].concat());
    ladder(&["--sizes", "0"]).says(2, &["size", "0", "8"]);
    ladder(&["--sizes", "64,many"]).says(2, &["many"]);
    ladder(&["--sizes", "2000000"]).says(2, &["2000000", "1048576"]);
    ladder(&["--transports", "shm,pigeon"]).says(2, &["pigeon", "inproc", "tcp"]);
    ladder(&["--runs", "0"]).says(2, &["runs", "0"]);
    // The problem is reported before the run, not after it.
    ladder(&["--output", "/no/such/folder/ladder.json"]).says(2, &["/no/such/folder/ladder.json"]);
    ladder(&["--svg", "/no/such/folder/ladder.svg"]).says(2, &["/no/such/folder/ladder.svg"]);
    run(&["bench"]).says(2, &["ladder"]);
}

/// Returns a variable that marks the processes of this test. Child processes inherit it.
fn marker(folder: &Path) -> (&'static str, PathBuf) {
    ("STRIPLINE_TEST_MARKER", folder.into())
}
