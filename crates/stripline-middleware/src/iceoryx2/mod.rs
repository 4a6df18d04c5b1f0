//! `iceoryx2`: a service of iceoryx2 for each connection, with one publisher and one subscriber.
//!
//! The receiver makes the service, and the hello carries the names. A loan of iceoryx2 serves as
//! the buffer of the sending port. A message serves as the buffer of the receiving port while the
//! frames are read. The bound of the library's queue cannot serve as a packet's `depth`, and the
//! library wakes no receiver. So both ends share a page
//! ([`TransitPage`](crate::transit::TransitPage)). The page bounds the messages in
//! transit, and shows which end sleeps.
//!
//! ```text
//! message: | frames up to its end, in all (8) | bytes of frames (8) | zeros (48) | frames |
//! ```

mod publish;
mod service;
mod subscribe;

use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};

use stripline::carrier::aligned_buffer::{AlignedBuffer, CacheLine};
use stripline::carrier::{
    Capabilities, Carrier, Doorbell, PathRequest, PeerRefusal, Sink, Source, StreamTransport, Ticket, uds,
};
use stripline::terms::LinkOptions;
use stripline::{Error, Result};

use crate::iceoryx2::service::{ConnectionNames, PathSizes, remove_dead, version};
use crate::transit::TransitPage;
use publish::IceoryxSink;
use subscribe::IceoryxSource;

/// The transport.
pub(crate) static ICEORYX2: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "iceoryx2",
        summary: "shared memory of iceoryx2, used in place; after a kill while connecting, the next start removes its names",
        copies: "none to one receiver of a port, one to each of several",
        depth: "frames in transit, up to one for each KiB of `buffer`; with flow credit or stop-resume, packets",
        trust: "same user (kernel credentials), whose memory iceoryx2 trusts",
        library: Some(version),
        ..StreamTransport::CAPABILITIES
    },
    listen: |name, request| {
        remove_dead();
        uds::listen(name, request)
    },
    carrier: Some(Carrier { source, sink }),
    ..StreamTransport::LOCAL
};

/// Frames of packets in transit if the port's queue bounds the packets.
const FRAMES: u32 = 128;
/// The least bytes of frames that a message has room for. A buffer with fewer bytes for each packet
/// holds fewer packets.
const BYTES_MIN: u32 = 1024;
/// The most packets in transit with a buffer that is too small for this many messages of
/// [`BYTES_MIN`].
const FRAMES_OF_SMALL: u32 = 128;

/// The ticket. The page and the doorbell come with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IceoryxTicket {
    /// The prefix of all names of the connection.
    names: String,
    /// The most frames of packets that may be in transit.
    frames: u32,
    /// The most cache lines of a message.
    lines: u32,
    /// Whether the receiver runs a barrier on all processors before it sleeps.
    barrier: bool,
}

impl IceoryxTicket {
    /// Returns the ticket of a connection. The memory of the connection is about twice the buffer
    /// of the port.
    fn new(names: &ConnectionNames, request: &PathRequest<'_>) -> Self {
        let frames_max = (request.buffer / BYTES_MIN).clamp(FRAMES_OF_SMALL, LinkOptions::DEPTH_MAX);
        let frames = request.packets_max.unwrap_or(FRAMES).clamp(1, frames_max);
        // A packet as large as its share of the buffer fits, with the header.
        let bytes = (request.buffer / frames).max(BYTES_MIN);
        let front = AlignedBuffer::FRONT as u32;
        let lines = (front + bytes).div_ceil(front) + 1;
        Self { names: names.as_str().into(), frames, lines, barrier: request.runs_barrier }
    }

    /// Parses a ticket from a peer.
    fn parse(text: &str) -> Result<(Self, ConnectionNames), String> {
        let ticket: Self = serde_json::from_str(text)
            .map_err(|e| format!("the ticket for the data path does not parse: {e}"))?;
        let names = ConnectionNames::parse(&ticket.names)
            .ok_or("the ticket for the data path names no service of a receiver")?;
        if !(1..=LinkOptions::DEPTH_MAX).contains(&ticket.frames) {
            return Err(format!("the ticket for the data path allows {} frames", ticket.frames));
        }
        if !(2..=LinkOptions::BUFFER_MAX / 64 + 4).contains(&ticket.lines) {
            return Err(format!("the ticket for the data path has messages of {} lines", ticket.lines));
        }
        Ok((ticket, names))
    }

    fn sizes(&self) -> PathSizes {
        // Each packet may have a description before it, and the end comes last.
        PathSizes { messages: 2 * self.frames as usize + 4, lines: self.lines as usize }
    }
}

/// The front line of a message, before the frames.
struct MessageFront {
    /// The frame count up to the end of the message.
    number: u64,
    /// The bytes of the message's frames.
    bytes: u64,
}

