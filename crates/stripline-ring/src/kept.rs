//! Frames that stay in use while the reader moves on. The cursor stays at the oldest of these
//! frames.
//!
//! ```text
//!          cursor                 position
//!            v                       v
//!   | free | kept | passed | kept | next ...
//! ```
//!
//! A frame behind the oldest kept frame may already be over. The room of that frame is given back
//! together with the room of the oldest one.

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::layout::{Control, frame_stride};
use crate::mem::{Data, Ordering};
use crate::{Lag, Reader};

/// The frames that a reader keeps, in the order of the ring.
#[derive(Default)]
pub(crate) struct KeptFrames {
    frames: VecDeque<KeptFrame>,
    /// The position and count of the last store. Valid while frames are kept.
    stored: (u64, u64),
}

/// A frame that stays in use while the reader moves on.
#[derive(Clone, Copy, Debug)]
pub struct KeptFrame {
    data: Data,
    position: u64,
    count: u64,
    len: usize,
    token: u64,
}

// SAFETY: a `KeptFrame` is only an address range. Every use of the range is `unsafe` and has a
// justification.
unsafe impl Send for KeptFrame {}
// SAFETY: as above; the bytes are only read.
unsafe impl Sync for KeptFrame {}

impl KeptFrame {
    /// Returns the number that was passed when the frame was kept.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the bytes of the frame.
    ///
    /// # Safety
    /// The caller must ensure that the memory of the ring is still mapped, and that no call of
    /// [`Reader::settle`] has learned from `is_over` that the frame is over.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the writer does not write these bytes before the cursor has passed the frame.
        unsafe { self.data.bytes(self.position, self.len) }
    }
}

impl Reader {
    /// Moves on behind the borrowed frame, and keeps the memory of the frame. The cursor stays at
    /// the frame until `is_over` in [`Reader::settle`] returns true for it. Returns `None` if no
    /// frame is borrowed.
    ///
    /// While frames are kept, release further frames with [`Reader::pass`], not with
    /// [`Reader::release`].
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Lag, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    /// for text in [b"abc", b"def"] {
    ///     writer.try_reserve(3)?.copy_from_slice(text);
    ///     writer.publish(3);
    /// }
    /// reader.try_next()?;
    /// let kept = reader.keep(7).expect("a frame is borrowed");
    /// assert_eq!(reader.try_next()?, Some(&b"def"[..]));
    /// reader.pass();
    /// // SAFETY: it is not over, and nothing has taken its memory.
    /// assert_eq!(unsafe { kept.bytes() }, b"abc");
    /// assert_eq!((reader.kept_lag().frames, writer.lag(id).unwrap().frames), (2, 2));
    /// reader.settle(|kept| kept.token() == 7);
    /// assert_eq!(writer.lag(id), Some(Lag { bytes: 0, frames: 0 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn keep(&mut self, token: u64) -> Option<KeptFrame> {
        debug_assert_eq!(self.unstored_frames, 0, "earlier releases come first: `finish_releases`");
        let len = std::mem::take(&mut self.borrowed).checked_sub(1)?;
        let frame = KeptFrame { data: self.data, position: self.position, count: self.count, len, token };
        if self.kept.frames.is_empty() {
            self.kept.stored = (self.position, self.count);
        }
        self.kept.frames.push_back(frame);
        self.advance(len);
        Some(frame)
    }

    /// Returns whether frames are kept.
    #[inline]
    pub fn keeps_frames(&self) -> bool {
        !self.kept.frames.is_empty()
    }

    /// Returns the kept frames, oldest first. A frame that is over is included if a kept frame
    /// stands before it.
    pub fn kept_frames(&self) -> impl Iterator<Item = &KeptFrame> {
        self.kept.frames.iter()
    }

    /// Returns the distance between the oldest kept frame and the next frame to read.
    #[inline]
    pub fn kept_lag(&self) -> Lag {
        match self.kept.frames.front() {
            Some(oldest) => Lag { bytes: self.position - oldest.position, frames: self.count - oldest.count },
            None => Lag { bytes: 0, frames: 0 },
        }
    }

    /// Releases the borrowed frame as [`Reader::release`] does. While frames are kept, the room of
    /// the frame is given back together with the room of the kept frames.
    pub fn pass(&mut self) -> bool {
        if !self.keeps_frames() {
            return self.release();
        }
        if let Some(len) = std::mem::take(&mut self.borrowed).checked_sub(1) {
            self.advance(len);
        }
        false
    }

    /// Gives back the room before the oldest frame that is not over. Returns true if the writer
    /// waits for space and should be woken now. Calls `is_over` with the oldest frame until it
    /// returns false. After it has returned true for a frame, no thread may read the frame any
    /// more.
    ///
    /// While frames are kept, call this function even if none is over: before this side sleeps, and
    /// before [`Reader::kept_lag`] grows so large that the writer waits. In between, frames may be
    /// read without it.
    ///
    /// No wake-up is lost as long as [`Reader::kept_lag`] stays below the level at which the writer
    /// waits. To see this, let this call be the last one before this side sleeps, and suppose that
    /// the writer sleeps too. All frames have been read, so the cursor stored last leaves the
    /// writer enough room. The writer sleeps, so it must have seen an older cursor. Then the check
    /// that followed the last store has seen the writer's flag, as in [`Reader::release`], and so
    /// does every later check. This last call finds no further frame and returns true.
    pub fn settle(&mut self, mut is_over: impl FnMut(&KeptFrame) -> bool) -> bool {
        let before = self.kept.stored;
        if !self.keeps_frames() {
            return false;
        }
        while self.kept.frames.front().is_some_and(&mut is_over) {
            self.kept.frames.pop_front();
        }
        self.store_kept(before)
    }

    /// Moves to another mapping of the same ring, and gives up the kept frames. The caller has
    /// copied these frames or does not use their memory any more. A borrowed frame must be borrowed
    /// again. This method and [`Reader::settle`] return the same value.
    ///
    /// # Safety
    /// The caller must guarantee the same as for [`Reader::new`], for a mapping of the same ring.
    /// The caller must not read the kept frames any more, because the writer overwrites them in
    /// every mapping of the memory.
    pub unsafe fn remap(&mut self, control: NonNull<Control>, data: NonNull<u8>) -> bool {
        self.borrowed = 0;
        // SAFETY: the caller guarantees that the memory is valid.
        self.data = unsafe { Data::new(data, self.data.capacity()) };
        self.control = control;
        let before = self.kept.stored;
        self.kept.frames.clear();
        self.store_kept(before)
    }

    /// Moves on behind a frame of `len` bytes without storing the cursor.
    fn advance(&mut self, len: usize) {
        self.position += frame_stride(len) as u64;
        self.count += 1;
    }

    fn store_kept(&mut self, before: (u64, u64)) -> bool {
        let oldest = self.kept.frames.front();
        let now = oldest.map_or((self.position, self.count), |frame| (frame.position, frame.count));
        if now != before {
            self.kept.stored = now;
            self.store_cursor(now);
            // For the fence and the load, see `release`.
            self.fence.run();
        }
        if self.control().writer_waiting.0.load(Ordering::Relaxed) == 0 {
            self.woken = None;
            return false;
        }
        self.is_wake_due(before, now)
    }
}
