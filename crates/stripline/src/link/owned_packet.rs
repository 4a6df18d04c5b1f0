//! A packet that was copied out of the transport, so that the frame can be released.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::packet::{Gap, Header, Order, StreamInfo};
use crate::sys::aligned_buffer::AlignedBuffer;

use super::connection::IncomingConnection;
use super::{FrameRef, Incoming, LentPacket};

/// The copy of a packet. The memory is reused for the next packet.
#[derive(Default)]
pub(crate) struct OwnedPacket {
    buffer: AlignedBuffer,
    bytes: usize,
    meta: Option<(Header, Order)>,
    pub gap: Option<Gap>,
    /// Whether a packet forwarded from this packet carries the same order.
    pub is_ordered: bool,
    stream: Arc<StreamInfo>,
    connection: String,
    /// The port's number for the stream and the connection, if the port has one.
    description: Option<(u64, u16)>,
    /// The index of the packet's connection in the port.
    pub(super) index: usize,
}

impl OwnedPacket {
    /// Copies the packet that the port has lent.
    pub(crate) fn copy_from(&mut self, link: &Incoming) {
        // SAFETY: the packet is lent, and no method of the transport is called before the copy is
        // complete.
        let bytes: &[u8] = unsafe { link.taken().payload.get() };
        self.buffer.grow(bytes.len());
        self.buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.bytes = bytes.len();
        self.describe(link);
    }

    /// Copies everything of the lent packet except the payload.
    pub(super) fn describe(&mut self, link: &Incoming) {
        let taken = link.taken();
        self.meta = Some((taken.header, link.order()));
        self.gap = taken.gap;
        self.is_ordered = taken.header.order().is_some();
        self.index = link.connection_index().0;
        // Most packets belong to the same stream as the previous packet.
        let description = link.description();
        if description.is_none() || description != self.description {
            self.describe_stream(link);
            self.description = description;
        }
    }

    /// Describes a packet of the port's only connection, if it has the same stream as the last
    /// packet in this place. False: [`OwnedPacket::describe`] has to describe it.
    #[inline(always)]
    pub(super) fn describe_like_before(
        &mut self,
        taken: &LentPacket,
        connection: &IncomingConnection,
    ) -> bool {
        let header = &taken.header;
        if self.description != Some((connection.description(), header.stream)) {
            return false;
        }
        let order = header.order();
        self.is_ordered = order.is_some();
        let order = order.unwrap_or(Order::new(0, header.sequence)).over(connection.connection());
        self.meta = Some((*header, order));
        self.gap = taken.gap;
        // The index of a port's only connection.
        self.index = 0;
        true
    }

    fn describe_stream(&mut self, link: &Incoming) {
        if !Arc::ptr_eq(&self.stream, link.stream()) {
            self.stream = Arc::clone(link.stream());
        }
        if self.connection != link.connection() {
            self.connection.clear();
            self.connection.push_str(link.connection());
        }
    }

    /// Returns the payload.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.bytes]
    }

    /// Returns a reference to the payload, valid until this value is moved or filled again.
    pub(super) fn lend(&self) -> FrameRef {
        FrameRef::new(self.bytes())
    }

    /// Returns the header and the order of the packet; `None` before the first packet.
    pub(crate) fn meta(&self) -> Option<&(Header, Order)> {
        self.meta.as_ref()
    }

    /// Returns the stream to which the packet belongs.
    pub(crate) fn stream(&self) -> &Arc<StreamInfo> {
        &self.stream
    }

    /// Returns the name of the connection on which the packet arrived.
    pub(crate) fn connection(&self) -> &str {
        &self.connection
    }
}

/// The origin of a packet. Seldom needed properties are read on request.
#[derive(Clone, Copy)]
pub(crate) enum PacketSource<'a> {
    /// The packet is in the memory of this connection's transport.
    Connection {
        name: &'a str,
        number: u16,
        streams: &'a BTreeMap<u16, Arc<StreamInfo>>,
        /// The stream info that is used if the description of a stream was lost.
        unknown: &'a Arc<StreamInfo>,
    },
    Copy(&'a OwnedPacket),
}

impl<'a> PacketSource<'a> {
    /// Returns the stream of the packet with that header.
    pub(crate) fn stream(self, header: &Header) -> &'a Arc<StreamInfo> {
        match self {
            Self::Connection { streams, unknown, .. } => streams.get(&header.stream).unwrap_or(unknown),
            Self::Copy(copy) => copy.stream(),
        }
    }

    /// Returns the name of the connection on which the packet arrived.
    pub(crate) fn connection(self) -> &'a str {
        match self {
            Self::Connection { name, .. } => name,
            Self::Copy(copy) => copy.connection(),
        }
    }

    /// Returns the order of the packet with that header.
    pub(crate) fn order(self, header: &Header) -> Order {
        let (own, number) = match self {
            Self::Connection { number, .. } => (None, number),
            Self::Copy(copy) => (copy.meta().map(|(_, order)| *order), 0),
        };
        own.unwrap_or_else(|| header.order().unwrap_or(Order::new(0, header.sequence)).over(number))
    }

    /// Returns whether a packet forwarded from the packet with that header carries the same order.
    pub(crate) fn is_ordered(self, header: &Header) -> bool {
        match self {
            Self::Connection { .. } => header.order().is_some(),
            Self::Copy(copy) => copy.is_ordered,
        }
    }
}
