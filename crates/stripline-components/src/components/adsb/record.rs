//! The records sent between the components, as plain data.

use stripline::Sample;

use crate::adsb::decode::Accepted;
use crate::adsb::demodulate;
use crate::adsb::frame::{Frame, LONG_BYTES};

/// A Mode S frame with correct parity, as the decoder sends it: 32 bytes.
///
/// ```text
///  byte 0        8          12      16              30       31          32
///       +--------+----------+-------+---------------+--------+-----------+
///       | sample | fraction | level | bytes         | length | corrected |
///       | u64    | f32      | f32   | 14 × u8       | u8     | u8        |
///       +--------+----------+-------+---------------+--------+-----------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Sample)]
#[repr(C)]
#[sample(name = "mode-s-frame")]
pub struct FrameRecord {
    /// Index of the sample in which the preamble starts.
    pub sample: u64,
    /// Delay of the preamble relative to the start of this sample, in samples, 0 to 1.
    pub fraction: f32,
    /// Power of the pulses of the preamble in dB relative to full scale.
    pub level_dbfs: f32,
    /// The frame after correction. The bytes beyond `length` are zero.
    pub bytes: [u8; LONG_BYTES],
    /// The number of bytes: 7 or 14.
    pub length: u8,
    /// The number of corrected bits.
    pub corrected_bits: u8,
}

impl From<&Accepted> for FrameRecord {
    fn from(accepted: &Accepted) -> Self {
        let frame = accepted.frame.as_bytes();
        let mut bytes = [0; LONG_BYTES];
        bytes[..frame.len()].copy_from_slice(frame);
        Self {
            sample: accepted.sample,
            fraction: accepted.fraction,
            level_dbfs: accepted.level_dbfs,
            bytes,
            length: frame.len() as u8,
            corrected_bits: accepted.corrected_bits,
        }
    }
}

impl FrameRecord {
    /// Returns the frame as the decoder accepted it; `None` if the length contradicts the downlink
    /// format, as in a damaged record.
    #[must_use]
    pub fn accepted(&self) -> Option<Accepted> {
        let frame = Frame::new(self.bytes.get(..usize::from(self.length))?).ok()?;
        Some(Accepted {
            frame,
            address: frame.address(),
            sample: self.sample,
            fraction: self.fraction,
            level_dbfs: self.level_dbfs,
            corrected_bits: self.corrected_bits,
        })
    }

    /// Returns the time of the frame, in seconds since the first sample.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        (self.sample as f64 + f64::from(self.fraction)) / f64::from(demodulate::SAMPLE_RATE_HZ)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_out_as_it_went_in_and_a_damaged_record_does_not() {
        for line in ["*8d4840d6202cc371c32ce0576098;", "*02e19838bf1a56;"] {
            let accepted = Accepted {
                fraction: 0.5,
                level_dbfs: -12.0,
                corrected_bits: 1,
                ..Accepted::whole(line.parse().unwrap(), 4_000_000)
            };
            let mut record = FrameRecord::from(&accepted);
            assert_eq!(record.accepted(), Some(accepted));
            assert!((record.seconds() - 2.0).abs() < 1e-6);
            record.length = 9;
            assert_eq!(record.accepted(), None);
            record.length = 200;
            assert_eq!(record.accepted(), None);
        }
        assert_eq!(size_of::<FrameRecord>(), 32);
    }
}
