//! The ratios of blocks that took turns in a run.

use super::Settings;
use super::case::{Case, Group, Outcome, RunOutcome, Subject, Wait};
use super::plan::{
    MESSAGE_RATIO_SIZES, MINIMAL_RINGS, OUTSTANDING, OUTSTANDING_COUNTS, atomics, bare, futex, in_callback,
    latency, message_transports, outstanding, pipeline, publish, stream, wait_beside, wake,
    without_statistics,
};
use crate::figure::{Aim, Figure, Samples};
use crate::statistics::median;

/// Two processors count as near if a cache line takes at most this time from one to the other, in
/// nanoseconds.
pub(super) const NEAR_NS: f64 = 90.0;
/// The minimum number of rounds for a separate figure of near or far processors.
const ROUNDS_MIN: usize = 5;

/// The runs of a group.
pub(super) struct GroupRuns {
    pub group: Group,
    pub runs: Vec<RunOutcome>,
}

impl GroupRuns {
    /// Returns the results of a case for each run.
    pub(super) fn of(&self, case: &Case) -> Vec<&Outcome> {
        let index = self.group.cases.iter().position(|own| own == case);
        index.map_or(Vec::new(), |index| self.runs.iter().filter_map(|run| run.cases.get(index)).collect())
    }
}

/// A ratio with an aim. If there are several pairs, the worst pair counts. Each pair is two cases
/// of one group: the second one is the reference.
struct Comparison {
    name: String,
    pairs: Vec<(Case, Case)>,
    aim: Aim,
}

/// The first words of the reason if a case has no result.
const NOT_MEASURED: &str = "not measured";

/// Returns all compared pairs: each case with its reference.
pub(super) fn pairs() -> Vec<(Case, Case)> {
    comparisons().into_iter().flat_map(|comparison| comparison.pairs).collect()
}

/// Returns all ratios, in the order of the report.
pub(super) fn all(results: &[GroupRuns], settings: &Settings) -> Vec<Figure> {
    let mut ratios: Vec<Figure> = comparisons().iter().map(|comparison| ratio(comparison, results)).collect();
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
    let (spin, block) = (Wait::Spin, Wait::Block);
    let one_way = |subject, size| latency(subject, "shm", spin, size);
    let packets = |subject, size| stream(subject, "shm", spin, size);
    let ours = Subject::Stripline;
    let mut all = Vec::new();
    let mut over_minimal = |name: String, aim, subject, new: fn(_, &_, _, _) -> Case, size| {
        let case = |subject| new(subject, "shm", spin, size);
        let pairs = MINIMAL_RINGS.map(|ring| (case(subject), case(ring))).into();
        all.push(Comparison { name, pairs, aim });
    };
    for size in [8, 32, 64, 256, 1024, 8192, 65_536] {
        over_minimal(format!("shm_{size}_over_minimal"), Aim::at_most(1.1).over_bare(), ours, latency, size);
    }
    for size in [8, 32, 64, 256, 1024, 8192, 65_536] {
        let aim = Aim::rate_at_least(if size <= 64 { 0.75 } else { 0.95 });
        over_minimal(format!("shm_{size}_rate_over_minimal"), aim, ours, stream, size);
    }
    for size in [8, 32, 64, 256, 1024] {
        let (name, aim) = (format!("shm_{size}_many_rate_over_minimal"), Aim::rate_at_least(1.0));
        over_minimal(name, aim, Subject::Many, stream, size);
    }
    let mut add = |name: &str, aim, over, under| {
        all.push(Comparison { name: name.into(), pairs: vec![(over, under)], aim });
    };
    let shm_64 = || one_way(ours, 64);
    add("shm_64_over_atomic", Aim::at_most(1.5).over_bare(), shm_64(), atomics());
    let calls = |transport, wait| latency(Subject::Calls, transport, wait, 64);
    let carried = |subject| stream(subject, "uds", block, 64);
    let memcpy = stream(Subject::Memcpy, "memory", Wait::Spin, 65_536);
    add("shm_64k_over_memcpy", Aim::rate_at_least(0.6), packets(ours, 65_536), memcpy);
    add("iceoryx2_64_over_shm", Aim::at_least(5.0), one_way(Subject::Iceoryx2, 64), shm_64());
    let (queued, zeromq) = (carried(Subject::Queued), carried(Subject::Zeromq));
    add("uds_64_queued_rate_over_zeromq", Aim::rate_at_least(1.2), queued, zeromq);
    add("call_shm_64_over_two_ways", Aim::at_most(1.08), calls("shm", spin), shm_64());
    add("wake_over_futex", Aim::at_most(1.05).over_bare(), wake(ours, "shm", 64), futex());
    add("stats_64_on_over_off", Aim::at_most(1.1), shm_64(), without_statistics(&shm_64()));
    let shm_32 = packets(ours, 32);
    let off = without_statistics(&shm_32);
    add("stats_32_rate_on_over_off", Aim::rate_at_least(0.95), shm_32, off);
    add("publish_200_over_1", Aim::at_most(1.5), publish(200), publish(1));
    let (adaptive, asleep) = (pipeline(10, Wait::Adaptive), pipeline(10, block));
    add("adaptive_10_over_block", Aim::at_most(1.1), adaptive, asleep);
    let duplex = latency(Subject::UnixDuplex, "uds", block, 64);
    add("call_uds_64_over_bare", Aim::at_most(1.15).over_bare(), calls("uds", block), duplex);
    // The rate may be at most a tenth below the best rate with fewer outstanding calls.
    let (name, aim) = ("call_outstanding_worst_step".into(), Aim::at_most(1.0 / 0.9));
    all.push(Comparison { name, pairs: steps(), aim });
    let sockets = ["uds", "tcp"].map(|name| (name, 1024));
    let messages = message_transports().flat_map(|name| MESSAGE_RATIO_SIZES.map(|size| (name, size)));
    for (name, size) in sockets.into_iter().chain(messages) {
        let most = match (name, size) {
            ("iceoryx2", ..1024) => 1.3,
            ("iceoryx2", _) | (_, ..1024) => 1.15,
            _ => 1.1,
        };
        let least = (100.0_f64 / most).round() / 100.0;
        let callback = in_callback(name).map(|callback| ("_direct", Subject::Direct, callback));
        for (part, ours, bare) in [("", ours, bare(name))].into_iter().chain(callback) {
            let case = |new: fn(_, &_, _, _) -> Case, subject| new(subject, name, wait_beside(name), size);
            for (figure, new, aim) in [
                ("", latency as fn(_, &_, _, _) -> _, Aim::at_most(most).over_bare()),
                ("_rate", stream, Aim::rate_at_least(least)),
            ] {
                let name = format!("{name}_{size}{part}{figure}_over_bare");
                all.push(Comparison { name, pairs: vec![(case(new, ours), case(new, bare))], aim });
            }
        }
    }
    all
}

