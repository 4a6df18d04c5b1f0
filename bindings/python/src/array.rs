//! Numpy arrays over the library's memory, and numpy arrays that a program sends.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use numpy::npyffi::{
    NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, NPY_ARRAY_F_CONTIGUOUS,
    NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, PyArrayObject, PyArrayObject_fields, get_type_object,
    npy_intp,
};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::StreamInfo;
use stripline::payload::SampleType;

use crate::error;
use crate::frames;

/// The most dimensions of an array in all versions of numpy.
const NPY_MAXDIMS: usize = 32;

/// The sample type of a port, as the library and as numpy describe it.
pub struct ArrayType {
    pub samples: SampleType,
    dtype: Py<PyArrayDescr>,
}

impl ArrayType {
    /// Reads the sample type from an object that a program passes.
    pub fn resolve(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        static RESOLVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = given.py();
        let found = RESOLVE.import(py, "stripline._types", "_resolve")?.call1((given,))?;
        let (text, dtype): (String, Bound<'_, PyArrayDescr>) = found.extract()?;
        let samples = SampleType::parse(&text).map_err(|error| error::argument(error.to_string()))?;
        if samples.size() != dtype.itemsize() {
            return Err(error::argument(format!(
                "a sample of `{text}` has {} bytes, but one of {dtype} has {}",
                samples.size(),
                dtype.itemsize()
            )));
        }
        Ok(Self { samples, dtype: dtype.unbind() })
    }

    /// Returns the type as a dtype of numpy.
    pub fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        self.dtype.bind(py).clone()
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { samples: self.samples.clone(), dtype: self.dtype.clone_ref(py) }
    }

