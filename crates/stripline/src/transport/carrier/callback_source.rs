//! A queue between the thread of a middleware, which brings messages in callbacks, and the port.
//! The middleware's thread wakes the port's thread. If the path has a call slot, and the port's
//! code waits in it, the middleware's thread runs that code itself: it fills the queue of a policy,
//! or it runs the handler with `dispatch = "direct"`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use super::{ReadWait, WAIT_MAX, violation};
use crate::error::Result;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::mutex::lock;
use crate::sys::running_limit::RunningLimit;
use crate::sys::scoped_call::CallSlot;

/// The longest wait for the middleware to end after the sender has ended. Only time in which this
/// process runs counts.
const END_TIME: Duration = Duration::from_secs(2);
/// Read messages that are kept so that their memory is used again.
const USED_MAX: usize = 1024;

/// The middleware's end. Dropping it ends the bytes.
pub struct CallbackFeed<T>(Arc<Shared<T>>);

/// The receiving end of a path with a middleware that brings messages in callbacks.
pub struct CallbackSource<T> {
    shared: Arc<Shared<T>>,
    /// Messages that were taken from the queue together: the middleware's thread may wait for each
    /// lock of the queue.
    taken: VecDeque<T>,
    /// The message that was read in part, and the number of bytes read.
    rest: Option<(T, usize)>,
    /// Read messages, kept so that their memory is used again.
    used: Vec<T>,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    /// The most bytes that may wait. A middleware that brings more waits.
    bytes_max: usize,
    /// Notified when the queue has changed.
    changed: Condvar,
    arrivals: Doorbell,
    /// `None`: only the port's thread runs the port's code.
    slot: Option<Arc<CallSlot>>,
}

struct Queue<T> {
    messages: VecDeque<T>,
    /// Bytes of all messages.
    bytes: usize,
    /// Read messages, kept so that their memory is used again.
    used: Vec<T>,
    /// Messages brought, in total.
    brought: u64,
    /// No more messages will come.
    is_over: bool,
    /// No more messages are taken.
    is_closed: bool,
    /// The middleware's thread, while it runs the port's code.
    caller: Option<ThreadId>,
    /// Whether a thread waits for a change.
    is_awaited: bool,
    /// Whether a thread may sleep on the doorbell.
    is_sleeping: bool,
    /// Rings of the doorbell, done or about to be done, and the rings that were drained.
    rings: u64,
    drained: u64,
}

impl<T: AsRef<[u8]>> CallbackSource<T> {
    /// Returns both ends of a path that runs the port's code where it can. A middleware that brings
    /// more than `bytes_max` bytes waits.
    ///
    /// # Errors
    /// A lack of descriptors.
    pub fn with_slot(bytes_max: usize) -> Result<(CallbackFeed<T>, Self)> {
        Self::new(bytes_max, Some(Arc::default()))
    }

    /// Returns both ends of a path that itself bounds the waiting messages.
    ///
    /// # Errors
    /// A lack of descriptors.
    pub fn unbounded() -> Result<(CallbackFeed<T>, Self)> {
        Self::new(usize::MAX, None)
    }

