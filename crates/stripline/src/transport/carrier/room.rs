//! The frames of a write, and the room of a read.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::sys::aligned_buffer::{AlignedBuffer, CacheLine};

/// The bytes to write: whole frames, or the rest of frames that were written in part. The bytes
/// dereference to a slice.
///
/// ```
/// let mut frames = stripline::carrier::Frames::from(&b"frames"[..]);
/// assert_eq!(frames.len(), 6);
/// assert!(frames.buffer().is_none());
/// ```
pub struct Frames<'a>(FramesIn<'a>);

enum FramesIn<'a> {
    Bytes(&'a [u8]),
    Buffer(&'a mut AlignedBuffer, usize),
}

impl<'a> Frames<'a> {
    /// Returns the first `bytes` bytes of frames in a buffer, which the path may use.
    #[inline]
    pub(crate) fn of_buffer(buffer: &'a mut AlignedBuffer, bytes: usize) -> Self {
        Self(FramesIn::Buffer(buffer, bytes))
    }

    /// Returns the buffer, if the bytes begin at the frame in it. The path may write to the line in
    /// front of the frame. A path that takes all bytes may keep the buffer and leave another one
    /// instead, or lend the buffer the memory of the next frame.
    #[inline]
    pub fn buffer(&mut self) -> Option<&mut AlignedBuffer> {
        match &mut self.0 {
            FramesIn::Bytes(_) => None,
            FramesIn::Buffer(buffer, _) => Some(buffer),
        }
    }
}

impl<'a> From<&'a [u8]> for Frames<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self(FramesIn::Bytes(bytes))
    }
}

impl Deref for Frames<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            FramesIn::Bytes(bytes) => bytes,
            FramesIn::Buffer(buffer, bytes) => &buffer.frame()[..*bytes],
        }
    }
}

/// The room for the bytes of a read.
///
/// ```
/// let mut bytes = [0; 8];
/// let mut room = stripline::carrier::ReadRoom::from(&mut bytes[..]);
/// room.bytes()[..3].copy_from_slice(b"abc");
/// assert!(!room.may_lend());
/// ```
pub struct ReadRoom<'a>(RoomIn<'a>);

enum RoomIn<'a> {
    Bytes(&'a mut [u8]),
    /// An empty buffer, and the bytes that it needs at least if the path does not lend memory.
    Buffer(&'a mut AlignedBuffer, usize),
}

impl<'a> ReadRoom<'a> {
    /// Returns the room of an empty buffer. The path may lend memory to the buffer. Otherwise the
    /// bytes go behind the first line, and there is room for `bytes` bytes.
    #[inline]
    pub(crate) fn of_buffer(buffer: &'a mut AlignedBuffer, bytes: usize) -> Self {
        Self(RoomIn::Buffer(buffer, bytes))
    }

    /// Returns the room, to write the bytes to.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        match &mut self.0 {
            RoomIn::Bytes(bytes) => bytes,
            RoomIn::Buffer(buffer, bytes) => {
                buffer.take_back();
                buffer.grow(AlignedBuffer::FRONT + *bytes);
                &mut buffer.bytes_mut()[AlignedBuffer::FRONT..]
            }
        }
    }

    /// Returns whether the path may lend its memory, in place of a copy.
    #[inline]
    pub fn may_lend(&self) -> bool {
        matches!(self.0, RoomIn::Buffer(..))
    }

    /// Lends memory of the path, with the bytes of the read behind the first line. The memory is
    /// only read, until the next read. Does nothing unless [`ReadRoom::may_lend`].
    ///
    /// # Safety
    /// The caller must pass memory that is valid and initialised as long as `owner` lives, or until
    /// the next read. During this time, nothing else in this process may change the memory.
    #[inline]
    pub unsafe fn lend(
        &mut self,
        start: NonNull<CacheLine>,
        count: usize,
        owner: &Arc<impl std::any::Any + Send + Sync>,
    ) {
        if let RoomIn::Buffer(buffer, _) = &mut self.0 {
            // SAFETY: the caller keeps the memory. An inlet does not write to lent memory: `bytes`
            // takes the buffer back first.
            unsafe { buffer.lend(start, count, owner) };
        }
    }
}

impl<'a> From<&'a mut [u8]> for ReadRoom<'a> {
    #[inline]
    fn from(bytes: &'a mut [u8]) -> Self {
        Self(RoomIn::Bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_bytes_and_give_the_buffer_that_they_begin() {
        let mut buffer = AlignedBuffer::default();
        buffer.grow(AlignedBuffer::FRONT + 8);
        buffer.bytes_mut()[AlignedBuffer::FRONT..][..3].copy_from_slice(b"abc");
        let mut frames = Frames::of_buffer(&mut buffer, 2);
        assert_eq!(&*frames, b"ab");
        assert_eq!(frames.buffer().unwrap().behind(b"1", 0..2), b"1ab");
        let mut rest = Frames::from(&b"c"[..]);
        assert_eq!(&*rest, b"c");
        assert!(rest.buffer().is_none());
    }

    #[test]
    fn room_in_a_buffer_is_made_when_it_is_asked_for() {
        let mut buffer = AlignedBuffer::default();
        let mut room = ReadRoom::of_buffer(&mut buffer, 100);
        assert!(room.may_lend());
        room.bytes()[..3].copy_from_slice(b"abc");
        assert_eq!(&buffer.frame()[..3], b"abc");
        let mut bytes = [0; 4];
        let mut room = ReadRoom::from(&mut bytes[..]);
        assert_eq!((room.may_lend(), room.bytes().len()), (false, 4));
    }
}
