//! Experiments: pipelines of components from a file, each beside its ideal.
//!
//! A [`Case`] is a producer and a number of components in a row that each read a packet, work, and pass on a copy. They
//! are threads of one process or a process each, and use the library as anybody would. Every case is run several times
//! in fresh processes; the order of the cases turns round every time (A B, B A, …), and ratios are medians over the
//! runs. Nothing is dropped as warm-up, as the studies dropped nothing, and nothing is pinned to a processor.
//!
//! When the last packet left a component is the time, since the first send began, at which the component had passed it
//! on; at the last component, at which it had done its work. Where packets are put back in sequence, an observer behind
//! the last component is handed them, and its time counts. [`ideal`] says what that would have been if links took
//! nothing, computed from the time that the components were *measured* to have worked.
//!
//! A case that the library refuses is in the report with the library's words.

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
mod sequence;
mod stage;
mod tables;
mod verdict;

pub use case::{Case, Dispatch, Order, Placement, Published, Target, Work};
pub(crate) use child::child_if_launched;
pub use file::Experiment;
pub use html::html;
pub use ideal::{Shape, ideal};
pub use problems::Problems;
pub use report::{CaseReport, Report, Run, Sends, StageReport, Status};
pub use verdict::{Outcome, Verdict};

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::ladder::{Machine, Progress, allowed_cpus};
use crate::processes::{self, Interruption};

use launch::Launcher;
use stage::Trouble;

/// How an experiment is run.
///
/// ```
/// let settings = stripline_bench::experiment::Settings { quick: true, ..Default::default() };
/// assert_eq!(settings.repeats, None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// With the packets and runs of the file's `[quick]`.
    pub quick: bool,
    /// How often each case is run; `None`: as the file says.
    pub repeats: Option<u32>,
    /// The program whose `main` begins with [`child_if_launched`](crate::child_if_launched); `None`: this one.
    pub program: Option<PathBuf>,
}

/// Runs all cases of an experiment. Ctrl-C ends it early, with what there is by then.
///
/// # Errors
/// When nothing can be run at all; what a case suffers is in the report.
///
/// ```no_run
/// use stripline_bench::experiment::{Experiment, Settings, run};
///
/// let experiment = Experiment::load("experiments/e1-messaging.toml".as_ref())?;
/// let report = run(&experiment, &Settings::default(), &mut |progress| eprintln!("{}", progress.doing))?;
/// for verdict in &report.verdicts {
///     println!("{} {}: {:?}", verdict.case, verdict.target, verdict.outcome);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(
    experiment: &Experiment,
    settings: &Settings,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Report, String> {
    let mut experiment = experiment.clone();
    if settings.quick {
        experiment = experiment.quickened();
    }
    let repeats = settings.repeats.unwrap_or(experiment.repeats).max(1);
    let program = processes::program(settings.program.as_ref())?;
    let interruption = Interruption::watch()?;
    let mut launcher = Launcher { program: &program, interrupted: &interruption.flag, count: 0 };
    let cpus = allowed_cpus().len();
    let mut results: Vec<Result<Vec<Run>, Trouble>> =
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
                // It would not fare better the next time, or the figures would be of those that went well.
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
