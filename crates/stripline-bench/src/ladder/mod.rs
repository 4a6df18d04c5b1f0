//! The ladder: measurements that start at the limits of the machine, in one interleaved run.
//!
//! Compared cases take turns in blocks of about a millisecond, inside one pair of processes (or one
//! chain of them). A virtual machine moves its processors, and a cache line takes 25 ns in one
//! second and 220 ns in the next. So each ratio is computed from blocks of one round. Each
//! reference also has a second block in every round, for the null comparison of the ratio.
//!
//! Each group of cases is run several times by new processes, each pinned to one processor. The run
//! is the replicate. The value of a run is the median over its rounds. The order of the cases
//! reverses every round, and the order of the groups reverses every run. The sender writes the
//! complete payload. The receiver reads one word of every cache line of the payload.
//!
//! For a ratio, half of a round trip counts as one way, timed for a whole block. Percentiles are of
//! single packets, measured one way: the packets carry the time of sending, and both sides read the
//! same clock.

mod blocks;
mod case;
mod chart;
mod child;
pub(crate) mod costs;
mod endpoints;
mod handler;
mod launch;
pub(crate) mod measure;
mod plan;
mod ratios;
mod report;
mod tables;
pub(crate) mod turns;

pub(crate) use case::SideJob;
pub use chart::plot;
pub(crate) use child::perform;
pub use report::{Percentiles, Report, Row, Run};

use std::path::PathBuf;
use std::time::{Duration, Instant};

use stripline_waveform::internal::suggestion;

use case::{Group, Kind, Subject};
use ratios::{GroupRuns, NEAR_NS};

use crate::machine::allowed_cpus;
use crate::process::Launcher;
use crate::rounds::{Interruption, Progress, Repeats, take_turns};
use crate::statistics::median;
use crate::{Disturbance, Machine, RESULT_FORMAT};

/// The sizes of a full run.
const SIZES: [usize; 8] = [8, 32, 64, 256, 1024, 8192, 65_536, 1 << 20];
/// The sizes of a quick run, which are the sizes that the ratios need.
const QUICK_SIZES: [usize; 7] = [8, 32, 64, 256, 1024, 8192, 65_536];
/// A packet begins with its number.
const SIZE_MIN: usize = 8;
const SIZE_MAX: usize = 1 << 20;
/// The intended total time of all runs.
const BUDGET: Duration = Duration::from_secs(7 * 60);
const QUICK_BUDGET: Duration = Duration::from_secs(50);
/// The minimum and maximum measuring time of a run, in seconds.
const SECONDS: (f64, f64) = (0.1, 3.0);
/// The time that a run needs in addition to measuring, as a first estimate: processes start and
/// find each other.
const OVERHEAD_S: f64 = 0.2;
/// The number of runs of each group. The interval of their median covers 95 %, or 75 % in a quick
/// run.
const RUNS: u32 = 6;
const QUICK_RUNS: u32 = 3;

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
    /// Bytes of a packet; empty for the default sizes.
    pub sizes: Vec<usize>,
    /// Stripline's transports; empty for all.
    pub transports: Vec<String>,
    /// Whether to run fewer cases, and each of them fewer times. Such a run takes about a minute on
    /// two processors.
    pub quick: bool,
    /// Number of runs of each group of cases; `None`: six, or three in a quick run.
    pub rounds: Option<u32>,
    /// Seconds that each run of a group measures; `None` for as long as the total time allows.
    pub seconds_per_run: Option<f64>,
    /// The program with a `main` that begins with [`child_if_launched`](crate::child_if_launched);
    /// `None` for this program.
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

    fn has(&self, transport: &str) -> bool {
        self.transports.is_empty() || self.transports.iter().any(|name| name == transport)
    }
}

