//! The spectrum of a port: its newest samples, through a tap, while a page shows it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustfft::algorithm::Radix4;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, Length};
use serde::Serialize;
use stripline::node::Subscriber;
use stripline::payload::{Number, Scalar, ScalarValue, TypeName};
use stripline::{Packet, Received};
use stripline_waveform::control::{ControlClient, Tapped};

/// The interval between two spectra.
const INTERVAL: Duration = Duration::from_millis(100);
/// Packets that may wait in the tap. Older ones are dropped: only the newest samples count.
const DEPTH: u32 = 512;
/// Samples of a spectrum; fewer while fewer have arrived.
const SAMPLES_MAX: usize = 4096;
/// The fewest samples of a spectrum.
const SAMPLES_MIN: usize = 64;
/// Values sent to the page; each is the largest of those that it stands for.
const BINS_MAX: usize = 512;
/// The level of no power at all, in decibels.
const FLOOR_DB: f32 = -200.0;
/// Threads for spectra at a time: one for each client with a spectrum, and those about to end.
const THREADS_MAX: usize = 32;

/// The number of these threads.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The spectrum of a port, as the page gets it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Spectrum {
    /// The sending port.
    pub port: String,
    pub payload: String,
    pub sample_rate_hz: Option<f64>,
    pub center_frequency_hz: Option<f64>,
    /// From minus to plus half the sample rate, or else from 0 to half of it.
    pub is_complex: bool,
    /// Levels in decibels; a full-scale sine has 0.
    pub levels_db: Vec<f32>,
    /// Counts the spectra: the same number is the same spectrum.
    pub number: u64,
    /// The reason that no spectrum, or no further one, can be shown.
    pub problem: Option<String>,
}

/// A spectrum that is updated until it is dropped.
pub(super) struct SpectrumView {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    latest: Mutex<Spectrum>,
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl SpectrumView {
    /// Attaches to a port in the background.
    pub(super) fn open(client: ControlClient, component: String, port: String) -> Self {
        let view = Self { shared: Arc::default() };
        // Relaxed: the number stands for itself.
        if THREADS.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            view.shared.fail(format!(
                "{THREADS_MAX} spectra have not ended yet; choose another port, and then this one again"
            ));
            return view;
        }
        let shared = Arc::clone(&view.shared);
        let work = move || {
            let _count = SpectrumCount;
            if let Err(problem) = shared.follow(&client, &component, &port) {
                shared.fail(problem);
            }
        };
        if std::thread::Builder::new().name("stripline-fft".into()).spawn(work).is_err() {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            view.shared.fail("cannot start a thread".into());
        }
        view
    }

