//! The state of the running waveforms and their connections, with rates.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use stripline::inspect::{self, Overview, ReceiverEnd, SenderEnd};
use stripline_waveform::control::{self, ControlClient, ControlError, RunningWaveform};

/// The interval between two lists of the waveforms.
const LIST_TIME: Duration = Duration::from_secs(1);
/// The time over which rates are measured.
const RATE_TIME: Duration = Duration::from_secs(1);
/// The most problems shown.
const PROBLEMS_MAX: usize = 20;

/// The waveforms that the page shows, and their control clients.
pub(super) struct PageModel {
    only: Option<Selection>,
    sampler: Mutex<Sampler>,
    clients: Mutex<HashMap<Selection, ControlClient>>,
}

/// A waveform by name and, if given, its launcher's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Selection {
    pub name: String,
    pub pid: Option<u32>,
}

/// The state at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct PageState {
    pub waveforms: Vec<RunningWaveform>,
    pub connections: Vec<ConnectionState>,
    /// Failures to get a part of the state.
    pub problems: Vec<String>,
}

/// One connection of a waveform. A value that only one side has is missing if that side does not
/// answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ConnectionState {
    /// The process of the launcher.
    pub launcher: u32,
    /// The sending port, as `component.port`.
    pub from: String,
    pub to: String,
    pub transport: String,
    pub payload: String,
    pub overflow: String,
    /// Packets that may wait before the policy acts.
    pub depth: u32,
    /// Packets that wait. The number is unknown on sockets without a queue.
    pub waiting: Option<u64>,
    /// The reason of a wait: `full`, `answer`, `empty` or nothing.
    pub waits: &'static str,
    pub packets: u64,
    pub bytes: u64,
    pub lost: u64,
    pub gaps: u64,
    pub reordered: u64,
    pub packets_per_s: f64,
    pub bytes_per_s: f64,
    /// The lower end of each bucket in nanoseconds, and the packets in the bucket.
    pub latency: Vec<(u64, u64)>,
}

/// The counts of a connection at one moment.
type Counts = (Instant, u64, u64);
/// Launcher, sending port and receiving port.
type ConnectionKey = (u32, String, String);

#[derive(Default)]
struct Sampler {
    snapshot: Arc<PageState>,
    sampled_at: Option<Instant>,
    listed_at: Option<Instant>,
    waveforms: Vec<RunningWaveform>,
    list_problems: Vec<String>,
    history: HashMap<ConnectionKey, VecDeque<Counts>>,
}

impl PageModel {
    pub(super) fn new(only: Option<Selection>) -> Self {
        Self { only, sampler: Mutex::default(), clients: Mutex::default() }
    }

    /// Returns the name of the waveform to which the page is limited.
    pub(super) fn only(&self) -> Option<&str> {
        self.only.as_ref().map(|only| only.name.as_str())
    }

    /// Returns a snapshot that is not older than `age_max`. Takes a new one if necessary. All
    /// clients share it.
    pub(super) fn snapshot(&self, age_max: Duration) -> Arc<PageState> {
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        if sampler.sampled_at.is_none_or(|at| at.elapsed() >= age_max) {
            sampler.sample(self.only.as_ref());
        }
        Arc::clone(&sampler.snapshot)
    }

    /// Returns the control client of a running waveform.
    ///
    /// # Errors
    /// As in [`ControlClient::find`], and for a waveform that the page does not show.
    pub(super) fn client(&self, which: &Selection) -> Result<ControlClient, ControlError> {
        if let Some(only) = &self.only
            && (only.name != which.name || only.pid.is_some() && which.pid.is_some() && only.pid != which.pid)
        {
            return Err(ControlError::Wrong(vec![format!(
                "this page shows the waveform `{}` only",
                only.name
            )]));
        }
        let pid = which.pid.or(self.only.as_ref().and_then(|only| only.pid));
        let key = Selection { name: which.name.clone(), pid };
        let known = self.clients.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        // The launcher of a waveform that has ended never returns.
        if let Some(client) = known.filter(|client| is_running(client.pid())) {
            return Ok(client);
        }
        let client = ControlClient::find(&key.name, pid)?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, client| is_running(client.pid()));
        clients.insert(key, client.clone());
        Ok(client)
    }
}

