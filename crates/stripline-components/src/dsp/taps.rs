//! Design of FIR filters by the window method.

use std::f64::consts::PI;
use std::ops::Bound::{Excluded, Included};

use num_complex::Complex;

use super::error::{DspError, Parameter, check_sample_rate};

/// The maximum number of taps of a filter. A longer filter should run in the frequency domain.
pub const TAPS_MAX: usize = 16_384;

const BLOCK: &str = "FIR filter";

/// The window that shapes the ideal response. The figures are the usual ones (Oppenheim and
/// Schafer, *Discrete-Time Signal Processing*, section 7.5; harris, Proc. IEEE 66, 1978).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Window {
    /// Stop band 53 dB down; transition 3.3 / taps of the sample rate.
    Hamming,
    /// Stop band 74 dB down; transition 5.5 / taps of the sample rate.
    Blackman,
    /// A window chosen by the stop-band attenuation in dB, 21 to 150 (J. F. Kaiser, 1974).
    Kaiser {
        /// The attenuation of the stop band, in dB.
        attenuation_db: f64,
    },
}

/// The length of a designed filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FirLength {
    /// This many taps, 1 to [`TAPS_MAX`].
    Taps(usize),
    /// The odd number of taps for which the transition from pass band to stop band has this width,
    /// in Hz.
    TransitionHz(f64),
}

/// The taps (real coefficients) of an FIR filter: 1 to [`TAPS_MAX`] of them, all finite.
///
/// ```
/// use stripline_components::dsp::{FirLength, Taps, Window};
///
/// let taps = Taps::low_pass(240e3, 15e3, FirLength::TransitionHz(8e3), Window::Hamming)?;
/// assert_eq!(taps.len(), 101);
/// assert!((taps.response(1e3, 240e3).norm() - 1.0).abs() < 0.003);
/// assert!(taps.response(30e3, 240e3).norm() < 0.003);
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Taps(Vec<f32>);

impl Taps {
    /// Creates taps from values, with the tap for the newest sample first.
    ///
    /// # Errors
    /// There are no taps, more than [`TAPS_MAX`], or a tap is not finite.
    pub fn new(taps: Vec<f32>) -> Result<Self, DspError> {
        check_count(taps.len())?;
        match taps.iter().enumerate().find(|(_, tap)| !tap.is_finite()) {
            Some((index, &value)) => Err(DspError::TapNotFinite { index, value }),
            None => Ok(Self(taps)),
        }
    }

    /// Designs a low-pass filter with gain 1 at 0 Hz and gain 1/2 at `cutoff_hz` (above 0, below
    /// half the sample rate).
    ///
    /// # Errors
    /// A parameter is out of range, or the transition is so narrow that it takes more than
    /// [`TAPS_MAX`] taps.
    pub fn low_pass(
        sample_rate_hz: f64,
        cutoff_hz: f64,
        length: FirLength,
        window: Window,
    ) -> Result<Self, DspError> {
        let rate = check_sample_rate(BLOCK, sample_rate_hz)?;
        let cutoff = frequency(
            "cutoff_hz",
            "choose a frequency that the sample rate can carry",
            cutoff_hz,
            0.0,
            rate,
        )?;
        Self::windowed(rate, length, window, 0.0, |t| low_pass_at(cutoff / rate, t))
    }

    /// Designs a band-pass filter with gain 1 in the middle and gain 1/2 at `low_hz` and `high_hz`
    /// (0 < low < high < half the sample rate). The taps are real, so the filter also passes the
    /// band at negative frequencies.
    ///
    /// # Errors
    /// The errors of [`low_pass`](Self::low_pass).
    pub fn band_pass(
        sample_rate_hz: f64,
        low_hz: f64,
        high_hz: f64,
        length: FirLength,
        window: Window,
    ) -> Result<Self, DspError> {
        let rate = check_sample_rate(BLOCK, sample_rate_hz)?;
        let low =
            frequency("low_hz", "choose a frequency that the sample rate can carry", low_hz, 0.0, rate)?;
        let high =
            frequency("high_hz", "the band's upper edge comes after its lower edge", high_hz, low, rate)?;
        Self::windowed(rate, length, window, (low + high) / 2.0 / rate, |t| {
            low_pass_at(high / rate, t) - low_pass_at(low / rate, t)
        })
    }

