//! Datagrams with the number of those that the kernel has dropped before them.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// The size of the largest datagram in bytes: a length has 16 bits.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Words for a control message with a number: a header of 16 bytes, and 8 bytes for the number.
const CONTROL_WORDS: usize = 3;

/// The numbers of `SO_MEMINFO`, and the place of the dropped datagrams (`SK_MEMINFO_DROPS`).
const MEMINFO_NUMBERS: usize = 9;
const DROPS: usize = 8;

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

/// Returns the number of datagrams that the kernel has dropped so far.
pub(super) fn drops(socket: &UdpSocket) -> io::Result<u32> {
    let mut numbers = [0_u32; MEMINFO_NUMBERS];
    let mut size = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the descriptor is open. The numbers and their size live for the call.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if got == 0 { Ok(numbers[DROPS]) } else { Err(io::Error::last_os_error()) }
}

/// Receives a datagram, without a wait. Returns the size in bytes, and the number of datagrams that
/// the kernel has dropped so far; `None`: none yet.
///
/// # Errors
/// `WouldBlock` if nothing has arrived.
pub(super) fn receive(socket: &UdpSocket, out: &mut [u8]) -> io::Result<(usize, Option<u32>)> {
    let mut part = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: a message of zeros is a message without parts.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    // SAFETY: the descriptor is open. The message and all that it points to live for the call.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let Ok(received) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the kernel has filled the message in.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if first.is_null() {
        return Ok((received, None));
    }
    // SAFETY: the header is whole, because `CMSG_FIRSTHDR` checks the length.
    let (level, kind) = unsafe { ((*first).cmsg_level, (*first).cmsg_type) };
    if (level, kind) != (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) {
        return Ok((received, None));
    }
    // SAFETY: a message of this kind has a number of 32 bits.
    let dropped = unsafe { libc::CMSG_DATA(first).cast::<u32>().read_unaligned() };
    Ok((received, Some(dropped)))
}
