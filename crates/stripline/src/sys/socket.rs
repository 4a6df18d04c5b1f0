//! Local sockets: names that vanish with their owner (`socket_place.rs` has their places), peer
//! credentials, and descriptors in messages.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::ioctl::{self, Getter};
use rustix::net::sockopt::{self, Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
};

use crate::error::{Error, Result};

use super::credentials::Peer;
use super::fork::{self, Descriptor, Local};
use super::lease::TcpSocket;
use super::runtime_folder::SocketFile;
use super::socket_place::{SocketPlace, SocketTarget};
use crate::terms::Group;

/// The maximum number of descriptors in a message.
pub(crate) const FDS_MAX: usize = 8;
/// `SIOCOUTQ`.
const UNACKNOWLEDGED: ioctl::Opcode = 0x5411;
/// The longest time for a connection to a local socket.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// A connected byte stream of either family.
#[derive(Debug)]
pub enum Socket {
    Unix(Descriptor<UnixStream>),
    Tcp(TcpSocket),
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(Descriptor::new(stream))
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(TcpSocket::new(Descriptor::new(stream)))
    }
}

impl Socket {
    pub(crate) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self, on)?)
    }

    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        set_socket_timeout(self, Timeout::Recv, Some(timeout))?;
        Ok(set_socket_timeout(self, Timeout::Send, Some(timeout))?)
    }

    pub(crate) fn close(&self) {
        let _ = rustix::net::shutdown(self, Shutdown::Both);
    }

    /// Ends the writing direction. Bytes written before can still be read.
    pub(crate) fn close_writing(&self) {
        let _ = rustix::net::shutdown(self, Shutdown::Write);
    }

    /// Waits until the other host has all the written bytes, the other end has closed, or the time
    /// limit has passed. Over TCP, closing a socket with unread bytes discards the bytes on their
    /// way, so arriving bytes are read here.
    pub(crate) fn await_delivery(&self, until: Instant) {
        let Self::Tcp(stream) = self else { return };
        let mut buffer = [0; 4096];
        loop {
            match rustix::net::recv(stream, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((read, _)) if read > 0 => continue,
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => {}
                _ => return,
            }
            // SAFETY: the call writes an `int`: the number of bytes that the other host has not
            // acknowledged.
            let unacknowledged = unsafe { ioctl::ioctl(stream, Getter::<UNACKNOWLEDGED, i32>::new()) };
            if unacknowledged.unwrap_or(0) == 0 || Instant::now() >= until {
                return;
            }
            let pause = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
            let _ = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&pause));
        }
    }

    /// Returns whether the other end has closed, even if bytes from it are left to read.
    pub(crate) fn has_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::RDHUP)];
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(_) => fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR),
            Err(_) => false,
        }
    }

    /// Returns whether the other end may belong to another user.
    pub(crate) fn is_other_user(&self) -> bool {
        match self {
            Self::Unix(s) => Peer::of(s).map_or(true, |peer| peer.is_other_user()),
            Self::Tcp(_) => true,
        }
    }

    /// Returns a stream that was received as a descriptor.
    ///
    /// # Errors
    /// The descriptor is not of a stream.
    pub(crate) fn of_stream(fd: OwnedFd) -> io::Result<Self> {
        let is_stream = sockopt::socket_type(&fd)? == SocketType::STREAM;
        match sockopt::socket_domain(&fd)? {
            AddressFamily::UNIX if is_stream => Ok(Self::from(UnixStream::from(fd))),
            AddressFamily::INET | AddressFamily::INET6 if is_stream => Ok(Self::from(TcpStream::from(fd))),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Returns the socket's own address and the peer's; `None`: it is not a network socket.
    pub(crate) fn addresses(&self) -> Option<[std::net::SocketAddr; 2]> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(stream) => Some([stream.local_addr().ok()?, stream.peer_addr().ok()?]),
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(s) => Self::Unix(fork::open_one(|| s.try_clone())?),
            Self::Tcp(s) => Self::Tcp(s.try_clone()?),
        })
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(s) => (&mut &**s).read(buffer),
            Socket::Tcp(s) => (&mut &**s).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        // The C library's function is avoided, as it pays for thread cancellation. This call never
        // waits, because reads on the same socket may block.
        Ok(rustix::net::send(self, buffer, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(s) => s.as_fd(),
            Self::Tcp(s) => s.as_fd(),
        }
    }
}

