//! A packet copied out of its transport, which can go on.

use std::sync::Arc;

use crate::packet::{Gap, Header, Order, StreamInfo};
use crate::transport::AlignedBuffer;

use super::{Incoming, Lent};

/// The copy of a packet. The memory is kept for the next one.
#[derive(Default)]
pub(crate) struct Copied {
    buffer: AlignedBuffer,
    bytes: usize,
    about: Option<(Header, Order)>,
    pub gap: Option<Gap>,
    /// Whether what is forwarded from it says whose turn it had.
    pub is_ordered: bool,
    stream: Arc<StreamInfo>,
    connection: String,
    /// Its connection's place among those of the port.
    pub(super) origin: usize,
}

impl Copied {
    /// Copies the packet that a port has lent.
    pub(crate) fn fill(&mut self, link: &Incoming) {
        let taken = link.taken();
        // SAFETY: called while the packet is lent; nothing is asked of the transport meanwhile.
        let bytes: &[u8] = unsafe { taken.payload.get() };
        self.buffer.grow(bytes.len());
        self.buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.bytes = bytes.len();
        self.about = Some((taken.header, link.order()));
        self.gap = taken.gap;
        self.is_ordered = taken.header.order().is_some();
        self.stream = Arc::clone(link.stream());
        self.connection.clear();
        self.connection.push_str(link.connection());
        self.origin = link.came_over().0;
    }

    /// Its payload.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.bytes]
    }

    /// The payload, to be lent on for as long as this stays where it is and is not filled anew.
    pub(super) fn lend(&self) -> Lent {
        Lent::new(self.bytes())
    }

    /// What it says of itself, and whose turn it has; `None` before the first.
    pub(crate) fn about(&self) -> Option<&(Header, Order)> {
        self.about.as_ref()
    }

    /// The stream it belongs to.
    pub(crate) fn stream(&self) -> &Arc<StreamInfo> {
        &self.stream
    }

    /// The connection it came over.
    pub(crate) fn connection(&self) -> &str {
        &self.connection
    }
}
