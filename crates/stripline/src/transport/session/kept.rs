//! Buffers with long frames that may have to be repaired. The sender wrote the frames there, so no
//! copy is made.

use std::collections::VecDeque;

use crate::flow::session::Span;
use crate::sys::aligned_buffer::AlignedBuffer;

/// A buffer with the payload of a datagram.
struct KeptBuffer {
    number: u64,
    span: Span,
    bytes: usize,
    buffer: AlignedBuffer,
}

/// The buffers in transit, and buffers to use again.
#[derive(Default)]
pub(super) struct KeptBuffers {
    in_transit: VecDeque<KeptBuffer>,
    spare: Vec<AlignedBuffer>,
}

impl KeptBuffers {
    /// Keeps the buffer of a datagram, and leaves another buffer instead. The numbers must rise.
    pub(super) fn keep(&mut self, number: u64, span: Span, buffer: &mut AlignedBuffer, bytes: usize) {
        // The buffer released last is the most likely one to be in a cache.
        let other = self.spare.pop().unwrap_or_default();
        let buffer = std::mem::replace(buffer, other);
        self.in_transit.push_back(KeptBuffer { number, span, bytes, buffer });
    }

    /// Releases the buffers of datagrams with numbers below `first`.
    pub(super) fn release(&mut self, first: u64) {
        while self.in_transit.front().is_some_and(|kept| kept.number < first) {
            self.spare.extend(self.in_transit.pop_front().map(|kept| kept.buffer));
        }
    }

    /// Returns the payload of a datagram, if the buffer is kept.
    pub(super) fn payload(&self, number: u64) -> Option<(Span, &[u8])> {
        let index = self.in_transit.binary_search_by_key(&number, |kept| kept.number).ok()?;
        let kept = self.in_transit.get(index)?;
        Some((kept.span, &kept.buffer.frame()[..kept.bytes]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_kept_until_it_is_released_and_then_used_again() {
        let (mut kept, mut buffer) = (KeptBuffers::default(), AlignedBuffer::default());
        for number in [3, 5, 6] {
            buffer.grow(AlignedBuffer::FRONT + 64);
            buffer.bytes_mut()[AlignedBuffer::FRONT] = number as u8;
            kept.keep(number, Span::WHOLE, &mut buffer, 1);
        }
        kept.release(5);
        let payload = |kept: &KeptBuffers, number| kept.payload(number).map(|(_, bytes)| bytes.to_vec());
        assert_eq!(
            [3, 4, 5, 6].map(|number| payload(&kept, number)),
            [None, None, Some(vec![5]), Some(vec![6])]
        );
        kept.keep(7, Span::WHOLE, &mut buffer, 0);
        assert_eq!(buffer.frame()[0], 3);
        kept.release(100);
        assert_eq!((kept.in_transit.len(), kept.spare.len()), (0, 3));
    }
}
