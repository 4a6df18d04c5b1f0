//! The queue of requests that a server has read but not started. Before the server starts a call,
//! the queue shows whether the call was cancelled, and how many calls wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::ServerOptions;
use super::replies::ReplySender;
use super::wire::{CallHead, ChainBytes};

/// The most bytes of requests read ahead. Later requests stay in the links.
const BYTES_MAX: usize = 4 << 20;
/// The number of buffers kept for later requests, and the size of the largest.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 64 << 10;
/// The capacity of the first buffer. Most requests fit, so queueing the first request allocates
/// nothing.
const FIRST_SPARE_BYTES: usize = 1 << 10;

pub(super) struct RequestQueue {
    waiting: VecDeque<QueuedRequest>,
    bytes: usize,
    /// The number of calls that may wait behind the next one. Further calls are refused.
    pub waiting_max: usize,
    spares: Vec<Vec<u8>>,
}

/// A queued request.
pub(super) struct QueuedRequest {
    /// The sender for the reply to the client.
    pub replies: Arc<ReplySender>,
    pub head: CallHead,
    /// The time at which the request was sent, if it is measured; otherwise 0.
    pub sent_ns: u64,
    pub is_cancelled: bool,
    chain_bytes: usize,
    /// The chain and the payload of the request.
    bytes: Vec<u8>,
}

impl QueuedRequest {
    pub(super) fn chain(&self) -> ChainBytes<'_> {
        ChainBytes(&self.bytes[..self.chain_bytes])
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[self.chain_bytes..]
    }

    fn is(&self, replies: &Arc<ReplySender>, number: u64) -> bool {
        self.head.number == number && Arc::ptr_eq(&self.replies, replies)
    }
}

impl RequestQueue {
    pub(super) fn new(waiting_max: Option<u32>) -> Self {
        let waiting_max = waiting_max.map_or(usize::MAX, |max| max as usize);
        let mut spares = Vec::with_capacity(SPARES_MAX);
        spares.push(Vec::with_capacity(FIRST_SPARE_BYTES));
        Self { waiting: VecDeque::with_capacity(SPARES_MAX), bytes: 0, waiting_max, spares }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether another request may be read.
    pub(super) fn has_space(&self) -> bool {
        // The limit is one above the calls that may wait, because excess calls must be read to be
        // refused.
        self.waiting.len() <= ServerOptions::WAITING_MAX as usize && self.bytes < BYTES_MAX
    }

    /// Returns whether no further call may wait.
    pub(super) fn is_overloaded(&self) -> bool {
        self.waiting.len() > self.waiting_max
    }

    pub(super) fn push(
        &mut self,
        replies: Arc<ReplySender>,
        head: CallHead,
        sent_ns: u64,
        chain: ChainBytes<'_>,
        payload: &[u8],
    ) {
        let mut bytes = self.spares.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(chain.0);
        bytes.extend_from_slice(payload);
        self.bytes += bytes.len();
        let (chain_bytes, is_cancelled) = (chain.0.len(), false);
        self.waiting.push_back(QueuedRequest { replies, head, sent_ns, is_cancelled, chain_bytes, bytes });
    }

    pub(super) fn pop(&mut self) -> Option<QueuedRequest> {
        let next = self.waiting.pop_front()?;
        self.bytes -= next.bytes.len();
        Some(next)
    }

    /// Keeps the buffer of a request for a later one.
    pub(super) fn recycle(&mut self, request: QueuedRequest) {
        if self.spares.len() < SPARES_MAX && request.bytes.capacity() <= SPARE_BYTES_MAX {
            self.spares.push(request.bytes);
        }
    }

    /// Marks a waiting call as cancelled. Returns false if the call does not wait here.
    pub(super) fn cancel(&mut self, replies: &Arc<ReplySender>, number: u64) -> bool {
        // The search starts at the end, because a cancelled call has often just been made.
        let call = self.waiting.iter_mut().rev().find(|call| call.is(replies, number));
        call.map(|call| call.is_cancelled = true).is_some()
    }
}

/// The call that one thread of a pool works on. The receiving thread writes and searches it.
#[derive(Default)]
pub(super) struct InFlight {
    /// The address of the client's reply sender, which the call keeps alive.
    client: AtomicUsize,
    /// The number of the call; 0 for no call, or a call that cannot be cancelled.
    number: AtomicU64,
    pub cancelled: AtomicBool,
}

impl InFlight {
    /// Records the start of a client's call.
    pub(super) fn begin(&self, next: &QueuedRequest) {
        // Relaxed throughout: only the thread that holds the lock accesses the numbers, and the
        // flag is a hint.
        self.client.store(Arc::as_ptr(&next.replies).addr(), Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Relaxed);
        self.number.store(next.head.number, Ordering::Relaxed);
    }

