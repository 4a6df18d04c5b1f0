//! The reading side: borrows the next frame in place, then releases it.

use std::fmt;
use std::ptr::NonNull;

use crate::attached::own_sleepers;
use crate::heap::{CursorHold, HeapSleepers, RingHold};
use crate::kept::KeptFrames;
use crate::layout::{
    ASLEEP, ATTACHED, BLOCKING, Control, Cursor, DETACHED, LOSSY, MAGIC, PARKED, POSITION_MAX, Sleepers,
    VERSION, commit_word, frame_stride, is_valid_capacity, is_valid_position, parse_header,
};
use crate::mem::{Data, Ordering, fence};
use crate::{AttachError, Corruption, Fence, ReadError};

/// A reader of a ring.
///
/// A reader never writes to the writer's memory, and validates everything that it loads from there.
///
/// ```
/// use stripline_ring::{HeapRing, Mode};
///
/// let (ring, mut writer) = HeapRing::new(4096);
/// let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
/// assert!(reader.prepare_sleep()); // There is no frame, so it may sleep.
/// reader.cancel_sleep();
/// writer.try_reserve(3).unwrap().copy_from_slice(b"abc");
/// writer.publish(3);
/// assert!(!reader.prepare_sleep());
/// assert_eq!(reader.try_next().unwrap(), Some(&b"abc"[..]));
/// assert!(!reader.release()); // The writer does not wait for space.
/// assert_eq!((reader.count(), reader.position()), (1, 64));
/// ```
pub struct Reader {
    pub(crate) data: Data,
    pub(crate) control: NonNull<Control>,
    cursor: NonNull<Cursor>,
    sleepers: NonNull<Sleepers>,
    mode: ReaderMode,
    attached: bool,
    /// Whether the reader is attached and borrows frames in place.
    in_place: bool,
    /// Position of the next frame, or of the borrowed frame.
    pub(crate) position: u64,
    pub(crate) count: u64,
    /// The length of the borrowed frame plus 1, or 0 if no frame is borrowed.
    pub(crate) borrowed: usize,
    /// Whether the next frame was counted but had no commit word when this side went to sleep.
    lacks_commit: bool,
    /// The released position and count when the writer was first seen waiting, or was last reported
    /// for waking. `None` while the writer does not wait.
    pub(crate) woken: Option<(u64, u64)>,
    /// Bytes and frames that [`Reader::release_later`] has released and not stored yet.
    unstored_bytes: u64,
    pub(crate) unstored_frames: u64,
    wake_frames: u64,
    pub(crate) fence: Fence,
    /// Placed after the fields that the fast paths use.
    pub(crate) kept: KeptFrames,
    _hold: Option<(RingHold, CursorHold)>,
    _sleepers: Option<HeapSleepers>,
}

/// The way in which a reader takes frames. The writer must attach the reader in the same
/// [`Mode`](crate::Mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderMode {
    /// The reader borrows each frame in place or copies it out. The writer waits for the reader.
    Blocking,
    /// The reader copies frames out. The writer does not wait for the reader.
    Lossy,
}

