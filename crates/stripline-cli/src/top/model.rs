//! The content of the view and the effect of keys, independent of a terminal.

use std::collections::{BTreeMap, VecDeque};

use stripline::component::{Access, Value};
use stripline_waveform::control::{PropertyReading, RunningWaveform, Setting};

use super::keys::Key;
use super::snapshot::Snapshot;
use crate::control::{restarts, state_of};
use crate::format::{age, grouped, packets, printable, quantity, time};
use crate::running::{Busy, Connection, Course, Window};
use crate::table::{Cell, Table, Tone, cut};

/// The number of latencies in a sparkline.
const HISTORY_MAX: usize = 12;
/// The most characters of a name or value.
const CELL_MAX: usize = 40;
/// The most characters of a value that the user types.
const TYPED_MAX: usize = 1000;
const HELP: &str = "q quit  ↑↓ property  ←→ change  Enter type  PgUp PgDn scroll";
const HELP_TYPING: &str = "Enter set  Esc discard  Ctrl-C quit";

/// The state of the view.
pub(super) struct Model {
    /// The waveform's name.
    name: String,
    /// The newest snapshot.
    now: Option<Snapshot>,
    course: Course,
    busy: BTreeMap<String, Window<Busy>>,
    /// The load of one processor by each component, in percent.
    loads: BTreeMap<String, f64>,
    /// Mean latencies between two snapshots, by connection. `None`: no packet was measured.
    history: BTreeMap<String, VecDeque<Option<f64>>>,
    /// The index of the selected property.
    selected: usize,
    /// The value that is being typed.
    typed: Option<String>,
    /// Values that were requested, by component and property. The newest snapshot may not have them
    /// yet.
    requested: BTreeMap<(String, String), String>,
    /// Requests without an outcome.
    outstanding: usize,
    status: (String, Tone),
    /// The reason that there is no new snapshot.
    failure: Option<String>,
    /// The first line that is shown, if not all lines fit.
    first: usize,
    /// Whether the selected line must be among the lines that are shown.
    is_following: bool,
    /// The number of lines shown last time.
    height: usize,
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    Set(Setting),
}

impl Model {
    pub fn new(name: &str) -> Self {
        Self {
            name: cell(name),
            now: None,
            course: Course::default(),
            busy: BTreeMap::new(),
            loads: BTreeMap::new(),
            history: BTreeMap::new(),
            selected: 0,
            typed: None,
            requested: BTreeMap::new(),
            outstanding: 0,
            status: Default::default(),
            failure: None,
            first: 0,
            is_following: false,
            height: 0,
        }
    }

    pub fn add(&mut self, mut snapshot: Snapshot) {
        self.failure = None;
        if self.outstanding == 0 {
            self.requested.clear();
        }
        self.course.add(&mut snapshot.connections, snapshot.time);
        self.loads.clear();
        for (name, busy) in &snapshot.busy {
            // The counter of a restarted process begins at zero.
            let window = self.busy.entry(name.clone()).or_default();
            if let Some((oldest, seconds)) = window.add(snapshot.time, *busy, |last| last.pid == busy.pid) {
                let load = (busy.seconds - oldest.seconds).max(0.0) / seconds * 100.0;
                self.loads.insert(name.clone(), load);
            }
        }
        for name in snapshot.connections.iter().map(Connection::name) {
            self.history.entry(name).or_default();
        }
        for (name, latencies) in &mut self.history {
            let connection = snapshot.connections.iter().find(|connection| connection.name() == *name);
            latencies.push_back(connection.and_then(|connection| connection.rates.latest_latency_ns));
            latencies.drain(..latencies.len().saturating_sub(HISTORY_MAX));
        }
        self.now = Some(snapshot);
        self.selected = self.selected.min(self.changeable().len().saturating_sub(1));
    }

    /// Shows the reason that there is no new snapshot, until there is one.
    pub fn show_problem(&mut self, problem: &str) {
        self.failure = Some(one_line(problem));
    }

    /// Shows a log record.
    pub fn record(&mut self, text: &str) {
        self.status = (one_line(text), Tone::Warning);
    }

    /// Shows the outcome of this number of requests.
    pub fn outcome(&mut self, requests: usize, outcome: Result<String, String>) {
        self.outstanding = self.outstanding.saturating_sub(requests);
        self.status = match outcome {
            Ok(text) => (one_line(&text), Tone::Good),
            Err(text) => (one_line(&text), Tone::Bad),
        };
    }

