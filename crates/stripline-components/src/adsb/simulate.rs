//! A simulated sky: aircraft that transmit at 1090 MHz, and the receiver's noise.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::f64::consts::TAU;

use num_complex::Complex;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::flight::{SimulatedAircraft, Transmission};
use super::frame::Frame;

/// The length of a pulse: half a microsecond.
const PULSE_S: f64 = 0.5e-6;
/// Positions of the pulses in the preamble, in pulse lengths.
const PREAMBLE: [usize; 4] = [0, 2, 7, 9];
/// The number of pulse lengths before the first bit.
const PREAMBLE_PULSES: usize = 16;
/// The silence between two frames, if frames may not overlap.
const GAP_NS: u64 = 20_000;
/// Noise is drawn once into a table. Runs of this length are combined from random places in the
/// table.
const NOISE_RUN: usize = 256;
const NOISE_TABLE: usize = 1 << 15;
/// Number of samples rendered at a time before conversion to bytes.
const BLOCK: usize = 2048;

/// The settings of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulationConfig {
    /// The seed of all random values.
    pub seed: u64,
    /// The number of aircraft, 0 to 65 536. Each sends about seven frames per second. Default: 8.
    pub aircraft: usize,
    /// Complex samples per second, 1e6 to 1e8. Default: 2e6, the rate of the demodulator.
    pub sample_rate_hz: f64,
    /// Pulse power of the weakest aircraft in dB relative to full scale, −80 to 0. Default: −22.
    pub level_min_dbfs: f32,
    /// Pulse power of the strongest aircraft in dB relative to full scale, −80 to 0. Default: −8.
    pub level_max_dbfs: f32,
    /// Power of the noise in dB relative to full scale, −200 to 0. Default: −40.
    pub noise_dbfs: f32,
    /// The largest offset of a transmitter from the receiver's frequency, in Hz, 0 to a quarter of
    /// the sample rate. Default: 50 000.
    pub carrier_offset_max_hz: f64,
    /// The share of each sample period over which the receiver integrates, 0.1 to 1. Default: 1, as
    /// in a receiver that is just wide enough for its sample rate. With 1, a pulse that starts half
    /// a sample late is split evenly, and the bits become 6 dB harder to distinguish. With a
    /// smaller share, this happens to fewer frames.
    pub aperture: f64,
    /// Whether frames may overlap, as they do in a real sky. If not, a frame waits until the
    /// previous frame has ended. Default: true.
    pub overlaps: bool,
}

impl Default for SimulationConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            aircraft: 8,
            sample_rate_hz: 2e6,
            level_min_dbfs: -22.0,
            level_max_dbfs: -8.0,
            noise_dbfs: -40.0,
            carrier_offset_max_hz: 50e3,
            aperture: 1.0,
            overlaps: true,
        }
    }
}

/// A transmitted frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sent {
    /// The frame.
    pub frame: Frame,
    /// The address of the sending aircraft, 24 bits.
    pub address: u32,
    /// The start of the first pulse of the preamble, in samples; rarely a whole number.
    pub start_samples: f64,
    /// Power of the pulses in dB relative to full scale.
    pub level_dbfs: f32,
}

/// An endless simulated recording at 1090 MHz.
///
/// The receiver integrates over part of each sample. A pulse that starts within this part is split
/// between two samples. Each aircraft has its own level, carrier offset and track. The same
/// configuration gives the same samples, for any block size.
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::adsb::simulate::{Simulation, SimulationConfig};
///
/// let mut simulation = Simulation::new(SimulationConfig { seed: 7, ..SimulationConfig::default() });
/// let mut samples = vec![Complex::new(0u8, 0); 200_000];
/// simulation.fill_cu8(&mut samples);
/// assert!(!simulation.take_sent().is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct Simulation {
    config: SimulationConfig,
    random: Xoshiro256PlusPlus,
    noise: Noise,
    aircraft: Vec<SimulatedAircraft>,
    /// The next transmission of each aircraft, earliest first.
    schedule: BinaryHeap<Reverse<(u64, usize, Transmission)>>,
    /// Frames that extend into later samples.
    on_air: Vec<PulseWaveform>,
    busy_until_ns: u64,
    /// Index of the next sample.
    sample: u64,
    sent: Vec<Sent>,
}

