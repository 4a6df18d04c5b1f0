//! Memory aligned for every sample type.

use bytemuck::{Pod, Zeroable};

/// Bytes of a cache line.
const LINE: usize = 64;

/// A growable range of bytes that starts on a cache line.
#[derive(Default)]
pub(crate) struct AlignedBuffer {
    lines: Vec<CacheLine>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; LINE]);

impl AlignedBuffer {
    /// Where a frame begins in the buffer of a sender: behind a line for what its path sends before
    /// it.
    pub(crate) const FRONT: usize = LINE;

    /// Returns the number of bytes available.
    pub(crate) fn len(&self) -> usize {
        self.lines.len() * LINE
    }

    /// Grows to at least `bytes`; the content is kept.
    pub(crate) fn grow(&mut self, bytes: usize) {
        if bytes > self.len() {
            self.lines.resize(bytes.div_ceil(LINE), CacheLine::zeroed());
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.lines)
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }

    /// Returns the bytes from the start of a frame on.
    #[inline(always)]
    pub(crate) fn frame(&self) -> &[u8] {
        self.bytes().get(Self::FRONT..).unwrap_or_default()
    }

    /// Puts a header of at most 64 bytes in front of the first so many bytes of a frame, and
    /// returns both. The buffer has grown to them.
    pub(crate) fn behind(&mut self, header: &[u8], bytes: usize) -> &[u8] {
        let (from, front) = (Self::FRONT - header.len(), Self::FRONT);
        let whole = self.bytes_mut();
        whole[from..front].copy_from_slice(header);
        &whole[from..front + bytes]
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
        assert_eq!(buffer.behind(b"12", 3), b"12abc");
        assert_eq!(buffer.behind(b"", 2), b"ab");
        buffer.grow(1000);
        assert_eq!(&buffer.frame()[..4], b"abc\0");
    }
}
