//! Items for benchmarks, torture and fuzzers, beside the transports and components.
//!
//! This module is not public API: any release may change or remove it.

#[cfg(feature = "corba")]
pub use crate::corba::orb::socket_path as corba_socket_path;
#[cfg(feature = "dds")]
pub use crate::dds::ends::DdsPlace;
pub use crate::wire::bulkio::{BulkioSri, BulkioTime, BulkioType, BulkioValue};
pub use crate::wire::dds::{DdsSampleInfo, DdsSampleMessage, DdsSampleType, FramesSample};
#[cfg(feature = "zenoh")]
pub use crate::zenoh::session::{open_router as open_zenoh_router, settings as zenoh_settings};

/// Reports that this program has no zenoh.
///
/// # Errors
/// Always.
#[cfg(not(feature = "zenoh"))]
pub fn open_zenoh_router(_listen: std::net::SocketAddr) -> Result<(), String> {
    Err("this program has no zenoh".into())
}

/// A function that receives a message of a flowgraph; `None`: no message arrives.
pub type FlowgraphReceiver = Box<dyn Fn() -> Option<Vec<u8>>>;

/// Opens the socket of a flowgraph for a test of `gr-zeromq-sink`, and returns the address; `None`:
/// this program has no ZeroMQ, or ZeroMQ has no socket.
#[cfg(feature = "zeromq")]
pub fn flowgraph_socket() -> Option<(String, FlowgraphReceiver)> {
    let socket = zmq::Context::new().socket(zmq::PULL).ok()?;
    socket.bind("tcp://127.0.0.1:*").ok()?;
    socket.set_rcvtimeo(10_000).ok()?;
    let address = socket.get_last_endpoint().ok()?.ok()?;
    Some((address, Box::new(move || socket.recv_bytes(0).ok())))
}

/// Returns `None`: this program has no ZeroMQ.
#[cfg(not(feature = "zeromq"))]
pub fn flowgraph_socket() -> Option<(String, FlowgraphReceiver)> {
    None
}