impl Simulation {
    /// Creates a simulation that starts at sample 0. Values out of range are clamped.
    #[must_use]
    pub fn new(config: SimulationConfig) -> Self {
        let sample_rate_hz = clamp(config.sample_rate_hz, 1e6, 1e8);
        let level = |level: f32| clamp(level.into(), -80.0, 0.0) as f32;
        let config = SimulationConfig {
            aircraft: config.aircraft.min(1 << 16),
            sample_rate_hz,
            level_min_dbfs: level(config.level_min_dbfs),
            level_max_dbfs: level(config.level_max_dbfs).max(level(config.level_min_dbfs)),
            noise_dbfs: clamp(config.noise_dbfs.into(), -200.0, 0.0) as f32,
            carrier_offset_max_hz: clamp(config.carrier_offset_max_hz, 0.0, sample_rate_hz / 4.0),
            aperture: clamp(config.aperture, 0.1, 1.0),
            ..config
        };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        let noise = Noise::new(config.noise_dbfs, &mut random);
        let mut aircraft = Vec::with_capacity(config.aircraft);
        let mut schedule = BinaryHeap::new();
        for index in 0..config.aircraft {
            aircraft.push(SimulatedAircraft::new(index, &config, &mut random));
            for kind in Transmission::ALL {
                let first_ns = (kind.interval_ns(&mut random) as f64 * uniform(&mut random, 0.0, 1.0)) as u64;
                schedule.push(Reverse((first_ns, index, kind)));
            }
        }
        Self {
            config,
            random,
            noise,
            aircraft,
            schedule,
            on_air: Vec::new(),
            busy_until_ns: 0,
            sample: 0,
            sent: Vec::new(),
        }
    }

    /// Fills `out` with the next samples. Full scale is an amplitude of 1; larger values are not
    /// clipped.
    pub fn fill(&mut self, out: &mut [Complex<f32>]) {
        self.noise.fill(out);
        let end = self.sample + out.len() as u64;
        self.transmit_until(end);
        for waveform in &self.on_air {
            waveform.add_to(out, self.sample);
        }
        self.on_air.retain(|waveform| waveform.end() > end);
        self.sample = end;
    }

    /// Fills `out` with the next samples of an eight-bit receiver: zero is at 127.5.
    pub fn fill_cu8(&mut self, out: &mut [Complex<u8>]) {
        let mut block = [Complex::new(0.0, 0.0); BLOCK];
        for out in out.chunks_mut(BLOCK) {
            let block = &mut block[..out.len()];
            self.fill(block);
            for (out, sample) in out.iter_mut().zip(block) {
                *out = Complex::new(to_byte(sample.re), to_byte(sample.im));
            }
        }
    }

    /// Returns the frames that started since the last call, ordered by start.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }

    /// Returns the configuration, with values out of range clamped.
    #[must_use]
    pub fn config(&self) -> &SimulationConfig {
        &self.config
    }

    /// Transmits all frames that start before sample `end`.
    fn transmit_until(&mut self, end: u64) {
        let samples_per_ns = self.config.sample_rate_hz / 1e9;
        while let Some(&Reverse((time_ns, index, kind))) = self.schedule.peek() {
            let start_samples = time_ns as f64 * samples_per_ns;
            if start_samples >= end as f64 {
                break;
            }
            self.schedule.pop();
            if !self.config.overlaps && time_ns < self.busy_until_ns {
                self.schedule.push(Reverse((self.busy_until_ns, index, kind)));
                continue;
            }
            let next_ns = time_ns + kind.interval_ns(&mut self.random);
            self.schedule.push(Reverse((next_ns, index, kind)));
            let aircraft = &mut self.aircraft[index];
            let frame = aircraft.frame(kind, time_ns, &mut self.random);
            let phase = uniform(&mut self.random, 0.0, TAU);
            self.on_air.push(PulseWaveform::new(&frame, start_samples, aircraft, phase, &self.config));
            let pulses = PREAMBLE_PULSES + 2 * frame.bits();
            self.busy_until_ns = time_ns + 500 * pulses as u64 + GAP_NS;
            let (address, level_dbfs) = (aircraft.address, aircraft.level_dbfs);
            self.sent.push(Sent { frame, address, start_samples, level_dbfs });
        }
    }
}

