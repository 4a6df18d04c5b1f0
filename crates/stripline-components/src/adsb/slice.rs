//! Detection of bits from amplitudes.
//!
//! A bit lasts two samples and has a pulse in its first half (1) or in its second (0). A pulse that
//! starts in the middle of a sample has half of its amplitude there and half in the next one. Let
//! `f` be the fraction of a sample by which the frame is late, and the amplitude 1. The two samples
//! of a bit, after a bit of value, are:
//!
//! ```text
//!                   after 1                 after 0
//!   a bit 1         1 − f,  f               1,  f
//!   a bit 0         0,      1 − f           f,  1 − f
//! ```
//!
//! At `f` = 1/2 a bit that repeats the one before has two equal samples. A comparison of its halves
//! does not detect it, but the bits before it do. So the most likely *sequence* is searched (G. D.
//! Forney, "The Viterbi algorithm", Proc. IEEE 61, 1973). It has two states only: the value of the
//! last bit.

/// Bits in the longest frame.
pub(super) const BITS_MAX: usize = 112;

/// The parameters of a frame as measured in its preamble.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulse {
    /// Amplitude of a pulse that falls into one sample.
    pub(super) amplitude: f32,
    /// Delay of its start within its sample, 0 to 1.
    pub(super) fraction: f32,
    /// Power of a sample without a pulse.
    pub(super) noise: f32,
}

impl Pulse {
    /// Returns the squared distance between two sequences that differ in one bit, relative to
    /// pulses that fall into one sample each. It is 1 for these, and 1/4 for pulses that straddle
    /// two samples evenly.
    pub(super) fn distinction(&self) -> f32 {
        let late = self.fraction;
        let early = 1.0 - late;
        let square = |x: f32| x * x;
        // By the table above: the bit after a 1, and its effect on the first half of the next bit.
        (square(early) + square(early - late) + square(late)) / 2.0
    }
}

/// A search for the most likely bits, step by step.
#[derive(Debug, Clone)]
pub(super) struct SequenceSlicer {
    /// Expected amplitudes with part of a pulse: early part, late part, both, neither.
    early: f32,
    late: f32,
    both: f32,
    none: f32,
    /// The largest cost of one sample, so that a burst of interference does not outweigh the rest.
    cost_max: f32,
    /// For a last bit of 0 and of 1: squared error of the best sequence, and the sequence.
    cost: [f32; 2],
    bits: [u128; 2],
}

impl SequenceSlicer {
    pub(super) fn new(pulse: Pulse) -> Self {
        // Noise adds its power to that of the signal.
        let expected = |share: f32| {
            let amplitude = share * pulse.amplitude;
            (amplitude * amplitude + pulse.noise).sqrt()
        };
        Self {
            early: expected(1.0 - pulse.fraction),
            late: expected(pulse.fraction),
            both: expected(1.0),
            none: expected(0.0),
            cost_max: pulse.amplitude * pulse.amplitude,
            // The preamble ends in silence, as a bit of value 1 does.
            cost: [f32::INFINITY, 0.0],
            bits: [0; 2],
        }
    }

    /// Returns a slicer that expects the average amplitudes of these bits.
    ///
    /// A frame gives better estimates than its preamble alone.
    pub(super) fn relearned(&self, bits: u128, amplitudes: &[f32]) -> Self {
        // Sum and count. The preamble's estimate weighs as many samples as it was made from, which
        // keeps the count above zero.
        let mut early = (4.0 * self.early, 4.0);
        let mut late = (4.0 * self.late, 4.0);
        let mut both = (self.both, 1.0);
        let mut none = (8.0 * self.none, 8.0);
        let mut last = 1;
        let count = amplitudes.len() / 2;
        for (n, halves) in amplitudes.chunks_exact(2).enumerate() {
            let bit = bits >> (count - 1 - n) & 1;
            let (first, second) = match (last, bit) {
                (1, 1) => (&mut early, &mut late),
                (0, 1) => (&mut both, &mut late),
                (1, _) => (&mut none, &mut early),
                // Both samples would contribute to the same sums.
                _ => {
                    late = (late.0 + halves[0], late.1 + 1.0);
                    early = (early.0 + halves[1], early.1 + 1.0);
                    last = bit;
                    continue;
                }
            };
            *first = (first.0 + halves[0], first.1 + 1.0);
            *second = (second.0 + halves[1], second.1 + 1.0);
            last = bit;
        }
        let mean = |(sum, count): (f32, f32)| sum / count;
        Self {
            early: mean(early),
            late: mean(late),
            both: mean(both),
            none: mean(none),
            cost_max: self.cost_max,
            cost: [f32::INFINITY, 0.0],
            bits: [0; 2],
        }
    }

    /// Takes the amplitudes of the next bits, two for each.
    pub(super) fn push(&mut self, amplitudes: &[f32]) {
        let [mut cost_0, mut cost_1] = self.cost;
        let [mut bits_0, mut bits_1] = self.bits;
        let cost = |amplitude: f32, expected: f32| {
            let error = amplitude - expected;
            (error * error).min(self.cost_max)
        };
        for halves in amplitudes.chunks_exact(2) {
            let (first, second) = (halves[0], halves[1]);
            let to_0 = cost(second, self.early);
            let to_1 = cost(second, self.late);
            // Each step depends on the one before. So all but one sum and one comparison are
            // computed first.
            let from_0_to_0 = cost_0 + (cost(first, self.late) + to_0);
            let from_1_to_0 = cost_1 + (cost(first, self.none) + to_0);
            let from_0_to_1 = cost_0 + (cost(first, self.both) + to_1);
            let from_1_to_1 = cost_1 + (cost(first, self.early) + to_1);
            let before = (bits_0, bits_1);
            bits_0 = (if from_0_to_0 < from_1_to_0 { before.0 } else { before.1 }) << 1;
            bits_1 = (if from_0_to_1 < from_1_to_1 { before.0 } else { before.1 }) << 1 | 1;
            cost_0 = from_0_to_0.min(from_1_to_0);
            cost_1 = from_0_to_1.min(from_1_to_1);
        }
        self.cost = [cost_0, cost_1];
        self.bits = [bits_0, bits_1];
    }

    /// Returns the best bits so far, the last received one in the lowest place, and their squared
    /// error.
    pub(super) fn best(&self) -> (u128, f32) {
        let last = usize::from(self.cost[1] < self.cost[0]);
        (self.bits[last], self.cost[last])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the amplitudes of a frame's bits, without noise.
    fn render(bits: u128, count: usize, fraction: f32) -> Vec<f32> {
        let halves =
            (0..count).rev().flat_map(|place| if bits >> place & 1 == 1 { [1.0, 0.0] } else { [0.0, 1.0] });
        let mut before = 0.0;
        halves
            .map(|half| {
                let amplitude = (1.0 - fraction) * half + fraction * before;
                before = half;
                amplitude
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_sequence_is_found_at_any_fraction(bits: u128, fraction in 0.0f32..0.8) {
            let bits = bits >> 16;
            let mut slicer = SequenceSlicer::new(Pulse { amplitude: 1.0, fraction, noise: 0.0 });
            slicer.push(&render(bits, BITS_MAX, fraction));
            prop_assert_eq!(slicer.best().0, bits);
        }
    }
}
