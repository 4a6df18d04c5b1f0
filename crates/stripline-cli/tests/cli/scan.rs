//! The scan of a band by the built-in waveform.

use serde_json::Value;

use crate::common::run;

/// Returns the frequency and the power of each printed step.
fn steps(printed: &str) -> Vec<(f64, f64)> {
    let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let step = |line: Value| {
        let message = line.get("message")?;
        Some((message.get("frequency_hz")?.as_f64()?, message.get("power_db")?.as_f64()?))
    };
    lines.filter_map(step).collect()
}

/// Sends as fast as the machine can: each step has the power of its own band, and of no other.
#[test]
fn each_step_has_the_power_of_its_band() {
    let fast = [
        "receiver.rate=0",
        "receiver.packet=1000",
        "receiver.duration_s=8",
        "steps.format=json",
        "scanner.sweeps=1",
    ];
    for transport in ["shm", "tcp"] {
        let service = format!("receiver.tuner=scan-{}-{transport}", std::process::id());
        let same = service.replace("receiver", "scanner");
        let sets = fast.iter().copied().chain([&*service, &*same]).flat_map(|set| ["--set", set]);
        let ended =
            run(&["run", "scan", "--transport", transport].into_iter().chain(sets).collect::<Vec<_>>());
        ended.says(0, &[]);
        let steps = steps(&ended.stdout);
        assert_eq!(steps.len(), 41, "{}", ended.stdout);
        for (index, (frequency_hz, power_db)) in steps.into_iter().enumerate() {
            assert_eq!(frequency_hz, 88e6 + 0.5e6 * index as f64);
            let expected = [(95.3e6, -20.0), (101.25e6, -35.0)].into_iter();
            let expected = expected.filter(|(hz, _)| (hz - frequency_hz).abs() < 0.5e6);
            let expected = expected.map(|(_, db)| db).next().unwrap_or(-60.0);
            assert!((power_db - expected).abs() < 1.0, "{frequency_hz} Hz: {power_db} dB, not {expected}");
        }
    }
}

/// Shows the ages of a receiver in real time, up to the result of the scanner.
#[test]
fn samples_in_real_time_have_ages() {
    let service = format!("scan-{}-paced", std::process::id());
    let [offered, called] = ["receiver", "scanner"].map(|component| format!("{component}.tuner={service}"));
    let ended = run(&[
        "run",
        "scan",
        "--json",
        "--quiet",
        "--set",
        &offered,
        "--set",
        &called,
        "--set",
        "receiver.duration_s=0.5",
        "--set",
        // The receiver's own frequency: even a first request that takes long leaves a step.
        "scanner.frequencies=98e6",
        "--set",
        "steps.path=/dev/null",
        "--set",
        "steps.existing=append",
    ]);
    ended.says(0, &[]);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let ages = result["connections"].as_array().unwrap().iter().map(|connection| &connection["age"]);
    for age in ages {
        assert_eq!(age["clock"]["reference"], "host", "{age}");
        // A packet has 4096 samples, and is sent when the last one is due.
        assert!(age["max_ns"].as_i64().unwrap() >= 4_096_000, "{age}");
    }
}
