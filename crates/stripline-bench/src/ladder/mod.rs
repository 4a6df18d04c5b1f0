//! The ladder: measurements from the machine's limits up, in one interleaved run.
//!
//! Every case is run several times by new processes, each pinned to one processor. The run is the
//! replicate. The order of the cases reverses every round (A B, B A, …). The sender writes all of
//! the payload. The receiver reads one word of every cache line of it. The first tenth of each run
//! is dropped.
//!
//! One-way time is half of a round trip. Half of a run goes to batches of trips, timed as a whole.
//! Ratios are made from the median over batches. In the other half every trip is timed by itself,
//! for percentiles. Those include half of a reading of the clock; the report has its cost.

mod case;
pub(crate) mod child;
mod core_distance;
mod endpoints;
mod launch;
mod machine;
pub(crate) mod measure;
mod plan;
mod plot;
mod ratios;
mod report;
pub(crate) mod statistics;

pub use machine::Machine;
pub use plot::plot;
pub use report::{Null, Percentiles, Ratio, Report, Row, Run};

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity};
use stripline_waveform::internal::suggestion;

use case::{Case, Measure, Subject, Wait};
use launch::Launcher;
use ratios::Results;

use crate::processes::{self, Interruption};

/// An error message.
pub(crate) type Problem = String;

/// The sizes of a full run.
const SIZES: [usize; 7] = [8, 32, 64, 1024, 8192, 65_536, 1 << 20];
/// The sizes of a quick run: those that the ratios need.
const QUICK_SIZES: [usize; 5] = [32, 64, 1024, 8192, 65_536];
/// A packet begins with its number.
const SIZE_MIN: usize = 8;
const SIZE_MAX: usize = 1 << 20;
/// The intended time for all runs together.
const BUDGET: Duration = Duration::from_secs(7 * 60);
const QUICK_BUDGET: Duration = Duration::from_secs(50);
/// The least and the most that one run measures, in seconds.
const SECONDS: (f64, f64) = (0.02, 0.5);
/// The time that a run needs beside measuring, as a first guess: processes start and find each
/// other.
const OVERHEAD_S: f64 = 0.04;

/// The settings of a ladder.
///
/// ```
/// use stripline_bench::ladder::Settings;
///
/// let settings = Settings { sizes: vec![64, 1024], transports: vec!["shm".into()], ..Settings::default() };
/// assert_eq!(settings.check(), Ok(()));
/// let wrong = Settings { sizes: vec![0], ..Settings::default() };
/// assert!(wrong.check().unwrap_err().contains("0"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Bytes of a packet; empty: the default sizes.
    pub sizes: Vec<usize>,
    /// Stripline's transports; empty: all.
    pub transports: Vec<String>,
    /// Whether to run fewer cases, rounds and packets: less than a minute on two processors.
    pub quick: bool,
    /// Number of rounds; `None`: five, or three in a quick run.
    pub rounds: Option<u32>,
    /// Seconds that each run measures; `None`: as many as the total time allows.
    pub seconds_per_run: Option<f64>,
    /// The program with a `main` that begins with [`child_if_launched`](crate::child_if_launched);
    /// `None`: this one.
    pub program: Option<PathBuf>,
}

