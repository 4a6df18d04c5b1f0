//! The ways in which a port waits: spin, sleep, or spin as long as spinning pays off.

use serde::{Deserialize, Serialize};

/// The way in which a port waits when it has nothing to do.
///
/// Waking a sleeping thread costs microseconds, one more poll nanoseconds. But a spinning thread
/// keeps its core from all other threads, including the peer that it waits for.
///
/// ```
/// use stripline::terms::WaitStrategy;
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
    /// Spins for as long as spinning has recently paid off, at most some microseconds, and then
    /// sleeps. Between polls it yields the core. If spinning is unsuccessful, it is tried less and
    /// less often.
    #[default]
    Adaptive,
    /// Spins until there is something to do: the lowest latency, at the price of an entire core.
    Spin,
}

impl WaitStrategy {
    /// All strategies, the least busy first.
    pub const ALL: [Self; 3] = [Self::Block, Self::Adaptive, Self::Spin];

    /// Returns the word used in a waveform file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Adaptive => "adaptive",
            Self::Spin => "spin",
        }
    }
}
