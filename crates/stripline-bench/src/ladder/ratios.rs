//! The figures: ratios of measurements of one run.

use std::collections::BTreeMap;

use super::Settings;
use super::case::{Case, Measure, Outcome, Subject, Wait};
use super::core_distance::is_same_distance;
use super::plan::{OUTSTANDING, OUTSTANDING_COUNTS, atomics, bare, futex};
use super::report::{Null, Ratio};
use super::statistics::{bootstrap, median};

/// The results of the runs, by case and round.
pub(super) type Results = BTreeMap<Case, Vec<Option<Outcome>>>;

/// The figure taken from a run.
#[derive(Clone, Copy)]
enum Figure {
    Time,
    Rate,
}

/// A comparison of two cases: the first over the second.
struct Pair {
    over: Case,
    under: Case,
    figure: Figure,
}

enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// Returns all figures with a target, in the order of the report.
pub(super) fn all(results: &Results, settings: &Settings) -> Vec<Ratio> {
    let latency =
        |subject, transport, wait, size| Case::new(Measure::Latency, subject, transport, wait, size);
    let stream =
        |subject, transport, wait, size| Case::new(Measure::Throughput, subject, transport, wait, size);
    let time = |over, under| Pair { over, under, figure: Figure::Time };
    let rate = |over, under| Pair { over, under, figure: Figure::Rate };
    let (spin, shm) = (Wait::Spin, Subject::Stripline);
    let shm_64 = latency(shm, "shm", spin, 64);
    let shm_32 = stream(shm, "shm", spin, 32);
    let ring_32 = stream(Subject::Ring, "shm", spin, 32);
    let off = |case: &Case| Case { statistics: false, ..case.clone() };
    let publish = Case::new(Measure::Publish, shm, "shm", spin, 64);
    let pipeline = |wait| {
        let case = Case::new(Measure::Pipeline, shm, "shm", wait, 1024);
        Case { components: 10, ..case }
    };
    let socket = |name| {
        let subject = bare(name).unwrap_or(Subject::UnixSocket);
        vec![
            time(latency(shm, name, Wait::Block, 1024), latency(subject, name, Wait::Block, 1024)),
            rate(stream(subject, name, Wait::Block, 1024), stream(shm, name, Wait::Block, 1024)),
        ]
    };
    let many = Case { readers: 200, ..publish.clone() };
    let wake = time(latency(shm, "shm", Wait::Block, 64), futex());
    let iceoryx2 = time(latency(Subject::Iceoryx2, "shm", spin, 64), shm_64.clone());
    let over_ring = time(latency(shm, "shm", spin, 8192), latency(Subject::Ring, "shm", spin, 8192));
    let over_memcpy =
        rate(stream(shm, "shm", spin, 65_536), stream(Subject::Memcpy, "memory", Wait::None, 65_536));
    let statistics = vec![time(shm_64.clone(), off(&shm_64)), rate(off(&shm_32), shm_32.clone())];
    let calls = |transport, wait| latency(Subject::Calls, transport, wait, 64);
    let two_ways = time(calls("shm", spin), latency(shm, "shm", spin, 64));
    let duplex = time(calls("uds", Wait::Block), latency(Subject::UnixDuplex, "uds", Wait::Block, 64));
    let mut ratios = vec![
        ratio("shm_64_over_atomic", vec![time(shm_64, atomics())], Target::AtMost(1.5), results),
        ratio("iceoryx2_64_over_shm", vec![iceoryx2], Target::AtLeast(3.0), results),
        ratio("shm_8192_over_ring", vec![over_ring], Target::AtMost(1.1), results),
        small(shm_32, ring_32, results),
        ratio("shm_64k_over_memcpy", vec![over_memcpy], Target::AtLeast(0.6), results),
        ratio("wake_over_futex", vec![wake], Target::AtMost(1.1), results),
        ratio("publish_200_over_1", vec![time(many, publish)], Target::AtMost(1.5), results),
        ratio("stats_on_over_off", statistics, Target::AtMost(1.1), results),
        ratio(
            "adaptive_10_over_block",
            vec![time(pipeline(Wait::Adaptive), pipeline(Wait::Block))],
            Target::AtMost(1.1),
            results,
        ),
        ratio("call_shm_64_over_two_ways", vec![two_ways], Target::AtMost(1.25), results),
        ratio("call_uds_64_over_bare", vec![duplex], Target::AtMost(1.15), results),
        // The rate may fall by a tenth below the best rate with fewer calls outstanding.
        ratio("call_outstanding_worst_step", steps(), Target::AtMost(1.0 / 0.9), results),
        ratio("uds_1024_over_bare", socket("uds"), Target::AtMost(1.1), results),
        ratio("tcp_1024_over_bare", socket("tcp"), Target::AtMost(1.1), results),
    ];
    for ratio in &mut ratios {
        if ratio.name == "iceoryx2_64_over_shm" && ratio.value.is_none() && cfg!(not(feature = "peers")) {
            ratio.missing = Some("not built in: build with `--features peers`".into());
        }
        if let Some(missing) = &mut ratio.missing
            && (!settings.sizes.is_empty() || !settings.transports.is_empty())
        {
            missing.push_str(" (see `--sizes` and `--transports`)");
        }
    }
    ratios
}

