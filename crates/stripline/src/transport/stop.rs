//! The limit of a wait, and the stop of all waits of a component.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::futex::ParkWakers;

use super::interrupt::Interrupt;

/// The time that an operation may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Return at once.
    Never,
    /// Until done, stopped, or this time.
    Until(Option<Instant>),
    /// Until done or this time, even when stopped: for messages that must still be sent at the end.
    Finish(Instant),
    /// Like `Finish`, but the port's waker may end the wait.
    FinishUnlessWoken(Instant),
}

impl Wait {
    pub(crate) const FOREVER: Self = Self::Until(None);

    /// Returns a wait until done, stopped, or `timeout` from now. A time beyond the clock's range
    /// means no limit.
    pub(crate) fn within(timeout: Duration) -> Self {
        Self::Until(Instant::now().checked_add(timeout))
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Never => None,
            Self::Until(deadline) => deadline,
            Self::Finish(deadline) | Self::FinishUnlessWoken(deadline) => Some(deadline),
        }
    }

    /// Returns how much of `longest` the wait may take.
    pub(crate) fn left_of(self, longest: Duration) -> Duration {
        match self {
            Self::Never => Duration::ZERO,
            Self::Until(None) => longest,
            Self::Until(Some(until)) | Self::Finish(until) | Self::FinishUnlessWoken(until) => {
                until.saturating_duration_since(Instant::now()).min(longest)
            }
        }
    }

    /// Returns whether the deadline has passed.
    pub(crate) fn is_expired(self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(crate) fn is_stoppable(self) -> bool {
        !matches!(self, Self::Finish(_) | Self::FinishUnlessWoken(_))
    }

    /// Returns whether the port's waker may end the wait.
    pub(crate) fn is_interruptible(self) -> bool {
        !matches!(self, Self::Never | Self::Finish(_))
    }
}

/// The stop request, shared by all ports of a component, and the interrupt of one port.
#[derive(Clone, Debug)]
pub struct StopToken {
    state: Arc<StopState>,
    doorbell: Doorbell,
    wakers: Arc<ParkWakers>,
    interrupt: Arc<Interrupt>,
}

#[derive(Debug, Default)]
struct StopState {
    is_stopped: AtomicBool,
    /// Whether the run ends, although the component is not stopped yet.
    is_ending: AtomicBool,
    /// The failure that is the reason for the stop, if there is one.
    failure: OnceLock<String>,
}

impl StopToken {
    pub(crate) fn new() -> Result<Self> {
        let doorbell = Doorbell::new()?;
        let (state, wakers, interrupt) = Default::default();
        Ok(Self { state, doorbell, wakers, interrupt })
    }

    /// Returns the same stop request, with an interrupt for one port.
    pub(crate) fn for_port(&self, port: &str) -> Self {
        Self { interrupt: Arc::new(Interrupt::new(port)), ..self.clone() }
    }

    /// Returns the interrupt, which ends one wait of the port.
    #[inline]
    pub(crate) fn interrupt(&self) -> &Arc<Interrupt> {
        &self.interrupt
    }

    /// Checks before each sleep that nothing ends the wait.
    ///
    /// # Errors
    /// [`StopToken::error`] if the wait is stoppable. [`Error::Interrupted`] if the waker may end
    /// the wait; this takes the interrupt.
    #[inline]
    pub(crate) fn check(&self, wait: Wait) -> Result<()> {
        if wait.is_stoppable() && self.is_stopped() {
            return Err(self.error());
        }
        if wait.is_interruptible() { self.interrupt.take(false) } else { Ok(()) }
    }

    /// Returns whether [`StopToken::check`] would fail.
    #[inline]
    pub(crate) fn ends(&self, wait: Wait) -> bool {
        wait.is_stoppable() && self.is_stopped() || wait.is_interruptible() && self.interrupt.is_pending()
    }

    /// Adds the descriptors that wake a thread for which [`StopToken::check`] will fail.
    pub(crate) fn add_to<'a>(&'a self, poll_set: &mut PollSet<'a>, wait: Wait) {
        if wait.is_stoppable() {
            poll_set.readable(self.doorbell.as_fd());
        }
        if wait.is_interruptible()
            && let Some(doorbell) = self.interrupt.doorbell()
        {
            poll_set.readable(doorbell.as_fd());
        }
    }

    /// Wakes every port that sleeps. The doorbell is never drained.
    pub(crate) fn stop(&self) {
        // Release: a thread that sees the flag sees the events before the stop. The flag alone
        // would suffice.
        self.state.is_stopped.store(true, Ordering::Release);
        self.doorbell.notify();
        self.wakers.wake();
    }

    /// Stops the ports because of a failure, which is their error from now on.
    pub(crate) fn fail(&self, failure: String) {
        // The first failure is the reason.
        let _ = self.state.failure.set(failure);
        self.stop();
    }

    /// Returns the failure that is the reason for the stop.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.state.failure.get().map(Error::failed)
    }

    /// Returns the error of a stopped port.
    #[cold]
    pub(crate) fn error(&self) -> Error {
        // Acquire: pairs with the store of the flag, which the caller has read, so that the failure
        // before it is found.
        fence(Ordering::Acquire);
        self.failure().unwrap_or(Error::Stopped)
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Relaxed: a late read costs one more packet and orders no other data.
        self.state.is_stopped.load(Ordering::Relaxed)
    }

    /// Records that the run ends: the component takes the rest, and waits for no one else.
    pub(crate) fn set_ending(&self) {
        // Relaxed: the flag orders no other data.
        self.state.is_ending.store(true, Ordering::Relaxed);
    }

    /// Returns whether the run ends, or the component is stopped.
    pub(crate) fn is_ending(&self) -> bool {
        // Relaxed: the flag orders no other data.
        self.state.is_ending.load(Ordering::Relaxed) || self.is_stopped()
    }

    /// Sleeps until a descriptor of the set is ready. Returns false if the wait allows no more
    /// time.
    ///
    /// # Errors
    /// See [`StopToken::check`]; also errors of the system.
    pub(super) fn sleep<'a>(&'a self, mut poll_set: PollSet<'a>, wait: Wait) -> Result<bool> {
        if matches!(wait, Wait::Never) {
            return Ok(false);
        }
        self.check(wait)?;
        self.add_to(&mut poll_set, wait);
        poll_set.wait(wait.deadline())
    }

    /// Returns the wakers to wake besides the doorbell.
    pub(crate) fn wakers(&self) -> &ParkWakers {
        &self.wakers
    }

    pub(crate) fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }
}
