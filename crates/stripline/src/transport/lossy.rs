//! `lossy`: UDP that loses, repeats and reorders datagrams by a seed, for tests of the session. If
//! the session repairs, one datagram in twenty is lost, one repeated, and one overtaken. Otherwise
//! nothing is lost, so that tests of policies can count the packets that a policy drops.
//!
//! `STRIPLINE_FAULTY_SEED` in the environment changes the seed.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use super::Capabilities;
use super::carrier::{Carrier, Sink, Ticket};
use super::session::{DatagramSink, SessionSink, SessionTicket};
use super::stream::StreamTransport;
use super::udp::{CARRIER, UDP, UdpSink};
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
    listen: UDP.listen,
    connect: UDP.connect,
    carrier: Some(Carrier { sink, ..CARRIER }),
};

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    let (is_complete, options) = (ticket.is_complete, ticket.options.udp.unwrap_or_default());
    let (ticket, sockets) = SessionTicket::of_peer(ticket)?;
    let inner = UdpSink::connect(&ticket.address, &sockets[0], &options)?;
    let path: Box<dyn DatagramSink> = if is_complete || ticket.is_repaired {
        Box::new(LossySink { inner, faults: Faults::new(), overtaken: Mutex::default() })
    } else {
        Box::new(inner)
    };
    let sink = SessionSink::open(&ticket, sockets, path, UdpEnd::DATAGRAM_MAX, is_complete)?;
    Ok(Sink::of_session(sink))
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

/// A generator of faults (`splitmix64`).
struct Faults(AtomicU64);

impl Faults {
    /// Returns a generator that begins elsewhere than all generators before.
    fn new() -> Self {
        static SEED: OnceLock<AtomicU64> = OnceLock::new();
        let seed = SEED.get_or_init(|| {
            let text = std::env::var("STRIPLINE_FAULTY_SEED").ok();
            AtomicU64::new(text.and_then(|text| text.parse().ok()).unwrap_or(1))
        });
        // Relaxed, here and below: numbers that order nothing.
        Self(AtomicU64::new(seed.fetch_add(0x5851_F42D_4C95_7F2D, Ordering::Relaxed)))
    }

    /// Returns the next number.
    fn next(&self) -> u64 {
        let state = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
