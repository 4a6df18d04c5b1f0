//! Byte streams, shared by the transports `uds` and `tcp`: after the handshake, frames one after
//! the other.
//!
//! ```text
//! | header (48, see `packet::Header`) | payload (`length`) | zeros up to a multiple of 16 | header | ...
//! ```
//!
//! A receiver sends nothing, unless the sender requests acknowledgements or the link keeps flow
//! control (`acks.rs`).
//!
//! The padding keeps every payload aligned in the receiver's buffer, where it is used in place.

mod accept_queue;
mod ack_wait;
mod acks;
mod flow_wait;
mod inlet;
mod inspect;
mod outlet;
mod partial_writer;
mod receiver;
mod transport;

#[cfg(any(fuzzing, test))]
pub(crate) use acks::AckReader;
#[cfg(test)]
pub(crate) use acks::record;
pub(crate) use inlet::StreamInlet;
pub(super) use transport::StreamTransport;

use outlet::StreamOutlet;

use crate::packet::HEADER_BYTES;

/// Returns a frame's bytes on the stream for a payload of that length.
pub(crate) fn padded(payload: usize) -> usize {
    (HEADER_BYTES + payload).next_multiple_of(16)
}

/// Returns the payload bytes of a frame with that `buffer`. The limit is the same as on a ring, so
/// that a waveform that runs over one transport runs over the others.
pub(crate) fn frame_max(buffer: u32) -> usize {
    stripline_ring::max_frame(buffer as usize)
}
