//! The processor time and memory that a measurement uses, and the time that other programs use.

use std::time::Instant;

use serde::{Deserialize, Serialize};

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
fn machine_cpu_s() -> Option<f64> {
    busy_ticks(&std::fs::read_to_string("/proc/stat").ok()?)
        .map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The processor time that other programs used during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OthersTime {
    /// Seconds of processor time.
    pub cpu_s: f64,
    /// Duration of the run in seconds.
    pub elapsed_s: f64,
}

/// Returns the share of all processors, 0 to 1, that other programs used during some runs; `None`
/// without a run.
pub(crate) fn others_share(runs: impl IntoIterator<Item = OthersTime>, cpus: usize) -> Option<f64> {
    let sum = |(cpu_s, elapsed_s), run: OthersTime| (cpu_s + run.cpu_s, elapsed_s + run.elapsed_s);
    let (cpu_s, elapsed_s) = runs.into_iter().fold((0.0, 0.0), sum);
    let whole = elapsed_s * cpus.max(1) as f64;
    (whole > 0.0).then(|| (cpu_s / whole).min(1.0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_other_programs_is_that_of_all_runs_together() {
        assert_eq!(others_share([], 4), None);
        let runs = [(0.0, 1.0), (2.0, 1.0)].map(|(cpu_s, elapsed_s)| OthersTime { cpu_s, elapsed_s });
        assert_eq!((others_share(runs, 4), others_share(runs, 0)), (Some(0.25), Some(1.0)));
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
