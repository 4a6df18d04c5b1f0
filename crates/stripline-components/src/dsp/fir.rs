//! Streaming FIR filters: at the full rate, and decimating.
//!
//! Both keep the samples that are still needed in one contiguous buffer, so that the inner loops
//! run over plain slices of `f32` and vectorise. Every output is a sum in an order that depends
//! only on the taps, not on packet boundaries.

use std::marker::PhantomData;

use super::error::{DspError, Parameter};
use super::sample::{Sample, components, components_mut};
use super::taps::Taps;

/// The largest decimation factor.
pub const DECIMATION_MAX: usize = 65_536;

/// Number of `f32` outputs that the full-rate loop computes side by side.
const LANES: usize = 32;
/// Number of partial sums that the decimating loop keeps per output.
const PARTIALS: usize = 16;

/// A filter at the full sample rate: one output sample for each input sample. The filter starts
/// with silence.
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::dsp::{FirFilter, FirLength, Taps, Window};
///
/// let taps = Taps::low_pass(1e6, 100e3, FirLength::Taps(64), Window::Hamming)?;
/// let mut filter = FirFilter::<Complex<f32>>::new(&taps);
/// let input = [Complex::new(1.0, -1.0); 256];
/// let mut output = [Complex::default(); 256];
/// filter.filter(&input, &mut output);
/// assert!((output[255] - input[0]).norm() < 1e-5);
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct FirFilter<T> {
    /// The taps, with the tap for the oldest sample first.
    reversed: Vec<f32>,
    history: History<T>,
}

impl<T: Sample> FirFilter<T> {
    /// Creates a filter with these taps.
    pub fn new(taps: &Taps) -> Self {
        let reversed: Vec<f32> = taps.as_slice().iter().rev().copied().collect();
        Self { history: History::new(reversed.len()), reversed }
    }

    /// Filters `input` into `output`.
    ///
    /// # Panics
    /// If the two lengths differ.
    pub fn filter(&mut self, mut input: &[T], mut output: &mut [T]) {
        assert_eq!(input.len(), output.len(), "a full-rate FIR filter gives one sample for each sample");
        while !input.is_empty() {
            let (count, window) = self.history.append(input);
            let (done, rest) = output.split_at_mut(count);
            convolve(&self.reversed, T::COMPONENTS, window, components_mut(done));
            (input, output) = (&input[count..], rest);
        }
    }

    /// Drops all samples, as at the start of a new stream.
    pub fn reset(&mut self) {
        self.history.reset();
    }

    /// Replaces the taps from the next sample on. Earlier samples are used as far as they are still
    /// stored. If a longer filter needs more, silence is used instead.
    ///
    /// ```
    /// # use stripline_components::dsp::{FirFilter, Taps};
    /// let mut filter = FirFilter::<f32>::new(&Taps::new(vec![1.0, 0.0])?);
    /// let mut output = [0.0; 2];
    /// filter.filter(&[3.0, 5.0], &mut output);
    /// filter.set_taps(&Taps::new(vec![0.0, 1.0])?);
    /// filter.filter(&[7.0, 9.0], &mut output);
    /// assert_eq!(output, [5.0, 7.0]);
    /// # Ok::<(), stripline_components::dsp::DspError>(())
    /// ```
    pub fn set_taps(&mut self, taps: &Taps) {
        let other = Self::new(taps);
        let mut history = other.history;
        history.continue_from(&self.history);
        *self = Self { reversed: other.reversed, history };
    }
}

/// A filter that keeps one output in `factor`, including the first, and computes only these
/// outputs.
///
/// ```
/// use stripline_components::dsp::{DecimatingFir, Taps};
///
/// let mut filter = DecimatingFir::<f32>::new(&Taps::new(vec![0.5, 0.5])?, 2)?;
/// let input = [1.0, 2.0, 3.0, 4.0, 5.0];
/// let mut output = vec![0.0; filter.outputs_for(input.len())];
/// filter.filter(&input, &mut output);
/// assert_eq!(output, [0.5, 2.5, 4.5]);
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DecimatingFir<T> {
    /// The taps, with the tap for the oldest sample first. Each tap is repeated for every component
    /// of a sample.
    reversed: Vec<f32>,
    history: History<T>,
    factor: usize,
    /// The number of samples to skip before the next sample with an output.
    skip: usize,
}

