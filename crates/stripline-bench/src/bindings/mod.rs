//! The cost of a packet in C, C++, Python and GNU Radio, beside Rust and beside other libraries.
//!
//! The ends of a link are programs in each language, which follow one protocol of lines. A program
//! prints `ready` when it is connected. After that, each line `WARM COUNT` makes the program handle
//! `WARM` and then `COUNT` packets. The program prints the nanoseconds that the last `COUNT`
//! packets took.
//!
//! Compared subjects take turns in blocks of a few milliseconds, on the same two processors.
//! Between blocks the processes wait for a line, so that only one block runs at a time. The
//! reference has a second block in each round, for the null comparison. Each run has separate
//! processes and is the replicate, as on the [ladder](crate::ladder).

mod gnuradio;
mod plan;
mod programs;
mod rust_end;
mod tables;
mod worker;

use std::path::PathBuf;

use serde::Serialize;

use crate::figure::{Figure, Samples, in_order};
use crate::machine::allowed_cpus;
use crate::process::Launcher;
use crate::rounds::{Interruption, Progress, Repeats, take_turns};
use crate::usage::{RunTime, RunWatch};
use crate::{Disturbance, Machine};

use plan::SubjectPair;
use programs::Programs;
use worker::Workers;

pub(crate) use rust_end::{EndJob, perform};

/// The number of runs of each comparison. The interval of their median covers 95 %, or 75 % in a
/// quick run.
const RUNS: u32 = 6;
const QUICK_RUNS: u32 = 3;
/// The number of rounds of a run.
const ROUNDS: usize = 41;
const QUICK_ROUNDS: usize = 11;
/// The time of a block, in nanoseconds.
const BLOCK_NS: f64 = 8e6;
/// The number of packets of the first block, and the maximum of any block.
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
    /// The figures to measure, by the beginning of their names; empty for all.
    pub only: Vec<String>,
    /// Whether to run fewer rounds and runs, for about a minute.
    pub quick: bool,
    /// Number of runs of each figure; `None`: six, or three in a quick run.
    pub runs: Option<u32>,
    /// The folder below which `packaging/cpp-install` has installed Stripline; `None` for the
    /// result of `pkg-config`.
    pub prefix: Option<PathBuf>,
    /// The interpreter that has `stripline`, `numpy` and the peers; `None` for `python3`.
    pub python: Option<PathBuf>,
    /// The interpreter that has GNU Radio; `None` for `/usr/bin/python3`.
    pub gnuradio_python: Option<PathBuf>,
    /// The program with a `main` that begins with [`child_if_launched`](crate::child_if_launched);
    /// `None` for this program.
    pub program: Option<PathBuf>,
}