    /// Records the end of the call, after which a cancellation has no effect.
    pub(super) fn end(&self) {
        self.number.store(0, Ordering::Relaxed);
    }

    /// Sets the flag if this is the cancelled call.
    pub(super) fn cancel(&self, replies: &Arc<ReplySender>, number: u64) {
        let is_it = self.number.load(Ordering::Relaxed) == number
            && self.client.load(Ordering::Relaxed) == Arc::as_ptr(replies).addr();
        if is_it {
            self.cancelled.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::link::{Outgoing, Sampling};
    use crate::transport::StopToken;

    use super::*;

    fn replies() -> Arc<ReplySender> {
        let outgoing = Outgoing::new("client".into(), vec![], Sampling::Off, StopToken::new().unwrap());
        Arc::new(ReplySender::new("client".into(), 1, outgoing, Arc::default()))
    }

    fn push(queue: &mut RequestQueue, replies: &Arc<ReplySender>, number: u64, payload: &[u8]) {
        let head = CallHead { number, operation: 0, deadline_us: 1 };
        queue.push(Arc::clone(replies), head, 0, ChainBytes(&[]), payload);
    }

    #[test]
    fn the_first_request_in_the_queue_fits_in_what_is_allocated() {
        let mut queue = RequestQueue::new(None);
        let places = |queue: &RequestQueue| (queue.waiting.capacity(), queue.spares.capacity());
        let (before, buffer) = (places(&queue), queue.spares[0].as_ptr());
        push(&mut queue, &replies(), 1, &[7; FIRST_SPARE_BYTES]);
        let request = queue.pop().unwrap();
        assert_eq!((request.payload().as_ptr(), places(&queue)), (buffer, before));
        queue.recycle(request);
        assert_eq!((queue.spares[0].as_ptr(), places(&queue)), (buffer, before));
    }

    #[test]
    fn a_call_is_taken_back_where_it_waits_and_nowhere_else() {
        let mut queue = RequestQueue::new(Some(1));
        let clients = [replies(), replies(), replies()];
        for (client, number) in [(0, 7), (1, 7), (0, 8)] {
            push(&mut queue, &clients[client], number, &[number as u8]);
        }
        assert!(queue.is_overloaded() && queue.has_space());
        assert!(queue.cancel(&clients[1], 7));
        // Neither a call of another client nor a missing call is cancelled.
        assert!(!queue.cancel(&clients[2], 7) && !queue.cancel(&clients[0], 9));
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|call| call.is_cancelled).collect();
        assert_eq!(popped, [false, true, false]);
        assert!(queue.is_empty() && !queue.is_overloaded() && queue.bytes == 0);
    }

    #[test]
    fn no_more_is_taken_off_the_links_than_there_is_room_for() {
        let (mut queue, client) = (RequestQueue::new(None), replies());
        while queue.has_space() {
            push(&mut queue, &client, 1, &[0; 1 << 20]);
        }
        assert_eq!(queue.waiting.len(), 4);
        // A buffer of this size is not kept.
        let large = queue.pop().unwrap();
        queue.recycle(large);
        assert!(queue.spares.is_empty() && queue.has_space());
    }
}
