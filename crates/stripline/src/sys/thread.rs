//! Threads that end with their owner.

use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// A running thread. Its owner requests its end when dropped; then the drop of this waits for it.
/// It is its owner's first field, so that the thread ends before the rest of the owner is dropped.
pub(crate) struct JoinedThread(Option<JoinHandle<()>>);

impl JoinedThread {
    /// Starts a thread.
    ///
    /// # Errors
    /// When the system has no further thread.
    pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<Self> {
        let thread = Builder::new().name(name.into()).spawn(run);
        thread.map(|thread| Self(Some(thread))).map_err(|e| Error::not_started("cannot start a thread", e))
    }

    /// Leaves the thread to itself: the drop does not wait for it.
    pub(crate) fn detach(&mut self) {
        self.0 = None;
    }
}

impl Drop for JoinedThread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic there has been printed; nothing more can be done about it here.
            let _ = thread.join();
        }
    }
}
