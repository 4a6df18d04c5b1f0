//! The types of samples in files: one table for raw files, SigMF, WAV and numpy.

use std::path::Path;

use stripline::payload::{Number, Scalar};

/// The names of the types, in the order of messages. The names are also the extensions of raw
/// files, as in `capture.cs16`.
pub(crate) const TYPES: [&str; 20] = [
    "cf32", "cu8", "cs8", "cs16", "f32", "f64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "cf64",
    "cu16", "cu32", "cu64", "cs32", "cs64",
];

/// The layout of the numbers of samples in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// The type of the samples that are returned.
    pub(crate) scalar: Scalar,
    pub(crate) is_big_endian: bool,
    /// Whether a number has three bytes in the file. Those bytes become the upper bytes of an
    /// `s32`.
    pub(crate) has_24_bits: bool,
    /// Whether 128 is zero in unsigned numbers of 8 bits, as in WAV, rather than 127.5.
    pub(crate) has_zero_128: bool,
}

impl Encoding {
    /// Returns the layout of a raw file.
    pub(crate) fn raw(scalar: Scalar) -> Self {
        Self { scalar, is_big_endian: false, has_24_bits: false, has_zero_128: false }
    }

    /// Returns the layout of a SigMF datatype, for example `ci16_le`.
    pub(crate) fn of_sigmf(datatype: &str) -> Option<Self> {
        let (name, is_big_endian) = match (datatype.strip_suffix("_le"), datatype.strip_suffix("_be")) {
            (Some(name), _) => (name, false),
            (_, Some(name)) => (name, true),
            _ => (datatype, false),
        };
        let (letter, number) = (name.get(..1)?, name.get(1..)?);
        let complex = match letter {
            "c" => "c",
            "r" => "",
            _ => return None,
        };
        let number = number.strip_prefix('i').map_or_else(|| number.to_owned(), |bits| format!("s{bits}"));
        let scalar = Scalar::parse(&format!("{complex}{number}"))?;
        Some(Self { is_big_endian, ..Self::raw(scalar) })
    }

    /// Returns the layout of a numpy type, for example `<c8`.
    pub(crate) fn of_numpy(descr: &str) -> Option<Self> {
        let is_big_endian = match descr.get(..1)? {
            "<" | "|" => false,
            ">" => true,
            "=" => cfg!(target_endian = "big"),
            _ => return None,
        };
        let (kind, bytes) = (descr.get(1..2)?, descr.get(2..)?.parse::<usize>().ok()?);
        let (letters, bytes) = match kind {
            "f" => ("f", bytes),
            "i" => ("s", bytes),
            "u" => ("u", bytes),
            "c" => ("cf", bytes / 2),
            _ => return None,
        };
        let scalar = Scalar::parse(&format!("{letters}{}", bytes.checked_mul(8)?))?;
        Some(Self { is_big_endian, ..Self::raw(scalar) })
    }

    /// Returns the layout of a WAV file from its format tag, 1 (integers) or 3 (floats), and the
    /// number of bits.
    pub(crate) fn of_wav(tag: u16, bits: u16) -> Option<Self> {
        let name = match (tag, bits) {
            (1, 8) => "u8",
            (1, 16) => "s16",
            (1, 24 | 32) => "s32",
            (3, 32) => "f32",
            (3, 64) => "f64",
            _ => return None,
        };
        let encoding = Self::raw(Scalar::parse(name)?);
        Some(Self { has_24_bits: bits == 24, has_zero_128: bits == 8, ..encoding })
    }

    /// Returns the size of a sample in the file, in bytes.
    pub(crate) fn stored_bytes(&self) -> usize {
        if self.has_24_bits { self.scalar.size() / 4 * 3 } else { self.scalar.size() }
    }

    /// Returns whether samples have the same form in the file and in memory.
    pub(crate) fn is_native(&self) -> bool {
        !self.has_24_bits && (self.is_big_endian == cfg!(target_endian = "big") || self.scalar.align() == 1)
    }

    /// Converts samples to their form in memory, in place. The first `stored` bytes of `bytes` are
    /// the samples as in the file; `bytes` has space for the result.
    pub(crate) fn decode(&self, bytes: &mut [u8], stored: usize) {
        if self.is_native() {
            return;
        }
        if self.has_24_bits {
            // Convert from the last to the first, so that no number is overwritten before it is
            // moved.
            for at in (0..stored / 3).rev() {
                let [low, middle, high] = [bytes[3 * at], bytes[3 * at + 1], bytes[3 * at + 2]];
                let number = u32::from_le_bytes([0, low, middle, high]).to_ne_bytes();
                bytes[4 * at..4 * at + 4].copy_from_slice(&number);
            }
        } else {
            bytes[..stored].chunks_exact_mut(self.scalar.align()).for_each(<[u8]>::reverse);
        }
    }

