//! Bytes that a middleware brings by calling back. Its thread runs the port's own code where that
//! waits for it. The queue of a policy is filled there. With `dispatch = "direct"` the handler runs
//! there. Otherwise it rings a doorbell.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::PathSource;
use crate::error::Result;
use crate::sys::doorbell::Doorbell;
use crate::sys::mutex::lock;
use crate::sys::scoped_call::CallSlot;

/// The bytes that wait, at most; a middleware that brings more waits.
const BYTES_MAX: usize = 64 * 1024;
/// The longest wait for the middleware to end, after its sender has.
const END_TIME: Duration = Duration::from_secs(2);

/// The middleware's end. Its drop is the end of the bytes.
pub(in crate::transport) struct CallbackFeed(Arc<Shared>);

/// The receiving end of a path with callbacks.
pub(in crate::transport) struct CallbackSource(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// Rung when the queue has changed.
    changed: Condvar,
    arrivals: Doorbell,
    slot: Arc<CallSlot>,
}

#[derive(Default)]
struct Queue {
    bytes: VecDeque<u8>,
    /// No more will come.
    is_over: bool,
    /// No more is taken.
    is_closed: bool,
    /// The thread that brings bytes, while it runs the port's code.
    caller: Option<ThreadId>,
}

impl CallbackSource {
    /// Returns both ends.
    ///
    /// # Errors
    /// A lack of descriptors.
    pub(in crate::transport) fn new() -> Result<(CallbackFeed, Self)> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            arrivals: Doorbell::new()?,
            slot: Arc::default(),
        });
        Ok((CallbackFeed(Arc::clone(&shared)), Self(shared)))
    }
}

impl CallbackFeed {
    /// Brings bytes, and waits while too many are there; false: the receiver is gone. Called by the
    /// middleware's thread.
    pub(in crate::transport) fn push(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let mut queue = lock(&self.0.queue);
            while queue.bytes.len() >= BYTES_MAX && !queue.is_closed {
                queue = self.0.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.is_closed {
                return false;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BYTES_MAX - queue.bytes.len()));
            queue.bytes.extend(now);
            self.0.wake(queue);
            bytes = later;
        }
        true
    }
}

impl Drop for CallbackFeed {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        queue.is_over = true;
        self.0.changed.notify_all();
        self.0.wake(queue);
    }
}

impl Shared {
    /// Runs what waits for bytes. Without that, rings the doorbell.
    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        queue.caller = Some(std::thread::current().id());
        drop(queue);
        if !self.slot.call() {
            self.arrivals.notify();
        }
        lock(&self.queue).caller = None;
    }
}

impl PathSource for CallbackSource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut queue = lock(&self.0.queue);
        if queue.bytes.is_empty() && !queue.is_over {
            self.0.arrivals.drain();
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let read = queue.bytes.read(into)?;
        drop(queue);
        self.0.changed.notify_all();
        Ok(read)
    }

    fn await_end(&mut self) -> bool {
        let until = Instant::now() + END_TIME;
        let mut queue = lock(&self.0.queue);
        if !queue.is_over && queue.caller == Some(std::thread::current().id()) {
            return false;
        }
        // Full: the rest comes once this is read.
        while !queue.is_over && queue.bytes.len() < BYTES_MAX {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn bytes(&self) -> BorrowedFd<'_> {
        self.0.arrivals.as_fd()
    }

    fn call_slot(&self) -> Option<&Arc<CallSlot>> {
        Some(&self.0.slot)
    }
}

impl Drop for CallbackSource {
    fn drop(&mut self) {
        lock(&self.0.queue).is_closed = true;
        self.0.changed.notify_all();
    }
}
