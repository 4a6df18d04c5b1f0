//! The reading side: borrow the next frame in place, release it.

use std::fmt;
use std::ptr::NonNull;

use crate::attached::own_sleepers;
use crate::heap::{CursorHold, HeapSleepers, RingHold};
use crate::layout::{
    ASLEEP, ATTACHED, BLOCKING, Control, Cursor, DETACHED, LOSSY, MAGIC, NAPPING, POSITION_MAX, Sleepers,
    VERSION, commit_word, frame_stride, is_valid_capacity, is_valid_position, max_frame, parse_header,
};
use crate::mem::{Data, Ordering, fence};
use crate::{AttachError, Corruption, Fence, ReadError};

/// One of those who read a ring.
///
/// It never writes to the writer's memory, and checks what it finds there.
///
/// ```
/// use stripline_ring::{HeapRing, Mode};
///
/// let (ring, mut writer) = HeapRing::new(4096);
/// let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
/// assert!(reader.prepare_sleep()); // Nothing is there: it could sleep now.
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
    control: NonNull<Control>,
    cursor: NonNull<Cursor>,
    sleepers: NonNull<Sleepers>,
    mode: ReaderMode,
    attached: bool,
    /// Of the next frame, or the one borrowed.
    pub(crate) position: u64,
    pub(crate) count: u64,
    /// The length of the frame borrowed.
    current: Option<usize>,
    /// Released position and count when the writer was first seen waiting, or was last to be woken; `None` while it
    /// does not wait.
    woken: Option<(u64, u64)>,
    wake_frames: u64,
    fence: Fence,
    _hold: Option<(RingHold, CursorHold)>,
    _sleepers: Option<HeapSleepers>,
}

/// How a reader takes frames; the writer has to attach it in the like [`Mode`](crate::Mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderMode {
    /// It borrows every frame in place, or copies it out, and the writer waits for it.
    Blocking,
    /// It copies frames out, and the writer does not wait for it.
    Lossy,
}

