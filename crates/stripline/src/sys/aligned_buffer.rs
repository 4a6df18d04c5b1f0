//! Memory aligned for every sample type.

use std::any::Any;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

/// The size of a cache line in bytes.
const LINE: usize = 64;

/// A growable range of bytes that starts on a cache line. A path may lend other memory to the
/// buffer. The buffer then uses the lent memory until it has to grow beyond it.
pub struct AlignedBuffer {
    /// The first cache line in use: in `own` or in lent memory.
    start: NonNull<CacheLine>,
    count: usize,
    own: Vec<CacheLine>,
    /// The owner that keeps the lent memory alive; `None` if the buffer uses `own`.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: nothing else uses lent memory, as `lend` requires, and the owner is `Send`.
unsafe impl Send for AlignedBuffer {}
// SAFETY: `&self` only reads the memory.
unsafe impl Sync for AlignedBuffer {}

/// The bytes of a cache line, aligned to a cache line.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct CacheLine(pub [u8; LINE]);

impl Default for AlignedBuffer {
    fn default() -> Self {
        Self { start: NonNull::dangling(), count: 0, own: Vec::new(), owner: None }
    }
}

impl AlignedBuffer {
    /// The offset of a frame in a sender's buffer. The cache line in front of the frame has room
    /// for the header that the sender's path adds.
    pub const FRONT: usize = LINE;

    /// Returns the number of bytes available.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a buffer has room for a header at least")]
    pub fn len(&self) -> usize {
        self.count * LINE
    }

    /// Grows the buffer to at least `bytes` bytes, and keeps the content.
    #[inline(always)]
    pub fn grow(&mut self, bytes: usize) {
        if bytes > self.len() {
            self.grow_own(bytes);
        }
    }

    #[cold]
    fn grow_own(&mut self, bytes: usize) {
        self.take_back();
        self.own.resize(self.own.len().max(bytes.div_ceil(LINE)), CacheLine::zeroed());
        self.use_own();
    }

    /// Returns all bytes of the buffer.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: nothing else changes the lines in `own`. For lent lines, see `lend`.
        bytemuck::cast_slice(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) })
    }

    /// Returns all bytes of the buffer, for changes.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        bytemuck::cast_slice_mut(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) })
    }

    /// Returns the bytes from the start of the frame to the end of the buffer.
    #[inline(always)]
    pub fn frame(&self) -> &[u8] {
        self.bytes().get(Self::FRONT..).unwrap_or_default()
    }

    /// Puts a header of at most 64 bytes in front of a part of a frame, and returns the header and
    /// the part. The buffer must contain the part. The header overwrites the bytes in front of it.
    pub fn behind(&mut self, header: &[u8], part: Range<usize>) -> &[u8] {
        let (start, end) = (Self::FRONT + part.start, Self::FRONT + part.end);
        let whole = self.bytes_mut();
        whole[start - header.len()..start].copy_from_slice(header);
        &whole[start - header.len()..end]
    }

    /// Lends memory to the buffer, which uses only this memory from now on. The old content of the
    /// buffer is lost.
    ///
    /// # Safety
    /// The caller must pass memory that is valid and initialised as long as `owner` lives, or until
    /// the buffer uses other memory. During this time, nothing else in this process may use the
    /// memory. If the memory is read-only, the caller must call [`AlignedBuffer::take_back`] before
    /// `bytes_mut`.
    #[inline]
    pub unsafe fn lend(
        &mut self,
        start: NonNull<CacheLine>,
        count: usize,
        owner: &Arc<impl Any + Send + Sync>,
    ) {
        (self.start, self.count) = (start, count);
        if !self.is_lent_by(owner) {
            self.owner = Some(Arc::clone(owner) as _);
        }
    }

    /// Returns whether the buffer uses memory lent by `owner`.
    #[inline]
    pub fn is_lent_by(&self, owner: &Arc<impl Any + Send + Sync>) -> bool {
        self.owner.as_ref().is_some_and(|own| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(owner)))
    }

    /// Returns whether the buffer uses lent memory.
    #[inline(always)]
    pub fn is_lent(&self) -> bool {
        self.owner.is_some()
    }

    /// Copies lent memory to lines of the buffer itself, and uses these lines from now on.
    #[cold]
    pub fn take_back(&mut self) {
        if self.is_lent() {
            let lent: &[CacheLine] = bytemuck::cast_slice(self.bytes());
            let lent = lent.to_vec();
            self.own = lent;
            self.owner = None;
            self.use_own();
        }
    }

    fn use_own(&mut self) {
        (self.start, self.count) = (NonNull::from(&mut *self.own).cast(), self.own.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_put_in_front_and_the_frame_stays() {
        let mut buffer = AlignedBuffer::default();
        assert_eq!((buffer.len(), buffer.frame().len()), (0, 0));
        buffer.grow(AlignedBuffer::FRONT + 65);
        assert_eq!((buffer.len(), buffer.frame().as_ptr().addr() % LINE), (192, 0));
        buffer.bytes_mut()[AlignedBuffer::FRONT..][..3].copy_from_slice(b"abc");
        assert_eq!(buffer.behind(b"12", 0..3), b"12abc");
        assert_eq!(buffer.behind(b"", 0..2), b"ab");
        buffer.grow(1000);
        assert_eq!(&buffer.frame()[..4], b"abc\0");
        assert_eq!(buffer.behind(b"1", 2..3), b"1c");
    }

    /// Two cache lines to lend, which are written only through this address.
    struct Lender(NonNull<CacheLine>);

    // SAFETY: the test has one thread.
    unsafe impl Send for Lender {}
    // SAFETY: as above.
    unsafe impl Sync for Lender {}

    impl Drop for Lender {
        fn drop(&mut self) {
            // SAFETY: the pointer came from a box of two lines, and nothing uses it any more.
            drop(unsafe { Box::from_raw(self.0.cast::<[CacheLine; 2]>().as_ptr()) });
        }
    }

    #[test]
    fn lent_memory_is_used_until_more_is_needed() {
        let lines = Box::new([CacheLine([7; LINE]); 2]);
        let owner = Arc::new(Lender(NonNull::from(Box::leak(lines)).cast()));
        let mut buffer = AlignedBuffer::default();
        buffer.grow(10);
        // SAFETY: the owner keeps both lines, and only the buffer uses them.
        unsafe { buffer.lend(owner.0, 2, &owner) };
        assert!(buffer.is_lent() && buffer.is_lent_by(&owner));
        assert_eq!((buffer.len(), buffer.bytes()[0], Arc::strong_count(&owner)), (2 * LINE, 7, 2));
        buffer.grow(2 * LINE);
        buffer.bytes_mut()[1] = 8;
        buffer.grow(2 * LINE + 1);
        assert!(!buffer.is_lent());
        assert_eq!(
            (buffer.len(), &buffer.bytes()[..3], Arc::strong_count(&owner)),
            (3 * LINE, &[7, 8, 7][..], 1)
        );
    }
}
