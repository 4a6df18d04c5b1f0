//! One thread of the process that watches sockets for their end, so that a receiver learns of its sender's death
//! from a flag in its own memory: who spins makes no system call, and who sleeps sleeps on one bell fewer.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ring::{CursorPage, Presence};
use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::fork::PerProcess;
use crate::sys::futex::Alarm;
use crate::sys::socket::Socket;

/// A socket being watched; let go when dropped.
pub(super) struct Watched(Arc<Subject>);

struct Subject {
    socket: Socket,
    /// Who sleeps on one of these is woken when it is over.
    bell: Doorbell,
    page: Arc<CursorPage>,
    gone: AtomicBool,
    /// A reader of the other end, if it has one: where it is to be taken out then.
    reader: Option<Presence>,
}

struct Watch {
    bell: Doorbell,
    subjects: Vec<Arc<Subject>>,
}

static WATCH: PerProcess<Mutex<Option<Watch>>> = PerProcess::new(Mutex::default);

impl Watched {
    /// Watches a socket on which the other end has nothing more to say: anything to read is its end, at which
    /// whoever sleeps on the bell or the page is woken. `reader` is the other end's if that also reads a ring of this
    /// side.
    ///
    /// # Errors
    /// When the system lacks descriptors or threads.
    pub(super) fn new(
        socket: Socket,
        bell: Doorbell,
        page: Arc<CursorPage>,
        reader: Option<Presence>,
    ) -> Result<Self> {
        let subject = Arc::new(Subject { socket, bell, page, gone: AtomicBool::new(false), reader });
        let mut watch = lock();
        let running = match &mut *watch {
            Some(running) => running,
            None => watch.insert(start()?),
        };
        running.subjects.push(Arc::clone(&subject));
        running.bell.ring();
        Ok(Self(subject))
    }

    /// Whether the other end is gone.
    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        // Acquire: what the other end had published before is seen by whoever sees that it is gone; the kernel's
        // hang-up, which came after it, was seen by the thread that set this.
        self.0.gone.load(Ordering::Acquire)
    }

    /// Whether the other end belongs to another user.
    pub(super) fn is_foreign(&self) -> bool {
        self.0.socket.is_foreign()
    }

    /// Asks the kernel, without waiting for the thread.
    pub(super) fn check(&self) -> bool {
        if !self.is_gone() {
            let mut sleep = Sleep::default();
            sleep.readable(self.0.socket.as_fd());
            if sleep.until(Some(std::time::Instant::now())).unwrap_or(true) {
                self.0.gone.store(true, Ordering::Release);
            }
        }
        self.is_gone()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The other end hears of it now, not when the thread next looks.
        self.0.socket.close();
        if let Some(watch) = &mut *lock() {
            watch.subjects.retain(|subject| !Arc::ptr_eq(subject, &self.0));
            watch.bell.ring();
        }
    }
}

fn lock() -> MutexGuard<'static, Option<Watch>> {
    // Entries are whole whatever happened to the last holder.
    WATCH.get().lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> Result<Watch> {
    let bell = Doorbell::new()?;
    let its = bell.clone();
    std::thread::Builder::new()
        .name("stripline-watch".into())
        .spawn(move || run(&its))
        .map_err(|e| Error::system("cannot start a thread", e))?;
    Ok(Watch { bell, subjects: Vec::new() })
}

fn run(bell: &Doorbell) {
    loop {
        let subjects = {
            let mut watch = lock();
            match &*watch {
                Some(running) if !running.subjects.is_empty() => running.subjects.clone(),
                // Nobody to watch: whoever comes next starts another thread.
                _ => {
                    *watch = None;
                    return;
                }
            }
        };
        let mut sleep = Sleep::default();
        sleep.readable(bell.as_fd());
        subjects.iter().for_each(|subject| sleep.readable(subject.socket.as_fd()));
        if let Err(error) = sleep.until(None) {
            // Receivers that sleep would not hear of a death any more: better to know than to guess.
            crate::sys::complain!("stripline: {error}");
            std::thread::sleep(std::time::Duration::from_millis(10));
            continue;
        }
        let over: Vec<&Arc<Subject>> =
            subjects.iter().enumerate().filter(|(n, _)| sleep.fired(1 + n)).map(|(_, s)| s).collect();
        if sleep.fired(0) {
            bell.quiet();
        }
        // First out of the list, lest they be polled again; then the news.
        if !over.is_empty() {
            if let Some(watch) = &mut *lock() {
                watch.subjects.retain(|subject| !over.iter().any(|gone| Arc::ptr_eq(gone, subject)));
            }
            for subject in over {
                subject.gone.store(true, Ordering::Release);
                if let Some(reader) = &subject.reader {
                    reader.leave();
                }
                subject.page.raise();
                subject.bell.ring_for_good();
            }
        }
    }
}
