//! `stripline ps`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use stripline::inspect::{
    self, Chain, Overview, Process, Reader, ReceiverEnd, SenderEnd, SendingPort, TopicsFile,
};
use stripline_waveform::internal::{suggestion, wrapped};

use crate::Exit;
use crate::arguments::PsArguments;
use crate::format::{cell_max, counted, grouped, printable};
use crate::show::{Printed, print_while_read};
use crate::table::{Cell, Table, Tone};
use crate::terminal;

/// The most chains of waiting ports shown.
const CHAINS_MAX: usize = 50;
/// The longest name in a message, in characters.
const NAME_MAX: usize = 60;

pub(crate) fn ps(arguments: &PsArguments) -> Exit {
    loop {
        let mut overview = match inspect::processes() {
            Ok(overview) => overview,
            Err(error) => {
                complain!("error: {error}");
                return Exit::Failure;
            }
        };
        let mut rules = unused_rules(&overview);
        leave_out(&mut overview, arguments.name.as_deref());
        let (mut filter, names) = (None, names(&overview));
        if let Some(name) = &arguments.name {
            keep(&mut overview, name);
            filter = Some((name.as_str(), suggestion(name, names.iter().map(String::as_str))));
        }
        // With a filter, only the rules in topics files of the remaining processes are shown.
        rules.retain(|rule| files(&overview).any(|file| file.path == rule.file));
        let text = if arguments.json {
            json(&overview, &rules, arguments.watch.is_some())
        } else {
            for problem in &overview.problems {
                complain!("warning: {}", printable(&problem.to_string(), 500));
            }
            for rule in &rules {
                complain!("warning: {}", printable(&rule.to_string(), 500));
            }
            let mut text = render(&overview, filter);
            // In an older form of the command, the seconds were a separate word.
            if let (Some(_), Some(name)) = (arguments.watch, &arguments.name)
                && overview.processes.is_empty()
                && name.parse::<f64>().is_ok()
            {
                text += &format!("To repeat it every {name} seconds: --watch={name}\n");
            }
            text
        };
        // A terminal is cleared before each table, as `watch` does. A file or a pipe gets one table
        // after the other.
        let clear = arguments.watch.is_some() && !arguments.json && terminal::is_terminal();
        match print_while_read(&format!("{}{text}", if clear { "\x1b[H\x1b[2J" } else { "" })) {
            Printed::All => {}
            Printed::Unread => return Exit::Clean,
            Printed::Failed => return Exit::Failure,
        }
        let pause = arguments.watch.map(Duration::from_secs_f64);
        if pause.is_none_or(|pause| !terminal::wait_while_read(Some(pause))) {
            return Exit::Clean;
        }
    }
}

/// Removes the ports of launchers that serve `stripline ls` and the like, unless the filter names
/// them.
fn leave_out(overview: &mut Overview, name: Option<&str>) {
    let service = stripline_waveform::control::SERVICE;
    if name.is_some_and(|name| name.contains(service)) {
        return;
    }
    for process in &mut overview.processes {
        process.sending.retain(|port| !port.name.starts_with(service));
        process.receiving.retain(|port| !port.name.starts_with(service));
    }
    overview.processes.retain(|process| !process.sending.is_empty() || !process.receiving.is_empty());
}

/// Keeps only the ports that match the filter: by their own name, a connection, their process, its
/// launcher or its waveform.
fn keep(overview: &mut Overview, name: &str) {
    for process in &mut overview.processes {
        let number = name.parse().ok();
        let whole = [process.command.as_deref(), process.waveform.as_deref()].contains(&Some(name))
            || number == Some(process.pid)
            || number.is_some() && process.waveform.is_some() && number == process.parent;
        if !whole {
            let joins = |connection: &str| connection.contains(name);
            let reads = |port: &SendingPort| port.readers.iter().any(|r| joins(&r.connection));
            process.sending.retain(|port| port.name.contains(name) || reads(port));
            process.receiving.retain(|port| {
                port.name.contains(name) || port.connections.iter().any(|c| joins(&c.connection))
            });
        }
    }
    overview.processes.retain(|process| !process.sending.is_empty() || !process.receiving.is_empty());
}

