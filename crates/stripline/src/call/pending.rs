//! The calls of a client that are outstanding at one server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::error::Error;
use crate::link::Histogram;
use crate::sys::clock::now_ns;
use crate::sys::mutex::lock;

use super::wire::{ReplyStatus, WireReply};

/// The number of low bits of a call's number that hold the slot.
const SLOT_BITS: u32 = 16;

/// The number of calls that may always be abandoned and unanswered.
const ABANDONED_MIN: u32 = 64;

/// A table with one slot for each call that may be outstanding.
pub(super) struct PendingCalls {
    slots: Box<[Slot]>,
    /// The number of calls made so far. The numbers of calls start at 1.
    issued: AtomicU64,
    /// The number of abandoned calls that may still get a reply.
    abandoned: AtomicU64,
    late: AtomicU64,
    /// The round trips of measured calls, recorded by the thread that receives.
    pub round_trips: Histogram<5>,
}

#[derive(Default)]
struct Slot {
    /// The number of the call that is outstanding in this slot, or has the reply here; 0 for a free
    /// slot.
    number: AtomicU64,
    /// The time at which the call was sent, if it is measured.
    sent_ns: AtomicU64,
    /// Whether the slot holds a result, readable without the lock.
    is_filled: AtomicBool,
    contents: Mutex<Contents>,
    /// Notified when the reply has arrived, or when the waiting thread is promoted to receive.
    doorbell: Condvar,
}

#[derive(Default)]
struct Contents {
    filled: Option<Filled>,
    /// Whether the thread that waits for this slot is promoted to receive for all.
    is_promoted: bool,
    /// A buffer kept for reuse.
    spare: Vec<u8>,
}

/// The result of a call that arrived while another thread received.
enum Filled {
    Reply(ReplyStatus, Vec<u8>),
    Closed,
}

/// The classification of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplyOutcome {
    Stored,
    Late,
    Unsolicited,
}

/// The outcome of a wait for a call.
pub(super) enum WaitOutcome {
    /// The reply was read.
    Reply,
    TimedOut,
    Closed,
    Link(Error),
}

impl PendingCalls {
    pub(super) fn new(outstanding: u32) -> Self {
        let slots = (0..outstanding).map(|_| Slot::default()).collect();
        let (issued, abandoned, late) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { slots, issued, abandoned, late, round_trips: Histogram::default() }
    }

    /// Allocates a number for a call that is about to be sent. The caller must ensure that only one
    /// thread allocates at a time. The search starts at `hint`, which is updated. `None`: the limit
    /// of outstanding calls is reached.
    #[inline]
    pub(super) fn allocate(&self, hint: &mut usize) -> Option<u64> {
        let mut index = *hint;
        for _ in 0..self.slots.len() {
            if index >= self.slots.len() {
                index = 0;
            }
            let slot = &self.slots[index];
            // Acquire: the thread that freed the slot has finished with it.
            if slot.number.load(Ordering::Acquire) == 0 {
                *hint = index;
                // Relaxed: only the allocating thread writes it.
                let count = self.issued.load(Ordering::Relaxed) + 1;
                self.issued.store(count, Ordering::Relaxed);
                let number = count << SLOT_BITS | index as u64;
                // Release: the delivering thread finds the slot empty.
                slot.number.store(number, Ordering::Release);
                return Some(number);
            }
            index += 1;
        }
        None
    }

    /// Records the time of a measured call, before the call is sent.
    pub(super) fn set_sent(&self, number: u64, sent_ns: u64) {
        if let Some(slot) = self.slot(number) {
            // Relaxed: the reply comes later and orders the rest.
            slot.sent_ns.store(sent_ns, Ordering::Relaxed);
        }
    }

    /// Records the round trip of an answered call, if the call is measured.
    #[inline]
    pub(super) fn measure(&self, number: u64) {
        let Some(slot) = self.slot(number) else { return };
        let sent_ns = slot.sent_ns.load(Ordering::Relaxed);
        if sent_ns != 0 {
            slot.sent_ns.store(0, Ordering::Relaxed);
            self.round_trips.record(now_ns().saturating_sub(sent_ns).max(1));
        }
    }

    /// Frees the slot of a call after the reply was read in place.
    #[inline]
    pub(super) fn free(&self, number: u64) {
        if let Some(slot) = self.slot(number) {
            slot.number.store(0, Ordering::Release);
        }
    }

