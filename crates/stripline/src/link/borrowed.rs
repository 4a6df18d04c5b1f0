//! Samples lent out of a transport's memory.
//!
//! A packet is used in place and given back when it is dropped, which needs the memory (shared) and the
//! transport (exclusive, to give it back) in one value. Rust has no safe way to say this without asking the
//! transport anew at every access, so the address is kept here, in the one place that argues for it.

use std::ptr::NonNull;

use bytemuck::Pod;

/// Bytes of a frame that a transport lends for reading until it is told to release them.
#[derive(Clone, Copy)]
pub(crate) struct Lent {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address and a length; using them is `unsafe` below and argued there.
unsafe impl Send for Lent {}

impl Lent {
    #[inline]
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { start: NonNull::from(bytes).cast(), bytes: bytes.len() }
    }

    /// Whether it is a whole number of `T` at an address that suits them.
    #[inline]
    pub(crate) fn fits<T: Pod>(self) -> bool {
        self.bytes.is_multiple_of(size_of::<T>()) && self.start.cast::<T>().is_aligned()
    }

    #[inline]
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// # Safety
    /// The transport must not have been asked for anything since it lent the bytes, and must not be for `'a`.
    #[inline]
    pub(crate) unsafe fn get<'a, T: Pod>(self) -> &'a [T] {
        debug_assert!(self.fits::<T>());
        // SAFETY: the caller answers for the lifetime; `fits` was checked when the packet was made; any bit
        // pattern is a `T`.
        unsafe { std::slice::from_raw_parts(self.start.cast::<T>().as_ptr(), self.bytes / size_of::<T>()) }
    }
}

/// Bytes of a frame that a transport lends for writing until it is told to publish or cancel.
#[derive(Clone, Copy)]
pub(crate) struct LentMut {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: as for `Lent`.
unsafe impl Send for LentMut {}

impl LentMut {
    #[inline]
    pub(crate) fn new(bytes: &mut [u8]) -> Self {
        Self { bytes: bytes.len(), start: NonNull::from(bytes).cast() }
    }

    /// The same place, for samples of this type.
    ///
    /// # Panics
    /// When the bytes are not a whole number of `T` at an address that suits them; transports place payloads
    /// on 16-byte borders and ports refuse types that need more.
    #[inline]
    pub(crate) fn of<T: Pod>(self) -> Self {
        assert!(self.bytes.is_multiple_of(size_of::<T>()) && self.start.cast::<T>().is_aligned());
        self
    }

    /// # Safety
    /// As for [`Lent::get`].
    #[inline]
    pub(crate) unsafe fn get<'a, T: Pod>(self) -> &'a [T] {
        // SAFETY: the caller answers for the lifetime; size and alignment were checked by `of`.
        unsafe { std::slice::from_raw_parts(self.start.cast::<T>().as_ptr(), self.bytes / size_of::<T>()) }
    }

    /// # Safety
    /// As for [`Lent::get`], and nobody else may use the bytes for `'a`.
    #[inline]
    pub(crate) unsafe fn get_mut<'a, T: Pod>(self) -> &'a mut [T] {
        // SAFETY: the caller answers for lifetime and exclusiveness; size and alignment were checked by `of`.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.cast::<T>().as_ptr(), self.bytes / size_of::<T>())
        }
    }
}
