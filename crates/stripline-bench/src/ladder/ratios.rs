//! The figures: ratios of blocks that took turns in a run.

use super::Settings;
use super::case::{Case, Group, Outcome, RunOutcome, Subject, Wait};
use super::plan::{
    MESSAGE_RATIO_SIZES, OUTSTANDING, OUTSTANDING_COUNTS, atomics, bare, futex, in_callback, latency,
    message_transports, outstanding, pipeline, publish, stream, wait_beside, wake, without_statistics,
};
use super::report::{Decision, Null, Ratio};
use super::statistics::{MedianInterval, median, median_interval};
use crate::OTHERS_SHARE_MAX;
use crate::processes::OthersTime;

/// Two processors count as near if a cache line takes at most this time from one to the other, in
/// nanoseconds.
pub(super) const NEAR_NS: f64 = 90.0;
/// The minimum number of rounds for a separate figure of near or far processors.
const ROUNDS_MIN: usize = 5;
/// The minimum number of runs for a decision on a target.
const RUNS_MIN: usize = 3;

/// The runs of a group.
pub(super) struct GroupRuns {
    pub group: Group,
    pub runs: Vec<RunOutcome>,
}

impl GroupRuns {
    /// Returns the share of all processors that other programs used during the runs, 0 to 1; `None`
    /// if unknown.
    pub(super) fn others_share(&self, cpus: usize) -> Option<f64> {
        let mut others = OthersTime::default();
        self.runs.iter().filter_map(|run| run.others).for_each(|time| others.add(time));
        others.share(cpus)
    }

    /// Returns the results of a case for each run.
    pub(super) fn of(&self, case: &Case) -> Vec<&Outcome> {
        let index = self.group.cases.iter().position(|own| own == case);
        index.map_or(Vec::new(), |index| self.runs.iter().filter_map(|run| run.cases.get(index)).collect())
    }
}

/// The compared figure: the time of a packet, or the rate of packets.
#[derive(Clone, Copy, Debug)]
enum Figure {
    Time,
    Rate,
}

/// A comparison of two cases of one group: the first over the second, which is the reference.
struct Pair {
    over: Case,
    under: Case,
    figure: Figure,
}

#[derive(Clone, Copy)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// A figure with a target. If there are several pairs, the worst pair counts.
struct Comparison {
    name: String,
    pairs: Vec<Pair>,
    target: Target,
}

/// The first words of the reason if a case has no result.
const NOT_MEASURED: &str = "not measured";

/// Returns all compared pairs: each case with its reference.
pub(super) fn pairs() -> Vec<(Case, Case)> {
    comparisons().into_iter().flat_map(|c| c.pairs).map(|pair| (pair.over, pair.under)).collect()
}

/// Returns all figures with a target, in the order of the report.
pub(super) fn all(results: &[GroupRuns], settings: &Settings) -> Vec<Ratio> {
    let mut ratios: Vec<Ratio> = comparisons().into_iter().map(|c| ratio(c, results)).collect();
    for ratio in &mut ratios {
        let is_peers =
            ["iceoryx2_64_over_shm", "uds_64_queued_rate_over_zeromq"].contains(&ratio.name.as_str());
        if is_peers && ratio.value.is_none() && cfg!(not(feature = "peers")) {
            ratio.missing = Some("not built in: build with `--features peers`".into());
        }
        let is_part = !settings.sizes.is_empty() || !settings.transports.is_empty();
        if ratio.missing.as_ref().is_some_and(|missing| is_part && missing.starts_with(NOT_MEASURED)) {
            ratio.missing = Some("left out by `--sizes` and `--transports`".into());
        }
    }
    ratios
}

