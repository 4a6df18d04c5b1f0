//! `multicast`: UDP with a group for each sending port, for tests of the rules. A hash of the
//! port's address chooses the group's address from the range for one site (RFC 2365). Calls travel
//! as over `udp`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddrV4};

use super::Capabilities;
use super::carrier::{Carrier, PathRequest, Source, Ticket};
use super::stream::StreamTransport;
use super::udp::{CARRIER, UDP, UdpGroup};
use super::uds;
use crate::error::Result;

/// The transport.
pub(super) static MULTICAST: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "multicast",
        summary: "UDP with a group for each sending port, for tests",
        ..UDP.capabilities
    },
    listen: uds::listen,
    connect: UDP.connect,
    carrier: Some(Carrier { source, ..CARRIER }),
};

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    let Some(endpoint) = request.endpoint else { return (CARRIER.source)(request) };
    let mut hasher = DefaultHasher::new();
    endpoint.address.hash(&mut hasher);
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    // Below the ports that the system assigns.
    let port = 1024 + (u16::from_le_bytes([c, d]) & 0x3FFF);
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, a, b), port);
    UdpGroup { group, interface: "lo".parse().ok() }.source(request)
}
