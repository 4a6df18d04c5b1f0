//! Helpers that several test files share.
#![allow(dead_code, unused_imports, clippy::unwrap_used)] // each test file uses a part

use stripline_ring::{HeapRing, Mode, Reader, ReaderId, Writer};

/// Memory for a ring under test.
pub trait Ring: Sized {
    fn make(capacity: usize, start: u64, start_count: u64) -> (Self, Writer);
    fn attach(&mut self, writer: &mut Writer, mode: Mode) -> (ReaderId, Reader);
}

impl Ring for HeapRing {
    fn make(capacity: usize, start: u64, start_count: u64) -> (Self, Writer) {
        HeapRing::with_start(capacity, start, start_count)
    }

    fn attach(&mut self, writer: &mut Writer, mode: Mode) -> (ReaderId, Reader) {
        HeapRing::attach(self, writer, mode)
    }
}

/// A fast random generator that is good enough for test data.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
pub use mapped::Mapped;

#[cfg(all(target_os = "linux", not(miri)))]
mod mapped {
    use std::ffi::c_void;
    use std::os::fd::OwnedFd;
    use std::ptr::{NonNull, null_mut};

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
    use stripline_ring::{Control, Cursor, Mode, Reader, ReaderId, ReaderMode, Writer};

    const PAGE: usize = 4096;

    /// Real shared memory: a memory file with the data mapped twice in a row. The whole file is
    /// mapped again, read-only, for readers.
    pub struct Mapped {
        pub capacity: usize,
        pub writable: Mapping,
        pub read_only: Mapping,
        #[allow(clippy::vec_box)] // their addresses must stay
        pub cursors: Vec<Box<Cursor>>,
    }

    pub struct Mapping {
        base: NonNull<u8>,
        len: usize,
    }

    impl super::Ring for Mapped {
        fn make(capacity: usize, start: u64, start_count: u64) -> (Self, Writer) {
            let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, (PAGE + capacity) as u64).unwrap();
            let ring = Self {
                capacity,
                writable: Mapping::new(&file, capacity, ProtFlags::READ | ProtFlags::WRITE),
                read_only: Mapping::new(&file, capacity, ProtFlags::READ),
                cursors: Vec::new(),
            };
            // SAFETY: the memory is fresh, zeroed and mapped twice. The tests drop the writer
            // before the ring, or do not use it any more.
            let writer = unsafe {
                Writer::with_start(
                    ring.writable.control(),
                    ring.writable.data(),
                    capacity,
                    start,
                    start_count,
                )
            };
            (ring, writer)
        }

        fn attach(&mut self, writer: &mut Writer, mode: Mode) -> (ReaderId, Reader) {
            let (reader, cursor) = self.reader(mode);
            // SAFETY: the cursor lives as long as the ring.
            (unsafe { writer.attach(cursor, mode) }, reader)
        }
    }

    impl Mapped {
        /// Creates a reader over the read-only mapping, and the cursor of the reader.
        pub fn reader(&mut self, mode: Mode) -> (Reader, NonNull<Cursor>) {
            let cursor = NonNull::from(Box::leak(Box::<Cursor>::default()));
            // SAFETY: the cursor was just leaked. The list owns it from now on, and it is accessed
            // only through the pointer.
            self.cursors.push(unsafe { Box::from_raw(cursor.as_ptr()) });
            let mode = match mode {
                Mode::Blocking { .. } => ReaderMode::Blocking,
                Mode::Lossy => ReaderMode::Lossy,
            };
            // SAFETY: this is the memory of a ring, which outlives the reader in every test.
            let reader = unsafe {
                Reader::new(self.read_only.control(), self.read_only.data(), self.capacity, cursor, mode)
            };
            (reader.unwrap(), cursor)
        }
    }

    impl Mapping {
        fn new(file: &OwnedFd, capacity: usize, access: ProtFlags) -> Self {
            let len = PAGE + 2 * capacity;
            // SAFETY: these are new mappings, first at an address chosen by the kernel, then over
            // exactly the same range.
            unsafe {
                let base = mmap_anonymous(null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE).unwrap();
                let map = |at: usize, len: usize, offset: usize| {
                    let address = base.cast::<u8>().add(at).cast::<c_void>();
                    mmap(address, len, access, MapFlags::SHARED | MapFlags::FIXED, file, offset as u64)
                        .unwrap()
                };
                map(0, PAGE + capacity, 0);
                map(PAGE + capacity, capacity, PAGE);
                Self { base: NonNull::new(base.cast()).unwrap(), len }
            }
        }

        pub fn control(&self) -> NonNull<Control> {
            self.base.cast()
        }

        pub fn data(&self) -> NonNull<u8> {
            // SAFETY: the address is inside the mapping.
            unsafe { self.base.add(PAGE) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: `new` mapped this range, and it is no longer used.
            unsafe { munmap(self.base.as_ptr().cast(), self.len).unwrap() }
        }
    }
}
