//! `stripline waveforms`, `get`, `set`, `test` and `stop`: requests to a running waveform.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stripline::component::{Access, Value};
use stripline::internal::process;
use stripline_waveform::RunReport;
use stripline_waveform::control::{
    self, ChangeState, ComponentChange, ControlClient, ControlError, NewValue, PropertyReading, RunPhase,
    Running, RunningComponent, RunningWaveform, Setting, Stopped, TestRun,
};

use crate::Exit;
use crate::arguments::{
    GetArguments, SetArguments, StopArguments, TestArguments, WaitArguments, WaveformsArguments, Which,
};
use crate::failure::{Failure, Outcome};
use crate::format::{cell_max, counted, grouped, packets, printable, time};
use crate::run::{summary, worse};
use crate::show::print;
use crate::table::{Cell, Table, Tone};

/// The longest text of a component to print, in characters.
const TEXT_MAX: usize = 300;
/// The longest name or value in a line of standard error.
const WORD_MAX: usize = 60;
/// The interval between two searches for a waveform that is awaited.
const WAIT_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn waveforms(arguments: &WaveformsArguments) -> Outcome {
    let mut found = listed()?;
    if let Some(pid) = arguments.pid {
        found.waveforms.retain(|waveform| waveform.pid == pid);
        if found.waveforms.is_empty() && arguments.waveform.is_none() {
            return Err(Failure::usage(no_such_process(pid)));
        }
    }
    if let Some(name) = &arguments.waveform {
        found.waveforms.retain(|waveform| waveform.name == *name);
        if found.waveforms.is_empty() {
            return ControlClient::find(name, arguments.pid).map(|_| Exit::Failure).map_err(Failure::from);
        }
    }
    if arguments.json {
        return Ok(print_json(&found));
    }
    if found.waveforms.is_empty() {
        return Ok(print("No waveform of this user is running.\n"));
    }
    let mut text = waveform_table(&found.waveforms);
    if arguments.waveform.is_some() || arguments.pid.is_some() {
        let several = found.waveforms.len() > 1;
        for waveform in &found.waveforms {
            // Several waveforms of one name are distinguished by their process numbers.
            if several {
                text += &format!("\n{} in process {}", printable(&waveform.name, cell_max()), waveform.pid);
            }
            text += &component_table(waveform);
        }
    }
    let exit = print(&text);
    for waveform in &found.waveforms {
        let halted = waveform.components.iter().filter(|c| c.state == RunningComponent::SUSPENDED);
        let pids: BTreeSet<u32> = halted.filter_map(|component| component.pid).collect();
        for pid in pids {
            let name = printable(&waveform.name, WORD_MAX);
            report!("warning: {name}: process {pid} is suspended; `kill -CONT {pid}` resumes it");
        }
    }
    Ok(exit)
}

/// Returns the running waveforms, and prints a warning for each launcher that does not answer.
pub(crate) fn listed() -> Result<Running, Failure> {
    let found = control::running()?;
    for (_, problem) in &found.problems {
        report!("warning: {}", printable(problem, TEXT_MAX));
    }
    Ok(found)
}

pub(crate) fn get(arguments: &GetArguments) -> Outcome {
    let (client, first) = awaited(&arguments.which, &arguments.wait, true)?;
    let what = taken(first, arguments.what.as_deref().into_iter().collect(), 1)?.first().copied();
    let (component, property) = match what.map(|what| (what, what.split_once('.'))) {
        None => (None, None),
        Some((component, None)) => (Some(component), None),
        Some((_, Some((component, property)))) => (Some(component), Some(property)),
    };
    let readings = client.get(component, property)?;
    let exit = if arguments.json {
        print_json(&readings)
    } else if let (Some(_), [reading]) = (property, &readings[..]) {
        // Standard output has only the value, for scripts. Remarks go to standard error.
        reading
            .value
            .as_ref()
            .map_or(Exit::Clean, |value| print(&format!("{}\n", printable(&value.to_string(), 1 << 16))))
    } else if readings.is_empty() {
        print("There are no properties.\n")
    } else {
        print(&table_of(&readings))
    };
    let mut unknown = Vec::new();
    for reading in &readings {
        let place = format!("{}.{}", reading.component, reading.property);
        if let Some(waiting) = reading.waiting.as_ref().filter(|_| property.is_some()) {
            let waiting = printable(&waiting.to_string(), TEXT_MAX);
            report!("warning: {place} was set to {waiting}, which the component has not applied yet");
        }
        if let (None, Some(problem)) = (&reading.value, &reading.problem) {
            // A component's reason is printed once, not for each property.
            if !unknown.contains(&(&reading.component, problem)) {
                report!("error: {place} is unavailable: {}", printable(problem, TEXT_MAX));
                unknown.push((&reading.component, problem));
            }
        }
    }
    Ok(worse(exit, if unknown.is_empty() { Exit::Clean } else { Exit::Failure }))
}

