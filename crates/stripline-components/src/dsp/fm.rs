//! FM: the quadrature demodulator, and the de-emphasis of broadcast FM.

use std::f64::consts::TAU;
use std::ops::Bound::{Excluded, Included};

use num_complex::Complex;

use super::error::{DspError, Parameter, check_sample_rate};

/// The de-emphasis of broadcast FM in Europe, Africa and most of Asia, in µs (ITU-R BS.450).
pub const DEEMPHASIS_EUROPE_US: f64 = 50.0;
/// The de-emphasis of broadcast FM in the Americas and South Korea, in µs (ITU-R BS.450).
pub const DEEMPHASIS_AMERICAS_US: f64 = 75.0;

/// A quadrature demodulator (polar discriminator): the output is the phase step from each sample to
/// the next, scaled so that a carrier `deviation_hz` above the centre gives 1. The first output is
/// 0, because the sample before it counts as 0.
///
/// Phases are accurate to 1e-6 rad. A sample that is not finite affects only its own output and the
/// next output.
///
/// ```
/// use stripline_components::dsp::{FmDemodulator, Phase};
///
/// let step = Phase::from_turns(-25e3 / 240e3);
/// let input: Vec<_> = (0..100).map(|n| step.times(n).exponential()).collect();
/// let mut audio = [0.0; 100];
/// FmDemodulator::new(240e3, 75e3)?.demodulate(&input, &mut audio);
/// assert!((audio[99] + 1.0 / 3.0).abs() < 1e-5);
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct FmDemodulator {
    /// The output per radian.
    gain: f32,
    previous: Complex<f32>,
}

impl FmDemodulator {
    /// Creates a demodulator for a stream at `sample_rate_hz` and a peak deviation above 0, at most
    /// half the rate. The deviation is 75 kHz for broadcast, 2.5 or 5 kHz for narrow-band.
    ///
    /// # Errors
    /// A parameter is out of range.
    pub fn new(sample_rate_hz: f64, deviation_hz: f64) -> Result<Self, DspError> {
        const BLOCK: &str = "FM demodulator";
        let rate = check_sample_rate(BLOCK, sample_rate_hz)?;
        let deviation = Parameter {
            block: BLOCK,
            name: "deviation_hz",
            unit: "Hz",
            remedy: "broadcast FM has 75000; a stream carries up to half its sample rate",
        }
        .check(deviation_hz, (Excluded(0.0), Included(rate / 2.0)))?;
        Ok(Self { gain: (rate / (TAU * deviation)) as f32, previous: Complex::default() })
    }

    /// Demodulates `input` into `output`: one output sample for each input sample.
    ///
    /// # Panics
    /// If the two lengths differ.
    pub fn demodulate(&mut self, input: &[Complex<f32>], output: &mut [f32]) {
        assert_eq!(input.len(), output.len(), "a demodulator gives one sample for each sample");
        let (Some((first, rest)), Some(last)) = (output.split_first_mut(), input.last()) else { return };
        *first = self.gain * angle(input[0] * self.previous.conj());
        for ((y, x), before) in rest.iter_mut().zip(&input[1..]).zip(input) {
            *y = self.gain * angle(x * before.conj());
        }
        self.previous = *last;
    }

    /// Drops the last sample, as at the start of a new stream.
    pub fn reset(&mut self) {
        self.previous = Complex::default();
    }

    /// Continues from the state of another demodulator of the same stream, with other settings.
    #[must_use]
    pub fn continuing(self, before: &Self) -> Self {
        Self { previous: before.previous, ..self }
    }
}

/// Returns the angle of `z` in radians, accurate to 1e-6; 0 for 0. The function has no branches, so
/// that loops over it vectorise. The function uses the polynomial of Abramowitz and Stegun 4.4.49
/// on one octant (error 2e-8), and reflections.
#[inline]
fn angle(z: Complex<f32>) -> f32 {
    use std::f32::consts::{FRAC_PI_2, PI};
    let (x, y) = (z.re.abs(), z.im.abs());
    let (large, small) = if y > x { (y, x) } else { (x, y) };
    let t = small / large.max(f32::MIN_POSITIVE);
    let s = t * t;
    let p = -0.016_165_737 + s * 0.002_866_225_7;
    let p = -0.142_089 + s * (0.106_562_64 + s * (-0.075_289_64 + s * (0.042_909_614 + s * p)));
    let p = t * (1.0 + s * (-0.333_331_45 + s * (0.199_935_51 + s * p)));
    let p = if y > x { FRAC_PI_2 - p } else { p };
    let p = if z.re < 0.0 { PI - p } else { p };
    p.copysign(z.im)
}

