//! The search for preambles: a test of every sample, written for vector instructions.
//!
//! ```text
//!  µs      0   1   2   3   4   5   6   7   8
//!          ┌┐  ┌┐         ┌┐  ┌┐
//!  pulses ─┘└──┘└─────────┘└──┘└──────────── bits
//!  sample  0 1 2 3 4 5 6 7 8 9 10 11  …  15
//!          P P P P Q Q Q P P P P  Q   …  Q
//! ```
//!
//! A pulse is as long as a sample. If the first pulse starts anywhere in sample 0, it ends in
//! sample 1, and likewise for the others. Pulses fall into the samples P, and no pulse falls into
//! the samples Q.

use super::sample::Power;

/// Number of samples used for the test of one position.
pub(super) const SPAN: usize = 16;

/// Sets `marks[n]` to 1 if a preamble may start at `power[n]`, else to 0.
///
/// A preamble may start where the pulses [stand out](Power::stand_out) from the silences. `pairs`
/// is space for intermediate results. `pairs` and `power` are longer than `marks` by [`SPAN`].
pub(super) fn mark<P: Power>(power: &[P], pairs: &mut [P], marks: &mut [u8]) {
    let count = marks.len();
    for ((pair, &one), &next) in pairs[..count + SPAN - 1].iter_mut().zip(power).zip(&power[1..]) {
        *pair = one.plus(next);
    }
    // Slices of equal length allow the compiler to drop all bounds checks, and then to vectorise.
    let pair = |offset: usize| &pairs[offset..offset + count];
    let single = |offset: usize| &power[offset..offset + count];
    let (p0, p2, p7, p9) = (pair(0), pair(2), pair(7), pair(9));
    let (q4, q6, q11, q13, q15) = (pair(4), single(6), pair(11), pair(13), single(15));
    for n in 0..count {
        let silence = q4[n].plus(q6[n]).plus(q11[n].plus(q13[n])).plus(q15[n]);
        marks[n] = u8::from(P::stand_out([p0[n], p2[n], p7[n], p9[n]], silence));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the power of a preamble of amplitude 100 that starts `fraction` of a sample late.
    fn preamble(fraction: f32) -> Vec<u16> {
        let mut power = vec![1; 64];
        for pulse in [0, 2, 7, 9] {
            for (offset, share) in [(0, 1.0 - fraction), (1, fraction)] {
                let amplitude = 100.0 * share;
                power[24 + pulse + offset] += (amplitude * amplitude) as u16;
            }
        }
        power
    }

    #[test]
    fn a_preamble_is_found_wherever_it_starts_in_its_sample() {
        for fraction in [0.0, 0.25, 0.5, 0.75, 0.99] {
            let power = preamble(fraction);
            let (mut pairs, mut marks) = ([0; 64], [0; 40]);
            mark(&power, &mut pairs, &mut marks);
            assert_eq!(marks[24], 1, "{fraction}");
            assert!(marks[..22].iter().all(|&mark| mark == 0));
        }
    }

    #[test]
    fn constant_power_is_no_preamble() {
        for level in [0, 1, 1000, 32512] {
            let (mut pairs, mut marks) = ([0; 64], [1; 40]);
            mark(&[level; 64], &mut pairs, &mut marks);
            assert_eq!(marks, [0; 40]);
        }
    }
}
