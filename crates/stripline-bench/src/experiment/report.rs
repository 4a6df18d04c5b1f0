//! The results of an experiment.

use serde::Serialize;
use stripline::node::Dispatch;
use stripline::terms::Scope;

use super::CaseRuns;
use super::case::{ExperimentCase, ExperimentTarget, PublishedFigure, Work};
use super::file::Experiment;
use super::ideal::{Shape, ideal};
use super::launch::PipelineResult;
use super::stage::PlaceResult;
use super::verdict::{self, Verdict};
use crate::process::NoResult;
use crate::statistics::{median, median_interval, percentile, pool};
use crate::{Disturbance, Machine, RESULT_FORMAT};

/// The results of a whole experiment. `docs/experiment-file.md` describes the JSON form.
///
/// ```no_run
/// # use stripline_bench::experiment::{Experiment, ExperimentSettings, run};
/// # let experiment = Experiment::load("experiments/e1-messaging.toml".as_ref())?;
/// let report = run(&experiment, &ExperimentSettings::default(), &mut |_| ())?;
/// std::fs::write("e1.json", serde_json::to_string_pretty(&report)?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentReport {
    /// The version of the JSON form.
    pub format: u32,
    /// The name of the experiment.
    pub name: String,
    /// The description of the experiment.
    pub title: String,
    /// The source of the published figures.
    pub source: String,
    /// The machine of the measurement.
    pub machine: Machine,
    /// Whether the experiment was quick, with fewer packets and runs than in the file.
    pub quick: bool,
    /// Number of runs planned for each case.
    pub repeats: u32,
    /// All cases, in the order of the file.
    pub cases: Vec<CaseReport>,
    /// The verdict on each target.
    pub verdicts: Vec<Verdict>,
    /// Whether the experiment was ended early, so that the results are incomplete.
    pub interrupted: bool,
}

/// The results of one case.
///
/// ```no_run
/// # use stripline_bench::experiment::{Experiment, ExperimentSettings, Status, run};
/// # let experiment = Experiment::load("experiments/e1-messaging.toml".as_ref())?;
/// # let report = run(&experiment, &ExperimentSettings::default(), &mut |_| ())?;
/// for case in report.cases.iter().filter(|case| case.status == Status::NotAvailable) {
///     println!("{}: {}", case.case, case.reason.as_deref().unwrap_or(""));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// The parameters of the case.
    #[serde(flatten)]
    pub case: ExperimentCase,
    /// Whether there are figures.
    pub status: Status,
    /// The reason why there are no figures.
    pub reason: Option<String>,
    /// The target of the case.
    pub target: Option<ExperimentTarget>,
    /// The published figures of the case.
    pub published: Option<PublishedFigure>,
    /// The ratio of the last packet's time to the ideal: the median over the runs.
    pub over_ideal: Option<f64>,
    /// The lower end of the interval of the ratio.
    pub over_ideal_low: Option<f64>,
    /// The upper end of the interval.
    pub over_ideal_high: Option<f64>,
    /// The probability that the interval contains the true median: 0.75 for three runs, 0.95
    /// from six on.
    pub over_ideal_coverage: Option<f64>,
    /// How much longer than requested a component worked on a packet, in milliseconds: the median
    /// over the runs of the mean over packets and components. For work that waits, this is the
    /// overshoot of a sleep.
    pub overshoot_ms: Option<f64>,
    /// Each run, in the order of the rounds.
    pub runs: Vec<ExperimentRun>,
}

/// The status of a case: whether it has figures.
///
/// ```
/// use stripline_bench::experiment::Status;
///
/// assert_eq!(serde_json::to_value(Status::NotAvailable).unwrap(), "not-available");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The case has figures.
    Measured,
    /// The library refuses the case.
    NotAvailable,
    /// The case should have worked, but failed.
    Failed,
    /// The experiment ended before this case.
    NotRun,
}

impl Status {
    /// Returns the status as text for the user.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::NotAvailable => "not available",
            Self::Failed => "FAILED",
            Self::NotRun => "not run",
        }
    }
}