/// Returns the names that a filter can match: waveforms, components and topics.
fn names(overview: &Overview) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for process in &overview.processes {
        names.extend(process.waveform.clone());
        let sending = process.sending.iter().map(|port| &port.name);
        let ports = sending.chain(process.receiving.iter().map(|port| &port.name));
        names.extend(ports.map(|port| port.split('.').next().unwrap_or_default().to_string()));
    }
    names
}

/// A rule of a topics file that no process with this file has used so far.
#[derive(Debug, PartialEq, Serialize)]
struct UnusedRule {
    file: String,
    topic: String,
    /// The topic in use with the nearest name.
    nearest: Option<String>,
}

impl fmt::Display for UnusedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no topic has used the rule [topic.{}] so far", self.file, self.topic)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

fn files(overview: &Overview) -> impl Iterator<Item = &TopicsFile> {
    overview.processes.iter().flat_map(|process| &process.topics_files)
}

/// Returns the rules of all topics files that no process has used. Several programs may share a
/// file, and each may use only a part of it.
fn unused_rules(overview: &Overview) -> Vec<UnusedRule> {
    let mut of_file: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
    for file in files(overview) {
        let its: BTreeSet<_> = file.unused.iter().collect();
        let unused = of_file.entry(&file.path).or_insert_with(|| its.clone());
        unused.retain(|topic| its.contains(topic));
    }
    let mut rules = Vec::new();
    for (path, topics) in of_file {
        let with_file = overview
            .processes
            .iter()
            .filter(|process| process.topics_files.iter().any(|file| file.path == path));
        let ports = with_file.flat_map(|process| {
            let sending = process.sending.iter().map(|port| port.name.as_str());
            sending.chain(process.receiving.iter().map(|port| port.name.as_str()))
        });
        let ports: BTreeSet<&str> = ports.collect();
        for topic in topics {
            let nearest = suggestion(topic, ports.iter().copied()).map(String::from);
            rules.push(UnusedRule { file: path.into(), topic: topic.clone(), nearest });
        }
    }
    rules
}

fn json(overview: &Overview, rules: &[UnusedRule], one_line: bool) -> String {
    let circles: Vec<Chain> = overview.chains().into_iter().filter(|chain| chain.circle).collect();
    let document = json!({
        "processes": overview.processes,
        "waits": overview.waits(),
        "circles": circles.iter().map(|chain| &chain.waits).collect::<Vec<_>>(),
        "problems": overview.problems,
        "unused_rules": rules,
    });
    if one_line { format!("{document}\n") } else { format!("{document:#}\n") }
}

/// A row of the table, in the order of the columns.
type Row = [String; 14];
/// The index of the payload types.
const PAYLOAD: usize = 6;
/// The index of the last column.
const STATE: usize = 13;

