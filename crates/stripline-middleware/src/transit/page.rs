//! A page that both ends of a path share: it counts the units that the sender has handed over and
//! the receiver has taken. The page outlives a sender that is killed, although the packets in the
//! sender's own memory are lost.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use stripline_ring::Fence;

use stripline::carrier::membarrier::fence_before_sleep;
use stripline::carrier::memory::{Mapping, PAGE, SharedMemory};
use stripline::carrier::packet::LastSent;
use stripline::{Error, Result};

/// A page that counts units: at least one for each frame. Each end writes only to its own cache
/// line, and trusts nothing that the other end has written.
pub(crate) struct TransitPage {
    mapping: Mapping,
}

#[repr(C)]
struct Words {
    sender: SentWords,
    receiver: TakenWords,
    sleep: SleepWords,
}

#[repr(C, align(128))]
struct SentWords {
    /// Units handed over, in all.
    sent: AtomicU64,
    /// The messages that carried these units, and the messages without units.
    messages: AtomicU64,
    /// How often a position was written. The last bit is the index of the position to read.
    updates: AtomicU64,
    /// The position at which the sender began: set once.
    first: [AtomicU64; 2],
    positions: [[AtomicU64; 3]; 2],
    /// The event that the sender waits for: 0 (none), [`FOR_ROOM`] or [`FOR_RECEIPT`].
    waits: AtomicU32,
    /// Bytes handed over, in all, including the charge added for each message.
    charged: AtomicU64,
}

/// The sender waits until units are taken.
const FOR_ROOM: u32 = 1;
/// The sender waits until bytes are received.
const FOR_RECEIPT: u32 = 2;

#[repr(C, align(128))]
struct TakenWords {
    /// Units taken, in all.
    taken: AtomicU64,
    /// Messages taken, in all.
    messages: AtomicU64,
    /// Bytes that are in the receiver's process, in all, as the sender charges them.
    received: AtomicU64,
}

/// Words that are seldom written. The sender reads `sleeps` with each packet.
#[repr(C, align(128))]
struct SleepWords {
    /// 1: the receiver sleeps. The end that wakes the receiver writes 0.
    sleeps: AtomicU32,
    /// 1: the sender is complete, and the receiver may connect.
    opened: AtomicU32,
    /// 1: the receiver has found the sender.
    connected: AtomicU32,
    /// The number of the sender's end on the network.
    writer: [AtomicU64; 2],
}

impl TransitPage {
    /// Makes a page, and a descriptor of the page for the other end.
    ///
    /// # Errors
    /// A lack of memory or descriptors.
    pub(crate) fn new() -> Result<(Self, OwnedFd)> {
        let memory = SharedMemory::new("stripline-transit", PAGE)?;
        let mapping = memory.map()?;
        memory.seal_size()?;
        let fd = memory.as_fd().try_clone_to_owned();
        let fd = fd.map_err(|e| Error::system("cannot copy a descriptor of shared memory", e))?;
        Ok((Self { mapping }, fd))
    }

    /// Maps the page of a peer.
    ///
    /// # Errors
    /// The descriptor is not of such a page.
    pub(crate) fn from_peer(peer: &str, fd: OwnedFd) -> Result<Self> {
        Ok(Self { mapping: SharedMemory::from_peer(peer, fd, PAGE)?.map()? })
    }

    fn words(&self) -> &Words {
        // SAFETY: a page is larger than the words, and has a larger alignment. The words are
        // atomics, for which any content is valid, so the other process may write them at the same
        // time.
        unsafe { self.mapping.at(0).cast::<Words>().as_ref() }
    }

    /// Stores the number of units handed over, the number of messages that carried them, and the
    /// last packet among them. Only the sender calls it, one thread at a time.
    pub(crate) fn set_sent(&self, units: u64, messages: u64, last: Option<LastSent>) {
        let words = &self.words().sender;
        // Release: a receiver that reads the number finds the counted units sent.
        words.sent.store(units, Ordering::Release);
        words.messages.store(messages, Ordering::Release);
        let Some(last) = last else { return };
        // Relaxed: only this end writes it. The other position stays whole if the process is killed
        // here.
        let next = words.updates.load(Ordering::Relaxed).wrapping_add(1);
        if next == 1 {
            let first = words.first.iter().zip(last.first);
            first.for_each(|(word, field)| word.store(field, Ordering::Relaxed));
        }
        let fields = [last.sequence, last.sample_index, last.bytes];
        for (word, field) in words.positions[(next & 1) as usize].iter().zip(fields) {
            word.store(field, Ordering::Relaxed);
        }
        // Release: publishes the position together with the number.
        words.updates.store(next, Ordering::Release);
    }

