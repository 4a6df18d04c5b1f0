//! A simulated broadcast FM station at baseband.

use num_complex::Complex;

use super::error::{DspError, Parameter, check_sample_rate};
use super::noise::Awgn;
use super::phase::{Phase, sine};

/// The peak deviation of broadcast FM, in Hz (ITU-R BS.450).
pub const STATION_DEVIATION_HZ: f64 = 75e3;
/// The stereo pilot tone, in Hz (ITU-R BS.450).
pub const STATION_PILOT_HZ: f64 = 19e3;

const BLOCK: &str = "FM station";
/// The lowest sample rate: the bandwidth of 75 kHz deviation and 15 kHz audio (Carson's rule), and
/// a margin.
const RATE_HZ_MIN: f64 = 192e3;
const RATE_HZ_MAX: f64 = 1e9;

/// The length of a beat of the tune, in seconds.
const BEAT_S: f64 = 0.25;
/// The duration of the rise and the fall of each note, in seconds.
const RAMP_S: f64 = 0.005;
/// The peak of the tune before pre-emphasis. At 75 us, the highest note is raised by 6 %, which
/// stays below 1.
const LEVEL: f64 = 0.9;
/// The tune (the beginning of Beethoven's Ode to Joy): the left voice and the right voice, a third
/// below, in Hz; the length in beats.
const TUNE: [(f64, f64, f64); 15] = [
    (E5, C5, 1.0),
    (E5, C5, 1.0),
    (F5, D5, 1.0),
    (G5, E5, 1.0),
    (G5, E5, 1.0),
    (F5, D5, 1.0),
    (E5, C5, 1.0),
    (D5, B4, 1.0),
    (C5, A4, 1.0),
    (C5, A4, 1.0),
    (D5, B4, 1.0),
    (E5, C5, 1.0),
    (E5, C5, 1.5),
    (D5, B4, 0.5),
    (D5, B4, 2.0),
];
const A4: f64 = 440.0;
const B4: f64 = 493.883_301_256_124;
const C5: f64 = 523.251_130_601_197;
const D5: f64 = 587.329_535_834_815;
const E5: f64 = 659.255_113_825_74;
const F5: f64 = 698.456_462_866_008;
const G5: f64 = 783.990_871_963_499;

/// The settings of an [`FmStation`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FmStationSettings {
    /// The sample rate of the stream in Hz, 192,000 to 10^9.
    pub sample_rate_hz: f64,
    /// The offset of the carrier from the centre of the stream, in Hz. The deviation must fit
    /// beside the carrier.
    pub offset_hz: f64,
    /// The magnitude of the carrier, 0 to 10^6.
    pub amplitude: f64,
    /// The ratio of the carrier's power to the noise power over the whole sampled bandwidth, -300
    /// to 300 dB; `None` for no noise.
    pub snr_db: Option<f64>,
    /// The seed of the noise.
    pub seed: u64,
    /// Whether to transmit in stereo (pilot-tone system, ITU-R BS.450). Stereo needs a sample rate
    /// of at least 240 kHz.
    pub stereo: bool,
    /// The time constant of the pre-emphasis in µs, 0 (none) to 75.
    pub preemphasis_us: f64,
}

impl Default for FmStationSettings {
    /// Returns: mono, in the middle of a 240 kHz stream, amplitude 1, 30 dB above the noise, 50 µs.
    fn default() -> Self {
        Self {
            sample_rate_hz: 240e3,
            offset_hz: 0.0,
            amplitude: 1.0,
            snr_db: Some(30.0),
            seed: 0,
            stereo: false,
            preemphasis_us: 50.0,
        }
    }
}

/// A broadcast FM station that plays a short tune for ever, with 75 kHz peak deviation,
/// pre-emphasis, noise, and optionally stereo with a 19 kHz pilot. The same settings always give
/// the same samples.
///
/// The mono signal is the left voice alone, so that the output of a receiver is one sine tone at a
/// time: see [`tone_at`](Self::tone_at).
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::dsp::{FmStation, FmStationSettings};
///
/// let mut station = FmStation::new(&FmStationSettings { snr_db: None, ..Default::default() })?;
/// let mut samples = [Complex::default(); 1000];
/// station.fill(&mut samples);
/// assert!(samples.iter().all(|z| (z.norm() - 1.0).abs() < 1e-6), "FM has a constant envelope");
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct FmStation {
    tune: Tune,
    stereo: bool,
    pilot: Phase,
    pilot_step: Phase,
    carrier: Phase,
    carrier_step: Phase,
    /// The phase step of the carrier at full deviation, in units of 2^-32 turn.
    deviation: f32,
    amplitude: f32,
    noise: Option<Awgn>,
}

