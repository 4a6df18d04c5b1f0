//! Stripline: low-loss links between radio components.
//!
//! A *waveform* is a set of *components* joined by *connections*. A component receives and sends packets of
//! samples through typed *ports* and never names a transport; which one carries a connection, and which rules
//! it keeps, is said at run time.
//!
//! The layers, top to bottom, each a folder that knows only those below it:
//!
//! | layer | folder | what it is |
//! | --- | --- | --- |
//! | waveform | [`waveform`] | the description file, checking, launching, supervision |
//! | component | [`component`] | what a component is, its ports and properties, and the `main` of one |
//! | node | [`node`] | publishers and subscribers, by topic without a waveform |
//! | call | [`call`] | clients and servers of operations with replies |
//! | link | [`link`] | sequence, streams, gaps, overflow, end of stream, statistics |
//! | transport | [`transport`] | `inproc`, `shm`, `uds`, `tcp` behind one trait |
//! | sys | private | the edge to the operating system |
//!
//! Below them all is the crate `stripline-ring`, the lock-free ring itself.

pub mod call;
pub mod component;
mod error;
#[doc(hidden)]
pub mod fail_point;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod introspect;
pub mod link;
pub mod node;
pub mod packet;
pub mod payload;
mod sys;
pub mod transport;
pub mod waveform;

pub use error::{Error, Result};
pub use node::{Input, Loan, Output, Packet, Received};
pub use packet::{Gap, GapReason, StreamInfo};
pub use payload::Sample;
