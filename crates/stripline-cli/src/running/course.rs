//! The course of counts over about a second.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::{Connection, Counts, Rates};

/// The time over which rates, loads and latencies are measured.
const WINDOW: Duration = Duration::from_secs(1);

/// The readings of about the last second, the oldest first.
#[derive(Debug)]
pub(crate) struct Window<T>(VecDeque<(Instant, T)>);

impl<T> Default for Window<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Copy> Window<T> {
    /// Adds a reading. Returns the oldest reading, and the seconds since then. If `continues` does
    /// not accept the reading before, the window begins anew.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        reading: T,
        continues: impl Fn(&T) -> bool,
    ) -> Option<(T, f64)> {
        if self.last().is_some_and(|last| !continues(&last)) {
            self.0.clear();
        }
        while self.0.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.0.pop_front();
        }
        let seconds = |at: Instant| now.duration_since(at).as_secs_f64().max(1e-3);
        let oldest = self.0.front().map(|(at, oldest)| (*oldest, seconds(*at)));
        self.0.push_back((now, reading));
        oldest
    }

    fn last(&self) -> Option<T> {
        self.0.back().map(|(_, last)| *last)
    }
}

/// The course of all connections, by launcher, sending port and receiving port.
#[derive(Debug, Default)]
pub(crate) struct Course(HashMap<(Option<u32>, String, String), Window<Counts>>);

impl Course {
    /// Fills in the rates of the connections that exist now.
    pub(crate) fn add(&mut self, connections: &mut [Connection], now: Instant) {
        let mut before = std::mem::take(&mut self.0);
        for it in connections.iter_mut().filter(|it| it.has_receiver) {
            let key = (it.launcher, it.from.clone(), it.to.clone());
            let (mut window, counts) = (before.remove(&key).unwrap_or_default(), it.counts);
            let last = window.last();
            // A restarted receiver counts from 0 again.
            let continues = |last: &Counts| last.packets <= counts.packets;
            it.rates = match window.add(now, counts, continues) {
                None => Rates::default(),
                Some((oldest, seconds)) => Rates {
                    is_measured: true,
                    packets_per_s: (counts.packets - oldest.packets) as f64 / seconds,
                    bytes_per_s: counts.bytes.saturating_sub(oldest.bytes) as f64 / seconds,
                    is_losing: counts.lost > oldest.lost,
                    latency_ns: counts.mean_ns(&oldest, Counts::latency),
                    queued_ns: counts.mean_ns(&oldest, Counts::queued),
                    service_ns: counts.mean_ns(&oldest, Counts::service),
                    latest_latency_ns: last.and_then(|last| counts.mean_ns(&last, Counts::latency)),
                },
            };
            self.0.insert(key, window);
        }
    }
}

impl Counts {
    /// Returns the number of measured packets, and the sum of their times.
    pub(crate) fn latency(&self) -> (u64, u64) {
        (self.latency_samples, self.latency_sum_ns)
    }

    pub(crate) fn queued(&self) -> (u64, u64) {
        (self.latency_samples, self.queued_sum_ns)
    }

    pub(crate) fn service(&self) -> (u64, u64) {
        (self.service_samples, self.service_sum_ns)
    }

    /// Returns a mean time since an earlier reading. `None`: no packet was measured.
    fn mean_ns(&self, before: &Self, total: impl Fn(&Self) -> (u64, u64)) -> Option<f64> {
        let [(samples, sum_ns), (samples_before, sum_before_ns)] = [total(self), total(before)];
        let samples = samples.saturating_sub(samples_before);
        (samples > 0).then(|| sum_ns.saturating_sub(sum_before_ns) as f64 / samples as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_about_a_second_and_begin_anew_after_a_restart() {
        let start = Instant::now();
        let mut course = Course::default();
        let mut rates = |ms: u64, packets: u64| {
            let counts = Counts {
                packets,
                bytes: 8 * packets,
                lost: packets / 20,
                latency_samples: packets,
                latency_sum_ns: 7 * packets,
                queued_sum_ns: 2 * packets,
                service_samples: packets / 2,
                service_sum_ns: 10 * packets,
                ..Counts::default()
            };
            let mut one = [Connection { counts, has_receiver: true, ..Connection::default() }];
            course.add(&mut one, start + Duration::from_millis(ms));
            one[0].rates
        };
        let mut per_s = |ms, packets| {
            let Rates { packets_per_s, bytes_per_s, .. } = rates(ms, packets);
            (packets_per_s, bytes_per_s)
        };
        assert_eq!(per_s(0, 100), (0.0, 0.0));
        assert_eq!(per_s(500, 150), (100.0, 800.0));
        assert_eq!(per_s(1_000, 300), (200.0, 1_600.0));
        // The rates are no longer measured from the beginning.
        assert_eq!(per_s(1_500, 300), (150.0, 1_200.0));
        assert_eq!(per_s(2_000, 10), (0.0, 0.0));
        assert_eq!(per_s(2_100, 20), (100.0, 800.0));
        let after = rates(2_200, 20);
        assert!(after.is_measured && after.is_losing);
        assert_eq!((after.latency_ns, after.latest_latency_ns), (Some(7.0), None));
        assert_eq!((after.queued_ns, after.service_ns), (Some(2.0), Some(20.0)));
        course.add(&mut [], start + Duration::from_secs(3));
        assert!(course.0.is_empty());
    }
}