/// The number of samples modulated at a time.
const CHUNK: usize = 256;

impl FmStation {
    /// Creates a station with these settings.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn new(settings: &FmStationSettings) -> Result<Self, DspError> {
        let parameter = |name, unit, remedy| Parameter { block: BLOCK, name, unit, remedy };
        let rate = check_sample_rate(BLOCK, settings.sample_rate_hz)?;
        let (rate_min, remedy) = match settings.stereo {
            false => (RATE_HZ_MIN, "240000 is a usual choice"),
            true => (240e3, "raise it, or transmit in mono"),
        };
        parameter("sample_rate_hz", "Hz", remedy).check(rate, rate_min..=RATE_HZ_MAX)?;
        let room = rate / 2.0 - STATION_DEVIATION_HZ;
        let offset = parameter("offset_hz", "Hz", "the 75 kHz deviation must fit beside it: raise the rate")
            .check(settings.offset_hz, -room..=room)?;
        let amplitude = parameter("amplitude", "", "1 is full scale").check(settings.amplitude, 0.0..=1e6)?;
        let pre_emphasis = parameter("preemphasis_us", "us", "use 50 in Europe, 75 in the Americas")
            .check(settings.preemphasis_us, 0.0..=75.0)?;
        let noise = settings
            .snr_db
            .map(|snr_db| Awgn::with_snr(snr_db, amplitude * amplitude, settings.seed))
            .transpose()?;
        Ok(Self {
            tune: Tune::new(rate, pre_emphasis * 1e-6),
            stereo: settings.stereo,
            pilot: Phase::ZERO,
            pilot_step: Phase::from_turns(STATION_PILOT_HZ / rate),
            carrier: Phase::ZERO,
            carrier_step: Phase::from_turns(offset / rate),
            deviation: (STATION_DEVIATION_HZ / rate * 4_294_967_296.0) as f32,
            amplitude: amplitude as f32,
            noise,
        })
    }

    /// Overwrites `samples` with the next samples of the signal.
    pub fn fill(&mut self, samples: &mut [Complex<f32>]) {
        for chunk in samples.chunks_mut(CHUNK) {
            let (mut left, mut right) = ([0.0; CHUNK], [0.0; CHUNK]);
            let (left, right) = (&mut left[..chunk.len()], &mut right[..chunk.len()]);
            self.tune.fill(left, self.stereo.then_some(&mut *right));
            if self.stereo {
                self.multiplex(left, right);
            }
            let mut phases = [0u32; CHUNK];
            for (phase, &modulation) in phases.iter_mut().zip(&*left) {
                *phase = self.carrier.top();
                self.carrier.advance(self.carrier_step);
                self.carrier.advance(Phase::from_top((modulation * self.deviation) as i32));
            }
            for (x, &phase) in chunk.iter_mut().zip(&phases) {
                *x = super::phase::exponential(phase) * self.amplitude;
            }
        }
        if let Some(noise) = &mut self.noise {
            noise.add(samples);
        }
    }

    /// Returns the tones of the left voice (also the mono signal) and the right voice `seconds`
    /// after the start, in Hz. Each note rises and falls within 5 ms of its ends.
    pub fn tone_at(seconds: f64) -> (f64, f64) {
        let total: f64 = TUNE.iter().map(|note| note.2 * BEAT_S).sum();
        let mut t = seconds.rem_euclid(total);
        for (left, right, beats) in TUNE {
            t -= beats * BEAT_S;
            if t < 0.0 {
                return (left, right);
            }
        }
        (TUNE[0].0, TUNE[0].1)
    }

    /// Replaces the left voice by the stereo multiplex: 90 % is the sum and, at twice the frequency
    /// of the pilot, the difference; 10 % is the pilot.
    fn multiplex(&mut self, left: &mut [f32], right: &[f32]) {
        for (l, &r) in left.iter_mut().zip(right) {
            let pilot = self.pilot.top();
            let difference = (*l - r) * sine(pilot.wrapping_mul(2));
            *l = 0.45 * (*l + r + difference) + 0.1 * sine(pilot);
            self.pilot.advance(self.pilot_step);
        }
    }
}

/// The tune, played sample by sample for ever.
#[derive(Debug, Clone)]
struct Tune {
    notes: [Note; TUNE.len()],
    /// Index of the current note, the sample within it, and the phases of the two voices.
    index: usize,
    position: u64,
    phases: [Phase; 2],
    ramp: u64,
}

