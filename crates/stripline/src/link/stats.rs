//! The statistics of a connection.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use crate::inspect::{AgeReport, Ages, UtcOffset};
use crate::packet::StreamClock;
use crate::sys::mutex::lock;

/// The fewest samples beyond a percentile for which the percentile is reported.
const SAMPLES_BEYOND: f64 = 100.0;

/// The live statistics of a connection. A single thread of the receiver writes them, and others
/// read them.
#[derive(Default)]
pub(crate) struct ConnectionStats {
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    lost_samples: AtomicU64,
    gaps: AtomicU64,
    reordered: AtomicU64,
    peer_deaths: AtomicU32,
    is_other_clock: AtomicBool,
    /// The time from sent to taken by the component.
    latency: Histogram<5>,
    /// The part of the latency after the port's last wait, to a sixteenth, which bounds the memory
    /// of a connection.
    queued: Histogram<3>,
    /// The time from taken to finished.
    service: Histogram<4>,
    /// Made for the first packet with a time. Most connections have none, and save the memory.
    aging: OnceLock<Box<Aging>>,
}

/// The ages of a connection's samples.
#[derive(Default)]
struct Aging {
    /// The age of the samples when the component took them.
    ages: Ages,
    utc_offset: UtcOffset,
    described: Mutex<Described>,
}

/// The parts of the ages that change with the sender.
#[derive(Default)]
struct Described {
    /// The clock of the stream described last.
    clock: Option<StreamClock>,
    /// The ages that the inlet measures, if the sender has another clock.
    other_ages: Option<Arc<Ages>>,
    /// The ages that earlier inlets have measured.
    earlier: Option<AgeReport>,
}

impl ConnectionStats {
    #[inline]
    pub(crate) fn packet(&self, bytes: usize) {
        // Relaxed: only one thread writes. Real packets never fill the counters.
        let add = |counter: &AtomicU64, by: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        };
        add(&self.packets, 1);
        add(&self.bytes, bytes as u64);
    }

    pub(crate) fn gap(&self, packets: u64, samples: u64) {
        bump(&self.gaps, 1);
        bump(&self.lost, packets);
        bump(&self.lost_samples, samples);
    }

    /// Counts packets that a dead sender had sent and that were lost with it. The gap is counted
    /// where the successor begins.
    pub(crate) fn lost_at_end(&self, packets: u64, samples: u64) {
        bump(&self.lost, packets);
        bump(&self.lost_samples, samples);
    }

    pub(crate) fn reordered(&self) {
        bump(&self.reordered, 1);
    }

    pub(crate) fn peer_died(&self) {
        // Relaxed, as for all counts.
        let deaths = self.peer_deaths.load(Ordering::Relaxed);
        self.peer_deaths.store(deaths.saturating_add(1), Ordering::Relaxed);
    }

    /// Sets whether the sender has another clock, in which case no latency is measured, and takes
    /// the ages that the inlet measures then.
    pub(crate) fn set_other_clock(&self, is_other: bool, ages: Option<Arc<Ages>>) {
        // Relaxed: information for inspection only.
        self.is_other_clock.store(is_other, Ordering::Relaxed);
        if self.aging.get().is_none() && ages.is_none() {
            return;
        }
        let mut described = lock(&self.aging().described);
        let before = std::mem::replace(&mut described.other_ages, ages).and_then(|ages| ages.report());
        described.earlier = sum(described.earlier, before);
    }

    /// Sets the clock of the stream described last.
    pub(crate) fn set_clock(&self, clock: Option<StreamClock>) {
        if self.aging.get().is_some() || clock.is_some() {
            lock(&self.aging().described).clock = clock;
        }
    }

    /// Records the age of a measured packet by the time of its first sample, unless the time is
    /// unknown (0), and the monotonic time when the component took it.
    pub(crate) fn age(&self, time_ns: i64, taken_ns: u64) {
        if time_ns == 0 {
            return;
        }
        let aging = self.aging();
        aging.ages.record(aging.utc_offset.utc_at(taken_ns).saturating_sub(time_ns));
    }

    fn aging(&self) -> &Aging {
        self.aging.get_or_init(Box::default)
    }

    fn ages(&self) -> Option<AgeReport> {
        let aging = self.aging.get()?;
        let described = lock(&aging.described);
        let other = described.other_ages.as_ref().and_then(|ages| ages.report());
        let mut all = sum(sum(described.earlier, aging.ages.report()), other)?;
        all.clock = described.clock;
        Some(all)
    }

    pub(crate) fn is_other_clock(&self) -> bool {
        self.is_other_clock.load(Ordering::Relaxed)
    }

    /// Records the time of a measured packet from sent to taken, and the part of that time for
    /// which the component was busy.
    pub(crate) fn arrival(&self, latency_ns: u64, queued_ns: u64) {
        self.latency.record(latency_ns.max(1));
        self.queued.record(queued_ns);
    }

    /// Records that the component has finished with a measured packet.
    pub(crate) fn finished(&self, service_ns: u64) {
        self.service.record(service_ns.max(1));
    }

    /// Returns the present counters, without the times.
    pub(crate) fn counters(&self, connection: &str) -> ConnectionReport {
        // Relaxed: each counter is exact. A reader may see a counter one packet ahead of another.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ConnectionReport {
            connection: connection.into(),
            packets: read(&self.packets),
            bytes: read(&self.bytes),
            lost: read(&self.lost),
            lost_samples: read(&self.lost_samples),
            gaps: read(&self.gaps),
            reordered: read(&self.reordered),
            peer_deaths: self.peer_deaths.load(Ordering::Relaxed).into(),
            age: self.ages(),
        }
    }

    /// Returns the present latencies in four buckets for each power of two, few enough to be sent
    /// ten times a second.
    pub(crate) fn coarse_latency(&self) -> Vec<(u64, u64)> {
        coarse(&self.latency.pairs())
    }

    /// Returns the number of measured packets, and approximately the sum of their times in
    /// nanoseconds: of the latency, of the queued part of it, and of the service.
    pub(crate) fn totals(&self) -> [(u64, u64); 3] {
        [self.latency.total(), self.queued.total(), self.service.total()]
    }

    /// Returns the present counters and times.
    pub(crate) fn report(&self, connection: &str) -> FullReport {
        FullReport {
            counters: self.counters(connection),
            latency: RawLatencies(self.latency.pairs()),
            queued: RawLatencies(self.queued.pairs()),
            service: RawLatencies(self.service.pairs()),
        }
    }
}

