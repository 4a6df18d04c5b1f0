//! Read access to packets in the memory of a transport or in a copy.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::link::{Incoming, OwnedPacket, PacketSource, Receipt};
use crate::packet::content::SampleForm;
use crate::packet::payload::Content;
use crate::packet::{Gap, Header, Order, StreamInfo};

/// A packet as a handler receives it, valid until the handler returns.
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
pub struct PacketView<'a, T: Content> {
    samples: &'a [T::Item],
    form: T::Form,
    meta: PacketMeta<'a>,
}

/// The header and the context of a packet.
#[derive(Clone, Copy)]
pub(super) struct PacketMeta<'a> {
    pub header: &'a Header,
    pub gap: Option<&'a Gap>,
    pub source: PacketSource<'a>,
    /// Set if the sender waits for the packet.
    pub receipt: Option<&'a Receipt>,
}

impl<'a> PacketMeta<'a> {
    /// Returns the header and context of the packet that the link has lent.
    #[inline(always)]
    pub(super) fn lent(incoming: &'a Incoming) -> Self {
        let taken = incoming.taken();
        let (source, receipt) = (incoming.source(), incoming.receipt());
        Self { header: &taken.header, gap: taken.gap.as_ref(), source, receipt }
    }
}

/// A packet or window that can be forwarded. [`Loan::send_like`](super::Loan::send_like) takes the
/// stream, sample index and time from it, and the order from a packet.
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
    use super::{Arc, Order, StreamInfo};

    pub trait Sealed {
        #[doc(hidden)]
        fn stamps(&self) -> Stamps<'_>;
    }

    /// The header fields for a forwarded packet.
    pub struct Stamps<'a> {
        pub(crate) sample_index: u64,
        pub(crate) time_ns: i64,
        pub(crate) order: Option<Order>,
        pub(crate) stream: &'a Arc<StreamInfo>,
    }
}

/// The stream, sample index, time and order of a packet or window, kept beyond it.
///
/// ```
/// # let node = stripline::node::Node::isolated()?;
/// # let mut source = node.publisher::<f32>("levels")?;
/// # let mut levels = node.subscriber::<f32>("levels")?;
/// # let mut peaks = node.publisher::<f32>("peaks")?;
/// # source.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
/// # source.send(&[1.0, 3.0])?;
/// use stripline::node::KeptStamps;
///
/// let packet = levels.receive()?.expect("a packet");
/// let (stamps, peak) = (KeptStamps::of(&packet), packet[1]);
/// drop(packet);
/// peaks.loan_copy_of(&[peak])?.send_like(&stamps)?;
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeptStamps {
    sample_index: u64,
    time_ns: i64,
    order: Option<Order>,
    stream: Arc<StreamInfo>,
}

impl KeptStamps {
    /// Copies the stamps.
    pub fn of<P: Stamped + ?Sized>(packet: &P) -> Self {
        let sealed::Stamps { sample_index, time_ns, order, stream } = packet.stamps();
        Self { sample_index, time_ns, order, stream: Arc::clone(stream) }
    }

    /// Returns the description of the stream.
    pub fn stream(&self) -> &Arc<StreamInfo> {
        &self.stream
    }

    /// Returns the number of the first sample within the stream.
    pub fn sample_index(&self) -> u64 {
        self.sample_index
    }
}

impl Stamped for KeptStamps {}

impl sealed::Sealed for KeptStamps {
    fn stamps(&self) -> sealed::Stamps<'_> {
        let Self { sample_index, time_ns, order, stream } = self;
        sealed::Stamps { sample_index: *sample_index, time_ns: *time_ns, order: *order, stream }
    }
}

