//! The number of samples in a payload.

use std::num::NonZeroU64;

/// The size of a port's samples, in the form that counts them fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleSize {
    /// A message counts as one sample.
    Message,
    /// 2 to this power, in bytes. A division takes longer than all the rest of a receive.
    PowerOfTwo(u32),
    /// In bytes.
    Other(NonZeroU64),
}

impl SampleSize {
    /// Takes the size in bytes; `None` or 0: packets are messages.
    pub(crate) fn new(bytes: Option<usize>) -> Self {
        match bytes.and_then(|bytes| NonZeroU64::new(bytes as u64)) {
            None => Self::Message,
            Some(bytes) if bytes.is_power_of_two() => Self::PowerOfTwo(bytes.trailing_zeros()),
            Some(bytes) => Self::Other(bytes),
        }
    }

    /// Returns the number of whole samples in that many bytes.
    #[inline(always)]
    pub(crate) fn samples_in(self, bytes: usize) -> u64 {
        match self {
            Self::Message => 1,
            Self::PowerOfTwo(shift) => bytes as u64 >> shift,
            Self::Other(sample) => divide(bytes as u64, sample),
        }
    }
}

/// Divides out of line, so that the registers that a division takes are free elsewhere.
#[inline(never)]
fn divide(bytes: u64, by: NonZeroU64) -> u64 {
    bytes / by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_counts_whole_samples() {
        for size in 1..=40usize {
            for bytes in [0, 1, size - 1, size, size + 1, 7 * size, 1 << 20] {
                let samples = SampleSize::new(Some(size)).samples_in(bytes);
                assert_eq!(samples, (bytes / size) as u64, "{bytes} bytes of {size}");
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
