//! The acknowledgements of a ring's receiver, in words of the cursor page. The receiver writes
//! them, and the sender validates them.
//!
//! The words only grow, which is enough for several packets in transit: a sender waits only for the
//! newest packet, and has given up waiting for older ones.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use super::{CursorPage, SENDER_WORDS_OFFSET, SenderWords};
use crate::fail_point::fail_point;
use crate::flow::ack::{REASON_MAX, sanitize, truncate_reason};
use crate::flow::{Ack, AckSender, AckState, AckWait};
use crate::sys::doorbell::Doorbell;
use crate::sys::memory::PAGE;
use crate::terms::Scope;

/// The offset of the words, which have cache lines of their own.
const OFFSET: usize = SENDER_WORDS_OFFSET + 64;
const _: () = assert!(size_of::<SenderWords>() <= 64 && OFFSET + size_of::<AckWords>() <= PAGE);

/// The words of acknowledgements. Zeros mean that nothing was acknowledged yet. Sequence numbers
/// are stored plus 1, so that 0 means none.
#[repr(C)]
struct AckWords {
    accepted: AtomicU64,
    finished: AtomicU64,
    refused: AtomicU64,
    /// Set by the sender while it sleeps on the space doorbell until there is an acknowledgement.
    waiting: AtomicU32,
    reason_bytes: AtomicU32,
    reason: [AtomicU64; REASON_MAX / 8],
    /// Set when the receiver has sent a goodbye.
    left: AtomicU32,
}

impl CursorPage {
    fn acks(&self) -> &AckWords {
        // SAFETY: the words lie within the page and are aligned, they are mapped as long as `self`,
        // and both sides use atomics only.
        unsafe { self.mapping.at(OFFSET).cast::<AckWords>().as_ref() }
    }

    /// Announces whether the sender sleeps for an acknowledgement. [`sleep_fence`] and another poll
    /// must follow.
    pub(super) fn set_waiting(&self, sleeps: bool) {
        // Relaxed: the fence in `sleep_fence` orders the store. A late withdrawal costs one wake-up
        // too many.
        self.acks().waiting.store(u32::from(sleeps), Ordering::Relaxed);
    }

    /// Records the goodbye of the receiver.
    pub(super) fn set_left(&self) {
        // Release: pairs with the load after the report of the receiver's end, which comes over
        // another channel.
        self.acks().left.store(1, Ordering::Release);
    }

    pub(super) fn has_left(&self) -> bool {
        self.acks().left.load(Ordering::Acquire) != 0
    }

    /// Records whether the sender waits for an acknowledgement, awake or asleep. On a busy machine
    /// a sender that is awake waits long: every yield takes a time slice.
    pub(super) fn set_ack_awaited(&self, waits: bool) {
        self.waits.ack.set(waits);
    }

    /// Returns the state of the receiver's acknowledgement.
    pub(super) fn ack_state(&self, ack_wait: &AckWait) -> AckState {
        let words = self.acks();
        // Acquire: the reason comes with the number.
        let refused = words.refused.load(Ordering::Acquire);
        // Acquire: a sender that reads `finished` sees the component's effects on the packet.
        let done = match ack_wait.scope {
            Scope::Target => words.finished.load(Ordering::Acquire),
            _ => words.accepted.load(Ordering::Acquire),
        };
        decode_ack(ack_wait.sequence, refused, done, || words.reason())
    }
}

/// Decodes the words of a receiver for the packet that the sender waits for, which is its newest.
pub(crate) fn decode_ack(
    sequence: u64,
    refused: u64,
    done: u64,
    reason: impl FnOnce() -> String,
) -> AckState {
    let wanted = sequence.saturating_add(1);
    let latest = refused.max(done);
    if latest > wanted {
        AckState::Violation(format!("acknowledged packet {}, which was not sent", latest - 1))
    } else if refused == wanted {
        AckState::Refused(reason())
    } else if done == wanted {
        AckState::Done
    } else {
        AckState::Pending
    }
}

/// Runs the fence between the announcement of sleep and the last poll.
pub(super) fn sleep_fence() {
    // The receiver stores an acknowledgement, runs a fence as well, and then checks for a sleeper.
    // So the sender sees the acknowledgement, or the receiver sees the sleeper.
    fence(Ordering::SeqCst);
}

impl AckWords {
    fn reason(&self) -> String {
        // Relaxed: the number, which was loaded before, orders these loads.
        let bytes = (self.reason_bytes.load(Ordering::Relaxed) as usize).min(REASON_MAX);
        let text: Vec<u8> =
            self.reason.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        sanitize(&text[..bytes])
    }

