//! Byte streams, shared by all transports except the rings: after the handshake, frames follow one
//! after the other. Frames travel on the signalling socket (`uds`, `tcp`) or on the path of a
//! carrier.
//!
//! ```text
//! | header (48, see `packet::Header`) | payload (`length`) | zeros up to a multiple of 16 | header | ...
//! ```
//!
//! A receiver sends nothing, unless the sender requests acknowledgements or the link keeps flow
//! control (`signalling/acks.rs`).
//!
//! The padding keeps every payload aligned in the receiver's buffer, where it is used in place.

mod inlet;
mod inspect;
mod outlet;
mod partial_writer;
mod receiver;
mod transport;

pub(crate) use inlet::StreamInlet;
pub use transport::StreamTransport;

use crate::packet::HEADER_BYTES;

/// Returns the bytes that a frame with a payload of `payload` bytes takes on the stream.
pub fn padded(payload: usize) -> usize {
    (HEADER_BYTES + payload).next_multiple_of(16)
}

/// Returns the most payload bytes of a frame for the given `buffer`. The limit is the same as on a
/// ring, so that a waveform that runs over one transport runs over the others.
pub const fn frame_max(buffer: u32) -> usize {
    stripline_ring::max_frame(buffer as usize)
}
