//! Times of samples.

use std::time::Duration;

use stripline::StreamInfo;

/// Returns the time of a sample that comes `samples` samples after a given time; 0: unknown.
/// `samples` may be negative or a fraction.
pub(super) fn time_after(time_ns: i64, samples: f64, stream: &StreamInfo) -> i64 {
    match stream.sample_rate_hz {
        // The cast saturates.
        Some(rate) if time_ns != 0 => time_ns.saturating_add((samples / rate * 1e9).round() as i64),
        _ => 0,
    }
}

/// Returns a time that is earlier by a delay; 0: unknown.
pub(super) fn time_before(time_ns: i64, delay: Duration) -> i64 {
    match time_ns {
        0 => 0,
        _ => time_ns.saturating_sub(i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_leaves_an_unknown_time() {
        let delay = Duration::from_nanos(10);
        assert_eq!([0, 1, 25].map(|time| time_before(time, delay)), [0, -9, 15]);
        assert_eq!(time_before(-5, Duration::MAX), i64::MIN);
    }

    #[test]
    fn time_goes_on_where_it_is_known() {
        let stream = StreamInfo::new("x").sample_rate_hz(1e6);
        assert_eq!(time_after(0, 10.0, &stream), 0);
        assert_eq!(time_after(5_000, 10.5, &stream), 15_500);
        assert_eq!(time_after(5_000, -1.0, &stream), 4_000);
        assert_eq!(time_after(5_000, 10.0, &StreamInfo::new("x")), 0);
    }
}