impl MessageFront {
    fn line(&self) -> CacheLine {
        let mut line = CacheLine([0; 64]);
        line.0[..8].copy_from_slice(&self.number.to_le_bytes());
        line.0[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        line
    }

    /// Reads the front of a message; `None`: the message is empty, or shorter than announced.
    fn of(message: &[CacheLine]) -> Option<Self> {
        let (first, rest) = message.split_first()?;
        let word = |at: usize| first.0[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let front = Self { number: word(0), bytes: word(8) };
        (1..=size_of_val(rest) as u64).contains(&front.bytes).then_some(front)
    }
}

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    let names = ConnectionNames::new()?;
    let ticket = IceoryxTicket::new(&names, request);
    let (page, page_fd) = TransitPage::new()?;
    // Each end rings the other end's doorbell, and sleeps on its own doorbell.
    let [own, remote] = Doorbell::between()?;
    let doorbell_fd = remote
        .as_fd()
        .try_clone_to_owned()
        .map_err(|e| Error::system(format!("{}: cannot copy a descriptor", request.connection), e))?;
    let source = IceoryxSource::new(names, &ticket, page, own)
        .map_err(|e| Error::of_system(format!("{}: {e}", request.connection)))?;
    let address = serde_json::to_string(&ticket).map_err(Error::of_system)?;
    Ok((source.into(), Ticket::new(address, vec![page_fd, doorbell_fd])))
}

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    let (parsed, names) = IceoryxTicket::parse(&ticket.address)?;
    let [page, doorbell]: [OwnedFd; 2] =
        ticket.fds.try_into().map_err(|_| "a path of iceoryx2 takes two descriptors")?;
    let peer = "the receiver";
    let page = TransitPage::from_peer(peer, page)?;
    let doorbell = Doorbell::from_peer(peer, doorbell)?;
    let sink = IceoryxSink::open(names, &parsed, page, doorbell)?;
    Ok(Sink::lending(sink))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_as_large_as_its_share_of_the_buffer_is_one_message() {
        let names = ConnectionNames::new().unwrap();
        let request = |buffer, packets_max| PathRequest {
            connection: "a -> b",
            packets_max,
            is_complete: true,
            is_of_calls: false,
            options: Default::default(),
            endpoint: None,
            buffer,
            runs_barrier: false,
        };
        let ticket = IceoryxTicket::new(&names, &request(1 << 21, Some(64)));
        assert!(64 * ticket.lines as usize >= 64 + 48 + 32 * 1024);
        assert_eq!(
            IceoryxTicket::parse(&serde_json::to_string(&ticket).unwrap()),
            Ok((ticket, names.clone()))
        );
        for (buffer, packets_max) in [(4096, Some(65_536)), (1 << 30, Some(1)), (1 << 21, None)] {
            let ticket = IceoryxTicket::new(&names, &request(buffer, packets_max));
            assert!(IceoryxTicket::parse(&serde_json::to_string(&ticket).unwrap()).is_ok(), "{ticket:?}");
        }
    }

    #[test]
    fn a_ticket_from_a_peer_is_checked() {
        let names = ConnectionNames::new().unwrap();
        let good = IceoryxTicket { names: names.as_str().into(), frames: 64, lines: 10, barrier: true };
        let refusal = |ticket: IceoryxTicket| {
            IceoryxTicket::parse(&serde_json::to_string(&ticket).unwrap()).unwrap_err()
        };
        for (bad, expected) in [
            (IceoryxTicket { names: "../../etc".into(), ..good.clone() }, "names no service"),
            (IceoryxTicket { frames: 0, ..good.clone() }, "0 frames"),
            (IceoryxTicket { frames: u32::MAX, ..good.clone() }, "4294967295 frames"),
            (IceoryxTicket { lines: 1, ..good.clone() }, "1 lines"),
            (IceoryxTicket { lines: u32::MAX, ..good.clone() }, "4294967295 lines"),
        ] {
            let text = refusal(bad);
            assert!(text.contains(expected), "{text}");
        }
        for bad in ["", "{}", "[]", r#"{"names":1,"frames":2,"lines":3}"#] {
            assert!(IceoryxTicket::parse(bad).unwrap_err().contains("does not parse"), "{bad}");
        }
    }

    #[test]
    fn a_message_that_announces_nothing_or_more_than_it_has_is_none() {
        let front = |bytes| MessageFront { number: 7, bytes }.line();
        let message = |bytes| [front(bytes), CacheLine([0; 64])];
        assert!(MessageFront::of(&message(64)).is_some_and(|front| (front.number, front.bytes) == (7, 64)));
        assert!(MessageFront::of(&message(65)).is_none());
        assert!(MessageFront::of(&message(0)).is_none());
        assert!(MessageFront::of(&message(u64::MAX)).is_none());
        assert!(MessageFront::of(&[]).is_none());
    }
}