/// Returns pairs for calls per second: the time of a call with more outstanding calls, over the
/// time with fewer.
fn steps() -> Vec<(Case, Case)> {
    let mut pairs = Vec::new();
    for (transport, wait) in OUTSTANDING {
        let call = |count: &u32| outstanding(transport, wait, *count);
        for (index, more) in OUTSTANDING_COUNTS.iter().enumerate() {
            pairs.extend(OUTSTANDING_COUNTS[..index].iter().map(|fewer| (call(more), call(fewer))));
        }
    }
    pairs
}

/// Returns the ratio of the worst pair.
fn ratio(comparison: &Comparison, results: &[GroupRuns]) -> Figure {
    let Comparison { name, pairs, aim } = comparison;
    // Near and far processors have a worst pair each.
    let worse = |a: Figure, b: Figure| {
        let [near, far] = [(a.near, b.near), (a.far, b.far)].map(|(a, b)| aim.worse(a, b));
        let whole = if aim.worse(a.value, b.value) == a.value { a } else { b };
        Figure { near, far, ..whole }
    };
    // An incomplete comparison has no value, because the missing part might be the worst.
    let measured: Result<Vec<Figure>, String> =
        pairs.iter().map(|pair| measure(name, *aim, pair, results)).collect();
    match measured {
        Ok(all) => all.into_iter().reduce(worse).unwrap_or_else(|| Figure::missing(name, *aim, None)),
        Err(reason) => Figure::missing(name, *aim, Some(reason)),
    }
}

