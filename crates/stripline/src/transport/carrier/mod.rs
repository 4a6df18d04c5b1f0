//! Carriers: anything that can move bytes from one process to another carries a link. A carrier is
//! two ends and a ticket. Handshake, keys, acknowledgements, credits, goodbye and the peer's death
//! stay on the signalling socket, and the policies stay in the link. So no carrier can weaken them.
//!
//! A new carrier is a file with three types:
//!
//! 1. a [`PathSource`]: the receiving end, which a receiver makes before it connects;
//! 2. a [`PathSink`]: the sending end, which the sender opens by the ticket of that source;
//! 3. a [`Carrier`], which makes both.
//!
//! [`CarrierTransport`](super::stream::StreamTransport) makes a transport of it: one `static`, and
//! its entry in the registry. `pipe.rs` is the example, and passes the conformance suite.
//!
//! What a carrier must keep: bytes arrive once and in order, as long as both processes live. Bytes
//! that were written before the sender's end can still be read. A carrier may cut them anywhere.
//!
//! A peer that breaks the rules of the path is no end of the bytes. It is a [`violation`], which
//! the link reports by the name of the connection.

#[cfg(any(feature = "test-transports", feature = "zenoh", feature = "dds"))]
#[cfg_attr(
    not(all(feature = "test-transports", feature = "zenoh", feature = "dds")),
    allow(dead_code, reason = "each transport uses a part of it")
)]
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

#[cfg(any(feature = "zenoh", feature = "dds"))]
pub(super) use callback_source::CallbackFeed;
#[cfg(any(feature = "test-transports", feature = "zenoh", feature = "dds"))]
pub(super) use callback_source::CallbackSource;

/// The longest that an end waits in its own call, which takes one system call instead of three.
/// Nothing interrupts that, the peer's death included, so it is short; a longer wait uses `poll`.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(3);

/// Returns the error of a path with a peer that has broken the rules. The text follows the words
/// "the other end".
#[cold]
pub(super) fn violation(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Returns the text of a [`violation`]; `None`: the error is another one.
pub(super) fn violation_in(error: &io::Error) -> Option<String> {
    // The system has no such error.
    (error.kind() == io::ErrorKind::InvalidData).then(|| error.to_string())
}

/// A way to move bytes from a sender to a receiver.
pub(crate) trait Carrier: Send + Sync {
    /// Makes the receiving end for a connection, and the ticket for the other one.
    ///
    /// # Errors
    /// What the system lacks, with the remedy.
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)>;

    /// Opens the sending end. The ticket comes from a peer, so everything in it is checked.
    ///
    /// # Errors
    /// The ticket's fault, or what this process lacks, for the peer.
    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, PeerRefusal>;
}

/// Opens the sending end by what came in a handshake; `None` where there is no carrier.
/// `is_complete`: every frame must arrive, although the receiver may not need that. `groups`: those
/// of the port, where it may have several receivers.
///
/// # Errors
/// As [`Carrier::sink`], and a handshake without a ticket.
pub(super) fn open_sink(
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

/// The paths that one port sends to several receivers by, in the carrier's own types, by their
/// addresses.
#[derive(Default)]
pub(crate) struct PortGroups(pub(super) Mutex<BTreeMap<String, Weak<dyn Any + Send + Sync>>>);

/// A connection, as far as a carrier needs it.
pub(crate) struct PathRequest<'a> {
    /// Its name, for messages.
    pub connection: &'a str,
    /// The packets that may wait on the path; `None`: any number, as the port's queue bounds them.
    pub packets_max: Option<u32>,
    /// Whether every frame must arrive. Otherwise what is lost may stay lost.
    pub is_complete: bool,
    /// Whether it carries calls: a start without room is reported, and a cancellation that was sent
    /// is read before a call begins.
    #[allow(dead_code, reason = "read by a transport that is a feature")]
    pub is_of_calls: bool,
    /// The receiver's options of single transports.
    pub options: TransportOptions,
    /// Bytes that the port's ring would have, which bound a frame.
    #[cfg_attr(not(feature = "iceoryx2"), expect(dead_code, reason = "only memory has places of a size"))]
    pub buffer: u32,
    /// Whether the receiver runs a barrier on all processors before it sleeps.
    #[cfg_attr(not(feature = "iceoryx2"), expect(dead_code, reason = "only memory has fences of its own"))]
    pub runs_barrier: bool,
    /// The endpoint that is connected to; `None` in calls.
    pub endpoint: Option<&'a Endpoint>,
}

