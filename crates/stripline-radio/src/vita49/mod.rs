//! VITA 49.2 and DIFI: signal data and its description in datagrams.

mod address;
mod batch;
mod context;
mod description;
mod format;
mod intake;
mod loss;
mod packet;
mod packing;
mod sink;
mod source;

pub use packet::{BadPacket, ClassId, Fraction, Indicators, Packet, PacketKind, Seconds, Stamp};
pub use sink::Vita49Sink;
pub use source::Vita49Source;

use stripline::component::Registry;

/// Adds the components of this module.
pub(crate) fn add(registry: Registry) -> Registry {
    registry.with::<Vita49Source>().with::<Vita49Sink>()
}
