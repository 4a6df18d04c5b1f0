//! Counts of packets out of order, duplicated or missing.

/// The sequence of received packets, counted as in RFC 4737. A packet counts as reordered if a
/// packet with a higher number came before it.
pub(super) struct Sequence {
    next: u64,
    seen: Vec<bool>,
    distinct: u64,
    pub reordered: u64,
    pub duplicates: u64,
}

impl Sequence {
    /// Creates a sequence for packets numbered from 0.
    pub(super) fn new(packets: u32) -> Self {
        Self { next: 0, seen: vec![false; packets as usize], distinct: 0, reordered: 0, duplicates: 0 }
    }

    /// Records the number of the next packet received.
    pub(super) fn take(&mut self, number: u64) -> Result<(), String> {
        let packets = self.seen.len();
        let seen = usize::try_from(number).ok().and_then(|index| self.seen.get_mut(index));
        let seen = seen.ok_or_else(|| format!("packet number {number} of {packets}"))?;
        if std::mem::replace(seen, true) {
            self.duplicates += 1;
            return Ok(());
        }
        self.distinct += 1;
        if number < self.next {
            self.reordered += 1;
        } else {
            self.next = number + 1;
        }
        Ok(())
    }

    /// Returns the number of packets that have not arrived.
    pub(super) fn missing(&self) -> u64 {
        self.seen.len() as u64 - self.distinct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(packets: u32, numbers: &[u64]) -> (u64, u64, u64) {
        let mut sequence = Sequence::new(packets);
        numbers.iter().for_each(|number| sequence.take(*number).unwrap());
        (sequence.reordered, sequence.duplicates, sequence.missing())
    }

    #[test]
    fn order_is_counted_as_in_the_standard() {
        assert_eq!(counts(5, &[0, 1, 2, 3, 4]), (0, 0, 0));
        // A late packet counts as one reordered packet, regardless of how many packets overtook it.
        assert_eq!(counts(5, &[1, 2, 3, 4, 0]), (1, 0, 0));
        // An early packet makes every packet that it overtook a reordered one.
        assert_eq!(counts(5, &[4, 0, 1, 2, 3]), (4, 0, 0));
        assert_eq!(counts(4, &[1, 0, 3, 2]), (2, 0, 0));
    }

    #[test]
    fn what_comes_twice_or_not_at_all_is_not_reordered() {
        assert_eq!(counts(5, &[0, 2, 2, 4]), (0, 1, 2));
        assert_eq!(counts(3, &[]), (0, 0, 3));
    }

    #[test]
    fn numbers_that_were_never_sent_are_refused() {
        let mut sequence = Sequence::new(2);
        assert!(sequence.take(2).unwrap_err().contains('2'));
        assert!(sequence.take(u64::MAX).is_err());
    }
}