/// A frame as samples.
#[derive(Debug, Clone)]
struct PulseWaveform {
    first: u64,
    samples: Vec<Complex<f32>>,
}

impl PulseWaveform {
    fn new(
        frame: &Frame,
        start_samples: f64,
        aircraft: &SimulatedAircraft,
        phase_rad: f64,
        config: &SimulationConfig,
    ) -> Self {
        let pulse_samples = PULSE_S * config.sample_rate_hz;
        let first = start_samples.floor();
        let bits = frame.as_bytes().iter().flat_map(|byte| (0..8).map(move |bit| byte << bit & 0x80 != 0));
        let pulses = bits.enumerate().map(|(n, bit)| PREAMBLE_PULSES + 2 * n + usize::from(!bit));
        let count = PREAMBLE_PULSES + 2 * frame.bits();
        let length = (start_samples - first + count as f64 * pulse_samples).ceil() as usize;
        let mut envelope = vec![0.0; length + 1];
        for pulse in PREAMBLE.into_iter().chain(pulses) {
            let start = start_samples - first + pulse as f64 * pulse_samples;
            let end = start + pulse_samples;
            let (first, last) = (start as usize, (end as usize).min(length));
            for (n, share) in (first..).zip(&mut envelope[first..=last]) {
                // The receiver integrates over the middle of the sample.
                let opens = n as f64 + (1.0 - config.aperture) / 2.0;
                let seen = end.min(opens + config.aperture) - start.max(opens);
                *share += seen.max(0.0) / config.aperture;
            }
        }
        let amplitude = 10f64.powf(f64::from(aircraft.level_dbfs) / 20.0);
        let turn = TAU * aircraft.carrier_offset_hz / config.sample_rate_hz;
        let samples = envelope.iter().enumerate().map(|(n, share)| {
            let (sine, cosine) = (phase_rad + turn * n as f64).sin_cos();
            Complex::new((amplitude * share * cosine) as f32, (amplitude * share * sine) as f32)
        });
        Self { first: first as u64, samples: samples.collect() }
    }

    /// Returns the index of the sample after the last.
    fn end(&self) -> u64 {
        self.first + self.samples.len() as u64
    }

    /// Adds the part of the frame that falls into `out`, which starts at sample `start`.
    fn add_to(&self, out: &mut [Complex<f32>], start: u64) {
        let skipped = start.saturating_sub(self.first) as usize;
        let offset = self.first.saturating_sub(start) as usize;
        let (Some(samples), Some(out)) = (self.samples.get(skipped..), out.get_mut(offset..)) else { return };
        for (out, sample) in out.iter_mut().zip(samples) {
            *out += sample;
        }
    }
}

/// White Gaussian noise, combined from random parts of a table.
#[derive(Debug, Clone)]
struct Noise {
    random: Xoshiro256PlusPlus,
    table: Box<[Complex<f32>]>,
    /// The current positions in the table for the two noises, and the number of samples left in the
    /// run.
    places: [usize; 2],
    left: usize,
}

impl Noise {
    fn new(power_dbfs: f32, random: &mut Xoshiro256PlusPlus) -> Self {
        // Two noises are added, and each has two components.
        let sigma = (10f32.powf(power_dbfs / 10.0) / 4.0).sqrt();
        let random = Xoshiro256PlusPlus::seed_from_u64(random.next_u64());
        let mut drawn = random.clone();
        let mut normal = || {
            let value: f32 = StandardNormal.sample(&mut drawn);
            sigma * value
        };
        let table = (0..NOISE_TABLE + NOISE_RUN).map(|_| Complex::new(normal(), normal())).collect();
        Self { random, table, places: [0; 2], left: 0 }
    }

