//! The level at which a blocked writer resumes.

use super::{ReaderId, Writer};
use crate::Mode;
use crate::layout::ANY;
use crate::mem::Ordering;

impl Writer {
    /// Returns whether a reader that had no room now has enough for the writer to resume. Enough
    /// means that the ring is empty, or that a quarter of both the ring and the depth is free.
    ///
    /// The method is for a writer that polls instead of sleeping: taking every line as soon as it
    /// is free would cost both sides more than it gains. Also returns true for a reader that is not
    /// attached or broke the protocol, because the writer does not wait for such a reader.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 8 });
    /// for _ in 0..8 {
    ///     writer.try_reserve(1)?;
    ///     writer.publish(1);
    /// }
    /// let mut released = 0;
    /// while !writer.is_worth_resuming(id) {
    ///     assert!(reader.try_next()?.is_some());
    ///     reader.release();
    ///     released += 1;
    /// }
    /// assert_eq!(released, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_worth_resuming(&self, reader: ReaderId) -> bool {
        let Some(slot) = self.slot(reader) else { return true };
        slot.poll(self.head, self.count).is_err() || slot.is_low(self.head, self.count, self.capacity())
    }

    /// Sets the low watermark of a blocking reader. Does nothing if the reader is not attached.
    ///
    /// Once the reader has had no room for a frame
    /// ([`ReserveError::Full`](crate::ReserveError::Full)), it has no room until at most `frames`
    /// frames are unread and a quarter of the ring is free. Without a low watermark, the writer
    /// resumes with any room.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 4 });
    /// writer.set_low_watermark(id, 1);
    /// while writer.try_reserve(1).is_ok() {
    ///     writer.publish(1);
    /// }
    /// for _ in 0..3 {
    ///     assert!(writer.try_reserve(1).is_err());
    ///     reader.try_next()?;
    ///     reader.release();
    /// }
    /// assert_eq!(writer.lag(id).map(|lag| lag.frames), Some(1));
    /// assert!(writer.try_reserve(1).is_ok());
    /// # Ok::<(), stripline_ring::ReadError>(())
    /// ```
    pub fn set_low_watermark(&mut self, reader: ReaderId, frames: u32) {
        let Some(slot) = self.readers.iter_mut().find(|slot| slot.id == reader) else { return };
        if let Mode::Blocking { .. } = slot.mode {
            slot.low = Some(frames);
            // Relaxed: a reader that sees this store late only wakes the writer too often.
            slot.cursor().attach_info.0.low_frames.store(frames.min(ANY - 1), Ordering::Relaxed);
        }
    }
}
