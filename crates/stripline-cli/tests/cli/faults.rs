//! Components and launchers that die, and leave nothing behind.

use std::process::{Command, Stdio};

use crate::common;
use crate::common::{Running, is_alive, repository, run, send, wait_until};
use rustix::process::Signal;

const COMPONENTS: [&str; 4] = ["source", "demodulator", "decoder", "sink"];

/// Starts the receiver with a simulation of an hour.
fn endless(more: &[&str]) -> Running {
    let waveform = repository("waveforms/adsb.toml");
    let mut arguments = vec!["run", waveform.to_str().unwrap(), "--set", "source.duration_s=3600"];
    arguments.extend(more);
    Running::start(&arguments, 4)
}

#[test]
fn a_killed_component_ends_the_waveform_and_is_named() {
    for transport in ["shm", "uds", "tcp", "udp"] {
        for name in COMPONENTS {
            let running = endless(&["--transport", transport]);
            let pids: Vec<u32> = running.components().iter().map(|(_, pid)| *pid).collect();
            send(running.component(name), Signal::KILL);
            let (code, text) = running.end();
            assert_eq!(code, Some(1), "{transport} {name}: {text}");
            assert!(text.contains(&format!("component {name} was killed (SIGKILL)")), "{name}: {text}");
            assert!(
                !pids.iter().any(|pid| is_alive(*pid)),
                "{transport} {name}: a component outlives the run"
            );
        }
    }
}

#[test]
fn no_component_outlives_a_killed_launcher() {
    for placement in ["processes", "threads"] {
        let waveform = repository("waveforms/adsb.toml");
        let count = if placement == "threads" { 1 } else { 4 };
        let arguments = ["run", waveform.to_str().unwrap(), "--placement", placement];
        let running = Running::start(&[&arguments[..], &["--set", "source.duration_s=3600"]].concat(), count);
        let pids: Vec<u32> = running.components().iter().map(|(_, pid)| *pid).collect();
        send(running.pid(), Signal::KILL);
        wait_until("all components are gone", || !pids.iter().any(|pid| is_alive(*pid)));
    }
}

#[test]
fn an_interrupted_run_stops_in_order_and_counts_as_clean() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("result.json");
        let running = endless(&["--output", json.to_str().unwrap()]);
        running.signal(signal);
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{text}");
        let result: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
        for component in result["components"].as_array().unwrap() {
            assert_ne!(component["outcome"], "failed", "{result}");
        }
    }
}

#[test]
fn a_run_stops_in_order_after_its_duration() {
    let waveform = repository("waveforms/adsb.toml");
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let arguments = ["run", waveform.to_str().unwrap(), "--quiet", "--duration", "0.5", "--output"];
    run(&[&arguments[..], &[json.to_str().unwrap(), "--set", "source.duration_s=3600"]].concat())
        .says(0, &[]);
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert!(result["connections"][0]["packets"].as_u64().unwrap() > 0);
    // The decoder received all packets that the demodulator sent.
    assert!(result["connections"].as_array().unwrap().iter().all(|c| c["lost"] == 0), "{result}");
}

#[test]
fn components_that_never_have_to_wait_stop_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fast.toml");
    let text = "[component.source]\ntype = \"null-source\"\n[component.end]\ntype = \"null-sink\"\n\
                [[connection]]\nfrom = \"source.out\"\nto = \"end.in\"\n";
    std::fs::write(&path, text).unwrap();
    for transport in ["shm", "uds", "tcp", "udp"] {
        let running = Running::start(&["run", path.to_str().unwrap(), "--transport", transport], 2);
        running.signal(Signal::INT);
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{transport}: {text}");
    }
}

