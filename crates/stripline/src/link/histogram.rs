//! Log-linear histograms of times. A thread records while others read, without a lock or an
//! allocation, in a few instructions per value. (The buckets are as in HdrHistogram. The crate of
//! that name has no type that can be read concurrently.)

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The range of times is 0 ns to 17 s. Longer times count in the last bucket. The maximum is kept
/// exactly.
const BITS_MAX: u32 = 34;

/// Counts of nanoseconds, with `2^SUB` buckets for each power of two. Values below `2^(SUB + 1)` ns
/// are exact. Larger values are exact to half the width of a bucket, a relative error of
/// `2^-(SUB + 1)`.
pub(crate) struct Histogram<const SUB: u32> {
    counts: Box<[AtomicU32]>,
    max: AtomicU64,
}

impl<const SUB: u32> Default for Histogram<SUB> {
    fn default() -> Self {
        let buckets = Self::index((1 << BITS_MAX) - 1) + 1;
        Self { counts: (0..buckets).map(|_| AtomicU32::new(0)).collect(), max: AtomicU64::new(0) }
    }
}

impl<const SUB: u32> Histogram<SUB> {
    /// Counts a value. Only one thread may call this at a time.
    #[inline]
    pub(crate) fn record(&self, ns: u64) {
        let count = &self.counts[Self::index(ns.min((1 << BITS_MAX) - 1))];
        // Relaxed, and no locked instruction: only one thread writes. A full counter stays full.
        count.store(count.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        if ns > self.max.load(Ordering::Relaxed) {
            self.max.store(ns, Ordering::Relaxed);
        }
    }

    /// Returns the values so far with their counts, in order. The middle of a bucket stands for the
    /// values in it. The largest value is exact.
    pub(crate) fn pairs(&self) -> Vec<(u64, u64)> {
        // Relaxed: each count is exact. A reader may see a count one value ahead of another.
        let counts = self.counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).enumerate();
        let mut pairs: Vec<(u64, u64)> =
            counts.filter(|pair| pair.1 > 0).map(|(index, count)| (Self::middle(index), count)).collect();
        if let Some(last) = pairs.last_mut() {
            last.0 = self.max.load(Ordering::Relaxed);
        }
        pairs
    }

    /// Returns the number of values so far, and approximately their sum. Neither ever falls.
    pub(crate) fn total(&self) -> (u64, u64) {
        // Relaxed, as in `pairs`.
        let counts = self.counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))).enumerate();
        counts.filter(|pair| pair.1 > 0).fold((0, 0), |(samples, sum), (index, count)| {
            (samples + count, Self::middle(index).saturating_mul(count).saturating_add(sum))
        })
    }

    #[inline]
    fn index(ns: u64) -> usize {
        // A value below 2^(SUB+1) is treated as if its highest bit were SUB. There, buckets are 1
        // ns wide.
        let shift = (ns | (1 << SUB)).ilog2() - SUB;
        ((shift << SUB) as usize) + (ns >> shift) as usize
    }

    fn middle(index: usize) -> u64 {
        let index = index as u64;
        if index < 2 << SUB {
            return index;
        }
        let shift = (index >> SUB) - 1;
        (((index & ((1 << SUB) - 1)) + (1 << SUB)) << shift) + (1 << shift) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_bucket_whose_middle_is_near() {
        let mut before = 0;
        for ns in (0..100_000u64).chain((17..BITS_MAX).flat_map(|bit| {
            let base = 1u64 << bit;
            [base - 1, base, base + 1, base + base / 3]
        })) {
            let index = Histogram::<5>::index(ns);
            assert!(index >= before || ns < 1 << 18, "{ns}");
            before = index;
            let middle = Histogram::<5>::middle(index);
            assert!(middle.abs_diff(ns) as f64 <= ns as f64 / 63.0, "{ns}: {middle}");
        }
    }

    #[test]
    fn values_come_back_in_order_and_the_largest_as_it_was() {
        let histogram = Histogram::<4>::default();
        for ns in [u64::MAX, 3, 100, 3, 1_000_003] {
            histogram.record(ns);
        }
        let pairs = histogram.pairs();
        assert_eq!(pairs[0], (3, 2));
        assert_eq!(pairs[3], (u64::MAX, 1));
        assert!(pairs.windows(2).all(|two| two[0].0 < two[1].0), "{pairs:?}");
    }

    #[test]
    fn a_connection_has_three_in_less_than_eight_kibibytes() {
        let counts = [
            Histogram::<5>::default().counts.len(),
            Histogram::<4>::default().counts.len(),
            Histogram::<3>::default().counts.len(),
        ];
        let bytes = 4 * counts.iter().sum::<usize>();
        assert!(bytes < 8 << 10, "{bytes}");
    }
}
