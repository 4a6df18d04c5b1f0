//! The memory under the ring: real shared memory, or the memory of loom under `cfg(loom)`. All
//! differences between the two are in this file.

#[cfg(not(loom))]
pub(crate) use real::*;
#[cfg(loom)]
pub(crate) use under_loom::*;

#[cfg(not(loom))]
mod real {
    use std::ptr::NonNull;
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

    use crate::layout::{HEADER, LINE, is_valid_capacity, max_frame};

    /// Prefetches the cache line at an address for writing. The prefetch is a hint, so that several
    /// fetches can overlap. On processors other than x86-64 it does nothing.
    #[inline]
    pub(crate) fn claim<T>(address: *const T) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the instruction is a prefetch hint and does not change memory. Processors without
        // it ignore it.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = address;
    }

    /// The data area: `2 * capacity` bytes. The second half aliases the first.
    ///
    /// Headers are always accessed through the first half; only the bytes of a frame extend into
    /// the second. So the ring also works if the second half is separate memory (`HeapRing`), which
    /// allows Miri to check it.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Data {
        base: NonNull<u8>,
        capacity: usize,
        /// The bits of a position that give the offset of the line.
        mask: usize,
        frame_max: usize,
    }

    impl Data {
        /// Creates the data part of a ring from the memory of the ring.
        ///
        /// # Safety
        /// The caller must ensure that `capacity` is valid, that `base` is aligned to 64 bytes, and
        /// that `base` is valid for reads of `2 * capacity` bytes (for the writer: also for
        /// writes). All this must hold while the `Data` or a copy of it is in use.
        pub(crate) unsafe fn new(base: NonNull<u8>, capacity: usize) -> Self {
            assert!(is_valid_capacity(capacity), "a ring cannot have a capacity of {capacity} bytes");
            assert!(
                base.as_ptr().addr().is_multiple_of(LINE),
                "the data of a ring starts at a multiple of 64"
            );
            Self { base, capacity, mask: (capacity - 1) & !(LINE - 1), frame_max: max_frame(capacity) }
        }

        pub(crate) fn capacity(&self) -> usize {
            self.capacity
        }

        /// Returns the largest frame, in bytes.
        #[inline]
        pub(crate) fn frame_max(&self) -> usize {
            self.frame_max
        }

        /// Returns the commit word of the frame at `position`.
        #[inline]
        pub(crate) fn commit(&self, position: u64) -> &AtomicU64 {
            // SAFETY: `line` is in bounds, is aligned to 64, and has 64 bytes behind it. Commit
            // words are accessed only as atomics, except as a part of frame bytes. The protocol
            // orders accesses to frame bytes.
            unsafe { self.cache_line(position).cast::<AtomicU64>().as_ref() }
        }

        /// Returns the second header word of the frame at `position`.
        #[inline]
        pub(crate) fn header(&self, position: u64) -> &AtomicU64 {
            self.words(position).1
        }

        /// Returns the commit word and the second header word of the frame at `position`.
        #[inline]
        pub(crate) fn words(&self, position: u64) -> (&AtomicU64, &AtomicU64) {
            let line = self.cache_line(position).cast::<AtomicU64>();
            // SAFETY: as in `commit`. The second word is 8 bytes further on the same line.
            unsafe { (line.as_ref(), line.add(1).as_ref()) }
        }

        /// Returns the bytes of the frame at `position`.
        ///
        /// # Safety
        /// The caller must ensure that no thread writes the bytes while the slice lives: the frame
        /// must be committed and not released.
        #[inline]
        pub(crate) unsafe fn bytes(&self, position: u64, len: usize) -> &[u8] {
            assert!(len <= self.frame_max, "frame bytes stay inside the data area");
            // SAFETY: the range starts below `capacity` and is shorter than half of `capacity`, so
            // it ends below `2 * capacity`. The caller guarantees that no thread writes the range.
            unsafe { std::slice::from_raw_parts(self.cache_line(position).add(HEADER).as_ptr(), len) }
        }

        /// Returns the writable bytes of the frame at `position`.
        ///
        /// # Safety
        /// The caller must ensure that the memory is writable, and that no other borrow of these
        /// bytes exists while the slice lives: the frame must be reserved.
        #[allow(clippy::mut_from_ref)] // the protocol ensures exclusive access, see above
        #[inline]
        pub(crate) unsafe fn bytes_mut(&self, position: u64, len: usize) -> &mut [u8] {
            debug_assert!(len <= self.frame_max);
            // SAFETY: in bounds as in `bytes`. The caller guarantees exclusive access.
            unsafe { std::slice::from_raw_parts_mut(self.cache_line(position).add(HEADER).as_ptr(), len) }
        }

        /// Appends a copy of the bytes of the frame to `into`, even while the writer overwrites
        /// these bytes. The copy is valid only if the claim, which the caller must check
        /// afterwards, permits it.
        pub(crate) fn copy_out(&self, position: u64, len: usize, into: &mut Vec<u8>) {
            assert!(len <= self.frame_max, "frame bytes stay inside the data area");
            let words = len.div_ceil(8);
            into.reserve(words * 8);
            // SAFETY: in bounds as in `bytes`. `HEADER` keeps the alignment to 8, and the padding
            // to the next line covers the last word. The loads are atomic, because the writer may
            // be storing at the same time.
            let source = unsafe { self.cache_line(position).add(HEADER).cast::<AtomicU64>() };
            let spare = &mut into.spare_capacity_mut()[..words * 8];
            for (index, place) in spare.chunks_exact_mut(8).enumerate() {
                // SAFETY: `index` is below `words`, so the word is in bounds, as above.
                let word = unsafe { source.add(index).as_ref() }.load(Ordering::Relaxed);
                // SAFETY: `place` is 8 bytes of the vector's memory.
                unsafe { place.as_mut_ptr().cast::<u64>().write_unaligned(word) };
            }
            // SAFETY: the bytes up to the new length have just been written.
            unsafe { into.set_len(into.len() + len) };
        }

        /// Does nothing here. Only under loom must the bytes of a frame be copied for lossy
        /// readers.
        pub(crate) fn seal(&self, _position: u64) {}

        /// Prefetches the second line of the frame at `position`, which the reader needs right
        /// after the first line.
        #[inline]
        pub(crate) fn fetch_second_line(&self, position: u64) {
            self.fetch_line(position, 1);
        }

        #[inline]
        fn fetch_line(&self, position: u64, line: usize) {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                let first = self.cache_line(position).as_ptr();
                // SAFETY: this is a prefetch hint and does not change memory. Every processor of
                // this target has SSE.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line * LINE).cast()) };
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (position, line);
        }

        /// Prefetches the line at `position` for writing.
        #[inline]
        pub(crate) fn claim_line(&self, position: u64) {
            claim(self.cache_line(position).as_ptr());
        }

        #[inline]
        fn cache_line(&self, position: u64) -> NonNull<u8> {
            let offset = position as usize & self.mask;
            // SAFETY: the offset is below `capacity` and a multiple of 64, so it is at least 64
            // bytes before the end of the first half.
            unsafe { self.base.add(offset) }
        }
    }
}