    /// Handles a key.
    pub fn key(&mut self, key: Key) -> Action {
        match key {
            Key::Interrupt => return Action::Quit,
            _ if self.typed.is_some() => return self.type_key(key),
            Key::Text('q') => return Action::Quit,
            Key::PageUp => self.first = self.first.saturating_sub(self.height.max(1)),
            Key::PageDown => self.first = self.first.saturating_add(self.height.max(1)),
            Key::Escape => self.status = Default::default(),
            Key::Backspace | Key::Text(_) if !matches!(key, Key::Text('+' | '-')) => {}
            _ => {
                let Some(last) = self.changeable().len().checked_sub(1) else {
                    let text = "no property of this waveform can be changed while it runs";
                    self.status = (text.into(), Tone::Plain);
                    return Action::Nothing;
                };
                self.is_following = true;
                match key {
                    Key::Up => self.selected = self.selected.saturating_sub(1),
                    Key::Down => self.selected = last.min(self.selected + 1),
                    Key::Left | Key::Text('-') => return self.step(false),
                    Key::Right | Key::Text('+') => return self.step(true),
                    _ => self.typed = Some(String::new()),
                }
            }
        }
        Action::Nothing
    }

    fn type_key(&mut self, key: Key) -> Action {
        let Some(typed) = &mut self.typed else { return Action::Nothing };
        match key {
            Key::Text(c) if typed.chars().count() < TYPED_MAX => typed.push(c),
            Key::Backspace => drop(typed.pop()),
            Key::Escape => self.typed = None,
            Key::Enter => {
                let value = self.typed.take().unwrap_or_default();
                return self.request(value);
            }
            _ => {}
        }
        Action::Nothing
    }

    /// Requests the next or the previous value of the selected property.
    fn step(&mut self, is_up: bool) -> Action {
        let Some(reading) = self.changeable().get(self.selected).copied() else { return Action::Nothing };
        let requested = self.requested.get(&place(reading));
        let now = requested.cloned().or_else(|| reading.value.as_ref().map(Value::to_string));
        match now
            .zip(reading.value.as_ref())
            .and_then(|(now, kind)| stepped(&now, kind, &reading.allowed, is_up))
        {
            Some(new) => self.request(new),
            None => {
                let text = format!(
                    "{}.{} has no next value: Enter, then type one",
                    reading.component, reading.property
                );
                self.status = (one_line(&text), Tone::Plain);
                Action::Nothing
            }
        }
    }

    fn request(&mut self, value: String) -> Action {
        let Some(place) = self.changeable().get(self.selected).map(|reading| place(reading)) else {
            return Action::Nothing;
        };
        let (component, property) = place.clone();
        self.requested.insert(place, value.clone());
        self.outstanding += 1;
        Action::Set(Setting { component, property, value })
    }

    fn changeable(&self) -> Vec<&PropertyReading> {
        let all = self.now.iter().flat_map(|now| &now.properties);
        all.filter(|reading| reading.access == Access::Changeable).collect()
    }

    /// Returns a line for each row of the terminal, as wide as the terminal.
    pub fn frame(&mut self, (columns, rows): (u16, u16), is_coloured: bool) -> Vec<String> {
        let (width, rows) = (usize::from(columns), usize::from(rows));
        let (mut lines, selected) = self.body(width, is_coloured);
        let foot = self.foot(width, rows, is_coloured);
        self.height = rows - foot.len();
        if let Some(selected) = selected.filter(|_| self.is_following) {
            let least = (selected + 1).saturating_sub(self.height);
            self.first = self.first.clamp(least, selected.max(least));
        }
        self.is_following = false;
        self.first = self.first.min(lines.len().saturating_sub(self.height));
        lines.drain(..self.first);
        lines.resize(self.height, " ".repeat(width));
        lines.extend(foot);
        lines
    }

    /// Returns the status and the help. With a single row, returns the status, or the help if the
    /// status is empty.
    fn foot(&self, width: usize, rows: usize, is_coloured: bool) -> Vec<String> {
        let (status, tone) = match (&self.typed, &self.failure) {
            (Some(typed), _) => {
                let place = self.changeable().get(self.selected).map(|reading| self::place(reading));
                let (component, property) = place.unwrap_or_default();
                (one_line(&format!("{component}.{property} = {typed}_")), Tone::Plain)
            }
            (None, Some(failure)) => (failure.clone(), Tone::Bad),
            (None, None) => self.status.clone(),
        };
        let help = padded(if self.typed.is_some() { HELP_TYPING } else { HELP }, width);
        let is_empty = status.is_empty();
        let status = tone.paint(&padded(&status, width), is_coloured && !is_empty);
        match rows {
            0 => Vec::new(),
            1 => vec![if is_empty { help } else { status }],
            _ => vec![status, help],
        }
    }

