//! The layout of a complex sample in a file.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use num_complex::Complex;
use stripline::payload::Scalar;

use super::encoding::Encoding;
use super::error::FormatError;

/// The format of the complex samples in a raw I/Q file: I before Q, no padding, integers
/// little-endian.
///
/// | name | SigMF | bytes | component | as f32 |
/// | --- | --- | --- | --- | --- |
/// | `cu8` | `cu8` | 2 | u8, offset binary (RTL-SDR) | (x - 127.5) / 127.5, so -1 to 1 |
/// | `cs8` | `ci8` | 2 | i8 (HackRF) | x / 128, so -1 to 127/128 |
/// | `cs16` | `ci16_le` | 4 | i16 | x / 32768, so -1 to 32767/32768 |
/// | `cf32` | `cf32_le` | 8 | f32 | x |
///
/// From f32 to integers, values are rounded to the nearest (ties to even) and saturate; NaN counts
/// as 0. Every integer sample is unchanged by a conversion to f32 and back. In WAV files of 8 bits,
/// 128 is zero, and (x - 128) / 128 the f32.
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::formats::SampleFormat;
///
/// let format: SampleFormat = "cu8".parse()?;
/// let mut samples = [Complex::default(); 2];
/// format.decode(&[0, 255, 128, 127], &mut samples);
/// assert_eq!(samples[0], Complex::new(-1.0, 1.0));
/// let mut bytes = [0; 4];
/// format.encode(&samples, &mut bytes);
/// assert_eq!(bytes, [0, 255, 128, 127]);
/// # Ok::<(), stripline_components::formats::FormatError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SampleFormat {
    /// Complex u8.
    Cu8,
    /// Complex i8.
    Cs8,
    /// Complex i16, little-endian.
    Cs16,
    /// Complex f32, little-endian.
    Cf32,
}

impl SampleFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Cu8, Self::Cs8, Self::Cs16, Self::Cf32];

    /// Returns the name, as it is parsed and displayed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cu8 => "cu8",
            Self::Cs8 => "cs8",
            Self::Cs16 => "cs16",
            Self::Cf32 => "cf32",
        }
    }

    /// Returns the type of a sample.
    pub fn scalar(self) -> Scalar {
        Scalar::parse(self.name()).expect("each format has the name of a built-in type")
    }

    /// Returns the format for samples of a type; `None`: there is no such format.
    pub fn of_scalar(scalar: Scalar) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.scalar() == scalar)
    }

    /// Returns the names of all formats, for messages.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Returns the number of bytes in a sample: 2, 4 or 8.
    pub const fn bytes_per_sample(self) -> usize {
        match self {
            Self::Cu8 | Self::Cs8 => 2,
            Self::Cs16 => 4,
            Self::Cf32 => 8,
        }
    }

    /// Returns the format of a file's extension, as in `capture.cu8` (the convention of rtl_433 and
    /// inspectrum).
    pub fn from_extension(path: &Path) -> Option<Self> {
        path.extension()?.to_str()?.to_ascii_lowercase().parse().ok()
    }

    /// Converts the bytes of a file to samples.
    ///
    /// # Panics
    /// If `bytes` does not hold exactly `samples.len()` samples.
    pub fn decode(self, bytes: &[u8], samples: &mut [Complex<f32>]) {
        self.check_lengths(bytes.len(), samples.len());
        let numbers = bytemuck::cast_slice_mut(samples);
        let encoding = Encoding::raw(self.scalar());
        if encoding.is_native() {
            return encoding.to_f32(bytes, numbers);
        }
        let mut native = bytes.to_vec();
        encoding.decode(&mut native, bytes.len());
        encoding.to_f32(&native, numbers);
    }

    /// Converts samples to the bytes of a file.
    ///
    /// # Panics
    /// If `bytes` does not hold exactly `samples.len()` samples.
    pub fn encode(self, samples: &[Complex<f32>], bytes: &mut [u8]) {
        self.check_lengths(bytes.len(), samples.len());
        let components: &[f32] = bytemuck::cast_slice(samples);
        match self {
            Self::Cu8 => {
                for (y, &x) in bytes.iter_mut().zip(components) {
                    *y = rounded(zero_if_nan(x) * 127.5 + 127.5, 0.0, 255.0) as u8;
                }
            }
            Self::Cs8 => {
                for (y, &x) in bytes.iter_mut().zip(components) {
                    *y = rounded(zero_if_nan(x) * 128.0, -128.0, 127.0) as u8;
                }
            }
            Self::Cs16 => {
                for (y, &x) in bytes.as_chunks_mut().0.iter_mut().zip(components) {
                    *y = (rounded(zero_if_nan(x) * 32_768.0, -32_768.0, 32_767.0) as i16).to_le_bytes();
                }
            }
            Self::Cf32 => {
                for (y, &x) in bytes.as_chunks_mut().0.iter_mut().zip(components) {
                    *y = x.to_le_bytes();
                }
            }
        }
    }

    fn check_lengths(self, bytes: usize, samples: usize) {
        assert_eq!(
            Some(bytes),
            samples.checked_mul(self.bytes_per_sample()),
            "bytes of {samples} {self} samples"
        );
    }
}

