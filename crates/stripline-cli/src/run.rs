//! `stripline run`.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use log::Level;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stripline::component::{Direction, PropertyKind, PropertySpec, Registry};
use stripline::link::{LatencyReport, Sampling};
use stripline_middleware::wire_formats;
use stripline_waveform::control::NewValue;
use stripline_waveform::internal::{Announcement, load_named, run_announced, wrapped};
use stripline_waveform::{
    Catalog, ChosenBy, ComponentOutput, ComponentPlan, ComponentResult, ConnectionPlan, Diagnostics,
    Observer, Overrides, PaceResult, PathPart, PathTimes, Placement, Progress, RunOptions, RunReport, Step,
    Waveform, parse_bytes,
};

use crate::Exit;
use crate::arguments::{LogArguments, OutputForm, OverrideArguments, PlacementArgument, RunArguments};
use crate::builtin;
use crate::failure::{Failure, Outcome};
use crate::format::{age, counted, grouped, packets, printable, quantity, time};
use crate::log::{LAUNCHER, RunLog};
use crate::result_file::{Form, check_writable, end_at_signals, may_wait, write_json};
use crate::show::{Printed, print, print_while_read};
use crate::table::{Cell, Table, Tone};
use crate::terminal;

/// The longest reason of a restart below the table, in characters.
const REASON_MAX: usize = 300;
/// The most paths below the table.
const PATHS_MAX: usize = 4;

pub(crate) fn run(arguments: &RunArguments, registry: &Registry) -> Outcome {
    let json = arguments.json.destination();
    let overrides = Overrides { writes: writes(arguments, json), ..overrides_of(&arguments.overrides) };
    let (waveform, announcement) = checked(&arguments.file, &overrides, registry)?;
    let host = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find the path of this program: {error}")))?;
    let writer = stdout_writer(&waveform);
    let is_json_printed = json.is_some_and(|path| path == Path::new("-"));
    if let Some(name) = writer {
        let unfit = match arguments.log.stdout {
            _ if is_json_printed => "to standard output: give `--output` a file for the result",
            OutputForm::Lines => "samples to standard output: leave `--stdout lines` out",
            OutputForm::Raw => "",
        };
        if !unfit.is_empty() {
            return Err(Failure::usage(format!("`{name}` writes {unfit}")));
        }
    }
    // Checked before anything runs: a result that cannot be written should not cost a run.
    json.map_or(Ok(()), |path| check_writable(path, Form::Json))?;
    let mut screen = Screen::new(&waveform, arguments).map_err(Failure::usage)?;
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
    let outcome = run_announced(&waveform, &options, &mut screen, announcement);
    screen.clear();
    let exit = end(outcome, arguments, json, writer.is_some(), &screen.log);
    screen.log.finish();
    Ok(exit)
}

/// Returns the files that the command writes, each with its option.
fn writes(arguments: &RunArguments, json: Option<&Path>) -> Vec<(String, PathBuf)> {
    let LogArguments { log_file, trace, .. } = &arguments.log;
    let files = [("--output", json), ("--log-file", log_file.as_deref()), ("--trace", trace.as_deref())];
    files.into_iter().filter_map(|(option, path)| Some((option.into(), path?.into()))).collect()
}

/// Returns the component that writes received packets to standard output, if there is one.
fn stdout_writer(waveform: &Waveform) -> Option<&str> {
    let writes = |component: &&ComponentPlan| {
        let spec = &component.spec;
        let is_stdout = |property: &PropertySpec| {
            property.kind == PropertyKind::Path && component.properties.text(&property.name) == "-"
        };
        // A component with an output port is a source, which reads from standard input.
        spec.ports.iter().all(|port| port.direction == Direction::Input)
            && spec.properties.iter().any(is_stdout)
    };
    waveform.components.iter().find(writes).map(|component| component.name.as_str())
}

