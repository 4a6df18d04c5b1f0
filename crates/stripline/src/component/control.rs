//! The messages between the launcher and a component process, over one local socket that the
//! process inherits.
//!
//! The operations correspond to the SCA's Resource interface: initialize (`Assign`), start, stop,
//! release. Configure, query and self-test are [`Ask`]. A message consists of a length (4 bytes,
//! little-endian) and that many bytes of JSON.

#![expect(missing_docs, reason = "public only in the hidden interface for the launcher")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::pace_log::PaceReport;
use super::{FileReport, Properties, TestResult, Value};
use crate::inspect::Process;
use crate::link::{ConnectionReport, FullReport, Sampling};
use crate::node::Dispatch;
use crate::packet::payload::TypeName;
use crate::sys::fork::Descriptor;
use crate::sys::messages::{self, framed};
use crate::terms::{LinkOptions, SenderOptions};
use crate::transport::Endpoint;

/// The version of these messages.
pub const VERSION: u32 = 6;
/// Environment variable with the descriptor of a component process's control socket.
pub const CONTROL_VARIABLE: &str = "STRIPLINE_CONTROL_FD";
/// Environment variable with the launcher's process number.
pub const LAUNCHER_VARIABLE: &str = "STRIPLINE_LAUNCHER_PID";
/// The longest message, in bytes.
const MESSAGE_MAX: usize = 16 << 20;

/// A message from the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub enum LauncherCommand {
    /// Create these components and open their outputs.
    Assign(Vec<Assignment>),
    /// Connect an input. Sent again after the sender was restarted.
    Connect(Box<ConnectionAssignment>),
    /// Do not wait for this connection of an input, or for the return of the sender: the sender has
    /// ended for good.
    Abandon { component: String, port: String, connection: String },
    /// Drop the transport that the input has connected for a move, because the sender of this
    /// connection does not move.
    CancelMove { component: String, port: String, connection: String, endpoint: Endpoint },
    /// Run this component.
    Start { component: String },
    /// Ask a component to stop.
    Stop { component: String },
    /// End the streams from now on, in a component with [`Assignment::keeps_streams`].
    EndStreams { component: String },
    /// Send the counters.
    Poll,
    /// Queue this request for a component. Each request gets one answer with the same number.
    Ask { component: String, number: u64, ask: Ask },
    /// The request was cancelled: do not start it.
    Withdraw { component: String, number: u64 },
    /// Send the present values of the component's read-only properties.
    Query { component: String, number: u64 },
    /// Exit.
    Release,
}

/// A request to a running component. The component takes it between packets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Take these values, either all or none.
    Configure(BTreeMap<String, Value>),
    /// Run this self-test.
    Test(String),
    /// Open a tap at this output. The process answers without the component.
    Tap(String),
    /// Open an output over a transport that it may move to. The process answers without the
    /// component.
    PrepareMove(Box<OutputAssignment>),
    /// Move an output to the transport prepared last, before the next packet.
    Move(String),
    /// Close the transport that was prepared for an output. The process answers without the
    /// component.
    CancelMove(String),
}

impl Ask {
    /// Returns the output that the request is for, if the process serves the request without the
    /// component.
    pub fn port(&self) -> Option<&str> {
        match self {
            Self::Configure(_) | Self::Test(_) => None,
            Self::Tap(port) | Self::Move(port) | Self::CancelMove(port) => Some(port),
            Self::PrepareMove(output) => Some(&output.port),
        }
    }
}

/// A component of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assignment {
    pub name: String,
    pub type_name: String,
    pub properties: Properties,
    pub port_types: BTreeMap<String, TypeName>,
    pub outputs: Vec<OutputAssignment>,
    pub inputs: Vec<InputAssignment>,
    pub priority: Option<u8>,
    pub cpus: Vec<usize>,
    pub dispatch: Dispatch,
    /// The waveform's name.
    #[serde(default)]
    pub waveform: String,
    /// Whether to print only warnings and errors.
    #[serde(default)]
    pub quiet: bool,
    pub sampling: Sampling,
    /// Whether the streams go on after the component has ended, because it is started again.
    #[serde(default)]
    pub keeps_streams: bool,
    /// The number of times that the component was started before in this run.
    #[serde(default)]
    pub restarts: u32,
}

/// A transport of an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputAssignment {
    /// The port's name.
    pub port: String,
    /// The transport's name.
    pub transport: String,
    /// The strongest options of the output's connections.
    pub options: SenderOptions,
}

/// A connection of an input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputAssignment {
    pub port: String,
    pub connection: String,
    pub options: LinkOptions,
}

/// The parameters with which an input connects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConnectionAssignment {
    pub component: String,
    pub port: String,
    pub connection: String,
    pub payload: TypeName,
    pub options: LinkOptions,
    pub endpoint: Endpoint,
    /// Whether this is another path of an existing connection, to which the sender will move.
    #[serde(default)]
    pub moves: bool,
}

