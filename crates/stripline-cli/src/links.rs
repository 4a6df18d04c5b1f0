//! `stripline links`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use stripline::inspect::{self, Chain, Overview, Process, SendingPort, TopicsFile};
use stripline_waveform::control;
use stripline_waveform::internal::{suggestion, wrapped};

use crate::Exit;
use crate::arguments::LinksArguments;
use crate::failure::Outcome;
use crate::format::{age, cell_max, counted, grouped, printable};
use crate::running::{Connection, UnusedRule, links, problem_lines, unused_rules};
use crate::show::{Printed, print_while_read};
use crate::table::{Cell, Table, Tone};
use crate::terminal;

/// The most chains of waiting ports shown.
const CHAINS_MAX: usize = 50;
/// The longest name in a message, in characters.
const NAME_MAX: usize = 60;

pub(crate) fn print_links(arguments: &LinksArguments) -> Outcome {
    loop {
        let mut overview = inspect::processes()?;
        let mut rules = unused_rules(&overview);
        leave_out(&mut overview, arguments.name.as_deref());
        let (mut filter, names) = (None, names(&overview));
        if let Some(name) = &arguments.name {
            keep(&mut overview, name);
            filter = Some((name.as_str(), suggestion(name, names.iter().map(String::as_str))));
        }
        // With a filter, only the rules in topics files of the remaining processes are shown.
        let files: Vec<&TopicsFile> = overview.processes.iter().flat_map(|it| &it.topics_files).collect();
        rules.retain(|rule| files.iter().any(|file| file.path == rule.file));
        let text = if arguments.json {
            json(&overview, &rules, arguments.watch.is_some())
        } else {
            // Only a line for several processes names a waveform.
            let is_several = overview.problems.len() > 1;
            let running = is_several.then(control::running).and_then(Result::ok).unwrap_or_default();
            let of_launcher = |pid| running.waveforms.iter().find(|it| it.pid == pid);
            for problem in problem_lines(&overview.problems, |pid| Some(of_launcher(pid)?.name.clone())) {
                report!("warning: {}", printable(&problem, 500));
            }
            for rule in &rules {
                report!("warning: {}", printable(&rule.to_string(), 500));
            }
            render(&overview, filter)
        };
        // A terminal is cleared before each table, as `watch` does. A file or a pipe gets one table
        // after the other.
        let clear = arguments.watch.is_some() && !arguments.json && terminal::is_terminal();
        match print_while_read(&format!("{}{text}", if clear { "\x1b[H\x1b[2J" } else { "" })) {
            Printed::All => {}
            Printed::Unread => return Ok(Exit::Clean),
            Printed::Failed => return Ok(Exit::Failure),
        }
        let pause = arguments.watch.map(Duration::from_secs_f64);
        if pause.is_none_or(|pause| !terminal::wait_while_read(Some(pause))) {
            return Ok(Exit::Clean);
        }
    }
}

/// Removes the ports of launchers that serve `stripline waveforms` and the like, unless the filter
/// names them.
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
type Row = [String; 15];
/// The index of the last column.
const STATE: usize = 14;

/// Renders the tables for standard output. `filter` has the name and a suggestion for a misspelt
/// name.
fn render(overview: &Overview, filter: Option<(&str, Option<&str>)>) -> String {
    let mut rows: Vec<Row> = links(overview).iter().map(row).collect();
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
        "AGE",
        "STATE",
    ])
    .numbers(&["PID", "DEPTH", "SENT", "TAKEN", "LAG", "LOST", "AGE"])
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
        "AGE",
    ]);
    let has_ages = rows.iter().any(|row| !row[STATE - 1].is_empty());
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
    if !has_ages {
        table.remove("AGE");
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

fn row(it: &Connection) -> Row {
    let taken = |number: u64| count(it.has_receiver.then_some(number));
    let payload = name(&it.payload) + if it.no_layout { " (no layout)" } else { "" };
    // The level at which the sender is blocked, if it is below the depth.
    let depth = it.capacity.map_or(String::new(), |capacity| match it.depth < capacity {
        true => format!("{} of {capacity}", it.depth),
        false => capacity.to_string(),
    });
    [
        name(it.waveform.as_deref().unwrap_or_default()),
        name(&it.from),
        pid(it.pids.0),
        name(&it.to),
        pid(it.pids.1),
        name(&it.transport),
        payload,
        name(&it.overflow),
        depth,
        count(it.sent),
        taken(it.counts.packets),
        count(it.waiting),
        taken(it.counts.lost),
        it.age.map_or_else(String::new, |ages| age(ages.last_ns, &ages)),
        name(&it.state),
    ]
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

fn pid(number: Option<u32>) -> String {
    number.map_or(String::new(), |pid| pid.to_string())
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
    fn ages_have_a_column_if_there_are_any() {
        assert!(!render(&overview(BLOCKED), None).contains("AGE"));
        let text = |clock: &str| {
            let age =
                format!(r#""lost": 0, "age": {{ "samples": 2, "last_ns": 12300000, "max_ns": 9 {clock} }}"#);
            render(&overview(&BLOCKED.replace("\"lost\": 0", &age)), None)
        };
        assert!(text("").contains(" 12.3 ms ± ? "), "{}", text(""));
        let gps = r#", "clock": { "reference": "gps", "error_ns": 100 }"#;
        assert!(text(gps).contains(" 12.3 ms ± 100 ns "), "{}", text(gps));
        let host = r#", "clock": { "reference": "host" }"#;
        assert!(text(host).contains(" 12.3 ms  sender waits"), "{}", text(host));
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
