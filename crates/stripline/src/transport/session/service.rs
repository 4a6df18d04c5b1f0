//! The service of the sessions: one thread of the process, for all that it sends to. It repairs
//! what receivers ask for, also while their sender does something else. And it names the last
//! datagrams sent, so that receivers miss them.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::sink::Sending;
use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::fork::PerProcess;
use crate::sys::mutex::lock;

/// How often the last datagrams sent are named, while some are being sent.
const PERIOD: Duration = Duration::from_millis(5);

/// The running thread.
pub(super) struct RepairService {
    doorbell: Doorbell,
    sessions: Vec<Arc<Sending>>,
}

static SERVICE: PerProcess<Mutex<Option<RepairService>>> = PerProcess::new(Mutex::default);

fn service() -> MutexGuard<'static, Option<RepairService>> {
    lock(SERVICE.get())
}

/// Adds a session.
///
/// # Errors
/// A lack of descriptors or threads.
pub(super) fn add(session: &Arc<Sending>) -> Result<()> {
    let mut service = service();
    let running = match &mut *service {
        Some(running) => running,
        None => service.insert(start()?),
    };
    running.sessions.push(Arc::clone(session));
    running.doorbell.notify();
    Ok(())
}

/// Removes a session.
pub(super) fn remove(session: &Arc<Sending>) {
    if let Some(running) = &mut *service() {
        running.sessions.retain(|other| !Arc::ptr_eq(other, session));
        running.doorbell.notify();
    }
}

impl RepairService {
    /// Wakes the thread, because a session sends again.
    pub(super) fn wake() {
        if let Some(running) = &*service() {
            running.doorbell.notify();
        }
    }
}

fn start() -> Result<RepairService> {
    let doorbell = Doorbell::new()?;
    let its = doorbell.clone();
    std::thread::Builder::new()
        .name("stripline-repair".into())
        .spawn(move || run(&its))
        .map_err(|e| Error::system("cannot start a thread", e))?;
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
                true => poll_set.readable_or_writable(session.control.as_fd()),
                false => poll_set.readable(session.control.as_fd()),
            }
        }
        // Relaxed: a sender that sets it rings the doorbell afterwards.
        let is_any_watched = sessions.iter().any(|session| session.is_watched.load(Ordering::Relaxed));
        if let Err(error) = poll_set.wait(is_any_watched.then_some(next_round)) {
            log::error!(target: "stripline::transport", "lost datagrams are not repaired: {error}");
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        if poll_set.is_ready(0) {
            doorbell.drain();
        }
        for (index, session) in sessions.iter().enumerate() {
            if poll_set.is_ready(1 + index) && !session.serve() {
                remove(session);
            }
        }
        let now = Instant::now();
        if !is_any_watched {
            next_round = now + PERIOD;
        } else if now >= next_round {
            next_round = now + PERIOD;
            for session in sessions.iter().filter(|session| session.is_watched.load(Ordering::Relaxed)) {
                // The flag first: what is sent from here on sets it again, or is named now.
                session.is_watched.store(false, Ordering::SeqCst);
                if session.announce() {
                    session.is_watched.store(true, Ordering::SeqCst);
                }
            }
        }
    }
}
