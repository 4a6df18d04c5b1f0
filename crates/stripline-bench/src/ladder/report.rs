//! The results of a ladder.

use serde::Serialize;

use super::case::{Case, Measure, Outcome};
use super::ratios::GroupRuns;
use crate::Machine;
use crate::figure::{Figure, by_name};
use crate::statistics::{median, percentile, pool};
use crate::usage::Usage;

/// The results of a whole ladder. In JSON, the ratios are an object with the names as keys.
///
/// ```no_run
/// # use stripline_bench::ladder::{Settings, run};
/// let report = run(&Settings::default(), &mut |_| ())?;
/// std::fs::write("ladder.json", serde_json::to_string_pretty(&report).expect("plain values"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of the JSON form.
    pub format: u32,
    /// The machine of the measurement.
    pub machine: Machine,
    /// Number of runs of each group of cases. Each run has separate processes, and the order of the
    /// groups reverses from run to run.
    pub rounds: u32,
    /// Mean measuring time of a run of a group, in seconds.
    pub seconds_per_run: f64,
    /// The cost of one reading of the clock, in nanoseconds. Percentiles include one reading.
    pub clock_ns: Option<f64>,
    /// The figures of the same loop without a peer.
    pub noise: Percentiles,
    /// The rungs.
    pub rows: Vec<Row>,
    /// The figures with a target.
    #[serde(serialize_with = "by_name")]
    pub ratios: Vec<Figure>,
    /// Notes on cases that could not be measured, with the reasons, and on cases that were left
    /// out.
    pub notes: Vec<String>,
    /// Whether the ladder was ended early, so that the results are incomplete.
    pub interrupted: bool,
}

/// The results of one rung.
///
/// ```no_run
/// # use stripline_bench::ladder::{Settings, run};
/// let report = run(&Settings::default(), &mut |_| ())?;
/// for row in report.rows.iter().filter(|row| row.size == 64) {
///     println!("{} over {}, {}: {:?} ns", row.what, row.transport, row.wait, row.one_way_ns.typical);
/// }
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The subject: the means that carried the packets.
    pub what: String,
    /// The transport.
    pub transport: String,
    /// The way in which both sides waited: `spin`, `block`, `adaptive` or `none`.
    pub wait: String,
    /// Bytes per packet.
    pub size: usize,
    /// Number of readers of every packet.
    pub readers: u32,
    /// Number of components in the chain.
    pub components: u32,
    /// Whether statistics had the default setting (otherwise they were off).
    pub statistics: bool,
    /// The number of calls kept outstanding. In this case, packets are calls. `None` if each call
    /// waits for the previous call.
    pub outstanding: Option<u32>,
    /// The time of a packet one way, in nanoseconds. For memcpy, the time of one copy.
    pub one_way_ns: Percentiles,
    /// Packets received per second: the median over the runs.
    pub packets_per_s: Option<f64>,
    /// Bytes received per second.
    pub bytes_per_s: Option<f64>,
    /// The cost of one publish, in nanoseconds: the median over bursts of 1024 packets. Each burst
    /// is timed as a whole, and begins after all readers have taken the previous burst. One process
    /// polls all readers in turn.
    pub publish_ns: Option<f64>,
    /// The time per packet for the whole chain, in nanoseconds.
    pub per_packet_ns: Option<f64>,
    /// Number of runs that are included.
    pub runs: usize,
    /// The figures of each run: typical nanoseconds, and packets per second.
    pub per_run: Vec<Run>,
    /// Number of packets lost in all runs.
    pub lost: u64,
    /// Number of packets out of order in all runs.
    pub reordered: u64,
    /// Seconds of processor time of all processes and runs.
    pub cpu_s: f64,
    /// Number of voluntary context switches.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches.
    pub involuntary_switches: u64,
    /// The total peak memory of the processes of a run, in KiB.
    pub peak_kib: u64,
}

/// The figures of one run of a row.
///
/// ```
/// let run = stripline_bench::ladder::Run::default();
/// assert_eq!(run.packets_per_s, None);
/// ```
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Run {
    /// The mean one-way time in a block, in nanoseconds: the median over blocks.
    pub typical_ns: Option<f64>,
    /// Packets per second.
    pub packets_per_s: Option<f64>,
}

/// Times in nanoseconds. A percentile is omitted if fewer than 100 samples lie beyond it.
///
/// ```
/// let times = stripline_bench::ladder::Percentiles::default();
/// assert_eq!((times.p50, times.max), (None, None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median over runs of the median over blocks, without the clock: half of a round trip.
    pub typical: Option<f64>,
    /// The median of the single packets of all runs together. This figure and the following ones
    /// are measured one way, with one clock for both sides. The figures include one reading of the
    /// clock.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p999: Option<f64>,
    /// The maximum.
    pub max: Option<f64>,
    /// Number of packets that were timed one by one.
    pub samples: u64,
}

