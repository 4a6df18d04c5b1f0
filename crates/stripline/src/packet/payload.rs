//! The payload of a packet: samples as plain memory, or one message in CBOR.
//!
//! A port has one payload type, named by a short text ([`TypeName`]) that both ends compare when
//! they connect. Samples are never serialised on one host; their bytes are the machine's own.

use std::fmt;

use bytemuck::Pod;
use num_complex::Complex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A sample type: fixed size, not empty, plain memory, any bit pattern valid. Ports refuse types
/// with an alignment over 16 bytes.
///
/// Implemented for `i8` to `f64` and for [`Complex`] of each. A component may add its own plain
/// structure, which then travels as an array without being serialised:
///
/// ```
/// use stripline::Sample;
///
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Detection { range_bin: u32, doppler_bin: i32, level_db: f32 }
///
/// impl Sample for Detection { const TYPE: &'static str = "detection"; }
/// ```
pub trait Sample: Pod + Send + Sync {
    /// The name that ports compare, at most [`TypeName::LENGTH_MAX`] of `a-z 0-9 - / .`.
    const TYPE: &'static str;
}

macro_rules! samples {
    ($($type:ty => $name:literal, $complex:literal;)*) => {$(
        impl Sample for $type { const TYPE: &'static str = $name; }
        impl Sample for Complex<$type> { const TYPE: &'static str = $complex; }
    )*};
}

samples! {
    i8 => "s8", "cs8";
    u8 => "u8", "cu8";
    i16 => "s16", "cs16";
    u16 => "u16", "cu16";
    i32 => "s32", "cs32";
    u32 => "u32", "cu32";
    i64 => "s64", "cs64";
    u64 => "u64", "cu64";
    f32 => "f32", "cf32";
    f64 => "f64", "cf64";
}

/// Returns the size in bytes and complexness of a built-in sample type, or `None` for any other
/// type name.
///
/// ```
/// assert_eq!(stripline::payload::builtin("cf32"), Some((8, true)));
/// assert_eq!(stripline::payload::builtin("detection"), None);
/// ```
pub fn builtin(name: &str) -> Option<(usize, bool)> {
    let (complex, scalar) = match name.strip_prefix('c') {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let size = match scalar {
        "s8" | "u8" => 1,
        "s16" | "u16" => 2,
        "s32" | "u32" | "f32" => 4,
        "s64" | "u64" | "f64" => 8,
        _ => return None,
    };
    Some((if complex { 2 * size } else { size }, complex))
}

/// The name of a payload type: 1 to 64 characters of `a-z 0-9 - / .`.
///
/// ```
/// use stripline::payload::TypeName;
///
/// assert_eq!(TypeName::of::<num_complex::Complex<f32>>().as_str(), "cf32");
/// assert!(TypeName::new("no spaces").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TypeName(String);

impl TypeName {
    /// The longest name, in bytes.
    pub const LENGTH_MAX: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    /// The offending name, when it is empty, too long or has another character.
    pub fn new(name: impl Into<String>) -> Result<Self, BadTypeName> {
        let name = name.into();
        let fits = !name.is_empty()
            && name.len() <= Self::LENGTH_MAX
            && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'/' | b'.'));
        if fits { Ok(Self(name)) } else { Err(BadTypeName(name.chars().take(80).collect())) }
    }

    /// Returns the name of a sample type.
    ///
    /// # Panics
    /// Panics if the type's [`Sample::TYPE`] breaks the rules above: a mistake in the program, not
    /// in its input.
    pub fn of<T: Sample>() -> Self {
        match Self::new(T::TYPE) {
            Ok(name) => name,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the name of a message type: `message/` and the given name.
    ///
    /// # Errors
    /// As [`TypeName::new`].
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// assert_eq!(TypeName::message("tune").unwrap().as_str(), "message/tune");
    /// ```
    pub fn message(name: &str) -> Result<Self, BadTypeName> {
        Self::new(format!("message/{name}"))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for TypeName {
    type Error = BadTypeName;
    fn try_from(name: String) -> Result<Self, BadTypeName> {
        Self::new(name)
    }
}

impl From<TypeName> for String {
    fn from(name: TypeName) -> String {
        name.0
    }
}

/// A text that is not a valid [`TypeName`]; its first 80 characters.
///
/// ```
/// use stripline::payload::{BadTypeName, TypeName};
///
/// assert_eq!(TypeName::new("Cf32"), Err(BadTypeName("Cf32".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTypeName(pub String);

impl fmt::Display for BadTypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no payload type name: use 1 to 64 characters of a-z, 0-9, `-`, `/`, `.`", self.0)
    }
}

impl std::error::Error for BadTypeName {}

/// The nesting limit of a message: more is refused before the stack runs out.
const NESTING_MAX: usize = 128;

/// Takes the first value of some CBOR off the bytes.
///
/// # Errors
/// A description of what is wrong with it.
pub(crate) fn from_cbor<M: DeserializeOwned>(bytes: &mut &[u8]) -> Result<M, String> {
    use ciborium::de::Error;
    ciborium::de::from_reader_with_recursion_limit(bytes, NESTING_MAX).map_err(|error| match error {
        Error::Io(_) => "it ends early".into(),
        Error::Syntax(at) => format!("it is no CBOR (RFC 8949) at byte {at}"),
        Error::Semantic(_, reason) => reason,
        Error::RecursionLimitExceeded => format!("it is nested more than {NESTING_MAX} deep"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_name_is_valid_and_its_size_known() {
        assert_eq!(builtin(<Complex<i16> as Sample>::TYPE), Some((4, true)));
        assert_eq!(builtin(<f64 as Sample>::TYPE), Some((8, false)));
        assert_eq!(builtin(TypeName::of::<Complex<f64>>().as_str()), Some((16, true)));
    }

    #[test]
    fn bad_names_are_refused() {
        for bad in ["", "Cf32", "a b", &"x".repeat(65)] {
            assert!(TypeName::new(bad).is_err(), "{bad}");
        }
    }
}
