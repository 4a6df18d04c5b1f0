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
//! component has passed it on. It leaves the last component when the work on it is done. With
//! resequencing, an observer after the last component receives the packets, and the observer's time
//! counts. [`ideal`] computes this time for links that cost nothing, from the *measured* work of
//! the components.
//!
//! If the library refuses a case, the report contains its error message.

mod case;
mod child;
mod component;
mod file;
mod html;
mod ideal;
mod launch;
mod plot;
mod problems;
mod report;
mod schema;
mod sequence;
mod stage;
mod tables;
mod verdict;

pub use case::{Dispatch, ExperimentCase, ExperimentTarget, Order, Placement, PublishedFigure, Work};
pub(crate) use child::child_if_launched;
pub use file::Experiment;
pub use html::html;
pub use ideal::{Shape, ideal};
pub use problems::{ExperimentProblem, Problems};
pub use report::{CaseReport, ExperimentReport, ExperimentRun, Sends, StageReport, Status};
pub use schema::schema;
pub use verdict::{Verdict, VerdictOutcome};

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::ladder::{Machine, Progress, allowed_cpus};
use crate::processes::{self, Interruption};

use launch::ExperimentLauncher;
use stage::Trouble;

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
    let program = processes::program(settings.program.as_ref())?;
    let interruption = Interruption::watch()?;
    let mut launcher = ExperimentLauncher { program: &program, interrupted: &interruption.flag, count: 0 };
    let cpus = allowed_cpus().len();
    let mut results: Vec<Result<Vec<ExperimentRun>, Trouble>> =
        experiment.cases.iter().map(|case| stage::topics(case).map(|_| Vec::new())).collect();
    let total = results.iter().filter(|result| result.is_ok()).count() * repeats as usize;
    let mut done = 0;
    for round in 0..repeats {
        let mut order: Vec<usize> = (0..experiment.cases.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let case = &experiment.cases[index];
            let Ok(runs) = &mut results[index] else { continue };
            observer(&Progress { done, total, doing: case.to_string() });
            let run = launcher.run(case);
            if interruption.flag.load(Ordering::Relaxed) {
                break;
            }
            done += 1;
            match run {
                Ok(whole) => runs.push(report::run(case, &whole, cpus)),
                // A case that failed is not repeated. It would fail again, or only the successful
                // runs would be reported.
                Err(trouble) => {
                    done += (repeats - round - 1) as usize;
                    results[index] = Err(trouble);
                }
            }
        }
        if interruption.flag.load(Ordering::Relaxed) {
            break;
        }
    }
    let interrupted = interruption.flag.load(Ordering::Relaxed);
    Ok(report::report(&experiment, repeats, settings.quick, Machine::here(), results, interrupted))
}
