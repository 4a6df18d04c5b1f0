//! The types of requests, replies and errors.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::packet::payload::{Sample, TypeName, decode_message};

/// A type of request, reply or error. Every type that serialises is a payload, encoded as CBOR (RFC
/// 8949). So are samples as plain memory, in [`Plain`] and [`Samples`].
///
/// ```
/// use stripline::call::{Payload, Plain, Samples};
///
/// assert_eq!(<(f64, String)>::type_name()?.as_str(), "message/cbor");
/// assert_eq!(Samples::<i16>::type_name()?.as_str(), "s16");
/// assert_eq!(Plain::<u32>::decode(&[1, 0, 0, 0]), Ok(Plain(1)));
/// # Ok::<(), stripline::Error>(())
/// ```
pub trait Payload: Sized {
    /// Returns the name of the type. Client and server compare it.
    ///
    /// # Errors
    /// The name of a user's type is invalid.
    fn type_name() -> Result<TypeName>;

    /// Returns the bytes of the value, if they are sent unchanged.
    #[inline]
    fn as_bytes(&self) -> Option<&[u8]> {
        None
    }

    /// Returns the bytes to send: the value's own bytes, or bytes written to `scratch`, which is
    /// empty.
    ///
    /// # Errors
    /// The type does not serialise.
    fn encode<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]>;

    /// Decodes bytes sent by a peer.
    ///
    /// # Errors
    /// A description of the problem with the bytes.
    fn decode(bytes: &[u8]) -> Result<Self, String>;
}

impl<T: Serialize + DeserializeOwned> Payload for T {
    fn type_name() -> Result<TypeName> {
        Ok(TypeName::message("cbor")?)
    }

    fn encode<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        ciborium::into_writer(self, &mut *scratch)
            .map_err(|e| Error::InvalidArgument(format!("a message does not encode: {e}")))?;
        Ok(scratch)
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        decode_message(bytes)
    }
}

/// A sample as plain memory, without allocation or serialisation.
///
/// ```
/// use stripline::call::Plain;
///
/// assert_eq!(*Plain(2.5), 2.5);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain<T: Sample>(pub T);

impl<T: Sample> Payload for Plain<T> {
    fn type_name() -> Result<TypeName> {
        TypeName::checked::<T>().map_err(Error::InvalidArgument)
    }

    #[inline]
    fn as_bytes(&self) -> Option<&[u8]> {
        Some(bytemuck::bytes_of(&self.0))
    }

    #[inline]
    fn encode<'a>(&'a self, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(bytemuck::bytes_of(&self.0))
    }

    #[inline(always)]
    fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() != size_of::<T>() {
            return Err(format!("{} bytes are not a {} of {}", bytes.len(), T::TYPE, size_of::<T>()));
        }
        Ok(Self(bytemuck::pod_read_unaligned(bytes)))
    }
}

impl<T: Sample> Deref for Plain<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Bytes of a request, a reply or an error, encoded by the program. The bytes are used with an
/// operation with types by value ([`Operation::new`](super::Operation::new)).
///
/// The bytes have no type name: [`ServiceClient::operation_of`](super::ServiceClient) takes the
/// name from the operation.
///
/// ```
/// use stripline::call::{Payload, RawBytes};
///
/// assert_eq!(RawBytes::from(vec![1, 2]).as_bytes(), Some(&[1, 2][..]));
/// assert!(RawBytes::type_name().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawBytes(pub Vec<u8>);

impl From<Vec<u8>> for RawBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// Writes the number of bytes. Only the program can interpret them.
impl fmt::Display for RawBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the operation's own error, of {} bytes", self.0.len())
    }
}

impl Payload for RawBytes {
    fn type_name() -> Result<TypeName> {
        Err(Error::InvalidArgument(
            "raw bytes have no type name: name the operation's types by `operation_of`".into(),
        ))
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        Some(&self.0)
    }

    fn encode<'a>(&'a self, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(&self.0)
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        Ok(Self(bytes.to_vec()))
    }
}

/// Any number of samples as plain memory.
///
/// ```
/// use stripline::call::Samples;
///
/// assert_eq!(Samples(vec![1, 2, 3]).len(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples<T: Sample>(pub Vec<T>);

impl<T: Sample> Payload for Samples<T> {
    fn type_name() -> Result<TypeName> {
        TypeName::checked::<T>().map_err(Error::InvalidArgument)
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        Some(bytemuck::cast_slice(&self.0))
    }

    fn encode<'a>(&'a self, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(bytemuck::cast_slice(&self.0))
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let size = size_of::<T>();
        if size == 0 || !bytes.len().is_multiple_of(size) {
            return Err(format!("{} bytes are not a whole number of {} of {size}", bytes.len(), T::TYPE));
        }
        // Behind a chain of calls, or in the buffer of a socket, their alignment is arbitrary.
        let mut samples = vec![T::zeroed(); bytes.len() / size];
        bytemuck::cast_slice_mut(&mut samples).copy_from_slice(bytes);
        Ok(Self(samples))
    }
}

impl<T: Sample> Deref for Samples<T> {
    type Target = Vec<T>;
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: Sample> DerefMut for Samples<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<P: Payload + PartialEq + std::fmt::Debug>(value: &P) {
        let mut scratch = Vec::new();
        let bytes = value.encode(&mut scratch).unwrap().to_vec();
        assert_eq!(&P::decode(&bytes).unwrap(), value);
    }

    #[test]
    fn every_kind_travels() {
        there_and_back(&("tune".to_string(), 1090e6, vec![1u8, 2, 3]));
        there_and_back(&());
        there_and_back(&Plain(0x1234_5678u32));
        there_and_back(&Samples(vec![1.0f32, -2.0]));
        there_and_back(&Samples::<i16>(vec![]));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert!(Plain::<u32>::decode(&[1, 2, 3]).unwrap_err().contains("3 bytes are not a u32 of 4"));
        assert!(Samples::<u16>::decode(&[1, 2, 3]).unwrap_err().contains("whole number of u16"));
        assert!(u32::decode(&[0x01, 0x02]).unwrap_err().contains("1 bytes follow"));
        assert!(String::decode(&[0x01]).is_err());
    }
}
