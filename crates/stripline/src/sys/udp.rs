//! UDP sockets (RFC 768), and multicast (RFC 1112).

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, send, sendmsg, socket_with,
    sockopt,
};

use super::fork::{self, Descriptor};

/// The receive buffer that a receiver requests. The kernel doubles this number, and the system may
/// allow less (`/proc/sys/net/core/rmem_max`). A larger buffer lets more packets wait under
/// overload.
const RECEIVE_BUFFER: usize = 512 << 10;

/// The maximum size of a datagram that is copied together first, in bytes: `send` takes 100 to 150
/// ns less than `sendmsg`, which first reads the addresses of the parts.
const JOINED_MAX: usize = 1536;

/// Bytes of the header of UDP.
const UDP_HEADER: usize = 8;

/// The interface by which a multicast group is reached: given by an index, or else by one of the
/// interface's addresses. If both are zero, the system's route selects the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MulticastInterface {
    pub address: Ipv4Addr,
    pub index: u32,
}

impl Default for MulticastInterface {
    fn default() -> Self {
        Self { address: Ipv4Addr::UNSPECIFIED, index: 0 }
    }
}

impl MulticastInterface {
    /// Returns the interface of that name.
    ///
    /// # Errors
    /// No interface has that name.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let socket = fork::open_one(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let index = rustix::net::netdevice::name_to_index(&*socket, name)?;
        Ok(Self { index, ..Self::default() })
    }
}

/// An end of a path of datagrams.
#[derive(Debug)]
pub(crate) struct UdpEnd {
    pub(super) socket: Descriptor<UdpSocket>,
    /// Whether the kernel cuts a send into datagrams (`udp_batch.rs`).
    pub(super) cuts: AtomicBool,
    /// Whether the kernel joins datagrams that arrive together.
    pub(super) joins: AtomicBool,
}

impl UdpEnd {
    /// The maximum size of a datagram in bytes (IPv4).
    pub(crate) const DATAGRAM_MAX: usize = 65_507;

    /// Opens an end on a free port of an address of this host.
    ///
    /// # Errors
    /// A lack of descriptors or ports.
    pub(crate) fn bind(address: IpAddr) -> io::Result<Self> {
        fork::open_one(|| UdpSocket::bind((address, 0))).map(Self::of)
    }

    /// Opens an end on an address that another socket had before.
    #[cfg(test)]
    pub(super) fn bind_to(address: SocketAddrV4) -> io::Result<Self> {
        fork::open_one(|| UdpSocket::bind(address)).map(Self::of)
    }

    /// Opens the receiving end of a group. Other sockets of this host may join the group as well,
    /// and each gets every datagram.
    ///
    /// # Errors
    /// A lack of descriptors or memberships, or an interface without multicast.
    pub(crate) fn join(group: SocketAddrV4, interface: MulticastInterface) -> io::Result<Self> {
        let end = Self::unbound()?;
        sockopt::set_socket_reuseaddr(&*end.socket, true)?;
        // Bind to the address of the group, so that no other traffic to this port arrives.
        rustix::net::bind(&*end.socket, &group)?;
        let MulticastInterface { address, index } = interface;
        sockopt::set_ip_add_membership_with_ifindex(&*end.socket, group.ip(), &address, index)?;
        end.refuse_other_interfaces()?;
        Ok(end)
    }

    /// Opens the sending end of a group. A datagram passes at most `ttl` routers. Receivers of this
    /// host get it, too.
    ///
    /// # Errors
    /// A lack of descriptors, or no route to the group over that interface.
    pub(crate) fn to_group(group: SocketAddrV4, interface: MulticastInterface, ttl: u32) -> io::Result<Self> {
        let end = Self::unbound()?;
        let MulticastInterface { address, index } = interface;
        sockopt::set_ip_multicast_if_with_ifindex(&*end.socket, group.ip(), &address, index)?;
        sockopt::set_ip_multicast_ttl(&*end.socket, ttl)?;
        sockopt::set_ip_multicast_loop(&*end.socket, true)?;
        end.connect(group.into())?;
        Ok(end)
    }

