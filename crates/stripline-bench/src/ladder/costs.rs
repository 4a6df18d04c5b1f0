//! The cases of a calibration, which measure the cost of a packet over each transport.

use std::time::Duration;

use stripline::transport;

use super::case::{Case, Group, Outcome, Subject, Wait};
use super::plan::{latency, stream, wake};
use super::ratios::GroupRuns;
use super::{Runs, Settings, run_groups};
use crate::Progress;
use crate::calibration::{Cost, TransportCosts};
use crate::statistics::median;

/// The measured sizes: a message, a small packet, and a large packet.
pub(crate) const SIZES: [usize; 3] = [64, 1024, 32_768];
/// The intended total time of all runs.
const BUDGET: Duration = Duration::from_secs(2 * 60);
const QUICK_BUDGET: Duration = Duration::from_secs(15);

/// Measures all transports of the program. Returns the costs, and the runs. Each transport has a
/// separate group for each size, so that a transport that fails here does not affect the others.
pub(crate) fn measure(
    settings: &Settings,
    observer: &mut dyn FnMut(&Progress),
) -> Result<(Vec<TransportCosts>, Runs), String> {
    settings.check()?;
    let transports: Vec<&str> =
        transport::all().map(|transport| transport.name).filter(|name| settings.has(name)).collect();
    let groups: Vec<Group> =
        SIZES.iter().flat_map(|size| transports.iter().map(|name| group(name, *size))).collect();
    let runs = run_groups(groups, settings, if settings.quick { QUICK_BUDGET } else { BUDGET }, observer)?;
    Ok((transports.into_iter().filter_map(|name| costs(name, &runs.results)).collect(), runs))
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
