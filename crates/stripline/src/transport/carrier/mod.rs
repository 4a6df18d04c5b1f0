//! Carriers: anything that can move bytes from one process to another can carry a link. A carrier
//! consists of two ends and a ticket. Handshake, keys, acknowledgements, credits, goodbye and the
//! detection of a peer's death stay on the signalling socket, and the policies stay in the link. So
//! no carrier can weaken them.
//!
//! A new carrier is a file with two types and two functions:
//!
//! 1. a [`PathSource`]: the receiving end, which a receiver makes before it connects;
//! 2. a [`PathSink`]: the sending end, which the sender opens with the ticket of the source;
//! 3. a [`Carrier`]: the two functions that make the ends.
//!
//! [`StreamTransport`](super::stream::StreamTransport) makes a transport of a carrier: one
//! `static`, and an entry in the registry. `examples/carrier` is a crate that passes the
//! conformance suite.
//!
//! A carrier must deliver bytes once and in order, as long as both processes live. Bytes that were
//! written before the sender's end must remain readable. A carrier may cut the bytes anywhere.
//!
//! If a peer breaks the rules of the path, the bytes do not just end. The path reports a
//! [`violation`], and the link reports the violation with the name of the connection.

mod callback_source;
mod room;

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::Endpoint;
use crate::error::Result;
use crate::packet::LastSent;
use crate::sys::doorbell::PollSet;
use crate::sys::membarrier;
use crate::sys::refusal::PeerRefusal;
use crate::sys::scoped_call::CallSlot;
use crate::terms::{Flow, LinkOptions, Overflow, Repair, TransportOptions, Watermarks};

pub use callback_source::{CallbackFeed, CallbackSource};
pub use room::{Frames, ReadRoom};

/// The longest wait of an end in a call of the middleware, which takes one system call instead of
/// three. Nothing interrupts such a wait, not even the peer's death, so it is short. A longer wait
/// uses `poll`.
pub const WAIT_MAX: Duration = Duration::from_millis(3);

