//! What the writer keeps of its readers, and what it believes of them.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::heap::CursorHold;
use crate::layout::{Cursor, LINE, Sleepers};
use crate::mem::Ordering;
use crate::{Misdeed, Mode, ReaderId};

/// The word of a cursor whose reader shares none.
pub(crate) fn own_sleepers(cursor: NonNull<Cursor>) -> NonNull<Sleepers> {
    // SAFETY: a field's address, within what the cursor's pointer is valid for; nothing is read.
    unsafe { NonNull::new_unchecked(&raw mut (*cursor.as_ptr()).sleepers) }
}

/// Readers with one word in common.
pub(crate) struct Group {
    pub sleepers: NonNull<Sleepers>,
    pub readers: usize,
}

impl Group {
    pub(crate) fn sleepers(&self) -> &Sleepers {
        // SAFETY: valid as long as one of the group is attached, as `attach` demands, and atomic.
        unsafe { self.sleepers.as_ref() }
    }
}

/// What the writer keeps of a reader.
pub(crate) struct Entry {
    pub id: ReaderId,
    pub cursor: NonNull<Cursor>,
    pub sleepers: NonNull<Sleepers>,
    pub mode: Mode,
    /// The low watermark, if it has one.
    pub low: Option<u32>,
    /// Whether the writer has found no room and waits until the reader has come down to the low watermark.
    pub is_held: bool,
    /// The last position and count that it was seen to have released: the only ones believed.
    pub seen: Cell<(u64, u64)>,
    pub misdeed: Cell<Option<Misdeed>>,
    pub hold: Option<CursorHold>,
}

impl Entry {
    pub(crate) fn cursor(&self) -> &Cursor {
        // SAFETY: valid until detached, as `attach` demands, and all its words are atomics.
        unsafe { self.cursor.as_ref() }
    }

    /// Loads the cursor once and checks what it says. Who lied once is not believed again.
    pub(crate) fn look(&self, head: u64, published: u64) -> Result<(u64, u64), Misdeed> {
        if let Some(deed) = self.misdeed.get() {
            return Err(deed);
        }
        let words = &self.cursor().released.0;
        // Acquire: the reader's loads of the frames it has released are over before they are overwritten; and its
        // count, stored before the position, is not older than the position.
        let released = words.position.load(Ordering::Acquire);
        let count = words.count.load(Ordering::Relaxed);
        let (position_before, count_before) = self.seen.get();
        let verdict = if !released.is_multiple_of(LINE as u64) {
            Err(Misdeed::ReleasedUnaligned { released })
        } else if released < position_before {
            Err(Misdeed::ReleasedBackwards { released, before: position_before })
        } else if released > head {
            Err(Misdeed::ReleasedUnpublished { released, head })
        } else if count < count_before {
            Err(Misdeed::CountBackwards { count, before: count_before })
        } else if count > published {
            Err(Misdeed::CountUnpublished { count, published })
        } else {
            Ok((released, count))
        };
        match verdict {
            Ok(seen) => self.seen.set(seen),
            Err(deed) => self.misdeed.set(Some(deed)),
        }
        verdict
    }

    /// Whether, as far as seen, it has come down to where a writer that found no room goes on: to its low watermark, or
    /// a quarter of its depth free if it has none; and a quarter of the ring.
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

    /// Up to which position and count the writer can go for this reader's sake.
    pub(crate) fn limits(&self, capacity: usize) -> (u64, u64) {
        let (position, count) = self.seen.get();
        match self.mode {
            Mode::Lossy => (u64::MAX, u64::MAX),
            // Nowhere.
            Mode::Blocking { .. } if self.is_held => (position, count),
            Mode::Blocking { depth: 0 } => (position + capacity as u64, u64::MAX),
            Mode::Blocking { depth } => (position + capacity as u64, count + u64::from(depth)),
        }
    }
}