pub(crate) fn set(arguments: &SetArguments) -> Outcome {
    let (client, first) = awaited(&arguments.which, &arguments.wait, true)?;
    let mut settings = arguments.settings.clone();
    match first.map(|first| (first, first.parse::<Setting>())) {
        None => {}
        Some((_, Ok(setting))) => settings.insert(0, setting),
        Some((first, Err(problem))) => {
            let (first, name) = (printable(first, WORD_MAX), client.name());
            return Err(Failure::usage(format!(
                "`{first}` is neither the waveform {name} nor a setting: {problem}"
            )));
        }
    }
    if settings.is_empty() {
        return Err(Failure::usage("name the properties to set, as in filter.high=6e3"));
    }
    let changes = set_or_interrupted(client, arguments, &settings).ok_or(Exit::Failure)??;
    let mut exit = Exit::Clean;
    if arguments.json {
        exit = print_json(&changes);
    }
    for change in &changes {
        if change.taken == ChangeState::Applied && !arguments.json {
            let line = |(name, new): (&String, &NewValue)| {
                format!("{}.{}\n", change.component, new_value(name, new))
            };
            exit = worse(exit, print(&change.values.iter().map(line).collect::<String>()));
        } else if change.taken != ChangeState::Applied {
            report!("error: {}", not_taken(change));
            exit = Exit::Failure;
        }
    }
    Ok(exit)
}

/// Sets the properties and returns the outcome. `None`: Ctrl-C came first, and the message is
/// printed.
fn set_or_interrupted(
    client: ControlClient,
    arguments: &SetArguments,
    settings: &[Setting],
) -> Option<Result<Vec<ComponentChange>, ControlError>> {
    let timeout = Duration::from_secs_f64(arguments.timeout);
    // Without these handlers, Ctrl-C ends this program as usual.
    let Ok(mut signals) = Signals::new(process::not_ignored(&[SIGINT, SIGTERM])) else {
        return Some(client.set(settings, timeout));
    };
    let (done, what) = mpsc::channel();
    let (asking, asked, interrupted) = (client.clone(), settings.to_vec(), done.clone());
    let set = move || done.send(Some(asking.set(&asked, timeout)));
    if std::thread::Builder::new().spawn(set).is_err() {
        return Some(client.set(settings, timeout));
    }
    // Without this thread, the time limit alone ends the wait.
    let _ =
        std::thread::Builder::new().spawn(move || signals.forever().next().map(|_| interrupted.send(None)));
    let outcome = what.recv().ok().flatten();
    if outcome.is_none() {
        let pid = arguments.which.pid.map_or(String::new(), |pid| format!(" --pid {pid}"));
        settings.iter().for_each(|setting| report_interrupted(&client, &pid, setting));
    }
    outcome
}

/// Reports a setting with an unknown outcome. The setting was passed on to the component and may
/// still be applied.
fn report_interrupted(client: &ControlClient, pid: &str, setting: &Setting) {
    let Setting { component, property, .. } = setting;
    let (name, place) = (client.name(), format!("{component}.{property}"));
    let value = |value: &Value| printable(&value.to_string(), WORD_MAX);
    let reading = client.get(Some(component), Some(property)).ok().and_then(|mut list| list.pop());
    match reading.as_ref().map(|reading| (&reading.waiting, &reading.value)) {
        Some((Some(waiting), now)) => {
            let now = now.as_ref().map_or("?".into(), value);
            report!(
                "interrupted: {place} = {} is not applied yet; it will be when the component checks for requests; to \
                 undo it: stripline set {name}{pid} {place}={now}",
                value(waiting)
            );
        }
        Some((None, Some(now))) => report!("interrupted: {place} is {} now", value(now)),
        _ => report!("interrupted: `stripline get {name}{pid} {place}` shows whether it was set"),
    }
}

