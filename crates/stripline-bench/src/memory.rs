//! Memory that two processes share through an inherited descriptor.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::Problem;

pub(crate) const PAGE: usize = 4096;

/// Creates a memory file of `len` zeroed bytes.
pub(crate) fn file(len: usize) -> Result<OwnedFd, Problem> {
    let file =
        memfd_create("stripline-bench", MemfdFlags::CLOEXEC).map_err(|e| format!("no memory file: {e}"))?;
    ftruncate(&file, len as u64).map_err(|e| format!("no memory of {len} bytes: {e}"))?;
    Ok(file)
}

/// A writable mapping of a complete memory file.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps the first `head` bytes, and then the following `tail` bytes twice in a row. `tail` may
    /// be 0. Both must be multiples of the page size.
    pub(crate) fn new(file: impl AsFd, head: usize, tail: usize) -> Result<Self, Problem> {
        let len = head + 2 * tail;
        let failed = |e: rustix::io::Errno| format!("cannot map {len} bytes: {e}");
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this is a new mapping, at an address chosen by the kernel.
        let base = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE) };
        let base = NonNull::new(base.map_err(failed)?.cast::<u8>()).ok_or("a mapping at 0")?;
        let mapping = Self { base, len };
        let map = |at: usize, len: usize, offset: usize| {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: this maps over a part of the mapping that was just made and is not used yet.
            unsafe { mmap(mapping.at(at).as_ptr().cast(), len, access, flags, &file, offset as u64) }
        };
        map(0, head + tail, 0).map_err(failed)?;
        if tail > 0 {
            map(head + tail, tail, head).map_err(failed)?;
        }
        Ok(mapping)
    }

    /// Returns the address `offset` bytes into the mapping.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.len);
        // SAFETY: the address is inside the mapping.
        unsafe { self.base.add(offset) }
    }

    /// Returns a word that both processes use.
    pub(crate) fn atomic<A: Atomic>(&self, offset: usize) -> &A {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len);
        // SAFETY: the address is inside the mapping and aligned. The type is an atomic, so any
        // bytes are valid and sharing is allowed.
        unsafe { self.base.add(offset).cast::<A>().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this range, and every pointer into it is used only while the mapping
        // is held.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Words of at most eight bytes that may lie in shared memory.
pub(crate) trait Atomic {}
impl Atomic for std::sync::atomic::AtomicU32 {}
impl Atomic for std::sync::atomic::AtomicU64 {}
