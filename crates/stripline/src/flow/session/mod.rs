//! A session over datagrams that may be lost, repeated or overtaken. No I/O here, and no clock: the
//! two sides are functions of what arrives and of the time that the caller names.
//!
//! The sender numbers its datagrams from 0 and keeps to a window, so that what is in transit fits
//! the receiver's buffer. Beside the datagrams there are two sockets that lose nothing. On one the
//! receiver acknowledges: 8 bytes, the number after the last datagram that it has taken. On the
//! other, the control socket, the receiver asks for what is missing. There the sender also names
//! the datagrams it has sent, so that the last one is missed, too.
//!
//! A session is of one of two kinds:
//!
//! - **Repaired**: the sender keeps a copy of each datagram until it is acknowledged. What is asked
//!   for is sent again on the control socket. So nothing is missing, and nothing comes twice.
//! - **Reported**: the sender keeps no copies, and answers that what is asked for is lost. The
//!   receiver skips the frames that it has in part. The numbers in the frames show the gap. A frame
//!   that must not be lost takes its number, and goes over the control socket alone.
//!
//! Before the first datagram the sender sends probes, until the receiver has acknowledged one. That
//! has the highest bit set, and the probe's number in the low 32 bits. Between them is what the
//! probe took of the receiver's buffer, or zero if that was not measured.
//!
//! The window counts what the kernel counts for each datagram (`charges.rs`). On one host the
//! receiver has measured that. Otherwise it is twice the bytes, and at least what a probe takes.
//!
//! A session may have any number of members, which share the datagrams of a group
//! (`group_sender.rs`). Each has two sockets of its own, and begins at a number that the sender
//! names on the control socket, with the token. The window is that of the slowest member that must
//! miss nothing. The others do not hold it: what they miss is lost to them. A frame that must not
//! be lost travels to the group, and on the control sockets of the members that may miss it.
//!
//! A datagram holds whole frames, or a part of one. All integers are little-endian:
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
