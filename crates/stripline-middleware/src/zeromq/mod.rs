//! `zeromq`: sockets of ZeroMQ, a PUSH and a PULL for each connection.
//!
//! The receiver binds an abstract name, which the hello carries. The bound of ZeroMQ's queues
//! cannot serve as a packet's `depth`, and the content of these queues dies with the sender. So
//! both ends share a page ([`TransitPage`](crate::transit::TransitPage)). The page bounds
//! the messages in transit, and names the last packet that a killed sender had sent.

pub(crate) mod gr_zeromq;
mod pull;
mod push;
mod socket;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use stripline::carrier::socket_names::{is_suffix, unique_suffix};
use stripline::carrier::{
    Capabilities, Carrier, PathRequest, PeerRefusal, Sink, Source, StreamTransport, Ticket,
};
use stripline::{Error, Result};

use crate::transit::{TransitBound, TransitSender, receiving_ends};
use crate::zeromq::socket::version;
use pull::ZeromqSource;
use push::ZeromqSink;

/// The transport.
pub(crate) static ZEROMQ: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "zeromq",
        summary: "sockets of ZeroMQ, PUSH to PULL; packets in a killed sender's library are lost, and reported",
        copies: "four",
        depth: "frames in transit; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key",
        library: Some(version),
        ..StreamTransport::CAPABILITIES
    },
    carrier: Some(Carrier { source, sink }),
    ..StreamTransport::LOCAL
};

/// The prefix of the name of a receiver's socket. The process and a random number follow.
const PREFIX: &str = "stripline-zeromq-";
/// The number of the last message of a sender, which has no frames.
const LAST: u64 = u64::MAX;

/// The ticket. The page and the sender's doorbell come with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZeromqTicket {
    /// The name of the receiver's socket.
    name: String,
    bound: TransitBound,
}

impl ZeromqTicket {
    fn address(&self) -> String {
        format!("ipc://@{}", self.name)
    }

    /// Returns the most messages that an honest sender has in one of ZeroMQ's queues: each packet
    /// may have a description. Messages that were read count until half of the bound was read.
    fn messages_max(&self) -> i32 {
        i32::try_from(4 * self.bound.frames + 8).unwrap_or(i32::MAX)
    }

    /// Parses a ticket from a peer.
    fn parse(text: &str) -> Result<Self, String> {
        let ticket: Self = serde_json::from_str(text)
            .map_err(|e| format!("the ticket for the data path does not parse: {e}"))?;
        if !ticket.name.strip_prefix(PREFIX).is_some_and(is_suffix) {
            return Err("the ticket for the data path names no socket of a receiver".into());
        }
        ticket.bound.check()?;
        Ok(ticket)
    }
}

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    let name = format!("{PREFIX}{}", unique_suffix()?);
    let ticket = ZeromqTicket { name, bound: TransitBound::new(request)? };
    let (page, doorbell, fds) = receiving_ends(request.connection)?;
    let source = ZeromqSource::bind(&ticket, page, doorbell, request)?;
    let address = serde_json::to_string(&ticket).map_err(Error::of_system)?;
    Ok((source.into(), Ticket::new(address, fds)))
}

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    let parsed = ZeromqTicket::parse(&ticket.address)?;
    let transit = TransitSender::of_ticket(parsed.bound, ticket.fds)?;
    let sink = ZeromqSink::connect(&parsed, transit, ticket.is_receiver_gone)?;
    Ok(Sink::new(sink))
}