/// Returns the error of a path with a peer that has broken the rules. The text follows the words
/// "the other end".
///
/// ```
/// let error = stripline::carrier::violation("sent an empty message");
/// assert_eq!(error.to_string(), "sent an empty message");
/// ```
#[cold]
pub fn violation(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Returns the text of a [`violation`]; `None`: another error.
///
/// ```
/// use stripline::carrier::{violation, violation_in};
///
/// assert_eq!(violation_in(&violation("sent nonsense")), Some("sent nonsense".to_string()));
/// assert_eq!(violation_in(&std::io::ErrorKind::BrokenPipe.into()), None);
/// ```
pub fn violation_in(error: &io::Error) -> Option<String> {
    // The system reports no error of this kind.
    (error.kind() == io::ErrorKind::InvalidData).then(|| error.to_string())
}

/// A way to move bytes from a sender to a receiver: two functions, which make the two ends. The
/// module has an example.
#[derive(Clone, Copy)]
pub struct Carrier {
    /// Makes the receiving end for a connection, and the ticket for the sending end.
    ///
    /// An error means that the system lacks a resource. The error names the resource and the
    /// remedy.
    pub source: fn(&PathRequest<'_>) -> Result<(Source, Ticket)>,
    /// Opens the sending end. The ticket comes from a peer, so everything in it is checked.
    ///
    /// An error means that the ticket is wrong, or that this process lacks a resource. The peer
    /// gets the description.
    pub sink: fn(Ticket) -> Result<Sink, PeerRefusal>,
}

/// Opens the sending end from the data of a handshake; `None` where there is no carrier. The ticket
/// has the address and the descriptors of the handshake, and this side's fields.
///
/// # Errors
/// See [`Carrier::sink`]; also a handshake without a ticket.
pub(crate) fn open_sink(
    carrier: Option<Carrier>,
    address: Option<&str>,
    own: Ticket,
) -> Result<Option<Sink>, PeerRefusal> {
    let Some(carrier) = carrier else { return Ok(None) };
    let address = address.ok_or("the handshake has no ticket for the data path").map_err(String::from);
    let address = address.and_then(Ticket::checked_address).map_err(PeerRefusal::Violation)?;
    let is_receiver_gone = Arc::clone(&own.is_receiver_gone);
    let mut sink = (carrier.sink)(Ticket { address, ..own }).map_err(|refusal| match refusal {
        PeerRefusal::Unfit(fault) => PeerRefusal::Unusable(fault),
        other => other,
    })?;
    sink.is_receiver_gone = is_receiver_gone;
    Ok(Some(sink))
}

/// The shared paths over which a port sends to several receivers, by their addresses. Each carrier
/// defines the type of these paths.
#[derive(Default)]
pub struct PortGroups(pub Mutex<BTreeMap<String, Weak<dyn Any + Send + Sync>>>);

/// The properties of a connection that a carrier needs. The function [`Carrier::source`] gets them.
///
/// ```
/// use stripline::carrier::PathRequest;
/// use stripline::terms::LinkOptions;
///
/// let options = LinkOptions::default();
/// let request = PathRequest::of_receiver("radio.out -> filter.in", &options);
/// assert!(request.packets_max.is_some_and(|packets| packets > 0));
/// ```
pub struct PathRequest<'a> {
    /// The name of the connection, for messages.
    pub connection: &'a str,
    /// The most packets that may wait on the path; `None`: any number, because the port's queue
    /// bounds them.
    pub packets_max: Option<u32>,
    /// Whether every frame must arrive. Otherwise lost frames may stay lost.
    pub is_complete: bool,
    /// Whether the path carries calls. If so, a start without room is reported, and a cancellation
    /// that was sent is read before a call begins.
    pub is_of_calls: bool,
    /// The receiver's options for single transports.
    pub options: TransportOptions,
    /// The bytes that the port's ring would have, which bound a frame.
    pub buffer: u32,
    /// Whether the receiver runs a barrier on all processors before it sleeps.
    pub runs_barrier: bool,
    /// The endpoint to connect to; `None` in calls.
    pub endpoint: Option<&'a Endpoint>,
}

impl<'a> PathRequest<'a> {
    /// Returns the request of a receiver with these options.
    pub fn of_receiver(connection: &'a str, options: &LinkOptions) -> Self {
        let is_bound = options.overflow == Overflow::Block && options.flow == Flow::Transport;
        let packets_max = is_bound.then_some(options.watermarks().high());
        let transport_options = options.transport_options;
        let repairs = transport_options.udp.is_none_or(|udp| udp.repair == Repair::Needed);
        let is_complete = options.overflow == Overflow::Block && repairs;
        Self {
            connection,
            packets_max,
            is_complete,
            is_of_calls: false,
            options: transport_options,
            buffer: options.buffer,
            runs_barrier: membarrier::is_used_with(options.wait),
            endpoint: None,
        }
    }

    /// Returns the request for one direction of calls. Nothing in calls may be lost, regardless of
    /// the options.
    pub fn of_calls(
        connection: &'a str,
        watermarks: Watermarks,
        buffer: u32,
        options: TransportOptions,
    ) -> Self {
        Self {
            connection,
            packets_max: Some(watermarks.high()),
            is_complete: true,
            is_of_calls: true,
            options,
            buffer,
            runs_barrier: false,
            endpoint: None,
        }
    }
}

/// The address of a source, for the sending side. The address and the descriptors travel in the
/// handshake. The other fields are the sending side's.
///
/// ```
/// use stripline::carrier::Ticket;
///
/// let ticket = Ticket::new("ipc:///tmp/queue-7".into(), vec![]);
/// assert!(ticket.address.len() <= Ticket::ADDRESS_MAX);
/// ```
#[derive(Default)]
pub struct Ticket {
    /// The address in the carrier's own form, at most [`Ticket::ADDRESS_MAX`] bytes.
    pub address: String,
    /// At most eight descriptors, and only to a process of the same host.
    pub fds: Vec<OwnedFd>,
    /// The token by which sockets were joined to a session, instead of descriptors.
    pub(crate) session: Option<u64>,
    /// Whether every frame must arrive, even if the receiver does not need that.
    pub is_complete: bool,
    /// Whether the end must be open when it is returned. Otherwise [`PathSink::open`] opens it.
    pub must_be_open: bool,
    /// The sender's options for single transports.
    pub options: TransportOptions,
    /// The shared paths of the sending port; `None` if the port has only one receiver.
    pub(crate) groups: Option<Arc<PortGroups>>,
    /// Set once the receiver has hung up. An end that waits for the receiver when it is dropped
    /// need not wait any more.
    pub is_receiver_gone: Arc<AtomicBool>,
}

impl Ticket {
    /// The most bytes of an address.
    pub const ADDRESS_MAX: usize = 1024;

    /// Returns a ticket with an address and descriptors.
    pub fn new(address: String, fds: Vec<OwnedFd>) -> Self {
        Self { address, fds, ..Self::default() }
    }

    /// Checks the length of an address that arrived in a handshake.
    fn checked_address(address: &str) -> Result<String, String> {
        if address.len() > Self::ADDRESS_MAX {
            return Err(format!("the ticket for the data path has {} bytes", address.len()));
        }
        Ok(address.into())
    }

    /// Returns the descriptors, for a message.
    pub(crate) fn borrowed_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.fds.iter().map(AsFd::as_fd).collect()
    }
}

