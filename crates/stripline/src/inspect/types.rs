//! The description of a process's ports in the form in which it is sent.

use serde::{Deserialize, Serialize};

use super::AgeReport;
use crate::terms::{Overflow, Watermarks};

/// A snapshot of all processes. Each process responds at a different moment, so the snapshots are
/// not simultaneous.
///
/// ```
/// let overview = stripline::inspect::Overview::default();
/// assert!(overview.processes.is_empty() && overview.waits().is_empty());
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Overview {
    /// The processes that responded, by number.
    pub processes: Vec<Process>,
    /// The processes that did not respond, or not correctly.
    pub problems: Vec<Problem>,
}

/// A process that could not be queried.
///
/// ```
/// let text = r#"{ "pid": 17, "command": "sink", "what": "does not answer" }"#;
/// let problem: stripline::inspect::Problem = serde_json::from_str(text).unwrap();
/// assert_eq!(problem.to_string(), "process 17 (sink): does not answer");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The process that owns the socket.
    pub pid: u32,
    /// The command of the process, as the kernel reports it.
    pub command: Option<String>,
    /// The problem.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.command {
            Some(command) => write!(f, "process {} ({command}): {}", self.pid, self.what),
            None => write!(f, "process {}: {}", self.pid, self.what),
        }
    }
}

/// A process with ports. The process itself provides all names in this view.
///
/// ```
/// let text = r#"{ "version": 1, "pid": 17, "sending": [], "receiving": [] }"#;
/// let process: stripline::inspect::Process = serde_json::from_str(text).unwrap();
/// assert_eq!((process.pid, process.command), (17, None));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// The version of this document: 1.
    pub version: u32,
    /// The process number, from the kernel.
    pub pid: u32,
    /// The parent of the process. Components of one waveform have the same parent.
    pub parent: Option<u32>,
    /// The command of the process, as the kernel reports it: at most 15 bytes.
    pub command: Option<String>,
    /// The waveform of the process's components, if any.
    pub waveform: Option<String>,
    /// Sending ports. A port that sends over several transports is listed once for each transport.
    pub sending: Vec<SendingPort>,
    /// Receiving ports.
    pub receiving: Vec<ReceivingPort>,
    /// The topics files of the process's nodes.
    pub topics_files: Vec<TopicsFile>,
    /// Ports left out, because a response is limited to a few megabytes.
    pub omitted: u64,
}

/// A topics file that a process has read.
///
/// ```
/// let text = r#"{ "path": "/etc/radio/topics.toml", "unused": ["iqq"] }"#;
/// let file: stripline::inspect::TopicsFile = serde_json::from_str(text).unwrap();
/// assert_eq!(file.unused, ["iqq"]);
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicsFile {
    /// The path of the file.
    pub path: String,
    /// The topics with a rule that no port or client of the process has used so far; at most 256.
    pub unused: Vec<String>,
}

/// A sending port over one transport.
///
/// ```
/// let text = r#"{ "name": "source.out", "transport": "uds", "packets": null }"#;
/// let port: stripline::inspect::SendingPort = serde_json::from_str(text).unwrap();
/// assert_eq!((port.packets, port.readers.len()), (None, 0));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SendingPort {
    /// `component.port`, or the topic.
    pub name: String,
    /// The name of the transport.
    pub transport: String,
    /// The address of the port, useless without the keys, which are not sent.
    pub address: String,
    /// The payload type: a name, or the text of a layout, which begins with the name.
    pub payload: String,
    /// Whether these are samples of a type without a layout: both ends compare the name only.
    pub no_layout: bool,
    /// The size of the port's ring in bytes; on sockets, the limit of packets.
    pub buffer: u64,
    /// The strategy by which the port waits for space: `block`, `adaptive` or `spin`.
    pub wait: String,
    /// The number of packets sent, if available.
    pub packets: Option<u64>,
    /// The number of bytes written to the ring, including headers and padding; unknown on sockets.
    pub position: Option<u64>,
    /// Whether the port waits until a reader has made space or sent an acknowledgement.
    pub waits: bool,
    /// The port's readers.
    pub readers: Vec<Reader>,
}

