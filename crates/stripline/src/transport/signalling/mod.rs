//! The signalling socket of a connection, which stays open until the connection ends. On it a
//! receiver is accepted, acknowledges packets, grants credits and sends a goodbye. The kernel
//! reports the receiver's death there. Frames travel on the same socket (`uds`, `tcp`), or on the
//! data path of a carrier.

mod accept_queue;
mod ack_wait;
mod acks;
mod flow_wait;
mod remote_receiver;

pub(super) use accept_queue::{AcceptQueue, ReceiverFactory, SignallingAcceptor};
pub(super) use ack_wait::wait_acks;
pub(crate) use acks::AckReader;
#[cfg(test)]
pub(crate) use acks::record;
pub(super) use acks::{SocketAckSender, say_goodbye};
pub(super) use flow_wait::wait_for_permission;
pub(super) use remote_receiver::{NOTHING_YET, ReceiverProgress, RemoteReceiver, remove_dead};
