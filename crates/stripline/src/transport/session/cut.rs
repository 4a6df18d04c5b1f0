//! Cuts frames into datagrams. A datagram holds whole frames, or a part of one frame.

use crate::flow::session::Span;
use crate::packet::{Header, Kind};
use crate::transport::stream::padded;

/// A cutter of the frames that a sender writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameCutter {
    /// The bytes of the current frame that are still to come.
    left: usize,
    /// Whether the current frame must not be lost, because it is not a data frame.
    is_kept: bool,
}

/// The next datagram of the frames to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DatagramPart {
    pub bytes: usize,
    pub span: Span,
    /// Whether the part holds a description or the end of a stream, which must not be lost.
    pub is_kept: bool,
    left: usize,
}

impl FrameCutter {
    /// Returns the next part, of at most `max` bytes. `bytes` are frames that begin where the last
    /// part [taken](FrameCutter::take) ended, and must not be empty.
    pub(super) fn next(&self, bytes: &[u8], max: usize) -> DatagramPart {
        if self.left > 0 {
            let part = self.left.min(max).min(bytes.len());
            let span = Span { begins: false, ends: part == self.left };
            return DatagramPart { bytes: part, span, is_kept: self.is_kept, left: self.left - part };
        }
        let (first, is_kept) = frame(bytes);
        if first > max.min(bytes.len()) {
            let part = max.min(bytes.len());
            return DatagramPart {
                bytes: part,
                span: Span { begins: true, ends: false },
                is_kept,
                left: first - part,
            };
        }
        let mut end = first;
        while end < bytes.len() {
            let (next, is_next_kept) = frame(&bytes[end..]);
            if is_next_kept != is_kept || end + next > max.min(bytes.len()) {
                break;
            }
            end += next;
        }
        DatagramPart { bytes: end, span: Span { begins: true, ends: true }, is_kept, left: 0 }
    }

    /// Returns whether the last part taken ends inside of a frame.
    pub(super) fn is_in_frame(&self) -> bool {
        self.left > 0
    }

    /// Counts a part as written.
    pub(super) fn take(&mut self, part: &DatagramPart) {
        (self.left, self.is_kept) = (part.left, part.is_kept);
    }
}

/// Returns the bytes of the frame at the start of `bytes`, and whether it must not be lost. Without
/// a whole header, the frame is all of `bytes`: no sender writes less.
fn frame(bytes: &[u8]) -> (usize, bool) {
    let Some(length) = Header::length_of(bytes) else { return (bytes.len(), true) };
    let is_data = Header::read(bytes).is_some_and(|header| header.kind == Kind::Data as u8);
    (padded(length as usize), !is_data)
}