#[derive(Debug, Clone, Copy)]
struct Note {
    /// The length of the note in samples, at least 1.
    length: u64,
    steps: [Phase; 2],
    levels: [f32; 2],
}

impl Tune {
    fn new(rate: f64, pre_emphasis_s: f64) -> Self {
        let mut beats_before = 0.0;
        let notes = TUNE.map(|(left, right, beats)| {
            let start = (beats_before * BEAT_S * rate).round();
            beats_before += beats;
            let end = (beats_before * BEAT_S * rate).round();
            // Apply the effect of a pre-emphasis filter on a steady tone.
            let level = |hz: f64| {
                (LEVEL * (1.0 + (std::f64::consts::TAU * hz * pre_emphasis_s).powi(2)).sqrt()) as f32
            };
            Note {
                length: (end - start) as u64,
                steps: [left, right].map(|hz| Phase::from_turns(hz / rate)),
                levels: [left, right].map(level),
            }
        });
        let ramp = (RAMP_S * rate).round() as u64;
        Self { notes, index: 0, position: 0, phases: [Phase::ZERO; 2], ramp }
    }

    fn fill(&mut self, left: &mut [f32], mut right: Option<&mut [f32]>) {
        let mut done = 0;
        while done < left.len() {
            let note = self.notes[self.index];
            let remaining = note.length - self.position;
            let count = usize::try_from(remaining).unwrap_or(usize::MAX).min(left.len() - done);
            for i in done..done + count {
                let edge = self.position.min(note.length - 1 - self.position);
                // The straight ramp is bent into an S, so that notes begin and end without a click.
                let r = (edge as f32 / self.ramp as f32).min(1.0);
                let envelope = r * r * (3.0 - 2.0 * r);
                left[i] = envelope * note.levels[0] * self.phases[0].sine();
                self.phases[0].advance(note.steps[0]);
                if let Some(right) = &mut right {
                    right[i] = envelope * note.levels[1] * self.phases[1].sine();
                    self.phases[1].advance(note.steps[1]);
                }
                self.position += 1;
            }
            done += count;
            if self.position == note.length {
                self.index = (self.index + 1) % self.notes.len();
                self.position = 0;
                self.phases = [Phase::ZERO; 2];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustfft::FftPlanner;

    use super::super::fir::DecimatingFir;
    use super::super::fm::{DeEmphasis, FmDemodulator};
    use super::super::taps::{FirLength, Taps, Window};
    use super::*;

    fn received(settings: &FmStationSettings, len: usize) -> Vec<f32> {
        let mut samples = vec![Complex::default(); len];
        FmStation::new(settings).unwrap().fill(&mut samples);
        let mut audio = vec![0.0; len];
        FmDemodulator::new(settings.sample_rate_hz, STATION_DEVIATION_HZ)
            .unwrap()
            .demodulate(&samples, &mut audio);
        audio[0] = 0.0;
        audio
    }

    /// Returns the amplitude of a tone of `hz` in `audio`.
    fn level(audio: &[f32], rate: f64, hz: f64) -> f64 {
        let step = -std::f64::consts::TAU * hz / rate;
        let sum: Complex<f64> =
            audio.iter().enumerate().map(|(n, &a)| Complex::from_polar(f64::from(a), step * n as f64)).sum();
        2.0 * sum.norm() / audio.len() as f64
    }

    #[test]
    fn the_tune_is_heard_through_a_whole_receiver() {
        let settings = FmStationSettings { snr_db: Some(20.0), seed: 7, ..Default::default() };
        let mut audio = received(&settings, 240_000);
        DeEmphasis::new(240e3, settings.preemphasis_us).unwrap().filter(&mut audio);
        let taps = Taps::low_pass(240e3, 15e3, FirLength::TransitionHz(8e3), Window::Hamming).unwrap();
        let mut decimator = DecimatingFir::new(&taps, 5).unwrap();
        let mut speaker = vec![0.0; decimator.outputs_for(audio.len())];
        decimator.filter(&audio, &mut speaker);
        // Take 100 ms in the middle of each of the first four notes.
        for note in 0..4 {
            let start = note * 12_000 + 4_000;
            let heard = &speaker[start..start + 4_800];
            let (left, _) = FmStation::tone_at((start as f64) / 48e3);
            let tone = level(heard, 48e3, left);
            assert!((tone - 0.9).abs() < 0.02, "note {note}: {tone} at {left} Hz");
            let mut bins: Vec<_> = heard.iter().map(|&a| Complex::new(a, 0.0)).collect();
            FftPlanner::new().plan_fft_forward(bins.len()).process(&mut bins);
            let loudest = (1..2400).max_by(|&a, &b| bins[a].norm().total_cmp(&bins[b].norm())).unwrap();
            assert!((loudest as f64 * 10.0 - left).abs() <= 10.0, "note {note}: {loudest}");
        }
    }

    #[test]
    fn the_deviation_stays_within_75_khz() {
        for (stereo, preemphasis_us) in [(false, 50.0), (false, 75.0), (true, 50.0), (true, 75.0)] {
            let settings = FmStationSettings { snr_db: None, stereo, preemphasis_us, ..Default::default() };
            let audio = received(&settings, 400_000);
            let peak = audio.iter().fold(0.0f32, |m, a| m.max(a.abs()));
            assert!((0.85..1.0).contains(&peak), "{stereo} {preemphasis_us}: {peak}");
        }
    }

    #[test]
    fn stereo_has_pilot_sum_and_difference() {
        let settings = FmStationSettings {
            snr_db: None,
            stereo: true,
            sample_rate_hz: 480e3,
            offset_hz: 100e3,
            preemphasis_us: 0.0,
            ..Default::default()
        };
        // Take 100 ms of the first note: E5 at the left, C5 at the right.
        let audio = &received(&settings, 96_000)[24_000..72_000];
        let (left, right) = FmStation::tone_at(0.1);
        let mean = audio.iter().sum::<f32>() / audio.len() as f32;
        assert!((f64::from(mean) - 100e3 / 75e3).abs() < 0.01, "the offset: {mean}");
        let audio: Vec<f32> = audio.iter().map(|a| a - mean).collect();
        let near = |hz: f64, expected: f64| {
            let level = level(&audio, 480e3, hz);
            assert!((level - expected).abs() < 0.02, "{level} at {hz} Hz");
        };
        near(STATION_PILOT_HZ, 0.1);
        near(left, 0.45 * 0.9);
        near(right, 0.45 * 0.9);
        near(38e3 - left, 0.45 * 0.9 / 2.0);
        near(38e3 + right, 0.45 * 0.9 / 2.0);
    }

    #[test]
    fn the_snr_is_as_asked_and_the_tune_comes_round() {
        let settings = FmStationSettings { snr_db: None, amplitude: 0.5, ..Default::default() };
        let len = 4 * 240_000;
        let (mut clean, mut noisy) = (vec![Complex::default(); len + 100], vec![Complex::default(); len]);
        FmStation::new(&settings).unwrap().fill(&mut clean);
        FmStation::new(&FmStationSettings { snr_db: Some(15.0), ..settings }).unwrap().fill(&mut noisy);
        let noise = noisy.iter().zip(&clean).map(|(a, b)| f64::from((a - b).norm_sqr())).sum::<f64>();
        let snr = 10.0 * (0.25 * len as f64 / noise).log10();
        assert!((snr - 15.0).abs() < 0.05, "{snr}");
        // 16 beats of 0.25 s later, the tune starts again, at any phase of the carrier.
        let step = |n: usize| clean[n + 1] * clean[n].conj();
        assert!((0..99).all(|n| (step(n) - step(n + len)).norm() < 1e-5));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = |settings: FmStationSettings, name: &str| {
            let message = FmStation::new(&settings).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        };
        let default = FmStationSettings::default();
        refused(FmStationSettings { sample_rate_hz: 48e3, ..default }, "sample_rate_hz");
        refused(FmStationSettings { sample_rate_hz: 200e3, stereo: true, ..default }, "mono");
        refused(FmStationSettings { offset_hz: 50e3, ..default }, "offset_hz");
        refused(FmStationSettings { amplitude: -1.0, ..default }, "amplitude");
        refused(FmStationSettings { snr_db: Some(f64::NAN), ..default }, "snr_db");
        refused(FmStationSettings { preemphasis_us: 100.0, ..default }, "preemphasis_us");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn packets_do_not_matter(stereo: bool, sizes in prop::collection::vec(0usize..20_000, 0..12)) {
            const LEN: usize = 70_000;
            let settings = FmStationSettings { stereo, ..Default::default() };
            let run = |sizes: &[usize]| {
                let mut station = FmStation::new(&settings).unwrap();
                let (mut samples, mut done) = (vec![Complex::default(); LEN], 0);
                for &size in sizes.iter().chain([&usize::MAX]) {
                    let end = done + size.min(LEN - done);
                    station.fill(&mut samples[done..end]);
                    done = end;
                }
                samples
            };
            prop_assert!(run(&sizes) == run(&[]));
        }
    }
}
