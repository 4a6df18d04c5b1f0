//! Failures as exceptions.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::{Error, ErrorCode};
use stripline_bindings::{Code, Failure};

/// Returns the exception for a failure, or for an error of the library.
#[cold]
pub fn raised(failure: impl Into<Failure>) -> PyErr {
    let failure = failure.into();
    make(failure.code.word(), &failure, failure.code.remedy())
}

/// Returns the error of a component that has raised an exception with the word of this code.
#[cold]
pub fn failed(code: &str, message: String) -> Error {
    let of = |it: &&ErrorCode| it.word() == code;
    let code = ErrorCode::ALL.iter().find(of).copied().unwrap_or(ErrorCode::Failed);
    Failure::new(code, message).into()
}

/// Returns the exception for an argument that the caller must change.
#[cold]
pub fn argument(message: String) -> PyErr {
    raised(Failure::argument(message))
}

/// Returns the exception for an object that another thread, or an outer call, is using.
#[cold]
pub fn in_use(what: &str, name: &str) -> PyErr {
    let message = format!(
        "{what} `{name}` is in use by another thread, or by a call further out; one thread at a time may use it"
    );
    make(Code::IN_USE.word(), &Failure::new(Code::IN_USE, message), "Call from one thread at a time.")
}

/// Returns the exception for an object that was closed.
#[cold]
pub fn closed(what: &str, name: &str) -> PyErr {
    let failure = Failure::new(ErrorCode::Port, format!("{what} `{name}` is closed; make another"));
    make(failure.code.word(), &failure, "Make another one.")
}

/// Returns the exception for the end of a stream.
#[cold]
pub fn end_of_stream(name: &str) -> PyErr {
    let message = format!("port `{name}`: the stream has ended; no packet follows");
    let failure = Failure::new(ErrorCode::Port, message);
    make("end-of-stream", &failure, "Stop receiving; a `for` loop ends by itself.")
}

fn make(code: &str, failure: &Failure, remedy: &str) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Python::attach(|py| {
        let (message, connection) = (&failure.message, failure.connection.as_deref());
        let made = MAKE.import(py, "stripline._errors", "_make").and_then(|make| {
            make.call1((code, message, remedy, connection, failure.os_code, failure.is_sent))
        });
        made.map_or_else(|error| error, PyErr::from_value)
    })
}
