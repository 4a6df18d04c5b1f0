//! Flow control as a part of the link, for transports that have none of their own or whose own is not exact: credits, or
//! stop and resume between two watermarks. No I/O here: the two sides are functions of the messages that they hear.
//!
//! The receiver counts what waits in its port's queue; its sender must not overrun it.
//!
//! - **Credits** ([`Flow::Credit`]): the receiver says how many packets may be sent *in all*, which is as many as are done
//!   with and `high` more. So no more than `high` are ever under way or waiting. It says so anew when the sender's credit and
//!   what waits have come down to `low` together: a sender that ran out of credit goes on when `low` are left.
//! - **Stop and resume** ([`Flow::StopResume`]): the receiver says stop when `high` packets wait, and resume when `low` are
//!   left. What is under way when it says stop still comes: it takes room behind `high`, or a transport that holds it back.
//!
//! Nothing that is said is an increment: a grant is a total, and stops are numbered. So a message may be lost, come twice, or
//! come after a later one, as on a datagram transport. What was lost is said again when the sender asks, which it does as
//! long as it may not send ([`Sender::due`]). A sender that never asks, because nothing is lost on its transport, says so
//! ([`Channel::Ordered`]), and believes less.
//!
//! Both sides have an [`Incarnation`], which grows when they restart: what was meant for, or said by, the one before is not
//! heard any more.
//!
//! The model that walks every order of losses, repetitions and restarts is in `model/`.

mod message;
mod receiver;
mod sender;
mod watermarks;

#[cfg(test)]
mod model;

pub(crate) use message::{Body, Incarnation, MESSAGE_BYTES, Message};
pub(crate) use receiver::Receiver;
pub(crate) use sender::{Channel, Sender};
pub use watermarks::Flow;
pub(crate) use watermarks::Watermarks;