/// Returns the ratio of a pair: the median over the runs of the median over the rounds of a run.
/// The null comparison compares the reference with its repetition.
fn measure(
    name: &str,
    aim: Aim,
    (over, under): &(Case, Case),
    results: &[GroupRuns],
) -> Result<Figure, String> {
    let again = Case { again: true, ..under.clone() };
    let needed = [over, under, &again];
    let not_measured = || format!("{NOT_MEASURED}: {over}; {under}");
    let group = results
        .iter()
        .find(|result| needed.iter().all(|case| result.group.cases.contains(case)))
        .ok_or_else(not_measured)?;
    let [over, under, again] = needed.map(|case| group.of(case));
    let lines = group.of(&atomics());
    let (mut samples, mut near, mut far) = (Samples::default(), Vec::new(), Vec::new());
    for (run, ((over, under), again)) in over.iter().zip(&under).zip(&again).enumerate() {
        samples.add_run(aim, &over.blocks, &under.blocks, &again.blocks);
        let rounds = aim.compare(&over.blocks, &under.blocks);
        for (ratio, line_ns) in rounds.into_iter().zip(lines.get(run).iter().flat_map(|line| &line.blocks)) {
            if *line_ns <= NEAR_NS { near.push(ratio) } else { far.push(ratio) }
        }
    }
    if samples.values.is_empty() || samples.nulls.is_empty() {
        return Err(not_measured());
    }
    samples.runs.extend(group.runs.iter().filter_map(|run| run.others));
    let enough = |rounds: &[f64]| if rounds.len() < ROUNDS_MIN { None } else { median(rounds) };
    let figure = Figure::new(name, aim, &samples);
    Ok(Figure { near: enough(&near), far: enough(&far), ..figure })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Decision, Null};
    use crate::machine::allowed_cpus;
    use crate::usage::RunTime;

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

    fn find(results: &[GroupRuns], name: &str) -> Figure {
        all(results, &Settings::default()).into_iter().find(|ratio| ratio.name == name).unwrap()
    }

    fn shm_64() -> Case {
        latency(Subject::Stripline, "shm", Wait::Spin, 64)
    }

    /// Returns the ratio of 64 B over two atomics.
    fn over_atomic(shm: Runs, atomic: Runs, repeated: Runs) -> Figure {
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
        assert_eq!((&*ratio.aim, ratio.coverage), ("<= 1.5", Some(0.75)));
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
    fn on_a_busy_machine_no_target_is_judged() {
        let decision = |shm: f64, repeated: f64, shares: [f64; 3]| {
            let atomic = || thrice(&[100.0]);
            let cases = vec![
                (atomics(), atomic()),
                (shm_64(), thrice(&[shm])),
                (again(&atomics()), thrice(&[repeated])),
            ];
            let mut group = runs(cases);
            for (run, share) in group.runs.iter_mut().zip(shares) {
                let cpu_s = share * allowed_cpus().len() as f64;
                run.others = Some(RunTime { cpu_s, elapsed_s: 1.0, ..RunTime::default() });
            }
            let ratio = find(&[group], "shm_64_over_atomic");
            assert!(
                (ratio.disturbance.others_share.unwrap() - shares.iter().sum::<f64>() / 3.0).abs() < 1e-9
            );
            ratio.decision
        };
        assert_eq!(decision(170.0, 100.0, [0.0; 3]), Some(Decision::Missed));
        assert_eq!(decision(170.0, 100.0, [0.04, 0.04, 0.05]), Some(Decision::Missed));
        assert_eq!(decision(170.0, 100.0, [0.5, 0.0, 0.0]), Some(Decision::NotJudged));
        assert_eq!(decision(170.0, 100.0, [1.0; 3]), Some(Decision::NotJudged));
        // Other programs do not make anything faster, and an undecided case stays undecided.
        assert_eq!(decision(140.0, 100.0, [0.5; 3]), Some(Decision::NotJudged));
        assert_eq!(decision(170.0, 120.0, [0.5; 3]), Some(Decision::NotJudged));
        assert_eq!(Decision::NotJudged.as_str(), "not judged: disturbed");
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
        let [minimal, descriptors] = MINIMAL_RINGS.map(case);
        let results = [runs(vec![
            (minimal.clone(), thrice(&[20.0])),
            (case(Subject::Stripline), thrice(&[40.0])),
            (again(&minimal), thrice(&[20.0])),
            (descriptors.clone(), thrice(&[10.0])),
            (again(&descriptors), thrice(&[10.0])),
        ])];
        let ratio = find(&results, "shm_64_rate_over_minimal");
        // Over the faster one.
        assert_eq!((ratio.value, ratio.decision), (Some(0.25), Some(Decision::Missed)));
    }
}
