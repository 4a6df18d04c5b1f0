//! Threads that end with their owners.

use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// A running thread. The drop of a `JoinedThread` waits until the thread ends, so the owner must
/// request the end first. The `JoinedThread` is the owner's first field: the thread ends before the
/// rest of the owner is dropped.
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