/// Returns the ages of both incarnations of a receiver.
fn sum(before: Option<AgeReport>, later: Option<AgeReport>) -> Option<AgeReport> {
    match (before, later) {
        (Some(mut before), Some(later)) => {
            before.add(&later);
            Some(before)
        }
        (one, other) => other.or(one),
    }
}

/// Sums the counts of ordered pairs that begin with the same three bits. The shortest time stands
/// for all of them.
fn coarse(pairs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for (ns, count) in pairs {
        let low_bits = ns.max(&1).ilog2().saturating_sub(2);
        let start = ns >> low_bits << low_bits;
        match buckets.last_mut() {
            Some(last) if last.0 == start => last.1 = last.1.saturating_add(*count),
            _ => buckets.push((start, *count)),
        }
    }
    buckets
}

/// Adds without a locked instruction, as only one thread writes. A sender may claim any gap, so the
/// sum saturates.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).saturating_add(by), Ordering::Relaxed);
}

/// The counters of a connection, exact at all times.
///
/// ```
/// use std::time::Duration;
///
/// let node = stripline::node::Node::isolated()?;
/// let mut publisher = node.publisher::<f32>("levels")?;
/// let mut subscriber = node.subscriber::<f32>("levels")?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[1.0, 2.0])?;
/// drop(subscriber.receive()?);
/// let report = &node.connections()[0];
/// assert_eq!((report.packets, report.bytes, report.lost), (1, 8, 0));
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// `from -> to`.
    pub connection: String,
    /// Packets that the receiver has taken.
    pub packets: u64,
    /// The payload of these packets, in bytes.
    pub bytes: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Samples that were lost.
    pub lost_samples: u64,
    /// Gaps that were reported in band.
    pub gaps: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// The number of times that the sender vanished without an end of stream.
    pub peer_deaths: u64,
    /// The age of the samples; `None` if no packet had a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<AgeReport>,
}

