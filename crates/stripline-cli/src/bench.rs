//! `stripline bench ladder` and `instructions`, and the output that all of `stripline bench`
//! shares.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stripline_bench::instructions;
use stripline_bench::ladder::{self, Decision, Progress, Report, Row, Settings};

use crate::Exit;
use crate::arguments::{InstructionsArguments, LadderArguments};
use crate::format::{counted, grouped, packets, quantity};
use stripline_waveform::internal::FileIdentity;

use crate::result_file::{Form, check_writable, end_at_signals, may_wait, write_json, write_text};
use crate::run::worse;
use crate::show::print;
use crate::table::Table;
use crate::terminal;

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
    if let Err(error) = settings.check() {
        complain!("error: {error}");
        return Exit::Usage;
    }
    let results = Results { json: arguments.json.destination(), drawing: arguments.svg.as_deref() };
    let run = |screen: &mut BenchScreen| ladder::run(&settings, &mut |progress| screen.show(progress));
    let (report, exit) = match results.of(run, tables, ladder::plot) {
        Ok(both) => both,
        Err(exit) => return exit,
    };
    let exit = judge(exit, report.interrupted);
    if !arguments.require_targets {
        return exit;
    }
    let decided = report.ratios.iter().filter_map(|ratio| Some((ratio, ratio.decision?)));
    worse(
        exit,
        require(decided.map(|(ratio, decision)| {
            target(decision, &format!("{}: {}, target {}", ratio.name, two(ratio.value), ratio.target))
        })),
    )
}

pub(crate) fn instructions(arguments: &InstructionsArguments) -> Exit {
    // Read before the count, so that a wrong path costs no time.
    let table = match arguments.check.as_deref().map(|path| (path, std::fs::read_to_string(path))) {
        None => None,
        Some((_, Ok(table))) => Some(table),
        Some((path, Err(error))) => {
            complain!("error: cannot read the table in {}: {error}", path.display());
            return Exit::Usage;
        }
    };
    if table.is_some() && cfg!(debug_assertions) {
        complain!("error: the table is of the release build: use `cargo run --release`");
        return Exit::Usage;
    }
    let counts = match instructions::count() {
        Ok(counts) => counts,
        Err(error) => {
            complain!("error: {error}");
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
            complain!("note: counts have fallen; put them into the table:\n{}", fallen.trim_end());
            exit
        }
        Some(Err(grown)) => {
            complain!("error: more instructions a packet than in the table:\n{}", grown.trim_end());
            Exit::Targets
        }
    }
}

/// The destinations of a benchmark's results, besides the terminal. The path `-` is standard
/// output, in place of the tables.
pub(crate) struct Results<'a> {
    pub json: Option<&'a Path>,
    /// A picture or an HTML page.
    pub drawing: Option<&'a Path>,
}

impl Results<'_> {
    /// Runs a benchmark, shows the progress, and writes the results to all destinations.
    pub(crate) fn of<R: Serialize, E: Display>(
        &self,
        run: impl FnOnce(&mut BenchScreen) -> Result<R, E>,
        tables: impl FnOnce(&R) -> String,
        draw: impl Fn(&R) -> Result<String, String>,
    ) -> Result<(R, Exit), Exit> {
        // Checked before anything runs: a result that cannot be written should not cost a run.
        if let (Some(json), Some(drawing)) = (self.json, self.drawing)
            && (json == drawing
                || FileIdentity::of(json).is_some_and(|json| FileIdentity::of(drawing) == Some(json)))
        {
            complain!("error: the JSON and the drawing would be one file, {}: name two", json.display());
            return Err(Exit::Usage);
        }
        let files = || [(self.json, Form::Json), (self.drawing, Form::Drawing)].into_iter();
        files().try_for_each(|(path, form)| path.map_or(Ok(()), |path| check_writable(path, form)))?;
        let mut screen = BenchScreen::new();
        let outcome = run(&mut screen);
        screen.finish();
        let report = outcome.map_err(|error| {
            complain!("error: {error}");
            Exit::Failure
        })?;
        let write = |(path, form): (&Path, Form)| match form {
            Form::Json => write_json(path, &report),
            Form::Drawing => write_text(path, form, draw(&report)),
        };
        let files = files().filter_map(|(path, form)| Some((path?, form)));
        let (waiting, plain): (Vec<_>, Vec<_>) = files.partition(|(path, _)| may_wait(path));
        // Results that need no reader are written first.
        let mut exit = plain.into_iter().map(&write).fold(Exit::Clean, worse);
        end_at_signals();
        if waiting.iter().all(|(path, _)| path.as_os_str() != "-") {
            exit = worse(exit, print(&tables(&report)));
        }
        exit = waiting.into_iter().map(&write).fold(exit, worse);
        Ok((report, exit))
    }
}

