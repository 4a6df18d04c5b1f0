//! `stripline set WAVEFORM component.port:transport=NAME`: running connections that move to another
//! transport.

use crate::common::waveform::File;
use crate::common::{run, send, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Writes a waveform with two recorders of one output. `source` has keys of the source, and
/// `recorder` keys of both recorders.
fn recorders(source: &str, recorder: &str) -> File {
    let recorder = |name: &str| {
        format!(
            "[component.{name}]\ntype = \"file-sink\"\n{recorder}\nproperties = {{ path = \"{name}.raw\" }}\n\
             [[connection]]\nfrom = \"source.out\"\nto = \"{name}.in\"\n"
        )
    };
    File::new(&format!(
        "[component.source]\ntype = \"signal-generator\"\n{source}\n{}{}",
        recorder("one"),
        recorder("two")
    ))
}

const FAST: &str = "properties = { rate = 10e6, packet = 100 }";

fn report(file: &File) -> Value {
    serde_json::from_slice(&std::fs::read(file.path("report.json")).unwrap()).unwrap()
}

fn packets(file: &File) -> u64 {
    let listed: Value =
        serde_json::from_str(&run(&["waveforms", &file.name, "--json"]).stdout).unwrap_or_default();
    listed["waveforms"][0]["packets"].as_u64().unwrap_or(0)
}

#[test]
fn a_running_connection_moves_and_nothing_is_missing() {
    let file = recorders(FAST, "");
    let running = file.start(&["--json", "--output", file.path("report.json").to_str().unwrap()], 3);
    let mut before = "shm";
    for to in ["uds", "tcp", "udp", "mqueue", "shm", "uds", "shm"] {
        let seen = packets(&file);
        wait_until("packets", || packets(&file) > seen);
        let set = file.ask("set", &[&format!("source.out:transport={to}")]);
        set.says(0, &[]);
        assert_eq!(set.stdout, format!("source.out:transport = {to} (was {before})\n"));
        running.wait_for_line(&format!("source: out:transport = {to} (was {before})"));
        before = to;
    }
    file.ask("set", &["source.out:transport=shm"]).prints("source.out:transport = shm (was shm)\n");
    // A tap can still find the port.
    let echo = file.ask("echo", &["source.out", "--count", "2"]);
    echo.says(0, &[]);
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
    let report = report(&file);
    for connection in report["connections"].as_array().unwrap() {
        assert_eq!(connection["lost"], 0, "{connection}");
        assert_eq!(connection["sent"], connection["packets"], "{connection}");
        assert_eq!(connection["transport"], "shm");
    }
    let [one, two] = ["one.raw", "two.raw"].map(|name| std::fs::read(file.path(name)).unwrap());
    let sent = report["connections"][0]["sent"].as_u64().unwrap();
    assert_eq!(one.len() as u64, sent * 100 * 8);
    assert!(one == two);
    // The generator sends a sine. A repeated or misplaced packet would break the phase.
    let sample = |at: usize| f32::from_le_bytes(one[at * 8..][..4].try_into().unwrap());
    let step = |at: usize| (sample(at + 1) - sample(at)).abs();
    let largest = (0..1000).map(step).fold(0.0, f32::max);
    assert!((0..one.len() / 8 - 1).all(|at| step(at) <= largest * 1.01));
}

#[test]
fn a_move_that_cannot_be_made_is_refused_and_changes_nothing() {
    let file = recorders(FAST, "");
    let running = file.start(&[], 3);
    let refused = [
        ("source.out:transport=carrier-pigeon", 2, "there is no transport `carrier-pigeon`"),
        ("source.in:transport=uds", 2, "`source` has no output `in`; its outputs are `out`"),
        ("one.in:transport=uds", 2, "`one` has no output `in`"),
        ("source.out:transport=inproc", 2, "`inproc` joins components of one process"),
        ("nothing.out:transport=uds", 2, "has no component `nothing`"),
        ("source.out:depth=4", 2, "`depth` of port `source.out` cannot change while it runs; of a port only"),
        (
            "source.out=4",
            2,
            "`out` of `source` is a port; of a port only the transport can change, as in source.out:",
        ),
        ("source.uot:depth=4", 2, "`source` has no property `uot:depth`"),
        (
            "source:transport=uds",
            2,
            "write it as COMPONENT.PORT:transport=NAME, as in filter.out:transport=uds",
        ),
    ];
    for (setting, code, words) in refused {
        file.ask("set", &[setting]).says(code, &[words]);
    }
    file.ask("set", &["source.out:transport=uds"]).says(0, &[]);
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_port_that_sends_nothing_moves_with_its_next_packet() {
    let file = recorders("properties = { rate = 1.0, packet = 3600 }", "");
    let running = file.start(&[], 3);
    let late = file.ask("set", &["source.out:transport=uds", "--timeout", "0.3"]);
    late.says(1, &["it moves before its next one"]);
    let again = file.ask("set", &["source.out:transport=tcp", "--timeout", "0.3"]);
    again.says(1, &["is being moved already"]);
    file.ask("stop", &[]).says(0, &[]);
    let (code, text) = running.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("`out` did not move to uds"), "{text}");
}

#[test]
fn processes_that_are_killed_during_moves_come_back() {
    let restart = "restart = { when = \"on-failure\", give-up-after = \"never\" }";
    let file = recorders(&format!("{restart}\n{FAST}"), restart);
    let output = file.path("report.json");
    let running = file.start(&["--json", "--output", output.to_str().unwrap()], 3);
    for (round, victim) in ["one", "source", "two", "source", "one", "two"].into_iter().enumerate() {
        let to = ["uds", "shm", "udp"][round % 3];
        let victim_pid = running.component(victim);
        std::thread::scope(|scope| {
            // The move may happen before the kill, after it, or not at all.
            scope.spawn(|| file.ask("set", &[&format!("source.out:transport={to}"), "--timeout", "20"]));
            send(victim_pid, Signal::KILL);
        });
        wait_until("a restart", || {
            running.components().iter().any(|(name, pid)| name == victim && *pid != victim_pid)
        });
        let seen = packets(&file);
        wait_until("packets again", || packets(&file) > seen + 100);
    }
    wait_until("a move in peace", || {
        file.ask("set", &["source.out:transport=tcp"]).stdout.starts_with("source.out:transport = tcp")
    });
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
    let report = report(&file);
    assert_eq!(report["failure"], Value::Null);
    for connection in report["connections"].as_array().unwrap() {
        assert_eq!(connection["transport"], "tcp");
    }
}
