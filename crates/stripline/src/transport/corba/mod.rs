//! `corba`: one-way calls of omniORB to a servant for each connection.
//!
//! The receiver activates the servant, and sends its object key and the file of its process's
//! socket with its hello. Servants only enqueue. omniORB's threads may bring the calls in another
//! order, so each has a number. Both ends share a page
//! ([`TransitPage`](crate::sys::transit_page::TransitPage)). It bounds what is in transit, and what
//! the kernel has of that: a call never waits for a receiver that is stopped.

mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::carrier::{Carrier, PathRequest, PathSink, PathSource, Ticket};
use super::stream::StreamTransport;
use super::uds::{self, UDS};
use super::{Capabilities, random};
use crate::error::{Error, Result};
use crate::sys::corba::{self, NAMES, message_max, version};
use crate::sys::doorbell::Doorbell;
use crate::sys::socket_names::unique_suffix;
use crate::sys::transit_page::TransitPage;
use crate::terms::Watermarks;
use receive::CorbaSource;
use send::CorbaSink;

/// The transport.
pub(super) static CORBA: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "corba",
        summary: "one-way calls of omniORB; after a kill while it starts, the next start removes its socket",
        copies: "three",
        depth: "frames in transit; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key",
        library: Some(version),
        ..StreamTransport::CAPABILITIES
    },
    listen: |request| {
        NAMES.remove_dead();
        corba::check()?;
        uds::listen("corba", request)
    },
    connect: UDS.connect,
    carrier: Some(&CorbaObjects),
};

/// What the object key of a receiver begins with.
const PREFIX: &str = "stripline-path-";
/// Frames of packets in transit where the port's queue bounds its packets.
const FRAMES: u64 = 1000;
/// The most of them.
const FRAMES_MAX: u64 = 1 << 24;
/// Bytes of frames in transit in each direction of calls: about what a socket's buffer takes.
const BYTES_OF_CALLS: u64 = 1 << 18;
/// Bytes of a call, at most. It leaves the kernel's buffer room for another one.
const BYTES_MAX: u32 = 64 * 1024;
/// The least that a peer may ask for.
const BYTES_MIN: u32 = 4096;
/// Bytes that GIOP adds to a call, at most.
const GIOP_BYTES: u32 = 1024;
/// The number of the call that only shows that the path leads to its receiver.
const PROBE: u64 = u64::MAX;
/// A sender without room in the kernel goes on when it has no more than this there.
const LOW_CHARGE: u64 = 32 * 1024;

/// Returns what a call with so many bytes takes of the kernel's buffer, at most.
fn charge(bytes: usize) -> u64 {
    (bytes + bytes / 4 + 2048) as u64
}

struct CorbaObjects;

/// The ticket, beside the page, the sender's doorbell and the file of the socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CorbaTicket {
    /// The receiver's object key.
    object: String,
    /// In each call.
    key: u64,
    /// The most frames of packets that may be in transit.
    frames: u64,
    /// The most bytes of a call.
    bytes: u32,
    /// A call counts as one frame for so many bytes, at least; `None`: as its frames.
    unit: Option<NonZeroU32>,
}

impl CorbaTicket {
    /// Returns the most calls that an honest sender has in transit. Each packet may have a
    /// description, and the end comes last.
    fn calls_max(&self) -> u64 {
        2 * self.frames + 4
    }

    /// Returns the frames in transit at which a sender that waits goes on: the rule of
    /// [`Watermarks`].
    fn low(&self) -> u64 {
        let frames = u32::try_from(self.frames).unwrap_or(u32::MAX);
        Watermarks::of_depth(frames).low().into()
    }

    /// Parses what came from a peer.
    fn parse(text: &str) -> Result<Self, String> {
        let ticket: Self = serde_json::from_str(text)
            .map_err(|e| format!("the ticket for the data path does not parse: {e}"))?;
        let random = ticket.object.strip_prefix(PREFIX).unwrap_or_default();
        let is_object = !random.is_empty()
            && random.len() <= 40
            && random.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_object {
            return Err("the ticket for the data path names no object of a receiver".into());
        }
        if !(1..=FRAMES_MAX).contains(&ticket.frames) {
            return Err(format!("the ticket for the data path allows {} frames", ticket.frames));
        }
        if !(BYTES_MIN..=BYTES_MAX).contains(&ticket.bytes) {
            return Err(format!("the ticket for the data path has calls of {} bytes", ticket.bytes));
        }
        Ok(ticket)
    }
}

impl Carrier for CorbaObjects {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        let connection = request.connection;
        let named = |e: Error| Error::failed(format!("{connection}: {e}"));
        let frames = request.packets_max.map_or(FRAMES, u64::from).clamp(1, FRAMES_MAX);
        let unit = u32::try_from(BYTES_OF_CALLS.div_ceil(frames)).ok().and_then(NonZeroU32::new);
        let ticket = CorbaTicket {
            object: format!("{PREFIX}{}", unique_suffix()?),
            key: random()?,
            frames,
            unit: unit.filter(|_| request.is_of_calls),
            bytes: message_max().map_err(named)?.saturating_sub(GIOP_BYTES).clamp(BYTES_MIN, BYTES_MAX),
        };
        let (page, page_fd) = TransitPage::new()?;
        let [ringing, sleeping] = Doorbell::between()?;
        let doorbell_fd = sleeping
            .as_fd()
            .try_clone_to_owned()
            .map_err(|e| Error::system(format!("{connection}: cannot copy a descriptor"), e))?;
        let (source, socket) =
            CorbaSource::new(&ticket, page, ringing, request.is_of_calls).map_err(named)?;
        let address = serde_json::to_string(&ticket).map_err(Error::failed)?;
        let fds = vec![page_fd, doorbell_fd, socket];
        Ok((Box::new(source), Ticket { address, fds, ..Ticket::default() }))
    }

    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, String> {
        let parsed = CorbaTicket::parse(&ticket.address)?;
        let [page, doorbell, socket]: [OwnedFd; 3] =
            ticket.fds.try_into().map_err(|_| "a path of CORBA takes three descriptors".to_string())?;
        let peer = "the receiver";
        let page = TransitPage::from_peer(peer, page).map_err(|e| e.to_string())?;
        let doorbell = Doorbell::from_peer(peer, doorbell).map_err(|e| e.to_string())?;
        let sink = CorbaSink::connect(&parsed, socket, page, doorbell).map_err(|e| e.to_string())?;
        Ok(Arc::new(sink))
    }
}
