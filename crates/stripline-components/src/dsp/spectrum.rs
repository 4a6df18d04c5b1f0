//! Spectra of a stream: windows, transforms, averages.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use num_complex::Complex;
use rustfft::{Fft, FftPlanner};

use super::error::{DspError, Parameter};
use super::sample::{Sample, components};

/// The maximum number of samples of a transform.
pub const FFT_SIZE_MAX: usize = 1 << 18;
/// The maximum number of spectra of an average.
pub const FFT_AVERAGE_MAX: usize = 1 << 20;

/// The lowest power with a distinct level: -200 dB.
const POWER_MIN: f32 = 1e-20;

const BLOCK: &str = "spectrum";

/// The window of a transform. The figures are the usual ones (harris, Proc. IEEE 66, 1978).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpectrumWindow {
    /// No window: narrow lines, side lobes 13 dB down.
    Rectangular,
    /// Side lobes 31 dB down, which fall off fast.
    Hann,
    /// Side lobes 43 dB down.
    Hamming,
    /// Side lobes 58 dB down.
    Blackman,
    /// Side lobes 92 dB down.
    BlackmanHarris,
    /// Wide lines with an exact level, even between two bins.
    FlatTop,
}

impl SpectrumWindow {
    /// All windows.
    pub const ALL: [Self; 6] =
        [Self::Rectangular, Self::Hann, Self::Hamming, Self::Blackman, Self::BlackmanHarris, Self::FlatTop];

    /// Returns the name, as it is parsed and displayed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rectangular => "rectangular",
            Self::Hann => "hann",
            Self::Hamming => "hamming",
            Self::Blackman => "blackman",
            Self::BlackmanHarris => "blackman-harris",
            Self::FlatTop => "flat-top",
        }
    }

    /// Returns the values of the window, scaled to the sum 1. The window is periodic, as transforms
    /// require.
    fn values(self, size: usize) -> Vec<f32> {
        // The factors of cos(k x), with alternating signs.
        let factors: &[f64] = match self {
            Self::Rectangular => &[1.0],
            Self::Hann => &[0.5, 0.5],
            Self::Hamming => &[0.54, 0.46],
            Self::Blackman => &[0.42, 0.5, 0.08],
            Self::BlackmanHarris => &[0.358_75, 0.488_29, 0.141_28, 0.011_68],
            Self::FlatTop => &[0.215_578_95, 0.416_631_58, 0.277_263_158, 0.083_578_947, 0.006_947_368],
        };
        let at = |n: usize| -> f64 {
            let x = TAU * n as f64 / size as f64;
            let sign = |k: usize| if k.is_multiple_of(2) { 1.0 } else { -1.0 };
            factors.iter().enumerate().map(|(k, factor)| sign(k) * factor * (k as f64 * x).cos()).sum()
        };
        let sum: f64 = (0..size).map(at).sum();
        (0..size).map(|n| (at(n) / sum) as f32).collect()
    }
}

impl fmt::Display for SpectrumWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SpectrumWindow {
    type Err = DspError;

    fn from_str(name: &str) -> Result<Self, DspError> {
        let found = Self::ALL.into_iter().find(|window| window.name() == name);
        found.ok_or_else(|| DspError::UnknownWindow { name: name.chars().take(40).collect() })
    }
}

/// The spectra of a stream: one spectrum for every `hop` samples.
///
/// A complex tone of magnitude 1 in the middle of a bin gives magnitude 1 there, and so does a real
/// sine of amplitude 1. Bins are in the order of their frequencies: `size` bins from minus half the
/// rate for complex samples, and `size / 2 + 1` bins from 0 for real samples.
///
/// ```
/// use stripline_components::dsp::{Spectra, SpectrumWindow};
///
/// let mut spectra = Spectra::<f32>::new(8, 8, SpectrumWindow::Rectangular)?;
/// let tone: Vec<f32> = (0..8).map(|n| (std::f32::consts::TAU * n as f32 / 4.0).cos()).collect();
/// spectra.push(&tone, |bins| {
///     assert_eq!(bins.len(), 5);
///     assert!((bins[2].norm() - 1.0).abs() < 1e-6 && bins[1].norm() < 1e-6);
/// });
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Clone)]
pub struct Spectra<T> {
    fft: Arc<dyn Fft<f32>>,
    window: Vec<f32>,
    hop: usize,
    /// The samples that have arrived for the next transform.
    waiting: Vec<T>,
    work: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
    bins: Vec<Complex<f32>>,
}

