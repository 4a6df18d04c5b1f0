//! Carriers: anything that can move bytes from one process to another can carry a link. A carrier
//! consists of two ends and a ticket. Handshake, keys, acknowledgements, credits, goodbye and the
//! detection of a peer's death stay on the signalling socket, and the policies stay in the link. So
//! no carrier can weaken them.
//!
//! A new carrier is a file with three types:
//!
//! 1. a [`PathSource`]: the receiving end, which a receiver makes before it connects;
//! 2. a [`PathSink`]: the sending end, which the sender opens with the ticket of the source;
//! 3. a [`Carrier`], which makes both ends.
//!
//! [`StreamTransport`](super::stream::StreamTransport) makes a transport of it: one `static`, and
//! an entry in the registry. `pipe.rs` is an example that passes the conformance suite.
//!
//! A carrier must deliver bytes once and in order, as long as both processes live. Bytes that were
//! written before the sender's end must remain readable. A carrier may cut the bytes anywhere.
//!
//! If a peer breaks the rules of the path, the bytes do not just end. The path reports a
//! [`violation`], and the link reports it by the name of the connection.

mod callback_source;

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::Endpoint;
use crate::error::Result;
use crate::packet::LastSent;
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::doorbell::PollSet;
use crate::sys::membarrier;
use crate::sys::refusal::PeerRefusal;
use crate::sys::scoped_call::CallSlot;
use crate::terms::{Flow, LinkOptions, Overflow, Repair, SenderOptions, TransportOptions, Watermarks};

pub use callback_source::{CallbackFeed, CallbackSource};

/// The longest wait of an end in a call of the middleware, which takes one system call instead of
/// three. Nothing interrupts such a wait, not even the peer's death, so it is short. A longer wait
/// uses `poll`.
pub const WAIT_MAX: Duration = Duration::from_millis(3);

/// Returns the error of a path with a peer that has broken the rules. The text follows the words
/// "the other end".
#[cold]
pub fn violation(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Returns the text of a [`violation`]; `None`: another error.
pub fn violation_in(error: &io::Error) -> Option<String> {
    // The system reports no error of this kind.
    (error.kind() == io::ErrorKind::InvalidData).then(|| error.to_string())
}

/// A way to move bytes from a sender to a receiver.
pub trait Carrier: Send + Sync {
    /// Makes the receiving end for a connection, and the ticket for the sending end.
    ///
    /// # Errors
    /// The system lacks a resource. The error names the resource and the remedy.
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)>;

    /// Opens the sending end. The ticket comes from a peer, so everything in it is checked.
    ///
    /// # Errors
    /// The ticket is wrong, or this process lacks a resource. The peer gets the description.
    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, PeerRefusal>;
}

/// Opens the sending end from the data of a handshake; `None` where there is no carrier.
/// `is_complete`: every frame must arrive, even if the receiver does not need that. `groups`: the
/// groups of the port, if the port may have several receivers.
///
/// # Errors
/// See [`Carrier::sink`]; also a handshake without a ticket.
pub fn open_sink(
    carrier: Option<&dyn Carrier>,
    address: Option<&str>,
    fds: Vec<OwnedFd>,
    is_complete: bool,
    options: &SenderOptions,
    groups: Option<&Arc<PortGroups>>,
) -> Result<Option<Arc<dyn PathSink>>, PeerRefusal> {
    let Some(carrier) = carrier else { return Ok(None) };
    let (options, groups) = (options.transport_options, groups.cloned());
    let ticket = Ticket::of_peer(address, fds).map_err(PeerRefusal::Violation)?;
    let sink = carrier.sink(Ticket { is_complete, options, groups, ..ticket });
    sink.map(Some).map_err(|refusal| match refusal {
        PeerRefusal::Unfit(fault) => PeerRefusal::Unusable(fault),
        other => other,
    })
}

/// The shared paths over which a port sends to several receivers, by their addresses. Each carrier
/// defines the type of these paths.
#[derive(Default)]
pub struct PortGroups(pub Mutex<BTreeMap<String, Weak<dyn Any + Send + Sync>>>);

/// The properties of a connection that a carrier needs.
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
    /// The bytes that the port's ring would have. They bound a frame.
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
        let its = options.transport_options;
        let repairs = its.udp.is_none_or(|udp| udp.repair == Repair::Needed);
        let is_complete = options.overflow == Overflow::Block && repairs;
        Self {
            connection,
            packets_max,
            is_complete,
            is_of_calls: false,
            options: its,
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

/// The address of a source, for the sending side. The ticket travels in the handshake.
#[derive(Default)]
pub struct Ticket {
    /// The address in the carrier's own form, at most [`Ticket::ADDRESS_MAX`] bytes.
    pub address: String,
    /// At most eight descriptors, and only to a process of the same host.
    pub fds: Vec<OwnedFd>,
    /// The token by which sockets were joined to a session, instead of descriptors.
    pub session: Option<u64>,
    /// Whether every frame must arrive, because the sender waits for acknowledgements. This field
    /// does not travel.
    pub is_complete: bool,
    /// The sender's options for single transports. They do not travel.
    pub options: TransportOptions,
    /// The groups of the sending port; `None` if the port has only one receiver. They do not
    /// travel.
    pub groups: Option<Arc<PortGroups>>,
}

impl Ticket {
    /// The most bytes of an address.
    pub const ADDRESS_MAX: usize = 1024;

    /// Returns a ticket that arrived in a handshake.
    ///
    /// # Errors
    /// A description of the ticket's fault, for the peer.
    pub fn of_peer(address: Option<&str>, fds: Vec<OwnedFd>) -> Result<Self, String> {
        let address = address.ok_or("the handshake has no ticket for the data path")?;
        if address.len() > Self::ADDRESS_MAX {
            return Err(format!("the ticket for the data path has {} bytes", address.len()));
        }
        Ok(Self { address: address.into(), fds, is_complete: true, ..Self::default() })
    }

    /// Returns the descriptors, for a message.
    pub fn borrowed_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.fds.iter().map(AsFd::as_fd).collect()
    }
}

