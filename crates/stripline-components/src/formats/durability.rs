//! The time at which written data is on the disk.

use std::str::FromStr;
use std::time::{Duration, Instant};

/// The time at which written data is forced to the disk, so that it survives a failure of the
/// machine.
///
/// A killed process loses nothing that it has passed to the system, with any of these values.
///
/// ```
/// use stripline_components::formats::Durability;
///
/// assert_eq!("packet".parse(), Ok(Durability::Packet));
/// assert_eq!(Durability::default().as_str(), "end");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the file is complete.
    #[default]
    End,
    /// At most a second after the write, and when the file is complete.
    Second,
    /// With each packet.
    Packet,
}

impl Durability {
    /// All durabilities.
    pub const ALL: [Self; 3] = [Self::End, Self::Second, Self::Packet];

    /// Returns the word for this durability.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Second => "second",
            Self::Packet => "packet",
        }
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|durability| durability.as_str() == word);
        known.ok_or_else(|| format!("use one of {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

/// The longest time that written data waits before it is passed on.
const PASS_TIME: Duration = Duration::from_secs(1);

/// The time at which a writer passes data on: to the system with [`Durability::End`], and otherwise
/// to the disk.
///
/// The clock is read once per packet. A receiver waits for the next packet until the due time.
#[derive(Debug)]
pub(crate) struct PassTimer {
    durability: Durability,
    /// The due time; `None`: everything was passed on.
    due: Option<Instant>,
    /// The time from the last packet to the due time.
    left: Duration,
}

impl PassTimer {
    pub const fn new(durability: Durability) -> Self {
        Self { durability, due: None, left: Duration::MAX }
    }

    /// Returns whether data is passed on to the disk.
    pub fn is_to_disk(&self) -> bool {
        self.durability != Durability::End
    }

    /// Records that a packet was written. Returns whether the data is to be passed on now.
    pub fn written(&mut self) -> bool {
        if self.durability == Durability::Packet {
            return true;
        }
        let now = Instant::now();
        let due = *self.due.get_or_insert(now + PASS_TIME);
        self.left = due.saturating_duration_since(now);
        self.left.is_zero()
    }

    /// Returns whether written data is to be passed on now.
    pub fn is_due(&mut self) -> bool {
        let Some(due) = self.due else { return false };
        self.left = due.saturating_duration_since(Instant::now());
        self.left.is_zero()
    }

    /// Records that everything was passed on.
    pub fn passed(&mut self) {
        (self.due, self.left) = (None, Duration::MAX);
    }

    /// Returns the longest wait for the next packet.
    pub const fn left(&self) -> Duration {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_passed_on_within_a_second_of_its_first_packet() {
        for durability in [Durability::End, Durability::Second] {
            let mut timer = PassTimer::new(durability);
            assert!(!timer.is_due() && timer.left() == Duration::MAX);
            assert!(!timer.written() && timer.left() <= PASS_TIME && timer.left() > Duration::ZERO);
            let first = timer.due;
            assert!(!timer.written() && timer.due == first, "a later packet does not put it off");
            timer.due = first.and_then(|due| due.checked_sub(PASS_TIME));
            assert!(timer.is_due() && timer.written());
            timer.passed();
            assert!(!timer.is_due() && timer.left() == Duration::MAX, "silence has no more to do");
        }
        assert!(PassTimer::new(Durability::Packet).written());
    }
}
