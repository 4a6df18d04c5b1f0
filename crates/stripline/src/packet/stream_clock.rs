//! The clock on which the times of a stream stand, and the error of that clock.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The clock on which the times of a stream stand ([`Packet::time_ns`](crate::Packet::time_ns)), and
/// how far from UTC these times may be. A component that passes times on passes the clock on.
///
/// ```
/// use stripline::{ClockReference, StreamClock, StreamInfo};
///
/// let stream = StreamInfo::new("antenna-1").clock(StreamClock::new(ClockReference::Gps).error_ns(100));
/// assert_eq!(stream.clock.unwrap().to_string(), "gps ± 100 ns");
/// assert_eq!(StreamClock::new(ClockReference::Device).to_string(), "device ± ?");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamClock {
    /// The origin of the times.
    pub reference: ClockReference,
    /// The largest difference between a time and UTC, in nanoseconds; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ns: Option<u64>,
}

impl StreamClock {
    /// The largest error: 11 days. A clock with a larger error has an unknown error.
    pub const ERROR_NS_MAX: u64 = 1_000_000_000_000_000;

    /// Returns a clock with an unknown error.
    pub const fn new(reference: ClockReference) -> Self {
        Self { reference, error_ns: None }
    }

    /// Sets the error, in nanoseconds.
    #[must_use]
    pub const fn error_ns(mut self, error_ns: u64) -> Self {
        self.error_ns = Some(error_ns);
        self
    }

    pub(super) fn check(self) -> Result<(), String> {
        match self.error_ns.filter(|error| *error > Self::ERROR_NS_MAX) {
            None => Ok(()),
            Some(error) => Err(format!(
                "the `error_ns` of its `clock` is {error}; at most {}; leave it out if the error is unknown",
                Self::ERROR_NS_MAX
            )),
        }
    }
}

impl fmt::Display for StreamClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error_ns {
            Some(error) => write!(f, "{} ± {error} ns", self.reference.word()),
            None => write!(f, "{} ± ?", self.reference.word()),
        }
    }
}

/// The origin of the times of a stream.
///
/// ```
/// use stripline::ClockReference;
///
/// let words = ClockReference::ALL.map(ClockReference::word);
/// assert_eq!(words, ["host", "ptp", "pps", "gps", "device"]);
/// assert_eq!(ClockReference::from_word("gps"), Some(ClockReference::Gps));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ClockReference {
    /// The clock of the host that received the samples from the device.
    Host,
    /// A clock that follows the Precision Time Protocol.
    Ptp,
    /// A clock of the device that follows a pulse per second.
    Pps,
    /// A clock of the device that follows GPS.
    Gps,
    /// A counter of the device that follows nothing.
    Device,
}

impl ClockReference {
    /// All references.
    pub const ALL: [Self; 5] = [Self::Host, Self::Ptp, Self::Pps, Self::Gps, Self::Device];

    /// Returns the word for the reference, as in the description of a stream.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Ptp => "ptp",
            Self::Pps => "pps",
            Self::Gps => "gps",
            Self::Device => "device",
        }
    }

    /// Returns the reference with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reference| reference.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamInfo;

    /// Checks that each word is read and written, and that other words and keys are refused by
    /// name.
    #[test]
    fn clocks_are_read_and_written() {
        for reference in ClockReference::ALL {
            for clock in [StreamClock::new(reference), StreamClock::new(reference).error_ns(100)] {
                let stream = StreamInfo::new("iq").clock(clock);
                let json = serde_json::to_string(&stream).unwrap();
                assert!(json.contains(&format!("\"reference\":\"{}\"", reference.word())), "{json}");
                assert_eq!(serde_json::from_str::<StreamInfo>(&json).unwrap(), stream);
            }
        }
        for (clock, problem) in [
            (r#"{"reference": "sundial"}"#, "unknown variant `sundial`, expected one of `host`, `ptp`"),
            (r#"{"reference": "gps", "error_s": 1}"#, "unknown field `error_s`"),
            (r#"{"error_ns": 1}"#, "missing field `reference`"),
            (r#"{"reference": "gps", "error_ns": -1}"#, "-1"),
        ] {
            let json = format!(r#"{{"id": "iq", "clock": {clock}}}"#);
            let error = serde_json::from_str::<StreamInfo>(&json).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn an_error_of_many_days_is_refused() {
        let with = |error| StreamInfo::new("iq").clock(StreamClock::new(ClockReference::Ptp).error_ns(error));
        assert_eq!(with(StreamClock::ERROR_NS_MAX).check(), Ok(()));
        let problem = with(StreamClock::ERROR_NS_MAX + 1).check().unwrap_err();
        assert!(problem.contains("is 1000000000000001; at most 1000000000000000; leave it out"), "{problem}");
    }
}
