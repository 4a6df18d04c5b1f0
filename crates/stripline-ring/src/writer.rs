//! The writing side: reserves a frame, fills it in, and publishes it.

mod sleepers;
mod watermark;

use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;

use crate::attached::{Group, ReaderSlot, own_sleepers};
use crate::heap::{CursorHold, RingHold};
use crate::layout::{
    ANY, ATTACHED, BLOCKING, Control, Cursor, DETACHED, HEADER, LINE, LOSSY, MAGIC, POSITION_MAX, Sleepers,
    VERSION, commit_word, frame_stride, header_word, is_valid_position, max_frame, parse_header,
};
use crate::mem::{AtomicU32, Data, Ordering, claim, compiler_fence, fence};
use crate::{Fence, ReaderViolation, ReserveError};

/// The distance, in bytes, at which a line ahead of the next frame is prefetched, if frames take
/// one line each. While a reader keeps up with such frames, the reader's processor prefetches the
/// following lines and takes them back from the writer. Measured on a machine where a line takes
/// 250 ns: with six lines a frame takes twice as long as with five. Longer frames gain nothing:
/// packets of 256 bytes pass at half the rate with prefetched lines.
const AHEAD: u64 = 5 * LINE as u64;
/// The smallest ring, in bytes, in which lines are prefetched. In a smaller ring the lines are
/// still in the reader's caches from the previous lap, and more requests would delay the requests
/// for the frame itself. Measured: in rings of 256 KiB, a call of 64 bytes takes half as long
/// without prefetching.
const CLAIMED_FROM: usize = 1 << 20;
pub use sleepers::Sleeper;

/// The writer of a ring.
///
/// The writer keeps all state that it depends on in private memory. Words that readers can write
/// are loaded once and validated.
///
/// ```
/// use stripline_ring::{HeapRing, Lag, Mode, ReserveError};
///
/// let (ring, mut writer) = HeapRing::new(4096);
/// let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 1 });
/// writer.try_reserve(100)?[..2].copy_from_slice(b"ab");
/// writer.publish(2); // Less than reserved; the rest stays free.
/// assert_eq!(writer.lag(id), Some(Lag { bytes: 64, frames: 1 }));
/// assert_eq!(writer.try_reserve(1), Err(ReserveError::Full { slowest: id }));
/// assert_eq!(reader.try_next().unwrap(), Some(&b"ab"[..]));
/// reader.release();
/// assert!(writer.try_reserve(1).is_ok());
/// writer.cancel();
/// writer.close();
/// assert!(reader.is_closed());
/// # Ok::<(), ReserveError>(())
/// ```
pub struct Writer {
    data: Data,
    control: NonNull<Control>,
    /// Position of the next frame. `Control::progress` is a copy of it for readers.
    head: u64,
    count: u64,
    max: usize,
    /// The number of reserved bytes plus 1, or 0 if nothing is reserved.
    reserved: usize,
    /// The newest frame that [`Writer::publish_later_with`] has published and that is not visible
    /// to readers as counted yet.
    uncounted: Option<u64>,
    /// Frames may end up to this position (including the line beyond them) before any cursor must
    /// be loaded again.
    space_until: u64,
    /// The same limit for the fast path, on which nothing else must be done before a frame is
    /// written; otherwise 0.
    fast_until: u64,
    /// Lines up to this position may be prefetched ahead of the next write.
    claims_until: u64,
    /// Frames up to this count may be published before any cursor must be loaded again.
    count_until: u64,
    claim: u64,
    tail: u64,
    tail_count: u64,
    lossy: usize,
    readers: Vec<ReaderSlot>,
    groups: Vec<Group>,
    /// The flag of the group, if there is only one group.
    only_group: Option<NonNull<Sleepers>>,
    /// The sleep word of the reader that was last found asleep.
    slept_on: Option<NonNull<AtomicU32>>,
    next_id: u64,
    /// The weakest fence that the readers require.
    fence: Fence,
    /// The fence before the check for sleepers: `fence`, or a full fence if readers sleep so often
    /// that their barriers would cost more.
    fence_now: Fence,
    /// Whether `fence_now` is a full fence because readers sleep often.
    fenced: bool,
    /// The count at which a sleeper was last found. `sleeps` is the number of sleepers found in
    /// close succession.
    slept_at: u64,
    sleeps: u32,
    _hold: Option<RingHold>,
}

