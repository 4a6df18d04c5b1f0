//! VITA 49.2 and DIFI: signal data and its description in datagrams.

#[allow(dead_code, reason = "the components follow")]
mod context;
#[allow(dead_code, reason = "the components follow")]
mod format;
#[allow(dead_code, reason = "the components follow")]
mod loss;
#[allow(dead_code, reason = "the components follow")]
mod packet;

pub use packet::{BadPacket, ClassId, Fraction, Indicators, Packet, PacketKind, Seconds, Stamp};