impl<T: Sample> DecimatingFir<T> {
    /// Creates a filter with these taps. The filter divides the rate by `factor`, 1 to
    /// [`DECIMATION_MAX`].
    ///
    /// # Errors
    /// The factor is out of range.
    pub fn new(taps: &Taps, factor: usize) -> Result<Self, DspError> {
        Parameter {
            block: "decimating FIR filter",
            name: "factor",
            unit: "",
            remedy: "decimate in several stages",
        }
        .check(factor as f64, 1.0..=DECIMATION_MAX as f64)?;
        let reversed =
            taps.as_slice().iter().rev().flat_map(|&tap| std::iter::repeat_n(tap, T::COMPONENTS)).collect();
        Ok(Self { reversed, history: History::new(taps.len()), factor, skip: 0 })
    }

    /// Returns the decimation factor.
    pub fn factor(&self) -> usize {
        self.factor
    }

    /// Returns the number of output samples for the next `input_len` samples.
    pub fn outputs_for(&self, input_len: usize) -> usize {
        input_len.saturating_sub(self.skip).div_ceil(self.factor)
    }

    /// Filters `input` into `output`.
    ///
    /// # Panics
    /// If `output` does not hold exactly [`outputs_for`](Self::outputs_for)`(input.len())` samples.
    pub fn filter(&mut self, mut input: &[T], mut output: &mut [T]) {
        assert_eq!(self.outputs_for(input.len()), output.len(), "see DecimatingFir::outputs_for");
        while !input.is_empty() {
            let (count, window) = self.history.append(input);
            let kept = count.saturating_sub(self.skip).div_ceil(self.factor);
            let (done, rest) = output.split_at_mut(kept);
            for (i, y) in components_mut(done).chunks_exact_mut(T::COMPONENTS).enumerate() {
                let start = (self.skip + i * self.factor) * T::COMPONENTS;
                let [re, im] = dot(&self.reversed, &window[start..start + self.reversed.len()]);
                match y {
                    [both] => *both = re + im,
                    [y_re, y_im, ..] => (*y_re, *y_im) = (re, im),
                    [] => {}
                }
            }
            self.skip = self.skip + kept * self.factor - count;
            (input, output) = (&input[count..], rest);
        }
    }

    /// Drops all samples, as at the start of a new stream.
    pub fn reset(&mut self) {
        self.history.reset();
        self.skip = 0;
    }

    /// Replaces the taps from the next sample on, as [`FirFilter::set_taps`] does. The phase of the
    /// decimation does not change.
    pub fn set_taps(&mut self, taps: &Taps) {
        let repeat = |&tap| std::iter::repeat_n(tap, T::COMPONENTS);
        let mut history = History::new(taps.len());
        history.continue_from(&self.history);
        self.reversed = taps.as_slice().iter().rev().flat_map(repeat).collect();
        self.history = history;
    }
}

/// The newest samples in one contiguous buffer. When the buffer is full, they are moved to the
/// front.
#[derive(Debug, Clone)]
pub(super) struct History<T> {
    /// `(keep + room) * components` values, followed by slack with arbitrary content.
    buffer: Vec<f32>,
    /// The number of old samples that an output needs: one less than the number of taps.
    keep: usize,
    /// The number of new samples that fit before the samples are moved to the front.
    room: usize,
    /// The number of new samples in the buffer.
    used: usize,
    sample: PhantomData<T>,
}

impl<T: Sample> History<T> {
    pub(super) fn new(taps: usize) -> Self {
        let keep = taps - 1;
        // Large enough that moving the history costs little compared with the filter, and small
        // enough for the cache.
        let room = (4 * taps).clamp(1024, 65_536);
        let buffer = vec![0.0; (keep + room) * T::COMPONENTS + LANES];
        Self { buffer, keep, room, used: 0, sample: PhantomData }
    }

    /// Returns the number of samples, up to `samples`, that the next [`append`](Self::append)
    /// takes.
    pub(super) fn room_for(&self, samples: usize) -> usize {
        let free = if self.used == self.room { self.room } else { self.room - self.used };
        samples.min(free)
    }

    /// Appends as many samples of `input` as fit (at least one of a non-empty input). Returns the
    /// number of appended samples, and a view. The view begins with the oldest sample that the
    /// first appended sample needs, including the slack.
    pub(super) fn append(&mut self, input: &[T]) -> (usize, &[f32]) {
        if self.used == self.room {
            let end = (self.keep + self.used) * T::COMPONENTS;
            self.buffer.copy_within(self.used * T::COMPONENTS..end, 0);
            self.used = 0;
        }
        let count = input.len().min(self.room - self.used);
        let start = self.used * T::COMPONENTS;
        let new = start + self.keep * T::COMPONENTS;
        self.buffer[new..new + count * T::COMPONENTS].copy_from_slice(components(&input[..count]));
        self.used += count;
        (count, &self.buffer[start..])
    }

