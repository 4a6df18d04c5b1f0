//! `dds`: a topic of Cyclone DDS for each connection, with one writer and one reader.
//!
//! The receiver makes the topic and the reader, and the hello carries the topic's name. Both ends
//! are reliable and keep all samples. The bound of their queues cannot serve as a packet's `depth`,
//! and the content of these queues dies with the sender. So both ends share a page
//! ([`TransitPage`](crate::transit::TransitPage)). The page bounds the samples in
//! transit, and names the last packet that a killed sender had sent. The page also names the
//! writer, so that samples of other writers are dropped.

mod dds_reader;
mod dds_writer;
pub mod ends;
pub mod samples;
pub mod security;
#[cfg(test)]
mod tests;
pub(crate) mod typed;

use serde::{Deserialize, Serialize};

use stripline::carrier::socket_names::unique_suffix;
use stripline::carrier::{
    Capabilities, Carrier, PathRequest, PeerRefusal, Sink, Source, StreamTransport, Ticket, uds,
};
use stripline::{Error, Result};

use crate::dds::ends::{check_process, receive_buffer, version};
use crate::transit::{TransitBound, TransitSender, receiving_ends};
use dds_reader::DdsSource;
use dds_writer::DdsSink;

/// The transport.
pub(crate) static DDS: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "dds",
        summary: "topics of Cyclone DDS; packets that a killed sender had not got into the kernel are lost, and reported",
        copies: "five",
        depth: "frames in transit; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key; any user of the host can subscribe",
        library: Some(version),
        ..StreamTransport::CAPABILITIES
    },
    listen: |name, request| {
        check_process()?;
        uds::listen(name, request)
    },
    carrier: Some(Carrier { source, sink }),
    ..StreamTransport::LOCAL
};

/// The prefix of a topic's name.
const PREFIX: &str = "stripline_";
/// The most bytes of frames in a sample, which is one datagram.
const MESSAGE_MAX: usize = 60 * 1024;
/// The bytes that a sample takes of a socket's buffer besides the frames.
const MESSAGE_COST: u64 = 1024;
/// The number of a sample without frames, by which the sender detects that the receiver has found
/// it.
const PROBE: u64 = u64::MAX;

/// The ticket. The page and the sender's doorbell come with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DdsTicket {
    /// The name of the topic.
    topic: String,
    bound: TransitBound,
    /// The bytes that may be on their way to the receiver's process.
    window: u64,
}

impl DdsTicket {
    /// Returns the ticket of a connection.
    fn new(request: &PathRequest<'_>) -> Result<Self> {
        let topic = format!("{PREFIX}{}", unique_suffix()?.replace('-', "_"));
        // The kernel charges up to twice the bytes of a datagram.
        Ok(Self { topic, bound: TransitBound::new(request)?, window: receive_buffer() * 3 / 8 })
    }

    /// Parses a ticket from a peer.
    fn parse(text: &str) -> Result<Self, String> {
        let ticket: Self = serde_json::from_str(text)
            .map_err(|e| format!("the ticket for the data path does not parse: {e}"))?;
        let random = ticket.topic.strip_prefix(PREFIX).unwrap_or_default();
        let is_name = !random.is_empty()
            && random.len() <= 40
            && random.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'_');
        if !is_name {
            return Err("the ticket for the data path names no topic of a receiver".into());
        }
        ticket.bound.check()?;
        Ok(ticket)
    }
}

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    let ticket = DdsTicket::new(request)?;
    let (page, doorbell, fds) = receiving_ends(request.connection)?;
    let source = DdsSource::new(&ticket, page, doorbell, request)?;
    let address = serde_json::to_string(&ticket).map_err(Error::of_system)?;
    Ok((source.into(), Ticket::new(address, fds)))
}

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    let parsed = DdsTicket::parse(&ticket.address)?;
    let transit = TransitSender::of_ticket(parsed.bound, ticket.fds)?;
    let sink = DdsSink::new(&parsed, transit, ticket.is_receiver_gone)?;
    Ok(Sink::new(sink))
}
