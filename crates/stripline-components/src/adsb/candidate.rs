//! The records from the demodulator to the decoder.

use stripline::Sample;

use super::frame::{Frame, LONG_BYTES};

/// A possible frame: a preamble and the bits after it, not yet checked.
///
/// Plain data of 40 bytes that can be sent over a link as it is. The data is little-endian on all
/// machines that Stripline supports:
///
/// ```text
///  byte 0        8          12      16      20      24              38       39     40
///       +--------+----------+-------+-------+-------+---------------+--------+------+
///       | sample | fraction | level | snr   | error | bytes         | length | zero |
///       | u64    | f32      | f32   | f32   | f32   | 14 × u8       | u8     | u8   |
///       +--------+----------+-------+-------+-------+---------------+--------+------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Sample)]
#[repr(C)]
#[sample(name = "mode-s-candidate")]
pub struct Candidate {
    /// Index of the sample in which the first pulse of the preamble starts, counted from the first
    /// pushed sample.
    pub sample: u64,
    /// Delay of the pulse relative to the start of this sample, in samples, 0 to 1.
    pub fraction: f32,
    /// Power of the pulses of the preamble in dB relative to full scale (a rotating phasor of
    /// amplitude 1 has 0 dB).
    pub level_dbfs: f32,
    /// Ratio of the power of the pulses to the power between them, in dB.
    pub snr_db: f32,
    /// Difference between the samples and the ideal samples of the bits: the mean squared
    /// difference of amplitudes over the squared amplitude of a pulse. 0 is perfect; noise has
    /// about 0.3.
    pub error: f32,
    /// The bits, with the first received bit first. The bits beyond `length` are zero.
    pub bytes: [u8; LONG_BYTES],
    /// Number of bytes: 7 or 14, according to the downlink format.
    pub length: u8,
    /// Always zero.
    pub reserved: u8,
}

impl Candidate {
    /// Returns the frame, or `None` if the length contradicts the downlink format, as in a damaged
    /// candidate.
    #[must_use]
    pub fn frame(&self) -> Option<Frame> {
        self.bytes.get(..usize::from(self.length)).and_then(|bytes| Frame::new(bytes).ok())
    }
}
