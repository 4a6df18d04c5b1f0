//! Threads that end with their owners.

use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// A running thread. The owner's drop must request the end of the thread, and the drop of the
/// `JoinedThread` then waits for it. The `JoinedThread` must be the owner's first field, so that
/// the thread ends before the rest of the owner is dropped.
pub(crate) struct JoinedThread(Option<JoinHandle<()>>);

impl JoinedThread {
    /// Starts a thread.
    ///
    /// # Errors
    /// The system allows no further thread.
    pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<Self> {
        let thread = Builder::new().name(name.into()).spawn(run);
        thread.map(|thread| Self(Some(thread))).map_err(|e| Error::not_started("cannot start a thread", e))
    }

    /// Detaches the thread: the drop does not wait for it.
    pub(crate) fn detach(&mut self) {
        self.0 = None;
    }
}

impl Drop for JoinedThread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic of the thread has been printed; nothing more can be done about it here.
            let _ = thread.join();
        }
    }
}
