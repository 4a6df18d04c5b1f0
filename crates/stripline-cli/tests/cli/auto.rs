//! `auto`: the report of the transports that a run chose.

use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{gain_example, has_transport, run, write_script};
use serde_json::Value;

/// Writes an executable that runs the example `gain`, and describes itself without `shm`.
fn without_shm(folder: &Path) -> PathBuf {
    let path = folder.join("gain-without-shm");
    let gain = gain_example();
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --describe ] || exec '{gain}' \"$@\"\n'{gain}' \"$@\" | sed 's/\"shm\",//'\n",
        gain = gain.display(),
    );
    write_script(&path, &text);
    path
}

/// Writes a waveform with that executable between a source and a sink. `keys` are keys of the
/// second connection.
fn waveform(folder: &Path, keys: &str) -> String {
    let path = folder.join("auto.toml");
    let text = format!(
        "[component.source]\ntype = \"signal-generator\"\n\
         properties = {{ duration_s = 0.01, sample_rate = 1e6 }}\n\
         [component.gain]\nexec = \"{}\"\n[component.end]\ntype = \"null-sink\"\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"gain.in\"\ntransport = \"uds\"\n\
         [[connection]]\nfrom = \"gain.out\"\nto = \"end.in\"\n{keys}",
        without_shm(folder).display(),
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().into()
}

const WHY: &str = "inproc: `gain` and `end` are processes of their own; \
                   shm: the executable of `gain` does not have it";

#[test]
fn an_executable_lists_its_transports() {
    let described: Value = serde_json::from_str(&common::run_gain_description()).unwrap();
    let transports: Vec<&str> =
        described["transports"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(transports[..6], ["inproc", "shm", "uds", "tcp", "mqueue", "udp"]);
    assert_eq!(described["name"], "gain");
}

#[test]
fn the_report_and_the_log_have_each_choice_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = waveform(folder.path(), "allow = [\"mqueue\", \"tcp\"]\n");
    let (report, log) = (folder.path().join("report.json"), folder.path().join("run.log"));
    let arguments = ["run", &file, "--output", report.to_str().unwrap(), "--log-file", log.to_str().unwrap()];
    let finished = run(&arguments);
    finished.says(0, &[]);
    // The notes below the table are wrapped.
    let words = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("gain.out -> end.in: auto took mqueue ({WHY}).")), "{words}");
    assert!(!words.contains("auto took uds"), "{words}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let [first, second] = [0, 1].map(|index| &report["connections"][index]);
    assert_eq!((&first["transport"], &first["chosen_by"]), (&"uds".into(), &"file".into()));
    assert!(first["passed_over"].is_null(), "{first}");
    assert_eq!((&second["transport"], &second["chosen_by"]), (&"mqueue".into(), &"auto".into()));
    assert_eq!(second["passed_over"], WHY);
    assert!(second["packets"].as_u64() > Some(0), "{second}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("source.out -> gain.in: uds, chosen by the file"), "{log}");
    assert!(log.contains(&format!("gain.out -> end.in: mqueue, chosen by auto ({WHY})")), "{log}");
}

#[test]
fn a_transport_that_an_executable_lacks_is_an_error_of_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let lacks = "the executable of `gain` has no transport `shm`";
    let named = waveform(folder.path(), "transport = \"shm\"\n");
    run(&["check", &named]).says(2, &[lacks, "build it with the version of this program"]);
    let left_out = waveform(folder.path(), "");
    run(&["check", &left_out]).says(2, &["`auto` finds no transport for this", "allow = [\"tcp\"]"]);
    run(&["check", &left_out, "--transport", "shm"]).says(2, &[lacks, "--transport shm"]);
    run(&["check", &left_out, "--transport", "uds"]).says(0, &[]);
}

