//! Compares each case with the targets of the case.

use serde::Serialize;

use super::case::Order;
use super::file::{Experiment, counterpart};
use super::report::{CaseReport, ExperimentRun, Status};
use crate::Decision;
use crate::statistics::median_interval;

/// The verdict on a target of a case.
///
/// ```no_run
/// # use stripline_bench::{Decision, experiment::ExperimentReport};
/// # fn example(report: &ExperimentReport) {
/// let all_met = report.verdicts.iter().all(|verdict| verdict.outcome == Decision::Met);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The case and its variant.
    pub case: String,
    /// The target in words.
    pub target: String,
    /// The reached value; `None` if there are no figures.
    pub value: Option<f64>,
    /// Whether the target was reached.
    pub outcome: Decision,
    /// The reason why there are no figures.
    pub reason: Option<String>,
}

impl Verdict {
    /// Returns the value as text: a count is whole, a ratio has four digits.
    ///
    /// ```
    /// use stripline_bench::{Decision, experiment::Verdict};
    ///
    /// let (case, target, reason) = ("a".into(), "reordered <= 0".into(), None);
    /// let verdict = Verdict { case, target, value: Some(3.0), outcome: Decision::Missed, reason };
    /// assert_eq!(verdict.figure(), "3");
    /// ```
    pub fn figure(&self) -> String {
        match self.value {
            None => "-".into(),
            Some(count) if count.fract() == 0.0 => format!("{count}"),
            Some(ratio) => format!("{ratio:.4}"),
        }
    }
}

/// Returns the verdicts on all targets of all cases, in their order. Two kinds of verdict need no
/// target: a case that failed, and packets that were missing or arrived twice.
pub(super) fn all(experiment: &Experiment, reports: &[CaseReport]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for report in reports {
        let lost = worst(report, |run| {
            run.stages.iter().chain(&run.observer).map(|place| place.missing + place.duplicates).sum::<u64>()
                as f64
        });
        if lost.is_some_and(|lost| lost > 0.0) {
            verdicts.push(judge(report, "missing or twice = 0".into(), &[report], lost, |_| false));
        }
        let Some(target) = &report.target else {
            if report.status == Status::Failed {
                verdicts.push(judge(report, "runs".into(), &[report], None, |_| false));
            }
            continue;
        };
        if let Some(most) = target.over_ideal {
            let text = format!("last packet over ideal <= {most}");
            let mut verdict = judge(report, text, &[report], report.over_ideal, |ratio| ratio <= most);
            unless_within(&mut verdict, report.over_ideal_low.zip(report.over_ideal_high), most);
            unless_disturbed(&mut verdict, &[report]);
            verdicts.push(verdict);
        }
        let mut own = |text: String, value, is_met: &dyn Fn(f64) -> bool| {
            verdicts.push(judge(report, text, &[report], value, is_met));
        };
        if let Some(most) = target.reordered {
            // If there is an observer, only the observer's count matters, because packets that
            // leave the components have not been resequenced yet.
            let reordered = |run: &ExperimentRun| match &run.observer {
                Some(observer) => observer.reordered as f64,
                None => run.stages.iter().map(|s| s.reordered).max().unwrap_or(0) as f64,
            };
            let is_resequenced = report.case.order == Order::Resequence;
            let behind = if is_resequenced { " behind the resequencing" } else { "" };
            let text = format!("reordered{behind} <= {most}");
            own(text, worst(report, reordered), &|n| n <= f64::from(most));
        }
        if let Some(least) = target.reordered_share_min {
            let packets = f64::from(report.case.packets);
            let shares = report
                .runs
                .iter()
                .map(|run| run.stages.last().map_or(0.0, |stage| stage.reordered as f64) / packets);
            let share = shares.reduce(f64::min);
            own(format!("reordered share at the last stage > {least}"), share, &|share| share > least);
        }
        if let Some((name, most)) = &target.over_case {
            let other = counterpart(&report.case, name, experiment);
            let other = other.and_then(|other| reports.iter().find(|report| report.case == *other));
            let text = format!("last packet over the last packet of {name} <= {most}");
            let Some(other) = other else {
                let mut verdict = judge(report, text, &[report], None, |_| false);
                // The parser has checked that every case has such a case in the file.
                verdict.reason.get_or_insert_with(|| format!("case {name} was not chosen"));
                verdicts.push(verdict);
                continue;
            };
            let pairs = report.runs.iter().zip(&other.runs);
            // Compare only runs of the same round.
            let ratios: Vec<f64> = pairs.map(|(own, reference)| own.last_ms / reference.last_ms).collect();
            let found = median_interval(&ratios);
            let value = found.map(|found| found.value);
            let mut verdict = judge(report, text, &[report, other], value, |ratio| ratio <= *most);
            unless_within(&mut verdict, found.map(|found| (found.low, found.high)), *most);
            unless_disturbed(&mut verdict, &[report, other]);
            verdicts.push(verdict);
        }
    }
    verdicts
}