/// Prints and writes the results of a run. Where a component writes to standard output, the table
/// is on standard error.
fn end(
    outcome: stripline::Result<RunReport>,
    arguments: &RunArguments,
    json: Option<&Path>,
    is_stdout_taken: bool,
    log: &RunLog,
) -> Exit {
    let report = match outcome {
        Ok(report) => report,
        Err(error) => {
            log.write(None, Level::Error, LAUNCHER, &error.to_string());
            report!("error: {error}");
            return Exit::Failure;
        }
    };
    // A result that needs no reader is written first.
    let mut exit = match json.filter(|path| !may_wait(path)) {
        Some(path) => write_json(path, &report),
        None => Exit::Clean,
    };
    end_at_signals();
    // A waveform that never ran has no figures.
    if report.duration_s == 0.0 && report.failure.is_none() {
        report!("{} was stopped before it ran", printable(&report.waveform, REASON_MAX));
    }
    let is_json_printed = json.is_some_and(|path| path.as_os_str() == "-");
    if !arguments.quiet && !is_json_printed && report.duration_s > 0.0 {
        match is_stdout_taken {
            true => report!("{}", summary(&report).trim_end()),
            false => exit = worse(exit, print(&summary(&report))),
        }
    }
    if arguments.quiet {
        // The warnings about files were already printed during the run.
        let notes = transit_notes(&report);
        notes.lines().filter(|line| !line.is_empty()).for_each(|line| report!("warning: {line}"));
    }
    if let Some(path) = json.filter(|path| may_wait(path)) {
        exit = worse(exit, write_json(path, &report));
    }
    if let Some(failure) = &report.failure {
        log.write(None, Level::Error, LAUNCHER, failure);
        report!("error: {failure}");
        exit = Exit::Failure;
    }
    exit
}

/// Loads and checks the file. Prints the problems. Meanwhile, clients find the waveform.
fn checked(
    file: &Path,
    overrides: &Overrides,
    registry: &Registry,
) -> Result<(Waveform, Option<Announcement>), Failure> {
    let is_coloured = terminal::is_stderr_coloured();
    let names = transport_names();
    let catalog = catalog(registry, &names);
    let mut announcement = None;
    let mut announce = |name: &str| {
        let stop = || {
            report!("stopped before it ran (stripline stop)");
            std::process::exit(0);
        };
        // The run itself reports that no requests are served.
        announcement = Announcement::new(name, file, stop).ok();
    };
    let found = match builtin::waveform(file) {
        Some(text) => parse_bytes(text.as_bytes(), file, overrides, &catalog),
        None => load_named(file, overrides, &catalog, &mut announce),
    };
    let (waveform, warnings) = found.map_err(|diagnostics| {
        let failure = refused(&diagnostics);
        if !file.exists() {
            report!("built into the command: {}", builtin::names());
        }
        failure
    })?;
    warnings.iter().for_each(|warning| report!("{}", warning.render(is_coloured)));
    Ok((waveform, announcement))
}

/// Prints the problems of a file, and returns the failure.
pub(crate) fn refused(found: &Diagnostics) -> Failure {
    report!("{}", found.render(terminal::is_stderr_coloured()).trim_end());
    Exit::Usage.into()
}

/// Returns everything that a waveform file may name: the stock components, the components that a
/// feature of the build would add, and the transports.
pub(crate) fn catalog<'a>(registry: &'a Registry, transports: &'a [&'a str]) -> Catalog<'a> {
    Catalog { absent: absent_components(), ..Catalog::new(registry.specs(), transports) }
}

/// Returns the stock components that this program lacks, each as the type name and the remedy.
pub(crate) fn absent_components() -> &'static [(&'static str, &'static str)] {
    static ABSENT: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
        let absent = wire_formats().iter().filter(|format| !format.in_program);
        let joining = absent.flat_map(|format| format.components.map(|name| (name, format.remedy)));
        joining.chain(stripline_radio::absent_components().iter().copied()).collect()
    });
    &ABSENT
}

pub(crate) fn transport_names() -> Vec<&'static str> {
    stripline::transport::all().map(|t| t.name).collect()
}

