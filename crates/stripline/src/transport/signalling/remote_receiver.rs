//! A receiver of a sending port, as the sender sees it on the signalling socket.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::acks::{AckReader, peek_goodbye};
use crate::error::Error;
use crate::inspect::Reader;
use crate::sys::socket::Socket;
use crate::sys::wait_clock::SenderWaits;
use crate::transport::{Departed, PortPosition};

/// The part of a receiver that does not depend on how frames travel to it.
pub(in crate::transport) struct RemoteReceiver {
    pub socket: Arc<Socket>,
    pub connection: String,
    pub blocks: bool,
    pub progress: Arc<ReceiverProgress>,
    pub dead: bool,
    pub acks: AckReader,
    /// Whether the sender waits for the receiver's acknowledgement.
    pub ack_awaited: bool,
    /// The sleeps of the sender because of the receiver.
    pub waits: Arc<SenderWaits>,
}

pub(in crate::transport) const NOTHING_YET: u64 = u64::MAX;

/// The progress of a receiver. The record of the connection keeps it for the receiver's successor.
pub(in crate::transport) struct ReceiverProgress {
    /// The number after the last packet that was sent to the receiver, whole or in part;
    /// [`NOTHING_YET`] until the receiver is accepted.
    pub next_sequence: AtomicU64,
    /// The number of the first packet for the receiver.
    first: AtomicU64,
    /// The start position that was sent to the receiver.
    resumed: OnceLock<PortPosition>,
    /// Whether the receiver has sent a goodbye.
    pub has_left: AtomicBool,
    /// Whether the sender has found the receiver gone.
    is_closed: AtomicBool,
    /// The position at which the receiver has stopped, once the sender has found it gone.
    stopped_at: OnceLock<PortPosition>,
}

impl Default for ReceiverProgress {
    fn default() -> Self {
        let [next_sequence, first] = [NOTHING_YET; 2].map(AtomicU64::new);
        let (has_left, is_closed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (resumed, stopped_at) = (OnceLock::new(), OnceLock::new());
        Self { next_sequence, first, resumed, has_left, is_closed, stopped_at }
    }
}

impl ReceiverProgress {
    /// Records the start position that is sent to the receiver.
    pub fn resume(&self, position: PortPosition) {
        // A receiver has only one start position.
        let _ = self.resumed.set(position);
    }

    /// Records that the receiver is accepted before the packet with the number `sequence`.
    pub fn begin(&self, sequence: u64) {
        // Relaxed: hints for the receiver's successor.
        self.first.store(sequence, Ordering::Relaxed);
        self.next_sequence.store(sequence, Ordering::Relaxed);
    }

    /// Records that a frame could not be written: the receiver has stopped before this frame.
    pub fn stop_at(&self, position: PortPosition) {
        // Relaxed: a hint for the receiver's successor, which misses this packet as well.
        self.next_sequence.store(position.sequence, Ordering::Relaxed);
        // Only one frame of a receiver fails.
        let _ = self.stopped_at.set(position);
    }

    /// Completes the record of a receiver that is gone, if the receiver has stopped at `position`.
    pub fn complete(&self, position: PortPosition) {
        // Relaxed throughout: stored by the thread that calls this function.
        let has_stopped = self.is_closed.load(Ordering::Relaxed)
            && self.next_sequence.load(Ordering::Relaxed) == position.sequence;
        if has_stopped && position.sample.is_some() {
            // If the receiver has stopped at a frame, the position is recorded already.
            let _ = self.stopped_at.set(position);
        }
    }

    /// Returns the position at which the receiver has stopped; `None`: the receiver was never
    /// accepted, and had no predecessor.
    pub fn departed(&self) -> Option<Departed> {
        let resumed = self.resumed.get().copied();
        // Relaxed: a hint. A packet that is being written now has no sample index in the hint yet.
        let sequence = self.next_sequence.load(Ordering::Relaxed);
        let before = Some(PortPosition { sequence, sample: None }).filter(|_| sequence != NOTHING_YET);
        let at = self.stopped_at.get().copied().or(before).or(resumed)?;
        let is_new = sequence == self.first.load(Ordering::Relaxed);
        Some(Departed { at, start: is_new.then(|| resumed.unwrap_or(at)) })
    }
}

impl RemoteReceiver {
    /// Returns a receiver with the options in its inspection view.
    pub fn new(reader: &Reader, socket: Arc<Socket>, acks: AckReader) -> Self {
        Self {
            socket,
            connection: reader.connection.clone(),
            blocks: reader.blocks(),
            progress: Arc::default(),
            dead: false,
            acks,
            ack_awaited: false,
            waits: Arc::default(),
        }
    }

    /// Runs a sleep that this receiver causes, and shows the sleep to inspection.
    pub fn while_waiting<T>(&self, sleep: impl FnOnce() -> T) -> T {
        self.waits.room.begin();
        let slept = sleep();
        self.waits.room.end();
        slept
    }

    /// Reads the receiver's acknowledgements and flow control. Returns false if the receiver has
    /// hung up. A receiver that has hung up is marked dead, and so is one after a violation, which
    /// is logged.
    ///
    /// # Errors
    /// A description of the receiver's violation.
    pub fn read_acks(&mut self) -> Result<bool, String> {
        let read = self.acks.read_from(&self.socket);
        self.dead = read != Ok(true);
        if let Err(violation) = &read {
            log::warn!(target: "stripline::transport", "{}", Error::misbehaved(&self.connection, violation));
        }
        read
    }

    /// Records, at the end of the receiver, whether a successor may come.
    fn close(&self) {
        if self.acks.has_left || peek_goodbye(&self.socket) {
            // Relaxed: the lock of the records orders the store where it matters. If it is read
            // late, a new receiver reports a gap.
            self.progress.has_left.store(true, Ordering::Relaxed);
        }
        // Relaxed: read by this thread.
        self.progress.is_closed.store(true, Ordering::Relaxed);
        self.socket.close();
    }
}

/// Removes and closes the receivers found dead.
pub(in crate::transport) fn remove_dead<R: AsRef<RemoteReceiver>>(receivers: &mut Vec<R>) {
    receivers.retain(|receiver| {
        let receiver = receiver.as_ref();
        if receiver.dead {
            receiver.close();
        }
        !receiver.dead
    });
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::sys::own_process::{in_own_process, logged};
    use crate::terms::{Overflow, Watermarks};

    #[test]
    fn a_violation_is_logged_and_ends_the_receiver() {
        let test =
            "transport::signalling::remote_receiver::tests::a_violation_is_logged_and_ends_the_receiver";
        in_own_process(test, "log", || {
            let lines = logged();
            let (ours, theirs) = UnixStream::pair().unwrap();
            let reader = Reader::new("a -> b", Overflow::Block, 4, &Watermarks::of_depth(4));
            let socket = Arc::new(Socket::from(ours));
            let mut receiver = RemoteReceiver::new(&reader, socket, AckReader::default());
            assert_eq!(receiver.read_acks(), Ok(true));
            assert!(!receiver.dead);
            (&theirs).write_all(&[0xa5; 16]).unwrap();
            receiver.read_acks().unwrap_err();
            assert!(receiver.dead);
            let line = lines.try_recv().unwrap();
            assert_eq!(
                line,
                "a -> b: the other end sent an invalid acknowledgement; its connection was closed"
            );
        });
    }
}