/// Renders the tables for standard output. `filter` has the name and a suggestion for a misspelt
/// name.
fn render(overview: &Overview, filter: Option<(&str, Option<&str>)>) -> String {
    let mut rows: Vec<Row> = Vec::new();
    for (from, to) in overview.connections() {
        rows.push(row(from, to));
    }
    let mut refused_addresses = BTreeSet::new();
    for process in &overview.processes {
        for port in &process.receiving {
            let mut row = Row::default();
            row[0] = waveform(Some(process));
            (row[3], row[4]) = (name(&port.name), process.pid.to_string());
            row[STATE] = if port.serves { "no client" } else { "no sender" }.into();
            if port.refused.is_empty() && port.connections.is_empty() {
                rows.push(row);
                continue;
            }
            for refused in &port.refused {
                let mut row = row.clone();
                if let Some((sender, port)) = refusing_sender(overview, &refused.connection) {
                    fill_sender(&mut row, sender, port);
                    refused_addresses.insert(&port.address);
                }
                row[STATE] = name(&refused.summary());
                rows.push(row);
            }
        }
    }
    for process in &overview.processes {
        let alone =
            |port: &&SendingPort| port.readers.is_empty() && !refused_addresses.contains(&port.address);
        for port in process.sending.iter().filter(alone) {
            let mut row = Row::default();
            row[0] = waveform(Some(process));
            fill_sender(&mut row, process, port);
            row[STATE] = "no reader".into();
            rows.push(row);
        }
    }
    if rows.is_empty() {
        let of = filter
            .map_or(String::new(), |(name, _)| format!(" that matches `{}`", printable(name, NAME_MAX)));
        let meant = filter.and_then(|(_, meant)| meant);
        let hint =
            meant.map_or(String::new(), |meant| format!(" Did you mean `{}`?", printable(meant, NAME_MAX)));
        return format!("No process of this user has a port open{of}.{hint}\n");
    }
    rows.sort();
    let mut table = Table::new(&[
        "WAVEFORM",
        "FROM",
        "PID",
        "TO",
        "PID",
        "TRANSPORT",
        "PAYLOAD",
        "OVERFLOW",
        "DEPTH",
        "SENT",
        "TAKEN",
        "LAG",
        "LOST",
        "STATE",
    ])
    .numbers(&["PID", "DEPTH", "SENT", "TAKEN", "LAG", "LOST"])
    .droppable(&[
        "PAYLOAD",
        "OVERFLOW",
        "TRANSPORT",
        "DEPTH",
        "WAVEFORM",
        "PID",
        "SENT",
        "TAKEN",
        "LOST",
        "LAG",
    ]);
    for row in rows {
        let tone = Tone::of_losses(u64::from(is_to_be_noted(&row[STATE])));
        let mut row = row.map(Cell::from);
        row[STATE] = row[STATE].clone().with(tone);
        table.add(row);
    }
    // Most programs are not waveforms.
    if overview.processes.iter().all(|process| process.waveform.is_none()) {
        table.remove("WAVEFORM");
    }
    let chains = wrapped(&waits(&overview.chains()), terminal::width(), 2);
    format!("{}{chains}{}", table.render(), omitted(&overview.processes))
}

/// Returns whether a state needs attention: an end is missing, a sender is blocked, or a queue is
/// full.
fn is_to_be_noted(state: &str) -> bool {
    ["full", "no ", "not ", "sender ", "receiver unknown", "refused"]
        .iter()
        .any(|start| state.starts_with(start))
}

/// Fills in the cells of a sending port.
fn fill_sender(row: &mut Row, process: &Process, port: &SendingPort) {
    (row[1], row[2]) = (name(&port.name), process.pid.to_string());
    (row[5], row[PAYLOAD], row[9]) = (name(&port.transport), payload(port), count(port.packets));
}

/// Returns the name of the port's payload type, with a note if the type has no layout.
fn payload(port: &SendingPort) -> String {
    let type_name = name(port.payload.split('{').next().unwrap_or_default());
    if port.no_layout { format!("{type_name} (no layout)") } else { type_name }
}

/// Returns the sending port of a refused connection. The connection's name has the port's address.
fn refusing_sender<'o>(overview: &'o Overview, connection: &str) -> Option<(&'o Process, &'o SendingPort)> {
    let (from, _) = connection.rsplit_once(" -> ")?;
    let (_, address) = from.rsplit_once('@')?;
    let ports = overview.processes.iter().flat_map(|p| p.sending.iter().map(move |port| (p, port)));
    let mut ports = ports.filter(|(_, port)| port.address == address);
    ports.next()
}

