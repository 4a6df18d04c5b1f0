//! Parking on a word of memory until it changes. A receiver of a single ring needs nothing more.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec};

use super::doorbell::timespec;
use super::mutex::lock;
use crate::error::{Error, Result};

/// Parks while a word has the value, until the deadline at most; false: the deadline has passed.
/// May also return spuriously. The word may be shared with other processes.
pub(crate) fn wait(word: &AtomicU32, value: u32, deadline: Option<Instant>) -> Result<bool> {
    let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    match futex::wait(word, futex::Flags::empty(), value, remaining.map(timespec).as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(true),
        Err(Errno::TIMEDOUT) => Ok(false),
        Err(error) => Err(Error::system("cannot wait for a word to change", error)),
    }
}

/// Parks like [`wait`], and only while `other` is 0. `None`: this kernel cannot do it (before
/// 5.16).
pub(crate) fn wait_either(
    word: &AtomicU32,
    value: u32,
    other: &AtomicU32,
    deadline: Option<Instant>,
) -> Result<Option<bool>> {
    let of = |word: &AtomicU32, value: u32| {
        let mut wait = futex::Wait::new();
        wait.val = u64::from(value);
        wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
        wait.flags = futex::WaitFlags::SIZE_U32;
        wait
    };
    // An absolute time, on the clock of `Instant`.
    let until = deadline.map(|deadline| {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let now = rustix::time::clock_gettime(ClockId::Monotonic);
        let seconds = now.tv_sec.saturating_add(i64::try_from(remaining.as_secs()).unwrap_or(i64::MAX));
        let ns = now.tv_nsec + i64::from(remaining.subsec_nanos());
        Timespec { tv_sec: seconds.saturating_add(ns / 1_000_000_000), tv_nsec: ns % 1_000_000_000 }
    });
    let words = [of(word, value), of(other, 0)];
    match futex::waitv(&words, futex::WaitvFlags::empty(), until.as_ref(), ClockId::Monotonic) {
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(Some(true)),
        Err(Errno::TIMEDOUT) => Ok(Some(false)),
        // A filter of system calls may refuse the call as well.
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(error) => Err(Error::system("cannot wait for a word to change", error)),
    }
}

/// Wakes all threads that are parked on a word. The caller must already have changed the word.
pub(crate) fn wake(word: &AtomicU32) {
    // The call cannot fail: the word is mapped.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.cast_unsigned());
}

/// A waker of a parked thread.
pub(crate) trait ParkWaker: Send + Sync {
    /// Wakes the parked thread. The caller must already have published the reason.
    fn wake(&self);
}

/// The wakers that a thread with an event has to call.
#[derive(Debug, Default)]
pub(crate) struct ParkWakers(Mutex<Vec<Weak<dyn ParkWaker>>>);

impl ParkWakers {
    /// Adds a waker. The list keeps it until its last owner drops it.
    pub(crate) fn add(&self, waker: &Arc<dyn ParkWaker>) {
        let mut wakers = lock(&self.0);
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(waker));
    }

    pub(crate) fn wake(&self) {
        lock(&self.0).iter().filter_map(Weak::upgrade).for_each(|waker| waker.wake());
    }
}

impl std::fmt::Debug for dyn ParkWaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ParkWaker")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::*;

    struct Word(AtomicU32);

    impl ParkWaker for Word {
        fn wake(&self) {
            self.0.store(0, Ordering::Relaxed);
            wake(&self.0);
        }
    }

    #[test]
    fn sleeps_until_the_alarm_or_the_deadline() {
        let word = Arc::new(Word(AtomicU32::new(1)));
        let deadline = Instant::now() + Duration::from_millis(5);
        while wait(&word.0, 1, Some(deadline)).unwrap() {}
        assert!(Instant::now() >= deadline);
        let wakers = ParkWakers::default();
        let waker: Arc<dyn ParkWaker> = Arc::<Word>::clone(&word);
        wakers.add(&waker);
        std::thread::scope(|scope| {
            scope.spawn(|| wakers.wake());
            while word.0.load(Ordering::Relaxed) == 1 {
                assert!(wait(&word.0, 1, None).unwrap());
            }
        });
        drop((word, waker));
        wakers.wake();
    }
}
