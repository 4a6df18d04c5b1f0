//! Bare UDP sockets on the loopback interface. Each packet is one datagram and one system call. UDP
//! drops a datagram if the receiver's buffer is full. Therefore the receiver acknowledges
//! datagrams, and the sender keeps to a window. The window counts the bytes that the kernel charges
//! for a datagram, as in Stripline.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};

use super::super::case::Case;
use super::super::measure::{self, Receiver, Sender, Side};
use crate::Problem;

/// The largest packet: a full datagram (IPv4).
pub(crate) const SIZE_MAX: usize = 65_507;
/// The requested receive buffer, which is as large as in Stripline's transport.
const BUFFER: usize = 512 << 10;
/// Polls before a sleep, and processor pauses after each poll, as in Stripline's transport.
const POLLS: u32 = 8;
const PAUSES: u32 = 8;

/// Opens two sockets that are connected to each other.
pub(crate) fn pair() -> std::io::Result<[OwnedFd; 2]> {
    let [near, far] = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    for socket in [&near, &far] {
        sockopt::set_socket_recv_buffer_size(socket, BUFFER)?;
    }
    Ok([near.into(), far.into()])
}

/// Connects one side, which sends on one socket and receives from the other.
///
/// # Safety
/// The caller must pass open descriptors, and must give up their ownership.
pub(crate) unsafe fn connect(
    case: &Case,
    place: u32,
    descriptors: [RawFd; 2],
) -> Result<Box<dyn Side>, Problem> {
    // SAFETY: the caller guarantees that the descriptors are open and owned (`# Safety`).
    let [sending, reading] = descriptors.map(|fd| UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    let buffer = sockopt::socket_recv_buffer_size(&reading).map_err(|e| problem(e.into()))?;
    // A quarter may be counted late. If the kernel reports no charge, twice the bytes and a
    // kilobyte are enough.
    let charge = charge(case.size).unwrap_or(2 * case.size + 1024);
    let window = (buffer / 4 * 3 / charge).max(1) as u64;
    let bytes = vec![0; case.size];
    let sender = DatagramSender { socket: sending, bytes: bytes.clone(), window, sent: 0, acknowledged: 0 };
    let receiver = DatagramReceiver { socket: reading, bytes, period: (window / 6).max(1), received: 0 };
    Ok(measure::side(case, place, sender, receiver))
}

/// Returns the bytes that the kernel charges for a datagram of `size` bytes; `None` if the kernel
/// does not report this.
fn charge(size: usize) -> Option<usize> {
    let [near, far] = pair().ok()?.map(UdpSocket::from);
    near.send(&vec![0; size]).ok()?;
    far.peek(&mut [0; 8]).ok()?;
    let mut numbers = [0_u32; 9];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    let (fd, place) = (far.as_raw_fd(), numbers.as_mut_ptr().cast());
    // SAFETY: the descriptor is open, and there is room for `bytes` bytes.
    let outcome = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, place, &raw mut bytes) };
    (outcome == 0 && numbers[0] as usize >= size).then_some(numbers[0] as usize)
}

fn problem(error: std::io::Error) -> Problem {
    format!("UDP socket: {error}")
}

/// Repeats a call that a signal interrupted.
fn call(mut act: impl FnMut() -> std::io::Result<usize>) -> Result<usize, Problem> {
    loop {
        match act() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            result => return result.map_err(problem),
        }
    }
}

struct DatagramSender {
    socket: UdpSocket,
    bytes: Vec<u8>,
    window: u64,
    sent: u64,
    acknowledged: u64,
}

impl Sender for DatagramSender {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        while self.sent - self.acknowledged >= self.window {
            let mut count = [0; 8];
            call(|| self.socket.recv(&mut count))?;
            self.acknowledged = u64::from_le_bytes(count);
        }
        measure::write(&mut self.bytes, word);
        call(|| self.socket.send(&self.bytes))?;
        self.sent += 1;
        Ok(())
    }
}

struct DatagramReceiver {
    socket: UdpSocket,
    bytes: Vec<u8>,
    /// Packets between two acknowledgements.
    period: u64,
    received: u64,
}

impl DatagramReceiver {
    /// Polls before a sleep, as Stripline's receiver does, because a wake costs the sender more.
    fn poll(&mut self) -> Result<bool, Problem> {
        for _ in 0..POLLS {
            match recv(&self.socket, &mut *self.bytes, RecvFlags::DONTWAIT) {
                Ok(_) => return Ok(true),
                Err(Errno::WOULDBLOCK | Errno::INTR) => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
                Err(e) => return Err(problem(e.into())),
            }
        }
        Ok(false)
    }
}

impl Receiver for DatagramReceiver {
    fn receive(&mut self) -> Result<u64, Problem> {
        if !self.poll()? {
            call(|| self.socket.recv(&mut self.bytes))?;
        }
        self.received += 1;
        if self.received.is_multiple_of(self.period) {
            call(|| self.socket.send(&self.received.to_le_bytes()))?;
        }
        measure::read(&self.bytes)
    }
}
