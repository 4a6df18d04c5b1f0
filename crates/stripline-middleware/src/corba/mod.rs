//! `corba`: one-way calls of omniORB to a servant for each connection.
//!
//! The receiver activates the servant. The receiver's hello carries the servant's object key and
//! the file of the process's socket. Servants only enqueue. omniORB's threads may bring the calls
//! in another order, so each call has a number. Both ends share a page
//! ([`TransitPage`](crate::transit::TransitPage)). The page bounds the calls in transit,
//! and the calls in the kernel, so that a call never waits for a receiver that is stopped. Between
//! hosts calls go over TCP, and separate calls carry the receiver's part of the page.

pub mod bulkio;
mod credit;
#[cfg(test)]
mod data_port_tests;
pub(crate) mod data_ports;
pub mod orb;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};

use stripline::carrier::socket_names::{is_suffix, unique_suffix};
use stripline::carrier::{
    Capabilities, Carrier, Doorbell, PathRequest, PeerRefusal, Reach, Sink, Source, StreamTransport, Ticket,
    Watermarks, random, tcp, uds,
};
use stripline::{Error, Result};

use crate::corba::orb::{CallClient, NAMES, listen_at, message_max, own_socket, version};
use crate::transit::TransitPage;
use credit::CreditSender;
use receive::{CallEnds, CorbaSource};
use send::CorbaSink;

/// The transport.
pub(crate) static CORBA: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "corba",
        summary: "one-way calls of omniORB, to other hosts with `insecure`; a start removes the leftovers of a killed start",
        reach: Reach::Network,
        copies: "three",
        depth: "frames in transit; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key; with `bind`, key on both sides",
        library: Some(version),
        ..StreamTransport::CAPABILITIES
    },
    listen: |name, request| {
        let corba = request.options.transport_options.corba.unwrap_or_default();
        corba.check().map_err(|fault| Error::Configuration(format!("{}: {fault}", request.port)))?;
        NAMES.remove_dead();
        orb::check()?;
        match corba.bind {
            Some(address) => tcp::listen(name, address),
            None => uds::listen(name, request),
        }
    },
    connect: |endpoint, request| {
        let is_insecure = request.options.transport_options.corba.is_some_and(|corba| corba.insecure);
        tcp::connect_or_unix(endpoint, request, is_insecure)
    },
    carrier: Some(Carrier { source, sink }),
};

/// The prefix of a receiver's object key.
const PREFIX: &str = "stripline-path-";
/// Frames of packets in transit if the port's queue bounds the packets.
const FRAMES: u64 = 1000;
/// The most frames that a ticket may allow.
const FRAMES_MAX: u64 = 1 << 24;
/// Bytes of frames in transit in each direction of calls: about the size of a socket's buffer.
const BYTES_OF_CALLS: u64 = 1 << 18;
/// The most bytes of a call. The kernel's buffer then has room for another call.
const BYTES_MAX: u32 = 64 * 1024;
/// The least bytes of a call that a peer may ask for.
const BYTES_MIN: u32 = 4096;
/// The most bytes that GIOP adds to a call.
const GIOP_BYTES: u32 = 1024;
/// The number of the call that only shows that the path leads to the receiver. Between hosts the
/// call carries the place where the sender takes credits.
const PROBE: u64 = u64::MAX;
/// The number of the last call between hosts. In this call, the frame count is the number of calls
/// before it.
const END: u64 = u64::MAX - 1;
/// A sender that has no room in the kernel resumes when the kernel holds no more than this charge.
const LOW_CHARGE: u64 = 32 * 1024;

/// Returns the most bytes of the kernel's buffer that a call with `bytes` bytes takes.
fn charge(bytes: usize) -> u64 {
    (bytes + bytes / 4 + 2048) as u64
}

/// The ticket. On one host the page, the sender's doorbell and the file of the socket come with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CorbaTicket {
    /// The receiver's object key.
    object: String,
    /// The key in each call.
    key: u64,
    /// The most frames of packets that may be in transit.
    frames: u64,
    /// The most bytes of a call.
    bytes: u32,
    /// A call counts as at least one frame per `unit` bytes; `None`: only the frames count.
    unit: Option<NonZeroU32>,
    /// The address of a receiver on another host; `None`: the receiver is on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
}