    /// Returns all lines above the status, and the index of the selected line.
    fn body(&self, width: usize, is_coloured: bool) -> (Vec<String>, Option<usize>) {
        let Some(now) = &self.now else {
            return (vec![padded(&format!("{}: waiting for its launcher", self.name), width)], None);
        };
        let waveform = &now.waveform;
        let empty = " ".repeat(width);
        let mut lines = vec![padded(&self.title(waveform), width), empty.clone()];
        lines.extend(self.components(now).lines(width, is_coloured));
        lines.push(empty.clone());
        lines.extend(self.connections(now).lines(width, is_coloured));
        let properties = self.properties();
        let changeable = self.changeable().len();
        if changeable == 0 {
            return (lines, None);
        }
        lines.push(empty);
        let selected = lines.len() + 1 + self.selected;
        lines.extend(properties.lines(width, is_coloured));
        // The mark replaces the space before the first column, so that it is visible without
        // colours, too.
        if let (Some(line), true) = (properties.lines(width, false).get(1 + self.selected), width > 0) {
            let marked = format!(">{}", line.strip_prefix(' ').unwrap_or(line));
            lines[selected] = if is_coloured { format!("\x1b[7m{marked}\x1b[0m") } else { marked };
        }
        (lines, Some(selected))
    }

    fn title(&self, waveform: &RunningWaveform) -> String {
        format!(
            "{}: {} for {:.0} s in process {}, {}, {} lost",
            self.name,
            waveform.phase,
            waveform.elapsed_s,
            waveform.pid,
            packets(waveform.packets),
            grouped(waveform.lost),
        )
    }

    fn components(&self, now: &Snapshot) -> Table {
        let mut table = Table::new(&["COMPONENT", "TYPE", "STATE", "PID", "CPU", "RESTARTS"])
            .numbers(&["PID", "CPU", "RESTARTS"])
            .droppable(&["TYPE", "PID", "RESTARTS"]);
        for component in &now.waveform.components {
            table.add::<Cell>([
                cell(&component.name).into(),
                cell(&component.type_name).into(),
                state_of(component),
                component.pid.map_or(String::new(), |pid| pid.to_string()).into(),
                self.loads.get(&component.name).map_or(String::new(), |load| format!("{load:.0} %")).into(),
                restarts(component).into(),
            ]);
        }
        table
    }

    fn connections(&self, now: &Snapshot) -> Table {
        let mean = |ns: Option<f64>| time(ns.map(|ns| ns as u64));
        let mut table = Table::new(&[
            "CONNECTION",
            "PACKETS/S",
            "RATE",
            "LOST",
            "LAG",
            "LATENCY",
            "LATENCIES",
            "QUEUED",
            "SERVICE",
            "AGE",
        ])
        .numbers(&["PACKETS/S", "RATE", "LOST", "LAG", "LATENCY", "QUEUED", "SERVICE", "AGE"])
        .droppable(&[
            "RATE",
            "SERVICE",
            "QUEUED",
            "LAG",
            "PACKETS/S",
            "LATENCIES",
            "LATENCY",
            "AGE",
        ]);
        // Connections are in the order of their senders in the waveform.
        let sender = |name: &str| {
            let component = name.split('.').next().unwrap_or_default();
            now.waveform.components.iter().position(|known| known.name == component)
        };
        let mut names: Vec<&String> = self.history.keys().collect();
        names.sort_by_key(|name| (sender(name), *name));
        for name in names {
            let Some(it) = now.connections.iter().find(|it| it.name() == *name) else {
                table.add([printable(name, 2 * CELL_MAX)]);
                continue;
            };
            let (mut packets, mut bytes) = (String::new(), String::new());
            if it.rates.is_measured {
                packets = quantity(it.rates.packets_per_s, "").trim_end().into();
                bytes = quantity(it.rates.bytes_per_s, "B/s");
            }
            let tone = if it.rates.is_losing { Tone::Bad } else { Tone::of_losses(it.counts.lost) };
            table.add::<Cell>([
                printable(name, 2 * CELL_MAX).into(),
                packets.into(),
                bytes.into(),
                Cell::toned(grouped(it.counts.lost), tone),
                lag(it).into(),
                mean(it.rates.latency_ns).into(),
                self.history.get(name).map_or(String::new(), sparkline).into(),
                mean(it.rates.queued_ns).into(),
                mean(it.rates.service_ns).into(),
                it.age.map_or_else(String::new, |ages| age(ages.last_ns, &ages)).into(),
            ]);
        }
        if now.connections.iter().all(|it| it.age.is_none()) {
            table.remove("AGE");
        }
        table
    }

