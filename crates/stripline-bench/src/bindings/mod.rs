//! What a packet costs in C, C++, Python and GNU Radio, beside Rust and beside other libraries.
//!
//! The ends of a link are programs in each language, which follow one protocol of lines. A program
//! prints `ready` when it is connected. Then each line `WARM COUNT` makes it handle so many
//! packets. It prints the nanoseconds of the last `COUNT`.
//!
//! What is compared takes turns in blocks of a few milliseconds, on the same two processors. The
//! processes wait for a line between their blocks, so that one block runs at a time. The reference
//! has a second block in each round: the null comparison. A run has processes of its own and is the
//! replicate, as on the [ladder](crate::ladder).

mod figure;
mod gnuradio;
mod plan;
mod programs;
mod rust_end;
mod worker;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::ladder::{Decision, Machine, Null, Problem, Progress, allowed_cpus};
use crate::processes::{self, Interruption, OthersTime, OthersWatch};

use figure::Samples;
use plan::Compared;
use programs::Programs;
use worker::Workers;

pub(crate) use rust_end::child_if_launched;

/// The runs of each comparison: so many that the interval of their median covers 97 %, or 75 %.
const RUNS: u32 = 6;
const QUICK_RUNS: u32 = 3;
/// The rounds of a run.
const ROUNDS: usize = 41;
const QUICK_ROUNDS: usize = 11;
/// The time of a block, in nanoseconds.
const BLOCK_NS: f64 = 8e6;
/// The packets of the first block, and the most of any.
const PACKETS: (u32, u32) = (64, 1 << 20);

/// The settings of `stripline bench bindings`.
///
/// ```
/// use stripline_bench::bindings::BindingSettings;
///
/// let settings = BindingSettings { only: vec!["python".into()], ..BindingSettings::default() };
/// assert_eq!(settings.check(), Ok(()));
/// let wrong = BindingSettings { only: vec!["pascal".into()], ..BindingSettings::default() };
/// assert!(wrong.check().unwrap_err().contains("pascal"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct BindingSettings {
    /// The figures to measure, by the beginning of their names; empty: all.
    pub only: Vec<String>,
    /// Whether to run fewer rounds and runs: about a minute.
    pub quick: bool,
    /// Number of runs of each figure; `None`: six, or three in a quick run.
    pub runs: Option<u32>,
    /// The folder below which `packaging/cpp-install` has installed; `None`: what `pkg-config`
    /// finds.
    pub prefix: Option<PathBuf>,
    /// The interpreter that has `stripline`, `numpy` and the peers; `None`: `python3`.
    pub python: Option<PathBuf>,
    /// The interpreter that has GNU Radio; `None`: `/usr/bin/python3`.
    pub gnuradio_python: Option<PathBuf>,
    /// The program with a `main` that begins with [`child_if_launched`](crate::child_if_launched);
    /// `None`: this one.
    pub program: Option<PathBuf>,
}

impl BindingSettings {
    /// Refuses settings that measure nothing.
    ///
    /// # Errors
    /// A sentence that states the problem and the possible values.
    pub fn check(&self) -> Result<(), String> {
        let names: Vec<String> = plan::names();
        match self.only.iter().find(|part| !names.iter().any(|name| name.starts_with(part.as_str()))) {
            None => Ok(()),
            Some(part) => Err(format!("no figure begins with `{part}`; there are {}", names.join(", "))),
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.starts_with(part.as_str()))
    }

    fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { QUICK_RUNS } else { RUNS }).max(1)
    }

    fn rounds(&self) -> usize {
        if self.quick { QUICK_ROUNDS } else { ROUNDS }
    }
}

/// The results of `stripline bench bindings`.
///
/// ```no_run
/// use stripline_bench::bindings::{BindingSettings, run};
///
/// let report = run(&BindingSettings { quick: true, ..BindingSettings::default() }, &mut |_| ())?;
/// for figure in &report.figures {
///     println!("{}: {:?} (aim {})", figure.name, figure.value, figure.aim);
/// }
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct BindingReport {
    /// The machine it was measured on.
    pub machine: Machine,
    /// Number of runs of each figure.
    pub runs: u32,
    /// Number of rounds in each run.
    pub rounds: usize,
    /// The figures, in the order of the table.
    pub figures: Vec<BindingFigure>,
    /// Whether it was ended early, so that the results are incomplete.
    pub interrupted: bool,
}

/// A figure with an aim.
///
/// ```no_run
/// # use stripline_bench::bindings::{BindingSettings, run};
/// let report = run(&BindingSettings::default(), &mut |_| ())?;
/// assert!(report.figures.iter().all(|figure| figure.value.is_some() != figure.missing.is_some()));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct BindingFigure {
    /// Its name: what is compared with what.
    pub name: String,
    /// What its value is: `ratio`, or `ns` for a difference.
    pub unit: String,
    /// The median over the rounds of a run; the median over runs.
    pub value: Option<f64>,
    /// The lower end of its interval.
    pub low: Option<f64>,
    /// The upper end of that interval.
    pub high: Option<f64>,
    /// The probability that the interval holds the true median over runs.
    pub coverage: Option<f64>,
    /// The reference compared with itself, in blocks of the same runs.
    pub null: Option<Null>,
    /// The time of a packet or a round trip of both, in nanoseconds: the compared and the
    /// reference. For orientation.
    pub times_ns: Option<[f64; 2]>,
    /// The aim in words.
    pub aim: String,
    /// Whether the aim is met, as far as these runs can decide it.
    pub decision: Option<Decision>,
    /// The share of all processors that other programs used during its runs, 0 to 1; `None` if
    /// unknown.
    pub others_share: Option<f64>,
    /// Why there is no value, and what to install.
    pub missing: Option<String>,
    /// Why a run failed, if one did that others do not share: its value is of those.
    pub failed_run: Option<String>,
}