pub(crate) fn test(arguments: &TestArguments) -> Outcome {
    let timeout = Duration::from_secs_f64(arguments.timeout);
    let (client, first) = awaited(&arguments.which, &arguments.wait, true)?;
    let named = arguments.component.iter().chain(&arguments.tests).map(String::as_str).collect();
    let named = taken(first, named, usize::MAX)?;
    let Some((component, tests)) = named.split_first() else {
        let name = client.name();
        return Err(Failure::usage(format!("name a component; `stripline waveforms {name}` lists them")));
    };
    let tests: Vec<String> = tests.iter().map(ToString::to_string).collect();
    let runs = client.test(component, &tests, timeout)?;
    let exit = if arguments.json { print_json(&runs) } else { print(&results(&runs)) };
    for run in &runs {
        if let Some(problem) = &run.problem {
            report!("error: {}.{} was not run: {}", run.component, run.test, printable(problem, TEXT_MAX));
        }
    }
    let passed = |run: &TestRun| run.result.as_ref().is_some_and(|result| result.passed);
    Ok(worse(exit, if runs.iter().all(passed) { Exit::Clean } else { Exit::Failure }))
}

pub(crate) fn stop(arguments: &StopArguments) -> Outcome {
    let (client, first) = awaited(&arguments.which, &arguments.wait, false)?;
    let component = taken(first, arguments.component.as_deref().into_iter().collect(), 1)?.first().copied();
    if component.is_some() && arguments.now {
        return Err(Failure::usage("--now is for a whole waveform; a component is stopped in order"));
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let what = component.unwrap_or(client.name());
    bar.set_message(format!("stopping {what}"));
    if bar.is_hidden() && !arguments.json {
        report!("stopping {what}");
    }
    let stopped = client.stop(component, arguments.now, &mut |waveform| {
        bar.set_message(progress(what, waveform));
        bar.tick();
    });
    bar.finish_and_clear();
    let stopped = stopped?;
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
        // The user asked for this end, so it is not a failure.
        Some(failure) if arguments.now && failure == RunReport::ENDED_NOW => {
            report!("{failure}");
            Ok(exit)
        }
        Some(failure) => {
            let lines: Vec<String> = failure.lines().map(|line| printable(line, TEXT_MAX)).collect();
            report!("error: {}", lines.join("\n"));
            Ok(Exit::Failure)
        }
        None => Ok(exit),
    }
}

/// Formats a change, as `deviation = 5000 Hz (was 75000)`.
pub(crate) fn new_value(name: &str, new: &NewValue) -> String {
    let text = |value: &Value| printable(&value.to_string(), TEXT_MAX);
    let unit =
        if new.unit.is_empty() { String::new() } else { format!(" {}", printable(&new.unit, WORD_MAX)) };
    format!("{name} = {}{unit} (was {})", text(&new.value), text(&new.before))
}

/// Finds the waveform as [`find`] does. With `--wait`, first waits until it is there and, if the
/// command needs the components (`to_run`), until they run.
fn awaited<'a>(
    which: &'a Which,
    wait: &WaitArguments,
    to_run: bool,
) -> Result<(ControlClient, Option<&'a str>), Failure> {
    let deadline = wait.wait.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let (mut launcher, mut is_absent) = (None, false);
    while let Some(deadline) = deadline {
        let is_meant = |it: &RunningWaveform| match which.pid {
            Some(pid) => it.pid == pid,
            None => which.waveform.as_ref() == Some(&it.name),
        };
        let is_late = Instant::now() >= deadline;
        match control::running()?.waveforms.into_iter().find(is_meant) {
            Some(waveform) if to_run && waveform.phase == RunPhase::Starting => {
                if is_late {
                    return Err(Failure::new(waveform.starting()));
                }
                launcher = Some(waveform.pid);
            }
            // A waveform that had been found may have failed.
            None if !is_late && launcher.is_none_or(is_alive) => {}
            found => {
                is_absent = is_late && found.is_none();
                break;
            }
        }
        std::thread::sleep(WAIT_INTERVAL);
    }
    let found = find(which);
    if let (Err(_), Some(seconds), true) = (&found, wait.wait, is_absent) {
        report!("it has not started within {seconds} s");
    }
    found
}

fn is_alive(pid: u32) -> bool {
    !matches!(process::state_and_parent(pid).0, None | Some('Z' | 'X'))
}

