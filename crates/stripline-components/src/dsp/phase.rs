//! A phase that never drifts, and its sine.

use num_complex::Complex;

/// The factor from turns to the accumulator, 2^64, as an f64.
const TURN: f64 = 18_446_744_073_709_551_616.0;

/// A phase accumulator in 64-bit fixed point: one turn is 2^64. Wrapping is exact, so the phase
/// after any `n` samples is exactly `n` times the step. The frequency itself is exact to 1 part in
/// 10^15.
///
/// ```
/// use stripline_components::dsp::Phase;
///
/// let mut phase = Phase::from_turns(0.25);
/// assert!((phase.exponential().im - 1.0).abs() < 1e-6);
/// phase.advance(Phase::from_turns(-0.25));
/// assert_eq!(phase, Phase::ZERO);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phase(u64);

impl Phase {
    /// The phase zero.
    pub const ZERO: Self = Self(0);

    /// Creates a phase from turns (1.0 = 360 degrees), dropping whole turns. NaN and infinity count
    /// as 0.
    #[inline]
    pub fn from_turns(turns: f64) -> Self {
        let fraction = turns - turns.floor();
        // The cast saturates: a fraction that rounds up to a whole turn becomes 2^64 - 1, off by
        // one unit of 2^-64.
        Self((fraction * TURN) as u64)
    }

    /// Returns the phase in turns, in [0, 1).
    pub fn turns(self) -> f64 {
        // Use only the 53 bits of an f64, so that the result stays below 1.
        (self.0 >> 11) as f64 / (TURN / 2048.0)
    }

    /// Returns the phase after `samples` steps of size `self`, which is exact for any number.
    pub fn times(self, samples: u64) -> Self {
        Self(self.0.wrapping_mul(samples))
    }

    /// Adds `step`.
    #[inline]
    pub fn advance(&mut self, step: Self) {
        self.0 = self.0.wrapping_add(step.0);
    }

    /// Returns the sum of two phases.
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Returns the sine, accurate to 3e-7.
    #[inline]
    pub fn sine(self) -> f32 {
        sine(self.top())
    }

    /// Returns the complex exponential, cosine + j sine, with both parts accurate to 3e-7.
    #[inline]
    pub fn exponential(self) -> Complex<f32> {
        exponential(self.top())
    }

    /// Creates a phase from units of 2^-32 turn.
    #[inline]
    pub(crate) fn from_top(units: i32) -> Self {
        Self(((units as u32) as u64) << 32)
    }

    /// Returns the top 32 bits: enough for an f32 function of the phase.
    #[inline]
    pub(crate) fn top(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A quarter turn in units of 2^-32 turn.
pub(crate) const QUARTER: u32 = 1 << 30;

/// Returns the sine of a phase in units of 2^-32 turn, accurate to 3e-7. The function has no
/// branches, so that loops over it vectorise.
#[inline]
pub(crate) fn sine(phase: u32) -> f32 {
    let x = folded(phase) as f32 * (std::f32::consts::TAU / 4_294_967_296.0);
    // Taylor series to x^11: the remainder on a quarter turn is below 5.7e-8.
    let s = x * x;
    let tail = 1.0 / 362_880.0 + s * (-1.0 / 39_916_800.0);
    x + x * s * (-1.0 / 6.0 + s * (1.0 / 120.0 + s * (-1.0 / 5_040.0 + s * tail)))
}

/// Returns cos + j sin of a phase in units of 2^-32 turn.
#[inline]
pub(crate) fn exponential(phase: u32) -> Complex<f32> {
    Complex::new(sine(phase.wrapping_add(QUARTER)), sine(phase))
}

/// Returns the phase in (-1/4, 1/4] turn with the same sine, in units of 2^-32 turn: either `phase`
/// itself, or half a turn minus `phase`.
#[inline]
pub(crate) fn folded(phase: u32) -> i32 {
    let x = phase as i32;
    if (x ^ (x << 1)) < 0 { i32::MIN.wrapping_sub(x) } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sine_is_within_its_stated_error_all_round() {
        let mut worst = 0.0f64;
        for i in 0..200_000u32 {
            let phase = i.wrapping_mul(21_475).wrapping_add(i & 7);
            let angle = f64::from(phase) / 4_294_967_296.0 * std::f64::consts::TAU;
            let z = exponential(phase);
            worst =
                worst.max((f64::from(z.im) - angle.sin()).abs()).max((f64::from(z.re) - angle.cos()).abs());
        }
        assert!(worst < 3e-7, "{worst}");
        for (phase, expected) in [(0, 0.0), (QUARTER, 1.0), (1 << 31, 0.0), (3 << 30, -1.0f32)] {
            assert!((sine(phase) - expected).abs() < 2e-7, "{phase}: {}", sine(phase));
        }
    }

    #[test]
    fn turns_wrap_both_ways_and_survive_nonsense() {
        assert_eq!(Phase::from_turns(1.25), Phase::from_turns(0.25));
        assert_eq!(Phase::from_turns(-0.25), Phase::from_turns(0.75));
        assert_eq!(Phase::from_turns(f64::NAN), Phase::ZERO);
        assert_eq!(Phase::from_turns(f64::INFINITY), Phase::ZERO);
        assert_eq!(Phase::from_turns(0.75).turns(), 0.75);
    }

    #[test]
    fn a_long_run_lands_where_the_product_says() {
        let step = Phase::from_turns(0.1);
        let mut phase = Phase::ZERO;
        for _ in 0..1_000_000 {
            phase.advance(step);
        }
        assert_eq!(phase, step.times(1_000_000));
        // After a year at 10 Msample/s, the frequency is still right: the step is wrong by at most
        // 2^-54 turn.
        let turns = step.times(315_360_000_000_000).turns();
        assert!(turns.min(1.0 - turns) < 315_360_000_000_000.0 * 2.0f64.powi(-54), "{turns}");
    }
}
