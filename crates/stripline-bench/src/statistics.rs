//! Medians, intervals, and percentiles with enough samples.

/// The coverage of an interval if there are enough values.
pub(crate) const COVERAGE: f64 = 0.95;
/// The value below which 97.5 % of a normal distribution lie.
const NORMAL_975: f64 = 1.959_964;
/// The most pairs of values for which the distribution is counted exactly.
const EXACT_PAIRS_MAX: usize = 144;
/// A percentile is reported only if at least this many samples lie beyond it.
const BEYOND: u64 = 100;

/// Returns the median. For an even number of values, this is the mean of the two values in the
/// middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted_median(&sorted)
}

/// A median with an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MedianInterval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// The probability that the interval contains the true median.
    pub coverage: f64,
}

/// Returns the median and an interval that covers the true median with 95 %. Fewer than six values
/// cannot have such an interval: the interval is then their range, with the coverage of the range.
///
/// Each value is below the true median with probability 1/2, so the number of values below it has a
/// binomial distribution. The interval from the k-th smallest to the k-th largest value misses the
/// median if fewer than k values lie on one side. The coverage jumps from k to k + 1, at ten values
/// from 98 to 89 %. So each end is interpolated between two values, by T. P. Hettmansperger and S.
/// J. Sheather, "Confidence intervals based on interpolated order statistics", Statistics and
/// Probability Letters 4 (1986), 75-79. For any distribution, the coverage lies between these two.
pub(crate) fn median_interval(values: &[f64]) -> Option<MedianInterval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let value = sorted_median(&sorted)?;
    let n = sorted.len();
    // The probability that exactly `below` values lie below the median.
    let mut exactly = 0.5f64.powi(n as i32);
    // The coverage from the (cut + 1)-th smallest to the (cut + 1)-th largest value.
    let mut coverage = 1.0 - 2.0 * exactly;
    if coverage < COVERAGE {
        return Some(MedianInterval {
            value,
            low: sorted[0],
            high: sorted[n - 1],
            coverage: coverage.max(0.0),
        });
    }
    for below in 1.. {
        exactly *= (n - below + 1) as f64 / below as f64;
        let next = coverage - 2.0 * exactly;
        if next < COVERAGE {
            let share = (coverage - COVERAGE) / (coverage - next);
            let (outside, n) = (below as f64, n as f64);
            let inwards = (n - outside) * share / (outside + (n - 2.0 * outside) * share);
            let between = |outer: f64, inner: f64| outer + inwards * (inner - outer);
            let low = between(sorted[below - 1], sorted[below]);
            let high = between(sorted[sorted.len() - below], sorted[sorted.len() - 1 - below]);
            return Some(MedianInterval { value, low, high, coverage: COVERAGE });
        }
        coverage = next;
    }
    None
}

/// Returns by how much the second values are larger than the first, with an interval that covers
/// the true shift with 95 %, or with less if there are too few values. With four values on each
/// side, the coverage is 97 %.
///
/// Each pair of values has a difference. The estimate is the median of all, by J. L. Hodges and E.
/// L. Lehmann (1963). The interval leaves out as many differences at each end as the test of Mann
/// and Whitney accepts, so the coverage holds for any distribution, if both sides differ only in a
/// shift.
pub(crate) fn shift_interval(from: &[f64], to: &[f64]) -> Option<MedianInterval> {
    let mut shifts: Vec<f64> = to.iter().flat_map(|to| from.iter().map(move |from| to - from)).collect();
    shifts.sort_by(f64::total_cmp);
    let value = sorted_median(&shifts)?;
    let (cut, coverage) = mann_whitney_cut(from.len(), to.len());
    Some(MedianInterval { value, low: shifts[cut], high: shifts[shifts.len() - 1 - cut], coverage })
}

