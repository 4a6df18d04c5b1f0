//! A timer that can be polled (`timerfd_create(2)`).

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::fork::{self, Descriptor};

/// A timer with a descriptor that is readable from the set time on.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: Descriptor,
    at_ns: Cell<Option<u64>>,
}

impl Timer {
    /// Makes a timer that is not set.
    ///
    /// # Errors
    /// A lack of descriptors.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = fork::open_one(|| timerfd_create(TimerfdClockId::Monotonic, flags))?;
        Ok(Self { fd, at_ns: Cell::new(None) })
    }

    /// Sets the timer to a time of [`now_ns`](super::clock::now_ns), or clears it.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn set(&self, at_ns: Option<u64>) -> io::Result<()> {
        if self.at_ns.replace(at_ns) == at_ns {
            return Ok(());
        }
        // A time of zero would clear the timer.
        let (seconds, ns) =
            at_ns.map_or((0, 0), |at_ns| (at_ns / 1_000_000_000, at_ns.max(1) % 1_000_000_000));
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let value = Itimerspec { it_interval: time(0, 0), it_value: time(seconds as i64, ns as i64) };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &value)?;
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