fn is_running(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

impl Sampler {
    fn sample(&mut self, only: Option<&Selection>) {
        if self.listed_at.is_none_or(|at| at.elapsed() >= LIST_TIME) {
            self.list(only);
            self.listed_at = Some(Instant::now());
        }
        let mut problems = self.list_problems.clone();
        let mut connections = match inspect::processes() {
            Ok(overview) => {
                problems.extend(overview.problems.iter().map(ToString::to_string));
                connections_of(&overview, &self.waveforms)
            }
            Err(error) => {
                problems.push(error.to_string());
                Vec::new()
            }
        };
        self.add_rates(&mut connections, Instant::now());
        problems.truncate(PROBLEMS_MAX);
        self.snapshot = Arc::new(PageState { waveforms: self.waveforms.clone(), connections, problems });
        self.sampled_at = Some(Instant::now());
    }

    fn list(&mut self, only: Option<&Selection>) {
        match control::running() {
            Ok(mut found) => {
                if let Some(only) = only {
                    let is_shown = |it: &RunningWaveform| {
                        it.name == only.name && only.pid.is_none_or(|pid| pid == it.pid)
                    };
                    found.waveforms.retain(is_shown);
                }
                self.waveforms = found.waveforms;
                self.list_problems = found.problems.into_iter().map(|(_, problem)| problem).collect();
            }
            Err(error) => self.list_problems = vec![error.to_string()],
        }
    }

    /// Fills in the rates over about [`RATE_TIME`].
    fn add_rates(&mut self, connections: &mut [ConnectionState], now: Instant) {
        let mut before = std::mem::take(&mut self.history);
        for connection in connections {
            let key = (connection.launcher, connection.from.clone(), connection.to.clone());
            let mut counts = before.remove(&key).unwrap_or_default();
            // A restarted receiver counts from 0 again.
            if counts.back().is_some_and(|last| last.1 > connection.packets) {
                counts.clear();
            }
            while counts.get(1).is_some_and(|second| now.duration_since(second.0) >= RATE_TIME) {
                counts.pop_front();
            }
            if let Some((at, packets, bytes)) = counts.front() {
                let seconds = now.duration_since(*at).as_secs_f64().max(1e-3);
                connection.packets_per_s = (connection.packets - packets) as f64 / seconds;
                connection.bytes_per_s = connection.bytes.saturating_sub(*bytes) as f64 / seconds;
            }
            counts.push_back((now, connection.packets, connection.bytes));
            self.history.insert(key, counts);
        }
    }
}

/// Returns the connections of these waveforms, without the connections to a tap.
fn connections_of(overview: &Overview, waveforms: &[RunningWaveform]) -> Vec<ConnectionState> {
    let launchers: Vec<u32> = waveforms.iter().map(|waveform| waveform.pid).collect();
    let ends = overview.connections().into_iter();
    let mut connections: Vec<ConnectionState> =
        ends.filter_map(|(from, to)| connection(from, to, &launchers)).collect();
    connections.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
    connections
}

fn connection(
    from: Option<SenderEnd<'_>>,
    to: Option<ReceiverEnd<'_>>,
    launchers: &[u32],
) -> Option<ConnectionState> {
    let launcher = |parent: Option<u32>| parent.filter(|parent| launchers.contains(parent));
    let sender = from.map(|(process, ..)| launcher(process.parent));
    let receiver = to.map(|(process, ..)| launcher(process.parent));
    // A receiver in a process outside of the waveform, or in this process, is a tap.
    let launcher = sender.unwrap_or(receiver.flatten())?;
    if receiver.is_some_and(|its| its != Some(launcher)) {
        return None;
    }
    if from.is_some_and(|(.., reader)| reader.pid == Some(std::process::id())) {
        return None;
    }
    let name = from.map(|f| f.2.connection.as_str()).or(to.map(|t| t.2.connection.as_str()))?;
    let (left, right) = name.split_once(" -> ")?;
    let mut state = ConnectionState { launcher, from: left.into(), to: right.into(), ..Default::default() };
    if let Some((_, port, reader)) = from {
        state.from.clone_from(&port.name);
        state.transport.clone_from(&port.transport);
        state.payload = port.payload.split('{').next().unwrap_or_default().into();
        state.overflow.clone_from(&reader.overflow);
        state.depth = reader.high_watermark.unwrap_or(reader.depth);
        state.waiting = reader.lag_packets;
        state.waits = match () {
            () if reader.waited_for => "full",
            () if reader.answer_awaited => "answer",
            () => "",
        };
    }
    if let Some((_, port, its)) = to {
        state.to.clone_from(&port.name);
        if from.is_none() {
            (state.overflow, state.depth) = (its.overflow.clone(), its.depth);
        }
        state.waiting = match (state.waiting, its.queued) {
            (Some(lag), Some(queued)) => Some(lag.saturating_add(queued)),
            (lag, queued) => lag.or(queued),
        };
        if state.waits.is_empty() && port.sleeps && its.open {
            state.waits = "empty";
        }
        (state.packets, state.bytes, state.lost) = (its.packets, its.bytes, its.lost);
        (state.gaps, state.reordered) = (its.gaps, its.reordered);
        state.latency.clone_from(&its.latency);
    }
    Some(state)
}

#[cfg(test)]
pub(super) fn example() -> PageState {
    let text = r#"{ "problems": [], "processes": [
        { "pid": 10, "parent": 9, "sending": [{ "name": "a.out", "transport": "shm", "payload": "det{x:u8}",
            "readers": [
                { "connection": "a.out -> b.in", "pid": 11, "overflow": "block", "depth": 64, "high_watermark": 48,
                    "lag_packets": 48, "waited_for": true },
                { "connection": "a.out -> tap", "pid": 12, "overflow": "drop-oldest", "depth": 8 }] }] },
        { "pid": 11, "parent": 9, "receiving": [{ "name": "b.in", "connections": [{ "connection": "a.out -> b.in",
            "open": true, "packets": 100, "bytes": 800, "lost": 2, "gaps": 1, "latency": [[1024, 60], [1280, 40]] }] }] },
        { "pid": 12, "parent": 1, "receiving": [{ "name": "tap", "connections": [{ "connection": "a.out -> tap" }] }] },
        { "pid": 13, "parent": 5, "sending": [{ "name": "x.out", "readers": [{ "connection": "x.out -> y.in" }] }] }] }"#;
    let overview: Overview = serde_json::from_str(text).unwrap();
    let waveform = r#"{ "name": "radio \"1\"", "pid": 9, "file": "/r.toml", "phase": "running", "elapsed_s": 2.5,
        "packets": 100, "lost": 2, "components": [{ "name": "a", "type": "source", "placement": "process", "pid": 10,
            "state": "running", "restarts": 3, "tests": [] }] }"#;
    let waveforms = vec![serde_json::from_str(waveform).unwrap()];
    PageState { connections: connections_of(&overview, &waveforms), waveforms, problems: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_both_sides_and_taps_are_left_out() {
        let connections = example().connections;
        let expected = ConnectionState {
            launcher: 9,
            from: "a.out".into(),
            to: "b.in".into(),
            transport: "shm".into(),
            payload: "det".into(),
            overflow: "block".into(),
            depth: 48,
            waiting: Some(48),
            waits: "full",
            packets: 100,
            bytes: 800,
            lost: 2,
            gaps: 1,
            latency: vec![(1024, 60), (1280, 40)],
            ..ConnectionState::default()
        };
        assert_eq!(connections, [expected]);
    }

    #[test]
    fn rates_are_those_of_about_a_second_and_begin_anew_after_a_restart() {
        let start = Instant::now();
        let mut sampler = Sampler::default();
        let mut rate = |ms: u64, packets: u64| {
            let mut one = [ConnectionState { packets, bytes: 8 * packets, ..ConnectionState::default() }];
            sampler.add_rates(&mut one, start + Duration::from_millis(ms));
            (one[0].packets_per_s, one[0].bytes_per_s)
        };
        assert_eq!(rate(0, 100), (0.0, 0.0));
        assert_eq!(rate(500, 150), (100.0, 800.0));
        assert_eq!(rate(1_000, 300), (200.0, 1_600.0));
        // The rates are no longer measured from the beginning.
        assert_eq!(rate(1_500, 300), (150.0, 1_200.0));
        assert_eq!(rate(2_000, 10), (0.0, 0.0));
        assert_eq!(rate(2_100, 20), (100.0, 800.0));
        sampler.add_rates(&mut [], start + Duration::from_secs(3));
        assert!(sampler.history.is_empty());
    }

    #[test]
    fn a_page_of_one_waveform_asks_no_other() {
        let model = PageModel::new(Some(Selection { name: "radio".into(), pid: Some(1) }));
        for (name, pid) in [("other", None), ("radio", Some(2))] {
            let error = model.client(&Selection { name: name.into(), pid }).unwrap_err();
            assert!(error.is_wrong() && error.to_string().contains("`radio` only"), "{error}");
        }
    }
}
