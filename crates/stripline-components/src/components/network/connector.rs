//! The connections of a TCP component, one after the other.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use stripline::component::Properties;
use stripline::{Error, Result};

use super::{not_opened, resolve, says_listens};
use crate::stoppable::{StoppableFile, wait_for};

/// The interval between attempts to connect.
const RETRY: Duration = Duration::from_millis(100);

/// The time without data after which a peer is probed, the interval of the probes, and the number
/// of unanswered probes that end a connection.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);

/// One side of TCP: it listens, or connects.
pub(super) struct Connector {
    address: String,
    /// Whether an address without a host was reported.
    is_reported: bool,
    side: Side,
}

enum Side {
    Listens(TcpListener),
    Connects { pending: Option<OwnedFd>, retry_at: Instant },
}

impl Connector {
    /// Opens the side that the properties `address` and `bind` name.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn open(properties: &Properties) -> Result<Self> {
        let address = properties.text("address").to_owned();
        let listen = || -> io::Result<TcpListener> {
            let listener = TcpListener::bind(resolve(&address)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let side = match properties.boolean("bind") {
            true => {
                let listener = listen().map_err(|error| not_opened("listen at", &address, error))?;
                says_listens("tcp", &address);
                Side::Listens(listener)
            }
            false => Side::Connects { pending: None, retry_at: Instant::now() },
        };
        Ok(Self { address, is_reported: false, side })
    }

    /// Waits for the first, or the next, connection.
    ///
    /// # Errors
    /// `BrokenPipe` if the run ends; the system has no socket left.
    pub fn wait(&mut self) -> io::Result<StoppableFile> {
        let peer = match &self.side {
            Side::Listens(_) => format!("a program to connect to {}", self.address),
            Side::Connects { .. } => format!("a program that listens at {}", self.address),
        };
        wait_for(&peer, || self.next())
    }

    /// Returns the next connection; `None`: no program has connected
    /// yet. Does not block.
    ///
    /// # Errors
    /// The system has no socket left.
    pub fn next(&mut self) -> io::Result<Option<StoppableFile>> {
        let socket = match &mut self.side {
            Side::Listens(listener) => match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    OwnedFd::from(stream)
                }
                Err(error) if is_passing(&error) => return Ok(None),
                Err(error) => return Err(error),
            },
            Side::Connects { pending, retry_at } => {
                if pending.is_none() && Instant::now() >= *retry_at {
                    *retry_at = Instant::now() + RETRY;
                    let resolved = resolve(&self.address);
                    if let Err(error) = &resolved
                        && !std::mem::replace(&mut self.is_reported, true)
                    {
                        let address = &self.address;
                        log::warn!(target: "stripline::tcp", "{address}: {error}; the name is looked up again and again");
                    }
                    *pending = resolved.ok().map(begin).transpose()?.flatten();
                }
                let Some(socket) = pending.take_if(|socket| has_ended(socket)) else { return Ok(None) };
                if !matches!(sockopt::socket_error(&socket), Ok(Ok(()))) || is_own(&socket) {
                    return Ok(None);
                }
                socket
            }
        };
        let (idle, interval, count) = KEEPALIVE;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, idle)?;
        sockopt::set_tcp_keepintvl(&socket, interval)?;
        sockopt::set_tcp_keepcnt(&socket, count)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        Ok(Some(StoppableFile::connection(socket)))
    }
}

/// Begins to connect; `None`: the address is refused for now.
fn begin(address: SocketAddr) -> io::Result<Option<OwnedFd>> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    Ok(matches!(connect(&socket, &address), Ok(()) | Err(Errno::INPROGRESS)).then_some(socket))
}

/// Returns whether an attempt to connect has ended.
fn has_ended(socket: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Returns whether a socket is connected to itself, as an attempt at an unused port may be.
fn is_own(socket: &OwnedFd) -> bool {
    let stream = socket.try_clone().map(TcpStream::from);
    stream.is_ok_and(|stream| stream.peer_addr().ok() == stream.local_addr().ok())
}

/// Returns whether a later attempt to accept a connection may succeed.
fn is_passing(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

/// Returns the error for the component after a wait that failed.
pub(super) fn not_connected(error: io::Error) -> Error {
    if error.kind() == ErrorKind::BrokenPipe { Error::Stopped } else { Error::failed(error) }
}
