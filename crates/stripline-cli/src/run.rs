//! `stripline run` and `stripline check`.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use log::Level;
use serde::Serialize;
use stripline::component::Registry;
use stripline::link::Sampling;
use stripline_waveform::control::NewValue;
use stripline_waveform::{
    Catalog, ComponentOutput, Observer, Overrides, Placement, Progress, RunOptions, RunReport, Step,
    Waveform, load,
};

use crate::Exit;
use crate::arguments::{FileArguments, OutputForm, PlacementArgument, RunArguments};
use crate::format::{counted, grouped, packets, quantity, time};
use crate::log::{LAUNCHER, RunLog};
use crate::show::print;

pub(crate) fn check(arguments: &FileArguments, registry: &Registry) -> Exit {
    match checked(arguments, registry) {
        Err(exit) => exit,
        Ok(waveform) => {
            let (components, connections) = (waveform.components.len(), waveform.connections.len());
            print(&format!(
                "{}: ok: {}, {}\n",
                arguments.file.display(),
                counted(components as u64, "component"),
                counted(connections as u64, "connection"),
            ))
        }
    }
}

pub(crate) fn run(arguments: &RunArguments, registry: &Registry) -> Exit {
    let waveform = match checked(&arguments.waveform, registry) {
        Ok(waveform) => waveform,
        Err(exit) => return exit,
    };
    let host = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => {
            complain!("error: cannot find the path of this program: {error}");
            return Exit::Failure;
        }
    };
    // Before anything runs, because a result that cannot be written should not cost a run.
    if let Some(path) = &arguments.json
        && let Err(exit) = check_writable(path)
    {
        return exit;
    }
    let mut screen = match Screen::new(&waveform, arguments) {
        Ok(screen) => screen,
        Err(problem) => {
            complain!("error: {problem}");
            return Exit::Usage;
        }
    };
    screen.log.install();
    let options = RunOptions {
        host,
        duration: arguments.duration.map(Duration::from_secs_f64),
        sampling: Sampling::Auto,
        quiet: arguments.quiet,
        output: ComponentOutput {
            log: Some(screen.log.filter().to_string()),
            captured: arguments.log.stdout == OutputForm::Lines,
        },
    };
    let outcome = stripline_waveform::run(&waveform, &options, &mut screen);
    screen.clear();
    let exit = end(outcome, arguments, &screen.log);
    screen.log.finish();
    exit
}

/// Prints and writes the results of a run.
fn end(outcome: stripline::Result<RunReport>, arguments: &RunArguments, log: &RunLog) -> Exit {
    let report = match outcome {
        Ok(report) => report,
        Err(error) => {
            log.write(None, Level::Error, LAUNCHER, &error.to_string());
            complain!("error: {error}");
            return Exit::Failure;
        }
    };
    let mut exit = Exit::Clean;
    // A waveform that never ran has no figures.
    if !arguments.quiet && report.duration_s > 0.0 {
        exit = print(&summary(&report));
    }
    if let Some(path) = &arguments.json {
        exit = worse(exit, write_json(path, &report));
    }
    if let Some(failure) = &report.failure {
        log.write(None, Level::Error, LAUNCHER, failure);
        complain!("error: {failure}");
        exit = Exit::Failure;
    }
    exit
}

/// Reports a file that results cannot be written to; `-` is standard output.
pub(crate) fn check_writable(path: &Path) -> Result<(), Exit> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    match std::fs::OpenOptions::new().append(true).create(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            complain!("error: cannot write {}: {error}", path.display());
            Err(Exit::Usage)
        }
    }
}

