//! Flow control in the link, for transports without flow control, or without an exact one. The link
//! uses credits, or stop and resume between two watermarks. This module does no I/O: the two sides
//! are functions of the messages that they receive.
//!
//! The receiver counts the packets in its port's queue. The sender must not overrun the queue.
//!
//! - **Credits** ([`Flow::Credit`](crate::terms::Flow::Credit)): the receiver grants a number of
//!   packets *in all*: the packets already taken, plus `high`. So at most `high` packets are in
//!   transit or queued. The receiver sends a new grant when unused credit and queued packets
//!   together have fallen to `low`. A sender without credit resumes when `low` packets are left.
//! - **Stop and resume** ([`Flow::StopResume`](crate::terms::Flow::StopResume)): the receiver sends stop when `high` packets are
//!   queued, and resume when `low` are left. Packets in transit at the stop still arrive. Those
//!   packets need room above `high`, or a transport that holds them back.
//!
//! No message is an increment: a grant is a total, and stops are numbered. So a message may be
//! lost, repeated or overtaken, as on a datagram transport. A lost message is sent again when the
//! sender asks, which it does as long as it is stalled ([`Sender::next_probe`]). Over a transport
//! that loses nothing the sender never asks ([`ChannelKind::Ordered`]). The sender then checks more
//! strictly.
//!
//! Both sides have an [`Incarnation`], which grows when they restart. A message for or from an
//! earlier incarnation is ignored.
//!
//! The model in `model.rs` explores every order of losses, repetitions and restarts.

pub(crate) mod ack;
mod message;
mod receiver;
mod sender;
pub(crate) mod session;

#[cfg(test)]
mod model;

pub(crate) use ack::{Ack, AckSender, AckState, AckWait};
pub(crate) use message::{Body, FlowMessage, Incarnation, MESSAGE_BYTES};
pub(crate) use receiver::Receiver;
pub(crate) use sender::{ChannelKind, Sender};