    /// Converts numbers in memory to `f32`, each as its four bytes in memory. Integers become -1 to
    /// 1, as described for [`SampleFormat`](super::SampleFormat).
    ///
    /// # Panics
    /// If `bytes` does not hold exactly `out.len()` numbers.
    pub(crate) fn to_f32(self, bytes: &[u8], out: &mut [[u8; 4]]) {
        match self.scalar.number() {
            Number::Unsigned(1) if self.has_zero_128 => {
                each(bytes, out, |[x]| (f32::from(x) - 128.0) * (1.0 / 128.0));
            }
            Number::Unsigned(1) => each(bytes, out, |[x]| (f32::from(x) - 127.5) * (1.0 / 127.5)),
            Number::Signed(1) => each(bytes, out, |[x]| f32::from(x.cast_signed()) * (1.0 / 128.0)),
            Number::Unsigned(2) => {
                each(bytes, out, |x| (f32::from(u16::from_ne_bytes(x)) - 32_767.5) * (1.0 / 32_767.5));
            }
            Number::Signed(2) => each(bytes, out, |x| f32::from(i16::from_ne_bytes(x)) * (1.0 / 32_768.0)),
            Number::Unsigned(4) => each(bytes, out, |x| {
                const MIDDLE: f64 = u32::MAX as f64 / 2.0;
                ((f64::from(u32::from_ne_bytes(x)) - MIDDLE) / MIDDLE) as f32
            }),
            Number::Signed(4) => {
                each(bytes, out, |x| (f64::from(i32::from_ne_bytes(x)) * (1.0 / 2_147_483_648.0)) as f32);
            }
            Number::Unsigned(_) => each(bytes, out, |x| {
                const MIDDLE: f64 = u64::MAX as f64 / 2.0;
                ((u64::from_ne_bytes(x) as f64 - MIDDLE) / MIDDLE) as f32
            }),
            Number::Signed(_) => {
                each(bytes, out, |x| (i64::from_ne_bytes(x) as f64 / 9_223_372_036_854_775_808.0) as f32);
            }
            Number::Float(4) => each(bytes, out, f32::from_ne_bytes),
            Number::Float(_) => each(bytes, out, |x| f64::from_ne_bytes(x) as f32),
        }
    }
}

/// Converts each number to `f32`.
fn each<const N: usize>(bytes: &[u8], out: &mut [[u8; 4]], convert: impl Fn([u8; N]) -> f32) {
    let (numbers, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty() && numbers.len() == out.len(), "numbers and room for them");
    for (y, x) in out.iter_mut().zip(numbers) {
        *y = convert(*x).to_ne_bytes();
    }
}

/// Returns the SigMF datatype for a type, for example `ci16_le`.
pub(crate) fn sigmf_name(scalar: Scalar, is_big_endian: bool) -> String {
    let letter = if scalar.is_complex() { 'c' } else { 'r' };
    let number = match scalar.number() {
        Number::Unsigned(bytes) => format!("u{}", 8 * bytes),
        Number::Signed(bytes) => format!("i{}", 8 * bytes),
        Number::Float(bytes) => format!("f{}", 8 * bytes),
    };
    let order = match (scalar.align(), is_big_endian) {
        (1, _) => "",
        (_, false) => "_le",
        (_, true) => "_be",
    };
    format!("{letter}{number}{order}")
}

/// Returns the type for the extension of a file, as in `capture.cu8`, in small letters or capitals.
pub(crate) fn of_ending(path: &Path) -> Option<Scalar> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    Scalar::parse(&ending)
}