/// Runs the ladder: minutes, or less than a minute for a quick run. Ctrl-C ends the ladder early,
/// with the results up to then.
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
    let groups = plan::groups(settings);
    let budget = if settings.quick { QUICK_BUDGET } else { BUDGET };
    let Runs { results, completed, mut notes, seconds_per_run, interrupted } =
        run_groups(groups, settings, budget, observer)?;
    notes.splice(0..0, missing_peers());
    notes.extend(core_distances(&results));
    notes.extend(busy_machine(&results));
    let noise = plan::noise();
    let noise = report::percentiles(&results.iter().flat_map(|result| result.of(&noise)).collect::<Vec<_>>());
    let rows = report::rows(&results).into_iter().filter(|row| row.what != Subject::Noise.name()).collect();
    Ok(Report {
        format: RESULT_FORMAT,
        machine: Machine::here(),
        rounds: completed,
        seconds_per_run,
        clock_ns: noise.typical,
        // The blocks of the noise case measure only the clock.
        noise: Percentiles { typical: None, ..noise },
        rows,
        ratios: ratios::all(&results, settings),
        notes,
        interrupted,
    })
}

/// The runs of some groups.
pub(crate) struct Runs {
    results: Vec<GroupRuns>,
    /// Number of rounds in which each group had a run.
    pub completed: u32,
    /// Notes on cases that could not be measured, with the reasons.
    pub notes: Vec<String>,
    seconds_per_run: f64,
    pub interrupted: bool,
}

impl Runs {
    /// Returns the share of all processors that other programs used, 0 to 1; `None` if unknown.
    pub(crate) fn others_share(&self) -> Option<f64> {
        let runs = self.results.iter().flat_map(|result| &result.runs);
        Disturbance::of(runs.filter_map(|run| run.others), allowed_cpus().len()).others_share
    }
}

