//! `lossy`: UDP that loses, repeats and reorders datagrams by a seed, for tests of the session. If
//! the session repairs, one datagram in twenty is lost, one repeated, and one overtaken. Otherwise
//! nothing is lost, so that tests of policies can count the packets that a policy drops.
//!
//! `STRIPLINE_FAULTY_SEED` in the environment changes the seed.

use std::io;
use std::sync::{Arc, Mutex};

use super::Capabilities;
use super::carrier::{Carrier, PathRequest, PathSink, PathSource, Ticket};
use super::faulty::Faults;
use super::session::{DatagramSink, SessionSink, SessionTicket};
use super::stream::StreamTransport;
use super::udp::{UDP, Udp, UdpSink};
use crate::error::Result;
use crate::sys::doorbell::PollSet;
use crate::sys::mutex::lock;
use crate::sys::refusal::PeerRefusal;
use crate::sys::udp::UdpEnd;

/// The transport.
pub(super) static LOSSY: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "lossy",
        summary: "UDP that loses, repeats and reorders by a seed, for tests",
        ..UDP.capabilities
    },
    listen: |request| super::udp::listen("lossy", request),
    connect: UDP.connect,
    carrier: Some(&LossyUdp),
};

struct LossyUdp;

impl Carrier for LossyUdp {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        Udp.source(request)
    }

    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, PeerRefusal> {
        let (is_complete, options) = (ticket.is_complete, ticket.options.udp.unwrap_or_default());
        let (ticket, sockets) = SessionTicket::of_peer(ticket)?;
        let inner = UdpSink::connect(&ticket.address, &sockets[0], &options)?;
        let path: Box<dyn DatagramSink> = if is_complete || ticket.is_repaired {
            Box::new(LossySink { inner, faults: Faults::new(), overtaken: Mutex::default() })
        } else {
            Box::new(inner)
        };
        Ok(SessionSink::open(&ticket, sockets, path, UdpEnd::DATAGRAM_MAX, is_complete)?)
    }
}

struct LossySink {
    inner: UdpSink,
    faults: Faults,
    /// A datagram to be sent after the next one.
    overtaken: Mutex<Option<Vec<u8>>>,
}

impl DatagramSink for LossySink {
    fn send(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        let overtaken = lock(&self.overtaken).take();
        match self.faults.next() % 20 {
            0 => {}
            1 => {
                self.inner.send(header, payload)?;
                self.inner.send(header, payload)?;
            }
            2 => *lock(&self.overtaken) = Some([header, payload].concat()),
            _ => self.inner.send(header, payload)?,
        }
        match overtaken {
            Some(datagram) => self.inner.send(&datagram, &[]),
            None => Ok(()),
        }
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        self.inner.poll_room(poll_set);
    }
}
