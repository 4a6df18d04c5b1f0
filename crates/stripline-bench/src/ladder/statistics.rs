//! Medians, intervals, and percentiles with enough samples.

/// Number of draws of the bootstrap.
const DRAWS: usize = 10_000;
/// The least number of samples beyond a percentile for it to be reported.
const BEYOND: u64 = 100;

/// Returns the median; for an even number of values, the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted_median(&sorted)
}

/// Returns the median and its 95 % interval, by repeated resampling with replacement. Deterministic
/// for the same values.
pub(crate) fn bootstrap(values: &[f64]) -> Option<(f64, f64, f64)> {
    let value = median(values)?;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..DRAWS)
        .map(|_| {
            for value in &mut draw {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                *value = values[(random % values.len() as u64) as usize];
            }
            draw.sort_by(f64::total_cmp);
            sorted_median(&draw).unwrap_or(value)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    Some((value, medians[DRAWS * 25 / 1000], medians[DRAWS * 975 / 1000]))
}

/// Returns the value below which the share of the samples lies, if enough lie beyond it. `counts`
/// are sorted by value.
pub(crate) fn percentile(counts: &[(u64, u64)], share: f64) -> Option<u64> {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    // A share such as 0.99 is not exact in binary; the correction keeps a whole rank whole.
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
    fn the_interval_holds_the_median_and_shrinks_with_the_spread() {
        assert_eq!(bootstrap(&[]), None);
        assert_eq!(bootstrap(&[2.0]), Some((2.0, 2.0, 2.0)));
        let wide = bootstrap(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!(wide.1 <= wide.0 && wide.0 <= wide.2, "{wide:?}");
        assert!(wide.1 < 3.0 && wide.2 > 3.0, "{wide:?}");
        let narrow = bootstrap(&[2.9, 3.0, 3.0, 3.0, 3.1]).unwrap();
        assert!(narrow.2 - narrow.1 < wide.2 - wide.1);
        assert_eq!(bootstrap(&[1.0, 2.0, 3.0]), bootstrap(&[1.0, 2.0, 3.0]));
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
