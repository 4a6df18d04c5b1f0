//! The arrays over received packets, which are used again for later packets.
//!
//! To make an array and the object behind it takes numpy and the interpreter longer than all other
//! work of a packet. If nothing but the packet refers to the array at the packet's end, the array
//! is kept, empty, for a later packet of the same subscriber.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use numpy::PyUntypedArray;
use numpy::npyffi::NPY_ARRAY_CARRAY_RO;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::node::HeldPacket;
use stripline::payload::Dynamic;

use crate::array::ArrayType;

/// The number of empty arrays that a subscriber keeps.
const SPARES_MAX: usize = 8;

/// A reference to the object that keeps the memory of a packet alive for the arrays: their `base`.
///
/// The class is made by hand, because the garbage collector has a list of all objects of PyO3's,
/// and to make one takes several times as long.
pub struct PacketMemory(Py<PyAny>);

impl PacketMemory {
    pub fn new(py: Python<'_>, held: HeldPacket<Dynamic>) -> PyResult<Self> {
        let class = Self::class(py)?;
        // SAFETY: the memory has the size of the object, which is initialised before it is used.
        unsafe {
            let place = ffi::PyObject_Malloc(size_of::<MemoryObject>()).cast::<MemoryObject>();
            if place.is_null() {
                return Err(PyMemoryError::new_err("no memory for the object of a packet"));
            }
            (&raw mut (*place).held).write(Some(held));
            ffi::PyObject_Init(place.cast(), class.as_ptr().cast());
            Ok(Self(Bound::from_owned_ptr(py, place.cast()).unbind()))
        }
    }

    /// Returns the class, which the module makes at its start.
    pub fn class(py: Python<'_>) -> PyResult<&Py<PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        CLASS.get_or_try_init(py, || {
            let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
            let mut slots = [slot(ffi::Py_tp_dealloc, end as *mut c_void), slot(0, ptr::null_mut())];
            let mut class = ffi::PyType_Spec {
                name: c"stripline._stripline._Samples".as_ptr(),
                basicsize: size_of::<MemoryObject>() as c_int,
                itemsize: 0,
                flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as c_uint,
                slots: slots.as_mut_ptr(),
            };
            // SAFETY: the description is complete, and the function of the slot has its signature.
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut class)).map(Bound::unbind) }
        })
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self(self.0.clone_ref(py))
    }

    fn place(&self) -> *mut Option<HeldPacket<Dynamic>> {
        // SAFETY: only `new` makes references to this class.
        unsafe { &raw mut (*self.0.as_ptr().cast::<MemoryObject>()).held }
    }

    /// Returns the packet.
    pub fn packet(&self) -> &HeldPacket<Dynamic> {
        // SAFETY: nothing changes the content while this reference exists, as described above.
        match unsafe { &*self.place() } {
            Some(held) => held,
            None => unreachable!("memory without a packet is only among the spare arrays"),
        }
    }

    /// Returns a read-only array over some samples of the packet. The array keeps the memory of
    /// the packet alive.
    pub fn part<'py>(
        &self,
        py: Python<'py>,
        array: &ArrayType,
        first: usize,
        samples: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let size = array.samples.size();
        let part = &self.packet()[first * size..][..samples * size];
        let base = self.0.bind(py).clone();
        // SAFETY: the packet in `base` keeps the samples, and nothing writes them. The samples are
        // aligned like the first sample.
        Ok(unsafe { array.view(part.as_ptr(), samples, base)? }.into_any())
    }
}

/// A read-only array over all samples of a packet, and the packet's memory behind the array.
pub struct HeldArray {
    array: Py<PyUntypedArray>,
    memory: PacketMemory,
}

impl HeldArray {
    /// Makes an array over a packet.
    fn new(py: Python<'_>, array: &ArrayType, held: HeldPacket<Dynamic>) -> PyResult<Self> {
        let memory = PacketMemory::new(py, held)?;
        let made = memory.part(py, array, 0, memory.packet().samples())?;
        // SAFETY: it is an array of numpy.
        Ok(Self { array: unsafe { made.cast_into_unchecked().unbind() }, memory })
    }

    /// Returns the packet.
    pub fn packet(&self) -> &HeldPacket<Dynamic> {
        self.memory.packet()
    }

    pub fn memory(&self) -> &PacketMemory {
        &self.memory
    }

    pub fn array<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.array.bind(py).clone().into_any()
    }

    /// Takes the packet out, and empties the array. Returns the array as it is if the program
    /// still has it, a part of it, or its memory.
    pub fn take(self, py: Python<'_>, array: &ArrayType) -> Result<(HeldPacket<Dynamic>, Self), Self> {
        // Views and exported buffers of an array refer to the array. Without the interpreter's
        // lock, the reference count is not a single number.
        // SAFETY: both references are valid.
        let is_alone = !cfg!(Py_GIL_DISABLED)
            && unsafe { ffi::Py_REFCNT(self.array.as_ptr()) == 1 }
            && unsafe { ffi::Py_REFCNT(self.memory.0.as_ptr()) == 2 };
        if !is_alone {
            return Err(self);
        }
        let (data, samples) = (self.packet().as_ptr(), self.packet().samples());
        if !array.is_as_made(self.array.bind(py), data, samples, NPY_ARRAY_CARRAY_RO) {
            return Err(self);
        }
        // SAFETY: only this array and `self` refer to the memory, and nothing else to the array.
        // So no other code can reach the samples. There are none from here on.
        let held = unsafe {
            array.point_at(self.array.bind(py), array.no_samples(), 0);
            (*self.memory.place()).take()
        };
        match held {
            Some(held) => Ok((held, self)),
            None => unreachable!("the packet was read above"),
        }
    }

    /// Fills an empty array.
    fn fill(&self, py: Python<'_>, array: &ArrayType, held: HeldPacket<Dynamic>) {
        // SAFETY: `self` is one of the spares, so only the array and `self` refer to the memory.
        // The memory keeps the samples as long as the array lives.
        unsafe {
            let place = (*self.memory.place()).insert(held);
            array.point_at(self.array.bind(py), place.as_ptr(), place.samples());
        }
    }
}

/// Empty arrays for later packets.
#[derive(Default)]
pub struct Spares(Mutex<Vec<HeldArray>>);

impl Spares {
    /// Returns an array over a packet.
    pub fn fill(&self, py: Python<'_>, array: &ArrayType, held: HeldPacket<Dynamic>) -> PyResult<HeldArray> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(spare) = spare else { return HeldArray::new(py, array, held) };
        spare.fill(py, array, held);
        Ok(spare)
    }

    /// Gives the packet of an array back if the program has no array over it, and keeps the empty
    /// array.
    pub fn end(&self, py: Python<'_>, array: &ArrayType, ended: HeldArray) {
        if let Ok((held, empty)) = ended.take(py, array) {
            drop(held);
            self.put(empty);
        }
    }

    /// Keeps an empty array.
    pub fn put(&self, empty: HeldArray) {
        // The lock is held only for a few instructions, together with the interpreter's lock.
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < SPARES_MAX {
            spares.push(empty);
        }
    }
}

#[repr(C)]
struct MemoryObject {
    head: ffi::PyObject,
    /// The content changes only in [`HeldArray`], while nothing else refers to the object.
    held: Option<HeldPacket<Dynamic>>,
}

/// Frees the object of a packet's memory.
unsafe extern "C" fn end(object: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this once, when nothing refers to the object. An object refers
    // to its class.
    unsafe {
        let class = ffi::Py_TYPE(object);
        ptr::drop_in_place(&raw mut (*object.cast::<MemoryObject>()).held);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}
