//! The times of packets, and the clock on which they stand.

use std::time::{SystemTime, UNIX_EPOCH};

use stripline::{ClockReference, StreamClock};

use super::settings::Sensor;

/// The times of packets.
pub(super) struct PacketClock {
    is_device_time: bool,
    /// The host's time minus the device's time.
    offset_ns: Option<i64>,
    /// The time of sample 0 of a device without time.
    first_ns: Option<i64>,
}

impl PacketClock {
    pub fn new(is_device_time: bool) -> Self {
        Self { is_device_time, offset_ns: None, first_ns: None }
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        (self.offset_ns, self.first_ns) = (None, None);
    }

    /// Returns the time of the sample `index`, the first one of `samples` that have just arrived.
    pub fn time_ns(&mut self, index: u64, samples: usize, rate_hz: f64, stamp_ns: Option<i64>) -> i64 {
        let length_ns = |samples: f64| (samples * 1e9 / rate_hz) as i64;
        let begun_ns = || host_ns().saturating_sub(length_ns(samples as f64));
        match stamp_ns {
            Some(stamp_ns) if self.is_device_time => stamp_ns,
            Some(stamp_ns) => {
                let offset_ns = *self.offset_ns.get_or_insert_with(|| begun_ns().saturating_sub(stamp_ns));
                stamp_ns.saturating_add(offset_ns)
            }
            None => {
                let since_ns = length_ns(index as f64);
                let first_ns = *self.first_ns.get_or_insert_with(|| begun_ns().saturating_sub(since_ns));
                first_ns.saturating_add(since_ns)
            }
        }
    }

    /// Returns the device's time at a time of packets; `None` before the first stamp.
    pub fn device_ns(&self, time_ns: i64) -> Option<i64> {
        if self.is_device_time {
            return Some(time_ns);
        }
        self.offset_ns.map(|offset_ns| time_ns.saturating_sub(offset_ns))
    }

    /// Returns the clock of the packets' times. A device follows the source of its time, unless a
    /// sensor reports that the device is not locked to the source.
    pub fn reference(&self, has_time: bool, time_source: &str, sensors: &[Sensor]) -> StreamClock {
        if !self.is_device_time || !has_time {
            return StreamClock::new(ClockReference::Host);
        }
        let source = time_source.to_lowercase();
        let is_unlocked = |sensor: &Sensor| {
            ["gps_locked", "ref_locked"].contains(&&*sensor.0) && sensor.1.as_deref() == Ok("false")
        };
        let reference = match source.as_str() {
            _ if sensors.iter().any(is_unlocked) => ClockReference::Device,
            text if text.contains("gps") => ClockReference::Gps,
            text if text.contains("ptp") => ClockReference::Ptp,
            text if text.contains("pps") || text.starts_with("external") => ClockReference::Pps,
            _ => ClockReference::Device,
        };
        StreamClock::new(reference)
    }
}

/// Returns the time of the host in nanoseconds since 1970.
pub(super) fn host_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_follows_the_source_and_the_lock() {
        let sensor = |name: &str, value: &str| (name.to_owned(), Ok(value.to_owned()));
        let clock = PacketClock::new(true);
        let word = |source: &str, sensors: &[Sensor]| clock.reference(true, source, sensors).reference.word();
        for (source, wanted) in
            [("none", "device"), ("GPSDO", "gps"), ("external", "pps"), ("ptp0", "ptp"), ("", "device")]
        {
            assert_eq!(word(source, &[]), wanted, "{source}");
            assert_eq!(word(source, &[sensor("ref_locked", "true")]), wanted);
            assert_eq!(word(source, &[sensor("gps_locked", "false")]), "device");
        }
        assert_eq!(clock.reference(false, "gpsdo", &[]).reference.word(), "host");
        assert_eq!(PacketClock::new(false).reference(true, "gpsdo", &[]).reference.word(), "host");
    }

    #[test]
    fn times_continue_by_the_clock_of_the_device() {
        let mut clock = PacketClock::new(false);
        let first = clock.time_ns(0, 1000, 1e6, Some(77));
        assert_eq!(clock.time_ns(5000, 1000, 1e6, Some(5_000_077)), first + 5_000_000);
        assert_eq!(clock.device_ns(first + 1), Some(78));
        clock.reset();
        assert_eq!(clock.device_ns(first), None);
        let first = clock.time_ns(0, 1000, 1e6, None);
        assert_eq!(clock.time_ns(5000, 1000, 1e6, None), first + 5_000_000);
    }
}
