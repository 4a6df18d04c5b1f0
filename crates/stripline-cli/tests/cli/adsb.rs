//! The ADS-B receiver end to end: the same output over every transport.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{capture, has_transport, repository, run};

/// Returns the transports of this build and the placements with which the receiver runs.
fn ways() -> impl Iterator<Item = (&'static str, &'static str)> {
    let names = ["inproc", "shm", "uds", "tcp", "iceoryx2", "zenoh", "dds", "corba"];
    let names = names.into_iter().filter(|name| has_transport(name));
    let ways = names.flat_map(|name| [(name, "threads"), (name, "processes")]);
    ways.filter(|way| *way != ("inproc", "processes"))
}

/// Runs the receiver. Returns the AVR lines and the JSON result.
fn receive(folder: &Path, way: (&str, &str), source: &[String]) -> (String, serde_json::Value) {
    let name = format!("{}-{}", way.0, way.1);
    let (avr, json) = (folder.join(format!("{name}.avr")), folder.join(format!("{name}.json")));
    let waveform = repository("waveforms/adsb.toml");
    let sink = format!("sink.path={}", avr.display());
    let mut arguments = vec!["run", waveform.to_str().unwrap(), "--transport", way.0, "--placement", way.1];
    arguments.extend(["--output", json.to_str().unwrap(), "--quiet", "--set", &sink]);
    for set in source {
        arguments.extend(["--set", set]);
    }
    run(&arguments).says(0, &[]);
    let result = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    (std::fs::read_to_string(avr).unwrap(), result)
}

fn every_way_gives_the_same(source: &[String]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut first: Option<String> = None;
    for way in ways() {
        let (avr, result) = receive(folder.path(), way, source);
        assert!(!avr.is_empty(), "{way:?}: no frame");
        let connections = result["connections"].as_array().unwrap();
        assert_eq!(connections.len(), 3);
        for connection in connections {
            assert_eq!(connection["lost"], 0, "{way:?}: {connection}");
            assert_eq!(connection["reordered"], 0, "{way:?}: {connection}");
            assert_eq!(connection["transport"], way.0);
            assert!(connection["packets"].as_u64().unwrap() > 0, "{way:?}: {connection}");
            assert!(connection["bytes"].as_u64().unwrap() > 0, "{way:?}: {connection}");
            assert!(connection["latency_ns"]["samples"].as_u64().unwrap() > 0, "{way:?}: {connection}");
            assert!(connection["latency_ns"]["max"].as_u64().unwrap() > 0, "{way:?}: {connection}");
        }
        assert!(result["duration_s"].as_f64().unwrap() > 0.0);
        assert_eq!(result["components"].as_array().unwrap().len(), 4);
        match &first {
            None => first = Some(avr),
            Some(first) => assert!(*first == avr, "{way:?} gives another file than inproc"),
        }
    }
    first.unwrap_or_default()
}

#[test]
fn simulated_aircraft_are_heard_the_same_over_every_transport() {
    let source = ["source.duration_s=2", "source.rate=0"].map(String::from);
    let avr = every_way_gives_the_same(&source);
    assert!(avr.lines().count() > 20, "{avr}");
}

#[test]
fn quiet_is_quiet() {
    let waveform = repository("waveforms/adsb.toml");
    let arguments =
        ["run", waveform.to_str().unwrap(), "--set", "source.rate=0", "--set", "source.duration_s=1"];
    for (more, printed) in [(&["--quiet"][..], false), (&[], true)] {
        let said = run(&[&arguments, more].concat());
        said.says(0, &[]);
        assert_eq!(said.stdout.contains("callsign"), printed, "{}", said.stdout);
        assert_eq!(
            said.stdout.is_empty() && said.stderr.is_empty(),
            !printed,
            "{}{}",
            said.stdout,
            said.stderr
        );
    }
}

#[test]
fn the_capture_gives_the_reference_frames_over_every_transport() {
    let Some((path, reference)) = capture() else {
        println!("SKIPPED: no capture; set STRIPLINE_ADSB_CAPTURE to modes1.bin (with modes1.avr beside it)");
        return;
    };
    let avr = every_way_gives_the_same(&[format!("source.path={}", path.display())]);
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    avr.lines().for_each(|line| *found.entry(line).or_default() += 1);
    let (mut matched, mut total) = (0, 0);
    for line in reference.lines() {
        total += 1;
        let count = found.entry(line).or_default();
        let there = *count > 0;
        *count = count.saturating_sub(1);
        matched += usize::from(there);
        // Messages with downlink format 11 or 17 must all be found. The first five bits are the
        // format.
        let format = u8::from_str_radix(&line[1..3], 16).unwrap() >> 3;
        assert!(there || (format != 11 && format != 17), "{line} is missing");
    }
    assert_eq!(total, 217);
    assert!(matched * 100 >= total * 95, "{matched} of {total}");
}
