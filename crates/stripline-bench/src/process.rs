//! The processes of a measurement. Each process is this program, started again with a job in the
//! environment. The process prints the result as JSON, and ends with the program that started it.

use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bindings::EndJob;
use crate::experiment::PlaceJob;
use crate::instructions::SteppedJob;
use crate::ladder::SideJob;
use crate::rounds::Interruption;
use crate::usage::{RunTime, RunWatch};
use crate::{Problem, bindings, experiment, instructions, ladder};

/// The environment variable with the job, as JSON.
const VARIABLE: &str = "STRIPLINE_BENCH_JOB";
/// The maximum time that processes may take beyond the measuring.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between checks of the Ctrl-C flag. A signal to this process interrupts the wait at
/// once.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// The job of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// A side of the cases of a ladder.
    Side(SideJob),
    /// A place in the pipeline of an experiment.
    Place(PlaceJob),
    /// Packets that are stepped through, one instruction at a time.
    Stepped(SteppedJob),
    /// An end of a link in Rust, beside the ends in other languages.
    End(EndJob),
}

/// The reason why a process has no result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum NoResult {
    /// The library refuses the case, with this message.
    Refused(Problem),
    /// The case should have worked, but failed.
    Failed(Problem),
}

impl NoResult {
    /// Returns the message.
    pub(crate) fn into_problem(self) -> Problem {
        match self {
            Self::Refused(problem) | Self::Failed(problem) => problem,
        }
    }
}

impl From<Problem> for NoResult {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl From<&str> for NoResult {
    fn from(problem: &str) -> Self {
        Self::Failed(problem.into())
    }
}

impl From<stripline::Error> for NoResult {
    fn from(error: stripline::Error) -> Self {
        match error {
            stripline::Error::Unsupported { .. } => Self::Refused(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Performs the job of this process, if it has one, and returns the exit code.
pub(crate) fn child_if_launched() -> Option<ExitCode> {
    let job = std::env::var(VARIABLE).ok()?;
    // Two hundred readers need many descriptors.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    Some(match serde_json::from_str(&job) {
        Ok(Job::Side(job)) => answer(ladder::perform(&job).map_err(NoResult::from)),
        Ok(Job::Place(job)) => answer(experiment::perform(&job)),
        Ok(Job::Stepped(job)) => answer(instructions::perform(&job)),
        Ok(Job::End(job)) => bindings::perform(&job),
        Err(error) => answer::<()>(Err(format!("the job: {error}").into())),
    })
}

/// Prints the result of this process for the program that started it. Returns the exit code.
pub(crate) fn answer<O: Serialize>(outcome: Result<O, NoResult>) -> ExitCode {
    let is_printed = serde_json::to_string(&outcome)
        .map_err(std::io::Error::other)
        .and_then(|text| writeln!(std::io::stdout(), "{text}"))
        .is_ok();
    if is_printed && outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reads the result that a process printed; `None` if the text is not a result.
pub(crate) fn outcome_of<O: DeserializeOwned>(text: &[u8]) -> Option<Result<O, NoResult>> {
    serde_json::from_slice(text).ok()
}

/// Returns the command that starts a process with a job.
pub(crate) fn command(program: Option<&PathBuf>, job: &Job) -> Result<Command, Problem> {
    let program = match program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(|e| format!("cannot find the path of this program: {e}"))?,
    };
    let mut command = Command::new(program);
    command.env(VARIABLE, serde_json::to_string(job).map_err(|e| e.to_string())?).stdin(Stdio::null());
    Ok(command)
}

/// A process that ends with this program, or when this value is dropped.
pub(crate) struct OwnChild(Child);

impl OwnChild {
    /// Starts a process, which inherits the descriptors. If there is a processor, the process is
    /// pinned to it.
    pub(crate) fn spawn(
        mut command: Command,
        inherited: Vec<RawFd>,
        cpu: Option<usize>,
    ) -> Result<Self, Problem> {
        let parent = Pid::from_raw(std::process::id().cast_signed());
        let mut cpus = CpuSet::new();
        cpu.into_iter().for_each(|cpu| cpus.set(cpu));
        let prepare = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died just before.
            if getppid() != parent {
                return Err(std::io::ErrorKind::NotFound.into());
            }
            for descriptor in &inherited {
                // SAFETY: the parent keeps the descriptors open until this process has started.
                fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*descriptor) }, FdFlags::empty())?;
            }
            if cpus.count() > 0 { Ok(sched_setaffinity(None, &cpus)?) } else { Ok(()) }
        };
        // SAFETY: `prepare` makes only system calls and allocates nothing.
        unsafe { command.pre_exec(prepare) };
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdout(Stdio::piped()).spawn().map(Self).map_err(|e| format!("cannot start {program}: {e}"))
    }
}

