//! `stripline bench bindings` measures the installed bindings, names the missing ones, and leaves
//! nothing behind. Speed is not tested here.

use std::path::Path;
use std::process::Command;

use crate::common::{c_library, repository, run, stripline};
use serde_json::Value;

/// Runs the benchmark with the temporary files in a folder. Returns the figures and the printed
/// tables.
fn figures(folder: &Path, arguments: &[&str]) -> (Vec<Value>, String) {
    let json = folder.join("figures.json");
    let output = stripline()
        .args(["bench", "bindings", "--quick", "--runs", "1", "--python", "/no/python", "--output"])
        .arg(&json)
        .args(arguments)
        .env("TMPDIR", folder)
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0);
    assert_eq!((&report["runs"], &report["interrupted"]), (&1.into(), &false.into()));
    let figures = report["figures"].as_array().unwrap().clone();
    for figure in &figures {
        assert_ne!(figure["value"].is_null(), figure["missing"].is_null(), "{figure}");
        assert!(text.contains(figure["name"].as_str().unwrap()), "{text}");
    }
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let left: Vec<String> = names.filter(|name| name.starts_with("stripline-bindings-")).collect();
    assert!(left.is_empty(), "{left:?}");
    (figures, text.into())
}

fn measured(figure: &Value) {
    let times: Vec<f64> = figure["times_ns"].as_array().unwrap().iter().flat_map(Value::as_f64).collect();
    assert!(times.len() == 2 && times.iter().all(|ns| *ns > 0.0), "{figure}");
    // A single run decides nothing.
    assert_eq!((&figure["decision"], &figure["coverage"]), (&"not-decided".into(), &0.0.into()), "{figure}");
    assert!(figure["null"]["low"].as_f64() <= figure["null"]["high"].as_f64(), "{figure}");
}

#[test]
fn rust_is_measured_and_what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (found, text) =
        figures(folder.path(), &["--prefix", "/nowhere", "--gnuradio-python", "/no/gnuradio"]);
    for figure in &found {
        let name = figure["name"].as_str().unwrap();
        let missing = figure["missing"].as_str().unwrap_or("");
        let remedy = match name.split('_').next().unwrap() {
            "rust" => {
                measured(figure);
                continue;
            }
            "c" | "cpp" => "packaging/cpp-install",
            "python" => "/no/python",
            _ => "/no/gnuradio",
        };
        assert!(missing.contains(remedy), "{name}: {missing}");
        assert!(text.contains(&format!("{name}: not measured: {missing}")), "{text}");
    }
    assert_eq!(found.len(), 18);
}

#[test]
fn a_program_in_c_is_built_and_measured() {
    let (archive, features) = c_library();
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("installed");
    let mut install = Command::new(repository("packaging/c-install"));
    install.arg("--archive").arg(archive).args(["--features", &features]).arg(&prefix);
    let installed = install.output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let (found, text) = figures(folder.path(), &["--only", "c_64_", "--prefix", prefix.to_str().unwrap()]);
    assert_eq!(found.len(), 1);
    measured(&found[0]);
    assert_eq!(found[0]["unit"], "ns");
    assert!(text.contains("<= 7 ns"), "{text}");
}

#[test]
fn an_aim_that_is_not_decided_is_not_met() {
    let bindings = |only: &str, more: &[&str]| {
        run(&[&["bench", "bindings", "--quick", "--runs", "1", "--only", only], more].concat())
    };
    // A single run decides nothing.
    bindings("rust_", &["--require-targets"])
        .says(3, &["a required target is not met: rust_", "not decided"]);
    bindings("python_", &["--python", "/no/python", "--require-targets"])
        .says(3, &["nothing with a target was measured"]);
}

#[test]
fn wrong_arguments_are_named() {
    let bindings = |more: &[&str]| run(&[&["bench", "bindings"], more].concat());
    bindings(&["--only", "pascal"]).says(2, &["pascal", "c_64_over_rust", "gnuradio"]);
    bindings(&["--runs", "0"]).says(2, &["runs", "0"]);
    bindings(&["--output", "/no/such/folder/x.json"]).says(2, &["/no/such/folder/x.json"]);
}
