//! The account of one receiver: every packet must be received once or reported missing, by number.

use stripline::Gap;
use stripline::node::Packet;

use crate::payload;

/// The number of the only sender.
pub const SENDER: u64 = 1;

/// The packets of a receiver so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Whether packets may be missing.
    pub is_lossy: bool,
    /// The number of the next packet.
    pub next: u64,
    pub received: u64,
    pub missing: u64,
    pub gaps: u64,
    /// The hash of all received packets.
    pub hash: u64,
}

impl Account {
    /// Creates an account. `is_lossy` is set if the receiver may miss packets.
    pub fn new(is_lossy: bool) -> Self {
        Self { is_lossy, ..Self::default() }
    }

    /// Enters a packet.
    ///
    /// # Errors
    /// When the packet is damaged, repeated or out of order, or follows packets that are missing
    /// without a gap.
    pub fn enter(&mut self, packet: &Packet<'_, u64>) -> Result<(), String> {
        let (sender, sequence) = payload::check(packet)?;
        if (sender, sequence) != (SENDER, packet.sequence()) {
            return Err(format!("packet {sequence} of {sender} came as number {}", packet.sequence()));
        }
        self.advance(sequence, packet.gap().copied())?;
        self.hash = add_to_hash(self.hash, packet);
        self.received += 1;
        self.next += 1;
        Ok(())
    }

    /// Enters the end of a stream of `packets` packets, with the gap before the end.
    ///
    /// # Errors
    /// When packets are missing without a gap.
    pub fn end(&mut self, packets: u64, gap: Option<Gap>) -> Result<(), String> {
        self.advance(packets, gap).map_err(|problem| format!("at the end: {problem}"))
    }

    fn advance(&mut self, to: u64, gap: Option<Gap>) -> Result<(), String> {
        let next = self.next;
        let Some(gap) = gap else {
            return match to == next {
                true => Ok(()),
                false => Err(format!("{to} came after {next} packets, and no gap was reported")),
            };
        };
        if !self.is_lossy {
            return Err(format!("a receiver that blocks got {gap:?}"));
        }
        let samples: u64 = (next..to).map(|sequence| payload::words(SENDER, sequence) as u64).sum();
        if gap.first != next || next.checked_add(gap.packets) != Some(to) || gap.samples != samples {
            return Err(format!("{to} came after {next} packets, {samples} samples missing, with {gap:?}"));
        }
        self.missing += gap.packets;
        self.gaps += 1;
        self.next = to;
        Ok(())
    }
}

/// Adds a packet to the hash of a stream.
pub fn add_to_hash(hash: u64, packet: &[u64]) -> u64 {
    packet.iter().fold(hash, |hash, word| payload::mix(hash ^ word))
}

#[cfg(test)]
mod tests {
    use stripline::GapReason;

    use super::*;

    fn gap(first: u64, packets: u64) -> Option<Gap> {
        let samples = (first..first + packets).map(|sequence| payload::words(SENDER, sequence) as u64).sum();
        Some(Gap { first, packets, samples, reason: GapReason::Transport })
    }

    #[test]
    fn a_gap_has_the_right_numbers_or_is_a_failure() {
        let account = || Account { next: 7, ..Account::new(true) };
        assert!(account().end(7, None).is_ok() && account().end(9, gap(7, 2)).is_ok());
        let mut long = account();
        long.end(9, gap(7, 2)).unwrap();
        assert_eq!((long.next, long.missing, long.gaps), (9, 2, 1));
        assert!(account().end(8, None).is_err() && account().end(6, None).is_err());
        for wrong in [gap(6, 3), gap(7, 1), gap(7, 3), gap(8, 2), gap(7, 0)] {
            assert!(account().end(9, wrong).is_err(), "{wrong:?}");
        }
        let fewer = gap(7, 2).map(|gap| Gap { samples: gap.samples - 1, ..gap });
        assert!(account().end(9, fewer).is_err());
        assert!(Account::new(false).end(2, gap(0, 2)).unwrap_err().contains("blocks"));
    }

    #[test]
    fn the_hash_is_of_the_order_too() {
        let (a, b) = ([1, 2], [3]);
        let hash = |packets: [&[u64]; 2]| packets.into_iter().fold(0, add_to_hash);
        assert_ne!(hash([&a, &b]), hash([&b, &a]));
        assert_ne!(hash([&a, &b]), hash([&a, &a]));
    }
}
