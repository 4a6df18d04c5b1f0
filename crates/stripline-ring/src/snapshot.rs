//! Snapshots of a ring for tools. A tool takes them without being the writer or a reader.
//!
//! A snapshot stores nothing, so it neither slows nor disturbs the two sides. The values may be
//! outdated at once. Every word is validated: if one is invalid, the result is `None` instead of a
//! wrong figure.

use crate::layout::{ATTACHED, Control, Cursor, MAGIC, POSITION_MAX, is_valid_capacity, is_valid_position};
use crate::mem::Ordering;
use crate::{HeapRing, Lag};

/// A snapshot of a ring's control page.
///
/// ```
/// use stripline_ring::HeapRing;
///
/// let (ring, mut writer) = HeapRing::new(4096);
/// writer.try_reserve(5)?.copy_from_slice(b"hello");
/// writer.publish(5);
/// let now = ring.snapshot().expect("a sound ring");
/// assert_eq!((now.position, now.count, now.newest), (64, 1, Some(0)));
/// assert!(!now.writer_waiting && !now.closed);
/// # Ok::<(), stripline_ring::ReserveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Position of the next frame.
    pub position: u64,
    /// Number of frames published.
    pub count: u64,
    /// Position of the newest frame, if there is one.
    pub newest: Option<u64>,
    /// Capacity of the ring, in bytes.
    pub capacity: u64,
    /// Whether the writer waits for space, or is about to.
    pub writer_waiting: bool,
    /// Whether the writer has closed the ring and will publish nothing more.
    pub closed: bool,
}

/// A snapshot of a reader's cursor page.
///
/// ```
/// let fresh = stripline_ring::Cursor::default().snapshot();
/// assert!(!fresh.attached && !fresh.sleeping);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorSnapshot {
    /// Whether the reader is attached: the writer respects the cursor.
    pub attached: bool,
    /// Whether the reader sleeps until the next frame, or is about to sleep.
    pub sleeping: bool,
    /// Position up to which the reader has released. The value is not validated.
    pub position: u64,
    /// Number of frames that the reader has released. The value is not validated.
    pub count: u64,
}

impl Control {
    /// Takes a snapshot of the ring. Returns `None` if the page does not belong to a ring, or holds
    /// invalid values.
    ///
    /// ```
    /// assert_eq!(stripline_ring::Control::default().snapshot(), None);
    /// ```
    pub fn snapshot(&self) -> Option<Snapshot> {
        let (identity, progress) = (&self.identity.0, &self.progress.0);
        // Acquire: the capacity is visible together with the magic.
        let magic = identity.magic.load(Ordering::Acquire);
        let capacity = identity.capacity.load(Ordering::Relaxed);
        // Acquire, in the order of the stores: the newest frame is below the head.
        let newest = progress.newest.load(Ordering::Acquire);
        let position = progress.head.load(Ordering::Acquire);
        let count = progress.count.load(Ordering::Acquire);
        let sound = magic == MAGIC
            && usize::try_from(capacity).is_ok_and(is_valid_capacity)
            && is_valid_position(newest)
            && is_valid_position(position)
            && newest <= position
            && count <= POSITION_MAX;
        sound.then(|| Snapshot {
            position,
            count,
            newest: (newest < position).then_some(newest),
            capacity,
            // Relaxed: the value may be outdated in any case.
            writer_waiting: self.writer_waiting.0.load(Ordering::Relaxed) == 1,
            closed: self.hints.0.closed.load(Ordering::Relaxed) == 1,
        })
    }
}

impl Cursor {
    /// Takes a snapshot of the reader's cursor.
    pub fn snapshot(&self) -> CursorSnapshot {
        // Acquire: the start values are visible together with the state, and the count together
        // with the position.
        let attached = self.attach_info.0.state.load(Ordering::Acquire) == ATTACHED;
        let position = self.released.0.position.load(Ordering::Acquire);
        CursorSnapshot {
            attached,
            // Relaxed: the value may be outdated in any case.
            sleeping: self.sleeping.0.load(Ordering::Relaxed) != 0,
            position,
            count: self.released.0.count.load(Ordering::Relaxed),
        }
    }
}

impl CursorSnapshot {
    /// Returns how far the reader was behind. `ring` must be a snapshot that was taken after this
    /// one. Returns `None` if the reader is not attached or the values are invalid.
    ///
    /// ```
    /// use stripline_ring::{CursorSnapshot, HeapRing, Lag};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let reader = CursorSnapshot { attached: true, sleeping: false, position: 0, count: 0 };
    /// writer.try_reserve(5).unwrap();
    /// writer.publish(5);
    /// let now = ring.snapshot().expect("a sound ring");
    /// assert_eq!(reader.lag(&now), Some(Lag { bytes: 64, frames: 1 }));
    /// let liar = CursorSnapshot { position: 1 << 40, ..reader };
    /// assert_eq!(liar.lag(&now), None);
    /// ```
    pub fn lag(&self, ring: &Snapshot) -> Option<Lag> {
        // A reader sees a frame a moment before the control page counts it.
        let sound = self.attached
            && is_valid_position(self.position)
            && self.position <= ring.position + ring.capacity
            && self.count <= ring.count + 1;
        sound.then(|| Lag {
            bytes: ring.position.saturating_sub(self.position),
            frames: ring.count.saturating_sub(self.count),
        })
    }
}

impl HeapRing {
    /// Takes a snapshot of the ring. Returns `None` only if the memory of the ring was overwritten.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.control().snapshot()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn forged_pages_give_no_answer() {
        let (ring, _writer) = HeapRing::new(4096);
        let forge = |put: fn(&Control)| {
            let control = Control::default();
            control.identity.0.magic.store(MAGIC, Ordering::Relaxed);
            control.identity.0.capacity.store(4096, Ordering::Relaxed);
            assert!(control.snapshot().is_some());
            put(&control);
            assert_eq!(control.snapshot(), None);
        };
        forge(|c| c.identity.0.magic.store(1, Ordering::Relaxed));
        forge(|c| c.identity.0.capacity.store(5000, Ordering::Relaxed));
        forge(|c| c.progress.0.newest.store(64, Ordering::Relaxed));
        forge(|c| c.progress.0.head.store(63, Ordering::Relaxed));
        forge(|c| c.progress.0.head.store(u64::MAX, Ordering::Relaxed));
        forge(|c| c.progress.0.count.store(u64::MAX, Ordering::Relaxed));
        let now = ring.snapshot().unwrap();
        let reader = CursorSnapshot { attached: true, sleeping: false, position: 0, count: 0 };
        for violator in [
            CursorSnapshot { attached: false, ..reader },
            CursorSnapshot { position: 1, ..reader },
            CursorSnapshot { position: u64::MAX - 63, ..reader },
            CursorSnapshot { count: u64::MAX, ..reader },
        ] {
            assert_eq!(violator.lag(&now), None, "{violator:?}");
        }
    }
}
