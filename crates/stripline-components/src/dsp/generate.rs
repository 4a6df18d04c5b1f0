//! The signal generator.

use std::fmt;
use std::str::FromStr;

use num_complex::Complex;

use super::error::{DspError, Parameter, check_sample_rate};
use super::noise::Awgn;
use super::phase::{Phase, QUARTER, folded, sine};

/// The shape of a generated signal. A complex signal has the shape in Q, and the same shape a
/// quarter turn ahead in I. So a complex sine is the complex exponential, which turns forwards at a
/// positive frequency.
///
/// Square, triangle and sawtooth are sampled directly: they are not band-limited and alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waveform {
    /// `sine`: 0 at phase 0, rising. Accurate to 3e-7.
    #[default]
    Sine,
    /// `square`: 1 during the first half turn, -1 during the second.
    Square,
    /// `triangle`: in phase with the sine: 0, 1, 0, -1 at the quarter turns.
    Triangle,
    /// `sawtooth`: -1 at phase 0, rising to 1 over a turn.
    Sawtooth,
    /// `constant`: 1, or 1 + 0j.
    Constant,
    /// `noise`: white and Gaussian, of power 1 (see [`Awgn`]). The frequency and the phase have no
    /// effect.
    Noise,
}

impl Waveform {
    /// All waveforms.
    pub const ALL: [Self; 6] =
        [Self::Sine, Self::Square, Self::Triangle, Self::Sawtooth, Self::Constant, Self::Noise];

    /// Returns the name, as it is parsed and displayed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sine => "sine",
            Self::Square => "square",
            Self::Triangle => "triangle",
            Self::Sawtooth => "sawtooth",
            Self::Constant => "constant",
            Self::Noise => "noise",
        }
    }
}

impl fmt::Display for Waveform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Waveform {
    type Err = DspError;

    fn from_str(name: &str) -> Result<Self, DspError> {
        Self::ALL
            .into_iter()
            .find(|waveform| waveform.name() == name)
            .ok_or_else(|| DspError::UnknownWaveform { name: name.chars().take(40).collect() })
    }
}

/// The settings of a [`Generator`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneratorSettings {
    /// The sample rate of the stream in Hz, above 0, at most 10^12.
    pub sample_rate_hz: f64,
    /// The shape.
    pub waveform: Waveform,
    /// The frequency in Hz, at most half the sample rate in magnitude. A negative frequency turns
    /// backwards.
    pub frequency_hz: f64,
    /// The peak (for noise: the root mean square), -10^18 to 10^18.
    pub amplitude: f64,
    /// The constant added to every sample, each component -10^18 to 10^18. A real signal uses the
    /// real part.
    pub offset: Complex<f64>,
    /// The phase of the first sample in degrees, -10^6 to 10^6.
    pub phase_deg: f64,
    /// The seed of [`Waveform::Noise`].
    pub seed: u64,
}

impl Default for GeneratorSettings {
    /// Returns a sine of 1 kHz and amplitude 1 at 48 kHz.
    fn default() -> Self {
        Self {
            sample_rate_hz: 48e3,
            waveform: Waveform::Sine,
            frequency_hz: 1e3,
            amplitude: 1.0,
            offset: Complex::new(0.0, 0.0),
            phase_deg: 0.0,
            seed: 0,
        }
    }
}

/// A generator of periodic signals and noise, real or complex. The phase stays exact, however long
/// the generator runs (see [`Phase`]).
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::dsp::{Generator, GeneratorSettings};
///
/// let settings = GeneratorSettings { frequency_hz: 12e3, amplitude: 0.5, ..Default::default() };
/// let mut generator = Generator::new(&settings)?;
/// let mut samples = [Complex::default(); 4];
/// generator.fill(&mut samples);
/// assert!((samples[1] - Complex::new(0.0, 0.5)).norm() < 1e-6, "a quarter turn");
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Generator {
    waveform: Waveform,
    phase: Phase,
    step: Phase,
    amplitude: f32,
    offset: Complex<f32>,
    noise: Awgn,
}

/// The number of phases computed side by side, so that the loop over the shape vectorises.
const LANES: usize = 64;

