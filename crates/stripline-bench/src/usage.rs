//! The processor time and memory that a measurement uses, and the time that other programs use.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::OTHERS_SHARE_MAX;

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

/// The shares of runs that did not belong to the measured programs. A disturbed run decides
/// nothing.
///
/// ```
/// use stripline_bench::{Disturbance, OTHERS_SHARE_MAX};
///
/// let steal_share = Some(2.0 * OTHERS_SHARE_MAX);
/// assert!(Disturbance { steal_share, ..Disturbance::default() }.is_disturbed());
/// assert!(!Disturbance::default().is_disturbed());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// The share of all processors that other programs used, 0 to 1, with the time that the host
    /// took; `None` if unknown.
    pub others_share: Option<f64>,
    /// The share of all processors that the host gave to other machines, 0 to 1; `None` if unknown.
    pub steal_share: Option<f64>,
    /// The largest share of the time, 0 to 1, for which a measured process was ready to run, but
    /// had no processor; `None` if unknown, or if the processes shared processors by design.
    pub run_delay_share: Option<f64>,
}

impl Disturbance {
    /// Returns the shares over some runs together.
    pub(crate) fn of(runs: impl IntoIterator<Item = RunTime>, cpus: usize) -> Self {
        let (mut all, mut delay_s) = (RunTime::default(), None);
        for run in runs {
            all.cpu_s += run.cpu_s;
            all.steal_s += run.steal_s;
            all.elapsed_s += run.elapsed_s;
            delay_s = run.delay_s.map(|delay| delay + delay_s.unwrap_or(0.0)).or(delay_s);
        }
        let share = |time_s: f64, cpus: usize| {
            let whole = all.elapsed_s * cpus.max(1) as f64;
            (whole > 0.0).then(|| (time_s / whole).min(1.0))
        };
        Self {
            others_share: share(all.cpu_s, cpus),
            steal_share: share(all.steal_s, cpus),
            run_delay_share: delay_s.and_then(|delay| share(delay, 1)),
        }
    }

    /// Returns whether one of the shares is more than [`OTHERS_SHARE_MAX`].
    pub fn is_disturbed(&self) -> bool {
        let shares = [self.others_share, self.steal_share, self.run_delay_share];
        shares.into_iter().flatten().any(|share| share > OTHERS_SHARE_MAX)
    }
}

/// Returns the seconds for which all processors together have worked since the machine was started,
/// and the part that the host took; `None` if the system does not provide this.
fn machine_cpu_s() -> Option<[f64; 2]> {
    busy_ticks(&std::fs::read_to_string("/proc/stat").ok()?).map(|ticks| ticks.map(seconds))
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Returns the seconds for which the first thread of a process was ready to run, but had no
/// processor. The processor time of the other threads of the process is subtracted, because they
/// may have used the same processor.
fn run_delay_s(process: u32) -> Option<f64> {
    let read = |name| std::fs::read_to_string(format!("/proc/{process}/{name}")).ok();
    let times = read("schedstat")?;
    let mut times = times.split_whitespace().map(|word| word.parse::<u64>().ok());
    let [own_s, delay_s] = [times.next()??, times.next()??].map(|ns| ns as f64 / 1e9);
    // The name of the program is in parentheses, and may have any character.
    let stat = read("stat")?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let [user, system] = [words.next()?, words.next()?].map(|word| word.parse::<u64>().ok());
    let others_s = (seconds(user? + system?) - own_s).max(0.0);
    Some((delay_s - others_s).max(0.0))
}

/// The times of a run, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RunTime {
    /// The processor time of other programs.
    pub cpu_s: f64,
    /// The processor time that the host took.
    pub steal_s: f64,
    /// The longest time for which a measured process waited for a processor.
    pub delay_s: Option<f64>,
    /// Duration of the run.
    pub elapsed_s: f64,
}

/// A measurement of the times of a run, which begins at its creation.
pub(crate) struct RunWatch {
    start: Instant,
    machine_s: Option<[f64; 2]>,
    own: Usage,
    delay_s: Option<f64>,
}

impl RunWatch {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
            machine_s: machine_cpu_s(),
            own: Usage::now_with_children(),
            delay_s: None,
        }
    }

    /// Counts the wait of a measured process for a processor, before its end is collected.
    pub(crate) fn count_delay(&mut self, process: u32) {
        self.delay_s =
            run_delay_s(process).map(|delay| delay.max(self.delay_s.unwrap_or(0.0))).or(self.delay_s);
    }

    /// Returns the time until now. All children that were started since the creation must have
    /// ended. Returns `None` if the system does not provide the time.
    pub(crate) fn stop(self) -> Option<RunTime> {
        let ([worked_s, steal_s], [worked_before_s, steal_before_s]) = (machine_cpu_s()?, self.machine_s?);
        let own_s = Usage::now_with_children().since(self.own).cpu_s;
        Some(RunTime {
            cpu_s: (worked_s - worked_before_s - own_s).max(0.0),
            steal_s: (steal_s - steal_before_s).max(0.0),
            delay_s: self.delay_s,
            elapsed_s: self.start.elapsed().as_secs_f64(),
        })
    }
}

/// Returns the sum of user, nice, system, irq, softirq and steal on the first line, without idle
/// and iowait; and steal alone.
fn busy_ticks(stat: &str) -> Option<[u64; 2]> {
    let mut words = stat.lines().next()?.split_whitespace();
    (words.next()? == "cpu").then_some(())?;
    let ticks: Vec<u64> = words.take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let sum = || [0, 1, 2, 5, 6, 7].iter().fold(0u64, |sum, i| sum.saturating_add(ticks[*i]));
    (ticks.len() == 8).then(|| [sum(), ticks[7]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_runs_together() {
        assert_eq!(Disturbance::of([], 4), Disturbance::default());
        let run = RunTime { elapsed_s: 1.0, ..RunTime::default() };
        let others = [run, RunTime { cpu_s: 2.0, ..run }];
        let shares = [4, 0].map(|cpus| Disturbance::of(others, cpus).others_share);
        assert_eq!(shares, [Some(0.25), Some(1.0)]);
        let found = Disturbance::of([run, RunTime { delay_s: Some(0.2), steal_s: 0.4, ..run }], 4);
        assert_eq!((found.steal_share, found.run_delay_share), (Some(0.05), Some(0.1)));
        assert!(found.is_disturbed() && !Disturbance { run_delay_share: None, ..found }.is_disturbed());
        let mut watch = RunWatch::start();
        watch.count_delay(std::process::id());
        watch.count_delay(u32::MAX);
        let watched = watch.stop().expect("the system provides it");
        assert!(watched.cpu_s >= 0.0 && watched.steal_s >= 0.0 && watched.elapsed_s >= 0.0);
        assert!(watched.delay_s.is_some_and(|delay| delay >= 0.0), "{watched:?}");
    }

    #[test]
    fn idle_processors_do_not_work() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 1000 8 16 32 9 9\ncpu0 7"), Some([63, 32]));
        for other in ["", "cpu", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 x 4 5 6 7 8", "cpu 1 2 3 4 5 6 7"] {
            assert_eq!(busy_ticks(other), None, "{other}");
        }
        assert!(machine_cpu_s().is_some_and(|[seconds, _]| seconds > 0.0));
    }
}