/// Returns how many differences the interval of a shift leaves out at each end, and the coverage.
fn mann_whitney_cut(from: usize, to: usize) -> (usize, f64) {
    let pairs = from * to;
    if pairs > EXACT_PAIRS_MAX {
        // The normal approximation, with a correction for continuity.
        let deviation = ((pairs * (from + to + 1)) as f64 / 12.0).sqrt();
        return ((pairs as f64 / 2.0 - 0.5 - NORMAL_975 * deviation).max(0.0) as usize, COVERAGE);
    }
    // The largest of all values is of the one side or the other. On the second side, the value is
    // above all `from` others.
    let mut fewer: Vec<Vec<f64>> = vec![vec![1.0]; from + 1];
    for second in 1..=to {
        let mut rows: Vec<Vec<f64>> = vec![vec![1.0]];
        for first in 1..=from {
            let all = (first + second) as f64;
            let row = (0..=first * second).map(|above| {
                let earlier = above.checked_sub(first).and_then(|above| fewer[first].get(above));
                let other = rows[first - 1].get(above);
                (second as f64 * earlier.unwrap_or(&0.0) + first as f64 * other.unwrap_or(&0.0)) / all
            });
            let row = row.collect();
            rows.push(row);
        }
        fewer = rows;
    }
    let probabilities = &fewer[from];
    let (mut cut, mut beyond) = (0, probabilities[0]);
    while cut + 1 < pairs.div_ceil(2) && 2.0 * (beyond + probabilities[cut + 1]) <= 1.0 - COVERAGE {
        cut += 1;
        beyond += probabilities[cut];
    }
    (cut, (1.0 - 2.0 * beyond).max(0.0))
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
    use rand_distr::{Distribution, Pareto, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

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
        for (n, coverage) in [(1, 0.0), (2, 0.5), (3, 0.75), (5, 0.9375)] {
            let found = median_interval(&values(n)).unwrap();
            assert_eq!((found.low, found.high, found.coverage), (1.0, n as f64, coverage), "{n}");
        }
        // The depths of the paper: the outer interval, and the share of the way to the inner one.
        for (n, outer, inwards) in [(6, 1.0, 0.357_14), (10, 2.0, 0.657_66), (20, 6.0, 0.235_24)] {
            let found = median_interval(&values(n)).unwrap();
            assert!((found.low - outer - inwards).abs() < 1e-4, "{n}: {found:?}");
            assert!((found.low + found.high - (n + 1) as f64).abs() < 1e-12, "{n}: {found:?}");
            assert_eq!(found.coverage, 0.95);
        }
        // The maximum number of runs that can be requested.
        let many = median_interval(&values(1000)).unwrap();
        assert!((469.0..470.0).contains(&many.low) && (531.0..532.0).contains(&many.high), "{many:?}");
    }

    /// Counts in how many of 2000 experiments the interval contains the true median.
    fn coverage(runs: usize, truth: f64, mut run: impl FnMut(&mut Xoshiro256PlusPlus) -> f64) -> f64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(runs as u64);
        let covered = (0..2000).filter(|_| {
            let values: Vec<f64> = (0..runs).map(|_| run(&mut random)).collect();
            let found = median_interval(&values).unwrap();
            found.low <= truth && truth <= found.high
        });
        covered.count() as f64 / 2000.0
    }

    #[test]
    fn intervals_cover_the_median_of_synthetic_experiments() {
        let normal = |random: &mut Xoshiro256PlusPlus| -> f64 { StandardNormal.sample(random) };
        let pareto = Pareto::new(1.0, 1.1).unwrap();
        for runs in [6, 10, 20] {
            let found = [
                // Heavy tails: the first has no variance.
                coverage(runs, 2.0f64.powf(1.0 / 1.1), |random| pareto.sample(random)),
                coverage(runs, 1.0, |random| (1.5 * normal(random)).exp()),
                // Packets depend on the packets before, and on the run.
                coverage(runs, 1.0, |random| {
                    let of_run = normal(random);
                    let mut noise = 0.0;
                    let packets = (0..25).map(|_| {
                        noise = 0.9 * noise + normal(random);
                        (of_run + 0.3 * noise).exp()
                    });
                    median(&packets.collect::<Vec<f64>>()).unwrap()
                }),
                // Three of ten runs meet a machine that is 2.7 times as slow. The median over all
                // runs is the quantile 5/7 of the other runs.
                coverage(runs, 0.056_594_9f64.exp(), |random| {
                    let is_slow = normal(random) < -0.524_400_5;
                    (0.1 * normal(random) + f64::from(is_slow)).exp()
                }),
            ];
            assert!(found.iter().all(|share| (0.93..=0.97).contains(share)), "{runs} runs: {found:?}");
        }
    }

    #[test]
    fn intervals_cover_the_shift_of_synthetic_experiments() {
        let pareto = Pareto::new(1.0, 1.1).unwrap();
        for runs in [6, 10, 20] {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(runs);
            let covered = (0..2000).filter(|_| {
                let mut values = || (0..runs).map(|_| pareto.sample(&mut random)).collect::<Vec<f64>>();
                let found = shift_interval(&values(), &values()).unwrap();
                found.low <= 0.0 && 0.0 <= found.high
            });
            let share = covered.count() as f64 / 2000.0;
            assert!((0.93..=0.97).contains(&share), "{runs} runs: {share}");
        }
    }

    #[test]
    fn a_shift_has_the_interval_of_the_tables() {
        assert_eq!(shift_interval(&[], &[1.0]), None);
        // The critical values of the two-sided test at 5 %.
        for (from, to, cut) in [(4, 4, 0), (5, 5, 2), (6, 6, 5), (6, 10, 11), (10, 10, 23), (20, 20, 127)] {
            let (found, coverage) = mann_whitney_cut(from, to);
            assert_eq!((found, mann_whitney_cut(to, from).0), (cut, cut), "{from} and {to}");
            assert!((0.95..0.975).contains(&coverage), "{from} and {to}: {coverage}");
        }
        assert!((mann_whitney_cut(3, 3).1 - 0.9).abs() < 1e-12);
        assert_eq!(mann_whitney_cut(1, 1), (0, 0.0));
        // The approximation goes on where the count ends.
        assert_eq!((mann_whitney_cut(12, 12).0, mann_whitney_cut(12, 13).0), (37, 41));
        let found = shift_interval(&[1.0, 2.0, 3.0, 4.0], &[11.0, 12.0, 13.0, 14.0]).unwrap();
        assert_eq!((found.value, found.low, found.high), (10.0, 7.0, 13.0));
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
