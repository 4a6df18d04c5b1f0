//! Common rules of all commands: JSON, names, paths and exit codes.

use std::io::Write;
use std::process::Stdio;

use crate::common;
use crate::common::waveform::File;
use crate::common::{Run, gain_example, repository, run, stripline};
use serde_json::{Value, json};

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

fn path(name: &str) -> String {
    repository(name).to_str().unwrap().into()
}

/// Runs `stripline check` with this text on standard input.
fn check_text(arguments: &[&str], text: &[u8]) -> Run {
    let mut command = stripline();
    command.arg("check").args(arguments).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses its arguments does not read standard input.
    let _ = child.stdin.take().unwrap().write_all(text);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn lists_are_json_for_scripts() {
    let names = |listed: &Value| -> Vec<String> {
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().into()).collect()
    };
    assert!(names(&parsed(&run(&["components", "--json"]))).contains(&"fir-filter".into()));
    let listed = parsed(&run(&["transports", "--json"]));
    assert_eq!(names(&listed["transports"])[..2], ["inproc", "shm"]);
    assert_eq!(names(&listed["formats"])[0], "gr-zeromq");
    let filter = parsed(&run(&["components", "fir-filter", "--json"]));
    assert_eq!((&filter["name"], &filter["ports"][0]["name"]), (&json!("fir-filter"), &json!("in")));
    assert_eq!(listed["transports"][1]["overflow"][0], "block");
    assert_eq!(parsed(&run(&["waveforms", "--json"]))["waveforms"].as_array().map(|_| ()), Some(()));
}

#[test]
fn a_run_prints_its_result_as_json_or_writes_it() {
    let file = File::radio();
    let (waveform, result) = (file.path("file.toml"), file.path("result.json"));
    let (waveform, result) = (waveform.to_str().unwrap(), result.to_str().unwrap());
    let timed = ["--duration", "0.2"];
    for arguments in [&["run", waveform, "--json"][..], &["run", "--json", waveform]] {
        let ended = run(&[arguments, &timed].concat());
        ended.says(0, &[]);
        assert_eq!(parsed(&ended)["waveform"], file.name.as_str(), "{arguments:?}");
    }
    for arguments in [
        &["run", waveform, "--json", "--output", result][..],
        &["run", "--output", result, "--json", waveform],
        &["run", waveform, "--output", result],
    ] {
        let ended = run(&[arguments, &timed].concat());
        ended.says(0, &[]);
        assert!(ended.stdout.contains("CONNECTION"), "{}", ended.stdout);
        let written: Value = serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap();
        assert_eq!(written["waveform"], file.name.as_str(), "{arguments:?}");
        std::fs::remove_file(result).unwrap();
    }
    run(&["run", waveform, "--json", "a.json"]).says(2, &["a.json"]);
    let piped = run(&[&["run", waveform, "--output", "-"][..], &timed].concat());
    piped.says(0, &[]);
    assert_eq!(parsed(&piped)["waveform"], file.name.as_str());
    run(&["run", waveform, "--output", "/no/such/result.json"]).says(2, &["/no/such/result.json"]);
    run(&["run", "--json"]).says(2, &["<FILE>"]);
    run(&["bench", "--json"]).says(2, &["<FILE>"]);
    run(&["run", "--json", "--output", "/no/such/result.json", waveform]).says(2, &["/no/such/result.json"]);
}

#[test]
fn waveforms_are_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let run_there = |arguments: &[&str]| {
        let output = stripline().args(arguments).current_dir(&folder).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    for name in ["adsb", "fm", "radio", "scan", "spectrum"] {
        assert!(run_there(&["check", name]).stdout.starts_with(&format!("{name}: ok: ")));
    }
    let ran = run_there(&["run", "adsb", "--set", "source.duration_s=0.5"]);
    ran.says(0, &[]);
    assert!(ran.stdout.contains("adsb ended after"), "{}", ran.stdout);
    run_there(&["run", "adbs"])
        .says(2, &["adbs", "built into the command: adsb, fm, radio, scan, spectrum, vita49, vita49-send"]);
    // A file with the name comes before the built-in waveform.
    std::fs::write(folder.path().join("adsb"), "[waveform]\nname = 'mine'").unwrap();
    run_there(&["run", "adsb"]).says(2, &["adsb"]);
}

