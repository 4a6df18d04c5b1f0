//! `stripline bench`: runs a benchmark, shows the progress, and writes the results.

pub(crate) mod arguments;
mod compare;
mod experiment;

use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stripline_bench::bindings::{self, BindingSettings};
use stripline_bench::ladder::{self, Settings};
use stripline_bench::report::{Grid, Measured, Section};
use stripline_bench::{Progress, instructions};
use stripline_waveform::internal::FileIdentity;

use crate::Exit;
use crate::arguments::{InstructionsArguments, LadderArguments};
use crate::result_file::{Form, check_writable, end_at_signals, may_wait, write_drawing, write_json};
use crate::run::worse;
use crate::show::print;
use crate::table::Table;
use crate::terminal;

pub(crate) use compare::compare;
pub(crate) use experiment::experiment;

use arguments::BindingsArguments;

/// Interval between two lines of progress without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn ladder(arguments: &LadderArguments) -> Exit {
    let settings = Settings {
        sizes: arguments.sizes.clone(),
        transports: arguments.transports.clone(),
        quick: arguments.quick,
        rounds: arguments.runs,
        seconds_per_run: arguments.seconds_per_run,
        program: None,
    };
    if let Err(problem) = settings.check() {
        return wrong(&problem);
    }
    let (json, drawing) = (arguments.json.destination(), arguments.svg.as_deref());
    let outputs = Outputs { json, drawing, requires_targets: arguments.require_targets };
    outputs.of(|observer| ladder::run(&settings, observer))
}

pub(crate) fn bindings(arguments: &BindingsArguments) -> Exit {
    let settings = BindingSettings {
        only: arguments.only.clone(),
        quick: arguments.quick,
        runs: arguments.runs,
        prefix: arguments.prefix.clone(),
        python: arguments.python.clone(),
        gnuradio_python: arguments.gnuradio_python.clone(),
        program: None,
    };
    if let Err(problem) = settings.check() {
        return wrong(&problem);
    }
    let (json, requires_targets) = (arguments.json.destination(), arguments.require_targets);
    Outputs { json, drawing: None, requires_targets }.of(|observer| bindings::run(&settings, observer))
}

fn wrong(problem: &str) -> Exit {
    report!("error: {problem}");
    Exit::Usage
}

pub(crate) fn instructions(arguments: &InstructionsArguments) -> Exit {
    // Read before the count, so that a wrong path costs no time.
    let table = match arguments.check.as_deref().map(|path| (path, std::fs::read_to_string(path))) {
        None => None,
        Some((_, Ok(table))) => Some(table),
        Some((path, Err(error))) => {
            report!("error: cannot read the table in {}: {error}", path.display());
            return Exit::Usage;
        }
    };
    if table.is_some() && cfg!(debug_assertions) {
        report!("error: the table is of the release build: use `cargo run --release`");
        return Exit::Usage;
    }
    let counts = match instructions::count() {
        Ok(counts) => counts,
        Err(error) => {
            report!("error: {error}");
            return Exit::Failure;
        }
    };
    let mut text = String::from(
        "| transport | bytes | `loan` to `send` | `receive` to drop |\n| --- | --- | --- | --- |\n",
    );
    counts.iter().for_each(|count| text += &format!("{count}\n"));
    let exit = print(&text);
    match table.map(|table| instructions::check(&counts, &table)) {
        None => exit,
        Some(Ok(fallen)) if fallen.is_empty() => exit,
        Some(Ok(fallen)) => {
            report!("note: counts have fallen; put them into the table:\n{}", fallen.trim_end());
            exit
        }
        Some(Err(grown)) => {
            report!("error: more instructions a packet than in the table:\n{}", grown.trim_end());
            Exit::Targets
        }
    }
}

/// The destinations of a benchmark's results, besides the terminal, and the meaning of the exit
/// code. The path `-` is standard output, in place of the tables.
struct Outputs<'a> {
    json: Option<&'a Path>,
    /// A picture or an HTML page.
    drawing: Option<&'a Path>,
    /// Whether a target that is not met is a failure.
    requires_targets: bool,
}