impl Deref for OwnChild {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for OwnChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        // Neither call affects a process that has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The launcher of processes, for one run after the other.
pub(crate) struct Launcher<'a> {
    /// The program with a `main` that begins with `child_if_launched`; `None` for this program.
    program: Option<&'a PathBuf>,
    /// The beginning of the names of all runs.
    prefix: &'static str,
    interruption: &'a Interruption,
    count: u32,
}

impl<'a> Launcher<'a> {
    pub(crate) fn new(
        prefix: &'static str,
        program: Option<&'a PathBuf>,
        interruption: &'a Interruption,
    ) -> Self {
        Self { program, prefix, interruption, count: 0 }
    }

    /// Returns the name of the next run, which no other run on this host has.
    pub(crate) fn name(&mut self) -> String {
        self.count += 1;
        format!("{}-{}-{}", self.prefix, std::process::id(), self.count)
    }

    /// Runs jobs in new processes, which inherit the descriptors beside the jobs. Returns their
    /// results as they come, and the times of the run. All processes have ended when this returns.
    /// Waits for a processor count only if each process can have one of the `cpus` alone.
    ///
    /// `held` is dropped when all processes have started. `held` keeps the descriptors open until
    /// then: a process detects the death of another only if no third process holds the socket.
    pub(crate) fn run<O: DeserializeOwned>(
        &self,
        jobs: Vec<(Job, Vec<RawFd>)>,
        held: impl Sized,
        time: Duration,
        cpus: usize,
    ) -> Result<(Vec<O>, Option<RunTime>), NoResult> {
        let mut watch = RunWatch::start();
        let has_own_cpus = jobs.len() <= cpus;
        let mut processes = Vec::new();
        for (job, inherited) in jobs {
            let mut child = OwnChild::spawn(command(self.program, &job)?, inherited, None)?;
            processes.push((child.stdout.take(), child, Vec::new()));
        }
        drop(held);
        let end = Instant::now() + time + TIMEOUT;
        let mut results = Vec::new();
        while results.len() < processes.len() {
            let open = || processes.iter().filter_map(|(output, ..)| output.as_ref());
            let mut polled: Vec<_> = open().map(|output| PollFd::new(output, PollFlags::IN)).collect();
            // A signal ends the wait early. The flag shows whether it was Ctrl-C.
            let _ = poll(&mut polled, Some(&POLL_INTERVAL));
            let ready: Vec<bool> = polled.iter().map(|p| !p.revents().is_empty()).collect();
            if self.interruption.is_set() {
                return Err("interrupted".into());
            }
            if Instant::now() > end {
                return Err("it did not end in time".into());
            }
            let open = processes.iter_mut().filter(|(output, ..)| output.is_some());
            for ((output, child, text), _) in open.zip(ready).filter(|(_, is_ready)| *is_ready) {
                let mut part = [0; 1 << 16];
                let read = output.as_mut().map_or(Ok(0), |output| output.read(&mut part));
                let len = read.map_err(|e| format!("a process's result: {e}"))?;
                text.extend(&part[..len]);
                if len == 0 {
                    *output = None;
                    if has_own_cpus {
                        watch.count_delay(child.id());
                    }
                    let status = child.wait().map_err(|e| format!("a process: {e}"))?;
                    let absent = || format!("a process ended without a result ({status})").into();
                    results.push(outcome_of(text).unwrap_or_else(|| Err(absent()))?);
                }
            }
        }
        Ok((results, watch.stop()))
    }
}
