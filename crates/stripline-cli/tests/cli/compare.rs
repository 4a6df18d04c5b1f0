//! `stripline bench compare` finds the differences of two results, and refuses other files.

use std::path::Path;

use crate::common::{Run, run};
use serde_json::{Value, json};

/// The runs of a figure without a difference.
const RUNS: [f64; 6] = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0];

fn machine(folder: &Path) -> Value {
    // A real result has the description of this machine.
    let path = folder.join("real.json");
    let file = folder.join("experiment.toml");
    std::fs::write(&file, "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\nstages = 1\npackets = 5\n")
        .unwrap();
    let [file, output] = [file, path.clone()].map(|path| path.to_str().unwrap().to_string());
    run(&["bench", &file, "--runs", "4", "--output", &output]).says(0, &[]);
    let real: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    real["machine"].clone()
}

fn ladder(machine: &Value, figures: &[(&str, &str, f64)]) -> String {
    let ratio = |factor: f64, target: &str| {
        json!({
            "target": target,
            "per_run": RUNS.map(|value| value * factor),
            "null": { "value": 1.0, "low": 0.99, "high": 1.01 },
            "disturbed_runs": 0,
        })
    };
    let ratios: serde_json::Map<String, Value> =
        figures.iter().map(|(name, target, factor)| ((*name).into(), ratio(*factor, target))).collect();
    json!({ "stripline": "0", "format": 1, "machine": machine, "ratios": ratios }).to_string()
}

fn compare(folder: &Path, old: &str, new: &str, more: &[&str]) -> Run {
    let paths = ["old.json", "new.json"].map(|name| folder.join(name));
    std::fs::write(&paths[0], old).unwrap();
    std::fs::write(&paths[1], new).unwrap();
    let [old, new] = paths.each_ref().map(|path| path.to_str().unwrap());
    run(&[&["bench", "compare", old, new], more].concat())
}

#[test]
fn a_regression_beyond_the_limit_fails() {
    let folder = tempfile::tempdir().unwrap();
    let machine = machine(folder.path());
    let old = ladder(&machine, &[("time", "<= 1.1", 1.0), ("rate", ">= 0.9", 1.0), ("gone", "<= 2", 1.0)]);
    let new = ladder(&machine, &[("time", "<= 1.1", 1.2), ("rate", ">= 0.9", 1.2), ("come", "<= 2", 1.0)]);
    let slower = compare(folder.path(), &old, &new, &[]);
    slower.says(1, &["error: time is slower by more than 5 %: new over old 1.200"]);
    for words in ["faster", "only in the old result: gone", "only in the new result: come", "2.0 %"] {
        assert!(slower.stdout.contains(words), "{words}: {}", slower.stdout);
    }
    let within = compare(folder.path(), &old, &new, &["--limit", "25", "--json"]);
    assert_eq!(within.code, Some(0), "{}", within.stderr);
    let found: Value = serde_json::from_str(&within.stdout).unwrap();
    assert_eq!(found["figures"][0]["change"], "faster");
    assert_eq!(
        (&found["figures"][1]["name"], &found["figures"][1]["change"]),
        (&"time".into(), &"slower".into())
    );
    assert_eq!(found["figures"][1]["is_regression"], false);
    let same = compare(folder.path(), &old, &old, &["--limit", "0"]);
    same.says(0, &[]);
    assert!(same.stdout.contains("no difference seen"), "{}", same.stdout);
}

#[test]
fn an_experiment_is_compared_with_itself() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let real = std::fs::read_to_string(folder.path().join("real.json")).unwrap();
    let same = compare(folder.path(), &real, &real, &["--json"]);
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    let found: Value = serde_json::from_str(&same.stdout).unwrap();
    assert_eq!(
        (&found["benchmark"], &found["figures"][0]["ratio"]),
        (&"the experiment `x`".into(), &1.0.into())
    );
    let change = found["figures"][0]["change"].as_str().unwrap();
    // Other programs may run beside the tests.
    assert!(["not-seen", "disturbed"].contains(&change), "{found}");
    let other = real.replace("\"packets\": 5", "\"packets\": 6");
    let changed = compare(folder.path(), &real, &other, &[]);
    changed.says(0, &[]);
    assert!(changed.stdout.contains("not decided: the case has changed"), "{}", changed.stdout);
}

#[test]
fn a_file_that_is_no_result_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let machine = machine(folder.path());
    let good = ladder(&machine, &[("time", "<= 1.1", 1.0)]);
    let real = std::fs::read_to_string(folder.path().join("real.json")).unwrap();
    for (new, words) in [
        ("", "it is not JSON, or not all of it"),
        (&good[..good.len() / 2], "it is not JSON, or not all of it"),
        ("{}", "it is not a result of `stripline bench ladder`"),
        (&*good.replace("\"format\":1", "\"format\":9"), "it has format 9, not 1"),
        (&*good.replace("\"format\":1,", ""), "it has no format"),
        (&*real, "the old result is of the ladder, and the new one of the experiment `x`"),
    ] {
        compare(folder.path(), &good, new, &[]).says(2, &["error: ", words]);
    }
    run(&["bench", "compare", "/no/such/old.json", "/no/such/new.json"]).says(2, &["/no/such/old.json"]);
    compare(folder.path(), &good, &good, &["--limit", "1001"]).says(2, &["limit", "from 0 to 1000"]);
}
