//! The state behind the waker of a port, which ends one wait of the port.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};
use crate::sys::doorbell::Doorbell;
use crate::sys::futex;

/// A request that ends one wait of a port. A port without a waker pays one load before a sleep.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    /// The port, for the error.
    port: String,
    /// 1 from the request until it ends a wait. A parked receiver also sleeps on this word.
    pending: AtomicU32,
    /// The doorbell, made with the first waker.
    doorbell: OnceLock<Doorbell>,
}

impl Interrupt {
    /// Returns the interrupt of a port.
    pub(crate) fn new(port: &str) -> Self {
        Self { port: port.into(), ..Self::default() }
    }

    /// Makes requests possible. No wait may be under way.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn enable(&self) -> Result<()> {
        if self.doorbell.get().is_none() {
            // Another thread may have been first; the doorbell of that thread serves as well.
            let _ = self.doorbell.set(Doorbell::new()?);
        }
        Ok(())
    }

    /// Ends the current wait, or the next one. The call uses only atomic operations and system
    /// calls, so that a signal handler may call it. `publish` runs after the request is stored and
    /// before threads are woken, so that a port that is awake sees the effects of `publish`.
    pub(crate) fn request(&self, publish: impl FnOnce()) {
        // Release: the thread that stops waiting sees the events before the request.
        self.pending.store(1, Ordering::Release);
        publish();
        if let Some(doorbell) = self.doorbell.get() {
            doorbell.notify();
            futex::wake(&self.pending);
        }
    }

    /// Returns whether a request is pending.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        // Relaxed: a thread that sleeps is woken, and a thread that is awake reads the word again.
        self.pending.load(Ordering::Relaxed) != 0
    }

    /// Takes the pending request. `sent`: whether the packet of this call was sent.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if a request was pending.
    #[inline]
    pub(crate) fn take(&self, sent: bool) -> Result<()> {
        if self.is_pending() { self.take_pending(sent) } else { Ok(()) }
    }

    #[cold]
    fn take_pending(&self, sent: bool) -> Result<()> {
        // Acquire: pairs with the Release of the request.
        if self.pending.swap(0, Ordering::Acquire) == 0 {
            return Ok(());
        }
        // The next wait reads the word before it sleeps. So this drain may take the ring of a
        // request that came in between.
        if let Some(doorbell) = self.doorbell.get() {
            doorbell.drain();
        }
        Err(Error::Interrupted { port: self.port.clone(), sent })
    }

    /// Returns the doorbell that a request rings; `None`: there is no waker.
    pub(crate) fn doorbell(&self) -> Option<&Doorbell> {
        self.doorbell.get()
    }

    /// Returns the word that a request changes from 0; `None`: there is no waker.
    pub(crate) fn word(&self) -> Option<&AtomicU32> {
        self.doorbell.get().map(|_| &self.pending)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::sys::doorbell::PollSet;
    use crate::transport::{StopToken, Wait};

    #[test]
    fn one_request_ends_one_wait() {
        let stop = StopToken::new().unwrap().for_port("out");
        stop.interrupt().enable().unwrap();
        let silent = Doorbell::new().unwrap();
        let sleep = |wait| {
            let mut poll_set = PollSet::default();
            poll_set.readable(silent.as_fd());
            stop.sleep(poll_set, wait)
        };
        // Two requests before a wait are one.
        stop.interrupt().request(|| ());
        stop.interrupt().request(|| ());
        // A wait that must not end early leaves the request pending.
        assert!(!sleep(Wait::Never).unwrap());
        assert!(!sleep(Wait::Finish(Instant::now())).unwrap());
        let error = sleep(Wait::FOREVER).unwrap_err();
        assert!(matches!(&error, Error::Interrupted { port, sent: false } if port == "out"), "{error}");
        assert!(!sleep(Wait::Until(Some(Instant::now()))).unwrap());
        let other = Arc::clone(stop.interrupt());
        std::thread::scope(|scope| {
            scope.spawn(move || other.request(|| ()));
            // The wait sleeps until the request, unless the request came first.
            let outcome = match sleep(Wait::FOREVER) {
                Ok(true) => sleep(Wait::FOREVER),
                outcome => outcome,
            };
            assert!(matches!(outcome, Err(Error::Interrupted { .. })), "{outcome:?}");
        });
        // The other ports of the component are not interrupted.
        assert!(stop.for_port("other").check(Wait::FOREVER).is_ok());
    }
}
