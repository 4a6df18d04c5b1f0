//! The start of the processes of one run.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::case::{ExperimentCase, Placement};
use super::child::{ChildOutcome, ExperimentJob, JOB_VARIABLE};
use super::stage::{Seen, Trouble};
use crate::memory;
use crate::processes::{ChildProcesses, Usage, machine_cpu_s};

/// The maximum time that a run may take beyond the work.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The factor by which a run may exceed the sum of the work, because sleeps overshoot and
/// processors are shared.
const SLACK: f64 = 3.0;

/// The results of all places of a pipeline, in order, and the resources used.
pub(super) struct Whole {
    pub seen: Vec<Seen>,
    pub usage: Usage,
    /// Processor time of each process, by place, if each place has a separate process.
    pub cpu_s: Vec<f64>,
    /// Seconds of processor time that other programs used during the run, and the duration of the
    /// run; `None` if unknown.
    pub others_s: Option<(f64, f64)>,
}

pub(super) struct ExperimentLauncher<'a> {
    pub program: &'a Path,
    pub interrupted: &'a AtomicBool,
    pub count: u32,
}

impl ExperimentLauncher<'_> {
    /// Runs a case once, in new processes. All of them have ended when this returns.
    pub(super) fn run(&mut self, case: &ExperimentCase) -> Result<Whole, Trouble> {
        self.count += 1;
        let domain = format!("experiment-{}-{}", std::process::id(), self.count);
        let board = memory::file(memory::PAGE)?;
        let processes = if case.placement == Placement::OneProcess { 1 } else { case.places() };
        let (began, worked_before) = (Instant::now(), machine_cpu_s());
        let mut family = ChildProcesses::default();
        for place in 0..processes {
            let job =
                ExperimentJob { case: case.clone(), place, domain: domain.clone(), board: board.as_raw_fd() };
            family.spawn(self.program, JOB_VARIABLE, &job, vec![board.as_raw_fd()])?;
        }
        let end = Instant::now() + TIMEOUT + Duration::from_secs_f64(SLACK * case.seconds_max());
        let mut outcomes: Vec<ChildOutcome> = Vec::new();
        family.listen(end, self.interrupted, |outcome: ChildOutcome| match outcome.trouble {
            Some(trouble) => Err(trouble),
            None => {
                outcomes.push(outcome);
                Ok(())
            }
        })?;
        let worked = worked_before.zip(machine_cpu_s()).map(|(before, after)| after - before);
        let elapsed_s = began.elapsed().as_secs_f64();
        let mut usage = Usage::default();
        outcomes.iter().for_each(|outcome| usage.add(outcome.usage));
        outcomes.sort_by_key(|outcome| outcome.seen.first().map(|seen| seen.place));
        let cpu_s = if processes > 1 { outcomes.iter().map(|o| o.usage.cpu_s).collect() } else { Vec::new() };
        let mut seen: Vec<Seen> = outcomes.into_iter().flat_map(|outcome| outcome.seen).collect();
        seen.sort_by_key(|seen| seen.place);
        if seen.len() != case.places() as usize {
            return Err(Trouble::Failed(format!("{} of {} places reported", seen.len(), case.places())));
        }
        let others_s = worked.map(|worked| ((worked - usage.cpu_s).max(0.0), elapsed_s));
        Ok(Whole { seen, usage, cpu_s, others_s })
    }
}