/// A listening socket of either family.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket, open to the same user, and to the members of the group if one is given.
    Unix {
        /// The first field, so that the file is removed before the socket is closed.
        file: Option<Local<SocketFile>>,
        listener: Descriptor<UnixListener>,
        group: Option<Group>,
    },
    Tcp(Descriptor<TcpListener>),
}

/// A non-blocking connection that a listener has accepted.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// A connection from a peer with access to the link, and the peer's process if the kernel names
    /// it.
    Peer(Socket, Option<u32>),
    /// A connection from a peer without access, and the reason, which is sent to the peer.
    Rejected(Socket, String),
}

impl Listener {
    /// Listens on a Unix name, in the place selected by the environment.
    ///
    /// # Errors
    /// `AddrInUse` within [`Error::System`] when another process has the name.
    pub(crate) fn unix(name: &str, group: Option<Group>) -> Result<Self> {
        match SocketPlace::current()? {
            SocketPlace::Abstract => Self::abstract_name(name, group),
            SocketPlace::Folder(folder) => {
                let (listener, file) = folder.make()?.listen(name, group)?;
                Ok(Self::Unix { file: Some(file), listener, group })
            }
        }
    }

    /// Listens on an abstract Unix name. The name has no file, and vanishes with the last
    /// descriptor.
    fn abstract_name(name: &str, group: Option<Group>) -> Result<Self> {
        let listening = || -> io::Result<_> {
            let address = SocketAddr::from_abstract_name(name)?;
            let listener = fork::open_one(|| UnixListener::bind_addr(&address))?;
            listener.set_nonblocking(true)?;
            lengthen_queue(&listener)?;
            Ok(Self::Unix { file: None, listener, group })
        };
        listening().map_err(|e| Error::system(format!("cannot listen on Unix socket @{name}"), e))
    }

    /// Listens on a free port of one address of this host.
    ///
    /// # Errors
    /// The error names the address if the host does not have it.
    pub(crate) fn tcp(address: IpAddr) -> Result<(Self, std::net::SocketAddr)> {
        let listening = || -> io::Result<_> {
            let listener = fork::open_one(|| TcpListener::bind((address, 0)))?;
            listener.set_nonblocking(true)?;
            lengthen_queue(&listener)?;
            let address = listener.local_addr()?;
            Ok((Self::Tcp(listener), address))
        };
        listening().map_err(|e| {
            let remedy = match e.kind() {
                io::ErrorKind::AddrNotAvailable => {
                    " (this host does not have that address; `ip address` lists the addresses of this host)"
                }
                _ => "",
            };
            Error::system(format!("cannot listen on TCP {address}{remedy}"), e)
        })
    }

    /// Accepts a connection, if one is waiting. Does not block.
    ///
    /// # Errors
    /// The process or the system has no descriptor or memory for the connection, which goes on
    /// waiting.
    pub(crate) fn accept(&self) -> io::Result<Option<Accepted>> {
        loop {
            let accepted = match self {
                Self::Unix { listener, .. } => {
                    fork::open_one(|| listener.accept().map(|(stream, _)| stream)).map(Socket::Unix)
                }
                Self::Tcp(listener) => fork::open_one(|| listener.accept().map(|(stream, _)| stream))
                    .map(|stream| Socket::Tcp(TcpSocket::new(stream))),
            };
            let socket = match accepted.and_then(|socket| socket.set_nonblocking(true).map(|()| socket)) {
                Ok(socket) => socket,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) => match e.raw_os_error() {
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => return Err(e),
                    // The connection ended before it was accepted; another one may be waiting.
                    _ => continue,
                },
            };
            let mut socket = socket;
            return Ok(Some(match self.check(&mut socket) {
                Ok(process) => Accepted::Peer(socket, process),
                Err(reason) => Accepted::Rejected(socket, reason),
            }));
        }
    }

    /// Takes out the socket file, if the listener has one, for an owner that removes the file
    /// earlier.
    pub(crate) fn take_file(&mut self) -> Option<Local<SocketFile>> {
        match self {
            Self::Unix { file, .. } => file.take(),
            Self::Tcp(_) => None,
        }
    }

    /// Checks access, and returns the peer's process if the kernel names it.
    fn check(&self, socket: &mut Socket) -> Result<Option<u32>, String> {
        match (self, socket) {
            (Self::Unix { group, .. }, Socket::Unix(stream)) => {
                let peer = Peer::of(stream).map_err(|e| e.to_string())?;
                peer.check(*group).map(|()| peer.process())
            }
            (_, Socket::Tcp(stream)) => stream.keep_lease().map(|()| None).map_err(|e| e.to_string()),
            (Self::Tcp(_), Socket::Unix(_)) => Err("a Unix socket at a TCP listener".into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix { listener, .. } => listener.as_fd(),
            Self::Tcp(l) => l.as_fd(),
        }
    }
}

