//! The end of the interpreter, with threads that still wait.

use pyo3::prelude::*;

use crate::{library_log, waits};

/// Ends waits and the log. Python calls this at exit, after it has joined its threads, so only
/// daemon threads are left. A thread that returns from a wait later cannot enter the interpreter.
#[pyfunction(name = "_at_exit")]
pub fn at_exit(py: Python<'_>) {
    waits::end_all(py);
    library_log::end(py);
}