/// The results of one run of a case. Times are milliseconds since the beginning of the producer's
/// first send.
///
/// ```
/// let nothing = stripline_bench::experiment::ExperimentRun::default();
/// assert!(nothing.stages.is_empty());
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExperimentRun {
    /// The time at which the last packet left the last component. If there is an observer, the time
    /// at which the observer had received the last packet.
    pub last_ms: f64,
    /// The ideal of this time, from the measured times of work.
    pub ideal_ms: f64,
    /// The ratio of the time to the ideal.
    pub over_ideal: f64,
    /// The results of each component.
    pub stages: Vec<StageReport>,
    /// The results of the observer, which receives the resequenced packets after the last
    /// component; `None` without resequencing.
    pub observer: Option<StageReport>,
    /// A summary of the producer's sends.
    pub sends: Sends,
    /// Duration of each send in nanoseconds, packet by packet.
    pub sends_ns: Vec<u64>,
    /// How much later than intended the latest send of the producer began, in milliseconds.
    pub behind_ms: f64,
    /// Seconds of processor time of all processes.
    pub cpu_s: f64,
    /// The shares of the run that did not belong to the measured programs. If one is large, the
    /// times mean little, and ratios are not judged.
    #[serde(flatten)]
    pub disturbance: Disturbance,
    /// Number of voluntary context switches.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches.
    pub involuntary_switches: u64,
    /// The total peak memory of the processes, in KiB.
    pub peak_kib: u64,
}

/// The results of one component in a run.
///
/// ```
/// let nothing = stripline_bench::experiment::StageReport::default();
/// assert_eq!((nothing.reordered, nothing.cpu_s), (0, None));
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct StageReport {
    /// The time at which the component took the first packet.
    pub first_ms: f64,
    /// The time at which the last packet left the component.
    pub last_ms: f64,
    /// Number of packets that left the component after a packet with a higher number.
    pub reordered: u64,
    /// Number of packets that arrived twice.
    pub duplicates: u64,
    /// Number of packets that never arrived.
    pub missing: u64,
    /// The mean time of work on a packet.
    pub service_ms: f64,
    /// The longest time of work on a packet.
    pub service_max_ms: f64,
    /// The mean excess over the requested time of work.
    pub overshoot_ms: f64,
    /// Seconds of processor time, if the component had a separate process.
    pub cpu_s: Option<f64>,
}

/// Durations of the producer's sends, in milliseconds. A percentile is omitted if fewer than 100
/// sends lie beyond it.
///
/// ```
/// let nothing = stripline_bench::experiment::Sends::default();
/// assert_eq!((nothing.mean_ms, nothing.p50_ms), (0.0, None));
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sends {
    /// The mean.
    pub mean_ms: f64,
    /// The median.
    pub p50_ms: Option<f64>,
    /// The 99th percentile.
    pub p99_ms: Option<f64>,
    /// The maximum.
    pub max_ms: f64,
    /// Number of sends that took a millisecond or longer, because they waited for room or for an
    /// acknowledgement.
    pub over_1_ms: usize,
}

impl CaseReport {
    /// Returns the median over the runs of one of the figures.
    ///
    /// ```no_run
    /// # fn example(case: &stripline_bench::experiment::CaseReport) {
    /// println!("{:?} ms", case.median(|run| Some(run.last_ms)));
    /// # }
    /// ```
    pub fn median(&self, of: impl Fn(&ExperimentRun) -> Option<f64>) -> Option<f64> {
        median(&self.runs.iter().filter_map(of).collect::<Vec<_>>())
    }
}

impl ExperimentReport {
    /// Returns the largest share of all processors that other programs used during a run, 0 to 1.
    ///
    /// ```no_run
    /// # fn example(report: &stripline_bench::experiment::ExperimentReport) {
    /// if report.others_share_max() > 0.05 {
    ///     eprintln!("the machine was not alone");
    /// }
    /// # }
    /// ```
    pub fn others_share_max(&self) -> f64 {
        let runs = self.cases.iter().flat_map(|case| &case.runs);
        runs.filter_map(|run| run.disturbance.others_share).fold(0.0, f64::max)
    }
}