#[test]
fn a_component_that_may_restart_comes_back_with_a_gap_report() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(repository("waveforms/adsb.toml")).unwrap();
    let waveform = folder.path().join("restart.toml");
    let with_restart =
        text.replace("[component.demodulator]", "[component.demodulator]\nrestart = \"on-failure\"");
    assert_ne!(text, with_restart);
    std::fs::write(&waveform, with_restart).unwrap();
    for transport in ["shm", "uds", "tcp", "udp"] {
        let json = folder.path().join("result.json");
        let arguments = ["run", waveform.to_str().unwrap(), "--transport", transport, "--output"];
        let running = Running::start(
            &[&arguments[..], &[json.to_str().unwrap(), "--set", "source.duration_s=3600"]].concat(),
            4,
        );
        running.wait_for_line(" received,");
        let first = running.component("demodulator");
        send(first, Signal::KILL);
        running.wait_for_line("it is started again");
        running.wait_until("it is back", || {
            running.components().iter().any(|(name, pid)| name == "demodulator" && *pid != first)
        });
        // The interrupt follows at once, so that it may come at any stage of the restart.
        running.signal(Signal::INT);
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{transport}: {text}");
        let result: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        assert_eq!(result["components"][1]["restarts"], 1, "{transport}: {result}");
        // Every packet of the source is counted in one of the figures.
        let first = &result["connections"][0];
        let count = |name: &str| first[name].as_u64().unwrap();
        assert_eq!(
            count("packets") + count("lost") + count("unaccounted"),
            count("sent"),
            "{transport}: {first}"
        );
        // The sender to the decoder died. The gap is reported in place of the lost packets.
        assert_eq!(result["connections"][1]["peer_deaths"], 1, "{transport}: {result}");
        assert!(result["connections"][1]["gaps"].as_u64() >= Some(1), "{transport}: {result}");
    }
}

#[test]
fn a_full_disk_under_the_log_ends_nothing() {
    let waveform = repository("waveforms/adsb.toml");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = common::stripline();
    command.args([
        "run",
        waveform.to_str().unwrap(),
        "--set",
        "source.duration_s=1",
        "--set",
        "source.rate=0",
    ]);
    let output = command.stderr(full).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("source.out -> demodulator.in"));
}

#[test]
fn a_full_disk_under_the_sink_is_an_error_that_says_so() {
    let waveform = repository("waveforms/adsb.toml");
    let arguments = ["run", waveform.to_str().unwrap(), "--quiet", "--set", "source.duration_s=2"];
    let more = ["--set", "source.rate=0", "--set", "sink.path=/dev/full"];
    run(&[&arguments[..], &more].concat()).says(1, &["sink", "/dev/full", "No space left on device"]);
}

#[test]
fn tcp_without_a_loopback_interface_has_a_remedy() {
    // In a new network namespace the loopback interface is down.
    let in_namespace = |program: &str, arguments: &[&str]| {
        let options = ["--map-root-user", "--net", "--", program];
        Command::new("unshare").args(options).args(arguments).stdin(Stdio::null()).output()
    };
    if !in_namespace("true", &[]).is_ok_and(|output| output.status.success()) {
        eprintln!("NOT RUN: this machine permits no network namespaces (unshare --map-root-user --net)");
        return;
    }
    let waveform = repository("waveforms/radio.toml");
    let arguments = ["run", waveform.to_str().unwrap(), "--transport", "tcp", "--quiet"];
    let output = in_namespace(env!("CARGO_BIN_EXE_stripline"), &arguments).unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("ip link set lo up"), "{printed}");
}

/// Runs with increasing limits of memory. At each limit, another thread or buffer finds no memory.
#[test]
fn a_run_short_of_memory_does_not_panic() {
    let (program, waveform) = (env!("CARGO_BIN_EXE_stripline"), repository("waveforms/adsb.toml"));
    let executable = std::fs::metadata(program).unwrap().len() >> 20;
    let mut codes = std::collections::BTreeSet::new();
    for placement in ["processes", "threads"] {
        // The first limit is less than the system's loader needs.
        for mebibytes in (executable / 2..executable / 2 + 400).step_by(15) {
            let script = format!(
                "ulimit -v {}; exec {program} run {} --placement {placement} --set source.duration_s=0.01",
                mebibytes * 1024,
                waveform.display()
            );
            let ended = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(!said.contains("panicked"), "{placement}, {mebibytes} MiB: {said}");
            codes.insert(ended.status.code());
        }
    }
    assert!(codes.len() > 1 && codes.contains(&Some(0)), "the limits are too low or too high: {codes:?}");
}