/// Returns the exit code of a benchmark that may have been interrupted.
pub(crate) fn judge(exit: Exit, is_interrupted: bool) -> Exit {
    if is_interrupted {
        complain!("error: interrupted; the figures are those measured up to then");
        return Exit::Failure;
    }
    exit
}

/// Returns the outcome for a target. The error text has the figure and the reason why the figure
/// does not meet the target.
pub(crate) fn target(decision: Decision, figure: &str) -> Result<(), String> {
    match decision {
        Decision::Met => Ok(()),
        other => Err(format!("{figure}: {}", other.as_str())),
    }
}

/// Prints the targets that are not met, and returns the exit code of a benchmark that requires all
/// targets. A benchmark without any target fails, too: a script would take it for a success.
pub(crate) fn require(targets: impl Iterator<Item = Result<(), String>>) -> Exit {
    let targets: Vec<_> = targets.collect();
    if targets.is_empty() {
        complain!("error: --require-targets: nothing with a target was measured");
        return Exit::Targets;
    }
    let mut exit = Exit::Clean;
    for problem in targets.into_iter().filter_map(Result::err) {
        complain!("error: a required target is not met: {problem}");
        exit = Exit::Targets;
    }
    exit
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
                complain!("{text}");
            }
            return;
        }
        self.bar.set_length(*total as u64);
        self.bar.set_position(*done as u64);
        self.bar.set_message(text);
        self.bar.tick();
    }
}

fn tables(report: &Report) -> String {
    let mut text = format!(
        "\n{}\n{} runs of each group of cases, {:.0} ms each; a clock reading costs {}, a loop without a peer is interrupted for {} at most\n",
        report.machine,
        report.rounds,
        report.seconds_per_run * 1e3,
        ns(report.clock_ns),
        ns(report.noise.max),
    );
    text += "\nONE WAY: between two processes (inproc: threads), one processor each; for memcpy, one copy.\nTypical: \
             half of a round trip, by blocks without the clock. Percentiles: single packets, by one clock for both \
             sides; each needs 100 samples beyond it.\n";
    text += &latency(report);
    text += "\nTHROUGHPUT: one way, at full rate\n";
    text += &throughput(report);
    if report.rows.iter().any(|row| row.outstanding.is_some()) {
        text += "\nCALLS: two-way, OUTSTANDING at a time\n";
        text += &calls(report);
    }
    if report.rows.iter().any(|row| row.publish_ns.is_some()) {
        text += "\nPUBLISH: the cost of one, in bursts of 1024, all readers polled in turn by one process\n";
        text += &publish(report);
    }
    if report.rows.iter().any(|row| row.per_packet_ns.is_some()) {
        text += "\nPIPELINE: a chain of processes that each copy the packet, on the same two processors\n";
        text += &pipeline(report);
    }
    let coverage = report.ratios.iter().filter_map(|ratio| ratio.coverage).reduce(f64::min);
    text += &format!(
        "\nRATIOS: the median over runs, and an interval that covers it with {} %; NULL: the interval of the reference \
         over itself. Not decided: a null wider than the distance to the target, a target inside the interval, or \
         fewer than 3 runs\n",
        coverage.map_or_else(|| "-".into(), |coverage| format!("{:.0}", coverage * 100.0))
    );
    text += &ratios(report);
    for note in &report.notes {
        text += &format!("\nnote: {note}");
    }
    let lost: u64 = report.rows.iter().map(|row| row.lost + row.reordered).sum();
    if lost > 0 {
        text += &format!("\nwarning: {} lost or out of order; see the JSON", packets(lost));
    }
    if text.ends_with('\n') { text } else { text + "\n" }
}

fn latency(report: &Report) -> String {
    let mut table =
        new(&["SUBJECT", "TRANSPORT", "WAIT", "SIZE", "TYPICAL", "p50", "p99", "p99.9", "MAX"], 3)
            .droppable(&["p99.9", "p50", "MAX", "p99", "WAIT"]);
    for row in report.rows.iter().filter(|row| row.one_way_ns.typical.is_some()) {
        let times = &row.one_way_ns;
        let mut cells = named(row);
        cells.push(if row.size == 0 { "-".into() } else { grouped(row.size as u64) });
        cells.extend([times.typical, times.p50, times.p99, times.p999, times.max].map(ns));
        table.add(cells);
    }
    table.render()
}