impl<T: Sample> Spectra<T> {
    /// Creates transforms of `size` samples (2 to [`FFT_SIZE_MAX`]). Each starts `hop` samples (1
    /// to `size`) after the previous transform.
    ///
    /// # Errors
    /// A parameter is out of range.
    pub fn new(size: usize, hop: usize, window: SpectrumWindow) -> Result<Self, DspError> {
        let check = |name, remedy, value: usize, min: f64, max: usize| {
            Parameter { block: BLOCK, name, unit: "", remedy }.check(value as f64, min..=max as f64)
        };
        check("size", "1024 is a usual choice", size, 2.0, FFT_SIZE_MAX)?;
        check("hop", "half the size is a usual choice", hop, 1.0, size)?;
        let fft = FftPlanner::new().plan_fft_forward(size);
        let scratch = vec![Complex::default(); fft.get_inplace_scratch_len()];
        let bins = if T::COMPONENTS == 2 { size } else { size / 2 + 1 };
        Ok(Self {
            window: window.values(size),
            hop,
            waiting: Vec::with_capacity(size),
            work: vec![Complex::default(); size],
            scratch,
            bins: vec![Complex::default(); bins],
            fft,
        })
    }

    /// Returns the number of bins of a spectrum.
    pub fn bins(&self) -> usize {
        self.bins.len()
    }

    /// Returns the number of samples that complete the next spectrum.
    ///
    /// ```
    /// use stripline_components::dsp::{Spectra, SpectrumWindow};
    ///
    /// let mut spectra = Spectra::<f32>::new(8, 4, SpectrumWindow::Hann)?;
    /// spectra.push(&[0.0; 9], |_| ());
    /// assert_eq!(spectra.missing(), 3);
    /// # Ok::<(), stripline_components::dsp::DspError>(())
    /// ```
    pub fn missing(&self) -> usize {
        self.window.len() - self.waiting.len()
    }

    /// Adds samples, and calls `each` with every spectrum that they complete.
    pub fn push(&mut self, mut samples: &[T], mut each: impl FnMut(&[Complex<f32>])) {
        let size = self.window.len();
        while !samples.is_empty() {
            let count = samples.len().min(self.missing());
            self.waiting.extend_from_slice(&samples[..count]);
            samples = &samples[count..];
            if self.waiting.len() == size {
                self.transform();
                each(&self.bins);
                self.waiting.copy_within(self.hop.., 0);
                self.waiting.truncate(size - self.hop);
            }
        }
    }

    /// Drops the waiting samples, as after a gap.
    pub fn reset(&mut self) {
        self.waiting.clear();
    }

    fn transform(&mut self) {
        let values = components(&self.waiting).chunks_exact(T::COMPONENTS);
        for ((z, x), w) in self.work.iter_mut().zip(values).zip(&self.window) {
            *z = Complex::new(x[0] * w, x.get(1).map_or(0.0, |im| im * w));
        }
        self.fft.process_with_scratch(&mut self.work, &mut self.scratch);
        let size = self.work.len();
        if T::COMPONENTS == 2 {
            let (positive, negative) = self.work.split_at(size - size / 2);
            self.bins[..negative.len()].copy_from_slice(negative);
            self.bins[negative.len()..].copy_from_slice(positive);
            return;
        }
        // Half of the power of a real signal is at negative frequencies, except at 0 and half the
        // rate.
        for (k, (bin, z)) in self.bins.iter_mut().zip(&self.work).enumerate() {
            *bin = if k == 0 || 2 * k == size { *z } else { z * 2.0 };
        }
    }
}

impl<T> fmt::Debug for Spectra<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spectra").field("size", &self.window.len()).field("hop", &self.hop).finish()
    }
}

/// The mean power of a number of spectra, in dB.
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::dsp::MeanPower;
///
/// let mut mean = MeanPower::new(2);
/// assert_eq!(mean.add(&[Complex::new(1.0, 0.0)]), None);
/// let level = mean.add(&[Complex::new(0.0, 0.0)]).map(|levels| levels[0]);
/// assert!(level.is_some_and(|level| (level + 3.0103).abs() < 1e-3));
/// ```
#[derive(Debug, Clone)]
pub struct MeanPower {
    of: usize,
    count: usize,
    sums: Vec<f32>,
}

impl MeanPower {
    /// Creates a mean of `of` spectra, at least one.
    pub fn new(of: usize) -> Self {
        Self { of: of.max(1), count: 0, sums: Vec::new() }
    }

    /// Adds a spectrum. If it is the last spectrum of a mean, returns the levels in dB, at least
    /// -200.
    pub fn add(&mut self, bins: &[Complex<f32>]) -> Option<&[f32]> {
        if self.count == 0 {
            self.sums.clear();
            self.sums.resize(bins.len(), 0.0);
        }
        self.sums.iter_mut().zip(bins).for_each(|(sum, bin)| *sum += bin.norm_sqr());
        self.count += 1;
        if self.count < self.of {
            return None;
        }
        self.count = 0;
        let of = self.of as f32;
        self.sums.iter_mut().for_each(|sum| *sum = 10.0 * (*sum / of).max(POWER_MIN).log10());
        Some(&self.sums)
    }