/// Returns the number of samples in which a finite number is infinite as `f32`.
pub(crate) fn beyond_f32(scalar: Scalar, bytes: &[u8]) -> u64 {
    if scalar.number() != Number::Float(8) {
        return 0;
    }
    let is_beyond = |number: &[u8; 8]| {
        let number = f64::from_ne_bytes(*number);
        number.is_finite() && (number as f32).is_infinite()
    };
    let samples = bytes.chunks_exact(scalar.size());
    samples.filter(|sample| sample.as_chunks().0.iter().any(is_beyond)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(name: &str) -> Scalar {
        Scalar::parse(name).unwrap()
    }

    #[test]
    fn every_type_has_a_name_in_sigmf() {
        for name in TYPES {
            for is_big_endian in [false, true] {
                let found = Encoding::of_sigmf(&sigmf_name(scalar(name), is_big_endian)).unwrap();
                assert_eq!(found.scalar, scalar(name));
                assert_eq!(found.is_big_endian, is_big_endian && scalar(name).align() > 1);
            }
        }
        assert_eq!(sigmf_name(scalar("s16"), true), "ri16_be");
        for wrong in ["", "c", "ci12_le", "xi16_le", "i16", "CU8", "é16", "cs16_le_le"] {
            assert_eq!(Encoding::of_sigmf(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn types_of_numpy_and_wav_are_found() {
        for (descr, name) in
            [("<c8", "cf32"), ("<f8", "f64"), ("|u1", "u8"), (">i2", "s16"), ("<c16", "cf64")]
        {
            let found = Encoding::of_numpy(descr).unwrap();
            assert_eq!((found.scalar, found.is_big_endian), (scalar(name), descr.starts_with('>')));
        }
        for wrong in ["", "<", "<f2", "|O", "<U4", "<c", "<c99999999999999999999", "é"] {
            assert_eq!(Encoding::of_numpy(wrong), None, "{wrong}");
        }
        assert_eq!(Encoding::of_wav(1, 24).unwrap().stored_bytes(), 3);
        assert_eq!(Encoding::of_wav(6, 8), None);
    }

    #[test]
    fn silence_of_8_bits_is_128_in_wav_and_between_two_numbers_elsewhere() {
        let wav = Encoding::of_wav(1, 8).unwrap();
        for (encoding, expected) in
            [(wav, [-1.0, 0.0, 127.0 / 128.0]), (Encoding::raw(scalar("u8")), [-1.0, 0.5 / 127.5, 1.0])]
        {
            let mut out = [[0; 4]; 3];
            encoding.to_f32(&[0, 128, 255], &mut out);
            assert_eq!(out.map(f32::from_ne_bytes), expected);
        }
    }

    #[test]
    fn numbers_are_brought_into_memory_order() {
        let mut bytes = [1, 2, 3, 0xff, 0xff, 0xff, 0, 0];
        Encoding::of_wav(1, 24).unwrap().decode(&mut bytes, 6);
        let numbers = bytes.as_chunks().0.iter().map(|x| i32::from_ne_bytes(*x));
        assert_eq!(numbers.collect::<Vec<_>>(), [0x0302_0100, -256]);
        let mut bytes = [0, 1, 0xff, 0xfe];
        Encoding::of_sigmf("ci16_be").unwrap().decode(&mut bytes, 4);
        assert_eq!(bytes.as_chunks().0.iter().map(|x| i16::from_ne_bytes(*x)).collect::<Vec<_>>(), [1, -2]);
    }

    #[test]
    fn numbers_beyond_the_range_of_f32_are_counted_by_samples() {
        let numbers = [1e300, -1e300, f64::from(f32::MAX), -3.5e38, f64::INFINITY, f64::NAN, 0.0, 1e39];
        let bytes: &[u8] = bytemuck::cast_slice(&numbers);
        for (name, expected) in [("f64", 4), ("cf64", 3), ("f32", 0), ("s64", 0)] {
            assert_eq!(beyond_f32(scalar(name), bytes), expected, "{name}");
        }
    }

    #[test]
    fn every_type_is_converted_to_its_full_scale() {
        for name in TYPES {
            let number = scalar(name).number();
            let (Number::Unsigned(bytes) | Number::Signed(bytes) | Number::Float(bytes)) = number;
            let low = match number {
                Number::Unsigned(_) => vec![0; bytes],
                Number::Signed(_) => (0..bytes).map(|at| if at + 1 == bytes { 0x80 } else { 0 }).collect(),
                Number::Float(4) => (-1.0f32).to_ne_bytes().to_vec(),
                Number::Float(_) => (-1.0f64).to_ne_bytes().to_vec(),
            };
            let mut out = [[0; 4]];
            Encoding::raw(scalar(name)).to_f32(&low, &mut out);
            assert_eq!(f32::from_ne_bytes(out[0]), -1.0, "{name}");
        }
    }
}