    /// Stores the reply to a call. Only one thread at a time delivers replies.
    pub(super) fn deliver(&self, reply: &WireReply<'_>) -> ReplyOutcome {
        let Some(slot) = self.slot(reply.number) else { return self.late(reply.number) };
        let mut contents = lock(&slot.contents);
        if slot.number.load(Ordering::Acquire) != reply.number {
            drop(contents);
            return self.late(reply.number);
        }
        if contents.filled.is_some() {
            return ReplyOutcome::Unsolicited;
        }
        self.measure(reply.number);
        let mut bytes = std::mem::take(&mut contents.spare);
        bytes.clear();
        bytes.extend_from_slice(reply.payload);
        contents.filled = Some(Filled::Reply(reply.status, bytes));
        slot.is_filled.store(true, Ordering::Release);
        drop(contents);
        slot.doorbell.notify_one();
        ReplyOutcome::Stored
    }

    /// Returns whether a call has a result, as seen by the receiving thread.
    #[inline]
    pub(super) fn is_filled(&self, number: u64) -> bool {
        // Acquire: pairs with the thread that filled the slot. The receiver lock makes the
        // deliveries of earlier receiving threads visible. The loss of a server may be seen a
        // little later, through the link.
        self.slot(number).is_none_or(|slot| slot.is_filled.load(Ordering::Acquire))
    }

