//! The start of the processes of one run.

use std::os::fd::AsRawFd;
use std::time::Duration;

use super::case::{ExperimentCase, Placement};
use super::child::PlaceJob;
use super::stage::PlaceResult;
use crate::memory;
use crate::process::{Job, Launcher, NoResult};
use crate::usage::{RunTime, Usage};

/// The factor by which a run may exceed the sum of the work, because sleeps overshoot and
/// processors are shared.
const SLACK: f64 = 3.0;

/// The results of all places of a pipeline, in order, and the resources used.
pub(super) struct PipelineResult {
    pub seen: Vec<PlaceResult>,
    pub usage: Usage,
    /// Processor time of each process, by place, if each place has a separate process.
    pub cpu_s: Vec<f64>,
    /// The times of the run; `None` if unknown.
    pub others: Option<RunTime>,
}

/// Runs a case once, in new processes. All of them have ended when this returns.
pub(super) fn run(
    case: &ExperimentCase,
    launcher: &mut Launcher<'_>,
    cpus: usize,
) -> Result<PipelineResult, NoResult> {
    let domain = launcher.name();
    let file = memory::file(memory::PAGE)?;
    let board = file.as_raw_fd();
    let processes = if case.placement == Placement::OneProcess { 1 } else { case.places() };
    let job = |place| {
        let job = PlaceJob { case: case.clone(), place, domain: domain.clone(), board };
        (Job::Place(job), vec![board])
    };
    let time = Duration::from_secs_f64(SLACK * case.seconds_max());
    let (mut outcomes, others) =
        launcher.run::<(Vec<PlaceResult>, Usage)>((0..processes).map(job).collect(), file, time, cpus)?;
    outcomes.sort_by_key(|(seen, _)| seen.first().map(|seen| seen.place));
    let mut usage = Usage::default();
    outcomes.iter().for_each(|(_, used)| usage.add(*used));
    let cpu_s =
        if processes > 1 { outcomes.iter().map(|(_, used)| used.cpu_s).collect() } else { Vec::new() };
    let mut seen: Vec<PlaceResult> = outcomes.into_iter().flat_map(|(seen, _)| seen).collect();
    seen.sort_by_key(|seen| seen.place);
    if seen.len() != case.places() as usize {
        return Err(format!("{} of {} places reported", seen.len(), case.places()).into());
    }
    Ok(PipelineResult { seen, usage, cpu_s, others })
}
