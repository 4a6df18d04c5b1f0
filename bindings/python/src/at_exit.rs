//! The end of the interpreter, with threads that still wait.

use pyo3::prelude::*;

use crate::{library_log, waits};

/// Ends waits and the log. Python calls this at its end, after it has joined its threads: only
/// daemon threads are left. One that came back from a wait later could not enter the interpreter.
#[pyfunction(name = "_at_exit")]
pub fn at_exit(py: Python<'_>) {
    waits::end_all(py);
    library_log::end(py);
}
