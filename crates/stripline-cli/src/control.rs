//! `stripline ls`, `get`, `set`, `test` and `stop`: asking a running waveform.

use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use stripline::component::Access;
use stripline::waveform::control::{
    self, Client, ComponentChange, ControlError, NewValue, PropertyReading, RunningWaveform, Stopped, Taken,
    TestRun,
};

use crate::Exit;
use crate::arguments::{GetArguments, LsArguments, SetArguments, StopArguments, TestArguments, Which};
use crate::format::{grouped, printable};
use crate::run::{summary, worse};
use crate::show::print;

/// The longest text of a component that is shown, in characters.
const TEXT_MAX: usize = 300;
/// The longest name or value in a table.
const CELL_MAX: usize = 60;

pub(crate) fn ls(arguments: &LsArguments) -> Exit {
    let mut found = match control::running() {
        Ok(found) => found,
        Err(error) => return complain_of(&error.into()),
    };
    for (_, problem) in &found.problems {
        complain!("warning: {}", printable(problem, TEXT_MAX));
    }
    if let Some(name) = &arguments.waveform {
        found.waveforms.retain(|waveform| waveform.name == *name);
        if found.waveforms.is_empty() {
            return match Client::find(name, None) {
                Err(error) => complain_of(&error),
                Ok(_) => Exit::Failure,
            };
        }
    }
    if arguments.json {
        return print_json(&found);
    }
    if found.waveforms.is_empty() {
        return print("No waveform of this user is running.\n");
    }
    let mut text = waveforms(&found.waveforms);
    if arguments.waveform.is_some() {
        found.waveforms.iter().for_each(|waveform| text += &components(waveform));
    }
    print(&text)
}

pub(crate) fn get(arguments: &GetArguments) -> Exit {
    let (component, property) = match arguments.what.as_deref().map(|what| (what, what.split_once('.'))) {
        None => (None, None),
        Some((component, None)) => (Some(component), None),
        Some((_, Some((component, property)))) => (Some(component), Some(property)),
    };
    let found = find(&arguments.which).and_then(|client| client.get(component, property));
    let readings = match found {
        Ok(readings) => readings,
        Err(error) => return complain_of(&error),
    };
    let exit = if arguments.json {
        print_json(&readings)
    } else if let (Some(_), [reading]) = (property, &readings[..]) {
        // Nothing else, for a script; what is to be said besides is said on standard error.
        reading
            .value
            .as_ref()
            .map_or(Exit::Clean, |value| print(&format!("{}\n", printable(&value.to_string(), 1 << 16))))
    } else if readings.is_empty() {
        print("It has no properties.\n")
    } else {
        print(&table_of(&readings))
    };
    let mut unknown = Vec::new();
    for reading in &readings {
        let place = format!("{}.{}", reading.component, reading.property);
        if let Some(waiting) = reading.waiting.as_ref().filter(|_| property.is_some()) {
            let waiting = printable(&waiting.to_string(), TEXT_MAX);
            complain!("warning: {place} was set to {waiting}, which the component has not taken yet");
        }
        if let (None, Some(problem)) = (&reading.value, &reading.problem) {
            // Once for each component, as the reason is.
            if !unknown.contains(&(&reading.component, problem)) {
                complain!("error: {place} is not known: {}", printable(problem, TEXT_MAX));
                unknown.push((&reading.component, problem));
            }
        }
    }
    worse(exit, if unknown.is_empty() { Exit::Clean } else { Exit::Failure })
}

pub(crate) fn set(arguments: &SetArguments) -> Exit {
    let timeout = Duration::from_secs_f64(arguments.timeout);
    let changes = match find(&arguments.which).and_then(|client| client.set(&arguments.settings, timeout)) {
        Ok(changes) => changes,
        Err(error) => return complain_of(&error),
    };
    let mut exit = Exit::Clean;
    if arguments.json {
        exit = print_json(&changes);
    }
    for change in &changes {
        if change.taken == Taken::Applied && !arguments.json {
            let line = |(name, new): (&String, &NewValue)| {
                format!("{}.{}\n", change.component, new_value(name, new))
            };
            exit = worse(exit, print(&change.values.iter().map(line).collect::<String>()));
        } else if change.taken != Taken::Applied {
            complain!("error: {}", not_taken(change));
            exit = Exit::Failure;
        }
    }
    exit
}