    /// Returns a read-only array over samples that `base` keeps alive.
    ///
    /// # Safety
    /// The caller must pass the address of `samples` samples, aligned for their type. The samples
    /// must stay valid and must not change as long as `base` lives.
    pub unsafe fn view<'py>(
        &self,
        data: *const u8,
        samples: usize,
        base: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = base.py();
        let data = data.cast_mut().cast::<c_void>();
        // The array is read-only. Numpy does not make it writable later, because `base` has no
        // writable buffer.
        let array = self.make(py, &[samples], data, NPY_ARRAY_CARRAY_RO)?;
        // SAFETY: the array has no base yet. Numpy takes over the reference to `base`.
        let done = unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr()) };
        if done != 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }

    /// Moves an array of [`ArrayType::view`] or [`ArrayType::lent`] to other samples.
    ///
    /// # Safety
    /// The array must be as it was made ([`ArrayType::is_as_made`]), and nothing else may refer to
    /// it. The samples must be as for that function, with the base that the array has.
    pub unsafe fn point_at(&self, array: &Bound<'_, PyUntypedArray>, data: *const u8, samples: usize) {
        // SAFETY: an array as it was made has one dimension, so there is a place for its length.
        // The strides stay the same.
        unsafe {
            let fields = &mut *fields_of(array);
            fields.data = data.cast_mut().cast();
            // No packet is longer than this type allows.
            *fields.dimensions = samples as npy_intp;
        }
    }

    /// Returns whether an array is as [`ArrayType::view`] made it, or [`ArrayType::lent`] in one
    /// dimension with other flags. A program may have given the array another shape, dtype or flag,
    /// a weak reference, or a description for buffers.
    pub fn is_as_made(
        &self,
        array: &Bound<'_, PyUntypedArray>,
        data: *const u8,
        samples: usize,
        flags: c_int,
    ) -> bool {
        /// The members of an array, with the next one since numpy 1.20.
        #[repr(C)]
        struct MoreFields {
            fields: PyArrayObject_fields,
            buffer_info: *mut c_void,
        }
        // SAFETY: the array is a numpy array, of at least this size.
        let MoreFields { fields, buffer_info } = unsafe { &*fields_of(array).cast::<MoreFields>() };
        fields.nd == 1
            && fields.data.cast_const().cast() == data
            && ptr::eq(fields.descr.cast(), self.dtype.as_ptr())
            && fields.flags == flags | NPY_ARRAY_F_CONTIGUOUS
            && fields.weakreflist.is_null()
            && buffer_info.is_null()
            // SAFETY: an array of one dimension has one length and one stride.
            && unsafe {
                *fields.dimensions == samples as npy_intp
                    && *fields.strides == self.samples.size() as npy_intp
            }
    }

    /// Returns an aligned address for no samples.
    pub fn no_samples(&self) -> *const u8 {
        ptr::without_provenance(self.samples.align())
    }

    /// Returns a writable array over the first `samples` samples of an array of this type.
    pub fn first<'py>(
        &self,
        array: &Bound<'py, PyUntypedArray>,
        samples: usize,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let samples = samples.min(array.len());
        // SAFETY: the array has at least `samples` samples, and the part keeps it alive. The
        // program may write to them.
        let part = unsafe { self.view(data_of(array), samples, array.clone().into_any())? };
        set_writable(&part, true);
        Ok(part)
    }

    /// Returns a writable array of a shape over memory that `base` keeps.
    ///
    /// # Safety
    /// The caller must pass the address of as many samples, aligned for their type. The samples
    /// must stay valid, and nothing else may use them, as long as `base` lives.
    pub unsafe fn lent<'py>(
        &self,
        data: *mut u8,
        shape: &[usize],
        base: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = base.py();
        let array = self.make(py, shape, data.cast(), NPY_ARRAY_CARRAY)?;
        // SAFETY: the array has no base yet. Numpy takes over the reference to `base`.
        let done = unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr()) };
        if done != 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }

    /// Returns a new array that belongs to the program, with unspecified content.
    pub fn empty<'py>(&self, py: Python<'py>, samples: usize) -> PyResult<Bound<'py, PyUntypedArray>> {
        self.make(py, &[samples], ptr::null_mut(), 0)
    }

    fn make<'py>(
        &self,
        py: Python<'py>,
        shape: &[usize],
        data: *mut c_void,
        flags: c_int,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let mut sizes = [0; NPY_MAXDIMS];
        let too_many =
            || error::argument(format!("{} samples are too many", shape.iter().product::<usize>()));
        let places = sizes.get_mut(..shape.len()).ok_or_else(too_many)?;
        for (place, size) in places.iter_mut().zip(shape) {
            *place = npy_intp::try_from(*size).map_err(|_| too_many())?;
        }
        let dtype = self.dtype.clone_ref(py).into_ptr();
        // SAFETY: the array has these dimensions and no strides. Numpy takes over the reference to
        // `dtype`. The result is a new reference, or null with an exception.
        unsafe {
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                get_type_object(py, NpyTypes::PyArray_Type),
                dtype.cast(),
                shape.len() as c_int,
                sizes.as_mut_ptr(),
                ptr::null_mut(),
                data,
                flags,
                ptr::null_mut(),
            );
            Ok(Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked())
        }
    }

    /// Returns whether an array still has one dimension and this type, and room for `samples`
    /// samples. The program may have given the array another shape or other memory since
    /// [`ArrayType::empty`] made it.
    pub fn has_room(&self, array: &Bound<'_, PyUntypedArray>, samples: usize) -> bool {
        array.ndim() == 1 && array.len() >= samples && array.dtype().is(self.dtype.bind(array.py()))
    }

    /// Checks that an array can be sent, and returns the memory.
    ///
    /// `stream` returns the description of the stream and the index of the first sample. The check
    /// of an array of several dimensions calls `stream`: the array has rows or frames.
    pub fn bytes_of(
        &self,
        given: &Bound<'_, PyAny>,
        topic: &str,
        stream: impl FnOnce() -> PyResult<(Arc<StreamInfo>, u64)>,
    ) -> PyResult<Bytes> {
        if let Some(bytes) = self.plain(given) {
            return Ok(bytes);
        }
        let (array, bytes) = self.checked(given, topic)?;
        if array.ndim() != 1 {
            let (stream, index) = stream()?;
            frames::check_sent(array.shape(), &stream, index, topic)?;
        }
        Ok(bytes)
    }

    /// Checks that an array with one packet in each row can be sent, and returns the memory and the
    /// number of rows.
    pub fn rows_of(&self, given: &Bound<'_, PyAny>, topic: &str) -> PyResult<(Bytes, usize)> {
        let (array, bytes) = self.checked(given, topic)?;
        if array.ndim() != 2 {
            return Err(error::argument(format!(
                "port `{topic}` sends arrays of two dimensions, a row for each packet, and this one has {}; use \
                 `array.reshape(packets, samples)`",
                array.ndim()
            )));
        }
        Ok((bytes, array.shape()[0]))
    }

    /// Returns the memory of a plain array of one dimension with exactly this dtype.
    #[inline]
    fn plain(&self, given: &Bound<'_, PyAny>) -> Option<Bytes> {
        let py = given.py();
        // SAFETY: both are valid; the class has no state that this changes.
        let is_array =
            unsafe { ptr::eq(ffi::Py_TYPE(given.as_ptr()), get_type_object(py, NpyTypes::PyArray_Type)) };
        if !is_array {
            return None;
        }
        // SAFETY: it is an array of numpy.
        let fields = unsafe { &*fields_of(given.cast_unchecked()) };
        let is_plain = fields.nd == 1
            && fields.flags & NPY_ARRAY_C_CONTIGUOUS != 0
            && ptr::eq(fields.descr.cast(), self.dtype.as_ptr());
        // SAFETY: an array of one dimension has one length, which is not negative.
        let samples = is_plain.then(|| unsafe { *fields.dimensions } as usize)?;
        Some(Bytes { start: fields.data.cast(), length: samples * self.samples.size(), samples })
    }

    fn checked<'a, 'py>(
        &self,
        given: &'a Bound<'py, PyAny>,
        topic: &str,
    ) -> PyResult<(&'a Bound<'py, PyUntypedArray>, Bytes)> {
        let Ok(array) = given.cast::<PyUntypedArray>() else {
            let kind = given.get_type();
            let kind = kind.name()?;
            return Err(error::argument(format!(
                "port `{topic}` sends arrays of numpy, not {kind}; use numpy.asarray with the port's dtype"
            )));
        };
        if !given.is_exact_instance_of::<PyUntypedArray>() && is_masked(given)? {
            return Err(error::argument(format!(
                "port `{topic}` sends all samples of an array, and this one has a mask; use `array.filled(value)`"
            )));
        }
        let py = given.py();
        let (own, other) = (self.dtype.bind(py), array.dtype());
        if !other.is(own) && !other.is_equiv_to(own) {
            let native = other.call_method1("newbyteorder", ("=",))?;
            let is_swapped = native.cast::<PyArrayDescr>().is_ok_and(|native| native.is_equiv_to(own));
            let remedy = match is_swapped {
                true => "its bytes are swapped; use `array.astype(port.dtype)`",
                false => "use `array.astype(port.dtype)`, or a port of that type",
            };
            return Err(error::argument(format!(
                "port `{topic}` sends {own}, and the array has {other}; {remedy}"
            )));
        }
        if !array.is_c_contiguous() {
            return Err(error::argument(format!(
                "the array for port `{topic}` is not contiguous; use `numpy.ascontiguousarray(array)`"
            )));
        }
        let samples = array.len();
        let bytes = Bytes { start: data_of(array), length: samples * self.samples.size(), samples };
        Ok((array, bytes))
    }
}

