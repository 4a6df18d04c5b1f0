//! The spectrum of a port, from the newest samples. The samples come through a tap while a page
//! shows the spectrum. If the port sends rows or frames, the newest row or frame is shown instead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustfft::algorithm::Radix4;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, Length};
use serde::Serialize;
use stripline::node::Subscriber;
use stripline::payload::{Number, Scalar, ScalarValue, TypeName};
use stripline::{Axis, Packet, Received, StreamInfo};
use stripline_waveform::control::{ControlClient, Tapped};

/// The interval between two spectra.
const INTERVAL: Duration = Duration::from_millis(100);
/// Packets that may wait in the tap. Older packets are dropped, because only the newest samples are
/// used.
const DEPTH: u32 = 512;
/// The most samples of a spectrum. A spectrum has fewer while fewer samples have arrived.
const SAMPLES_MAX: usize = 4096;
/// The fewest samples of a spectrum.
const SAMPLES_MIN: usize = 64;
/// The most values sent to the page. Each value is the largest in a group of neighbours.
const BINS_MAX: usize = 512;
/// The level of zero power, in decibels.
const FLOOR_DB: f32 = -200.0;
/// The most spectrum threads at a time: a thread for each client with a spectrum, and threads that
/// are about to end.
const THREADS_MAX: usize = 32;

/// The number of spectrum threads.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The longest row and the largest frame that are shown, in samples.
const ROW_MAX: usize = 1 << 20;
/// The most rows, and the most columns, of a frame that are sent to the page.
const IMAGE_MAX: usize = 128;

/// The spectrum or the newest row of a port, as sent to the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Spectrum {
    /// The sending port.
    pub port: String,
    pub payload: String,
    pub sample_rate_hz: Option<f64>,
    pub center_frequency_hz: Option<f64>,
    /// The channel that is shown, if there are several.
    pub channel: Option<String>,
    /// The values at both ends of the horizontal axis, and the unit.
    pub axis: (f64, f64, String),
    /// Levels in decibels, where a full-scale sine has 0. For a row, the values of the row; for a
    /// frame, the largest value of each column.
    pub levels: Vec<f32>,
    /// The rows of the newest frame, the first row first; empty: the port sends no frames.
    pub image: Vec<Vec<f32>>,
    /// The values at both ends of the axis from row to row of a frame, and the unit.
    pub image_axis: (f64, f64, String),
    /// The unit of the levels. Empty if it is unknown.
    pub unit: &'static str,
    /// The number of the spectrum. The same number means the same spectrum.
    pub number: u64,
    /// The reason that no spectrum, or no newer spectrum, can be shown.
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
        // Relaxed: no other data depends on the number.
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

/// The place of a spectrum thread in [`THREADS`], until it is dropped.
struct SpectrumCount;

