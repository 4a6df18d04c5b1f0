//! A resampler: a rational change of the sample rate by a polyphase filter.

use super::error::{DspError, Parameter};
use super::fir::{History, dot};
use super::sample::{Sample, components_mut};
use super::taps::{FirLength, Taps, Window};

/// The largest value of `up` and of `down`.
pub const RESAMPLING_MAX: usize = 10_000;

const BLOCK: &str = "resampler";

/// The settings of a [`Resampler`].
///
/// ```
/// let settings = stripline_components::dsp::ResamplerSettings { up: 2, down: 3, ..Default::default() };
/// assert_eq!(settings.bandwidth, 0.8);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResamplerSettings {
    /// The rate of the output is `up / down` times the rate of the input. `up` is 1 to
    /// [`RESAMPLING_MAX`].
    pub up: usize,
    /// The divisor of the ratio (see `up`), 1 to [`RESAMPLING_MAX`].
    pub down: usize,
    /// The attenuation of aliases and images, in dB: 21 to 150.
    pub attenuation_db: f64,
    /// The part of the band that passes unchanged, 0.01 to 0.99. The filter falls off above it. The
    /// band ends at half the lower of the two rates.
    pub bandwidth: f64,
}

impl Default for ResamplerSettings {
    fn default() -> Self {
        Self { up: 1, down: 1, attenuation_db: 80.0, bandwidth: 0.8 }
    }
}

/// A resampler that changes the rate by `up / down`, with a low-pass filter against aliases and
/// images.
///
/// Output `m` is the filtered signal at the input sample `m * down / up`, delayed by
/// [`delay_samples`](Self::delay_samples). The filter starts with silence.
///
/// ```
/// use stripline_components::dsp::{Resampler, ResamplerSettings};
///
/// let settings = ResamplerSettings { up: 3, down: 2, ..Default::default() };
/// let mut resampler = Resampler::<f32>::new(&settings)?;
/// let input = [1.0; 400];
/// let mut output = vec![0.0; resampler.outputs_for(input.len())];
/// resampler.resample(&input, &mut output);
/// assert_eq!(output.len(), 600);
/// assert!(output[300..].iter().all(|y| (y - 1.0).abs() < 1e-3));
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Resampler<T> {
    up: usize,
    down: usize,
    /// The taps of each of the `up` phases, with the tap for the oldest sample first. Each tap is
    /// repeated for every component of a sample.
    phases: Vec<f32>,
    /// The number of values in a phase.
    phase_values: usize,
    delay_samples: f64,
    history: History<T>,
    /// The phase of the next output, and the number of input samples before the sample of this
    /// output.
    phase: usize,
    skip: usize,
}

impl<T: Sample> Resampler<T> {
    /// Creates a resampler, and designs the filter for the ratio in lowest terms.
    ///
    /// # Errors
    /// A setting is out of range, or the filter has more than [`TAPS_MAX`](super::TAPS_MAX) taps.
    pub fn new(settings: &ResamplerSettings) -> Result<Self, DspError> {
        let (up, down) = reduced(settings)?;
        let taps = design(up, down, settings)?;
        let length = taps.len().div_ceil(up);
        let tap = |phase: usize, j: usize| taps.as_slice().get(phase + j * up).map_or(0.0, |h| h * up as f32);
        let phases = (0..up)
            .flat_map(|phase| (0..length).rev().map(move |j| (phase, j)))
            .flat_map(|(phase, j)| std::iter::repeat_n(tap(phase, j), T::COMPONENTS))
            .collect();
        Ok(Self {
            up,
            down,
            phases,
            phase_values: length * T::COMPONENTS,
            delay_samples: taps.delay_samples() / up as f64,
            history: History::new(length),
            phase: 0,
            skip: 0,
        })
    }

    /// Returns the ratio in lowest terms, `up` first.
    pub fn ratio(&self) -> (usize, usize) {
        (self.up, self.down)
    }

