//! A measurement of waits, for other threads to read.

use std::sync::atomic::{AtomicI64, Ordering};

use super::clock::now_ns;

/// The time that one thread has waited for one reason.
///
/// The word is the sum of all waits so far. During a wait, the start of the wait is subtracted from
/// the sum. The start is later than the sum is long, so the word is negative during a wait.
#[derive(Debug, Default)]
pub(crate) struct WaitClock(AtomicI64);

impl WaitClock {
    /// Begins a wait, unless the thread waits already.
    pub(crate) fn begin(&self) {
        // Relaxed throughout: one thread writes, and the word depends on no other.
        let sum = self.0.load(Ordering::Relaxed);
        if sum >= 0 {
            self.0.store(sum - now(), Ordering::Relaxed);
        }
    }

    /// Ends the wait, if the thread waits.
    pub(crate) fn end(&self) {
        let sum = self.0.load(Ordering::Relaxed);
        if sum < 0 {
            self.0.store((sum + now()).max(0), Ordering::Relaxed);
        }
    }

    /// Begins or ends a wait.
    pub(crate) fn set(&self, waits: bool) {
        if waits { self.begin() } else { self.end() }
    }

    /// Returns whether the thread waits now.
    pub(crate) fn is_running(&self) -> bool {
        self.0.load(Ordering::Relaxed) < 0
    }

    /// Returns the sum of all waits in nanoseconds, including a wait that has not ended.
    pub(crate) fn total_ns(&self) -> u64 {
        let sum = self.0.load(Ordering::Relaxed);
        let total = if sum < 0 { sum + now() } else { sum };
        total.max(0).unsigned_abs()
    }
}

/// The waits of a sender for one receiver.
#[derive(Debug, Default)]
pub(crate) struct SenderWaits {
    pub room: WaitClock,
    pub ack: WaitClock,
}

fn now() -> i64 {
    i64::try_from(now_ns()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn waits_add_up_and_a_wait_counts_before_its_end() {
        let clock = WaitClock::default();
        assert_eq!((clock.is_running(), clock.total_ns()), (false, 0));
        clock.end();
        assert_eq!(clock.total_ns(), 0, "no wait has begun");
        let mut sum = 0;
        for _ in 0..2 {
            clock.begin();
            assert!(clock.is_running());
            let before = clock.total_ns();
            std::thread::sleep(Duration::from_millis(2));
            clock.begin();
            assert!(clock.total_ns() >= before + 2_000_000, "a second begin changes nothing");
            clock.end();
            assert!(!clock.is_running() && clock.total_ns() >= sum + 2_000_000);
            sum = clock.total_ns();
        }
        assert_eq!(clock.total_ns(), sum);
    }
}
