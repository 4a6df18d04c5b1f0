//! Packets that a port has given away and that are still in use, in any thread.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

use super::{ConnectionStats, FrameRef, Incoming, OwnedPacket, Receipt};
use crate::error::{Error, Result};
use crate::sys::clock::now_ns;
use crate::sys::mutex::{lock, try_lock};
use crate::transport::RingMemory;

/// The place of one packet that was given away. The port and the packet share it: with one
/// reference it is free.
#[derive(Default)]
pub(crate) struct HeldSlot {
    content: UnsafeCell<HeldContent>,
    /// Taken by the first of two: the end of the packet, or the request for the next.
    receipt: Mutex<Option<Receipt>>,
    /// When the packet ended; 0: it has not.
    finished_ns: AtomicU64,
}

#[derive(Default)]
struct HeldContent {
    packet: OwnedPacket,
    /// What the payload is in, unless it was copied.
    memory: Option<Arc<RingMemory>>,
}

// SAFETY: the port writes the content only while it has the only reference. A packet only reads it.
unsafe impl Sync for HeldSlot {}

impl HeldSlot {
    /// Returns the packet in it.
    ///
    /// # Safety
    /// The caller is the packet, or the port between two changes of the content.
    pub(crate) unsafe fn packet(&self) -> &OwnedPacket {
        // SAFETY: the caller guarantees it: only the port changes the content, of a free slot.
        unsafe { &(*self.content.get()).packet }
    }

    /// Ends a packet with a receipt, or one that is measured. A second call has no effect.
    pub(crate) fn finish(&self) {
        // Relaxed: the port reads its own clock if it misses this one.
        self.finished_ns.store(now_ns(), Ordering::Relaxed);
        // Only the port locks it at the same time, to finish the packet itself. A child of a fork
        // may find it locked for ever.
        let receipt = try_lock(&self.receipt).and_then(|mut receipt| receipt.take());
        drop(receipt);
    }

    /// Refuses the packet, unless it is finished.
    pub(crate) fn refuse(&self, reason: impl FnOnce() -> String) {
        if let Some(receipt) = &*lock(&self.receipt) {
            receipt.refuse(reason());
        }
    }
}

/// A packet that the port gives away.
pub(crate) struct GivenPacket {
    pub slot: Arc<HeldSlot>,
    pub payload: FrameRef,
    /// Whether its end is to be reported by [`HeldSlot::finish`].
    pub is_awaited: bool,
}

/// The places of all packets that a port may have given away at once.
pub(crate) struct HeldSlots {
    slots: Vec<SlotEntry>,
    next: usize,
    last: Option<LastGiven>,
    /// Whether a packet may still be in the memory of its transport, apart from the last.
    keeps: bool,
}

struct SlotEntry {
    slot: Arc<HeldSlot>,
    /// Counts the packets that have been in it.
    generation: u64,
}

/// The packet given away last.
struct LastGiven {
    index: usize,
    /// Whether the port has lent it: its memory is that of the transport.
    is_lent: bool,
    is_awaited: bool,
    /// When it was taken, and the statistics that its end belongs to, if it is measured and no
    /// longer lent.
    measured: Option<(Arc<ConnectionStats>, u64)>,
}

impl HeldSlots {
    /// The most packets that a port can hold.
    pub(crate) const MAX: usize = 4096;

    pub(crate) fn new(packets: usize) -> Self {
        let slots = (0..packets).map(|_| SlotEntry { slot: Arc::default(), generation: 0 }).collect();
        Self { slots, next: 0, last: None, keeps: false }
    }

    /// Finishes the packet given last, in the sense of scope `target`. Its memory stays, if it is
    /// still in use.
    pub(crate) fn finish_last(&mut self, incoming: &mut Incoming) {
        let Some(last) = self.last.take() else { return };
        let entry = &self.slots[last.index];
        let ended_ns = entry.slot.finished_ns.load(Ordering::Relaxed);
        let finished_ns = || if ended_ns == 0 { now_ns() } else { ended_ns };
        if last.is_lent {
            let is_measured = incoming.taken().header.sent_ns != 0;
            let token = (!entry.is_free()).then(|| entry.token(last.index));
            self.keeps |= token.is_some();
            incoming.end_loan(token, if is_measured { finished_ns() } else { 0 });
        } else if let Some((stats, taken_ns)) = last.measured {
            stats.finished(finished_ns().saturating_sub(taken_ns));
        }
        if last.is_awaited {
            // After the release, so that a sender that gets the acknowledgement finds the room
            // free.
            drop(lock(&entry.slot.receipt).take());
        }
    }

