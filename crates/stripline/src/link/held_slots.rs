//! Packets that a port has handed out, and that any thread may still use.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{ConnectionStats, FrameRef, Incoming, OwnedPacket, Receipt};
use crate::error::{Error, Result};
use crate::sys::clock::now_ns;
use crate::sys::mutex::{lock, try_lock};
use crate::transport::{Inlet, RingMemory};

/// The slot of a packet that was handed out. The port may write a free slot, and the packet reads
/// the slot while it is in use.
#[derive(Default)]
pub(crate) struct HeldSlot {
    /// [`FREE`], [`IN_USE`] or [`LEFT`].
    state: AtomicU32,
    content: UnsafeCell<HeldContent>,
    /// The receipt, which is taken by the end of the packet or by the request for the next packet,
    /// whichever comes first.
    receipt: Mutex<Option<Receipt>>,
    /// The time when the packet ended; 0: it has not ended.
    finished_ns: AtomicU64,
}

/// No packet uses the slot.
const FREE: u32 = 0;
/// A packet uses the slot.
const IN_USE: u32 = 1;
/// A packet uses the slot, and the port is gone: the packet frees the memory.
const LEFT: u32 = 2;

/// The part of a packet that owns a slot. The drop gives the slot back to the port.
pub(crate) struct SlotInUse(NonNull<HeldSlot>);

// SAFETY: threads can share the slot. The port or the packet frees it, depending on which is
// dropped last. An atomic operation of each decides that.
unsafe impl Send for SlotInUse {}
// SAFETY: as above.
unsafe impl Sync for SlotInUse {}

impl Deref for SlotInUse {
    type Target = HeldSlot;

