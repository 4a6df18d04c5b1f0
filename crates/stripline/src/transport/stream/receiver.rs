//! A receiver of a sending port over byte streams, as the sender sees it.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::partial_writer::PartialWrite;
use crate::error::Error;
use crate::packet::{Header, Kind};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::doorbell::PollSet;
use crate::sys::socket::Socket;
use crate::transport::carrier::{Frames, SessionEnd, Sink, violation_in};
use crate::transport::signalling::RemoteReceiver;

/// The path of the frames to a receiver.
#[derive(Clone)]
pub(super) struct DataPath {
    /// Declared before the socket, so that the end of the path comes before the hang-up.
    carrier: Option<Box<CarrierPath>>,
    /// The signalling socket, which also carries the frames unless there is a carrier.
    socket: Arc<Socket>,
}

/// The path of a carrier. The path does not show that the receiver is gone; the socket does.
#[derive(Clone)]
struct CarrierPath {
    sink: Sink,
    /// Whether another thread sets `is_receiver_gone`. Otherwise the socket is polled before each
    /// write.
    is_watched: bool,
}

impl CarrierPath {
    /// Reports to a session that the receiver has hung up.
    #[cold]
    fn leave(&self) {
        if let Some(session) = &self.sink.session {
            session.receiver_left();
        }
    }
}

impl DataPath {
    pub(super) fn new(socket: Arc<Socket>, sink: Option<Sink>) -> Self {
        let carrier = sink.map(|sink| Box::new(CarrierPath { sink, is_watched: false }));
        Self { socket, carrier }
    }

    /// Returns the session at this end, if the carrier is a session.
    fn session(&self) -> Option<&dyn SessionEnd> {
        self.carrier.as_ref()?.sink.session.as_deref()
    }

    /// Writes as many bytes as there is room for.
    #[inline(always)]
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.carrier {
            None => (&mut &*self.socket).write(bytes),
            Some(carrier) => self.write_to(carrier, bytes, Duration::ZERO),
        }
    }

    /// Returns whether a carrier transports the frames, and not the socket.
    pub(super) fn has_carrier(&self) -> bool {
        self.carrier.is_some()
    }

    /// Returns whether the path lends memory to the buffer of frames.
    pub(super) fn lends(&self) -> bool {
        self.carrier.as_ref().is_some_and(|carrier| carrier.sink.lends)
    }

    /// Returns whether other receivers share the path.
    pub(super) fn is_shared(&self) -> bool {
        self.session().is_some_and(SessionEnd::is_shared)
    }

    /// Returns whether a shared path has room for `bytes` bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.session().is_none_or(|session| session.has_room(bytes))
    }

    /// Begins frames that are written to all receivers.
    pub(super) fn begin(&self, unit: u64) {
        if let Some(session) = self.session() {
            session.begin(unit);
        }
    }

    /// Writes like [`DataPath::write`]. A carrier that can wait waits for room, at most for
    /// `longest`.
    pub(super) fn write_within(&self, bytes: &[u8], longest: Duration) -> io::Result<usize> {
        match &self.carrier {
            None => self.write(bytes),
            Some(carrier) => self.write_to(carrier, bytes, longest),
        }
    }

    /// Writes like [`DataPath::write`], from the start of a buffer. For an only receiver, a carrier
    /// that takes all bytes may keep the buffer, and leave another one instead.
    #[inline(always)]
    pub(super) fn write_frame(
        &self,
        buffer: &mut AlignedBuffer,
        bytes: usize,
        is_only: bool,
    ) -> io::Result<usize> {
        match &self.carrier {
            None => (&mut &*self.socket).write(&buffer.frame()[..bytes]),
            Some(carrier) => self.write_frame_to(carrier, buffer, bytes, is_only),
        }
    }

    /// Writes to a carrier. A separate function, for the same reason as `write_to`.
    #[inline(never)]
    fn write_frame_to(
        &self,
        carrier: &CarrierPath,
        buffer: &mut AlignedBuffer,
        bytes: usize,
        is_only: bool,
    ) -> io::Result<usize> {
        self.check_receiver(carrier)?;
        let mut frames = match is_only {
            true => Frames::of_buffer(buffer, bytes),
            false => Frames::from(&buffer.frame()[..bytes]),
        };
        carrier.sink.end.write(&mut frames, Duration::ZERO)
    }

    /// Writes to a carrier. A separate function, so that a socket pays only for the decision.
    #[inline(never)]
    fn write_to(&self, carrier: &CarrierPath, bytes: &[u8], longest: Duration) -> io::Result<usize> {
        self.check_receiver(carrier)?;
        carrier.sink.end.write(&mut Frames::from(bytes), longest)
    }

    /// Checks that the receiver of a carrier has not hung up.
    #[inline]
    fn check_receiver(&self, carrier: &CarrierPath) -> io::Result<()> {
        // Relaxed: if the flag is read late, frames are written that no receiver takes.
        if carrier.sink.is_receiver_gone.load(Ordering::Relaxed) || !carrier.is_watched && self.has_hung_up()
        {
            carrier.leave();
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    /// Returns whether the receiver is gone, if a write does not show it. Called after a write that
    /// found no room.
    pub(super) fn is_receiver_gone(&self) -> bool {
        self.carrier.is_some() && self.has_hung_up()
    }

    /// Returns whether the receiver has hung up. If so, nothing more is written to it.
    pub(super) fn has_hung_up(&self) -> bool {
        let has_hung_up = self.socket.has_hung_up();
        if let Some(carrier) = self.carrier.as_ref().filter(|_| has_hung_up) {
            carrier.sink.is_receiver_gone.store(true, Ordering::Relaxed);
            carrier.leave();
        }
        has_hung_up
    }

    /// Returns the flag to set when the receiver hangs up, if writing does not show the hang-up.
    pub(super) fn watch(&mut self) -> Option<Arc<AtomicBool>> {
        let carrier = self.carrier.as_mut()?;
        carrier.is_watched = true;
        Some(Arc::clone(&carrier.sink.is_receiver_gone))
    }

    /// Adds the descriptors that become ready when there is room, or the receiver is gone.
    pub(super) fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        match &self.carrier {
            None => poll_set.writable(self.socket.as_fd()),
            Some(carrier) => {
                carrier.sink.end.poll_room(poll_set);
                poll_set.hung_up(self.socket.as_fd());
            }
        }
    }

    /// Returns whether both paths lead to the same receiver.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket)
    }
}