    fn unbound() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let open = || socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None).map(UdpSocket::from);
        Ok(fork::open_one(open).map(Self::of)?)
    }

    fn of(socket: Descriptor<UdpSocket>) -> Self {
        Self { socket, cuts: AtomicBool::new(false), joins: AtomicBool::new(false) }
    }

    /// Accepts datagrams only from an interface that this socket has joined on, and not from the
    /// interfaces that other sockets of the host have joined on.
    fn refuse_other_interfaces(&self) -> io::Result<()> {
        self.set_option::<libc::c_int>(libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, &0)
    }

    /// Sets an option with a numeric value.
    pub(super) fn set_option<T: Copy>(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        value: &T,
    ) -> io::Result<()> {
        let (value, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
        // SAFETY: the descriptor is open, and the value lives for the call and has these bytes.
        let outcome = unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, name, value, bytes) };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Limits the rate of this end, in megabits per second. The queue of the interface enforces it
    /// (`fq`).
    pub(crate) fn set_pace(&self, mbps: Option<u32>) -> io::Result<()> {
        let Some(mbps) = mbps else { return Ok(()) };
        let bytes_per_second = u64::from(mbps) * 125_000;
        self.set_option(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_second)
    }

    /// Returns the maximum size of a datagram that is not fragmented on the way, in bytes. The
    /// interface that a connected end sends over sets the limit. The loopback interface takes the
    /// largest datagram.
    pub(crate) fn datagram_max(&self) -> io::Result<usize> {
        if self.socket.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
            return Ok(Self::DATAGRAM_MAX);
        }
        let ip_header = if self.socket.local_addr()?.is_ipv6() { 40 } else { 20 };
        let mtu = sockopt::ip_mtu(&*self.socket)? as usize;
        Ok(mtu.saturating_sub(ip_header + UDP_HEADER).min(Self::DATAGRAM_MAX))
    }

    /// Returns the end's address.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sets the destination.
    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(to)?;
        self.detect_cuts();
        Ok(())
    }

    /// Makes the receive buffer large, or `bytes` large if given. Returns the size that the kernel
    /// counts.
    pub(crate) fn grow_receive_buffer(&self, bytes: Option<u32>) -> io::Result<u64> {
        let bytes = bytes.map_or(RECEIVE_BUFFER, |bytes| bytes as usize);
        sockopt::set_socket_recv_buffer_size(&*self.socket, bytes)?;
        Ok(sockopt::socket_recv_buffer_size(&*self.socket)? as u64)
    }

    /// Limits how long [`UdpEnd::receive`] blocks.
    pub(crate) fn set_receive_timeout(&self, longest: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(longest))
    }

    /// Sends a datagram in two parts to the connected end. Never blocks. A datagram with an empty
    /// payload is not copied on the way.
    ///
    /// # Errors
    /// `WouldBlock` if the socket is full. Any other error belongs to an earlier datagram.
    pub(crate) fn send(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if payload.is_empty() {
            send(&*self.socket, header, flags)?;
            return Ok(());
        }
        let bytes = header.len() + payload.len();
        if bytes <= JOINED_MAX {
            let mut joined = [0; JOINED_MAX];
            joined[..header.len()].copy_from_slice(header);
            joined[header.len()..bytes].copy_from_slice(payload);
            send(&*self.socket, &joined[..bytes], flags)?;
            return Ok(());
        }
        let parts = [IoSlice::new(header), IoSlice::new(payload)];
        sendmsg(&*self.socket, &parts, &mut SendAncillaryBuffer::default(), flags)?;
        Ok(())
    }
}

impl AsFd for UdpEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that each receiver of a group gets every datagram of the group, and none of another
    /// group.
    #[test]
    fn a_group_gets_each_datagram_once() {
        let port = UdpEnd::bind(Ipv4Addr::LOCALHOST.into()).unwrap().address().unwrap().port();
        let group = |last| SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, last), port);
        let address = MulticastInterface { address: Ipv4Addr::LOCALHOST, index: 0 };
        for interface in [MulticastInterface::named("lo").unwrap(), address] {
            let ends = [1, 1, 2].map(|last| UdpEnd::join(group(last), interface).unwrap());
            let senders = [1, 2].map(|last| UdpEnd::to_group(group(last), interface, 0).unwrap());
            assert_eq!(senders[0].datagram_max().unwrap(), UdpEnd::DATAGRAM_MAX);
            senders[0].send(b"one", b"!").unwrap();
            senders[1].send(b"two", b"!").unwrap();
            let (mut header, mut payload, mut more) = ([0; 3], [0; 8], Vec::new());
            for (end, expected) in ends.iter().zip([b"one", b"one", b"two"]) {
                assert_eq!(end.receive(&mut header, &mut payload, true, &mut more).unwrap(), 4);
                assert_eq!(&header, expected);
                let empty = end.receive(&mut header, &mut payload, false, &mut more).unwrap_err();
                assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
            }
        }
        assert!(MulticastInterface::named("no-such-if").is_err());
    }
}
