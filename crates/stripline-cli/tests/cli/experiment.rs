//! `stripline bench FILE.toml` measures the cases of the file, reports the cases that it cannot
//! run, and leaves nothing behind. Speed is not tested here.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{has_transport, repository, run, stripline, wait_until, with_marker};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Returns the transports of this program that are measured.
fn transports() -> Vec<&'static str> {
    let names = ["inproc", "shm", "uds", "tcp", "mqueue", "udp", "zeromq"];
    names.into_iter().filter(|name| has_transport(name)).collect()
}

/// An experiment with one process and several, both kinds of work, and every dispatch and order.
const TINY: &str = "
[experiment]
name = 'tiny'
title = 'Tiny pipelines'
repeats = 2

[default]
stages = 2
packets = 20
size = 64
type = 'cf32'
transport = TRANSPORTS

[[case]]
name = 'apart'
work = 'wait'
work-ms = 0.2
target = { over-ideal = 1000, reordered = 0 }
published = { last-ms = [4463, 4514], reordered = [315, 612] }

[[case]]
name = 'together'
placement = 'one-process'
work = 'busy'
work-ms = 0.2
pace-ms = 0.5
scope = 'none'
target = { reordered = 0 }

[[case]]
name = 'impossible'
transport = 'shm'
target = { over-ideal = 0.001, over-case = { case = 'apart', ratio = 1000 } }
work = 'wait'
work-ms = 0.2

[[case]]
name = 'direct'
dispatch = 'direct'
work = 'wait'
work-ms = 0.2
target = { reordered = 0 }

[[case]]
name = 'pool'
dispatch = 'pool(4)'
work = 'wait'
work-ms = 0.2
target = { reordered-share-min = 1 }

[[case]]
name = 'in-sequence'
dispatch = 'pool(4)'
order = 'resequence'
window = 20
skip-after-ms = 60000
work = 'wait'
work-ms = 0.2
target = { reordered = 0, over-case = { case = 'pool', ratio = 1000 } }
";

fn file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("experiment.toml");
    std::fs::write(&path, text.replace("TRANSPORTS", &format!("{:?}", transports()))).unwrap();
    path
}

#[test]
fn a_tiny_experiment_on_every_transport() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), TINY);
    let [json, html] = ["result.json", "result.html"].map(|name| folder.path().join(name));
    let output = stripline()
        .args(["bench".as_ref(), path.as_os_str(), "--output".as_ref(), json.as_os_str()])
        .args(["--html".as_ref(), html.as_os_str()])
        .env("STRIPLINE_TEST_MARKER", folder.path())
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    assert!(errors.contains("run 1 of "), "a log has progress, too: {errors}");
    for word in ["Tiny pipelines", "LAST PACKET", "REORDERED", "PUBLISHED", "4463 / 4514", "met", "MISSED"] {
        assert!(text.contains(word), "{word} is not in:\n{text}");
    }
    assert!(text.rfind("TARGETS").unwrap() > text.rfind("PUBLISHED").unwrap(), "it ends with the targets");

    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!((&report["name"], &report["repeats"]), (&"tiny".into(), &2.into()));
    let cases = report["cases"].as_array().unwrap();
    for transport in transports() {
        for name in ["apart", "together", "direct"] {
            check_case(find(cases, name, transport), name);
        }
        check_pool(find(cases, "pool", transport));
        check_pool(find(cases, "in-sequence", transport));
    }
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains(" -->\n<!DOCTYPE html>") && page.contains("<svg") && page.contains("4463"));
    assert!(!page.contains("http://") || page.matches("http://").count() == page.matches("w3.org").count());
    let verdicts = report["verdicts"].as_array().unwrap();
    let verdict = |case: &str| {
        verdicts.iter().find(|verdict| verdict["case"] == case).unwrap_or_else(|| panic!("{verdicts:?}"))
    };
    // Other programs may run beside the tests. Counts are judged nevertheless.
    let is_judged = |verdict: &Value, outcome: &str| {
        [outcome, "not-judged"].iter().any(|possible| verdict["outcome"] == *possible)
    };
    assert!(is_judged(verdict("apart, tcp"), "met"), "{verdicts:?}");
    assert_eq!(verdict("together, uds")["outcome"], "met");
    assert!(is_judged(verdict("impossible, shm"), "missed"), "{verdicts:?}");
    let compared =
        verdicts.iter().find(|v| v["target"].as_str().unwrap().contains("packet of apart")).unwrap();
    assert!(compared["case"] == "impossible, shm" && is_judged(compared, "met"), "{compared}");
    for transport in transports() {
        assert_eq!(verdict(&format!("pool, {transport}"))["outcome"], "missed");
        let name = format!("in-sequence, {transport}");
        let of: Vec<&Value> = verdicts.iter().filter(|verdict| verdict["case"] == name.as_str()).collect();
        assert!(of.len() == 2 && of.iter().all(|verdict| is_judged(verdict, "met")), "{verdicts:?}");
    }
    assert!(text.contains(" → 0"), "{text}");
    assert_eq!(with_marker(folder.path()), [0; 0], "processes are left");
}

