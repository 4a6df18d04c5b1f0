//! The figures of flowgraphs, measured by `bindings/gnuradio/bench/links.py`.

use std::time::Duration;

use serde::Deserialize;

use super::plan::GNURADIO;
use super::programs::Programs;
use super::worker::Worker;
use crate::Problem;
use crate::figure::{Aim, Figure, Samples};
use crate::rounds::Interruption;

/// The longest time for all rounds.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// The number of samples of a link, and the number of rounds.
const FULL: [&str; 4] = ["--samples", "50000000", "--rounds", "11"];
const QUICK: [&str; 4] = ["--samples", "5000000", "--rounds", "3"];

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
pub(super) fn figures(programs: &Programs, is_quick: bool, interruption: &Interruption) -> Vec<Figure> {
    let found = measure(programs, is_quick, interruption);
    let new = |name, aim, of: fn(Rounds) -> (Vec<f64>, Vec<f64>)| match found.clone().map(of) {
        Ok((values, _)) if values.is_empty() => {
            let no_burst = "libexec/stripline-gr-burst is not installed (packaging/gnuradio-install)";
            Figure::missing(name, aim, Some(no_burst.into()))
        }
        Ok((values, nulls)) => Figure::new(name, aim, &Samples { values, nulls, ..Samples::default() }),
        Err(problem) => Figure::missing(name, aim, Some(problem)),
    };
    let [rate, processor, burst, one_process] = GNURADIO;
    vec![
        new(rate, Aim::at_least(1.1), |rounds| (rounds.rate, rounds.null_rate)),
        new(processor, Aim::at_most(0.65), |rounds| (rounds.processor_time, rounds.null_processor_time)),
        new(burst, Aim::at_most(0.5), |rounds| (rounds.burst_latency, rounds.null_burst_latency)),
        new(one_process, Aim::at_least(0.85), |rounds| (rounds.one_process, rounds.null_rate)),
    ]
}

fn measure(programs: &Programs, is_quick: bool, interruption: &Interruption) -> Result<Rounds, Problem> {
    let mut command = programs.gnuradio()?;
    command.args(if is_quick { QUICK } else { FULL }).arg("--json");
    let line = Worker::start(command, None, interruption)?.line(TIMEOUT)?;
    serde_json::from_str(&line).map_err(|error| format!("links.py printed no figures: {error}"))
}
