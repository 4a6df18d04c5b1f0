//! `udp`: datagrams over the loopback interface (RFC 768), one socket at each end of a connection.
//!
//! The receiver binds a port, and sends its address with its hello. A token in each datagram keeps
//! out what other programs send there.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::Capabilities;
use super::carrier::{Carrier, PathRequest, PathSink, PathSource, Ticket, WAIT_MAX};
use super::session::{DatagramSink, DatagramSource, GroupSink, SessionSink, SessionSource, SessionTicket};
use super::stream::StreamTransport;
use super::uds::{self, UDS};
use crate::error::{Error, Result};
use crate::sys::doorbell::PollSet;
use crate::sys::udp::{MulticastInterface, UdpEnd};
use crate::terms::{Interface, UdpOptions};

/// The transport.
pub(super) static UDP: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "udp",
        summary: "UDP over the loopback interface, repaired or reported",
        depth: "the receiver's socket buffer; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key, token in each datagram",
        ..StreamTransport::CAPABILITIES
    },
    listen: |request| uds::listen("udp", request),
    connect: UDS.connect,
    carrier: Some(&Udp),
};

/// The routers that a datagram to a group passes, at most: it stays on the network.
const TTL: u32 = 1;

pub(super) struct Udp;

/// A group, and the interface that it is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UdpGroup {
    pub group: SocketAddrV4,
    /// `None`: that of the system's route.
    pub interface: Option<Interface>,
}

impl UdpGroup {
    /// Returns that of a table; `None`: it has no group.
    fn of_options(options: &UdpOptions) -> Option<Self> {
        Some(Self { group: options.group?, interface: options.interface })
    }

    /// Parses the address of a ticket: `239.1.2.3:5000%lo`. `None`: it is none of a group.
    ///
    /// # Errors
    /// A description of its fault, for the peer.
    fn of_ticket(address: &str) -> Result<Option<Self>, String> {
        let Some((group, interface)) = address.split_once('%') else { return Ok(None) };
        let group: SocketAddrV4 = group.parse().map_err(|_| format!("`{address:.64}` is no group"))?;
        if !group.ip().is_multicast() || group.port() == 0 {
            return Err(format!("{group} is no group"));
        }
        let interface = if interface.is_empty() { None } else { Some(interface.parse()?) };
        Ok(Some(Self { group, interface }))
    }

    /// Returns the group that a sender may send to: its own, or one that stays on the host.
    ///
    /// # Errors
    /// Another group that would leave the host.
    fn allowed(self, own: &UdpOptions) -> Result<Self, String> {
        match Self::of_options(own) {
            Some(own) if own.group == self.group => Ok(own),
            _ if self.interface.is_some_and(Interface::is_loopback) => Ok(self),
            _ => Err(format!("{} is not the group of the sending port", self.group)),
        }
    }

    fn member(&self) -> io::Result<MulticastInterface> {
        let Some(interface) = self.interface else { return Ok(MulticastInterface::default()) };
        match (interface.address(), interface.name()) {
            (Some(IpAddr::V4(address)), _) => Ok(MulticastInterface { address, index: 0 }),
            (_, Some(name)) => MulticastInterface::named(name),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "a group has an address of IPv4")),
        }
    }

    /// Makes the receiving end of a member.
    pub(super) fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        let open = || {
            let options = request.options.udp.unwrap_or_default();
            let (path, buffer) = UdpSource::of(UdpEnd::join(self.group, self.member()?)?, &options)?;
            let (path, address) = (Box::new(path), self.to_string());
            SessionSource::new(path, address, buffer, UdpEnd::DATAGRAM_MAX, request.is_complete, true)
        };
        let (source, ticket) = open().map_err(|e| {
            let (connection, group) = (request.connection, self.group);
            match self.interface {
                Some(interface) => {
                    Error::system(format!("{connection}: cannot join group {group} on {interface}"), e)
                }
                None => {
                    Error::system(format!("{connection}: no route to group {group}; name an interface"), e)
                }
            }
        })?;
        Ok((Box::new(source), ticket))
    }

    /// Opens the sending end. Returns it with the most bytes of a datagram.
    ///
    /// # Errors
    /// A description of what is missing, for the peer.
    fn sink(&self, options: &UdpOptions) -> Result<(Box<dyn DatagramSink>, usize), String> {
        let open = || {
            let ttl = options.ttl.map_or(TTL, u32::from);
            let end = UdpEnd::to_group(self.group, self.member()?, ttl)?;
            end.set_pace(options.pace_mbps)?;
            let datagram_max = end.datagram_max()?;
            Ok((Box::new(UdpSink(end)) as _, datagram_max))
        };
        open().map_err(|e: io::Error| format!("no UDP path to the group {self}: {e}"))
    }
}