    /// Returns the number of units handed over.
    pub(crate) fn sent(&self) -> u64 {
        self.words().sender.sent.load(Ordering::Acquire)
    }

    /// Returns the number of messages handed over.
    #[inline]
    pub(crate) fn messages(&self) -> u64 {
        self.words().sender.messages.load(Ordering::Acquire)
    }

    /// Returns the last packet that was handed over whole. The sender must be gone: a running
    /// sender may write the position at the same time.
    pub(crate) fn last_sent(&self) -> Option<LastSent> {
        let words = &self.words().sender;
        let updates = words.updates.load(Ordering::Acquire);
        let [sequence, sample_index, bytes] =
            words.positions[(updates & 1) as usize].each_ref().map(|word| word.load(Ordering::Relaxed));
        let first = words.first.each_ref().map(|word| word.load(Ordering::Relaxed));
        (updates > 0).then_some(LastSent { first, sequence, sample_index, bytes })
    }

    /// Returns the number of units taken.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        // Acquire: the units that the receiver has taken have left this end.
        self.words().receiver.taken.load(Ordering::Acquire)
    }

    /// Returns the number of messages taken: at least the messages of the units in
    /// [`TransitPage::taken`].
    pub(crate) fn messages_taken(&self) -> u64 {
        // Relaxed: the receiver stores it before the number of units, which this end reads first.
        self.words().receiver.messages.load(Ordering::Relaxed)
    }

    /// Announces that the sender waits for room. Returns the number of units taken, read after the
    /// announcement.
    pub(crate) fn announce_wait(&self) -> u64 {
        let words = self.words();
        // SeqCst twice, here and in `set_taken`: either this end reads the new number, or the
        // receiver reads the announcement.
        words.sender.waits.store(FOR_ROOM, Ordering::SeqCst);
        words.receiver.taken.load(Ordering::SeqCst)
    }

    /// Stores the numbers of units and messages taken. Returns true once for each announcement,
    /// when the sender waits and at most `low` units are left in transit.
    #[inline]
    pub(crate) fn set_taken(&self, units: u64, messages: u64, low: u64) -> bool {
        let words = self.words();
        // Relaxed: the store that follows orders this one.
        words.receiver.messages.store(messages, Ordering::Relaxed);
        words.receiver.taken.store(units, Ordering::SeqCst);
        words.sender.waits.load(Ordering::SeqCst) == FOR_ROOM && self.ends_wait(units, low)
    }

    /// Stores the bytes handed over. Called before [`TransitPage::set_sent`].
    pub(crate) fn set_charged(&self, bytes: u64) {
        // Relaxed: a receiver that reads an old number rings once too often, or with the next
        // message.
        self.words().sender.charged.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that are in the receiver's process.
    pub(crate) fn received(&self) -> u64 {
        self.words().receiver.received.load(Ordering::Acquire)
    }

    /// Announces that the sender waits until bytes are received. Returns the bytes that are
    /// received, read after the announcement.
    pub(crate) fn announce_wait_for_receipt(&self) -> u64 {
        let words = self.words();
        // SeqCst twice, as in `announce_wait`.
        words.sender.waits.store(FOR_RECEIPT, Ordering::SeqCst);
        words.receiver.received.load(Ordering::SeqCst)
    }

    /// Stores the bytes that are in the receiver's process. Returns true when the sender waits for
    /// a receipt and at most `low` bytes are left. Called by one thread at a time.
    pub(crate) fn set_received(&self, bytes: u64, low: u64) -> bool {
        let words = self.words();
        words.receiver.received.store(bytes, Ordering::SeqCst);
        words.sender.waits.load(Ordering::SeqCst) == FOR_RECEIPT
            && words.sender.charged.load(Ordering::Relaxed).saturating_sub(bytes) <= low
            && words.sender.waits.swap(0, Ordering::Relaxed) != 0
    }

    /// Announces that the receiver sleeps, unless it finds a packet after the announcement.
    /// `runs_barrier`: the sender needs no fence instruction.
    pub(crate) fn announce_sleep(&self, runs_barrier: bool) {
        self.words().sleep.sleeps.store(1, Ordering::Relaxed);
        // Pairs with the fence of `ends_sleep`: either the receiver finds a packet sent before that
        // fence, or the sender reads the announcement.
        fence_before_sleep(runs_barrier);
    }

    /// Withdraws the announcement.
    pub(crate) fn end_sleep(&self) {
        // Relaxed: a sender that reads an old value rings once too often.
        self.words().sleep.sleeps.store(0, Ordering::Relaxed);
    }

    /// Returns whether the receiver sleeps, once for each announcement. Called after each packet.
    #[inline]
    pub(crate) fn ends_sleep(&self, needed: Fence) -> bool {
        // SeqCst: see `announce_sleep`.
        needed.run();
        let sleeps = &self.words().sleep.sleeps;
        // Relaxed: the doorbell that follows wakes the receiver, which checks again.
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }

    /// Stores that the sender is complete.
    pub(crate) fn set_opened(&self) {
        self.words().sleep.opened.store(1, Ordering::Release);
    }

    /// Returns whether the sender is complete.
    pub(crate) fn is_opened(&self) -> bool {
        self.words().sleep.opened.load(Ordering::Acquire) != 0
    }

    /// Stores that the receiver has found the sender.
    pub(crate) fn set_connected(&self) {
        self.words().sleep.connected.store(1, Ordering::Release);
    }

    /// Returns whether the receiver has found the sender.
    pub(crate) fn is_connected(&self) -> bool {
        self.words().sleep.connected.load(Ordering::Acquire) != 0
    }

    /// Stores the number of the sender's end on the network, before the first message.
    pub(crate) fn set_writer(&self, number: &[u8; 16]) {
        let halves: [u64; 2] = bytemuck::cast(*number);
        // Release: the message that follows arrives another way.
        let store = |(word, half): (&AtomicU64, u64)| word.store(half, Ordering::Release);
        self.words().sleep.writer.iter().zip(halves).for_each(store);
    }

    /// Returns the number of the sender's end on the network.
    pub(crate) fn writer(&self) -> [u8; 16] {
        let halves = self.words().sleep.writer.each_ref().map(|word| word.load(Ordering::Acquire));
        bytemuck::cast(halves)
    }

    #[cold]
    fn ends_wait(&self, taken: u64, low: u64) -> bool {
        let words = &self.words().sender;
        // Relaxed: the doorbell that follows wakes the sender, which checks again.
        words.sent.load(Ordering::Relaxed).saturating_sub(taken) <= low
            && words.waits.swap(0, Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_read_what_the_other_has_written() {
        let (receiver, fd) = TransitPage::new().unwrap();
        let sender = TransitPage::from_peer("a -> b", fd).unwrap();
        assert_eq!((receiver.sent(), receiver.last_sent()), (0, None));
        let last = LastSent { first: [2, 20], sequence: 7, sample_index: 70, bytes: 40 };
        sender.set_sent(3, 1, Some(last));
        sender.set_sent(4, 2, None);
        assert_eq!((receiver.sent(), receiver.messages(), receiver.last_sent()), (4, 2, Some(last)));
        let next = LastSent { sequence: 8, ..last };
        sender.set_sent(5, 3, Some(next));
        assert_eq!(receiver.last_sent(), Some(next));
        assert!(!receiver.set_taken(1, 1, 4));
        assert_eq!((sender.taken(), sender.messages_taken()), (1, 1));
        assert_eq!(sender.announce_wait(), 1);
        assert!(!receiver.set_taken(2, 1, 2));
        assert!(receiver.set_taken(3, 2, 2));
        assert!(!receiver.set_taken(4, 2, 2), "a wait ends once");
        sender.set_charged(400);
        assert!(!receiver.set_received(100, 300));
        assert_eq!(sender.announce_wait_for_receipt(), 100);
        assert!(!receiver.set_taken(5, 3, 2) && !receiver.set_received(199, 200));
        assert!(receiver.set_received(200, 200) && !receiver.set_received(300, 200), "a wait ends once");
        sender.announce_wait();
        assert!(!receiver.set_received(400, 200), "it waits for something else");
    }

    #[test]
    fn a_receiver_that_sleeps_is_woken_once() {
        let (receiver, fd) = TransitPage::new().unwrap();
        let sender = TransitPage::from_peer("a -> b", fd).unwrap();
        assert!(!sender.ends_sleep(Fence::Full));
        receiver.announce_sleep(false);
        assert!(sender.ends_sleep(Fence::Full));
        assert!(!sender.ends_sleep(Fence::Full), "a sleep ends once");
        receiver.announce_sleep(false);
        receiver.end_sleep();
        assert!(!sender.ends_sleep(Fence::Full));
        assert!(!receiver.is_opened() && !sender.is_connected());
        sender.set_opened();
        assert!(receiver.is_opened());
        receiver.set_connected();
        assert!(sender.is_connected());
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let (end, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let refusal = TransitPage::from_peer("a -> b", end.into()).err().unwrap().to_string();
        assert!(refusal.contains("not shared memory"), "{refusal}");
    }
}