impl From<SampleFormat> for Scalar {
    fn from(format: SampleFormat) -> Self {
        format.scalar()
    }
}

impl fmt::Display for SampleFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SampleFormat {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| FormatError::UnknownSampleFormat { name: name.chars().take(40).collect() })
    }
}

/// Returns whether a number is beyond full scale, so that an integer format cannot hold it.
pub(super) fn is_clipped(x: f32) -> bool {
    x.is_nan() || x.abs() > 1.0
}

mod sealed {
    pub trait Sealed {}
}

/// A sample as stored in a file of one [`SampleFormat`], so that a file can be read without
/// conversion. The trait is sealed.
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::formats::RawSample;
///
/// let mut samples = [Complex::<i16>::default(); 2];
/// RawSample::read_bytes(&[1, 0, 2, 0, 0, 1, 255, 255], &mut samples);
/// assert_eq!(samples, [Complex::new(1, 2), Complex::new(256, -1)]);
/// ```
pub trait RawSample: bytemuck::Pod + sealed::Sealed {
    /// The format.
    const FORMAT: SampleFormat;

    /// Converts samples that were read as plain memory to the machine's byte order, or back. Does
    /// nothing on a little-endian machine.
    fn swap_from_little_endian(samples: &mut [Self]);

    /// Copies the bytes of a file, at any alignment, to samples.
    ///
    /// # Panics
    /// If `bytes` does not hold exactly `samples.len()` samples.
    fn read_bytes(bytes: &[u8], samples: &mut [Self]) {
        Self::FORMAT.check_lengths(bytes.len(), samples.len());
        bytemuck::cast_slice_mut(samples).copy_from_slice(bytes);
        Self::swap_from_little_endian(samples);
    }
}

macro_rules! raw_sample {
    ($($component:ty => $format:ident, $from_le:expr;)*) => {$(
        impl sealed::Sealed for Complex<$component> {}
        impl RawSample for Complex<$component> {
            const FORMAT: SampleFormat = SampleFormat::$format;

            fn swap_from_little_endian(samples: &mut [Self]) {
                if cfg!(target_endian = "big") {
                    let from_le: fn($component) -> $component = $from_le;
                    for x in samples {
                        *x = Complex::new(from_le(x.re), from_le(x.im));
                    }
                }
            }
        }
    )*};
}

raw_sample! {
    u8 => Cu8, |x| x;
    i8 => Cs8, |x| x;
    i16 => Cs16, i16::from_le;
    f32 => Cf32, |x| f32::from_bits(u32::from_le(x.to_bits()));
}

#[inline]
fn zero_if_nan(x: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x }
}