    fn set_reason(&self, reason: &str) {
        let reason = truncate_reason(reason).as_bytes();
        // At most REASON_MAX, which fits. Relaxed: the number that follows orders the stores.
        self.reason_bytes.store(reason.len() as u32, Ordering::Relaxed);
        for (place, part) in self.reason.iter().zip(reason.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            place.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }
}

/// The receiver's sender of acknowledgements.
pub(super) struct RingAckSender {
    page: Arc<CursorPage>,
    doorbell: Doorbell,
    /// Held by the thread that writes a reason.
    reason: Mutex<()>,
}

impl RingAckSender {
    /// Returns the receiver's end. `doorbell` wakes the sender.
    pub(super) fn new(page: Arc<CursorPage>, doorbell: Doorbell) -> Self {
        Self { page, doorbell, reason: Mutex::default() }
    }
}

impl AckSender for RingAckSender {
    fn send(&self, sequence: u64, ack: Ack<'_>) {
        let (words, number) = (self.page.acks(), sequence.saturating_add(1));
        match ack {
            // Release: see `CursorPage::ack_state`. `fetch_max`, because threads may finish in any
            // order.
            Ack::Accepted => drop(words.accepted.fetch_max(number, Ordering::Release)),
            Ack::Finished => drop(words.finished.fetch_max(number, Ordering::Release)),
            Ack::Refused(reason) => {
                let _writing = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
                // Relaxed: under the lock.
                if words.refused.load(Ordering::Relaxed) < number {
                    words.set_reason(reason);
                    words.refused.store(number, Ordering::Release);
                }
            }
        }
        fail_point!("answer-stored");
        // Pairs with the fence in `sleep_fence`.
        fence(Ordering::SeqCst);
        if words.waiting.load(Ordering::Relaxed) != 0 {
            self.doorbell.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sys::memory::SharedMemory;

    fn ends() -> (Arc<CursorPage>, RingAckSender, Doorbell) {
        let memory = SharedMemory::new("test-cursor", PAGE).unwrap();
        let [ours, theirs] = [(); 2].map(|()| Arc::new(CursorPage::map(&memory, false).unwrap()));
        let doorbell = Doorbell::new().unwrap();
        (ours, RingAckSender::new(theirs, doorbell.clone()), doorbell)
    }

    fn awaited(sequence: u64, scope: Scope) -> AckWait {
        AckWait::new(sequence, scope, Duration::ZERO)
    }

    #[test]
    fn answers_of_several_threads_in_any_order_are_those_of_the_newest() {
        let (page, acks, _bell) = ends();
        let newest = awaited(6, Scope::Target);
        acks.send(5, Ack::Finished);
        acks.send(6, Ack::Accepted);
        assert_eq!(page.ack_state(&newest), AckState::Pending);
        assert_eq!(page.ack_state(&awaited(6, Scope::Server)), AckState::Done);
        acks.send(6, Ack::Finished);
        acks.send(4, Ack::Refused("too late to matter"));
        acks.send(3, Ack::Finished);
        assert_eq!(page.ack_state(&newest), AckState::Done);
        acks.send(7, Ack::Refused("seven bytes or more"));
        acks.send(5, Ack::Refused("not this"));
        assert_eq!(
            page.ack_state(&awaited(7, Scope::Target)),
            AckState::Refused("seven bytes or more".into())
        );
    }

    #[test]
    fn the_bell_rings_only_for_a_sleeper() {
        use std::os::fd::AsFd;

        use crate::sys::doorbell::PollSet;

        let (page, acks, doorbell) = ends();
        let rings = |now| {
            let mut poll_set = PollSet::default();
            poll_set.readable(doorbell.as_fd());
            poll_set.wait(Some(now)).unwrap()
        };
        acks.send(0, Ack::Finished);
        assert!(!rings(std::time::Instant::now()));
        page.set_waiting(true);
        sleep_fence();
        acks.send(1, Ack::Finished);
        assert!(rings(std::time::Instant::now()));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let (page, acks, _bell) = ends();
        acks.send(8, Ack::Finished);
        assert_eq!(
            page.ack_state(&awaited(7, Scope::Target)),
            AckState::Violation("acknowledged packet 8, which was not sent".into())
        );
        // Any length, and bytes that are not text.
        let words = page.acks();
        words.reason_bytes.store(u32::MAX, Ordering::Relaxed);
        words.reason.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        words.refused.store(10, Ordering::Relaxed);
        let AckState::Refused(reason) = page.ack_state(&awaited(9, Scope::Target)) else {
            panic!("it was refused")
        };
        assert_eq!(reason.chars().count(), REASON_MAX);
    }
}
