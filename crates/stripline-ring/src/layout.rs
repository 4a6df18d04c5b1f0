//! What lies where in the shared memory, and the arithmetic of positions.

use crate::mem::{AtomicU32, AtomicU64, Ordering, fence};

/// The most bytes that one frame can carry in a ring of `capacity` bytes: half the ring, less the frame's header and
/// the one line beyond it that holds the next frame's commit word.
///
/// Half, so that the newest frame always survives the writing of the next one: a lossy reader can always catch up,
/// and a blocking reader can hold one frame of the largest size while the next is written.
///
/// ```
/// assert_eq!(stripline_ring::max_frame(4096), 1968);
/// ```
pub const fn max_frame(capacity: usize) -> usize {
    (capacity / 2).saturating_sub(LINE + HEADER)
}

/// Whether a ring can have this capacity: a power of two from [`CAPACITY_MIN`] to [`CAPACITY_MAX`].
///
/// ```
/// assert!(stripline_ring::is_valid_capacity(1 << 20));
/// assert!(!stripline_ring::is_valid_capacity(5000));
/// ```
pub const fn is_valid_capacity(capacity: usize) -> bool {
    capacity.is_power_of_two() && capacity >= CAPACITY_MIN && capacity <= CAPACITY_MAX
}

/// The bytes that a frame of `len` bytes takes in the ring: header, bytes, and the padding to the next line.
///
/// ```
/// assert_eq!([0, 48, 49].map(stripline_ring::frame_stride), [64, 64, 128]);
/// ```
pub const fn frame_stride(len: usize) -> usize {
    (HEADER + len + LINE - 1) & !(LINE - 1)
}

/// The smallest ring, in bytes. Under loom rings are tiny, so that every interleaving can be walked.
pub const CAPACITY_MIN: usize = if cfg!(loom) { 256 } else { 4096 };
/// The largest ring, in bytes.
pub const CAPACITY_MAX: usize = 1 << 31;
/// Frames start at multiples of this many bytes.
pub const LINE: usize = 64;
/// Bytes of a frame's header, which its commit word opens.
pub const HEADER: usize = 16;

/// Positions and counts above this are refused, so that no sum of positions can overflow. A ring that moves
/// 100 GB/s gets there after more than a year.
pub(crate) const POSITION_MAX: u64 = 1 << 62;

/// `"STRPRING"`, as the bytes lie in memory on a little-endian machine.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"STRPRING");
pub(crate) const VERSION: u32 = 3;

/// `Cursor::state`: the writer has set `start` and respects the cursor. (Zeroed, it has not seen the cursor yet.)
pub(crate) const ATTACHED: u32 = 1;
/// `Cursor::state`: the writer no longer looks at the cursor.
pub(crate) const DETACHED: u32 = 2;

/// `Cursor::mode`: the writer waits for this reader.
pub(crate) const BLOCKING: u32 = 1;
/// `Cursor::mode`: the writer overtakes this reader.
pub(crate) const LOSSY: u32 = 2;

/// `Terms::low_frames`: the writer goes on with any room.
pub(crate) const ANY: u32 = u32::MAX;

/// `Cursor::sleeping`: on whatever the layer above sleeps on.
pub(crate) const ASLEEP: u32 = 1;
/// `Cursor::sleeping`: on this word itself.
pub(crate) const NAPPING: u32 = 2;

/// The writer's page, at the head of the memory that only the writer can write. Zeroed memory is a valid `Control`;
/// [`Writer::new`](crate::Writer::new) fills it in. Readers may map it read-only.
///
/// Groups of words that different sides touch at different rates lie 128 bytes apart: processors fetch cache lines
/// in pairs.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Control {
    pub(crate) identity: Apart<Identity>,
    pub(crate) progress: Apart<Progress>,
    /// 1 while the writer is asleep, or about to be, until readers release space.
    pub(crate) writer_waiting: Apart<AtomicU32>,
    pub(crate) mood: Apart<Mood>,
}

/// What changes rarely, and readers look at when there is no frame.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Mood {
    /// 1 once nothing more will be published.
    pub(crate) closed: AtomicU32,
    /// 1 while the writer runs a full fence with every frame, so that who goes to sleep need not run one for it.
    pub(crate) fenced: AtomicU32,
}

/// What a reader checks once, before anything else.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub(crate) magic: AtomicU64,
    pub(crate) capacity: AtomicU64,
    pub(crate) version: AtomicU32,
}

/// What changes with every frame. Blocking readers never look at it: they watch the commit word.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Where the next frame will start.
    pub(crate) head: AtomicU64,
    /// Frames published.
    pub(crate) count: AtomicU64,
    /// Where the newest published frame starts.
    pub(crate) newest: AtomicU64,
    /// Where the oldest whole frame starts; kept only while there are lossy readers.
    pub(crate) tail: AtomicU64,
    /// Frames published before the one at `tail`; a hint, the frame itself carries the low half.
    pub(crate) tail_count: AtomicU64,
    /// The writer may be writing anywhere below this; what lies a whole lap below is gone. Kept only while there are
    /// lossy readers.
    pub(crate) claim: AtomicU64,
}

