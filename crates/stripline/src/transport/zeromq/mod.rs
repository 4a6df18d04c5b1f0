//! `zeromq`: sockets of ZeroMQ, a PUSH and a PULL for each connection.
//!
//! The receiver binds an abstract name, and sends it with its hello. ZeroMQ's own queues have no
//! bound that a packet's `depth` could be, and what they hold dies with the sender. So both ends
//! share a page ([`TransitPage`](crate::sys::transit_page::TransitPage)). It bounds what is in
//! transit, and names what a killed sender had sent.

mod pull;
mod push;
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
use crate::sys::doorbell::Doorbell;
use crate::sys::socket_names::unique_suffix;
use crate::sys::transit_page::TransitPage;
use crate::sys::zeromq::version;
use pull::ZeromqSource;
use push::ZeromqSink;

/// The transport.
pub(super) static ZEROMQ: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "zeromq",
        summary: "sockets of ZeroMQ, PUSH to PULL; what a killed sender's library held is lost, and reported",
        copies: "four",
        depth: "frames in transit; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key",
        library: Some(version),
        ..StreamTransport::CAPABILITIES
    },
    listen: |request| uds::listen("zeromq", request),
    connect: UDS.connect,
    carrier: Some(&ZeromqSockets),
};

/// The name of a receiver's socket, before its process and a random number.
const PREFIX: &str = "stripline-zeromq-";
/// Frames of packets in transit where the port's queue bounds its packets: ZeroMQ's own default.
const FRAMES: u64 = 1000;
/// The most of them.
const FRAMES_MAX: u64 = 1 << 24;
/// Bytes of frames in transit in each direction of calls: about what a socket's buffer takes.
const BYTES_OF_CALLS: u64 = 1 << 18;
/// Bytes before the frames of a message: the key, and the number of frames up to here.
const PREFIX_BYTES: usize = 16;

/// The number of a message without frames, the last one of a sender.
const LAST: u64 = u64::MAX;

struct ZeromqSockets;

/// The ticket, beside the page and the sender's doorbell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZeromqTicket {
    /// The name of the receiver's socket.
    name: String,
    /// In each message.
    key: u64,
    /// The most that may be in transit.
    frames: u64,
    /// A larger frame counts as several, one for so many bytes; `None`: as one.
    unit: Option<NonZeroU32>,
}

impl ZeromqTicket {
    fn address(&self) -> String {
        format!("ipc://@{}", self.name)
    }

    /// Returns the most messages that an honest sender has in one of ZeroMQ's queues: each packet
    /// may have a description. What was read counts until half of the bound was read.
    fn messages_max(&self) -> i32 {
        i32::try_from(4 * self.frames + 8).unwrap_or(i32::MAX)
    }

    /// Parses what came from a peer.
    fn parse(text: &str) -> Result<Self, String> {
        let ticket: Self = serde_json::from_str(text)
            .map_err(|e| format!("the ticket for the data path does not parse: {e}"))?;
        let random = ticket.name.strip_prefix(PREFIX).unwrap_or_default();
        let is_name = !random.is_empty()
            && random.len() <= 40
            && random.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_name {
            return Err("the ticket for the data path names no socket of a receiver".into());
        }
        if !(1..=FRAMES_MAX).contains(&ticket.frames) {
            return Err(format!("the ticket for the data path allows {} frames", ticket.frames));
        }
        Ok(ticket)
    }
}

impl Carrier for ZeromqSockets {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        let frames = request.packets_max.map_or(FRAMES, u64::from).clamp(1, FRAMES_MAX);
        let name = format!("{PREFIX}{}", unique_suffix()?);
        let unit = u32::try_from(BYTES_OF_CALLS.div_ceil(frames)).ok().and_then(NonZeroU32::new);
        let unit = unit.filter(|_| request.is_of_calls);
        let ticket = ZeromqTicket { name, key: random()?, frames, unit };
        let (page, page_fd) = TransitPage::new()?;
        let [ringing, sleeping] = Doorbell::between()?;
        let doorbell_fd = sleeping
            .as_fd()
            .try_clone_to_owned()
            .map_err(|e| Error::system(format!("{}: cannot copy a descriptor", request.connection), e))?;
        let source = ZeromqSource::bind(&ticket, page, ringing, request)?;
        let address = serde_json::to_string(&ticket).map_err(Error::failed)?;
        Ok((Box::new(source), Ticket { address, fds: vec![page_fd, doorbell_fd], ..Ticket::default() }))
    }

    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, String> {
        let parsed = ZeromqTicket::parse(&ticket.address)?;
        let [page, doorbell]: [OwnedFd; 2] =
            ticket.fds.try_into().map_err(|_| "a path of ZeroMQ takes two descriptors".to_string())?;
        let peer = "the receiver";
        let page = TransitPage::from_peer(peer, page).map_err(|e| e.to_string())?;
        let doorbell = Doorbell::from_peer(peer, doorbell).map_err(|e| e.to_string())?;
        let sink = ZeromqSink::connect(&parsed, page, doorbell).map_err(|e| e.to_string())?;
        Ok(Arc::new(sink))
    }
}
