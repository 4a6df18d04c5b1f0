//! Spinning before a sleep, for as long as that pays.

use crate::terms::WaitStrategy;

/// The longest adaptive spin before a sleep, in polls. With the yields in between, it takes about
/// as long as waking a sleeper.
const SPINS_MAX: u32 = 128;
/// Polls between two yields. If no other thread is runnable, a yield takes a fraction of a
/// microsecond.
const SPINS_PER_YIELD: u32 = 4;
/// Polls between two full polls, for a thread on a dedicated core.
const SPINS_IN_A_ROW: u32 = 8;
/// The longest pause between two polls of a word that the peer writes, as a power of two of
/// processor pauses: below a microsecond.
const PAUSE_MAX: u32 = 4;
/// The smallest budget at which a spin is tried.
const SPINS_MIN: u32 = 8;
/// After this many sleeps without spinning, a wait tries to spin again.
const SLEEPS_PER_TRIAL: u32 = 32;

/// A decision after each poll whether to poll again.
///
/// Spinning for as long as a sleep would cost is never more than twice as bad as the best choice
/// (Karlin et al., 1990). This bound holds only with cores to spare. Elsewhere, spinning takes the
/// time that the peer needs, so an unsuccessful spin halves the budget and a successful one doubles
/// it.
#[derive(Debug)]
pub(crate) struct AdaptiveSpin {
    strategy: WaitStrategy,
    /// The maximum number of polls that a wait may take now.
    budget: u32,
    /// The polls taken in the current wait.
    spins: u32,
    /// The waits without spinning since the last wait that spun.
    sleeps: u32,
}

impl AdaptiveSpin {
    pub(crate) fn new(strategy: WaitStrategy) -> Self {
        Self { strategy, budget: SPINS_MAX, spins: 0, sleeps: 0 }
    }

    pub(crate) fn set_strategy(&mut self, strategy: WaitStrategy) {
        self.strategy = strategy;
    }

    pub(crate) fn strategy(&self) -> WaitStrategy {
        self.strategy
    }

    /// Returns whether the strategy never sleeps.
    pub(crate) fn spins_always(&self) -> bool {
        self.strategy == WaitStrategy::Spin
    }

    /// Decides, after an empty poll, whether to poll again rather than sleep.
    #[inline]
    pub(crate) fn spin_once(&mut self) -> bool {
        match self.strategy {
            WaitStrategy::Spin => {}
            WaitStrategy::Block => return false,
            WaitStrategy::Adaptive if self.spins >= self.budget => return false,
            WaitStrategy::Adaptive => {
                self.spins += 1;
                if self.spins.is_multiple_of(SPINS_PER_YIELD) {
                    std::thread::yield_now();
                    return true;
                }
            }
        }
        std::hint::spin_loop();
        true
    }

    /// Decides, after an empty poll, how many more to make in a row; `None`: sleep.
    #[inline]
    pub(crate) fn next_burst(&mut self) -> Option<u32> {
        match self.strategy {
            WaitStrategy::Spin => return Some(SPINS_IN_A_ROW),
            WaitStrategy::Block => return None,
            WaitStrategy::Adaptive if self.spins >= self.budget => return None,
            WaitStrategy::Adaptive if self.spins > 0 => std::thread::yield_now(),
            WaitStrategy::Adaptive => {}
        }
        self.spins += SPINS_PER_YIELD;
        Some(SPINS_PER_YIELD)
    }

    /// Decides like [`AdaptiveSpin::spin_once`], with a growing pause. Used for a word that the
    /// peer writes often: each poll takes the cache line from the peer.
    pub(crate) fn spin_backoff(&mut self, spins: u32) -> bool {
        (0..1 << spins.min(PAUSE_MAX)).all(|_| self.spin_once())
    }

    /// Records that the wait ended without a sleep.
    #[inline]
    pub(crate) fn succeeded(&mut self) {
        // Only a wait with empty polls gives information.
        if self.spins > 0 {
            self.spins = 0;
            self.budget = (self.budget * 2).clamp(SPINS_MIN, SPINS_MAX);
        }
    }

    /// Records that the wait continues asleep.
    pub(crate) fn gave_up(&mut self) {
        if self.spins > 0 {
            self.spins = 0;
            self.budget = if self.budget > SPINS_MIN { self.budget / 2 } else { 0 };
            self.sleeps = 0;
        } else if self.strategy == WaitStrategy::Adaptive {
            self.sleeps += 1;
            if self.sleeps >= SLEEPS_PER_TRIAL {
                self.sleeps = 0;
                self.budget = SPINS_MAX / 8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(spinner: &mut AdaptiveSpin, at_most: u32) -> u32 {
        (0..at_most).take_while(|_| spinner.spin_once()).count() as u32
    }

    #[test]
    fn block_never_looks_again_and_spin_always_does() {
        assert_eq!(looks(&mut AdaptiveSpin::new(WaitStrategy::Block), 10), 0);
        assert_eq!(looks(&mut AdaptiveSpin::new(WaitStrategy::Spin), 10_000), 10_000);
    }

    #[test]
    fn looking_in_vain_is_given_up_and_tried_again_rarely() {
        let mut spinner = AdaptiveSpin::new(WaitStrategy::Adaptive);
        let mut total = 0;
        for _ in 0..10_000 {
            total += looks(&mut spinner, u32::MAX);
            spinner.gave_up();
        }
        // Fewer than ten polls a sleep on average.
        assert!(total < 100_000, "{total}");
        assert!(total > 1_000, "it must not be given up for good: {total}");
    }

    #[test]
    fn looking_that_pays_is_done_for_longer() {
        let mut spinner = AdaptiveSpin::new(WaitStrategy::Adaptive);
        for _ in 0..10 {
            looks(&mut spinner, u32::MAX);
            spinner.gave_up();
        }
        assert_eq!(spinner.budget, 0);
        for _ in 0..SLEEPS_PER_TRIAL {
            spinner.gave_up();
        }
        for _ in 0..10 {
            assert_eq!(looks(&mut spinner, 5), 5);
            spinner.succeeded();
        }
        assert_eq!(spinner.budget, SPINS_MAX);
    }
}
