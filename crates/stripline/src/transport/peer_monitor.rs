//! The peer monitor: one thread of the process polls sockets for their end. A receiver then detects
//! the sender's death by a flag in memory of its own process. So a spinning receiver makes no
//! system call, and a sleeping receiver waits for one descriptor less.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::ring::{CursorPage, ReaderRegistration};
use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::fork::PerProcess;
use crate::sys::futex::ParkWaker;
use crate::sys::mutex::lock;
use crate::sys::socket::Socket;

/// A monitored socket, which is released when dropped.
pub(super) struct MonitoredPeer(Arc<MonitoredSocket>);

struct MonitoredSocket {
    socket: Socket,
    /// The doorbell and the page on which threads sleep. The threads are woken when the socket
    /// ends.
    doorbell: Doorbell,
    page: Arc<CursorPage>,
    closed: AtomicBool,
    /// A reader at the other end, if there is one, which is removed when the socket ends.
    reader: Option<ReaderRegistration>,
}

struct PeerMonitor {
    doorbell: Doorbell,
    subjects: Vec<Arc<MonitoredSocket>>,
}

static PEER_MONITOR: PerProcess<Mutex<Option<PeerMonitor>>> = PerProcess::new(Mutex::default);

impl MonitoredPeer {
    /// Monitors a socket on which the other end sends no more data: anything to read is the end.
    /// Threads that sleep on the doorbell or the page are then woken. `reader` is the registration
    /// of the other end, if that end also reads a ring of this side.
    ///
    /// # Errors
    /// A lack of descriptors or threads.
    pub(super) fn new(
        socket: Socket,
        doorbell: Doorbell,
        page: Arc<CursorPage>,
        reader: Option<ReaderRegistration>,
    ) -> Result<Self> {
        let subject =
            Arc::new(MonitoredSocket { socket, doorbell, page, closed: AtomicBool::new(false), reader });
        let mut watch = monitor();
        let running = match &mut *watch {
            Some(running) => running,
            None => watch.insert(start()?),
        };
        running.subjects.push(Arc::clone(&subject));
        running.doorbell.notify();
        Ok(Self(subject))
    }

    /// Returns whether the other end is gone.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Acquire: a thread that sees this flag also sees everything that the other end had
        // published before. The kernel's hang-up came after that, and the thread that set the flag
        // saw the hang-up.
        self.0.closed.load(Ordering::Acquire)
    }

    /// Returns whether the other end belongs to another user.
    pub(super) fn is_other_user(&self) -> bool {
        self.0.socket.is_other_user()
    }

    /// Polls the kernel, without waiting for the thread.
    pub(super) fn check(&self) -> bool {
        if !self.is_closed() {
            let mut poll_set = PollSet::default();
            poll_set.readable(self.0.socket.as_fd());
            if poll_set.wait(Some(std::time::Instant::now())).unwrap_or(true) {
                self.0.closed.store(true, Ordering::Release);
            }
        }
        self.is_closed()
    }
}

impl Drop for MonitoredPeer {
    fn drop(&mut self) {
        // The other end detects the end now, and not only at the thread's next poll.
        self.0.socket.close();
        if let Some(watch) = &mut *monitor() {
            watch.subjects.retain(|subject| !Arc::ptr_eq(subject, &self.0));
            watch.doorbell.notify();
        }
    }
}

fn monitor() -> MutexGuard<'static, Option<PeerMonitor>> {
    lock(PEER_MONITOR.get())
}

fn start() -> Result<PeerMonitor> {
    let doorbell = Doorbell::new()?;
    let thread_doorbell = doorbell.clone();
    std::thread::Builder::new()
        .name("stripline-watch".into())
        .spawn(move || run(&thread_doorbell))
        .map_err(|e| Error::not_started("cannot start a thread", e))?;
    Ok(PeerMonitor { doorbell, subjects: Vec::new() })
}

fn run(doorbell: &Doorbell) {
    loop {
        let subjects = {
            let mut watch = monitor();
            match &*watch {
                Some(running) if !running.subjects.is_empty() => running.subjects.clone(),
                // No socket is left: the next one starts another thread.
                _ => {
                    *watch = None;
                    return;
                }
            }
        };
        let mut poll_set = PollSet::default();
        poll_set.readable(doorbell.as_fd());
        subjects.iter().for_each(|subject| poll_set.readable(subject.socket.as_fd()));
        if let Err(error) = poll_set.wait(None) {
            // Sleeping receivers would no longer detect a death, so the failure is reported.
            log::error!(target: "stripline::transport", "the deaths of peers are not detected: {error}");
            std::thread::sleep(std::time::Duration::from_millis(10));
            continue;
        }
        let over: Vec<&Arc<MonitoredSocket>> =
            subjects.iter().enumerate().filter(|(n, _)| poll_set.is_ready(1 + n)).map(|(_, s)| s).collect();
        if poll_set.is_ready(0) {
            doorbell.drain();
        }
        // Remove the sockets from the list first, so that they are not polled again; then report
        // their end.
        if !over.is_empty() {
            if let Some(watch) = &mut *monitor() {
                watch.subjects.retain(|subject| !over.iter().any(|gone| Arc::ptr_eq(gone, subject)));
            }
            for subject in over {
                subject.closed.store(true, Ordering::Release);
                if let Some(reader) = &subject.reader {
                    reader.remove();
                }
                subject.page.wake();
                subject.doorbell.notify_forever();
            }
        }
    }
}
