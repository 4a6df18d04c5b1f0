//! The metadata of samples: the header, their stream, and the gaps before them.

pub(crate) mod content;
pub(crate) mod header;
pub(crate) mod layout;
pub(crate) mod message;
pub(crate) mod message_check;
#[cfg(test)]
mod message_check_tests;
pub(crate) mod message_json;
pub mod payload;
mod sample_size;
mod sample_type;
pub(crate) mod scalar;
pub(crate) mod schema;
mod stream_clock;
pub(crate) mod stream_info;
mod stream_shape;

pub(crate) use header::{HEADER_BYTES, Header, Kind, Outline};
pub(crate) use sample_size::SampleSize;
pub use stream_clock::{ClockReference, StreamClock};
pub use stream_info::{Axis, StreamInfo};
pub use stream_shape::StreamShape;

/// A packet's place in the order: the packet's number at the point where packets were passed to
/// several threads, and the origin of that number.
///
/// A port that forwards a packet gives it a new sequence number, in the order of forwarding. If
/// several threads forward packets as they finish, this is not the original order. The order stamp
/// keeps the original order and travels with the packet
/// ([`Loan::send_like`](crate::Loan::send_like)). A
/// [`Subscriber::resequenced`](crate::node::Subscriber::resequenced) uses it to restore the
/// sequence.
///
/// ```
/// # use std::time::Duration;
/// # let node = stripline::node::Node::isolated()?;
/// # let mut publisher = node.publisher::<f32>("levels")?;
/// # let mut subscriber = node.subscriber::<f32>("levels")?;
/// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[0.5])?;
/// publisher.send(&[0.7])?;
/// let first = subscriber.receive()?.expect("a packet").order();
/// let second = subscriber.receive()?.expect("a packet").order();
/// assert_eq!((first.origin(), first.number() + 1), (second.origin(), second.number()));
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order(u64);

impl Order {
    /// The number of bits of the number: enough for nine years at a million packets per second.
    const NUMBER_BITS: u32 = 48;

    pub(crate) fn new(origin: u16, number: u64) -> Self {
        Self(u64::from(origin) << Self::NUMBER_BITS | number & ((1 << Self::NUMBER_BITS) - 1))
    }

    /// Returns the origin, which separates independent sequences of numbers, such as the sequences
    /// of several senders, or of a sender before and after a restart.
    pub fn origin(self) -> u16 {
        (self.0 >> Self::NUMBER_BITS) as u16
    }

    /// Returns the packet's number among the packets of the same origin.
    pub fn number(self) -> u64 {
        self.0 & ((1 << Self::NUMBER_BITS) - 1)
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the same order behind the port's `connection`th connection. Packets that arrived
    /// over different connections, or over one connection before and after a restart of the sender,
    /// stay separate. The numbers of the connections on a packet's path are the digits of the
    /// origin.
    pub(crate) fn over(self, connection: u16) -> Self {
        Self::new(self.origin().wrapping_mul(251).wrapping_add(connection), self.number())
    }
}

/// The last packet of a sender, so that packets missing before the end of the stream can be
/// detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct LastSent {
    /// The sequence number of the sender's first packet, and the index of the first sample.
    pub first: [u64; 2],
    pub sequence: u64,
    /// The index of the packet's first sample.
    pub sample_index: u64,
    /// The size of the packet's payload in bytes.
    pub bytes: u64,
}

/// Packets that a receiver did not get, reported in their place, with the next packet.
///
/// ```
/// use stripline::{Gap, GapReason};
///
/// fn loss(gap: Option<&Gap>) -> String {
///     match gap {
///         None => "nothing is missing".into(),
///         Some(Gap { reason: GapReason::PeerRestart, .. }) => "one side was started again".into(),
///         Some(gap) => format!("{} packets from {} on", gap.packets, gap.first),
///     }
/// }
/// let gap = Gap { first: 7, packets: 2, samples: 512, reason: GapReason::Overflow };
/// assert_eq!(loss(Some(&gap)), "2 packets from 7 on");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The sequence number of the first missing packet.
    pub first: u64,
    /// The number of missing packets; 0 after a sender's restart, where the number is unknown.
    pub packets: u64,
    /// The number of missing samples; 0 if it is unknown. Each message counts as one sample.
    ///
    /// The number is unknown after a sender's restart, and if the stream has changed in between.
    /// `docs/guide.md` describes two rare cases of a restarted receiver.
    pub samples: u64,
    /// The cause of the gap.
    pub reason: GapReason,
}

impl Gap {
    /// Returns the sum of two gaps without a packet in between.
    pub(crate) fn and(self, later: Self) -> Self {
        Self {
            first: self.first,
            packets: self.packets.saturating_add(later.packets),
            samples: self.samples.saturating_add(later.samples),
            reason: later.reason,
        }
    }
}

/// The cause of a gap.
///
/// ```
/// let is_own_fault = |reason| reason == stripline::GapReason::Overflow;
/// assert!(!is_own_fault(stripline::GapReason::PeerRestart));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The receiver was slow, with a policy that drops packets.
    Overflow,
    /// The sender or the receiver was restarted.
    PeerRestart,
    /// The transport lost the packets.
    Transport,
    /// A [resequencing](crate::node::Subscriber::resequenced) port gave the packets up: they did
    /// not arrive within the port's time or window.
    Late,
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;

    use super::*;

    #[test]
    fn origins_and_numbers_do_not_mix() {
        let order = Order::new(7, (1 << 48) + 5);
        assert_eq!((order.origin(), order.number()), (7, 5));
        let header = Header { flags: Header::ORDERED, intended_ns: order.to_bits(), ..Header::zeroed() };
        assert_eq!(header.order(), Some(order));
        assert_eq!(Header { flags: 0, ..header }.order(), None);
        assert_eq!(order.over(2).number(), 5);
        assert_ne!(order.over(1).origin(), order.over(2).origin());
        assert_ne!(Order::new(1, 0).over(2), Order::new(2, 0).over(1));
    }
}
