//! A safe ring in the memory of this process, for tests, examples and links within one process.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::attached::own_sleepers;
use crate::layout::{Control, Cursor, Sleepers};
use crate::{Mode, Reader, ReaderId, ReaderMode, Writer};

/// Heap memory for one ring. The writer and the readers of the ring keep it alive.
///
/// The memory is not mapped twice. Instead it is twice as large as the ring.
#[derive(Debug)]
pub struct HeapRing {
    memory: RingHold,
}

impl HeapRing {
    /// Creates a ring of `capacity` bytes and the writer of the ring.
    ///
    /// # Panics
    /// If `capacity` is not [valid](crate::is_valid_capacity).
    pub fn new(capacity: usize) -> (Self, Writer) {
        Self::with_start(capacity, 0, 0)
    }

    /// Creates a ring as [`HeapRing::new`] does, but starts at the given position and count.
    ///
    /// # Panics
    /// The same as for [`HeapRing::new`], and if `start_position` is not a multiple of 64, or
    /// either start is above 2^62.
    pub fn with_start(capacity: usize, start_position: u64, start_count: u64) -> (Self, Writer) {
        assert!(crate::is_valid_capacity(capacity), "a ring cannot have a capacity of {capacity} bytes");
        #[cfg_attr(loom, allow(clippy::arc_with_non_send_sync))] // loom has no real threads
        let memory =
            RingHold(Arc::new(Memory { control: Control::default(), data: Bytes::new(capacity), capacity }));
        let control = NonNull::from(&memory.0.control);
        // SAFETY: the memory is fresh and has the right size. The writer keeps it alive and is the
        // only writer.
        let mut writer = unsafe {
            Writer::with_start(control, memory.0.data.pointer(), capacity, start_position, start_count)
        };
        writer.hold(memory.clone());
        (Self { memory }, writer)
    }

    /// Attaches a reader. A blocking reader must be dropped before it can be
    /// [detached](Writer::detach).
    ///
    /// # Panics
    /// If `writer` belongs to another ring.
    pub fn attach(&self, writer: &mut Writer, mode: Mode) -> (ReaderId, Reader) {
        let (reader, cursor) = self.reader(mode);
        (self.attach_cursor(writer, cursor, mode), reader)
    }

    /// Creates a sleep word that readers can [share](HeapRing::attach_sharing).
    pub fn sleepers(&self) -> HeapSleepers {
        HeapSleepers(Arc::new(Sleepers::default()))
    }

    /// Attaches a reader as [`HeapRing::attach`] does, but with a shared sleep word. The writer
    /// checks one word for all readers that share the word.
    ///
    /// # Panics
    /// If `writer` belongs to another ring.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let sleepers = ring.sleepers();
    /// let (_, _one) = ring.attach_sharing(&mut writer, &sleepers, Mode::Lossy);
    /// let (two, mut reader) = ring.attach_sharing(&mut writer, &sleepers, Mode::Lossy);
    /// assert!(reader.prepare_sleep());
    /// let mut asleep = Vec::new();
    /// writer.for_each_sleeper(|sleeper| asleep.push(sleeper.reader));
    /// assert_eq!(asleep, [two]);
    /// ```
    pub fn attach_sharing(
        &self,
        writer: &mut Writer,
        sleepers: &HeapSleepers,
        mode: Mode,
    ) -> (ReaderId, Reader) {
        let (mut reader, cursor) = self.reader(mode);
        let control = NonNull::from(&self.memory.0.control);
        assert!(writer.control_pointer() == control, "the writer is of another ring");
        let word = NonNull::from(&*sleepers.0);
        // SAFETY: the reader keeps the word alive.
        unsafe { reader.share_sleepers(word) };
        reader.hold_sleepers(sleepers.clone());
        let HeapCursor { mut cursor, .. } = cursor;
        cursor.1 = Some(sleepers.clone());
        // SAFETY: the writer keeps the cursor and the word alive until the reader is detached. The
        // writer detaches a blocking reader only after the reader has been dropped.
        let id = unsafe { writer.attach_held(NonNull::from(&*cursor.0), word, mode, Some(cursor)) };
        (id, reader)
    }

    /// Creates an unattached reader, and the cursor for [attaching](HeapRing::attach_cursor) it.
    pub fn reader(&self, mode: Mode) -> (Reader, HeapCursor) {
        let cursor = CursorHold(Arc::new(Cursor::default()), None);
        let reader_mode = match mode {
            Mode::Blocking { .. } => ReaderMode::Blocking,
            Mode::Lossy => ReaderMode::Lossy,
        };
        let control = NonNull::from(&self.memory.0.control);
        // SAFETY: the reader keeps the memory of the ring and the cursor alive. The writer keeps to
        // the protocol: `Writer::detach` checks that no borrower is left.
        let reader = unsafe {
            Reader::new(
                control,
                self.memory.0.data.pointer(),
                self.memory.0.capacity,
                NonNull::from(&*cursor.0),
                reader_mode,
            )
        };
        let Ok(mut reader) = reader else { unreachable!("the writer has just made this ring") };
        reader.hold(self.memory.clone(), cursor.clone());
        (reader, HeapCursor { cursor, memory: self.memory.clone() })
    }

