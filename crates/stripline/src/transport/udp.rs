//! `udp`: datagrams over the loopback interface (RFC 768), one socket at each end of a connection.
//!
//! The receiver binds a port, and sends its address with its hello. A token in each datagram keeps
//! out what other programs send there.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::Capabilities;
use super::carrier::{Carrier, PathRequest, PathSink, PathSource, Ticket, WAIT_MAX};
use super::session::{DatagramSink, DatagramSource, SessionSink, SessionSource, SessionTicket};
use super::stream::StreamTransport;
use super::uds::{self, UDS};
use crate::error::{Error, Result};
use crate::sys::doorbell::PollSet;
use crate::sys::udp::UdpEnd;

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

pub(super) struct Udp;

impl Carrier for Udp {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        let failed =
            |e: io::Error| Error::system(format!("{}: cannot open a UDP port", request.connection), e);
        let (path, address, buffer) = UdpSource::bind().map_err(failed)?;
        let address = address.to_string();
        let (source, ticket) =
            SessionSource::new(Box::new(path), address, buffer, UdpEnd::DATAGRAM_MAX, request.is_complete)
                .map_err(failed)?;
        Ok((Box::new(source), ticket))
    }

    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, String> {
        let is_complete = ticket.is_complete;
        let (ticket, sockets) = SessionTicket::of_peer(ticket)?;
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
        let end = UdpEnd::bind_loopback()?;
        let buffer = end.grow_receive_buffer()?;
        end.set_receive_timeout(WAIT_MAX)?;
        let address = end.address()?;
        Ok((Self(end), address, buffer))
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