/// The sending end of a path.
pub trait PathSink: Send + Sync {
    /// Writes as many bytes as there is room for, and returns their number. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room. Any other error ends the connection. A [`violation`] is
    /// logged with the name of the connection.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes like [`PathSink::write`], and waits for room, at most for `longest`. If the
    /// middleware has no call for that, it does not wait.
    ///
    /// # Errors
    /// See [`PathSink::write`].
    fn write_within(&self, bytes: &[u8], _longest: Duration) -> io::Result<usize> {
        self.write(bytes)
    }

    /// Writes like [`PathSink::write`], from the start of the frame in a buffer. The path may write
    /// to the line in front of the frame. A path that takes all bytes may keep the buffer and leave
    /// another one instead, or lend it the memory of the next frame.
    ///
    /// # Errors
    /// See [`PathSink::write`].
    fn write_buffer(&self, buffer: &mut AlignedBuffer, bytes: usize) -> io::Result<usize> {
        self.write(&buffer.frame()[..bytes])
    }

    /// Returns whether [`PathSink::write_buffer`] lends memory of the path to the buffer.
    fn lends(&self) -> bool {
        false
    }

    /// Adds the descriptors that become ready once there is room again.
    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>);

    /// Returns the probe of the path. The receiver counts as connected only after a probe has
    /// passed. `None`: the path cannot fail, for example because it lies within one kernel.
    fn probe(&self) -> Option<&dyn PathProbe> {
        None
    }

    /// Waits until the path is open, if that takes a while. Called if there is no probe: by a
    /// client, which reports a start without room.
    ///
    /// # Errors
    /// A description of the problem.
    fn await_open(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Returns whether other receivers of the port share this path. If so, [`PathSink::begin`] is
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

    /// Reports to the path that the receiver has hung up.
    fn receiver_left(&self) {}

    /// Returns the bytes that were written and not yet read, where the system reports them. Any
    /// thread may call this function, so it must not consume the event that wakes a sender waiting
    /// for room.
    fn unread_bytes(&self) -> Option<u64> {
        None
    }
}

/// The probe of a path that may lead nowhere.
pub trait PathProbe {
    /// Returns whether the receiver has acknowledged a probe. If it has not, another probe was
    /// sent.
    ///
    /// # Errors
    /// A description of the receiver's violation, or the report that the receiver is gone.
    fn try_once(&self) -> Result<bool, String>;

    /// Returns the descriptor that becomes readable once there is an acknowledgement.
    fn answers(&self) -> BorrowedFd<'_>;

    /// Returns why no acknowledgement has arrived in time, and the remedy.
    fn failure(&self, within: Duration) -> String;
}

/// The receiving end of a path.
pub trait PathSource: Send {
    /// Reads the bytes at hand, and returns their number; 0: there will be no more. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if there are no bytes. Any other error ends the connection. The receiver's
    /// caller gets a [`violation`] after the bytes that arrived before it.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Returns whether the bytes are in memory that both ends share. If so, a read takes no system
    /// call, and the path has [`PathSource::read_in_place`].
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Reads like [`PathSource::read`], into a buffer without unread bytes. From then on the buffer
    /// uses the path's own memory. Returns where the bytes are. They stay until the next read.
    ///
    /// # Errors
    /// See [`PathSource::read`].
    fn read_in_place(&mut self, _buffer: &mut AlignedBuffer) -> io::Result<Range<usize>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether [`PathSource::read_within`] waits.
    fn can_wait(&self) -> bool {
        false
    }

    /// Reads like [`PathSource::read`], and waits for bytes, at most for `longest`.
    ///
    /// # Errors
    /// See [`PathSource::read`].
    fn read_within(&mut self, into: &mut [u8], _longest: Duration) -> io::Result<usize> {
        self.read(into)
    }

    /// Answers the first probe that comes through the path, if the path has probes. Waits for the
    /// probe as long as nothing can be read from the signalling socket.
    ///
    /// # Errors
    /// The system refuses to wait.
    fn answer_probe(&mut self, _signalling: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Waits, after the sender has hung up, until no more bytes can arrive, which takes a short
    /// time at most. Bytes that have arrived by then can still be read. Returns false if this
    /// thread cannot wait, because the rest would arrive on this thread.
    fn await_end(&mut self) -> bool {
        true
    }

    /// Returns the room that a read needs, in bytes.
    fn room_needed(&self) -> usize {
        1
    }

    /// Returns the descriptor that becomes readable once there are bytes, unless a call has been
    /// set in [`PathSource::call_slot`].
    fn bytes(&self) -> BorrowedFd<'_>;

    /// Adds the descriptor that becomes ready once there are bytes. Returns false if there are some
    /// already.
    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        poll_set.readable(self.bytes());
        true
    }

    /// Returns whether threads of this process bring the bytes. If they share a processor with the
    /// port's thread, they bring many bytes at once when the port's thread yields to them before it
    /// sleeps.
    fn is_filled_by_threads(&self) -> bool {
        false
    }

    /// Returns the last packet that the sender had sent, if the path can lose written bytes when
    /// the sender's process ends. Called after the end of the sender.
    fn last_sent(&self) -> Option<LastSent> {
        None
    }

    /// Returns the slot for the code that a thread of the middleware calls after it has brought
    /// bytes or the end. `None`: the middleware does not call back.
    fn call_slot(&self) -> Option<&Arc<CallSlot>> {
        None
    }
}
