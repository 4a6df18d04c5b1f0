//! Demodulation of I/Q samples to candidates.

use bytemuck::Zeroable;
use num_complex::Complex;

use super::candidate::Candidate;
use super::frame::{LONG_BYTES, bytes_of_format};
use super::preamble::{self, mark};
use super::sample::{IqSample, Power};
use super::slice::{BITS_MAX, Pulse, SequenceSlicer};

/// The sample rate that the demodulator requires, in Hz.
pub const SAMPLE_RATE_HZ: u32 = 2_000_000;

const PREAMBLE: usize = preamble::SPAN;
/// Samples of a long frame, including the preamble.
const FRAME: usize = PREAMBLE + 2 * BITS_MAX;
/// Number of samples before a position that are used by the test of the position, because a
/// neighbour may fit better. `AFTER` is the number of samples from the position on.
const BEFORE: usize = 1;
const AFTER: usize = FRAME;
/// Number of positions tested at once. The data stays in the first-level cache.
const BLOCK: usize = 4096;
const BUFFER: usize = BEFORE + BLOCK + AFTER - 1;

/// The limits for a [`Demodulator`]'s candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DemodulatorConfig {
    /// The minimum power of a preamble, in dB relative to full scale. Minus infinity: no limit.
    pub level_min_dbfs: f32,
    /// The minimum ratio of the power of the pulses to the power between them, in dB, −20 to 60.
    /// Default: 6; almost no frame is received below that.
    ///
    /// If pulses straddle two samples evenly, the limit is up to 6 dB higher, because the bits are
    /// harder to distinguish.
    pub snr_min_db: f32,
    /// The maximum difference between the samples of a frame and the best sequence of bits: the
    /// mean squared error of a sample over the squared amplitude of a pulse. 0 (only perfect
    /// frames) to 1 (any frame). Default: 0.12.
    pub error_max: f32,
}

impl Default for DemodulatorConfig {
    fn default() -> Self {
        Self { level_min_dbfs: f32::NEG_INFINITY, snr_min_db: 6.0, error_max: 0.12 }
    }
}

/// A demodulator that finds possible Mode S frames in I/Q samples at 2 Msample/s.
///
/// The candidates depend only on the samples, not on the division into packets. A candidate is
/// returned as soon as 240 samples from its first sample on are present.
///
/// See [`Decoder`](super::decode::Decoder) for an example.
#[derive(Debug, Clone)]
pub struct Demodulator<T: IqSample> {
    config: DemodulatorConfig,
    /// The configured limits as ratios. The minimum power is in the unit of the format.
    power_min: f32,
    snr_min: f32,
    /// Power of the latest samples. The first `filled` entries are valid.
    power: Box<[T::Power]>,
    filled: usize,
    /// Index of `power[BEFORE]`, the first position that is not tested yet.
    position: u64,
    pairs: Box<[T::Power]>,
    marks: Box<[u8]>,
}

impl<T: IqSample> Demodulator<T> {
    /// Creates a demodulator for a stream that starts at sample 0.
    #[must_use]
    pub fn new(config: DemodulatorConfig) -> Self {
        Self {
            config,
            power_min: T::FULL_SCALE * ratio(config.level_min_dbfs),
            snr_min: ratio(config.snr_min_db),
            power: vec![T::Power::zeroed(); BUFFER].into(),
            // Assume silence before the first sample.
            filled: BEFORE,
            position: 0,
            pairs: vec![T::Power::zeroed(); BUFFER].into(),
            marks: vec![0; BLOCK].into(),
        }
    }

    /// Sets other limits for the next samples.
    pub fn set_config(&mut self, config: DemodulatorConfig) {
        let Self { power_min, snr_min, .. } = Self::new(config);
        (self.config, self.power_min, self.snr_min) = (config, power_min, snr_min);
    }

    /// Processes the next samples and passes each candidate to `out`, in the order of positions.
    pub fn push(&mut self, mut samples: &[Complex<T>], mut out: impl FnMut(Candidate)) {
        while !samples.is_empty() {
            let (now, later) = samples.split_at(samples.len().min(BUFFER - self.filled));
            T::powers(now, &mut self.power[self.filled..self.filled + now.len()]);
            self.filled += now.len();
            samples = later;
            self.test(&mut out);
        }
    }

    /// Ends the stream and tests the last positions as if silence followed. After that, a new
    /// stream starts at sample 0.
    pub fn finish(&mut self, out: impl FnMut(Candidate)) {
        // There is enough space: no position remains for which all samples are present.
        let end = self.filled + AFTER - 1;
        self.power[self.filled..end].fill(T::Power::zeroed());
        self.filled = end;
        self.test(out);
        self.power[..BEFORE].fill(T::Power::zeroed());
        self.filled = BEFORE;
        self.position = 0;
    }

