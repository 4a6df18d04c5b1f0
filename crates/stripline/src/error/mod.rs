//! The errors, and the side that caused each error.

mod code;
mod invalid_properties;
pub(crate) mod names;
mod printable;
mod system_limit;

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use std::time::Duration;

use crate::terms::{Flow, LinkOptions, Scope};

pub use code::ErrorCode;
pub use invalid_properties::InvalidProperties;
pub use printable::printable;
pub use system_limit::SystemLimit;

/// Shorthand used throughout the crate.
///
/// ```
/// fn level_db(power: f64) -> stripline::Result<f64> {
///     if power > 0.0 { Ok(10.0 * power.log10()) } else { Err(stripline::Error::failed("no power")) }
/// }
/// assert_eq!(level_db(100.0)?, 20.0);
/// # Ok::<(), stripline::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an operation of this library.
///
/// ```
/// use stripline::Error;
///
/// let error = Error::failed("the antenna is not plugged in");
/// assert_eq!(error.to_string(), "the antenna is not plugged in");
/// ```
#[non_exhaustive]
pub enum Error {
    /// The waveform has stopped the component. Return this error with `?`: it counts as a clean
    /// end.
    Stopped,
    /// The queue of a receiver was full in a `try_send` or `try_loan`, or stayed full until
    /// `finish` gave up.
    Full {
        /// The connection that has no room.
        connection: String,
    },
    /// A receiver had no room for a packet within the time that the sender waits. Nothing of the
    /// packet was sent, except fragments of a large packet, which receivers then report missing.
    Stalled {
        /// The connection that has no room.
        connection: String,
        /// The mechanism that stalls the sender.
        flow: Flow,
        /// How long the connection has been stalled.
        since: Duration,
        /// How long the send has waited.
        timeout: Duration,
    },
    /// The packet exceeds the limit, or the lower limit of a send without waiting.
    TooLarge {
        /// The size of the packet in bytes.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The queue of this receiver overflowed, and the policy is `eject`.
    Ejected {
        /// The connection that was closed.
        connection: String,
        /// The depth of the queue, in packets.
        depth: u32,
    },
    /// A transport cannot keep an option that was requested.
    Unsupported {
        /// The transport.
        transport: String,
        /// The option.
        rule: String,
        /// Ways to avoid the error.
        alternatives: String,
    },
    /// The other end of a connection broke the protocol; the connection is closed.
    PeerMisbehaved {
        /// The connection or endpoint.
        peer: String,
        /// The violation.
        violation: String,
    },
    /// The other end refused the connection.
    Refused {
        /// The connection or endpoint.
        peer: String,
        /// The reason that the other end gave.
        reason: String,
    },
    /// A port that the component does not have, or that has another type or direction.
    Port {
        /// The port.
        port: String,
        /// A description of the problem.
        problem: String,
    },
    /// A message's bytes do not decode as the message's type.
    Decode {
        /// The connection or topic.
        what: String,
        /// The decoder's reason.
        reason: String,
    },
    /// A handler failed or panicked; the other handlers finished, and no further packet is handled.
    Handler {
        /// The port or topic.
        port: String,
        /// The connection that the packet arrived on.
        connection: String,
        /// The packet's sequence number.
        packet: u64,
        /// The handler's error.
        source: Box<Error>,
    },
    /// A receiver did not acknowledge a packet in time for the sender. The packet stays sent.
    Unanswered {
        /// The connection. Several connections are separated by commas.
        connection: String,
        /// The scope that the sender waited for.
        scope: Scope,
        /// The deadline.
        deadline: Duration,
    },
    /// A receiver left or died before it acknowledged a packet that the sender waited for.
    ReceiverGone {
        /// The connection.
        connection: String,
        /// The scope that the sender waited for.
        scope: Scope,
    },
    /// A receiver refused a packet that the sender waited for, or the receiving component failed
    /// with it.
    PacketRefused {
        /// The connection.
        connection: String,
        /// The reason that the receiver gave.
        reason: String,
    },
    /// A packet is missing, and no more packets can be held behind it. Receiving continues, and the
    /// missing packets count as lost.
    WindowOverflow {
        /// The connection.
        connection: String,
        /// The number of the first missing packet.
        first: u64,
        /// The number of packets that were held.
        window: usize,
    },
    /// Two packets have the same place in the sequence. Receiving continues without the second
    /// packet.
    DuplicatePacket {
        /// The connection.
        connection: String,
        /// The number of both packets.
        number: u64,
    },
    /// All packets that a port may hold are in use
    /// ([`Subscriber::holding`](crate::node::Subscriber::holding)). Nothing is lost: receiving
    /// continues when a held packet is dropped.
    TooManyHeld {
        /// The port or topic.
        port: String,
        /// The limit.
        packets_max: usize,
        /// The connection and sequence number of each held packet.
        held: Vec<(String, u64)>,
    },
    /// The port's waker ended the wait ([`Waker::wake`](crate::node::Waker::wake)). Nothing is
    /// lost: the call can be repeated, unless the packet was sent.
    Interrupted {
        /// The port, topic or service.
        port: String,
        /// Whether the packet of the call was sent. If so, the wait was for the acknowledgement, or
        /// the rest of the packet follows with the next call. False if the call was not to send a
        /// packet.
        sent: bool,
    },
    /// The operating system lacks a resource, or the system or a middleware's library reported an
    /// error.
    System {
        /// The attempted action, with the object of the action; `None`: the text of `source` is
        /// complete.
        action: Option<String>,
        /// The error of the operating system or library.
        source: io::Error,
    },
    /// A child of a fork used an object that the parent had made. Links belong to the process that
    /// made them. Make new ones in the child, beginning with a [`Node`](crate::node::Node), or
    /// execute another program.
    ///
    /// ```
    /// # fn send(publisher: &mut stripline::node::Publisher<f32>) -> stripline::Result<()> {
    /// match publisher.send(&[1.0]) {
    ///     Err(stripline::Error::Forked { what }) => eprintln!("{what} stayed with the parent"),
    ///     sent => sent?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    Forked {
        /// The object that the parent has made and keeps.
        what: String,
    },
    /// A text or number passed by the program is wrong, for example the text of a type.
    ///
    /// ```
    /// use stripline::payload::SampleType;
    /// use stripline::{Error, ErrorCode};
    ///
    /// let error = Error::from(SampleType::parse("det{bin:u7}").unwrap_err());
    /// assert_eq!(error.code(), ErrorCode::InvalidArgument);
    /// assert!(error.to_string().contains("u7"));
    /// ```
    InvalidArgument(String),
    /// A setting from outside the program does not fit: a variable of the environment, a topics
    /// file, an option of a transport or waveform.
    Configuration(String),
    /// A call has no reply. `?` makes this error from a [`CallError`](crate::call::CallError). Also
    /// the failure of a component in another language, if it has a code of this library.
    Call {
        /// The code of the outcome.
        code: ErrorCode,
        /// The text of the outcome.
        message: String,
    },
    /// A component rejects the combination of properties.
    InvalidProperties(Box<InvalidProperties>),
    /// A failure of the component itself.
    Failed(String),
}