impl fmt::Display for UdpGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.group)?;
        self.interface.map_or(Ok(()), |interface| interface.fmt(f))
    }
}

impl Carrier for Udp {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        let options = request.options.udp.unwrap_or_default();
        if let Some(group) = UdpGroup::of_options(&options).filter(|_| request.endpoint.is_some()) {
            return group.source(request);
        }
        let failed =
            |e: io::Error| Error::system(format!("{}: cannot open a UDP port", request.connection), e);
        let (path, address, buffer) = UdpSource::bind(&options).map_err(failed)?;
        let address = address.to_string();
        let (source, ticket) = SessionSource::new(
            Box::new(path),
            address,
            buffer,
            UdpEnd::DATAGRAM_MAX,
            request.is_complete,
            false,
        )
        .map_err(failed)?;
        Ok((Box::new(source), ticket))
    }

    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, String> {
        let (is_complete, options) = (ticket.is_complete, ticket.options.udp.unwrap_or_default());
        let groups = ticket.groups.clone();
        let (ticket, sockets) = SessionTicket::of_peer(ticket)?;
        if let Some(group) = UdpGroup::of_ticket(&ticket.address)? {
            let groups = groups.ok_or("calls do not travel to a group")?;
            let group = group.allowed(&options)?;
            return Ok(GroupSink::open(&groups, &ticket, sockets, is_complete, || group.sink(&options))?);
        }
        let path = UdpSink::connect(&ticket.address)?;
        Ok(SessionSink::open(&ticket, sockets, Box::new(path), UdpEnd::DATAGRAM_MAX, is_complete)?)
    }
}

/// The receiving end.
pub(super) struct UdpSource(UdpEnd);

impl UdpSource {
    /// Opens one. Returns it, its address, and the size of its buffer by the kernel's count.
    ///
    /// # Errors
    /// A lack of descriptors or ports.
    pub(super) fn bind(options: &UdpOptions) -> io::Result<(Self, SocketAddr, u64)> {
        let (source, buffer) = Self::of(UdpEnd::bind_loopback()?, options)?;
        let address = source.0.address()?;
        Ok((source, address, buffer))
    }

    /// Returns that of an end, and the size of its buffer by the kernel's count.
    fn of(end: UdpEnd, options: &UdpOptions) -> io::Result<(Self, u64)> {
        let buffer = end.grow_receive_buffer(options.buffer)?;
        end.set_receive_timeout(WAIT_MAX)?;
        Ok((Self(end), buffer))
    }
}

impl DatagramSource for UdpSource {
    fn receive(&mut self, header: &mut [u8], payload: &mut [u8], blocks: bool) -> io::Result<usize> {
        self.0.receive(header, payload, blocks)
    }

    fn arrivals(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The sending end.
pub(super) struct UdpSink(UdpEnd);

impl UdpSink {
    /// Opens one to a receiver's address, which came in a ticket.
    ///
    /// # Errors
    /// A description of the address's fault, for the peer.
    pub(super) fn connect(address: &str) -> Result<Self, String> {
        let to: SocketAddr = address.parse().map_err(|_| format!("`{address:.64}` is no UDP address"))?;
        if !to.ip().is_loopback() {
            return Err(format!("{to} is not on the loopback interface"));
        }
        let open = || {
            let end = UdpEnd::bind_loopback()?;
            end.connect(to)?;
            Ok(Self(end))
        };
        open().map_err(|e: io::Error| format!("no UDP path to {to}: {e}"))
    }
}

impl DatagramSink for UdpSink {
    fn send(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        self.0.send(header, payload)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.writable(self.0.as_fd());
    }
}
