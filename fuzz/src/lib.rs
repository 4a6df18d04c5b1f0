//! Code shared by the fuzz targets: reading structured input, and a limit on single allocations.

use std::alloc::{GlobalAlloc, Layout, System};

/// The largest single allocation of a parser. A parser must not allocate memory for announced data
/// that has not arrived.
const ALLOCATION_MAX: usize = 64 << 20;

/// The system's allocator, with an abort at a single allocation above the limit.
struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

fn check(bytes: usize) {
    if bytes > ALLOCATION_MAX {
        // Do not panic here: a panic allocates, and may be caught.
        std::process::abort();
    }
}

// SAFETY: every call goes to the system's allocator.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: the caller gives the same guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        check(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A reader of choices from the front of the fuzzer's input. At the end of the input all choices
/// are zero.
pub struct Choices<'a>(pub &'a [u8]);

impl<'a> Choices<'a> {
    /// Returns whether no input is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns one byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Returns eight bytes.
    pub fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes(8);
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// Returns a number of any size. Small numbers and numbers near the end of the range are more
    /// frequent.
    pub fn number(&mut self) -> u64 {
        let byte = self.byte();
        match byte {
            0..=0xdf => u64::from(byte),
            0xe0..=0xef => u64::MAX - u64::from(byte & 0xf),
            _ => self.word(),
        }
    }

    /// Returns up to `count` bytes.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(count.min(self.0.len()));
        self.0 = later;
        now
    }

    /// Returns all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// Cuts bytes into pieces of 1 to 256 bytes. The lengths repeat the pattern.
pub fn pieces<'a>(bytes: &'a [u8], pattern: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Choices(bytes);
    let mut lengths = pattern.iter().cycle();
    std::iter::from_fn(move || {
        let length = lengths.next().map_or(usize::MAX, |length| usize::from(*length) + 1);
        (!rest.is_empty()).then(|| rest.bytes(length))
    })
}
