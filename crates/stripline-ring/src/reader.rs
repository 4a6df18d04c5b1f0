//! The reading side: borrow the next frame in place, then release it.

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
/// It never writes to the writer's memory, and validates what it loads from there.
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
    /// Whether it is attached and borrows frames in place.
    in_place: bool,
    /// Position of the next frame, or of the one borrowed.
    pub(crate) position: u64,
    pub(crate) count: u64,
    /// The length of the borrowed frame plus 1; 0: no frame is borrowed.
    pub(crate) borrowed: usize,
    /// Whether the next frame was counted without its commit word, when this side went to sleep.
    lacks_commit: bool,
    /// The released position and count when the writer was first seen waiting, or last reported for
    /// waking. `None` while it does not wait.
    pub(crate) woken: Option<(u64, u64)>,
    /// Bytes and frames released by [`Reader::release_later`] and not stored yet.
    unstored_bytes: u64,
    pub(crate) unstored_frames: u64,
    wake_frames: u64,
    pub(crate) fence: Fence,
    /// Behind what the fast paths use.
    pub(crate) kept: KeptFrames,
    _hold: Option<(RingHold, CursorHold)>,
    _sleepers: Option<HeapSleepers>,
}

/// The way in which a reader takes frames. The writer must attach it in the same
/// [`Mode`](crate::Mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderMode {
    /// The reader borrows each frame in place or copies it out. The writer waits for it.
    Blocking,
    /// The reader copies frames out. The writer does not wait for it.
    Lossy,
}

impl Reader {
    /// Creates a reader of the ring in this memory. It gets frames once the writer has attached its
    /// cursor.
    ///
    /// # Safety
    /// - `control` is valid for reads.
    /// - `data` is valid for reads of `2 * capacity` bytes, as in
    ///   [`Writer::new`](crate::Writer::new).
    /// - `cursor` is valid for reads and writes, zeroed or fresh from `Cursor::default`, and used
    ///   by this reader alone.
    /// - All three stay valid as long as the `Reader` lives.
    /// - For a blocking reader, the writer keeps to the protocol while a frame is borrowed, because
    ///   [`Reader::try_next`] returns bytes in the writer's memory. From a writer that may not keep
    ///   to it, take frames only with [`Reader::try_next_copied`].
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
        // SAFETY: the caller guarantees validity, and all its words are atomics.
        let identity = unsafe { &control.as_ref().identity.0 };
        // Acquire: the ring made before the magic is visible with it.
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
            // SAFETY: the caller guarantees it (`# Safety`).
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

    /// Sets a sleep word shared with other readers of the process. The writer must
    /// [attach](crate::Writer::attach_sharing) this reader with the same word.
    ///
    /// # Safety
    /// `sleepers` is valid for reads and writes as long as the `Reader` lives.
    pub unsafe fn share_sleepers(&mut self, sleepers: NonNull<Sleepers>) {
        self.sleepers = sleepers;
    }

    /// Returns whether the writer has attached this reader. From then on it gets every frame.
    pub fn is_attached(&mut self) -> bool {
        self.attached || self.try_attach().unwrap_or(false)
    }

