//! The types of the requests, replies and errors of calls.

use numpy::PyArrayDescrMethods;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::payload::TypeName;

use crate::array::{self, ArrayType};
use crate::value;

/// The form of a request, a reply or an error.
pub enum Form {
    /// A value in CBOR.
    Message,
    /// An array of samples, as plain memory.
    Samples(ArrayType),
}

impl Form {
    /// Returns the form of a type that a service reports.
    pub fn of(py: Python<'_>, name: &TypeName) -> PyResult<Self> {
        static SAMPLE_TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if name.is_message() {
            return Ok(Self::Message);
        }
        let samples = SAMPLE_TYPE.import(py, "stripline._types", "SampleType")?.call1((name.full_text(),))?;
        ArrayType::resolve(&samples).map(Self::Samples)
    }

    /// Reads a type that a program gives: None for a value in CBOR, otherwise a type of samples.
    pub fn named(given: &Bound<'_, PyAny>) -> PyResult<(TypeName, Self)> {
        if given.is_none() {
            let name = TypeName::message("cbor").map_err(|bad| crate::error::argument(bad.to_string()))?;
            return Ok((name, Self::Message));
        }
        let array = ArrayType::resolve(given)?;
        Ok((array.samples.name().clone(), Self::Samples(array)))
    }

    /// Encodes a value of the program. `what` names the value in errors.
    pub fn encode(&self, value: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<u8>> {
        let Self::Samples(array) = self else { return value::encode(value, what) };
        let refused = || {
            let problem = "takes arrays of one dimension; use `array.reshape(-1)`";
            Err(crate::error::argument(format!("{what} {problem}")))
        };
        let bytes = array.bytes_of(value, what, refused)?;
        let mut copy = vec![0; bytes.length];
        // SAFETY: `value` keeps the array alive, and the copy does not overlap it.
        unsafe { bytes.copy_to(&mut copy) };
        Ok(copy)
    }

    /// Decodes the bytes of a peer. Returns the value, or the mistake in the bytes.
    pub fn decode<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Result<Bound<'py, PyAny>, String>> {
        let Self::Samples(array) = self else { return value::decode(py, bytes) };
        let size = array.dtype(py).itemsize();
        if size == 0 || !bytes.len().is_multiple_of(size) {
            let problem =
                format!("{} bytes are not a whole number of {} of {size}", bytes.len(), array.samples);
            return Ok(Err(problem));
        }
        let made = array.empty(py, bytes.len() / size)?;
        let place = array::place_of(&made);
        // SAFETY: the array is new, and has room for the bytes.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(Ok(made.into_any()))
    }
}