fn find<'r>(cases: &'r [Value], name: &str, transport: &str) -> &'r Value {
    let found = cases.iter().find(|case| case["name"] == name && case["transport"] == transport);
    found.unwrap_or_else(|| panic!("no case {name} over {transport}"))
}

fn check_case(case: &Value, name: &str) {
    assert_eq!((&case["status"], &case["reason"]), (&"measured".into(), &Value::Null), "{case}");
    let is_collocated = name == "together" || case["transport"] == "inproc";
    assert_eq!(case["placement"] == "one-process", is_collocated, "{case}");
    let runs = case["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run["sends_ns"].as_array().unwrap().len(), 20, "{case}");
        let stages = run["stages"].as_array().unwrap();
        assert_eq!(stages.len(), 2);
        for stage in stages {
            for counter in ["reordered", "duplicates", "missing"] {
                assert_eq!(stage[counter], 0, "{counter}: {case}");
            }
            assert!(stage["service_ms"].as_f64().unwrap() >= 0.2 && stage["last_ms"].as_f64().unwrap() > 0.0);
            assert_eq!(stage["cpu_s"].is_f64(), !is_collocated, "{case}");
        }
        // No case ends before the ideal time.
        assert!(run["ideal_ms"].as_f64().unwrap() >= 4.0, "{case}");
        assert!(name == "together" || run["over_ideal"].as_f64().unwrap() >= 0.9, "{case}");
    }
}

/// Checks a case with a pool. The order in which a pool finishes is not determined.
fn check_pool(case: &Value) {
    assert_eq!((&case["status"], &case["reason"]), (&"measured".into(), &Value::Null), "{case}");
    let is_in_sequence = case["order"] == "resequence";
    for run in case["runs"].as_array().unwrap() {
        let stages = run["stages"].as_array().unwrap();
        assert_eq!(stages.len(), 2);
        let observer = &run["observer"];
        assert_eq!(observer.is_object(), is_in_sequence, "{case}");
        for place in stages.iter().chain(Some(observer).filter(|_| is_in_sequence)) {
            assert_eq!((&place["duplicates"], &place["missing"]), (&0.into(), &0.into()), "{case}");
        }
        assert!(stages.iter().all(|stage| stage["service_ms"].as_f64().unwrap() >= 0.2), "{case}");
        if is_in_sequence {
            assert_eq!(observer["reordered"], 0, "{case}");
            assert_eq!(observer["last_ms"], run["last_ms"], "{case}");
        }
        // 20 packets of 0.2 ms are processed 4 at a time, and then pass through the other
        // component.
        assert!(run["ideal_ms"].as_f64().unwrap() >= 1.2, "{case}");
    }
}