impl Settings {
    /// Refuses settings that cannot be measured.
    ///
    /// # Errors
    /// A sentence that states the problem and the possible values.
    pub fn check(&self) -> Result<(), String> {
        if let Some(size) = self.sizes.iter().find(|size| !(SIZE_MIN..=SIZE_MAX).contains(*size)) {
            return Err(format!("a size of {size}: it must be from {SIZE_MIN} to {SIZE_MAX} bytes"));
        }
        let known: Vec<&str> = stripline::transport::all().map(|transport| transport.name).collect();
        match self.transports.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(match suggestion(name, known.iter().copied()) {
                Some(meant) => format!("there is no transport `{name}`; did you mean `{meant}`?"),
                None => format!("there is no transport `{name}`; use one or more of {}", known.join(", ")),
            }),
        }
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes = match (self.sizes.is_empty(), self.quick) {
            (false, _) => self.sizes.clone(),
            (true, false) => SIZES.to_vec(),
            (true, true) => QUICK_SIZES.to_vec(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn transports(&self) -> Vec<String> {
        let all = stripline::transport::all().map(|transport| transport.name.to_string());
        all.filter(|name| self.has(name)).collect()
    }

    fn has(&self, transport: &str) -> bool {
        self.transports.is_empty() || self.transports.iter().any(|name| name == transport)
    }
}

/// The progress of a ladder.
///
/// ```
/// let start = stripline_bench::ladder::Progress { done: 0, total: 10, doing: "two atomics".into() };
/// assert!(start.done < start.total);
/// ```
#[derive(Clone, Debug)]
pub struct Progress {
    /// Number of runs done.
    pub done: usize,
    /// Number of runs in all.
    pub total: usize,
    /// The current case.
    pub doing: String,
}

/// Runs the ladder: minutes, or less than one if it is quick. Ctrl-C ends it early, with the
/// results up to then.
///
/// # Errors
/// If the settings are wrong, or nothing at all could be measured.
///
/// ```no_run
/// use stripline_bench::ladder::{Settings, run};
///
/// let report = run(&Settings::default(), &mut |progress| eprintln!("{}", progress.doing))?;
/// println!("{}", report.machine);
/// # Ok::<(), String>(())
/// ```
pub fn run(settings: &Settings, observer: &mut dyn FnMut(&Progress)) -> Result<Report, String> {
    settings.check()?;
    let program = processes::program(settings.program.as_ref())?;
    let interruption = Interruption::watch()?;
    let mut notes = notes(settings);
    let cpus = allowed_cpus();
    if cpus.len() < 2 {
        notes.push("only one processor: both sides share it, and spinning is slow".into());
    }
    let mut cases = vec![Case::new(Measure::Latency, Subject::Noise, "none", Wait::None, 0)];
    cases.extend(plan::cases(settings));
    let rounds = settings.rounds.unwrap_or(if settings.quick { 3 } else { 5 }).max(1);
    let mut launcher = Launcher {
        program: &program,
        cpus: cpus.into_iter().take(2).collect(),
        seconds: 0.0,
        interrupted: &interruption.flag,
        count: 0,
    };
    let mut pace = Pace::new(settings, cases.len() * rounds as usize);
    let mut results = Results::new();
    let mut completed = 0;
    for round in 0..rounds {
        launcher.seconds = pace.seconds();
        let forward = round % 2 == 0;
        let order: Vec<&Case> = if forward { cases.iter().collect() } else { cases.iter().rev().collect() };
        for case in order {
            observer(&Progress { done: pace.done, total: pace.total, doing: case.to_string() });
            let outcome = launcher.run_stable(case);
            if interruption.flag.load(Ordering::Relaxed) {
                break;
            }
            pace.done += 1;
            let outcome = outcome.map_err(|problem| {
                let note = format!("{case}: {problem}");
                // Report a failure once, although it occurs in every round.
                if !notes.contains(&note) {
                    notes.push(note);
                }
            });
            let runs = results.entry(case.clone()).or_default();
            // A round keeps its index even if an earlier one was not measured.
            runs.resize(round as usize, None);
            runs.push(outcome.ok());
        }
        if interruption.flag.load(Ordering::Relaxed) {
            break;
        }
        completed += 1;
    }
    if completed == 0 && !results.values().flatten().any(Option::is_some) {
        return Err(notes.pop().unwrap_or_else(|| "interrupted before anything was measured".into()));
    }
    notes.extend(core_distances(&results));
    let noise: Vec<_> = results.remove(&cases[0]).into_iter().flatten().flatten().collect();
    let noise = report::percentiles(&noise.iter().collect::<Vec<_>>(), 1.0);
    Ok(Report {
        machine: Machine::here(),
        rounds: completed,
        seconds_per_run: launcher.seconds,
        clock_ns: noise.typical,
        // Its batches measure only the clock.
        noise: Percentiles { typical: None, ..noise },
        null_comparison: ratios::null(&plan::null(settings), &results),
        rows: report::rows(&cases, &results),
        ratios: ratios::all(&results, settings),
        notes,
        interrupted: interruption.flag.load(Ordering::Relaxed),
    })
}

/// Returns the processors that this process may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        // If the system refuses, assume one processor.
        Err(_) => vec![0],
    }
}

