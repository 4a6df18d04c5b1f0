//! How long a call may take: a clock is read only by who has to wait.

use std::time::{Duration, Instant};

use super::chain;

/// A deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub deadline: Duration,
    until: Option<Instant>,
}

impl Term {
    /// From about now on: from when somebody first has to wait.
    #[inline]
    pub(super) fn soon(deadline: Duration) -> Self {
        match chain::until() {
            None => Self { deadline, until: None },
            Some(_) => Self::now(deadline),
        }
    }

    /// From now on. Nobody waits longer than who waits for it.
    pub(super) fn now(deadline: Duration) -> Self {
        let now = Instant::now();
        let own = now + deadline;
        let until = chain::until().map_or(own, |outer| outer.min(own));
        Self { deadline: until.saturating_duration_since(now), until: Some(until) }
    }

    pub(super) fn until(&mut self) -> Instant {
        let deadline = self.deadline;
        *self.until.get_or_insert_with(|| Instant::now() + deadline)
    }

    /// The same, or this from now on if that is sooner.
    pub(super) fn at_most(mut self, timeout: Duration) -> Self {
        let until = self.until();
        let sooner = Instant::now().checked_add(timeout).map_or(until, |sooner| sooner.min(until));
        Self { deadline: self.deadline, until: Some(sooner) }
    }

    /// As it is sent: microseconds.
    pub(super) fn deadline_us(&self) -> u32 {
        let us = self.deadline.as_secs() * 1_000_000 + u64::from(self.deadline.subsec_micros());
        // A client's limit is an hour, which fits.
        u32::try_from(us).unwrap_or(u32::MAX)
    }
}