    fn properties(&self) -> Table {
        let mut table = Table::new(&["PROPERTY", "VALUE", "UNIT", "ALLOWED"]).droppable(&["ALLOWED", "UNIT"]);
        for reading in self.changeable() {
            let mut tone = Tone::Plain;
            let mut value = reading.value.as_ref().map_or("?".into(), |value| cell(&value.to_string()));
            let waiting = reading.waiting.as_ref().map(Value::to_string);
            if let Some(new) = self.requested.get(&place(reading)).or(waiting.as_ref()) {
                (value, tone) = (format!("{value} -> {}", cell(new)), Tone::Warning);
            }
            table.add::<Cell>([
                cell(&format!("{}.{}", reading.component, reading.property)).into(),
                Cell::toned(if value.is_empty() { "\"\"".into() } else { value }, tone),
                cell(&reading.unit).into(),
                cell(&reading.allowed).into(),
            ]);
        }
        table
    }
}

fn place(reading: &PropertyReading) -> (String, String) {
    (reading.component.clone(), reading.property.clone())
}

fn cell(text: &str) -> String {
    printable(text, CELL_MAX)
}

fn one_line(text: &str) -> String {
    printable(&text.lines().map(str::trim).collect::<Vec<_>>().join("; "), 1000)
}

/// Returns a text of exactly that width.
fn padded(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let used = unicode_width::UnicodeWidthStr::width(&*text);
    text + &" ".repeat(width.saturating_sub(used))
}

/// Returns the number of waiting packets and the limit. On sockets, returns the bytes in the
/// kernel.
fn lag(it: &Connection) -> String {
    match (it.waiting, it.kernel_bytes) {
        (Some(packets), _) => format!("{}/{}", grouped(packets), grouped(it.depth.into())),
        (None, Some(bytes)) => quantity(bytes as f64, "B"),
        (None, None) => String::new(),
    }
}

/// Draws latencies on a scale from zero to the largest one. A space stands for a missing latency.
fn sparkline(latencies: &VecDeque<Option<f64>>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = latencies.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
    let bar = |latency: f64| BARS[((latency / most * 7.0).round() as usize).min(7)];
    let bars: String = latencies.iter().map(|latency| latency.map_or(' ', bar)).collect();
    // The newest latency is at the right end, and the width does not change.
    if latencies.iter().all(Option::is_none) { String::new() } else { format!("{bars:>HISTORY_MAX$}") }
}