impl CorbaTicket {
    /// Returns the most calls that an honest sender has in transit. Each packet may have a
    /// description, and the end comes last.
    fn calls_max(&self) -> u64 {
        2 * self.frames + 4
    }

    /// Returns the frames in transit at which a waiting sender resumes, by the rule of
    /// [`Watermarks`].
    fn low(&self) -> u64 {
        let frames = u32::try_from(self.frames).unwrap_or(u32::MAX);
        Watermarks::of_depth(frames).low().into()
    }

    /// Parses a ticket from a peer.
    fn parse(text: &str) -> Result<Self, String> {
        let ticket: Self = serde_json::from_str(text)
            .map_err(|e| format!("the ticket for the data path does not parse: {e}"))?;
        check_object(&ticket.object)?;
        if let Some(address) = ticket.address.filter(|it| it.port() == 0 || it.ip().is_unspecified()) {
            return Err(format!("{address} is not an address of a receiver"));
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

/// Checks the object key of a peer.
fn check_object(object: &str) -> Result<(), String> {
    match object.strip_prefix(PREFIX).is_some_and(is_suffix) {
        true => Ok(()),
        false => Err("the peer's text for the data path names no object of a path".into()),
    }
}

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    let connection = request.connection;
    let named = |e: Error| Error::of_system(format!("{connection}: {e}"));
    let frames = request.packets_max.map_or(FRAMES, u64::from).clamp(1, FRAMES_MAX);
    let unit = u32::try_from(BYTES_OF_CALLS.div_ceil(frames)).ok().and_then(NonZeroU32::new);
    let own = request.options.corba.unwrap_or_default();
    let remote = tcp::own_address_for(request, own.insecure)?;
    let address = remote.map(listen_at).transpose().map_err(named)?;
    let ticket = CorbaTicket {
        object: format!("{PREFIX}{}", unique_suffix()?),
        key: random()?,
        frames,
        unit: unit.filter(|_| request.is_of_calls),
        address,
        bytes: message_max().map_err(named)?.saturating_sub(GIOP_BYTES).clamp(BYTES_MIN, BYTES_MAX),
    };
    let (page, page_fd) = TransitPage::new()?;
    let [ringing, sleeping] = Doorbell::between()?;
    let doorbell_fd = sleeping
        .as_fd()
        .try_clone_to_owned()
        .map_err(|e| Error::system(format!("{connection}: cannot copy a descriptor"), e))?;
    let ends = CallEnds {
        page,
        doorbell: ringing,
        credits: address.map(|_| CreditSender::new(&ticket, own.insecure)),
        awaits_sent: request.is_of_calls,
    };
    let source = CorbaSource::new(&ticket, ends).map_err(named)?;
    let fds = match address {
        // No descriptors travel to another host.
        Some(_) => vec![],
        None => vec![page_fd, doorbell_fd, own_socket()?],
    };
    let address = serde_json::to_string(&ticket).map_err(Error::of_system)?;
    Ok((source.into(), Ticket::new(address, fds)))
}

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    let parsed = CorbaTicket::parse(&ticket.address)?;
    if let Some(address) = parsed.address {
        let own = ticket.options.corba.unwrap_or_default();
        if !own.insecure && !address.ip().is_loopback() {
            let remedy = "and the sender does not have `insecure`";
            return Err(format!("{address} is on another host, {remedy}").into());
        }
        let sink = CorbaSink::call_host(&parsed, address)?;
        return Ok(Sink::new(sink));
    }
    let [page, doorbell, socket]: [OwnedFd; 3] =
        ticket.fds.try_into().map_err(|_| "a path of CORBA takes three descriptors")?;
    let peer = "the receiver";
    let page = TransitPage::from_peer(peer, page)?;
    let doorbell = Doorbell::from_peer(peer, doorbell)?;
    let client = CallClient::of_file(&parsed.object, socket)?;
    Ok(Sink::new(CorbaSink::call_process(&parsed, client, page, doorbell)?))
}