#[test]
fn check_takes_all_kinds_of_files_together() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let topics = file("topics.toml", "[topic.iq]\ndepth = 4\n");
    let good = [path("waveforms/radio.toml"), path("experiments/e1-messaging.toml"), topics.clone()];
    let good: Vec<&str> = good.iter().map(String::as_str).collect();
    let checked = run(&[&["check"], &good[..]].concat());
    checked.says(0, &[]);
    let lines: Vec<&str> = checked.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", checked.stdout);
    assert!(lines[0].contains("radio.toml: ok: 3 components, 2 connections"), "{}", lines[0]);
    assert!(lines[1].contains("e1-messaging.toml: ok: ") && lines[1].ends_with(" cases"), "{}", lines[1]);
    assert!(lines[2].ends_with("topics.toml: ok: topics"), "{}", lines[2]);

    let bad_topics = file("bad-topics.toml", "[topic.iq]\ndepht = 4\n");
    let bad_waveform = file("bad.toml", "[component.a]\ntype = \"no-such-type\"\n");
    let bad_case = file("case.toml", "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\nstages = 0\n");
    let missing = file("radio.toml", "").replace("radio.toml", "radoi.toml");
    let all = ["check", &bad_topics, good[0], &bad_waveform, &bad_case, &missing];
    let words = ["bad-topics.toml", "depht", "no-such-type", "`stages` is 0", "did you mean", "radio.toml`?"];
    let checked = run(&all);
    checked.says(2, &words);
    assert_eq!(checked.stdout.lines().count(), 1, "{}", checked.stdout);
    let found = run(&[&all[..], &["--json"]].concat());
    found.says(2, &[]);
    assert_eq!(found.stderr, "");
    let found = parsed(&found);
    let ok: Vec<bool> = found.as_array().unwrap().iter().map(|file| file["ok"].as_bool().unwrap()).collect();
    assert_eq!(ok, [false, true, false, false, false]);
    let kinds: Vec<&Value> = found.as_array().unwrap().iter().map(|file| &file["kind"]).collect();
    assert_eq!(
        kinds,
        ["topics", "waveform", "waveform", "experiment"]
            .map(Value::from)
            .iter()
            .chain([&Value::Null])
            .collect::<Vec<_>>()
    );
    let finding = &found[2]["findings"][0];
    assert_eq!(
        (&finding["level"], &finding["code"], &finding["line"], &finding["column"]),
        (&json!("error"), &json!("unknown-type"), &json!(2), &json!(8))
    );
    assert_eq!((&finding["start"], &finding["end"]), (&json!(21), &json!(35)));
    assert_eq!(found[3]["findings"][0]["line"], 5);
    assert!(found[0]["findings"][0]["message"].as_str().unwrap().contains("depht"));
    let finding = &found[0]["findings"][0];
    assert_eq!((&finding["code"], &finding["line"]), (&json!("unknown-key"), &json!(2)));
    assert_eq!((&finding["start"], &finding["end"]), (&json!(11), &json!(16)));
    let several = file("several.toml", "[topic.iq]\ndepht = 4\n[topic.levels]\ntransport = 'smh'\n");
    let words =
        ["several.toml:2:1", "several.toml:4:13", "did you mean `depth`?", "did you mean `shm`?", "2 errors"];
    run(&["check", &several]).says(2, &words);
    run(&["check", &topics, "--set", "a.b=1"]).says(2, &["--set", "for waveform files"]);
}

#[test]
fn check_reads_standard_input() {
    let radio = std::fs::read(repository("waveforms/radio.toml")).unwrap();
    let checked = check_text(&["-"], &radio);
    checked.says(0, &[]);
    assert_eq!(checked.stdout, "standard input: ok: 3 components, 2 connections\n");
    check_text(&["-"], b"[component.a]\nsort = 1\n").says(2, &["standard input:2:1", "sort"]);
    check_text(&["-"], b"").says(2, &["no component"]);
    check_text(&["-"], b"[topic.a]\n\xff").says(2, &["standard input", "UTF-8"]);
    check_text(&["-"], &vec![b'#'; (1 << 20) + 1]).says(2, &["too large"]);
    let found = check_text(&["--json", "-"], b"[component.a]\nsort = 1\n");
    assert_eq!(parsed(&found)[0]["findings"][0]["source"], "standard input");
}

