//! Many datagrams with one system call, with the payloads straight in a loan.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use super::packet::{PROLOGUE_MAX, WORD};

/// The most datagrams of a call.
pub(super) const BATCH_MAX: usize = 64;
/// The fewest datagrams that a call has room for.
const BATCH_MIN: usize = 8;
/// The size of the largest datagram in bytes: a length has 16 bits.
const DATAGRAM_BYTES_MAX: usize = 1 << 16;
/// The size of a `sockaddr_in6` in bytes, the longest address of a sender.
const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();
/// The parts of a datagram: the words before the payload, the payload, and the rest.
const PARTS: usize = 3;

/// The expected layout of datagrams: bytes before the payload, and bytes of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub before: usize,
    pub payload: usize,
}

/// Memory for datagrams, and the datagrams of the last call.
pub(super) struct Batch {
    heads: Vec<[u8; PROLOGUE_MAX]>,
    names: Vec<[u8; NAME_BYTES]>,
    /// The part of each datagram that is beyond the expected layout.
    rests: Vec<u8>,
    lengths: Vec<usize>,
    /// The layout of the last call.
    split: Split,
    /// The arguments of a call, which sets as many as it needs.
    messages: Vec<libc::mmsghdr>,
    parts: Vec<[libc::iovec; PARTS]>,
    /// The number of datagrams that the next call has room for: twice what the last one found,
    /// because each costs time also if none arrives.
    room: usize,
}

impl Batch {
    pub fn new() -> Self {
        Self {
            heads: vec![[0; PROLOGUE_MAX]; BATCH_MAX],
            names: vec![[0; NAME_BYTES]; BATCH_MAX],
            // Pages that no datagram needs are never touched.
            rests: vec![0; BATCH_MAX * DATAGRAM_BYTES_MAX],
            lengths: Vec::with_capacity(BATCH_MAX),
            split: Split { before: 0, payload: 0 },
            // SAFETY: messages of zeros are messages without parts.
            messages: vec![unsafe { zeroed() }; BATCH_MAX],
            parts: vec![[libc::iovec { iov_base: null_mut(), iov_len: 0 }; PARTS]; BATCH_MAX],
            room: BATCH_MIN,
        }
    }

    /// Returns the number of datagrams that the next call has room for.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Receives datagrams that have arrived, or with `waits` waits for the first one for the time
    /// that the socket sets: as many as `payloads` has room for, if the layout has a payload.
    /// Returns their number.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived.
    pub fn receive(
        &mut self,
        socket: &UdpSocket,
        waits: bool,
        split: Split,
        payloads: &mut [u8],
    ) -> io::Result<usize> {
        let before = split.before.min(PROLOGUE_MAX);
        self.split = Split { before, ..split };
        self.lengths.clear();
        let count = payloads.len().checked_div(split.payload).map_or(BATCH_MAX, |room| room.min(BATCH_MAX));
        let mut places = payloads.chunks_exact_mut(split.payload.max(1));
        for (index, (message, parts)) in self.messages.iter_mut().zip(&mut self.parts).enumerate().take(count)
        {
            let place: &mut [u8] =
                if split.payload > 0 { places.next().unwrap_or_default() } else { Default::default() };
            let rest = &mut self.rests[index * DATAGRAM_BYTES_MAX..][..DATAGRAM_BYTES_MAX];
            for (part, memory) in parts.iter_mut().zip([&mut self.heads[index][..before], place, rest]) {
                *part = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
            }
            let header = &mut message.msg_hdr;
            (header.msg_iov, header.msg_iovlen) = (parts.as_mut_ptr(), PARTS);
            let name = &mut self.names[index];
            (header.msg_name, header.msg_namelen) = (name.as_mut_ptr().cast(), NAME_BYTES as _);
        }
        let flags = if waits { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: the descriptor is open. The first `count` messages were set above; all that they
        // point to lives for the call, and no two of them share memory.
        let received = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), count as _, flags, null_mut())
        };
        let Ok(received) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
        self.room = (2 * received).clamp(BATCH_MIN, BATCH_MAX);
        self.lengths.extend(self.messages.iter().take(received).map(|message| message.msg_len as usize));
        Ok(received)
    }

    /// Returns the number of bytes of a datagram.
    pub fn length(&self, index: usize) -> usize {
        self.lengths[index]
    }

    /// Returns the bytes of a datagram before the payload, by the layout of the call.
    pub fn before(&self, index: usize) -> &[u8] {
        let head = &self.heads[index][..self.split.before];
        &head[..head.len().min(self.lengths[index])]
    }

    /// Returns the first word beyond the layout.
    pub fn word_behind(&self, index: usize) -> &[u8] {
        &self.rests[index * DATAGRAM_BYTES_MAX..][..WORD]
    }

    /// Returns the whole datagram, if no layout was expected.
    pub fn datagram(&self, index: usize) -> &[u8] {
        &self.rests[index * DATAGRAM_BYTES_MAX..][..self.lengths[index]]
    }

    /// Appends the whole datagram to `out`. `payload` is the place of its payload.
    pub fn append_to(&self, index: usize, payload: &[u8], out: &mut Vec<u8>) {
        let mut left = self.lengths[index];
        let rest = &self.rests[index * DATAGRAM_BYTES_MAX..][..DATAGRAM_BYTES_MAX];
        for part in [&self.heads[index][..self.split.before], payload, rest] {
            let bytes = left.min(part.len());
            out.extend_from_slice(&part[..bytes]);
            left -= bytes;
        }
    }

    /// Returns the address of a datagram's sender, byte by byte, to compare.
    pub fn sender(&self, index: usize) -> Peer {
        Peer(self.names[index])
    }
}

/// The address of a sender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer([u8; NAME_BYTES]);

impl Peer {
    pub fn address(self) -> Option<SocketAddr> {
        let name = self.0;
        let port = u16::from_be_bytes([name[2], name[3]]);
        match i32::from(u16::from_ne_bytes([name[0], name[1]])) {
            libc::AF_INET => Some((<[u8; 4]>::try_from(&name[4..8]).ok()?, port).into()),
            libc::AF_INET6 => Some((<[u8; 16]>::try_from(&name[8..24]).ok()?, port).into()),
            _ => None,
        }
    }
}