#[cfg(loom)]
mod under_loom {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    use std::ptr::NonNull;

    use crate::layout::{HEADER, LINE, is_valid_capacity, max_frame};

    /// One line of the data area. Frames fit one line under loom (`max_frame(256)` is 48).
    pub(crate) struct LoomLine {
        commit: AtomicU64,
        header: AtomicU64,
        /// The bytes that blocking readers borrow. loom reports unordered borrows.
        bytes: loom::cell::UnsafeCell<[u8; LINE - HEADER]>,
        /// The first 8 bytes, for the loads of lossy readers. These loads race with the writer by
        /// design.
        racy: AtomicU64,
    }

    impl Default for LoomLine {
        fn default() -> Self {
            Self {
                commit: AtomicU64::default(),
                header: AtomicU64::default(),
                bytes: loom::cell::UnsafeCell::new([0; LINE - HEADER]),
                racy: AtomicU64::default(),
            }
        }
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Data {
        base: NonNull<LoomLine>,
        capacity: usize,
    }

    impl Data {
        /// Creates the data part of a ring from its lines.
        ///
        /// # Safety
        /// The caller must ensure that `base` points to `capacity / 64` `LoomLine`s that outlive
        /// the `Data` and all copies of it.
        pub(crate) unsafe fn new(base: NonNull<u8>, capacity: usize) -> Self {
            assert!(is_valid_capacity(capacity) && capacity <= 256);
            Self { base: base.cast(), capacity }
        }

        pub(crate) fn capacity(&self) -> usize {
            self.capacity
        }

        pub(crate) fn frame_max(&self) -> usize {
            max_frame(self.capacity)
        }

        #[inline]
        pub(crate) fn commit(&self, position: u64) -> &AtomicU64 {
            &self.line(position).commit
        }

        #[inline]
        pub(crate) fn header(&self, position: u64) -> &AtomicU64 {
            &self.line(position).header
        }

        #[inline]
        pub(crate) fn words(&self, position: u64) -> (&AtomicU64, &AtomicU64) {
            let line = self.line(position);
            (&line.commit, &line.header)
        }

        /// Returns the bytes at a position.
        ///
        /// # Safety
        /// The caller must ensure the same as for the real `bytes`; loom checks it.
        #[inline]
        pub(crate) unsafe fn bytes(&self, position: u64, len: usize) -> &[u8] {
            // SAFETY: the caller guarantees that no thread writes the bytes, and loom checks it
            // here.
            self.line(position).bytes.with(|bytes| unsafe { &(&(*bytes))[..len] })
        }

        /// Returns the writable bytes at a position.
        ///
        /// # Safety
        /// The caller must ensure the same as for the real `bytes_mut`; loom checks it.
        #[allow(clippy::mut_from_ref)]
        #[inline]
        pub(crate) unsafe fn bytes_mut(&self, position: u64, len: usize) -> &mut [u8] {
            // SAFETY: the caller guarantees exclusive access, and loom checks it here.
            self.line(position).bytes.with_mut(|bytes| unsafe { &mut (&mut (*bytes))[..len] })
        }

        pub(crate) fn copy_out(&self, position: u64, len: usize, into: &mut Vec<u8>) {
            let word = self.line(position).racy.load(Ordering::Relaxed);
            into.extend_from_slice(&word.to_ne_bytes()[..len.min(8)]);
        }

        // No effect under loom, as with `claim`.
        pub(crate) fn fetch_second_line(&self, _position: u64) {}
        pub(crate) fn claim_line(&self, _position: u64) {}

        /// Copies the first bytes of the frame to the word that lossy readers load.
        pub(crate) fn seal(&self, position: u64) {
            let mut word = [0; 8];
            // SAFETY: the writer calls this while the frame is reserved.
            self.line(position).bytes.with(|bytes| word.copy_from_slice(unsafe { &(&(*bytes))[..8] }));
            self.line(position).racy.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }

        fn line(&self, position: u64) -> &LoomLine {
            let index = (position as usize & (self.capacity - 1)) / LINE;
            // SAFETY: `index` is below `capacity / 64`.
            unsafe { self.base.add(index).as_ref() }
        }
    }

    /// Does nothing: loom has no caches to prefetch into.
    pub(crate) fn claim<T>(_: *const T) {}

    /// Does nothing: a compiler fence orders nothing between threads.
    pub(crate) fn compiler_fence(_: Ordering) {}
}