#[test]
fn what_was_skipped_is_missing_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[experiment]\nname = 'x'\n[[case]]\nname = 'impatient'\nstages = 2\npackets = 100\nsize = 64\n\
                dispatch = 'pool(8)'\norder = 'resequence'\nskip-after-ms = 0\nwork = 'wait'\nwork-ms = 0.2\n\
                transport = TRANSPORTS\ntarget = { reordered = 0 }\n";
    let path = file(folder.path(), text);
    let ended = run(&["bench", path.to_str().unwrap(), "--runs", "1", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    for case in report["cases"].as_array().unwrap() {
        assert_eq!(case["status"], "measured", "{case}");
        let observer = &case["runs"][0]["observer"];
        assert_eq!((&observer["reordered"], &observer["duplicates"]), (&0.into(), &0.into()), "{case}");
        let is_told = report["verdicts"].as_array().unwrap().iter().any(|verdict| {
            verdict["target"].as_str().unwrap().starts_with("missing")
                && case["transport"] == in_variant(verdict)
        });
        assert_eq!(is_told, observer["missing"] != 0, "{report}");
    }
}

fn in_variant(verdict: &Value) -> &str {
    verdict["case"].as_str().unwrap().rsplit(", ").next().unwrap()
}

#[test]
fn cases_are_chosen_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[experiment]\nname = 'x'\n[default]\npackets = 5\nstages = 1\n[[case]]\nname = 'a'\n\
                [[case]]\nname = 'b'\n[[case]]\nname = 'c'\ntarget = { over-case = { case = 'a', ratio = 1000 } }\n";
    let path = file(folder.path(), text);
    let path = path.to_str().unwrap();
    run(&["bench", path, "--only", "b", "--only", "d"])
        .says(2, &["--only", "no case `d`", "a, b, c", "nothing was started"]);
    let ended = run(&["bench", path, "--quick", "--only", "b", "--only", "c", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(report["cases"].as_array().unwrap().iter().map(|case| &case["name"]).eq(["b", "c"]), "{report}");
    let verdict = &report["verdicts"][0];
    assert_eq!(
        (&verdict["outcome"], &verdict["reason"]),
        (&"not-run".into(), &"case a was not chosen".into())
    );
}

#[test]
fn required_targets_decide_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    // No share can be above 1, and five packets cannot be 1000 times out of order.
    let text = "[experiment]\nname = 'x'\n[default]\npackets = 5\nstages = 1\n\
                [[case]]\nname = 'met'\ntarget = { reordered = 1000 }\n\
                [[case]]\nname = 'missed'\ntarget = { reordered-share-min = 1 }\n\
                [[case]]\nname = 'compared'\ntarget = { over-case = { case = 'met', ratio = 1000000 } }\n\
                [[case]]\nname = 'free'\n";
    let path = file(folder.path(), text);
    let bench = |more: &[&str]| run(&[&["bench", path.to_str().unwrap(), "--quick"], more].concat());
    bench(&["--only", "met", "--require-targets"]).says(0, &[]);
    bench(&["--only", "met", "--only", "compared"]).says(0, &[]);
    bench(&["--only", "missed"]).says(0, &[]);
    let missed = bench(&["--only", "met", "--only", "missed", "--require-targets"]);
    missed.says(3, &["a required target is not met: missed, shm: 0, target reordered share", "MISSED"]);
    assert!(missed.stdout.contains("TARGETS"), "{}", missed.stdout);
    bench(&["--only", "compared", "--require-targets"]).says(3, &["not run: case met was not chosen"]);
    bench(&["--only", "free", "--require-targets"]).says(2, &["--require-targets", "nothing was started"]);
}

#[test]
fn every_scope_can_be_measured() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[experiment]\nname = 'x'\n[default]\npackets = 5\nstages = 1\n\
                [[case]]\nname = 'a'\nscope = ['server', 'target']\ndispatch = 'direct'\ntarget = { over-ideal = 1000 }\n\
                work = 'wait'\nwork-ms = 0.1\n";
    let path = file(folder.path(), text);
    let ended = run(&["bench", path.to_str().unwrap(), "--quick", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["quick"], true);
    for (case, scope) in report["cases"].as_array().unwrap().iter().zip(["server", "target"]) {
        assert_eq!((&case["scope"], &case["status"]), (&scope.into(), &"measured".into()), "{case}");
    }
}

#[test]
fn an_interrupted_experiment_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\nwork = 'wait'\nwork-ms = 60000\n\
                transport = ['shm', 'inproc']\n";
    let path = file(folder.path(), text);
    for (signal, code) in [(Signal::INT, Some(1)), (Signal::HUP, Some(1)), (Signal::KILL, None)] {
        let mut child = stripline()
            .arg("bench")
            .arg(&path)
            .env("STRIPLINE_TEST_MARKER", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains("run 1 of "));
        wait_until("its processes are there", || with_marker(folder.path()).len() == 5);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code);
        wait_until("all are gone", || with_marker(folder.path()).is_empty());
    }
}

#[test]
fn wrong_files_and_arguments_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let bench = |more: &[&str]| run(&[&["bench"], more].concat());
    bench(&["no-such-file.toml"]).says(2, &["no-such-file.toml"]);
    let wrong = file(folder.path(), "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\nstages = 0\n");
    bench(&[wrong.to_str().unwrap()])
        .says(2, &["experiment.toml:5:10", "`stages` is 0", "^", "nothing was started"]);
    let e1 = repository("experiments/e1-messaging.toml");
    let e1 = e1.to_str().unwrap();
    bench(&[e1, "--runs", "0"]).says(2, &["runs", "0"]);
    bench(&[e1, "--output", "/no/such/folder/e1.json"]).says(2, &["/no/such/folder/e1.json"]);
    for path in ["-", "/no/such/folder/e1"] {
        let one = bench(&[e1, "--html", path, "--output", path]);
        one.says(2, &[&format!("the JSON and the drawing would be one file, {path}: name two")]);
    }
    bench(&[e1, "--html", "/no/such/folder/e1.html"]).says(2, &["/no/such/folder/e1.html"]);
    bench(&[e1, "ladder"]).says(2, &["ladder"]);
    bench(&[]).says(2, &["FILE", "ladder", "experiments/e1-messaging.toml"]);
}