/// The de-emphasis of broadcast FM: a single-pole low-pass filter with a given time constant and
/// gain 1 at 0 Hz.
///
/// The impulse response is the sampled exponential. The filter is close to the analogue filter at
/// sample rates well above the audio: within 0.1 dB up to 15 kHz at 240 kHz. At 48 kHz, it
/// attenuates up to 1.5 dB too little at 15 kHz.
///
/// Samples that are not finite count as 0, because they would stay in the filter for ever.
///
/// ```
/// use stripline_components::dsp::{DEEMPHASIS_EUROPE_US, DeEmphasis};
///
/// let mut audio = [1.0f32; 240];
/// DeEmphasis::new(240e3, DEEMPHASIS_EUROPE_US)?.filter(&mut audio);
/// assert!((audio[11] - (1.0 - (-1.0f32).exp())).abs() < 1e-6, "after 50 us, 63 %");
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DeEmphasis {
    /// The weight of each new sample in the output, above 0, at most 1.
    weight: f64,
    output: f64,
}

impl DeEmphasis {
    /// Creates a filter for a stream at `sample_rate_hz` with a time constant of 0.1 to 1,000,000
    /// µs ([`DEEMPHASIS_EUROPE_US`], [`DEEMPHASIS_AMERICAS_US`]).
    ///
    /// # Errors
    /// A parameter is out of range.
    pub fn new(sample_rate_hz: f64, deemphasis_us: f64) -> Result<Self, DspError> {
        const BLOCK: &str = "FM de-emphasis";
        let rate = check_sample_rate(BLOCK, sample_rate_hz)?;
        let us = Parameter {
            block: BLOCK,
            name: "deemphasis_us",
            unit: "us",
            remedy: "use 50 in Europe and 75 in the Americas",
        }
        .check(deemphasis_us, 0.1..=1e6)?;
        Ok(Self { weight: -(-1e6 / (us * rate)).exp_m1(), output: 0.0 })
    }

    /// Filters in place.
    pub fn filter(&mut self, audio: &mut [f32]) {
        for sample in audio {
            let input = if sample.is_finite() { f64::from(*sample) } else { 0.0 };
            self.output += self.weight * (input - self.output);
            *sample = self.output as f32;
        }
    }

    /// Drops all samples, as at the start of a new stream.
    pub fn reset(&mut self) {
        self.output = 0.0;
    }

