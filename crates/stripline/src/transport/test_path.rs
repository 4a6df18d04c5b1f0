//! A path without a link, for the tests of carriers.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::io;
use std::time::{Duration, Instant};

use super::carrier::{PathRequest, PathSink, PathSource, ReadWait, Sink, Source, Ticket};
use super::stream::{StreamTransport, padded};
use crate::packet::{HEADER_BYTES, Header, Kind};
use crate::sys::doorbell::PollSet;
use crate::terms::{TransportOptions, Watermarks};

/// A sending end that writes bytes without waiting.
pub trait WriteBytes {
    /// Writes as [`PathSink::write`] does.
    fn write_bytes(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl<T: PathSink + ?Sized> WriteBytes for T {
    fn write_bytes(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write(&mut bytes.into(), Duration::ZERO)
    }
}

/// A receiving end that reads bytes without a buffer.
pub trait ReadBytes {
    /// Reads the bytes at hand, as [`PathSource::read`] does.
    fn read_bytes(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Reads the bytes that have come before the sender's end.
    fn read_rest(&mut self, into: &mut [u8]) -> io::Result<usize>;
}

impl<T: PathSource + ?Sized> ReadBytes for T {
    fn read_bytes(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read(&mut into.into(), ReadWait::Never)
    }

    fn read_rest(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read(&mut into.into(), ReadWait::Rest)
    }
}

/// A limit that only ends a hang.
const LONGEST: Duration = Duration::from_secs(20);

/// Makes the receiving end of a path, and the ticket.
pub fn path(transport: &StreamTransport, packets: u32) -> (Source, Ticket) {
    let marks = Watermarks::of_depth(packets);
    let request = PathRequest::of_calls("a -> b", marks, 1 << 21, TransportOptions::default());
    (transport.carrier.unwrap().source)(&request).unwrap()
}

/// Makes the sending end for a ticket.
pub fn sink(transport: &StreamTransport, ticket: Ticket) -> Result<Sink, String> {
    (transport.carrier.unwrap().sink)(ticket).map_err(|refusal| refusal.to_string())
}

/// Returns a frame of a packet with 100 bytes.
pub fn frame(sequence: u64) -> Vec<u8> {
    frame_of(sequence, 100, Kind::Data)
}

/// Returns a frame with `length` bytes of payload.
pub fn frame_of(sequence: u64, length: usize, kind: Kind) -> Vec<u8> {
    let mut bytes = vec![0; padded(length)];
    bytes[HEADER_BYTES..][..length].fill(7);
    let header = Header {
        sequence,
        length: length as u32,
        stream: 0,
        kind: kind as u8,
        flags: 0,
        sample_index: 0,
        time_ns: 0,
        intended_ns: 0,
        sent_ns: 0,
    };
    header.write(&mut bytes);
    bytes
}

/// Writes a frame, and waits for room.
pub fn write(sink: &Sink, frame: &[u8]) {
    let until = Instant::now() + LONGEST;
    loop {
        match sink.end.write_bytes(frame) {
            Ok(written) => return assert_eq!(written, frame.len()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
        }
        assert!(Instant::now() < until, "there is no room");
        // A path that is not open yet may not ring.
        let mut poll_set = PollSet::default();
        sink.end.poll_room(&mut poll_set);
        let _ = poll_set.wait(Some(Instant::now() + Duration::from_millis(1))).unwrap();
    }
}

/// Reads the next bytes.
pub fn read(source: &mut Source) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4096];
    let until = Instant::now() + LONGEST;
    loop {
        match source.end.read(&mut (&mut bytes[..]).into(), ReadWait::Short) {
            Ok(read) => return Ok(bytes[..read].to_vec()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) => assert!(Instant::now() < until, "nothing comes"),
        }
    }
}

/// Carries a steady stream of packets of each length, and compares the received frames.
pub fn carry_steady_packets(transport: &StreamTransport) {
    for length in [0, 1, 8, 100, 1024, 1025] {
        let (mut source, ticket) = path(transport, 8);
        let sink = sink(transport, ticket).unwrap();
        for sequence in 0..9 {
            let frame = frame_of(sequence, length, Kind::Data);
            write(&sink, &frame);
            assert_eq!(read(&mut source).unwrap(), frame, "{length} bytes, packet {sequence}");
        }
    }
}
