//! Single-steps a child process with ptrace.

use std::io::Read;
use std::ptr::null_mut;

use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::SteppedJob;
use crate::Problem;
use crate::process::{self, Job, OwnChild};

/// The maximum number of instructions between two markers, which take some seconds.
const STEPS_MAX: u64 = 1_000_000;

/// Runs the job in a child. Returns the number of instructions of each window, which lasts from an
/// odd marker to the next one.
pub(super) fn windows(job: SteppedJob) -> Result<Vec<u64>, Problem> {
    let _pin = Pin::new();
    let child = OwnChild::spawn(process::command(None, &Job::Stepped(job))?, Vec::new(), None)?;
    SteppedChild { pid: Pid::from_child(&child), child }.windows()
}

/// Pins this thread, and the children that it starts, to one processor. Each step switches from the
/// parent to the child and back. Waking another processor for this takes 50 µs on some virtual
/// machines.
struct Pin {
    before: Option<CpuSet>,
}

impl Pin {
    fn new() -> Self {
        let before = sched_getaffinity(None).ok();
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        // Pinning only saves time, so it may fail.
        let _ = sched_setaffinity(None, &one);
        Self { before }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// The child.
struct SteppedChild {
    pid: Pid,
    child: OwnChild,
}

impl SteppedChild {
    fn windows(mut self) -> Result<Vec<u64>, Problem> {
        let mut windows = Vec::new();
        while self.run_to_marker()? {
            windows.push(self.step_to_marker()?);
        }
        Ok(windows)
    }

    /// Runs to the next marker. Returns false if the child has ended successfully.
    fn run_to_marker(&mut self) -> Result<bool, Problem> {
        loop {
            match self.wait()? {
                Some(Signal::STOP) => return Ok(true),
                Some(signal) => self.resume(Resume::Run, signal.as_raw())?,
                None => return Ok(false),
            }
        }
    }

    /// Steps to the next marker, and returns the number of steps. The child then continues to run.
    fn step_to_marker(&mut self) -> Result<u64, Problem> {
        self.resume(Resume::Step, 0)?;
        for steps in 1..STEPS_MAX {
            match self.wait()? {
                Some(Signal::STOP) => {
                    self.resume(Resume::Run, 0)?;
                    return Ok(steps);
                }
                Some(Signal::TRAP) => self.resume(Resume::Step, 0)?,
                Some(signal) => self.resume(Resume::Step, signal.as_raw())?,
                None => return Err("it ended between two markers".into()),
            }
        }
        Err(format!("more than {STEPS_MAX} instructions between two markers"))
    }

    /// Waits until the child stops, and returns the signal; `None` if the child has ended
    /// successfully.
    fn wait(&mut self) -> Result<Option<Signal>, Problem> {
        let status = loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => break status,
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(format!("cannot wait for the process: {error}")),
            }
        };
        if let Some(signal) = status.stopping_signal() {
            return Signal::from_named_raw(signal).map(Some).ok_or(format!("it stopped by signal {signal}"));
        }
        if status.exit_status() == Some(0) {
            return Ok(None);
        }
        let mut printed = Vec::new();
        if let Some(output) = &mut self.child.stdout {
            let _ = output.read_to_end(&mut printed);
        }
        Err(match process::outcome_of::<()>(&printed) {
            Some(Err(failure)) => failure.into_problem(),
            _ => "it ended without a result".into(),
        })
    }

    /// Resumes the stopped child, and delivers the signal unless it is 0.
    fn resume(&self, how: Resume, signal: i32) -> Result<(), Problem> {
        // The type of a request differs between C libraries.
        let request = match how {
            Resume::Run => libc::PTRACE_CONT,
            Resume::Step => libc::PTRACE_SINGLESTEP,
        };
        // SAFETY: the request reads and writes no memory of either process.
        let done = unsafe {
            libc::ptrace(request, self.pid.as_raw_nonzero().get(), null_mut::<u8>(), signal as libc::c_long)
        };
        if done < 0 {
            return Err(format!("cannot step through it: {}", std::io::Error::last_os_error()));
        }
        Ok(())
    }
}

/// The way in which a stopped child continues.
#[derive(Clone, Copy, Debug)]
enum Resume {
    /// Until the next signal.
    Run,
    /// For one instruction.
    Step,
}