impl<'a> PathRequest<'a> {
    /// Returns that of a receiver with these options.
    pub(super) fn of_receiver(connection: &'a str, options: &LinkOptions) -> Self {
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

    /// Returns that of one direction of calls. Nothing of them may be lost, with any options.
    pub(super) fn of_calls(
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

/// The address of a source, for the sending side. It travels in the handshake.
#[derive(Default)]
pub(crate) struct Ticket {
    /// In the carrier's own form, at most [`Ticket::ADDRESS_MAX`] bytes.
    pub address: String,
    /// At most eight, and only to a process of the same host.
    pub fds: Vec<OwnedFd>,
    /// The token by which sockets were joined instead of those.
    pub session: Option<u64>,
    /// Whether every frame must arrive, because the sender waits for acknowledgements. It does not
    /// travel.
    pub is_complete: bool,
    /// The sender's options of single transports. They do not travel.
    pub options: TransportOptions,
    /// The groups of the sending port; `None` where it has one receiver. They do not travel.
    pub(super) groups: Option<Arc<PortGroups>>,
}

impl Ticket {
    pub(crate) const ADDRESS_MAX: usize = 1024;

    /// Returns a ticket that came in a handshake.
    ///
    /// # Errors
    /// A description of its fault, for the peer.
    pub(crate) fn of_peer(address: Option<&str>, fds: Vec<OwnedFd>) -> Result<Self, String> {
        let address = address.ok_or("the handshake has no ticket for the data path")?;
        if address.len() > Self::ADDRESS_MAX {
            return Err(format!("the ticket for the data path has {} bytes", address.len()));
        }
        Ok(Self { address: address.into(), fds, is_complete: true, ..Self::default() })
    }

    pub(crate) fn borrowed_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.fds.iter().map(AsFd::as_fd).collect()
    }
}

/// The sending end.
pub(crate) trait PathSink: Send + Sync {
    /// Writes as many bytes as there is room for, and returns their number. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; anything else ends the connection. A [`violation`] is
    /// logged by the name of the connection.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes as [`PathSink::write`], and waits for room, but not longer. Where the middleware has
    /// no call for that, it does not wait.
    ///
    /// # Errors
    /// As [`PathSink::write`].
    fn write_within(&self, bytes: &[u8], _longest: Duration) -> io::Result<usize> {
        self.write(bytes)
    }

    /// Writes as [`PathSink::write`], from the start of the frame in a buffer. The path may write
    /// to the line in front of it. One that takes all of it may keep the buffer, and leave another
    /// one, or lend it the memory of the next frame.
    ///
    /// # Errors
    /// As [`PathSink::write`].
    fn write_buffer(&self, buffer: &mut AlignedBuffer, bytes: usize) -> io::Result<usize> {
        self.write(&buffer.frame()[..bytes])
    }

    /// Returns whether [`PathSink::write_buffer`] lends memory of the path to the buffer.
    fn lends(&self) -> bool {
        false
    }

    /// Adds the descriptors that become ready once there is room again.
    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>);

    /// Returns the probe of the path, through which a probe must come before its receiver counts as
    /// connected. `None`: the path cannot fail, as one within a kernel.
    fn probe(&self) -> Option<&dyn PathProbe> {
        None
    }

    /// Waits until the path is open, where that takes a while. Called where there is no probe: by a
    /// client, which reports a start without room.
    ///
    /// # Errors
    /// A description of what is missing.
    fn await_open(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Returns whether other receivers of the port share this path. Then [`PathSink::begin`] is
    /// called for each before a frame is written to any, and each is written the same frames.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns whether this receiver lets a path that is shared take frames of so many bytes, or a
    /// good part of them. Called before they are written.
    fn has_room(&self, _bytes: usize) -> bool {
        true
    }

    /// Begins frames that are written to all receivers, by a number that differs from the last.
    fn begin(&self, _unit: u64) {}

    /// Takes note that the receiver has hung up.
    fn receiver_left(&self) {}

    /// Returns the bytes that were written and not yet read, where the system reports them. Any
    /// thread may call it, so it leaves what wakes a sender that waits for room.
    fn unread_bytes(&self) -> Option<u64> {
        None
    }
}

/// The probe of a path that may lead nowhere.
pub(crate) trait PathProbe {
    /// Returns whether the receiver has acknowledged a probe. Otherwise it has sent another one.
    ///
    /// # Errors
    /// A description of the receiver's violation, or that it is gone.
    fn try_once(&self) -> Result<bool, String>;

    /// Returns the descriptor that can be read once there is an acknowledgement.
    fn answers(&self) -> BorrowedFd<'_>;

    /// Returns why none has come in that time, and what to do.
    fn failure(&self, within: Duration) -> String;
}

/// The receiving end.
pub(crate) trait PathSource: Send {
    /// Reads the bytes at hand, and returns their number; 0: there will be no more. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if there are none; anything else ends the connection. The receiver's caller
    /// gets a [`violation`], behind the bytes that came before it.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Returns whether the bytes are in memory that both ends have. Then a read takes no system
    /// call, and the path has [`PathSource::read_in_place`].
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Reads as [`PathSource::read`], into a buffer without unread bytes, which uses the path's own
    /// memory from then on. Returns where the bytes are. They stay until the next read.
    ///
    /// # Errors
    /// As [`PathSource::read`].
    fn read_in_place(&mut self, _buffer: &mut AlignedBuffer) -> io::Result<Range<usize>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether [`PathSource::read_within`] waits.
    fn can_wait(&self) -> bool {
        false
    }

    /// Reads as [`PathSource::read`], and waits for bytes, but not longer.
    ///
    /// # Errors
    /// As [`PathSource::read`].
    fn read_within(&mut self, into: &mut [u8], _longest: Duration) -> io::Result<usize> {
        self.read(into)
    }

    /// Answers the first probe that comes through the path, where there are probes. Waits for it as
    /// long as nothing can be read from the signalling socket.
    ///
    /// # Errors
    /// When the system refuses to wait.
    fn answer_probe(&mut self, _signalling: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Waits, after the sender has hung up, until no more can arrive: a short time at most. Bytes
    /// that are at hand then can still be read. False: not on this thread, on which the rest would
    /// arrive.
    fn await_end(&mut self) -> bool {
        true
    }

    /// Returns the room that a read needs, in bytes.
    fn room_needed(&self) -> usize {
        1
    }

    /// Returns the descriptor that can be read once there are bytes, unless a call has been set in
    /// [`PathSource::call_slot`].
    fn bytes(&self) -> BorrowedFd<'_>;

    /// Adds what becomes ready once there are bytes; false: there are some already.
    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        poll_set.readable(self.bytes());
        true
    }

    /// Returns whether threads of this process bring the bytes. On a processor that they share with
    /// the port's thread, they bring many at once if it yields to them before it sleeps.
    fn is_filled_by_threads(&self) -> bool {
        false
    }

    /// Returns the last packet that the sender had sent, where the path can lose what was written
    /// with the sender's process. Called after its end.
    fn last_sent(&self) -> Option<LastSent> {
        None
    }

    /// Returns the place for what a thread of the middleware calls, after it has brought bytes or
    /// the end. `None`: the middleware does not call back.
    fn call_slot(&self) -> Option<&Arc<CallSlot>> {
        None
    }
}