/// The identifier of an attached reader. A writer never uses an identifier twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReaderId(u64);

/// The writer's treatment of a slow reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The writer waits for the reader.
    Blocking {
        /// The maximum number of unread frames; 0 allows as many as the ring holds.
        depth: u32,
    },
    /// The writer overtakes the reader. The reader detects this and counts the missed frames.
    Lossy,
}

/// The distance by which a reader is behind the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The size of the ring in bytes, including headers and padding.
    pub bytes: u64,
    /// Number of frames.
    pub frames: u64,
}

impl Writer {
    /// Creates a ring in zeroed memory, and the writer of the ring.
    ///
    /// # Safety
    /// The caller must ensure all of the following:
    ///
    /// - `control` is valid, zeroed (or fresh from `Control::default`) and writable.
    /// - `data` is aligned to a page and valid for reads and writes of `2 * capacity` bytes.
    /// - The second half of `data` aliases the first, or is accessed only through this crate.
    /// - All this holds as long as the `Writer` lives, and nothing else writes to `control` or
    ///   `data`.
    ///
    /// # Panics
    /// If `capacity` is not [valid](crate::is_valid_capacity) or `data` is not aligned.
    pub unsafe fn new(control: NonNull<Control>, data: NonNull<u8>, capacity: usize) -> Self {
        // SAFETY: the caller guarantees that the memory is valid (`# Safety`).
        unsafe { Self::with_start(control, data, capacity, 0, 0) }
    }

    /// Creates a ring as [`Writer::new`] does, but at a given position and count. The function is
    /// for tests, and for rings that continue an earlier ring.
    ///
    /// # Safety
    /// The caller must ensure the same as for [`Writer::new`].
    ///
    /// # Panics
    /// The same as for [`Writer::new`], and if `start_position` is not a multiple of 64, or either
    /// start is above 2^62.
    pub unsafe fn with_start(
        control: NonNull<Control>,
        data: NonNull<u8>,
        capacity: usize,
        start_position: u64,
        start_count: u64,
    ) -> Self {
        assert!(is_valid_position(start_position), "a ring cannot start at position {start_position}");
        assert!(start_count <= POSITION_MAX, "a ring cannot start at count {start_count}");
        let mut writer = Self {
            // SAFETY: the caller guarantees that the memory is valid (`# Safety`).
            data: unsafe { Data::new(data, capacity) },
            control,
            head: start_position,
            count: start_count,
            max: max_frame(capacity),
            reserved: 0,
            uncounted: None,
            space_until: u64::MAX,
            fast_until: 0,
            claims_until: 0,
            count_until: u64::MAX,
            claim: start_position + LINE as u64,
            tail: start_position,
            tail_count: start_count,
            lossy: 0,
            readers: Vec::new(),
            groups: Vec::new(),
            only_group: None,
            slept_on: None,
            next_id: 0,
            fence: Fence::Full,
            fence_now: Fence::Full,
            fenced: false,
            slept_at: 0,
            sleeps: 0,
            _hold: None,
        };
        writer.recompute_limits();
        // Relaxed: no reader loads these words before it sees the magic. The Release at the end
        // orders all of them before the magic.
        writer.data.commit(start_position).store(0, Ordering::Relaxed);
        let control = writer.control();
        control.progress.0.head.store(start_position, Ordering::Relaxed);
        control.progress.0.newest.store(start_position, Ordering::Relaxed);
        control.progress.0.count.store(start_count, Ordering::Relaxed);
        control.progress.0.tail.store(start_position, Ordering::Relaxed);
        control.progress.0.tail_count.store(start_count, Ordering::Relaxed);
        control.progress.0.claim.store(writer.claim, Ordering::Relaxed);
        control.identity.0.capacity.store(capacity as u64, Ordering::Relaxed);
        control.identity.0.version.store(VERSION, Ordering::Relaxed);
        // Release: a reader that sees the magic sees the ring.
        control.identity.0.magic.store(MAGIC, Ordering::Release);
        writer
    }

