//! The deadline of a call. Only a thread that has to wait reads the clock.

use std::time::{Duration, Instant};

use super::chain;

/// The deadline of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallDeadline {
    pub deadline: Duration,
    until: Option<Instant>,
}

impl CallDeadline {
    /// Returns a deadline that starts lazily, at the first wait.
    #[inline]
    pub(super) fn lazy(deadline: Duration) -> Self {
        match chain::until() {
            None => Self { deadline, until: None },
            Some(_) => Self::starting_now(deadline),
        }
    }

    /// Returns a deadline that starts now and never exceeds the deadline of an enclosing call.
    pub(super) fn starting_now(deadline: Duration) -> Self {
        let now = Instant::now();
        let own = now + deadline;
        let until = chain::until().map_or(own, |outer| outer.min(own));
        Self { deadline: until.saturating_duration_since(now), until: Some(until) }
    }

    pub(super) fn until(&mut self) -> Instant {
        let deadline = self.deadline;
        *self.until.get_or_insert_with(|| Instant::now() + deadline)
    }

    /// Returns this deadline for a call that must not wait.
    pub(super) fn expired(mut self) -> Self {
        self.until = Some(Instant::now());
        self
    }

    /// Returns the deadline, limited to `timeout` from now.
    pub(super) fn capped(mut self, timeout: Duration) -> Self {
        let until = self.until();
        let sooner = Instant::now().checked_add(timeout).map_or(until, |sooner| sooner.min(until));
        Self { deadline: self.deadline, until: Some(sooner) }
    }

    /// Returns the deadline in wire form, in microseconds.
    pub(super) fn deadline_us(&self) -> u32 {
        let us = self.deadline.as_secs() * 1_000_000 + u64::from(self.deadline.subsec_micros());
        // The limit of a client is an hour, which fits.
        u32::try_from(us).unwrap_or(u32::MAX)
    }
}
