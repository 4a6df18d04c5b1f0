//! Requests that a server has taken off its links before their turn: so it knows, before it begins a call, whether that was
//! taken back meanwhile, and how many wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::Result;
use crate::fail_point::fail_point;
use crate::link::Came;
use crate::sys::clock::now_ns;
use crate::transport::Wait;

use super::ServerOptions;
use super::replies::{Answer, Replies};
use super::server::Source;
use super::wire::{Request, Status};

/// Whoever takes a call back so soon is too late: about what it takes to say so.
const FRESH_NS: u64 = 20_000;

/// What is looked through at most, in bytes of requests. What comes behind lies in the links, as ever.
const BYTES_MAX: usize = 4 << 20;
/// Buffers kept for later requests, and the largest of them.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 64 << 10;

pub(super) struct Ahead {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Calls that may wait behind the one that comes next; any others are refused.
    waiting_max: usize,
    spares: Vec<Vec<u8>>,
    /// When the system was last asked whether it has more, where that takes a call of it.
    asked_ns: u64,
}

/// Where to look whether a call was taken back, before it is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It came just now, to a server that was looking for it, or woke one and came alone.
    Nowhere,
    /// The server has just taken all that the system had: to ask again costs as much as the rest of a call.
    AtHand,
    /// It was there before the server was free.
    Everywhere,
}

/// A call that waits for its turn.
pub(super) struct Waiting {
    /// Whose it is: a place among the connections of the server, and which one it was there.
    pub from: (usize, u16),
    pub number: u64,
    /// When it was sent, if it is measured, and otherwise 0.
    pub sent_ns: u64,
    pub request: Vec<u8>,
    /// Of a client that is not in its place any more.
    pub replies: Option<Arc<Replies>>,
    pub is_taken_back: bool,
}