    /// Returns the number of taps: 1 to [`TAPS_MAX`].
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the taps, with the tap for the newest sample first.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }

    /// Returns the delay of a designed (symmetric) filter, in samples.
    pub fn delay_samples(&self) -> f64 {
        (self.len() - 1) as f64 / 2.0
    }

    /// Returns the complex gain at a frequency.
    pub fn response(&self, frequency_hz: f64, sample_rate_hz: f64) -> Complex<f64> {
        let step = -2.0 * PI * frequency_hz / sample_rate_hz;
        self.0.iter().enumerate().map(|(i, &tap)| Complex::from_polar(f64::from(tap), step * i as f64)).sum()
    }

    /// Windows an ideal response, which is given at `t` samples from the middle, and scales it to
    /// gain 1 at `unity`, a fraction of the sample rate.
    fn windowed(
        rate: f64,
        length: FirLength,
        window: Window,
        unity: f64,
        ideal: impl Fn(f64) -> f64,
    ) -> Result<Self, DspError> {
        let shape = Shape::new(window)?;
        let count = match length {
            FirLength::Taps(count) => check_count(count)?,
            FirLength::TransitionHz(width) => {
                let width = frequency("transition_hz", "give the step's width in Hz", width, 0.0, rate)?;
                // An odd number makes the delay a whole number of samples. The cast saturates.
                check_count(
                    ((shape.taps_times_width / (width / rate)).ceil() as usize).saturating_add(1) | 1,
                )?
            }
        };
        let middle = (count - 1) as f64 / 2.0;
        let exact: Vec<f64> = (0..count)
            .map(|i| {
                let t = i as f64 - middle;
                ideal(t) * shape.at(if count == 1 { 0.0 } else { t / middle })
            })
            .collect();
        // The taps are symmetric, so the gain at `unity` is a sum of cosines about the middle.
        let gain: f64 =
            exact.iter().enumerate().map(|(i, h)| h * (2.0 * PI * unity * (i as f64 - middle)).cos()).sum();
        Self::new(exact.iter().map(|h| (h / gain) as f32).collect())
    }
}

/// A window in a form that can be evaluated.
struct Shape {
    /// The number of taps times the width of the transition, as a fraction of the sample rate.
    taps_times_width: f64,
    kind: Kind,
}

enum Kind {
    /// `a0 + a1 cos(pi x) + a2 cos(2 pi x)`
    Cosines([f64; 3]),
    Kaiser {
        beta: f64,
    },
}

impl Shape {
    fn new(window: Window) -> Result<Self, DspError> {
        Ok(match window {
            Window::Hamming => Self { taps_times_width: 3.3, kind: Kind::Cosines([0.54, 0.46, 0.0]) },
            Window::Blackman => Self { taps_times_width: 5.5, kind: Kind::Cosines([0.42, 0.5, 0.08]) },
            Window::Kaiser { attenuation_db } => {
                let a = Parameter {
                    block: BLOCK,
                    name: "attenuation_db",
                    unit: "dB",
                    remedy: "60 is a usual choice",
                }
                .check(attenuation_db, 21.0..=150.0)?;
                let beta = if a > 50.0 {
                    0.1102 * (a - 8.7)
                } else {
                    0.5842 * (a - 21.0).powf(0.4) + 0.078_86 * (a - 21.0)
                };
                Self { taps_times_width: (a - 7.95) / (2.285 * 2.0 * PI), kind: Kind::Kaiser { beta } }
            }
        })
    }

    /// Returns the window at `x`, from -1 (first tap) to 1 (last tap).
    fn at(&self, x: f64) -> f64 {
        match self.kind {
            // Keep the value above 0, so that a Blackman window of two taps, which are both at the
            // ends, still makes a filter.
            Kind::Cosines([a0, a1, a2]) => (a0 + a1 * (PI * x).cos() + a2 * (2.0 * PI * x).cos()).max(1e-9),
            Kind::Kaiser { beta } => bessel_i0(beta * (1.0 - x * x).max(0.0).sqrt()) / bessel_i0(beta),
        }
    }
}

/// Returns the ideal low-pass response at `t` samples from the middle. The cutoff is a fraction of
/// the sample rate.
fn low_pass_at(cutoff: f64, t: f64) -> f64 {
    if t == 0.0 { 2.0 * cutoff } else { (2.0 * PI * cutoff * t).sin() / (PI * t) }
}

/// Returns the modified Bessel function of the first kind, order 0. All terms of the power series
/// are positive, so nothing cancels.
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-16 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

fn check_count(count: usize) -> Result<usize, DspError> {
    Parameter {
        block: BLOCK,
        name: "taps",
        unit: "",
        remedy: "widen the transition or decimate in two stages",
    }
    .check(count as f64, (Included(1.0), Included(TAPS_MAX as f64)))
    .map(|_| count)
}

/// Checks a frequency: above `low`, below half the rate.
fn frequency(
    name: &'static str,
    remedy: &'static str,
    value: f64,
    low: f64,
    rate: f64,
) -> Result<f64, DspError> {
    Parameter { block: BLOCK, name, unit: "Hz", remedy }.check(value, (Excluded(low), Excluded(rate / 2.0)))
}