pub(crate) fn test(arguments: &TestArguments) -> Exit {
    let timeout = Duration::from_secs_f64(arguments.timeout);
    let found = find(&arguments.which)
        .and_then(|client| client.test(&arguments.component, &arguments.tests, timeout));
    let runs = match found {
        Ok(runs) => runs,
        Err(error) => return complain_of(&error),
    };
    let exit = if arguments.json { print_json(&runs) } else { print(&results(&runs)) };
    for run in &runs {
        if let Some(problem) = &run.problem {
            complain!("error: {}.{} was not run: {}", run.component, run.test, printable(problem, TEXT_MAX));
        }
    }
    let passed = |run: &TestRun| run.result.as_ref().is_some_and(|result| result.passed);
    worse(exit, if runs.iter().all(passed) { Exit::Clean } else { Exit::Failure })
}

pub(crate) fn stop(arguments: &StopArguments) -> Exit {
    let client = match find(&arguments.which) {
        Ok(client) => client,
        Err(error) => return complain_of(&error),
    };
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let what = arguments.component.as_deref().unwrap_or(client.name());
    bar.set_message(format!("stopping {what}"));
    if bar.is_hidden() && !arguments.json {
        complain!("stopping {what}");
    }
    let stopped = client.stop(arguments.component.as_deref(), arguments.now, &mut |waveform| {
        bar.set_message(progress(what, waveform));
        bar.tick();
    });
    bar.finish_and_clear();
    let stopped = match stopped {
        Ok(stopped) => stopped,
        Err(error) => return complain_of(&error),
    };
    let exit = match &stopped {
        _ if arguments.json => print_json(&stopped),
        Stopped::Waveform(report) if report.duration_s > 0.0 => print(&summary(report)),
        Stopped::Waveform(report) => print(&format!("{} was stopped before it ran\n", report.waveform)),
        Stopped::Component { component, state } => print(&format!("{component} has {state}\n")),
    };
    let failure = match &stopped {
        Stopped::Waveform(report) => report.failure.clone(),
        Stopped::Component { component, state } => {
            (state != "ended").then(|| format!("component {component} has {state}"))
        }
    };
    match failure {
        // What was asked for is no failure of the asking.
        Some(_) if arguments.now => exit,
        Some(failure) => {
            complain!(
                "error: {}",
                failure.lines().map(|l| printable(l, TEXT_MAX)).collect::<Vec<_>>().join("\n")
            );
            Exit::Failure
        }
        None => exit,
    }
}

/// `deviation = 5000 Hz (was 75000)`.
pub(crate) fn new_value(name: &str, new: &NewValue) -> String {
    let text = |value: &stripline::component::Value| printable(&value.to_string(), TEXT_MAX);
    let unit =
        if new.unit.is_empty() { String::new() } else { format!(" {}", printable(&new.unit, CELL_MAX)) };
    format!("{name} = {}{unit} (was {})", text(&new.value), text(&new.before))
}

fn find(which: &Which) -> Result<Client, ControlError> {
    Client::find(&which.waveform, which.pid)
}

fn complain_of(error: &ControlError) -> Exit {
    for line in error.to_string().lines() {
        complain!("error: {}", printable(line, 1000));
    }
    if error.is_wrong() { Exit::Usage } else { Exit::Failure }
}

fn print_json(value: &impl Serialize) -> Exit {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&(text + "\n")),
        Err(error) => {
            complain!("error: the answer does not serialise: {error}");
            Exit::Failure
        }
    }
}

fn not_taken(change: &ComponentChange) -> String {
    let values = change.values.iter().map(|(name, new)| {
        format!("{}.{name} = {}", change.component, printable(&new.value.to_string(), CELL_MAX))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let reason = printable(&change.reason, TEXT_MAX);
    match change.taken {
        Taken::Applied => values,
        Taken::NotYet => {
            format!("{values}: not applied yet: {reason}; it is applied when the component looks")
        }
        Taken::Refused => format!("{values}: refused: {reason}"),
        Taken::Ended => format!("{values}: not applied: {reason}"),
    }
}

fn progress(what: &str, waveform: &RunningWaveform) -> String {
    let ended = |state: &str| matches!(state, "ended" | "failed");
    let left: Vec<&str> =
        waveform.components.iter().filter(|c| !ended(&c.state)).map(|c| c.name.as_str()).collect();
    let count = waveform.components.len();
    let first = left.iter().take(5).map(|name| printable(name, CELL_MAX)).collect::<Vec<_>>().join(", ");
    format!(
        "stopping {what}: {} of {count} components ended; {} packets{}",
        count - left.len(),
        grouped(waveform.packets),
        if left.is_empty() { String::new() } else { format!("; still running: {first}") },
    )
}

fn table(header: &[&str], rows: Vec<Vec<String>>, right: &[usize]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|cell| if cell.is_empty() { "-" } else { cell }));
    }
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