/// Finds the waveform. With `--pid`, the waveform's name may be left out. Then the first argument
/// belongs to the command, and is returned.
pub(crate) fn find(which: &Which) -> Result<(ControlClient, Option<&str>), Failure> {
    let first = which.waveform.as_deref();
    let (name, rest) = match (which.pid, first) {
        (None, first) => (first.unwrap_or_default().to_string(), None),
        (Some(pid), first) => {
            let running = control::running()?;
            let mut names = running.waveforms.into_iter().filter(|waveform| waveform.pid == pid);
            match (names.next(), first) {
                (Some(found), Some(first)) if found.name != first => (found.name, Some(first)),
                (Some(found), _) => (found.name, None),
                // The process may be suspended. A search by the waveform's name reports the reason.
                (None, Some(first)) => (first.to_string(), None),
                (None, None) => {
                    let silent = running.problems.iter().find(|(silent_pid, _)| *silent_pid == pid);
                    return Err(match silent {
                        Some((_, why)) => Failure::new(why),
                        None => Failure::usage(no_such_process(pid)),
                    });
                }
            }
        }
    };
    Ok((ControlClient::find(&name, which.pid)?, rest))
}

/// Returns the arguments of the command, with the first argument if it was not a waveform's name.
pub(crate) fn taken<'a>(
    first: Option<&'a str>,
    others: Vec<&'a str>,
    max: usize,
) -> Result<Vec<&'a str>, Failure> {
    let all: Vec<&str> = first.into_iter().chain(others).collect();
    match (all.get(max), first) {
        (Some(_), Some(first)) => Err(Failure::usage(format!(
            "the waveform of that process is not `{}`; leave the name out, or correct it",
            printable(first, WORD_MAX)
        ))),
        _ => Ok(all),
    }
}

fn no_such_process(pid: u32) -> String {
    format!("no waveform of this user runs in process {pid}; `stripline waveforms` lists them")
}

pub(crate) fn print_json(value: &impl Serialize) -> Exit {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&(text + "\n")),
        Err(error) => {
            report!("error: the result does not serialise: {error}");
            Exit::Failure
        }
    }
}