#[cfg(test)]
mod tests {
    use rustfft::FftPlanner;

    use super::*;

    const RATE: f64 = 1e6;

    /// Returns the gain in dB on a fine grid of frequencies from 0 to half the rate.
    fn spectrum(taps: &Taps) -> Vec<(f64, f64)> {
        let size = 8192;
        let mut bins = vec![Complex::new(0.0f64, 0.0); size];
        for (bin, &tap) in bins.iter_mut().zip(taps.as_slice()) {
            bin.re = f64::from(tap);
        }
        FftPlanner::new().plan_fft_forward(size).process(&mut bins);
        let db = |z: &Complex<f64>| 20.0 * z.norm().max(1e-12).log10();
        bins[..size / 2].iter().enumerate().map(|(i, z)| (i as f64 * RATE / size as f64, db(z))).collect()
    }

    fn check_low_pass(window: Window, attenuation_db: f64, ripple_db: f64) {
        let taps = Taps::low_pass(RATE, 100e3, FirLength::TransitionHz(40e3), window).unwrap();
        assert_eq!(taps.len() % 2, 1);
        for (f, db) in spectrum(&taps) {
            if f < 80e3 {
                assert!(db.abs() < ripple_db, "{window:?}: {db} dB at {f} Hz");
            } else if f > 120e3 {
                assert!(db < -attenuation_db, "{window:?}: {db} dB at {f} Hz");
            }
        }
        let edge = taps.response(100e3, RATE).norm();
        assert!((edge - 0.5).abs() < 0.01, "{window:?}: {edge} at the edge");
    }

    #[test]
    fn low_pass_meets_each_windows_figures() {
        check_low_pass(Window::Hamming, 50.0, 0.03);
        check_low_pass(Window::Blackman, 72.0, 0.005);
        check_low_pass(Window::Kaiser { attenuation_db: 40.0 }, 39.5, 0.1);
        check_low_pass(Window::Kaiser { attenuation_db: 60.0 }, 59.5, 0.01);
        check_low_pass(Window::Kaiser { attenuation_db: 90.0 }, 89.0, 0.001);
    }

    #[test]
    fn band_pass_passes_its_band_only() {
        let window = Window::Kaiser { attenuation_db: 60.0 };
        let taps = Taps::band_pass(RATE, 150e3, 250e3, FirLength::TransitionHz(30e3), window).unwrap();
        for (f, db) in spectrum(&taps) {
            if (165e3..235e3).contains(&f) {
                assert!(db.abs() < 0.05, "{db} dB at {f} Hz");
            } else if !(135e3..265e3).contains(&f) {
                assert!(db < -58.0, "{db} dB at {f} Hz");
            }
        }
    }

    #[test]
    fn given_lengths_are_kept_and_taps_are_symmetric() {
        for count in [1, 2, 7, 64, 65] {
            let taps = Taps::low_pass(RATE, 100e3, FirLength::Taps(count), Window::Blackman).unwrap();
            assert_eq!(taps.len(), count);
            assert!((taps.response(0.0, RATE).norm() - 1.0).abs() < 1e-6);
            let slice = taps.as_slice();
            for i in 0..count {
                assert!((slice[i] - slice[count - 1 - i]).abs() < 1e-8);
            }
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let length = FirLength::Taps(9);
        let refused = |result: Result<Taps, DspError>, name: &str| {
            let message = result.unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        };
        refused(Taps::low_pass(f64::NAN, 1.0, length, Window::Hamming), "sample_rate_hz");
        refused(Taps::low_pass(RATE, 500e3, length, Window::Hamming), "cutoff_hz");
        refused(Taps::low_pass(RATE, f64::NAN, length, Window::Hamming), "cutoff_hz");
        refused(Taps::low_pass(RATE, 1e3, FirLength::Taps(0), Window::Hamming), "taps is 0");
        refused(Taps::low_pass(RATE, 1e3, FirLength::Taps(TAPS_MAX + 1), Window::Hamming), "taps");
        refused(Taps::low_pass(RATE, 1e3, FirLength::TransitionHz(1e-300), Window::Hamming), "taps");
        refused(Taps::low_pass(RATE, 1e3, FirLength::TransitionHz(-1.0), Window::Hamming), "transition_hz");
        refused(Taps::low_pass(RATE, 1e3, length, Window::Kaiser { attenuation_db: 1e9 }), "attenuation_db");
        refused(Taps::band_pass(RATE, 2e3, 1e3, length, Window::Hamming), "high_hz");
        refused(Taps::new(vec![]), "taps is 0");
        refused(Taps::new(vec![1.0, f32::NAN]), "tap 1");
    }
}