fn row(from: Option<SenderEnd<'_>>, to: Option<ReceiverEnd<'_>>) -> Row {
    let connection = from.map(|f| &f.2.connection).or(to.map(|t| &t.2.connection));
    let (left, right) = connection.and_then(|name| name.split_once(" -> ")).unwrap_or(("", ""));
    let lag = from.and_then(|(_, _, reader)| reader.lag_packets);
    let queued = to.and_then(|(_, _, connection)| connection.queued);
    let either =
        |mine: Option<&String>, its: Option<&String>| mine.or(its).map_or(String::new(), |s| name(s));
    let state = match (from, to) {
        (Some((_, port, reader)), _) if reader.waited_for => waits_for_room(port, reader),
        (Some((_, _, reader)), _) if reader.answer_awaited => "sender waits (answer)",
        (Some((_, _, reader)), _) if !reader.attached => "not attached yet",
        // Nothing waits for room at this moment: the sender is busy, or the policy drops.
        _ if from.is_some_and(|(_, _, reader)| reader.is_full()) || to.is_some_and(is_queue_full) => "full",
        (_, Some((_, _, connection))) if connection.other_clock => "another clock",
        (_, Some((_, port, connection))) if port.sleeps && connection.open => "receiver waits (empty)",
        (None, Some(_)) => "sender unknown",
        (Some(_), None) => "receiver unknown",
        _ => "",
    };
    // The level at which the sender is blocked, if it is below the depth.
    let high = from.and_then(|(_, _, reader)| reader.high_watermark);
    let depth = from.map(|f| f.2.depth).or(to.map(|t| t.2.depth));
    let depth = depth.map_or(String::new(), |depth| match high {
        Some(high) => format!("{high} of {depth}"),
        None => depth.to_string(),
    });
    [
        waveform(from.map(|f| f.0).filter(|process| process.waveform.is_some()).or(to.map(|t| t.0))),
        from.map_or(name(left), |(_, port, _)| name(&port.name)),
        from.map_or(String::new(), |(process, _, _)| process.pid.to_string()),
        to.map_or(name(right), |(_, port, _)| name(&port.name)),
        to.map(|t| t.0.pid).or(from.and_then(|f| f.2.pid)).map_or(String::new(), |pid| pid.to_string()),
        from.map_or(String::new(), |(_, port, _)| name(&port.transport)),
        from.map_or(String::new(), |(_, port, _)| payload(port)),
        either(from.map(|f| &f.2.overflow), to.map(|t| &t.2.overflow)),
        depth,
        from.map_or(String::new(), |(_, port, _)| count(port.packets)),
        to.map_or(String::new(), |(_, _, connection)| grouped(connection.packets)),
        // Packets in the transport, and in the receive queue of a policy that drops.
        match (lag, queued) {
            (Some(lag), Some(queued)) => grouped(lag.saturating_add(queued)),
            (lag, queued) => count(lag.or(queued)),
        },
        to.map_or(String::new(), |(_, _, connection)| grouped(connection.lost)),
        state.into(),
    ]
}

/// Returns the reason of a wait for room. Large packets fill a ring before the depth is reached.
fn waits_for_room(port: &SendingPort, reader: &Reader) -> &'static str {
    let high = u64::from(reader.high_watermark.unwrap_or(reader.depth));
    let Some(lag) = reader.lag_packets.filter(|lag| *lag < high) else { return "sender waits (full)" };
    // A sender that was held up needs a quarter of the ring as well as the low watermark.
    let is_nearly_full = reader.lag_bytes.is_some_and(|bytes| bytes > port.buffer / 4 * 3);
    match reader.low_watermark {
        Some(low) if lag >= u64::from(low) && !is_nearly_full => "sender waits (low watermark)",
        _ => "sender waits (buffer full)",
    }
}

/// Returns whether the receiving port's own queue has no room.
fn is_queue_full((_, _, connection): ReceiverEnd<'_>) -> bool {
    connection.depth > 0 && connection.queued.is_some_and(|queued| queued >= u64::from(connection.depth))
}

fn waits(chains: &[Chain]) -> String {
    let mut text = String::new();
    for chain in chains.iter().take(CHAINS_MAX) {
        let words: Vec<String> = chain.waits.iter().map(|wait| printable(&wait.to_string(), 200)).collect();
        let end = if chain.circle { ": a circle, so none of them can continue" } else { "" };
        text += &format!("\n{}{end}", words.join(", "));
    }
    if chains.len() > CHAINS_MAX {
        text += &format!("\nand {} more", chains.len() - CHAINS_MAX);
    }
    if text.is_empty() { text } else { text + "\n" }
}

fn omitted(processes: &[Process]) -> String {
    let mut text = String::new();
    for process in processes.iter().filter(|process| process.omitted > 0) {
        text += &format!("\nprocess {} has {}\n", process.pid, counted(process.omitted, "more port"));
    }
    text
}

fn waveform(process: Option<&Process>) -> String {
    process.and_then(|process| process.waveform.as_deref()).map_or(String::new(), name)
}

fn count(number: Option<u64>) -> String {
    number.map_or(String::new(), grouped)
}

