//! Connections to other hosts, and how the end of such a host is detected.
//!
//! While no segment is on its way, the kernel's keepalive detects the end. Segments on their way
//! are sent again for up to half an hour. `TCP_USER_TIMEOUT` would also end a connection to a
//! stopped process. So a thread of the process reads the kernel's counts (`TCP_INFO`): a living
//! host acknowledges, however small its receive window is.

use std::io;
use std::net::TcpStream;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, sockopt};

use super::doorbell::{Doorbell, PollSet};
use super::fork::{self, Descriptor, PerProcess};
use super::mutex::lock;

/// The time from the last sign of the other host to the first probe, while no segment is on its
/// way.
const IDLE: Duration = Duration::from_secs(2);
/// The unanswered probes after which an idle connection ends: ten seconds in all. The number is
/// large, because a network may lose some probes.
const IDLE_PROBES: u32 = 8;
/// The time without an answer after which a connection with segments on their way ends. In this
/// time, the kernel sends a segment six times or more.
const LEASE: Duration = Duration::from_secs(20);
/// The period of the thread, and of the probes.
const PERIOD: Duration = Duration::from_secs(1);
/// The unanswered probes of a full window after which a connection ends. The kernel sends them at
/// growing intervals, and one may be lost.
const PROBES: u8 = 3;

/// A TCP connection. A connection to another host ends when that host has vanished.
#[derive(Debug)]
pub struct TcpSocket {
    stream: Descriptor<TcpStream>,
    /// The last field, so that all copies of the descriptor are closed when the stream is.
    lease: Option<Arc<Lease>>,
}

impl TcpSocket {
    pub(crate) fn new(stream: Descriptor<TcpStream>) -> Self {
        Self { stream, lease: None }
    }

    /// Detects from now on that the other host has vanished. A stopped peer stays connected, as its
    /// kernel answers. For a peer on this host, nothing is done.
    ///
    /// # Errors
    /// A lack of descriptors or threads.
    pub(crate) fn keep_lease(&mut self) -> io::Result<()> {
        self.set_nodelay(true)?;
        if self.lease.is_some() || self.peer_addr()?.ip().is_loopback() {
            return Ok(());
        }
        sockopt::set_tcp_keepidle(&*self.stream, IDLE)?;
        sockopt::set_tcp_keepintvl(&*self.stream, PERIOD)?;
        sockopt::set_tcp_keepcnt(&*self.stream, IDLE_PROBES)?;
        sockopt::set_socket_keepalive(&*self.stream, true)?;
        self.lease = Some(Lease::start(&self.stream)?);
        Ok(())
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let stream = fork::open_one(|| self.stream.try_clone())?;
        Ok(Self { stream, lease: self.lease.clone() })
    }
}

impl Deref for TcpSocket {
    type Target = TcpStream;
    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The watch over a connection. Dropping it ends the watch.
#[derive(Debug)]
struct Lease(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    /// A copy of the descriptor, which must not outlive the connection, as the peer would not see
    /// the end.
    stream: Descriptor<TcpStream>,
    silence: Mutex<Silence>,
}

struct LeaseWatch {
    doorbell: Doorbell,
    connections: Vec<Arc<Watched>>,
}

static LEASES: PerProcess<Mutex<Option<LeaseWatch>>> = PerProcess::new(Mutex::default);

impl Lease {
    fn start(stream: &TcpStream) -> io::Result<Arc<Self>> {
        let stream = fork::open_one(|| stream.try_clone())?;
        let watched = Arc::new(Watched { stream, silence: Mutex::default() });
        let mut leases = lock(LEASES.get());
        let watch = match &mut *leases {
            Some(watch) => watch,
            None => leases.insert(start_watch()?),
        };
        watch.connections.push(Arc::clone(&watched));
        Ok(Arc::new(Self(watched)))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut leases = lock(LEASES.get());
        if let Some(watch) = &mut *leases {
            watch.connections.retain(|watched| !Arc::ptr_eq(watched, &self.0));
            if watch.connections.is_empty() {
                watch.doorbell.notify();
            }
        }
    }
}

fn start_watch() -> io::Result<LeaseWatch> {
    let doorbell = Doorbell::new().map_err(io::Error::other)?;
    let thread_doorbell = doorbell.clone();
    std::thread::Builder::new().name("stripline-lease".into()).spawn(move || watch(&thread_doorbell))?;
    Ok(LeaseWatch { doorbell, connections: Vec::new() })
}

fn watch(doorbell: &Doorbell) {
    loop {
        let now = Instant::now();
        {
            let mut leases = lock(LEASES.get());
            match &*leases {
                // The list is locked during the checks, so that this thread keeps no connection
                // open.
                Some(watch) if !watch.connections.is_empty() => {
                    watch.connections.iter().for_each(|watched| watched.check(now));
                }
                // The next connection starts another thread.
                _ => {
                    *leases = None;
                    return;
                }
            }
        }
        let mut poll_set = PollSet::default();
        poll_set.readable(doorbell.as_fd());
        if poll_set.wait(Some(now + PERIOD)).is_err() {
            std::thread::sleep(PERIOD);
        }
        doorbell.drain();
    }
}

impl Watched {
    fn check(&self, now: Instant) {
        let Ok(count) = AckCount::of(self.stream.as_fd()) else { return };
        if lock(&self.silence).is_over(count, now) {
            // All users of the connection find it closed, as after a reset.
            let _ = rustix::net::shutdown(&*self.stream, Shutdown::Both);
        }
    }
}

/// The counts that the kernel keeps for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AckCount {
    /// Segments on their way.
    unacknowledged: u32,
    /// Probes of a full window without an answer.
    probes: u8,
    /// The time since the last acknowledgement.
    since_ack: Duration,
}

