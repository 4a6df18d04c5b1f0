//! The writer's record of each reader, and the checks of the reader's cursor.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::heap::CursorHold;
use crate::layout::{Cursor, LINE, Sleepers};
use crate::mem::Ordering;
use crate::{Mode, ReaderId, ReaderViolation};

/// Returns the sleep word inside the cursor, for a reader that does not share a sleep word.
pub(crate) fn own_sleepers(cursor: NonNull<Cursor>) -> NonNull<Sleepers> {
    // SAFETY: this only computes the address of a field inside the memory for which the cursor's
    // pointer is valid. Nothing is read.
    unsafe { NonNull::new_unchecked(&raw mut (*cursor.as_ptr()).sleepers) }
}

/// Readers that share one sleep word.
pub(crate) struct Group {
    pub sleepers: NonNull<Sleepers>,
    pub readers: usize,
}

impl Group {
    pub(crate) fn sleepers(&self) -> &Sleepers {
        // SAFETY: the word is atomic. The contract of `attach` keeps it valid as long as one reader
        // of the group is attached.
        unsafe { self.sleepers.as_ref() }
    }
}

/// The writer's record of one reader.
pub(crate) struct ReaderSlot {
    pub id: ReaderId,
    pub cursor: NonNull<Cursor>,
    pub sleepers: NonNull<Sleepers>,
    pub mode: Mode,
    /// The low watermark, if the reader has one.
    pub low: Option<u32>,
    /// Whether the writer found no room and waits until the reader has reached the low watermark.
    pub is_held: bool,
    /// The last released position and count that passed the checks.
    pub seen: Cell<(u64, u64)>,
    pub violation: Cell<Option<ReaderViolation>>,
    pub hold: Option<CursorHold>,
}

impl ReaderSlot {
    pub(crate) fn cursor(&self) -> &Cursor {
        // SAFETY: the contract of `attach` keeps the cursor valid until it is detached, and all its
        // words are atomics.
        unsafe { self.cursor.as_ref() }
    }

    /// Loads the cursor once and validates it. After one violation, every call returns the same
    /// violation again.
    pub(crate) fn poll(&self, head: u64, published: u64) -> Result<(u64, u64), ReaderViolation> {
        if let Some(violation) = self.violation.get() {
            return Err(violation);
        }
        let words = &self.cursor().released.0;
        // Acquire: the reader's loads of the released frames end before the writer overwrites these
        // frames. The reader stores the count before the position, so the count is not older than
        // the position.
        let released = words.position.load(Ordering::Acquire);
        let count = words.count.load(Ordering::Relaxed);
        let (position_before, count_before) = self.seen.get();
        let verdict = if !released.is_multiple_of(LINE as u64) {
            Err(ReaderViolation::ReleasedUnaligned { released })
        } else if released < position_before {
            Err(ReaderViolation::ReleasedBackwards { released, before: position_before })
        } else if released > head {
            Err(ReaderViolation::ReleasedUnpublished { released, head })
        } else if count < count_before {
            Err(ReaderViolation::CountBackwards { count, before: count_before })
        } else if count > published {
            Err(ReaderViolation::CountUnpublished { count, published })
        } else {
            Ok((released, count))
        };
        match verdict {
            Ok(seen) => self.seen.set(seen),
            Err(deed) => self.violation.set(Some(deed)),
        }
        verdict
    }

    /// Returns whether the reader has reached the level at which a blocked writer resumes.
    ///
    /// The level is the low watermark of the reader, or by default a quarter of the depth free. In
    /// either case a quarter of the ring must be free too. Uses the last validated values and loads
    /// nothing.
    pub(crate) fn is_low(&self, head: u64, published: u64, capacity: usize) -> bool {
        let Mode::Blocking { depth } = self.mode else { return true };
        let most = |whole: u64| whole - whole.div_ceil(4);
        let (position, count) = self.seen.get();
        let low = match (self.low, depth) {
            (Some(low), _) => u64::from(low),
            (None, 0) => u64::MAX,
            (None, depth) => most(u64::from(depth)),
        };
        head - position <= most(capacity as u64) && published - count <= low
    }

    /// Returns the position and count up to which this reader allows the writer to go.
    pub(crate) fn limits(&self, capacity: usize) -> (u64, u64) {
        let (position, count) = self.seen.get();
        match self.mode {
            Mode::Lossy => (u64::MAX, u64::MAX),
            // The writer may not advance at all.
            Mode::Blocking { .. } if self.is_held => (position, count),
            Mode::Blocking { depth: 0 } => (position + capacity as u64, u64::MAX),
            Mode::Blocking { depth } => (position + capacity as u64, count + u64::from(depth)),
        }
    }
}