    /// Returns the delay of the filter, in input samples.
    pub fn delay_samples(&self) -> f64 {
        self.delay_samples
    }

    /// Starts again at the input sample with this index, after silence. Returns the index of the
    /// first output, which is at or after this sample.
    ///
    /// ```
    /// use stripline_components::dsp::{Resampler, ResamplerSettings};
    ///
    /// let settings = ResamplerSettings { up: 3, down: 2, ..Default::default() };
    /// let mut resampler = Resampler::<f32>::new(&settings)?;
    /// assert_eq!(resampler.restart(4), 6);
    /// assert_eq!(resampler.restart(5), 8);
    /// # Ok::<(), stripline_components::dsp::DspError>(())
    /// ```
    pub fn restart(&mut self, index: u64) -> u64 {
        self.history.reset();
        let (up, down) = (self.up as u128, self.down as u128);
        let place = u128::from(index) * up;
        let first = place.div_ceil(down);
        // The difference is less than `down`, which is small.
        let after = usize::try_from(first * down - place).unwrap_or(0);
        (self.skip, self.phase) = (after / self.up, after % self.up);
        u64::try_from(first).unwrap_or(u64::MAX)
    }

    /// Returns the number of output samples for the next `input_len` samples.
    pub fn outputs_for(&self, input_len: usize) -> usize {
        (input_len * self.up).saturating_sub(self.skip * self.up + self.phase).div_ceil(self.down)
    }

    /// Resamples `input` into `output`.
    ///
    /// # Panics
    /// If `output` does not hold exactly [`outputs_for`](Self::outputs_for)`(input.len())` samples.
    pub fn resample(&mut self, mut input: &[T], mut output: &mut [T]) {
        assert_eq!(self.outputs_for(input.len()), output.len(), "see Resampler::outputs_for");
        while !input.is_empty() {
            let room = self.history.room_for(input.len());
            let (done, rest) = output.split_at_mut(self.outputs_for(room));
            let (count, window) = self.history.append(input);
            for y in components_mut(done).chunks_exact_mut(T::COMPONENTS) {
                let start = self.skip * T::COMPONENTS;
                let taps = &self.phases[self.phase * self.phase_values..][..self.phase_values];
                let [re, im] = dot(taps, &window[start..start + self.phase_values]);
                match y {
                    [both] => *both = re + im,
                    [y_re, y_im, ..] => (*y_re, *y_im) = (re, im),
                    [] => {}
                }
                self.phase += self.down;
                self.skip += self.phase / self.up;
                self.phase %= self.up;
            }
            self.skip -= count;
            (input, output) = (&input[count..], rest);
        }
    }
}

/// Returns the ratio in lowest terms.
fn reduced(settings: &ResamplerSettings) -> Result<(usize, usize), DspError> {
    let check = |name, value: usize| {
        let remedy = "use a simpler ratio, or several stages";
        Parameter { block: BLOCK, name, unit: "", remedy }.check(value as f64, 1.0..=RESAMPLING_MAX as f64)
    };
    check("up", settings.up)?;
    check("down", settings.down)?;
    let (mut a, mut b) = (settings.up, settings.down);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    Ok((settings.up / a, settings.down / a))
}

