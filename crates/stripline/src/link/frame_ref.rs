//! References to frames in a transport's memory.
//!
//! A packet is used in place, and released when it is dropped. The release requires the memory
//! (shared) and the transport (exclusive, for the release) in the same value. Safe Rust could
//! express this only by requesting the bytes from the transport again at every access. So a
//! `FrameRef` stores the address, and only this file has to justify the use.

use std::ptr::NonNull;

use bytemuck::Pod;

use crate::packet::content::SampleForm;

/// Bytes of a frame that a transport lends for reading until they are released.
#[derive(Clone, Copy)]
pub(crate) struct FrameRef {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the value is an address and a length. Each use of them is `unsafe` and justified below.
unsafe impl Send for FrameRef {}
// SAFETY: as above.
unsafe impl Sync for FrameRef {}

impl FrameRef {
    #[inline]
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { start: NonNull::from(bytes).cast(), bytes: bytes.len() }
    }

    /// Returns whether the bytes are whole samples, at an address aligned for them.
    #[inline(always)]
    pub(crate) fn fits(self, form: impl SampleForm) -> bool {
        form.fits(self.start.as_ptr(), self.bytes)
    }

    /// Returns whether the bytes are `samples` samples, at an address aligned for them.
    #[inline(always)]
    pub(crate) fn is_of(self, form: impl SampleForm, samples: u64) -> bool {
        samples.wrapping_mul(form.size() as u64) == self.bytes as u64 && form.is_aligned(self.start.as_ptr())
    }

    /// Returns whether the bytes are a whole number of `T`, at an address aligned for `T`.
    fn is_slice_of<T: Pod>(self) -> bool {
        self.bytes.is_multiple_of(size_of::<T>()) && self.start.cast::<T>().is_aligned()
    }

    /// Returns the address of the first byte.
    pub(crate) fn start(self) -> *const u8 {
        self.start.as_ptr()
    }

    #[inline]
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns the elements.
    ///
    /// # Safety
    /// The caller must not call any method of the transport between the loan of the bytes and the
    /// end of `'a`.
    #[inline]
    pub(crate) unsafe fn get<'a, T: Pod>(self) -> &'a [T] {
        debug_assert!(self.is_slice_of::<T>());
        // SAFETY: the caller guarantees the lifetime. `fits` was checked when the packet was made.
        // Every bit pattern is a valid `T`.
        unsafe { std::slice::from_raw_parts(self.start.cast::<T>().as_ptr(), self.bytes / size_of::<T>()) }
    }
}

/// Bytes of a frame that a transport lends for writing until they are published or cancelled.
#[derive(Clone, Copy)]
pub(crate) struct FrameMut(FrameRef);

impl FrameMut {
    #[inline]
    pub(crate) fn new(bytes: &mut [u8]) -> Self {
        Self(FrameRef { bytes: bytes.len(), start: NonNull::from(bytes).cast() })
    }

    /// Returns the same bytes as whole samples of that form, after checking their address.
    ///
    /// # Panics
    /// Panics if the address is not aligned for the samples. Transports place payloads on 16-byte
    /// boundaries, and ports refuse types that need more.
    #[inline(always)]
    pub(crate) fn of(self, form: impl SampleForm) -> Self {
        debug_assert!(self.0.fits(form), "{} bytes", self.0.bytes);
        assert!(form.is_aligned(self.0.start.as_ptr()));
        self
    }

    /// Returns the beginning of the bytes.
    #[inline(always)]
    pub(crate) fn start(self) -> FrameStart {
        FrameStart(self.0.start)
    }

    /// Returns the elements for writing.
    ///
    /// # Safety
    /// The caller must meet the conditions of [`FrameRef::get`], and must not have another
    /// reference to the bytes during `'a`.
    #[inline]
    pub(crate) unsafe fn get_mut<'a, T: Pod>(self) -> &'a mut [T] {
        // SAFETY: the caller guarantees the same conditions. The slice is all of the bytes.
        unsafe { self.start().get_mut(self.0.bytes / size_of::<T>()) }
    }
}

/// The beginning of bytes that a transport lends for writing, returned by [`FrameMut::start`].
#[derive(Clone, Copy)]
pub(crate) struct FrameStart(NonNull<u8>);

// SAFETY: the value is an address. Each use of it is `unsafe` and justified below.
unsafe impl Send for FrameStart {}
// SAFETY: as above.
unsafe impl Sync for FrameStart {}

impl FrameStart {
    /// Returns the first elements.
    ///
    /// # Safety
    /// The caller must meet the conditions of [`FrameRef::get`], and the bytes must have `count`
    /// elements.
    #[inline(always)]
    pub(crate) unsafe fn get<'a, T: Pod>(self, count: usize) -> &'a [T] {
        // SAFETY: the caller guarantees lifetime and number. `of` has checked the alignment.
        unsafe { std::slice::from_raw_parts(self.0.cast::<T>().as_ptr(), count) }
    }

    /// Returns the first elements for writing.
    ///
    /// # Safety
    /// The caller must meet the conditions of [`FrameStart::get`], and must not have another
    /// reference to the bytes during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn get_mut<'a, T: Pod>(self, count: usize) -> &'a mut [T] {
        // SAFETY: the caller guarantees lifetime, number and exclusive access. `of` has checked the
        // alignment.
        unsafe { std::slice::from_raw_parts_mut(self.0.cast::<T>().as_ptr(), count) }
    }
}
