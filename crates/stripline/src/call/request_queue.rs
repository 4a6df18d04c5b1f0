//! The queue of requests that a server has read before it starts them. They show the server, before
//! it starts a call, whether the call was cancelled, and how many wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::Result;
use crate::fail_point::fail_point;
use crate::link::ArrivedWhile;
use crate::sys::clock::now_ns;
use crate::transport::Wait;

use super::ServerOptions;
use super::replies::{ReplyMessage, ReplySender};
use super::server::RequestReceiver;
use super::wire::{ReplyStatus, WireRequest};

/// The age below which a request cannot have been cancelled yet: about the time that a cancellation
/// takes.
const FRESH_NS: u64 = 20_000;

/// The bytes of requests read ahead at most. Requests behind them stay in the links.
const BYTES_MAX: usize = 4 << 20;
/// The number of buffers kept for later requests, and the size of the largest.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 64 << 10;

pub(super) struct RequestQueue {
    waiting: VecDeque<QueuedRequest>,
    bytes: usize,
    /// Calls that may wait behind the next one; others are refused.
    waiting_max: usize,
    spares: Vec<Vec<u8>>,
    /// When the system was last polled for more, where that takes a system call.
    scanned_ns: u64,
}

/// The requests to search for a cancellation before a call is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanScope {
    /// Nowhere: the request came just now, to a server that was polling, or woke one and came
    /// alone.
    None,
    /// In what is already buffered: the system has just been drained, and to poll it again costs as
    /// much as the rest of a call.
    Buffered,
    /// In everything: the request was there before the server was free.
    All,
}

/// A queued request.
pub(super) struct QueuedRequest {
    /// Its client: an index among the server's connections, and the connection's number there.
    pub from: (usize, u16),
    pub number: u64,
    /// When it was sent, if it is measured; otherwise 0.
    pub sent_ns: u64,
    pub request: Vec<u8>,
    /// Set if the client has lost its place to another.
    pub replies: Option<Arc<ReplySender>>,
    pub is_cancelled: bool,
}