impl Reader {
    /// Creates a reader of the ring in this memory. The reader gets frames once the writer has
    /// attached the reader's cursor.
    ///
    /// # Safety
    /// The caller must ensure all of the following:
    ///
    /// - `control` is valid for reads.
    /// - `data` is valid for reads of `2 * capacity` bytes, as in
    ///   [`Writer::new`](crate::Writer::new).
    /// - `cursor` is valid for reads and writes, zeroed or fresh from `Cursor::default`, and used
    ///   only by this reader.
    /// - All three stay valid as long as the `Reader` lives.
    /// - For a blocking reader, the writer keeps to the protocol while a frame is borrowed, because
    ///   [`Reader::try_next`] returns bytes in the writer's memory. If the writer may break the
    ///   protocol, take frames only with [`Reader::try_next_copied`].
    ///
    /// # Errors
    /// If the memory holds no ring of this version and capacity.
    pub unsafe fn new(
        control: NonNull<Control>,
        data: NonNull<u8>,
        capacity: usize,
        cursor: NonNull<Cursor>,
        mode: ReaderMode,
    ) -> Result<Self, AttachError> {
        // SAFETY: the caller guarantees that the page is valid, and all its words are atomics.
        let identity = unsafe { &control.as_ref().identity.0 };
        // Acquire: the ring that was created before the magic is visible with the magic.
        let magic = identity.magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return Err(AttachError::NotARing { magic });
        }
        let version = identity.version.load(Ordering::Relaxed);
        if version != VERSION {
            return Err(AttachError::Version { found: version, known: VERSION });
        }
        let found = identity.capacity.load(Ordering::Relaxed);
        if found != capacity as u64 || !is_valid_capacity(capacity) {
            return Err(AttachError::Capacity { found, expected: capacity });
        }
        Ok(Self {
            // SAFETY: the caller guarantees that the memory is valid (`# Safety`).
            data: unsafe { Data::new(data, capacity) },
            control,
            cursor,
            sleepers: own_sleepers(cursor),
            mode,
            attached: false,
            in_place: false,
            position: 0,
            count: 0,
            borrowed: 0,
            lacks_commit: false,
            woken: None,
            unstored_bytes: 0,
            unstored_frames: 0,
            wake_frames: u64::MAX,
            fence: Fence::Full,
            kept: KeptFrames::default(),
            _hold: None,
            _sleepers: None,
        })
    }

    /// Sets a sleep word that this reader shares with other readers of the process. The writer must
    /// [attach](crate::Writer::attach_sharing) this reader with the same word.
    ///
    /// # Safety
    /// The caller must ensure that `sleepers` is valid for reads and writes as long as the `Reader`
    /// lives.
    pub unsafe fn share_sleepers(&mut self, sleepers: NonNull<Sleepers>) {
        self.sleepers = sleepers;
    }

    /// Returns whether the writer has attached this reader. From then on the reader gets every
    /// frame.
    pub fn is_attached(&mut self) -> bool {
        self.attached || self.try_attach().unwrap_or(false)
    }

    /// Borrows the bytes of the next frame, if there is one. Returns the same frame until it is
    /// released.
    ///
    /// # Errors
    /// See [`ReadError`]. The position of the reader does not change.
    #[inline]
    pub fn try_next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        Ok(if self.borrow_next()? { Some(self.current_frame()) } else { None })
    }

    /// Copies the bytes of the next frame to `into`, replacing the content of `into`. Returns false
    /// if there is no frame.
    ///
    /// This function is for a writer that is not trusted to leave a published frame alone: nothing
    /// is ever borrowed. The length is validated, so no writer can cause a read out of bounds.
    /// However, a writer that breaks the protocol can still change the content of the copy.
    ///
    /// The frame must still be released. Until then the same frame is copied again.
    ///
    /// # Errors
    /// See [`ReadError`]. The position of the reader does not change.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    /// let mut frame = Vec::new();
    /// assert_eq!(reader.try_next_copied(&mut frame), Ok(false));
    /// writer.try_reserve(3).unwrap().copy_from_slice(b"abc");
    /// writer.publish(3);
    /// assert_eq!(reader.try_next_copied(&mut frame), Ok(true));
    /// reader.release();
    /// assert_eq!(frame, b"abc");
    /// ```
    pub fn try_next_copied(&mut self, into: &mut Vec<u8>) -> Result<bool, ReadError> {
        let is_there = self.borrow_next()?;
        if is_there {
            into.clear();
            self.data.copy_out(self.position, self.borrowed - 1, into);
        }
        Ok(is_there)
    }

    /// Returns the next frame if it is present and valid. After `None`, call [`Reader::try_next`]
    /// for the reason.
    #[inline(always)]
    pub fn try_next_fast(&mut self) -> Option<&[u8]> {
        if !self.in_place || self.borrowed != 0 {
            return None;
        }
        let position = self.position;
        let (commit, header) = self.data.words(position);
        // For the orderings, see `find_next`.
        if commit.load(Ordering::Acquire) != commit_word(position) {
            return None;
        }
        let (len, count) = parse_header(header.load(Ordering::Relaxed));
        if len > self.data.frame_max() || count != self.count as u32 {
            return None;
        }
        self.borrowed = len + 1;
        // SAFETY: as in `current_frame`.
        Some(unsafe { self.data.bytes(position, len) })
    }

    /// Prefetches the second cache line of the next frame, so that it arrives together with the
    /// first. The method is for a reader that polls. Do not call this while frames follow each
    /// other closely: the writer would have to fetch the line back.
    #[inline]
    pub fn prefetch(&self) {
        self.data.fetch_second_line(self.position);
    }

    /// Polls up to `spins` times for a frame, with a processor pause before each poll. Returns
    /// whether there is a frame. The call costs less than repeated calls of [`Reader::try_next`].
    /// If no frame arrives, it [prefetches](Reader::prefetch).
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    /// assert!(!reader.spin(8));
    /// writer.try_reserve(3).unwrap().copy_from_slice(b"abc");
    /// writer.publish(3);
    /// assert!(reader.spin(u32::MAX)); // Returns at once, as there is a frame.
    /// assert_eq!(reader.try_next(), Ok(Some(&b"abc"[..])));
    /// ```
    pub fn spin(&self, spins: u32) -> bool {
        for _ in 0..spins {
            std::hint::spin_loop();
            // Relaxed: the caller polls again, with ordering, before it takes the frame.
            if self.is_committed(Ordering::Relaxed) {
                return true;
            }
        }
        self.prefetch();
        false
    }

    /// Returns the bytes of the borrowed frame; empty if no frame is borrowed.
    #[inline]
    pub fn current_frame(&self) -> &[u8] {
        match self.borrowed.checked_sub(1) {
            // SAFETY: the frame is committed and not released, and the writer waits for the
            // release.
            Some(len) => unsafe { self.data.bytes(self.position, len) },
            None => &[],
        }
    }

    /// Releases the frame that [`Reader::try_next`] last returned. Does nothing if no frame is
    /// borrowed. Returns true if the writer waits for space and should be woken now.
    ///
    /// The writer should be woken when every published frame has been released. The writer should
    /// also be woken after each quarter of the ring, or of the allowed number of unread frames. A
    /// quarter counts from the moment at which the writer was first seen waiting or was last
    /// reported. With a [low watermark](crate::Writer::set_low_watermark), the writer should be
    /// woken once the number of unread frames has fallen to the watermark.
    ///
    /// No wake-up is lost. Before the writer sleeps, it sets a flag and then sees an unreleased
    /// frame of this reader. The writer publishes nothing while asleep, so this reader reaches a
    /// release that has no frame behind it.
    ///
    /// Suppose that this release did not see the flag. Then the store of the release, made before
    /// this side's fence, would have been visible to the writer behind the writer's fence. The
    /// writer would have seen no unreleased frame, which is a contradiction. So the release sees
    /// the flag, finds no further frame, and returns true.
    #[inline(always)]
    pub fn release(&mut self) -> bool {
        debug_assert_eq!(self.unstored_frames, 0, "earlier releases come first: `finish_releases`");
        let Some(len) = std::mem::take(&mut self.borrowed).checked_sub(1) else { return false };
        let (position, count) = (self.position, self.count);
        self.position += frame_stride(len) as u64;
        self.count += 1;
        self.store_released();
        // The store of the cursor must not move behind the load of the flag. The writer stores the
        // flag, and loads the cursor behind a fence on the writer's side.
        self.fence.run();
        // Relaxed: the fence orders the load. The flag is loaded first, and the next commit word
        // only if the flag is set. The cache line of the flag hardly ever changes. The line of the
        // commit word is about to be written, so fetching it now would delay the next step of this
        // thread.
        if self.control().writer_waiting.0.load(Ordering::Relaxed) == 0 {
            self.woken = None;
            return false;
        }
        self.is_wake_due((position, count), (self.position, self.count))
    }

    /// Releases as [`Reader::release`] does, but stores the cursor once for many frames. The method
    /// is for a reader that takes all available frames in a row. Returns true if the writer waits
    /// for space and should be woken now.
    ///
    /// The cursor is stored after each quarter of the ring, or of the allowed number of unread
    /// frames, so a waiting writer is held up by a quarter at most. [`Reader::finish_releases`]
    /// stores the rest. Call it when there is no further frame, and before any other way to release
    /// or to sleep.
    ///
    /// No wake-up is lost. The argument is the same as for [`Reader::release`], with stores of the
    /// cursor in place of releases. A writer that sleeps has seen a stored cursor with frames
    /// behind it. The writer publishes nothing while asleep, so this reader reaches a store with no
    /// frame behind it. Either this store was visible to the writer, or it is followed by a check
    /// that sees the writer's flag.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Lag, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    /// for _ in 0..3 {
    ///     writer.try_reserve(1)?;
    ///     writer.publish(1);
    /// }
    /// while reader.try_next()?.is_some() {
    ///     assert!(!reader.release_later());
    /// }
    /// assert_eq!(writer.lag(id), Some(Lag { bytes: 192, frames: 3 }));
    /// assert!(!reader.finish_releases()); // The writer does not wait for space.
    /// assert_eq!(writer.lag(id), Some(Lag { bytes: 0, frames: 0 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn release_later(&mut self) -> bool {
        let Some(len) = std::mem::take(&mut self.borrowed).checked_sub(1) else { return false };
        let stride = frame_stride(len) as u64;
        self.position += stride;
        self.count += 1;
        self.unstored_bytes += stride;
        self.unstored_frames += 1;
        if self.unstored_bytes < self.data.capacity() as u64 / WAKE_SHARE
            && self.unstored_frames < self.wake_frames
        {
            return false;
        }
        self.finish_releases()
    }

    /// Stores the cursor if [`Reader::release_later`] has not stored it yet. Returns true if the
    /// writer waits for space and should be woken now.
    #[inline(never)]
    pub fn finish_releases(&mut self) -> bool {
        let (bytes, frames) = (self.unstored_bytes, self.unstored_frames);
        if frames == 0 {
            return false;
        }
        (self.unstored_bytes, self.unstored_frames) = (0, 0);
        self.store_released();
        // For the fence and the load, see `release`.
        self.fence.run();
        if self.control().writer_waiting.0.load(Ordering::Relaxed) == 0 {
            self.woken = None;
            return false;
        }
        let now = (self.position, self.count);
        self.is_wake_due((now.0 - bytes, now.1 - frames), now)
    }

    /// Marks the reader as going to sleep. Returns true if there is no work: the reader may sleep,
    /// and the writer will wake it. If there is work (a frame, the end of the stream, an error),
    /// clears the mark and returns false.
    pub fn prepare_sleep(&mut self) -> bool {
        self.prepare_sleep_with(|| fence(Ordering::SeqCst))
    }

    /// Does the same as [`Reader::prepare_sleep`], but with the barrier that the writer's
    /// [`Fence::Compiler`] requires.
    pub fn prepare_sleep_with(&mut self, barrier: impl FnOnce()) -> bool {
        self.announce_sleep(ASLEEP, barrier)
    }

    /// Does the same as [`Reader::prepare_sleep_with`], but for a reader that parks on the
    /// [word](Cursor::park_word) of the cursor (a futex) until the word changes.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    /// use std::sync::atomic::{Ordering, fence};
    /// assert!(reader.prepare_park_with(|| fence(Ordering::SeqCst)));
    /// let mut parked = false;
    /// writer.for_each_sleeper(|sleeper| parked = sleeper.is_parked);
    /// assert!(parked);
    /// ```
    pub fn prepare_park_with(&mut self, barrier: impl FnOnce()) -> bool {
        self.announce_sleep(PARKED, barrier)
    }

    fn announce_sleep(&mut self, how: u32, barrier: impl FnOnce()) -> bool {
        debug_assert_eq!(self.unstored_frames, 0, "a writer may wait for them: `finish_releases`");
        // Relaxed: the barrier orders the swap before the following loads. The writer commits a
        // frame (or attaches, or closes), and loads this flag behind a fence on the writer's side.
        // At least one side sees the other.
        //
        // Every change of this flag is a swap, although stores would suffice. Swaps form one chain,
        // so loom can determine the last one too. The cost is small compared with a sleep.
        self.cursor().sleeping.0.swap(how, Ordering::Relaxed);
        // Release: a writer that sees the group's flag also sees the flag of this reader. SAFETY:
        // the word is atomic, and is valid as long as the reader lives; see `new` and
        // `share_sleepers`.
        unsafe { self.sleepers.as_ref() }.any.0.swap(1, Ordering::Release);
        // The writer sets `fenced` once every later frame is followed by a full fence before the
        // check for sleepers. The writer clears `fenced`, and runs a full fence, before the first
        // frame without such a fence. If a reader sees `fenced` set behind the reader's fence, no
        // barrier is needed on the writer's side. Acquire: the frames published before `fenced` was
        // set are visible.
        fence(Ordering::SeqCst);
        if self.control().hints.0.fenced.load(Ordering::Acquire) == 0 {
            barrier();
        }
        let nothing = !self.is_something_there();
        if !nothing {
            self.cancel_sleep();
        }
        nothing
    }

    /// Clears the mark of [`Reader::prepare_sleep`]. Call it also after a sleep that ended by
    /// itself.
    pub fn cancel_sleep(&mut self) {
        // Relaxed: if the writer sees this store late, it costs only one needless wake-up.
        self.cursor().sleeping.0.swap(0, Ordering::Relaxed);
    }

    /// Sets the fence that [`Reader::release`] runs before it checks whether the writer waits.
    pub fn set_fence(&mut self, fence: Fence) {
        self.fence = fence;
    }

    /// Returns whether the writer has closed the ring. Frames that were published before may
    /// remain: the stream has ended when this returns true and there is no next frame afterwards.
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Acquire: all frames that were published before the ring was closed are visible.
        self.control().hints.0.closed.load(Ordering::Acquire) != 0
    }

    /// Returns the position of the next frame, or of the borrowed frame. The position is 0 until
    /// [`Reader::is_attached`], or an attempt to read, has found the reader attached.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of frames of the ring before the next frame (or the borrowed frame),
    /// including skipped frames. The number is 0 until the reader is attached, as with
    /// [`Reader::position`].
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn hold_sleepers(&mut self, sleepers: HeapSleepers) {
        self._sleepers = Some(sleepers);
    }

    pub(crate) fn hold(&mut self, ring: RingHold, cursor: CursorHold) {
        self._hold = Some((ring, cursor));
    }

    pub(crate) fn control(&self) -> &Control {
        // SAFETY: the page is valid as long as the reader lives, and all its words are atomics.
        unsafe { self.control.as_ref() }
    }

    pub(crate) fn mode(&self) -> ReaderMode {
        self.mode
    }

    /// Returns whether the writer has attached this reader, in the right mode.
    #[inline]
    pub(crate) fn ready(&mut self) -> Result<bool, ReadError> {
        if self.attached { Ok(true) } else { self.try_attach() }
    }

    /// Returns whether frames may be borrowed. Called by polls until the reader has found itself
    /// attached.
    #[cold]
    fn ready_in_place(&mut self) -> Result<bool, ReadError> {
        if self.mode == ReaderMode::Blocking { self.ready() } else { Err(ReadError::WrongMode) }
    }

    pub(crate) fn is_detached(&self) -> bool {
        // Relaxed: no other data depends on the state.
        self.cursor().attach_info.0.state.load(Ordering::Relaxed) == DETACHED
    }

    /// Publishes this reader's progress to the writer.
    #[inline]
    pub(crate) fn store_released(&self) {
        self.store_cursor((self.position, self.count));
    }

    /// Publishes a position and a count as this reader's progress.
    #[inline]
    pub(crate) fn store_cursor(&self, (position, count): (u64, u64)) {
        let released = &self.cursor().released.0;
        // Relaxed: the Release of the position orders the store.
        released.count.store(count, Ordering::Relaxed);
        // Release: when the writer sees the position, the loads of the frames before it have ended.
        released.position.store(position, Ordering::Release);
    }

    /// Returns whether the commit word of the next frame is present. Any other word, even one of an
    /// earlier lap, means that the frame is not there.
    #[inline(always)]
    fn is_committed(&self, ordering: Ordering) -> bool {
        self.data.commit(self.position).load(ordering) == commit_word(self.position)
    }

    /// Returns the validated length and count from the header word of a frame.
    #[inline]
    pub(crate) fn checked_header(&self, position: u64, word: u64) -> Result<(usize, u32), ReadError> {
        let (len, count) = parse_header(word);
        let max = self.data.frame_max();
        if len > max {
            return Err(ReadError::Corrupt { what: Corruption::Length { position, len, max } });
        }
        Ok((len, count))
    }

    fn cursor(&self) -> &Cursor {
        // SAFETY: the page is valid as long as the reader lives, and all its words are atomics.
        unsafe { self.cursor.as_ref() }
    }

    #[cold]
    fn try_attach(&mut self) -> Result<bool, ReadError> {
        let attach_info = &self.cursor().attach_info.0;
        // Acquire: the attach values, and the commit word at the start, are visible together with
        // the state.
        match attach_info.state.load(Ordering::Acquire) {
            ATTACHED => {}
            DETACHED => return Err(ReadError::Detached),
            _ => return Ok(false),
        }
        // Relaxed: the Acquire above orders these loads.
        let start = attach_info.start.load(Ordering::Relaxed);
        let start_count = attach_info.start_count.load(Ordering::Relaxed);
        let mode = attach_info.mode.load(Ordering::Relaxed);
        let wake_frames = attach_info.wake_frames.load(Ordering::Relaxed);
        if !is_valid_position(start) {
            return Err(ReadError::Corrupt { what: Corruption::Progress { found: start } });
        }
        if start_count > POSITION_MAX {
            return Err(ReadError::Corrupt { what: Corruption::Progress { found: start_count } });
        }
        let own = match self.mode {
            ReaderMode::Blocking => BLOCKING,
            ReaderMode::Lossy => LOSSY,
        };
        if mode != own {
            return Err(ReadError::Corrupt { what: Corruption::Mode { found: mode } });
        }
        (self.position, self.count) = (start, start_count);
        self.wake_frames = u64::from(wake_frames);
        self.attached = true;
        self.in_place = self.mode == ReaderMode::Blocking;
        Ok(true)
    }

    /// Borrows the next frame unless a frame is borrowed already. Returns false if there is no
    /// frame yet.
    #[inline]
    fn borrow_next(&mut self) -> Result<bool, ReadError> {
        if self.borrowed == 0 {
            self.borrowed = self.find_next()?.map_or(0, |len| len + 1);
        }
        Ok(self.borrowed != 0)
    }

    #[inline]
    fn find_next(&mut self) -> Result<Option<usize>, ReadError> {
        if !self.in_place && !self.ready_in_place()? {
            return Ok(None);
        }
        let position = self.position;
        // Acquire: the header, the bytes, and the cleared place of the next commit word are visible
        // together with the commit word.
        if !self.is_committed(Ordering::Acquire) {
            // The state lies in a cache line that hardly ever changes.
            if self.is_detached() {
                return Err(ReadError::Detached);
            }
            if self.lacks_commit {
                let found = self.data.commit(position).load(Ordering::Relaxed);
                return Err(ReadError::Corrupt { what: Corruption::CommitWord { position, found } });
            }
            return Ok(None);
        }
        // Relaxed: the commit word orders this load.
        let word = self.data.header(position).load(Ordering::Relaxed);
        let (len, found) = self.checked_header(position, word)?;
        let expected = self.count as u32;
        if found != expected {
            return Err(ReadError::Corrupt { what: Corruption::FrameCount { position, expected, found } });
        }
        Ok(Some(len))
    }

    /// Returns whether enough has been released to wake a waiting writer. `before` and `now` are
    /// the stored positions and counts.
    #[cold]
    pub(crate) fn is_wake_due(&mut self, before: (u64, u64), now: (u64, u64)) -> bool {
        let frames = now.1 - before.1;
        let (position, count) = *self.woken.get_or_insert(before);
        // Acquire: the writer's progress is visible together with the flag that led here, and does
        // not change while the writer waits.
        fence(Ordering::Acquire);
        let low = u64::from(self.cursor().attach_info.0.low_frames.load(Ordering::Relaxed));
        // A faulty writer may store any value here. Such a writer is woken too often, or only by
        // the last release.
        let unread = self.control().progress.0.count.load(Ordering::Relaxed).saturating_sub(now.1);
        // Relaxed: the result only decides when to wake the writer. If a frame is not seen yet, the
        // writer is woken a little early. If a frame is seen, another release follows.
        let drained = !self.is_committed(Ordering::Relaxed);
        let worthwhile = drained
            // The frames that were just released have passed the low watermark.
            || unread <= low && unread.saturating_add(frames) > low
            || unread < low
                && (now.0 - position >= self.data.capacity() as u64 / WAKE_SHARE
                    || now.1 - count >= self.wake_frames);
        if worthwhile {
            self.woken = Some(now);
        }
        worthwhile
    }

    fn is_something_there(&mut self) -> bool {
        match self.ready() {
            Ok(true) => {}
            Ok(false) => return self.is_closed(),
            Err(_) => return true,
        }
        // Relaxed: the caller checks the frame again, with ordering.
        self.borrowed != 0
            || self.is_committed(Ordering::Relaxed)
            || self.is_closed()
            || self.is_detached()
            || match self.mode {
                ReaderMode::Lossy => self.is_overtaken(self.position),
                ReaderMode::Blocking => self.lacks_commit(),
            }
    }

    /// Returns whether the next frame is counted although its commit word is missing. Polls do not
    /// check this, because the cache line of the count changes with every frame.
    fn lacks_commit(&mut self) -> bool {
        // Acquire: a counted frame is committed.
        let is_counted = self.control().progress.0.count.load(Ordering::Acquire) > self.count;
        self.lacks_commit = is_counted && !self.is_committed(Ordering::Relaxed);
        is_counted
    }
}

/// A waiting writer is woken each time this share of the ring has been released: a quarter. Under
/// loom, where three frames fill the ring, the share is half.
const WAKE_SHARE: u64 = if cfg!(loom) { 2 } else { 4 };

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("mode", &self.mode)
            .field("attached", &self.attached)
            .field("position", &self.position)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

// SAFETY: a reader owns one side of the ring. The pointers of the reader are to memory that any
// thread may use.
unsafe impl Send for Reader {}
