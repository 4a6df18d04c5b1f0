//! The seam below: the items by which another crate adds a transport over a middleware.
//!
//! This is not public API yet: any release may change or remove it.

pub use crate::terms::watermarks::Watermarks;
pub use crate::transport::carrier::{
    CallbackFeed, CallbackSource, Carrier, PathProbe, PathRequest, PathSink, PathSource, Ticket, WAIT_MAX,
    violation, violation_in,
};
pub use crate::transport::endpoint::random;
pub use crate::transport::registry::register;
pub use crate::transport::seam::{BindRequest, ConnectRequest};
pub use crate::transport::stream::{StreamTransport, frame_max, padded};
pub use crate::transport::{AbsentTransport, Capabilities, Endpoint, Reach};

/// Buffers that start at a cache line.
pub mod aligned_buffer {
    pub use crate::sys::aligned_buffer::{AlignedBuffer, CacheLine};
}

/// Doorbells, and sets of descriptors to wait for.
pub mod doorbell {
    pub use crate::sys::doorbell::{Doorbell, PollSet};
}

/// Protection of handles from forks.
pub mod fork {
    pub use crate::sys::fork::{Descriptor, Local, OwnerProcess, PerProcess, SharedPages};
}

/// Barriers between a sleeper and the sender that wakes it.
pub mod membarrier {
    pub use crate::sys::membarrier::*;
}

/// Memory that processes share.
pub mod memory {
    pub use crate::sys::memory::{Mapping, PAGE, SharedMemory};
}

/// Locks that survive a panic.
pub mod mutex {
    pub use crate::sys::mutex::lock;
}

/// Tests in a process of their own.
#[cfg(any(test, feature = "test-transports"))]
pub mod own_process {
    pub use crate::sys::own_process::in_own_process;
}

/// The header of a frame, and the number types of samples.
pub mod packet {
    pub use crate::packet::LastSent;
    pub use crate::packet::header::{HEADER_BYTES, Header, Kind};
    pub use crate::packet::scalar::{Number, Scalar};
}

/// Waits for many descriptors.
pub mod poller {
    pub use crate::sys::poller::{Interest, Poller};
}

/// Facts about processes.
pub mod process {
    pub use crate::sys::process::start_time;
}

/// Refusals of a peer.
pub mod refusal {
    pub use crate::sys::refusal::PeerRefusal;
}

/// Limits on what is in work at the same time.
pub mod running_limit {
    pub use crate::sys::running_limit::RunningLimit;
}

/// Calls of a middleware's thread into a port.
pub mod scoped_call {
    pub use crate::sys::scoped_call::CallSlot;
}

/// Addresses of this host.
pub mod socket {
    pub use crate::sys::socket::own_address;
}

/// Unique names.
pub mod socket_names {
    pub use crate::sys::socket_names::{is_suffix, unique_suffix};
}

/// The signalling socket between hosts.
pub mod tcp {
    pub use crate::transport::tcp::{connect_or_unix, listen, own_address_for};
}

/// The signalling socket of one host.
pub mod uds {
    pub use crate::transport::uds::{UDS, listen};
}

/// A path without a link, for the tests of carriers.
#[cfg(any(test, feature = "test-transports"))]
pub mod test_path {
    pub use crate::transport::test_path::*;
}
