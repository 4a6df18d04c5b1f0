//! `uds`: a Unix stream socket.

use super::stream::StreamTransport;
use super::{BindRequest, Capabilities, ConnectRequest, Endpoint};
use crate::error::Result;
use crate::sys::socket::{self, Listener, Socket};
use crate::sys::socket_place::SocketPlace;

/// The transport.
pub static UDS: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "uds",
        summary: "a Unix stream socket",
        groups: true,
        trust: "same user or a named group (kernel credentials), key",
        ..StreamTransport::CAPABILITIES
    },
    ..StreamTransport::LOCAL
};

/// Connects to the Unix socket of an endpoint.
pub fn connect(endpoint: &Endpoint, request: &ConnectRequest) -> Result<Socket> {
    Ok(Socket::Unix(socket::connect_address(&endpoint.address, request.options.group)?))
}

/// Opens a listener on a Unix socket, with a name that cannot be guessed.
pub fn listen(transport: &str, request: &BindRequest) -> Result<(Listener, Endpoint)> {
    let name = format!("stripline-{:016x}", super::random()?);
    let endpoint = Endpoint::new(transport, SocketPlace::current()?.address(&name))?;
    Ok((Listener::unix(&name, request.options.group)?, endpoint))
}
