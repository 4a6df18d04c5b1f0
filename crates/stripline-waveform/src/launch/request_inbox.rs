//! The inbox where requests from clients wait for the launcher's one loop.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stripline::Result;
use stripline::internal::Doorbell;

use crate::control::{Operations, RequestFault, WaveformReply, WaveformRequest};

/// The most requests that wait for the loop to take them.
const WAITING_MAX: usize = 64;

/// The inbox of requests from the service threads, for the launcher's loop.
#[derive(Clone)]
pub(crate) struct RequestInbox {
    shared: Arc<(Mutex<InboxQueue>, Condvar)>,
    doorbell: Doorbell,
}

#[derive(Default)]
struct InboxQueue {
    waiting: VecDeque<InboxEntry>,
    closed: bool,
    /// Clients that have acknowledged the report of the waveform's end.
    acknowledged: usize,
}

/// A request and the channel for its answer.
pub(super) struct InboxEntry {
    pub request: WaveformRequest,
    pub reply: Sender<WaveformReply>,
}

impl RequestInbox {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { shared: Arc::default(), doorbell: Doorbell::new()? })
    }

    /// Takes all requests that have arrived since the last call.
    pub(super) fn take(&self) -> VecDeque<InboxEntry> {
        self.doorbell.drain();
        std::mem::take(&mut self.queue().waiting)
    }

    /// Closes the inbox for new requests; returns those still queued. They get an error unless they
    /// are answered.
    pub(super) fn close(&self) -> VecDeque<InboxEntry> {
        let mut queue = self.queue();
        queue.closed = true;
        std::mem::take(&mut queue.waiting)
    }

    /// Blocks until `count` clients have acknowledged the end of the waveform, or the time is over,
    /// as clients may have left.
    pub(super) fn wait_until_acknowledged(&self, count: usize, time: Duration) {
        let _queue = self.shared.1.wait_timeout_while(self.queue(), time, |queue| queue.acknowledged < count);
    }

    fn queue(&self) -> MutexGuard<'_, InboxQueue> {
        // Consistent even if the last holder panicked.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operations for RequestInbox {
    /// Waits for the answer, which comes within the time that the request gives, or with the end of
    /// the waveform.
    fn call(&self, request: WaveformRequest) -> WaveformReply {
        let cannot = |why: String| WaveformReply::Failed(RequestFault::Cannot(why));
        let ended = || cannot("the waveform has just ended".into());
        let (reply, answer) = mpsc::channel();
        {
            let mut queue = self.queue();
            if request == WaveformRequest::Acknowledged {
                queue.acknowledged += 1;
                self.shared.1.notify_all();
                return WaveformReply::Acknowledged;
            }
            if queue.closed {
                return ended();
            }
            if queue.waiting.len() >= WAITING_MAX {
                return cannot(format!("{WAITING_MAX} requests wait for the launcher already"));
            }
            queue.waiting.push_back(InboxEntry { request, reply });
        }
        self.doorbell.notify();
        answer.recv().unwrap_or_else(|_| ended())
    }
}

impl AsFd for RequestInbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}
