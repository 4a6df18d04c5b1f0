//! `faulty`: pipes that cut their bytes by a seed, for tests of code that runs on a carrier. The
//! transport keeps the rules of a carrier, in the most inconvenient way.
//!
//! `STRIPLINE_FAULTY_SEED` in the environment changes the seed.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stripline::Result;
use stripline::carrier::{
    Capabilities, Carrier, Frames, PathRequest, PathSink, PathSource, PeerRefusal, PollSet, ReadRoom,
    ReadWait, Sink, Source, StreamTransport, Ticket,
};

use crate::pipe_transport::{PIPE, PIPES};

/// The transport.
pub static FAULTY: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "faulty",
        summary: "a pipe that cuts by a seed, for tests",
        ..PIPE.capabilities
    },
    carrier: Some(Carrier { source, sink }),
    ..StreamTransport::LOCAL
};

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    let (source, ticket) = (PIPES.source)(request)?;
    Ok((Source::new(FaultySource { inner: source, faults: Faults::new() }), ticket))
}

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    Ok(Sink::new(FaultySink { inner: (PIPES.sink)(ticket)?, faults: Faults::new() }))
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
    inner: Sink,
    faults: Faults,
}

impl PathSink for FaultySink {
    fn write(&self, frames: &mut Frames<'_>, longest: Duration) -> io::Result<usize> {
        let cut = self.faults.cut(frames.len());
        self.inner.end.write(&mut Frames::from(&frames[..cut]), longest)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        self.inner.end.poll_room(poll_set);
    }
}

struct FaultySource {
    inner: Source,
    faults: Faults,
}

impl PathSource for FaultySource {
    fn read(&mut self, room: &mut ReadRoom<'_>, wait: ReadWait) -> io::Result<usize> {
        let bytes = room.bytes();
        let cut = self.faults.cut(bytes.len());
        self.inner.end.read(&mut ReadRoom::from(&mut bytes[..cut]), wait)
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        self.inner.end.poll_bytes(poll_set)
    }
}