impl Drop for SpectrumCount {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Waits until the next spectrum is due. Returns false if nothing shows the spectrum any more.
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
            });
            let mut subscriber = tap.into_subscriber();
            analyser.clear();
            loop {
                if !self.pause() {
                    return Ok(());
                }
                let is_open = self.take(&mut subscriber, scalar, &mut analyser).map_err(|e| e.to_string())?;
                if let Some(levels) = analyser.levels(scalar.is_complex()) {
                    let unit = if analyser.row_length.is_some() { "" } else { "dB" };
                    let image = std::mem::take(&mut analyser.image);
                    self.update(|spectrum| {
                        (spectrum.levels, spectrum.image, spectrum.unit) = (levels, image, unit);
                        spectrum.number += 1;
                    });
                }
                if !is_open {
                    // The component has ended, or is being restarted.
                    break;
                }
            }
        }
    }

    /// Takes the waiting packets. Returns whether more may follow.
    fn take(
        &self,
        subscriber: &mut Subscriber<u8>,
        scalar: Scalar,
        analyser: &mut Analyser,
    ) -> Result<bool, stripline::Error> {
        // The limit is needed because a fast sender may refill the queue during this loop.
        for _ in 0..DEPTH {
            match subscriber.try_receive()? {
                Received::Packet(packet) => {
                    analyser.add_packet(&packet, scalar);
                    let stream = packet.stream();
                    self.update(|spectrum| spectrum.describe(stream, scalar.is_complex()));
                }
                Received::Empty => return Ok(true),
                Received::Ended => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl Spectrum {
    /// Sets the axis, the sample rate of one channel, and the channel.
    fn describe(&mut self, stream: &StreamInfo, is_complex: bool) {
        let channels = stream.channels.len().max(1) as f64;
        self.sample_rate_hz = stream.sample_rate_hz.map(|rate| rate / channels);
        self.center_frequency_hz = stream.center_frequency_hz;
        self.channel = stream.channels.first().filter(|_| stream.channels.len() > 1).cloned();
        let across = stream.axes.get(1).cloned().unwrap_or(Axis::new(0.0, 1.0, ""));
        self.image_axis = ends(&across, stream.frame_rows.unwrap_or(1));
        self.axis = match (stream.row_length, stream.axes.first()) {
            (Some(length), Some(axis)) => {
                // Frequencies are relative to the centre, as in `waterfall-sink`.
                let center = self.center_frequency_hz.filter(|_| axis.unit == "Hz").unwrap_or(0.0);
                let (first, last, unit) = ends(axis, length);
                (center + first, center + last, unit)
            }
            (Some(length), None) => ends(&Axis::new(0.0, 1.0, ""), length),
            (None, _) => {
                let (rate, unit) = self.sample_rate_hz.map_or((1.0, "fs"), |rate| (rate, "Hz"));
                let center = self.center_frequency_hz.filter(|_| unit == "Hz").unwrap_or(0.0);
                let below = if is_complex { rate / 2.0 } else { 0.0 };
                (center - below, center + rate / 2.0, unit.into())
            }
        };
    }
}

/// Returns the ends of an axis with `length` values. Each value is in the middle of a step.
fn ends(axis: &Axis, length: u32) -> (f64, f64, String) {
    let half = axis.step / 2.0;
    (axis.start - half, axis.at(u64::from(length)) - half, axis.unit.clone())
}

/// Returns the kind of the samples.
fn scalar_of(payload: &TypeName) -> Result<Scalar, String> {
    let name = payload.as_str();
    Scalar::parse(name).ok_or_else(|| {
        let name = name.split('{').next().unwrap_or_default();
        format!("it sends {name}; a spectrum needs samples that are numbers, as f32 or cf32")
    })
}

/// The newest samples of the first channel, and their spectrum. If the stream has rows or frames,
/// the newest row or frame.
#[derive(Default)]
struct Analyser {
    samples: Vec<Complex<f32>>,
    /// The samples of each row or frame; `None`: the stream has no rows.
    row_length: Option<usize>,
    /// The samples in each row of a frame; `None`: the stream has no frames.
    columns: Option<usize>,
    /// The newest complete row or frame that was not taken yet.
    row: Option<Vec<f32>>,
    /// The rows of the frame that [`Analyser::levels`] has taken.
    image: Vec<Vec<f32>>,
    /// The transform for the last length. All lengths are powers of two: a planner for any length
    /// would make the executable much larger.
    transform: Option<Radix4<f32>>,
}

impl Analyser {
    fn clear(&mut self) {
        self.samples.clear();
        self.row = None;
    }

    fn add_packet(&mut self, packet: &Packet<'_, u8>, scalar: Scalar) {
        let stream = packet.stream();
        let turn = usize::try_from(stream.turn_samples()).unwrap_or(usize::MAX);
        let row_length = stream.row_length.map(|_| turn);
        let columns = stream.row_length.filter(|_| stream.frame_rows.is_some()).map(|length| length as usize);
        if packet.gap().is_some() || (row_length, columns) != (self.row_length, self.columns) {
            self.clear();
        }
        (self.row_length, self.columns) = (row_length, columns);
        self.add(packet, scalar, packet.sample_index(), stream.channels.len().max(1));
    }

    /// Adds samples. `index` is the number of the first sample, counted over all channels. Only the
    /// newest [`SAMPLES_MAX`] samples or the newest row are kept.
    fn add(&mut self, bytes: &[u8], scalar: Scalar, index: u64, channels: usize) {
        let row = self.row_length.unwrap_or(1).max(1);
        let newest = bytes.len() / scalar.size();
        // The last two rows of each channel contain a complete row of the first channel.
        let wanted = if self.row_length.is_some() { row.saturating_mul(2) } else { SAMPLES_MAX };
        let skipped = newest.saturating_sub(wanted.saturating_mul(channels));
        let values = bytes[skipped * scalar.size()..newest * scalar.size()].chunks_exact(scalar.size());
        let full_scale = if self.row_length.is_some() { 1.0 } else { full_scale(scalar) };
        for (index, bytes) in (index + skipped as u64..).zip(values) {
            let (turn, place) = (index / row as u64 % channels as u64, (index % row as u64) as usize);
            let Some(value) = scalar.read(bytes).filter(|_| turn == 0) else { continue };
            let (re, im) = match value {
                ScalarValue::Real(re) => (re.as_f64(), 0.0),
                ScalarValue::Complex(re, im) => (re.as_f64(), im.as_f64()),
            };
            let finite = |x: f64| if x.is_finite() { (x / full_scale) as f32 } else { 0.0 };
            if self.row_length.is_none() {
                self.samples.push(Complex::new(finite(re), finite(im)));
                continue;
            }
            if place == 0 {
                self.samples.clear();
            }
            // A row that was not received from the beginning is left out.
            if place == self.samples.len() && row <= ROW_MAX {
                // In decibels, zero power is minus infinity.
                let lowest = |x: f64| if x == f64::NEG_INFINITY { FLOOR_DB } else { finite(x) };
                self.samples.push(Complex::new(lowest(re), finite(im)));
            }
            if self.samples.len() == row {
                let level = |it: Complex<f32>| if scalar.is_complex() { it.norm() } else { it.re };
                self.row = Some(self.samples.drain(..).map(level).collect());
            }
        }
        if self.row_length.is_some() {
            return;
        }
        let old = self.samples.len().saturating_sub(SAMPLES_MAX);
        self.samples.drain(..old);
    }

    /// Returns the levels of the newest samples, or the values of the newest row. Returns `None` if
    /// there are too few samples, or no new row.
    fn levels(&mut self, is_complex: bool) -> Option<Vec<f32>> {
        if self.row_length.is_some() {
            let row = self.row.take()?;
            let Some(columns) = self.columns else { return Some(reduced(&row, BINS_MAX)) };
            let highest = |rows: &[f32]| {
                let column = |n| rows.iter().skip(n).step_by(columns).copied().fold(f32::MIN, f32::max);
                (0..columns).map(column).collect::<Vec<f32>>()
            };
            let group = (row.len() / columns).div_ceil(IMAGE_MAX).max(1);
            let lines = row.chunks(group.saturating_mul(columns));
            self.image = lines.map(|rows| reduced(&highest(rows), IMAGE_MAX)).collect();
            return Some(reduced(&highest(&row), BINS_MAX));
        }
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
            // 0 Hz is in the middle.
            buffer.rotate_right(length / 2);
        } else {
            buffer.truncate(length / 2);
        }
        // The window halves the amplitude of a sine. A real sine has half of the amplitude at the
        // negative frequency.
        let gain = if is_complex { 2.0 } else { 4.0 } / length as f32;
        let group = buffer.len().div_ceil(BINS_MAX);
        let level = |bins: &[Complex<f32>]| {
            let power = bins.iter().map(Complex::norm_sqr).fold(0.0, f32::max) * gain * gain;
            // A picture needs no more than tenths.
            ((10.0 * power.log10()).max(FLOOR_DB) * 10.0).round() / 10.0
        };
        Some(buffer.chunks(group).map(level).collect())
    }
}

/// Returns at most `most` values: each is the largest in a group of neighbours.
fn reduced(values: &[f32], most: usize) -> Vec<f32> {
    let group = values.len().div_ceil(most).max(1);
    values.chunks(group).map(|part| part.iter().copied().fold(f32::MIN, f32::max)).collect()
}

/// Returns a value of the Hann window.
fn hann(index: u32, length: usize) -> f32 {
    let turn = f64::from(index) / length as f64 * std::f64::consts::TAU;
    (0.5 - 0.5 * turn.cos()) as f32
}

/// Returns the sample value that corresponds to 0 dB.
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
        analyser.add(&complex_tone(10_000, -0.25, 0.1), cf32, 0, 1);
        let levels = analyser.levels(true).unwrap();
        // The peak is a quarter below the middle of 512 values, at -20 dB.
        assert_eq!((levels.len(), peak(&levels)), (512, (128, -20.0)));
        assert!(levels[300] < -80.0, "{}", levels[300]);

        analyser.clear();
        let f32 = Scalar::parse("f32").unwrap();
        let real =
            |bytes: &[u8]| bytes.chunks(8).flat_map(|sample| sample[..4].to_vec()).collect::<Vec<u8>>();
        analyser.add(&real(&complex_tone(1024, 0.125, 1.0)), f32, 0, 1);
        let levels = analyser.levels(false).unwrap();
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
        analyser.add(&bytes, cs16, 0, 1);
        let (bin, level) = peak(&analyser.levels(true).unwrap());
        assert!(bin == 192 && (level + 6.0).abs() < 0.1, "{bin}: {level}");
    }

    #[test]
    fn few_samples_silence_and_numbers_that_are_not_finite_are_no_trouble() {
        let mut analyser = Analyser::default();
        let f32 = Scalar::parse("f32").unwrap();
        assert_eq!(analyser.levels(false), None);
        analyser.add(&[0; 4 * (SAMPLES_MIN - 1)], f32, 0, 1);
        assert_eq!(analyser.levels(false), None);
        // An incomplete sample at the end is left out.
        analyser.add(&[0; 7], f32, 0, 1);
        assert_eq!(analyser.levels(false), Some(vec![FLOOR_DB; SAMPLES_MIN / 2]));
        analyser.add(&f32::NAN.to_ne_bytes().repeat(9), f32, 0, 1);
        assert_eq!(analyser.levels(false), Some(vec![FLOOR_DB; SAMPLES_MIN / 2]));
        analyser.add(&[0; 4 * SAMPLES_MAX * 2], f32, 0, 1);
        assert_eq!(analyser.samples.len(), SAMPLES_MAX);
    }

    #[test]
    fn a_port_without_numbers_is_refused_by_name() {
        let text = scalar_of(&TypeName::parse("det{bin:u32}").unwrap()).unwrap_err();
        assert!(text.contains("det;") && text.contains("cf32"), "{text}");
    }

    #[test]
    fn rows_are_shown_as_they_are_and_channels_apart() {
        let f32 = Scalar::parse("f32").unwrap();
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        let mut analyser = Analyser { row_length: Some(4), ..Analyser::default() };
        // The samples begin in the middle of one row and end in the middle of another.
        analyser.add(&bytes(&[8.0, 9.0, -1.0, f32::NEG_INFINITY, 3.0, 2.0, 7.0]), f32, 2, 1);
        assert_eq!(analyser.levels(false), Some(vec![-1.0, FLOOR_DB, 3.0, 2.0]));
        assert_eq!(analyser.levels(false), None);
        analyser.add(&bytes(&[6.0, 5.0, 4.0]), f32, 9, 1);
        assert_eq!(analyser.levels(false), Some(vec![7.0, 6.0, 5.0, 4.0]));
        // The rows of two channels alternate.
        let turns: Vec<f32> = (0..16).map(|n| n as f32).collect();
        analyser.add(&bytes(&turns), f32, 0, 2);
        assert_eq!(analyser.levels(false), Some(vec![8.0, 9.0, 10.0, 11.0]));
        // A row with more values than the page draws is reduced to the largest value of each group.
        let mut analyser = Analyser { row_length: Some(6), columns: Some(2), ..Analyser::default() };
        let values = [9.0f32, 1.0, 2.0, 5.0, 3.0, 4.0];
        let frame: Vec<u8> = values.into_iter().flat_map(f32::to_ne_bytes).collect();
        let f32 = Scalar::parse("f32").unwrap();
        analyser.add(&frame, f32, 6, 1);
        assert_eq!(analyser.levels(false), Some(vec![9.0, 5.0]));
        assert_eq!(analyser.image, [[9.0, 1.0], [2.0, 5.0], [3.0, 4.0]]);
        // A frame without the beginning is left out.
        analyser.add(&frame[4..], f32, 13, 1);
        assert_eq!(analyser.levels(false), None);

        let mut analyser = Analyser { row_length: Some(1024), ..Analyser::default() };
        analyser.add(&bytes(&(0..1024).map(|n| n as f32).collect::<Vec<_>>()), f32, 0, 1);
        let levels = analyser.levels(false).unwrap();
        assert_eq!((levels.len(), levels[0], levels[511]), (512, 1.0, 1023.0));
        // Of samples with two channels, only the first channel is used.
        let mut analyser = Analyser::default();
        analyser.add(&bytes(&[1.0, -1.0].repeat(SAMPLES_MIN)), f32, 0, 2);
        assert!(analyser.samples.iter().all(|sample| sample.re == 1.0));
    }

    #[test]
    fn the_axis_has_the_frequencies_of_one_channel_or_of_a_row() {
        let mut spectrum = Spectrum::default();
        spectrum.describe(&StreamInfo::new("iq").sample_rate_hz(2e6).center_frequency_hz(1e8), true);
        assert_eq!(spectrum.axis, (99e6, 101e6, "Hz".into()));
        spectrum.describe(&StreamInfo::new("audio").sample_rate_hz(96e3).channels(["left", "right"]), false);
        assert_eq!((spectrum.axis, spectrum.channel.as_deref()), ((0.0, 24e3, "Hz".into()), Some("left")));
        spectrum.axis = Default::default();
        spectrum.describe(&StreamInfo::new("unknown"), true);
        assert_eq!((&spectrum.axis, &spectrum.channel), (&(-0.5, 0.5, "fs".into()), &None));
        let rows = StreamInfo::new("rows").rows(4, Axis::new(10.0, 2.0, "m"), Axis::new(0.0, 1.0, "s"));
        spectrum.describe(&rows, false);
        assert_eq!(spectrum.axis, (9.0, 17.0, "m".into()));
        let axes = (Axis::new(-2.0, 1.0, "Hz"), Axis::new(0.0, 1.0, "s"));
        spectrum.describe(&StreamInfo::new("rows").center_frequency_hz(1e3).rows(4, axes.0, axes.1), false);
        assert_eq!(spectrum.axis, (997.5, 1001.5, "Hz".into()));
    }
}