pub(crate) fn overrides_of(arguments: &OverrideArguments) -> Overrides {
    Overrides {
        set: arguments.set.clone(),
        transport: arguments.transport.clone(),
        placement: arguments.placement.map(|placement| match placement {
            PlacementArgument::Threads => Placement::Thread,
            PlacementArgument::Processes => Placement::Process,
        }),
        writes: Vec::new(),
    }
}

/// The progress display on standard error while a waveform runs.
struct Screen {
    bar: ProgressBar,
    names: Vec<String>,
    /// The transport of each connection, with the reason for it.
    transports: Vec<String>,
    name: String,
    quiet: bool,
    last: Option<(f64, u64)>,
    /// Whether standard output no longer accepts lines.
    is_output_lost: bool,
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
            transports: waveform.connections.iter().map(transport_line).collect(),
            name: waveform.name.clone(),
            quiet,
            last: None,
            is_output_lost: false,
        })
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Screen {
    fn started(&mut self) {
        // From here on, the signal stops the waveform in order.
        terminal::raise_when_unread(&[SIGTERM, SIGHUP, SIGINT]);
        // Without a terminal there is no progress display. A log gets one line instead.
        if !self.quiet && self.bar.is_hidden() {
            self.log.print(&format!("{} is running", self.name));
        }
        self.log.write(None, Level::Info, LAUNCHER, &format!("{} is running", self.name));
        for line in &self.transports {
            self.log.write(None, Level::Info, LAUNCHER, line);
        }
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
        if !self.is_output_lost {
            let printed = self.bar.suspend(|| print_while_read(&format!("[{component}] {text}\n")));
            self.is_output_lost = printed != Printed::All;
        }
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

/// Returns the log's line about a connection's transport.
fn transport_line(plan: &ConnectionPlan) -> String {
    let ConnectionPlan { from, to, transport, choice, .. } = plan;
    let passed_over = choice.passed_over().map_or_else(String::new, |why| format!(" ({why})"));
    format!("{from} -> {to}: {transport}, chosen by {}{passed_over}", choice.by)
}

/// Renders the table of connections.
pub(crate) fn summary(report: &RunReport) -> String {
    let mut table = Table::new(&[
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
        "QUEUED",
        "SERVICE",
        "AGE MAX",
    ])
    .numbers(&[
        "PACKETS",
        "BYTES",
        "RATE",
        "LOST",
        "REORDERED",
        "p50",
        "p99",
        "p99.9",
        "MAX",
        "QUEUED",
        "SERVICE",
        "AGE MAX",
    ])
    .droppable(&[
        "TRANSPORT",
        "BYTES",
        "REORDERED",
        "p99.9",
        "p99",
        "RATE",
        "MAX",
        "SERVICE",
        "AGE MAX",
        "QUEUED",
        "p50",
    ]);
    for c in &report.connections {
        table.add::<Cell>([
            format!("{} -> {}", c.from, c.to).into(),
            c.transport.clone().into(),
            grouped(c.packets).into(),
            quantity(c.bytes as f64, "B").into(),
            quantity(c.bytes_per_s, "B/s").into(),
            Cell::toned(grouped(c.lost), Tone::of_losses(c.lost)),
            grouped(c.reordered).into(),
            middle(&c.latency_ns).into(),
            tail(&c.latency_ns).into(),
            time(c.latency_ns.p999).into(),
            time(c.latency_ns.max).into(),
            middle(&c.queued_ns).into(),
            middle(&c.service_ns).into(),
            c.age.map_or_else(String::new, |ages| age(ages.max_ns, &ages)).into(),
        ]);
    }
    if report.connections.iter().all(|c| c.age.is_none()) {
        table.remove("AGE MAX");
    }
    let ending = match (&report.failure, &report.stopped) {
        (Some(failure), _) if failure == RunReport::ENDED_NOW => "was ended at once after".to_string(),
        (Some(_), _) => "failed after".to_string(),
        (None, Some(reason)) => format!("stopped ({reason}) after"),
        (None, None) => "ended after".to_string(),
    };
    let mut notes = transit_notes(report);
    for c in report.connections.iter().filter(|c| c.resequenced && c.reordered > 0) {
        notes += &format!(
            "\n{} -> {}: the {} reordered came after a later one and were put back in sequence.",
            c.from,
            c.to,
            packets(c.reordered)
        );
    }
    for component in report.components.iter().filter(|component| component.restarts > 0) {
        let (name, count) = (&component.name, counted(component.restarts.into(), "time"));
        let reason = component.last_restart.as_deref().unwrap_or("its reason is not recorded");
        notes +=
            &format!("\n{name} was started again {count}; the last time: {}.", printable(reason, REASON_MAX));
    }
    for component in &report.components {
        notes +=
            &pace_note(component, report.duration_s).map_or_else(String::new, |note| format!("\n{note}"));
    }
    for component in &report.components {
        notes += &files_note(component);
    }
    // The usual choices need no note.
    let is_unusual = |transport: &str| !["inproc", "shm"].contains(&transport);
    for c in report.connections.iter().filter(|c| c.chosen_by == ChosenBy::Auto && is_unusual(&c.transport)) {
        let why = c.passed_over.as_deref().unwrap_or_default();
        notes += &format!("\n{} -> {}: auto took {} ({why}).", c.from, c.to, c.transport);
    }
    notes += &path_notes(report);
    let width = terminal::width();
    let head = format!(
        "{} {ending} {:.3} s. Latency from send to receive, QUEUED while the receiver was busy; a percentile \
         needs 100 samples beyond it.",
        report.waveform, report.duration_s,
    );
    format!("{}\n{}{}\n", wrapped(&head, width, 0), table.render().trim_end(), wrapped(&notes, width, 2))
}

/// Returns the lines about problems of a component's files.
fn files_note(component: &ComponentResult) -> String {
    let mut note = String::new();
    let name = &component.name;
    for file in &component.files {
        let (lacks, path) = (file.to_string(), printable(file.name(), REASON_MAX));
        if !lacks.is_empty() {
            note += &format!("\n{name}: {}.", printable(&lacks, 2 * REASON_MAX));
        }
        if let Some(found) = &file.found {
            note += &format!("\n{name} found {}.", printable(found, 2 * REASON_MAX));
        }
        if !file.not_kept.is_empty() {
            note += &format!("\n{name} wrote {path}, which cannot have: {}.", file.not_kept.join(", "));
        }
        if !file.finished {
            note += &format!("\n{name} did not complete {path}.");
        }
    }
    note
}

/// Returns the lines about packets that were sent and not accounted for.
fn transit_notes(report: &RunReport) -> String {
    let mut notes = String::new();
    for c in report.connections.iter().filter(|c| c.statistics == "partial") {
        let (from, to) = (&c.from, &c.to);
        notes += &match (c.unaccounted, c.sent) {
            (Some(0), _) => continue,
            (Some(count), Some(sent)) => format!(
                "\n{from} -> {to}: {} of {} sent {} not accounted for ({}).",
                grouped(count),
                packets(sent),
                if count == 1 { "is" } else { "are" },
                match c.receiver_died {
                    true => "the receiver was killed or failed, and its last figures are missing",
                    false => "the receiver ended before it took them",
                },
            ),
            _ => format!("\n{from} -> {to}: a component died before its last report."),
        };
    }
    notes
}

/// Returns a line for each of the slowest paths, with the place where most of the time goes.
fn path_notes(report: &RunReport) -> String {
    let mut notes = String::new();
    let mut paths: Vec<&PathTimes> = report.paths.iter().filter(|path| path.mean_ns > 0).collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.mean_ns));
    for path in paths.iter().take(PATHS_MAX) {
        let PathPart { part, at, mean_ns } = &path.largest;
        let verb = match &**part {
            "queued" => "queued at",
            "transfer" => "of transfer to",
            _ => "in",
        };
        let ns = |ns: u64| time(Some(ns));
        notes += &format!(
            "\n{} to {}, on average about {}: {} of transfer, {} queued, {} in components; most of it, {}, {verb} {at}.",
            path.from(),
            path.to(),
            ns(path.mean_ns),
            ns(path.transfer_ns),
            ns(path.queued_ns),
            ns(path.service_ns),
            ns(*mean_ns),
        );
    }
    if let Some(more) = paths.len().checked_sub(PATHS_MAX).filter(|more| *more > 0) {
        notes += &format!(
            "\n{} to other sinks are quicker: see `paths` in the JSON.",
            counted(more as u64, "path")
        );
    }
    notes
}

