//! Experiments: pipelines of components from a file, each compared with its ideal.
//!
//! An [`ExperimentCase`] is a producer and a number of components in a row. Each component reads a
//! packet, works, and passes on a copy. The producer and the components are threads of one process,
//! or separate processes, and use the public library. Every case is run several times in new
//! processes. The order of the cases reverses every time (A B, B A, …), and ratios are medians over
//! the runs. As in the published studies, no run is dropped as a warm-up, and no thread is pinned
//! to a processor.
//!
//! Times count from the beginning of the first send. The last packet leaves a component when the
//! component has passed it on. The packet leaves the last component when the work on it is done.
//! With resequencing, an observer after the last component receives the packets, and the observer's
//! time counts. [`ideal`] computes this time for links that cost nothing, from the *measured* work
//! of the components.
//!
//! If the library refuses a case, the report contains its error message.

mod case;
mod child;
mod component;
mod file;
mod ideal;
mod launch;
mod output;
mod plot;
mod problems;
mod report;
mod schema;
mod sequence;
mod stage;
mod tables;
mod verdict;

pub use case::{ExperimentCase, ExperimentTarget, Order, Placement, PublishedFigure, Work};
pub(crate) use child::{PlaceJob, perform};
pub use file::Experiment;
pub use ideal::{Shape, ideal};
pub use problems::{ExperimentProblem, Problems};
pub use report::{CaseReport, ExperimentReport, ExperimentRun, Sends, StageReport, Status};
pub use schema::schema;
pub use verdict::Verdict;

use std::path::PathBuf;

use crate::machine::allowed_cpus;
use crate::process::{Launcher, NoResult};
use crate::rounds::{Interruption, Progress, Repeats, take_turns};
use crate::{Disturbance, Machine};
use launch::PipelineResult;

/// The settings of an experiment.
///
/// ```
/// let settings = stripline_bench::experiment::ExperimentSettings { quick: true, ..Default::default() };
/// assert_eq!(settings.repeats, None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExperimentSettings {
    /// Whether to use the packets and the runs in the file's `[quick]`.
    pub quick: bool,
    /// Number of runs of each case; `None` for the number in the file.
    pub repeats: Option<u32>,
    /// The program with a `main` that begins with [`child_if_launched`](crate::child_if_launched);
    /// `None` for this program.
    pub program: Option<PathBuf>,
}

/// Runs all cases of an experiment. Ctrl-C ends the run early, with the results up to then.
///
/// # Errors
/// If nothing can be run at all. The failure of a single case is recorded in the report instead.
///
/// ```no_run
/// use stripline_bench::experiment::{Experiment, ExperimentSettings, run};
///
/// let experiment = Experiment::load("experiments/e1-messaging.toml".as_ref())?;
/// let report = run(&experiment, &ExperimentSettings::default(), &mut |progress| eprintln!("{}", progress.doing))?;
/// for verdict in &report.verdicts {
///     println!("{} {}: {:?}", verdict.case, verdict.target, verdict.outcome);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(
    experiment: &Experiment,
    settings: &ExperimentSettings,
    observer: &mut dyn FnMut(&Progress),
) -> Result<ExperimentReport, String> {
    let mut experiment = experiment.clone();
    if settings.quick {
        experiment = experiment.quickened();
    }
    let repeats = settings.repeats.unwrap_or(experiment.repeats).max(1);
    let interruption = Interruption::watch()?;
    let mut launcher = Launcher::new("experiment", settings.program.as_ref(), &interruption);
    let cpus = allowed_cpus().len();
    let mut results: Vec<(&ExperimentCase, CaseRuns)> =
        experiment.cases.iter().map(|case| (case, stage::topics(case).map(|_| Vec::new()))).collect();
    let total = results.iter().filter(|(_, result)| result.is_ok()).count() * repeats as usize;
    let mut repeats_left = Repeats::new(results.len(), settings.quick);
    let mut done = 0;
    take_turns(&mut results, repeats, &interruption, |(case, result), round| {
        let Ok(runs) = result else { return };
        observer(&Progress { done, total, doing: case.to_string() });
        let is_disturbed = |run: &Result<PipelineResult, NoResult>| {
            !interruption.is_set()
                && run.as_ref().is_ok_and(|run| Disturbance::of(run.others, cpus).is_disturbed())
        };
        let run = repeats_left.run(|| launch::run(case, &mut launcher, cpus), is_disturbed);
        if interruption.is_set() {
            return;
        }
        done += 1;
        match run {
            Ok(whole) => runs.push(report::run(case, &whole, cpus)),
            // A case that failed is not repeated. The case would fail again, or only the successful
            // runs would be reported.
            Err(failure) => {
                done += (repeats - round - 1) as usize;
                *result = Err(failure);
            }
        }
    });
    let results = results.into_iter().map(|(_, result)| result).collect();
    Ok(report::report(&experiment, repeats, settings.quick, Machine::here(), results, interruption.is_set()))
}

/// The runs of a case, or the reason why there are none.
type CaseRuns = Result<Vec<ExperimentRun>, NoResult>;
