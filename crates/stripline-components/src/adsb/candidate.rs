//! What the demodulator hands to the decoder.

use bytemuck::{Pod, Zeroable};

use super::frame::{Frame, LONG_BYTES};

/// A possible frame: a preamble and the bits that follow it, not yet checked.
///
/// Plain data of 40 bytes, little-endian on the machines Stripline runs on, so that it can cross a link as it is:
///
/// ```text
///  byte 0        8          12      16      20      24              38       39     40
///       +--------+----------+-------+-------+-------+---------------+--------+------+
///       | sample | fraction | level | snr   | error | bytes         | length | zero |
///       | u64    | f32      | f32   | f32   | f32   | 14 × u8       | u8     | u8   |
///       +--------+----------+-------+-------+-------+---------------+--------+------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Candidate {
    /// The sample, counted from the first ever pushed, in which the first pulse of the preamble starts.
    pub sample: u64,
    /// How much later than that sample's start the pulse starts, in samples, 0 to 1.
    pub fraction: f32,
    /// Power of the preamble's pulses in dB relative to full scale (a rotating phasor of amplitude 1 has 0 dB).
    pub level_dbfs: f32,
    /// Power of the pulses in relation to that of the silence between them, in dB.
    pub snr_db: f32,
    /// How much the samples differ from what the bits should look like: the mean squared difference of amplitudes in
    /// terms of the squared amplitude of a pulse. 0 is perfect; noise has some 0.3.
    pub error: f32,
    /// The bits, first received first; behind `length` they are zero.
    pub bytes: [u8; LONG_BYTES],
    /// How many bytes there are: 7 or 14, as the downlink format says.
    pub length: u8,
    /// Always zero.
    pub reserved: u8,
}

impl Candidate {
    /// The frame, or `None` when the length contradicts the downlink format, as in a damaged candidate.
    #[must_use]
    pub fn frame(&self) -> Option<Frame> {
        self.bytes.get(..usize::from(self.length)).and_then(|bytes| Frame::new(bytes).ok())
    }
}
