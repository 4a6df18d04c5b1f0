//! The figures of a waveform at one moment, from the launcher, the ports and the kernel.

use std::collections::BTreeMap;
use std::time::Instant;

use stripline::inspect::{self, Process, Reader};
use stripline_waveform::Placement;
use stripline_waveform::control::{
    ControlClient, ControlError, PropertyReading, RunningComponent, RunningWaveform,
};

/// Ticks of processor time in a second. Linux fixes this number for user space.
const TICKS_PER_SECOND: f64 = 100.0;
/// The longest thread name that the kernel keeps, in bytes.
const THREAD_NAME_MAX: usize = 15;

/// All figures that are read at one moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub time: Instant,
    pub waveform: RunningWaveform,
    pub connections: BTreeMap<String, Counters>,
    pub properties: Vec<PropertyReading>,
    /// Seconds of processor time so far, by component.
    pub busy_s: BTreeMap<String, Busy>,
}

/// The counters of one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub packets: u64,
    pub bytes: u64,
    pub lost: u64,
    pub depth: u32,
    /// Packets that wait in rings and queues, where the count can be read.
    pub waiting: Option<u64>,
    /// Bytes that wait in the kernel's socket.
    pub kernel_bytes: Option<u64>,
    /// The number of packets with a measured latency. `latency_sum_ns` is the sum of these
    /// latencies.
    pub latency_samples: u64,
    pub latency_sum_ns: u64,
}

/// The processor time of a component's process or thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Busy {
    pub pid: u32,
    pub seconds: f64,
}

impl Snapshot {
    /// Takes a snapshot.
    ///
    /// # Errors
    /// The launcher does not answer, or the system's lists cannot be read.
    pub fn take(client: &ControlClient) -> Result<Self, ControlError> {
        let waveform = client.show()?;
        let properties = client.get(None, None)?;
        let overview = inspect::processes()?;
        let time = Instant::now();
        let busy = |component: &RunningComponent| {
            Some((component.name.clone(), busy(component, &waveform.components)?))
        };
        let busy_s = waveform.components.iter().filter_map(busy).collect();
        let its = |process: &&Process| waveform.components.iter().any(|c| c.pid == Some(process.pid));
        let connections = counters(&overview.processes.iter().filter(its).collect::<Vec<_>>());
        Ok(Self { time, waveform, connections, properties, busy_s })
    }
}

/// Combines the figures of both ends of each connection.
fn counters(processes: &[&Process]) -> BTreeMap<String, Counters> {
    let mut readers = BTreeMap::<&str, Vec<&Reader>>::new();
    for reader in processes.iter().flat_map(|process| &process.sending).flat_map(|port| &port.readers) {
        readers.entry(&reader.connection).or_default().push(reader);
    }
    let mut found = BTreeMap::new();
    for connection in
        processes.iter().flat_map(|process| &process.receiving).flat_map(|port| &port.connections)
    {
        let ends = readers.get(&*connection.connection).map_or(&[][..], |ends| ends);
        let sum =
            |numbers: &mut dyn Iterator<Item = Option<u64>>| numbers.flatten().reduce(u64::saturating_add);
        let counters = Counters {
            packets: connection.packets,
            bytes: connection.bytes,
            lost: connection.lost,
            depth: connection.depth,
            waiting: sum(&mut ends.iter().map(|reader| reader.lag_packets).chain([connection.queued])),
            kernel_bytes: sum(&mut ends.iter().map(|reader| reader.kernel_bytes)),
            latency_samples: connection.latency_samples,
            latency_sum_ns: connection.latency_sum_ns,
        };
        found.insert(connection.connection.clone(), counters);
    }
    found
}

/// Reads the processor time of a component. If the component shares a process, reads the time of
/// the thread with the component's name. Returns `None` if another component's thread has the same
/// name.
fn busy(component: &RunningComponent, all: &[RunningComponent]) -> Option<Busy> {
    let pid = component.pid?;
    if component.placement == Placement::Process {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        return Some(Busy { pid, seconds: seconds_of(&stat)? });
    }
    let name = thread_name(&component.name);
    if all.iter().filter(|other| other.pid == Some(pid) && thread_name(&other.name) == name).count() > 1 {
        return None;
    }
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let seconds = tasks.filter_map(|task| {
        let comm = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        (comm.trim_end() == name).then(|| seconds_of(&stat)).flatten()
    });
    seconds.reduce(|one, other| one + other).map(|seconds| Busy { pid, seconds })
}

/// Returns the name of a component's thread: the component's name, as far as the kernel keeps it.
fn thread_name(component: &str) -> &str {
    let mut end = component.len().min(THREAD_NAME_MAX);
    while !component.is_char_boundary(end) {
        end -= 1;
    }
    &component[..end]
}

/// Returns the seconds in user and kernel mode from a `stat` file of the kernel.
fn seconds_of(stat: &str) -> Option<f64> {
    // The command before the last parenthesis may contain spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u32>().ok();
    Some((f64::from(ticks(11)?) + f64::from(ticks(12)?)) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_whatever_the_command_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 1 1 1";
        assert_eq!(seconds_of(stat), Some(2.0));
        for wrong in ["", "7 (a", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 x 50"] {
            assert_eq!(seconds_of(wrong), None, "{wrong}");
        }
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(seconds_of(&own).is_some());
        assert_eq!(
            (thread_name("demodulator"), thread_name("fourteen-letteräs")),
            ("demodulator", "fourteen-letter")
        );
    }

    #[test]
    fn both_ends_of_a_connection_are_joined() {
        let text = r#"{ "version": 1,
            "sending": [{ "name": "a.out", "readers": [
                { "connection": "a.out -> b.in", "lag_packets": 3 },
                { "connection": "a.out -> elsewhere", "lag_packets": 9 } ] }],
            "receiving": [{ "name": "b.in", "connections": [
                { "connection": "a.out -> b.in", "packets": 5, "lost": 1, "depth": 64, "queued": 4,
                  "latency_samples": 5, "latency_sum_ns": 500 },
                { "connection": "c.out -> b.in", "packets": 7 } ] }] }"#;
        let process: Process = serde_json::from_str(text).unwrap();
        let found = counters(&[&process]);
        // A tap belongs to no component.
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a.out -> b.in", "c.out -> b.in"]);
        let expected = Counters { packets: 5, lost: 1, depth: 64, waiting: Some(7), ..Counters::default() };
        let expected = Counters { latency_samples: 5, latency_sum_ns: 500, ..expected };
        assert_eq!(found["a.out -> b.in"], expected);
        assert_eq!(found["c.out -> b.in"].waiting, None);
    }
}