impl BindingSettings {
    /// Refuses settings that would measure nothing.
    ///
    /// # Errors
    /// A sentence that states the problem and the possible values.
    pub fn check(&self) -> Result<(), String> {
        let names = plan::names();
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
    /// The machine of the measurement.
    pub machine: Machine,
    /// Number of runs of each figure.
    pub runs: u32,
    /// Number of rounds in each run.
    pub rounds: usize,
    /// The figures, in the order of the table.
    #[serde(serialize_with = "in_order")]
    pub figures: Vec<Figure>,
    /// Whether the run was ended early, so that the results are incomplete.
    pub interrupted: bool,
}

/// Measures the figures that the settings name. Ctrl-C ends the run early, with the results up to
/// then.
///
/// # Errors
/// If the settings are wrong, or if the system refuses to watch for Ctrl-C. If a figure cannot be
/// measured, the report contains the reason.
pub fn run(settings: &BindingSettings, observer: &mut dyn FnMut(&Progress)) -> Result<BindingReport, String> {
    settings.check()?;
    let interruption = Interruption::watch()?;
    let mut launcher = Launcher::new("bindings", settings.program.as_ref(), &interruption);
    let programs = Programs::new(settings)?;
    let comparisons = plan::comparisons().into_iter().filter(|own| settings.wants(own.name));
    let mut measured: Vec<ComparedRuns> = comparisons.map(ComparedRuns::new).collect();
    let (runs, rounds) = (settings.runs(), settings.rounds());
    // GNU Radio counts as one more, because one program makes all its runs.
    let total = measured.len() * runs as usize + 1;
    let mut repeats = Repeats::new(measured.len(), settings.quick);
    let mut done = 0;
    take_turns(&mut measured, runs, &interruption, |one, _| {
        observer(&Progress { done, total, doing: one.comparison.name.into() });
        done += 1;
        one.run(&programs, &launcher.name(), rounds, &interruption, &mut repeats);
    });
    let mut figures: Vec<Figure> = measured.iter().map(ComparedRuns::figure).collect();
    if plan::GNURADIO.iter().any(|name| settings.wants(name)) && !interruption.is_set() {
        observer(&Progress { done, total, doing: "GNU Radio".into() });
        let found = gnuradio::figures(&programs, settings.quick, &interruption);
        figures.extend(found.into_iter().filter(|figure| settings.wants(&figure.name)));
    }
    Ok(BindingReport { machine: Machine::here(), runs, rounds, figures, interrupted: interruption.is_set() })
}

/// A comparison with the results of its runs.
struct ComparedRuns {
    comparison: SubjectPair,
    samples: Samples,
    /// The reason for the last failure of a run.
    failed: Option<String>,
}

impl ComparedRuns {
    fn new(comparison: SubjectPair) -> Self {
        Self { comparison, samples: Samples::default(), failed: None }
    }

    /// Runs the comparison once, in new processes. All of them have ended when this returns.
    fn run(
        &mut self,
        programs: &Programs,
        name: &str,
        rounds: usize,
        interruption: &Interruption,
        repeats: &mut Repeats,
    ) {
        let measure = || {
            let mut watch = RunWatch::start();
            let times = self.measure(programs, name, rounds, interruption, &mut watch);
            (times, watch.stop())
        };
        let is_disturbed = |run: &(_, Option<RunTime>)| {
            !interruption.is_set() && Disturbance::of(run.1, allowed_cpus().len()).is_disturbed()
        };
        let (outcome, time) = repeats.run(measure, is_disturbed);
        if interruption.is_set() {
            return;
        }
        match outcome {
            Ok([over, under, again]) => {
                self.samples.add_run(self.comparison.aim, &over, &under, &again);
                self.samples.runs.extend(time);
            }
            Err(problem) => self.failed = Some(problem),
        }
    }

    /// Returns the times of a packet for each round: of the compared subject, of the reference, and
    /// of the reference again.
    fn measure(
        &self,
        programs: &Programs,
        name: &str,
        rounds: usize,
        interruption: &Interruption,
        watch: &mut RunWatch,
    ) -> Result<[Vec<f64>; 3], String> {
        let SubjectPair { over, under, size, is_pinned, .. } = &self.comparison;
        let cpus: Vec<usize> = if *is_pinned { allowed_cpus() } else { Vec::new() };
        let mut pairs = [
            Workers::start(programs, over, *size, &format!("{name}-over"), &cpus, interruption)?,
            Workers::start(programs, under, *size, &format!("{name}-under"), &cpus, interruption)?,
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
        if *is_pinned && cpus.len() > 1 {
            pairs.iter().for_each(|pair| pair.count_delays(watch));
        }
        Ok(times)
    }

    fn figure(&self) -> Figure {
        let SubjectPair { name, aim, .. } = &self.comparison;
        let interrupted = || String::from("interrupted before anything was measured");
        if self.samples.values.is_empty() {
            let missing = self.failed.clone().unwrap_or_else(interrupted);
            return Figure::missing(name, *aim, Some(missing));
        }
        let figure = Figure::new(name, *aim, &self.samples);
        Figure { failed_run: self.failed.clone(), ..figure }
    }
}
