//! Doorbells: eventfds within a process, socket pairs between two processes. `poll` can wait for
//! doorbells together with sockets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::sockopt::socket_domain;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown, socketpair,
};

use crate::error::{Error, Result};

use super::fork::{self, Descriptor};

/// A doorbell that one side rings and another side sleeps on. A ring never blocks, and rings are
/// not counted.
///
/// Within a process, a doorbell is an eventfd. Whether a write to an eventfd may block is a flag of
/// the open file, which both sides share and either side can change. Between processes, a doorbell
/// is therefore a pair of sockets, one for each side. Every call on these sockets is explicitly
/// non-blocking.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<DoorbellEnd>);

#[derive(Debug)]
enum DoorbellEnd {
    Event(Descriptor),
    Socket(Descriptor),
}

/// A function that makes a doorbell: the end to ring, and the end to sleep on.
pub type DoorbellFactory = fn() -> Result<[Doorbell; 2]>;

impl Doorbell {
    /// Returns a doorbell for this process. Both ends are the same descriptor.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        fork::open_one(|| eventfd(0, flags))
            .map(|fd| Self(Arc::new(DoorbellEnd::Event(fd))))
            .map_err(|e| Error::system("cannot make an eventfd", e))
    }

    /// Returns both ends of a doorbell within this process.
    pub fn within() -> Result<[Self; 2]> {
        Self::new().map(|doorbell| [doorbell.clone(), doorbell])
    }

    /// Returns a doorbell between two processes: the end to ring, and the end to sleep on.
    pub fn between() -> Result<[Self; 2]> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        fork::open(|| pair().map(|(one, other)| [one, other]))
            .map(|ends| ends.map(|fd| Self(Arc::new(DoorbellEnd::Socket(fd)))))
            .map_err(|e| Error::system("cannot make a pair of sockets", e))
    }

    /// Takes an end that another process has sent. A peer that sends another local socket harms
    /// only its own wake-ups. Other descriptors are refused, because operations on them might
    /// block.
    pub fn from_peer(peer: &str, fd: OwnedFd) -> Result<Self> {
        match socket_domain(&fd) {
            Ok(AddressFamily::UNIX) => Ok(Self(Arc::new(DoorbellEnd::Socket(Descriptor::new(fd))))),
            _ => Err(Error::misbehaved(peer, "sent a descriptor that cannot be a doorbell")),
        }
    }

    /// Rings the doorbell.
    pub fn notify(&self) {
        // The call fails if there is no room (the doorbell rings already), or if a peer broke the
        // doorbell, which harms only that peer.
        let _ = match &*self.0 {
            DoorbellEnd::Event(fd) => rustix::io::write(fd, &1u64.to_ne_bytes()),
            DoorbellEnd::Socket(fd) => send(fd, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
        };
    }

    /// Makes the other end ring permanently.
    pub fn notify_forever(&self) {
        match &*self.0 {
            DoorbellEnd::Event(_) => self.notify(),
            // The call cannot fail, unless it was made before.
            DoorbellEnd::Socket(fd) => drop(shutdown(fd, Shutdown::Both)),
        }
    }

    /// Drains the rings; false: the doorbell is broken and rings permanently.
    pub fn drain(&self) -> bool {
        match &*self.0 {
            DoorbellEnd::Event(_) => {
                self.drain_counted();
                true
            }
            // The buffer takes more rings than a socket holds as separate bytes. If a peer sent
            // more, the doorbell rings once more.
            DoorbellEnd::Socket(fd) => !matches!(recv(fd, &mut [0u8; 512], RecvFlags::DONTWAIT), Ok((0, _))),
        }
    }

    /// Drains the rings, and returns their number; 0 for a doorbell between processes.
    pub fn drain_counted(&self) -> u64 {
        let mut rings = [0u8; 8];
        match &*self.0 {
            DoorbellEnd::Event(fd) => {
                // The read fails if there are no rings.
                rustix::io::read(fd, &mut rings).map_or(0, |_| u64::from_ne_bytes(rings))
            }
            DoorbellEnd::Socket(_) => 0,
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &*self.0 {
            DoorbellEnd::Event(fd) | DoorbellEnd::Socket(fd) => fd.as_fd(),
        }
    }
}

/// A set of descriptors to wait for: readable (or hung up) ones, and writable ones.
#[derive(Default)]
pub struct PollSet<'a> {
    fds: Vec<PollFd<'a>>,
    /// The events that each descriptor is waited for, if they are to be read back.
    interests: Option<Vec<PollFlags>>,
}

