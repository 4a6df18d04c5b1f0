//! `udp`: datagrams over the loopback interface (RFC 768), one socket at each end of a connection.
//!
//! The receiver binds a port, and sends its address with its hello. A token in each datagram keeps
//! out what other programs send there.

use std::fmt;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::Capabilities;
use super::carrier::{Carrier, PathRequest, PathSink, PathSource, Ticket, WAIT_MAX};
use super::session::{DatagramSink, DatagramSource, GroupSink, SessionSink, SessionSource, SessionTicket};
use super::stream::StreamTransport;
use super::uds::{self, UDS};
use crate::error::{Error, Result};
use crate::sys::doorbell::PollSet;
use crate::sys::udp::{Interface, UdpEnd};

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

/// The address of a group, as it travels in a ticket: `239.1.2.3:5000%lo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupAddress {
    pub group: SocketAddrV4,
    /// By its name or one of its addresses.
    pub interface: String,
}

impl GroupAddress {
    /// Parses one; `None`: it is none of a group.
    fn parse(text: &str) -> Option<Self> {
        let (group, interface) = text.split_once('%')?;
        let group = group.parse().ok().filter(|group: &SocketAddrV4| group.ip().is_multicast())?;
        Some(Self { group, interface: interface.into() })
    }

    /// Returns its interface.
    ///
    /// # Errors
    /// One that is not there, or that leaves the host.
    fn interface(&self) -> io::Result<Interface> {
        if !Interface::is_loopback(&self.interface) {
            let reason = format!("the interface {} is not the loopback interface", self.interface);
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        Interface::find(&self.interface)
    }
}

impl fmt::Display for GroupAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%{}", self.group, self.interface)
    }
}

impl Udp {
    /// Makes the receiving end for a member of a group.
    pub(super) fn group_source(
        request: &PathRequest<'_>,
        address: &GroupAddress,
    ) -> Result<(Box<dyn PathSource>, Ticket)> {
        let open = || {
            let end = UdpEnd::join(address.group, address.interface()?)?;
            let (path, buffer) = UdpSource::of(end)?;
            SessionSource::new(
                Box::new(path),
                address.to_string(),
                buffer,
                UdpEnd::DATAGRAM_MAX,
                request.is_complete,
                true,
            )
        };
        let (source, ticket) = open().map_err(|e| {
            Error::system(format!("{}: cannot join the group {address}", request.connection), e)
        })?;
        Ok((Box::new(source), ticket))
    }
}

impl Carrier for Udp {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        let failed =
            |e: io::Error| Error::system(format!("{}: cannot open a UDP port", request.connection), e);
        let (path, address, buffer) = UdpSource::bind().map_err(failed)?;
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
        let is_complete = ticket.is_complete;
        let groups = ticket.groups.clone();
        let (ticket, sockets) = SessionTicket::of_peer(ticket)?;
        if let Some(address) = GroupAddress::parse(&ticket.address) {
            let groups = groups.ok_or("calls do not travel to a group")?;
            let open = || UdpSink::to_group(&address);
            return Ok(GroupSink::open(&groups, &ticket, sockets, is_complete, open)?);
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
    pub(super) fn bind() -> io::Result<(Self, SocketAddr, u64)> {
        let (source, buffer) = Self::of(UdpEnd::bind_loopback()?)?;
        let address = source.0.address()?;
        Ok((source, address, buffer))
    }

    /// Returns that of an end, and the size of its buffer by the kernel's count.
    fn of(end: UdpEnd) -> io::Result<(Self, u64)> {
        let buffer = end.grow_receive_buffer()?;
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

impl UdpSink {
    /// Opens one to a group that came in a ticket. Returns it with the most bytes of a datagram.
    ///
    /// # Errors
    /// A description of the address's fault, for the peer.
    fn to_group(address: &GroupAddress) -> Result<(Box<dyn DatagramSink>, usize), String> {
        let open = || {
            let end = UdpEnd::to_group(address.group, address.interface()?, TTL)?;
            let datagram_max = end.datagram_max()?;
            Ok((Box::new(Self(end)) as _, datagram_max))
        };
        open().map_err(|e: io::Error| format!("no UDP path to the group {address}: {e}"))
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
