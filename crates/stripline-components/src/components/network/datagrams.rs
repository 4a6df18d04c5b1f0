//! Datagrams with the number of those that the kernel has dropped before them.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// The size of the largest datagram in bytes: a length has 16 bits.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Words for a control message with a number: a header of 16 bytes, and 8 bytes for the number.
const CONTROL_WORDS: usize = 3;

/// The size of a `sockaddr_in6` in bytes, the longest address of a sender.
const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// Makes the kernel count the datagrams that it drops because the queue of the socket is full.
pub(super) fn count_drops(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the option is a number that lives for the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RXQ_OVFL,
            std::ptr::from_ref(&on).cast(),
            size,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A datagram that was received.
pub(super) struct Datagram {
    pub bytes: usize,
    /// The number of datagrams that the kernel has dropped so far; `None`: none yet.
    pub dropped: Option<u32>,
    pub sender: Option<SocketAddr>,
}

/// Receives a datagram, without a wait.
///
/// # Errors
/// `WouldBlock` if nothing has arrived.
pub(super) fn receive(socket: &UdpSocket, out: &mut [u8]) -> io::Result<Datagram> {
    let mut part = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let mut control = [0_u64; CONTROL_WORDS];
    let mut name = [0_u8; NAME_BYTES];
    // SAFETY: a message of zeros is a message without parts.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_name, message.msg_namelen) = (name.as_mut_ptr().cast(), size_of_val(&name) as _);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    // SAFETY: the descriptor is open. The message and all that it points to live for the call.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let Ok(bytes) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
    let datagram = Datagram { bytes, dropped: None, sender: address(&name) };
    // SAFETY: the kernel has filled the message in.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if first.is_null() {
        return Ok(datagram);
    }
    // SAFETY: the header is whole, because `CMSG_FIRSTHDR` checks the length.
    let (level, kind) = unsafe { ((*first).cmsg_level, (*first).cmsg_type) };
    if (level, kind) != (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) {
        return Ok(datagram);
    }
    // SAFETY: a message of this kind has a number of 32 bits.
    let dropped = unsafe { libc::CMSG_DATA(first).cast::<u32>().read_unaligned() };
    Ok(Datagram { dropped: Some(dropped), ..datagram })
}

/// Returns the address in a `sockaddr`.
fn address(name: &[u8; NAME_BYTES]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([name[2], name[3]]);
    match i32::from(u16::from_ne_bytes([name[0], name[1]])) {
        libc::AF_INET => Some((<[u8; 4]>::try_from(&name[4..8]).ok()?, port).into()),
        libc::AF_INET6 => Some((<[u8; 16]>::try_from(&name[8..24]).ok()?, port).into()),
        _ => None,
    }
}
