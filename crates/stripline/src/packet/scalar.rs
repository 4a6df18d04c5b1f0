//! The numbers that samples consist of.

use std::fmt;

/// A number in a sample: `u8` to `u64`, `s8` to `s64`, `f32`, `f64`, or a pair of such numbers, for
/// example `cf32`.
///
/// ```
/// use stripline::payload::{Number, Scalar};
///
/// let scalar = Scalar::parse("cs16").expect("a built-in type");
/// assert_eq!((scalar.size(), scalar.align(), scalar.number()), (4, 2, Number::Signed(2)));
/// assert_eq!(scalar.read(&[1, 0, 0xff, 0xff]).expect("four bytes").to_string(), "1-1i");
/// assert_eq!(Scalar::parse("detection"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scalar {
    number: Number,
    is_complex: bool,
}

/// The kind of a real number, with the size in bytes: 1, 2, 4 or 8.
///
/// ```
/// use stripline::payload::{Number, Scalar};
///
/// assert_eq!(Scalar::parse("f64").map(Scalar::number), Some(Number::Float(8)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Number {
    /// An unsigned whole number.
    Unsigned(usize),
    /// A signed whole number in two's complement.
    Signed(usize),
    /// A floating-point number of IEEE 754, of 4 or 8 bytes.
    Float(usize),
}

impl Scalar {
    /// Returns the scalar with the name of a built-in type.
    pub fn parse(name: &str) -> Option<Self> {
        let (is_complex, real) = match name.strip_prefix('c') {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        let number = match real {
            "u8" => Number::Unsigned(1),
            "u16" => Number::Unsigned(2),
            "u32" => Number::Unsigned(4),
            "u64" => Number::Unsigned(8),
            "s8" => Number::Signed(1),
            "s16" => Number::Signed(2),
            "s32" => Number::Signed(4),
            "s64" => Number::Signed(8),
            "f32" => Number::Float(4),
            "f64" => Number::Float(8),
            _ => return None,
        };
        Some(Self { number, is_complex })
    }

    /// Returns the kind of the number, or of both numbers of a pair.
    pub fn number(self) -> Number {
        self.number
    }

    /// Returns whether this is a pair: the real part, then the imaginary part.
    pub fn is_complex(self) -> bool {
        self.is_complex
    }

    /// Returns the size of the scalar in bytes.
    pub fn size(self) -> usize {
        self.align() * if self.is_complex { 2 } else { 1 }
    }

    /// Returns the alignment of the scalar, which is the size of one number in bytes.
    pub fn align(self) -> usize {
        let (Number::Unsigned(bytes) | Number::Signed(bytes) | Number::Float(bytes)) = self.number;
        bytes
    }

    /// Reads a value from the beginning of these bytes; `None` if there are too few.
    pub fn read(self, bytes: &[u8]) -> Option<ScalarValue> {
        let first = self.number.read(bytes)?;
        match self.is_complex {
            false => Some(ScalarValue::Real(first)),
            true => Some(ScalarValue::Complex(first, self.number.read(bytes.get(self.align()..)?)?)),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.number {
            Number::Unsigned(_) => 'u',
            Number::Signed(_) => 's',
            Number::Float(_) => 'f',
        };
        write!(f, "{}{letter}{}", if self.is_complex { "c" } else { "" }, 8 * self.align())
    }
}

impl Number {
    fn read(self, bytes: &[u8]) -> Option<Numeric> {
        Some(match self {
            Self::Float(4) => Numeric::F32(f32::from_le_bytes(*bytes.first_chunk()?)),
            Self::Float(_) => Numeric::F64(f64::from_le_bytes(*bytes.first_chunk()?)),
            Self::Unsigned(size) => Numeric::Unsigned(little_endian(bytes.get(..size)?)),
            Self::Signed(size) => {
                // Shifts the number up to the top bits, and back down with the sign.
                let above = 64 - 8 * size as u32;
                Numeric::Signed((little_endian(bytes.get(..size)?) << above) as i64 >> above)
            }
        })
    }
}

/// Returns the little-endian number in at most eight bytes.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The value of a real number, with the precision that it has in the sample.
///
/// ```
/// use stripline::payload::{Numeric, Scalar, ScalarValue};
///
/// let value = Scalar::parse("f32").and_then(|scalar| scalar.read(&0.1f32.to_le_bytes()));
/// assert_eq!(value, Some(ScalarValue::Real(Numeric::F32(0.1))));
/// assert_eq!(Numeric::Signed(-3).as_f64(), -3.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numeric {
    /// The value of any unsigned type.
    Unsigned(u64),
    /// The value of any signed type.
    Signed(i64),
    /// The value of an `f32`.
    F32(f32),
    /// The value of an `f64`.
    F64(f64),
}

impl Numeric {
    /// Returns the value, or the nearest value of an `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Unsigned(number) => number as f64,
            Self::Signed(number) => number as f64,
            Self::F32(number) => number.into(),
            Self::F64(number) => number,
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(number) => number.fmt(f),
            Self::Signed(number) => number.fmt(f),
            Self::F32(number) => number.fmt(f),
            Self::F64(number) => number.fmt(f),
        }
    }
}

/// The value of a [`Scalar`]; printed as `1.5`, or `1.5-2i`.
///
/// ```
/// use stripline::payload::{Numeric, ScalarValue};
///
/// let value = ScalarValue::Complex(Numeric::F32(1.5), Numeric::F32(-2.0));
/// assert_eq!(value.to_string(), "1.5-2i");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarValue {
    /// A single number.
    Real(Numeric),
    /// The real part and the imaginary part.
    Complex(Numeric, Numeric),
}

impl fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Real(number) => number.fmt(f),
            Self::Complex(real, imaginary) => write!(f, "{real}{imaginary:+}i"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_to_what_prints_it() {
        for real in ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64"] {
            for name in [real.into(), format!("c{real}")] {
                assert_eq!(Scalar::parse(&name).unwrap().to_string(), name);
            }
        }
        for bad in ["", "c", "cc8", "f16", "U8", "s8 ", "i8", "message/u8"] {
            assert_eq!(Scalar::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn values_are_exact_at_the_ends_of_their_ranges() {
        let read = |name: &str, bytes: &[u8]| Scalar::parse(name).unwrap().read(bytes).unwrap().to_string();
        assert_eq!(read("u64", &u64::MAX.to_le_bytes()), u64::MAX.to_string());
        assert_eq!(read("s64", &i64::MIN.to_le_bytes()), i64::MIN.to_string());
        assert_eq!(read("s8", &[0x80]), "-128");
        assert_eq!(read("u16", &[0xff, 0xff]), "65535");
        assert_eq!(read("cf64", &[1f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat()), "1NaNi");
        assert_eq!(read("cu8", &[7, 9]), "7+9i");
        for cut in 0..8 {
            assert_eq!(Scalar::parse("cs32").unwrap().read(&[0; 8][..cut]), None);
        }
    }
}