/// Loads and checks the file. Prints its problems.
fn checked(arguments: &FileArguments, registry: &Registry) -> Result<Waveform, Exit> {
    let names: Vec<&str> = stripline::transport::all().map(|t| t.name).collect();
    let catalog = Catalog::new(registry.specs(), &names);
    let overrides = Overrides {
        set: arguments.set.clone(),
        transport: arguments.transport.clone(),
        placement: arguments.placement.map(|placement| match placement {
            PlacementArgument::Threads => Placement::Thread,
            PlacementArgument::Processes => Placement::Process,
        }),
    };
    match load(&arguments.file, &overrides, &catalog) {
        Ok((waveform, warnings)) => {
            warnings.iter().for_each(|warning| complain!("{warning}"));
            Ok(waveform)
        }
        Err(diagnostics) => {
            complain!("{}", diagnostics.to_string().trim_end());
            Err(Exit::Usage)
        }
    }
}

/// The progress display on standard error while a waveform runs.
struct Screen {
    bar: ProgressBar,
    names: Vec<String>,
    name: String,
    quiet: bool,
    last: Option<(f64, u64)>,
    log: Arc<RunLog>,
}

impl Screen {
    fn new(waveform: &Waveform, arguments: &RunArguments) -> Result<Self, String> {
        let quiet = arguments.quiet;
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(8) };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.set_message(format!("starting {}", waveform.name));
        let log = Arc::new(RunLog::open(&arguments.log, bar.clone(), waveform)?);
        Ok(Self {
            bar,
            log,
            names: waveform.connections.iter().map(|c| c.from.to_string()).collect(),
            name: waveform.name.clone(),
            quiet,
            last: None,
        })
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Screen {
    fn started(&mut self) {
        // Without a terminal there is no progress: a log gets a line instead.
        if !self.quiet && self.bar.is_hidden() {
            self.log.print(&format!("{} is running", self.name));
        }
        self.log.write(None, Level::Info, LAUNCHER, &format!("{} is running", self.name));
    }

    fn progress(&mut self, progress: &Progress) {
        self.log.trace(|trace| trace.progress(progress));
        let bytes: u64 = progress.connections.iter().map(|c| c.bytes).sum();
        let lost: u64 = progress.connections.iter().map(|c| c.lost).sum();
        let rate = match self.last {
            Some((then, before)) if progress.elapsed_s > then => {
                (bytes.saturating_sub(before)) as f64 / (progress.elapsed_s - then)
            }
            _ => 0.0,
        };
        self.last = Some((progress.elapsed_s, bytes));
        let busiest = progress.connections.iter().zip(&self.names).max_by_key(|(c, _)| c.bytes);
        let first = busiest.map_or_else(String::new, |(c, name)| format!("  {name}: {}", packets(c.packets)));
        self.bar.set_message(format!(
            "{:.1} s  {}{first}  {} lost  {} of {} components ended",
            progress.elapsed_s,
            quantity(rate, "B/s"),
            grouped(lost),
            progress.ended.0,
            progress.ended.1,
        ));
        self.bar.tick();
    }

    fn warning(&mut self, component: &str, text: &str) {
        self.log.print(&format!("warning: {component}: {text}"));
        self.log.write(Some(component), Level::Warn, LAUNCHER, text);
    }

    fn line(&mut self, component: &str, text: &str) {
        self.log.print(&format!("{}{text}", self.log.prefix(Some(component))));
        self.log.write(Some(component), Level::Info, "stderr", text);
    }

    fn output(&mut self, component: &str, text: &str) {
        // A closed standard output must not end the waveform.
        self.bar.suspend(|| print(&format!("[{component}] {text}\n")));
        self.log.write(Some(component), Level::Info, "stdout", text);
    }

    fn record(&mut self, component: &str, level: Level, target: &str, message: &str) {
        self.log.library(Some(component), level, target, message);
    }

    fn step(&mut self, component: &str, step: &Step) {
        self.log.step(component, step);
    }

    fn changed(&mut self, component: &str, values: &BTreeMap<String, NewValue>) {
        for (name, new) in values {
            let text = crate::control::new_value(name, new);
            if !self.quiet {
                self.log.print(&format!("{component}: {text}"));
            }
            self.log.write(Some(component), Level::Info, LAUNCHER, &text);
            self.log.trace(|trace| trace.mark(Some(component), "property", &text));
        }
    }

    fn stopping(&mut self, reason: &str) {
        let text = format!("stopping in order ({reason})");
        self.log.write(None, Level::Info, LAUNCHER, &text);
        self.log.trace(|trace| trace.mark(None, "step", &text));
        if !self.quiet || std::io::stderr().is_terminal() {
            let again = if reason.contains("Ctrl-C") { " again" } else { "" };
            self.log.print(&format!("stopping in order ({reason}); Ctrl-C{again} ends at once"));
        }
    }
}

/// Renders the table of connections.
pub(crate) fn summary(report: &RunReport) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "CONNECTION",
        "TRANSPORT",
        "PACKETS",
        "BYTES",
        "RATE",
        "LOST",
        "REORDERED",
        "p50",
        "p99",
        "p99.9",
        "MAX",
    ]);
    for c in &report.connections {
        table.add_row([
            format!("{} -> {}", c.from, c.to),
            c.transport.clone(),
            grouped(c.packets),
            quantity(c.bytes as f64, "B"),
            quantity(c.bytes_per_s, "B/s"),
            grouped(c.lost),
            grouped(c.reordered),
            time(c.latency_ns.p50),
            time(c.latency_ns.p99),
            time(c.latency_ns.p999),
            time(c.latency_ns.max),
        ]);
    }
    for column in 2..11 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let ending = match (&report.failure, &report.stopped) {
        (Some(failure), _) if failure == RunReport::ENDED_NOW => "was ended at once after".to_string(),
        (Some(_), _) => "failed after".to_string(),
        (None, Some(reason)) => format!("stopped ({reason}) after"),
        (None, None) => "ended after".to_string(),
    };
    let mut notes = String::new();
    for c in report.connections.iter().filter(|c| c.statistics == "partial") {
        let (from, to) = (&c.from, &c.to);
        notes += &match (c.unaccounted, c.sent) {
            (Some(0), _) => continue,
            (Some(count), Some(sent)) => format!(
                "\n{from} -> {to}: {} of {} sent {} not counted: the receiver ended or died before it received \
                 them or before its last report.",
                grouped(count),
                packets(sent),
                if count == 1 { "is" } else { "are" },
            ),
            _ => format!("\n{from} -> {to}: a component died before its last report."),
        };
    }
    for c in report.connections.iter().filter(|c| c.resequenced && c.reordered > 0) {
        notes += &format!(
            "\n{} -> {}: the {} reordered came after a later one and were put back in sequence.",
            c.from,
            c.to,
            packets(c.reordered)
        );
    }
    format!(
        "{} {ending} {:.3} s. Latency from send to receive; a percentile needs 100 samples beyond it.\n{}{notes}\n",
        report.waveform,
        report.duration_s,
        table.trim_fmt(),
    )
}

/// Writes a result as JSON; `-` is standard output.
pub(crate) fn write_json(path: &Path, report: &impl Serialize) -> Exit {
    let text = serde_json::to_string_pretty(report).map(|text| text + "\n");
    write_text(path, text.map_err(|error| format!("the result does not serialise: {error}")))
}

/// Writes a result, or reports why it could not be made; `-` is standard output.
pub(crate) fn write_text(path: &Path, text: Result<String, String>) -> Exit {
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            complain!("error: {error}");
            return Exit::Failure;
        }
    };
    if path.as_os_str() == "-" {
        return print(&text);
    }
    match std::fs::write(path, text) {
        Ok(()) => Exit::Clean,
        Err(error) => {
            complain!("error: cannot write {}: {error}", path.display());
            Exit::Failure
        }
    }
}

/// Returns the first of two exit codes that is not success.
pub(crate) fn worse(a: Exit, b: Exit) -> Exit {
    if a == Exit::Clean { b } else { a }
}