/// Returns the integer nearest to `x` (ties to even) between `low` and `high`, which are integers
/// within ±2^22. Adding 1.5 * 2^23 leaves the integer in the lowest bits of the f32. Unlike
/// `f32::round` and saturating casts, this vectorises.
#[inline]
fn rounded(x: f32, low: f32, high: f32) -> i32 {
    const MAGIC: f32 = 12_582_912.0;
    (x.clamp(low, high) + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_others_are_refused_with_the_choice() {
        for format in SampleFormat::ALL {
            assert_eq!(format.to_string().parse::<SampleFormat>().unwrap(), format);
            let path = format!("a.b/capture.{}", format.name().to_uppercase());
            assert_eq!(SampleFormat::from_extension(Path::new(&path)), Some(format));
        }
        let message = "cs32".parse::<SampleFormat>().unwrap_err().to_string();
        assert_eq!(message, "there is no sample format `cs32`: use cu8, cs8, cs16, cf32");
        assert_eq!(SampleFormat::from_extension(Path::new("capture.bin")), None);
    }

    #[test]
    fn every_integer_sample_survives_the_way_there_and_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let words: Vec<u8> = (i16::MIN..=i16::MAX).flat_map(i16::to_le_bytes).collect();
        for (format, bytes) in
            [(SampleFormat::Cu8, &bytes), (SampleFormat::Cs8, &bytes), (SampleFormat::Cs16, &words)]
        {
            let mut samples = vec![Complex::default(); bytes.len() / format.bytes_per_sample()];
            format.decode(bytes, &mut samples);
            let components: &[f32] = bytemuck::cast_slice(&samples);
            assert!(components.iter().all(|x| x.abs() <= 1.0) && components.contains(&-1.0));
            let mut back = vec![0; bytes.len()];
            format.encode(&samples, &mut back);
            assert_eq!(&back, bytes, "{format}");
        }
        let samples = [Complex::new(1.5f32, -0.0), Complex::new(f32::INFINITY, 1e-40)];
        let (mut bytes, mut back) = ([0; 16], [Complex::default(); 2]);
        SampleFormat::Cf32.encode(&samples, &mut bytes);
        SampleFormat::Cf32.decode(&bytes, &mut back);
        assert_eq!(back, samples);
        assert_eq!(bytes[..4], 1.5f32.to_le_bytes());
    }

    #[test]
    fn conversion_to_integers_rounds_saturates_and_takes_nan_for_0() {
        let to = |format: SampleFormat, x: f32| {
            let mut bytes = vec![0; format.bytes_per_sample()];
            format.encode(&[Complex::new(x, x)], &mut bytes);
            bytes[..format.bytes_per_sample() / 2].to_vec()
        };
        let i16_of = |x: f32| i16::from_le_bytes(to(SampleFormat::Cs16, x).try_into().unwrap());
        assert_eq!(i16_of(1.0), 32_767);
        assert_eq!(i16_of(-7e30), -32_768);
        assert_eq!(i16_of(f32::INFINITY), 32_767);
        assert_eq!(i16_of(f32::NAN), 0);
        assert_eq!(i16_of(1.4 / 32_768.0), 1);
        assert_eq!(i16_of(1.6 / 32_768.0), 2);
        assert_eq!(i16_of(2.5 / 32_768.0), 2);
        assert_eq!(i16_of(-1.6 / 32_768.0), -2);
        assert_eq!(to(SampleFormat::Cs8, 1.0), [127]);
        assert_eq!(to(SampleFormat::Cs8, -1.0), [128]);
        assert_eq!(to(SampleFormat::Cs8, -f32::NAN), [0]);
        assert_eq!(to(SampleFormat::Cu8, 1.1), [255]);
        assert_eq!(to(SampleFormat::Cu8, -1.1), [0]);
        assert_eq!(to(SampleFormat::Cu8, f32::NAN), [128]);
    }

    #[test]
    fn raw_samples_are_read_at_any_alignment() {
        let bytes: Vec<u8> = (0..17).collect();
        let mut bytes_i16 = [Complex::<i16>::default(); 4];
        RawSample::read_bytes(&bytes[1..], &mut bytes_i16);
        assert_eq!(bytes_i16[0], Complex::new(0x0201, 0x0403));
        let mut floats = [Complex::<f32>::default(); 2];
        RawSample::read_bytes(&bytes[1..], &mut floats);
        assert_eq!(floats[0].re.to_bits(), 0x0403_0201);
        let mut signed = [Complex::<i8>::default(); 1];
        RawSample::read_bytes(&[255, 1], &mut signed);
        assert_eq!(signed[0], Complex::new(-1, 1));
        let mut unsigned = [Complex::<u8>::default(); 1];
        RawSample::read_bytes(&[255, 1], &mut unsigned);
        assert_eq!(unsigned[0], Complex::new(255, 1));
    }
}