/// The state of a path that takes a while to open. An end that waits for too long is refused with
/// both texts: "ZeroMQ has found no receiver within 2s; start both processes in one network
/// namespace".
///
/// ```
/// use std::os::fd::AsFd;
/// use stripline::carrier::{Doorbell, Opening};
///
/// let answers = Doorbell::new()?;
/// let lacks = "the receiver has not answered".to_string();
/// let opening = Opening::Waits { on: answers.as_fd(), lacks, remedy: "let both hosts connect" };
/// assert!(!matches!(opening, Opening::Done));
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Debug)]
pub enum Opening<'a> {
    /// The path is open.
    Done,
    /// The path is not open yet. A step that was due was taken.
    Waits {
        /// The descriptor that becomes readable once another step can be taken.
        on: BorrowedFd<'a>,
        /// The event that has not happened, as "ZeroMQ has found no receiver".
        lacks: String,
        /// The remedy, as "start both processes in one network namespace".
        remedy: &'static str,
    },
}

/// The sending end of a path. The module has an example.
pub trait PathSink: Send + Sync {
    /// Writes as many bytes as there is room for, and returns their number. If the end has a call
    /// for that, it waits for room, at most for `longest`.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room. Any other error ends the connection. A [`violation`] is
    /// logged with the name of the connection.
    fn write(&self, frames: &mut Frames<'_>, longest: Duration) -> io::Result<usize>;

    /// Adds the descriptors that become ready once there is room again.
    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>);

    /// Takes the next step to open the path, for example by a probe. The receiver counts as
    /// connected only when the path is open. The default is a path that is open from the start,
    /// for example because it lies within one kernel.
    ///
    /// # Errors
    /// A description of the receiver's violation, or the report that the receiver is gone.
    fn open(&self) -> Result<Opening<'_>, String> {
        Ok(Opening::Done)
    }
}

/// The sending end of a path, with the properties of the end. The module has an example.
#[derive(Clone)]
pub struct Sink {
    /// The end.
    pub end: Arc<dyn PathSink>,
    /// Whether [`PathSink::write`] lends memory of the path to the buffer of the frames.
    pub(crate) lends: bool,
    /// The end of a session, for the functions that only sessions have.
    pub(crate) session: Option<Arc<dyn SessionEnd>>,
    /// Set once the receiver has hung up; the same flag as in the ticket.
    pub(crate) is_receiver_gone: Arc<AtomicBool>,
}

impl Sink {
    /// Returns an end that does not lend memory.
    pub fn new(end: impl PathSink + 'static) -> Self {
        Self { end: Arc::new(end), lends: false, session: None, is_receiver_gone: Arc::default() }
    }

    /// Returns an end that lends memory of the path to the buffer of the frames.
    pub fn lending(end: impl PathSink + 'static) -> Self {
        Self { lends: true, ..Self::new(end) }
    }

    /// Returns the end of a session.
    pub(crate) fn of_session(end: Arc<impl PathSink + SessionEnd + 'static>) -> Self {
        let session: Arc<dyn SessionEnd> = Arc::clone(&end) as _;
        Self { end, lends: false, session: Some(session), is_receiver_gone: Arc::default() }
    }
}

/// The functions of a sending end that only sessions have.
pub(crate) trait SessionEnd: Send + Sync {
    /// Returns the bytes that were written and not yet read. Any thread may call this function, so
    /// it must not consume the event that wakes a sender waiting for room.
    fn unread_bytes(&self) -> Option<u64>;

    /// Returns whether other receivers of the port share this path. If so, [`SessionEnd::begin`] is
    /// called for each receiver before a frame is written to any, and each receiver is written the
    /// same frames.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns whether this receiver lets a shared path take frames of `bytes` bytes, or a good
    /// part of them. Called before the frames are written.
    fn has_room(&self, _bytes: usize) -> bool {
        true
    }

    /// Begins frames that are written to all receivers. `unit` differs from the last number.
    fn begin(&self, _unit: u64) {}