fn comparisons() -> Vec<Comparison> {
    let time = |over, under| Pair { over, under, figure: Figure::Time };
    let rate = |over, under| Pair { over, under, figure: Figure::Rate };
    let new = |name: &str, pairs, target| Comparison { name: name.into(), pairs, target };
    let (spin, block) = (Wait::Spin, Wait::Block);
    let one_way = |size| latency(Subject::Stripline, "shm", spin, size);
    let packets = |size| stream(Subject::Stripline, "shm", spin, size);
    let mut all = vec![new("shm_64_over_atomic", vec![time(one_way(64), atomics())], Target::AtMost(1.5))];
    for (size, most) in [(8, 1.3), (32, 1.3), (64, 1.3), (256, 1.3), (1024, 1.2), (8192, 1.1), (65_536, 1.03)]
    {
        let minimal = latency(Subject::MinimalRing, "shm", spin, size);
        let name = format!("shm_{size}_over_minimal");
        all.push(new(&name, vec![time(one_way(size), minimal)], Target::AtMost(most)));
    }
    for (size, least) in
        [(8, 0.5), (32, 0.5), (64, 0.5), (256, 0.8), (1024, 0.8), (8192, 0.95), (65_536, 0.95)]
    {
        let minimal = stream(Subject::MinimalRing, "shm", spin, size);
        let name = format!("shm_{size}_rate_over_minimal");
        all.push(new(&name, vec![rate(packets(size), minimal)], Target::AtLeast(least)));
    }
    for size in [8, 32, 64, 256, 1024] {
        let minimal = stream(Subject::MinimalRing, "shm", spin, size);
        let many = stream(Subject::Many, "shm", spin, size);
        let name = format!("shm_{size}_many_rate_over_minimal");
        all.push(new(&name, vec![rate(many, minimal)], Target::AtLeast(1.0)));
    }
    let memcpy = stream(Subject::Memcpy, "memory", Wait::None, 65_536);
    let iceoryx2 = latency(Subject::Iceoryx2, "shm", spin, 64);
    let [queued, zeromq] =
        [Subject::Queued, Subject::Zeromq].map(|subject| stream(subject, "uds", block, 64));
    let calls = |transport, wait| latency(Subject::Calls, transport, wait, 64);
    let duplex = latency(Subject::UnixDuplex, "uds", block, 64);
    let off = [without_statistics(&one_way(64)), without_statistics(&packets(32))];
    let [off_64, off_32] = off;
    all.extend([
        new("shm_64k_over_memcpy", vec![rate(packets(65_536), memcpy)], Target::AtLeast(0.6)),
        new("iceoryx2_64_over_shm", vec![time(iceoryx2, one_way(64))], Target::AtLeast(5.0)),
        new("uds_64_queued_rate_over_zeromq", vec![rate(queued, zeromq)], Target::AtLeast(1.2)),
        new("call_shm_64_over_two_ways", vec![time(calls("shm", spin), one_way(64))], Target::AtMost(1.1)),
        new(
            "wake_over_futex",
            vec![time(wake(Subject::Stripline, "shm", 64), futex())],
            Target::AtMost(1.05),
        ),
        new("stats_64_on_over_off", vec![time(one_way(64), off_64)], Target::AtMost(1.1)),
        new("stats_32_rate_on_over_off", vec![rate(packets(32), off_32)], Target::AtLeast(0.9)),
        new("publish_200_over_1", vec![time(publish(200), publish(1))], Target::AtMost(1.5)),
        new(
            "adaptive_10_over_block",
            vec![time(pipeline(10, Wait::Adaptive), pipeline(10, block))],
            Target::AtMost(1.1),
        ),
        new("call_uds_64_over_bare", vec![time(calls("uds", block), duplex)], Target::AtMost(1.15)),
        // The rate may be at most a tenth below the best rate with fewer outstanding calls.
        new("call_outstanding_worst_step", steps(), Target::AtMost(1.0 / 0.9)),
    ]);
    let sockets = ["uds", "tcp"].map(|name| (name, 1024));
    let messages = message_transports().flat_map(|name| MESSAGE_RATIO_SIZES.map(|size| (name, size)));
    for (name, size) in sockets.into_iter().chain(messages) {
        let most = match (name, size) {
            ("iceoryx2", ..1024) => 1.3,
            ("iceoryx2", _) | (_, ..1024) => 1.15,
            _ => 1.1,
        };
        let least = 1.0 / most;
        let least = (least * 100.0_f64).round() / 100.0;
        let mut compare = |ours, bare, part: &str| {
            let pair = |new: fn(_, &_, _, _) -> Case| {
                let wait = wait_beside(name);
                (new(ours, name, wait, size), new(bare, name, wait, size))
            };
            let ((over, under), (more, fewer)) = (pair(latency), pair(stream));
            let named = |figure: &str| format!("{name}_{size}{part}{figure}_over_bare");
            all.push(new(&named(""), vec![time(over, under)], Target::AtMost(most)));
            all.push(new(&named("_rate"), vec![rate(more, fewer)], Target::AtLeast(least)));
        };
        compare(Subject::Stripline, bare(name), "");
        if let Some(callback) = in_callback(name) {
            compare(Subject::Direct, callback, "_direct");
        }
    }
    all
}