    /// Copies the newest samples of another history, as many as both histories keep.
    fn continue_from(&mut self, other: &Self) {
        let count = self.keep.min(other.keep) * T::COMPONENTS;
        let end = (other.keep + other.used) * T::COMPONENTS;
        let place = self.keep * T::COMPONENTS - count;
        self.buffer[place..place + count].copy_from_slice(&other.buffer[end - count..end]);
    }

    pub(super) fn reset(&mut self) {
        self.buffer.fill(0.0);
        self.used = 0;
    }
}

/// Computes `output[j] = sum over k of taps[k] * window[j + k * stride]`, summed in the order of
/// `k` for every `j`. The window has at least [`LANES`] values of slack; results from the slack are
/// discarded.
fn convolve(taps: &[f32], stride: usize, window: &[f32], output: &mut [f32]) {
    for (block, y) in output.chunks_mut(LANES).enumerate() {
        let window = &window[block * LANES..][..(taps.len() - 1) * stride + LANES];
        let mut sums = [0.0f32; LANES];
        for (k, tap) in taps.iter().enumerate() {
            for (sum, x) in sums.iter_mut().zip(&window[k * stride..k * stride + LANES]) {
                *sum += tap * x;
            }
        }
        y.copy_from_slice(&sums[..y.len()]);
    }
}

