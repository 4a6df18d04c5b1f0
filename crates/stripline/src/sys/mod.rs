//! The edge to the operating system: memory, sockets, sleeping, clocks, processes. Nearly all of this crate's
//! `unsafe` is here.

pub(crate) mod clock;
pub(crate) mod doorbell;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod socket;
