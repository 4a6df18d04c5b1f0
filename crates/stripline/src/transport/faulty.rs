//! `faulty`: pipes that cut their bytes by a seed, for tests of code that runs on a carrier. The
//! transport keeps the rules of a carrier, in the most inconvenient way.
//!
//! `STRIPLINE_FAULTY_SEED` in the environment changes the seed.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::Capabilities;
use super::carrier::{Carrier, PathRequest, PathSink, PathSource, Ticket};
use super::pipe::{PIPE, Pipes};
use super::stream::StreamTransport;
use super::uds;
use crate::error::Result;
use crate::sys::doorbell::PollSet;
use crate::sys::refusal::PeerRefusal;

/// The transport.
pub(super) static FAULTY: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "faulty",
        summary: "a pipe that cuts by a seed, for tests",
        ..PIPE.capabilities
    },
    listen: |request| uds::listen("faulty", request),
    connect: PIPE.connect,
    carrier: Some(&FaultyPipes),
};

struct FaultyPipes;

impl Carrier for FaultyPipes {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        let (source, ticket) = Pipes.source(request)?;
        Ok((Box::new(FaultySource { inner: source, faults: Faults::new() }), ticket))
    }

    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, PeerRefusal> {
        Ok(Arc::new(FaultySink { inner: Pipes.sink(ticket)?, faults: Faults::new() }))
    }
}

/// A generator of faults (`splitmix64`).
pub(super) struct Faults(AtomicU64);

impl Faults {
    /// Returns a generator that begins elsewhere than all generators before.
    pub(super) fn new() -> Self {
        static SEED: OnceLock<AtomicU64> = OnceLock::new();
        let seed = SEED.get_or_init(|| {
            let text = std::env::var("STRIPLINE_FAULTY_SEED").ok();
            AtomicU64::new(text.and_then(|text| text.parse().ok()).unwrap_or(1))
        });
        // Relaxed, here and below: numbers that order nothing.
        Self(AtomicU64::new(seed.fetch_add(0x5851_F42D_4C95_7F2D, Ordering::Relaxed)))
    }

    /// Returns the next number.
    pub(super) fn next(&self) -> u64 {
        let state = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns how many of `bytes` bytes pass now: all, or a few. Zero would mean that there is no
    /// room, or that nothing is left.
    fn cut(&self, bytes: usize) -> usize {
        let random = self.next();
        match random % 8 {
            0..=3 => bytes.min(1 + (random >> 8) as usize % 100),
            4 => bytes.min(1 + (random >> 8) as usize % 5000),
            _ => bytes,
        }
    }
}

struct FaultySink {
    inner: Arc<dyn PathSink>,
    faults: Faults,
}

impl PathSink for FaultySink {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(&bytes[..self.faults.cut(bytes.len())])
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        self.inner.poll_room(poll_set);
    }
}

struct FaultySource {
    inner: Box<dyn PathSource>,
    faults: Faults,
}

impl PathSource for FaultySource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let cut = self.faults.cut(into.len());
        self.inner.read(&mut into[..cut])
    }

    fn bytes(&self) -> BorrowedFd<'_> {
        self.inner.bytes()
    }
}