    fn fill(&mut self, mut out: &mut [Complex<f32>]) {
        while !out.is_empty() {
            if self.left == 0 {
                let places = self.random.next_u64();
                self.places = [places >> 32, places & 0xffff_ffff].map(|place| place as usize % NOISE_TABLE);
                self.left = NOISE_RUN;
            }
            let (now, later) = out.split_at_mut(out.len().min(self.left));
            let [one, other] = self.places.map(|place| &self.table[place..place + now.len()]);
            for ((out, one), other) in now.iter_mut().zip(one).zip(other) {
                *out = one + other;
            }
            self.left -= now.len();
            self.places = self.places.map(|place| place + now.len());
            out = later;
        }
    }
}

fn to_byte(value: f32) -> u8 {
    (127.5 * value + 128.0) as u8
}

/// Clamps as `f64::clamp` does, but returns the lower bound for NaN.
fn clamp(value: f64, least: f64, most: f64) -> f64 {
    value.max(least).min(most)
}

/// Returns a random number from `least` to `most`.
pub(super) fn uniform(random: &mut Xoshiro256PlusPlus, least: f64, most: f64) -> f64 {
    let share = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    least + share * (most - least)
}

/// Returns a random number below `bound`.
pub(super) fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    random.next_u64() % bound
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(config: SimulationConfig, parts: &[usize]) -> (Vec<Complex<f32>>, Vec<Sent>) {
        let mut simulation = Simulation::new(config);
        let mut samples = vec![Complex::new(0.0, 0.0); parts.iter().sum()];
        let mut rest = &mut samples[..];
        for &part in parts {
            let (now, later) = rest.split_at_mut(part);
            simulation.fill(now);
            rest = later;
        }
        (samples, simulation.take_sent())
    }

    #[test]
    fn a_seed_determines_everything_however_it_is_asked_for() {
        for overlaps in [false, true] {
            let config = SimulationConfig { aircraft: 300, overlaps, ..SimulationConfig::default() };
            let whole = record(config, &[100_000]);
            assert!(!whole.1.is_empty());
            assert!(whole == record(config, &[1, 333, 0, 1000, 50_000, 48_666]));
            assert!(whole != record(SimulationConfig { seed: 2, ..config }, &[100_000]));
        }
    }

    #[test]
    fn power_is_as_configured() {
        let config = SimulationConfig { aircraft: 0, noise_dbfs: -20.0, ..SimulationConfig::default() };
        let (samples, _) = record(config, &[200_000]);
        let power = samples.iter().map(Complex::norm_sqr).sum::<f32>() / samples.len() as f32;
        assert!((10.0 * power.log10() + 20.0).abs() < 0.1);

        let config = SimulationConfig {
            level_min_dbfs: -6.0,
            level_max_dbfs: -6.0,
            noise_dbfs: -200.0,
            aperture: 1.0,
            overlaps: false,
            ..SimulationConfig::default()
        };
        let (samples, sent) = record(config, &[2_000_000]);
        // Pulses that straddle two samples have less power in each, but the strongest samples have
        // the full power of a pulse.
        let strongest = samples.iter().map(Complex::norm_sqr).fold(0.0, f32::max);
        assert!((10.0 * strongest.log10() + 6.0).abs() < 0.1);
        assert!(sent.iter().all(|sent| sent.level_dbfs == -6.0));
        assert!(sent.windows(2).all(|pair| pair[1].start_samples - pair[0].start_samples > 128.0));
    }

    #[test]
    fn values_outside_their_ranges_are_moved_into_them() {
        let simulation = Simulation::new(SimulationConfig {
            sample_rate_hz: f64::NAN,
            level_max_dbfs: f32::NEG_INFINITY,
            carrier_offset_max_hz: f64::INFINITY,
            ..SimulationConfig::default()
        });
        assert_eq!(simulation.config().sample_rate_hz, 1e6);
        assert_eq!(simulation.config().level_max_dbfs, -22.0);
        assert_eq!(simulation.config().carrier_offset_max_hz, 250e3);
    }
}