    /// Borrows the next frame's bytes, if there is one. Returns the same frame until it is
    /// released.
    ///
    /// # Errors
    /// See [`ReadError`]. The reader's position does not change.
    #[inline]
    pub fn try_next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        Ok(if self.borrow_next()? { Some(self.current_frame()) } else { None })
    }

    /// Copies the next frame's bytes to `into`, replacing its content. Returns false if there is no
    /// frame.
    ///
    /// For a writer that is not trusted to leave a published frame alone: nothing is ever borrowed.
    /// The length is validated, so no writer can cause a read out of bounds. A writer that breaks
    /// the protocol can still change what the copy holds.
    ///
    /// The frame still has to be released. Until then the same one is copied again.
    ///
    /// # Errors
    /// See [`ReadError`]. The reader's position does not change.
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

    /// Returns the next frame if there is one and it is valid. After `None`, call
    /// [`Reader::try_next`] for the reason.
    #[inline(always)]
    pub fn try_next_fast(&mut self) -> Option<&[u8]> {
        if !self.in_place || self.borrowed != 0 {
            return None;
        }
        let position = self.position;
        let (commit, header) = self.data.words(position);
        // The orderings are those of `find_next`.
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

    /// Prefetches the second cache line of the next frame, for a reader that polls, so that it
    /// arrives with the first. Do not call it while frames follow each other closely: the writer
    /// would have to fetch the line back.
    #[inline]
    pub fn prefetch(&self) {
        self.data.fetch_second_line(self.position);
    }

    /// Polls up to `spins` times for a frame, with a processor pause before each. Returns whether
    /// there is one. This costs less than repeated calls of [`Reader::try_next`]. If none comes,
    /// [prefetches](Reader::prefetch).
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
            // Relaxed: the caller polls again with ordering before it takes the frame.
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
            // SAFETY: the frame is committed and not released; the writer waits for the release.
            Some(len) => unsafe { self.data.bytes(self.position, len) },
            None => &[],
        }
    }

    /// Releases the frame that [`Reader::try_next`] returned last. Does nothing if no frame is
    /// borrowed. Returns true if the writer waits for space and should be woken now.
    ///
    /// It should be woken when every published frame is released. It should also be woken after
    /// each quarter of the ring, or of the frames allowed unread. The quarter counts from when the
    /// writer was first seen waiting, or last reported. With a [low
    /// watermark](crate::Writer::set_low_watermark), it should be woken once no more frames are
    /// unread than that.
    ///
    /// No wake-up is lost. Before it sleeps, a writer sets its flag and then sees an unreleased
    /// frame of this reader. It publishes nothing while asleep, so this reader comes to a release
    /// with no frame behind it.
    ///
    /// Suppose that this release did not see the flag. Then its store, made before this side's
    /// fence, would have been visible to the writer behind its own fence. The writer would have
    /// seen no unreleased frame: a contradiction. So the release sees the flag, finds no further
    /// frame, and returns true.
    #[inline(always)]
    pub fn release(&mut self) -> bool {
        debug_assert_eq!(self.unstored_frames, 0, "earlier releases come first: `finish_releases`");
        let Some(len) = std::mem::take(&mut self.borrowed).checked_sub(1) else { return false };
        let (position, count) = (self.position, self.count);
        self.position += frame_stride(len) as u64;
        self.count += 1;
        self.store_released();
        // The cursor's store must not pass the flag's load. The writer stores the flag and loads
        // the cursor behind its own fence.
        self.fence.run();
        // Relaxed: the fence orders it. The flag is loaded first, and the next commit word only if
        // the flag is set. The flag's cache line hardly ever changes. The commit word's line is
        // about to be written, so fetching it now would delay this thread's next step.
        if self.control().writer_waiting.0.load(Ordering::Relaxed) == 0 {
            self.woken = None;
            return false;
        }
        self.is_wake_due((position, count), (self.position, self.count))
    }

    /// Releases as [`Reader::release`] does, but stores the cursor for many frames at once: for a
    /// reader that takes all the frames that are there. Returns true if the writer waits for space
    /// and should be woken now.
    ///
    /// The cursor is stored after each quarter of the ring, or of the frames allowed unread. So a
    /// waiting writer is held up by a quarter at most. [`Reader::finish_releases`] stores the rest.
    /// Call it when there is no further frame, and before any other way to release or to sleep.
    ///
    /// No wake-up is lost. The argument is that of [`Reader::release`], with the stores of the
    /// cursor in place of the releases. A writer that sleeps has seen a stored cursor with frames
    /// behind it. It publishes nothing while asleep, so this reader comes to a store with no frame
    /// behind it. That store either was visible to the writer, or is followed by a check that sees
    /// its flag.
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

    /// Stores the cursor if [`Reader::release_later`] has left that to do. Returns true if the
    /// writer waits for space and should be woken now.
    #[inline(never)]
    pub fn finish_releases(&mut self) -> bool {
        let (bytes, frames) = (self.unstored_bytes, self.unstored_frames);
        if frames == 0 {
            return false;
        }
        (self.unstored_bytes, self.unstored_frames) = (0, 0);
        self.store_released();
        // The fence and the load are those of `release`.
        self.fence.run();
        if self.control().writer_waiting.0.load(Ordering::Relaxed) == 0 {
            self.woken = None;
            return false;
        }
        let now = (self.position, self.count);
        self.is_wake_due((now.0 - bytes, now.1 - frames), now)
    }

    /// Marks the reader as going to sleep. Returns true if there is nothing for it: it may sleep,
    /// and the writer will wake it. Otherwise (a frame, the end, an error) clears the mark and
    /// returns false.
    pub fn prepare_sleep(&mut self) -> bool {
        self.prepare_sleep_with(|| fence(Ordering::SeqCst))
    }

    /// Does the same as [`Reader::prepare_sleep`], but with the barrier that the writer's
    /// [`Fence::Compiler`] requires.
    pub fn prepare_sleep_with(&mut self, barrier: impl FnOnce()) -> bool {
        self.announce_sleep(ASLEEP, barrier)
    }

    /// Does the same as [`Reader::prepare_sleep_with`], to park on the cursor's own
    /// [word](Cursor::park_word) (a futex) until it changes.
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
        // Relaxed: the barrier orders it before the loads that follow. The writer commits a frame
        // (attaches, closes) and loads this flag behind its own fence. One of the two sees the
        // other.
        //
        // Every change of this flag is a swap, although stores would do. Swaps form one chain, so
        // that loom, too, can determine the last one. The cost is small beside a sleep.
        self.cursor().sleeping.0.swap(how, Ordering::Relaxed);
        // Release: a writer that sees the group's flag sees this reader's own.
        // SAFETY: atomic, and valid as long as the reader lives, see `new` and `share_sleepers`.
        unsafe { self.sleepers.as_ref() }.any.0.swap(1, Ordering::Release);
        // The writer sets `fenced` once every later frame has a full fence before the check for
        // sleepers. It clears it with a full fence before the first frame without one. A reader
        // that sees it set, behind its own fence, needs no barrier on the writer's side. Acquire:
        // the frames published before it was set are visible.
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

    /// Clears the mark of [`Reader::prepare_sleep`], also after a sleep that ended by itself.
    pub fn cancel_sleep(&mut self) {
        // Relaxed: seen late, it costs one needless wake-up.
        self.cursor().sleeping.0.swap(0, Ordering::Relaxed);
    }

    /// Sets the fence that [`Reader::release`] runs before it checks whether the writer waits.
    pub fn set_fence(&mut self, fence: Fence) {
        self.fence = fence;
    }

    /// Returns whether the writer has closed the ring. Frames published before may remain: the
    /// stream ends when this is true and there is then no next frame.
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Acquire: all frames published before are visible with it.
        self.control().hints.0.closed.load(Ordering::Acquire) != 0
    }

    /// Returns the position of the next frame, or of the one borrowed. It is 0 until
    /// [`Reader::is_attached`], or any attempt to read, has found the reader attached.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of frames of the ring before the next one (or the one borrowed), skipped
    /// ones included. It is 0 until attached, as with [`Reader::position`].
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
        // SAFETY: valid as long as the reader lives, and all its words are atomics.
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

    /// Returns whether frames may be borrowed: the first poll after the writer has attached it.
    #[cold]
    fn ready_in_place(&mut self) -> Result<bool, ReadError> {
        if self.mode == ReaderMode::Blocking { self.ready() } else { Err(ReadError::WrongMode) }
    }

    pub(crate) fn is_detached(&self) -> bool {
        // Relaxed: no other data depends on it.
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
        // Relaxed: the Release of the position orders it.
        released.count.store(count, Ordering::Relaxed);
        // Release: the loads of the frames before it have ended when the writer sees it.
        released.position.store(position, Ordering::Release);
    }

    /// Returns whether the commit word of the next frame is there. Any other word, also one of an
    /// earlier lap, means that it is not.
    #[inline(always)]
    fn is_committed(&self, ordering: Ordering) -> bool {
        self.data.commit(self.position).load(ordering) == commit_word(self.position)
    }

    /// Returns the length and count from a frame's header word, validated.
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
        // SAFETY: valid as long as the reader lives, and all its words are atomics.
        unsafe { self.cursor.as_ref() }
    }

    #[cold]
    fn try_attach(&mut self) -> Result<bool, ReadError> {
        let attach_info = &self.cursor().attach_info.0;
        // Acquire: the attach values, and the commit word at the start, are visible with the state.
        match attach_info.state.load(Ordering::Acquire) {
            ATTACHED => {}
            DETACHED => return Err(ReadError::Detached),
            _ => return Ok(false),
        }
        // Relaxed: ordered by the Acquire above.
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

    /// Borrows the next frame unless one is borrowed; false: it is not there yet.
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
        // Acquire: the header, the bytes, and the word that is not yet the next commit word are
        // visible with the commit word.
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
        // Relaxed: ordered by the commit word.
        let word = self.data.header(position).load(Ordering::Relaxed);
        let (len, found) = self.checked_header(position, word)?;
        let expected = self.count as u32;
        if found != expected {
            return Err(ReadError::Corrupt { what: Corruption::FrameCount { position, expected, found } });
        }
        Ok(Some(len))
    }

    /// Returns whether enough is released to wake a waiting writer: the positions and counts stored
    /// before and now.
    #[cold]
    pub(crate) fn is_wake_due(&mut self, before: (u64, u64), now: (u64, u64)) -> bool {
        let frames = now.1 - before.1;
        let (position, count) = *self.woken.get_or_insert(before);
        // Acquire: the writer's progress is visible with the flag that led here, and does not
        // change while it waits.
        fence(Ordering::Acquire);
        let low = u64::from(self.cursor().attach_info.0.low_frames.load(Ordering::Relaxed));
        // A faulty writer may store any value here. It is then woken too often, or only by the last
        // release.
        let unread = self.control().progress.0.count.load(Ordering::Relaxed).saturating_sub(now.1);
        // Relaxed: it only decides when to wake the writer. A frame not seen yet wakes it a little
        // early. A frame seen means that another release follows.
        let drained = !self.is_committed(Ordering::Relaxed);
        let worthwhile = drained
            // The frames just released have passed the low watermark.
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

    /// Returns whether the next frame is counted, but its commit word is not there. A poll cannot
    /// detect that: the line of the count changes with every frame.
    fn lacks_commit(&mut self) -> bool {
        // Acquire: a frame that is counted is committed.
        let is_counted = self.control().progress.0.count.load(Ordering::Acquire) > self.count;
        self.lacks_commit = is_counted && !self.is_committed(Ordering::Relaxed);
        is_counted
    }
}

/// A waiting writer is woken for this share of the ring: a quarter. Under loom, where three frames
/// fill the ring, it is half.
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

// SAFETY: a reader owns its side of the ring. Its pointers are to memory that any thread may use.
unsafe impl Send for Reader {}