    fn new(bytes_max: usize, slot: Option<Arc<CallSlot>>) -> Result<(CallbackFeed<T>, Self)> {
        let queue = Queue {
            messages: VecDeque::new(),
            bytes: 0,
            used: Vec::new(),
            brought: 0,
            is_over: false,
            is_closed: false,
            caller: None,
            is_awaited: false,
            is_sleeping: false,
            rings: 0,
            drained: 0,
        };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            bytes_max,
            changed: Condvar::new(),
            arrivals: Doorbell::new()?,
            slot,
        });
        let (taken, rest, used) = Default::default();
        Ok((CallbackFeed(Arc::clone(&shared)), Self { shared, taken, rest, used }))
    }

    /// Reads bytes of the next message. Returns their number, and the message if these are the last
    /// bytes of it; 0: there will be no more messages. `has_ended` returns, for the number of
    /// messages brought, whether no more can come after the sender's end.
    ///
    /// # Errors
    /// See [`PathSource::read`](super::PathSource::read); a violation if the message is empty.
    pub fn read(
        &mut self,
        into: &mut [u8],
        wait: ReadWait,
        has_ended: impl Fn(u64) -> bool,
    ) -> io::Result<(usize, Option<T>)> {
        if wait == ReadWait::Rest && !self.await_end(has_ended) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let longest = if wait == ReadWait::Short { WAIT_MAX } else { Duration::ZERO };
        let (message, start) = match self.rest.take() {
            Some(rest) => rest,
            None => match self.next(longest)? {
                Some(message) => (message, 0),
                None => return Ok((0, None)),
            },
        };
        let rest = &message.as_ref()[start..];
        if rest.is_empty() {
            return Err(violation("sent an empty message"));
        }
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        if bytes < rest.len() {
            self.rest = Some((message, start + bytes));
            return Ok((bytes, None));
        }
        Ok((bytes, Some(message)))
    }

    /// Keeps a read message for [`CallbackFeed::take_used`].
    pub fn give_back(&mut self, message: T) {
        if self.used.len() < USED_MAX {
            self.used.push(message);
        }
    }

    /// Takes the next message; `None`: there will be no more messages.
    fn next(&mut self, longest: Duration) -> io::Result<Option<T>> {
        if let Some(message) = self.taken.pop_front() {
            return Ok(Some(message));
        }
        let mut queue = lock(&self.shared.queue);
        if queue.messages.is_empty() && !queue.is_over && !longest.is_zero() {
            queue = self.shared.wait(queue, longest);
        }
        queue.is_sleeping = false;
        if queue.rings != queue.drained {
            // A ring that is still to come is drained the next time.
            queue.drained += self.shared.arrivals.drain_counted();
        }
        let Some(message) = queue.messages.pop_front() else {
            return if queue.is_over { Ok(None) } else { Err(io::ErrorKind::WouldBlock.into()) };
        };
        if self.shared.bytes_max < usize::MAX {
            queue.bytes -= message.as_ref().len();
            drop(queue);
            self.shared.changed.notify_all();
        } else {
            std::mem::swap(&mut queue.messages, &mut self.taken);
            if queue.used.is_empty() {
                std::mem::swap(&mut queue.used, &mut self.used);
            }
        }
        Ok(Some(message))
    }

    /// Waits until `has_ended` is true for the number of messages brought, or until no more will
    /// come. Returns false if this thread cannot wait, because it brings the messages itself.
    fn await_end(&self, has_ended: impl Fn(u64) -> bool) -> bool {
        let mut limit = RunningLimit::new(END_TIME);
        let mut queue = lock(&self.shared.queue);
        if !queue.is_over && queue.caller == Some(std::thread::current().id()) {
            return false;
        }
        // If the queue is full, the rest comes once the queue is read.
        while !queue.is_over && queue.bytes < self.shared.bytes_max && !has_ended(queue.brought) {
            let Some(longest) = limit.next_wait() else { break };
            queue = self.shared.wait(queue, longest);
        }
        true
    }

    /// Waits for a message, at most for `longest`, and only while `is_due` is true for the number
    /// of messages brought. Returns false if there is no message.
    pub fn await_message(&self, longest: Duration, is_due: impl Fn(u64) -> bool) -> bool {
        let mut limit = RunningLimit::new(longest);
        let mut queue = lock(&self.shared.queue);
        while self.taken.is_empty() && queue.messages.is_empty() && !queue.is_over && is_due(queue.brought) {
            let Some(longest) = limit.next_wait() else { return false };
            queue = self.shared.wait(queue, longest);
        }
        !self.taken.is_empty() || !queue.messages.is_empty()
    }

    /// Returns the descriptor that becomes readable once there are messages, after
    /// [`CallbackSource::poll`].
    pub fn arrivals(&self) -> BorrowedFd<'_> {
        self.shared.arrivals.as_fd()
    }

    /// Adds the descriptor that becomes ready once there are messages. Returns false if there are
    /// messages already, or no more will come.
    pub fn poll<'a>(&'a self, poll_set: &mut PollSet<'a>) -> bool {
        poll_set.readable(self.arrivals());
        let mut queue = lock(&self.shared.queue);
        let is_read = self.rest.is_none() && self.taken.is_empty();
        queue.is_sleeping = is_read && queue.messages.is_empty() && !queue.is_over;
        queue.is_sleeping
    }

    /// Returns the slot of a source that was made with one.
    pub fn call_slot(&self) -> Option<&Arc<CallSlot>> {
        self.shared.slot.as_ref()
    }
}

impl<T: AsRef<[u8]>> CallbackFeed<T> {
    /// Brings a message, and waits while too many bytes are in the queue. Returns false if the
    /// receiver is gone. The middleware's thread calls it.
    pub fn push(&self, message: T) -> bool {
        let mut queue = lock(&self.0.queue);
        while queue.bytes >= self.0.bytes_max && !queue.is_closed {
            queue = self.0.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.is_closed {
            return false;
        }
        if self.0.bytes_max < usize::MAX {
            queue.bytes += message.as_ref().len();
        }
        queue.brought += 1;
        queue.messages.push_back(message);
        self.0.wake(queue);
        true
    }
}

impl<T> CallbackFeed<T> {
    /// Takes read messages, to use their memory again.
    pub fn take_used(&self, into: &mut Vec<T>) {
        std::mem::swap(&mut lock(&self.0.queue).used, into);
    }

    /// Ends the bytes, as the drop does.
    pub fn end(&self) {
        let mut queue = lock(&self.0.queue);
        queue.is_over = true;
        self.0.changed.notify_all();
        self.0.wake(queue);
    }
}

impl<T> Drop for CallbackFeed<T> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<T> Shared<T> {
    /// Runs the code that waits for messages. If there is no such code, wakes the port's thread.
    fn wake<'a>(&'a self, mut queue: MutexGuard<'a, Queue<T>>) {
        if std::mem::take(&mut queue.is_awaited) {
            self.changed.notify_all();
        }
        let mut has_run = false;
        if let Some(slot) = &self.slot {
            queue.caller = Some(std::thread::current().id());
            drop(queue);
            has_run = slot.call();
            queue = lock(&self.queue);
            queue.caller = None;
        }
        if !has_run && std::mem::take(&mut queue.is_sleeping) {
            queue.rings += 1;
            drop(queue);
            self.arrivals.notify();
        }
    }

    fn wait<'a>(&self, mut queue: MutexGuard<'a, Queue<T>>, longest: Duration) -> MutexGuard<'a, Queue<T>> {
        queue.is_awaited = true;
        let waited = self.changed.wait_timeout(queue, longest);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        queue.is_awaited = false;
        queue
    }
}

impl<T> Drop for CallbackSource<T> {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_closed = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::carrier::violation_in;

    #[test]
    fn an_empty_message_is_a_violation_and_no_end() {
        let (feed, mut source) = CallbackSource::unbounded().unwrap();
        let mut into = [0; 8];
        assert!(feed.push(vec![7; 3]) && feed.push(Vec::new()));
        let mut read = || source.read(&mut into, ReadWait::Never, |_| false);
        assert_eq!(read().unwrap().0, 3);
        let error = read().unwrap_err();
        assert_eq!(violation_in(&error).unwrap(), "sent an empty message");
        drop(feed);
        assert_eq!(read().unwrap(), (0, None));
    }
}
