//! The addresses of both components, and their sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use stripline::component::{InvalidProperties, Properties, PropertySpec, Value};
use stripline::{Error, Result};

/// The wanted size of the kernel's queue in bytes. The system may allow less.
const QUEUE_BYTES: usize = 8 << 20;
/// The longest wait of a receive: the time to a stop.
const RECEIVE_TIME: Duration = Duration::from_millis(50);
/// The interface that no datagram leaves the host by.
const LOOPBACK: &str = "lo";

/// Describes the properties `address`, `interface` and `insecure`.
pub(super) fn properties(address: &str) -> [PropertySpec; 3] {
    [
        PropertySpec::text("address", "", address).required().example(Value::Text("127.0.0.1:4991".into())),
        PropertySpec::text(
            "interface",
            "",
            "interface for a multicast group, as eth0; empty: the system's choice",
        ),
        PropertySpec::boolean(
            "insecure",
            false,
            "whether to leave this host, without authentication or encryption",
        ),
    ]
}

/// A checked address of IPv4 or IPv6.
#[derive(Clone, Debug)]
pub(super) struct Address {
    at: SocketAddr,
    /// The name of the interface; empty: none.
    interface: String,
}

impl Address {
    /// Checks the properties.
    pub fn new(properties: &Properties) -> Result<Self> {
        let (text, interface) = (properties.text("address"), properties.text("interface"));
        let refused = |property: &str, problem: &str, remedy: &str| {
            let invalid = InvalidProperties::new(format!("`{}` {problem}", properties.text(property)));
            Error::from(invalid.property(property).remedy(remedy))
        };
        let at: Option<SocketAddr> = text.parse().ok();
        let Some(at) = at.filter(|at| at.port() > 0) else {
            let remedy = "write it as 127.0.0.1:4991, 239.9.9.9:4991 or [ff15::99]:4991";
            return Err(refused("address", "is no IP address with a port", remedy));
        };
        if !interface.is_empty() && !at.ip().is_multicast() {
            return Err(refused("interface", "is only for a multicast group", "leave it out"));
        }
        if interface.len() > 15 || interface.contains(|letter: char| letter.is_control() || letter == '/') {
            return Err(refused(
                "interface",
                "is no name of an interface",
                "use a name that `ip link` prints",
            ));
        }
        let stays = at.ip().is_loopback() || interface == LOOPBACK;
        if !stays && !properties.boolean("insecure") {
            let remedy = "use 127.0.0.1, or set `insecure` to true";
            let problem = "can leave this host, without authentication or encryption";
            return Err(refused("address", problem, remedy));
        }
        Ok(Self { at, interface: interface.into() })
    }

    /// Returns a socket that receives at the address, also as a member of a group. A receive waits
    /// for a short time.
    ///
    /// # Errors
    /// The system refuses. The error names the address.
    pub fn receiver(&self) -> Result<UdpSocket> {
        self.bound().map_err(|error| self.failed("receive at", &error))
    }

    fn bound(&self) -> io::Result<UdpSocket> {
        let family = if self.at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        if self.at.ip().is_multicast() {
            // Several programs of a host may be members of one group.
            sockopt::set_socket_reuseaddr(&socket, true)?;
        }
        let index = self.index(&socket)?;
        bind(&socket, &self.scoped(index))?;
        match self.at.ip() {
            IpAddr::V4(group) if group.is_multicast() => {
                sockopt::set_ip_add_membership_with_ifindex(&socket, &group, &Ipv4Addr::UNSPECIFIED, index)?;
            }
            IpAddr::V6(group) if group.is_multicast() => {
                sockopt::set_ipv6_add_membership(&socket, &group, index)?;
            }
            _ => {}
        }
        sockopt::set_socket_recv_buffer_size(&socket, QUEUE_BYTES)?;
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(RECEIVE_TIME))?;
        Ok(socket)
    }

    /// Returns a socket that sends to the address. `hops` is the reach of datagrams to a group.
    ///
    /// # Errors
    /// The system refuses. The error names the address.
    pub fn sender(&self, hops: u32) -> Result<UdpSocket> {
        self.connected(hops).map_err(|error| self.failed("send to", &error))
    }

    fn connected(&self, hops: u32) -> io::Result<UdpSocket> {
        let any: IpAddr =
            if self.at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        let index = self.index(&socket)?;
        match self.at.ip() {
            IpAddr::V4(group) if group.is_multicast() => {
                sockopt::set_ip_multicast_ttl(&socket, hops)?;
                if index > 0 {
                    let any = Ipv4Addr::UNSPECIFIED;
                    sockopt::set_ip_multicast_if_with_ifindex(&socket, &any, &any, index)?;
                }
            }
            IpAddr::V6(group) if group.is_multicast() => {
                sockopt::set_ipv6_multicast_hops(&socket, hops)?;
                sockopt::set_ipv6_multicast_if(&socket, index)?;
            }
            _ => {}
        }
        socket.connect(self.scoped(index))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Returns the address on an interface, which a group of the local link needs.
    fn scoped(&self, index: u32) -> SocketAddr {
        match self.at {
            SocketAddr::V6(at) if index > 0 => SocketAddrV6::new(*at.ip(), at.port(), 0, index).into(),
            at => at,
        }
    }

    /// Returns the number of the interface; 0: none is named.
    fn index(&self, socket: impl std::os::fd::AsFd) -> io::Result<u32> {
        match self.interface.as_str() {
            "" => Ok(0),
            name => Ok(name_to_index(socket, name)?),
        }
    }

    /// Returns the error of the system at this address.
    pub fn failed(&self, doing: &str, error: &io::Error) -> Error {
        let port = self.at.port();
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("; take another port, or end the program that `ss -lunp 'sport = {port}'` shows")
            }
            _ if self.at.ip().is_multicast() => "; name an `interface` that `ip link` prints".into(),
            _ => String::new(),
        };
        Error::failed(format!("cannot {doing} {self}: {error}{remedy}"))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.interface.as_str() {
            "" => write!(f, "udp://{}", self.at),
            name => write!(f, "udp://{}%{name}", self.at),
        }
    }
}
