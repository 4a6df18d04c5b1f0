//! The model of what runs: connections with both ends, counts and rates, processor times, and
//! findings. `links`, `top`, `web` and the metrics are views of it.

mod course;
mod problems;
mod processor;
mod unused_rules;

pub(crate) use course::{Course, Window};
pub(crate) use problems::problem_lines;
pub(crate) use processor::Busy;
pub(crate) use unused_rules::{UnusedRule, unused_rules};

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;
use stripline::inspect::{AgeReport, Overview, Process, Reader, ReceiverEnd, SenderEnd, SendingPort};

/// A connection, as both ends report it, or a port without a connection. A value that only one end
/// has is missing if that end does not answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Connection {
    /// The process of the launcher; without a waveform, the parent process.
    pub launcher: Option<u32>,
    #[serde(skip)]
    pub waveform: Option<String>,
    /// The sending port, as `component.port`.
    pub from: String,
    pub to: String,
    /// The processes of the sender and of the receiver.
    #[serde(skip)]
    pub pids: (Option<u32>, Option<u32>),
    pub transport: String,
    pub payload: String,
    #[serde(skip)]
    pub no_layout: bool,
    pub overflow: String,
    /// Packets that may wait before the policy acts.
    pub depth: u32,
    /// Packets that have room: more than `depth` with a high watermark. `None`: no connection.
    #[serde(skip)]
    pub capacity: Option<u32>,
    /// Packets that wait. The number is unknown on sockets without a queue.
    pub waiting: Option<u64>,
    /// Bytes that wait in the kernel's socket.
    #[serde(skip)]
    pub kernel_bytes: Option<u64>,
    /// The reason of a wait: `full`, `answer`, `empty` or nothing.
    pub waits: &'static str,
    /// The state, in words.
    #[serde(skip)]
    pub state: Cow<'static, str>,
    /// Packets sent, if the port counts them.
    #[serde(skip)]
    pub sent: Option<u64>,
    /// Whether the receiver answers. Otherwise the counts are zero.
    #[serde(skip)]
    pub has_receiver: bool,
    #[serde(flatten)]
    pub counts: Counts,
    #[serde(flatten)]
    pub rates: Rates,
    /// The lower end of each bucket in nanoseconds, and the packets in the bucket.
    pub latency: Vec<(u64, u64)>,
    /// The age of the samples; `None` if no packet had a time.
    pub age: Option<AgeReport>,
}

/// The counts of a receiver since it connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub packets: u64,
    pub bytes: u64,
    pub lost: u64,
    pub gaps: u64,
    pub reordered: u64,
    /// Packets with a measured latency. `latency_sum_ns` is the sum of these latencies.
    #[serde(skip)]
    pub latency_samples: u64,
    #[serde(skip)]
    pub latency_sum_ns: u64,
    /// The part of the sum in which the component was busy.
    #[serde(skip)]
    pub queued_sum_ns: u64,
    #[serde(skip)]
    pub service_samples: u64,
    #[serde(skip)]
    pub service_sum_ns: u64,
}

/// The changes of the counts over about a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// Whether there was an earlier reading. Otherwise the rates are zero.
    #[serde(skip)]
    pub is_measured: bool,
    pub packets_per_s: f64,
    pub bytes_per_s: f64,
    #[serde(skip)]
    pub is_losing: bool,
    /// The mean latency, the queued part of it, and the mean service.
    #[serde(rename = "latency_mean_ns")]
    pub latency_ns: Option<f64>,
    #[serde(rename = "queued_mean_ns")]
    pub queued_ns: Option<f64>,
    #[serde(rename = "service_mean_ns")]
    pub service_ns: Option<f64>,
    /// The mean latency since the last reading.
    #[serde(skip)]
    pub latest_latency_ns: Option<f64>,
}