/// Creates the report of a run from the results of all places.
pub(super) fn run(case: &ExperimentCase, whole: &PipelineResult, cpus: usize) -> ExperimentRun {
    let Some((producer, components)) = whole.seen.split_first() else { return ExperimentRun::default() };
    let ms_since = |ns: u64| ns.saturating_sub(producer.first_ns) as f64 / 1e6;
    let mut stages: Vec<StageReport> = components
        .iter()
        .map(|seen| {
            let service_ms = mean(&seen.services_ns) / 1e6;
            let is_component = seen.place <= case.stages;
            let asked_ms = if is_component && case.work != Work::None { case.work_ms } else { service_ms };
            StageReport {
                first_ms: ms_since(seen.first_ns),
                last_ms: ms_since(seen.last_ns),
                reordered: seen.reordered,
                duplicates: seen.duplicates,
                missing: seen.missing,
                service_ms,
                service_max_ms: seen.services_ns.iter().max().map_or(0.0, |ns| *ns as f64 / 1e6),
                overshoot_ms: service_ms - asked_ms,
                cpu_s: whole.cpu_s.get(seen.place as usize).copied(),
            }
        })
        .collect();
    let observer = stages.split_off(stages.len().min(case.stages as usize)).pop();
    let services_s: Vec<f64> = stages.iter().map(|stage| stage.service_ms / 1e3).collect();
    let shape = Shape {
        packets: case.packets,
        pace_s: case.pace_ms / 1e3,
        nested: case.scope >= Scope::Target,
        threads: match case.dispatch {
            Dispatch::Pool { threads, .. } => threads as u32,
            Dispatch::Queue | Dispatch::Direct => 1,
        },
        cpus: (case.work == Work::Busy).then_some(cpus),
    };
    let last_ms = observer.as_ref().or(stages.last()).map_or(0.0, |place| place.last_ms);
    let ideal_ms = ideal(&services_s, &shape) * 1e3;
    ExperimentRun {
        last_ms,
        ideal_ms,
        over_ideal: if ideal_ms > 0.0 { last_ms / ideal_ms } else { 0.0 },
        stages,
        observer,
        sends: sends(producer),
        sends_ns: producer.sends_ns.clone(),
        behind_ms: producer.behind_ns as f64 / 1e6,
        cpu_s: whole.usage.cpu_s,
        disturbance: Disturbance::of(whole.others, cpus),
        voluntary_switches: whole.usage.voluntary_switches,
        involuntary_switches: whole.usage.involuntary_switches,
        peak_kib: whole.usage.peak_kib,
    }
}

fn sends(producer: &PlaceResult) -> Sends {
    let each: Vec<(u64, u64)> = producer.sends_ns.iter().map(|ns| (*ns, 1)).collect();
    let counts = pool(std::iter::once(&each[..]));
    let at = |share| percentile(&counts, share).map(|ns| ns as f64 / 1e6);
    Sends {
        mean_ms: mean(&producer.sends_ns) / 1e6,
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        max_ms: counts.last().map_or(0.0, |(ns, _)| *ns as f64 / 1e6),
        over_1_ms: producer.sends_ns.iter().filter(|ns| **ns >= 1_000_000).count(),
    }
}

fn mean(values: &[u64]) -> f64 {
    values.iter().map(|value| *value as f64).sum::<f64>() / values.len().max(1) as f64
}

