//! Detection of bits from amplitudes.
//!
//! A bit lasts two samples and has a pulse in the first half (1) or in the second half (0). If a
//! pulse starts in the middle of a sample, half of the amplitude falls into this sample and half
//! into the next. Let `f` be the delay of the frame as a fraction of a sample, and the amplitude 1.
//! The two samples of a bit, depending on the previous bit, are:
//!
//! ```text
//!                   after 1                 after 0
//!   a bit 1         1 − f,  f               1,  f
//!   a bit 0         0,      1 − f           f,  1 − f
//! ```
//!
//! At `f` = 1/2, a bit that repeats the bit before has two equal samples. A comparison of the two
//! halves does not detect the bit, but the bits before it do. So the slicer searches for the most
//! likely *sequence* (G. D. Forney, "The Viterbi algorithm", Proc. IEEE 61, 1973). The search has
//! only two states: the value of the last bit.

/// Bits in the longest frame.
pub(super) const BITS_MAX: usize = 112;

/// The parameters of the pulses in a frame, as measured in the preamble.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulse {
    /// Amplitude of a pulse that falls into one sample.
    pub(super) amplitude: f32,
    /// Delay of the start of a pulse within the sample, 0 to 1.
    pub(super) fraction: f32,
    /// Power of a sample without a pulse.
    pub(super) noise: f32,
}

impl Pulse {
    /// Returns the squared distance between two sequences that differ in one bit, as a ratio to the
    /// distance if each pulse falls into one sample. The ratio is 1 for such pulses, and 1/4 for
    /// pulses that straddle two samples evenly.
    pub(super) fn distinction(&self) -> f32 {
        let late = self.fraction;
        let early = 1.0 - late;
        let square = |x: f32| x * x;
        // From the table above: the bit after a 1, and the effect of the bit on the first half of
        // the next bit.
        (square(early) + square(early - late) + square(late)) / 2.0
    }
}

/// A search for the most likely bits, step by step.
#[derive(Debug, Clone)]
pub(super) struct SequenceSlicer {
    /// Expected amplitudes of a sample that has the early part of a pulse, the late part, both or
    /// neither.
    early: f32,
    late: f32,
    both: f32,
    none: f32,
    /// The maximum cost of one sample, so that a burst of interference does not outweigh the rest.
    cost_max: f32,
    /// The squared error of the best sequence, and the sequence, for a last bit of 0 and of 1.
    cost: [f32; 2],
    bits: [u128; 2],
}

impl SequenceSlicer {
    pub(super) fn new(pulse: Pulse) -> Self {
        // The power of the noise adds to the power of the signal.
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
            // The preamble ends in silence, like a bit of value 1.
            cost: [f32::INFINITY, 0.0],
            bits: [0; 2],
        }
    }

    /// Returns a slicer that expects the average amplitudes of these bits.
    ///
    /// A whole frame gives better estimates than the preamble alone.
    pub(super) fn relearned(&self, bits: u128, amplitudes: &[f32]) -> Self {
        // Each pair is a sum and a count. The estimate from the preamble has the weight of the
        // samples that it was made from, which keeps the count above zero.
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
                // A 0 after a 0: the late part of a pulse, then the early part of the next.
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

    /// Processes the amplitudes of the next bits, two for each bit.
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
            // Each step depends on the previous step. So everything but one sum and one comparison
            // is computed first.
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

    /// Returns the best bits so far, with the last received bit in the lowest place, and their
    /// squared error.
    pub(super) fn best(&self) -> (u128, f32) {
        let last = usize::from(self.cost[1] < self.cost[0]);
        (self.bits[last], self.cost[last])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the amplitudes of the bits of a frame, without noise.
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