/// Returns pairs of calls per second: with fewer outstanding, over those with more.
fn steps() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (transport, wait) in OUTSTANDING {
        let with = |readers| Case {
            readers,
            ..Case::new(Measure::Outstanding, Subject::Calls, transport, wait, 64)
        };
        for (index, more) in OUTSTANDING_COUNTS.into_iter().enumerate() {
            for fewer in &OUTSTANDING_COUNTS[..index] {
                pairs.push(Pair { over: with(*fewer), under: with(more), figure: Figure::Rate });
            }
        }
    }
    pairs
}

/// Compares a case with itself: the spread of a true ratio of 1 on this machine.
pub(super) fn null(case: &Case, results: &Results) -> Null {
    let again = Case { again: true, ..case.clone() };
    let values = values(&Pair { over: again, under: case.clone(), figure: Figure::Time }, results);
    let found = values.ok().and_then(|values| bootstrap(&values));
    Null {
        what: format!("{case}, against itself"),
        value: found.map(|f| f.0),
        low: found.map(|f| f.1),
        high: found.map(|f| f.2),
    }
}

/// Returns the ratio of packets per second of small packets. It has a second target, for a ring
/// that is fast enough.
fn small(shm: Case, ring: Case, results: &Results) -> Ratio {
    let rates = |case: &Case| {
        let runs = results.get(case)?.iter().flatten();
        median(&runs.filter_map(Outcome::packets_per_s).collect::<Vec<_>>())
    };
    let absolute = rates(&shm).zip(rates(&ring));
    let pair = Pair { over: shm, under: ring, figure: Figure::Rate };
    let mut ratio = ratio("shm_small_over_ring", vec![pair], Target::AtLeast(0.6), results);
    ratio.target.push_str(", and > 40 M/s where the ring does 100 M/s");
    if let (Some(met), Some((shm, ring))) = (&mut ratio.met, absolute) {
        *met &= shm > 40e6 || ring < 100e6;
    }
    ratio
}

/// Returns the worst ratio of several pairs.
fn ratio(name: &str, pairs: Vec<Pair>, target: Target, results: &Results) -> Ratio {
    let mut worst: Option<(f64, f64, f64)> = None;
    let mut missing = None;
    for pair in &pairs {
        match values(pair, results).map(|values| bootstrap(&values)) {
            Ok(Some(found)) if worst.is_none_or(|worst| found.0 > worst.0) => worst = Some(found),
            Ok(_) => {}
            Err(reason) => missing = Some(reason),
        }
    }
    // An incomplete comparison has no value, as the missing part might be the worse.
    let found = if missing.is_none() { worst } else { None };
    let (text, met) = match target {
        Target::AtMost(most) => {
            (format!("<= {}", (most * 100.0).round() / 100.0), found.map(|f| f.0 <= most))
        }
        Target::AtLeast(least) => (format!(">= {least}"), found.map(|f| f.0 >= least)),
    };
    Ratio {
        name: name.into(),
        value: found.map(|f| f.0),
        low: found.map(|f| f.1),
        high: found.map(|f| f.2),
        target: text,
        met,
        missing,
    }
}

/// Returns the ratio of each run of the first case to one of the second. That is the nearest in
/// time among the runs at the same processor distance. If the distance never changed, it is the one
/// of the same round.
fn values(pair: &Pair, results: &Results) -> Result<Vec<f64>, String> {
    let runs = |case: &Case| results.get(case).ok_or_else(|| format!("not measured: {case}"));
    let (over, under) = (runs(&pair.over)?, runs(&pair.under)?);
    let figure = |outcome: &Outcome| match pair.figure {
        Figure::Rate => outcome.packets_per_s(),
        Figure::Time => outcome.typical_ns.or_else(|| outcome.packets_per_s().map(|rate| 1e9 / rate)),
    };
    let values: Vec<f64> = settled(over)
        .filter_map(|(round, over)| {
            let alike = settled(under).filter(|(_, under)| is_same_distance(over.line_ns, under.line_ns));
            let (_, under) = alike.min_by_key(|(other, _)| other.abs_diff(round))?;
            Some(figure(over)? / figure(under)?)
        })
        .collect();
    if values.is_empty() {
        return Err(format!("no runs of both at the same processor distance: {}; {}", pair.over, pair.under));
    }
    Ok(values)
}

