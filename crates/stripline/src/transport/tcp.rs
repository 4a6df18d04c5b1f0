//! `tcp`: a TCP connection over the loopback interface.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::stream::StreamTransport;
use super::{Capabilities, Endpoint};
use crate::error::{Error, Result};
use crate::sys::socket::{Listener, Socket};

/// The transport.
pub(super) static TCP: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "tcp",
        summary: "TCP over the loopback interface",
        trust: "loopback only, key on both sides",
        ..StreamTransport::CAPABILITIES
    },
    listen: |_| {
        let (listener, address) = Listener::tcp_loopback()?;
        Ok((listener, Endpoint::new("tcp", address.to_string())?))
    },
    connect: |endpoint, _| connect(endpoint),
};

const CONNECT_TIME: Duration = Duration::from_secs(5);

fn connect(endpoint: &Endpoint) -> Result<Socket> {
    let failed = |e| Error::system(format!("cannot connect to {endpoint}"), e);
    let address: SocketAddr = endpoint
        .address
        .parse()
        .map_err(|_| Error::failed(format!("`{}` is no TCP address", endpoint.address)))?;
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIME).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(Socket::from(stream))
}