/// Returns the value after or before this one; `None`: there is no such value. Numbers change by
/// one unit of their second digit, and integers by at least one. Words follow the order in
/// `allowed`.
fn stepped(now: &str, kind: &Value, allowed: &str, is_up: bool) -> Option<String> {
    match kind {
        Value::Boolean(_) => Some((now != "true").to_string()),
        Value::Integer(_) => {
            let now: i64 = now.parse().ok()?;
            let unit =
                10i64.checked_pow(now.unsigned_abs().checked_ilog10().unwrap_or(0).saturating_sub(1))?;
            let new = if is_up { now.checked_add(unit) } else { now.checked_sub(unit) };
            new.map(|new| new.to_string())
        }
        Value::Float(_) => {
            let now: f64 = now.parse().ok().filter(|now: &f64| now.is_finite())?;
            let exponent = if now == 0.0 { -1 } else { now.abs().log10().floor() as i32 - 1 };
            // Powers of ten with a positive exponent are exact. The division keeps 0.3 from getting
            // further digits.
            let power = 10f64.powi(exponent.abs());
            let units = if exponent < 0 { now * power } else { now / power };
            let units = units.round() + if is_up { 1.0 } else { -1.0 };
            let new = if exponent < 0 { units / power } else { units * power };
            new.is_finite().then(|| (new + 0.0).to_string())
        }
        // A text with allowed values is a choice among these words.
        Value::Text(_) => {
            let words: Vec<&str> = allowed.split(" | ").filter(|word| !word.is_empty()).collect();
            let index = words.iter().position(|word| *word == now)?;
            let next = if is_up { index + 1 } else { index + words.len() - 1 };
            (words.len() > 1).then(|| words[next % words.len()].to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::Counts;
    use std::time::{Duration, Instant};
    use unicode_width::UnicodeWidthStr;

    fn reading(property: &str, value: Value, allowed: &str) -> PropertyReading {
        PropertyReading {
            component: "filter".into(),
            property: property.into(),
            value: Some(value),
            waiting: None,
            changed: false,
            access: Access::Changeable,
            unit: "Hz".into(),
            allowed: allowed.into(),
            summary: String::new(),
            problem: None,
        }
    }

    /// Returns a snapshot `ms` after the start. The filter has a load of 25 %.
    fn snapshot(start: Instant, ms: u64, connection: Option<Connection>) -> Snapshot {
        let text = r#"{ "name": "radio", "pid": 9, "file": "", "phase": "running", "elapsed_s": 3.0,
            "packets": 1234, "lost": 7, "components": [
            { "name": "tone", "type": "signal-generator", "placement": "process", "pid": 10,
              "state": "running", "restarts": 0, "tests": [] },
            { "name": "filter", "type": "fir-filter", "placement": "process", "pid": 11,
              "state": "suspended", "restarts": 2, "tests": [] }] }"#;
        let waveform: RunningWaveform = serde_json::from_str(text).unwrap();
        let fixed = PropertyReading { access: Access::Fixed, ..reading("taps", Value::Integer(3), "") };
        Snapshot {
            time: start + Duration::from_millis(ms),
            waveform,
            connections: connection.into_iter().collect(),
            properties: vec![
                fixed,
                reading("high", Value::Float(4000.0), "0 or more"),
                reading("taps", Value::Integer(480), ""),
                reading("window", Value::Text("hann".into()), "flat | hann | kaiser"),
                reading("name", Value::Text(String::new()), ""),
                reading("on", Value::Boolean(true), ""),
            ],
            busy: [("filter".into(), Busy { pid: 11, seconds: ms as f64 / 4000.0 })].into(),
        }
    }

    fn connection(packets: u64, latency_sum_ns: u64) -> Connection {
        let (bytes, latency_samples, service_samples) = (packets * 1000, packets, packets);
        let (queued_sum_ns, service_sum_ns) = (latency_sum_ns / 2, 3 * latency_sum_ns);
        Connection {
            from: "tone.out".into(),
            to: "filter.in".into(),
            depth: 64,
            waiting: Some(3),
            has_receiver: true,
            counts: Counts {
                packets,
                bytes,
                lost: 7,
                latency_samples,
                latency_sum_ns,
                queued_sum_ns,
                service_samples,
                service_sum_ns,
                ..Counts::default()
            },
            ..Connection::default()
        }
    }

    fn model() -> Model {
        let (mut model, start) = (Model::new("radio"), Instant::now());
        model.add(snapshot(start, 0, Some(connection(100, 100_000))));
        model.add(snapshot(start, 500, Some(connection(150, 150_000))));
        model.add(snapshot(start, 1000, Some(connection(200, 400_000))));
        model
    }

    fn text(model: &mut Model) -> String {
        let lines = model.frame((200, 50), false);
        let lines: Vec<&str> =
            lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()).collect();
        lines.join("\n")
    }

    fn press(model: &mut Model, text: &str) {
        text.chars().for_each(|c| assert_eq!(model.key(Key::Text(c)), Action::Nothing));
    }

    fn set(property: &str, value: &str) -> Action {
        Action::Set(Setting { component: "filter".into(), property: property.into(), value: value.into() })
    }

    #[test]
    fn figures_are_those_between_two_samples() {
        let text = text(&mut model());
        let row = |begin: &str| text.lines().find(|line| line[1..].starts_with(begin)).unwrap();
        let words = |begin: &str| row(begin).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words("filter"), "filter fir-filter suspended 11 25 % 2");
        // 100 packets a second. The mean of 100 latencies is 3 us; the sparkline has 1 us, then 5
        // us.
        assert_eq!(words("tone.out"), "tone.out -> filter.in 100 100 kB/s 7 3/64 3.00 µs ▂█ 1.50 µs 9.00 µs");
        assert_eq!(words("filter.high"), ">filter.high 4000 Hz 0 or more");
        assert!(text.starts_with("radio: running for 3 s in process 9, 1,234 packets, 7 lost\n"), "{text}");
    }

    #[test]
    fn the_age_is_of_the_last_packet() {
        let mut model = model();
        assert!(!text(&mut model).contains("AGE"));
        let age = r#"{ "samples": 2, "last_ns": 12300000, "max_ns": 99000000 }"#;
        let aged = Connection { age: serde_json::from_str(age).unwrap(), ..connection(200, 400_000) };
        model.add(snapshot(Instant::now(), 1500, Some(aged)));
        let shown = text(&mut model);
        assert!(shown.contains(" AGE") && shown.contains(" 12.3 ms ± ?"), "{shown}");
    }

    #[test]
    fn a_connection_that_is_being_restarted_keeps_its_row() {
        let (mut model, start) = (model(), Instant::now() + Duration::from_secs(2));
        model.add(snapshot(start, 0, None));
        assert!(text(&mut model).contains("tone.out -> filter.in          -"), "{}", text(&mut model));
        // The counters of the restarted connection begin at zero.
        model.add(snapshot(start, 2000, Some(connection(10, 10_000))));
        model.add(snapshot(start, 4000, Some(connection(20, 20_000))));
        assert!(text(&mut model).contains("1.00 µs         ▂█  ▂"), "{}", text(&mut model));
    }

    #[test]
    fn every_size_is_filled_exactly() {
        for width in [1, 2, 10, 60, 80, 120, 200] {
            for height in [1, 2, 3, 10, 24, 50] {
                for mut model in [Model::new("radio"), model()] {
                    for _ in 0..4 {
                        let lines = model.frame((width, height), false);
                        assert_eq!(lines.len(), usize::from(height));
                        for line in &lines {
                            assert_eq!(line.width(), usize::from(width), "{line:?}");
                        }
                        model.key(Key::Down);
                    }
                }
            }
        }
        assert_eq!(model().frame((1, 1), false), ["q"]);
        assert_eq!(model().frame((0, 0), true), [""; 0]);
    }

    #[test]
    fn the_first_columns_remain_on_narrow_terminals() {
        for (width, titles) in [
            (60, "CONNECTION LOST LATENCY LATENCIES"),
            (80, "CONNECTION PACKETS/S LOST LAG LATENCY LATENCIES QUEUED"),
            (120, "CONNECTION PACKETS/S RATE LOST LAG LATENCY LATENCIES QUEUED SERVICE"),
            (200, "CONNECTION PACKETS/S RATE LOST LAG LATENCY LATENCIES QUEUED SERVICE"),
        ] {
            let lines = model().frame((width, 24), false);
            let header = lines.iter().find(|line| line.contains("CONNECTION")).unwrap();
            assert_eq!(header.split_whitespace().collect::<Vec<_>>().join(" "), titles, "{width}");
            assert!(lines.iter().any(|line| line.starts_with(">filter.high")), "{lines:?}");
            assert!(
                lines[23].starts_with("q quit  ↑↓ property  ←→ change  Enter type  PgUp PgDn"),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_source_behind_its_pace_is_marked() {
        let mut model = model();
        assert!(!text(&mut model).contains(" behind"));
        let mut late = snapshot(Instant::now(), 9000, None);
        late.waveform.components[0].behind_s = Some(2.82);
        model.add(late);
        assert!(text(&mut model).contains("running, 2.82 s behind"), "{}", text(&mut model));
    }

    #[test]
    fn the_selected_line_is_followed_and_pages_scroll() {
        let mut model = model();
        let has = |model: &mut Model, words: &str| model.frame((80, 6), false).join("\n").contains(words);
        assert!(has(&mut model, "radio: running") && !has(&mut model, ">filter.high"));
        model.key(Key::Down);
        assert!(has(&mut model, ">filter.taps") && !has(&mut model, "radio: running"));
        (0..9).for_each(|_| drop(model.key(Key::Down)));
        assert!(has(&mut model, ">filter.on"));
        (0..9).for_each(|_| drop((model.key(Key::PageUp), model.frame((80, 6), false))));
        assert!(has(&mut model, "radio: running"));
        (0..9).for_each(|_| drop((model.key(Key::PageDown), model.frame((80, 6), false))));
        assert!(has(&mut model, ">filter.on"));
    }

    #[test]
    fn arrows_change_the_selected_property() {
        let mut model = model();
        assert_eq!(model.key(Key::Right), set("high", "4100"));
        // The next step begins at the requested value.
        assert_eq!(model.key(Key::Text('+')), set("high", "4200"));
        assert!(text(&mut model).contains("4000 -> 4200"));
        model.outcome(2, Ok("filter.high = 4200".into()));
        model.add(snapshot(Instant::now(), 2000, None));
        assert!(!text(&mut model).contains("4200 Hz") && text(&mut model).contains("filter.high = 4200"));
        assert_eq!(model.key(Key::Text('-')), set("high", "3900"));
        model.key(Key::Down);
        assert_eq!(model.key(Key::Left), set("taps", "470"));
        model.key(Key::Down);
        assert_eq!(model.key(Key::Right), set("window", "kaiser"));
        assert_eq!(model.key(Key::Right), set("window", "flat"));
        model.key(Key::Down);
        assert_eq!(model.key(Key::Right), Action::Nothing);
        assert!(text(&mut model).contains("filter.name has no next value"));
        model.key(Key::Down);
        assert_eq!(model.key(Key::Left), set("on", "false"));
        assert_eq!(model.key(Key::Text('q')), Action::Quit);
    }

    #[test]
    fn a_value_is_typed_and_sent_or_discarded() {
        let mut model = model();
        assert_eq!(model.key(Key::Enter), Action::Nothing);
        press(&mut model, "-5qx+");
        model.key(Key::Backspace);
        model.key(Key::Backspace);
        assert!(text(&mut model).contains("filter.high = -5q_"), "{}", text(&mut model));
        assert_eq!(model.key(Key::Enter), set("high", "-5q"));
        model.outcome(1, Err("filter.high: it must be\n0 or more".into()));
        assert!(text(&mut model).contains("filter.high: it must be; 0 or more"), "{}", text(&mut model));
        model.key(Key::Enter);
        press(&mut model, "7");
        assert_eq!((model.key(Key::Escape), model.key(Key::Escape)), (Action::Nothing, Action::Nothing));
        model.key(Key::Enter);
        assert_eq!(model.key(Key::Interrupt), Action::Quit);
        let mut empty = Model::new("radio");
        assert_eq!((empty.key(Key::Enter), empty.key(Key::Right)), (Action::Nothing, Action::Nothing));
        assert!(text(&mut empty).contains("no property"));
    }

    #[test]
    fn numbers_step_by_their_second_digit() {
        let float = |now: &str, is_up| stepped(now, &Value::Float(0.0), "", is_up).unwrap();
        for (now, up, down) in [
            ("0", "0.1", "-0.1"),
            ("0.2", "0.21", "0.19"),
            ("-3", "-2.9", "-3.1"),
            ("4800", "4900", "4700"),
            ("4850", "5000", "4800"),
            ("0.00031", "0.00032", "0.0003"),
        ] {
            assert_eq!((float(now, true), float(now, false)), (up.into(), down.into()), "{now}");
        }
        assert!(float("1e300", true).parse::<f64>().unwrap() > 1e300);
        assert_eq!(float("0.1", false), "0.09");
        let whole = |now: &str, is_up| stepped(now, &Value::Integer(0), "", is_up);
        assert_eq!((whole("9", true), whole("0", false)), (Some("10".into()), Some("-1".into())));
        assert_eq!(whole(&i64::MAX.to_string(), true), None);
        assert!(whole(&i64::MIN.to_string(), true).is_some());
        assert_eq!(stepped("x", &Value::Text("x".into()), "x", true), None);
    }

    #[test]
    fn foreign_text_moves_no_cursor_and_trouble_goes_with_the_next_snapshot() {
        let mut model = model();
        model.record("odd \x1b[2J\nline");
        assert!(text(&mut model).contains("odd \\u{1b}[2J; line") && !text(&mut model).contains('\x1b'));
        model.show_problem("the launcher of `radio` (process 9) does not answer");
        assert!(text(&mut model).contains("does not answer"));
        model.add(snapshot(Instant::now(), 9000, None));
        assert!(!text(&mut model).contains("does not answer"));
        let coloured = model.frame((200, 50), true).join("\n");
        assert!(coloured.contains("\x1b[32mrunning\x1b[0m") && coloured.contains("\x1b[7m>filter.high"));
        assert!(coloured.contains("\x1b[33msuspended"));
    }
}
