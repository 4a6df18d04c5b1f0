//! The times of samples that come without a time.

use std::time::{SystemTime, UNIX_EPOCH};

/// The largest difference between the time by count and the time of arrival. A larger one is a
/// loss, or the error of the device's crystal.
const DIFFERENCE_NS: i64 = 100_000_000;

/// The time for which samples may be held up on the way.
const HELD_UP_NS: i64 = 1_000_000_000;

/// The times of samples by their count since the first arrival, so that times continue from packet
/// to packet. If the count is off by more than a tenth of a second, times begin again at an
/// arrival.
#[derive(Default)]
pub(super) struct ArrivalClock {
    /// A sample and its time.
    anchor: Option<(u64, i64)>,
    /// The arrival since which all samples have been late.
    late_ns: Option<i64>,
}

impl ArrivalClock {
    /// Returns the time of the sample `index`, the first one of `samples` that have just arrived.
    pub fn time_ns(&mut self, index: u64, samples: u64, rate_hz: f64) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        self.time_at(index, rate_hz, now_ns.saturating_sub(nanoseconds(samples, rate_hz)))
    }

    /// Returns the time of a sample that has arrived at a time.
    fn time_at(&mut self, index: u64, rate_hz: f64, arrived_ns: i64) -> i64 {
        let (first, first_ns) = *self.anchor.get_or_insert((index, arrived_ns));
        let counted_ns = first_ns.saturating_add(nanoseconds(index - first, rate_hz));
        let late_ns = arrived_ns.saturating_sub(counted_ns);
        if late_ns.abs() <= DIFFERENCE_NS {
            self.late_ns = None;
            return counted_ns;
        }
        let since_ns = *self.late_ns.get_or_insert(arrived_ns);
        if late_ns > 0 && arrived_ns.saturating_sub(since_ns) < HELD_UP_NS {
            return counted_ns;
        }
        (self.anchor, self.late_ns) = (Some((index, arrived_ns)), None);
        arrived_ns
    }
}

fn nanoseconds(samples: u64, rate_hz: f64) -> i64 {
    // The cast saturates.
    (samples as f64 * 1e9 / rate_hz).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Counts over late arrivals, and begins again behind a loss and ahead of the count.
    #[test]
    fn times_continue_until_the_count_is_off() {
        let mut clock = ArrivalClock::default();
        let mut at = |index, arrived_ms: i64| clock.time_at(index, 1e3, arrived_ms * MS) / MS;
        assert_eq!([at(7, 500), at(107, 650), at(207, 690)], [500, 600, 700]);
        // Samples are held up for half a second, and come then together.
        assert_eq!([at(307, 1300), at(407, 1301), at(907, 1400), at(1007, 1500)], [800, 900, 1400, 1500]);
        // A second of samples is lost without a sign.
        assert_eq!([at(1107, 2600), at(1607, 3100), at(2107, 3600)], [1600, 2100, 3600]);
        assert_eq!(at(2207, 3700), 3700);
        // The crystal is slow: no sample arrives before it is taken.
        assert_eq!(at(12_207, 13_500), 13_500);
    }

    /// Gives no sample a time after its arrival.
    #[test]
    fn the_first_of_some_samples_is_the_oldest() {
        let mut clock = ArrivalClock::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let first = clock.time_ns(0, 60_000, 1e3);
        assert!((-60_000 * MS..0).contains(&(first - now)), "{first} {now}");
    }
}