/// The most packets that an error lists.
const NAMED_MAX: usize = 8;

impl Error {
    /// Returns a failure of the component itself, described for the user.
    pub fn failed(what: impl fmt::Display) -> Self {
        Self::Failed(what.to_string())
    }

    /// Wraps an error of the operating system with the attempted action.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use stripline::Error;
    ///
    /// let error = Error::system("cannot open the capture", ErrorKind::NotFound);
    /// assert_eq!(error.to_string(), "cannot open the capture: entity not found");
    /// assert!(std::error::Error::source(&error).is_some());
    /// ```
    pub fn system(doing: impl fmt::Display, source: impl Into<io::Error>) -> Self {
        Self::System { action: Some(doing.to_string()), source: source.into() }
    }

    /// Returns an error of the operating system, or of a library, with a complete text.
    ///
    /// ```
    /// use stripline::{Error, ErrorCode};
    ///
    /// let error = Error::of_system("this system has no huge pages");
    /// assert_eq!(error.code(), ErrorCode::System);
    /// assert_eq!(error.to_string(), "this system has no huge pages");
    /// ```
    pub fn of_system(what: impl fmt::Display) -> Self {
        Self::System { action: None, source: io::Error::other(what.to_string()) }
    }

    /// Wraps the error of a thread or a process that did not start, and adds the limit that caused
    /// it.
    ///
    /// ```
    /// let error = std::io::Error::from_raw_os_error(2);
    /// let error = stripline::Error::not_started("cannot start a thread", error);
    /// assert!(error.to_string().starts_with("cannot start a thread: No such file"));
    /// ```
    pub fn not_started(doing: impl fmt::Display, source: io::Error) -> Self {
        match SystemLimit::of_thread(&source) {
            Some(limit) => Self::system(format!("{doing}; {limit}"), source),
            None => Self::system(doing, source),
        }
    }

