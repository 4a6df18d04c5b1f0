//! What a process says of its ports.

use serde::{Deserialize, Serialize};

/// Everything that was found at one moment; processes answer one after the other, so it is not the same moment for all.
///
/// ```
/// let overview = stripline::introspect::Overview::default();
/// assert!(overview.processes.is_empty() && overview.waits().is_empty());
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Overview {
    /// The processes that answered, by number.
    pub processes: Vec<Process>,
    /// Those that did not, or not properly.
    pub problems: Vec<Problem>,
}

/// A process that could not be asked.
///
/// ```
/// let text = r#"{ "pid": 17, "command": "sink", "what": "does not answer" }"#;
/// let problem: stripline::introspect::Problem = serde_json::from_str(text).unwrap();
/// assert_eq!(problem.to_string(), "process 17 (sink): does not answer");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The process that owns the socket.
    pub pid: u32,
    /// Its command, as the kernel shows it.
    pub command: Option<String>,
    /// What is wrong.
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

/// One process and its ports. All names in it are the process's own words.
///
/// ```
/// let text = r#"{ "version": 1, "pid": 17, "sending": [], "receiving": [] }"#;
/// let process: stripline::introspect::Process = serde_json::from_str(text).unwrap();
/// assert_eq!((process.pid, process.command), (17, None));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// The version of this document: 1.
    pub version: u32,
    /// The process, as the kernel says.
    pub pid: u32,
    /// Its parent; components of one waveform have the same.
    pub parent: Option<u32>,
    /// Its command, as the kernel shows it: at most 15 bytes.
    pub command: Option<String>,
    /// The waveform whose component it is, if it is one.
    pub waveform: Option<String>,
    /// Sending ports; one that sends over several transports is there once for each.
    pub sending: Vec<SendingPort>,
    /// Receiving ports.
    pub receiving: Vec<ReceivingPort>,
    /// Ports left out, because a process says no more than a few megabytes.
    pub omitted: u64,
}

/// A sending port over one transport.
///
/// ```
/// let text = r#"{ "name": "source.out", "transport": "uds", "packets": null }"#;
/// let port: stripline::introspect::SendingPort = serde_json::from_str(text).unwrap();
/// assert_eq!((port.packets, port.readers.len()), (None, 0));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SendingPort {
    /// `component.port`, or the topic.
    pub name: String,
    /// The transport's name.
    pub transport: String,
    /// Where it can be reached; of no use without its keys, which are not told.
    pub address: String,
    /// The payload type.
    pub payload: String,
    /// Bytes of its ring, or what bounds its packets on sockets.
    pub buffer: u64,
    /// How it waits for room: `block`, `adaptive` or `spin`.
    pub wait: String,
    /// Packets sent, if known.
    pub packets: Option<u64>,
    /// Bytes that have gone through the ring, headers and padding included; unknown on sockets.
    pub position: Option<u64>,
    /// Whether it sleeps until a reader has made room, or has answered.
    pub waits: bool,
    /// Who reads.
    pub readers: Vec<Reader>,
}

/// A reader of a sending port, as the sender sees it.
///
/// ```
/// let text = r#"{ "connection": "a.out -> b.in", "overflow": "block", "depth": 64, "lag_packets": 3 }"#;
/// let reader: stripline::introspect::Reader = serde_json::from_str(text).unwrap();
/// assert_eq!((reader.lag_packets, reader.lag_bytes), (Some(3), None));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reader {
    /// The connection's name, `from -> to`.
    pub connection: String,
    /// Its process; unknown on TCP.
    pub pid: Option<u32>,
    /// Its overflow policy.
    pub overflow: String,
    /// Packets that may wait for it. On memory, one more may lie there: the description of the stream has a place.
    pub depth: u32,
    /// Packets that wait for it when the sender is held up, where that is fewer.
    pub high_watermark: Option<u32>,
    /// Whether the sender has taken it in, which it does before its next packet.
    pub attached: bool,
    /// Bytes that it is done with, counted as the port's `position`; unknown on sockets.
    pub position: Option<u64>,
    /// Packets sent and not yet taken off the transport; under a policy that drops, those taken may still lie in the
    /// receiving port's own queue ([`Connection::queued`]). Unknown on sockets.
    pub lag_packets: Option<u64>,
    /// The same in bytes of the ring; unknown on sockets.
    pub lag_bytes: Option<u64>,
    /// What the kernel holds of the sender's socket, as the kernel counts: on `uds` what the reader has not read, with
    /// the kernel's overhead; on `tcp` what the reader's kernel has not acknowledged. Unknown on memory.
    pub kernel_bytes: Option<u64>,
    /// Whether it sleeps until there is a packet; unknown on sockets.
    pub sleeps: Option<bool>,
    /// Whether the sender sleeps until this reader makes room.
    pub waited_for: bool,
    /// Whether the sender sleeps until this reader says what became of a packet (scopes `server` and `target`).
    pub answer_awaited: bool,
}

/// A receiving port.
///
/// ```
/// let text = r#"{ "name": "sink.in", "sleeps": true, "connections": [] }"#;
/// let port: stripline::introspect::ReceivingPort = serde_json::from_str(text).unwrap();
/// assert!(port.sleeps);
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceivingPort {
    /// `component.port`, or the topic.
    pub name: String,
    /// Whether it sleeps until any of its senders has a packet.
    pub sleeps: bool,
    /// Whether it takes the calls of a service, whoever makes them.
    pub serves: bool,
    /// Its connections.
    pub connections: Vec<Connection>,
}

/// A connection of a receiving port, as the receiver sees it.
///
/// ```
/// let text = r#"{ "connection": "a.out -> b.in", "packets": 9, "lost": 1, "open": true }"#;
/// let connection: stripline::introspect::Connection = serde_json::from_str(text).unwrap();
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
    /// Packets that may wait.
    pub depth: u32,
    /// How it is waited for: `block`, `adaptive` or `spin`.
    pub wait: String,
    /// Whether there was a sender when the port last went to sleep or heard of a new one.
    pub open: bool,
    /// Packets taken.
    pub packets: u64,
    /// Their payload, in bytes.
    pub bytes: u64,
    /// Packets known to be lost.
    pub lost: u64,
    /// Gaps reported in band.
    pub gaps: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// How often the sender vanished without an end of stream.
    pub peer_deaths: u64,
    /// Packets in this process's own queue, which policies that drop have.
    pub queued: Option<u64>,
}
