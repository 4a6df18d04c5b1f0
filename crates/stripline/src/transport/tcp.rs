//! `tcp`: a TCP connection, over the loopback interface unless `insecure` is set.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::carrier::PathRequest;
use super::stream::StreamTransport;
use super::uds;
use super::{Capabilities, ConnectRequest, Endpoint, Reach};
use crate::error::{Error, Result};
use crate::sys::socket::{self, Listener, Socket};

/// The transport.
pub static TCP: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "tcp",
        summary: "TCP over the loopback interface; to other hosts with `insecure`",
        reach: Reach::Network,
        trust: "loopback only unless `insecure`; key on both sides",
        ..StreamTransport::CAPABILITIES
    },
    listen: |name, request| {
        let tcp = request.options.transport_options.tcp.unwrap_or_default();
        tcp.check().map_err(|fault| Error::Configuration(format!("{}: {fault}", request.port)))?;
        listen(name, tcp.bind.unwrap_or(Ipv4Addr::LOCALHOST.into()))
    },
    connect: |endpoint, request| {
        connect(endpoint, request.options.transport_options.tcp.is_some_and(|tcp| tcp.insecure))
    },
    carrier: None,
};

/// Opens a listener on an address of this host.
pub fn listen(transport: &str, address: IpAddr) -> Result<(Listener, Endpoint)> {
    let (listener, address) = Listener::tcp(address)?;
    Ok((listener, Endpoint::new(transport, address.to_string())?))
}

/// Connects to an endpoint, on another host only if the receiver has `insecure`.
pub fn connect(endpoint: &Endpoint, is_insecure: bool) -> Result<Socket> {
    let failed = |e: io::Error| Error::system(format!("cannot connect to {endpoint}{}", remedy(e.kind())), e);
    let address: SocketAddr = endpoint
        .address
        .parse()
        .map_err(|_| Error::misbehaved(endpoint, "offers an address that is not a TCP address"))?;
    check_reach(endpoint, &address, is_insecure)?;
    socket::connect_tcp(&address).map_err(failed)
}

/// Connects to an endpoint: by TCP if it has a TCP address, otherwise by a Unix socket.
pub fn connect_or_unix(endpoint: &Endpoint, request: &ConnectRequest, is_insecure: bool) -> Result<Socket> {
    match endpoint.address.parse::<SocketAddr>() {
        Ok(_) => connect(endpoint, is_insecure),
        Err(_) => uds::connect(endpoint, request),
    }
}

/// Returns the address of this host at which the sender of a path reaches it by TCP; `None`: the
/// sender has a Unix socket.
pub fn own_address_for(request: &PathRequest<'_>, is_insecure: bool) -> Result<Option<IpAddr>> {
    let Some(endpoint) = request.endpoint else { return Ok(None) };
    let Ok(sender) = endpoint.address.parse() else { return Ok(None) };
    check_reach(endpoint, &sender, is_insecure)?;
    socket::own_address(sender).map(Some)
}

/// Refuses an address of another host, unless the receiver has `insecure`.
pub fn check_reach(endpoint: &Endpoint, address: &SocketAddr, is_insecure: bool) -> Result<()> {
    if is_insecure || address.ip().is_loopback() {
        return Ok(());
    }
    let name = &endpoint.transport;
    Err(Error::Unsupported {
        transport: name.clone(),
        rule: format!("a link to {address}, which may leave the host unauthenticated and unencrypted"),
        alternatives: format!(
            "write insecure = true in the table `{name}` of the receiver, if that is meant"
        ),
    })
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
