//! The progress of a component at its inputs, for a harness: whether the component has handled all
//! packets that were sent before a moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};

/// The progress at one receiving port. A harness asks by a number and wakes the port. The port
/// answers with that number once it has found nothing to take, which includes all packets that were
/// sent before the harness asked.
pub(crate) struct Progress {
    asked: AtomicU64,
    state: Mutex<ProgressState>,
    /// Wakes the harness. The channel has room for one value, which is enough for any change.
    changed: SyncSender<()>,
}

#[derive(Default)]
struct ProgressState {
    /// The packets that threads of a pool are handling.
    in_flight: usize,
    /// The last number for which the port was found empty.
    polled: u64,
    /// The last number for which a thread waits at the empty port without a limit.
    waited: u64,
    is_closed: bool,
}

/// An answer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CaughtUp {
    /// Packets may be untaken, or unfinished.
    No,
    /// All packets are handled.
    Polled,
    /// All packets are handled, and the component does nothing else before another packet.
    Waits,
}

impl Progress {
    pub(crate) fn new(changed: SyncSender<()>) -> Self {
        Self { asked: AtomicU64::new(0), state: Mutex::default(), changed }
    }

    /// Asks the port by a number that is higher than all numbers before. A wake must follow.
    pub(crate) fn ask(&self, number: u64) {
        // Release: a port that reads the number also finds the packets sent before.
        self.asked.store(number, Ordering::Release);
    }

    /// Returns the answer to the number.
    pub(crate) fn answer(&self, number: u64) -> CaughtUp {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match () {
            () if state.in_flight > 0 => CaughtUp::No,
            () if state.waited >= number => CaughtUp::Waits,
            () if state.polled >= number || state.is_closed => CaughtUp::Polled,
            () => CaughtUp::No,
        }
    }

    /// Returns the number to answer. The port reads it before the poll that finds nothing.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Answers: the port is empty, and the thread waits at it without a limit, or does not.
    pub(super) fn emptied(&self, asked: u64, waits: bool) {
        self.update(|state| {
            state.polled = asked;
            if waits {
                state.waited = asked;
            }
        });
    }

    /// Counts a packet that a thread of a pool begins to handle.
    pub(crate) fn begin(&self) {
        self.update(|state| state.in_flight += 1);
    }

    /// Counts a packet that a thread of a pool has handled.
    pub(crate) fn finish(&self) {
        self.update(|state| state.in_flight -= 1);
    }

    /// Marks the port as closed: its packets are not handled any more.
    pub(super) fn close(&self) {
        self.update(|state| state.is_closed = true);
    }

    fn update(&self, change: impl FnOnce(&mut ProgressState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        // A harness that is gone, or has a value already, needs no further one.
        let _ = self.changed.try_send(());
    }
}