fn name(text: &str) -> String {
    printable(text, cell_max())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(text: &str) -> Overview {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn rules_that_no_process_with_the_file_has_used_are_shown() {
        let overview = overview(
            r#"{ "problems": [], "processes": [
            { "pid": 1, "sending": [{ "name": "iq" }],
              "topics_files": [{ "path": "/a.toml", "unused": ["audio", "iqq", "zzzzzz"] }] },
            { "pid": 2, "receiving": [{ "name": "audio" }],
              "topics_files": [{ "path": "/a.toml", "unused": ["iq", "iqq", "zzzzzz"] },
                               { "path": "/b.toml", "unused": [] }] } ] }"#,
        );
        let texts: Vec<String> = unused_rules(&overview).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "/a.toml: no topic has used the rule [topic.iqq] so far; did you mean `iq`?",
                "/a.toml: no topic has used the rule [topic.zzzzzz] so far"
            ]
        );
    }

    const BLOCKED: &str = r#"{ "problems": [], "processes": [
        { "pid": 10, "sending": [{ "name": "source.out", "transport": "shm", "packets": 1065, "waits": true,
            "readers": [{ "connection": "source.out -> sink.in", "pid": 11, "overflow": "block", "depth": 64,
                "attached": true, "lag_packets": 64, "waited_for": true }] }] },
        { "pid": 11, "receiving": [{ "name": "sink.in", "connections": [
            { "connection": "source.out -> sink.in", "open": true, "packets": 1001, "lost": 0 }] }] }] }"#;

    #[test]
    fn a_connection_is_one_row_and_waits_are_told() {
        let text = render(&overview(BLOCKED), None);
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = "source.out 10 sink.in 11 shm - block 64 1,065 1,001 64 0 sender waits (full)";
        assert_eq!(words.join(" "), expected);
        assert!(text.contains("\nsource.out waits for sink.in (full)\n"), "{text}");
    }

    #[test]
    fn a_full_queue_is_shown_also_where_nothing_waits() {
        let state = |text: &str| {
            let table = render(&overview(text), None);
            let row = table.lines().nth(1).unwrap();
            row.rsplit("  ").next().unwrap().trim().to_string()
        };
        let idle = BLOCKED.replace(", \"waited_for\": true", "").replace("\"waits\": true,", "");
        assert_eq!(state(&idle), "full");
        let marked = idle.replace("\"depth\": 64,", "\"depth\": 99, \"high_watermark\": 64,");
        assert_eq!(state(&marked), "full");
        let room = idle.replace("\"lag_packets\": 64", "\"lag_packets\": 63");
        assert_ne!(state(&room), "full");
        // A receiving port has its own queue if the policy drops packets.
        let queue = |queued: u32| {
            room.replace("\"lost\": 0", &format!("\"lost\": 3, \"depth\": 64, \"queued\": {queued}"))
        };
        assert_eq!(state(&queue(64)), "full");
        assert_ne!(state(&queue(63)), "full");
    }

    #[test]
    fn a_sender_held_up_below_the_depth_has_its_reason() {
        let state = |lag: u32, bytes: u32| {
            let reader = format!("\"lag_packets\": {lag}, \"lag_bytes\": {bytes}, \"low_watermark\": 48");
            let text = BLOCKED.replace("\"lag_packets\": 64", &reader);
            let table = render(&overview(&text.replace("\"packets\": 1065", "\"buffer\": 4096")), None);
            let row = table.lines().nth(1).unwrap();
            row.rsplit("  ").next().unwrap().trim().to_string()
        };
        assert_eq!(state(64, 64), "sender waits (full)");
        assert_eq!(state(63, 63), "sender waits (low watermark)");
        assert_eq!(state(48, 48), "sender waits (low watermark)");
        assert_eq!(state(47, 2048), "sender waits (buffer full)", "the next packet needs more than the rest");
        assert_eq!(state(50, 3500), "sender waits (buffer full)");
    }

    #[test]
    fn waveforms_watermarks_and_servers_are_told() {
        let text = BLOCKED
            .replace("\"pid\": 10,", "\"pid\": 10, \"parent\": 9, \"waveform\": \"radio\",")
            .replace("\"depth\": 64,", "\"depth\": 64, \"high_watermark\": 48,")
            .replace("\"pid\": 11,", "\"pid\": 11, \"waveform\": \"radio\",");
        let mut all = overview(&text);
        let words = |text: &str, line: usize| -> String {
            text.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let table = render(&all, None);
        assert!(words(&table, 0).starts_with("WAVEFORM FROM PID TO PID"), "{table}");
        assert!(words(&table, 1).contains("radio source.out 10 sink.in 11 shm - block 48 of 64"), "{table}");
        all.processes.push(
            serde_json::from_str(
                r#"{ "pid": 12, "receiving": [{ "name": "gain", "serves": true, "connections": [] }] }"#,
            )
            .unwrap(),
        );
        assert!(render(&all, None).contains("no client"));
        // The filter is the waveform's name, or the launcher's process number.
        for (filter, processes) in [("radio", 2), ("9", 1), ("rad", 0)] {
            let mut some = all.clone();
            keep(&mut some, filter);
            assert_eq!(some.processes.len(), processes, "{filter}");
        }
    }

    #[test]
    fn a_refused_pair_is_one_row_with_both_types() {
        let refused = r#"{ "problems": [], "processes": [
            { "pid": 10, "sending": [{ "name": "iq", "transport": "uds", "packets": 7, "payload": "cf32",
                "address": "stripline-1" }] },
            { "pid": 11, "receiving": [{ "name": "iq", "refused": [{ "connection": "iq@stripline-1 -> iq",
                "sends": "cf32", "takes": "f32", "reason": "because" }] }] }] }"#;
        let words = |text: &str| -> Vec<String> {
            let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
            lines.filter(|line| !line.is_empty()).collect()
        };
        let expected = "iq 10 iq 11 uds cf32 - - 7 - - - refused: sends cf32, takes f32";
        assert_eq!(words(&render(&overview(refused), None))[1..], [expected]);
        let layouts = refused.replace("\"f32", "\"det{b:u8}").replace("\"cf32", "\"det{a:u8}");
        let text = render(&overview(&layouts), None);
        assert!(text.contains("refused: sends det{a:u8}, takes det{b:u8}"), "{text}");
        let gone = refused.replace("\"stripline-1\"", "\"stripline-2\"");
        let text = words(&render(&overview(&gone), None));
        assert_eq!(
            text[1..],
            [
                "- - iq 11 - - - - - - - - refused: sends cf32, takes f32",
                "iq 10 - - uds cf32 - - 7 - - - no reader"
            ]
        );
        let evil = refused.replace("takes\": \"f32", "takes\": \"f\\u001b[31m");
        assert!(!render(&overview(&evil), None).contains('\u{1b}'));
    }

    #[test]
    fn the_payload_has_a_column() {
        let typed = BLOCKED.replace("\"packets\": 1065,", "\"packets\": 1065, \"payload\": \"det{a:u8}\",");
        let text = render(&overview(&typed), None);
        let words = text.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, "source.out 10 sink.in 11 shm det block 64 1,065 1,001 64 0 sender waits (full)");
        let bare = typed.replace("det{a:u8}\",", "det\", \"no_layout\": true,");
        assert!(render(&overview(&bare), None).contains(" shm        det (no layout)  block"));
    }

    #[test]
    fn nothing_is_said_kindly() {
        assert_eq!(render(&Overview::default(), None), "No process of this user has a port open.\n");
        let mut some = overview(BLOCKED);
        assert_eq!(suggestion("sorce", names(&some).iter().map(String::as_str)), Some("source"));
        keep(&mut some, "radar");
        assert!(render(&some, Some(("sorce", Some("source")))).ends_with("Did you mean `source`?\n"));
        assert!(render(&some, Some(("radar", None))).contains("that matches `radar`"));
    }

    #[test]
    fn a_filter_names_ports_or_processes() {
        for (filter, processes) in [("source", 2), ("sink.in", 2), ("10", 1), ("1", 0)] {
            let mut some = overview(BLOCKED);
            keep(&mut some, filter);
            assert_eq!(some.processes.len(), processes, "{filter}");
        }
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{202e}c", 60), "a\\u{1b}[2Jb\\u{a}\\u{202e}c");
        assert_eq!(printable("abcd", 3), "abc…");
        let evil = BLOCKED.replace("source.out\", \"tr", "sou\\u001b[31mrce\", \"tr");
        assert!(!render(&overview(&evil), None).contains('\u{1b}'));
    }

    #[test]
    fn json_of_a_watch_is_a_line() {
        let line = json(&overview(BLOCKED), &[], true);
        assert_eq!(line.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["waits"][0]["for_port"], "sink.in");
    }
}
