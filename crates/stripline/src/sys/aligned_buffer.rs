//! Memory aligned for every sample type.

use bytemuck::{Pod, Zeroable};

/// A growable range of bytes that starts on a cache line. A line in front of it is for what a path
/// sends before the bytes.
#[derive(Default)]
pub(crate) struct AlignedBuffer {
    /// The first is the line in front.
    lines: Vec<CacheLine>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; LINE]);

/// Bytes of a cache line.
const LINE: usize = 64;

impl AlignedBuffer {
    /// Returns the number of bytes available.
    pub(crate) fn len(&self) -> usize {
        self.lines.len().saturating_sub(1) * LINE
    }

    /// Grows to at least `bytes`; the content is kept.
    pub(crate) fn grow(&mut self, bytes: usize) {
        if bytes > self.len() {
            self.lines.resize(1 + bytes.div_ceil(LINE), CacheLine::zeroed());
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.lines.get(1..).unwrap_or_default())
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self.lines.get_mut(1..).unwrap_or_default())
    }

    /// Puts a header of at most 64 bytes in front of the first so many bytes, and returns both. The
    /// buffer has grown to them.
    pub(crate) fn behind(&mut self, header: &[u8], bytes: usize) -> &[u8] {
        let from = LINE - header.len();
        let whole: &mut [u8] = bytemuck::cast_slice_mut(&mut self.lines);
        whole[from..LINE].copy_from_slice(header);
        &whole[from..LINE + bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_put_in_front_and_the_bytes_stay() {
        let mut buffer = AlignedBuffer::default();
        assert_eq!((buffer.len(), buffer.bytes().len(), buffer.bytes_mut().len()), (0, 0, 0));
        buffer.grow(65);
        assert_eq!((buffer.len(), buffer.bytes().as_ptr().addr() % LINE), (128, 0));
        buffer.bytes_mut()[..3].copy_from_slice(b"abc");
        assert_eq!(buffer.behind(b"12", 3), b"12abc");
        assert_eq!(buffer.behind(b"", 2), b"ab");
        buffer.grow(1000);
        assert_eq!(&buffer.bytes()[..4], b"abc\0");
    }
}
