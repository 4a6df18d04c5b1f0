//! The link: the guarantees that every connection gives on every transport. Only this module
//! implements sequence numbers, streams, gap reports, end of stream, and statistics.

mod callback_work;
mod connection;
mod fragmentation;
mod frame_ref;
mod held_slots;
mod histogram;
mod incoming;
mod inspect;
mod move_slot;
mod null_outlet;
mod outgoing;
mod owned_packet;
pub(crate) mod policy;
mod port_builder;
mod port_events;
mod progress;
mod reassembly;
mod receipt;
mod reorder_buffer;
mod resequencer;
mod sampler;
pub(crate) mod stats;
mod tap;

pub(crate) use callback_work::{CallbackWork, run_callback_work};
pub(crate) use connection::{ConnectionOptions, LentPacket};
pub(crate) use frame_ref::{FrameMut, FrameRef, FrameStart};
pub(crate) use held_slots::{GivenPacket, HeldSlots, SlotInUse};
pub(crate) use histogram::Histogram;
pub(crate) use incoming::{ArrivedWhile, EndsWhen, Incoming, Polled};
pub(crate) use move_slot::{MoveSlot, PortEnd};
pub(crate) use outgoing::Outgoing;
pub(crate) use owned_packet::{OwnedPacket, PacketSource};
pub(crate) use port_builder::PortBuilder;
pub(crate) use port_events::{PortEvent, PortEvents};
pub(crate) use progress::{CaughtUp, Progress};
pub(crate) use reassembly::{Reassembler, Reassembly};
pub(crate) use receipt::Receipt;
pub(crate) use reorder_buffer::{Position, ReorderBuffer};
pub use sampler::Sampling;
pub use stats::{ConnectionReport, LatencyReport, RawLatencies};
pub(crate) use stats::{ConnectionStats, FullReport};
pub(crate) use tap::TapSlot;