    #[inline(always)]
    fn deref(&self) -> &HeldSlot {
        // SAFETY: the drop of this value is the earliest that frees the slot.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SlotInUse {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the caller is the packet.
        if unsafe { &*self.content.get() }.is_awaited {
            self.finish();
        }
        // Release: all reads by the packet come before the port's next write, which follows an
        // Acquire of this store. Acquire: the drop of a port that has left comes before the free.
        if self.state.swap(FREE, Ordering::AcqRel) == LEFT {
            // SAFETY: the port has left the slot to this packet.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

#[derive(Default)]
struct HeldContent {
    packet: OwnedPacket,
    /// The memory with the payload, unless the payload was copied.
    memory: Option<Arc<RingMemory>>,
    /// Whether the packet has a receipt or is measured, so that the end must be reported.
    is_awaited: bool,
}

// SAFETY: the port writes the content only while the slot is free. A packet only reads it.
unsafe impl Sync for HeldSlot {}

impl HeldSlot {
    /// Returns the packet in the slot.
    ///
    /// # Safety
    /// The caller must be the packet, or the port between two changes of the content.
    pub(crate) unsafe fn packet(&self) -> &OwnedPacket {
        // SAFETY: the caller guarantees it. Only the port changes the content, and only of a free
        // slot.
        unsafe { &(*self.content.get()).packet }
    }

    /// Ends a packet that has a receipt or is measured. A second call has no effect.
    fn finish(&self) {
        // Relaxed: the port reads the clock itself if it misses this value.
        self.finished_ns.store(now_ns(), Ordering::Relaxed);
        // Only the port may hold the lock at this time, to finish the packet itself. A child of a
        // fork may find it locked for ever.
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

/// A packet that the port has handed out.
pub(crate) struct GivenPacket {
    pub slot: SlotInUse,
    pub payload: FrameRef,
}

/// The slots of all packets that a port may have handed out at once.
pub(crate) struct HeldSlots {
    slots: Vec<SlotEntry>,
    next: usize,
    last: Last,
    /// Whether a packet other than the last may still be in the memory of a transport.
    keeps: bool,
}

/// The port's part of a slot. If a packet uses the slot, the drop leaves the slot to the packet.
struct SlotEntry {
    slot: NonNull<HeldSlot>,
    /// The number of packets that have been in the slot.
    generation: u64,
}

// SAFETY: see `SlotInUse`.
unsafe impl Send for SlotEntry {}
// SAFETY: as above. Nothing changes the slot by a shared reference to this value.
unsafe impl Sync for SlotEntry {}

/// The packet that was handed out last.
enum Last {
    None,
    /// The index of a packet that the port has lent, and that is neither measured nor awaited.
    Plain(usize),
    Other(LastGiven),
}

impl Last {
    /// Takes the packet, and leaves `None`.
    fn take(&mut self) -> Option<LastGiven> {
        match std::mem::replace(self, Self::None) {
            Self::None => None,
            Self::Plain(index) => Some(LastGiven { index, is_lent: true, is_awaited: false, measured: None }),
            Self::Other(last) => Some(last),
        }
    }
}

struct LastGiven {
    index: usize,
    /// Whether the port has lent the packet, so that the memory belongs to the transport.
    is_lent: bool,
    is_awaited: bool,
    /// The time when the packet was taken, and the statistics that its end belongs to, if it is
    /// measured and no longer lent.
    measured: Option<(Arc<ConnectionStats>, u64)>,
}

impl HeldSlots {
    /// The maximum number of packets that a port can hold.
    pub(crate) const MAX: usize = 4096;

    pub(crate) fn new(packets: usize) -> Self {
        let slots = (0..packets).map(|_| SlotEntry::new()).collect();
        Self { slots, next: 0, last: Last::None, keeps: false }
    }

    /// Finishes the packet handed out last, in the sense of scope `target`. The packet's memory
    /// stays, if it is still in use.
    pub(crate) fn finish_last(&mut self, incoming: &mut Incoming) {
        let Some(last) = self.last.take() else { return };
        let entry = &self.slots[last.index];
        let ended_ns = entry.slot().finished_ns.load(Ordering::Relaxed);
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
            // The receipt is dropped after the release, so that a sender with the acknowledgement
            // finds free room.
            drop(lock(&entry.slot().receipt).take());
        }
    }

    /// Finishes the last packet, for a port that then takes the next packet of a steady stream from
    /// its only ring. False: the port has to do more first, and at most this step is done.
    ///
    /// The memory of finished packets is given back later, as long as it is little. A port that
    /// finds no packet gives it back before it waits.
    #[inline(always)]
    pub(crate) fn begin_steady(&mut self, incoming: &mut Incoming) -> bool {
        let Some((ring, is_lent)) = incoming.steady_ring() else { return false };
        if !self.slots[self.next].is_free() {
            return false;
        }
        match &self.last {
            Last::None => {}
            Last::Plain(at) => {
                let entry = &self.slots[*at];
                *is_lent = false;
                if entry.is_free() {
                    Inlet::release(ring);
                } else {
                    self.keeps = true;
                    ring.keep(entry.token(*at));
                }
                self.last = Last::None;
            }
            Last::Other(_) => return false,
        }
        !self.keeps || ring.may_settle_later() || self.settle(incoming).is_ok()
    }

    /// Gives away the packet that the port has lent, in the next slot, which is free. `None`: the
    /// packet is not a plain packet of the port's only connection over a ring, or the memory may
    /// not be kept.
    #[inline(always)]
    pub(crate) fn give_plain(&mut self, incoming: &Incoming) -> Option<GivenPacket> {
        let (index, packets) = (self.next, self.slots.len());
        let (taken, connection, ring) = incoming.steady_packet()?;
        if taken.taken_ns != 0 || taken.header.sent_ns != 0 {
            return None;
        }
        let memory = ring.keepable(taken.payload.start(), packets)?;
        let entry = &mut self.slots[index];
        entry.generation += 1;
        // SAFETY: the slot is free, so no packet reads it.
        let content = unsafe { &mut *entry.slot().content.get() };
        // Most packets are in the same memory as the previous packet.
        if !content.memory.as_ref().is_some_and(|before| Arc::ptr_eq(before, memory)) {
            content.memory = Some(Arc::clone(memory));
        }
        if !content.packet.describe_like_before(taken, connection) {
            content.packet.describe(incoming);
        }
        self.next = if index + 1 < packets { index + 1 } else { 0 };
        self.last = Last::Plain(index);
        content.is_awaited = false;
        Some(GivenPacket { slot: entry.take(), payload: taken.payload })
    }

    /// Gives the memory of finished packets back to their transports.
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

    /// Finds a free slot, and makes it the next one.
    ///
    /// # Errors
    /// [`Error::TooManyHeld`], which lists the held packets.
    pub(crate) fn find_free(&mut self, port: &str) -> Result<()> {
        let count = self.slots.len();
        let order = (self.next..count).chain(0..self.next);
        let Some(index) = order.into_iter().find(|at| self.slots[*at].is_free()) else {
            return Err(self.too_many(port));
        };
        self.next = index;
        Ok(())
    }

    /// Returns the number of packets that are in use.
    pub(crate) fn held(&self) -> usize {
        self.slots.iter().filter(|entry| !entry.is_free()).count()
    }

    /// Gives away the packet that the port has lent, in the next slot, which is free.
    pub(crate) fn give(&mut self, incoming: &mut Incoming) -> GivenPacket {
        let (index, packets) = (self.next, self.slots.len());
        self.next = if index + 1 < packets { index + 1 } else { 0 };
        let entry = &mut self.slots[index];
        debug_assert!(entry.is_free());
        entry.generation += 1;
        // SAFETY: the slot is free, so no packet reads it.
        let content = unsafe { &mut *entry.slot().content.get() };
        let taken = incoming.taken();
        let is_measured = taken.taken_ns != 0 && taken.header.sent_ns != 0;
        let mut last = LastGiven { index, is_lent: true, is_awaited: false, measured: None };
        let memory = incoming.keepable(packets);
        let receipt;
        let payload = match memory {
            Some(memory) => {
                // Most packets are in the same memory as the previous packet.
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
        (last.is_awaited, content.is_awaited) = (is_awaited, is_awaited);
        if is_awaited {
            entry.slot().finished_ns.store(0, Ordering::Relaxed);
            *lock(&entry.slot().receipt) = receipt;
        }
        let is_plain = last.is_lent && !is_awaited && incoming.taken().header.sent_ns == 0;
        self.last = if is_plain { Last::Plain(index) } else { Last::Other(last) };
        GivenPacket { slot: entry.take(), payload }
    }

    #[cold]
    fn too_many(&self, port: &str) -> Error {
        let name = |entry: &SlotEntry| {
            // SAFETY: the caller is the port, and changes no content now.
            let packet = unsafe { entry.slot().packet() };
            packet.meta().map(|(header, _)| (packet.connection().to_string(), header.sequence))
        };
        let mut held: Vec<_> = self.slots.iter().filter(|entry| !entry.is_free()).filter_map(name).collect();
        held.sort();
        Error::TooManyHeld { port: port.into(), packets_max: self.slots.len(), held }
    }
}

impl SlotEntry {
    fn new() -> Self {
        Self { slot: NonNull::from(Box::leak(Box::default())), generation: 0 }
    }

    #[inline(always)]
    fn slot(&self) -> &HeldSlot {
        // SAFETY: the drop of the port is the earliest that leaves the slot.
        unsafe { self.slot.as_ref() }
    }

    /// Returns whether no packet uses the slot.
    #[inline(always)]
    fn is_free(&self) -> bool {
        // Acquire: pairs with the Release of the packet's drop. All reads by the packet have ended.
        self.slot().state.load(Ordering::Acquire) == FREE
    }

    /// Gives the slot, which is free, to a packet.
    #[inline(always)]
    fn take(&self) -> SlotInUse {
        // Relaxed: the thread that gets the packet gets it from this one.
        self.slot().state.store(IN_USE, Ordering::Relaxed);
        SlotInUse(self.slot)
    }

    /// Returns the number of the packet in the slot.
    fn token(&self, index: usize) -> u64 {
        self.generation * HeldSlots::MAX as u64 + index as u64
    }
}

impl Drop for SlotEntry {
    fn drop(&mut self) {
        // Acquire and Release: see the drop of `SlotInUse`.
        if self.slot().state.swap(LEFT, Ordering::AcqRel) == FREE {
            // SAFETY: no packet uses the slot.
            drop(unsafe { Box::from_raw(self.slot.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the last of port and packet frees the slot, once. Sanitizers find any other
    /// outcome.
    #[test]
    fn the_last_of_port_and_packet_frees_the_place() {
        for _ in 0..100 {
            let entry = SlotEntry::new();
            assert!(entry.is_free());
            let packet = entry.take();
            assert!(!entry.is_free());
            drop(packet);
            assert!(entry.is_free());
            let packet = entry.take();
            let other = std::thread::spawn(move || drop(packet));
            drop(entry);
            other.join().unwrap();
        }
    }
}
