//! One receiver of a sending port, as its sender sees it on the signalling socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::acks::{AckReader, peek_goodbye};
use crate::inspect::Reader;
use crate::sys::socket::Socket;

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
    /// Number after the last packet that was sent to it whole or in part; [`NOTHING_YET`] until it
    /// is accepted.
    pub next_sequence: Arc<AtomicU64>,
    pub dead: bool,
    pub acks: AckReader,
    /// Whether its acknowledgement is waited for.
    pub ack_awaited: bool,
    /// Set in its record when it has sent a goodbye.
    pub has_left: Arc<AtomicBool>,
    /// Set while the sender sleeps because of it.
    pub waits: Arc<WaitFlags>,
}

pub(in crate::transport) const NOTHING_YET: u64 = u64::MAX;

impl RemoteReceiver {
    /// Returns a receiver with the options in its inspection view.
    pub fn new(reader: &Reader, socket: Arc<Socket>, acks: AckReader) -> Self {
        Self {
            socket,
            connection: reader.connection.clone(),
            blocks: reader.blocks(),
            next_sequence: Arc::new(AtomicU64::new(NOTHING_YET)),
            dead: false,
            acks,
            ack_awaited: false,
            has_left: Arc::default(),
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

    /// Records, in its end, whether a successor may come.
    fn close(&self) {
        if self.acks.has_left || peek_goodbye(&self.socket) {
            // Relaxed: the lock of the records orders what matters; read late, it makes a new
            // receiver report a gap.
            self.has_left.store(true, Ordering::Relaxed);
        }
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
