//! One receiver of a sending port over sockets, as its sender sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::acks::AckReader;
use super::inspect::{StreamPortView, WaitFlags};
use super::partial_writer::PartialWrite;
use crate::inspect::Reader;
use crate::packet::{Header, Kind};
use crate::sys::socket::Socket;

pub(super) struct StreamReceiver {
    pub(super) socket: Arc<Socket>,
    pub(super) connection: String,
    pub(super) blocks: bool,
    /// A frame that the socket took only in part.
    pub(super) partial_write: Option<Arc<PartialWrite>>,
    /// Frames that a non-blocking receiver must still get: stream descriptions and the end.
    pub(super) postponed: Vec<u8>,
    /// Whether a non-blocking receiver got the beginning of the current packet: then it gets all of
    /// it.
    pub(super) mid_packet: bool,
    /// Number after the last packet that the socket took whole or in part; [`NOTHING_YET`] until it
    /// is accepted.
    pub(super) next_sequence: Arc<AtomicU64>,
    pub(super) dead: bool,
    pub(super) acks: AckReader,
    /// Whether its acknowledgement is waited for.
    pub(super) ack_awaited: bool,
    /// Set in its record when it has sent a goodbye.
    pub(super) has_left: Arc<AtomicBool>,
    /// Set while the sender sleeps because of it.
    pub(super) waits: Arc<WaitFlags>,
}

pub(super) const NOTHING_YET: u64 = u64::MAX;

impl StreamReceiver {
    /// Returns a receiver with the options in its inspection view.
    pub(super) fn new(reader: Reader, socket: Arc<Socket>, view: &StreamPortView, acks: AckReader) -> Self {
        let next_sequence = Arc::new(AtomicU64::new(NOTHING_YET));
        Self {
            connection: reader.connection.clone(),
            blocks: reader.blocks(),
            waits: view.add(reader, &socket, &next_sequence),
            has_left: Arc::default(),
            socket,
            partial_write: None,
            postponed: Vec::new(),
            mid_packet: false,
            next_sequence,
            dead: false,
            acks,
            ack_awaited: false,
        }
    }

    /// Returns whether no frame for it is pending.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.partial_write.is_none() && self.postponed.is_empty()
    }

    /// Returns whether the socket is free for another frame.
    pub(super) fn settle(&mut self) -> bool {
        if self.partial_write.as_ref().is_some_and(|partial_write| partial_write.is_done()) {
            self.partial_write = None;
        }
        self.partial_write.is_none()
    }

    /// Returns whether it got the packet published last, or will.
    pub(super) fn has_packet(&self) -> bool {
        self.blocks || self.mid_packet
    }

    /// Runs a sleep that this receiver causes, and shows that to inspection.
    pub(super) fn while_waiting<T>(&self, poll_set: impl FnOnce() -> T) -> T {
        // Relaxed: information for inspection only, next to a system call.
        self.waits.space.store(true, Ordering::Relaxed);
        let slept = poll_set();
        self.waits.space.store(false, Ordering::Relaxed);
        slept
    }

    /// Keeps a frame that had no room, if it must not be lost.
    pub(super) fn postpone(&mut self, frame: &[u8]) {
        match Header::read(frame).and_then(|header| Kind::parse(header.kind)) {
            // No packet goes before a postponed frame: of two descriptions, the older describes
            // nothing.
            Some(Kind::Stream) => self.postponed = frame.to_vec(),
            Some(Kind::End) => self.postponed.extend_from_slice(frame),
            Some(Kind::Data) | None => self.mid_packet = false,
        }
    }
}
