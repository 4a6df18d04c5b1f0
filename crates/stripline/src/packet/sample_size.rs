//! The number of samples in a payload.

use crate::terms::LinkOptions;

/// The size of a port's samples, in a form that counts samples by a multiplication. A division
/// takes longer than the rest of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleSize {
    /// 2^63 divided by the size in bytes, rounded up; 0: packets are messages.
    factor: u64,
    /// The number of samples in a packet of any length: 1 for a message, otherwise 0.
    at_least: u64,
}

impl SampleSize {
    /// Takes the size in bytes; `None` or 0: packets are messages.
    pub(crate) fn new(bytes: Option<usize>) -> Self {
        match bytes.unwrap_or(0) {
            0 => Self { factor: 0, at_least: 1 },
            // A packet never has a sample of more than 4 GiB.
            bytes => Self { factor: (1u64 << 63).div_ceil((bytes as u64).min(1 << 32)), at_least: 0 },
        }
    }

    /// Returns whether packets are messages.
    pub(crate) fn is_message(self) -> bool {
        self.factor == 0
    }

    /// Returns the number of whole samples in a packet of that many bytes.
    ///
    /// The number is exact. The factor is too large by less than 1, so the quotient is too large by
    /// less than bytes / 2^63. A quotient that is below the next whole number is below it by at
    /// least 1 / size, which is more than this error.
    #[inline(always)]
    pub(crate) fn samples_in(self, bytes: usize) -> u64 {
        debug_assert!(bytes <= LinkOptions::PACKET_MAX, "a packet of {bytes} bytes");
        ((u128::from(self.factor) * bytes as u128) >> 63) as u64 + self.at_least
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_size_counts_whole_samples(
            size in prop_oneof![1..100usize, 1..usize::MAX, Just(1usize << 32)],
            samples in 0..1000usize,
            more in -1..=1isize,
            any in 0..=LinkOptions::PACKET_MAX,
        ) {
            let near = size.saturating_mul(samples).saturating_add_signed(more).min(LinkOptions::PACKET_MAX);
            for bytes in [near, any, LinkOptions::PACKET_MAX] {
                let counted = SampleSize::new(Some(size)).samples_in(bytes);
                prop_assert_eq!(counted, (bytes / size) as u64, "{} bytes of {}", bytes, size);
            }
        }
    }

    #[test]
    fn messages_are_one_sample_each() {
        for size in [None, Some(0)] {
            assert_eq!([0, 1, 100].map(|bytes| SampleSize::new(size).samples_in(bytes)), [1; 3]);
        }
    }
}