    /// Returns the newest spectrum.
    pub(super) fn latest(&self) -> Spectrum {
        self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for SpectrumView {
    fn drop(&mut self) {
        *self.shared.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ended.notify_all();
    }
}

/// The place of a spectrum, until it is dropped.
struct SpectrumCount;

impl Drop for SpectrumCount {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Waits for the next spectrum; false: nothing shows it any more.
    fn pause(&self) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(is_over, INTERVAL, |is_over| !*is_over);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn update(&self, change: impl FnOnce(&mut Spectrum)) {
        change(&mut self.latest.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn fail(&self, problem: String) {
        self.update(|spectrum| spectrum.problem = Some(problem));
    }

    /// Updates the spectrum until nothing shows it, or the port has ended.
    ///
    /// # Errors
    /// A sentence for the page.
    fn follow(&self, client: &ControlClient, component: &str, port: &str) -> Result<(), String> {
        let mut analyser = Analyser::default();
        loop {
            let tap = match client.tap(component, port, DEPTH).map_err(|error| error.to_string())? {
                Tapped::Open(tap) => tap,
                Tapped::Ended { port } => return Err(format!("{port} sends nothing more")),
            };
            let scalar = scalar_of(tap.payload())?;
            self.update(|spectrum| {
                spectrum.port = tap.port().into();
                spectrum.payload = tap.payload().as_str().into();
                spectrum.is_complex = scalar.is_complex();
            });
            let mut subscriber = tap.into_subscriber();
            analyser.clear();
            loop {
                if !self.pause() {
                    return Ok(());
                }
                let is_open = self.take(&mut subscriber, scalar, &mut analyser).map_err(|e| e.to_string())?;
                if let Some(levels_db) = analyser.levels_db(scalar.is_complex()) {
                    self.update(|spectrum| {
                        spectrum.levels_db = levels_db;
                        spectrum.number += 1;
                    });
                }
                if !is_open {
                    // Its component has ended, or is started again.
                    break;
                }
            }
        }
    }

    /// Takes what waits. Returns whether more may follow.
    fn take(
        &self,
        subscriber: &mut Subscriber<u8>,
        scalar: Scalar,
        analyser: &mut Analyser,
    ) -> Result<bool, stripline::Error> {
        // A fast sender fills the queue again meanwhile.
        for _ in 0..DEPTH {
            match subscriber.try_receive()? {
                Received::Packet(packet) => {
                    analyser.add_packet(&packet, scalar);
                    let stream = packet.stream();
                    let (rate, center) = (stream.sample_rate_hz, stream.center_frequency_hz);
                    self.update(|spectrum| {
                        (spectrum.sample_rate_hz, spectrum.center_frequency_hz) = (rate, center);
                    });
                }
                Received::Empty => return Ok(true),
                Received::Ended => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Returns the kind of the samples.
fn scalar_of(payload: &TypeName) -> Result<Scalar, String> {
    let name = payload.as_str();
    Scalar::parse(name).ok_or_else(|| {
        let name = name.split('{').next().unwrap_or_default();
        format!("it sends {name}; a spectrum needs samples that are numbers, as f32 or cf32")
    })
}

/// The newest samples in a row, and their spectrum.
#[derive(Default)]
struct Analyser {
    samples: Vec<Complex<f32>>,
    /// For the last length. All are powers of two: a planner for any length would make the
    /// executable much larger.
    transform: Option<Radix4<f32>>,
}

impl Analyser {
    fn clear(&mut self) {
        self.samples.clear();
    }

    fn add_packet(&mut self, packet: &Packet<'_, u8>, scalar: Scalar) {
        if packet.gap().is_some() {
            self.clear();
        }
        self.add(packet, scalar);
    }

    /// Adds samples, and forgets those before the newest [`SAMPLES_MAX`].
    fn add(&mut self, bytes: &[u8], scalar: Scalar) {
        let newest = bytes.len() / scalar.size() * scalar.size();
        let skipped = newest.saturating_sub(SAMPLES_MAX * scalar.size());
        let values = bytes[skipped..newest].chunks_exact(scalar.size());
        let full_scale = full_scale(scalar);
        self.samples.extend(values.filter_map(|bytes| scalar.read(bytes)).map(|value| {
            let (re, im) = match value {
                ScalarValue::Real(re) => (re.as_f64(), 0.0),
                ScalarValue::Complex(re, im) => (re.as_f64(), im.as_f64()),
            };
            let finite = |x: f64| if x.is_finite() { (x / full_scale) as f32 } else { 0.0 };
            Complex::new(finite(re), finite(im))
        }));
        let old = self.samples.len().saturating_sub(SAMPLES_MAX);
        self.samples.drain(..old);
    }

    /// Returns the levels of the newest samples; `None`: there are too few.
    fn levels_db(&mut self, is_complex: bool) -> Option<Vec<f32>> {
        let length = 1 << self.samples.len().checked_ilog2()?;
        if length < SAMPLES_MIN {
            return None;
        }
        let newest = &self.samples[self.samples.len() - length..];
        let mut buffer: Vec<Complex<f32>> =
            newest.iter().zip(0..).map(|(sample, index)| sample * hann(index, length)).collect();
        let transform = match self.transform.take() {
            Some(last) if last.len() == length => self.transform.insert(last),
            _ => self.transform.insert(Radix4::new(length, FftDirection::Forward)),
        };
        transform.process(&mut buffer);
        if is_complex {
            // 0 Hz stands in the middle.
            buffer.rotate_right(length / 2);
        } else {
            buffer.truncate(length / 2);
        }
        // The window halves a sine; a real one has half of its amplitude at minus its frequency.
        let gain = if is_complex { 2.0 } else { 4.0 } / length as f32;
        let group = buffer.len().div_ceil(BINS_MAX);
        let level = |bins: &[Complex<f32>]| {
            let power = bins.iter().map(Complex::norm_sqr).fold(0.0, f32::max) * gain * gain;
            // Tenths are enough for a picture.
            ((10.0 * power.log10()).max(FLOOR_DB) * 10.0).round() / 10.0
        };
        Some(buffer.chunks(group).map(level).collect())
    }
}

/// Returns a value of the Hann window.
fn hann(index: u32, length: usize) -> f32 {
    let turn = f64::from(index) / length as f64 * std::f64::consts::TAU;
    (0.5 - 0.5 * turn.cos()) as f32
}

/// Returns the value that a level of 0 dB stands for.
fn full_scale(scalar: Scalar) -> f64 {
    let parts = if scalar.is_complex() { 2 } else { 1 };
    match scalar.number() {
        Number::Float(_) => 1.0,
        Number::Unsigned(_) | Number::Signed(_) => 2f64.powi((scalar.size() / parts * 8) as i32 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complex_tone(samples: usize, cycles_per_sample: f64, amplitude: f64) -> Vec<u8> {
        (0..samples)
            .flat_map(|index| {
                let turn = index as f64 * cycles_per_sample * std::f64::consts::TAU;
                [amplitude * turn.cos(), amplitude * turn.sin()]
            })
            .flat_map(|part| (part as f32).to_ne_bytes())
            .collect()
    }

    fn peak(levels: &[f32]) -> (usize, f32) {
        levels.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
    }

    #[test]
    fn a_tone_is_at_its_frequency_with_its_level() {
        let mut analyser = Analyser::default();
        let cf32 = Scalar::parse("cf32").unwrap();
        analyser.add(&complex_tone(10_000, -0.25, 0.1), cf32);
        let levels = analyser.levels_db(true).unwrap();
        // A quarter below the middle of 512; -20 dB.
        assert_eq!((levels.len(), peak(&levels)), (512, (128, -20.0)));
        assert!(levels[300] < -80.0, "{}", levels[300]);

        analyser.clear();
        let f32 = Scalar::parse("f32").unwrap();
        let real =
            |bytes: &[u8]| bytes.chunks(8).flat_map(|sample| sample[..4].to_vec()).collect::<Vec<u8>>();
        analyser.add(&real(&complex_tone(1024, 0.125, 1.0)), f32);
        let levels = analyser.levels_db(false).unwrap();
        assert_eq!((levels.len(), peak(&levels)), (512, (128, 0.0)));
    }

    #[test]
    fn integers_are_relative_to_their_range() {
        let mut analyser = Analyser::default();
        let cs16 = Scalar::parse("cs16").unwrap();
        let bytes: Vec<u8> = complex_tone(256, 0.25, 0.5)
            .chunks(4)
            .flat_map(|part| ((f32::from_ne_bytes(part.try_into().unwrap()) * 32_768.0) as i16).to_ne_bytes())
            .collect();
        analyser.add(&bytes, cs16);
        let (bin, level) = peak(&analyser.levels_db(true).unwrap());
        assert!(bin == 192 && (level + 6.0).abs() < 0.1, "{bin}: {level}");
    }

    #[test]
    fn few_samples_silence_and_numbers_that_are_not_finite_are_no_trouble() {
        let mut analyser = Analyser::default();
        let f32 = Scalar::parse("f32").unwrap();
        assert_eq!(analyser.levels_db(false), None);
        analyser.add(&[0; 4 * (SAMPLES_MIN - 1)], f32);
        assert_eq!(analyser.levels_db(false), None);
        // A part of a sample at the end is left out.
        analyser.add(&[0; 7], f32);
        assert_eq!(analyser.levels_db(false), Some(vec![FLOOR_DB; SAMPLES_MIN / 2]));
        analyser.add(&f32::NAN.to_ne_bytes().repeat(9), f32);
        assert_eq!(analyser.levels_db(false), Some(vec![FLOOR_DB; SAMPLES_MIN / 2]));
        analyser.add(&[0; 4 * SAMPLES_MAX * 2], f32);
        assert_eq!(analyser.samples.len(), SAMPLES_MAX);
    }

    #[test]
    fn a_port_without_numbers_is_refused_by_name() {
        let text = scalar_of(&TypeName::parse("det{bin:u32}").unwrap()).unwrap_err();
        assert!(text.contains("det;") && text.contains("cf32"), "{text}");
    }
}
