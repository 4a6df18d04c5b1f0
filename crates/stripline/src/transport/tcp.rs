//! `tcp`: a TCP connection over the loopback interface.

use std::io;
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
    carrier: None,
};

const CONNECT_TIME: Duration = Duration::from_secs(5);

fn connect(endpoint: &Endpoint) -> Result<Socket> {
    let failed = |e: io::Error| Error::system(format!("cannot connect to {endpoint}{}", remedy(e.kind())), e);
    let address: SocketAddr = endpoint
        .address
        .parse()
        .map_err(|_| Error::failed(format!("`{}` is no TCP address", endpoint.address)))?;
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIME).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(Socket::from(stream))
}

/// Returns the remedy for an error of the network; empty for any other.
fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        // A new network namespace has a loopback interface that is down.
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable => {
            " (is the loopback interface up? In a network namespace of its own: `ip link set lo up`; or use \
             transport shm or uds)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_network_has_a_remedy() {
        assert!(remedy(io::ErrorKind::NetworkUnreachable).contains("ip link set lo up"));
        assert_eq!(remedy(io::ErrorKind::ConnectionRefused), "");
    }
}