/// Returns the rows. The latency and the throughput of a subject share a row.
pub(super) fn rows(results: &[GroupRuns]) -> Vec<Row> {
    let mut rows: Vec<(Case, Row)> = Vec::new();
    for result in results {
        let mut keys: Vec<(Case, Vec<&Case>)> = Vec::new();
        for case in result.group.cases.iter().filter(|case| !case.again) {
            // Streams and ping-pongs share a row; other measurements have separate rows.
            let measure = if case.measure == Measure::Throughput { Measure::Latency } else { case.measure };
            let key = Case { measure, ..case.clone() };
            match keys.iter_mut().find(|(known, _)| *known == key) {
                Some((_, cases)) => cases.push(case),
                None => keys.push((key, vec![case])),
            }
        }
        for (key, cases) in keys {
            // The atomics are in many groups. The first group supplies the row.
            let is_known = rows.iter().any(|(known, _)| *known == key);
            if let Some(row) = (!is_known).then(|| row(&key, &cases, result)).flatten() {
                rows.push((key, row));
            }
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Returns the times of a case, pooled over runs.
pub(super) fn percentiles(runs: &[&Outcome]) -> Percentiles {
    let times = pool(runs.iter().map(|run| &run.times[..]));
    let at = |part| percentile(&times, part).map(|ns| ns as f64);
    Percentiles {
        typical: typical(runs),
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: times.last().map(|(ns, _)| *ns as f64),
        samples: times.iter().map(|(_, count)| count).sum(),
    }
}

/// Returns the median over runs of the median over blocks.
fn typical(runs: &[&Outcome]) -> Option<f64> {
    median(&runs.iter().filter_map(|run| run.typical_ns()).collect::<Vec<_>>())
}

/// Returns the row of a subject; `None` if no run was measured.
fn row(key: &Case, cases: &[&Case], result: &GroupRuns) -> Option<Row> {
    let runs = |measures: &[Measure]| -> Vec<&Outcome> {
        let of = cases.iter().filter(|case| measures.contains(&case.measure));
        of.flat_map(|case| result.of(case)).collect()
    };
    let (latency, publish) = (runs(&[Measure::Latency, Measure::Wake]), runs(&[Measure::Publish]));
    let rates = runs(&[Measure::Throughput, Measure::Outstanding, Measure::Pipeline]);
    let pipeline = runs(&[Measure::Pipeline]);
    let all: Vec<&Outcome> = cases.iter().flat_map(|case| result.of(case)).collect();
    let times = if latency.is_empty() { &publish } else { &latency };
    let rounds = times.len().max(rates.len());
    let packets_per_s = typical(&rates).map(|ns| 1e9 / ns);
    let total = |of: fn(&Usage) -> u64| all.iter().map(|run| of(&run.usage)).sum();
    (!all.is_empty()).then(|| Row {
        what: key.subject.name().into(),
        transport: key.transport.clone(),
        wait: key.wait_name().into(),
        size: key.size,
        readers: if key.measure == Measure::Outstanding { 1 } else { key.readers },
        outstanding: (key.measure == Measure::Outstanding).then_some(key.readers),
        components: key.components,
        statistics: key.statistics,
        one_way_ns: percentiles(&latency),
        packets_per_s,
        bytes_per_s: packets_per_s.map(|rate| rate * key.size as f64),
        publish_ns: typical(&publish),
        per_packet_ns: typical(&pipeline),
        runs: rounds,
        per_run: (0..rounds)
            .map(|index| Run {
                typical_ns: times.get(index).and_then(|run| run.typical_ns()),
                packets_per_s: rates.get(index).and_then(|run| run.typical_ns()).map(|ns| 1e9 / ns),
            })
            .collect(),
        lost: all.iter().map(|run| run.lost).sum(),
        reordered: all.iter().map(|run| run.reordered).sum(),
        cpu_s: all.iter().map(|run| run.usage.cpu_s).sum(),
        voluntary_switches: total(|usage| usage.voluntary_switches),
        involuntary_switches: total(|usage| usage.involuntary_switches),
        peak_kib: all.iter().map(|run| run.usage.peak_kib).max().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::case::{Group, RunOutcome, Subject, Wait};
    use super::*;

    #[test]
    fn latency_and_throughput_share_a_row_and_ratios_are_named() {
        let latency = Case::new(Measure::Latency, Subject::Stripline, "shm", Wait::Spin, 64);
        let stream = Case { measure: Measure::Throughput, ..latency.clone() };
        let again = Case { again: true, ..latency.clone() };
        let outcome = |ns: f64| Outcome { blocks: vec![ns, ns], ..Outcome::default() };
        let timed = Outcome { times: vec![(90, 300)], lost: 1, ..outcome(70.0) };
        let run =
            RunOutcome { cases: vec![timed, outcome(500_000.0), outcome(1.0)], ..RunOutcome::default() };
        let group = Group { cases: vec![latency, stream, again], threads: false };
        let results =
            [GroupRuns { group: group.clone(), runs: vec![run] }, GroupRuns { group, runs: vec![] }];
        let rows = rows(&results);
        assert_eq!(rows.len(), 1);
        let json = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!(
            (&json["what"], &json["transport"], &json["wait"]),
            (&"stripline".into(), &"shm".into(), &"spin".into())
        );
        let times = &json["one_way_ns"];
        assert_eq!(
            (&times["typical"], &times["p50"], &times["p99"]),
            (&70.0.into(), &90.0.into(), &().into())
        );
        assert_eq!((&json["packets_per_s"], &json["bytes_per_s"]), (&2000.0.into(), &128_000.0.into()));
        assert_eq!((&json["runs"], &json["lost"]), (&1.into(), &1.into()));
    }
}