impl AckCount {
    fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: plain integers, and zeros are valid.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut bytes = size_of_val(&info) as libc::socklen_t;
        // SAFETY: the call writes at most that many bytes, to a structure of that size. An older
        // kernel writes fewer bytes. All kernels have the fields below.
        let outcome = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut bytes,
            )
        };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
        let since_ack = Duration::from_millis(info.tcpi_last_ack_recv.into());
        Ok(Self { unacknowledged: info.tcpi_unacked, probes: info.tcpi_probes, since_ack })
    }
}

/// The time for which the other host has been silent although it had to answer.
#[derive(Debug, Default)]
struct Silence {
    since: Option<Instant>,
}

impl Silence {
    /// Takes the kernel's present counts, and returns whether the lease is over.
    fn is_over(&mut self, count: AckCount, now: Instant) -> bool {
        let has_answered = |since: Instant| count.since_ack < now.saturating_duration_since(since);
        let is_asked = count.unacknowledged > 0 || count.probes > 0;
        if !is_asked {
            self.since = None;
            return false;
        }
        match self.since {
            Some(since) if !has_answered(since) => {
                let is_long = now.saturating_duration_since(since) >= LEASE;
                is_long && (count.unacknowledged > 0 || count.probes >= PROBES)
            }
            _ => {
                self.since = Some(now);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(unacknowledged: u32, probes: u8, since_ack: u64) -> AckCount {
        AckCount { unacknowledged, probes, since_ack: Duration::from_secs(since_ack) }
    }

    /// Returns the index of the count at which the lease is over. The counts are a second apart.
    fn over_at(counts: impl IntoIterator<Item = AckCount>) -> Option<usize> {
        let (mut silence, start) = (Silence::default(), Instant::now());
        let mut at = (0..).map(|second| start + Duration::from_secs(second));
        counts.into_iter().position(|count| silence.is_over(count, at.next().expect("endless")))
    }

    #[test]
    fn a_host_is_gone_after_twenty_seconds_without_an_answer() {
        // The connection was idle for an hour before: only the time with segments on their way
        // counts.
        assert_eq!(over_at((0..60).map(|second| count(3, 0, 3600 + second))), Some(20));
        // With a full window, three probes have to be lost, however seldom they are sent.
        let probes = (0..60).map(|second| count(0, [1, 2, 2, 3][second as usize / 15], second));
        assert_eq!(over_at(probes), Some(45));
    }

    #[test]
    fn a_host_that_answers_stays() {
        // The host is idle or busy, or has a stopped process: its kernel answers each probe.
        assert_eq!(over_at((0..60).map(|second| count(0, 0, second))), None);
        assert_eq!(over_at((0..60).map(|_| count(3, 0, 0))), None);
        assert_eq!(over_at((0..600).map(|second| count(0, u8::from(second % 60 == 0), second % 60))), None);
        // The host is silent for nineteen seconds at a time.
        assert_eq!(over_at((0..100).map(|second| count(1, 0, second % 19))), None);
    }

    #[test]
    fn the_kernel_counts_what_is_on_its_way() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let counted = AckCount::of(stream.as_fd()).unwrap();
        assert_eq!((counted.unacknowledged, counted.probes), (0, 0));
        assert!(counted.since_ack < Duration::from_secs(3600));
    }

    #[test]
    fn a_watch_keeps_no_connection_open() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        let lease = Lease::start(&stream).unwrap();
        let mut socket = TcpSocket::new(Descriptor::new(stream));
        socket.lease = Some(lease);
        let copy = socket.try_clone().unwrap();
        drop(socket);
        drop(copy);
        assert_eq!(io::Read::read(&mut other, &mut [0]).unwrap(), 0);
    }
}