    /// Attaches the reader that was created with `cursor`.
    ///
    /// # Panics
    /// If `writer` or `cursor` belongs to another ring.
    ///
    /// ```
    /// use stripline_ring::{HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (mut reader, cursor) = ring.reader(Mode::Lossy); // Can be sent to another thread.
    /// assert!(!reader.is_attached());
    /// ring.attach_cursor(&mut writer, cursor, Mode::Lossy);
    /// assert!(reader.is_attached() && writer.readers() == 1);
    /// ```
    pub fn attach_cursor(&self, writer: &mut Writer, cursor: HeapCursor, mode: Mode) -> ReaderId {
        let control = NonNull::from(&self.memory.0.control);
        assert!(writer.control_pointer() == control, "the writer is of another ring");
        let HeapCursor { cursor, memory } = cursor;
        assert!(Arc::ptr_eq(&memory.0, &self.memory.0), "the cursor is of another ring");
        // SAFETY: the writer keeps the cursor alive until the reader is detached. The writer
        // detaches a blocking reader only after the reader has been dropped.
        unsafe {
            writer.attach_held(
                NonNull::from(&*cursor.0),
                own_sleepers(NonNull::from(&*cursor.0)),
                mode,
                Some(cursor),
            )
        }
    }
}

impl HeapRing {
    pub(crate) fn control(&self) -> &Control {
        &self.memory.0.control
    }
}

/// The cursor of a reader that is not attached yet.
#[derive(Debug)]
pub struct HeapCursor {
    cursor: CursorHold,
    memory: RingHold,
}

/// A reference that keeps a ring's memory alive.
#[derive(Clone, Debug)]
pub(crate) struct RingHold(Arc<Memory>);

/// A sleep word that readers share.
#[derive(Clone, Debug)]
pub struct HeapSleepers(Arc<Sleepers>);

/// A reference that keeps a cursor alive, together with the shared sleep word of the reader.
#[derive(Clone, Debug)]
pub(crate) struct CursorHold(Arc<Cursor>, Option<HeapSleepers>);

impl CursorHold {
    /// Returns whether the reader has dropped its reference.
    pub(crate) fn is_last(&self) -> bool {
        // `Arc::get_mut` cannot be used: a unique reference would invalidate the writer's pointer
        // to the cursor (Miri).
        let is_last = Arc::strong_count(&self.0) == 1;
        // Acquire pairs with the Release in the reader's drop: all accesses of the reader to the
        // cursor and the ring have ended.
        fence(Ordering::Acquire);
        is_last
    }
}

#[derive(Debug)]
struct Memory {
    control: Control,
    data: Bytes,
    capacity: usize,
}

#[cfg(not(loom))]
mod bytes {
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use std::ptr::NonNull;

    /// Zeroed memory of `2 * capacity` bytes.
    #[derive(Debug)]
    pub(super) struct Bytes {
        start: NonNull<u8>,
        layout: Layout,
    }

    impl Bytes {
        pub(super) fn new(capacity: usize) -> Self {
            let layout = match Layout::from_size_align(2 * capacity, 4096) {
                Ok(layout) => layout,
                Err(error) => unreachable!("a valid capacity fits the address space: {error}"),
            };
            // SAFETY: the size of the layout is not zero.
            let start = NonNull::new(unsafe { alloc_zeroed(layout) });
            Self { start: start.unwrap_or_else(|| handle_alloc_error(layout)), layout }
        }

        pub(super) fn pointer(&self) -> NonNull<u8> {
            self.start
        }
    }

    impl Drop for Bytes {
        fn drop(&mut self) {
            // SAFETY: the memory was allocated with this layout. The writer and the readers keep it
            // alive, so none of them is left.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }

    // SAFETY: this is raw memory. The protocol of the ring decides which thread accesses which
    // part.
    unsafe impl Send for Bytes {}
    // SAFETY: as above.
    unsafe impl Sync for Bytes {}
}

#[cfg(loom)]
mod bytes {
    use crate::mem::LoomLine;
    use std::ptr::NonNull;

    pub(super) struct Bytes(Box<[LoomLine]>);

    impl Bytes {
        pub(super) fn new(capacity: usize) -> Self {
            Self((0..capacity / 64).map(|_| LoomLine::default()).collect())
        }

        pub(super) fn pointer(&self) -> NonNull<u8> {
            NonNull::from(&*self.0).cast()
        }
    }

    impl std::fmt::Debug for Bytes {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Bytes").finish_non_exhaustive()
        }
    }
}

use bytes::Bytes;