    /// Ends the service of a receiver that has hung up.
    fn receiver_left(&self) {}
}

/// The wait of a read of a [`PathSource`].
///
/// ```
/// use stripline::carrier::{ReadWait, WAIT_MAX};
///
/// fn longest(wait: ReadWait) -> std::time::Duration {
///     if wait == ReadWait::Short { WAIT_MAX } else { std::time::Duration::ZERO }
/// }
/// assert!(longest(ReadWait::Rest).is_zero());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWait {
    /// Takes the bytes at hand.
    Never,
    /// Waits for bytes for a few milliseconds, at most [`WAIT_MAX`]. Only a source with
    /// [`Source::can_wait`] is asked for that.
    Short,
    /// The sender has hung up. Before the end takes the bytes at hand, it waits until no more bytes
    /// can arrive, which takes a short time at most. `WouldBlock` is the end of the bytes then.
    Rest,
}

/// The receiving end of a path. The module has an example.
pub trait PathSource: Send {
    /// Reads bytes, and returns their number; 0: there will be no more.
    ///
    /// # Errors
    /// `WouldBlock` if there are no bytes. `Interrupted` if this thread cannot wait for the rest,
    /// because the rest would arrive on this thread. Any other error ends the connection. The
    /// receiver's caller gets a [`violation`] after the bytes that arrived before it.
    fn read(&mut self, room: &mut ReadRoom<'_>, wait: ReadWait) -> io::Result<usize>;

    /// Adds the descriptor that becomes ready once there are bytes, unless a call has been set in
    /// [`Source::call_slot`]. Returns false if there are bytes already.
    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool;

    /// Takes the next step to open the path while the sender opens the other end, for example by
    /// the answer to a probe. The function is not called after the sender's welcome. The default is
    /// a path that is open from the start.
    ///
    /// # Errors
    /// The system refuses a step.
    fn open(&mut self) -> io::Result<Option<BorrowedFd<'_>>> {
        Ok(None)
    }
}

/// A function that returns the last packet that a sender had sent. A path through the memory of a
/// middleware counts the packets in memory that both ends share.
pub type LastSentReader = Box<dyn Fn() -> Option<LastSent> + Send>;

/// The receiving end of a path, with the properties of the end. The module has an example.
pub struct Source {
    /// The end.
    pub end: Box<dyn PathSource>,
    /// Whether the bytes are in memory that both ends share. If so, a read takes no system call,
    /// and may lend the memory to the [`ReadRoom`].
    pub is_in_memory: bool,
    /// Whether a read with [`ReadWait::Short`] waits.
    pub can_wait: bool,
    /// The room that a read needs, in bytes.
    pub room_needed: usize,
    /// Whether threads of this process bring the bytes. If they share a processor with the port's
    /// thread, they bring many bytes at once when the port's thread yields to them before it
    /// sleeps.
    pub is_filled_by_threads: bool,
    /// The slot for the code that a thread of the middleware calls after it has brought bytes or
    /// the end. `None`: the middleware does not call back.
    pub call_slot: Option<Arc<CallSlot>>,
    /// The last packet that the sender had sent; `None`: the path cannot lose written bytes when
    /// the sender's process ends. Called after the end of the sender.
    pub last_sent: Option<LastSentReader>,
}

impl Source {
    /// Returns an end that reads single bytes without waiting, from the kernel.
    pub fn new(end: impl PathSource + 'static) -> Self {
        Self {
            end: Box::new(end),
            is_in_memory: false,
            can_wait: false,
            room_needed: 1,
            is_filled_by_threads: false,
            call_slot: None,
            last_sent: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_without_a_ticket_or_with_a_long_one_is_a_violation() {
        let source = |_: &PathRequest<'_>| Err(crate::Error::failed("not here"));
        let carrier = Carrier { source, sink: |_| Err("the ticket is known".into()) };
        let refusal = |address: Option<&str>| match open_sink(Some(carrier), address, Ticket::default()) {
            Err(refusal) => refusal,
            Ok(_) => panic!("it is open"),
        };
        let longest = "a".repeat(Ticket::ADDRESS_MAX);
        assert!(matches!(refusal(None), PeerRefusal::Violation(text) if text.contains("no ticket")));
        assert!(
            matches!(refusal(Some(&format!("{longest}a"))), PeerRefusal::Violation(text) if text.contains("1025"))
        );
        assert_eq!(refusal(Some(&longest)), PeerRefusal::Unusable("the ticket is known".into()));
    }
}