impl Reader {
    /// A reader of the ring in this memory. It gets frames once the writer has attached its cursor.
    ///
    /// # Safety
    /// `control` is valid for reads, `data` for reads of `2 * capacity` bytes as in
    /// [`Writer::new`](crate::Writer::new), `cursor` for reads and writes, zeroed or fresh from `Cursor::default`,
    /// and of this reader alone; all as long as the `Reader` lives. For a blocking reader, the writer keeps to the
    /// protocol while a frame is borrowed: what [`Reader::try_next`] returns lies in the writer's memory. Of a writer
    /// that may not, frames are taken with [`Reader::try_next_copied`] only.
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
        // SAFETY: valid, says the caller, and all its words are atomics.
        let identity = unsafe { &control.as_ref().identity.0 };
        // Acquire: with the magic comes the ring that the writer made before.
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
            // SAFETY: the caller's promise.
            data: unsafe { Data::new(data, capacity) },
            control,
            cursor,
            sleepers: own_sleepers(cursor),
            mode,
            attached: false,
            position: 0,
            count: 0,
            current: None,
            woken: None,
            wake_frames: u64::MAX,
            fence: Fence::Full,
            _hold: None,
            _sleepers: None,
        })
    }

    /// Announces sleep on a word that this reader has in common with others of its process; the writer has to
    /// [attach](crate::Writer::attach_sharing) it with the same one.
    ///
    /// # Safety
    /// `sleepers` is valid for reads and writes as long as the `Reader` lives.
    pub unsafe fn share_sleepers(&mut self, sleepers: NonNull<Sleepers>) {
        self.sleepers = sleepers;
    }

    /// Whether the writer has attached this reader. From then on it gets every frame.
    pub fn is_attached(&mut self) -> bool {
        self.attached || self.try_attach().unwrap_or(false)
    }

    /// Borrows the next frame's bytes, if there is one: the same frame again until it is released.
    ///
    /// # Errors
    /// See [`ReadError`]. The reader stays where it is.
    #[inline]
    pub fn try_next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        Ok(if self.has_next()? { Some(self.borrowed()) } else { None })
    }

    /// Whether [`Reader::try_next`] finds a frame, which is then [`Reader::borrowed`].
    ///
    /// # Errors
    /// See [`ReadError`]. The reader stays where it is.
    #[inline(always)]
    pub fn has_next(&mut self) -> Result<bool, ReadError> {
        if self.current.is_none() {
            self.current = self.find_next()?;
        }
        Ok(self.current.is_some())
    }

    /// As [`Reader::try_next`], for a writer that is not trusted to leave a frame alone: copies the frame's bytes to
    /// `into`, in place of what it holds, without ever borrowing them. The length is checked, and no writer can make
    /// this read elsewhere; but one that breaks the protocol decides what the copy holds. False: there is none.
    ///
    /// The frame is still to be released. Until then the same one is copied again.
    ///
    /// # Errors
    /// See [`ReadError`]. The reader stays where it is.
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
        if self.current.is_none() {
            self.current = self.find_next()?;
        }
        let Some(len) = self.current else { return Ok(false) };
        into.clear();
        self.data.copy_out(self.position, len, into);
        Ok(true)
    }

    /// As [`Reader::try_next`] where there is a frame and nothing wrong with it; `None` says nothing.
    #[inline(always)]
    pub fn at_hand(&mut self) -> Option<&[u8]> {
        if self.has_next() != Ok(true) {
            return None;
        }
        // The payload comes while its header is looked at.
        self.data.fetch_first_lines(self.position, self.current.unwrap_or(0));
        Some(self.borrowed())
    }

    /// Asks for the second cache line of the frame to come. For who looks again and again: so it comes together with
    /// the first. Not to be asked for where frames follow each other closely: the writer would have to take the line
    /// back.
    #[inline]
    pub fn anticipate(&self) {
        self.data.fetch_second_line(self.position);
    }

    /// Looks that many times, with a processor pause before each, whether there may be a frame: sooner done than asking for
    /// it again and again. In the end, [anticipates](Reader::anticipate) one.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    /// reader.linger(8);
    /// writer.try_reserve(3).unwrap().copy_from_slice(b"abc");
    /// writer.publish(3);
    /// reader.linger(u32::MAX); // It does not take that long.
    /// assert_eq!(reader.try_next(), Ok(Some(&b"abc"[..])));
    /// ```
    pub fn linger(&self, looks: u32) {
        for _ in 0..looks {
            std::hint::spin_loop();
            // Relaxed: who asks for the frame looks again, in order.
            if self.data.commit(self.position).load(Ordering::Relaxed) != 0 {
                return;
            }
        }
        self.anticipate();
    }

    /// The bytes of the frame borrowed, again; empty if there is none.
    #[inline]
    pub fn borrowed(&self) -> &[u8] {
        // SAFETY: the frame is committed, and its release is still to come; the writer waits for that.
        self.current.map_or(&[], |len| unsafe { self.data.bytes(self.position, len) })
    }

    /// Releases the frame that [`Reader::try_next`] returned last; nothing happens if there is none. True if the
    /// writer waits for space and should be woken now: when all there is has been released, or a quarter of the ring
    /// (of the frames allowed unread) since the writer was first seen waiting, or was last to be woken; with a
    /// [low watermark](crate::Writer::set_low_watermark), when no more are left unread than it says.
    ///
    /// No wake-up is lost. A writer that goes to sleep has seen, after setting its flag, a frame of this reader's
    /// unreleased, and publishes nothing while asleep; so this reader comes to a release with no frame behind it. Had
    /// it not seen the flag then, that release, stored before this side's fence, would have been there for the writer
    /// to see after its own: no frame was left unreleased, against what the writer saw. So it sees the flag, finds
    /// that there is no more, and says so.
    #[inline]
    pub fn release(&mut self) -> bool {
        let Some(len) = self.current.take() else { return false };
        let (position, count) = (self.position, self.count);
        self.position += frame_stride(len) as u64;
        self.count += 1;
        self.store_released();
        // The cursor's store must not pass the flag's load; the writer stores the flag and, behind its own fence,
        // loads the cursor.
        self.fence.run();
        // Relaxed: the fence orders it. The flag first, and the next commit word only if it is set: the flag's cache
        // line hardly ever changes, the commit word's is about to be written to, and fetching it now would hold up
        // whatever this thread does next.
        if self.control().writer_waiting.0.load(Ordering::Relaxed) == 0 {
            self.woken = None;
            return false;
        }
        self.is_waking_worthwhile(position, count)
    }

    /// Announces that the reader is going to sleep. True: there is nothing for it, it may sleep, and the writer will
    /// wake it. False: there is something (a frame, the end, an error), and the announcement is taken back.
    pub fn prepare_sleep(&mut self) -> bool {
        self.prepare_sleep_with(|| fence(Ordering::SeqCst))
    }

    /// As [`Reader::prepare_sleep`], with the barrier that goes with the writer's [`Fence::Compiler`].
    pub fn prepare_sleep_with(&mut self, barrier: impl FnOnce()) -> bool {
        self.announce_sleep(ASLEEP, barrier)
    }

    /// As [`Reader::prepare_sleep_with`], to sleep on the cursor's own [word](Cursor::word) until it changes: a futex.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    /// assert!(reader.prepare_nap_with(|| std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst)));
    /// let mut naps = false;
    /// writer.for_each_sleeper(|sleeper| naps = sleeper.naps);
    /// assert!(naps);
    /// ```
    pub fn prepare_nap_with(&mut self, barrier: impl FnOnce()) -> bool {
        self.announce_sleep(NAPPING, barrier)
    }

    fn announce_sleep(&mut self, how: u32, barrier: impl FnOnce()) -> bool {
        // Relaxed: the barrier orders it before the loads that follow. The writer commits a frame (attaches, closes)
        // and, behind its own fence, loads this flag: one of the two sees the other.
        // A swap, as is every change of this flag, although stores would do: swaps form one chain, in which loom, too,
        // can tell what came last. It costs nothing beside a sleep.
        self.cursor().sleeping.0.swap(how, Ordering::Relaxed);
        // Release: who sees the group's flag sees this reader's own.
        // SAFETY: valid as long as the reader lives, see `new` and `share_sleepers`, and atomic.
        unsafe { self.sleepers.as_ref() }.any.0.swap(1, Ordering::Release);
        // The writer raises `fenced` once every frame to come has a full fence between it and the look for sleepers, and
        // takes it back with a full fence before the first frame that has none: so whoever finds it raised, behind a fence
        // of its own, needs no barrier on the writer's side. Acquire: the frames published before it was raised are
        // seen.
        fence(Ordering::SeqCst);
        if self.control().mood.0.fenced.load(Ordering::Acquire) == 0 {
            barrier();
        }
        let nothing = !self.is_something_there();
        if !nothing {
            self.cancel_sleep();
        }
        nothing
    }

    /// Takes the announcement back, as after a sleep that ended by itself.
    pub fn cancel_sleep(&mut self) {
        // Relaxed: seen late it costs a wake-up too many.
        self.cursor().sleeping.0.swap(0, Ordering::Relaxed);
    }

    /// Which fence [`Reader::release`] runs before it looks whether the writer waits.
    pub fn set_fence(&mut self, fence: Fence) {
        self.fence = fence;
    }

    /// Whether the writer has closed the ring. Frames published before may still be there: the end has come when
    /// there is no next frame after this has been true.
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Acquire: with it come all frames published before it.
        self.control().mood.0.closed.load(Ordering::Acquire) != 0
    }

    /// Where the next frame (or the one borrowed) starts; 0 until [`Reader::is_attached`] (or any try) has found the
    /// reader attached.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many frames of the ring lie before the next one (or the one borrowed), skipped ones included; as
    /// [`Reader::position`], 0 until attached.
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

    /// Whether the writer has attached this reader, as it should.
    #[inline]
    pub(crate) fn ready(&mut self) -> Result<bool, ReadError> {
        if self.attached { Ok(true) } else { self.try_attach() }
    }

    pub(crate) fn is_detached(&self) -> bool {
        // Relaxed: nothing else is learnt from it.
        self.cursor().terms.0.state.load(Ordering::Relaxed) == DETACHED
    }

    /// Tells the writer how far this reader is done.
    #[inline]
    pub(crate) fn store_released(&self) {
        let released = &self.cursor().released.0;
        // Relaxed: the position's Release puts it before the position.
        released.count.store(self.count, Ordering::Relaxed);
        // Release: this reader's loads of the frame are over when the writer sees it.
        released.position.store(self.position, Ordering::Release);
    }

    /// Why the word found where a commit word is expected is neither clear nor right: the reader was detached and
    /// overtaken, or the writer broke the protocol.
    #[cold]
    pub(crate) fn bad_commit(&self, position: u64, found: u64) -> ReadError {
        if self.is_detached() {
            return ReadError::Detached;
        }
        ReadError::Corrupt { what: Corruption::CommitWord { position, found } }
    }

    /// The length and count of a frame, out of its header word.
    #[inline]
    pub(crate) fn checked_header(&self, position: u64, word: u64) -> Result<(usize, u32), ReadError> {
        let (len, count) = parse_header(word);
        let max = max_frame(self.data.capacity());
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
        let terms = &self.cursor().terms.0;
        // Acquire: with the state come the terms, and the cleared commit word at the start.
        match terms.state.load(Ordering::Acquire) {
            ATTACHED => {}
            DETACHED => return Err(ReadError::Detached),
            _ => return Ok(false),
        }
        // Relaxed: see above.
        let start = terms.start.load(Ordering::Relaxed);
        let start_count = terms.start_count.load(Ordering::Relaxed);
        let mode = terms.mode.load(Ordering::Relaxed);
        let wake_frames = terms.wake_frames.load(Ordering::Relaxed);
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
        Ok(true)
    }

    #[inline(always)]
    fn find_next(&mut self) -> Result<Option<usize>, ReadError> {
        if self.mode != ReaderMode::Blocking {
            return Err(ReadError::WrongMode);
        }
        if !self.ready()? {
            return Ok(None);
        }
        let position = self.position;
        // Acquire: with the commit word come the header, the bytes, and the cleared commit word beyond them.
        let commit = self.data.commit(position).load(Ordering::Acquire);
        if commit != commit_word(position) {
            // A clear word is the common case; the state lies in a cache line that hardly ever changes.
            return if commit == 0 && !self.is_detached() {
                Ok(None)
            } else {
                Err(self.bad_commit(position, commit))
            };
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

    /// Whether enough has been released for a writer that waits; `position` and `count` are those before the last
    /// release.
    #[cold]
    fn is_waking_worthwhile(&mut self, position: u64, count: u64) -> bool {
        let (position, count) = *self.woken.get_or_insert((position, count));
        // Acquire: with the flag that brought us here comes how far the writer is, which does not change while it waits.
        fence(Ordering::Acquire);
        let low = u64::from(self.cursor().terms.0.low_frames.load(Ordering::Relaxed));
        // A writer may write anything here: then it is woken too often, or by the last release.
        let unread = self.control().progress.0.count.load(Ordering::Relaxed).saturating_sub(self.count);
        // Relaxed: only when to wake hangs on it. A frame not seen yet means waking a little early; a frame seen
        // means another release to come.
        let drained = self.data.commit(self.position).load(Ordering::Relaxed) != commit_word(self.position);
        let worthwhile = drained
            || unread == low
            || unread < low
                && (self.position - position >= self.data.capacity() as u64 / WAKE_SHARE
                    || self.count - count >= self.wake_frames);
        if worthwhile {
            self.woken = Some((self.position, self.count));
        }
        worthwhile
    }

    fn is_something_there(&mut self) -> bool {
        match self.ready() {
            Ok(true) => {}
            Ok(false) => return self.is_closed(),
            Err(_) => return true,
        }
        // Relaxed: the frame is looked at again, in order, by who asked. Anything but a clear word is something, be
        // it an error.
        self.current.is_some()
            || self.data.commit(self.position).load(Ordering::Relaxed) != 0
            || self.is_closed()
            || self.is_detached()
            || (self.mode == ReaderMode::Lossy && self.is_overtaken(self.position))
    }
}

/// A writer that waits is woken for this part of the ring. Under loom, where three frames fill the ring, for two.
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

// SAFETY: a reader owns its side of the ring; its pointers are to memory that any thread may use.
unsafe impl Send for Reader {}
