//! Waiting for many descriptors at once with epoll, at a cost that does not grow with their number.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::doorbell::timespec;
use super::fork::{self, Descriptor};
use crate::error::{Error, Result};

/// The maximum number of descriptors that a wait reports. The next wait reports the others.
const EVENTS_MAX: usize = 64;

/// A set of descriptors to wait for, each with a token of the caller.
pub struct Poller(Descriptor);

/// The events of a descriptor that a wait reports.
#[derive(Clone, Copy)]
pub enum Interest {
    /// The descriptor is readable or closed, reported for as long as it is.
    Readable,
    /// The descriptor is readable or closed, or takes bytes.
    ReadableOrRoom,
    /// Something has arrived since the last report (edge-triggered), so bytes may stay unread.
    Arrival,
    /// The other end has hung up.
    HangUp,
    /// Only an error, for the time being.
    Paused,
}

impl Poller {
    /// Makes an empty set.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> Result<Self> {
        fork::open_one(|| epoll::create(CreateFlags::CLOEXEC))
            .map(Self)
            .map_err(|e| Error::system("cannot create an epoll instance", e))
    }

    /// Adds a descriptor. If the descriptor is duplicated, the caller must remove it before closing
    /// it.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::add(&self.0, fd, EventData::new_u64(token), interest.flags())
            .map_err(|e| Error::system("cannot wait for a descriptor", e))
    }

    /// Changes which events of a descriptor are reported.
    ///
    /// # Errors
    /// The descriptor is not in the set.
    pub fn change(&self, fd: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::modify(&self.0, fd, EventData::new_u64(token), interest.flags())
            .map_err(|e| Error::system("cannot wait for a descriptor", e))
    }

    /// Removes a descriptor, if it is in the set.
    pub fn remove(&self, fd: impl AsFd) {
        // The call fails only for a descriptor that was not added.
        let _ = epoll::delete(&self.0, fd);
    }

    /// Waits until an event occurs or the deadline has passed; returns the tokens.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<Vec<u64>> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS_MAX];
        loop {
            let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // Without a timeout in nanoseconds, the kernel rounds down to milliseconds, so that the
            // loop would poll without a pause.
            let timeout = remaining.map(|remaining| timespec(remaining.max(Duration::from_nanos(1))));
            match epoll::wait(&self.0, &mut events[..], timeout.as_ref()) {
                Ok(count) => return Ok(events[..count].iter().map(|event| event.data.u64()).collect()),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::system("cannot wait for descriptors", e)),
            }
        }
    }
}

impl AsFd for Poller {
    /// Returns a descriptor that is readable while a wait would report something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Readable => EventFlags::IN | EventFlags::RDHUP,
            Self::ReadableOrRoom => EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP,
            Self::Arrival => EventFlags::IN | EventFlags::RDHUP | EventFlags::ET,
            Self::HangUp => EventFlags::RDHUP,
            Self::Paused => EventFlags::empty(),
        }
    }
}
