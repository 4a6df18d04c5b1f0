//! The child processes of a measurement: how they are started, return their results, and end.

use std::io::{Read, Write};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stripline::internal::process;

use crate::ladder::Problem;

/// Interval between checks of the Ctrl-C flag. A signal to this process interrupts the wait at
/// once.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// Returns the program from which the processes are started.
pub(crate) fn program(given: Option<&PathBuf>) -> Result<PathBuf, Problem> {
    match given {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe().map_err(|e| format!("cannot find the path of this program: {e}")),
    }
}

/// Runs the job in this environment variable, if there is one. Prints the result and returns the
/// exit code.
pub(crate) fn answer<J: DeserializeOwned, O: Serialize>(
    variable: &str,
    perform: impl FnOnce(Result<J, Problem>) -> (O, bool),
) -> Option<ExitCode> {
    let job = std::env::var(variable).ok()?;
    let (outcome, is_well) = perform(serde_json::from_str(&job).map_err(|e| format!("the job: {e}")));
    let is_reported = report(&outcome);
    Some(if is_well && is_reported { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the result of a process for the parent. Returns false if this failed.
pub(crate) fn report<O: Serialize>(outcome: &O) -> bool {
    serde_json::to_string(outcome)
        .map_err(std::io::Error::other)
        .and_then(|text| writeln!(std::io::stdout(), "{text}"))
        .is_ok()
}

/// Makes this process end with the parent. For use between `fork` and `exec`: it makes only system
/// calls.
pub(crate) fn end_with_parent(parent: Option<Pid>) -> std::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died just before.
    if getppid() == parent { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
}

/// Child processes that end with this one.
#[derive(Default)]
pub(crate) struct ChildProcesses(Vec<Member>);

struct Member {
    child: Child,
    output: Option<ChildStdout>,
    text: Vec<u8>,
}

impl ChildProcesses {
    /// Starts a process with a job; the child inherits the descriptors.
    pub(crate) fn spawn(
        &mut self,
        program: &Path,
        variable: &str,
        job: &impl Serialize,
        inherited: Vec<RawFd>,
    ) -> Result<(), Problem> {
        let text = serde_json::to_string(job).map_err(|e| e.to_string())?;
        let mut command = Command::new(program);
        command.env(variable, text).stdin(Stdio::null()).stdout(Stdio::piped());
        let parent = Pid::from_raw(std::process::id().cast_signed());
        let prepare = move || {
            end_with_parent(parent)?;
            for descriptor in &inherited {
                // SAFETY: the parent keeps the descriptors open until this process has started.
                fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*descriptor) }, FdFlags::empty())?;
            }
            Ok(())
        };
        // SAFETY: `prepare` makes only system calls and allocates nothing.
        unsafe { command.pre_exec(prepare) };
        let mut child = command.spawn().map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let output = child.stdout.take();
        self.0.push(Member { child, output, text: Vec::new() });
        Ok(())
    }

    /// Passes on the result of each process, until all have ended or a result is refused.
    pub(crate) fn listen<O: DeserializeOwned, E: From<Problem>>(
        &mut self,
        end: Instant,
        interrupted: &AtomicBool,
        mut take: impl FnMut(O) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let mut open: Vec<&mut Member> = self.0.iter_mut().filter(|m| m.output.is_some()).collect();
            if open.is_empty() {
                return Ok(());
            }
            let outputs = open.iter().filter_map(|member| member.output.as_ref());
            let mut polled: Vec<_> = outputs.map(|output| PollFd::new(output, PollFlags::IN)).collect();
            // A signal ends the wait early. The interruption flag shows whether it was Ctrl-C.
            let _ = poll(&mut polled, Some(&POLL_INTERVAL));
            let ready: Vec<bool> = polled.iter().map(|p| !p.revents().is_empty()).collect();
            if interrupted.load(Ordering::Relaxed) {
                return Err(Problem::from("interrupted").into());
            }
            if Instant::now() > end {
                return Err(Problem::from("it did not end in time").into());
            }
            for (member, ready) in open.iter_mut().zip(ready) {
                let outcome = if ready { member.read()? } else { None };
                if let Some(outcome) = outcome {
                    take(outcome)?;
                }
            }
        }
    }
}

impl Member {
    /// Reads the available output. Returns the result at the end of the output.
    fn read<O: DeserializeOwned>(&mut self) -> Result<Option<O>, Problem> {
        let Some(output) = &mut self.output else { return Ok(None) };
        let mut part = [0; 1 << 16];
        let len = output.read(&mut part).map_err(|e| format!("a process's result: {e}"))?;
        self.text.extend(&part[..len]);
        if len > 0 {
            return Ok(None);
        }
        self.output = None;
        let status = self.child.wait().map_err(|e| format!("a process: {e}"))?;
        let outcome = serde_json::from_slice(&self.text);
        outcome.map(Some).map_err(|_| format!("a process ended without a result ({status})"))
    }
}