/// The counters and times of a connection, as a process reports them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FullReport {
    /// The counters.
    pub counters: ConnectionReport,
    /// The time from sent to taken by the component.
    pub latency: RawLatencies,
    /// The part of the latency for which the component was busy.
    pub queued: RawLatencies,
    /// The time from taken to finished.
    pub service: RawLatencies,
}

impl ConnectionReport {
    /// Adds the counts of another connection.
    pub(crate) fn add(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.lost = self.lost.saturating_add(other.lost);
        self.lost_samples = self.lost_samples.saturating_add(other.lost_samples);
        self.gaps = self.gaps.saturating_add(other.gaps);
        self.reordered = self.reordered.saturating_add(other.reordered);
        self.peer_deaths = self.peer_deaths.saturating_add(other.peer_deaths);
        self.age = sum(self.age, other.age);
    }
}

impl FullReport {
    /// Adds the counts of a later incarnation of the receiver.
    pub fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        self.latency.0.extend_from_slice(&other.latency.0);
        self.queued.0.extend_from_slice(&other.queued.0);
        self.service.0.extend_from_slice(&other.service.0);
    }
}

/// A histogram as pairs of nanoseconds and count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawLatencies(pub(crate) Vec<(u64, u64)>);

impl RawLatencies {
    /// Returns the mean in nanoseconds; `None` without a packet.
    ///
    /// ```
    /// let recorded: stripline::link::RawLatencies = serde_json::from_str("[[100,3],[500,1]]").unwrap();
    /// assert_eq!(recorded.mean_ns(), Some(200.0));
    /// ```
    pub fn mean_ns(&self) -> Option<f64> {
        let (sum, packets) = self.0.iter().fold((0.0, 0.0), |(sum, packets), (ns, count)| {
            (sum + *ns as f64 * *count as f64, packets + *count as f64)
        });
        (packets > 0.0).then(|| sum / packets)
    }

    /// Returns the usual percentiles.
    ///
    /// ```
    /// // 9,900 packets took 100 ns and 100 took 200 ns; in JSON a histogram is a list of such pairs.
    /// let recorded: stripline::link::RawLatencies = serde_json::from_str("[[100,9900],[200,100]]").unwrap();
    /// let times = recorded.percentiles();
    /// assert_eq!((times.p50, times.p99, times.p999, times.max), (Some(100), Some(100), None, Some(200)));
    /// ```
    pub fn percentiles(&self) -> LatencyReport {
        let mut pairs = self.0.clone();
        pairs.sort_unstable();
        let samples = pairs.iter().fold(0u64, |sum, pair| sum.saturating_add(pair.1));
        let at = |quantile: f64| {
            if samples as f64 * (1.0 - quantile) < SAMPLES_BEYOND * (1.0 - 1e-9) {
                return None;
            }
            let wanted = (samples as f64 * quantile).ceil() as u64;
            let mut seen = 0u64;
            pairs
                .iter()
                .find(|pair| {
                    seen = seen.saturating_add(pair.1);
                    seen >= wanted
                })
                .map(|pair| pair.0)
        };
        LatencyReport {
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: pairs.last().map(|pair| pair.0),
            // The conversion saturates.
            mean: self.mean_ns().map(|ns| ns.round() as u64),
            samples,
        }
    }
}

