//! Sample formats, and the power of a sample in a type that suits the format.

use bytemuck::Pod;
use num_complex::Complex;

/// A component of an I/Q sample: `u8` (cu8), `i8` (cs8), `i16` (cs16) or `f32` (cf32).
///
/// The trait is sealed, because the demodulator supports only these formats.
pub trait IqSample: Pod + sealed::Sealed {
    /// The type in which the power of a sample is computed.
    type Power: Power;
    /// Power of a phasor that just reaches full scale, in the unit of [`Self::Power`].
    const FULL_SCALE: f32;

    /// Computes the power of each sample; `power` is as long as `samples`.
    fn powers(samples: &[Complex<Self>], power: &mut [Self::Power]);
}

/// The power of a sample, in a unit of the sample format.
pub trait Power: Pod + PartialOrd + sealed::Sealed {
    /// Returns the sum, limited to the largest value of the type.
    #[must_use]
    fn plus(self, other: Self) -> Self;

    /// Returns whether four pulses stand out: together they have more than three times the power of
    /// a silence of equal length, and each has more than twice its share. Returns false if there is
    /// no power.
    #[must_use]
    fn stand_out(pulses: [Self; 4], silence: Self) -> bool;

    /// Returns the power as a floating-point number.
    #[must_use]
    fn to_f32(self) -> f32;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for i8 {}
    impl Sealed for i16 {}
    impl Sealed for u16 {}
    impl Sealed for f32 {}
}

impl IqSample for u8 {
    type Power = u16;
    const FULL_SCALE: f32 = 127.5 * 127.5;

    /// Computes the powers from offset bytes.
    ///
    /// Zero is at 127.5. In terms of the bytes, i² + q² is 32512.5 − i (255 − i) − q (255 − q).
    /// This formula needs no sign and no table, and all values fit 16 bits.
    fn powers(samples: &[Complex<Self>], power: &mut [u16]) {
        let pairs: &[[u8; 2]] = bytemuck::cast_slice(samples);
        for (&pair, power) in pairs.iter().zip(power) {
            // Both bytes are treated alike, so the order within the word does not matter.
            let word = u16::from_ne_bytes(pair);
            let (one, other) = (word & 0xff, word >> 8);
            *power = 32512 - one * (255 - one) - other * (255 - other);
        }
    }
}

impl IqSample for i8 {
    type Power = u16;
    const FULL_SCALE: f32 = 128.0 * 128.0;

    fn powers(samples: &[Complex<Self>], power: &mut [u16]) {
        for (sample, power) in samples.iter().zip(power) {
            let (i, q) = (i16::from(sample.re), i16::from(sample.im));
            // At most 2 · 128² = 32768, so the sum is unsigned.
            *power = (i * i) as u16 + (q * q) as u16;
        }
    }
}

impl IqSample for i16 {
    type Power = f32;
    const FULL_SCALE: f32 = 32768.0 * 32768.0;

    fn powers(samples: &[Complex<Self>], power: &mut [f32]) {
        for (sample, power) in samples.iter().zip(power) {
            let (i, q) = (f32::from(sample.re), f32::from(sample.im));
            *power = i * i + q * q;
        }
    }
}

impl IqSample for f32 {
    type Power = f32;
    const FULL_SCALE: f32 = 1.0;

    fn powers(samples: &[Complex<Self>], power: &mut [f32]) {
        for (sample, power) in samples.iter().zip(power) {
            *power = sample.re * sample.re + sample.im * sample.im;
        }
    }
}

impl Power for u16 {
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }

    /// Compares without branches. The baseline vector instructions have a saturating difference for
    /// unsigned words, but no comparison.
    fn stand_out(pulses: [Self; 4], silence: Self) -> bool {
        let [a, b, c, d] = pulses;
        let each = silence / 2 + 1;
        let all = silence.plus(silence).plus(silence);
        let missing = each.saturating_sub(a)
            | each.saturating_sub(b)
            | each.saturating_sub(c)
            | each.saturating_sub(d)
            // Subtract one, so that two sums at the limit do not pass.
            | all.saturating_sub(a.plus(b).plus(c.plus(d)).saturating_sub(1));
        missing == 0
    }

    fn to_f32(self) -> f32 {
        f32::from(self)
    }
}

impl Power for f32 {
    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn stand_out(pulses: [Self; 4], silence: Self) -> bool {
        let [a, b, c, d] = pulses;
        let each = 0.5 * silence;
        (a > each) & (b > each) & (c > each) & (d > each) & (a + b + (c + d) > 3.0 * silence)
    }

    fn to_f32(self) -> f32 {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_of_bytes_is_right_for_every_value() {
        for one in 0..=255u8 {
            for other in [0, 1, 127, 128, 200, 255] {
                let mut power = [0];
                u8::powers(&[Complex::new(one, other)], &mut power);
                let [i, q] = [one, other].map(|byte| f32::from(byte) - 127.5);
                assert_eq!(f32::from(power[0]), i * i + q * q - 0.5);
            }
        }
    }

    #[test]
    fn extreme_values_do_not_overflow() {
        let mut power = [0];
        i8::powers(&[Complex::new(-128, -128)], &mut power);
        assert_eq!(power, [32768]);
        let mut power = [0.0];
        i16::powers(&[Complex::new(-32768, -32768)], &mut power);
        assert_eq!(power, [2.0f32.powi(31)]);
    }
}