/// Returns pairs for calls per second: the time of a call with more outstanding calls, over the
/// time with fewer.
fn steps() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (transport, wait) in OUTSTANDING {
        for (index, more) in OUTSTANDING_COUNTS.into_iter().enumerate() {
            for fewer in &OUTSTANDING_COUNTS[..index] {
                let [over, under] = [more, *fewer].map(|count| outstanding(transport, wait, count));
                pairs.push(Pair { over, under, figure: Figure::Time });
            }
        }
    }
    pairs
}

/// The figures of a pair, over all runs.
struct Measured {
    ratio: MedianInterval,
    null: MedianInterval,
    near: Option<f64>,
    far: Option<f64>,
    runs: usize,
    others_share: Option<f64>,
}

/// Returns the figures of a comparison, which are the figures of the worst pair.
fn ratio(comparison: Comparison, results: &[GroupRuns]) -> Ratio {
    let Comparison { name, pairs, target } = comparison;
    // An incomplete comparison has no value, because the missing part might be the worst.
    let measured: Result<Vec<Measured>, String> = pairs.iter().map(|pair| measure(pair, results)).collect();
    let (is_worse, text): (fn(f64, f64) -> bool, _) = match target {
        Target::AtMost(most) => (|a, b| a > b, format!("<= {}", (most * 100.0).round() / 100.0)),
        Target::AtLeast(least) => (|a, b| a < b, format!(">= {least}")),
    };
    let (worst, missing) = match measured {
        Ok(all) => {
            let worse = |a: Measured, b: Measured| if is_worse(b.ratio.value, a.ratio.value) { b } else { a };
            (all.into_iter().reduce(worse), None)
        }
        Err(reason) => (None, Some(reason)),
    };
    let found = worst.as_ref();
    Ratio {
        name,
        value: found.map(|m| m.ratio.value),
        low: found.map(|m| m.ratio.low),
        high: found.map(|m| m.ratio.high),
        coverage: found.map(|m| m.ratio.coverage),
        near: found.and_then(|m| m.near),
        far: found.and_then(|m| m.far),
        null: found.map(|m| Null { value: m.null.value, low: m.null.low, high: m.null.high }),
        target: text,
        decision: found.map(|m| decide_ratio(m, target)),
        others_share: found.and_then(|m| m.others_share),
        missing,
    }
}

/// Returns whether the target of a ratio is met. Ratios are compared as ratios: 0.5 is as far from
/// 1 as 2 is.
fn decide_ratio(measured: &Measured, target: Target) -> Decision {
    let Measured { ratio, null, runs, others_share, .. } = measured;
    let (limit, is_at_most) = match target {
        Target::AtMost(most) => (most, true),
        Target::AtLeast(least) => (least, false),
    };
    decide(&Evidence {
        value: ratio.value.ln(),
        low: ratio.low.ln(),
        high: ratio.high.ln(),
        null: (null.low.ln(), null.high.ln()),
        limit: limit.ln(),
        is_at_most,
        runs: *runs,
        others_share: *others_share,
    })
}