/// Percentiles in nanoseconds. A percentile with fewer than 100 samples beyond it is omitted,
/// because it would be mostly chance.
///
/// ```
/// let nothing = stripline::link::RawLatencies::default().percentiles();
/// assert_eq!((nothing.samples, nothing.p50), (0, None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// The median, from 200 samples on.
    pub p50: Option<u64>,
    /// 75 %, from 400 samples on.
    #[serde(default)]
    pub p75: Option<u64>,
    /// 90 %, from 1,000 samples on.
    #[serde(default)]
    pub p90: Option<u64>,
    /// 99 %, from 10,000 samples on.
    pub p99: Option<u64>,
    /// 99.9 %, from 100,000 samples on.
    pub p999: Option<u64>,
    /// The largest time.
    pub max: Option<u64>,
    /// The mean, of any number of samples.
    #[serde(default)]
    pub mean: Option<u64>,
    /// The number of measured packets.
    pub samples: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_buckets_keep_the_count_and_begin_with_their_shortest_time() {
        let pairs = [(1, 1), (4, 2), (5, 1), (1_000, 3), (1_023, 4), (1_024, 5), (1_279, 6), (1_280, 7)];
        assert_eq!(coarse(&pairs), [(1, 1), (4, 2), (5, 1), (896, 7), (1_024, 11), (1_280, 7)]);
        assert_eq!(coarse(&[(u64::MAX, u64::MAX)]), [(7 << 61, u64::MAX)]);
        let stats = ConnectionStats::default();
        (0..3).for_each(|_| stats.arrival(1_000, 1));
        assert_eq!(stats.coarse_latency(), [(896, 3)]);
    }

    #[test]
    fn percentiles_need_samples() {
        let few = RawLatencies(vec![(100, 199)]).percentiles();
        assert_eq!((few.p50, few.max, few.mean, few.samples), (None, Some(100), Some(100), 199));
        let enough = RawLatencies(vec![(100, 9_900), (200, 100)]).percentiles();
        assert_eq!((enough.p50, enough.p99, enough.p999), (Some(100), Some(100), None));
        let some = RawLatencies(vec![(100, 800), (200, 200)]).percentiles();
        assert_eq!((some.p75, some.p90, some.p99), (Some(100), Some(200), None));
        assert_eq!(RawLatencies(vec![(100, 399)]).percentiles().p75, None);
    }

    #[test]
    fn what_a_hostile_sender_claims_to_have_lost_does_not_overflow() {
        let stats = ConnectionStats::default();
        stats.gap(u64::MAX, 1);
        stats.gap(2, u64::MAX);
        let mut sum = stats.report("a -> b");
        assert_eq!((sum.counters.lost, sum.counters.lost_samples), (u64::MAX, u64::MAX));
        sum.add(&stats.report("a -> b"));
        assert_eq!((sum.counters.lost, sum.counters.gaps), (u64::MAX, 4));
        assert_eq!(RawLatencies(vec![(1, u64::MAX), (2, 1)]).percentiles().samples, u64::MAX);
    }

    #[test]
    fn the_sum_of_latencies_gives_their_mean() {
        let stats = ConnectionStats::default();
        assert_eq!(stats.totals(), [(0, 0); 3]);
        for ns in [10_000, 20_000, 30_000] {
            stats.arrival(ns, 1);
            stats.finished(2 * ns);
        }
        let [(samples, sum_ns), (_, queued_ns), (_, service_ns)] = stats.totals();
        // Half the width of a bucket is a 64th.
        assert!(samples == 3 && sum_ns.abs_diff(60_000) <= 60_000 / 64, "{samples} {sum_ns}");
        assert!(queued_ns == 3 && service_ns.abs_diff(120_000) <= 120_000 / 32, "{queued_ns} {service_ns}");
        stats.arrival(u64::MAX, u64::MAX);
        assert!(stats.totals()[0].1 > sum_ns);
    }

    #[test]
    fn ages_are_of_all_inlets_and_have_the_clock() {
        let (stats, other) = (ConnectionStats::default(), Arc::<Ages>::default());
        assert_eq!(stats.report("a -> b").counters.age, None);
        stats.set_other_clock(true, Some(Arc::clone(&other)));
        other.record(30);
        stats.set_other_clock(false, None);
        stats.age(i64::MAX, 1);
        let clock = StreamClock::new(crate::ClockReference::Ptp);
        stats.set_clock(Some(clock));
        let mut sum = stats.report("a -> b");
        sum.add(&stats.report("a -> b"));
        let age = sum.counters.age.unwrap();
        assert_eq!((age.samples, age.max_ns, age.clock), (4, 30, Some(clock)));
        assert!(age.last_ns < 0);
    }

    #[test]
    fn reports_of_two_incarnations_add_up() {
        let stats = ConnectionStats::default();
        stats.packet(10);
        stats.arrival(600, 100);
        let mut sum = stats.report("a -> b");
        sum.add(&stats.report("a -> b"));
        assert_eq!((sum.counters.packets, sum.counters.bytes), (2, 20));
        assert_eq!(sum.latency.percentiles().samples, 2);
    }
}
