//! AM: envelope demodulation.

use std::f64::consts::TAU;
use std::ops::Bound::Excluded;

use num_complex::Complex;

use super::error::{DspError, Parameter, check_sample_rate};

/// An envelope demodulator. The output is the magnitude of each sample minus the carrier, which is
/// a slow average of the magnitude. A single-pole filter computes the average. The filter starts at
/// the magnitude of the first sample, so that a carrier that is present from the start makes no
/// click.
///
/// Samples that are not finite count as 0.
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::dsp::AmDemodulator;
///
/// let mut am = AmDemodulator::new(48e3, 20.0)?;
/// let mut audio = [0.0; 100];
/// am.demodulate(&[Complex::new(0.0, 0.7); 100], &mut audio);
/// assert!(audio.iter().all(|a| a.abs() < 1e-6), "a bare carrier is silent");
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct AmDemodulator {
    /// The weight of each new magnitude in the average, above 0 and below 1.
    weight: f64,
    carrier: Option<f64>,
    normalised: bool,
}

impl AmDemodulator {
    /// Creates a demodulator for a stream at `sample_rate_hz` that removes content slower than
    /// `dc_cutoff_hz` (-3 dB). The cutoff is above 0 and below half the rate; 20 Hz suits audio.
    ///
    /// # Errors
    /// A parameter is out of range.
    pub fn new(sample_rate_hz: f64, dc_cutoff_hz: f64) -> Result<Self, DspError> {
        const BLOCK: &str = "AM demodulator";
        let rate = check_sample_rate(BLOCK, sample_rate_hz)?;
        let cutoff =
            Parameter { block: BLOCK, name: "dc_cutoff_hz", unit: "Hz", remedy: "20 Hz suits audio" }
                .check(dc_cutoff_hz, (Excluded(0.0), Excluded(rate / 2.0)))?;
        Ok(Self { weight: -(-TAU * cutoff / rate).exp_m1(), carrier: None, normalised: false })
    }

    /// Sets whether to divide by the carrier, so that the output is the modulation (1 = 100 %) at
    /// any signal strength. The default is false. Without a carrier, the output is 0.
    #[must_use]
    pub fn normalised(self, normalised: bool) -> Self {
        Self { normalised, ..self }
    }

    /// Returns the current estimate of the carrier's magnitude; 0 before the first sample.
    pub fn carrier(&self) -> f32 {
        self.carrier.unwrap_or(0.0) as f32
    }

    /// Demodulates `input` into `output`: one output sample for each input sample.
    ///
    /// # Panics
    /// If the two lengths differ.
    pub fn demodulate(&mut self, input: &[Complex<f32>], output: &mut [f32]) {
        assert_eq!(input.len(), output.len(), "a demodulator gives one sample for each sample");
        // Use two passes: the first one vectorises, the second one cannot.
        for (y, x) in output.iter_mut().zip(input) {
            *y = (x.re * x.re + x.im * x.im).sqrt();
        }
        for y in output {
            let magnitude = if y.is_finite() { f64::from(*y) } else { 0.0 };
            let carrier = self.carrier.get_or_insert(magnitude);
            let audio = magnitude - *carrier;
            *carrier += self.weight * audio;
            *y = match self.normalised {
                false => audio as f32,
                true if *carrier > f64::from(f32::MIN_POSITIVE) => (audio / *carrier) as f32,
                true => 0.0,
            };
        }
    }

    /// Drops the carrier estimate, as at the start of a new stream.
    pub fn reset(&mut self) {
        self.carrier = None;
    }

    /// Continues from the state of another demodulator of the same stream, with other settings.
    #[must_use]
    pub fn continuing(self, before: &Self) -> Self {
        Self { carrier: before.carrier, ..self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: f64 = 48e3;

    /// Returns a detuned carrier of magnitude `level` with a 1 kHz tone of modulation index
    /// `index`.
    fn modulated(len: usize, level: f64, index: f64) -> Vec<Complex<f32>> {
        let at = |n: usize| {
            let t = n as f64 / RATE;
            let magnitude = level * (1.0 + index * (TAU * 1e3 * t).sin());
            let z = Complex::from_polar(magnitude, TAU * 137.0 * t);
            Complex::new(z.re as f32, z.im as f32)
        };
        (0..len).map(at).collect()
    }

    #[test]
    fn the_tone_comes_out_at_its_level_without_the_carrier() {
        let input = modulated(48_000, 0.4, 0.5);
        let mut audio = vec![0.0; input.len()];
        AmDemodulator::new(RATE, 20.0).unwrap().demodulate(&input, &mut audio);
        let tail = &audio[24_000..];
        let mean = tail.iter().sum::<f32>() / tail.len() as f32;
        let rms = (tail.iter().map(|a| a * a).sum::<f32>() / tail.len() as f32).sqrt();
        assert!(mean.abs() < 1e-4, "{mean}");
        assert!((rms - 0.2 / 2f32.sqrt()).abs() < 1e-3, "{rms}");

        let mut am = AmDemodulator::new(RATE, 1.0).unwrap().normalised(true);
        am.demodulate(&input, &mut audio);
        let peak = audio[24_000..].iter().fold(0.0f32, |m, a| m.max(a.abs()));
        assert!((peak - 0.5).abs() < 0.01, "{peak}");
        assert!((am.carrier() - 0.4).abs() < 0.01, "{}", am.carrier());
    }

    #[test]
    fn silence_and_nonsense_stay_finite() {
        let mut am = AmDemodulator::new(RATE, 20.0).unwrap().normalised(true);
        let mut audio = [1.0; 4];
        let input = [(0.0, 0.0), (f32::NAN, 0.0), (f32::INFINITY, 1.0), (0.0, 0.0)];
        am.demodulate(&input.map(|(re, im)| Complex::new(re, im)), &mut audio);
        assert_eq!(audio, [0.0; 4]);
        assert!(AmDemodulator::new(RATE, 0.0).is_err());
        assert!(AmDemodulator::new(RATE, RATE).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn packets_do_not_matter(sizes in prop::collection::vec(0usize..90, 0..20), normalised: bool) {
            let input = modulated(600, 1.0, 0.8);
            let new = || AmDemodulator::new(RATE, 300.0).unwrap().normalised(normalised);
            let mut whole = vec![0.0; input.len()];
            new().demodulate(&input, &mut whole);
            let (mut am, mut output, mut done) = (new(), vec![0.0; input.len()], 0);
            for size in sizes.into_iter().chain([usize::MAX]) {
                let end = done + size.min(input.len() - done);
                am.demodulate(&input[done..end], &mut output[done..end]);
                done = end;
            }
            prop_assert_eq!(output, whole);
        }
    }
}
