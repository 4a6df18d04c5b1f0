//! Where requests from outside wait for the launcher's one loop.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::sys::doorbell::Doorbell;
use crate::waveform::control::{Operation, Operations, Reply};

/// The most requests that wait for the loop to take them.
const WAITING_MAX: usize = 64;

/// Requests from the threads that talk to the outside, for the launcher's loop.
#[derive(Clone)]
pub(crate) struct Desk {
    queue: Arc<Mutex<Queue>>,
    bell: Doorbell,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Visit>,
    closed: bool,
}

/// A request and where its answer goes.
pub(super) struct Visit {
    pub operation: Operation,
    pub reply: Sender<Reply>,
}

impl Desk {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { queue: Arc::default(), bell: Doorbell::new()? })
    }

    /// Everything that has come since.
    pub(super) fn take(&self) -> VecDeque<Visit> {
        self.bell.quiet();
        std::mem::take(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner).waiting)
    }

    /// Lets nobody in any more; who waits is told so.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.closed = true;
        queue.waiting.clear();
    }
}

impl Operations for Desk {
    /// Waits for the answer, which comes within the time that the request gives, or with the end of the waveform.
    fn call(&self, operation: Operation) -> Reply {
        let ended = || Reply::Cannot("the waveform has just ended".into());
        let (reply, answer) = mpsc::channel();
        {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.closed {
                return ended();
            }
            if queue.waiting.len() >= WAITING_MAX {
                return Reply::Cannot(format!("{WAITING_MAX} requests wait for the launcher already"));
            }
            queue.waiting.push_back(Visit { operation, reply });
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