pub(super) fn report(
    experiment: &Experiment,
    repeats: u32,
    quick: bool,
    machine: Machine,
    results: Vec<CaseRuns>,
    interrupted: bool,
) -> ExperimentReport {
    let cases = experiment.cases.iter().zip(results).map(|(case, result)| {
        let (status, reason, runs) = match result {
            Ok(runs) if runs.is_empty() => (Status::NotRun, Some("the experiment ended before".into()), runs),
            Ok(runs) => (Status::Measured, None, runs),
            Err(NoResult::Refused(reason)) => (Status::NotAvailable, Some(reason), Vec::new()),
            Err(NoResult::Failed(reason)) => (Status::Failed, Some(reason), Vec::new()),
        };
        // A pipeline without work has no ideal.
        let ratios: Vec<f64> = runs.iter().map(|run| run.over_ideal).filter(|ratio| *ratio > 0.0).collect();
        let over = median_interval(&ratios);
        let overshoots: Vec<f64> = runs
            .iter()
            .map(|run| {
                run.stages.iter().map(|s| s.overshoot_ms).sum::<f64>() / run.stages.len().max(1) as f64
            })
            .collect();
        CaseReport {
            case: case.clone(),
            status,
            reason,
            target: experiment.targets.get(&case.name).cloned(),
            published: experiment.published.get(&case.name).cloned(),
            over_ideal: over.map(|over| over.value),
            over_ideal_low: over.map(|over| over.low),
            over_ideal_high: over.map(|over| over.high),
            over_ideal_coverage: over.map(|over| over.coverage),
            overshoot_ms: median(&overshoots),
            runs,
        }
    });
    let cases: Vec<CaseReport> = cases.collect();
    ExperimentReport {
        format: RESULT_FORMAT,
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        source: experiment.source.clone(),
        machine,
        quick,
        repeats,
        verdicts: verdict::all(experiment, &cases),
        cases,
        interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::{RunTime, Usage};

    fn case(more: &str) -> ExperimentCase {
        let text = format!(
            "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\nstages = 2\npackets = 3\nwork = 'wait'\nwork-ms = 5\n{more}"
        );
        Experiment::parse(&text, "x.toml").unwrap().cases[0].clone()
    }

    fn seen(place: u32, last_ms: u64, services_ns: Vec<u64>) -> PlaceResult {
        PlaceResult {
            place,
            first_ns: 1_000_000_000 + u64::from(place),
            last_ns: 1_000_000_000 + last_ms * 1_000_000,
            services_ns,
            reordered: u64::from(place),
            ..PlaceResult::default()
        }
    }

    fn whole() -> PipelineResult {
        let producer = PlaceResult { sends_ns: vec![1_000, 2_000, 3_000_000], ..seen(0, 3, Vec::new()) };
        let work = vec![5_000_000, 6_000_000, 7_000_000];
        let seen = vec![producer, seen(1, 20, work.clone()), seen(2, 25, work)];
        PipelineResult {
            seen,
            usage: Usage { cpu_s: 0.5, ..Usage::default() },
            cpu_s: vec![0.1, 0.2, 0.2],
            others: Some(RunTime { cpu_s: 0.5, elapsed_s: 2.0, ..RunTime::default() }),
        }
    }

    #[test]
    fn a_run_is_beside_its_ideal() {
        let run = run(&case(""), &whole(), 2);
        // 6 ms per packet: two components, and two further packets.
        assert!((run.ideal_ms - 24.0).abs() < 1e-9, "{}", run.ideal_ms);
        assert!((run.over_ideal - 25.0 / 24.0).abs() < 1e-9);
        assert_eq!(run.stages.iter().map(|stage| stage.reordered).collect::<Vec<_>>(), [1, 2]);
        assert!((run.stages[0].overshoot_ms - 1.0).abs() < 1e-9);
        assert_eq!((run.stages[1].cpu_s, run.disturbance.others_share), (Some(0.2), Some(0.125)));
        assert_eq!((run.sends.over_1_ms, run.sends.p50_ms, run.sends.max_ms), (1, None, 3.0));
    }

    #[test]
    fn scope_and_work_choose_the_ideal() {
        let nested = run(&case("scope = 'target'"), &whole(), 2);
        assert!((nested.ideal_ms - 36.0).abs() < 1e-9, "{}", nested.ideal_ms);
        let pool = run(&case("dispatch = 'pool(2)'"), &whole(), 2);
        assert!((pool.ideal_ms - 15.0).abs() < 1e-9, "{}", pool.ideal_ms);
        let mut busy = case("");
        busy.work = Work::Busy;
        assert!((run(&busy, &whole(), 1).ideal_ms - 36.0).abs() < 1e-9);
    }
}