/// Runs each group in every round, in turn with the others, within the budget of time.
///
/// # Errors
/// If nothing at all could be measured.
fn run_groups(
    groups: Vec<Group>,
    settings: &Settings,
    budget: Duration,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Runs, String> {
    let rounds = settings.rounds.unwrap_or(if settings.quick { QUICK_RUNS } else { RUNS }).max(1);
    let mut pace = Pace::new(budget, settings.seconds_per_run, groups.len() * rounds as usize);
    let mut repeats = Repeats::new(groups.len(), settings.quick);
    let interruption = Interruption::watch()?;
    let mut launcher = Launcher::new("ladder", settings.program.as_ref(), &interruption);
    let mut notes = Vec::new();
    let cpus = allowed_cpus();
    if cpus.len() < 2 {
        notes.push("only one processor: both sides share it, and spinning is slow".into());
    }
    let mut results: Vec<GroupRuns> =
        groups.into_iter().map(|group| GroupRuns { group, runs: Vec::new() }).collect();
    let completed = take_turns(&mut results, rounds, &interruption, |result, _| {
        let doing = result.group.to_string();
        observer(&Progress { done: pace.done, total: pace.total, doing: doing.clone() });
        let seconds = pace.seconds();
        let run = || launch::run(&result.group, &mut launcher, &cpus[..cpus.len().min(2)], seconds);
        let is_disturbed = |outcome: &Result<case::RunOutcome, String>| {
            !interruption.is_set() && outcome.as_ref().is_ok_and(|run| run.disturbance().is_disturbed())
        };
        let outcome = repeats.run(run, is_disturbed);
        if interruption.is_set() {
            return;
        }
        pace.done += 1;
        match outcome {
            Ok(run) => result.runs.push(run),
            Err(problem) => {
                // If another library fails here, the rest of the group must still be measured.
                if result.runs.is_empty() {
                    result.group.cases.retain(|case| case.subject.kind() != Kind::Peer);
                }
                let note = format!("{doing}: {problem}");
                // Report each failure once, although it occurs in every round.
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    });
    let interrupted = interruption.is_set();
    if completed == 0 && results.iter().all(|result| result.runs.is_empty()) {
        let reason = "interrupted before anything was measured";
        return Err(notes.pop().filter(|_| !interrupted).unwrap_or_else(|| reason.into()));
    }
    Ok(Runs { results, completed, notes, seconds_per_run: pace.mean_seconds(), interrupted })
}

/// Returns a note if other libraries are not built in.
fn missing_peers() -> Option<String> {
    cfg!(not(feature = "peers")).then(|| {
        "iceoryx2 and ZeroMQ are not built in: `cargo build --release --features peers` measures them, too".into()
    })
}

/// Returns a note if the processors were near each other in some rounds and far apart in others.
fn core_distances(results: &[GroupRuns]) -> Option<String> {
    let atomics = plan::atomics();
    let lines = || results.iter().flat_map(|result| result.of(&atomics)).flat_map(|run| &run.blocks);
    let near: Vec<f64> = lines().copied().filter(|line| *line <= NEAR_NS).collect();
    let far: Vec<f64> = lines().copied().filter(|line| *line > NEAR_NS).collect();
    let (near_ns, far_ns) = median(&near).zip(median(&far))?;
    Some(format!(
        "the processors moved: a cache line took {near_ns:.0} ns from one to the other in {} rounds, and {far_ns:.0} ns \
         in {}; both sides of a ratio are of the same round",
        near.len(),
        far.len()
    ))
}

/// Returns a note if runs were disturbed, with the largest shares.
fn busy_machine(results: &[GroupRuns]) -> Option<String> {
    let runs: Vec<Disturbance> =
        results.iter().flat_map(|result| &result.runs).map(case::RunOutcome::disturbance).collect();
    let count = runs.iter().filter(|run| run.is_disturbed()).count();
    let most = |of: fn(&Disturbance) -> Option<f64>| 100.0 * runs.iter().filter_map(of).fold(0.0, f64::max);
    (count > 0).then(|| {
        format!(
            "{count} of {} runs were disturbed: other programs used up to {:.0} % of the processors, the host took up \
             to {:.0} %, and processes waited for a processor for up to {:.0} % of a run; targets of such groups are \
             not judged",
            runs.len(),
            most(|run| run.others_share),
            most(|run| run.steal_share),
            most(|run| run.run_delay_share)
        )
    })
}

/// The measuring time of each run, chosen so that all runs end within the budget.
struct Pace {
    start: Instant,
    budget: Duration,
    fixed: Option<f64>,
    done: usize,
    total: usize,
    /// The total measuring time of the runs so far, in seconds.
    measured: f64,
    runs: u32,
}

impl Pace {
    fn new(budget: Duration, fixed: Option<f64>, total: usize) -> Self {
        let start = Instant::now();
        Self { start, budget, fixed, done: 0, total, measured: 0.0, runs: 0 }
    }

    /// Returns the measuring time in seconds for the run that begins now.
    fn seconds(&mut self) -> f64 {
        let elapsed = self.start.elapsed().as_secs_f64();
        let overhead =
            if self.runs == 0 { OVERHEAD_S } else { (elapsed - self.measured) / f64::from(self.runs) };
        let left = (self.budget.as_secs_f64() - elapsed) / (self.total - self.done).max(1) as f64;
        let seconds = self.fixed.unwrap_or((left - overhead).clamp(SECONDS.0, SECONDS.1));
        self.measured += seconds;
        self.runs += 1;
        seconds
    }

    /// Returns the mean measuring time of the runs so far.
    fn mean_seconds(&self) -> f64 {
        self.measured / f64::from(self.runs.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::RunTime;

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
    fn a_busy_machine_is_a_note() {
        let of = |share: f64| {
            let others = Some(RunTime {
                cpu_s: share * allowed_cpus().len() as f64,
                elapsed_s: 1.0,
                ..RunTime::default()
            });
            let group = Group { cases: Vec::new(), threads: false };
            let run = case::RunOutcome { others, ..case::RunOutcome::default() };
            busy_machine(&[GroupRuns { group, runs: vec![run] }])
        };
        assert_eq!((of(0.0), of(0.04)), (None, None));
        assert!(of(0.5).unwrap().contains("up to 50 % of the processors"));
        assert_eq!(busy_machine(&[]), None);
    }

    #[test]
    fn runs_become_shorter_when_time_runs_out() {
        let quick = |total| Pace::new(QUICK_BUDGET, None, total).seconds();
        let (few, many) = (quick(10), quick(400));
        assert!(few > many && many >= SECONDS.0, "{few} {many}");
        assert_eq!(quick(1_000_000), SECONDS.0);
        assert_eq!(Pace::new(QUICK_BUDGET, Some(0.001), 10).seconds(), 0.001);
    }
}
