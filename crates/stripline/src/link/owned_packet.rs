//! A packet copied out of its transport, so that the frame can be released.

use std::sync::Arc;

use crate::packet::{Gap, Header, Order, StreamInfo};
use crate::sys::aligned_buffer::AlignedBuffer;

use super::{FrameRef, Incoming};

/// The copy of a packet. Its memory is reused for the next one.
#[derive(Default)]
pub(crate) struct OwnedPacket {
    buffer: AlignedBuffer,
    bytes: usize,
    meta: Option<(Header, Order)>,
    pub gap: Option<Gap>,
    /// Whether a packet forwarded from this one carries its order.
    pub is_ordered: bool,
    stream: Arc<StreamInfo>,
    connection: String,
    /// The index of its connection among those of the port.
    pub(super) index: usize,
}

impl OwnedPacket {
    /// Copies the packet that the port has lent.
    pub(crate) fn copy_from(&mut self, link: &Incoming) {
        let taken = link.taken();
        // SAFETY: the packet is lent, and no method of the transport is called before the copy is
        // done.
        let bytes: &[u8] = unsafe { taken.payload.get() };
        self.buffer.grow(bytes.len());
        self.buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.bytes = bytes.len();
        self.meta = Some((taken.header, link.order()));
        self.gap = taken.gap;
        self.is_ordered = taken.header.order().is_some();
        self.stream = Arc::clone(link.stream());
        self.connection.clear();
        self.connection.push_str(link.connection());
        self.index = link.connection_index().0;
    }

    /// Returns its payload.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.bytes]
    }

    /// Returns a reference to the payload, valid until this value is moved or filled again.
    pub(super) fn lend(&self) -> FrameRef {
        FrameRef::new(self.bytes())
    }

    /// Returns its header and its order; `None` before the first packet.
    pub(crate) fn meta(&self) -> Option<&(Header, Order)> {
        self.meta.as_ref()
    }

    /// Returns the stream that it belongs to.
    pub(crate) fn stream(&self) -> &Arc<StreamInfo> {
        &self.stream
    }

    /// Returns the name of the connection that it arrived on.
    pub(crate) fn connection(&self) -> &str {
        &self.connection
    }
}
