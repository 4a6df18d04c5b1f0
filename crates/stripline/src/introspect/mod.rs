//! What the running processes of this user are doing with their ports, without a daemon: what `stripline ps` shows.
//!
//! Each process that has a port open also has, once, an abstract Unix socket whose name says user and process
//! (`stripline-ps-UID-PID-RANDOM`), served by one small thread. Whoever connects as the same user gets one JSON
//! document and is hung up on. Thread and name are gone with the
//! last port, or with the process, however it ended.
//!
//! The thread reads what is there for other reasons: a ring's shared pages, the counters of a connection, the kernel's
//! account of a socket. Ports do nothing for it per packet. What a transport does not know stays unknown.

mod client;
mod registry;
mod service;
mod types;
mod waits;

#[cfg(fuzzing)]
pub(crate) use client::parse;
pub use client::processes;
pub(crate) use registry::{Receiving, Sending, Shown, belong_to, show_receiving, show_sending};
pub use types::{Connection, Overview, Problem, Process, Reader, ReceivingPort, SendingPort};
pub use waits::{Chain, FromSide, ToSide, Waiting, Why};
