//! Loans with an array over the transport's own memory.
//!
//! The memory goes to the receivers at the end of the block, so no array of the program may reach
//! it from then on. All arrays and buffers over the memory refer to one array, which only the loan
//! owns. If nothing else refers to the array at the end of the block, the array is dropped, and
//! the packet is sent. Otherwise nothing is sent, and the publisher waits until the last of these
//! arrays is gone: until then, the memory is not used for other packets.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::PyUntypedArray;
use numpy::npyffi::NPY_ARRAY_CARRAY;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::array::{self, ArrayType};
use crate::error;
use crate::forks::Owner;
use crate::publisher::{Publisher, Stamps};

/// A packet that is written where the transport sends it from. See `Publisher.loan`.
#[pyclass(frozen, module = "stripline")]
pub struct LoanInPlace {
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
    Open(LentArray),
    Done,
}

/// An array over the memory of a loan, and the object that keeps the memory for the array and all
/// others over it: their `base`.
pub struct LentArray {
    array: Py<PyUntypedArray>,
    room: Py<Room>,
}

#[pyclass(frozen, module = "stripline._stripline", name = "_Room")]
struct Room {
    owner: Owner,
    /// The publisher with the open loan; `None`: the loan has ended. When the room is dropped
    /// before that, nothing reaches the memory any more.
    publisher: Mutex<Option<Py<Publisher>>>,
}

impl Room {
    /// Sets the publisher with the open loan, and returns the one before.
    fn set(&self, publisher: Option<Py<Publisher>>) -> Option<Py<Publisher>> {
        // The lock is held only for a few instructions, together with the interpreter's lock.
        std::mem::replace(&mut *self.publisher.lock().unwrap_or_else(PoisonError::into_inner), publisher)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // In the child of a fork, the loan is still the parent's.
        if let Some(publisher) = self.set(None).filter(|_| self.owner.is_current()) {
            publisher.get().cancel_lent();
        }
    }
}

impl LentArray {
    fn new(py: Python<'_>, publisher: &Py<Publisher>, data: *mut u8, shape: &[usize]) -> PyResult<Self> {
        let place = Mutex::new(Some(publisher.clone_ref(py)));
        // A room that is dropped after a failure cancels the loan.
        let room = Bound::new(py, Room { owner: Owner::current(), publisher: place })?;
        // SAFETY: the room keeps the memory, which nothing else uses until the loan has ended.
        let array = unsafe { publisher.get().array().lent(data, shape, room.clone().into_any())? };
        Ok(Self { array: array.unbind(), room: room.unbind() })
    }

    /// Moves a spare array to the memory of another loan.
    fn lend(self, py: Python<'_>, publisher: &Py<Publisher>, data: *mut u8, samples: usize) -> Self {
        self.room.get().set(Some(publisher.clone_ref(py)));
        // SAFETY: nothing else refers to a spare array, which is as it was made. The rest is as in
        // `new`.
        unsafe { publisher.get().array().point_at(self.array.bind(py), data, samples) };
        self
    }

    /// Ends the access to the memory, unless the program still has an array or a buffer over it.
    /// Returns whether the access has ended, and the array if it can be lent again.
    fn end(self, py: Python<'_>, of: &ArrayType, samples: usize) -> (bool, Option<Self>) {
        // Views and exported buffers of the array refer to it, and so does a call on another
        // thread that uses it. Without the interpreter's lock, the reference count is not a single
        // number. SAFETY: both references are valid.
        let (of_array, of_room) =
            unsafe { (ffi::Py_REFCNT(self.array.as_ptr()), ffi::Py_REFCNT(self.room.as_ptr())) };
        if cfg!(Py_GIL_DISABLED) || of_array != 1 {
            // The last of them cancels the loan.
            return (false, None);
        }
        drop(self.room.get().set(None));
        let array = self.array.bind(py);
        if of_room != 2 || !of.is_as_made(array, array::place_of(array), samples, NPY_ARRAY_CARRAY) {
            return (true, None);
        }
        // SAFETY: nothing else refers to the array, which is as it was made, and gets no samples.
        unsafe { of.point_at(array, of.no_samples(), 0) };
        (true, Some(self))
    }
}

impl LoanInPlace {
    pub fn new(publisher: Py<Publisher>, shape: Vec<usize>, stamps: Stamps) -> Self {
        let samples = shape.iter().copied().fold(1, usize::saturating_mul);
        Self { publisher, stamps, shape, state: Mutex::new(State { samples, stage: Stage::New }) }
    }

    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        self.publisher.get().check_owner()?;
        // The lock is held only for a few instructions, together with the interpreter's lock.
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl LoanInPlace {
    /// Returns the array to write. The initial content is unspecified. Every array and buffer
    /// over it must be gone at the end of the block: use `loan.samples[...]`, and no variable.
    #[getter]
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyUntypedArray>> {
        match &self.state()?.stage {
            Stage::Open(lent) => Ok(lent.array.bind(py).clone()),
            Stage::New => Err(error::argument("the loan is not open; use `with`".into())),
            Stage::Done => Err(error::argument("the loan has ended, and its array with it".into())),
        }
    }

    /// Sends only the first `samples` samples. A larger number changes nothing.
    fn truncate(&self, samples: usize) -> PyResult<()> {
        let mut state = self.state()?;
        state.samples = state.samples.min(samples);
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, loan) = (slf.py(), slf.get());
        let samples = {
            let mut state = loan.state()?;
            if !matches!(state.stage, Stage::New) {
                return Err(error::argument("the loan was used before; take another for each packet".into()));
            }
            state.stage = Stage::Done;
            loan.shape.iter().copied().fold(1, usize::saturating_mul)
        };
        let publisher = loan.publisher.get();
        let (data, spare) = publisher.lend(py, samples)?;
        let array = match (spare, &loan.shape[..]) {
            (Some(spare), [_]) => spare.lend(py, &loan.publisher, data, samples),
            _ => LentArray::new(py, &loan.publisher, data, &loan.shape)?,
        };
        loan.state()?.stage = Stage::Open(array);
        Ok(slf.clone())
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
            let mut state = self.state()?;
            (std::mem::replace(&mut state.stage, Stage::Done), state.samples)
        };
        let Stage::Open(array) = stage else {
            return Err(error::argument("the loan is not open".into()));
        };
        let publisher = self.publisher.get();
        let lent = self.shape.iter().product();
        match (array.end(py, publisher.array(), lent), kind) {
            ((true, spare), _) => {
                publisher.end_lent(py, kind.is_none().then_some(samples), &self.stamps, spare)
            }
            ((false, _), Some(_)) => Ok(()),
            ((false, _), None) => Err(error::argument(
                "an array, a view or a buffer over the memory of the loan is used beyond the block, so nothing was \
                 sent; write by `loan.samples[...]` without a variable, or `del` the variable, or leave out `in_place`"
                    .into(),
            )),
        }
    }
}
