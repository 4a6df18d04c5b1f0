//! `uds`: a Unix stream socket with an abstract name.

use super::stream::StreamTransport;
use super::{BindRequest, Capabilities, Endpoint};
use crate::error::Result;
use crate::sys::socket::{self, Listener, Socket};

/// The transport.
pub(super) static UDS: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "uds",
        summary: "a Unix stream socket",
        groups: true,
        trust: "same user or a named group (kernel credentials), key",
        ..StreamTransport::CAPABILITIES
    },
    listen: |request| listen("uds", request),
    connect: |endpoint, request| {
        Ok(Socket::Unix(socket::connect_unix(&endpoint.address, request.options.group)?))
    },
};

/// Opens a listener on an abstract Unix socket, with a name that cannot be guessed.
pub(super) fn listen(transport: &str, request: &BindRequest) -> Result<(Listener, Endpoint)> {
    let endpoint = Endpoint::new(transport, format!("stripline-{:016x}", super::random()?))?;
    Ok((Listener::unix(&endpoint.address, request.options.group)?, endpoint))
}
