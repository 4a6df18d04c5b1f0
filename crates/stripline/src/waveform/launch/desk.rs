//! Where requests from outside wait for the launcher's one loop.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::sys::doorbell::Doorbell;
use crate::waveform::control::{Fault, Operations, Reply, Request};

/// The most requests that wait for the loop to take them.
const WAITING_MAX: usize = 64;

/// Requests from the threads that talk to the outside, for the launcher's loop.
#[derive(Clone)]
pub(crate) struct Desk {
    shared: Arc<(Mutex<Queue>, Condvar)>,
    bell: Doorbell,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Visit>,
    closed: bool,
    /// How many have heard how the waveform ended.
    heard: usize,
}

/// A request and where its answer goes.
pub(super) struct Visit {
    pub request: Request,
    pub reply: Sender<Reply>,
}

impl Desk {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { shared: Arc::default(), bell: Doorbell::new()? })
    }

    /// Everything that has come since.
    pub(super) fn take(&self) -> VecDeque<Visit> {
        self.bell.quiet();
        std::mem::take(&mut self.queue().waiting)
    }

    /// Lets nobody in any more; those who have come too late, who are told so unless they are answered.
    pub(super) fn close(&self) -> VecDeque<Visit> {
        let mut queue = self.queue();
        queue.closed = true;
        std::mem::take(&mut queue.waiting)
    }

    /// Blocks until so many have heard how the waveform ended, or the time is over: they may have left.
    pub(super) fn wait_until_heard(&self, count: usize, time: Duration) {
        let _queue = self.shared.1.wait_timeout_while(self.queue(), time, |queue| queue.heard < count);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Whole whatever happened to the last holder.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operations for Desk {
    /// Waits for the answer, which comes within the time that the request gives, or with the end of the waveform.
    fn call(&self, request: Request) -> Reply {
        let cannot = |why: String| Reply::Failed(Fault::Cannot(why));
        let ended = || cannot("the waveform has just ended".into());
        let (reply, answer) = mpsc::channel();
        {
            let mut queue = self.queue();
            if request == Request::Heard {
                queue.heard += 1;
                self.shared.1.notify_all();
                return Reply::Heard;
            }
            if queue.closed {
                return ended();
            }
            if queue.waiting.len() >= WAITING_MAX {
                return cannot(format!("{WAITING_MAX} requests wait for the launcher already"));
            }
            queue.waiting.push_back(Visit { request, reply });
        }
        self.bell.ring();
        answer.recv().unwrap_or_else(|_| ended())
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