    /// Continues from the state of another filter of the same stream, with another time constant.
    #[must_use]
    pub fn continuing(self, before: &Self) -> Self {
        Self { output: before.output, ..self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustfft::FftPlanner;

    use super::super::phase::Phase;
    use super::*;

    const RATE: f64 = 240e3;

    /// Returns a carrier, `offset_hz` off the centre, with a tone of `tone_hz` at this peak
    /// deviation.
    fn modulated(len: usize, tone_hz: f64, deviation_hz: f64, offset_hz: f64) -> Vec<Complex<f32>> {
        let mut phase = Phase::ZERO;
        let at = |n: usize| {
            let audio = (TAU * tone_hz * n as f64 / RATE).sin();
            phase.advance(Phase::from_turns((offset_hz + deviation_hz * audio) / RATE));
            phase.exponential()
        };
        (0..len).map(at).collect()
    }

    #[test]
    fn a_tone_comes_out_at_its_frequency_and_level() {
        // 24,000 samples give bins of 10 Hz.
        let input = modulated(24_000, 1_000.0, 60e3, 7.5e3);
        let mut audio = vec![0.0; input.len()];
        FmDemodulator::new(RATE, 75e3).unwrap().demodulate(&input, &mut audio);
        audio[0] = 0.1;
        let mut bins: Vec<Complex<f32>> = audio.iter().map(|&a| Complex::new(a, 0.0)).collect();
        FftPlanner::new().plan_fft_forward(bins.len()).process(&mut bins);
        let level = |bin: usize| bins[bin].norm() / bins.len() as f32;
        assert!((level(0) - 0.1).abs() < 1e-4, "the offset is DC: {}", level(0));
        assert!((2.0 * level(100) - 0.8).abs() < 1e-3, "the tone: {}", 2.0 * level(100));
        let rest: f32 = (1..12_000).filter(|b| *b != 100).map(|b| (2.0 * level(b)).powi(2)).sum();
        assert!(rest.sqrt() < 1e-4, "distortion: {}", rest.sqrt());
    }

    #[test]
    fn angles_are_within_their_stated_error() {
        let mut worst = 0.0f64;
        for i in 0..100_000 {
            let a = (f64::from(i) / 50_000.0 - 1.0) * std::f64::consts::PI;
            let z = Complex::from_polar(10f64.powi(i % 9 - 4), a);
            let z = Complex::new(z.re as f32, z.im as f32);
            worst = worst.max((f64::from(angle(z)) - f64::from(z.im).atan2(f64::from(z.re))).abs());
        }
        assert!(worst < 1e-6, "{worst}");
        assert_eq!(angle(Complex::new(0.0, 0.0)), 0.0);
        assert_eq!(angle(Complex::new(0.0, -2.0)), -std::f32::consts::FRAC_PI_2);
        assert_eq!(angle(Complex::new(-1.0, 0.0)), std::f32::consts::PI);
    }

    #[test]
    fn one_bad_sample_spoils_two_outputs() {
        let mut input = modulated(20, 1e3, 60e3, 0.0);
        input[9] = Complex::new(f32::NAN, f32::INFINITY);
        let mut audio = [0.0; 20];
        FmDemodulator::new(RATE, 75e3).unwrap().demodulate(&input, &mut audio);
        assert!(audio.iter().enumerate().all(|(i, a)| a.is_finite() || i == 9 || i == 10));
        audio[3] = f32::NAN;
        let mut filter = DeEmphasis::new(RATE, 50.0).unwrap();
        filter.filter(&mut audio);
        assert!(audio.iter().all(|a| a.is_finite()));
    }

    #[test]
    fn de_emphasis_follows_the_analogue_filter() {
        for us in [DEEMPHASIS_EUROPE_US, DEEMPHASIS_AMERICAS_US] {
            for hz in [100.0, 1e3, 3e3, 10e3, 15e3] {
                let mut tone: Vec<f32> =
                    (0..48_000).map(|n| (TAU * hz * f64::from(n) / RATE).sin() as f32).collect();
                DeEmphasis::new(RATE, us).unwrap().filter(&mut tone);
                let power = tone[24_000..].iter().map(|a| f64::from(a * a)).sum::<f64>() / 24_000.0;
                let db = 10.0 * (2.0 * power).log10();
                let analogue = -10.0 * (1.0 + (TAU * hz * us * 1e-6).powi(2)).log10();
                assert!((db - analogue).abs() < 0.1, "{us} us at {hz} Hz: {db} dB for {analogue} dB");
            }
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for deviation in [0.0, f64::NAN, 130e3] {
            assert!(
                FmDemodulator::new(RATE, deviation).unwrap_err().to_string().contains("deviation_hz is ")
            );
        }
        assert!(FmDemodulator::new(f64::INFINITY, 75e3).is_err());
        assert!(DeEmphasis::new(RATE, 0.0).unwrap_err().to_string().contains("deemphasis_us"));
    }

    #[test]
    fn other_settings_make_no_click() {
        let input = modulated(2000, 1e3, 30e3, 0.0);
        let (mut first, mut rest) = (vec![0.0; 1000], vec![0.0; 1000]);
        let before = {
            let mut before = FmDemodulator::new(RATE, 75e3).unwrap();
            before.demodulate(&input[..1000], &mut first);
            before
        };
        FmDemodulator::new(RATE, 37.5e3).unwrap().continuing(&before).demodulate(&input[1000..], &mut rest);
        // The output is twice as loud from the first sample on.
        let mut whole = vec![0.0; 2000];
        FmDemodulator::new(RATE, 37.5e3).unwrap().demodulate(&input, &mut whole);
        assert_eq!(rest, whole[1000..]);
        let mut settled = DeEmphasis::new(RATE, 50.0).unwrap();
        settled.filter(&mut [1.0; 5000]);
        let mut next = [1.0];
        DeEmphasis::new(RATE, 75.0).unwrap().continuing(&settled).filter(&mut next);
        assert!((next[0] - 1.0).abs() < 1e-6, "{}", next[0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn packets_do_not_matter(sizes in prop::collection::vec(0usize..90, 0..20)) {
            let input = modulated(700, 3e3, 75e3, 0.0);
            let run = |sizes: Vec<usize>| {
                let mut fm = FmDemodulator::new(RATE, 75e3).unwrap();
                let mut filter = DeEmphasis::new(RATE, 50.0).unwrap();
                let (mut output, mut done) = (vec![0.0; input.len()], 0);
                for size in sizes.into_iter().chain([usize::MAX]) {
                    let end = done + size.min(input.len() - done);
                    fm.demodulate(&input[done..end], &mut output[done..end]);
                    filter.filter(&mut output[done..end]);
                    done = end;
                }
                output
            };
            prop_assert_eq!(run(sizes), run(vec![]));
        }
    }
}