    /// Attaches a reader. The reader gets every frame that is published from now on, including a
    /// frame that is already reserved. If the reader is asleep on this cursor, the next
    /// [`Writer::for_each_sleeper`] reports it.
    ///
    /// # Safety
    /// The caller must ensure that `cursor` is valid and writable until the reader is detached or
    /// the `Writer` is dropped.
    ///
    /// A blocking reader borrows frames in place. While the reader may hold a frame, the caller
    /// must not detach it, and must not reuse the memory after the `Writer` is dropped. A peer
    /// counts as holding no frame once it is dead, or was notified to release the frame.
    pub unsafe fn attach(&mut self, cursor: NonNull<Cursor>, mode: Mode) -> ReaderId {
        let own = own_sleepers(cursor);
        // SAFETY: the caller guarantees that the cursor is valid. The sleep word inside the cursor
        // lives as long as the cursor.
        unsafe { self.attach_held(cursor, own, mode, None) }
    }

    /// Attaches a reader with a sleep word that readers of one process
    /// [share](crate::Reader::share_sleepers). The writer then checks one word for all these
    /// readers.
    ///
    /// # Safety
    /// The caller must ensure the same as for [`Writer::attach`], for `sleepers` as well as
    /// `cursor`.
    pub unsafe fn attach_sharing(
        &mut self,
        cursor: NonNull<Cursor>,
        sleepers: NonNull<Sleepers>,
        mode: Mode,
    ) -> ReaderId {
        // SAFETY: the caller guarantees that both words are valid (`# Safety`).
        unsafe { self.attach_held(cursor, sleepers, mode, None) }
    }

    /// Detaches a reader. Does nothing if the reader is not attached.
    ///
    /// # Panics
    /// If the reader is a blocking reader of a [`HeapRing`](crate::HeapRing) that still exists,
    /// because it might hold a frame.
    pub fn detach(&mut self, reader: ReaderId) {
        let Some(index) = self.readers.iter().position(|slot| slot.id == reader) else { return };
        if let ReaderSlot { mode: Mode::Blocking { .. }, hold: Some(hold), .. } = &self.readers[index] {
            assert!(hold.is_last(), "a blocking reader of a `HeapRing` is dropped before it is detached");
        }
        let slot = self.readers.swap_remove(index);
        self.slept_on = None;
        if slot.mode == Mode::Lossy {
            self.lossy -= 1;
        }
        if let Some(group) = self.groups.iter_mut().find(|group| group.sleepers == slot.sleepers) {
            group.readers -= 1;
        }
        self.groups.retain(|group| group.readers > 0);
        self.set_only_group();
        // Release, although no data depends on it: it costs nothing here, and keeps the stores to
        // `attach_info` in order.
        slot.cursor().attach_info.0.state.store(DETACHED, Ordering::Release);
        self.recompute_limits();
    }

    /// Returns the number of attached readers.
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Reserves `len` bytes for the next frame, replacing any earlier reservation. The bytes hold
    /// data of an earlier lap.
    ///
    /// # Errors
    /// See [`ReserveError`]. After `Full`, the next attempt loads the cursors again.
    #[inline]
    pub fn try_reserve(&mut self, len: usize) -> Result<&mut [u8], ReserveError> {
        if self.try_reserve_fast(len).is_none() {
            self.make_room(len)?;
        }
        Ok(self.reserved())
    }

