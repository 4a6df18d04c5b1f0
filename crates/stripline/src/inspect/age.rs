//! The age of samples: the time since they were taken at the antenna.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::packet::{ClockReference, StreamClock};
use crate::sys::clock::{now_ns, utc_ns};

/// The time after which the difference between the host's UTC and the monotonic clock is read
/// again.
const OFFSET_NS: u64 = 100_000_000;

/// The age of samples, where the receiver of a connection took them: the host's UTC, less the time
/// of the packet's first sample. A packet without a time has no age. Of the others, the packets
/// with a measured latency are measured.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// let node = stripline::node::Node::isolated()?;
/// let mut publisher = node.publisher::<f32>("levels")?;
/// let mut subscriber = node.subscriber::<f32>("levels")?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// let taken = SystemTime::now() - Duration::from_secs(60);
/// let time_ns = taken.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as i64;
/// publisher.loan(1)?.at_time_ns(time_ns).send()?;
/// drop(subscriber.receive()?);
/// let age = node.connections()[0].age.expect("the packet has a time");
/// assert!(age.samples == 1 && age.last_ns >= 60_000_000_000);
/// # Ok::<(), stripline::Error>(())
/// ```
///
/// ```
/// let text = r#"{ "samples": 2, "last_ns": 12300000, "max_ns": 15000000 }"#;
/// let age: stripline::inspect::AgeReport = serde_json::from_str(text).unwrap();
/// assert_eq!(age.error(), Some("?".into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgeReport {
    /// The number of measured packets.
    pub samples: u64,
    /// The age of the packet measured last, in nanoseconds. A negative age is of a time in the
    /// future: the clock of the stream is ahead of the host's clock.
    pub last_ns: i64,
    /// The largest age, in nanoseconds.
    pub max_ns: i64,
    /// The clock of the stream described last; `None` if the stream does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<StreamClock>,
}

impl AgeReport {
    /// Returns the error of the ages, in words: `100 ns`, or `?` if it is unknown. `None`: the
    /// times stand on the clock of a host, which has no stated error.
    pub fn error(&self) -> Option<String> {
        match self.clock {
            Some(StreamClock { error_ns: Some(ns), .. }) => Some(Nanoseconds(ns).to_string()),
            Some(StreamClock { reference: ClockReference::Host, .. }) => None,
            _ => Some("?".into()),
        }
    }

    /// Adds the ages of a later incarnation of the receiver.
    pub(crate) fn add(&mut self, later: &Self) {
        *self = Self {
            samples: self.samples.saturating_add(later.samples),
            last_ns: later.last_ns,
            max_ns: self.max_ns.max(later.max_ns),
            clock: later.clock.or(self.clock),
        };
    }
}

/// The largest unit in which a number of nanoseconds is whole.
struct Nanoseconds(u64);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
        match units.into_iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{} {name}", self.0 / unit),
            None => write!(f, "{} ns", self.0),
        }
    }
}

/// The ages that one thread writes and others read.
#[derive(Default)]
pub(crate) struct Ages {
    samples: AtomicU64,
    last_ns: AtomicI64,
    max_ns: AtomicI64,
}

impl Ages {
    pub(crate) fn record(&self, age_ns: i64) {
        // Relaxed, and no locked instruction: only one thread writes. A reader may see a value one
        // packet ahead of another.
        let samples = self.samples.load(Ordering::Relaxed);
        self.last_ns.store(age_ns, Ordering::Relaxed);
        if samples == 0 || age_ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.store(age_ns, Ordering::Relaxed);
        }
        self.samples.store(samples.saturating_add(1), Ordering::Relaxed);
    }

    /// Records the age of a packet that arrives now.
    pub(crate) fn record_now(&self, time_ns: i64) {
        self.record(utc_ns().saturating_sub(time_ns));
    }

    /// Returns the ages so far; `None`: no packet was measured.
    pub(crate) fn report(&self) -> Option<AgeReport> {
        let samples = self.samples.load(Ordering::Relaxed);
        let [last_ns, max_ns] = [&self.last_ns, &self.max_ns].map(|age| age.load(Ordering::Relaxed));
        (samples > 0).then_some(AgeReport { samples, last_ns, max_ns, clock: None })
    }
}

/// The difference between the host's UTC and the monotonic clock, read ten times a second at most.
#[derive(Default)]
pub(crate) struct UtcOffset {
    offset_ns: AtomicI64,
    read_ns: AtomicU64,
}

impl UtcOffset {
    /// Returns the host's UTC at a time of the monotonic clock.
    #[inline]
    pub(crate) fn utc_at(&self, at_ns: u64) -> i64 {
        // Relaxed: only one thread uses it.
        if at_ns.wrapping_sub(self.read_ns.load(Ordering::Relaxed)) > OFFSET_NS {
            self.read(at_ns);
        }
        at_ns.cast_signed().wrapping_add(self.offset_ns.load(Ordering::Relaxed))
    }

    #[cold]
    fn read(&self, at_ns: u64) {
        self.offset_ns.store(utc_ns().wrapping_sub(now_ns().cast_signed()), Ordering::Relaxed);
        self.read_ns.store(at_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_and_the_largest_age_are_kept() {
        let ages = Ages::default();
        assert_eq!(ages.report(), None);
        for age in [-7, -9] {
            ages.record(age);
        }
        let mut sum = ages.report().unwrap();
        assert_eq!((sum.samples, sum.last_ns, sum.max_ns), (2, -9, -7));
        let clock = Some(StreamClock::new(ClockReference::Gps).error_ns(100));
        sum.add(&AgeReport { samples: u64::MAX, last_ns: -20, max_ns: -20, clock });
        assert_eq!((sum.samples, sum.last_ns, sum.max_ns, sum.clock), (u64::MAX, -20, -7, clock));
        // A hostile time does not overflow.
        ages.record_now(i64::MIN);
        assert_eq!(ages.report().unwrap().max_ns, i64::MAX);
    }

    #[test]
    fn the_error_is_in_words() {
        let error = |clock| AgeReport { samples: 1, last_ns: 0, max_ns: 0, clock }.error();
        let gps = StreamClock::new(ClockReference::Gps);
        assert_eq!(error(None).unwrap(), "?");
        assert_eq!(error(Some(gps)).unwrap(), "?");
        assert_eq!(error(Some(StreamClock::new(ClockReference::Host))), None);
        for (ns, text) in
            [(0, "0 ns"), (100, "100 ns"), (1_500, "1500 ns"), (2_000, "2 µs"), (3_000_000, "3 ms")]
        {
            assert_eq!(error(Some(gps.error_ns(ns))).unwrap(), text);
        }
    }

    #[test]
    fn utc_follows_the_monotonic_clock() {
        let offset = UtcOffset::default();
        let (before, now, after) = (utc_ns(), now_ns(), utc_ns());
        let utc = offset.utc_at(now);
        // The offset is read after `now`. A pause between its two readings counts as error.
        assert!((before - 1_000_000_000..after + 1_000_000_000).contains(&utc), "{before} {utc} {after}");
        assert_eq!(offset.utc_at(now + 5) - utc, 5);
    }
}
