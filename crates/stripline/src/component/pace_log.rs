//! The record of how well a component keeps its pace, shown in the report of a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::sys::fork::LocalMutex;

/// The record of a component's last [`Pace`](super::kit::Pace), shared with the component's
/// process.
#[derive(Clone, Default)]
pub(super) struct PaceLog(Arc<LocalMutex<Option<PaceRecord>>>);

/// The state of a pace so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaceRecord {
    /// The rate in samples per second, above 0.
    pub rate: f64,
    pub start: Instant,
    /// The time after the start at which the last packet is due.
    pub due: Duration,
    /// The longest time by which a packet was late.
    pub behind_max: Duration,
    /// The time at which the pace ended.
    pub end: Option<Instant>,
}

/// The pace of a component, as the component's process reports it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaceReport {
    /// The requested rate, in samples/s.
    pub rate: f64,
    /// The rate over the whole time.
    pub achieved_rate: f64,
    /// The time by which the component was behind schedule at the end, in seconds.
    pub behind_s: f64,
    /// The longest time by which the component was behind schedule, in seconds.
    pub behind_max_s: f64,
}

impl PaceLog {
    pub(super) fn set(&self, record: PaceRecord) {
        if let Some(mut last) = self.0.lock() {
            *last = Some(record);
        }
    }

    /// Records the end of the pace with that start, unless another pace has begun since.
    pub(super) fn end(&self, start: Instant) {
        if let Some(mut last) = self.0.lock()
            && let Some(record) = last.as_mut().filter(|record| record.start == start)
        {
            record.end.get_or_insert_with(Instant::now);
        }
    }

    /// Returns the pace up to now; `None` if there was no pace.
    pub(super) fn report(&self) -> Option<PaceReport> {
        let last = *self.0.lock()?;
        last.map(|record| record.report(Instant::now()))
    }
}

impl PaceRecord {
    /// Returns the pace up to `now`. A component that waits for room is late during the whole wait,
    /// although it does not request a new packet.
    fn report(&self, now: Instant) -> PaceReport {
        let taken = self.end.unwrap_or(now).saturating_duration_since(self.start);
        let behind = taken.saturating_sub(self.due);
        // A component that sleeps until the next packet is due has lost no time.
        let achieved = match taken.max(self.due).as_secs_f64() {
            0.0 => self.rate,
            over => self.rate * self.due.as_secs_f64() / over,
        };
        PaceReport {
            rate: self.rate,
            achieved_rate: achieved,
            behind_s: behind.as_secs_f64(),
            behind_max_s: behind.max(self.behind_max).as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_counts_until_the_end_and_what_is_early_does_not() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let record = PaceRecord { rate: 100.0, start, due: 4 * second, behind_max: second / 2, end: None };
        let at = |seconds: u32| record.report(start + seconds * second);
        let early = PaceReport { rate: 100.0, achieved_rate: 100.0, behind_s: 0.0, behind_max_s: 0.5 };
        assert_eq!(at(3), early);
        assert_eq!(at(4), early);
        let late = PaceReport { rate: 100.0, achieved_rate: 40.0, behind_s: 6.0, behind_max_s: 6.0 };
        assert_eq!(at(10), late);
        let ended = PaceRecord { end: Some(start + 5 * second), ..record };
        assert_eq!(ended.report(start + 99 * second).achieved_rate, 80.0);
        let none = PaceRecord { due: Duration::ZERO, ..record };
        assert_eq!(none.report(start).achieved_rate, 100.0);
    }

    #[test]
    fn only_the_last_pace_counts() {
        let log = PaceLog::default();
        assert_eq!(log.report(), None);
        let (first, due) = (Instant::now(), Duration::from_secs(3600));
        let record = PaceRecord { rate: 1.0, start: first, due, behind_max: Duration::ZERO, end: None };
        log.set(record);
        let second = first + Duration::from_nanos(1);
        log.set(PaceRecord { rate: 2.0, start: second, ..record });
        log.end(first);
        assert_eq!(log.report().map(|pace| pace.rate), Some(2.0));
        assert!(log.0.lock().is_some_and(|record| record.is_some_and(|record| record.end.is_none())));
        log.end(second);
        assert!(log.0.lock().is_some_and(|record| record.is_some_and(|record| record.end.is_some())));
    }
}
