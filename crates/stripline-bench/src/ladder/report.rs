//! The results of a ladder.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::case::{Case, Measure, Outcome};
use super::machine::Machine;
use super::ratios::Results;
use super::statistics::{median, percentile, pool};
use crate::processes::Usage;

/// The results of a whole ladder. As JSON, the ratios are an object by name.
///
/// ```no_run
/// # use stripline_bench::ladder::{Settings, run};
/// let report = run(&Settings::default(), &mut |_| ())?;
/// std::fs::write("ladder.json", serde_json::to_string_pretty(&report).expect("plain values"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine it was measured on.
    pub machine: Machine,
    /// Number of rounds completed. The runs of a round follow each other; each round reverses the
    /// direction.
    pub rounds: u32,
    /// Seconds measured in one run.
    pub seconds_per_run: f64,
    /// The cost of one reading of the clock, in nanoseconds. Percentiles include half of one.
    pub clock_ns: Option<f64>,
    /// The same loop without a peer.
    pub noise: Percentiles,
    /// One case compared with itself.
    pub null_comparison: Null,
    /// The rungs.
    pub rows: Vec<Row>,
    /// The figures with a target.
    #[serde(serialize_with = "by_name")]
    pub ratios: Vec<Ratio>,
    /// Notes: what could not be measured and why, and what was left out.
    pub notes: Vec<String>,
    /// Whether it was ended early, so that the results are incomplete.
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
    /// Whether statistics were at their default rather than off.
    pub statistics: bool,
    /// The number of calls kept outstanding; `None` if each call waits for the one before. Packets
    /// are calls then.
    pub outstanding: Option<u32>,
    /// Half a round trip, in nanoseconds; for memcpy, one copy.
    pub one_way_ns: Percentiles,
    /// Packets received per second: the median of the runs.
    pub packets_per_s: Option<f64>,
    /// Bytes received per second.
    pub bytes_per_s: Option<f64>,
    /// The cost of one publish, in nanoseconds: the median over bursts of 1024 packets. Each burst
    /// is timed as a whole, and begins when all readers have taken the one before. One process
    /// polls all readers in turn.
    pub publish_ns: Option<f64>,
    /// The time per packet of the whole chain, in nanoseconds.
    pub per_packet_ns: Option<f64>,
    /// Number of runs that count.
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
    /// The peak memory of the processes of a run together, in KiB.
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
    /// The mean one-way time in a batch, in nanoseconds; the median over batches.
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
    /// The median over runs of the median over batches, without the clock. Ratios are made from it.
    pub typical: Option<f64>,
    /// The median of the single trips of all runs together. It and the following figures include
    /// the clock's cost.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p999: Option<f64>,
    /// The maximum.
    pub max: Option<f64>,
    /// Number of trips timed one by one.
    pub samples: u64,
}

/// A figure with a target.
///
/// ```no_run
/// # use stripline_bench::ladder::{Settings, run};
/// let report = run(&Settings { quick: true, ..Settings::default() }, &mut |_| ())?;
/// assert!(report.ratios.iter().all(|ratio| ratio.value.is_some() != ratio.missing.is_some()));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// Its name: numerator over denominator.
    #[serde(skip)]
    pub name: String,
    /// The ratio in a round; the median over rounds.
    pub value: Option<f64>,
    /// The lower end of its 95 % interval (bootstrap over rounds).
    pub low: Option<f64>,
    /// The upper end of that interval.
    pub high: Option<f64>,
    /// The target in words.
    pub target: String,
    /// Whether the target is met.
    pub met: Option<bool>,
    /// The reason why there is no value.
    pub missing: Option<String>,
}

/// A comparison of one case with itself.
///
/// ```no_run
/// # use stripline_bench::ladder::{Settings, run};
/// let report = run(&Settings { quick: true, ..Settings::default() }, &mut |_| ())?;
/// println!("{}: {:?}", report.null_comparison.what, report.null_comparison.value);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Null {
    /// The case.
    pub what: String,
    /// The median ratio: 1 but for noise.
    pub value: Option<f64>,
    /// The lower end of its 95 % interval.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// Returns one row for the latency and the throughput of the same subject.
pub(super) fn rows(order: &[Case], results: &Results) -> Vec<Row> {
    let mut groups: Vec<(Case, Vec<&Case>)> = Vec::new();
    for case in order.iter().filter(|case| !case.again && results.contains_key(case)) {
        // Streams and ping-pongs share a row; the other measurements have their own.
        let measure = if case.measure == Measure::Throughput { Measure::Latency } else { case.measure };
        let key = Case { measure, ..case.clone() };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, cases)) => cases.push(case),
            None => groups.push((key, vec![case])),
        }
    }
    groups.iter().map(|(key, cases)| row(key, cases, results)).collect()
}