/// The readiness of a descriptor. A hang-up or an error makes it ready in both ways, and the next
/// operation reports the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundReady {
    pub reads: bool,
    pub writes: bool,
    /// Whether the number has no open file.
    pub is_closed: bool,
}

impl<'a> PollSet<'a> {
    /// Returns an empty set for a `ReadySet`.
    pub fn for_ready_set() -> Self {
        Self { fds: Vec::new(), interests: Some(Vec::new()) }
    }

    fn add(&mut self, fd: BorrowedFd<'a>, interest: PollFlags) {
        self.fds.push(PollFd::from_borrowed_fd(fd, interest));
        if let Some(interests) = &mut self.interests {
            interests.push(interest);
        }
    }

    /// Adds a descriptor to wait for until it can be read or is hung up.
    pub fn readable(&mut self, fd: BorrowedFd<'a>) {
        self.add(fd, PollFlags::IN);
    }

    /// Adds a descriptor to wait for until it can be written.
    pub fn writable(&mut self, fd: BorrowedFd<'a>) {
        self.add(fd, PollFlags::OUT);
    }

    /// Adds a descriptor to wait for until it can be read or written, or is hung up.
    pub fn readable_or_writable(&mut self, fd: BorrowedFd<'a>) {
        self.add(fd, PollFlags::IN | PollFlags::OUT);
    }

    /// Adds a socket to wait for until it is hung up.
    pub fn hung_up(&mut self, fd: BorrowedFd<'a>) {
        self.add(fd, PollFlags::RDHUP);
    }

    /// Waits until a descriptor of the set is ready or the deadline passes; true: one is ready.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Result<bool> {
        loop {
            let timeout = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            match poll(&mut self.fds, timeout.map(timespec).as_ref()) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::system("cannot wait for descriptors", e)),
            }
        }
    }

    /// Returns the descriptors of [`PollSet::for_ready_set`], each with the events it is waited
    /// for.
    pub fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let interests = self.interests.as_deref().unwrap_or_default();
        self.fds.iter().map(AsFd::as_fd).zip(interests.iter().copied())
    }

    /// Adds a descriptor to wait for until it can be read, written, or both, or is hung up.
    pub fn add_for(&mut self, fd: BorrowedFd<'a>, reads: bool, writes: bool) {
        let flags = [(reads, PollFlags::IN), (writes, PollFlags::OUT)];
        self.add(fd, flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect());
    }

    /// Returns how the `index`th added descriptor was ready in the last [`PollSet::wait`].
    pub fn found(&self, index: usize) -> FoundReady {
        let flags = self.fds.get(index).map_or(PollFlags::empty(), PollFd::revents);
        let ends = PollFlags::HUP | PollFlags::ERR;
        FoundReady {
            reads: flags.intersects(PollFlags::IN | PollFlags::RDHUP | ends),
            writes: flags.intersects(PollFlags::OUT | ends),
            is_closed: flags.contains(PollFlags::NVAL),
        }
    }

    /// Returns whether the `index`th added descriptor was ready in the last [`PollSet::wait`].
    pub fn is_ready(&self, index: usize) -> bool {
        self.fds.get(index).is_some_and(|fd| !fd.revents().is_empty())
    }
}

pub fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(doorbell: &Doorbell) -> bool {
        let mut poll_set = PollSet::default();
        poll_set.readable(doorbell.as_fd());
        poll_set.wait(Some(Instant::now())).unwrap()
    }

    #[test]
    fn any_number_of_rings_is_one() {
        for make in [Doorbell::within as DoorbellFactory, Doorbell::between] {
            let [ringing, listening] = make().unwrap();
            assert!(!rings(&listening));
            // Ring more often than any buffer holds: no ring blocks for lack of room.
            for rounds in [1, 2, 100_000, 1] {
                (0..rounds).for_each(|_| ringing.notify());
                assert!(rings(&listening));
                assert!(listening.drain());
                assert!(!rings(&listening), "{rounds}");
                assert!(listening.drain());
            }
            listening.notify_forever();
            assert!(rings(&listening));
        }
    }

    #[test]
    fn an_end_that_is_broken_says_so_and_blocks_nobody() {
        let [ringing, listening] = Doorbell::between().unwrap();
        drop(listening);
        ringing.notify();
        let [ringing, listening] = Doorbell::between().unwrap();
        ringing.notify();
        ringing.notify_forever();
        assert!(listening.drain() && !listening.drain());
        assert!(rings(&listening));
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        assert!(Doorbell::from_peer("peer", eventfd).unwrap_err().to_string().contains("doorbell"));
    }
}
