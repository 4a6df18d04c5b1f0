//! A limit of the time that this process runs. While the process is stopped, so are the threads of
//! a middleware that would bring what is waited for.

use std::time::{Duration, Instant};

/// The longest wait at a time. A longer pause between two of them is a stop, or no processor.
const SLICE: Duration = Duration::from_millis(50);

/// A limit of several waits together.
pub(crate) struct RunningLimit {
    left: Duration,
    counted_to: Instant,
}

impl RunningLimit {
    /// Begins with that much time.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { left: limit, counted_to: Instant::now() }
    }

    /// Returns how long the next wait may be; `None`: the time is used up. The time since the last
    /// call counts, but not more of it than a wait takes.
    pub(crate) fn next_wait(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.left = self.left.saturating_sub(now.duration_since(self.counted_to).min(SLICE));
        self.counted_to = now;
        (!self.left.is_zero()).then(|| self.left.min(SLICE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the waits that are left when each takes as long as it may, and `pause` more.
    fn waits(limit: Duration, pause: Duration) -> usize {
        let mut limit = RunningLimit::new(limit);
        std::iter::from_fn(|| {
            let wait = limit.next_wait()?;
            limit.counted_to = Instant::now().checked_sub(wait + pause).unwrap_or(limit.counted_to);
            Some(wait)
        })
        .count()
    }

    #[test]
    fn a_pause_counts_as_one_wait_however_long_it_is() {
        assert_eq!(waits(20 * SLICE, Duration::ZERO), 20);
        assert_eq!(waits(20 * SLICE, Duration::from_secs(3)), 20);
        assert_eq!(waits(Duration::ZERO, Duration::ZERO), 0);
    }
}
