//! Bare sockets: packets of a known length, no header, one write a packet.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use super::super::Problem;
use super::super::case::{Case, Measure, Outcome, Wait};
use super::super::measure::{self, Receiver, Sender};

/// What is read at once where packets come in numbers.
const BUFFER: usize = 1 << 16;

/// The ends of two connections, to send to and to receive from, Unix or TCP: the calls are the same. A stream of packets
/// has a socket for itself, and so has the one that goes back: one socket for both ways is quicker (its reply takes the
/// memory that the request has just left), but there is no reply to a packet that is sent one way.
///
/// # Safety
/// The descriptors are open, and nobody else's.
pub(crate) unsafe fn run(
    case: &Case,
    place: u32,
    seconds: f64,
    descriptors: [RawFd; 2],
) -> Result<Outcome, Problem> {
    // SAFETY: the caller's promise.
    let [sending, reading] = descriptors.map(|fd| UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    let spin = case.wait == Wait::Spin;
    let text = |e: std::io::Error| format!("socket: {e}");
    sending.set_nonblocking(spin).map_err(text)?;
    reading.set_nonblocking(spin).map_err(text)?;
    let reading = Socket { socket: reading, spin };
    let sending = Sending { socket: Socket { socket: sending, spin }, bytes: vec![0; case.size] };
    let bytes = vec![0; case.size];
    if case.measure == Measure::Throughput {
        // Many packets a call, where they are there.
        let socket = BufReader::with_capacity(BUFFER, reading);
        return super::run_pair(case, place, seconds, sending, Receiving { socket, bytes });
    }
    super::run_pair(case, place, seconds, sending, Receiving { socket: reading, bytes })
}

/// A socket that is asked again and again instead of slept on, if so wished.
struct Socket {
    socket: UnixStream,
    spin: bool,
}

impl Socket {
    fn again(&self, result: &std::io::Result<usize>) -> bool {
        self.spin && matches!(result, Err(e) if e.kind() == ErrorKind::WouldBlock)
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let result = self.socket.read(bytes);
            if !self.again(&result) {
                return result;
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            let result = self.socket.write(bytes);
            if !self.again(&result) {
                return result;
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Sending {
    socket: Socket,
    bytes: Vec<u8>,
}

impl Sender for Sending {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        measure::write(&mut self.bytes, word);
        self.socket.write_all(&self.bytes).map_err(|e| format!("socket: {e}"))
    }
}

struct Receiving<R> {
    socket: R,
    bytes: Vec<u8>,
}

impl<R: Read> Receiver for Receiving<R> {
    fn receive(&mut self) -> Result<u64, Problem> {
        self.socket.read_exact(&mut self.bytes).map_err(|e| format!("socket: {e}"))?;
        measure::read(&self.bytes)
    }
}