/// Returns whether an array has a mask, which would not be sent.
fn is_masked(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    static MASKED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    array.is_instance(MASKED.import(array.py(), "numpy.ma", "MaskedArray")?)
}

/// The memory of an array or of an encoded message.
#[derive(Clone, Copy)]
pub struct Bytes {
    pub start: *mut u8,
    pub length: usize,
    pub samples: usize,
}

// SAFETY: the user of `Bytes` keeps the owner of the memory alive.
unsafe impl Send for Bytes {}
// SAFETY: as above; the memory is only read.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Returns part `index` of the memory when it is divided into parts of `length` bytes.
    pub fn part(self, index: usize, length: usize) -> Self {
        let start = (index * length).min(self.length);
        // SAFETY: the pointer stays within the memory, or points to the end of it.
        let place = unsafe { self.start.add(start) };
        Self { start: place, length: length.min(self.length - start), samples: 0 }
    }

    /// Copies the bytes. If the program writes them at the same time, on another thread, the copy
    /// is a mix of old and new bytes.
    ///
    /// # Safety
    /// The caller must keep the memory alive; an array must not have been resized. `place` must not
    /// overlap the memory.
    pub unsafe fn copy_to(self, place: &mut [u8]) {
        let length = self.length.min(place.len());
        // SAFETY: both sides have at least `length` bytes; the caller promises the rest.
        unsafe { ptr::copy_nonoverlapping(self.start, place.as_mut_ptr(), length) };
    }
}

/// Returns the first byte of an array.
fn data_of(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the pointer is valid.
    unsafe { (*fields_of(array)).data.cast() }
}

/// Returns the members of an array.
fn fields_of(array: &Bound<'_, PyUntypedArray>) -> *mut PyArrayObject_fields {
    // SAFETY: the array is a numpy array. The first members are the same in all numpy versions.
    unsafe { &raw mut (*array.as_ptr().cast::<PyArrayObject>()).fields }
}

/// Returns the memory of an array that [`ArrayType::empty`] made.
pub fn place_of(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    data_of(array)
}

/// Makes an array read-only, or writable again. The array must come from this module, and the
/// program must own the memory.
pub fn set_writable(array: &Bound<'_, PyUntypedArray>, is_writable: bool) {
    // SAFETY: the pointer is valid. Numpy's own function sets the flag in the same way.
    let flags = unsafe { &mut (*fields_of(array)).flags };
    match is_writable {
        true => *flags |= NPY_ARRAY_WRITEABLE,
        false => *flags &= !NPY_ARRAY_WRITEABLE,
    }
}

/// Returns the size and the alignment of a sample with this layout.
#[pyfunction(name = "_check_layout")]
pub fn check_layout(text: &str) -> PyResult<(usize, usize)> {
    let found = SampleType::parse(text).map_err(|error| error::argument(error.to_string()))?;
    Ok((found.size(), found.align()))
}
