//! A limit of the time that this process runs. While the process is stopped, the threads of a
//! middleware are stopped as well, so an awaited event cannot arrive.

use std::time::{Duration, Instant};

/// The longest single wait. A longer pause between two waits means that the process was stopped, or
/// had no processor.
const SLICE: Duration = Duration::from_millis(50);

/// A limit of several waits together.
pub struct RunningLimit {
    left: Duration,
    counted_to: Instant,
}

impl RunningLimit {
    /// Starts a limit of that time.
    pub fn new(limit: Duration) -> Self {
        Self { left: limit, counted_to: Instant::now() }
    }

    /// Returns the longest time for the next wait; `None`: the time is used up. The time since the
    /// last call counts, but at most as much as a wait takes.
    pub fn next_wait(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.left = self.left.saturating_sub(now.duration_since(self.counted_to).min(SLICE));
        self.counted_to = now;
        (!self.left.is_zero()).then(|| self.left.min(SLICE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of waits until the limit, when each wait takes the longest time and
    /// `pause` more.
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