/// A reader's page, writable by the reader and by the writer. The writer believes nothing that it finds here. Zeroed
/// memory is a valid `Cursor`, waiting to be attached.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Cursor {
    /// Written by the reader with every frame, read by the writer about once per lap.
    pub(crate) released: Apart<Released>,
    /// [`ASLEEP`] or [`NAPPING`] while the reader is asleep or about to be. Read by the writer after every frame, hence
    /// not beside `released`.
    pub(crate) sleeping: Apart<AtomicU32>,
    pub(crate) terms: Apart<Terms>,
    /// For a reader that shares none with others.
    pub(crate) sleepers: Sleepers,
}

impl Cursor {
    /// The word on which a reader naps (see [`Reader::prepare_nap_with`](crate::Reader::prepare_nap_with)): it is
    /// [`Cursor::NAPPING`] until somebody wakes the reader.
    pub fn word(&self) -> &AtomicU32 {
        &self.sleeping.0
    }

    /// The value of [`Cursor::word`] while the reader naps.
    pub const NAPPING: u32 = NAPPING;

    /// Ends the reader's nap, if it naps; true: it has to be woken. To be called after whatever it is woken for has been
    /// made known.
    ///
    /// ```
    /// let cursor = stripline_ring::Cursor::default();
    /// assert!(!cursor.end_nap());
    /// ```
    pub fn end_nap(&self) -> bool {
        // Full, between what the caller made known and this look: a reader whose announcement is not seen here looks
        // behind a fence of its own.
        fence(Ordering::SeqCst);
        // Relaxed first, and a swap: see the writer's look for sleepers.
        self.sleeping.0.load(Ordering::Relaxed) == NAPPING
            && self.sleeping.0.swap(0, Ordering::AcqRel) == NAPPING
    }
}

/// Whether any of a group of readers may be asleep: what lets the writer pass by all of them with one look. Readers
/// of one process can share it, as they trust each other; writable by them and by the writer. Zeroed memory is a
/// valid `Sleepers`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Sleepers {
    /// 1 from before a reader goes to sleep until the writer has looked at all of the group.
    pub(crate) any: Apart<AtomicU32>,
}

/// How far the reader is done.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Released {
    pub(crate) position: AtomicU64,
    pub(crate) count: AtomicU64,
}

/// What the writer tells the reader when it attaches it.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Terms {
    pub(crate) start: AtomicU64,
    pub(crate) start_count: AtomicU64,
    pub(crate) state: AtomicU32,
    pub(crate) mode: AtomicU32,
    /// After this many frames released, a writer that waits is worth waking.
    pub(crate) wake_frames: AtomicU32,
    /// A writer that waits is not worth waking while more frames than this are unread. [`ANY`]: it always is.
    pub(crate) low_frames: AtomicU32,
}

/// Keeps its content off its neighbours' cache lines.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Apart<T>(pub(crate) T);

/// The commit word of the published frame at `position`. Never 0, and never that of another position.
pub(crate) const fn commit_word(position: u64) -> u64 {
    position | 1
}

/// A frame's second header word: its length, and the low half of the number of frames published before it.
pub(crate) const fn header_word(len: usize, count: u64) -> u64 {
    len as u64 | (count << 32)
}

/// Length and low half of the count, out of a header word.
pub(crate) const fn parse_header(word: u64) -> (usize, u32) {
    ((word & 0xffff_ffff) as usize, (word >> 32) as u32)
}

/// Whether `position` is one at which a frame can start.
pub(crate) const fn is_valid_position(position: u64) -> bool {
    position.is_multiple_of(LINE as u64) && position <= POSITION_MAX
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::{align_of, offset_of, size_of};
    assert!(size_of::<Control>() <= 4096 && align_of::<Control>() == 128);
    assert!(size_of::<Cursor>() <= 4096 && align_of::<Cursor>() == 128);
    // Two processes may be built apart: the layout is part of the protocol, and changes only with `VERSION`.
    assert!(offset_of!(Control, progress) == 128);
    assert!(offset_of!(Control, writer_waiting) == 256);
    assert!(offset_of!(Control, mood) == 384 && offset_of!(Mood, fenced) == 4);
    assert!(offset_of!(Cursor, sleeping) == 128);
    assert!(offset_of!(Cursor, terms) == 256);
    assert!(offset_of!(Cursor, sleepers) == 384);
    assert!(size_of::<Sleepers>() == 128);
    assert!(max_frame(CAPACITY_MIN) == 1968);
    assert!(frame_stride(max_frame(CAPACITY_MIN)) + LINE == CAPACITY_MIN / 2);
};