    /// Reserves `len` bytes if this is possible without loading any cursor. After `None`, call
    /// [`Writer::try_reserve`].
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 1 });
    /// writer.try_reserve_fast(2).expect("room")[1] = b'b';
    /// writer.publish(2);
    /// assert!(writer.try_reserve_fast(2).is_none());
    /// assert_eq!(reader.try_next().unwrap().map(|frame| frame[1]), Some(b'b'));
    /// ```
    #[inline(always)]
    pub fn try_reserve_fast(&mut self, len: usize) -> Option<&mut [u8]> {
        // The line beyond the frame will hold the next commit word, which must not be there before
        // this frame is published.
        let needed = self.head.wrapping_add((frame_stride(len) + LINE) as u64);
        if len > self.max || needed > self.fast_until || self.count >= self.count_until {
            self.reserved = 0;
            return None;
        }
        self.reserved = len + 1;
        // SAFETY: as in `reserved`.
        Some(unsafe { self.data.bytes_mut(self.head, len) })
    }

    /// Reserves `len` bytes, and loads the cursors of the readers if necessary.
    #[cold]
    fn make_room(&mut self, len: usize) -> Result<(), ReserveError> {
        if len > self.max {
            return Err(ReserveError::TooLarge { max: self.max });
        }
        let needed = self.head + (frame_stride(len) + LINE) as u64;
        if needed > self.space_until || self.count >= self.count_until {
            self.poll_readers(needed)?;
        }
        if self.lossy > 0 {
            self.claim_up_to(needed);
        }
        self.reserved = len + 1;
        Ok(())
    }

    /// Publishes the first `len` reserved bytes as one frame.
    ///
    /// # Panics
    /// If fewer than `len` bytes are reserved.
    #[inline(always)]
    pub fn publish(&mut self, len: usize) {
        self.publish_with(len, []);
    }

    /// Does the same as [`Writer::publish`], but first writes `words` to the start of the frame, in
    /// little-endian order. There may be at most six words, and they must fit into `len` bytes.
    ///
    /// # Panics
    /// If fewer than `len` bytes are reserved.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    /// writer.try_reserve(9).unwrap()[8] = 7;
    /// writer.publish_with(9, [258]);
    /// assert_eq!(reader.try_next(), Ok(Some(&[2, 1, 0, 0, 0, 0, 0, 0, 7][..])));
    /// ```
    #[inline(always)]
    pub fn publish_with<const WORDS: usize>(&mut self, len: usize, words: [u64; WORDS]) {
        debug_assert!(self.uncounted.is_none(), "earlier frames come first: `finish_publishing`");
        let newest = self.commit(len, words);
        self.store_progress(newest);
    }

    /// Publishes as [`Writer::publish_with`] does, but delays the count of frames, for a writer
    /// that publishes several frames in a row. A reader that polls still gets each frame at once.
    ///
    /// Call [`Writer::finish_publishing`] after the last frame. Call it also before publishing in
    /// any other way, before waiting, attaching or closing, and before
    /// [`Writer::for_each_sleeper`]. One fence, followed by one check for sleepers, is enough for
    /// all these frames: the argument there holds for the commit word of each frame. No
    /// [lossy](Mode::Lossy) reader may be attached, because lossy readers load the count.
    ///
    /// # Panics
    /// The same as for [`Writer::publish_with`].
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    /// for byte in [1, 2] {
    ///     writer.try_reserve(1)?[0] = byte;
    ///     writer.publish_later_with(1, []);
    /// }
    /// assert_eq!(reader.try_next(), Ok(Some(&[1][..])));
    /// writer.finish_publishing();
    /// assert_eq!((writer.newest(), writer.count()), (Some(64), 2));
    /// # Ok::<(), stripline_ring::ReserveError>(())
    /// ```
    #[inline(always)]
    pub fn publish_later_with<const WORDS: usize>(&mut self, len: usize, words: [u64; WORDS]) {
        self.uncounted = Some(self.commit(len, words));
    }

    /// Counts the frames that [`Writer::publish_later_with`] has published. Returns false if there
    /// are none.
    pub fn finish_publishing(&mut self) -> bool {
        let newest = self.uncounted.take();
        newest.into_iter().for_each(|newest| self.store_progress(newest));
        newest.is_some()
    }

    /// Commits the first `len` reserved bytes as one frame, and returns the position of the frame.
    #[inline(always)]
    fn commit<const WORDS: usize>(&mut self, len: usize, words: [u64; WORDS]) -> u64 {
        let reserved = std::mem::take(&mut self.reserved);
        // The written words must be reserved, and the first line of a frame is always completely
        // inside the frame.
        const { assert!(HEADER + WORDS * 8 <= LINE, "the words fit the first line") };
        debug_assert!(len >= WORDS * 8, "the words fit the frame");
        if len >= reserved {
            refuse_publish(len, reserved);
        }
        // A copy of `data`, so that it is not loaded again after each store to the ring.
        let data = self.data;
        let position = self.head;
        let stride = frame_stride(len) as u64;
        let next = position + stride;
        // SAFETY: the bytes are reserved until they are published, as in `reserved`.
        let start = unsafe { data.bytes_mut(position, WORDS * 8) };
        for (place, word) in start.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        data.seal(position);
        // If readers sleep, prefetch the words that the check for sleepers changes while the frame
        // is published.
        if let Some(word) = self.slept_on {
            claim(word.as_ptr());
            if let Some(sleepers) = self.only_group {
                claim(sleepers.as_ptr());
            }
        }
        // The bytes at the place of the next commit word may equal that commit word. Such bytes
        // come from an earlier lap, or from the unused end of this reservation. The fence keeps the
        // load behind the caller's stores to the frame bytes. Near the end of the ring, these
        // stores reach the same memory through other addresses.
        compiler_fence(Ordering::SeqCst);
        let next_commit = data.commit(next);
        if next_commit.load(Ordering::Relaxed) == commit_word(next) {
            // Relaxed: the commit word of this frame orders the store.
            next_commit.store(0, Ordering::Relaxed);
        }
        let (commit, header) = data.words(position);
        // Relaxed: the commit word orders the store.
        header.store(header_word(len, self.count), Ordering::Relaxed);
        // Release: a reader that sees the commit word also sees the bytes, the header, and that the
        // next frame is not there yet.
        commit.store(commit_word(position), Ordering::Release);
        // Only where no reader can still be reading.
        if stride == LINE as u64 && next + AHEAD <= self.claims_until {
            data.claim_line(next + AHEAD - LINE as u64);
        }
        self.head = next;
        self.count += 1;
        position
    }

    /// Counts all frames committed so far. `newest` is the position of the newest frame.
    #[inline(always)]
    fn store_progress(&self, newest: u64) {
        let progress = &self.control().progress.0;
        // Release, after the commit words: readers see all counted frames as committed.
        progress.newest.store(newest, Ordering::Release);
        progress.head.store(self.head, Ordering::Release);
        progress.count.store(self.count, Ordering::Release);
    }

    /// Returns the reserved bytes; empty if nothing is reserved.
    #[inline]
    pub fn reserved(&mut self) -> &mut [u8] {
        match self.reserved.checked_sub(1) {
            // SAFETY: every blocking reader has released these bytes or never had them, and lossy
            // readers load them atomically. Bytes that were free when they were reserved stay free
            // until they are published.
            Some(len) => unsafe { self.data.bytes_mut(self.head, len) },
            None => &mut [],
        }
    }

    /// Cancels the reservation.
    pub fn cancel(&mut self) {
        self.reserved = 0;
    }

    /// Marks the writer as waiting for space. Afterwards try again ([`Writer::try_reserve`] or
    /// [`Writer::released`]), and sleep only if that attempt fails too.
    ///
    /// The writer can also wait until a frame is released. Readers check for a waiting writer
    /// whenever they have released all published frames.
    pub fn wait_for_space_begin(&mut self) {
        self.wait_for_space_begin_with(|| fence(Ordering::SeqCst));
    }

    /// Does the same as [`Writer::wait_for_space_begin`], but with the barrier that the readers'
    /// [`Fence::Compiler`] requires.
    pub fn wait_for_space_begin_with(&mut self, barrier: impl FnOnce()) {
        // The barrier orders the store before the following loads of the cursors. The reader stores
        // the cursor, and loads this flag behind a fence on the reader's side. At least one side
        // sees the other. Release: a reader that sees the flag also sees the number of frames.
        self.control().writer_waiting.0.store(1, Ordering::Release);
        barrier();
    }

    /// Ends the wait for space.
    pub fn wait_for_space_end(&mut self) {
        // Relaxed: if a reader sees this store late, it costs only one needless wake-up.
        self.control().writer_waiting.0.store(0, Ordering::Relaxed);
    }

    /// Sets the fence that [`Writer::for_each_sleeper`] runs.
    pub fn set_fence(&mut self, fence: Fence) {
        self.fence = fence;
        self.fence_now = if self.fenced { Fence::Full } else { fence };
    }

    /// Returns how far a reader is behind; `None` if the reader is not attached or broke the
    /// protocol.
    pub fn lag(&self, reader: ReaderId) -> Option<Lag> {
        let (position, count) = self.released(reader)?;
        Some(Lag { bytes: self.head - position, frames: self.count - count })
    }

    /// Returns the position and the count (of all frames of the ring) up to which a reader has
    /// released; `None` if the reader is not attached or broke the protocol.
    pub fn released(&self, reader: ReaderId) -> Option<(u64, u64)> {
        self.slot(reader)?.poll(self.head, self.count).ok()
    }

    /// Returns the protocol violation that was found for an attached reader, if any.
    pub fn violation(&self, reader: ReaderId) -> Option<ReaderViolation> {
        self.slot(reader)?.poll(self.head, self.count).err()
    }

    /// Returns the position of the next frame.
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Returns the position of the newest frame, if a frame was published.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (_ring, mut writer) = HeapRing::new(4096);
    /// assert_eq!(writer.newest(), None);
    /// writer.try_reserve(1)?;
    /// writer.publish(1);
    /// assert_eq!((writer.newest(), writer.position()), (Some(0), 64));
    /// # Ok::<(), stripline_ring::ReserveError>(())
    /// ```
    pub fn newest(&self) -> Option<u64> {
        let progress = &self.control().progress.0;
        // Relaxed: this is the writer's own store. `newest` starts equal to the head, and every
        // frame moves the head on.
        let newest = self.uncounted.unwrap_or_else(|| progress.newest.load(Ordering::Relaxed));
        (newest < self.head).then_some(newest)
    }

    /// Returns the number of frames published.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the capacity of the ring in bytes.
    pub fn capacity(&self) -> usize {
        self.data.capacity()
    }

    /// Marks the end of the stream. Readers still get the frames already published.
    pub fn close(&mut self) {
        // Release: a reader that sees the end also sees every frame that was published before.
        self.control().hints.0.closed.store(1, Ordering::Release);
    }

    pub(crate) fn control_pointer(&self) -> NonNull<Control> {
        self.control
    }

    pub(crate) fn hold(&mut self, hold: RingHold) {
        self._hold = Some(hold);
    }

    /// Attaches a reader as `attach` does, with a reference that keeps the cursor alive.
    ///
    /// # Safety
    /// The caller must ensure the same as for `attach`.
    pub(crate) unsafe fn attach_held(
        &mut self,
        cursor: NonNull<Cursor>,
        sleepers: NonNull<Sleepers>,
        mode: Mode,
        hold: Option<CursorHold>,
    ) -> ReaderId {
        let id = ReaderId(self.next_id);
        self.next_id += 1;
        let seen = Cell::new((self.head, self.count));
        let violation = Cell::new(None);
        let slot =
            ReaderSlot { id, cursor, sleepers, mode, low: None, is_held: false, seen, violation, hold };
        if mode == Mode::Lossy {
            if self.lossy == 0 {
                self.restart_claim();
            }
            self.lossy += 1;
        }
        let cursor = slot.cursor();
        // Relaxed: the reader loads none of these words before it sees the state.
        cursor.released.0.position.store(self.head, Ordering::Relaxed);
        cursor.released.0.count.store(self.count, Ordering::Relaxed);
        let attach_info = &cursor.attach_info.0;
        attach_info.start.store(self.head, Ordering::Relaxed);
        attach_info.start_count.store(self.count, Ordering::Relaxed);
        let (mode_word, wake_frames) = match mode {
            Mode::Blocking { depth: 0 } => (BLOCKING, u32::MAX),
            Mode::Blocking { depth } => (BLOCKING, (depth / 4).max(1)),
            Mode::Lossy => (LOSSY, u32::MAX),
        };
        attach_info.mode.store(mode_word, Ordering::Relaxed);
        attach_info.wake_frames.store(wake_frames, Ordering::Relaxed);
        attach_info.low_frames.store(ANY, Ordering::Relaxed);
        // Release: orders the stores above, the commit word at the start (which is not valid yet),
        // and for lossy readers the claim.
        attach_info.state.store(ATTACHED, Ordering::Release);
        match self.groups.iter_mut().find(|group| group.sleepers == sleepers) {
            Some(group) => group.readers += 1,
            None => self.groups.push(Group { sleepers, readers: 1 }),
        }
        self.set_only_group();
        self.readers.push(slot);
        // The reader may be asleep already, and the writer may have checked the group before this
        // reader was attached. SAFETY: the word is atomic, and the caller guarantees that it is
        // valid. AcqRel: this swap is one more link in the chain of swaps.
        unsafe { sleepers.as_ref() }.any.0.swap(1, Ordering::AcqRel);
        self.recompute_limits();
        id
    }

    fn set_only_group(&mut self) {
        self.only_group = if let [only] = &*self.groups { Some(only.sleepers) } else { None };
    }

    fn control(&self) -> &Control {
        // SAFETY: the page is valid as long as the writer lives, and all its words are atomics.
        unsafe { self.control.as_ref() }
    }

    fn slot(&self, reader: ReaderId) -> Option<&ReaderSlot> {
        self.readers.iter().find(|slot| slot.id == reader)
    }

    /// Loads the cursor of every blocking reader, and checks for space up to `needed` and for one
    /// more frame.
    #[cold]
    fn poll_readers(&mut self, needed: u64) -> Result<(), ReserveError> {
        let (head, published, capacity) = (self.head, self.count, self.data.capacity());
        if self.fenced && published - self.slept_at > sleepers::AWAKE {
            self.stop_fencing();
        }
        for slot in &mut self.readers {
            if let (Mode::Blocking { .. }, Err(violation)) = (slot.mode, slot.poll(head, published)) {
                return Err(ReserveError::Misbehaved { reader: slot.id, violation });
            }
            slot.is_held = slot.is_held && !slot.is_low(head, published, capacity);
        }
        let mut slowest: Option<(ReaderId, (u64, u64))> = None;
        for slot in &mut self.readers {
            let (space, count) = slot.limits(capacity);
            if needed > space || published >= count {
                slot.is_held = slot.low.is_some();
                let seen = slot.seen.get();
                if slowest.is_none_or(|(_, least)| seen < least) {
                    slowest = Some((slot.id, seen));
                }
            }
        }
        self.recompute_limits();
        slowest.map_or(Ok(()), |(slowest, _)| Err(ReserveError::Full { slowest }))
    }

    /// Computes the limits from the last validated cursors, without loading the cursors.
    fn recompute_limits(&mut self) {
        let limits = |slot: &ReaderSlot| slot.limits(self.data.capacity());
        let (space, count) = self
            .readers
            .iter()
            .map(limits)
            .fold((u64::MAX, u64::MAX), |least, one| (least.0.min(one.0), least.1.min(one.1)));
        self.space_until = space;
        self.count_until = count;
        // For lossy readers, the writer must store a claim before each frame.
        self.fast_until = if self.lossy == 0 { space } else { 0 };
        self.claims_until = if self.data.capacity() >= CLAIMED_FROM { space } else { 0 };
    }

    /// Announces to lossy readers that everything a lap below `needed` will be overwritten.
    fn claim_up_to(&mut self, needed: u64) {
        if needed <= self.claim {
            return;
        }
        self.claim = needed;
        let gone = needed.saturating_sub(self.data.capacity() as u64);
        let stale_tail = self.tail < gone;
        if stale_tail {
            self.advance_tail(gone);
        }
        let progress = &self.control().progress.0;
        if stale_tail {
            // Relaxed: the Release of the tail orders this store before the tail.
            progress.tail_count.store(self.tail_count, Ordering::Relaxed);
            progress.tail.store(self.tail, Ordering::Release);
        }
        // Release: a reader that sees the claim, and so detects that it was overtaken, also sees a
        // tail that still exists.
        progress.claim.store(self.claim, Ordering::Release);
        // Every reader that sees any byte written after this point must see the claim. For atomic
        // stores a Release fence would suffice. However, the following stores are the caller's
        // plain stores, so no access may cross the fence in either direction.
        fence(Ordering::AcqRel);
    }

    /// Moves the tail to the first frame that starts at `gone` or later.
    fn advance_tail(&mut self, gone: u64) {
        while self.tail < gone && self.tail < self.head {
            // Relaxed: these are the writer's own stores. Only the writer can have written them,
            // but a length from shared memory must never control an unbounded loop.
            let (len, _) = parse_header(self.data.header(self.tail).load(Ordering::Relaxed));
            self.tail += frame_stride(len.min(self.max)) as u64;
            self.tail_count += 1;
        }
        if self.tail >= self.head {
            (self.tail, self.tail_count) = (self.head, self.count);
        }
    }

    /// Restarts the claim and the tail, which are not maintained while there is no lossy reader.
    fn restart_claim(&mut self) {
        self.claim = self.head + (frame_stride(self.reserved.saturating_sub(1)) + LINE) as u64;
        (self.tail, self.tail_count) = (self.head, self.count);
        let progress = &self.control().progress.0;
        // Relaxed: the Release of the cursor's state orders these stores.
        progress.tail_count.store(self.tail_count, Ordering::Relaxed);
        progress.tail.store(self.tail, Ordering::Relaxed);
        progress.claim.store(self.claim, Ordering::Relaxed);
    }
}

/// Reports an attempt to publish more than is reserved. `reserved` is the number of reserved bytes
/// plus 1, or 0.
#[cold]
fn refuse_publish(len: usize, reserved: usize) -> ! {
    panic!("{len} bytes published, {:?} reserved", reserved.checked_sub(1));
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("capacity", &self.capacity())
            .field("position", &self.head)
            .field("count", &self.count)
            .field("readers", &self.readers.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ReaderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reader {}", self.0)
    }
}

// SAFETY: a writer owns one side of the ring. The pointers of the writer are to memory that any
// thread may use.
unsafe impl Send for Writer {}
