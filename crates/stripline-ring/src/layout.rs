//! The layout of the shared memory, and the arithmetic of positions.

use crate::mem::{AtomicU32, AtomicU64, Ordering, fence};

/// Returns the largest frame of a ring of `capacity` bytes, in bytes.
///
/// The size is half the ring, less the header of the frame and one line. The line holds the commit
/// word of the next frame.
///
/// With half the ring, the newest frame always survives while the next one is written, so a lossy
/// reader can always catch up. A blocking reader can hold one frame of the largest size while the
/// next one is written.
///
/// ```
/// assert_eq!(stripline_ring::max_frame(4096), 1968);
/// ```
pub const fn max_frame(capacity: usize) -> usize {
    (capacity / 2).saturating_sub(LINE + HEADER)
}

/// Returns whether a ring can have this capacity: a power of two from [`CAPACITY_MIN`] to
/// [`CAPACITY_MAX`].
///
/// ```
/// assert!(stripline_ring::is_valid_capacity(1 << 20));
/// assert!(!stripline_ring::is_valid_capacity(5000));
/// ```
pub const fn is_valid_capacity(capacity: usize) -> bool {
    capacity.is_power_of_two() && capacity >= CAPACITY_MIN && capacity <= CAPACITY_MAX
}

/// Returns the number of bytes that a frame of `len` bytes takes in the ring: the header, the
/// bytes, and the padding to the next line.
///
/// ```
/// assert_eq!([0, 48, 49].map(stripline_ring::frame_stride), [64, 64, 128]);
/// ```
pub const fn frame_stride(len: usize) -> usize {
    (HEADER + len + LINE - 1) & !(LINE - 1)
}

/// The smallest ring, in bytes. Under loom it is tiny, so that every interleaving can be explored.
pub const CAPACITY_MIN: usize = if cfg!(loom) { 256 } else { 4096 };
/// The largest ring, in bytes.
pub const CAPACITY_MAX: usize = 1 << 31;
/// Frames start at multiples of this many bytes.
pub const LINE: usize = 64;
/// The size of a frame's header in bytes. The first word of the header is the commit word.
pub const HEADER: usize = 16;

/// Positions and counts above this limit are refused, so that no sum of positions can overflow. At
/// 100 GB/s a ring reaches the limit after more than a year.
pub(crate) const POSITION_MAX: u64 = 1 << 62;

/// `"STRPRING"` as stored on a little-endian machine.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"STRPRING");
pub(crate) const VERSION: u32 = 5;

/// `Cursor::state`: the writer has set `start` and respects the cursor. While it is zero, the
/// cursor is not attached.
pub(crate) const ATTACHED: u32 = 1;
/// `Cursor::state`: the writer no longer reads the cursor.
pub(crate) const DETACHED: u32 = 2;

/// `Cursor::mode`: the writer waits for this reader.
pub(crate) const BLOCKING: u32 = 1;
/// `Cursor::mode`: the writer overtakes this reader.
pub(crate) const LOSSY: u32 = 2;

/// `AttachInfo::low_frames`: no low watermark; the writer resumes with any room.
pub(crate) const ANY: u32 = u32::MAX;

/// `Cursor::sleeping`: the reader sleeps, by a mechanism of the layer above.
pub(crate) const ASLEEP: u32 = 1;
/// `Cursor::sleeping`: the reader is parked on this word itself, as a futex.
pub(crate) const PARKED: u32 = 2;

/// The writer's page, at the start of the memory that only the writer can write. Zeroed memory is a
/// valid `Control`, and [`Writer::new`](crate::Writer::new) fills it in. Readers may map the page
/// read-only.
///
/// Groups of words that the two sides access at different rates lie 128 bytes apart, because
/// processors fetch cache lines in pairs.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Control {
    pub(crate) identity: CachePadded<Identity>,
    pub(crate) progress: CachePadded<Progress>,
    /// 1 while the writer waits for readers to release space, or is about to.
    pub(crate) writer_waiting: CachePadded<AtomicU32>,
    pub(crate) hints: CachePadded<WriterHints>,
}

/// Words that change rarely. Readers load them if there is no frame.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct WriterHints {
    /// 1 once the writer will publish nothing more.
    pub(crate) closed: AtomicU32,
    /// 1 while the writer runs a full fence with every frame. A reader then needs no barrier before
    /// it sleeps.
    pub(crate) fenced: AtomicU32,
}

/// Words that a reader validates once, before it reads anything else.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub(crate) magic: AtomicU64,
    pub(crate) capacity: AtomicU64,
    pub(crate) version: AtomicU32,
}

/// Words that change with every frame. Blocking readers do not load them in the fast path but poll
/// the commit word.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Position of the next frame.
    pub(crate) head: AtomicU64,
    /// Number of frames published.
    pub(crate) count: AtomicU64,
    /// Position of the newest published frame.
    pub(crate) newest: AtomicU64,
    /// Position of the oldest complete frame. Maintained only while there are lossy readers.
    pub(crate) tail: AtomicU64,
    /// Number of frames published before the frame at `tail`. The number is a hint: the frame
    /// itself carries the low half of the exact count.
    pub(crate) tail_count: AtomicU64,
    /// The end of the region that the writer may be writing. Bytes a whole lap below may be
    /// overwritten. Maintained only while there are lossy readers.
    pub(crate) claim: AtomicU64,
}

