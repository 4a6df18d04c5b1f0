//! The reply sender of one client. The serving thread never waits for the client: replies without
//! room go to a queue with a separate thread, and are dropped when their deadlines pass.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::fail_point::fail_point;
use crate::link::Outgoing;
use crate::sys::fork::OwnerProcess;
use crate::sys::mutex::lock;
use crate::transport::Wait;

use super::counts::Counts;
use super::wire::{HEAD_BYTES, ReplyStatus, put_message, reply_head, reply_words};

pub(super) struct ReplySender {
    pub connection: String,
    /// The number of outstanding calls that the client has announced.
    outstanding_max: usize,
    /// Whether replies wait for room, readable without the lock.
    is_backlogged: AtomicBool,
    state: Mutex<BacklogState>,
    counts: Arc<Counts>,
    process: OwnerProcess,
}

enum BacklogState {
    /// There is room, as far as has been detected.
    Free(Box<Outgoing>),
    /// The queue's thread has the link and waits for room.
    Backlogged(VecDeque<QueuedReply>),
    Closed,
}

/// A queued reply that has no room yet.
struct QueuedReply {
    bytes: Vec<u8>,
    /// The deadline of the call.
    until: Option<Instant>,
}

/// A reply.
pub(super) struct ReplyMessage<'a> {
    pub number: u64,
    pub status: ReplyStatus,
    pub payload: &'a [u8],
    /// The time for which the client waits, in microseconds.
    pub deadline_us: u32,
}

impl ReplySender {
    pub(super) fn new(
        connection: String,
        outstanding_max: u32,
        outgoing: Outgoing,
        counts: Arc<Counts>,
    ) -> Self {
        let state = Mutex::new(BacklogState::Free(Box::new(outgoing)));
        let outstanding_max = outstanding_max as usize;
        let (is_stuck, process) = (AtomicBool::new(false), OwnerProcess::current());
        Self { connection, outstanding_max, is_backlogged: is_stuck, state, counts, process }
    }

    /// Sends a reply, or queues it.
    pub(super) fn send(self: &Arc<Self>, answer: &ReplyMessage<'_>) {
        // A child that a handler forked leaves the reply to the parent.
        if !self.process.is_current() {
            return;
        }
        fail_point!("call-answer");
        let mut state = lock(&self.state);
        match &mut *state {
            BacklogState::Free(outgoing) => match put(outgoing, answer) {
                // Check for a lost client after the send, off the path that the client waits for.
                Ok(()) if outgoing.has_no_receivers() => self.dropped(),
                Ok(()) => fail_point!("call-answered"),
                Err(Error::Full { .. } | Error::TooLarge { .. }) => self.spill(state, answer),
                Err(_) => self.dropped(),
            },
            BacklogState::Backlogged(queue) if queue.len() < self.outstanding_max => {
                queue.push_back(QueuedReply::of(answer))
            }
            BacklogState::Backlogged(_) | BacklogState::Closed => self.dropped(),
        }
    }

    /// Returns whether replies wait for room.
    #[inline]
    pub(super) fn is_backlogged(&self) -> bool {
        // Relaxed: a late read admits one more request.
        self.is_backlogged.load(Ordering::Relaxed)
    }

    /// Returns whether the client has more calls outstanding than announced, and takes no replies.
    pub(super) fn is_over_limit(&self) -> bool {
        self.is_backlogged()
            && matches!(&*lock(&self.state), BacklogState::Backlogged(queue) if queue.len() >= self.outstanding_max)
    }

    /// Returns whether the client has gone, by a system call.
    pub(super) fn is_over(&self) -> bool {
        match &mut *lock(&self.state) {
            BacklogState::Free(outgoing) => {
                outgoing.admit();
                outgoing.receivers() == 0
            }
            BacklogState::Backlogged(_) => false,
            BacklogState::Closed => true,
        }
    }

    /// Closes the connection: no more replies are sent.
    pub(super) fn close(&self) {
        let before = std::mem::replace(&mut *lock(&self.state), BacklogState::Closed);
        drop(before);
    }

    /// Passes the link to a separate thread until there is room for all queued replies.
    #[cold]
    fn spill(self: &Arc<Self>, mut state: MutexGuard<'_, BacklogState>, answer: &ReplyMessage<'_>) {
        let queue = VecDeque::from([QueuedReply::of(answer)]);
        let BacklogState::Free(outgoing) = std::mem::replace(&mut *state, BacklogState::Backlogged(queue))
        else {
            return;
        };
        self.is_backlogged.store(true, Ordering::Relaxed);
        drop(state);
        let sender = Arc::clone(self);
        let thread = std::thread::Builder::new().name("stripline-reply".into());
        if let Err(error) = thread.spawn(move || sender.drain_backlog(outgoing)) {
            log::error!(target: "stripline::call", "{}: cannot start a thread: {error}", self.connection);
            self.close();
        }
    }

    /// Runs the thread that sends the queued replies.
    fn drain_backlog(&self, mut outgoing: Box<Outgoing>) {
        loop {
            let mut state = lock(&self.state);
            let BacklogState::Backlogged(queue) = &mut *state else { return };
            let Some(QueuedReply { bytes, until }) = queue.pop_front() else {
                *state = BacklogState::Free(outgoing);
                self.is_backlogged.store(false, Ordering::Relaxed);
                return;
            };
            drop(state);
            let put = |place: &mut [u8]| place.copy_from_slice(&bytes);
            let sent = outgoing.send_bytes(bytes.len(), Wait::Until(until), put);
            if sent.is_err() || outgoing.has_no_receivers() {
                self.dropped();
            }
        }
    }

    fn dropped(&self) {
        self.counts.replies_dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn put(outgoing: &mut Outgoing, answer: &ReplyMessage<'_>) -> Result<(), Error> {
    let bytes = HEAD_BYTES + answer.payload.len();
    outgoing.send_bytes(bytes, Wait::Never, |place| {
        put_message(place, reply_words(answer.number, answer.status), answer.payload);
    })
}

impl QueuedReply {
    fn of(answer: &ReplyMessage<'_>) -> Self {
        let bytes = [&reply_head(answer.number, answer.status)[..], answer.payload].concat();
        let deadline = Duration::from_micros(u64::from(answer.deadline_us));
        Self { bytes, until: Instant::now().checked_add(deadline) }
    }
}