/// Returns all connections, and the ports without a connection.
pub(crate) fn links(overview: &Overview) -> Vec<Connection> {
    let connections = overview.connections().into_iter();
    let mut links: Vec<Connection> = connections.map(|(from, to)| Connection::of(from, to)).collect();
    let processes = || overview.processes.iter();
    let sending = || processes().flat_map(|process| process.sending.iter().map(move |port| (process, port)));
    let mut refusing = BTreeSet::new();
    for (process, port) in processes().flat_map(|process| process.receiving.iter().map(move |p| (process, p)))
    {
        let alone = Connection {
            waveform: process.waveform.clone(),
            to: port.name.clone(),
            pids: (None, Some(process.pid)),
            state: if port.serves { "no client" } else { "no sender" }.into(),
            ..Connection::default()
        };
        for refused in &port.refused {
            let mut link = Connection { state: refused.summary().into(), ..alone.clone() };
            // The name of the connection has the address of the sender.
            let address = refused.connection.rsplit_once(" -> ").and_then(|(from, _)| from.rsplit_once('@'));
            let is_sender =
                |(_, port): &(_, &SendingPort)| address.is_some_and(|(_, own)| port.address == own);
            if let Some((sender, port)) = sending().find(is_sender) {
                link.set_sender(sender, port);
                refusing.insert(&port.address);
            }
            links.push(link);
        }
        if port.refused.is_empty() && port.connections.is_empty() {
            links.push(alone);
        }
    }
    for (process, port) in sending().filter(|(_, port)| port.readers.is_empty()) {
        if !refusing.contains(&port.address) {
            let mut link = Connection { state: "no reader".into(), ..Connection::default() };
            link.waveform.clone_from(&process.waveform);
            link.set_sender(process, port);
            links.push(link);
        }
    }
    links
}

/// Returns the connections within the waveforms of these launchers, in the order of their names.
pub(crate) fn connections_within(overview: &Overview, launchers: &[u32]) -> Vec<Connection> {
    let mut ends = overview.connections();
    ends.retain(|(from, to)| {
        let parents = [from.map(|end| end.0.parent), to.map(|end| end.0.parent)];
        let mut known = parents.into_iter().flatten();
        let first = known.next().flatten();
        // A receiver in a process outside of the waveform, or in this process, is a tap.
        first.is_some_and(|first| launchers.contains(&first))
            && known.all(|other| other == first)
            && from.is_none_or(|(.., reader)| reader.pid != Some(std::process::id()))
    });
    let mut within: Vec<Connection> = ends.into_iter().map(|(from, to)| Connection::of(from, to)).collect();
    within.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
    within
}

impl Connection {
    fn of(from: Option<SenderEnd<'_>>, to: Option<ReceiverEnd<'_>>) -> Self {
        let name = from.map(|end| &end.2.connection).or(to.map(|end| &end.2.connection));
        let (left, right) = name.and_then(|name| name.split_once(" -> ")).unwrap_or_default();
        let mut it =
            Self { from: left.into(), to: right.into(), state: state(from, to).into(), ..Self::default() };
        if let Some((process, port, reader)) = from {
            (it.launcher, it.waveform) = (process.parent, process.waveform.clone());
            it.set_sender(process, port);
            it.pids.1 = reader.pid;
            it.overflow.clone_from(&reader.overflow);
            (it.depth, it.capacity) = (reader.high_watermark.unwrap_or(reader.depth), Some(reader.depth));
            (it.waiting, it.kernel_bytes) = (reader.lag_packets, reader.kernel_bytes);
            it.waits = match () {
                () if reader.waited_for => "full",
                () if reader.answer_awaited => "answer",
                () => "",
            };
        }
        if let Some((process, port, end)) = to {
            it.launcher = it.launcher.or(process.parent);
            it.waveform = it.waveform.or_else(|| process.waveform.clone());
            it.to.clone_from(&port.name);
            it.pids.1 = Some(process.pid);
            if from.is_none() {
                (it.overflow, it.depth, it.capacity) = (end.overflow.clone(), end.depth, Some(end.depth));
            }
            // Packets in the transport, and in the receive queue of a policy that drops.
            it.waiting = match (it.waiting, end.queued) {
                (Some(lag), Some(queued)) => Some(lag.saturating_add(queued)),
                (lag, queued) => lag.or(queued),
            };
            if it.waits.is_empty() && port.sleeps && end.open {
                it.waits = "empty";
            }
            it.has_receiver = true;
            it.counts = Counts {
                packets: end.packets,
                bytes: end.bytes,
                lost: end.lost,
                gaps: end.gaps,
                reordered: end.reordered,
                latency_samples: end.latency_samples,
                latency_sum_ns: end.latency_sum_ns,
                queued_sum_ns: end.queued_sum_ns,
                service_samples: end.service_samples,
                service_sum_ns: end.service_sum_ns,
            };
            it.latency.clone_from(&end.latency);
            it.age = end.age;
        }
        it
    }

