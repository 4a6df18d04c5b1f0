//! `zenoh`: publications of zenoh between two peers, which find each other only by address.
//!
//! The receiver listens on the loopback interface, and the hello carries the address. The bound of
//! zenoh's queues cannot serve as a packet's `depth`, and the content of these queues dies with the
//! sender. If the sender's queue is full, a put waits, and then drops or closes. So both ends share
//! a page ([`TransitPage`](crate::transit::TransitPage)). The page bounds the messages in
//! transit, so that no queue is ever full, and names the last packet that a killed sender had sent.

pub(crate) mod raw;
pub(crate) mod session;
#[cfg(test)]
mod tests;
mod zenoh_sink;
mod zenoh_source;

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use stripline::carrier::socket_names::{is_suffix, unique_suffix};
use stripline::carrier::{
    Capabilities, Carrier, PathRequest, PeerRefusal, Reach, Sink, Source, StreamTransport, Ticket, tcp, uds,
};
use stripline::terms::ZenohOptions;
use stripline::{Error, Result};

use crate::transit::{TransitBound, TransitSender, receiving_ends};
use crate::zenoh::session::{SessionReach, check_process, version};
use zenoh_sink::ZenohSink;
use zenoh_source::{ReceivingEnds, ZenohSource};

/// The transport.
pub(crate) static ZENOH: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "zenoh",
        summary: "publications of zenoh between peers; with `insecure` to other hosts, and across routers, whose lease decides",
        reach: Reach::Network,
        copies: "five",
        depth: "frames in transit; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials); with `bind`, key on both sides; one peer on a port",
        library: Some(version),
        ..StreamTransport::CAPABILITIES
    },
    listen: |name, request| {
        check_process()?;
        let zenoh = request.options.transport_options.zenoh.unwrap_or_default();
        zenoh.check().map_err(|fault| Error::Configuration(format!("{}: {fault}", request.port)))?;
        match zenoh.bind {
            Some(address) => tcp::listen(name, address),
            None => uds::listen(name, request),
        }
    },
    connect: |endpoint, request| {
        let is_insecure = request.options.transport_options.zenoh.is_some_and(|zenoh| zenoh.insecure);
        tcp::connect_or_unix(endpoint, request, is_insecure)
    },
    carrier: Some(Carrier { source, sink }),
};

/// The prefix of a connection's key. The process and a random number follow.
const PREFIX: &str = "stripline/";

/// The number of a message without frames, by which a sender asks which bytes have arrived.
const ASKS: u64 = u64::MAX;
/// The bytes of a message of a receiver: frames taken, messages taken, and bytes arrived.
const CREDIT_BYTES: usize = 24;

/// The ticket. On one host the page and the sender's doorbell come with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZenohTicket {
    /// The address at which the receiver listens; `None`: the receiver has connected to a router.
    address: Option<SocketAddr>,
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

    /// Returns the key of the receiver's credits, used if both sides share no memory.
    fn credit_key(&self) -> String {
        format!("{}/credit", self.key)
    }

    /// Returns how the sender reaches the receiver.
    ///
    /// # Errors
    /// The sender's own options do not allow it.
    fn reach(&self, own: &ZenohOptions) -> Result<SessionReach, String> {
        match (self.address, own.router) {
            (None, Some(router)) => Ok(SessionReach::Router(router)),
            (Some(address), None) if own.insecure || address.ip().is_loopback() => {
                Ok(SessionReach::Connect(address))
            }
            (Some(address), None) => {
                Err(format!("{address} is on another host, and the sender does not have `insecure`"))
            }
            _ => Err("one side has a router, and the other has none; name one on both".into()),
        }
    }

    /// Parses a ticket from a peer.
    fn parse(text: &str) -> Result<Self, String> {
        let ticket: Self = serde_json::from_str(text)
            .map_err(|e| format!("the ticket for the data path does not parse: {e}"))?;
        if !ticket.key.strip_prefix(PREFIX).is_some_and(is_suffix) {
            return Err("the ticket for the data path names no key of a receiver".into());
        }
        if let Some(address) = ticket.address.filter(|it| it.port() == 0 || it.ip().is_unspecified()) {
            return Err(format!("{address} is not an address of a receiver"));
        }
        ticket.bound.check()?;
        Ok(ticket)
    }
}

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    check_process()?;
    let key = format!("{PREFIX}{}", unique_suffix()?);
    let own = request.options.zenoh.unwrap_or_default();
    let remote = tcp::own_address_for(request, own.insecure)?;
    let ip = remote.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let reach = own.router.map_or(SessionReach::Listen(ip), SessionReach::Router);
    let bound = TransitBound::new(request)?;
    let (page, doorbell, mut fds) = receiving_ends(request.connection)?;
    if remote.is_some() {
        // No descriptors travel to another host.
        fds.clear();
    }
    let failed = |e: String| Error::of_system(format!("{}: {e}", request.connection));
    let ends = ReceivingEnds { page, doorbell, is_remote: fds.is_empty(), awaits_sent: request.is_of_calls };
    let (source, ticket) = ZenohSource::open(&reach, key, bound, ends).map_err(failed)?;
    let address = serde_json::to_string(&ticket).map_err(Error::of_system)?;
    Ok((source.into(), Ticket::new(address, fds)))
}

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    check_process()?;
    let parsed = ZenohTicket::parse(&ticket.address)?;
    let reach = parsed.reach(&ticket.options.zenoh.unwrap_or_default())?;
    let is_remote = ticket.fds.is_empty();
    let transit = match is_remote {
        true => TransitSender::across_hosts(parsed.bound)?,
        false => TransitSender::of_ticket(parsed.bound, ticket.fds)?,
    };
    let sink = ZenohSink::connect(parsed, reach, transit, is_remote, ticket.is_receiver_gone)?;
    if ticket.must_be_open {
        sink.await_open().map_err(PeerRefusal::Lack)?;
    }
    Ok(Sink::new(sink))
}
