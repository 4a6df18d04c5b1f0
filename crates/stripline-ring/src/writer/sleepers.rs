//! The search for sleeping readers, and the choice of the fence before the search.

use std::ptr::NonNull;

use super::{ReaderId, Writer};
use crate::Fence;
use crate::layout::{PARKED, Sleepers};
use crate::mem::{Ordering, fence};

/// Sleeps that are at most this many frames apart count as one series.
const SOON: u64 = 8;
/// After this many sleeps in a series, readers are considered to sleep often.
const OFTEN: u32 = 8;
/// After this many frames without a sleeping reader, the writer stops the full fences when it next
/// loads the cursors.
pub(super) const AWAKE: u64 = 1024;

/// A reader to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleeper {
    /// The reader.
    pub reader: ReaderId,
    /// Whether the reader is parked on the [word](crate::Cursor::park_word) of the cursor.
    pub is_parked: bool,
}

impl Writer {
    /// Calls `wake` once for every reader that sleeps or is about to sleep. Call this after every
    /// publish (or every few), after [`Writer::attach`] and after [`Writer::close`].
    ///
    /// ```
    /// # use stripline_ring::{HeapRing, Mode};
    /// # let (ring, mut writer) = HeapRing::new(4096);
    /// let (id, mut reader) = ring.attach(&mut writer, Mode::Lossy);
    /// assert!(reader.prepare_sleep());
    /// writer.try_reserve(1).unwrap()[0] = 7;
    /// writer.publish(1);
    /// let mut woken = Vec::new();
    /// writer.for_each_sleeper(|sleeper| woken.push(sleeper.reader));
    /// assert_eq!(woken, [id]);
    /// ```
    #[inline]
    pub fn for_each_sleeper(&mut self, mut wake: impl FnMut(Sleeper)) {
        if !self.may_have_sleepers() {
            return;
        }
        for index in 0..self.groups.len() {
            // Relaxed: the fence orders the load.
            if self.groups[index].sleepers().any.0.load(Ordering::Relaxed) != 0 {
                self.poll_sleepers(self.groups[index].sleepers, &mut wake);
            }
        }
    }

    /// Returns whether [`Writer::for_each_sleeper`] may find a sleeper now, after a publish, attach
    /// or close.
    #[inline(always)]
    pub fn may_have_sleepers(&self) -> bool {
        // The store of the commit word must not move behind the load of `any`. The reader stores
        // `sleeping` and `any`, and loads the commit word behind a fence on the reader's side. At
        // least one side sees the other.
        self.fence_now.run();
        // Relaxed: the fence orders the load.
        let sleeps = |sleepers: &Sleepers| sleepers.any.0.load(Ordering::Relaxed) != 0;
        match self.only_group {
            // SAFETY: the word is atomic. The contract of `attach` keeps it valid as long as a
            // reader of the group is attached. Detaching the last reader clears `only_group`.
            Some(only) => sleeps(unsafe { only.as_ref() }),
            None => self.groups.iter().any(|group| sleeps(group.sleepers())),
        }
    }

    /// Wakes the sleeping readers of one group.
    #[cold]
    fn poll_sleepers(&mut self, group: NonNull<Sleepers>, wake: &mut impl FnMut(Sleeper)) {
        // SAFETY: the word is atomic. The contract of `attach` keeps it valid as long as one reader
        // of the group is attached.
        let any = unsafe { &group.as_ref().any.0 };
        // Clear the flag of the group first, then check each reader. If a reader sets the flag
        // later, the next call finds the reader. Acquire: a reader sets the reader's flag before
        // the group's flag. (Release: the swaps form one chain, see `prepare_sleep`.)
        any.swap(0, Ordering::AcqRel);
        let mut found = false;
        for slot in self.readers.iter().filter(|slot| slot.sleepers == group) {
            let sleeping = &slot.cursor().sleeping.0;
            // Relaxed: the swap above orders the load. The swap (AcqRel) clears the flag once, so
            // that a sleeper is woken only once. The swap also orders the wake-up behind the
            // actions of the reader before the sleep.
            if sleeping.load(Ordering::Relaxed) != 0 {
                self.slept_on = Some(NonNull::from(sleeping));
                match sleeping.swap(0, Ordering::AcqRel) {
                    0 => {}
                    how => wake(Sleeper { reader: slot.id, is_parked: how == PARKED }),
                }
                found = true;
            }
        }
        if found {
            self.note_sleep();
        }
    }

    /// Records that a reader was asleep, and turns full fences on if readers sleep often.
    fn note_sleep(&mut self) {
        let is_soon = self.count - self.slept_at <= SOON;
        self.sleeps = if is_soon { self.sleeps.saturating_add(1) } else { 0 };
        self.slept_at = self.count;
        if self.sleeps >= OFTEN && !self.fenced && self.fence == Fence::Compiler {
            (self.fenced, self.fence_now) = (true, Fence::Full);
            // Release: a reader that sees `fenced` also sees all frames that were published without
            // a fence.
            self.control().hints.0.fenced.store(1, Ordering::Release);
        }
    }

    /// Turns full fences off after a long time without sleepers.
    #[cold]
    pub(super) fn stop_fencing(&mut self) {
        (self.fenced, self.fence_now, self.sleeps) = (false, self.fence, 0);
        self.control().hints.0.fenced.store(0, Ordering::Relaxed);
        // A reader that still saw `fenced` set had announced its sleep before. The writer sees the
        // announcement behind this fence.
        fence(Ordering::SeqCst);
    }
}