/// Returns the largest value of all runs.
fn worst(report: &CaseReport, of: impl Fn(&ExperimentRun) -> f64) -> Option<f64> {
    report.runs.iter().map(of).reduce(f64::max)
}

/// Replaces the verdict on a ratio if the interval of the ratio contains the target.
fn unless_within(verdict: &mut Verdict, interval: Option<(f64, f64)>, target: f64) {
    let is_within = interval.is_some_and(|(low, high)| low < target && target < high);
    if is_within && matches!(verdict.outcome, Decision::Met | Decision::Missed) {
        verdict.outcome = Decision::NotDecided;
    }
}

/// Replaces the verdict on a time if a run was disturbed. Counts of packets stay judged: no
/// disturbance excuses a loss.
fn unless_disturbed(verdict: &mut Verdict, reports: &[&CaseReport]) {
    let mut runs = reports.iter().flat_map(|report| &report.runs);
    if matches!(verdict.outcome, Decision::Met | Decision::Missed | Decision::NotDecided)
        && runs.any(|run| run.disturbance.is_disturbed())
    {
        verdict.outcome = Decision::NotJudged;
    }
}

fn judge(
    report: &CaseReport,
    target: String,
    needed: &[&CaseReport],
    value: Option<f64>,
    is_met: impl Fn(f64) -> bool,
) -> Verdict {
    let obstacle = needed.iter().find(|report| report.status != Status::Measured);
    let outcome = match (obstacle.map(|report| report.status), value) {
        (Some(Status::NotAvailable), _) => Decision::NotAvailable,
        (Some(Status::Failed), _) => Decision::Failed,
        (Some(_), _) | (None, None) => Decision::NotRun,
        (None, Some(value)) if is_met(value) => Decision::Met,
        (None, Some(_)) => Decision::Missed,
    };
    let reason = obstacle.and_then(|report| report.reason.clone());
    Verdict { case: report.case.to_string(), target, value, outcome, reason }
}

#[cfg(test)]
mod tests {
    use super::super::report::{self, StageReport};
    use super::*;
    use crate::process::NoResult;
    use crate::{Disturbance, Machine};

    fn run(last_ms: f64, reordered: u64) -> ExperimentRun {
        let stages = vec![StageReport { reordered, ..StageReport::default() }];
        ExperimentRun {
            last_ms,
            ideal_ms: 100.0,
            over_ideal: last_ms / 100.0,
            stages,
            ..ExperimentRun::default()
        }
    }

    const FILE: &str = "[experiment]\nname = 'x'\n[default]\npackets = 100\n\
                    [[case]]\nname = 'a'\ntarget = { over-ideal = 1.01, reordered-share-min = 0.1 }\n\
                    [[case]]\nname = 'b'\ntarget = { reordered = 0, over-case = { case = 'a', ratio = 1.01 } }\n";

    fn verdicts(results: Vec<Result<Vec<ExperimentRun>, NoResult>>) -> Vec<(Decision, Option<String>)> {
        let experiment = Experiment::parse(FILE, "x.toml").unwrap();
        let report = report::report(&experiment, 2, false, Machine::here(), results, false);
        report.verdicts.into_iter().map(|verdict| (verdict.outcome, verdict.reason)).collect()
    }

    #[test]
    fn ratios_are_medians_and_counts_hold_in_every_run() {
        use Decision::{Met, Missed};
        let outcomes = |a: Vec<ExperimentRun>, b: Vec<ExperimentRun>| -> Vec<Decision> {
            verdicts(vec![Ok(a), Ok(b)]).into_iter().map(|verdict| verdict.0).collect()
        };
        // In one run, one packet of b was out of order. The ratio of b's time to a's time is
        // between 102/101 and 1.
        let (a, b) = (vec![run(101.0, 20), run(90.0, 11)], vec![run(102.0, 0), run(90.0, 1)]);
        assert_eq!(outcomes(a, b), [Met, Met, Missed, Met]);
        let (a, b) = (vec![run(101.5, 10)], vec![run(103.0, 0)]);
        assert_eq!(outcomes(a, b), [Missed, Missed, Met, Missed]);
        // No target concerns it, but a packet is missing.
        let (a, mut b) = (run(100.0, 20), run(100.0, 0));
        b.stages[0].missing = 1;
        assert_eq!(outcomes(vec![a], vec![b]), [Met, Met, Missed, Met, Met]);
    }

