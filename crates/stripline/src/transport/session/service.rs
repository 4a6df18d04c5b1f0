//! The repair service of the sessions: one thread of the process, for all sessions that the process
//! sends to. The thread sends the repairs that receivers ask for, also while their sender is busy
//! elsewhere. The thread also announces the last datagrams sent, so that receivers notice when
//! these are missing.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::fork::PerProcess;
use crate::sys::mutex::lock;

/// The interval at which the last datagrams sent are announced, while some are being sent.
const PERIOD: Duration = Duration::from_millis(5);

/// A session that the thread serves.
pub(super) trait ServedSession: Send + Sync {
    /// Returns the control socket.
    fn control(&self) -> BorrowedFd<'_>;

    /// Returns whether records wait for room in the control socket; `None`: a sender is at work.
    /// The sender is not made to wait, because that would cost it two switches to this thread for
    /// each datagram.
    fn has_backlog(&self) -> Option<bool>;

    /// Serves the requests that the receiver has sent on the control socket. Returns false if the
    /// receiver is gone, or no longer served.
    fn serve(&self) -> bool;

    /// Announces the last number, if it is new and no sender is at work. Returns false if nothing
    /// was sent since the last time.
    fn announce(&self) -> bool;

    /// Returns the flag that makes the thread check this session from time to time.
    fn is_watched(&self) -> &AtomicBool;

    /// Makes the thread check this session.
    #[inline]
    fn watch(&self) {
        // Relaxed: the flag orders nothing. A thread that finds it late checks 5 ms later.
        if !self.is_watched().load(Ordering::Relaxed) && !self.is_watched().swap(true, Ordering::AcqRel) {
            RepairService::wake();
        }
    }
}

/// The running thread.
pub(super) struct RepairService {
    doorbell: Doorbell,
    sessions: Vec<Arc<dyn ServedSession>>,
}

static SERVICE: PerProcess<Mutex<Option<RepairService>>> = PerProcess::new(Mutex::default);

fn service() -> MutexGuard<'static, Option<RepairService>> {
    lock(SERVICE.get())
}

/// Adds a session.
///
/// # Errors
/// A lack of descriptors or threads.
pub(super) fn add(session: Arc<dyn ServedSession>) -> Result<()> {
    let mut service = service();
    let running = match &mut *service {
        Some(running) => running,
        None => service.insert(start()?),
    };
    running.sessions.push(session);
    running.doorbell.notify();
    Ok(())
}

/// Removes a session.
pub(super) fn remove(session: &Arc<impl ServedSession>) {
    if let Some(running) = &mut *service() {
        running.remove(Arc::as_ptr(session).cast());
    }
}

impl RepairService {
    fn remove(&mut self, session: *const ()) {
        self.sessions.retain(|other| Arc::as_ptr(other).cast() != session);
        self.doorbell.notify();
    }

    /// Wakes the thread, because a session sends again.
    pub(super) fn wake() {
        if let Some(running) = &*service() {
            running.doorbell.notify();
        }
    }
}

fn start() -> Result<RepairService> {
    let doorbell = Doorbell::new()?;
    let thread_doorbell = doorbell.clone();
    std::thread::Builder::new()
        .name("stripline-repair".into())
        .spawn(move || run(&thread_doorbell))
        .map_err(|e| Error::not_started("cannot start a thread", e))?;
    Ok(RepairService { doorbell, sessions: Vec::new() })
}

fn run(doorbell: &Doorbell) {
    let mut next_round = Instant::now();
    loop {
        let sessions = {
            let mut service = service();
            match &*service {
                Some(running) if !running.sessions.is_empty() => running.sessions.clone(),
                // No session is left: the next one starts another thread.
                _ => {
                    *service = None;
                    return;
                }
            }
        };
        let mut poll_set = PollSet::default();
        poll_set.readable(doorbell.as_fd());
        for session in &sessions {
            match session.has_backlog() {
                Some(true) => poll_set.readable_or_writable(session.control()),
                Some(false) => poll_set.readable(session.control()),
                None => {
                    poll_set.readable(session.control());
                    // Ask the session again, 5 ms later. Relaxed: read by this thread.
                    session.is_watched().store(true, Ordering::Relaxed);
                }
            }
        }
        // Relaxed: a sender that sets the flag rings the doorbell afterwards.
        let is_any_watched = sessions.iter().any(|session| session.is_watched().load(Ordering::Relaxed));
        if let Err(error) = poll_set.wait(is_any_watched.then_some(next_round)) {
            log::error!(target: "stripline::transport", "lost datagrams are not repaired: {error}");
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        if poll_set.is_ready(0) {
            doorbell.drain();
        }
        for (index, session) in sessions.iter().enumerate() {
            if poll_set.is_ready(1 + index)
                && !session.serve()
                && let Some(running) = &mut *service()
            {
                running.remove(Arc::as_ptr(session).cast());
            }
        }
        let now = Instant::now();
        if !is_any_watched {
            next_round = now + PERIOD;
        } else if now >= next_round {
            next_round = now + PERIOD;
            for session in sessions.iter().filter(|session| session.is_watched().load(Ordering::Relaxed)) {
                // Clear the flag first: a datagram sent from here on sets it again, or is announced
                // now.
                session.is_watched().store(false, Ordering::SeqCst);
                if session.announce() {
                    session.is_watched().store(true, Ordering::SeqCst);
                }
            }
        }
    }
}