/// Returns notes on what is missing, before anything runs.
fn notes(settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    if cfg!(not(feature = "peers")) {
        notes.push(
            "iceoryx2 and ZeroMQ are not built in: `cargo build --release --features peers` measures them, too"
                .into(),
        );
    }
    let largest = endpoints::queue::size_max();
    if settings.sizes().iter().any(|size| *size > largest) {
        notes.push(format!(
            "POSIX queues carry {largest} bytes at most here (/proc/sys/fs/mqueue/msgsize_max): larger sizes are \
             left out"
        ));
    }
    notes
}

/// Returns a note if the distance of the processors changed.
fn core_distances(results: &Results) -> Option<String> {
    let runs: Vec<_> = results.values().flatten().flatten().collect();
    let mut lines: Vec<f64> =
        runs.iter().filter(|run| !run.is_unsettled).filter_map(|run| run.line_ns).collect();
    lines.sort_by(f64::total_cmp);
    let (least, most) = (*lines.first()?, *lines.last()?);
    if core_distance::is_same_distance(Some(least), Some(most)) {
        return None;
    }
    let far = lines.iter().filter(|line| !core_distance::is_same_distance(Some(least), Some(**line))).count();
    Some(format!(
        "the distance of the two processors changed: a cache line took from {least:.0} to {most:.0} ns between them \
         (far in {far} of {} runs, and changing in {} more); ratios compare runs at the same distance",
        lines.len(),
        runs.len() - lines.len()
    ))
}

/// The time that each run may measure, so that all runs end within the budget.
struct Pace {
    start: Instant,
    budget: Duration,
    fixed: Option<f64>,
    done: usize,
    total: usize,
    spent: f64,
}

impl Pace {
    fn new(settings: &Settings, total: usize) -> Self {
        let budget = if settings.quick { QUICK_BUDGET } else { BUDGET };
        Self { start: Instant::now(), budget, fixed: settings.seconds_per_run, done: 0, total, spent: 0.0 }
    }

    /// Returns the seconds for each run of the round that begins now.
    fn seconds(&mut self) -> f64 {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let elapsed = self.start.elapsed().as_secs_f64();
        let overhead = if self.done == 0 { OVERHEAD_S } else { elapsed / self.done as f64 - self.spent };
        let left = (self.budget.as_secs_f64() - elapsed) / (self.total - self.done).max(1) as f64;
        let seconds = (left - overhead).clamp(SECONDS.0, SECONDS.1);
        // The mean over the runs until the next round.
        self.spent = seconds;
        seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_named() {
        for size in [0, 7, SIZE_MAX + 1] {
            let wrong = Settings { sizes: vec![64, size], ..Settings::default() };
            assert!(wrong.check().unwrap_err().contains(&size.to_string()));
        }
        let wrong = Settings { transports: vec!["pigeon".into()], ..Settings::default() };
        let error = wrong.check().unwrap_err();
        assert!(error.contains("pigeon") && error.contains("shm"), "{error}");
    }

    #[test]
    fn runs_become_shorter_when_time_runs_out() {
        let settings = Settings { quick: true, ..Settings::default() };
        let (few, many) = (Pace::new(&settings, 10).seconds(), Pace::new(&settings, 400).seconds());
        assert!(few > many && many >= SECONDS.0, "{few} {many}");
        assert_eq!(Pace::new(&settings, 1_000_000).seconds(), SECONDS.0);
        let fixed = Settings { seconds_per_run: Some(0.001), ..Settings::default() };
        assert_eq!(Pace::new(&fixed, 10).seconds(), 0.001);
    }
}