/// Returns the percentiles of single times, pooled over runs. One way is this `share` of the timed
/// interval.
pub(super) fn percentiles(runs: &[&Outcome], share: f64) -> Percentiles {
    let typical: Vec<f64> = runs.iter().filter_map(|run| run.typical_ns).collect();
    let times = pool(runs.iter().map(|run| &run.round_trips[..]));
    let at = |part| percentile(&times, part).map(|ns| ns as f64 * share);
    Percentiles {
        typical: median(&typical),
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: times.last().map(|(ns, _)| *ns as f64 * share),
        samples: times.iter().map(|(_, count)| count).sum(),
    }
}

fn row(key: &Case, cases: &[&Case], results: &Results) -> Row {
    let runs = |measure: Measure| -> Vec<&Outcome> {
        let of = cases.iter().filter(|case| case.measure == measure);
        of.filter_map(|case| results.get(case)).flatten().flatten().collect()
    };
    let (latency, publish) = (runs(Measure::Latency), runs(Measure::Publish));
    let (mut stream, pipeline) = (runs(Measure::Throughput), runs(Measure::Pipeline));
    stream.extend(runs(Measure::Outstanding));
    let all: Vec<&Outcome> =
        [&latency, &stream, &publish, &pipeline].into_iter().flatten().copied().collect();
    let rate =
        |runs: &[&Outcome]| median(&runs.iter().filter_map(|run| run.packets_per_s()).collect::<Vec<_>>());
    let packets_per_s = rate(&stream).or_else(|| rate(&pipeline));
    let rounds = latency.len().max(stream.len()).max(publish.len()).max(pipeline.len());
    let times = if latency.is_empty() { &publish } else { &latency };
    let rates = if stream.is_empty() { &pipeline } else { &stream };
    let total = |of: fn(&Usage) -> u64| all.iter().map(|run| of(&run.usage)).sum();
    Row {
        what: key.subject.name().into(),
        transport: key.transport.clone(),
        wait: key.wait.name().into(),
        size: key.size,
        readers: if key.measure == Measure::Outstanding { 1 } else { key.readers },
        outstanding: (key.measure == Measure::Outstanding).then_some(key.readers),
        components: key.components,
        statistics: key.statistics,
        one_way_ns: percentiles(&latency, 0.5),
        packets_per_s,
        bytes_per_s: packets_per_s.map(|rate| rate * key.size as f64),
        publish_ns: median(&publish.iter().filter_map(|run| run.typical_ns).collect::<Vec<_>>()),
        per_packet_ns: rate(&pipeline).map(|rate| 1e9 / rate),
        runs: rounds,
        per_run: (0..rounds)
            .map(|index| Run {
                typical_ns: times.get(index).and_then(|run| run.typical_ns),
                packets_per_s: rates.get(index).and_then(|run| run.packets_per_s()),
            })
            .collect(),
        lost: all.iter().map(|run| run.lost).sum(),
        reordered: all.iter().map(|run| run.reordered).sum(),
        cpu_s: all.iter().map(|run| run.usage.cpu_s).sum(),
        voluntary_switches: total(|usage| usage.voluntary_switches),
        involuntary_switches: total(|usage| usage.involuntary_switches),
        peak_kib: all.iter().map(|run| run.usage.peak_kib).max().unwrap_or(0),
    }
}

fn by_name<S: Serializer>(ratios: &[Ratio], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(ratios.len()))?;
    for ratio in ratios {
        map.serialize_entry(&ratio.name, ratio)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::super::case::{Subject, Wait};
    use super::*;

    #[test]
    fn latency_and_throughput_share_a_row_and_ratios_are_named() {
        let latency = Case::new(Measure::Latency, Subject::Stripline, "shm", Wait::Spin, 64);
        let stream = Case { measure: Measure::Throughput, ..latency.clone() };
        let timed =
            Outcome { typical_ns: Some(70.0), round_trips: vec![(140, 300)], lost: 1, ..Outcome::default() };
        let flow = Outcome { packets: 1000, elapsed_s: 0.5, ..Outcome::default() };
        let results =
            Results::from([(latency.clone(), vec![Some(timed)]), (stream.clone(), vec![None, Some(flow)])]);
        let rows = rows(&[latency, stream], &results);
        assert_eq!(rows.len(), 1);
        let json = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!(
            (&json["what"], &json["transport"], &json["wait"]),
            (&"stripline".into(), &"shm".into(), &"spin".into())
        );
        assert_eq!((&json["one_way_ns"]["p50"], &json["one_way_ns"]["p99"]), (&70.0.into(), &().into()));
        assert_eq!((&json["packets_per_s"], &json["bytes_per_s"]), (&2000.0.into(), &128_000.0.into()));
        assert_eq!((&json["runs"], &json["lost"]), (&1.into(), &1.into()));
    }
}
