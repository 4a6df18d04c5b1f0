//! Waiting for a descriptor.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

pub(crate) use rustix::event::PollFlags;
use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;

/// Waits until a descriptor is ready, at most for `time`. `None` sets no limit. Returns no flags
/// after the time, and after a signal.
pub(crate) fn wait(fd: impl AsFd, flags: PollFlags, time: Option<Duration>) -> io::Result<PollFlags> {
    let mut polled = [PollFd::new(&fd, flags)];
    // A time that does not fit the system's type means for ever.
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    match rustix::event::poll(&mut polled, time.as_ref()) {
        Ok(_) => Ok(polled[0].revents()),
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error.into()),
    }
}
