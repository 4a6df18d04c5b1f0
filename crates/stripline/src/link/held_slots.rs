//! Packets that a port has given away and that are still in use, in any thread.

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

/// The place of one packet that was given away. The port has it while it is free, and the packet
/// reads it while it is in use.
#[derive(Default)]
pub(crate) struct HeldSlot {
    /// [`FREE`], [`IN_USE`] or [`LEFT`].
    state: AtomicU32,
    content: UnsafeCell<HeldContent>,
    /// Taken by the first of two: the end of the packet, or the request for the next.
    receipt: Mutex<Option<Receipt>>,
    /// When the packet ended; 0: it has not.
    finished_ns: AtomicU64,
}

/// No packet uses the place.
const FREE: u32 = 0;
/// A packet uses it.
const IN_USE: u32 = 1;
/// A packet uses it, and its port is gone: the packet frees the memory.
const LEFT: u32 = 2;

/// The part of a packet that is a place. The drop gives it back to the port.
pub(crate) struct SlotInUse(NonNull<HeldSlot>);

// SAFETY: threads can share the place. The last of port and packet frees it, which one atomic
// operation of each decides.
unsafe impl Send for SlotInUse {}
// SAFETY: as above.
unsafe impl Sync for SlotInUse {}

impl Deref for SlotInUse {
    type Target = HeldSlot;

    #[inline(always)]
    fn deref(&self) -> &HeldSlot {
        // SAFETY: this frees it at the earliest.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SlotInUse {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the packet.
        if unsafe { &*self.content.get() }.is_awaited {
            self.finish();
        }
        // Release: all reads of the packet come before the port's next write, which follows an
        // Acquire of this. Acquire: the drop of a port that has left comes before the free.
        if self.state.swap(FREE, Ordering::AcqRel) == LEFT {
            // SAFETY: the port has left it to this.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

#[derive(Default)]
struct HeldContent {
    packet: OwnedPacket,
    /// What the payload is in, unless it was copied.
    memory: Option<Arc<RingMemory>>,
    /// Whether the packet has a receipt or is measured, so that its end is reported.
    is_awaited: bool,
}

// SAFETY: the port writes the content only while the place is free. A packet only reads it.
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
    fn finish(&self) {
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
    pub slot: SlotInUse,
    pub payload: FrameRef,
}

/// The places of all packets that a port may have given away at once.
pub(crate) struct HeldSlots {
    slots: Vec<SlotEntry>,
    next: usize,
    last: Last,
    /// Whether a packet may still be in the memory of its transport, apart from the last.
    keeps: bool,
}

/// The port's part of a place. The drop leaves it to the packet that uses it.
struct SlotEntry {
    slot: NonNull<HeldSlot>,
    /// Counts the packets that have been in it.
    generation: u64,
}

// SAFETY: as for `SlotInUse`.
unsafe impl Send for SlotEntry {}
// SAFETY: as above; nothing changes the place by a shared reference to this.
unsafe impl Sync for SlotEntry {}

/// The packet given away last.
enum Last {
    None,
    /// One that the port has lent, neither measured nor awaited, by its place.
    Plain(usize),
    Other(LastGiven),
}

impl Last {
    /// Takes the packet, and leaves nothing.
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
        let slots = (0..packets).map(|_| SlotEntry::new()).collect();
        Self { slots, next: 0, last: Last::None, keeps: false }
    }

    /// Finishes the packet given last, in the sense of scope `target`. Its memory stays, if it is
    /// still in use.
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
            // After the release, so that a sender that gets the acknowledgement finds the room
            // free.
            drop(lock(&entry.slot().receipt).take());
        }
    }

    /// Finishes the packet before, for a port that then takes the next one of a steady stream from
    /// its only ring. False: the port has to do more first; nothing or only that is done.
    ///
    /// What is over is given back later, as long as that is little. A port that finds no packet
    /// gives it back before it waits.
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

    /// Gives the packet that the port has lent away in the next place, which is free. `None`: it is
    /// not a plain one of the port's only connection, over a ring, or its memory may not be kept.
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
        // SAFETY: the place is free, so that no packet reads it.
        let content = unsafe { &mut *entry.slot().content.get() };
        // Most packets are in the same memory as the one before.
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

    /// Finds a free place, which is the next then.
    ///
    /// # Errors
    /// [`Error::TooManyHeld`] with the packets that are held.
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

    /// Gives the packet that the port has lent away, in the next place, which is free.
    pub(crate) fn give(&mut self, incoming: &mut Incoming) -> GivenPacket {
        let (index, packets) = (self.next, self.slots.len());
        self.next = if index + 1 < packets { index + 1 } else { 0 };
        let entry = &mut self.slots[index];
        debug_assert!(entry.is_free());
        entry.generation += 1;
        // SAFETY: the place is free, so that no packet reads it.
        let content = unsafe { &mut *entry.slot().content.get() };
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
            // SAFETY: this is the port, and it changes no content now.
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
        // SAFETY: the port's drop leaves it at the earliest.
        unsafe { self.slot.as_ref() }
    }

    /// Returns whether no packet uses it.
    #[inline(always)]
    fn is_free(&self) -> bool {
        // Acquire, paired with the Release of the packet's drop: all its reads have ended.
        self.slot().state.load(Ordering::Acquire) == FREE
    }

    /// Gives it to a packet. It is free.
    #[inline(always)]
    fn take(&self) -> SlotInUse {
        // Relaxed: the thread that gets the packet gets it from this one.
        self.slot().state.store(IN_USE, Ordering::Relaxed);
        SlotInUse(self.slot)
    }

    /// Returns the number of the packet in it.
    fn token(&self, index: usize) -> u64 {
        self.generation * HeldSlots::MAX as u64 + index as u64
    }
}

impl Drop for SlotEntry {
    fn drop(&mut self) {
        // Acquire and Release as in the drop of `SlotInUse`.
        if self.slot().state.swap(LEFT, Ordering::AcqRel) == FREE {
            // SAFETY: no packet uses it.
            drop(unsafe { Box::from_raw(self.slot.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the last of the two frees the place, once: sanitizers find another outcome.
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
