//! UDP sockets (RFC 768).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg, sockopt,
};

use super::fork::{self, Descriptor};

/// The receive buffer that a receiver asks for; the kernel counts twice as much. The system may
/// allow less (`/proc/sys/net/core/rmem_max`). With more, more packets wait under overload.
const RECEIVE_BUFFER: usize = 512 << 10;

/// One end of a path of datagrams.
#[derive(Debug)]
pub(crate) struct UdpEnd(Descriptor<UdpSocket>);

impl UdpEnd {
    /// The most bytes of a datagram (IPv4).
    pub(crate) const DATAGRAM_MAX: usize = 65_507;

    /// Opens one on a free port of an address of this host.
    ///
    /// # Errors
    /// A lack of descriptors or ports.
    pub(crate) fn bind(address: IpAddr) -> io::Result<Self> {
        fork::open_one(|| UdpSocket::bind((address, 0))).map(Self)
    }

    /// Returns its address.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Sets where it sends to.
    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.0.connect(to)
    }

    /// Makes the receive buffer large, and returns its size by the kernel's count.
    pub(crate) fn grow_receive_buffer(&self) -> io::Result<u64> {
        sockopt::set_socket_recv_buffer_size(&*self.0, RECEIVE_BUFFER)?;
        Ok(sockopt::socket_recv_buffer_size(&*self.0)? as u64)
    }

    /// Limits how long [`UdpEnd::receive`] blocks.
    pub(crate) fn set_receive_timeout(&self, longest: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(longest))
    }

    /// Sends a datagram in two parts to the end that this one is bound to. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if the socket is full. Other errors are of datagrams before.
    pub(crate) fn send(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(header), IoSlice::new(payload)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&*self.0, &parts, &mut SendAncillaryBuffer::default(), flags)?;
        Ok(())
    }

    /// Receives a datagram in two parts, and returns its bytes.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived; with `blocks`, within the time limit.
    pub(crate) fn receive(&self, header: &mut [u8], payload: &mut [u8], blocks: bool) -> io::Result<usize> {
        let mut parts = [IoSliceMut::new(header), IoSliceMut::new(payload)];
        let flags = if blocks { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        Ok(recvmsg(&*self.0, &mut parts, &mut RecvAncillaryBuffer::default(), flags)?.bytes)
    }
}

impl AsFd for UdpEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
