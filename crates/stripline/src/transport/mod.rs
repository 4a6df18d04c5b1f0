//! Transports: one file (or folder) each, behind three traits (`seam.rs`) and a registry by name.
//!
//! A sending port owns one outlet for each transport that its connections use. A receiving port
//! owns one inlet for each connection. Frames are opaque here: the link layer wrote them.

mod accept;
#[cfg(test)]
mod ack_model;
mod build_rule;
pub(crate) mod carrier;
pub(crate) mod duplex;
pub(crate) mod endpoint;
mod former_paths;
pub(crate) mod handshake;
mod inproc;
mod interrupt;
#[cfg(feature = "test-transports")]
mod lossy;
mod mqueue;
#[cfg(feature = "test-transports")]
mod multicast;
mod peer_monitor;
pub(crate) mod registry;
mod ring;
pub(crate) mod seam;
mod session;
mod session_parts;
mod shm;
pub(crate) mod signalling;
mod stop;
pub(crate) mod stream;
pub(crate) mod tcp;
#[cfg(any(test, feature = "test-transports"))]
pub(crate) mod test_path;
mod udp;
pub(crate) mod uds;

pub use endpoint::Endpoint;
pub(crate) use endpoint::random;
pub(crate) use former_paths::{Departed, Departures, FormerPath, FormerPaths};
pub(crate) use interrupt::Interrupt;
pub use registry::{AUTO, AbsentTransport, Capabilities, Reach, absent, all, check};
pub(crate) use registry::{find, of_topic};
pub(crate) use ring::{RingInlet, RingMemory};
pub(crate) use seam::{
    Admitted, AnyInlet, AnyOutlet, Attention, Awaited, BindRequest, ConnectRequest, Inlet, InletParts, Next,
    NextPacket, Outlet, OutletTraits, Parked, PortPosition, Prepared, QueueProbe, StartPosition, Transport,
};
pub(crate) use stop::{StopToken, Wait};
