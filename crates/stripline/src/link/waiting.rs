//! How a port waits: by looking, by sleeping, or by looking for as long as that pays.

use serde::{Deserialize, Serialize};

/// How a port waits when there is nothing for it to do.
///
/// Waking a thread that sleeps costs microseconds, looking again nanoseconds; but who looks keeps a processor
/// from everybody else, the peer that it waits for among them.
///
/// ```
/// use stripline::link::WaitStrategy;
///
/// assert_eq!(WaitStrategy::default(), WaitStrategy::Adaptive);
/// assert_eq!("spin".parse(), Ok(WaitStrategy::Spin));
/// assert_eq!(WaitStrategy::ALL.map(WaitStrategy::as_str), ["block", "adaptive", "spin"]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitStrategy {
    /// Sleeps at once.
    Block,
    /// Looks for as long as looking has paid lately, at most some microseconds, then sleeps. Between looks it gives way to
    /// whoever wants the processor. What has come to nothing is tried less and less.
    #[default]
    Adaptive,
    /// Looks until there is something: the lowest latency, for a processor of its own.
    Spin,
}

impl WaitStrategy {
    /// Every strategy, the least busy first.
    pub const ALL: [Self; 3] = [Self::Block, Self::Adaptive, Self::Spin];

    /// The word in a waveform file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Adaptive => "adaptive",
            Self::Spin => "spin",
        }
    }
}

/// The longest that an adaptive wait looks before it sleeps, in looks: with the yields between them, about
/// what waking a sleeper costs in all.
const LOOKS_MAX: u32 = 128;
/// After so many looks others may have the processor: if nobody wants it, that takes a fraction of a microsecond.
const LOOKS_PER_YIELD: u32 = 4;
/// Looks between two at everything else, for who has a processor to himself.
const LOOKS_IN_A_ROW: u32 = 8;
/// The longest pause between two looks at a word that the peer writes, as a power of two of processor pauses: below a
/// microsecond.
const PAUSE_MAX: u32 = 4;
/// Below this, looking is not worth its while.
const LOOKS_MIN: u32 = 8;
/// A wait that does not look at all tries it again after so many sleeps.
const SLEEPS_PER_TRIAL: u32 = 32;

/// Decides, look by look, whether to look again.
///
/// To look for as long as a sleep would have cost is never more than twice as bad as knowing what comes (Karlin et
/// al., 1990). That holds where processors are to spare; where they are not, looking takes from the peer the time
/// that it needs, so the bound is halved with every look in vain and doubled with every one that paid.
#[derive(Debug)]
pub(crate) struct Spinner {
    strategy: WaitStrategy,
    /// Looks that a wait may take now.
    budget: u32,
    /// Looks taken in the wait under way.
    looks: u32,
    /// Waits that did not look, since the last that did.
    sleeps: u32,
}

impl Spinner {
    pub(crate) fn new(strategy: WaitStrategy) -> Self {
        Self { strategy, budget: LOOKS_MAX, looks: 0, sleeps: 0 }
    }

    pub(crate) fn set_strategy(&mut self, strategy: WaitStrategy) {
        self.strategy = strategy;
    }

    /// Whether there is nothing but looking.
    pub(crate) fn spins(&self) -> bool {
        self.strategy == WaitStrategy::Spin
    }

    /// After a look that found nothing: whether to look again rather than sleep.
    #[inline]
    pub(crate) fn again(&mut self) -> bool {
        match self.strategy {
            WaitStrategy::Spin => {}
            WaitStrategy::Block => return false,
            WaitStrategy::Adaptive if self.looks >= self.budget => return false,
            WaitStrategy::Adaptive => {
                self.looks += 1;
                if self.looks.is_multiple_of(LOOKS_PER_YIELD) {
                    std::thread::yield_now();
                    return true;
                }
            }
        }
        std::hint::spin_loop();
        true
    }

    /// After a look that found nothing: how many more to take in a row, rather than sleep.
    #[inline]
    pub(crate) fn looks_more(&mut self) -> Option<u32> {
        match self.strategy {
            WaitStrategy::Spin => return Some(LOOKS_IN_A_ROW),
            WaitStrategy::Block => return None,
            WaitStrategy::Adaptive if self.looks >= self.budget => return None,
            WaitStrategy::Adaptive if self.looks > 0 => std::thread::yield_now(),
            WaitStrategy::Adaptive => {}
        }
        self.looks += LOOKS_PER_YIELD;
        Some(LOOKS_PER_YIELD)
    }

    /// As [`Spinner::again`], with a pause that grows: for looks at a word that the peer writes all the time, which each
    /// look takes from it.
    pub(crate) fn again_later(&mut self, looks: u32) -> bool {
        (0..1 << looks.min(PAUSE_MAX)).all(|_| self.again())
    }

    /// The wait is over without a sleep.
    #[inline]
    pub(crate) fn found(&mut self) {
        // Only who has looked in vain first has learnt something.
        if self.looks > 0 {
            self.looks = 0;
            self.budget = (self.budget * 2).clamp(LOOKS_MIN, LOOKS_MAX);
        }
    }

    /// The wait goes on asleep.
    pub(crate) fn slept(&mut self) {
        if self.looks > 0 {
            self.looks = 0;
            self.budget = if self.budget > LOOKS_MIN { self.budget / 2 } else { 0 };
            self.sleeps = 0;
        } else if self.strategy == WaitStrategy::Adaptive {
            self.sleeps += 1;
            if self.sleeps >= SLEEPS_PER_TRIAL {
                self.sleeps = 0;
                self.budget = LOOKS_MAX / 8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(spinner: &mut Spinner, at_most: u32) -> u32 {
        (0..at_most).take_while(|_| spinner.again()).count() as u32
    }

    #[test]
    fn block_never_looks_again_and_spin_always_does() {
        assert_eq!(looks(&mut Spinner::new(WaitStrategy::Block), 10), 0);
        assert_eq!(looks(&mut Spinner::new(WaitStrategy::Spin), 10_000), 10_000);
    }

    #[test]
    fn looking_in_vain_is_given_up_and_tried_again_rarely() {
        let mut spinner = Spinner::new(WaitStrategy::Adaptive);
        let mut total = 0;
        for _ in 0..10_000 {
            total += looks(&mut spinner, u32::MAX);
            spinner.slept();
        }
        // Fewer than ten looks a sleep on average.
        assert!(total < 100_000, "{total}");
        assert!(total > 1_000, "it must not be given up for good: {total}");
    }

    #[test]
    fn looking_that_pays_is_done_for_longer() {
        let mut spinner = Spinner::new(WaitStrategy::Adaptive);
        for _ in 0..10 {
            looks(&mut spinner, u32::MAX);
            spinner.slept();
        }
        assert_eq!(spinner.budget, 0);
        for _ in 0..SLEEPS_PER_TRIAL {
            spinner.slept();
        }
        for _ in 0..10 {
            assert_eq!(looks(&mut spinner, 5), 5);
            spinner.found();
        }
        assert_eq!(spinner.budget, LOOKS_MAX);
    }
}