/// Implements the getters of packets of a type, and [`Stamped`]. The type has `form`, `header`,
/// `gap_before` and `source`.
macro_rules! described {
    ($packet:ty) => {
        impl<T: Content> $packet {
            /// Returns the number of samples: the slice's length, unless they are
            /// [`Dynamic`](crate::payload::Dynamic).
            pub fn samples(&self) -> usize {
                self.form().samples(self.len())
            }

            /// Returns the packet's sequence number among the packets of the sender, from 0.
            pub fn sequence(&self) -> u64 {
                self.header().sequence
            }

            /// Returns the number of the first sample within the stream.
            pub fn sample_index(&self) -> u64 {
                self.header().sample_index
            }

            /// Returns the time at which the first sample was taken, in nanoseconds since the Unix
            /// epoch. 0 means that the time is unknown.
            pub fn time_ns(&self) -> i64 {
                self.header().time_ns
            }

            /// Returns the time at which the packet was sent, in monotonic nanoseconds of the host;
            /// `None` if it was not measured.
            pub fn sent_ns(&self) -> Option<u64> {
                Some(self.header().sent_ns).filter(|ns| *ns != 0)
            }

            /// Returns the time at which the packet should have been sent, if the sender keeps a
            /// schedule.
            pub fn intended_ns(&self) -> Option<u64> {
                self.header().intended()
            }

            /// Returns the order of the packet: the sequence number, unless one of several threads
            /// forwarded the packet.
            pub fn order(&self) -> $crate::packet::Order {
                self.source().order(self.header())
            }

            /// Returns the gap just before this packet.
            pub fn gap(&self) -> Option<&$crate::packet::Gap> {
                self.gap_before()
            }

            /// Returns the stream that the packet belongs to.
            pub fn stream(&self) -> &std::sync::Arc<$crate::packet::StreamInfo> {
                self.source().stream(self.header())
            }

            /// Returns the connection that the packet arrived on, as `from -> to`.
            pub fn connection(&self) -> &str {
                self.source().connection()
            }
        }

        impl<T: Content> $crate::node::packet_view::Stamped for $packet {}

        impl<T: Content> $crate::node::packet_view::sealed::Sealed for $packet {
            fn stamps(&self) -> $crate::node::packet_view::sealed::Stamps<'_> {
                let (header, source) = (self.header(), self.source());
                $crate::node::packet_view::sealed::Stamps {
                    sample_index: header.sample_index,
                    time_ns: header.time_ns,
                    order: source.is_ordered(header).then(|| source.order(header)),
                    stream: source.stream(header),
                }
            }
        }
    };
}
pub(super) use described;

described!(PacketView<'_, T>);

impl<T: Content> PacketView<'_, T> {
    /// Refuses the packet, as [`Packet::refuse`](super::Packet::refuse) does. The sender gets the
    /// reason when the handler returns, and handling continues with the next packet. In contrast, a
    /// handler that fails ends [`Subscriber::serve`](super::Subscriber::serve).
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::Error;
    /// use stripline::node::{Dispatch, Node, Topics};
    ///
    /// let domain = format!("refuse-{}", std::process::id());
    /// let node = Node::join(&domain, Topics::parse("[default]\nscope = 'target'")?)?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// let mut levels = node.subscriber::<f32>("levels")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// let receiver = std::thread::spawn(move || {
    ///     levels.serve(Dispatch::Queue, |packet| {
    ///         if packet.is_empty() {
    ///             packet.refuse("there is nothing to play");
    ///         }
    ///         Ok(())
    ///     })
    /// });
    /// assert!(matches!(publisher.send(&[]), Err(Error::PacketRefused { .. })));
    /// publisher.send(&[0.5])?;
    /// publisher.finish()?;
    /// receiver.join().expect("it does not panic")?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn refuse(self, reason: impl fmt::Display) {
        if let Some(receipt) = self.meta.receipt {
            receipt.refuse(reason.to_string());
        }
    }
}

impl<T: Content> Clone for PacketView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Content> Copy for PacketView<'_, T> {}

impl<T: Content<Item: fmt::Debug>> fmt::Debug for PacketView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let samples = &&**self;
        f.debug_struct("PacketView").field("header", self.meta.header).field("samples", samples).finish()
    }
}

impl<'a, T: Content> PacketView<'a, T> {
    #[inline]
    pub(super) fn new(samples: &'a [T::Item], form: T::Form, meta: PacketMeta<'a>) -> Self {
        Self { samples, form, meta }
    }

    fn form(&self) -> T::Form {
        self.form
    }

    fn header(&self) -> &'a Header {
        self.meta.header
    }

    fn gap_before(&self) -> Option<&'a Gap> {
        self.meta.gap
    }

    fn source(&self) -> PacketSource<'a> {
        self.meta.source
    }

    /// Sets the receipt through which a refusal is reported.
    pub(super) fn with_receipt(mut self, receipt: Option<&'a Receipt>) -> Self {
        self.meta.receipt = receipt;
        self
    }
}

impl<T: Content> Deref for PacketView<'_, T> {
    type Target = [T::Item];
    fn deref(&self) -> &[T::Item] {
        self.samples
    }
}

/// Returns a view of the copied packet; `None` before the first copy.
pub(super) fn view_of<T: Content>(copy: &OwnedPacket, form: T::Form) -> Option<PacketView<'_, T>> {
    let (header, _) = copy.meta()?;
    let meta = PacketMeta { header, gap: copy.gap.as_ref(), source: PacketSource::Copy(copy), receipt: None };
    Some(PacketView { samples: bytemuck::cast_slice(copy.bytes()), form, meta })
}

/// A view may move to another thread while the packet exists.
const _: fn() = || {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<PacketView<'_, f32>>();
};
