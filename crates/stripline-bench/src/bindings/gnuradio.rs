//! The figures of flowgraphs, measured by `bindings/gnuradio/bench/links.py`.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;

use super::BindingFigure;
use super::figure::{Aim, Samples};
use super::programs::Programs;
use crate::ladder::{Problem, printable};

/// Interval between checks of the Ctrl-C flag.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The number of samples of a link, and the number of rounds.
const FULL: [&str; 4] = ["--samples", "50000000", "--rounds", "11"];
const QUICK: [&str; 4] = ["--samples", "5000000", "--rounds", "3"];

const RATE: &str = "gnuradio_rate_over_zeromq";
const PROCESSOR: &str = "gnuradio_processor_time_over_zeromq";
const BURST: &str = "gnuradio_burst_latency_over_zeromq";
const ONE_PROCESS: &str = "gnuradio_rate_over_one_process";

/// Returns the names of the figures of GNU Radio.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    [RATE, PROCESSOR, BURST, ONE_PROCESS].into_iter()
}

/// The output of the program: ratios for each round.
#[derive(Clone, Debug, Default, Deserialize)]
struct Rounds {
    rate: Vec<f64>,
    processor_time: Vec<f64>,
    one_process: Vec<f64>,
    null_rate: Vec<f64>,
    null_processor_time: Vec<f64>,
    /// Empty if the program for bursts is not installed.
    burst_latency: Vec<f64>,
    null_burst_latency: Vec<f64>,
}

/// Runs the program. Returns the figures, or the reason why there are none.
pub(super) fn figures(programs: &Programs, is_quick: bool, interrupted: &AtomicBool) -> Vec<BindingFigure> {
    let found = programs.gnuradio().and_then(|mut command| {
        command.args(if is_quick { QUICK } else { FULL }).arg("--json");
        run(command, interrupted)
    });
    let (rounds, missing) = match found {
        Ok(rounds) => (rounds, None),
        Err(problem) => (Rounds::default(), Some(problem)),
    };
    let new = |name, aim, values: &[f64], nulls: &[f64]| {
        BindingFigure::new(
            name,
            aim,
            &Samples::compared(values.to_vec(), nulls.to_vec()),
            None,
            missing.clone(),
        )
    };
    let is_measured = !rounds.burst_latency.is_empty();
    let no_burst = "libexec/stripline-gr-burst is not installed (packaging/gnuradio-install)".to_owned();
    vec![
        new(RATE, Aim::AtLeast(1.1), &rounds.rate, &rounds.null_rate),
        new(PROCESSOR, Aim::AtMost(0.65), &rounds.processor_time, &rounds.null_processor_time),
        BindingFigure::new(
            BURST,
            Aim::AtMost(0.5),
            &Samples::compared(rounds.burst_latency.clone(), rounds.null_burst_latency.clone()),
            None,
            missing.clone().or((!is_measured).then_some(no_burst)),
        ),
        new(ONE_PROCESS, Aim::AtLeast(0.85), &rounds.one_process, &rounds.null_rate),
    ]
}

fn run(mut command: Command, interrupted: &AtomicBool) -> Result<Rounds, Problem> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start Python: {error}"))?;
    // The output is smaller than the buffer of a pipe.
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if interrupted.load(Ordering::Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return Err("interrupted".into());
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("links.py printed no figures: {error}"));
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| format!("links.py ended with {}", output.status), printable))
}
