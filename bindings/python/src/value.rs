//! Python values as messages in CBOR (RFC 8949), in the form that serde uses in Rust.

use ciborium::Value;
use ciborium_ll::{Encoder, Header};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};
use stripline::payload::decode_message;
use stripline::terms::LinkOptions;

use crate::error;

/// The maximum nesting of values, equal to the limit of a receiver.
const NESTING_MAX: usize = 128;
/// The maximum number of steps to a value that an error shows.
const STEPS_MAX: usize = 6;

/// The tag of a whole number beyond 64 bits.
const BIG_NUMBER: u64 = 2;

/// Encodes a value as CBOR. `what` names the value in errors.
pub fn encode(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<u8>> {
    encode_to(Out::default(), value, what)
}

/// Encodes a value like `encode`, but only for a check. Whole numbers beyond 64 bits become tagged
/// values, which no field of a schema but `any` takes.
pub fn encode_to_check(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<u8>> {
    encode_to(Out { is_to_check: true, ..Out::default() }, value, what)
}

fn encode_to(mut out: Out, value: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<u8>> {
    put(&mut out, value, 0).map_err(|problem| match problem {
        Problem::Python(raised) => raised,
        Problem::Value { steps, text } => {
            let more = if steps.len() > STEPS_MAX { "…" } else { "" };
            let steps: String = steps.into_iter().rev().take(STEPS_MAX).collect();
            error::argument(format!("{what}{steps}{more}: {text}"))
        }
    })?;
    Ok(out.bytes)
}

/// Decodes CBOR. Returns the value, or the mistake in the bytes.
pub fn decode<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Result<Bound<'py, PyAny>, String>> {
    match decode_message::<Value>(bytes) {
        Ok(value) => to_python(py, value),
        Err(problem) => Ok(Err(problem)),
    }
}

/// A message that is being encoded.
#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    /// Whether the message is only checked, and not sent.
    is_to_check: bool,
}

/// The reason why a value cannot be sent.
enum Problem {
    Value {
        /// The path to the value, from the inside out.
        steps: Vec<String>,
        text: String,
    },
    Python(PyErr),
}

impl Problem {
    fn of<T>(text: impl Into<String>) -> Result<T, Self> {
        Err(Self::Value { steps: Vec::new(), text: text.into() })
    }

    fn within(mut self, step: impl FnOnce() -> String) -> Self {
        if let Self::Value { steps, .. } = &mut self {
            steps.push(step());
        }
        self
    }
}

impl From<PyErr> for Problem {
    fn from(raised: PyErr) -> Self {
        Self::Python(raised)
    }
}

fn push(out: &mut Out, header: Header) -> Result<(), Problem> {
    let Ok(()) = Encoder::from(&mut out.bytes).push(header) else { return Problem::of("there is no memory") };
    check_size(out)
}

fn check_size(out: &Out) -> Result<(), Problem> {
    if out.bytes.len() <= LinkOptions::PACKET_MAX {
        return Ok(());
    }
    Problem::of(format!("a message has at most {} bytes; send less at once", LinkOptions::PACKET_MAX))
}

fn put(out: &mut Out, value: &Bound<'_, PyAny>, depth: usize) -> Result<(), Problem> {
    if let Ok(text) = value.cast::<PyString>() {
        return put_text(out, text);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return push(out, Header::Float(number.extract()?));
    }
    // Check for a bool first, because a bool is also an int.
    if let Ok(flag) = value.cast::<PyBool>() {
        let simple = if flag.is_true() { ciborium_ll::simple::TRUE } else { ciborium_ll::simple::FALSE };
        return push(out, Header::Simple(simple));
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return put_int(out, number);
    }
    if value.is_none() {
        return push(out, Header::Simple(ciborium_ll::simple::NULL));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return put_bytes(out, bytes.as_bytes());
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return put_bytes(out, &bytes.to_vec());
    }
    if depth == NESTING_MAX {
        return Problem::of(format!("it is nested more than {NESTING_MAX} deep, or contains itself"));
    }
    let depth = depth + 1;
    if let Ok(list) = value.cast::<PyList>() {
        return put_items(out, &list.to_tuple(), depth);
    }
    if let Ok(items) = value.cast::<PyTuple>() {
        return put_items(out, items, depth);
    }
    if let Ok(map) = value.cast::<PyDict>() {
        return put_map(out, map, depth);
    }
    if let Ok(number) = value.cast::<PyComplex>() {
        push(out, Header::Array(Some(2)))?;
        push(out, Header::Float(number.real()))?;
        return push(out, Header::Float(number.imag()));
    }
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        if !b"biufc".contains(&array.dtype().kind()) {
            return Problem::of(format!("an array of {} has no form in a message", array.dtype()));
        }
        return put_as(out, &value.call_method0("tolist")?, depth);
    }
    put_other(out, value, depth)
}

/// Writes a value in place of another one, at the same depth.
fn put_as(out: &mut Out, value: &Bound<'_, PyAny>, depth: usize) -> Result<(), Problem> {
    put(out, value, depth - 1)
}

