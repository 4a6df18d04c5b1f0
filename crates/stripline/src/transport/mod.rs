//! Transports: one file (or folder) each, behind the trait `Transport`, the two traits of
//! `seam.rs`, and a registry by name.
//!
//! A sending port owns one outlet for each transport that its connections use. A receiving port
//! owns one inlet for each connection. Frames are opaque here: the link layer wrote them.

mod accept;
#[cfg(test)]
mod ack_model;
mod any;
mod build_rule;
mod capabilities;
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

pub(crate) use any::{AnyInlet, AnyOutlet, FormerPath};
pub use capabilities::{Capabilities, Reach};
pub use endpoint::Endpoint;
pub(crate) use endpoint::random;
pub(crate) use former_paths::{Departed, Departures, FormerPaths};
pub(crate) use interrupt::Interrupt;
pub use registry::{AUTO, AbsentTransport, absent, all, check};
pub(crate) use registry::{find, of_topic};
pub(crate) use ring::{RingInlet, RingMemory};
pub(crate) use seam::{
    Admitted, Attention, Awaited, BindRequest, ConnectRequest, Flush, Inlet, InletParts, Next, NextPacket,
    Outlet, OutletTraits, Parked, PortPosition, Prepared, QueueProbe, StartPosition,
};
pub(crate) use stop::{StopToken, Wait};

use crate::error::Result;

use duplex::{CallAcceptor, CallConnection, CallListener};

/// A kind of link.
pub(crate) trait Transport: Send + Sync {
    fn capabilities(&self) -> Capabilities;

    /// Opens the sending side of a port; receivers may connect from now on.
    fn bind(&self, request: BindRequest) -> Result<AnyOutlet>;

    /// Connects a receiving port; blocks for a few seconds at most.
    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<AnyInlet>;

    /// Opens the listener of a server of calls; clients may connect from now on.
    fn listen_calls(&self, request: BindRequest, acceptor: Box<dyn CallAcceptor>) -> Result<CallListener>;

    /// Connects to a server of calls; blocks for a few seconds at most. `bind` has the options of
    /// the direction to the server, and `request` the options of the direction back.
    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<CallConnection>;
}
