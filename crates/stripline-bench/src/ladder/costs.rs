//! The cases of a calibration, which measure the cost of a packet over each transport.

use std::time::Duration;

use stripline::transport;

use super::case::{Case, Group, Outcome, Subject, Wait};
use super::plan::{latency, stream, wake};
use super::ratios::GroupRuns;
use super::statistics::median;
use super::{Pace, Progress, Runs, Settings, allowed_cpus, run_groups};
use crate::calibration::{Cost, TransportCosts};
use crate::processes::OthersTime;

/// The measured sizes: a message, a small packet, and a large packet.
pub(crate) const SIZES: [usize; 3] = [64, 1024, 32_768];
/// The intended total time of all runs.
const BUDGET: Duration = Duration::from_secs(2 * 60);
const QUICK_BUDGET: Duration = Duration::from_secs(15);
const RUNS: u32 = 6;
const QUICK_RUNS: u32 = 3;

/// The result of a calibration's runs.
pub(crate) struct Costs {
    pub transports: Vec<TransportCosts>,
    /// Number of runs of each group of cases.
    pub runs: u32,
    /// The share of all processors that other programs used, 0 to 1; `None` if unknown.
    pub others_share: Option<f64>,
    /// Notes on cases that could not be measured, with the reasons.
    pub notes: Vec<String>,
    pub interrupted: bool,
}

/// Measures all transports of the program. Each transport has a separate group for each size, so
/// that a transport that fails here does not affect the others.
pub(crate) fn measure(settings: &Settings, observer: &mut dyn FnMut(&Progress)) -> Result<Costs, String> {
    settings.check()?;
    let transports: Vec<&str> =
        transport::all().map(|transport| transport.name).filter(|name| settings.has(name)).collect();
    let groups: Vec<Group> =
        SIZES.iter().flat_map(|size| transports.iter().map(|name| group(name, *size))).collect();
    let runs = settings.rounds.unwrap_or(if settings.quick { QUICK_RUNS } else { RUNS }).max(1);
    let budget = if settings.quick { QUICK_BUDGET } else { BUDGET };
    let pace = Pace::new(budget, settings.seconds_per_run, groups.len() * runs as usize);
    let Runs { results, completed, notes, interrupted, .. } =
        run_groups(groups, runs, pace, settings.program.as_ref(), observer)?;
    let mut others = OthersTime::default();
    let times = results.iter().flat_map(|result| &result.runs).filter_map(|run| run.others);
    times.for_each(|time| others.add(time));
    Ok(Costs {
        transports: transports.into_iter().filter_map(|name| costs(name, &results)).collect(),
        runs: completed,
        others_share: others.share(allowed_cpus().len()),
        notes,
        interrupted,
    })
}

/// Returns the cases of one transport at one size, which take turns.
fn group(transport: &str, size: usize) -> Group {
    Group { cases: cases(transport, size).into(), threads: transport == "inproc" }
}

/// Returns the cases for a cost: to a sleeping receiver, to a spinning receiver, and at full rate.
fn cases(transport: &str, size: usize) -> [Case; 3] {
    // Over a socket, a receiver that polls would take time from the sender, as in the ladder.
    let is_memory = ["inproc", "shm"].contains(&transport);
    let streaming = if is_memory { Wait::Spin } else { Wait::Block };
    [
        wake(Subject::Stripline, transport, size),
        latency(Subject::Stripline, transport, Wait::Spin, size),
        stream(Subject::Stripline, transport, streaming, size),
    ]
}

/// Returns the costs of a transport; `None` if it was not measured at all sizes.
fn costs(transport: &str, results: &[GroupRuns]) -> Option<TransportCosts> {
    let typical = |case: &Case| {
        let runs: Vec<&Outcome> = results.iter().flat_map(|result| result.of(case)).collect();
        let ns = median(&runs.iter().filter_map(|run| run.typical_ns()).collect::<Vec<_>>())?;
        // Digits beyond a tenth are noise.
        Some((ns * 10.0).round().max(1.0) / 10.0)
    };
    let cost = |size: &usize| {
        let [asleep, spinning, full_rate] = cases(transport, *size);
        Some(Cost {
            bytes: *size,
            asleep_ns: typical(&asleep)?,
            spinning_ns: typical(&spinning)?,
            per_packet_ns: typical(&full_rate)?,
        })
    };
    let costs = SIZES.iter().map(cost).collect::<Option<Vec<_>>>()?;
    Some(TransportCosts { transport: transport.into(), costs })
}

#[cfg(test)]
mod tests {
    use super::super::case::RunOutcome;
    use super::*;

    #[test]
    fn a_cost_is_the_median_over_runs_and_needs_every_size() {
        let run = |ns: f64| {
            let outcome = |ns| Outcome { blocks: vec![ns], ..Outcome::default() };
            let cases = vec![outcome(ns), outcome(2.0 * ns), outcome(3.0 * ns)];
            RunOutcome { cases, ..RunOutcome::default() }
        };
        let mut results: Vec<GroupRuns> = SIZES
            .iter()
            .map(|size| GroupRuns { group: group("uds", *size), runs: [10.0, 40.0, 20.0].map(run).into() })
            .collect();
        let found = costs("uds", &results).unwrap();
        assert_eq!(found.costs.iter().map(|cost| cost.bytes).collect::<Vec<_>>(), SIZES);
        let Cost { asleep_ns, spinning_ns, per_packet_ns, .. } = found.costs[1];
        assert_eq!((asleep_ns, spinning_ns, per_packet_ns), (20.0, 40.0, 60.0));
        assert_eq!(costs("shm", &results), None);
        results[2].runs.clear();
        assert_eq!(costs("uds", &results), None);
    }
}