pub(super) struct StreamReceiver {
    pub(super) remote: RemoteReceiver,
    pub(super) path: DataPath,
    /// The frame that the path took only in part.
    pub(super) partial_write: Option<Arc<PartialWrite>>,
    /// Frames that a non-blocking receiver must still get: stream descriptions and the end.
    pub(super) postponed: Vec<u8>,
    /// Whether a non-blocking receiver got the beginning of the current packet. If so, it gets the
    /// whole packet.
    pub(super) mid_packet: bool,
}

impl AsRef<RemoteReceiver> for StreamReceiver {
    fn as_ref(&self) -> &RemoteReceiver {
        &self.remote
    }
}

impl AsMut<RemoteReceiver> for StreamReceiver {
    fn as_mut(&mut self) -> &mut RemoteReceiver {
        &mut self.remote
    }
}

impl StreamReceiver {
    /// Returns a receiver. Without a sink, the frames travel on the socket.
    pub(super) fn new(remote: RemoteReceiver, sink: Option<Sink>) -> Self {
        let path = DataPath::new(Arc::clone(&remote.socket), sink);
        Self { remote, path, partial_write: None, postponed: Vec::new(), mid_packet: false }
    }

    /// Returns whether no frame for the receiver is pending.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.partial_write.is_none() && self.postponed.is_empty()
    }

    /// Returns whether the path is free for another frame.
    pub(super) fn settle(&mut self) -> bool {
        if self.partial_write.as_ref().is_some_and(|partial_write| partial_write.is_done()) {
            self.partial_write = None;
        }
        self.partial_write.is_none()
    }

    /// Handles an error of the path, which ends the connection. A violation is logged, like a
    /// violation on the signalling socket.
    #[cold]
    pub(super) fn fail(&mut self, error: &io::Error) {
        self.remote.dead = true;
        if let Some(violation) = violation_in(error) {
            let error = Error::misbehaved(&self.remote.connection, violation);
            log::warn!(target: "stripline::transport", "{error}");
        }
    }

    /// Returns whether the receiver got the packet published last, or will get it.
    pub(super) fn has_packet(&self) -> bool {
        self.remote.blocks || self.mid_packet
    }

    /// Keeps a frame that had no room, if it must not be lost.
    pub(super) fn postpone(&mut self, frame: &[u8]) {
        match Header::read(frame).and_then(|header| Kind::parse(header.kind)) {
            // No packet goes before a postponed frame. Of two descriptions, the older one would
            // describe no packet.
            Some(Kind::Stream) => self.postponed = frame.to_vec(),
            Some(Kind::End) => self.postponed.extend_from_slice(frame),
            Some(Kind::Data) | None => self.mid_packet = false,
        }
    }
}