    /// Gives the memory of packets that are over back to their transports.
    pub(crate) fn settle(&mut self, incoming: &mut Incoming) -> Result<()> {
        if !self.keeps {
            return Ok(());
        }
        let slots = &self.slots;
        self.keeps = incoming.settle(&mut |token| {
            let entry = &slots[(token % Self::MAX as u64) as usize];
            entry.generation != token / Self::MAX as u64 || entry.is_free()
        })?;
        Ok(())
    }

    /// Returns a free place.
    ///
    /// # Errors
    /// [`Error::TooManyHeld`] with the packets that are held.
    pub(crate) fn free(&mut self, port: &str) -> Result<usize> {
        let count = self.slots.len();
        let order = (self.next..count).chain(0..self.next);
        let Some(index) = order.into_iter().find(|at| self.slots[*at].is_free()) else {
            return Err(self.too_many(port));
        };
        self.next = if index + 1 < count { index + 1 } else { 0 };
        Ok(index)
    }

    /// Returns the number of packets that are in use.
    pub(crate) fn held(&self) -> usize {
        self.slots.iter().filter(|entry| !entry.is_free()).count()
    }

    /// Gives the packet that the port has lent away, in a free place.
    pub(crate) fn give(&mut self, incoming: &mut Incoming, index: usize) -> GivenPacket {
        let packets = self.slots.len();
        let entry = &mut self.slots[index];
        debug_assert!(entry.is_free());
        entry.generation += 1;
        // SAFETY: the place is free, so no packet reads it. This port has the only reference.
        let content = unsafe { &mut *entry.slot.content.get() };
        let taken = incoming.taken();
        let is_measured = taken.taken_ns != 0 && taken.header.sent_ns != 0;
        let mut last = LastGiven { index, is_lent: true, is_awaited: false, measured: None };
        let memory = incoming.keepable(packets);
        let receipt;
        let payload = match memory {
            Some(memory) => {
                // Most packets are in the same memory as the one before.
                if !content.memory.as_ref().is_some_and(|before| Arc::ptr_eq(before, memory)) {
                    content.memory = Some(Arc::clone(memory));
                }
                content.packet.describe(incoming);
                receipt = incoming.take_receipt();
                incoming.taken().payload
            }
            None => {
                content.memory = None;
                content.packet.copy_from(incoming);
                receipt = incoming.take_receipt();
                let stats = is_measured.then(|| Arc::clone(incoming.stats()));
                last.measured = stats.zip(incoming.release_copied());
                last.is_lent = false;
                content.packet.lend()
            }
        };
        let is_awaited = receipt.is_some() || is_measured;
        last.is_awaited = is_awaited;
        if is_awaited {
            entry.slot.finished_ns.store(0, Ordering::Relaxed);
            *lock(&entry.slot.receipt) = receipt;
        }
        self.last = Some(last);
        GivenPacket { slot: Arc::clone(&entry.slot), payload, is_awaited }
    }

    #[cold]
    fn too_many(&self, port: &str) -> Error {
        let name = |entry: &SlotEntry| {
            // SAFETY: this is the port, and it changes no content now.
            let packet = unsafe { entry.slot.packet() };
            packet.meta().map(|(header, _)| (packet.connection().to_string(), header.sequence))
        };
        let mut held: Vec<_> = self.slots.iter().filter(|entry| !entry.is_free()).filter_map(name).collect();
        held.sort();
        Error::TooManyHeld { port: port.into(), packets_max: self.slots.len(), held }
    }
}

impl SlotEntry {
    /// Returns whether no packet uses it.
    fn is_free(&self) -> bool {
        // Only the port makes further references.
        let is_last = Arc::strong_count(&self.slot) == 1;
        // Acquire, paired with the Release of the packet's drop: all its reads have ended.
        fence(Ordering::Acquire);
        is_last
    }

    /// Returns the number of the packet in it.
    fn token(&self, index: usize) -> u64 {
        self.generation * HeldSlots::MAX as u64 + index as u64
    }
}