#[cold]
fn put_other(out: &mut Out, value: &Bound<'_, PyAny>, depth: usize) -> Result<(), Problem> {
    static PLAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let plain = PLAIN.import(value.py(), "stripline._messages", "_plain")?.call1((value,))?;
    if !plain.is_none() {
        return put_as(out, &plain, depth);
    }
    let kind = value.get_type();
    let kind = kind.name()?;
    Problem::of(format!(
        "{kind} has no form in a message; use dict, list, tuple, str, int, float, bool, None, bytes, complex, a \
         dataclass, or an array of numbers"
    ))
}

fn put_text(out: &mut Out, text: &Bound<'_, PyString>) -> Result<(), Problem> {
    let Ok(text) = text.to_cow() else {
        return Problem::of("the text has a lone surrogate, which is not a character");
    };
    let Ok(()) = Encoder::from(&mut out.bytes).text(&text, None) else {
        return Problem::of("there is no memory");
    };
    check_size(out)
}

fn put_bytes(out: &mut Out, bytes: &[u8]) -> Result<(), Problem> {
    let Ok(()) = Encoder::from(&mut out.bytes).bytes(bytes, None) else {
        return Problem::of("there is no memory");
    };
    check_size(out)
}

fn put_int(out: &mut Out, number: &Bound<'_, PyInt>) -> Result<(), Problem> {
    if let Ok(number) = number.extract::<i64>() {
        return push(
            out,
            match u64::try_from(number) {
                Ok(number) => Header::Positive(number),
                Err(_) => Header::Negative((!number) as u64),
            },
        );
    }
    match number.extract::<u64>() {
        Ok(number) => push(out, Header::Positive(number)),
        Err(_) if out.is_to_check => {
            push(out, Header::Tag(BIG_NUMBER))?;
            put_bytes(out, &[])
        }
        Err(_) => Problem::of("the whole number is beyond 64 bits; send it as text, or as bytes"),
    }
}

fn put_items(out: &mut Out, items: &Bound<'_, PyTuple>, depth: usize) -> Result<(), Problem> {
    push(out, Header::Array(Some(items.len())))?;
    for (index, item) in items.iter().enumerate() {
        put(out, &item, depth).map_err(|problem| problem.within(|| format!("[{index}]")))?;
    }
    Ok(())
}

fn put_map(out: &mut Out, map: &Bound<'_, PyDict>, depth: usize) -> Result<(), Problem> {
    // Copy the items, because other code may change the map in the meantime.
    let items = map.items();
    push(out, Header::Map(Some(items.len())))?;
    for item in items.iter() {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let Ok(name) = name.cast::<PyString>() else {
            return Problem::of(format!("the key {} is not text; use str(key)", name.repr()?));
        };
        let step = || format!("[{}]", name.repr().map_or_else(|_| "…".into(), |text| text.to_string()));
        put_text(out, name).map_err(|problem| problem.within(step))?;
        put(out, &value, depth).map_err(|problem| problem.within(step))?;
    }
    Ok(())
}

/// Converts a value from CBOR for Python. The nesting was limited when it was read.
fn to_python(py: Python<'_>, value: Value) -> PyResult<Result<Bound<'_, PyAny>, String>> {
    let made = match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, flag).to_owned().into_any(),
        Value::Float(number) => PyFloat::new(py, number).into_any(),
        Value::Integer(number) => i128::from(number).into_pyobject(py)?.into_any(),
        Value::Text(text) => PyString::new(py, &text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                match to_python(py, item)? {
                    Ok(item) => list.append(item)?,
                    problem => return Ok(problem),
                }
            }
            list.into_any()
        }
        Value::Map(entries) => {
            let map = PyDict::new(py);
            for (name, value) in entries {
                match (to_key(py, name)?, to_python(py, value)?) {
                    (Ok(name), Ok(value)) => map.set_item(name, value)?,
                    (Err(problem), _) | (_, Err(problem)) => return Ok(Err(problem)),
                }
            }
            map.into_any()
        }
        // The tag itself is left out.
        Value::Tag(_, inner) => return to_python(py, *inner),
        _ => return Ok(Err("it has a value of a kind that is not known".into())),
    };
    Ok(Ok(made))
}

/// Returns a key of a map, as an object that can be hashed.
fn to_key(py: Python<'_>, key: Value) -> PyResult<Result<Bound<'_, PyAny>, String>> {
    match key {
        Value::Array(items) => {
            let mut keys = Vec::with_capacity(items.len());
            for item in items {
                match to_key(py, item)? {
                    Ok(key) => keys.push(key),
                    problem => return Ok(problem),
                }
            }
            Ok(Ok(PyTuple::new(py, keys)?.into_any()))
        }
        Value::Map(_) => Ok(Err("it has a map as a key of a map".into())),
        Value::Tag(_, inner) => to_key(py, *inner),
        other => to_python(py, other),
    }
}