/// The time that the ports of a process have waited so far, in nanoseconds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct WaitTimes {
    /// The time of the measurement.
    pub at_ns: u64,
    /// By connection: the waits of the sender for room, and for acknowledgements.
    pub senders: Vec<(String, u64, u64)>,
    /// By port: the waits of the receiver for packets.
    pub receivers: Vec<(String, u64)>,
}

impl WaitTimes {
    pub(super) fn of(process: Process, at_ns: u64) -> Self {
        let readers = process.sending.into_iter().flat_map(|port| port.readers);
        let senders = readers.map(|o| (o.connection, o.room_waited_ns, o.answer_waited_ns)).collect();
        let receivers = process.receiving.into_iter().map(|port| (port.name, port.slept_ns)).collect();
        Self { at_ns, senders, receivers }
    }
}

/// A message to the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// The first message.
    Registered { version: u32 },
    /// A component is created and the outputs are open.
    Initialized { component: String, endpoints: Vec<OpenOutput> },
    /// An input is connected.
    Connected { component: String, connection: String },
    /// An input could not be connected. The sender may just have died.
    ConnectFailed { component: String, connection: String, problem: String },
    /// A problem that should be reported but does not stop the component.
    Warning { component: String, text: String },
    /// The counters of all inputs, the waits of the process's ports, and the paces of components so
    /// far.
    Counters {
        inputs: Vec<ConnectionReport>,
        waits: WaitTimes,
        paces: Vec<(String, PaceReport)>,
        /// The files written by components so far.
        #[serde(default)]
        files: Vec<(String, Vec<FileReport>)>,
    },
    /// The result of a request.
    Answer { component: String, number: u64, answer: RequestAnswer },
    /// A component has ended. The report has the measurements of the inputs.
    Ended {
        component: String,
        outcome: Result<(), String>,
        /// Whether the same configuration would fail again: a restart is of no use.
        #[serde(default)]
        lasting: bool,
        reports: Vec<FullReport>,
        /// The number of packets that each output has sent, by `component.port`.
        sent: Vec<(String, u64)>,
        /// The pace of the component, if it had one.
        pace: Option<PaceReport>,
        /// The files that the component has written.
        #[serde(default)]
        files: Vec<FileReport>,
    },
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RequestAnswer {
    /// The request is queued for the component, and another answer follows. `looks`: whether the
    /// component polls for requests.
    Waiting { looks: bool },
    /// The request was refused, with the reason.
    NotTaken(String),
    /// The component has ended without taking the request.
    Ended,
    /// The values are in effect, or were refused for this reason.
    Configured(Result<(), String>),
    /// The tap is open, with this endpoint and payload type.
    Tapped(Endpoint, TypeName),
    /// The output is open over another transport.
    MovePrepared(Endpoint),
    /// The output has moved. The number is the sequence number of the first packet on the new
    /// transport.
    Moved(u64),
    /// The output stays where it is.
    MoveCancelled,
    /// The output has sent the end of stream.
    StreamEnded,
    /// The result of the self-test.
    Tested(TestResult),
    /// The read-only properties. A value that does not fit the property is `None`.
    Values(Vec<(String, Option<Value>)>),
}

/// The address of an output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenOutput {
    pub port: String,
    pub endpoint: Endpoint,
}

/// An end of the control socket: sends `S`, receives `R`.
pub struct ControlChannel<S, R> {
    stream: Descriptor<UnixStream>,
    incoming: Vec<u8>,
    messages: PhantomData<fn(S) -> R>,
}

impl<S: Serialize, R: DeserializeOwned> ControlChannel<S, R> {
    /// Wraps a stream. Writes may block, and the stream is read only when data is available.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream: Descriptor::new(stream), incoming: Vec::new(), messages: PhantomData }
    }

    /// Reads once, blocking if no data is available, and appends complete messages to `words`.
    /// Returns false if the other end has closed the connection.
    pub fn receive(&mut self, words: &mut VecDeque<R>) -> io::Result<bool> {
        let mut piece = [0; 16 * 1024];
        match (&*self.stream).read(&mut piece) {
            Ok(0) => return Ok(false),
            Ok(read) => self.incoming.extend_from_slice(&piece[..read]),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => return Ok(true),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(e) => return Err(e),
        }
        messages::take(&mut self.incoming, MESSAGE_MAX, words)?;
        Ok(true)
    }

    pub fn try_clone(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }
}

impl<S, R> AsFd for ControlChannel<S, R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Sends one message. The caller must ensure that no other thread sends at the same time.
pub fn send(mut stream: &UnixStream, word: &impl Serialize) -> io::Result<()> {
    stream.write_all(&framed(word)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_arrive_whole_and_invalid_bytes_are_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut receiver = ControlChannel::<Report, LauncherCommand>::new(theirs);
        let mut words = VecDeque::new();
        send(&ours, &LauncherCommand::Poll).unwrap();
        send(&ours, &LauncherCommand::Stop { component: "a".into() }).unwrap();
        while words.len() < 2 {
            assert!(receiver.receive(&mut words).unwrap());
        }
        assert!(matches!(words.pop_back(), Some(LauncherCommand::Stop { .. })));
        (&ours).write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(receiver.receive(&mut words).is_err());
        drop(ours);
    }
}
