//! `zenoh`: publications of zenoh between two peers, which are found by address alone.
//!
//! The receiver listens on the loopback interface, and sends its address with its hello. zenoh's
//! own queues have no bound that a packet's `depth` could be, and what they hold dies with the
//! sender. Where its queue is full, a put waits, and then drops or closes. So both ends share a page
//! ([`TransitPage`](crate::sys::transit_page::TransitPage)). It bounds what is in transit so that no
//! queue is ever full, and names what a killed sender had sent.

mod publish;
mod subscribe;
#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Capabilities;
use super::carrier::{Carrier, PathRequest, PathSink, PathSource, Ticket};
use super::stream::StreamTransport;
use super::transit::{TransitBound, TransitSender, receiving_ends};
use super::uds::{self, UDS};
use crate::error::{Error, Result};
use crate::sys::socket_names::unique_suffix;
use crate::sys::zenoh::{SessionReach, check_process, version};
use publish::ZenohSink;
use subscribe::ZenohSource;

/// The transport.
pub(super) static ZENOH: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "zenoh",
        summary: "publications of zenoh between peers; what a killed sender's library held is lost, and reported",
        copies: "five",
        depth: "frames in transit; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key; one peer on a loopback port",
        library: Some(version),
        ..StreamTransport::CAPABILITIES
    },
    listen: |request| {
        check_process()?;
        uds::listen("zenoh", request)
    },
    connect: UDS.connect,
    carrier: Some(&ZenohSessions),
};

/// What the key of a connection begins with, before its process and a random number.
const PREFIX: &str = "stripline/";

struct ZenohSessions;

/// The ticket, beside the page and the sender's doorbell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZenohTicket {
    /// Where the receiver listens.
    address: SocketAddr,
    /// The key of the connection.
    key: String,
    bound: TransitBound,
}

impl ZenohTicket {
    /// Returns the key of the messages.
    fn data_key(&self) -> String {
        format!("{}/data", self.key)
    }

    /// Returns the key of the sender's token.
    fn sender_key(&self) -> String {
        format!("{}/sender", self.key)
    }

    /// Parses what came from a peer.
    fn parse(text: &str) -> Result<Self, String> {
        let ticket: Self = serde_json::from_str(text)
            .map_err(|e| format!("the ticket for the data path does not parse: {e}"))?;
        let random = ticket.key.strip_prefix(PREFIX).unwrap_or_default();
        let is_key = !random.is_empty()
            && random.len() <= 40
            && random.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_key {
            return Err("the ticket for the data path names no key of a receiver".into());
        }
        if !ticket.address.ip().is_loopback() || ticket.address.port() == 0 {
            return Err(format!("{} is not on the loopback interface", ticket.address));
        }
        ticket.bound.check()?;
        Ok(ticket)
    }
}

impl Carrier for ZenohSessions {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        check_process()?;
        let key = format!("{PREFIX}{}", unique_suffix()?);
        let (bound, reach) = (TransitBound::new(request)?, SessionReach::Listen(Ipv4Addr::LOCALHOST.into()));
        let (page, doorbell, fds) = receiving_ends(request.connection)?;
        let failed = |e: String| Error::failed(format!("{}: {e}", request.connection));
        let awaits_sent = request.is_of_calls;
        let (source, ticket) =
            ZenohSource::listen(&reach, key, bound, page, doorbell, awaits_sent).map_err(failed)?;
        let address = serde_json::to_string(&ticket).map_err(Error::failed)?;
        Ok((Box::new(source), Ticket { address, fds, ..Ticket::default() }))
    }

    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, String> {
        check_process().map_err(|e| e.to_string())?;
        let parsed = ZenohTicket::parse(&ticket.address)?;
        let transit = TransitSender::of_ticket(parsed.bound, ticket.fds)?;
        Ok(Arc::new(ZenohSink::connect(parsed, transit).map_err(|e| e.to_string())?))
    }
}
