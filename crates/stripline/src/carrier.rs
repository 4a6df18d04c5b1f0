//! Transports of other crates. Anything that moves bytes from one process to another can carry a
//! link.
//!
//! A carrier has a receiving end ([`PathSource`]), a sending end ([`PathSink`]), and the two
//! functions that make them ([`Carrier`]). The link keeps the contract: order, scopes, policies,
//! deaths, security. A [`StreamTransport`] makes a transport of a carrier, and [`register`] adds
//! the transport to the process.
//!
//! This carrier sends over a pair of sockets. The receiver makes the pair, and the sender gets the
//! other socket with the handshake:
//!
//! ```
//! use std::io::{self, Read, Write};
//! use std::os::fd::AsFd;
//! use std::os::unix::net::UnixStream;
//! use std::time::Duration;
//!
//! use stripline::carrier::{
//!     Capabilities, Carrier, Frames, PathRequest, PathSink, PathSource, PeerRefusal, PollSet, ReadRoom,
//!     ReadWait, Sink, Source, StreamTransport, Ticket, register,
//! };
//!
//! struct End(UnixStream);
//!
//! impl PathSink for End {
//!     fn write(&self, frames: &mut Frames<'_>, _longest: Duration) -> io::Result<usize> {
//!         (&self.0).write(frames)
//!     }
//!
//!     fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
//!         poll_set.writable(self.0.as_fd());
//!     }
//! }
//!
//! impl PathSource for End {
//!     fn read(&mut self, room: &mut ReadRoom<'_>, _wait: ReadWait) -> io::Result<usize> {
//!         self.0.read(room.bytes())
//!     }
//!
//!     fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
//!         poll_set.readable(self.0.as_fd());
//!         true
//!     }
//! }
//!
//! fn source(_request: &PathRequest<'_>) -> stripline::Result<(Source, Ticket)> {
//!     let failed = |e: io::Error| stripline::Error::system("cannot make a pair of sockets", e);
//!     let (own, other) = UnixStream::pair().map_err(failed)?;
//!     own.set_nonblocking(true).map_err(failed)?;
//!     Ok((Source::new(End(own)), Ticket::new(String::new(), vec![other.into()])))
//! }
//!
//! fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
//!     let [fd] = <[_; 1]>::try_from(ticket.fds).map_err(|_| "the ticket takes one descriptor")?;
//!     let socket = UnixStream::from(fd);
//!     socket.set_nonblocking(true).map_err(|e| e.to_string())?;
//!     Ok(Sink::new(End(socket)))
//! }
//!
//! static PAIR: StreamTransport = StreamTransport {
//!     capabilities: Capabilities { name: "pair", summary: "a pair of sockets", ..StreamTransport::CAPABILITIES },
//!     carrier: Some(Carrier { source, sink }),
//!     ..StreamTransport::LOCAL
//! };
//!
//! register(&[&PAIR], &[]);
//!
//! let options = stripline::terms::LinkOptions::default();
//! assert!(stripline::transport::check("pair", &options).is_ok());
//! ```
//!
//! The example breaks two rules. A write must never block, but the other process can make the
//! shared socket blocking. A child of a fork must not use the descriptors of the parent
//! ([`Descriptor`](fork::Descriptor)). `examples/carrier` keeps both rules, and runs the
//! conformance suite. The hidden modules of this page serve `stripline-middleware`; any release may
//! change them.

pub use crate::sys::doorbell::{Doorbell, PollSet};
pub use crate::sys::refusal::PeerRefusal;
pub use crate::terms::watermarks::Watermarks;
pub use crate::transport::carrier::{
    CallbackFeed, CallbackSource, Carrier, Frames, LastSentReader, Opening, PathRequest, PathSink,
    PathSource, ReadRoom, ReadWait, Sink, Source, Ticket, WAIT_MAX, violation, violation_in,
};
pub use crate::transport::endpoint::random;
pub use crate::transport::registry::register;
pub use crate::transport::seam::{BindRequest, ConnectRequest};
pub use crate::transport::stream::{StreamTransport, frame_max, padded};
pub use crate::transport::{AbsentTransport, Capabilities, Endpoint, Reach};

/// Buffers that start at a cache line.
#[doc(hidden)]
pub mod aligned_buffer {
    pub use crate::sys::aligned_buffer::{AlignedBuffer, CacheLine};
}

/// Descriptors that a child of a fork does not share with its parent.
pub mod fork {
    pub use crate::sys::fork::{Descriptor, open, open_one};
    #[doc(hidden)]
    pub use crate::sys::fork::{Local, OwnerProcess, PerProcess, SharedPages};
}

/// Barriers between a sleeper and the sender that wakes it.
#[doc(hidden)]
pub mod membarrier {
    pub use crate::sys::membarrier::*;
}

/// Memory that processes share.
#[doc(hidden)]
pub mod memory {
    pub use crate::sys::memory::{Mapping, PAGE, SharedMemory};
}

/// Locks that survive a panic.
#[doc(hidden)]
pub mod mutex {
    pub use crate::sys::mutex::lock;
}

/// Tests in a process of their own.
#[cfg(any(test, feature = "test-transports"))]
#[doc(hidden)]
pub mod own_process {
    pub use crate::sys::own_process::in_own_process;
}

/// The header of a frame, and the number types of samples.
#[doc(hidden)]
pub mod packet {
    pub use crate::packet::LastSent;
    pub use crate::packet::header::{HEADER_BYTES, Header, Kind};
    pub use crate::packet::scalar::{Number, Scalar};
}

/// Waits for many descriptors.
#[doc(hidden)]
pub mod poller {
    pub use crate::sys::poller::{Interest, Poller};
}

/// Facts about processes.
#[doc(hidden)]
pub mod process {
    pub use crate::sys::process::start_time;
}

/// Limits on what is in work at the same time.
#[doc(hidden)]
pub mod running_limit {
    pub use crate::sys::running_limit::RunningLimit;
}

/// Calls of a middleware's thread into a port.
#[doc(hidden)]
pub mod scoped_call {
    pub use crate::sys::scoped_call::CallSlot;
}

/// Addresses of this host.
#[doc(hidden)]
pub mod socket {
    pub use crate::sys::socket::own_address;
}

/// Unique names.
#[doc(hidden)]
pub mod socket_names {
    pub use crate::sys::socket_names::{is_suffix, unique_suffix};
}

/// The signalling socket between hosts.
#[doc(hidden)]
pub mod tcp {
    pub use crate::transport::tcp::{connect_or_unix, listen, own_address_for};
}

/// The signalling socket of one host.
#[doc(hidden)]
pub mod uds {
    pub use crate::transport::uds::{UDS, listen};
}

/// A path without a link, for the tests of carriers.
#[cfg(any(test, feature = "test-transports"))]
#[doc(hidden)]
pub mod test_path {
    pub use crate::transport::test_path::*;
}
