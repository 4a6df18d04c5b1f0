//! Errors of the library as exceptions.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::{Error, ErrorCode};

/// The parts of an exception.
struct Parts<'a> {
    code: &'a str,
    message: String,
    remedy: &'a str,
    connection: Option<&'a str>,
    os_code: Option<i32>,
    is_sent: bool,
}

/// Returns the exception for an error of the library.
#[cold]
pub fn raised(error: Error) -> PyErr {
    let code = error.code();
    Python::attach(|py| {
        make(
            py,
            Parts {
                code: code.word(),
                message: error.to_string(),
                remedy: code.remedy(),
                connection: error.connection(),
                os_code: error.os_code(),
                is_sent: matches!(error, Error::Interrupted { sent: true, .. }),
            },
        )
    })
}

/// Returns the exception for a code.
#[cold]
pub fn of_code(code: ErrorCode, message: String) -> PyErr {
    named(code.word(), message, code.remedy())
}

/// Returns the exception for an argument that the caller must change.
#[cold]
pub fn argument(message: String) -> PyErr {
    of_code(ErrorCode::InvalidArgument, message)
}

/// Returns the exception for an object that another thread, or an outer call, is using.
#[cold]
pub fn in_use(what: &str, name: &str) -> PyErr {
    let message = format!(
        "{what} `{name}` is in use by another thread, or by a call further out; one thread at a time may use it"
    );
    named("in-use", message, "Call from one thread at a time.")
}

/// Returns the exception for an object that was closed.
#[cold]
pub fn closed(what: &str, name: &str) -> PyErr {
    named("port", format!("{what} `{name}` is closed; make another"), "Make another one.")
}

/// Returns the exception for the end of a stream.
#[cold]
pub fn end_of_stream(name: &str) -> PyErr {
    let message = format!("port `{name}`: the stream has ended; no packet follows");
    named("end-of-stream", message, "Stop receiving; a `for` loop ends by itself.")
}

fn named(code: &str, message: String, remedy: &str) -> PyErr {
    Python::attach(|py| {
        make(py, Parts { code, message, remedy, connection: None, os_code: None, is_sent: false })
    })
}

fn make(py: Python<'_>, parts: Parts<'_>) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = MAKE.import(py, "stripline._errors", "_make").and_then(|make| {
        make.call1((parts.code, parts.message, parts.remedy, parts.connection, parts.os_code, parts.is_sent))
    });
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