/// A figure with a null comparison and a target, on a scale on which equal steps have equal
/// distances and the null is 0.
pub(crate) struct Evidence {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// The interval of the null comparison.
    pub null: (f64, f64),
    pub limit: f64,
    /// Whether the limit is an upper limit, not a lower limit.
    pub is_at_most: bool,
    pub runs: usize,
    pub others_share: Option<f64>,
}

/// Returns whether a target is met. A figure decides nothing in three cases: if it is nearer to the
/// target than its null comparison is wide, if the target is inside its interval, or if there are
/// too few runs. On a busy machine, a missed target is not judged.
pub(crate) fn decide(evidence: &Evidence) -> Decision {
    let Evidence { value, low, high, null, limit, is_at_most, runs, others_share } = *evidence;
    let is_met = if is_at_most { value <= limit } else { value >= limit };
    // A null comparison on one side of 0 counts as if it reached 0.
    let null_width = null.1.max(0.0) - null.0.min(0.0);
    let holds_target = low < limit && limit < high;
    match is_met {
        _ if runs < RUNS_MIN || holds_target || null_width > (value - limit).abs() => Decision::NotDecided,
        true => Decision::Met,
        false if others_share.is_some_and(|share| share > OTHERS_SHARE_MAX) => Decision::NotJudged,
        false => Decision::Missed,
    }
}

/// Returns the figures of a pair: the median over the runs of the median over the rounds of a run.
/// The null comparison compares the reference with its repetition.
fn measure(pair: &Pair, results: &[GroupRuns]) -> Result<Measured, String> {
    let again = Case { again: true, ..pair.under.clone() };
    let needed = [&pair.over, &pair.under, &again];
    let not_measured = || format!("{NOT_MEASURED}: {}; {}", pair.over, pair.under);
    let group = results
        .iter()
        .find(|result| needed.iter().all(|case| result.group.cases.contains(case)))
        .ok_or_else(not_measured)?;
    let [over, under, again] = needed.map(|case| group.of(case));
    let compare = |over: &[&Outcome], under: &[&Outcome]| -> Vec<Vec<f64>> {
        let runs = over.iter().zip(under);
        runs.map(|(over, under)| by_round(&over.blocks, &under.blocks, pair.figure)).collect()
    };
    let ratios = compare(&over, &under);
    let of_runs = |ratios: &[Vec<f64>]| -> Vec<f64> { ratios.iter().filter_map(|r| median(r)).collect() };
    let values = of_runs(&ratios);
    let ratio = median_interval(&values).ok_or_else(not_measured)?;
    let null = median_interval(&of_runs(&compare(&again, &under))).ok_or_else(not_measured)?;
    let lines = group.of(&atomics());
    let at_distance = |is_near: bool| {
        let rounds = ratios.iter().zip(&lines).flat_map(|(ratios, line)| ratios.iter().zip(&line.blocks));
        let kept: Vec<f64> =
            rounds.filter(|(_, line)| (**line <= NEAR_NS) == is_near).map(|(ratio, _)| *ratio).collect();
        if kept.len() < ROUNDS_MIN { None } else { median(&kept) }
    };
    let others_share = group.others_share(super::allowed_cpus().len());
    let (near, far, runs) = (at_distance(true), at_distance(false), values.len());
    Ok(Measured { ratio, null, near, far, runs, others_share })
}