/// Connects to a TCP address.
pub(crate) fn connect_tcp(address: &std::net::SocketAddr) -> io::Result<Socket> {
    let stream = TcpStream::connect_timeout(address, CONNECT_TIME)?;
    let mut socket = TcpSocket::new(Descriptor::new(stream));
    socket.keep_lease()?;
    Ok(Socket::Tcp(socket))
}

/// Sets the accept queue to the system's maximum (`net.core.somaxconn`). Beyond the queue, a TCP
/// peer would try again only after a second.
fn lengthen_queue(listener: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(listener, i32::MAX)?)
}

/// Returns the address of this host from which packets to `to` leave.
///
/// # Errors
/// The host has no route to `to`.
pub fn own_address(to: std::net::SocketAddr) -> Result<IpAddr> {
    use rustix::net;
    // Connecting a datagram socket sends nothing. The call binds the socket to the address of the
    // route.
    let failed = |e: rustix::io::Errno| Error::system(format!("there is no way to {to}"), e);
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map_err(failed)?;
    net::connect(&socket, &to).map_err(failed)?;
    let own = net::getsockname(&socket).map_err(failed)?;
    Ok(std::net::SocketAddr::try_from(own).map_err(failed)?.ip())
}

/// Connects to the address that a sending port has announced, like [`connect_unix`].
///
/// # Errors
/// The errors of [`connect_unix`], or an address in the other place: see [`SocketPlace::name`].
pub(crate) fn connect_address(address: &str, group: Option<Group>) -> Result<Descriptor<UnixStream>> {
    connect_unix(SocketPlace::current()?.name(address)?, group)
}

/// Connects to a Unix name, and checks that the same user or a member of the group listens there.
/// Blocks for [`CONNECT_TIME`] at most, because the listener's queue may be full.
pub(crate) fn connect_unix(name: &str, group: Option<Group>) -> Result<Descriptor<UnixStream>> {
    connect_unix_within(name, group, CONNECT_TIME)
}

fn connect_unix_within(name: &str, group: Option<Group>, time: Duration) -> Result<Descriptor<UnixStream>> {
    let connect = |socket: &UnixStream, target: &SocketTarget<'_>| -> io::Result<()> {
        set_socket_timeout(socket, Timeout::Send, Some(time))?;
        // Stopping and continuing a process interrupts a wait, even without a signal handler.
        while let Err(e) = target.connect(socket) {
            if e.kind() != io::ErrorKind::Interrupted {
                return Err(e);
            }
        }
        Ok(set_socket_timeout(socket, Timeout::Send, None)?)
    };
    connect_unix_by(name, group, SocketFlags::empty(), connect).map(|(stream, _)| stream)
}

/// Connects like [`connect_unix`], but never waits for a place in the listener's queue, and makes
/// the stream non-blocking. Also returns the listening process, if it has a number here.
///
/// # Errors
/// `WouldBlock` within [`Error::System`] if the queue is full.
pub(crate) fn connect_unix_at_once(
    name: &str,
    group: Option<Group>,
) -> Result<(Descriptor<UnixStream>, Option<u32>)> {
    let connect = |socket: &UnixStream, target: &SocketTarget<'_>| target.connect(socket);
    let (stream, peer) = connect_unix_by(name, group, SocketFlags::NONBLOCK, connect)?;
    Ok((stream, peer.process()))
}

