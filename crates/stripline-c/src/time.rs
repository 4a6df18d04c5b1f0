//! Timeouts in nanoseconds.

use std::time::Duration;

/// Returns a timeout; `None` for a wait without end.
pub(crate) fn timeout(ns: i64) -> Option<Duration> {
    u64::try_from(ns).ok().map(Duration::from_nanos)
}
