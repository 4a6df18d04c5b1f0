//! The inbox in which requests of clients wait for the launcher's loop.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stripline::internal::Doorbell;

use super::{ReplySender, RequestFault, WaveformRequest};

/// The maximum number of requests that wait for the loop.
const WAITING_MAX: usize = 64;

/// The inbox through which the service threads pass requests to the launcher's loop.
#[derive(Clone)]
pub(crate) struct RequestInbox {
    shared: Arc<(Mutex<InboxQueue>, Condvar)>,
    doorbell: Doorbell,
}

#[derive(Default)]
struct InboxQueue {
    waiting: VecDeque<WaveformRequest>,
    closed: bool,
    /// Clients that have acknowledged the report of the waveform's end.
    acknowledged: usize,
}

impl RequestInbox {
    pub(crate) fn new() -> stripline::Result<Self> {
        Ok(Self { shared: Arc::default(), doorbell: Doorbell::new()? })
    }

    /// Takes all requests that have arrived since the last call.
    pub(crate) fn take(&self) -> VecDeque<WaveformRequest> {
        self.doorbell.drain();
        std::mem::take(&mut self.queue().waiting)
    }

    /// Closes the inbox for new requests, and returns the requests that are still queued. A queued
    /// request that is not answered gets an error.
    pub(crate) fn close(&self) -> VecDeque<WaveformRequest> {
        let mut queue = self.queue();
        queue.closed = true;
        std::mem::take(&mut queue.waiting)
    }

    /// Wakes the loop without a request.
    pub(crate) fn wake(&self) {
        self.doorbell.notify();
    }

    /// Blocks until `count` clients have acknowledged the end of the waveform, or until the time is
    /// over, because clients may have left.
    pub(crate) fn wait_until_acknowledged(&self, count: usize, time: Duration) {
        let _queue = self.shared.1.wait_timeout_while(self.queue(), time, |queue| queue.acknowledged < count);
    }

    /// Records that a client has received the report of the waveform's end.
    pub(super) fn acknowledge(&self) {
        self.queue().acknowledged += 1;
        self.shared.1.notify_all();
    }

    /// Queues a request and waits for the answer. The answer comes within the time that the request
    /// gives, or when the waveform ends.
    pub(super) fn call<T>(
        &self,
        request: impl FnOnce(ReplySender<T>) -> WaveformRequest,
    ) -> Result<T, RequestFault> {
        let ended = || Err(RequestFault::Cannot("the waveform has just ended".into()));
        let (reply, answer) = mpsc::channel();
        {
            let mut queue = self.queue();
            if queue.closed {
                return ended();
            }
            if queue.waiting.len() >= WAITING_MAX {
                let why = format!("{WAITING_MAX} requests wait for the launcher already");
                return Err(RequestFault::Cannot(why));
            }
            queue.waiting.push_back(request(reply));
        }
        self.doorbell.notify();
        answer.recv().unwrap_or_else(|_| ended())
    }

    fn queue(&self) -> MutexGuard<'_, InboxQueue> {
        // The queue is consistent even if the last holder of the lock panicked.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for RequestInbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}
