//! The queue of a socket for datagrams.

use std::io;
use std::mem::size_of_val;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// No datagram takes fewer bytes in a queue: the kernel's own description of one is as long.
const QUEUED_BYTES_MIN: u32 = 128;
/// The numbers of `SO_MEMINFO`, and the places of the bytes in the queue (`SK_MEMINFO_RMEM_ALLOC`)
/// and of the dropped datagrams (`SK_MEMINFO_DROPS`).
const MEMINFO_NUMBERS: usize = 9;
const QUEUED: usize = 0;
const DROPS: usize = 8;

/// The memory of a socket's queue.
pub struct QueueMemory {
    /// No more datagrams than this are in the queue.
    pub datagrams_max: u32,
    /// The number of datagrams that the kernel has dropped so far, which wraps.
    pub dropped: u32,
}

impl QueueMemory {
    /// Asks the system.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn of(socket: &UdpSocket) -> io::Result<Self> {
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
        let own =
            || Self { datagrams_max: numbers[QUEUED].div_ceil(QUEUED_BYTES_MIN), dropped: numbers[DROPS] };
        if got == 0 { Ok(own()) } else { Err(io::Error::last_os_error()) }
    }
}