impl RequestQueue {
    pub(super) fn new(waiting_max: Option<u32>) -> Self {
        let waiting_max = waiting_max.map_or(usize::MAX, |max| max as usize);
        Self { waiting: VecDeque::new(), bytes: 0, waiting_max, spares: Vec::new(), scanned_ns: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether another request may be read.
    pub(super) fn has_space(&self) -> bool {
        // One more than may wait, because the excess ones are refused.
        self.waiting.len() <= ServerOptions::WAITING_MAX as usize && self.bytes < BYTES_MAX
    }

    /// Returns whether no other call may wait.
    pub(super) fn is_overloaded(&self) -> bool {
        self.waiting.len() > self.waiting_max
    }

    pub(super) fn push(&mut self, from: (usize, u16), number: u64, sent_ns: u64, bytes: &[u8]) {
        let mut request = self.spares.pop().unwrap_or_default();
        request.clear();
        request.extend_from_slice(bytes);
        self.bytes += bytes.len();
        let (replies, is_cancelled) = (None, false);
        self.waiting.push_back(QueuedRequest { from, number, sent_ns, request, replies, is_cancelled });
    }

    pub(super) fn pop(&mut self) -> Option<QueuedRequest> {
        let next = self.waiting.pop_front()?;
        self.bytes -= next.request.len();
        Some(next)
    }

    /// Keeps the buffer of a request for a later one.
    pub(super) fn recycle(&mut self, request: Vec<u8>) {
        if self.spares.len() < SPARES_MAX && request.capacity() <= SPARE_BYTES_MAX {
            self.spares.push(request);
        }
    }

    /// Marks a call as cancelled; false: it does not wait here.
    pub(super) fn cancel(&mut self, from: (usize, u16), number: u64) -> bool {
        let is_it = |call: &&mut QueuedRequest| call.number == number && call.from == from;
        // From the end: a cancelled call has often just been made.
        match self.waiting.iter_mut().rev().find(is_it) {
            Some(call) => {
                call.is_cancelled = true;
                true
            }
            None => false,
        }
    }

    /// Records that a new client takes that index. Queued calls of the one before keep its replies.
    pub(super) fn set_successor(&mut self, place: usize, replies: &Arc<ReplySender>) {
        let its = self.waiting.iter_mut().filter(|call| call.from.0 == place && call.replies.is_none());
        its.for_each(|call| call.replies = Some(Arc::clone(replies)));
    }
}

/// The call that one thread of a pool works on. Written and searched by the thread that receives.
#[derive(Default)]
pub(super) struct InFlight {
    client: AtomicU64,
    /// 0: none, or one that cannot be cancelled.
    number: AtomicU64,
    pub cancelled: AtomicBool,
}

impl InFlight {
    /// Records the start of a call of that client.
    pub(super) fn begin(&self, next: &QueuedRequest) {
        // Relaxed throughout: only the thread that holds the lock accesses them; the flag is a
        // hint.
        self.client.store(Self::name_of(next.from), Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Relaxed);
        self.number.store(next.number, Ordering::Relaxed);
    }

    /// Records the end of the call: a later cancellation has no effect.
    pub(super) fn end(&self) {
        self.number.store(0, Ordering::Relaxed);
    }

    /// Sets the flag if the cancelled call is this one.
    pub(super) fn cancel(&self, from: (usize, u16), number: u64) {
        let is_it = self.number.load(Ordering::Relaxed) == number
            && self.client.load(Ordering::Relaxed) == Self::name_of(from);
        if is_it {
            self.cancelled.store(true, Ordering::Relaxed);
        }
    }

    fn name_of((place, connection): (usize, u16)) -> u64 {
        (place as u64) << 16 | u64::from(connection)
    }
}

impl RequestReceiver {
    /// Returns where a cancellation of the current request may be.
    #[inline]
    pub(super) fn scan_new(&mut self) -> ScanScope {
        let is_young = self.incoming.age_ns().is_none_or(|ns| ns < FRESH_NS);
        match self.incoming.arrived_while() {
            ArrivedWhile::Spinning if is_young => ScanScope::None,
            ArrivedWhile::Sleeping if is_young && !self.incoming.has_buffered() => ScanScope::None,
            ArrivedWhile::Sleeping if is_young => ScanScope::Buffered,
            // The request was there before the server slept, which then did not sleep.
            ArrivedWhile::Sleeping | ArrivedWhile::Spinning | ArrivedWhile::Idle => self.scan_again(),
        }
    }

    /// Returns where a cancellation of a queued request may be.
    pub(super) fn scan_again(&mut self) -> ScanScope {
        if self.incoming.polls_without_syscall() {
            return ScanScope::All;
        }
        let now_ns = now_ns();
        if now_ns.saturating_sub(self.queue.scanned_ns) < FRESH_NS {
            return ScanScope::Buffered;
        }
        self.queue.scanned_ns = now_ns;
        ScanScope::All
    }

    /// Queues the current request behind those that wait.
    pub(super) fn enqueue(&mut self, in_flight: &[InFlight]) {
        let from = self.incoming.connection_index();
        let violation = match (WireRequest::parse(self.incoming.payload()), &self.slots[from.0]) {
            (Ok(WireRequest::Call { number, deadline_us, .. }), Some(slot)) if self.queue.is_overloaded() => {
                // Relaxed: exact by itself, like all counters.
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                let words = format!("{} calls wait, which is the limit", self.queue.waiting_max);
                let (status, payload) = (ReplyStatus::Overloaded, words.as_bytes());
                slot.replies.send(&ReplyMessage { number, status, payload, deadline_us });
                None
            }
            (Ok(WireRequest::Call { number, .. }), Some(_)) => {
                self.queue.push(from, number, self.incoming.sent_ns(), self.incoming.payload());
                fail_point!("call-waits");
                None
            }
            (Ok(WireRequest::Cancel { number }), Some(_)) => {
                self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                if !self.queue.cancel(from, number) {
                    in_flight.iter().for_each(|in_flight| in_flight.cancel(from, number));
                }
                None
            }
            // The client is gone.
            (Ok(_), None) => None,
            (Err(violation), _) => Some(violation),
        };
        match violation {
            Some(violation) => self.evict(&violation),
            None => self.incoming.release(),
        }
    }

    /// Reads the available requests from the links, as far as there is room for them.
    pub(super) fn fill(&mut self, scope: ScanScope, in_flight: &[InFlight]) -> Result<()> {
        while self.queue.has_space() {
            let found = match scope {
                ScanScope::None => false,
                ScanScope::Buffered => self.incoming.try_receive_fast() && self.has_slots(),
                ScanScope::All => self.receive(Wait::Never)?,
            };
            if !found {
                break;
            }
            self.enqueue(in_flight);
        }
        Ok(())
    }

    /// Returns where a queued call is answered.
    pub(super) fn replies_to(&self, waiting: &QueuedRequest) -> Option<Arc<ReplySender>> {
        let (place, connection) = waiting.from;
        let slot = self.slots.get(place).and_then(Option::as_ref);
        let slot = slot.filter(|slot| slot.connection == connection).map(|slot| &slot.replies);
        waiting.replies.as_ref().or(slot).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_taken_back_where_it_waits_and_nowhere_else() {
        let mut queue = RequestQueue::new(Some(1));
        for (from, number) in [((0, 1), 7), ((1, 2), 7), ((0, 1), 8)] {
            queue.push(from, number, 0, &[number as u8]);
        }
        assert!(queue.is_overloaded() && queue.has_space());
        assert!(queue.cancel((1, 2), 7));
        // Another client at the same index, and a call that is not there.
        assert!(!queue.cancel((1, 3), 7) && !queue.cancel((0, 1), 9));
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|call| call.is_cancelled).collect();
        assert_eq!(popped, [false, true, false]);
        assert!(queue.is_empty() && !queue.is_overloaded() && queue.bytes == 0);
    }

    #[test]
    fn no_more_is_taken_off_the_links_than_there_is_room_for() {
        let mut queue = RequestQueue::new(None);
        while queue.has_space() {
            queue.push((0, 0), 1, 0, &[0; 1 << 20]);
        }
        assert_eq!(queue.waiting.len(), 4);
        // So large a buffer is not kept.
        let large = queue.pop().unwrap().request;
        queue.recycle(large);
        assert!(queue.spares.is_empty() && queue.has_space());
    }
}
