//! The host's times of samples that have a time of their device, or only a count.

use std::time::{SystemTime, UNIX_EPOCH};

/// The largest difference between the continued time and the time of arrival. A larger one is a
/// loss, or the error of the device's crystal.
const DIFFERENCE_NS: i64 = 100_000_000;

/// The time for which samples may be held up on the way.
const HELD_UP_NS: i64 = 1_000_000_000;

/// The times of samples on the host's clock, continued by the device's clock since the first
/// arrival. If they are off by more than a tenth of a second, they begin again at an arrival.
#[derive(Default)]
pub(crate) struct HostClock {
    /// The host's time minus the device's time.
    offset_ns: Option<i64>,
    /// The arrival since which all samples have been late.
    late_ns: Option<i64>,
}

impl HostClock {
    /// Returns the time of the first one of some samples that have just arrived, by the device's
    /// time of that sample, and the length of the samples.
    pub fn time_ns(&mut self, device_ns: i64, length_ns: i64) -> i64 {
        self.time_at(device_ns, host_ns().saturating_sub(length_ns))
    }

    /// Returns the device's time at a time of the host; `None` before the first arrival.
    #[cfg_attr(not(feature = "soapy"), allow(dead_code))]
    pub fn device_ns(&self, time_ns: i64) -> Option<i64> {
        self.offset_ns.map(|offset_ns| time_ns.saturating_sub(offset_ns))
    }

    /// Returns the time of a sample that has arrived at a time.
    fn time_at(&mut self, device_ns: i64, arrived_ns: i64) -> i64 {
        let new_ns = arrived_ns.saturating_sub(device_ns);
        let continued_ns = device_ns.saturating_add(*self.offset_ns.get_or_insert(new_ns));
        let late_ns = arrived_ns.saturating_sub(continued_ns);
        if late_ns.abs() <= DIFFERENCE_NS {
            self.late_ns = None;
            return continued_ns;
        }
        let since_ns = *self.late_ns.get_or_insert(arrived_ns);
        if late_ns > 0 && arrived_ns.saturating_sub(since_ns) < HELD_UP_NS {
            return continued_ns;
        }
        (self.offset_ns, self.late_ns) = (Some(new_ns), None);
        arrived_ns
    }
}

/// Returns the time of the host in nanoseconds since 1970.
pub(crate) fn host_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the length of samples.
pub(crate) fn length_ns(samples: u64, rate_hz: f64) -> i64 {
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
        let mut clock = HostClock::default();
        let mut at = |index, arrived_ms: i64| clock.time_at(length_ns(index, 1e3), arrived_ms * MS) / MS;
        assert_eq!([at(7, 500), at(107, 650), at(207, 690)], [500, 600, 700]);
        // Samples are held up for half a second, and come then together.
        assert_eq!([at(307, 1300), at(407, 1301), at(907, 1400), at(1007, 1500)], [800, 900, 1400, 1500]);
        // A second of samples is lost without a sign.
        assert_eq!([at(1107, 2600), at(1607, 3100), at(2107, 3600)], [1600, 2100, 3600]);
        assert_eq!(at(2207, 3700), 3700);
        // The crystal is slow: no sample arrives before it is taken.
        assert_eq!(at(12_207, 13_500), 13_500);
        assert_eq!(clock.device_ns(13_501 * MS), Some(12_208 * MS));
    }

    /// Gives no sample a time after its arrival.
    #[test]
    fn the_first_of_some_samples_is_the_oldest() {
        let mut clock = HostClock::default();
        let now_ns = host_ns();
        let first_ns = clock.time_ns(0, length_ns(60_000, 1e3));
        assert!((-60_000 * MS..0).contains(&(first_ns - now_ns)), "{first_ns} {now_ns}");
    }
}
