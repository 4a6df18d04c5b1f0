//! A session over datagrams that may be lost, repeated or overtaken. This module does no I/O and
//! reads no clock: the two sides are functions of the arrivals and of the time that the caller
//! passes.
//!
//! The sender numbers its datagrams from 0, and keeps to a window, so that the datagrams in transit
//! fit the receiver's buffer. In addition to the datagrams there are two sockets that lose nothing.
//! On the first, the receiver acknowledges: 8 bytes, the number after the last datagram that it has
//! taken. On the second, the control socket, the receiver asks for missing datagrams. The sender
//! also announces there which datagrams it has sent, so that the receiver notices when the last one
//! is missing.
//!
//! There are two kinds of session:
//!
//! - **Repaired**: the sender keeps a copy of each datagram until it is acknowledged. When the
//!   receiver asks for a datagram, the copy is sent on the control socket. So no datagram is
//!   missing, and none is delivered twice.
//! - **Reported**: the sender keeps no copies, and answers each request with the report that the
//!   datagrams are lost. The receiver skips the frames that it has only in part. The numbers in the
//!   frames show the gap. A frame that must not be lost takes a number as well, but travels only
//!   over the control socket.
//!
//! Before the first datagram the sender sends probes, until the receiver has acknowledged one. The
//! acknowledgement of a probe has the highest bit set, and the probe's number in the low 32 bits.
//! The bits between them hold the bytes that the probe took of the receiver's buffer, or zero if
//! they were not measured.
//!
//! The window uses the kernel's count for each datagram (`charges.rs`). On one host the receiver
//! has measured this count. Otherwise a datagram counts twice the payload plus a constant, which
//! depends on the probe if the probe was measured.
//!
//! A session may have any number of members, which share the datagrams of a group
//! (`group_sender.rs`). Each member has two separate sockets. The member begins at a number that
//! the sender announces, with the token, on the control socket. The window follows the slowest
//! member that must miss nothing. The other members do not hold the window: datagrams that they
//! miss are lost to them. A frame that must not be lost travels to the group, and also on the
//! control sockets of the members that may miss it.
//!
//! A datagram holds whole frames, or a part of one frame. All integers are little-endian:
//!
//! ```text
//! offset bytes   datagram
//! 0      8       token of the session
//! 8      8       number
//! 16     4       data records that the sender had sent before
//! 20     2       1: begins a frame, 2: ends one; 4: a probe, without bytes
//! 22     2       zero
//! 24     ...     the bytes
//!
//! offset bytes   record of the control socket
//! 0      8       number
//! 8      1       by the sender: 1: data, 2: sent, 3: lost, 5: start; by the receiver: 4: ask
//! 9      1       of data: 1: begins a frame, 2: ends one
//! 10     2       zero
//! 12     4       of data and start: bytes that follow; of lost and ask: datagrams; of sent: zero
//! 16     ...     the bytes; of start: the token
//! ```

mod charges;
mod group_sender;
#[cfg(test)]
mod group_tests;
mod record;
mod session_receiver;
mod session_sender;
#[cfg(test)]
mod tests;

pub(crate) use charges::DatagramCharges;
pub(crate) use group_sender::{GroupSender, MemberTerms};
pub(crate) use record::{
    DATAGRAM_HEADER, DatagramHeader, RecordReader, SessionAcks, SessionProbe, SessionRecord, Span,
};
pub(crate) use session_receiver::{DatagramArrival, Due, SessionReceiver, Taken};
pub(crate) use session_sender::{SessionSender, payload_max};