impl Outputs<'_> {
    /// Runs a benchmark, shows the progress, and writes the results to all destinations.
    fn of<R: Measured>(&self, run: impl FnOnce(&mut dyn FnMut(&Progress)) -> Result<R, String>) -> Exit {
        // Checked before anything runs: a result that cannot be written should not cost a run.
        if let (Some(json), Some(drawing)) = (self.json, self.drawing)
            && (json == drawing
                || FileIdentity::of(json).is_some_and(|json| FileIdentity::of(drawing) == Some(json)))
        {
            let shown = json.display();
            return wrong(&format!("the JSON and the drawing would be one file, {shown}: name two"));
        }
        let files = || [(self.json, Form::Json), (self.drawing, Form::Drawing)].into_iter();
        let checked =
            files().try_for_each(|(path, form)| path.map_or(Ok(()), |path| check_writable(path, form)));
        if let Err(exit) = checked {
            return exit;
        }
        let mut screen = BenchScreen::new();
        let outcome = run(&mut |progress| screen.show(progress));
        screen.finish();
        let report = match outcome {
            Ok(report) => report,
            Err(error) => {
                report!("error: {error}");
                return Exit::Failure;
            }
        };
        let write = |(path, form): (&Path, Form)| match form {
            Form::Json => write_json(path, &report),
            Form::Drawing => write_drawing(path, report.drawing()),
        };
        let files = files().filter_map(|(path, form)| Some((path?, form)));
        let (waiting, plain): (Vec<_>, Vec<_>) = files.partition(|(path, _)| may_wait(path));
        // Results that need no reader are written first.
        let mut exit = plain.into_iter().map(&write).fold(Exit::Clean, worse);
        end_at_signals();
        if waiting.iter().all(|(path, _)| path.as_os_str() != "-") {
            exit = worse(exit, print(&text(&report)));
        }
        exit = waiting.into_iter().map(&write).fold(exit, worse);
        for failure in report.failures() {
            report!("error: {failure}");
            exit = Exit::Failure;
        }
        if report.is_interrupted() {
            report!("error: interrupted; the figures are those measured up to then");
            exit = Exit::Failure;
        }
        if self.requires_targets { worse(exit, require(report.targets())) } else { exit }
    }
}

/// Prints the targets that are not met, and returns the exit code of a benchmark that requires all
/// targets. A benchmark without any target fails, too: a script would take it for a success.
fn require(targets: Vec<Result<(), String>>) -> Exit {
    if targets.is_empty() {
        report!("error: --require-targets: nothing with a target was measured");
        return Exit::Targets;
    }
    let mut exit = Exit::Clean;
    for problem in targets.into_iter().filter_map(Result::err) {
        report!("error: a required target is not met: {problem}");
        exit = Exit::Targets;
    }
    exit
}

/// Formats results for the terminal.
fn text(report: &impl Measured) -> String {
    let mut text = format!("\n{}\n", report.head().join("\n"));
    for Section { title, text: explanation, grid, lines } in report.sections() {
        text += &if title.is_empty() { "\n".into() } else { format!("\n{title}: {explanation}\n") };
        text += &table(&grid).render();
        lines.iter().for_each(|line| text += &format!("{line}\n"));
    }
    report.notes().iter().for_each(|note| text += &format!("\n{note}"));
    if text.ends_with('\n') { text } else { text + "\n" }
}

/// Returns a table for the terminal.
pub(crate) fn table(grid: &Grid) -> Table {
    let mut table = Table::new(&grid.titles).numbers(&grid.titles[grid.words..]).droppable(grid.droppable);
    grid.rows.iter().for_each(|row| table.add(row.iter().cloned()));
    table
}

/// The progress display on standard error.
pub(crate) struct BenchScreen {
    bar: ProgressBar,
    start: Instant,
    printed: Option<Instant>,
    is_begun: bool,
}

impl BenchScreen {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        Self { bar, start: Instant::now(), printed: None, is_begun: false }
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        let Progress { done, total, doing } = progress;
        if !std::mem::replace(&mut self.is_begun, true) {
            // From here on the benchmark handles the signal.
            terminal::raise_when_unread(&[SIGINT, SIGTERM, SIGHUP]);
        }
        let text =
            format!("{:.0} s  run {} of {total}: {doing}", self.start.elapsed().as_secs_f64(), done + 1);
        if self.bar.is_hidden() {
            // Without a terminal, a log gets a line at this interval.
            if self.printed.is_none_or(|printed| printed.elapsed() >= LINE_EVERY) {
                self.printed = Some(Instant::now());
                report!("{text}");
            }
            return;
        }
        self.bar.set_length(*total as u64);
        self.bar.set_position(*done as u64);
        self.bar.set_message(text);
        self.bar.tick();
    }
}
