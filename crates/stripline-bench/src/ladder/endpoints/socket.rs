//! Bare sockets: packets of a fixed length without a header, and one write for each packet.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use super::super::case::{Case, Measure, Wait};
use super::super::measure::{self, Receiver, Sender, Side};
use crate::Problem;

/// Bytes per read while many packets are buffered.
const BUFFER: usize = 1 << 16;

/// Connects one side over two connections, one for sending and one for receiving. Unix and TCP
/// sockets use the same calls.
///
/// Each direction has a separate socket, as a one-way stream of packets has. One socket for both
/// directions is faster, because the reply reuses the memory that the request has just left. But a
/// packet that is sent one way has no reply.
///
/// # Safety
/// The caller must pass open descriptors, and must give up their ownership.
pub(crate) unsafe fn connect(
    case: &Case,
    place: u32,
    descriptors: [RawFd; 2],
) -> Result<Box<dyn Side>, Problem> {
    // SAFETY: the caller guarantees that the descriptors are open and owned (`# Safety`).
    let [sending, reading] = descriptors.map(|fd| UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    let spin = case.wait == Wait::Spin;
    let text = |e: std::io::Error| format!("socket: {e}");
    sending.set_nonblocking(spin).map_err(text)?;
    reading.set_nonblocking(spin).map_err(text)?;
    let reading = Socket { socket: reading, spin };
    let sending = SocketSender { socket: Socket { socket: sending, spin }, bytes: vec![0; case.size] };
    let bytes = vec![0; case.size];
    if case.measure == Measure::Throughput {
        // A read takes several packets, if they have arrived.
        let socket = BufReader::with_capacity(BUFFER, reading);
        return Ok(measure::side(case, place, sending, SocketReceiver { socket, bytes }));
    }
    Ok(measure::side(case, place, sending, SocketReceiver { socket: reading, bytes }))
}

/// A socket. If the case asks for it, the socket is polled and the side does not sleep.
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

struct SocketSender {
    socket: Socket,
    bytes: Vec<u8>,
}

impl Sender for SocketSender {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        measure::write(&mut self.bytes, word);
        self.socket.write_all(&self.bytes).map_err(|e| format!("socket: {e}"))
    }
}

struct SocketReceiver<R> {
    socket: R,
    bytes: Vec<u8>,
}

impl<R: Read> Receiver for SocketReceiver<R> {
    fn receive(&mut self) -> Result<u64, Problem> {
        self.socket.read_exact(&mut self.bytes).map_err(|e| format!("socket: {e}"))?;
        measure::read(&self.bytes)
    }
}