impl Generator {
    /// Creates a generator with these settings.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn new(settings: &GeneratorSettings) -> Result<Self, DspError> {
        const BLOCK: &str = "signal generator";
        let parameter = |name, unit, remedy| Parameter { block: BLOCK, name, unit, remedy };
        let rate = check_sample_rate(BLOCK, settings.sample_rate_hz)?;
        let frequency =
            parameter("frequency_hz", "Hz", "a stream carries up to half its sample rate either way")
                .check(settings.frequency_hz, -rate / 2.0..=rate / 2.0)?;
        let level = |name, value| parameter(name, "", "1 is full scale").check(value, -1e18..=1e18);
        let amplitude = level("amplitude", settings.amplitude)?;
        let offset = Complex::new(
            level("offset (real part)", settings.offset.re)? as f32,
            level("offset (imaginary part)", settings.offset.im)? as f32,
        );
        let phase =
            parameter("phase_deg", "degrees", "one turn is 360").check(settings.phase_deg, -1e6..=1e6)?;
        Ok(Self {
            waveform: settings.waveform,
            phase: Phase::from_turns(phase / 360.0),
            step: Phase::from_turns(frequency / rate),
            amplitude: amplitude as f32,
            offset,
            noise: Awgn::new(amplitude.abs(), settings.seed)?,
        })
    }

    /// Changes the settings from the next sample on. The phase and the noise continue: the phase
    /// and the seed in `settings` are not used.
    ///
    /// # Errors
    /// The errors of [`Generator::new`]; nothing is changed then.
    ///
    /// ```
    /// # use num_complex::Complex;
    /// # use stripline_components::dsp::{Generator, GeneratorSettings};
    /// let mut settings = GeneratorSettings { frequency_hz: 12e3, ..Default::default() };
    /// let mut generator = Generator::new(&settings)?;
    /// let mut samples = [Complex::default(); 1];
    /// generator.fill(&mut samples);
    /// settings.amplitude = 0.5;
    /// generator.change(&settings)?;
    /// generator.fill(&mut samples);
    /// assert!((samples[0] - Complex::new(0.0, 0.5)).norm() < 1e-6, "half as large, and a quarter turn on");
    /// # Ok::<(), stripline_components::dsp::DspError>(())
    /// ```
    pub fn change(&mut self, settings: &GeneratorSettings) -> Result<(), DspError> {
        let changed = Self::new(settings)?;
        let mut noise = self.noise.clone();
        noise.set_sigma(changed.noise.sigma())?;
        *self = Self { phase: self.phase, noise, ..changed };
        Ok(())
    }

    /// Overwrites `samples` with the next samples of the complex signal.
    pub fn fill(&mut self, samples: &mut [Complex<f32>]) {
        let (a, offset) = (self.amplitude, self.offset);
        match self.waveform {
            Waveform::Sine => self.shape_complex(samples, sine),
            Waveform::Square => self.shape_complex(samples, square),
            Waveform::Triangle => self.shape_complex(samples, triangle),
            Waveform::Sawtooth => self.shape_complex(samples, sawtooth),
            Waveform::Constant => samples.fill(offset + a),
            Waveform::Noise => {
                self.noise.fill(samples);
                samples.iter_mut().for_each(|x| *x += offset);
            }
        }
    }

    /// Overwrites `samples` with the next samples of the real signal.
    pub fn fill_real(&mut self, samples: &mut [f32]) {
        let (a, offset) = (self.amplitude, self.offset.re);
        match self.waveform {
            Waveform::Sine => self.shape_real(samples, sine),
            Waveform::Square => self.shape_real(samples, square),
            Waveform::Triangle => self.shape_real(samples, triangle),
            Waveform::Sawtooth => self.shape_real(samples, sawtooth),
            Waveform::Constant => samples.fill(offset + a),
            Waveform::Noise => {
                self.noise.fill(samples);
                samples.iter_mut().for_each(|x| *x += offset);
            }
        }
    }

    /// Returns the phase of the next sample.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    #[inline]
    fn shape_complex(&mut self, samples: &mut [Complex<f32>], shape: impl Fn(u32) -> f32) {
        let (a, offset) = (self.amplitude, self.offset);
        for block in samples.chunks_mut(LANES) {
            let phases = self.phases(block.len());
            for (x, &phase) in block.iter_mut().zip(&phases) {
                let (re, im) = (shape(phase.wrapping_add(QUARTER)), shape(phase));
                *x = Complex::new(a * re + offset.re, a * im + offset.im);
            }
        }
    }

    #[inline]
    fn shape_real(&mut self, samples: &mut [f32], shape: impl Fn(u32) -> f32) {
        let (a, offset) = (self.amplitude, self.offset.re);
        for block in samples.chunks_mut(LANES) {
            let phases = self.phases(block.len());
            for (x, &phase) in block.iter_mut().zip(&phases) {
                *x = a * shape(phase) + offset;
            }
        }
    }

    /// Returns the next `count` phases, in units of 2^-32 turn.
    #[inline]
    fn phases(&mut self, count: usize) -> [u32; LANES] {
        let mut phases = [0; LANES];
        for phase in &mut phases[..count] {
            *phase = self.phase.top();
            self.phase.advance(self.step);
        }
        phases
    }
}

fn square(phase: u32) -> f32 {
    if (phase as i32) < 0 { -1.0 } else { 1.0 }
}

fn triangle(phase: u32) -> f32 {
    folded(phase) as f32 * (4.0 / 4_294_967_296.0)
}