    /// Drops the spectra added so far, as after a gap.
    pub fn reset(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type C32 = Complex<f32>;

    fn tone(size: usize, cycles: f64, amplitude: f64) -> Vec<C32> {
        let at = |n: usize| Complex::from_polar(amplitude, TAU * cycles * n as f64 / size as f64);
        (0..size).map(at).map(|z| C32::new(z.re as f32, z.im as f32)).collect()
    }

    fn levels<T: Sample>(window: SpectrumWindow, samples: &[T]) -> Vec<f32> {
        let mut spectra = Spectra::<T>::new(samples.len(), samples.len(), window).unwrap();
        let mut levels = Vec::new();
        spectra.push(samples, |bins| levels = MeanPower::new(1).add(bins).unwrap().to_vec());
        assert_eq!(levels.len(), spectra.bins());
        levels
    }

    #[test]
    fn a_tone_has_its_level_in_its_bin_with_every_window() {
        for window in SpectrumWindow::ALL {
            for (size, cycles) in [(64, 5), (64, -20), (63, -31), (63, 31), (100, 0)] {
                let found = levels(window, &tone(size, f64::from(cycles), 0.1));
                let bin = (cycles + (size / 2) as i32) as usize;
                assert!((found[bin] + 20.0).abs() < 1e-3, "{window} {size} {cycles}: {}", found[bin]);
                let highest = found.iter().copied().fold(f32::MIN, f32::max);
                assert!(highest < found[bin] + 1e-3);
            }
            let real: Vec<f32> = tone(64, 9.0, 0.5).iter().map(|z| z.re).collect();
            let found = levels(window, &real);
            assert!((found[9] + 6.0206).abs() < 1e-3, "{window}: {}", found[9]);
        }
    }

    #[test]
    fn side_lobes_are_as_far_down_as_the_window_makes_them() {
        for (window, lines, down) in [
            (SpectrumWindow::Hann, 2.0, 31.0),
            (SpectrumWindow::Hamming, 2.0, 42.0),
            (SpectrumWindow::Blackman, 3.0, 58.0),
            (SpectrumWindow::BlackmanHarris, 4.0, 91.0),
        ] {
            let found = levels(window, &tone(1024, 100.5, 1.0));
            let far = found.iter().enumerate().filter(|(k, _)| (*k as f64 - 612.5).abs() > lines + 0.1);
            let highest = far.map(|(_, level)| *level).fold(f32::MIN, f32::max);
            assert!(highest < -down + 0.5, "{window}: {highest}");
        }
        // Between two bins, the level of a flat-top window is still exact.
        let found = levels(SpectrumWindow::FlatTop, &tone(1024, 100.5, 1.0));
        assert!(found[612].abs() < 0.02, "{}", found[612]);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refused =
            |size, hop| Spectra::<f32>::new(size, hop, SpectrumWindow::Hann).unwrap_err().to_string();
        assert!(refused(1, 1).contains("size is 1"));
        assert!(refused(FFT_SIZE_MAX + 1, 1).contains("size"));
        assert!(refused(16, 0).contains("hop is 0"));
        assert!(refused(16, 17).contains("hop is 17"));
        assert!("hanning".parse::<SpectrumWindow>().unwrap_err().to_string().contains("blackman-harris"));
    }

    #[test]
    fn silence_has_a_level() {
        assert!(levels(SpectrumWindow::Hann, &[0.0f32; 32]).iter().all(|level| (level + 200.0).abs() < 1e-3));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn each_hop_gives_the_definition_in_any_packets(
            size in 2usize..40,
            part in 0.0f64..1.0,
            cuts in prop::collection::vec(0usize..90, 0..8),
        ) {
            let hop = ((size as f64 * part) as usize).max(1);
            let input: Vec<C32> =
                (0..200).map(|n| C32::new((n * n % 17) as f32 - 8.0, (n * 7 % 13) as f32 - 6.0)).collect();
            let mut spectra = Spectra::<C32>::new(size, hop, SpectrumWindow::Hann).unwrap();
            let window = SpectrumWindow::Hann.values(size);
            let mut found = Vec::new();
            let mut rest = &input[..];
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (packet, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                spectra.push(packet, |bins| found.push(bins.to_vec()));
            }
            prop_assert_eq!(found.len(), (200 - size) / hop + 1);
            for (row, bins) in found.iter().enumerate() {
                for (place, bin) in bins.iter().enumerate() {
                    let k = place as f64 - (size / 2) as f64;
                    let sum: Complex<f64> = (0..size)
                        .map(|n| {
                            let z = input[row * hop + n];
                            Complex::new(f64::from(z.re), f64::from(z.im))
                                * Complex::from_polar(f64::from(window[n]), -TAU * k * n as f64 / size as f64)
                        })
                        .sum();
                    let bin = Complex::new(f64::from(bin.re), f64::from(bin.im));
                    prop_assert!((bin - sum).norm() < 1e-4, "{} for {}", bin, sum);
                }
            }
        }
    }
}