    /// Takes the result of a call, if there is one. Passes a reply to `read` and frees the slot.
    pub(super) fn take(&self, number: u64, read: &mut impl FnMut(WireReply<'_>)) -> Option<WaitOutcome> {
        let Some(slot) = self.slot(number) else { return Some(WaitOutcome::Closed) };
        slot.settle(number, &mut lock(&slot.contents), read)
    }

    /// Takes like [`PendingCalls::take`], but sleeps until there is a result, the deadline passes,
    /// or the thread is promoted to receive.
    pub(super) fn sleep(
        &self,
        number: u64,
        deadline: Instant,
        read: &mut impl FnMut(WireReply<'_>),
    ) -> Option<WaitOutcome> {
        let Some(slot) = self.slot(number) else { return Some(WaitOutcome::Closed) };
        let mut contents = lock(&slot.contents);
        loop {
            let settled = slot.settle(number, &mut contents, read);
            let time = deadline.saturating_duration_since(Instant::now());
            if settled.is_some() || std::mem::take(&mut contents.is_promoted) || time.is_zero() {
                return settled;
            }
            contents = slot.doorbell.wait_timeout(contents, time).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Abandons a call that may still get a reply. Returns false if the reply had already arrived;
    /// it is dropped.
    pub(super) fn abandon(&self, number: u64) -> bool {
        let Some(slot) = self.slot(number) else { return false };
        let mut contents = lock(&slot.contents);
        let was_open = contents.filled.take().is_none();
        if was_open {
            // Count the call before the slot is freed: a reply that arrives in between is late, not
            // unsolicited.
            self.abandoned.fetch_add(1, Ordering::Relaxed);
        }
        contents.is_promoted = false;
        slot.is_filled.store(false, Ordering::Relaxed);
        slot.sent_ns.store(0, Ordering::Relaxed);
        slot.number.store(0, Ordering::Release);
        was_open
    }

    /// Promotes the thread that waits for a call to receive. Returns false if the thread no longer
    /// waits.
    pub(super) fn promote(&self, number: u64) -> bool {
        let Some(slot) = self.slot(number) else { return false };
        let mut contents = lock(&slot.contents);
        let waits = slot.number.load(Ordering::Acquire) == number && contents.filled.is_none();
        if waits {
            contents.is_promoted = true;
            slot.doorbell.notify_one();
        }
        waits
    }

    /// Fails all calls, because the server is gone.
    pub(super) fn fail_all(&self) {
        // Abandoned calls will get no reply any more.
        self.abandoned.store(0, Ordering::Relaxed);
        for slot in &self.slots {
            let mut contents = lock(&slot.contents);
            if slot.number.load(Ordering::Acquire) != 0 && contents.filled.is_none() {
                contents.filled = Some(Filled::Closed);
                slot.is_filled.store(true, Ordering::Release);
                slot.doorbell.notify_one();
            }
        }
    }

    /// Returns the number of calls that are outstanding, or answered but not yet taken.
    pub(super) fn outstanding(&self) -> usize {
        self.slots.iter().filter(|slot| slot.number.load(Ordering::Relaxed) != 0).count()
    }

    /// Returns the number of abandoned calls that may still get a reply.
    #[inline]
    pub(super) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Returns whether too many calls are abandoned and unanswered to send another.
    #[inline]
    pub(super) fn too_many_abandoned(&self) -> bool {
        self.abandoned() >= u64::from(Self::abandoned_max(self.slots.len() as u32))
    }

    /// Returns how many calls may be abandoned and unanswered, given the limit of outstanding
    /// calls.
    pub(super) fn abandoned_max(outstanding: u32) -> u32 {
        outstanding.max(ABANDONED_MIN)
    }

    /// Returns the number of late replies.
    pub(super) fn late_replies(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    fn late(&self, number: u64) -> ReplyOutcome {
        let count = number >> SLOT_BITS;
        let was_issued = count != 0 && count <= self.issued.load(Ordering::Relaxed);
        let abandoned = self
            .abandoned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |abandoned| abandoned.checked_sub(1));
        if !was_issued || abandoned.is_err() {
            return ReplyOutcome::Unsolicited;
        }
        self.late.fetch_add(1, Ordering::Relaxed);
        ReplyOutcome::Late
    }

    #[inline]
    fn slot(&self, number: u64) -> Option<&Slot> {
        self.slots.get((number & ((1 << SLOT_BITS) - 1)) as usize)
    }
}

impl Slot {
    fn settle(
        &self,
        number: u64,
        contents: &mut Contents,
        read: &mut impl FnMut(WireReply<'_>),
    ) -> Option<WaitOutcome> {
        let filled = contents.filled.take()?;
        contents.is_promoted = false;
        self.is_filled.store(false, Ordering::Relaxed);
        self.number.store(0, Ordering::Release);
        let Filled::Reply(status, bytes) = filled else { return Some(WaitOutcome::Closed) };
        read(WireReply { number, status, payload: &bytes });
        contents.spare = bytes;
        Some(WaitOutcome::Reply)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Claim,
        /// Answers the nth call made so far.
        Deliver(usize),
        /// Takes the reply of the nth outstanding call.
        Take(usize),
        GiveUp(usize),
        FailAll,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Claim),
            4 => (0usize..40).prop_map(Step::Deliver),
            4 => (0usize..8).prop_map(Step::Take),
            2 => (0usize..8).prop_map(Step::GiveUp),
            1 => Just(Step::FailAll),
        ];
        proptest::collection::vec(step, 0..200)
    }

    /// The state of a call in the model.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Is {
        Open,
        Answered,
        Failed,
    }

    fn reply(number: u64, payload: &[u8]) -> WireReply<'_> {
        WireReply { number, status: ReplyStatus::Done, payload }
    }

    proptest! {
        #[test]
        fn a_table_is_as_a_plain_one(steps in steps()) {
            let pending = PendingCalls::new(5);
            let mut hint = 0;
            let mut ever = Vec::new();
            let mut open: BTreeMap<u64, Is> = BTreeMap::new();
            let mut abandoned: BTreeSet<u64> = BTreeSet::new();
            let mut owed_count = 0u64;
            for step in steps {
                match step {
                    Step::Claim => match pending.allocate(&mut hint) {
                        Some(number) => {
                            prop_assert!(open.len() < 5 && !ever.contains(&number));
                            ever.push(number);
                            open.insert(number, Is::Open);
                        }
                        None => prop_assert_eq!(open.len(), 5),
                    },
                    Step::Deliver(nth) => {
                        let Some(&number) = ever.get(nth) else { continue };
                        let outcome = pending.deliver(&reply(number, &number.to_le_bytes()));
                        match open.get_mut(&number) {
                            Some(is @ Is::Open) => {
                                *is = Is::Answered;
                                prop_assert_eq!(outcome, ReplyOutcome::Stored);
                            }
                            Some(_) => prop_assert_eq!(outcome, ReplyOutcome::Unsolicited),
                            // The reply's abandoned call is unknown; only the number of such calls
                            // is kept.
                            None if owed_count > 0 => {
                                owed_count -= 1;
                                abandoned.remove(&number);
                                prop_assert_eq!(outcome, ReplyOutcome::Late);
                            }
                            None => prop_assert_eq!(outcome, ReplyOutcome::Unsolicited),
                        }
                    }
                    Step::Take(nth) => {
                        let Some((&number, &is)) = open.iter().nth(nth) else { continue };
                        let mut bytes = Vec::new();
                        let mut read = |reply: WireReply<'_>| bytes.extend_from_slice(reply.payload);
                        match (pending.take(number, &mut read), is) {
                            (None, Is::Open) => {}
                            (Some(WaitOutcome::Reply), Is::Answered) => {
                                prop_assert_eq!(bytes, number.to_le_bytes());
                                open.remove(&number);
                            }
                            (Some(WaitOutcome::Closed), Is::Failed) => drop(open.remove(&number)),
                            _ => prop_assert!(false, "{number:#x} is {is:?}"),
                        }
                    }
                    Step::GiveUp(nth) => {
                        let Some((&number, &is)) = open.iter().nth(nth) else { continue };
                        prop_assert_eq!(pending.abandon(number), is == Is::Open);
                        if is == Is::Open {
                            abandoned.insert(number);
                            owed_count += 1;
                        }
                        open.remove(&number);
                    }
                    Step::FailAll => {
                        pending.fail_all();
                        owed_count = 0;
                        open.values_mut().filter(|is| **is == Is::Open).for_each(|is| *is = Is::Failed);
                    }
                }
                prop_assert_eq!((pending.outstanding(), pending.abandoned()), (open.len(), owed_count));
            }
        }
    }
}