    #[test]
    fn a_target_inside_the_interval_is_not_decided() {
        use Decision::{Met, Missed, NotDecided};
        let outcomes = |a: [f64; 3], b: [f64; 3]| -> Vec<Decision> {
            let [a, b] = [a, b].map(|times| Ok(times.map(|ms| run(ms, 0)).into()));
            verdicts(vec![a, b]).into_iter().map(|verdict| verdict.0).collect()
        };
        assert_eq!(outcomes([100.0; 3], [100.0; 3]), [Met, Missed, Met, Met]);
        let told = outcomes([100.0, 100.0, 102.0], [103.0; 3]);
        assert_eq!(told, [NotDecided, Missed, Met, NotDecided]);
    }

    #[test]
    fn a_disturbed_run_decides_no_time_in_either_direction_but_counts() {
        use Decision::{Met, Missed, NotJudged};
        let steal_share = Some(0.2);
        for last_ms in [100.0, 200.0] {
            let mut a = run(last_ms, 20);
            a.disturbance = Disturbance { steal_share, ..Disturbance::default() };
            let told = verdicts(vec![Ok(vec![run(last_ms, 20), a]), Ok(vec![run(100.0, 1); 2])]);
            let outcomes: Vec<Decision> = told.into_iter().map(|verdict| verdict.0).collect();
            assert_eq!(outcomes, [NotJudged, Met, Missed, NotJudged]);
        }
    }

    #[test]
    fn what_is_refused_is_told_with_its_reason_and_never_met() {
        let refused = Err(NoResult::Refused("no such thing".into()));
        let told = verdicts(vec![refused, Ok(vec![run(1.0, 0)])]);
        assert_eq!(told[0], (Decision::NotAvailable, Some("no such thing".into())));
        assert_eq!(told[2].0, Decision::Met);
        assert_eq!(told[3], (Decision::NotAvailable, Some("no such thing".into())));
        let failed = verdicts(vec![Err(NoResult::Failed("it broke".into())), Ok(Vec::new())]);
        assert_eq!(failed[0].0, Decision::Failed);
        assert_eq!(failed[2].0, Decision::NotRun);
    }

    #[test]
    fn what_was_put_in_sequence_is_judged_behind_it() {
        let text = FILE.replace("name = 'b'\n", "name = 'b'\norder = 'resequence'\n");
        let experiment = Experiment::parse(&text, "x.toml").unwrap();
        let outcomes = |observer: StageReport| -> Vec<(String, Decision)> {
            let b = ExperimentRun { observer: Some(observer), ..run(101.0, 30) };
            let results = vec![Ok(vec![run(100.0, 20)]), Ok(vec![b])];
            let report = report::report(&experiment, 1, false, Machine::here(), results, false);
            report.verdicts.into_iter().skip(2).map(|verdict| (verdict.target, verdict.outcome)).collect()
        };
        let in_sequence = outcomes(StageReport::default());
        assert_eq!(in_sequence[0], ("reordered behind the resequencing <= 0".into(), Decision::Met));
        assert_eq!(in_sequence[1].1, Decision::Met);
        let lost = outcomes(StageReport { missing: 1, reordered: 1, ..StageReport::default() });
        assert_eq!(lost[0], ("missing or twice = 0".into(), Decision::Missed));
        assert_eq!(lost[1].1, Decision::Missed);
    }

    #[test]
    fn a_case_whose_reference_was_left_out_is_not_compared() {
        let experiment = Experiment::parse(FILE, "x.toml").unwrap().only(&["b"]).unwrap();
        let results = vec![Ok(vec![run(100.0, 0)])];
        let report = report::report(&experiment, 1, false, Machine::here(), results, false);
        let told: Vec<_> = report.verdicts.into_iter().map(|v| (v.outcome, v.reason)).collect();
        let left_out = (Decision::NotRun, Some("case a was not chosen".into()));
        assert_eq!(told, [(Decision::Met, None), left_out]);
    }
}