/// Returns the runs at a constant processor distance, with their rounds.
fn settled(runs: &[Option<Outcome>]) -> impl Iterator<Item = (usize, &Outcome)> {
    let measured = runs.iter().enumerate().filter_map(|(round, run)| Some((round, run.as_ref()?)));
    measured.filter(|(_, run)| !run.is_unsettled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(ns: f64) -> Option<Outcome> {
        Some(Outcome { typical_ns: Some(ns), ..Outcome::default() })
    }

    fn flow(packets: u64) -> Option<Outcome> {
        Some(Outcome { packets, elapsed_s: 1.0, ..Outcome::default() })
    }

    fn find(results: &Results, name: &str) -> Ratio {
        all(results, &Settings::default()).into_iter().find(|ratio| ratio.name == name).unwrap()
    }

    #[test]
    fn ratios_are_of_one_round_each() {
        let shm = Case::new(Measure::Latency, Subject::Stripline, "shm", Wait::Spin, 64);
        let mut results = Results::new();
        results.insert(shm, vec![timed(70.0), timed(140.0), None]);
        results.insert(atomics(), vec![timed(50.0), timed(100.0), timed(1.0)]);
        let ratio = find(&results, "shm_64_over_atomic");
        assert_eq!((ratio.value, ratio.met, &*ratio.target), (Some(1.4), Some(true), "<= 1.5"));
        assert!(ratio.missing.is_none());
    }

    #[test]
    fn only_like_is_compared_with_like() {
        let run = |ns, line_ns, is_unsettled| {
            let outcome = Outcome { typical_ns: Some(ns), line_ns: Some(line_ns), ..Outcome::default() };
            Some(Outcome { is_unsettled, ..outcome })
        };
        let shm = Case::new(Measure::Latency, Subject::Stripline, "shm", Wait::Spin, 64);
        let mut results = Results::new();
        results.insert(
            shm.clone(),
            vec![run(70.0, 50.0, false), run(300.0, 270.0, false), run(1.0, 50.0, true)],
        );
        results.insert(atomics(), vec![run(250.0, 260.0, false), run(50.0, 48.0, false), None]);
        let ratio = find(&results, "shm_64_over_atomic");
        assert_eq!((ratio.low, ratio.high), (Some(1.2), Some(1.4)));
        results.insert(atomics(), vec![run(250.0, 900.0, false)]);
        let ratio = find(&results, "shm_64_over_atomic");
        assert!(ratio.value.is_none() && ratio.missing.unwrap().contains("same processor distance"));
    }

    #[test]
    fn what_was_not_measured_has_no_figure() {
        for ratio in all(&Results::new(), &Settings::default()) {
            assert_eq!((ratio.value, ratio.low, ratio.high, ratio.met), (None, None, None, None));
            assert!(ratio.missing.is_some(), "{}", ratio.name);
        }
    }

    #[test]
    fn of_two_the_worse_counts_and_none_without_both() {
        let case = |measure, subject| Case::new(measure, subject, "uds", Wait::Block, 1024);
        let mut results = Results::new();
        results.insert(case(Measure::Latency, Subject::Stripline), vec![timed(105.0)]);
        results.insert(case(Measure::Latency, Subject::UnixSocket), vec![timed(100.0)]);
        assert_eq!(find(&results, "uds_1024_over_bare").value, None);
        results.insert(case(Measure::Throughput, Subject::Stripline), vec![flow(100)]);
        results.insert(case(Measure::Throughput, Subject::UnixSocket), vec![flow(120)]);
        let ratio = find(&results, "uds_1024_over_bare");
        assert_eq!((ratio.value, ratio.met), (Some(1.2), Some(false)));
    }

    #[test]
    fn small_packets_have_two_targets() {
        let case = |subject| Case::new(Measure::Throughput, subject, "shm", Wait::Spin, 32);
        for (shm, ring, met) in [(30, 45, true), (70, 110, true), (39, 60, true), (20, 45, false)] {
            let results = Results::from([
                (case(Subject::Stripline), vec![flow(shm * 1_000_000)]),
                (case(Subject::Ring), vec![flow(ring * 1_000_000)]),
            ]);
            assert_eq!(find(&results, "shm_small_over_ring").met, Some(met), "{shm} {ring}");
        }
    }
}
