//! Frames that stay in use while their reader goes on: the cursor stays at the oldest of them.
//!
//! ```text
//!          cursor                 position
//!            v                       v
//!   | free | kept | passed | kept | next ...
//! ```
//!
//! A frame behind the oldest one kept may be over already. Its room is given back with that of the
//! oldest.

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::layout::{Control, frame_stride};
use crate::mem::{Data, Ordering};
use crate::{Lag, Reader};

/// The frames that a reader keeps, in the order of the ring.
#[derive(Default)]
pub(crate) struct KeptFrames {
    frames: VecDeque<KeptFrame>,
    /// The position and count stored last. Valid while frames are kept.
    stored: (u64, u64),
}

/// A frame that stays in use while its reader goes on.
#[derive(Clone, Copy, Debug)]
pub struct KeptFrame {
    data: Data,
    position: u64,
    count: u64,
    len: usize,
    token: u64,
}

// SAFETY: an address range. Each use of it is `unsafe`, and argued for there.
unsafe impl Send for KeptFrame {}
// SAFETY: as above; the bytes are only read.
unsafe impl Sync for KeptFrame {}

impl KeptFrame {
    /// Returns the number that the frame was kept with.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the frame's bytes.
    ///
    /// # Safety
    /// The memory of the ring is there, and no [`Reader::settle`] has been given that the frame is
    /// over.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the writer does not write it before the cursor has passed it.
        unsafe { self.data.bytes(self.position, self.len) }
    }
}

impl Reader {
    /// Goes on behind the borrowed frame, and keeps its memory. The cursor stays there until
    /// [`Reader::settle`] is given that the frame is over. `None`: no frame is borrowed.
    ///
    /// While frames are kept, [`Reader::pass`] releases others, and not [`Reader::release`].
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

    /// Returns the frames kept, the oldest first, with those that are over and have a kept one
    /// before them.
    pub fn kept_frames(&self) -> impl Iterator<Item = &KeptFrame> {
        self.kept.frames.iter()
    }

    /// Returns the room between the oldest frame kept and the next frame to read.
    #[inline]
    pub fn kept_lag(&self) -> Lag {
        match self.kept.frames.front() {
            Some(oldest) => Lag { bytes: self.position - oldest.position, frames: self.count - oldest.count },
            None => Lag { bytes: 0, frames: 0 },
        }
    }

    /// Releases the borrowed frame as [`Reader::release`] does. While frames are kept, its room is
    /// given back with theirs.
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
    /// waits for space and should be woken now. `is_over` is called with the oldest frame until it
    /// returns false. A frame for which it returns true is not read any more, by any thread.
    ///
    /// Call it while frames are kept, also if none is over: before this side sleeps, and before
    /// [`Reader::kept_lag`] makes the writer wait. In between, frames may be read without it.
    ///
    /// No wake-up is lost, as long as [`Reader::kept_lag`] stays below what makes the writer wait.
    /// Let this be the last call before this side sleeps, and suppose that the writer sleeps, too.
    /// All frames are read by now. So the writer has room by the cursor stored last, and must have
    /// seen an older one. Then this side's check behind that store has seen the writer's flag, as
    /// in [`Reader::release`], and so does every later check. This last one finds no further frame,
    /// and returns true.
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

    /// Goes on in another mapping of the same ring, and gives up the frames kept. The caller has
    /// copied them, or uses their memory no more. A borrowed frame has to be borrowed again.
    /// Returns as [`Reader::settle`] does.
    ///
    /// # Safety
    /// As for [`Reader::new`], for a mapping of the same ring. The writer overwrites the frames
    /// that were kept, in every mapping of the ring's memory.
    pub unsafe fn remap(&mut self, control: NonNull<Control>, data: NonNull<u8>) -> bool {
        self.borrowed = 0;
        // SAFETY: the caller guarantees it.
        self.data = unsafe { Data::new(data, self.data.capacity()) };
        self.control = control;
        let before = self.kept.stored;
        self.kept.frames.clear();
        self.store_kept(before)
    }

    /// Moves on behind a frame of that length, and stores no cursor.
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
            // The fence and the load are those of `release`.
            self.fence.run();
        }
        if self.control().writer_waiting.0.load(Ordering::Relaxed) == 0 {
            self.woken = None;
            return false;
        }
        self.is_wake_due(before, now)
    }
}