/// Returns a line on a source that missed its schedule, with the receiver that is the reason.
fn pace_note(component: &ComponentResult, duration_s: f64) -> Option<String> {
    let pace = component.pace.as_ref().filter(|pace| pace.is_behind(duration_s))?;
    let (rate, achieved) = (quantity(pace.rate, "sample/s"), quantity(pace.achieved_rate, "sample/s"));
    let seconds = |seconds: f64| time(Some((seconds * 1e9) as u64));
    // The same rule applies to the delay that remains at the end.
    let has_caught_up = !PaceResult { behind_max_s: pace.behind_s, ..pace.clone() }.is_behind(duration_s);
    let fact = match has_caught_up {
        true => format!("was up to {} behind its pace of {rate}", seconds(pace.behind_max_s)),
        false => format!("is {} behind its pace: {achieved} of {rate}", seconds(pace.behind_s)),
    };
    let reason = match &pace.held_up_by {
        _ if pace.starved_by.is_some() => format!(
            "`{}` spins on its processor at a real-time priority, and leaves it no time",
            pace.starved_by.as_deref().unwrap_or_default()
        ),
        None => "no receiver was found that held it up".into(),
        Some(held) => {
            let of_time = |share: f64| format!("for {:.0} % of the time", share * 100.0);
            // A connection that waits for the acknowledgement of each packet fills no queue.
            let unacknowledged = held.unacknowledged.unwrap_or(0.0);
            let wait =
                held.full.filter(|share| *share > 0.0).map(|share| match unacknowledged * 2.0 >= share {
                    true => format!("its sender waited {} for the receiver to acknowledge", of_time(share)),
                    false => format!("its queue was full {}", of_time(share)),
                });
            let service =
                held.service_mean_ns.map(|ns| format!("a packet takes {}", time(Some(ns.round() as u64))));
            let facts: Vec<String> = [wait, service].into_iter().flatten().collect();
            let also = match &held.also[..] {
                [] => String::new(),
                others => format!(", and about as much by {}", others.join(" and ")),
            };
            format!("held up by {} ({}){also}", held.connection, facts.join(", "))
        }
    };
    Some(format!("{} {fact}; {reason}.", component.name))
}

