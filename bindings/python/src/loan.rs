//! Arrays that are lent for a `with` block, and sent at the end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::array::{self, Bytes};
use crate::error;
use crate::publisher::{Publisher, Stamps};

/// An array that is sent at the end of a `with` block. See `Publisher.loan`.
#[pyclass(frozen, module = "stripline")]
pub struct Loan {
    publisher: Py<Publisher>,
    stamps: Stamps,
    shape: Vec<usize>,
    state: Mutex<State>,
}

struct State {
    samples: usize,
    stage: Stage,
}

enum Stage {
    New,
    /// The array of the program in the shape of the loan, the same in one dimension, which had
    /// `samples` samples when it was lent, and the array that owns the memory: the same array, or a
    /// longer one.
    Open {
        shaped: Py<PyUntypedArray>,
        array: Py<PyUntypedArray>,
        buffer: Py<PyUntypedArray>,
        samples: usize,
    },
    Done,
}

impl Loan {
    pub fn new(publisher: Py<Publisher>, shape: Vec<usize>, stamps: Stamps) -> Self {
        let samples = shape.iter().copied().fold(1, usize::saturating_mul);
        Self { publisher, stamps, shape, state: Mutex::new(State { samples, stage: Stage::New }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The lock is held only for a few instructions, together with the interpreter's lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Loan {
    /// Sends only the first `samples` samples. A larger number changes nothing.
    fn truncate(&self, samples: usize) {
        let mut state = self.state();
        state.samples = state.samples.min(samples);
    }

    fn __enter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let mut state = self.state();
        if !matches!(state.stage, Stage::New) {
            return Err(error::argument("the loan was used before; take another for each packet".into()));
        }
        let samples = state.samples;
        let publisher = self.publisher.get();
        let buffer = publisher.buffer(py, samples)?.into_bound(py);
        let array = match buffer.len() == samples {
            true => buffer.clone(),
            false => publisher.array().first(&buffer, samples)?,
        };
        let shaped = match &self.shape[..] {
            [_] => array.clone(),
            shape => array.call_method1("reshape", (shape.to_vec(),))?.cast_into()?,
        };
        let (array, buffer) = (array.unbind(), buffer.unbind());
        state.stage = Stage::Open { shaped: shaped.clone().unbind(), array, buffer, samples };
        Ok(shaped)
    }

    #[pyo3(signature = (kind=None, value=None, traceback=None))]
    #[expect(unused_variables, reason = "the interpreter passes all three")]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (stage, samples) = {
            let mut state = self.state();
            (std::mem::replace(&mut state.stage, Stage::Done), state.samples)
        };
        let Stage::Open { shaped, array, buffer, samples: most } = stage else {
            return Err(error::argument("the loan is not open".into()));
        };
        let publisher = self.publisher.get();
        let array = array.bind(py);
        array::set_writable(array, false);
        array::set_writable(shaped.bind(py), false);
        if kind.is_none() {
            if !publisher.array().has_room(array, most) {
                return Err(error::argument(
                    "the array of the loan has another shape or dtype than it was lent with; write into it in place"
                        .into(),
                ));
            }
            let length = samples * publisher.array().samples.size();
            let bytes = Bytes { start: array::place_of(array), length, samples };
            publisher.transmit(py, bytes, &self.stamps, true)?;
        }
        publisher.take_back(buffer);
        Ok(())
    }
}