/// A reader's page, writable by the reader and by the writer. The writer validates every word that
/// it loads from this page. Zeroed memory is a valid `Cursor` that is not attached yet.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Cursor {
    /// Stored by the reader with every frame; loaded by the writer about once per lap.
    pub(crate) released: CachePadded<Released>,
    /// [`ASLEEP`] or [`PARKED`] while the reader is asleep or about to be. The writer loads this
    /// word after every frame, so it is not on the cache line of `released`.
    pub(crate) sleeping: CachePadded<AtomicU32>,
    pub(crate) attach_info: CachePadded<AttachInfo>,
    /// The sleep word of a reader that does not share a sleep word.
    pub(crate) sleepers: Sleepers,
}

impl Cursor {
    /// Returns the word on which a reader parks (see
    /// [`Reader::prepare_park_with`](crate::Reader::prepare_park_with)). The value is
    /// [`Cursor::PARKED`] until the reader is woken.
    pub fn park_word(&self) -> &AtomicU32 {
        &self.sleeping.0
    }

    /// The value of [`Cursor::park_word`] while the reader is parked.
    pub const PARKED: u32 = PARKED;

    /// Clears the park word. Returns true if the reader was parked and must be woken. Call it after
    /// publishing the reason for the wake-up.
    ///
    /// ```
    /// let cursor = stripline_ring::Cursor::default();
    /// assert!(!cursor.unpark());
    /// ```
    pub fn unpark(&self) -> bool {
        // A full fence between the caller's store and this load. A reader that parks too late for
        // this load checks for work again behind a fence on the reader's side.
        fence(Ordering::SeqCst);
        // A relaxed load comes first and then a swap, as in the writer's `poll_sleepers`.
        self.sleeping.0.load(Ordering::Relaxed) == PARKED
            && self.sleeping.0.swap(0, Ordering::AcqRel) == PARKED
    }
}

/// A flag for a group of readers: set while a reader may be asleep. The writer checks the whole
/// group with one load.
///
/// Readers of one process can share the flag, because they trust each other. These readers and the
/// writer can write it. Zeroed memory is a valid `Sleepers`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Sleepers {
    /// 1 from the moment before a reader sleeps until the writer has checked every reader of the
    /// group.
    pub(crate) any: CachePadded<AtomicU32>,
}

/// The progress of the reader.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Released {
    pub(crate) position: AtomicU64,
    pub(crate) count: AtomicU64,
}

/// Values that the writer gives to a reader when the reader is attached.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct AttachInfo {
    pub(crate) start: AtomicU64,
    pub(crate) start_count: AtomicU64,
    pub(crate) state: AtomicU32,
    pub(crate) mode: AtomicU32,
    /// Number of released frames after which a waiting writer should be woken.
    pub(crate) wake_frames: AtomicU32,
    /// A waiting writer should be woken when at most this many frames are unread; [`ANY`] sets no
    /// limit.
    pub(crate) low_frames: AtomicU32,
}

/// A value alone on a pair of cache lines.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct CachePadded<T>(pub(crate) T);

/// Returns the commit word of the published frame at `position`: never 0, and different for each
/// position.
pub(crate) const fn commit_word(position: u64) -> u64 {
    position | 1
}

/// Returns the second header word of a frame: the length of the frame, and the low half of the
/// number of frames published before it.
pub(crate) const fn header_word(len: usize, count: u64) -> u64 {
    len as u64 | (count << 32)
}

/// Returns the length and the low half of the count from a header word.
pub(crate) const fn parse_header(word: u64) -> (usize, u32) {
    ((word & 0xffff_ffff) as usize, (word >> 32) as u32)
}

/// Returns whether a frame can start at `position`.
pub(crate) const fn is_valid_position(position: u64) -> bool {
    position.is_multiple_of(LINE as u64) && position <= POSITION_MAX
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::{align_of, offset_of, size_of};
    assert!(size_of::<Control>() <= 4096 && align_of::<Control>() == 128);
    assert!(size_of::<Cursor>() <= 4096 && align_of::<Cursor>() == 128);
    // The two processes may be separate builds. The layout is part of the protocol, and changes
    // only together with `VERSION`.
    assert!(offset_of!(Control, progress) == 128);
    assert!(offset_of!(Control, writer_waiting) == 256);
    assert!(offset_of!(Control, hints) == 384 && offset_of!(WriterHints, fenced) == 4);
    assert!(offset_of!(Cursor, sleeping) == 128);
    assert!(offset_of!(Cursor, attach_info) == 256);
    assert!(offset_of!(Cursor, sleepers) == 384);
    assert!(size_of::<Sleepers>() == 128);
    assert!(max_frame(CAPACITY_MIN) == 1968);
    assert!(frame_stride(max_frame(CAPACITY_MIN)) + LINE == CAPACITY_MIN / 2);
};