fn waveforms(list: &[RunningWaveform]) -> String {
    let row = |waveform: &RunningWaveform| {
        let ended = waveform.components.iter().filter(|c| matches!(&*c.state, "ended" | "failed")).count();
        vec![
            printable(&waveform.name, CELL_MAX),
            waveform.pid.to_string(),
            waveform.phase.to_string(),
            format!("{:.1} s", waveform.elapsed_s),
            format!("{} of {} ended", ended, waveform.components.len()),
            grouped(waveform.packets),
            grouped(waveform.lost),
            printable(&waveform.file, TEXT_MAX),
        ]
    };
    let header = ["NAME", "PID", "STATE", "TIME", "COMPONENTS", "PACKETS", "LOST", "FILE"];
    table(&header, list.iter().map(row).collect(), &[1, 3, 4, 5, 6])
}

fn components(waveform: &RunningWaveform) -> String {
    let row = |component: &control::RunningComponent| {
        vec![
            printable(&component.name, CELL_MAX),
            printable(&component.type_name, CELL_MAX),
            format!("{:?}", component.placement).to_lowercase(),
            component.pid.map_or(String::new(), |pid| pid.to_string()),
            printable(&component.state, CELL_MAX),
            component.restarts.to_string(),
            printable(&component.tests.join(", "), TEXT_MAX),
        ]
    };
    let header = ["COMPONENT", "TYPE", "PLACEMENT", "PID", "STATE", "RESTARTS", "SELF-TESTS"];
    format!("\n{}", table(&header, waveform.components.iter().map(row).collect(), &[3, 5]))
}

fn table_of(readings: &[PropertyReading]) -> String {
    let row = |reading: &PropertyReading| {
        let mut value = match &reading.value {
            Some(value) if value.to_string().is_empty() => "\"\"".into(),
            Some(value) => printable(&value.to_string(), CELL_MAX),
            None => "?".into(),
        };
        if let Some(waiting) = &reading.waiting {
            value += &format!(" ({} not applied yet)", printable(&waiting.to_string(), CELL_MAX));
        } else if reading.changed {
            value += " (changed)";
        }
        vec![
            printable(&format!("{}.{}", reading.component, reading.property), 2 * CELL_MAX),
            value,
            printable(&reading.unit, CELL_MAX),
            match reading.access {
                Access::Fixed => "at start".into(),
                Access::Changeable => "any time".into(),
                Access::ReadOnly => "read-only".into(),
            },
            printable(&reading.allowed, CELL_MAX),
            printable(&reading.summary, CELL_MAX),
        ]
    };
    let header = ["PROPERTY", "VALUE", "UNIT", "SET", "ALLOWED", "WHAT IT IS"];
    table(&header, readings.iter().map(row).collect(), &[])
}

fn results(runs: &[TestRun]) -> String {
    let row = |run: &TestRun| {
        let (verdict, value, text) = match &run.result {
            Some(result) => {
                let value =
                    result.value.as_ref().map_or(String::new(), |v| printable(&v.to_string(), CELL_MAX));
                (if result.passed { "passed" } else { "FAILED" }, value, printable(&result.text, TEXT_MAX))
            }
            None => ("not run", String::new(), String::new()),
        };
        let name = printable(&format!("{}.{}", run.component, run.test), 2 * CELL_MAX);
        vec![name, verdict.into(), value, text, printable(&run.summary, TEXT_MAX)]
    };
    let header = ["SELF-TEST", "VERDICT", "VALUE", "RESULT", "WHAT IT FINDS OUT"];
    table(&header, runs.iter().map(row).collect(), &[2])
}