    /// Returns the code of this error: a number and a word that never change.
    ///
    /// ```
    /// use stripline::{Error, ErrorCode};
    ///
    /// assert_eq!(Error::Stopped.code(), ErrorCode::Stopped);
    /// assert_eq!(Error::Stopped.code().to_string(), "stopped");
    /// ```
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stopped => ErrorCode::Stopped,
            Self::Full { .. } => ErrorCode::Full,
            Self::Stalled { .. } => ErrorCode::Stalled,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::Ejected { .. } => ErrorCode::Ejected,
            Self::Unsupported { .. } => ErrorCode::Unsupported,
            Self::PeerMisbehaved { .. } => ErrorCode::PeerMisbehaved,
            Self::Refused { .. } => ErrorCode::Refused,
            Self::Port { .. } => ErrorCode::Port,
            Self::Decode { .. } => ErrorCode::Decode,
            Self::Handler { .. } => ErrorCode::Handler,
            Self::Unanswered { .. } => ErrorCode::Unanswered,
            Self::ReceiverGone { .. } => ErrorCode::ReceiverGone,
            Self::PacketRefused { .. } => ErrorCode::PacketRefused,
            Self::WindowOverflow { .. } => ErrorCode::WindowOverflow,
            Self::DuplicatePacket { .. } => ErrorCode::DuplicatePacket,
            Self::TooManyHeld { .. } => ErrorCode::TooManyHeld,
            Self::Interrupted { .. } => ErrorCode::Interrupted,
            Self::System { .. } => ErrorCode::System,
            Self::Forked { .. } => ErrorCode::Forked,
            Self::InvalidArgument(_) => ErrorCode::InvalidArgument,
            Self::Call { code, .. } => *code,
            Self::Configuration(_) => ErrorCode::Configuration,
            Self::InvalidProperties(_) => ErrorCode::InvalidProperties,
            Self::Failed(_) => ErrorCode::Failed,
        }
    }

    /// Returns the connection or the other end that the error is about. The name of a connection is
    /// `from -> to`.
    ///
    /// ```
    /// use stripline::Error;
    ///
    /// let full = Error::Full { connection: "tone@shm -> iq".into() };
    /// assert_eq!(full.connection(), Some("tone@shm -> iq"));
    /// assert_eq!(Error::Stopped.connection(), None);
    /// ```
    pub fn connection(&self) -> Option<&str> {
        match self {
            Self::Full { connection }
            | Self::Stalled { connection, .. }
            | Self::Ejected { connection, .. }
            | Self::Handler { connection, .. }
            | Self::Unanswered { connection, .. }
            | Self::ReceiverGone { connection, .. }
            | Self::PacketRefused { connection, .. }
            | Self::WindowOverflow { connection, .. }
            | Self::DuplicatePacket { connection, .. } => Some(connection),
            Self::PeerMisbehaved { peer, .. } | Self::Refused { peer, .. } => Some(peer),
            _ => None,
        }
    }

    /// Returns the error number of the operating system (`errno`), if it caused the error.
    ///
    /// ```
    /// use std::io;
    /// use stripline::Error;
    ///
    /// let refused = Error::system("cannot open a socket", io::Error::from_raw_os_error(13));
    /// assert_eq!((refused.os_code(), Error::Stopped.os_code()), (Some(13), None));
    /// ```
    pub fn os_code(&self) -> Option<i32> {
        match self {
            Self::System { source, .. } => source.raw_os_error(),
            Self::Handler { source, .. } => source.os_code(),
            _ => None,
        }
    }

    pub(crate) fn misbehaved(peer: impl fmt::Display, violation: impl fmt::Display) -> Self {
        Self::PeerMisbehaved { peer: peer.to_string(), violation: violation.to_string() }
    }

    pub(crate) fn port(port: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self::Port { port: port.to_string(), problem: problem.to_string() }
    }
}