impl Ahead {
    pub(super) fn new(waiting_max: Option<u32>) -> Self {
        let waiting_max = waiting_max.map_or(usize::MAX, |max| max as usize);
        Self { waiting: VecDeque::new(), bytes: 0, waiting_max, spares: Vec::new(), asked_ns: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether another request may be taken off the links.
    pub(super) fn has_room(&self) -> bool {
        // One more than may wait: those are refused.
        self.waiting.len() <= ServerOptions::WAITING_MAX as usize && self.bytes < BYTES_MAX
    }

    /// Whether no other call may wait.
    pub(super) fn is_overloaded(&self) -> bool {
        self.waiting.len() > self.waiting_max
    }

    pub(super) fn push(&mut self, from: (usize, u16), number: u64, sent_ns: u64, bytes: &[u8]) {
        let mut request = self.spares.pop().unwrap_or_default();
        request.clear();
        request.extend_from_slice(bytes);
        self.bytes += bytes.len();
        let (replies, is_taken_back) = (None, false);
        self.waiting.push_back(Waiting { from, number, sent_ns, request, replies, is_taken_back });
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let next = self.waiting.pop_front()?;
        self.bytes -= next.request.len();
        Some(next)
    }

    /// Keeps the buffer of a request for another.
    pub(super) fn keep(&mut self, request: Vec<u8>) {
        if self.spares.len() < SPARES_MAX && request.capacity() <= SPARE_BYTES_MAX {
            self.spares.push(request);
        }
    }

    /// Notes that a call was taken back; false: it does not wait here.
    pub(super) fn take_back(&mut self, from: (usize, u16), number: u64) -> bool {
        let is_it = |call: &&mut Waiting| call.number == number && call.from == from;
        // From the end: whoever takes a call back has often just made it.
        match self.waiting.iter_mut().rev().find(is_it) {
            Some(call) => {
                call.is_taken_back = true;
                true
            }
            None => false,
        }
    }

    /// Another client comes to that place: the calls of the one before it are answered to that.
    pub(super) fn succeed(&mut self, place: usize, replies: &Arc<Replies>) {
        let its = self.waiting.iter_mut().filter(|call| call.from.0 == place && call.replies.is_none());
        its.for_each(|call| call.replies = Some(Arc::clone(replies)));
    }
}

/// What one thread of a pool works on. Written and looked for by who receives.
#[derive(Default)]
pub(super) struct Work {
    client: AtomicU64,
    /// 0: none, or one that nobody can take back.
    number: AtomicU64,
    pub taken_back: AtomicBool,
}

impl Work {
    /// Begins a call of that client.
    pub(super) fn begin(&self, next: &Waiting) {
        // Relaxed throughout: only who holds the lock writes or looks; the flag is a hint.
        self.client.store(Self::name_of(next.from), Ordering::Relaxed);
        self.taken_back.store(false, Ordering::Relaxed);
        self.number.store(next.number, Ordering::Relaxed);
    }

    /// It is done: whoever takes it back from now on is late.
    pub(super) fn end(&self) {
        self.number.store(0, Ordering::Relaxed);
    }

    /// Says that a call was taken back, if it is this one.
    pub(super) fn take_back(&self, from: (usize, u16), number: u64) {
        let is_it = self.number.load(Ordering::Relaxed) == number
            && self.client.load(Ordering::Relaxed) == Self::name_of(from);
        if is_it {
            self.taken_back.store(true, Ordering::Relaxed);
        }
    }

    fn name_of((place, connection): (usize, u16)) -> u64 {
        (place as u64) << 16 | u64::from(connection)
    }
}

impl Source {
    /// Where a word that the request at hand was taken back may lie.
    #[inline]
    pub(super) fn look_due(&mut self) -> Look {
        let is_young = self.incoming.age_ns().is_none_or(|ns| ns < FRESH_NS);
        match self.incoming.came() {
            Came::WhileLooking if is_young => Look::Nowhere,
            Came::WhileAsleep if is_young && !self.incoming.may_hold_more() => Look::Nowhere,
            Came::WhileAsleep if is_young => Look::AtHand,
            // It was there before the server went to sleep, which then it did not.
            Came::WhileAsleep | Came::WhileLooking | Came::Before => self.look_again(),
        }
    }

    /// Where it may lie of one that waits.
    pub(super) fn look_again(&mut self) -> Look {
        if self.incoming.looks_cheaply() {
            return Look::Everywhere;
        }
        let now_ns = now_ns();
        if now_ns.saturating_sub(self.ahead.asked_ns) < FRESH_NS {
            return Look::AtHand;
        }
        self.ahead.asked_ns = now_ns;
        Look::Everywhere
    }

    /// Puts the request at hand behind those that wait.
    pub(super) fn put_ahead(&mut self, works: &[Work]) {
        let from = self.incoming.came_over();
        let deed = match (Request::parse(self.incoming.payload()), &self.seats[from.0]) {
            (Ok(Request::Call { number, deadline_us, .. }), Some(seat)) if self.ahead.is_overloaded() => {
                // Relaxed: it is exact by itself, as all that is counted.
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                let words = format!("{} calls wait, which is as many as may", self.ahead.waiting_max);
                let (status, payload) = (Status::Overloaded, words.as_bytes());
                seat.replies.send(&Answer { number, status, payload, deadline_us });
                None
            }
            (Ok(Request::Call { number, .. }), Some(_)) => {
                self.ahead.push(from, number, self.incoming.sent_ns(), self.incoming.payload());
                fail_point!("call-waits");
                None
            }
            (Ok(Request::Cancel { number }), Some(_)) => {
                self.counts.taken_back.fetch_add(1, Ordering::Relaxed);
                if !self.ahead.take_back(from, number) {
                    works.iter().for_each(|work| work.take_back(from, number));
                }
                None
            }
            // Nobody knows that client.
            (Ok(_), None) => None,
            (Err(deed), _) => Some(deed),
        };
        match deed {
            Some(deed) => self.expel(&deed),
            None => self.incoming.release(),
        }
    }

    /// Takes what is there off the links, as far as there is room for it.
    pub(super) fn look_ahead(&mut self, look: Look, works: &[Work]) -> Result<()> {
        while self.ahead.has_room() {
            let found = match look {
                Look::Nowhere => false,
                Look::AtHand => self.incoming.receive_at_hand() && self.is_seated(),
                Look::Everywhere => self.receive(Wait::Never)?,
            };
            if !found {
                break;
            }
            self.put_ahead(works);
        }
        Ok(())
    }

    /// Where a call that has waited is answered.
    pub(super) fn replies_to(&self, waiting: &Waiting) -> Option<Arc<Replies>> {
        let (place, connection) = waiting.from;
        let seat = self.seats.get(place).and_then(Option::as_ref);
        let seat = seat.filter(|seat| seat.connection == connection).map(|seat| &seat.replies);
        waiting.replies.as_ref().or(seat).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_taken_back_where_it_waits_and_nowhere_else() {
        let mut ahead = Ahead::new(Some(1));
        for (from, number) in [((0, 1), 7), ((1, 2), 7), ((0, 1), 8)] {
            ahead.push(from, number, 0, &[number as u8]);
        }
        assert!(ahead.is_overloaded() && ahead.has_room());
        assert!(ahead.take_back((1, 2), 7));
        // Another client at the same place, and a call that is not there.
        assert!(!ahead.take_back((1, 3), 7) && !ahead.take_back((0, 1), 9));
        let popped: Vec<_> = std::iter::from_fn(|| ahead.pop()).map(|call| call.is_taken_back).collect();
        assert_eq!(popped, [false, true, false]);
        assert!(ahead.is_empty() && !ahead.is_overloaded() && ahead.bytes == 0);
    }

    #[test]
    fn no_more_is_taken_off_the_links_than_there_is_room_for() {
        let mut ahead = Ahead::new(None);
        while ahead.has_room() {
            ahead.push((0, 0), 1, 0, &[0; 1 << 20]);
        }
        assert_eq!(ahead.waiting.len(), 4);
        // What is so large is not kept.
        let large = ahead.pop().unwrap().request;
        ahead.keep(large);
        assert!(ahead.spares.is_empty() && ahead.has_room());
    }
}
