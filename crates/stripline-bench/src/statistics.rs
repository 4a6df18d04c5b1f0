//! Medians, intervals, and percentiles with enough samples.

/// The coverage of an interval if there are enough values.
const COVERAGE: f64 = 0.95;
/// A percentile is reported only if at least this many samples lie beyond it.
const BEYOND: u64 = 100;

/// Returns the median. For an even number of values, this is the mean of the two values in the
/// middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted_median(&sorted)
}

/// A median with an interval between two of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MedianInterval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// The probability that the interval contains the true median, for any distribution.
    pub coverage: f64,
}

/// Returns the median and the narrowest interval that covers the true median with 95 %. If there
/// are too few values for that, the interval is the range of the values.
///
/// Each value is below the true median with probability 1/2, so the number of values below it has a
/// binomial distribution. The interval from the k-th smallest to the k-th largest value misses the
/// median if fewer than k values lie on one side.
pub(crate) fn median_interval(values: &[f64]) -> Option<MedianInterval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let value = sorted_median(&sorted)?;
    let n = sorted.len();
    // The probability that exactly `below` values lie below the median.
    let mut exactly = 0.5f64.powi(n as i32);
    let mut coverage = 1.0 - 2.0 * exactly;
    let mut cut = 0;
    for below in 1..n.div_ceil(2) {
        exactly *= (n - below + 1) as f64 / below as f64;
        if coverage - 2.0 * exactly < COVERAGE {
            break;
        }
        coverage -= 2.0 * exactly;
        cut = below;
    }
    Some(MedianInterval { value, low: sorted[cut], high: sorted[n - 1 - cut], coverage: coverage.max(0.0) })
}

/// Returns the value below which the given share of the samples lies, if enough samples lie beyond
/// it. `counts` must be sorted by value.
pub(crate) fn percentile(counts: &[(u64, u64)], share: f64) -> Option<u64> {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    // A share such as 0.99 is not exact in binary. The correction keeps an integer rank an integer.
    let rank = (share * total as f64 * (1.0 - 1e-12)).ceil() as u64;
    if total - rank.min(total) < BEYOND {
        return None;
    }
    let mut seen = 0;
    counts.iter().find_map(|(value, count)| {
        seen += count;
        (seen >= rank).then_some(*value)
    })
}

/// Merges the counts of several runs, sorted by value.
pub(crate) fn pool<'a>(runs: impl Iterator<Item = &'a [(u64, u64)]>) -> Vec<(u64, u64)> {
    let mut pooled = std::collections::BTreeMap::new();
    for (value, count) in runs.flatten() {
        *pooled.entry(*value).or_insert(0) += count;
    }
    pooled.into_iter().collect()
}

fn sorted_median(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn an_interval_has_the_coverage_that_it_claims() {
        assert_eq!(median_interval(&[]), None);
        let values = |n: usize| (1..=n).map(|value| value as f64).collect::<Vec<_>>();
        for (n, low, high, coverage) in [
            (1, 1.0, 1.0, 0.0),
            (2, 1.0, 2.0, 0.5),
            (3, 1.0, 3.0, 0.75),
            (5, 1.0, 5.0, 0.9375),
            (6, 1.0, 6.0, 0.96875),
            (8, 1.0, 8.0, 0.992_187_5),
            (9, 2.0, 8.0, 0.9609375),
            (20, 6.0, 15.0, 0.958_610_534_667_968_8),
        ] {
            let found = median_interval(&values(n)).unwrap();
            assert_eq!((found.low, found.high), (low, high), "{n}");
            assert!((found.coverage - coverage).abs() < 1e-12, "{n}: {}", found.coverage);
        }
        // The maximum number of runs that can be requested.
        let many = median_interval(&values(1000)).unwrap();
        assert!(many.low < many.value && many.value < many.high && many.coverage >= 0.95, "{many:?}");
    }

    #[test]
    fn a_percentile_needs_a_hundred_samples_beyond_it() {
        for (share, enough) in [(0.5, 200), (0.99, 10_000), (0.999, 100_000)] {
            assert_eq!(percentile(&[(7, enough)], share), Some(7), "{share}");
            assert_eq!(percentile(&[(7, enough - 1)], share), None, "{share}");
        }
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn percentiles_of_pooled_runs() {
        let pooled = pool([&[(10, 300), (30, 100)][..], &[(10, 100), (20, 500)]].into_iter());
        assert_eq!(pooled, [(10, 400), (20, 500), (30, 100)]);
        assert_eq!(percentile(&pooled, 0.4), Some(10));
        assert_eq!(percentile(&pooled, 0.5), Some(20));
        assert_eq!(percentile(&pooled, 0.9), Some(20));
        assert_eq!(percentile(&pooled, 0.95), None);
    }
}
