//! One receiver of a sending port, as its sender sees it on the signalling socket.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::acks::{AckReader, peek_goodbye};
use crate::error::Error;
use crate::inspect::Reader;
use crate::sys::socket::Socket;
use crate::transport::{Departed, PortPosition};

/// Reasons of a sender to sleep for a reader, for inspection.
#[derive(Default)]
pub(in crate::transport) struct WaitFlags {
    pub space: AtomicBool,
    pub ack: AtomicBool,
}

/// The part of a receiver that does not depend on how its frames travel.
pub(in crate::transport) struct RemoteReceiver {
    pub socket: Arc<Socket>,
    pub connection: String,
    pub blocks: bool,
    pub progress: Arc<ReceiverProgress>,
    pub dead: bool,
    pub acks: AckReader,
    /// Whether its acknowledgement is waited for.
    pub ack_awaited: bool,
    /// Set while the sender sleeps because of it.
    pub waits: Arc<WaitFlags>,
}

pub(in crate::transport) const NOTHING_YET: u64 = u64::MAX;

/// How far a receiver has come. Its record keeps this for its successor.
pub(in crate::transport) struct ReceiverProgress {
    /// Number after the last packet that was sent to it whole or in part; [`NOTHING_YET`] until it
    /// is accepted.
    pub next_sequence: AtomicU64,
    /// The number of the first packet for it.
    first: AtomicU64,
    /// The start position that it was sent.
    resumed: OnceLock<PortPosition>,
    /// Whether it has sent a goodbye.
    pub has_left: AtomicBool,
    /// Whether its sender has found it gone.
    is_closed: AtomicBool,
    /// Where it has stopped, once its sender has found it gone.
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
    /// Records the start position that it is sent.
    pub fn resume(&self, position: PortPosition) {
        // A receiver has one.
        let _ = self.resumed.set(position);
    }

    /// Records that it is accepted before the packet of that number.
    pub fn begin(&self, sequence: u64) {
        // Relaxed: hints for its successor.
        self.first.store(sequence, Ordering::Relaxed);
        self.next_sequence.store(sequence, Ordering::Relaxed);
    }

    /// Records that a frame could not be written: the receiver has stopped before it.
    pub fn stop_at(&self, position: PortPosition) {
        // Relaxed: a hint for its successor, which misses this packet as well.
        self.next_sequence.store(position.sequence, Ordering::Relaxed);
        // Only one frame of a receiver fails.
        let _ = self.stopped_at.set(position);
    }

    /// Completes what is recorded of a receiver that is gone, if it has stopped at that position.
    pub fn complete(&self, position: PortPosition) {
        // Relaxed throughout: stored by the thread that calls this.
        let has_stopped = self.is_closed.load(Ordering::Relaxed)
            && self.next_sequence.load(Ordering::Relaxed) == position.sequence;
        if has_stopped && position.sample.is_some() {
            // Where it has stopped at a frame, that is recorded already.
            let _ = self.stopped_at.set(position);
        }
    }

    /// Returns where it has stopped; `None`: it was never accepted, and had no predecessor.
    pub fn departed(&self) -> Option<Departed> {
        let resumed = self.resumed.get().copied();
        // Relaxed: a hint. A packet that is being written now has no sample index in it yet.
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

    /// Runs a sleep that this receiver causes, and shows that to inspection.
    pub fn while_waiting<T>(&self, sleep: impl FnOnce() -> T) -> T {
        // Relaxed: information for inspection only, next to a system call.
        self.waits.space.store(true, Ordering::Relaxed);
        let slept = sleep();
        self.waits.space.store(false, Ordering::Relaxed);
        slept
    }

    /// Reads its acknowledgements and its flow control; false: it has hung up. Then it is dead, and
    /// also after a violation, which is logged.
    ///
    /// # Errors
    /// A description of its violation.
    pub fn read_acks(&mut self) -> Result<bool, String> {
        let read = self.acks.read_from(&self.socket);
        self.dead = read != Ok(true);
        if let Err(violation) = &read {
            log::warn!(target: "stripline::transport", "{}", Error::misbehaved(&self.connection, violation));
        }
        read
    }

    /// Records, in its end, whether a successor may come.
    fn close(&self) {
        if self.acks.has_left || peek_goodbye(&self.socket) {
            // Relaxed: the lock of the records orders what matters; read late, it makes a new
            // receiver report a gap.
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