/// Measures what the settings name. Ctrl-C ends it early, with the results up to then.
///
/// # Errors
/// If the settings are wrong, or the system refuses to watch for Ctrl-C. A figure that cannot be
/// measured has its reason in the report.
pub fn run(settings: &BindingSettings, observer: &mut dyn FnMut(&Progress)) -> Result<BindingReport, String> {
    settings.check()?;
    let interruption = Interruption::watch()?;
    let is_interrupted = || interruption.flag.load(Ordering::Relaxed);
    let programs = Programs::new(settings, processes::program(settings.program.as_ref())?)?;
    let mut measured: Vec<ComparedRuns> = plan::comparisons()
        .into_iter()
        .filter(|comparison| settings.wants(&comparison.name))
        .map(ComparedRuns::new)
        .collect();
    let runs = settings.runs();
    // One more for GNU Radio: one program makes all its runs.
    let total = measured.len() * runs as usize + 1;
    let mut done = 0;
    for run in 0..runs {
        let mut order: Vec<usize> = (0..measured.len()).collect();
        if run % 2 == 1 {
            order.reverse();
        }
        for index in order {
            if is_interrupted() {
                break;
            }
            let one = &mut measured[index];
            observer(&Progress { done, total, doing: one.comparison.name.clone() });
            done += 1;
            let name = format!("bindings-{}-{run}-{index}", std::process::id());
            one.run(&programs, &name, settings.rounds(), &interruption.flag);
        }
    }
    let mut figures: Vec<BindingFigure> = measured.iter().map(|one| one.figure()).collect();
    if gnuradio::names().any(|name| settings.wants(name)) && !is_interrupted() {
        observer(&Progress { done, total, doing: "GNU Radio".into() });
        let found = gnuradio::figures(&programs, settings.quick, &interruption.flag);
        figures.extend(found.into_iter().filter(|figure| settings.wants(&figure.name)));
    }
    let interrupted = is_interrupted();
    Ok(BindingReport { machine: Machine::here(), runs, rounds: settings.rounds(), figures, interrupted })
}

/// A comparison with the results of its runs.
struct ComparedRuns {
    comparison: Compared,
    samples: Samples,
    others: OthersTime,
    /// Why the last run that failed did.
    failed: Option<Problem>,
}

impl ComparedRuns {
    fn new(comparison: Compared) -> Self {
        Self { comparison, samples: Samples::default(), others: OthersTime::default(), failed: None }
    }

    /// Runs it once, in new processes. All of them have ended when it returns.
    fn run(&mut self, programs: &Programs, name: &str, rounds: usize, interrupted: &AtomicBool) {
        let others = OthersWatch::start();
        let outcome = self.measure(programs, name, rounds, interrupted);
        if interrupted.load(Ordering::Relaxed) {
            return;
        }
        match outcome {
            Ok([over, under, again]) => {
                self.samples.add_run(self.comparison.aim, &over, &under, &again);
                others.stop().into_iter().for_each(|time| self.others.add(time));
            }
            Err(problem) => self.failed = Some(problem),
        }
    }

    /// Returns the times of a packet, round by round: of what is compared, of its reference, and of
    /// the reference again.
    fn measure(
        &self,
        programs: &Programs,
        name: &str,
        rounds: usize,
        interrupted: &AtomicBool,
    ) -> Result<[Vec<f64>; 3], Problem> {
        let Compared { over, under, size, is_pinned, .. } = &self.comparison;
        let cpus: Vec<usize> = if *is_pinned { allowed_cpus() } else { Vec::new() };
        let mut pairs = [
            Workers::start(programs, over, *size, &format!("{name}-over"), &cpus, interrupted)?,
            Workers::start(programs, under, *size, &format!("{name}-under"), &cpus, interrupted)?,
        ];
        for pair in &mut pairs {
            pair.settle(BLOCK_NS, PACKETS)?;
        }
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..rounds {
            for step in 0..times.len() {
                let place = if round % 2 == 0 { step } else { times.len() - 1 - step };
                let took = pairs[place.min(1)].block()?;
                times[place].push(took);
            }
        }
        Ok(times)
    }

    fn figure(&self) -> BindingFigure {
        let Compared { name, aim, .. } = &self.comparison;
        let share = self.others.share(allowed_cpus().len());
        let interrupted = || String::from("interrupted before anything was measured");
        if self.samples.is_empty() {
            let missing = Some(self.failed.clone().unwrap_or_else(interrupted));
            return BindingFigure::new(name, *aim, &self.samples, share, missing);
        }
        let figure = BindingFigure::new(name, *aim, &self.samples, share, None);
        BindingFigure { failed_run: self.failed.clone(), ..figure }
    }
}
