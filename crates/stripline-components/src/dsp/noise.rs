//! White Gaussian noise.

use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::error::{DspError, Parameter};
use super::sample::{Sample, components_mut};

/// A source of additive white Gaussian noise. The same seed always gives the same noise with the
/// same versions of the crates `rand_distr` and `rand_xoshiro`. Other versions may give other
/// noise.
///
/// The algorithm is Ziggurat (Marsaglia and Tsang, 2000) over xoshiro256++ (Blackman and Vigna,
/// 2018; period 2^256 - 1).
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::dsp::Awgn;
///
/// // 10 dB below a signal of power 1.
/// let mut noise = Awgn::with_snr(10.0, 1.0, 42)?;
/// let mut samples = [Complex::new(1.0f32, 0.0); 1000];
/// noise.add(&mut samples);
/// let power = samples.iter().map(|z| (z - 1.0).norm_sqr()).sum::<f32>() / 1000.0;
/// assert!((power - 0.1).abs() < 0.01);
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Awgn {
    sigma: f32,
    rng: Xoshiro256PlusPlus,
}

const BLOCK: &str = "noise generator";

impl Awgn {
    /// Creates noise with power (mean square) `sigma` squared, real or complex. Each component of
    /// complex noise has a standard deviation of `sigma` / √2. `sigma` is 0 to 10^18.
    ///
    /// # Errors
    /// Sigma is out of range.
    pub fn new(sigma: f64, seed: u64) -> Result<Self, DspError> {
        let sigma = Parameter { block: BLOCK, name: "sigma", unit: "", remedy: "0 turns noise off" }
            .check(sigma, 0.0..=1e18)?;
        Ok(Self { sigma: sigma as f32, rng: Xoshiro256PlusPlus::seed_from_u64(seed) })
    }

    /// Creates noise that is `snr_db` (-300 to 300 dB) below a signal of power (mean square)
    /// `signal_power` (0 to 10^6). The ratio applies to the whole sampled bandwidth. After a filter
    /// of bandwidth B, the ratio is better by the factor rate / B.
    ///
    /// # Errors
    /// A parameter is out of range.
    pub fn with_snr(snr_db: f64, signal_power: f64, seed: u64) -> Result<Self, DspError> {
        let snr = Parameter { block: BLOCK, name: "snr_db", unit: "dB", remedy: "leave it out for no noise" }
            .check(snr_db, -300.0..=300.0)?;
        let power = Parameter {
            block: BLOCK,
            name: "signal_power",
            unit: "",
            remedy: "give the signal's mean square",
        }
        .check(signal_power, 0.0..=1e6)?;
        Self::new((power / 10f64.powf(snr / 10.0)).sqrt(), seed)
    }

    /// Changes the noise power; the noise sequence continues.
    ///
    /// # Errors
    /// The errors of [`Awgn::new`]; the power is unchanged then.
    pub fn set_sigma(&mut self, sigma: f64) -> Result<(), DspError> {
        self.sigma = Self::new(sigma, 0)?.sigma;
        Ok(())
    }

    /// Returns the square root of the noise power.
    pub fn sigma(&self) -> f64 {
        f64::from(self.sigma)
    }

    /// Overwrites `samples` with noise.
    pub fn fill<T: Sample>(&mut self, samples: &mut [T]) {
        let sigma = self.component_sigma::<T>();
        for x in components_mut(samples) {
            *x = sigma * self.normal();
        }
    }

    /// Adds noise to `samples`.
    pub fn add<T: Sample>(&mut self, samples: &mut [T]) {
        let sigma = self.component_sigma::<T>();
        for x in components_mut(samples) {
            *x += sigma * self.normal();
        }
    }

    fn component_sigma<T: Sample>(&self) -> f32 {
        if T::COMPONENTS == 2 { self.sigma * std::f32::consts::FRAC_1_SQRT_2 } else { self.sigma }
    }

    #[inline]
    fn normal(&mut self) -> f32 {
        StandardNormal.sample(&mut self.rng)
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;
    use proptest::prelude::*;

    use super::*;

    const LEN: usize = 200_000;

    fn moments(samples: &[f32]) -> (f64, f64, f64) {
        let mean = |power: i32| {
            samples.iter().map(|&x| f64::from(x).powi(power)).sum::<f64>() / samples.len() as f64
        };
        (mean(1), mean(2), mean(4))
    }

    #[test]
    fn real_and_complex_noise_have_the_stated_power_and_are_gaussian() {
        let mut real = vec![0.0f32; LEN];
        Awgn::new(2.0, 1).unwrap().fill(&mut real);
        let (mean, power, fourth) = moments(&real);
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((power / 4.0 - 1.0).abs() < 0.02, "{power}");
        assert!((fourth / power.powi(2) - 3.0).abs() < 0.1, "kurtosis {}", fourth / power.powi(2));

        let mut complex = vec![Complex::<f32>::default(); LEN];
        Awgn::new(2.0, 2).unwrap().fill(&mut complex);
        let power = complex.iter().map(|z| f64::from(z.norm_sqr())).sum::<f64>() / LEN as f64;
        assert!((power / 4.0 - 1.0).abs() < 0.02, "{power}");
        let cross = complex.iter().map(|z| f64::from(z.re * z.im)).sum::<f64>() / LEN as f64;
        assert!(cross.abs() < 0.02, "I and Q are independent: {cross}");
        let next = complex.windows(2).map(|w| f64::from((w[1] * w[0].conj()).re)).sum::<f64>() / LEN as f64;
        assert!(next.abs() < 0.04, "white: {next}");
    }

    #[test]
    fn the_snr_is_as_asked() {
        for snr_db in [-3.0, 0.0, 12.0, 30.0] {
            let mut samples = vec![Complex::new(0.0f32, 0.5); LEN];
            Awgn::with_snr(snr_db, 0.25, 3).unwrap().add(&mut samples);
            let noise =
                samples.iter().map(|z| f64::from((z - Complex::new(0.0, 0.5)).norm_sqr())).sum::<f64>();
            let measured = 10.0 * (0.25 / (noise / LEN as f64)).log10();
            assert!((measured - snr_db).abs() < 0.05, "{measured} dB for {snr_db} dB");
        }
    }

    #[test]
    fn seeds_differ_and_nonsense_is_refused() {
        let run = |seed| {
            let mut x = [0.0f32; 8];
            Awgn::new(1.0, seed).unwrap().fill(&mut x);
            x
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
        assert!(Awgn::new(-1.0, 0).unwrap_err().to_string().contains("sigma is -1"));
        assert!(Awgn::with_snr(f64::NAN, 1.0, 0).unwrap_err().to_string().contains("snr_db"));
        assert!(Awgn::with_snr(3.0, f64::INFINITY, 0).unwrap_err().to_string().contains("signal_power"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn packets_do_not_matter(sizes in prop::collection::vec(0usize..50, 0..20)) {
            let mut whole = vec![Complex::<f32>::default(); 400];
            Awgn::new(1.0, 9).unwrap().fill(&mut whole);
            let (mut noise, mut output, mut done) = (Awgn::new(1.0, 9).unwrap(), vec![Complex::default(); 400], 0);
            for size in sizes.into_iter().chain([usize::MAX]) {
                let end = done + size.min(400 - done);
                noise.add(&mut output[done..end]);
                done = end;
            }
            prop_assert_eq!(output, whole);
        }
    }
}