    /// Tests the positions for which all samples are present, and drops samples that are no longer
    /// needed.
    fn test(&mut self, mut out: impl FnMut(Candidate)) {
        let count = self.filled.saturating_sub(BEFORE + AFTER - 1);
        if count == 0 {
            return;
        }
        let power = &self.power[BEFORE..self.filled];
        mark(power, &mut self.pairs, &mut self.marks[..count]);
        let mut searched = 0;
        while let Some(offset) = next_mark(&self.marks[searched..count]) {
            let n = searched + offset;
            let around = &self.power[n..n + BEFORE + AFTER];
            if let Ok(around) = around.try_into() {
                self.candidates_at(self.position + n as u64, around, &mut out);
            }
            searched = n + 1;
        }
        self.power.copy_within(count..self.filled, 0);
        self.filled -= count;
        self.position += count as u64;
    }

    /// Decodes the bits after a marked position. `around` begins one sample before the position.
    fn candidates_at(
        &self,
        sample: u64,
        around: &[T::Power; BEFORE + AFTER],
        out: &mut impl FnMut(Candidate),
    ) {
        if !fits_best(around) {
            return;
        }
        let power = &around[BEFORE..];
        let pulse = measure(power);
        let pulse_power = pulse.amplitude * pulse.amplitude;
        // Silence counts as slightly more than zero, so that the ratio stays finite.
        let snr = pulse_power / pulse.noise.max(1e-9 * T::FULL_SCALE);
        // NaN fails these tests too.
        let is_strong = pulse_power >= self.power_min && snr * pulse.distinction() >= self.snr_min;
        if !(is_strong && pulse_power.is_normal()) {
            return;
        }
        let mut amplitudes = [0.0; 2 * BITS_MAX];
        let mut slicer = SequenceSlicer::new(pulse);
        let mut bits = 0;
        let allowed = self.config.error_max * pulse_power;
        // Most false preambles are detected in the first bits.
        for more in [12, 56, BITS_MAX] {
            for (amplitude, power) in
                amplitudes[2 * bits..2 * more].iter_mut().zip(&power[PREAMBLE + 2 * bits..])
            {
                *amplitude = power.to_f32().sqrt();
            }
            slicer.push(&amplitudes[2 * bits..2 * more]);
            bits = more;
            let (best, error) = slicer.best();
            let format = (best >> (bits - 5)) as u8;
            // An error of NaN counts as unlikely.
            let is_likely = error <= allowed * 2.0 * bits as f32;
            if !is_likely || !is_known_format(format) {
                return;
            }
            if bits == 8 * bytes_of_format(format) {
                break;
            }
        }
        let mut slicer = slicer.relearned(slicer.best().0, &amplitudes[..2 * bits]);
        slicer.push(&amplitudes[..2 * bits]);
        let (best, error) = slicer.best();
        let format = (best >> (bits - 5)) as u8;
        if !is_known_format(format) || bits != 8 * bytes_of_format(format) {
            return;
        }
        let length = bits / 8;
        let mut bytes = [0; LONG_BYTES];
        bytes[..length].copy_from_slice(&(best << (128 - bits)).to_be_bytes()[..length]);
        out(Candidate {
            sample,
            fraction: pulse.fraction,
            level_dbfs: decibels(pulse_power / T::FULL_SCALE),
            snr_db: decibels(snr),
            error: error / (2.0 * bits as f32 * pulse_power),
            bytes,
            length: length as u8,
            reserved: 0,
        });
    }
}

/// Returns whether the decoder can verify frames of this downlink format.
fn is_known_format(format: u8) -> bool {
    matches!(format, 0 | 4 | 5 | 11 | 16 | 17 | 18 | 20 | 21 | 24..=31)
}

/// Returns whether a preamble fits position [`BEFORE`] better than the neighbouring positions.
fn fits_best<P: Power>(around: &[P; BEFORE + AFTER]) -> bool {
    let score = |offset: usize| {
        let all =
            |places: [usize; 8]| places.iter().map(|place| around[offset + place].to_f32()).sum::<f32>();
        all([0, 1, 2, 3, 7, 8, 9, 10]) - 3.0 * all([4, 5, 6, 11, 12, 13, 14, 15])
    };
    let here = score(BEFORE);
    here > score(BEFORE - 1) && here >= score(BEFORE + 1)
}

/// Measures amplitude, delay and background of the pulses in a preamble.
fn measure<P: Power>(power: &[P]) -> Pulse {
    let mean = |places: &[usize]| {
        places.iter().map(|&place| power[place].to_f32()).sum::<f32>() / places.len() as f32
    };
    let noise = mean(&[4, 5, 6, 11, 12, 13, 14, 15]);
    let early = (mean(&[0, 2, 7, 9]) - noise).max(0.0).sqrt();
    let late = (mean(&[1, 3, 8, 10]) - noise).max(0.0).sqrt();
    let amplitude = early + late;
    Pulse { amplitude, fraction: late / amplitude.max(f32::MIN_POSITIVE), noise }
}

fn ratio(decibels: f32) -> f32 {
    10f32.powf(decibels / 10.0)
}

fn decibels(ratio: f32) -> f32 {
    10.0 * ratio.log10()
}

/// Returns the index of the first non-zero byte.
fn next_mark(marks: &[u8]) -> Option<usize> {
    let (words, _) = marks.as_chunks::<8>();
    let skipped = 8 * words.iter().position(|&word| u64::from_ne_bytes(word) != 0).unwrap_or(words.len());
    marks[skipped..].iter().position(|&mark| mark != 0).map(|offset| skipped + offset)
}
