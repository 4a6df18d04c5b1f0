//! Whom the writer has to wake, and what it does lest anybody oversleep.

use std::ptr::NonNull;

use super::{ReaderId, Writer};
use crate::Fence;
use crate::layout::{NAPPING, Sleepers};
use crate::mem::{Ordering, fence};

/// Sleeps that are no more than so many frames apart count as one after the other,
const SOON: u64 = 8;
/// and after so many of them readers are taken to sleep often,
const OFTEN: u32 = 8;
/// until this many frames have been published to readers that were awake.
pub(super) const AWAKE: u64 = 1024;

/// A reader to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleeper {
    /// Which.
    pub reader: ReaderId,
    /// Whether it sleeps on its [word](crate::Cursor::word).
    pub naps: bool,
}

impl Writer {
    /// Calls `wake` for every reader that sleeps, or is about to, once. To be called after every publish (or every
    /// few of them), after [`Writer::attach`] and after [`Writer::close`].
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
            // Relaxed: the fence orders it.
            if self.groups[index].sleepers().any.0.load(Ordering::Relaxed) != 0 {
                self.look_for_sleepers(self.groups[index].sleepers, &mut wake);
            }
        }
    }

    /// Whether [`Writer::for_each_sleeper`] may find any, at this moment, after a publish, attach or close.
    #[inline]
    pub fn may_have_sleepers(&self) -> bool {
        // The commit word's store must not pass the load of `any`. The reader stores `sleeping` and `any` and, behind
        // its own fence, loads the commit word: one of the two sees the other.
        if self.fenced { Fence::Full } else { self.fence }.run();
        // Relaxed: the fence orders it.
        self.groups.iter().any(|group| group.sleepers().any.0.load(Ordering::Relaxed) != 0)
    }

    /// Wakes those of one group that sleep.
    #[cold]
    fn look_for_sleepers(&mut self, group: NonNull<Sleepers>, wake: &mut impl FnMut(Sleeper)) {
        // SAFETY: valid as long as one of the group is attached, as `attach` demands, and atomic.
        let any = unsafe { &group.as_ref().any.0 };
        // First the group's flag down, then a look at each: who sets it again afterwards is found the next time. Acquire:
        // who set it had set its own flag before. (Release: the flags form one chain, see `prepare_sleep`.)
        any.swap(0, Ordering::AcqRel);
        let mut found = false;
        for entry in self.readers.iter().filter(|entry| entry.sleepers == group) {
            let sleeping = &entry.cursor().sleeping.0;
            // Relaxed: ordered by the swap above. The swap (AcqRel) takes the flag down once, so that a sleeper is woken
            // once, and orders the wake-up behind what the reader did before it went to sleep.
            if sleeping.load(Ordering::Relaxed) != 0 {
                self.slept_on = Some(NonNull::from(sleeping));
                match sleeping.swap(0, Ordering::AcqRel) {
                    0 => {}
                    how => wake(Sleeper { reader: entry.id, naps: how == NAPPING }),
                }
                found = true;
            }
        }
        if found {
            self.note_sleep();
        }
    }

    /// A reader was asleep.
    fn note_sleep(&mut self) {
        let is_soon = self.count - self.slept_at <= SOON;
        self.sleeps = if is_soon { self.sleeps.saturating_add(1) } else { 0 };
        self.slept_at = self.count;
        if self.sleeps >= OFTEN && !self.fenced && self.fence == Fence::Compiler {
            self.fenced = true;
            // Release: who sees it sees all frames that had no fence.
            self.control().mood.0.fenced.store(1, Ordering::Release);
        }
    }

    /// Nobody has slept for long.
    #[cold]
    pub(super) fn leave_out_fences(&mut self) {
        (self.fenced, self.sleeps) = (false, 0);
        self.control().mood.0.fenced.store(0, Ordering::Relaxed);
        // Whoever still found it raised has announced its sleep before, and is seen behind this fence.
        fence(Ordering::SeqCst);
    }
}