/// A reader of a sending port, as the sender records it.
///
/// ```
/// let text = r#"{ "connection": "a.out -> b.in", "overflow": "block", "depth": 64, "lag_packets": 3 }"#;
/// let reader: stripline::inspect::Reader = serde_json::from_str(text).unwrap();
/// assert_eq!((reader.lag_packets, reader.lag_bytes), (Some(3), None));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reader {
    /// The connection's name, `from -> to`.
    pub connection: String,
    /// The process of the reader; unknown on TCP.
    pub pid: Option<u32>,
    /// The overflow policy of the reader.
    pub overflow: String,
    /// The number of packets that may wait for the reader. On memory one more may wait, because the
    /// stream description takes a place.
    pub depth: u32,
    /// The number of waiting packets at which the sender blocks, if it is less than `depth`.
    pub high_watermark: Option<u32>,
    /// Under `block`: the number of waiting packets at which a blocked sender resumes.
    pub low_watermark: Option<u32>,
    /// Whether the sender has attached the reader, which happens before the sender's next packet.
    pub attached: bool,
    /// The number of bytes released by the reader, counted like the port's `position`; unknown on
    /// sockets.
    pub position: Option<u64>,
    /// The number of packets sent and not yet taken off the transport. Under a policy that drops,
    /// packets already taken may still wait in the receiving port's own queue
    /// ([`Connection::queued`]). Unknown on sockets.
    pub lag_packets: Option<u64>,
    /// The same lag in bytes of the ring; unknown on sockets.
    pub lag_bytes: Option<u64>,
    /// Bytes that the kernel holds for the sender's socket, as the kernel counts them. On `uds`
    /// these are the bytes not yet read, with the kernel's overhead. On `tcp` these are the bytes
    /// not yet acknowledged by the reader's kernel. Unknown on memory.
    pub kernel_bytes: Option<u64>,
    /// Whether the reader sleeps until a packet arrives; unknown on sockets.
    pub sleeps: Option<bool>,
    /// Whether the sender waits until this reader makes space.
    pub waited_for: bool,
    /// The time that the sender has waited for this reader to make space, so far.
    pub room_waited_ns: u64,
    /// Whether the sender waits until this reader acknowledges a packet (scopes `server` and
    /// `target`).
    pub answer_awaited: bool,
    /// The time that the sender has waited for acknowledgements of this reader, so far.
    pub answer_waited_ns: u64,
}

impl Reader {
    /// Returns a reader's view with the values that never change.
    pub(crate) fn new(connection: &str, overflow: Overflow, depth: u32, watermarks: &Watermarks) -> Self {
        let high = watermarks.high();
        Self {
            connection: connection.into(),
            overflow: overflow.to_string(),
            depth,
            high_watermark: (high < depth).then_some(high),
            low_watermark: (overflow == Overflow::Block).then(|| watermarks.low()),
            ..Self::default()
        }
    }

    /// Returns whether the reader's queue has no room: the sender sleeps until the reader makes
    /// room, or as many packets wait as are allowed. On sockets only the former is visible.
    ///
    /// ```
    /// let text = r#"{ "depth": 64, "high_watermark": 48, "lag_packets": 48 }"#;
    /// let mut reader: stripline::inspect::Reader = serde_json::from_str(text).unwrap();
    /// assert!(reader.is_full());
    /// reader.lag_packets = Some(47);
    /// assert!(!reader.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        let most = u64::from(self.high_watermark.unwrap_or(self.depth));
        self.waited_for || (most > 0 && self.lag_packets.is_some_and(|lag| lag >= most))
    }

    /// Returns whether the sender waits for the reader when the queue is full.
    pub(crate) fn blocks(&self) -> bool {
        self.overflow == Overflow::Block.as_str()
    }
}