fn sawtooth(phase: u32) -> f32 {
    (phase ^ (1 << 31)) as i32 as f32 * (2.0 / 4_294_967_296.0)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use proptest::prelude::*;

    use super::*;

    fn real(settings: &GeneratorSettings, len: usize) -> Vec<f32> {
        let mut samples = vec![0.0; len];
        Generator::new(settings).unwrap().fill_real(&mut samples);
        samples
    }

    #[test]
    fn shapes_are_as_documented() {
        // The period is eight samples.
        let run = |waveform| {
            let settings = GeneratorSettings {
                sample_rate_hz: 8.0,
                frequency_hz: 1.0,
                waveform,
                amplitude: 2.0,
                offset: Complex::new(10.0, 0.0),
                ..Default::default()
            };
            real(&settings, 9).iter().map(|x| (x - 10.0) / 2.0).collect::<Vec<_>>()
        };
        let h = std::f32::consts::FRAC_1_SQRT_2;
        let close = |got: Vec<f32>, expected: [f32; 9]| {
            assert!(got.iter().zip(expected).all(|(g, e)| (g - e).abs() < 1e-5), "{got:?}");
        };
        close(run(Waveform::Sine), [0.0, h, 1.0, h, 0.0, -h, -1.0, -h, 0.0]);
        close(run(Waveform::Square), [1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0]);
        close(run(Waveform::Triangle), [0.0, 0.5, 1.0, 0.5, 0.0, -0.5, -1.0, -0.5, 0.0]);
        close(run(Waveform::Sawtooth), [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, -1.0]);
        close(run(Waveform::Constant), [1.0; 9]);
    }

    #[test]
    fn the_phase_is_right_after_a_long_run_and_at_negative_frequencies() {
        let settings = GeneratorSettings {
            sample_rate_hz: 2.4e6,
            frequency_hz: -123_456.7,
            phase_deg: 30.0,
            ..Default::default()
        };
        let mut generator = Generator::new(&settings).unwrap();
        let mut samples = vec![Complex::default(); 1_000_003];
        generator.fill(&mut samples);
        for n in [0, 1, 77, 999_999, 1_000_002] {
            let turns = (-123_456.7 / 2.4e6 * n as f64 + 30.0 / 360.0).fract();
            let expected = Complex::new((TAU * turns).cos() as f32, (TAU * turns).sin() as f32);
            assert!((samples[n] - expected).norm() < 1e-6, "sample {n}: {} for {expected}", samples[n]);
        }
        let steps = (samples.len() - 1) as u64;
        let turns = Phase::from_turns(-123_456.7 / 2.4e6).times(steps).plus(Phase::from_turns(30.0 / 360.0));
        assert_eq!(samples[samples.len() - 1], turns.exponential());
        assert!(samples.iter().all(|z| (z.norm() - 1.0).abs() < 1e-6));
    }

    #[test]
    fn noise_has_the_amplitude_as_its_rms() {
        let settings = GeneratorSettings { waveform: Waveform::Noise, amplitude: 0.1, ..Default::default() };
        let samples = real(&settings, 100_000);
        let rms = (samples.iter().map(|x| f64::from(x * x)).sum::<f64>() / 1e5).sqrt();
        assert!((rms - 0.1).abs() < 2e-3, "{rms}");
    }

    #[test]
    fn names_parse_back_and_nonsense_is_refused() {
        for waveform in Waveform::ALL {
            assert_eq!(waveform.to_string().parse::<Waveform>().unwrap(), waveform);
        }
        let message = "sinus".parse::<Waveform>().unwrap_err().to_string();
        assert!(message.contains("sinus") && message.contains("sine"), "{message}");
        let refused = |settings: GeneratorSettings, name: &str| {
            let message = Generator::new(&settings).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        };
        let default = GeneratorSettings::default();
        refused(GeneratorSettings { sample_rate_hz: 0.0, ..default }, "sample_rate_hz");
        refused(GeneratorSettings { frequency_hz: 24_001.0, ..default }, "frequency_hz");
        refused(GeneratorSettings { amplitude: f64::NAN, ..default }, "amplitude");
        refused(GeneratorSettings { offset: Complex::new(0.0, f64::INFINITY), ..default }, "offset (imag");
        refused(GeneratorSettings { phase_deg: f64::NEG_INFINITY, ..default }, "phase_deg");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn packets_do_not_matter(
            which in 0usize..6,
            frequency_hz in -24e3..24e3f64,
            sizes in prop::collection::vec(0usize..150, 0..20),
        ) {
            let settings = GeneratorSettings { waveform: Waveform::ALL[which], frequency_hz, ..Default::default() };
            let run = |sizes: &[usize]| {
                let (mut complex, mut real) = (Generator::new(&settings).unwrap(), Generator::new(&settings).unwrap());
                let (mut z, mut x, mut done) = (vec![Complex::default(); 900], vec![0.0; 900], 0);
                for &size in sizes.iter().chain([&usize::MAX]) {
                    let end = done + size.min(900 - done);
                    complex.fill(&mut z[done..end]);
                    real.fill_real(&mut x[done..end]);
                    done = end;
                }
                (z, x)
            };
            prop_assert_eq!(run(&sizes), run(&[]));
        }
    }
}
