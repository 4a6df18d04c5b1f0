//! The limit of a wait, and the stop of all waits of a component.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::futex::ParkWakers;

/// The time that an operation may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Return at once.
    Never,
    /// Until done, stopped, or this time.
    Until(Option<Instant>),
    /// Until done or this time, even when stopped: for messages that must still be sent at the end.
    Finish(Instant),
}

impl Wait {
    pub(crate) const FOREVER: Self = Self::Until(None);

    /// Returns a wait until done, stopped, or this time from now. A time beyond the clock's range
    /// means no limit.
    pub(crate) fn within(timeout: Duration) -> Self {
        Self::Until(Instant::now().checked_add(timeout))
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Never => None,
            Self::Until(deadline) => deadline,
            Self::Finish(deadline) => Some(deadline),
        }
    }

    /// Returns how much of that time it may take.
    pub(crate) fn left_of(self, longest: Duration) -> Duration {
        match self {
            Self::Never => Duration::ZERO,
            Self::Until(None) => longest,
            Self::Until(Some(until)) | Self::Finish(until) => {
                until.saturating_duration_since(Instant::now()).min(longest)
            }
        }
    }

    /// Returns whether its deadline is over.
    pub(crate) fn is_expired(self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(crate) fn is_stoppable(self) -> bool {
        !matches!(self, Self::Finish(_))
    }
}

/// The stop request, shared by all ports of a component.
#[derive(Clone, Debug)]
pub(crate) struct StopToken {
    flag: Arc<AtomicBool>,
    doorbell: Doorbell,
    wakers: Arc<ParkWakers>,
}

impl StopToken {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { flag: Arc::default(), doorbell: Doorbell::new()?, wakers: Arc::default() })
    }

    /// Wakes every port that sleeps; the doorbell is never drained.
    pub(crate) fn stop(&self) {
        // Release: a thread that sees the flag sees what led to it. A flag alone would suffice.
        self.flag.store(true, Ordering::Release);
        self.doorbell.notify();
        self.wakers.wake();
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Relaxed: a late read costs one more packet and orders no other data.
        self.flag.load(Ordering::Relaxed)
    }

    /// Sleeps until a descriptor of the set is ready; false: the wait allows no more.
    ///
    /// # Errors
    /// [`Error::Stopped`], unless the wait is not stoppable; errors of the system.
    pub(super) fn sleep<'a>(&'a self, mut poll_set: PollSet<'a>, wait: Wait) -> Result<bool> {
        if matches!(wait, Wait::Never) {
            return Ok(false);
        }
        if wait.is_stoppable() {
            if self.is_stopped() {
                return Err(Error::Stopped);
            }
            poll_set.readable(self.doorbell.as_fd());
        }
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
