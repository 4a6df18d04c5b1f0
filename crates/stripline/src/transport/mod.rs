//! Transports: one file (or folder) each, behind three traits (`seam.rs`) and a registry by name.
//!
//! A sending port owns one outlet for each transport that its connections use. A receiving port
//! owns one inlet for each connection. Frames are opaque here: the link layer wrote them.

mod accept;
#[cfg(test)]
mod ack_model;
mod build_rule;
#[cfg(feature = "test-transports")]
mod callback;
pub(crate) mod carrier;
#[cfg(feature = "corba")]
mod corba;
#[cfg(feature = "dds")]
mod dds;
pub(crate) mod duplex;
mod endpoint;
#[cfg(feature = "test-transports")]
mod faulty;
pub(crate) mod handshake;
#[cfg(feature = "iceoryx2")]
mod iceoryx2;
mod inproc;
mod interrupt;
mod left_paths;
#[cfg(feature = "test-transports")]
mod lossy;
mod mqueue;
#[cfg(feature = "test-transports")]
mod multicast;
mod parts;
mod peer_monitor;
#[cfg(feature = "test-transports")]
mod pipe;
#[cfg(any(feature = "zeromq", feature = "zenoh"))]
mod plain;
mod registry;
mod ring;
mod seam;
mod session;
mod shm;
pub(crate) mod signalling;
mod stop;
pub(crate) mod stream;
mod tcp;
#[cfg(test)]
#[cfg(any(feature = "zeromq", feature = "zenoh", feature = "dds", feature = "corba"))]
#[cfg_attr(
    not(all(feature = "zeromq", feature = "zenoh", feature = "dds")),
    allow(dead_code, reason = "each test uses a part of it")
)]
mod test_path;
#[cfg(any(feature = "zeromq", feature = "zenoh", feature = "dds"))]
#[cfg_attr(
    not(all(feature = "zeromq", feature = "zenoh", feature = "dds")),
    allow(dead_code, reason = "each transport uses a part of it")
)]
mod transit;
mod udp;
mod uds;
#[cfg(feature = "zenoh")]
mod zenoh;
#[cfg(feature = "zeromq")]
mod zeromq;

pub use endpoint::Endpoint;
pub(crate) use endpoint::random;
pub(crate) use interrupt::Interrupt;
pub(crate) use left_paths::{Departed, Departures, LeftPath, LeftPaths};
pub use registry::{AUTO, AbsentTransport, Capabilities, Reach, absent, all, check};
pub(crate) use registry::{find, of_topic};
pub(crate) use ring::{RingInlet, RingMemory};
pub(crate) use seam::{
    Admitted, AnyInlet, AnyOutlet, Attention, Awaited, BindRequest, ConnectRequest, Inlet, InletParts, Next,
    NextPacket, Outlet, OutletTraits, Parked, PortPosition, Prepared, QueueProbe, StartPosition, Transport,
};
pub(crate) use stop::{StopToken, Wait};