fn throughput(report: &Report) -> String {
    let mut table =
        new(&["SUBJECT", "TRANSPORT", "WAIT", "SIZE", "PACKETS", "BYTES"], 3).droppable(&["WAIT", "BYTES"]);
    let is_stream =
        |row: &&Row| row.packets_per_s.is_some() && row.per_packet_ns.is_none() && row.outstanding.is_none();
    for row in report.rows.iter().filter(is_stream) {
        let mut cells = named(row);
        cells.push(grouped(row.size as u64));
        let rates = [(row.packets_per_s, "/s"), (row.bytes_per_s, "B/s")];
        cells.extend(rates.map(|(rate, unit)| quantity(rate.unwrap_or(0.0), unit)));
        table.add(cells);
    }
    table.render()
}

fn calls(report: &Report) -> String {
    let mut table = new(&["TRANSPORT", "WAIT", "SIZE", "OUTSTANDING", "CALLS"], 2);
    for row in &report.rows {
        let Some(outstanding) = row.outstanding else { continue };
        let (size, outstanding) = (row.size.to_string(), grouped(u64::from(outstanding)));
        let rate = quantity(row.packets_per_s.unwrap_or(0.0), "/s");
        table.add([row.transport.clone(), row.wait.clone(), size, outstanding, rate]);
    }
    table.render()
}

fn publish(report: &Report) -> String {
    let mut table = new(&["TRANSPORT", "SIZE", "READERS", "A PUBLISH"], 1);
    for row in report.rows.iter().filter(|row| row.publish_ns.is_some()) {
        let (size, readers) = (row.size.to_string(), row.readers.to_string());
        table.add([row.transport.clone(), size, readers, ns(row.publish_ns)]);
    }
    table.render()
}

fn pipeline(report: &Report) -> String {
    let mut table = new(&["TRANSPORT", "WAIT", "SIZE", "COMPONENTS", "A PACKET", "PACKETS"], 2);
    for row in report.rows.iter().filter(|row| row.per_packet_ns.is_some()) {
        table.add([
            row.transport.clone(),
            row.wait.clone(),
            grouped(row.size as u64),
            row.components.to_string(),
            ns(row.per_packet_ns),
            quantity(row.packets_per_s.unwrap_or(0.0), "/s"),
        ]);
    }
    table.render()
}

fn ratios(report: &Report) -> String {
    let mut table = new(&["RATIO", "VALUE", "INTERVAL", "NULL", "NEAR", "FAR", "TARGET", ""], 1)
        .droppable(&["FAR", "NEAR", "NULL", "INTERVAL"]);
    for ratio in &report.ratios {
        let (Some(null), Some(decision)) = (ratio.null, ratio.decision) else { continue };
        let range = |low, high| format!("{} - {}", two(low), two(high));
        table.add([
            ratio.name.clone(),
            two(ratio.value),
            range(ratio.low, ratio.high),
            range(Some(null.low), Some(null.high)),
            two(ratio.near),
            two(ratio.far),
            ratio.target.clone(),
            decision.as_str().into(),
        ]);
    }
    let mut absent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for ratio in &report.ratios {
        if let Some(missing) = &ratio.missing {
            absent.entry(missing).or_default().push(&ratio.name);
        }
    }
    let mut text = table.render();
    for (missing, names) in absent {
        let which = if names.len() > 3 { counted(names.len() as u64, "ratio") } else { names.join(", ") };
        text += &format!("{which}: {missing}\n");
    }
    text
}

/// Returns the first cells of a row: the subject, the transport and the way of waiting.
fn named(row: &Row) -> Vec<String> {
    let what = if row.statistics { row.what.clone() } else { format!("{}, no statistics", row.what) };
    vec![what, row.transport.clone(), row.wait.clone()]
}

/// Creates a table. All columns after the first `left` hold numbers.
pub(crate) fn new(header: &[&'static str], left: usize) -> Table {
    debug_assert!(left <= header.len());
    Table::new(header).numbers(&header[left..])
}

/// Formats nanoseconds with about three digits.
pub(crate) fn ns(ns: Option<f64>) -> String {
    match ns {
        Some(ns) if ns < 99.95 => format!("{ns:.1} ns"),
        ns => crate::format::time(ns.map(|ns| ns.round() as u64)),
    }
}

fn two(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.2}"))
}