#[test]
fn a_misspelt_path_gets_its_nearest_neighbour() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("radio.toml"), "").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "").unwrap();
    let in_folder = |arguments: &[&str]| {
        let output = stripline().args(arguments).current_dir(folder.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    for name in ["radio", "radoi.toml", "./radio", "Radio.toml"] {
        in_folder(&["run", name]).says(2, &["there is no file", "did you mean `", "radio.toml`?"]);
    }
    in_folder(&["check", "radio"]).says(2, &["did you mean `radio.toml`?"]);
    in_folder(&["bench", "radoi.toml"]).says(2, &["did you mean `radio.toml`?"]);
    in_folder(&["run", "oscilloscope"]).says(2, &["relative to the current folder"]);
    in_folder(&["run", "no/such/radio.toml"]).says(2, &["there is no file"]);
}

#[test]
fn commands_have_the_names_of_what_they_list() {
    let help = run(&["--help"]).stdout;
    assert!(help.contains("links") && help.contains("waveforms"), "{help}");
    let file = File::radio();
    let _running = file.start(&[], 3);
    assert!(run(&["waveforms"]).stdout.contains(&file.name));
    assert!(run(&["links", &file.name]).stdout.contains("tone.out"));
    assert!(parsed(&run(&["links", "--json", &file.name]))["problems"].is_array());
    run(&["links", "--watch=soon"]).says(2, &["number of seconds"]);
}

#[test]
fn a_process_number_alone_selects_a_waveform() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let pid = running.pid().to_string();
    let ask = |command: &str, arguments: &[&str]| run(&[&[command, "--pid", &pid], arguments].concat());
    assert!(ask("get", &[]).stdout.contains("filter.high"));
    assert_eq!(ask("get", &["filter.high"]).stdout, "4000\n");
    assert_eq!(ask("get", &[&file.name, "filter.high"]).stdout, "4000\n");
    assert_eq!(ask("set", &["filter.high=5e3"]).stdout, "filter.high = 5000 Hz (was 4000)\n");
    ask("set", &["filter.high=4e3", "filter.low=1e3"]).says(0, &[]);
    assert_eq!(ask("get", &["filter.low"]).stdout, "1000\n");
    ask("set", &[]).says(2, &["name the properties"]);
    ask("set", &["radar", "filter.high=5e3"]).says(2, &["`radar`", &file.name]);
    ask("get", &["radar", "filter.high"]).says(2, &["not `radar`"]);
    ask("get", &["radar"]).says(2, &["no component `radar`"]);
    ask("test", &["filter", "passband"]).says(0, &[]);
    ask("test", &[]).says(2, &["name a component", &file.name]);
    ask("test", &["filter", "pasband"]).says(2, &["pasband"]);
    ask("stop", &["filter", "--now"]).says(2, &["--now"]);
    for command in ["get", "stop"] {
        run(&[command, "--pid", "1"]).says(2, &["no waveform of this user runs in process 1"]);
        run(&[command]).says(2, &["WAVEFORM"]);
    }
    ask("stop", &[]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_name_that_is_not_there_is_wrong_usage() {
    for arguments in [
        &["get", "no-such-waveform"][..],
        &["set", "no-such-waveform", "a.b=1"],
        &["test", "no-such-waveform", "a"],
        &["stop", "no-such-waveform"],
        &["waveforms", "no-such-waveform"],
        &["waveforms", "--pid", "1"],
        &["components", "no-such-component"],
        &["run", "no-such-file.toml"],
        &["check", "no-such-file.toml"],
        &["bench", "no-such-file.toml"],
    ] {
        assert_eq!(run(arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn components_of_ones_own_are_shown() {
    let gain = gain_example();
    let gain = gain.to_str().unwrap();
    let shown = run(&["components", gain]);
    shown.says(0, &[]);
    assert!(shown.stdout.contains("factor") && shown.stdout.contains("\nPorts\n"), "{}", shown.stdout);
    let mut described: Value = serde_json::from_str(&common::run_gain_description()).unwrap();
    // The transports belong to the program, not to the component.
    described.as_object_mut().unwrap().remove("transports").unwrap();
    assert_eq!(parsed(&run(&["components", gain, "--json"])), described);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    let text = format!(
        "[component.source]\ntype = \"signal-generator\"\n[component.gain]\nexec = \"{gain}\"\n\
         [component.end]\ntype = \"null-sink\"\n[[connection]]\nfrom = \"source.out\"\nto = \"gain.in\"\n\
         [[connection]]\nfrom = \"gain.out\"\nto = \"end.in\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let shown = run(&["components", file.to_str().unwrap()]);
    shown.says(0, &[]);
    for title in ["signal-generator: ", "null-sink: ", "gain: "] {
        assert!(shown.stdout.lines().any(|line| line.starts_with(title)), "{title}: {}", shown.stdout);
    }
    assert_eq!(parsed(&run(&["components", "--json", file.to_str().unwrap()])).as_array().unwrap().len(), 3);
    run(&["components", "./no/such/program"]).says(2, &["there is no executable `program`"]);
    run(&["components", "/bin/false"]).says(2, &["exit code 1", "component::main"]);
    run(&["components", "no-such-file.toml"]).says(2, &["no-such-file.toml"]);
    std::fs::write(&file, "[component.a]\ntype = \"no-such-type\"\n").unwrap();
    run(&["components", file.to_str().unwrap()]).says(2, &["no-such-type", "^"]);
}
