//! Arrays that are lent for a `with` block, and sent at its end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::PyUntypedArray;
use pyo3::prelude::*;

use crate::array::{self, Bytes};
use crate::error;
use crate::publisher::{Publisher, Stamps};

/// An array that is sent at the end of a `with` block. See `Publisher.loan`.
#[pyclass(frozen, module = "stripline")]
pub struct Loan {
    publisher: Py<Publisher>,
    stamps: Stamps,
    state: Mutex<State>,
}

struct State {
    samples: usize,
    stage: Stage,
}

enum Stage {
    New,
    /// The array of the program, and the one that has its memory.
    Open {
        array: Py<PyAny>,
        buffer: Py<PyAny>,
    },
    Done,
}

impl Loan {
    pub fn new(publisher: Py<Publisher>, samples: usize, stamps: Stamps) -> Self {
        Self { publisher, stamps, state: Mutex::new(State { samples, stage: Stage::New }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is held for some instructions, with the interpreter's lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Loan {
    /// Sends only the first so many samples; a larger number changes nothing.
    fn truncate(&self, samples: usize) {
        let mut state = self.state();
        state.samples = state.samples.min(samples);
    }

    fn __enter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let samples = {
            let state = self.state();
            if !matches!(state.stage, Stage::New) {
                return Err(error::argument("the loan was used before; take another for each packet".into()));
            }
            state.samples
        };
        let publisher = self.publisher.get();
        let buffer = publisher.buffer(py, samples)?;
        // A slice has flags of its own: it can become read-only, and the buffer stays writable.
        let array = buffer.bind(py).get_item(pyo3::types::PySlice::new(py, 0, samples as isize, 1))?;
        let array = array.cast_into::<PyUntypedArray>()?.into_any();
        self.state().stage = Stage::Open { array: array.clone().unbind(), buffer };
        Ok(array)
    }

    #[pyo3(signature = (kind=None, *_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        _exception: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (stage, samples) = {
            let mut state = self.state();
            (std::mem::replace(&mut state.stage, Stage::Done), state.samples)
        };
        let Stage::Open { array, buffer } = stage else {
            return Err(error::argument("the loan is not open".into()));
        };
        let array = array.bind(py);
        array::make_read_only(array)?;
        let publisher = self.publisher.get();
        let outcome = match kind {
            Some(_) => Ok(()),
            None => {
                let length = samples * publisher.array().samples.size();
                let start = array::place_of(buffer.bind(py))?;
                publisher.transmit(py, Bytes { start, length, samples }, &self.stamps, true)
            }
        };
        publisher.take_back(buffer);
        outcome
    }
}