/// Writes the same text as `Display`, because a `main` that returns an error prints the `Debug`
/// text.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped on request"),
            Self::Full { connection } => write!(f, "connection {connection} is full"),
            Self::Stalled { connection, flow, since, timeout } => {
                let violation = match flow {
                    Flow::Transport => "has had no room",
                    Flow::Credit => "has granted no credit",
                    Flow::StopResume => "has sent stop and not resume",
                };
                write!(
                    f,
                    "connection {connection} {violation} for {since:.1?}, and the send has waited for {timeout:?}; find out why \
                     its receiver takes nothing, raise the connection's `send-timeout-ms` or `depth`, or choose another \
                     `overflow`"
                )
            }
            Self::TooLarge { bytes, bytes_max } if *bytes_max >= LinkOptions::PACKET_MAX => {
                write!(f, "a packet of {bytes} bytes is too large: one has at most {bytes_max}")
            }
            Self::TooLarge { bytes, bytes_max } => write!(
                f,
                "{bytes} bytes do not fit one frame: this connection takes up to {bytes_max}; send a packet with \
                 `send`, which waits and splits it, or raise the connection's `buffer`"
            ),
            Self::Ejected { connection, depth } => write!(
                f,
                "connection {connection} was closed because its receiver fell more than {depth} packets \
                 behind (overflow = \"eject\"); raise `depth` or choose another policy"
            ),
            Self::Unsupported { transport, rule, alternatives } => {
                write!(f, "transport {transport} cannot keep {rule}; {alternatives}")
            }
            Self::PeerMisbehaved { peer, violation } => {
                write!(f, "{peer}: the other end {violation}; its connection was closed")
            }
            Self::Refused { peer, reason } => write!(f, "{peer}: the other end refused: {reason}"),
            Self::Port { port, problem } => write!(f, "port `{port}`: {problem}"),
            Self::Decode { what, reason } => write!(f, "{what}: a message does not decode: {reason}"),
            Self::Handler { port, connection, packet, source } => {
                write!(f, "port `{port}`: the handler of packet {packet} of {connection}: {source}")
            }
            Self::Unanswered { connection, scope, deadline } => write!(
                f,
                "connection {connection} did not answer within {deadline:?} (scope = \"{scope}\"); the packet stays \
                 sent; find out why its receiver is slow, raise the connection's `deadline-ms` or choose a weaker scope"
            ),
            Self::ReceiverGone { connection, scope } => write!(
                f,
                "connection {connection}: its receiver is gone and has not answered for the packet (scope = \
                 \"{scope}\"); send it again if another receiver needs it"
            ),
            Self::PacketRefused { connection, reason } => {
                write!(f, "connection {connection}: its receiver refused the packet: {reason}")
            }
            Self::WindowOverflow { connection, first, window } => write!(
                f,
                "connection {connection}: packet {first} did not come, and {window} packets wait behind it, which is \
                 the limit; raise the resequencing's window or wait less for a missing packet"
            ),
            Self::DuplicatePacket { connection, number } => write!(
                f,
                "connection {connection}: there are two packets {number} to be put in sequence; a stage before a \
                 resequencing port forwards one packet for each"
            ),
            Self::TooManyHeld { port, packets_max, held } => {
                let name = |(connection, number): &(String, u64)| format!("packet {number} of {connection}");
                let named: Vec<_> = held.iter().take(NAMED_MAX).map(name).collect();
                let others = if held.len() > NAMED_MAX { ", and others" } else { "" };
                write!(
                    f,
                    "port `{port}`: its receiver holds {packets_max} packets, which is the limit: {}{others}; drop one, \
                     hold more, or keep a copy",
                    named.join(", ")
                )
            }
            Self::Interrupted { port, sent: false } => {
                write!(
                    f,
                    "port `{port}`: its waker ended the wait; nothing is lost, and the call can be repeated"
                )
            }
            Self::Interrupted { port, sent: true } => {
                write!(
                    f,
                    "port `{port}`: its waker ended the wait; the packet is sent, so go on with the next one"
                )
            }
            Self::System { action, source } => {
                if let Some(doing) = action {
                    write!(f, "{doing}: ")?;
                }
                write!(f, "{source}")?;
                SystemLimit::of(source).map_or(Ok(()), |limit| write!(f, ": {limit}"))
            }
            Self::Forked { what } => write!(
                f,
                "{what} belongs to the process that this one was forked from; make a node and its ports in the child, or \
                 execute another program"
            ),
            Self::InvalidProperties(invalid) => invalid.fmt(f),
            Self::Failed(what)
            | Self::InvalidArgument(what)
            | Self::Configuration(what)
            | Self::Call { message: what, .. } => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text of the source is the text of this error, so the chain begins behind it.
            Self::System { action: None, source } => source.source(),
            Self::System { source, .. } => Some(source),
            Self::Handler { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Calls user code and turns a panic into an error. The panic's message goes to standard error.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    // No caller uses data that a panic left half changed: callers drop the data or only pass on the
    // error.
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(Error::failed(format!("panicked: {}", panic_message(&*panic)))))
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no words".into())
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Self::System { action: None, source }
    }
}