#[test]
fn a_python_module_that_lacks_a_transport_is_named_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let named = waveform(folder.path(), "transport = \"shm\"\n");
    // The ending of the script decides, not the interpreter.
    std::fs::rename(folder.path().join("gain-without-shm"), folder.path().join("gain.py")).unwrap();
    let executable = format!("exec = \"{}\"", folder.path().join("gain-without-shm").display());
    let text = std::fs::read_to_string(&named).unwrap();
    std::fs::write(&named, text.replace(&executable, "exec = [\"sh\", \"gain.py\"]")).unwrap();
    run(&["check", &named]).says(2, &["the Python module of `gain` has no transport `shm`"]);
}

#[test]
fn a_component_that_a_feature_brings_in_is_named_with_it() {
    if has_transport("dds") {
        return run(&["components", "dds-sink"]).says(0, &[]);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.toml");
    std::fs::write(&file, "[component.topic]\ntype = \"dds-sink\"\n").unwrap();
    let brings = "it is not in this program: build it with the feature `dds`";
    let (file, pages) =
        (file.to_str().unwrap(), "docs/install.md has the build, and docs/python.md the wheel");
    run(&["check", file]).says(2, &["unknown component type `dds-sink`", brings, pages]);
    run(&["check", file, "--transport", "dds"])
        .says(2, &["the transport `dds` is not in this program", pages]);
    run(&["components", "dds-sink"]).says(2, &["not in this program: build it with the feature `dds`"]);
}

#[test]
fn transports_that_a_feature_brings_in_are_listed_with_it() {
    let listed: Value = serde_json::from_str(&run(&["transports", "--json"]).stdout).unwrap();
    let transports = listed["transports"].as_array().unwrap();
    let has = |name: &str| transports.iter().find(|one| one["name"] == name).unwrap();
    for name in ["inproc", "shm", "uds", "tcp", "mqueue", "udp"] {
        assert_eq!(has(name)["in_program"], true, "{name}");
        assert_eq!(has(name)["page"], format!("docs/transports/{name}.md"));
    }
    let zeromq = has("zeromq");
    assert_eq!(zeromq["in_program"], has_transport("zeromq"));
    match has_transport("zeromq") {
        true => assert!(zeromq["library"].as_str().is_some_and(|it| it.contains("4.3")), "{zeromq}"),
        false => assert!(zeromq["brought_in_by"].as_str().is_some_and(|it| it.contains("g++")), "{zeromq}"),
    }
    let iceoryx2 = has("iceoryx2");
    assert_eq!(iceoryx2["in_program"], has_transport("iceoryx2"));
    match has_transport("iceoryx2") {
        true => assert_eq!(iceoryx2["library"], "iceoryx2 0.10.0"),
        false => {
            assert!(iceoryx2["brought_in_by"].as_str().is_some_and(|it| it.contains("feature")), "{iceoryx2}")
        }
    }
    let zenoh = has("zenoh");
    assert_eq!(zenoh["in_program"], has_transport("zenoh"));
    match has_transport("zenoh") {
        true => assert_eq!(zenoh["library"], "zenoh 1.10.2"),
        false => assert!(zenoh["brought_in_by"].as_str().is_some_and(|it| it.contains("feature")), "{zenoh}"),
    }
    let dds = has("dds");
    assert_eq!(dds["in_program"], has_transport("dds"));
    let (key, part) = match has_transport("dds") {
        true => ("library", "Cyclone DDS 0.10"),
        false => ("brought_in_by", "cyclonedds-dev"),
    };
    assert!(dds[key].as_str().is_some_and(|it| it.contains(part)), "{dds}");
    let corba = has("corba");
    assert_eq!(corba["in_program"], has_transport("corba"));
    match has_transport("corba") {
        true => assert!(corba["library"].as_str().is_some_and(|it| it.contains("omniORB 4")), "{corba}"),
        false => assert!(corba["brought_in_by"].as_str().is_some_and(|it| it.contains("omniidl")), "{corba}"),
    }
    assert_eq!(has("shm")["refused"], Value::Array(Vec::new()));
    let text = run(&["transports"]).stdout;
    assert!(text.contains("everything") && text.contains("all but huge-pages, locked, group"), "{text}");
    let is_brought_in = text.contains("build it with the feature `corba`");
    assert_eq!(is_brought_in, !has_transport("corba"), "{text}");
}