pub(crate) fn not_taken(change: &ComponentChange) -> String {
    let values = change.values.iter().map(|(name, new)| {
        format!("{}.{name} = {}", change.component, printable(&new.value.to_string(), WORD_MAX))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let reason = printable(&change.reason, TEXT_MAX);
    match change.taken {
        ChangeState::Applied => values,
        ChangeState::NotYet => {
            format!(
                "{values}: not applied yet: {reason}; it is applied when the component checks for requests"
            )
        }
        ChangeState::Refused => format!("{values}: refused: {reason}"),
        ChangeState::Ended => format!("{values}: not applied: {reason}"),
    }
}

fn progress(what: &str, waveform: &RunningWaveform) -> String {
    let ended = |state: &str| matches!(state, "ended" | "failed");
    let left: Vec<&str> =
        waveform.components.iter().filter(|c| !ended(&c.state)).map(|c| c.name.as_str()).collect();
    let count = waveform.components.len();
    let first = left.iter().take(5).map(|name| printable(name, WORD_MAX)).collect::<Vec<_>>().join(", ");
    format!(
        "stopping {what}: {} of {} ended; {}{}",
        count - left.len(),
        counted(count as u64, "component"),
        packets(waveform.packets),
        if left.is_empty() { String::new() } else { format!("; still running: {first}") },
    )
}

fn waveform_table(list: &[RunningWaveform]) -> String {
    let mut table = Table::new(&["NAME", "PID", "STATE", "TIME", "COMPONENTS", "PACKETS", "LOST", "FILE"])
        .numbers(&["PID", "TIME", "COMPONENTS", "PACKETS", "LOST"])
        .droppable(&["LOST", "FILE", "TIME", "COMPONENTS", "PACKETS"]);
    for waveform in list {
        let ended = waveform.components.iter().filter(|c| matches!(&*c.state, "ended" | "failed")).count();
        table.add::<Cell>([
            printable(&waveform.name, cell_max()).into(),
            waveform.pid.to_string().into(),
            waveform.phase.to_string().into(),
            format!("{:.1} s", waveform.elapsed_s).into(),
            format!("{} of {} ended", ended, waveform.components.len()).into(),
            grouped(waveform.packets).into(),
            Cell::toned(grouped(waveform.lost), Tone::of_losses(waveform.lost)),
            printable(&waveform.file, cell_max().saturating_mul(5)).into(),
        ]);
    }
    table.render()
}

fn component_table(waveform: &RunningWaveform) -> String {
    let mut table = Table::new(&["COMPONENT", "TYPE", "PLACEMENT", "PID", "STATE", "RESTARTS", "SELF-TESTS"])
        .numbers(&["PID", "RESTARTS"])
        .droppable(&["PLACEMENT", "SELF-TESTS", "RESTARTS", "TYPE"]);
    for component in &waveform.components {
        table.add::<Cell>([
            printable(&component.name, cell_max()).into(),
            printable(&component.type_name, cell_max()).into(),
            format!("{:?}", component.placement).to_lowercase().into(),
            component.pid.map_or(String::new(), |pid| pid.to_string()).into(),
            state_of(component),
            restarts(component).into(),
            printable(&component.tests.join(", "), cell_max().saturating_mul(5)).into(),
        ]);
    }
    format!("\n{}", table.render())
}

/// Returns the colour of a component's state.
fn tone_of_state(state: &str) -> Tone {
    match state {
        "failed" => Tone::Bad,
        RunningComponent::SUSPENDED => Tone::Warning,
        "running" => Tone::Good,
        _ => Tone::Plain,
    }
}

/// Returns the state of a component, and how far it is behind its pace.
pub(crate) fn state_of(component: &RunningComponent) -> Cell {
    let state = printable(&component.state, cell_max());
    match component.behind_s {
        Some(behind_s) => {
            let behind = time(Some((behind_s * 1e9) as u64));
            Cell::toned(format!("{state}, {behind} behind"), Tone::Warning)
        }
        None => Cell::toned(state, tone_of_state(&component.state)),
    }
}

/// Returns the number of restarts, and the time until the next one.
pub(crate) fn restarts(component: &control::RunningComponent) -> String {
    match component.next_restart_ms {
        Some(ms) => format!("{}, next in {:.1} s", component.restarts, ms as f64 / 1e3),
        None => component.restarts.to_string(),
    }
}

fn table_of(readings: &[PropertyReading]) -> String {
    let mut table = Table::new(&["PROPERTY", "VALUE", "UNIT", "SET", "ALLOWED", "DESCRIPTION"]).droppable(&[
        "SET",
        "ALLOWED",
        "DESCRIPTION",
        "UNIT",
    ]);
    for reading in readings {
        let mut value = match &reading.value {
            Some(value) if value.to_string().is_empty() => "\"\"".into(),
            Some(value) => printable(&value.to_string(), cell_max()),
            None => "?".into(),
        };
        let mut tone = if reading.value.is_none() { Tone::Bad } else { Tone::Plain };
        if let Some(waiting) = &reading.waiting {
            value += &format!(" ({} not applied yet)", printable(&waiting.to_string(), cell_max()));
            tone = Tone::Warning;
        } else if reading.changed {
            value += " (changed)";
        }
        let access = match reading.access {
            Access::Fixed => "at start",
            Access::Changeable => "any time",
            Access::ReadOnly => "read-only",
        };
        let property = format!("{}.{}", reading.component, reading.property);
        table.add::<Cell>([
            printable(&property, cell_max().saturating_mul(2)).into(),
            Cell::toned(value, tone),
            printable(&reading.unit, cell_max()).into(),
            access.into(),
            printable(&reading.allowed, cell_max()).into(),
            printable(&reading.summary, cell_max()).into(),
        ]);
    }
    table.render()
}

fn results(runs: &[TestRun]) -> String {
    let mut table = Table::new(&["SELF-TEST", "VERDICT", "VALUE", "RESULT", "DESCRIPTION"])
        .numbers(&["VALUE"])
        .droppable(&["DESCRIPTION", "VALUE", "RESULT"]);
    for run in runs {
        let result = run.result.as_ref();
        let value = result.and_then(|result| result.value.as_ref());
        let verdict = match result {
            Some(result) if result.passed => Cell::toned("passed", Tone::Good),
            Some(_) => Cell::toned("FAILED", Tone::Bad),
            None => Cell::toned("not run", Tone::Warning),
        };
        let long = cell_max().saturating_mul(5);
        table.add::<Cell>([
            printable(&format!("{}.{}", run.component, run.test), cell_max().saturating_mul(2)).into(),
            verdict,
            value.map_or(String::new(), |value| printable(&value.to_string(), cell_max())).into(),
            result.map_or(String::new(), |result| printable(&result.text, long)).into(),
            printable(&run.summary, long).into(),
        ]);
    }
    table.render()
}