/// Makes a socket, connects it, and checks the other end.
fn connect_unix_by(
    name: &str,
    group: Option<Group>,
    flags: SocketFlags,
    connect: impl FnOnce(&UnixStream, &SocketTarget<'_>) -> io::Result<()>,
) -> Result<(Descriptor<UnixStream>, Peer)> {
    let target = SocketPlace::current()?.target(name)?;
    let flags = flags | SocketFlags::CLOEXEC;
    let make = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let stream = fork::open_one(|| make().map(UnixStream::from))
        .map_err(io::Error::from)
        .and_then(|stream| connect(&stream, &target).map(|()| stream))
        .map_err(|e| Error::system(format!("cannot connect to Unix socket {target}"), e))?;
    let peer = Peer::of(&stream)?;
    peer.check(group).map_err(|who| Error::misbehaved(&target, format!("runs as another user: {who}")))?;
    Ok((stream, peer))
}

/// Returns the process that was at the other end of a Unix socket at the time of the connection.
pub(crate) fn peer_process(stream: &UnixStream) -> Option<u32> {
    Peer::of(stream).ok()?.process()
}

/// Sends some bytes. A peer that has hung up causes an error, not a signal.
pub(crate) fn send(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Returns the bytes written to a socket that the kernel still holds: see
/// [`crate::inspect::Reader::kernel_bytes`].
pub(crate) fn unsent_bytes(socket: &Socket) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as the borrow. The call writes an int, which lives
    // across the call.
    let answer = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if answer == 0 { u64::try_from(bytes).ok() } else { None }
}

/// Sends bytes with descriptors, which are all in one message.
pub(crate) fn send_with_fds(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one message"));
    }
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    // The descriptors were sent with the first byte; the rest is plain bytes.
    (&mut &*stream).write_all(&bytes[sent..])
}

/// Receives some bytes and the descriptors that came with them.
///
/// # Errors
/// An error of the system, or the kernel had to leave out descriptors, which are lost:
/// `InvalidData` if the message carries too many, otherwise `EMFILE`.
pub(crate) fn receive_with_fds(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    // Stopping and continuing a process interrupts a wait, even without a signal handler.
    let message = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(bytes)];
        rustix::net::recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if message.flags.contains(ReturnFlags::CTRUNC) {
        let (kind, what) = (io::ErrorKind::InvalidData, "more descriptors than a message may carry");
        // The kernel leaves out descriptors for which the message, or the table of this process,
        // has no room.
        return Err(match fds.len() {
            FDS_MAX.. => io::Error::new(kind, what),
            _ => io::Error::from_raw_os_error(libc::EMFILE),
        });
    }
    Ok((message.bytes, fds))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;
    use crate::sys::own_process::in_own_process;

    #[test]
    fn a_door_with_a_full_queue_is_not_waited_at_for_ever() {
        let name = format!("stripline-test-{}", std::process::id());
        let _listener = Listener::unix(&name, None).unwrap();
        // No connection is accepted. The system decides how many may queue.
        let mut queue = Vec::new();
        while let Ok(stream) = connect_unix_within(&name, None, Duration::from_millis(1)) {
            queue.push(stream);
            assert!(queue.len() < 100_000, "the queue has no end");
        }
        assert!(!queue.is_empty());
    }

    #[test]
    fn a_full_table_of_descriptors_is_no_fault_of_the_peer() {
        let test = "sys::socket::tests::a_full_table_of_descriptors_is_no_fault_of_the_peer";
        in_own_process(test, "full", || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            send_with_fds(&theirs, b"x", &[ours.as_fd(), ours.as_fd()]).unwrap();
            let all = getrlimit(Resource::Nofile);
            // There is room for only one of the two descriptors.
            let next = ours.try_clone().unwrap().as_raw_fd() as u64;
            setrlimit(Resource::Nofile, Rlimit { current: Some(next + 1), ..all }).unwrap();
            let error = receive_with_fds(&ours, &mut [0]).unwrap_err();
            setrlimit(Resource::Nofile, all).unwrap();
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
        });
    }
}
