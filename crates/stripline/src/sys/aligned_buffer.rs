//! Memory aligned for every sample type.

use bytemuck::{Pod, Zeroable};

/// A growable range of bytes that starts on a cache line.
#[derive(Default)]
pub(crate) struct AlignedBuffer {
    lines: Vec<CacheLine>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

impl AlignedBuffer {
    /// Returns the number of bytes available.
    pub(crate) fn len(&self) -> usize {
        self.lines.len() * 64
    }

    /// Grows to at least `bytes`; the content is kept.
    pub(crate) fn grow(&mut self, bytes: usize) {
        if bytes > self.len() {
            self.lines.resize(bytes.div_ceil(64), CacheLine::zeroed());
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.lines)
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }
}