impl Drop for ChildProcesses {
    fn drop(&mut self) {
        for member in &mut self.0 {
            // Neither call affects a child that has ended and was waited for.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// The resources of the machine that the processes of a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub cpu_s: f64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub peak_kib: u64,
}

impl Usage {
    /// Returns the usage of this process until now.
    pub(crate) fn now() -> Self {
        Self::of(libc::RUSAGE_SELF)
    }

    /// Returns the usage of this process, and of all its children that have ended, until now.
    pub(crate) fn now_with_children() -> Self {
        let mut usage = Self::now();
        usage.add(Self::of(libc::RUSAGE_CHILDREN));
        usage
    }

    fn of(processes: libc::c_int) -> Self {
        // SAFETY: all zeros are a valid `rusage`, and the call only writes to it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(processes, &raw mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self {
            cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw.unsigned_abs(),
            involuntary_switches: usage.ru_nivcsw.unsigned_abs(),
            peak_kib: usage.ru_maxrss.unsigned_abs(),
        }
    }

    /// Returns the usage since an earlier reading. The peak is for the whole process.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            cpu_s: self.cpu_s - earlier.cpu_s,
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            peak_kib: self.peak_kib,
        }
    }

    /// Adds the usage of a later part of the same process.
    pub(crate) fn add_part(&mut self, part: Self) {
        let peak_kib = self.peak_kib.max(part.peak_kib);
        self.add(part);
        self.peak_kib = peak_kib;
    }

    /// Adds the usage of another process.
    pub(crate) fn add(&mut self, other: Self) {
        self.cpu_s += other.cpu_s;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.peak_kib += other.peak_kib;
    }
}

/// Returns the seconds for which all processors together have worked since the machine was started;
/// `None` if the system does not provide this.
pub(crate) fn machine_cpu_s() -> Option<f64> {
    busy_ticks(&std::fs::read_to_string("/proc/stat").ok()?)
        .map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The processor time that other programs used during some runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OthersTime {
    /// Seconds of processor time.
    pub cpu_s: f64,
    /// Total duration of the runs in seconds.
    pub elapsed_s: f64,
}

impl OthersTime {
    /// Adds the time of another run.
    pub(crate) fn add(&mut self, other: Self) {
        self.cpu_s += other.cpu_s;
        self.elapsed_s += other.elapsed_s;
    }

    /// Returns the share of all processors, 0 to 1; `None` without a run.
    pub(crate) fn share(self, cpus: usize) -> Option<f64> {
        let whole = self.elapsed_s * cpus.max(1) as f64;
        (whole > 0.0).then(|| (self.cpu_s / whole).min(1.0))
    }
}

/// A measurement of the processor time of other programs, which begins at its creation.
pub(crate) struct OthersWatch {
    start: Instant,
    machine_s: Option<f64>,
    own: Usage,
}

impl OthersWatch {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), machine_s: machine_cpu_s(), own: Usage::now_with_children() }
    }

    /// Returns the time until now. All children that were started since the creation must have
    /// ended. Returns `None` if the system does not provide the time.
    pub(crate) fn stop(self) -> Option<OthersTime> {
        let worked_s = machine_cpu_s()? - self.machine_s?;
        let own_s = Usage::now_with_children().since(self.own).cpu_s;
        Some(OthersTime { cpu_s: (worked_s - own_s).max(0.0), elapsed_s: self.start.elapsed().as_secs_f64() })
    }
}

/// Returns the sum of user, nice, system, irq, softirq and steal on the first line, without idle
/// and iowait.
fn busy_ticks(stat: &str) -> Option<u64> {
    let mut words = stat.lines().next()?.split_whitespace();
    (words.next()? == "cpu").then_some(())?;
    let ticks: Vec<u64> = words.take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    (ticks.len() == 8).then(|| [0, 1, 2, 5, 6, 7].iter().fold(0u64, |sum, i| sum.saturating_add(ticks[*i])))
}

/// A guard that records Ctrl-C and similar signals until it is dropped.
pub(crate) struct Interruption {
    pub flag: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Interruption {
    pub(crate) fn watch() -> Result<Self, Problem> {
        let mut own = Self { flag: Arc::default(), ids: Vec::new() };
        for signal in process::not_ignored(&[SIGINT, SIGTERM, SIGHUP]) {
            let id = signal_hook::flag::register(signal, Arc::clone(&own.flag));
            own.ids.push(id.map_err(|error| format!("cannot watch for Ctrl-C: {error}"))?);
        }
        Ok(own)
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        self.ids.drain(..).for_each(|id| {
            signal_hook::low_level::unregister(id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_other_programs_is_that_of_all_runs_together() {
        let mut others = OthersTime::default();
        assert_eq!(others.share(4), None);
        others.add(OthersTime { cpu_s: 0.0, elapsed_s: 1.0 });
        others.add(OthersTime { cpu_s: 2.0, elapsed_s: 1.0 });
        assert_eq!((others.share(4), others.share(0)), (Some(0.25), Some(1.0)));
        let watched = OthersWatch::start().stop().expect("the system provides it");
        assert!(watched.cpu_s >= 0.0 && watched.elapsed_s >= 0.0);
    }

    #[test]
    fn idle_processors_do_not_work() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 1000 8 16 32 9 9\ncpu0 7"), Some(63));
        for other in ["", "cpu", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 x 4 5 6 7 8", "cpu 1 2 3 4 5 6 7"] {
            assert_eq!(busy_ticks(other), None, "{other}");
        }
        assert!(machine_cpu_s().is_some_and(|seconds| seconds > 0.0));
    }
}
