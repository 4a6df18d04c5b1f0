//! The receiving side of a server: the requests of the clients, and the queue of waiting requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::link::{ArrivedWhile, Incoming, Polled};
use crate::sys::clock::now_ns;
use crate::transport::Wait;

use super::Refusal;
use super::clients::ClientTable;
use super::counts::Counts;
use super::replies::{ReplyMessage, ReplySender};
use super::request_queue::{InFlight, QueuedRequest, RequestQueue};
use super::wire::{ReplyStatus, WireRequest};

/// The age below which a request cannot have been cancelled yet: about the time that a cancellation
/// takes to arrive.
const FRESH_NS: u64 = 20_000;

/// The state of the receiving thread.
pub(super) struct RequestReceiver {
    pub incoming: Incoming,
    /// The clients, by the index of the incoming link's connections.
    slots: Vec<Option<ClientSlot>>,
    /// The number of closed connections when the client table was last updated.
    closed_count: u16,
    clients: Arc<ClientTable>,
    counts: Arc<Counts>,
    /// The requests read ahead.
    pub queue: RequestQueue,
    /// The time of the last poll that took a system call.
    scanned_ns: u64,
}

struct ClientSlot {
    connection: u16,
    replies: Arc<ReplySender>,
}

impl RequestReceiver {
    pub(super) fn new(
        incoming: Incoming,
        clients: Arc<ClientTable>,
        counts: Arc<Counts>,
        waiting_max: Option<u32>,
    ) -> Self {
        let queue = RequestQueue::new(waiting_max);
        Self { incoming, slots: Vec::new(), closed_count: 0, clients, counts, queue, scanned_ns: 0 }
    }

    /// Receives the next request and ensures that the client has a slot. Returns false if none
    /// arrived.
    pub(super) fn receive(&mut self, wait: Wait) -> Result<bool> {
        match self.incoming.receive(|| wait) {
            Ok(Polled::Packet) => {}
            Ok(_) => return Ok(false),
            Err(error @ Error::PeerMisbehaved { .. }) => {
                self.report_evicted(&error);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        if self.incoming.closed_count() != self.closed_count {
            self.close_departed();
        }
        Ok(self.has_slot())
    }

    /// Returns whether the current request has just arrived, at a server that waited for it.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        // A request sent before the server tried to sleep, and kept it from sleeping, is older.
        self.incoming.arrived_while() != ArrivedWhile::Idle
            && self.incoming.age_ns().is_none_or(|ns| ns < FRESH_NS)
    }

    /// Returns whether no cancellation of the fresh request can be here: either the server was
    /// polling when the request arrived, or the request woke the server and nothing else is
    /// buffered.
    #[inline]
    pub(super) fn is_alone(&mut self) -> bool {
        self.incoming.arrived_while() == ArrivedWhile::Spinning || !self.incoming.has_buffered()
    }

    /// Returns the reply sender for the client of the current request; `None` if the client has
    /// gone.
    #[inline]
    pub(super) fn replies(&self) -> Option<&Arc<ReplySender>> {
        let slot = self.slots.get(self.incoming.connection_index().0)?;
        slot.as_ref().map(|slot| &slot.replies)
    }

    /// Queues the current request behind the waiting ones.
    pub(super) fn enqueue(&mut self, in_flight: &[InFlight]) {
        if let Some(replies) = self.replies().cloned() {
            match WireRequest::parse(self.incoming.payload()) {
                Ok(WireRequest::Call { head, .. }) if self.queue.is_overloaded() => {
                    // Relaxed: each counter is exact by itself.
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    let words = format!("{} calls wait, which is the limit", self.queue.waiting_max);
                    let (status, payload) = (ReplyStatus::Refused(Refusal::Overloaded), words.as_bytes());
                    let (number, deadline_us) = (head.number, head.deadline_us);
                    replies.send(&ReplyMessage { number, status, payload, deadline_us });
                }
                Ok(WireRequest::Call { head, chain, payload }) => {
                    self.queue.push(replies, head, self.incoming.sent_ns(), chain, payload);
                    fail_point!("call-waits");
                }
                Ok(WireRequest::Cancel { number }) => {
                    self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                    if !self.queue.cancel(&replies, number) {
                        in_flight.iter().for_each(|in_flight| in_flight.cancel(&replies, number));
                    }
                }
                Err(violation) => return self.evict(&violation),
            }
        }
        self.incoming.release();
    }

    /// Returns the next queued request after searching for a cancellation of it. For a fresh
    /// request, only buffered messages are searched. For other requests, the system may be polled
    /// as well. The search ends when the queue is full.
    pub(super) fn next_queued(
        &mut self,
        is_fresh: bool,
        in_flight: &[InFlight],
    ) -> Result<Option<QueuedRequest>> {
        let polls_system = !is_fresh && self.may_poll_system();
        while self.queue.has_space() {
            let found = match polls_system {
                true => self.receive(Wait::Never)?,
                false => self.incoming.try_receive_fast() && self.has_slot(),
            };
            if !found {
                break;
            }
            self.enqueue(in_flight);
        }
        Ok(self.queue.pop())
    }

    /// Returns whether to poll the system. A poll costs as much as the rest of a call, so it is
    /// skipped shortly after another poll.
    fn may_poll_system(&mut self) -> bool {
        if self.incoming.polls_without_syscall() {
            return true;
        }
        let now_ns = now_ns();
        let is_due = now_ns.saturating_sub(self.scanned_ns) >= FRESH_NS;
        if is_due {
            self.scanned_ns = now_ns;
        }
        is_due
    }

    /// Releases the state of clients that have gone.
    #[cold]
    fn close_departed(&mut self) {
        let closed_count = self.incoming.closed_count();
        if !self.clients.close_departed(&self.incoming) {
            return;
        }
        self.closed_count = closed_count;
        for (place, slot) in self.slots.iter_mut().enumerate() {
            slot.take_if(|slot| !self.incoming.is_there(place, slot.connection));
        }
    }

    /// Ensures that the client that sent the request has a slot. Returns false if the client was
    /// disconnected.
    #[inline]
    fn has_slot(&mut self) -> bool {
        let (place, connection) = self.incoming.connection_index();
        match self.slots.get(place) {
            Some(Some(slot)) if slot.connection == connection && !slot.replies.is_backlogged() => true,
            _ => self.assign_slot(place, connection),
        }
    }

    /// Ensures the slot if it has to be made or checked; see [`RequestReceiver::has_slot`].
    #[cold]
    fn assign_slot(&mut self, place: usize, connection: u16) -> bool {
        if self.slots.len() <= place {
            self.slots.resize_with(place + 1, || None);
        }
        let slot = &mut self.slots[place];
        if slot.as_ref().is_none_or(|slot| slot.connection != connection) {
            let replies = self.clients.replies_for(self.incoming.connection());
            *slot = replies.map(|replies| ClientSlot { connection, replies });
        }
        if slot.as_ref().is_some_and(|slot| slot.replies.is_over_limit()) {
            self.evict("has more calls outstanding than announced, and takes no replies");
            return false;
        }
        true
    }

    /// Disconnects the client that sent the request.
    #[cold]
    pub(super) fn evict(&mut self, violation: &str) {
        let place = self.incoming.connection_index().0;
        let error = self.incoming.evict(violation);
        if let Some(slot) = self.slots.get_mut(place).and_then(Option::take) {
            slot.replies.close();
        }
        self.report_evicted(&error);
    }

    fn report_evicted(&self, error: &Error) {
        self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        log::warn!(target: "stripline::call", "{error}");
    }
}