/// Designs the filter at `up` times the rate of the input. Frequencies are fractions of this rate.
fn design(up: usize, down: usize, settings: &ResamplerSettings) -> Result<Taps, DspError> {
    let bandwidth = Parameter { block: BLOCK, name: "bandwidth", unit: "", remedy: "0.8 is a usual choice" }
        .check(settings.bandwidth, 0.01..=0.99)?;
    if up == 1 && down == 1 {
        return Taps::new(vec![1.0]);
    }
    let edge = 0.5 / up.max(down) as f64;
    let window = Window::Kaiser { attenuation_db: settings.attenuation_db };
    let length = FirLength::TransitionHz(edge * (1.0 - bandwidth));
    Taps::low_pass(1.0, edge * (1.0 + bandwidth) / 2.0, length, window)
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;
    use proptest::prelude::*;
    use rustfft::FftPlanner;

    use super::*;

    type C32 = Complex<f32>;

    fn resampler<T: Sample>(up: usize, down: usize) -> Resampler<T> {
        Resampler::new(&ResamplerSettings { up, down, ..Default::default() }).unwrap()
    }

    fn resampled<T: Sample>(resampler: &mut Resampler<T>, input: &[T]) -> Vec<T> {
        let mut output = vec![T::default(); resampler.outputs_for(input.len())];
        resampler.resample(input, &mut output);
        output
    }

    fn signal(len: usize) -> Vec<C32> {
        let value = |n: usize| (n as u32).wrapping_mul(2_654_435_761) as f32 / u32::MAX as f32 - 0.5;
        (0..len).map(|n| C32::new(value(2 * n + 1), value(2 * n + 2))).collect()
    }

    /// Computes the definition in f64: insert zeros, filter at the high rate, and keep one sample
    /// in `down`.
    fn model(up: usize, down: usize, first: usize, input: &[C32]) -> Vec<Complex<f64>> {
        let settings = ResamplerSettings { up, down, ..Default::default() };
        let (up, down) = reduced(&settings).unwrap();
        let taps = design(up, down, &settings).unwrap();
        let at = |place: usize| -> Complex<f64> {
            let products = taps.as_slice().iter().enumerate().filter(|(k, _)| *k <= place);
            products
                .filter(|(k, _)| (place - k).is_multiple_of(up))
                .filter_map(|(k, h)| Some((input.get((place - k) / up)?, h)))
                .map(|(x, h)| Complex::new(x.re.into(), x.im.into()) * f64::from(*h) * up as f64)
                .sum()
        };
        (first..input.len() * up).step_by(down).map(at).collect()
    }

    /// Returns the largest line near a frequency, and the largest line elsewhere, in dB.
    /// Frequencies are fractions of the rate.
    fn lines(samples: &[C32], tone: f64) -> (f64, f64) {
        let size = samples.len();
        let mut bins: Vec<Complex<f64>> = samples
            .iter()
            .enumerate()
            .map(|(n, z)| {
                // Apply a window (Blackman and harris, 92 dB), so that the tone does not need a
                // whole number of periods.
                let x = std::f64::consts::TAU * n as f64 / size as f64;
                let w =
                    0.358_75 - 0.488_29 * x.cos() + 0.141_28 * (2.0 * x).cos() - 0.011_68 * (3.0 * x).cos();
                Complex::new(f64::from(z.re), f64::from(z.im)) * (w / 0.358_75 / size as f64)
            })
            .collect();
        FftPlanner::new().plan_fft_forward(size).process(&mut bins);
        let middle = (tone.rem_euclid(1.0) * size as f64).round() as usize;
        let (mut near, mut far) = (-400.0f64, -400.0f64);
        for (k, bin) in bins.iter().enumerate() {
            let distance = k.abs_diff(middle).min(size - k.abs_diff(middle));
            let db = 20.0 * bin.norm().max(1e-20).log10();
            if distance <= 5 { near = near.max(db) } else { far = far.max(db) }
        }
        (near, far)
    }

    /// Resamples a tone with `frequency` as a fraction of the input's rate. Returns 4096 settled
    /// samples.
    fn resampled_tone(resampler: &mut Resampler<C32>, frequency: f64) -> Vec<C32> {
        let (up, down) = resampler.ratio();
        resampler.restart(0);
        let turn = |n: usize| std::f64::consts::TAU * (frequency * n as f64).fract();
        // Longer than the delay of the filter, which is a delay at the lower rate.
        let count = 6000 * up.max(down) / up;
        let input: Vec<_> =
            (0..count).map(|n| C32::new(turn(n).cos() as f32, turn(n).sin() as f32)).collect();
        let output = resampled(resampler, &input);
        output[output.len() - 4096..].to_vec()
    }

    #[test]
    fn a_tone_in_the_band_passes_and_aliases_and_images_are_80_db_down() {
        for (up, down) in [(3, 2), (2, 3), (160, 147), (147, 160), (1, 5), (7, 1), (24, 25)] {
            let ratio = up as f64 / down as f64;
            let mut resampler = resampler::<C32>(up, down);
            for part in [0.01, 0.5, 0.79, -0.33] {
                // `part` is a fraction of half the lower rate, moved to the middle of a bin of the
                // output.
                let of_output: f64 = (part * 2048.0 * (1.0 / ratio).min(1.0)).round() / 4096.0;
                let (near, far) = lines(&resampled_tone(&mut resampler, of_output * ratio), of_output);
                assert!(near.abs() < 0.1, "{up}/{down} at {part}: the tone has {near} dB");
                assert!(far < -78.0, "{up}/{down} at {part}: another line has {far} dB");
            }
            // Try tones that the lower rate cannot carry.
            for frequency in [1.01, 1.3].map(|part| part * 0.5 * ratio).into_iter().filter(|f| *f < 0.5) {
                let (near, far) = lines(&resampled_tone(&mut resampler, frequency), frequency / ratio);
                assert!(near.max(far) < -78.0, "{up}/{down} at {frequency}: an alias has {near}, {far} dB");
            }
        }
    }

    #[test]
    fn the_ratio_is_reduced_and_one_changes_nothing() {
        assert_eq!(resampler::<f32>(48, 36).ratio(), (4, 3));
        let input = signal(500);
        assert_eq!(resampled(&mut resampler(5, 5), &input), input);
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let refused = |settings: ResamplerSettings| Resampler::<f32>::new(&settings).unwrap_err().to_string();
        let some = ResamplerSettings { up: 2, down: 3, ..Default::default() };
        assert!(refused(ResamplerSettings { up: 0, ..some }).contains("up is 0"));
        assert!(refused(ResamplerSettings { down: 10_001, ..some }).contains("down is 10001"));
        assert!(refused(ResamplerSettings { bandwidth: f64::NAN, ..some }).contains("bandwidth"));
        assert!(refused(ResamplerSettings { attenuation_db: 1e3, ..some }).contains("attenuation_db"));
        assert!(refused(ResamplerSettings { up: 9_999, down: 10_000, ..some }).contains("taps"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_ratio_computes_the_definition_in_any_packets(
            up in 1usize..12,
            down in 1usize..12,
            start in 0u64..1000,
            cuts in prop::collection::vec(0usize..300, 0..12),
        ) {
            let input = signal(1200);
            let mut resampler = resampler::<C32>(up, down);
            let first = resampler.restart(start);
            let (up, down) = resampler.ratio();
            let mut output = Vec::new();
            let mut rest = &input[..];
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (packet, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                output.extend(resampled(&mut resampler, packet));
            }
            let place = usize::try_from(first * down as u64 - start * up as u64).unwrap();
            prop_assert!(place < down);
            let expected = model(up, down, place, &input);
            prop_assert_eq!(output.len(), expected.len());
            for (n, (y, e)) in output.iter().zip(&expected).enumerate() {
                let y = Complex::new(f64::from(y.re), f64::from(y.im));
                prop_assert!((y - e).norm() < 1e-5, "{} for {} at {}", y, e, n);
            }
        }

        #[test]
        fn real_and_complex_samples_are_resampled_alike(up in 1usize..6, down in 1usize..6) {
            let input = signal(700);
            let real: Vec<f32> = input.iter().map(|z| z.re).collect();
            let both = resampled(&mut resampler::<C32>(up, down), &input);
            let one = resampled(&mut resampler::<f32>(up, down), &real);
            prop_assert!(both.iter().zip(&one).all(|(z, x)| (z.re - x).abs() < 1e-6));
        }
    }
}
