//! What the fuzz targets share: the reading of structured input, and a limit on single allocations.

use std::alloc::{GlobalAlloc, Layout, System};

/// No parser may ask for more memory than this at once: what is announced is not what has arrived.
const ALLOCATION_MAX: usize = 64 << 20;

/// The system's allocator, which ends the process at a single allocation that is out of all proportion.
struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

fn check(bytes: usize) {
    if bytes > ALLOCATION_MAX {
        // Not a panic: that allocates, and may be caught.
        std::process::abort();
    }
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: the caller's promises are the same.
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

/// Reads choices from the front of the fuzzer's input; at its end all choices are zero.
pub struct Choices<'a>(pub &'a [u8]);

impl<'a> Choices<'a> {
    /// Whether there is nothing left to choose by.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Eight bytes.
    pub fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes(8);
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// A number of any size, small ones and those near the end of the range more often than others.
    pub fn number(&mut self) -> u64 {
        let byte = self.byte();
        match byte {
            0..=0xdf => u64::from(byte),
            0xe0..=0xef => u64::MAX - u64::from(byte & 0xf),
            _ => self.word(),
        }
    }

    /// Up to `count` bytes.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(count.min(self.0.len()));
        self.0 = later;
        now
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// Cuts bytes into pieces whose lengths, 1 to 256, repeat those of `pattern`.
pub fn pieces<'a>(bytes: &'a [u8], pattern: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Choices(bytes);
    let mut lengths = pattern.iter().cycle();
    std::iter::from_fn(move || {
        let length = lengths.next().map_or(usize::MAX, |length| usize::from(*length) + 1);
        (!rest.is_empty()).then(|| rest.bytes(length))
    })
}
