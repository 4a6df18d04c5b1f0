//! The times of packets, and the clock on which they stand.

use stripline::{ClockReference, StreamClock};

use super::settings::Sensor;
use crate::host_clock::{HostClock, length_ns};

/// The times of packets.
pub(super) struct PacketClock {
    is_device_time: bool,
    /// The largest difference between the device's time and UTC, as the user states it.
    error_ns: Option<u64>,
    host: HostClock,
    /// Whether the device has given a time of a sample.
    is_stamped: bool,
}

impl PacketClock {
    pub fn new(is_device_time: bool, error_ns: Option<u64>) -> Self {
        Self { is_device_time, error_ns, host: HostClock::default(), is_stamped: false }
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        *self = Self::new(self.is_device_time, self.error_ns);
    }

    /// Returns the time of the sample `index`, the first one of `samples` that have just arrived,
    /// by the device's time of the sample.
    pub fn time_ns(&mut self, index: u64, samples: usize, rate_hz: f64, device_ns: Option<i64>) -> i64 {
        self.is_stamped = device_ns.is_some();
        match device_ns {
            Some(device_ns) if self.is_device_time => device_ns,
            _ => {
                let device_ns = device_ns.unwrap_or_else(|| length_ns(index, rate_hz));
                self.host.time_ns(device_ns, length_ns(samples as u64, rate_hz))
            }
        }
    }

    /// Returns the device's time at a time of packets; `None` before the first stamp.
    pub fn device_ns(&self, time_ns: i64) -> Option<i64> {
        match self.is_device_time {
            true => Some(time_ns),
            false => self.host.device_ns(time_ns).filter(|_| self.is_stamped),
        }
    }

    /// Returns the clock of the packets' times. A device follows the source of its time, with the
    /// stated error, unless a sensor reports that the device is not locked to the source.
    pub fn reference(&self, has_time: bool, time_source: &str, sensors: &[Sensor]) -> StreamClock {
        if !self.is_device_time || !has_time {
            return StreamClock::new(ClockReference::Host);
        }
        let source = time_source.to_lowercase();
        let is_unlocked = |sensor: &Sensor| {
            ["gps_locked", "ref_locked"].contains(&&*sensor.0) && sensor.1.as_deref() == Ok("false")
        };
        if sensors.iter().any(is_unlocked) {
            return StreamClock::new(ClockReference::Device);
        }
        let reference = match source.as_str() {
            text if text.contains("gps") => ClockReference::Gps,
            text if text.contains("ptp") => ClockReference::Ptp,
            text if text.contains("pps") || text.starts_with("external") => ClockReference::Pps,
            _ => ClockReference::Device,
        };
        StreamClock { reference, error_ns: self.error_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_follows_the_source_and_the_lock() {
        let sensor = |name: &str, value: &str| (name.to_owned(), Ok(value.to_owned()));
        let clock = PacketClock::new(true, Some(100));
        let text = |source: &str, sensors: &[Sensor]| clock.reference(true, source, sensors).to_string();
        for (source, wanted) in
            [("none", "device"), ("GPSDO", "gps"), ("external", "pps"), ("ptp0", "ptp"), ("", "device")]
        {
            let wanted = format!("{wanted} ± 100 ns");
            assert_eq!(text(source, &[]), wanted, "{source}");
            assert_eq!(text(source, &[sensor("ref_locked", "true")]), wanted);
            assert_eq!(text(source, &[sensor("gps_locked", "false")]), "device ± ?");
        }
        assert_eq!(clock.reference(false, "gpsdo", &[]).to_string(), "host ± ?");
        assert_eq!(PacketClock::new(false, None).reference(true, "gpsdo", &[]).to_string(), "host ± ?");
    }

    #[test]
    fn times_continue_by_the_clock_of_the_device() {
        let mut clock = PacketClock::new(false, None);
        let first = clock.time_ns(0, 1000, 1e6, Some(77));
        assert_eq!(clock.time_ns(5000, 1000, 1e6, Some(5_000_077)), first + 5_000_000);
        assert_eq!(clock.device_ns(first + 1), Some(78));
        clock.reset();
        assert_eq!(clock.device_ns(first), None);
        let first = clock.time_ns(0, 1000, 1e6, None);
        assert_eq!(clock.time_ns(5000, 1000, 1e6, None), first + 5_000_000);
    }
}