/// A receiving port.
///
/// ```
/// let text = r#"{ "name": "sink.in", "sleeps": true, "connections": [] }"#;
/// let port: stripline::inspect::ReceivingPort = serde_json::from_str(text).unwrap();
/// assert!(port.sleeps);
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceivingPort {
    /// `component.port`, or the topic.
    pub name: String,
    /// Whether the port sleeps until a sender has a packet.
    pub sleeps: bool,
    /// The time that the port has slept for this reason, so far. A port that spins does not sleep.
    pub slept_ns: u64,
    /// Whether the port receives the calls of a service.
    pub serves: bool,
    /// The connections of the port.
    pub connections: Vec<Connection>,
    /// The senders of the topic that the port cannot connect to, for as long as they are offered.
    pub refused: Vec<RefusedSender>,
}

/// A sender that refused a receiving port, or that the port refused.
///
/// ```
/// let text = r#"{ "connection": "iq@x -> iq", "sends": "cf32", "takes": "f32", "reason": "..." }"#;
/// let refused: stripline::inspect::RefusedSender = serde_json::from_str(text).unwrap();
/// assert_eq!(refused.summary(), "refused: sends cf32, takes f32");
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusedSender {
    /// The connection that was not made.
    pub connection: String,
    /// The payload type of the sender, with the layout.
    pub sends: String,
    /// The payload type of the receiving port.
    pub takes: String,
    /// The complete reason.
    pub reason: String,
}

impl RefusedSender {
    /// Returns the reason in a few words. Layouts are left out if the names differ.
    pub fn summary(&self) -> String {
        if self.sends == self.takes {
            return format!("refused: {}", self.reason);
        }
        let name = |text: &str| text.split('{').next().unwrap_or_default().to_owned();
        let (sends, takes) = (name(&self.sends), name(&self.takes));
        match sends == takes {
            true => format!("refused: sends {}, takes {}", self.sends, self.takes),
            false => format!("refused: sends {sends}, takes {takes}"),
        }
    }
}

/// A connection of a receiving port, as the receiver records it.
///
/// ```
/// let text = r#"{ "connection": "a.out -> b.in", "packets": 9, "lost": 1, "open": true }"#;
/// let connection: stripline::inspect::Connection = serde_json::from_str(text).unwrap();
/// assert_eq!((connection.packets, connection.lost), (9, 1));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connection {
    /// `from -> to`.
    pub connection: String,
    /// The overflow policy.
    pub overflow: String,
    /// The number of packets that may wait.
    pub depth: u32,
    /// The wait strategy of the connection: `block`, `adaptive` or `spin`.
    pub wait: String,
    /// Whether a sender was connected when the port last went to sleep or was notified of a new
    /// sender.
    pub open: bool,
    /// Packets received.
    pub packets: u64,
    /// The payload of these packets in bytes.
    pub bytes: u64,
    /// Packets lost.
    pub lost: u64,
    /// Gaps reported in band.
    pub gaps: u64,
    /// Packets that arrived after a packet with a higher number.
    pub reordered: u64,
    /// The number of times that the sender disappeared without an end of stream.
    pub peer_deaths: u64,
    /// The number of packets with a measured latency, from send to receive. At 100,000 packets/s
    /// and more, only a part of the packets is measured.
    pub latency_samples: u64,
    /// The sum of these latencies, to about 2 %. Two readings give the mean in between.
    pub latency_sum_ns: u64,
    /// The part of this sum in which the component was busy, to about 6 %.
    pub queued_sum_ns: u64,
    /// The number of measured packets, and of windows that span packets, that the component has
    /// finished with.
    pub service_samples: u64,
    /// The sum of the times for which the component used these packets and windows, to about 3 %.
    pub service_sum_ns: u64,
    /// The number of packets in the port's own queue. Policies that drop have such a queue. On
    /// sockets, so has `block` under scope `server` or `target`, and with a
    /// [`Flow`](crate::terms::Flow) other than `transport`.
    pub queued: Option<u64>,
    /// The measured packets by latency, from send to receive: pairs of the shortest latency of a
    /// bucket in nanoseconds and the number of packets in it, in order. There are four buckets for
    /// each power of two, and empty buckets are left out.
    pub latency: Vec<(u64, u64)>,
    /// The age of the samples, of the packets with a time; with another clock of the sender, too.
    pub age: Option<AgeReport>,
    /// Whether the sender has another clock, for example on another host. No packet is measured
    /// then.
    pub other_clock: bool,
}