/// Returns the ratio of each round.
fn by_round(over: &[f64], under: &[f64], figure: Figure) -> Vec<f64> {
    let rounds = over.iter().zip(under);
    match figure {
        Figure::Time => rounds.map(|(over, under)| over / under).collect(),
        // A rate is the inverse of a time.
        Figure::Rate => rounds.map(|(over, under)| under / over).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of a case's blocks, for each run.
    type Runs = Vec<Vec<f64>>;

    /// Returns the runs of a group with these times.
    fn runs(cases: Vec<(Case, Runs)>) -> GroupRuns {
        let outcome = |blocks: &[f64]| Outcome { blocks: blocks.to_vec(), ..Outcome::default() };
        let run = |run: usize| RunOutcome {
            cases: cases.iter().map(|(_, runs)| outcome(&runs[run])).collect(),
            ..RunOutcome::default()
        };
        let runs = (0..cases[0].1.len()).map(run).collect();
        let group = Group { cases: cases.into_iter().map(|(case, _)| case).collect(), threads: false };
        GroupRuns { group, runs }
    }

    /// Returns three equal runs.
    fn thrice(blocks: &[f64]) -> Runs {
        vec![blocks.to_vec(); 3]
    }

    /// Returns runs of one block each.
    fn single(blocks: &[f64]) -> Runs {
        blocks.iter().map(|ns| vec![*ns]).collect()
    }

    fn again(case: &Case) -> Case {
        Case { again: true, ..case.clone() }
    }

    fn find(results: &[GroupRuns], name: &str) -> Ratio {
        all(results, &Settings::default()).into_iter().find(|ratio| ratio.name == name).unwrap()
    }

    fn shm_64() -> Case {
        latency(Subject::Stripline, "shm", Wait::Spin, 64)
    }

    /// Returns the ratio of 64 B over two atomics.
    fn over_atomic(shm: Runs, atomic: Runs, repeated: Runs) -> Ratio {
        let cases = vec![(atomics(), atomic), (shm_64(), shm), (again(&atomics()), repeated)];
        find(&[runs(cases)], "shm_64_over_atomic")
    }

    #[test]
    fn ratios_are_of_one_round_each() {
        // The processors moved apart after the first round.
        let ratio = over_atomic(
            thrice(&[70.0, 280.0, 288.0]),
            thrice(&[50.0, 200.0, 200.0]),
            thrice(&[50.0, 202.0, 200.0]),
        );
        assert_eq!((ratio.value, ratio.decision), (Some(1.4), Some(Decision::Met)));
        assert_eq!((&*ratio.target, ratio.coverage), ("<= 1.5", Some(0.75)));
        assert_eq!(ratio.null, Some(Null { value: 1.0, low: 1.0, high: 1.0 }));
        assert!(ratio.missing.is_none());
    }

    #[test]
    fn near_and_far_rounds_have_figures_of_their_own() {
        let (shm, atomic) = ([[100.0; 5], [450.0; 5]].concat(), [[50.0; 5], [300.0; 5]].concat());
        let ratio = over_atomic(thrice(&shm), thrice(&atomic), thrice(&atomic));
        assert_eq!((ratio.near, ratio.far), (Some(2.0), Some(1.5)));
        let ratio = over_atomic(thrice(&shm[..5]), thrice(&atomic[..5]), thrice(&atomic[..5]));
        assert_eq!((ratio.near, ratio.far), (Some(2.0), None));
    }

    #[test]
    fn a_null_comparison_that_is_too_wide_decides_nothing() {
        let decision = |null| over_atomic(thrice(&[140.0]), thrice(&[100.0]), single(null)).decision;
        // 1.4 is 7 % below 1.5.
        assert_eq!(decision(&[98.0, 100.0, 102.0]), Some(Decision::Met));
        assert_eq!(decision(&[95.0, 100.0, 104.0]), Some(Decision::NotDecided));
        // A bias is no better than a spread.
        assert_eq!(decision(&[109.0, 110.0, 111.0]), Some(Decision::NotDecided));
    }

    #[test]
    fn an_interval_around_the_target_and_two_runs_decide_nothing() {
        let decision = |shm: &[f64]| {
            let atomic = vec![vec![100.0]; shm.len()];
            over_atomic(single(shm), atomic.clone(), atomic).decision
        };
        assert_eq!(decision(&[130.0, 140.0, 151.0]), Some(Decision::NotDecided));
        assert_eq!(decision(&[130.0, 140.0, 149.0]), Some(Decision::Met));
        assert_eq!(decision(&[160.0, 170.0, 155.0]), Some(Decision::Missed));
        assert_eq!(decision(&[130.0, 140.0]), Some(Decision::NotDecided));
    }

    #[test]
    fn on_a_busy_machine_a_missed_target_is_not_judged() {
        let decision = |shm: f64, repeated: f64, shares: [f64; 3]| {
            let atomic = || thrice(&[100.0]);
            let cases = vec![
                (atomics(), atomic()),
                (shm_64(), thrice(&[shm])),
                (again(&atomics()), thrice(&[repeated])),
            ];
            let mut group = runs(cases);
            for (run, share) in group.runs.iter_mut().zip(shares) {
                let cpu_s = share * crate::ladder::allowed_cpus().len() as f64;
                run.others = Some(OthersTime { cpu_s, elapsed_s: 1.0 });
            }
            let ratio = find(&[group], "shm_64_over_atomic");
            assert!((ratio.others_share.unwrap() - shares.iter().sum::<f64>() / 3.0).abs() < 1e-9);
            ratio.decision
        };
        assert_eq!(decision(170.0, 100.0, [0.0; 3]), Some(Decision::Missed));
        assert_eq!(decision(170.0, 100.0, [0.04, 0.04, 0.05]), Some(Decision::Missed));
        assert_eq!(decision(170.0, 100.0, [0.5, 0.0, 0.0]), Some(Decision::NotJudged));
        assert_eq!(decision(170.0, 100.0, [1.0; 3]), Some(Decision::NotJudged));
        // Other programs do not make anything faster, and an undecided case stays undecided.
        assert_eq!(decision(140.0, 100.0, [0.5; 3]), Some(Decision::Met));
        assert_eq!(decision(170.0, 120.0, [0.5; 3]), Some(Decision::NotDecided));
        assert_eq!(Decision::NotJudged.as_str(), "not judged: the machine was busy");
    }

    #[test]
    fn what_was_not_measured_has_no_figure() {
        for ratio in all(&[], &Settings::default()) {
            assert_eq!((ratio.value, ratio.low, ratio.coverage, ratio.decision), (None, None, None, None));
            assert!(ratio.missing.is_some() && ratio.null.is_none(), "{}", ratio.name);
        }
        // Without the repetition there is no null comparison, and therefore no ratio.
        let results = [runs(vec![(atomics(), thrice(&[50.0])), (shm_64(), thrice(&[70.0]))])];
        assert_eq!(find(&results, "shm_64_over_atomic").value, None);
    }

    #[test]
    fn of_several_the_worst_counts_and_none_without_all() {
        let group = |(transport, wait): (&str, Wait), ns: [f64; 4]| {
            let cases = OUTSTANDING_COUNTS.into_iter().zip(ns).flat_map(|(count, ns)| {
                let case = outstanding(transport, wait, count);
                [(again(&case), thrice(&[ns])), (case, thrice(&[ns]))]
            });
            runs(cases.collect())
        };
        let shm = group(OUTSTANDING[0], [400.0, 200.0, 200.0, 240.0]);
        assert_eq!(find(&[shm], "call_outstanding_worst_step").value, None);
        let shm = group(OUTSTANDING[0], [400.0, 200.0, 200.0, 240.0]);
        let uds = group(OUTSTANDING[1], [8000.0, 2000.0, 2000.0, 2000.0]);
        let ratio = find(&[shm, uds], "call_outstanding_worst_step");
        assert_eq!((ratio.value, ratio.decision), (Some(1.2), Some(Decision::Missed)));
    }

    #[test]
    fn what_is_compared_has_blocks_of_one_length() {
        for (over, under) in pairs() {
            assert_eq!(over.has_carrier_threads(), under.has_carrier_threads(), "{over}; {under}");
        }
    }

    #[test]
    fn a_rate_is_the_inverse_of_a_time() {
        let case = |subject| stream(subject, "shm", Wait::Spin, 64);
        let minimal = case(Subject::MinimalRing);
        let results = [runs(vec![
            (minimal.clone(), thrice(&[10.0])),
            (case(Subject::Stripline), thrice(&[40.0])),
            (again(&minimal), thrice(&[10.0])),
        ])];
        let ratio = find(&results, "shm_64_rate_over_minimal");
        assert_eq!((ratio.value, ratio.decision), (Some(0.25), Some(Decision::Missed)));
    }
}
