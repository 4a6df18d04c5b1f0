//! Sleeping and waking: eventfds, which `poll` can watch together with sockets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::error::{Error, Result};

/// A bell that one side rings and another sleeps on. Ringing never blocks; rings are not counted.
#[derive(Clone, Debug)]
pub(crate) struct Doorbell(Arc<OwnedFd>);

impl Doorbell {
    pub(crate) fn new() -> Result<Self> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(|fd| Self(Arc::new(fd)))
            .map_err(|e| Error::system("cannot make an eventfd", e))
    }

    /// Takes over a descriptor that another process sent. Anything that can be written and polled serves; a
    /// peer that sends something else harms only its own wake-ups.
    pub(crate) fn from_peer(peer: &str, fd: OwnedFd) -> Result<Self> {
        let deed = |_| Error::misbehaved(peer, "sent a descriptor that cannot be a doorbell");
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(deed)?;
        rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK).map_err(deed)?;
        Ok(Self(Arc::new(fd)))
    }

    pub(crate) fn ring(&self) {
        // The only failure is a counter at its maximum (the bell is ringing already) or a peer's broken
        // descriptor, which is that peer's loss.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Stops the ringing.
    pub(crate) fn quiet(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What to sleep on: readable (or hung up) descriptors, and writable ones.
#[derive(Default)]
pub(crate) struct Sleep<'a> {
    fds: Vec<PollFd<'a>>,
}

impl<'a> Sleep<'a> {
    pub(crate) fn readable(&mut self, fd: BorrowedFd<'a>) {
        self.fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
    }

    pub(crate) fn writable(&mut self, fd: BorrowedFd<'a>) {
        self.fds.push(PollFd::from_borrowed_fd(fd, PollFlags::OUT));
    }

    /// Sleeps until something happens on one of them or the deadline passes; true: something happened.
    pub(crate) fn until(&mut self, deadline: Option<Instant>) -> Result<bool> {
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

    /// After [`Sleep::until`]: whether the descriptor added as the `index`th has something.
    pub(crate) fn fired(&self, index: usize) -> bool {
        self.fds.get(index).is_some_and(|fd| !fd.revents().is_empty())
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
