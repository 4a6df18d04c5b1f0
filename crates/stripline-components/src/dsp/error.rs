//! The error type of signal processing, and the checks that produce it.

use std::ops::{Bound, RangeBounds};

/// The highest sample rate that any block accepts, in Hz.
pub(crate) const SAMPLE_RATE_HZ_MAX: f64 = 1e12;

/// An error in building a signal-processing block. The cause is always a parameter: no content of a
/// stream makes a block fail.
///
/// ```
/// use stripline_components::dsp::FmDemodulator;
///
/// let error = FmDemodulator::new(240e3, -5.0).unwrap_err();
/// assert!(error.to_string().starts_with("FM demodulator: deviation_hz is -5, but must be above 0 Hz"));
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DspError {
    /// A parameter is outside of the valid range, or is not a number.
    #[error("{block}: {parameter} is {value}, but must be {valid}: {remedy}")]
    OutOfRange {
        /// The block to be built.
        block: &'static str,
        /// The name of the parameter, with the unit last.
        parameter: &'static str,
        /// The value given.
        value: f64,
        /// The valid range in words.
        valid: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The name is not the name of a waveform.
    #[error(
        "signal generator: there is no waveform `{name}`: use sine, square, triangle, sawtooth, constant or noise"
    )]
    UnknownWaveform {
        /// The given name, shortened to 40 characters.
        name: String,
    },
    /// The name is not the name of a window of spectra.
    #[error(
        "spectrum: there is no window `{name}`: use rectangular, hann, hamming, blackman, blackman-harris or flat-top"
    )]
    UnknownWindow {
        /// The given name, shortened to 40 characters.
        name: String,
    },
    /// A filter tap is infinite or not a number.
    #[error(
        "FIR filter: tap {index} is {value}, but every tap must be finite: check how the taps were computed"
    )]
    TapNotFinite {
        /// The position of the tap, from 0.
        index: usize,
        /// The tap.
        value: f32,
    },
}

/// A parameter of a block, to be checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    pub block: &'static str,
    pub name: &'static str,
    pub unit: &'static str,
    pub remedy: &'static str,
}

impl Parameter {
    /// Returns `value` if `range` contains it. No range contains NaN.
    pub fn check(self, value: f64, range: impl RangeBounds<f64>) -> Result<f64, DspError> {
        if range.contains(&value) {
            return Ok(value);
        }
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let lower = match range.start_bound() {
            Bound::Included(v) => Some(format!("at least {v}{unit}")),
            Bound::Excluded(v) => Some(format!("above {v}{unit}")),
            Bound::Unbounded => None,
        };
        let upper = match range.end_bound() {
            Bound::Included(v) => Some(format!("at most {v}{unit}")),
            Bound::Excluded(v) => Some(format!("below {v}{unit}")),
            Bound::Unbounded => None,
        };
        let valid = [lower, upper].into_iter().flatten().collect::<Vec<_>>().join(" and ");
        Err(DspError::OutOfRange {
            block: self.block,
            parameter: self.name,
            value,
            valid,
            remedy: self.remedy,
        })
    }
}

/// Checks a sample rate in Hz: above 0, at most [`SAMPLE_RATE_HZ_MAX`].
pub(crate) fn check_sample_rate(block: &'static str, sample_rate_hz: f64) -> Result<f64, DspError> {
    Parameter { block, name: "sample_rate_hz", unit: "Hz", remedy: "give the rate of the stream" }
        .check(sample_rate_hz, (Bound::Excluded(0.0), Bound::Included(SAMPLE_RATE_HZ_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_block_parameter_value_range_and_remedy() {
        let message = check_sample_rate("generator", f64::NAN).unwrap_err().to_string();
        assert_eq!(
            message,
            "generator: sample_rate_hz is NaN, but must be above 0 Hz and at most 1000000000000 Hz: give the rate of \
             the stream"
        );
        for bad in [0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(check_sample_rate("generator", bad).is_err(), "{bad}");
        }
    }
}
