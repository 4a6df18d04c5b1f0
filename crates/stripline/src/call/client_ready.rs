//! The descriptor of a client in a program's own event loop, for the threads that receive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::sys::doorbell::Doorbell;
use crate::sys::ready_set::ReadySet;

/// The descriptor of a client, shared by all connections of the client.
#[derive(Default)]
pub(super) struct ClientReady {
    /// Whether a loop waits for the descriptor.
    is_armed: AtomicBool,
    /// Whether a call that the loop did not poll got an outcome, or a server connected, since the
    /// last `arm`.
    has_changed: AtomicBool,
    /// Made at the first request.
    parts: OnceLock<ReadyParts>,
}

pub(super) struct ReadyParts {
    pub set: Arc<ReadySet>,
    /// Rings for results received by another thread, and for a server that has connected.
    pub doorbell: Doorbell,
}

impl ClientReady {
    pub(super) fn parts(&self) -> Result<&ReadyParts> {
        if self.parts.get().is_none() {
            // If another thread made the parts first, those parts are used.
            let (set, doorbell) = (Arc::new(ReadySet::new()?), Doorbell::new()?);
            let _ = self.parts.set(ReadyParts { set, doorbell });
        }
        let Some(parts) = self.parts.get() else { unreachable!("just set") };
        Ok(parts)
    }

    /// Makes the next `arm` return false, and makes the descriptor readable if a loop waits for it.
    pub(super) fn set_changed(&self) {
        // SeqCst, as in `arm`: either this thread finds the loop armed, or the loop finds the
        // change.
        self.has_changed.store(true, Ordering::SeqCst);
        if self.is_armed.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Arms for changes from now on. Returns whether something has changed already.
    pub(super) fn arm(&self) -> bool {
        self.is_armed.store(true, Ordering::SeqCst);
        self.has_changed.swap(false, Ordering::SeqCst)
    }

    /// Makes the descriptor readable if a loop waits for it.
    #[inline]
    pub(super) fn notify(&self) {
        // Relaxed: the flag was set under the lock of a receiver that this thread has held since.
        // Otherwise the loop checks again after `RECHECK_INTERVAL`.
        if self.is_armed.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        if self.is_armed.swap(false, Ordering::AcqRel)
            && let Some(parts) = self.parts.get()
        {
            parts.doorbell.notify();
        }
    }
}