/// Returns the median, or with too few samples the mean, with its name.
fn middle(latency: &LatencyReport) -> String {
    match (latency.p50, latency.mean) {
        (None, Some(mean)) => format!("mean: {}", time(Some(mean))),
        (p50, _) => time(p50),
    }
}

/// Returns the 99th percentile. With too few samples for it, returns a lower percentile with its
/// name.
fn tail(latency: &LatencyReport) -> String {
    let LatencyReport { p75, p90, p99, .. } = *latency;
    match (p99, p90, p75) {
        (None, Some(p90), _) => format!("p90: {}", time(Some(p90))),
        (None, None, Some(p75)) => format!("p75: {}", time(Some(p75))),
        _ => time(p99),
    }
}

/// Returns the first of two exit codes that is not success.
pub(crate) fn worse(a: Exit, b: Exit) -> Exit {
    if a == Exit::Clean { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(connection: &str) -> RunReport {
        let latency = r#"{"p50":1000,"p99":null,"p999":null,"max":9000,"samples":500,"p75":2000}"#;
        let text = format!(
            r#"{{"waveform":"w","duration_s":1.0,"failure":null,"stopped":null,"components":[],
            "connections":[{{"from":"a.out","to":"b.in","transport":"shm","payload":"f32","packets":499,
            "bytes":1,"bytes_per_s":1.0,"lost":0,"lost_samples":0,"gaps":0,"reordered":0,"peer_deaths":0,
            "latency_ns":{latency},"queued_ns":{latency},"service_ns":{latency},{connection}}}]}}"#
        );
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn what_is_not_accounted_for_has_its_reason() {
        let partial = r#""sent":500,"unaccounted":1,"statistics":"partial""#;
        let ended = summary(&report(partial));
        assert!(ended.contains("1 of 500 packets sent is not accounted for (the receiver ended"), "{ended}");
        let died = summary(&report(&format!(r#"{partial},"receiver_died":true"#)));
        assert!(died.contains("not accounted for (the receiver was killed"), "{died}");
    }

    #[test]
    fn the_largest_age_is_shown_with_its_error() {
        let text = |age: &str| summary(&report(&format!(r#"{age}"sent":499,"statistics":"complete""#)));
        assert!(!text("").contains("AGE"));
        let aged = text(r#""age":{"samples":9,"last_ns":-7,"max_ns":-12300},"#);
        assert!(aged.contains("AGE MAX") && aged.contains("-12.3 µs ± ?"), "{aged}");
        let days = text(
            r#""age":{"samples":9,"last_ns":1,"max_ns":172800000000000,"clock":{"reference":"ptp","error_ns":5}},"#,
        );
        assert!(days.contains("2.00 d ± 5 ns"), "{days}");
    }

    #[test]
    fn restarts_are_counted_with_the_last_reason() {
        let mut all = report(r#""sent":499,"unaccounted":0,"statistics":"complete""#);
        let component = r#"{"name":"a","type":"t","placement":"process","outcome":"ended""#;
        let text = format!(
            r#"[{component},"restarts":2,"last_restart":"failed: no\nantenna"}},{component},"restarts":0}}]"#
        );
        all.components = serde_json::from_str(&text).unwrap();
        let text = summary(&all);
        assert!(
            text.contains("a was started again 2 times; the last time: failed: no\\u{a}antenna."),
            "{text}"
        );
        assert_eq!(text.matches("started again").count(), 1, "{text}");
    }

    #[test]
    fn a_source_behind_its_pace_has_a_line_with_the_reason() {
        let mut all = report(r#""sent":499,"unaccounted":0,"statistics":"complete""#);
        let mut with = |pace: &str| {
            let text = format!(
                r#"[{{"name":"a","type":"t","placement":"process","restarts":0,"outcome":"ended","pace":{pace}}}]"#
            );
            all.components = serde_json::from_str(&text).unwrap();
            summary(&all).replace("\n  ", " ")
        };
        let held = r#""held_up_by":{"connection":"a.out -> b.in","full":0.949,"service_mean_ns":1234567.8}"#;
        let late = r#""rate":2e6,"achieved_rate":1e6,"behind_s":0.5,"behind_max_s":0.5"#;
        let text = with(&format!("{{{late},{held}}}"));
        let line = "a is 500 ms behind its pace: 1.00 Msample/s of 2.00 Msample/s; held up by a.out -> b.in (its \
                    queue was full for 95 % of the time, a packet takes 1.23 ms).";
        assert!(text.contains(line), "{text}");
        let also = held.replace("0.949,", "0.949,\"also\":[\"b.out -> c.in\"],");
        let text = with(&format!("{{{late},{also}}}"));
        assert!(text.contains("a packet takes 1.23 ms), and about as much by b.out -> c.in."), "{text}");
        let waited = held.replace("0.949,", "0.949,\"unacknowledged\":0.9,");
        let text = with(&format!("{{{late},{waited}}}"));
        let line = "held up by a.out -> b.in (its sender waited for 95 % of the time for the receiver to \
                    acknowledge, a packet takes 1.23 ms).";
        assert!(text.contains(line), "{text}");
        let text = with(&format!("{{{late}}}"));
        assert!(text.contains("no receiver was found that held it up"), "{text}");
        let text = with(&format!("{{{late},\"starved_by\":\"sink\"}}"));
        assert!(text.contains("`sink` spins on its processor at a real-time priority"), "{text}");
        let text = with(&format!(
            "{{{}}}",
            late.replace("_s\":0.5", "_s\":0.0").replace("max_s\":0.0", "max_s\":3.0")
        ));
        assert!(text.contains("a was up to 3.00 s behind its pace of 2.00 Msample/s; "), "{text}");
        let text = with(r#"{"rate":2e6,"achieved_rate":1.99e6,"behind_s":0.05,"behind_max_s":0.09}"#);
        assert!(!text.contains("behind"), "{text}");
    }

    #[test]
    fn a_transport_that_auto_took_by_name_has_its_reason() {
        let mut all = report(r#""sent":499,"unaccounted":0,"statistics":"complete""#);
        assert!(!summary(&all).contains("auto took"), "{}", summary(&all));
        all.connections[0].transport = "tcp".into();
        all.connections[0].passed_over = Some("shm: it is not in `b`".into());
        let expected = "a.out -> b.in: auto took tcp (shm: it is not in `b`).";
        assert!(summary(&all).contains(expected), "{}", summary(&all));
        all.connections[0].chosen_by = ChosenBy::File;
        assert!(!summary(&all).contains("auto took"), "{}", summary(&all));
    }

    #[test]
    fn a_short_run_has_means() {
        let times = |max: u64, mean: u64| LatencyReport {
            max: Some(max),
            mean: Some(mean),
            samples: 9,
            ..LatencyReport::default()
        };
        let mut all = report(r#""sent":499,"unaccounted":0,"statistics":"complete""#);
        let one = &mut all.connections[0];
        (one.latency_ns, one.queued_ns, one.service_ns) = (times(9, 4000), times(0, 0), times(9, 5000));
        let text = summary(&all);
        assert!(text.contains("mean: 4.00 µs") && text.contains("mean: 5.00 µs"), "{text}");
        assert_eq!(text.matches("mean: ").count(), 3, "{text}");
        assert!(text.contains("mean: 0 ns"), "{text}");
    }

    #[test]
    fn the_slowest_paths_are_named_with_their_largest_part() {
        let mut all = report(r#""sent":499,"unaccounted":0,"statistics":"complete""#);
        let path = |sink: &str, mean: u64| {
            format!(
                r#"{{"connections":["a.out -> b.in","b.out -> {sink}.in"],"mean_ns":{mean},"transfer_ns":61000,
                "queued_ns":4200000,"service_ns":1050000,
                "largest":{{"part":"queued","at":"b.in","mean_ns":4190000}}}}"#
            )
        };
        let paths: Vec<String> = (0..6).map(|sink| path(&format!("s{sink}"), 5_311_000 + sink)).collect();
        all.paths = serde_json::from_str(&format!("[{}]", paths.join(","))).unwrap();
        let text = summary(&all).replace("\n  ", " ");
        let line = "a to s5, on average about 5.31 ms: 61.0 µs of transfer, 4.20 ms queued, 1.05 ms in components; \
                    most of it, 4.19 ms, queued at b.in.";
        assert!(text.contains(line), "{text}");
        assert!(!text.contains("a to s1,") && text.contains("2 paths to other sinks are quicker"), "{text}");
    }

    #[test]
    fn a_coarser_percentile_stands_in_for_one_with_too_few_samples() {
        let mut all = report(r#""sent":499,"unaccounted":0,"statistics":"complete""#);
        assert!(summary(&all).contains("p75: 2.0"), "{}", summary(&all));
        all.connections[0].latency_ns.p90 = Some(3000);
        assert!(summary(&all).contains("p90: 3.0"), "{}", summary(&all));
        all.connections[0].latency_ns.p99 = Some(4000);
        assert!(!summary(&all).contains("p90"), "{}", summary(&all));
    }
}