/// Returns the sums of `taps[i] * window[i]` over even and over odd `i`, in partial sums that
/// vectorise.
pub(super) fn dot(taps: &[f32], window: &[f32]) -> [f32; 2] {
    let mut sums = [0.0f32; PARTIALS];
    let (tap_chunks, tap_rest) = taps.as_chunks::<PARTIALS>();
    let (chunks, rest) = window.as_chunks::<PARTIALS>();
    for (tap, x) in tap_chunks.iter().zip(chunks) {
        for i in 0..PARTIALS {
            sums[i] += tap[i] * x[i];
        }
    }
    for ((sum, tap), x) in sums.iter_mut().zip(tap_rest).zip(rest) {
        *sum += tap * x;
    }
    let mut width = PARTIALS / 2;
    while width >= 2 {
        let (low, high) = sums.split_at_mut(width);
        for (a, b) in low.iter_mut().zip(high) {
            *a += *b;
        }
        width /= 2;
    }
    [sums[0], sums[1]]
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;
    use proptest::prelude::*;

    use super::super::taps::{FirLength, Window};
    use super::*;

    type C32 = Complex<f32>;

    /// Returns a repeatable pseudo-random signal.
    fn signal(len: usize) -> Vec<C32> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..len).map(|_| C32::new(next(), next())).collect()
    }

    fn some_taps(count: usize) -> Taps {
        Taps::new(signal(count).iter().map(|z| z.re).collect()).unwrap()
    }

    #[test]
    fn other_taps_go_on_with_the_samples_that_are_there() {
        let input = signal(4000);
        for (before, after) in [(33, 33), (65, 17), (1, 40), (300, 1)] {
            let (old, new) = (some_taps(before), some_taps(after));
            for at in [0, 1, 700, 2500] {
                let mut filter = FirFilter::new(&old);
                let mut output = vec![C32::default(); input.len()];
                filter.filter(&input[..at], &mut output[..at]);
                filter.set_taps(&new);
                filter.filter(&input[at..], &mut output[at..]);
                // Silence replaces the samples that the shorter filter did not keep.
                let kept = (before.min(after) - 1).min(at);
                let expected = convolved(&new, &input[at - kept..]);
                for (n, (y, x)) in output[at..].iter().zip(&expected[kept..]).enumerate() {
                    assert!((y - x).norm() < 1e-3, "{before} to {after} at {at}: sample {n}");
                }
            }
        }
    }

    #[test]
    fn other_taps_do_not_change_which_samples_are_kept() {
        let input = signal(1001);
        let (old, new) = (some_taps(9), some_taps(21));
        let mut filter = DecimatingFir::new(&old, 7).unwrap();
        let mut output = vec![C32::default(); filter.outputs_for(500)];
        filter.filter(&input[..500], &mut output);
        filter.set_taps(&new);
        let mut rest = vec![C32::default(); filter.outputs_for(501)];
        filter.filter(&input[500..], &mut rest);
        output.append(&mut rest);
        assert_eq!(output.len(), 143);
        let expected = convolved(&new, &input);
        // Compare from the first output for which all samples of the longer filter came after the
        // change.
        for n in 75..143 {
            assert!((output[n] - expected[7 * n]).norm() < 1e-3, "output {n}");
        }
    }

    /// Computes the convolution by definition, in f64.
    fn convolved(taps: &Taps, input: &[C32]) -> Vec<C32> {
        let at = |n: usize| {
            let sum: Complex<f64> = taps
                .as_slice()
                .iter()
                .enumerate()
                .filter(|(k, _)| *k <= n)
                .map(|(k, &h)| {
                    let x = input[n - k];
                    Complex::new(f64::from(x.re), f64::from(x.im)) * f64::from(h)
                })
                .sum();
            C32::new(sum.re as f32, sum.im as f32)
        };
        (0..input.len()).map(at).collect()
    }

    #[test]
    fn both_filters_compute_the_definition() {
        let input = signal(3000);
        for count in [1, 2, 3, 15, 16, 17, 63, 64, 129, 1500] {
            let taps = some_taps(count);
            let expected = convolved(&taps, &input);
            let tolerance = 1e-6 * count as f32 + 1e-6;

            let mut output = vec![C32::default(); input.len()];
            FirFilter::new(&taps).filter(&input, &mut output);
            for (y, e) in output.iter().zip(&expected) {
                assert!((y - e).norm() < tolerance, "{count} taps: {y} for {e}");
            }

            let real: Vec<f32> = input.iter().map(|z| z.re).collect();
            let mut real_output = vec![0.0; real.len()];
            FirFilter::new(&taps).filter(&real, &mut real_output);
            assert!(real_output.iter().zip(&output).all(|(r, z)| *r == z.re));

            for factor in [1, 2, 5, 100] {
                let mut filter = DecimatingFir::new(&taps, factor).unwrap();
                let mut output = vec![C32::default(); filter.outputs_for(input.len())];
                filter.filter(&input, &mut output);
                let mut real_filter = DecimatingFir::new(&taps, factor).unwrap();
                let mut real_output = vec![0.0f32; output.len()];
                real_filter.filter(&real, &mut real_output);
                assert_eq!(output.len(), input.len().div_ceil(factor));
                for ((y, r), e) in output.iter().zip(&real_output).zip(expected.iter().step_by(factor)) {
                    assert!((y - e).norm() < tolerance, "{count} taps by {factor}: {y} for {e}");
                    assert!((r - e.re).abs() < tolerance);
                }
            }
        }
    }

    #[test]
    fn an_infinite_sample_is_forgotten_once_it_has_left_the_taps() {
        let mut filter = FirFilter::<f32>::new(&some_taps(9));
        let mut output = vec![0.0; 2100];
        filter.filter(&[f32::NAN], &mut output[..1]);
        filter.filter(&vec![1.0; 2100], &mut output);
        assert!(output[7].is_nan() && output[8..].iter().all(|y| y.is_finite()));
    }

    #[test]
    fn reset_starts_over() {
        let input = signal(777);
        let taps = Taps::low_pass(1.0, 0.1, FirLength::Taps(33), Window::Hamming).unwrap();
        let mut filter = DecimatingFir::new(&taps, 3).unwrap();
        let mut first = vec![C32::default(); filter.outputs_for(777)];
        filter.filter(&input, &mut first);
        filter.filter(&input[..1], &mut [C32::default()]);
        filter.reset();
        let mut second = vec![C32::default(); filter.outputs_for(777)];
        filter.filter(&input, &mut second);
        assert_eq!(first, second);
    }

    #[test]
    fn a_factor_out_of_range_is_refused() {
        for factor in [0, DECIMATION_MAX + 1] {
            let error = DecimatingFir::<f32>::new(&some_taps(3), factor).unwrap_err();
            assert!(error.to_string().contains("factor"), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn packets_do_not_matter(
            count in 1usize..80,
            factor in 1usize..12,
            cuts in prop::collection::vec(0usize..700, 0..40),
        ) {
            let taps = some_taps(count);
            let input = signal(3000);
            let mut whole = vec![C32::default(); input.len()];
            FirFilter::new(&taps).filter(&input, &mut whole);
            let mut whole_decimated = vec![C32::default(); input.len().div_ceil(factor)];
            DecimatingFir::new(&taps, factor).unwrap().filter(&input, &mut whole_decimated);

            let mut filter = FirFilter::new(&taps);
            let mut decimator = DecimatingFir::new(&taps, factor).unwrap();
            let (mut output, mut decimated) = (Vec::new(), Vec::new());
            let mut rest = &input[..];
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (packet, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                let mut y = vec![C32::default(); packet.len()];
                filter.filter(packet, &mut y);
                output.extend(y);
                let mut y = vec![C32::default(); decimator.outputs_for(packet.len())];
                decimator.filter(packet, &mut y);
                decimated.extend(y);
            }
            prop_assert_eq!(output, whole);
            prop_assert_eq!(decimated, whole_decimated);
        }
    }
}
