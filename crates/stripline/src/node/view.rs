//! Packets to look at, wherever they lie: in a transport's memory, or in a copy.

use std::ops::Deref;
use std::sync::Arc;

use crate::link::Incoming;
use crate::packet::{Gap, Header, Order, StreamInfo};
use crate::payload::Sample;
use crate::transport::AlignedBuffer;

/// A packet to look at: what a handler is given. It is gone when the handler returns.
///
/// ```
/// use std::time::Duration;
/// use stripline::node::{Dispatch, Node};
///
/// let node = Node::isolated()?;
/// let mut publisher = node.publisher::<f32>("levels")?;
/// let mut subscriber = node.subscriber::<f32>("levels")?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[0.5, 0.25])?;
/// publisher.finish()?;
/// subscriber.serve(Dispatch::Queue, |packet| {
///     assert_eq!((&packet[..], packet.sequence(), packet.sample_index()), (&[0.5, 0.25][..], 0, 0));
///     assert_eq!((packet.time_ns(), packet.intended_ns(), packet.gap()), (0, None, None));
///     assert_eq!((packet.order().number(), &*packet.stream().id), (0, "levels"));
///     assert!(packet.connection().ends_with("-> levels"));
///     Ok(())
/// })?;
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct PacketView<'a, T: Sample> {
    samples: &'a [T],
    about: About<'a>,
}

/// What a packet says of itself, and what is known of it.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub header: &'a Header,
    pub gap: Option<&'a Gap>,
    pub order: Order,
    /// Whether what is forwarded from it says so.
    pub is_ordered: bool,
    pub stream: &'a Arc<StreamInfo>,
    pub connection: &'a str,
}

impl<'a> About<'a> {
    /// Of the packet that the link has lent.
    pub(super) fn lent(incoming: &'a Incoming) -> Self {
        let taken = incoming.taken();
        Self {
            header: &taken.header,
            gap: taken.gap.as_ref(),
            order: incoming.order(),
            is_ordered: taken.header.order().is_some(),
            stream: incoming.stream(),
            connection: incoming.connection(),
        }
    }

    pub(super) fn stamps(self) -> sealed::Stamps<'a> {
        let order = self.is_ordered.then_some(self.order);
        sealed::Stamps { header: self.header, order, stream: self.stream }
    }
}

/// A packet that can be forwarded: [`Loan::send_like`](super::Loan::send_like) takes stream, sample index, time and
/// turn from it.
///
/// ```
/// use stripline::node::Stamped;
///
/// fn forward(output: &mut stripline::Output<f32>, level: f32, of: &impl Stamped) -> stripline::Result<()> {
///     let mut loan = output.loan(1)?;
///     loan[0] = level;
///     loan.send_like(of)
/// }
/// ```
pub trait Stamped: sealed::Sealed {}

pub(crate) mod sealed {
    use super::{Arc, Header, Order, StreamInfo};

    pub trait Sealed {
        #[doc(hidden)]
        fn stamps(&self) -> Stamps<'_>;
    }

    /// What a packet forwarded like another says of itself.
    pub struct Stamps<'a> {
        pub(crate) header: &'a Header,
        pub(crate) order: Option<Order>,
        pub(crate) stream: &'a Arc<StreamInfo>,
    }
}

/// The same questions as a `Packet` answers, for a type with `about`.
macro_rules! answers {
    ($type:ident) => {
        impl<T: crate::payload::Sample> $type<'_, T> {
            /// The packet's number among those of its sender, from 0.
            pub fn sequence(&self) -> u64 {
                self.about().header.sequence
            }

            /// Number of the first sample within its stream.
            pub fn sample_index(&self) -> u64 {
                self.about().header.sample_index
            }

            /// When the first sample was taken, nanoseconds since the Unix epoch; 0: unknown.
            pub fn time_ns(&self) -> i64 {
                self.about().header.time_ns
            }

            /// When it should have been sent, if its sender keeps a schedule.
            pub fn intended_ns(&self) -> Option<u64> {
                self.about().header.intended()
            }

            /// Whose turn the packet has.
            pub fn order(&self) -> crate::packet::Order {
                self.about().order
            }

            /// What is missing just before this packet.
            pub fn gap(&self) -> Option<&crate::packet::Gap> {
                self.about().gap
            }

            /// The stream it belongs to.
            pub fn stream(&self) -> &std::sync::Arc<crate::packet::StreamInfo> {
                self.about().stream
            }

            /// The connection it came over, as `from -> to`.
            pub fn connection(&self) -> &str {
                self.about().connection
            }
        }

        impl<T: crate::payload::Sample> crate::node::Stamped for $type<'_, T> {}

        impl<T: crate::payload::Sample> crate::node::view::sealed::Sealed for $type<'_, T> {
            fn stamps(&self) -> crate::node::view::sealed::Stamps<'_> {
                self.about().stamps()
            }
        }

        impl<T: crate::payload::Sample + std::fmt::Debug> std::fmt::Debug for $type<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    .field("header", self.about().header)
                    .field("samples", &&**self)
                    .finish()
            }
        }
    };
}

pub(super) use answers;

answers!(PacketView);

impl<'a, T: Sample> PacketView<'a, T> {
    pub(super) fn new(samples: &'a [T], about: About<'a>) -> Self {
        Self { samples, about }
    }

    pub(super) fn set_gap(&mut self, gap: Option<&'a Gap>) {
        self.about.gap = gap;
    }

    pub(super) fn into_about(self) -> About<'a> {
        self.about
    }

    pub(super) fn into_samples(self) -> &'a [T] {
        self.samples
    }

    fn about(&self) -> About<'_> {
        self.about
    }
}

impl<T: Sample> Deref for PacketView<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.samples
    }
}

/// A packet copied out of its transport, which can go on. The memory is kept for the next one.
#[derive(Default)]
pub(super) struct Copied {
    buffer: AlignedBuffer,
    bytes: usize,
    about: Option<(Header, Order)>,
    gap: Option<Gap>,
    is_ordered: bool,
    stream: Arc<StreamInfo>,
    connection: String,
}

impl Copied {
    pub(super) fn fill<T: Sample>(&mut self, packet: PacketView<'_, T>) {
        let bytes: &[u8] = bytemuck::cast_slice(packet.samples);
        self.buffer.grow(bytes.len());
        self.buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.bytes = bytes.len();
        let about = packet.about;
        self.about = Some((*about.header, about.order));
        self.gap = about.gap.copied();
        self.is_ordered = about.is_ordered;
        self.stream = Arc::clone(about.stream);
        self.connection.clear();
        self.connection.push_str(about.connection);
    }

    /// From now on, what is forwarded from it says whose turn it had.
    pub(super) fn set_ordered(&mut self) {
        self.is_ordered = true;
    }

    pub(super) fn set_gap(&mut self, gap: Option<Gap>) {
        self.gap = gap;
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The packet; `None` before the first.
    pub(super) fn view<T: Sample>(&self) -> Option<PacketView<'_, T>> {
        let (header, order) = self.about.as_ref()?;
        let about = About {
            header,
            gap: self.gap.as_ref(),
            order: *order,
            is_ordered: self.is_ordered,
            stream: &self.stream,
            connection: &self.connection,
        };
        Some(PacketView { samples: bytemuck::cast_slice(&self.buffer.bytes()[..self.bytes]), about })
    }
}