    fn set_sender(&mut self, process: &Process, port: &SendingPort) {
        self.from.clone_from(&port.name);
        self.pids.0 = Some(process.pid);
        self.transport.clone_from(&port.transport);
        // The name of a type comes before the layout.
        self.payload = port.payload.split('{').next().unwrap_or_default().into();
        (self.no_layout, self.sent) = (port.no_layout, port.packets);
    }

    /// Returns the name, as `a.out -> b.in`.
    pub(crate) fn name(&self) -> String {
        format!("{} -> {}", self.from, self.to)
    }
}

/// Returns the state of a connection, in words.
fn state(from: Option<SenderEnd<'_>>, to: Option<ReceiverEnd<'_>>) -> &'static str {
    match (from, to) {
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
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_both_sides_and_taps_are_left_out() {
        let text = r#"{ "problems": [], "processes": [
            { "pid": 10, "parent": 9, "sending": [{ "name": "a.out", "transport": "shm", "payload": "det{x:u8}",
                "readers": [
                    { "connection": "a.out -> b.in", "pid": 11, "overflow": "block", "depth": 64,
                        "high_watermark": 48, "lag_packets": 48, "waited_for": true },
                    { "connection": "a.out -> tap", "pid": 12, "overflow": "drop-oldest", "depth": 8 }] }] },
            { "pid": 11, "parent": 9, "receiving": [
                { "name": "b.in", "connections": [{ "connection": "a.out -> b.in", "open": true, "packets": 100,
                    "bytes": 800, "lost": 2, "gaps": 1, "queued": 4, "latency_samples": 5, "latency_sum_ns": 500,
                    "latency": [[1024, 60], [1280, 40]] }] },
                { "name": "c.in", "connections": [{ "connection": "z.out -> c.in", "packets": 7 }] }] },
            { "pid": 12, "parent": 1, "receiving": [
                { "name": "tap", "connections": [{ "connection": "a.out -> tap" }] }] },
            { "pid": 13, "parent": 5, "sending": [
                { "name": "x.out", "readers": [{ "connection": "x.out -> y.in" }] }] }] }"#;
        let found = connections_within(&serde_json::from_str(text).unwrap(), &[9]);
        let counts = Counts { packets: 100, bytes: 800, lost: 2, gaps: 1, ..Counts::default() };
        let expected = Connection {
            launcher: Some(9),
            from: "a.out".into(),
            to: "b.in".into(),
            pids: (Some(10), Some(11)),
            transport: "shm".into(),
            payload: "det".into(),
            overflow: "block".into(),
            depth: 48,
            capacity: Some(64),
            waiting: Some(52),
            waits: "full",
            state: "sender waits (full)".into(),
            has_receiver: true,
            counts: Counts { latency_samples: 5, latency_sum_ns: 500, ..counts },
            latency: vec![(1024, 60), (1280, 40)],
            ..Connection::default()
        };
        assert_eq!(found[0], expected);
        // The sender does not answer.
        assert_eq!((found.len(), &*found[1].name(), found[1].waiting), (2, "z.out -> c.in", None));
    }
}
