//! The memory ring, shared by the transports `inproc` and `shm`. Each sending port has one sealed
//! memfd, mapped twice in a row. Each receiver has one small page for the cursor.
//!
//! ```text
//! ring memfd:   | Control page (4096) | ring (capacity) |     mapped as | Control | ring | ring again |
//!               (of huge pages: the first of them)
//! cursor memfd: | Cursor page (4096) |                      written by both, validated by both
//! sleepers memfd: one word for all receivers in one process, likewise
//! ```
//!
//! The second half of the cursor page holds the sender's words for this receiver, written before
//! the receiver's first frame: the receiver's position after a restart, and the number and sample
//! index of the first frame. The receiver's acknowledgements follow (`acks.rs`).
//!
//! None of this memory is visible in the file system, and all of it is gone with the last process
//! that uses it.

mod ack_wait;
mod acks;
mod inlet;
mod inspect;
mod outlet;

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use stripline_ring::{Control, Cursor, Mode, Sleepers};

#[cfg(test)]
pub(super) use acks::decode_ack;
pub(crate) use inlet::RingInlet;
pub(super) use inlet::{Doorbells, PeerHandle, RingPages};
pub(super) use outlet::RingOutlet;

use crate::error::Result;
use crate::packet::Header;
use crate::sys::doorbell::{Doorbell, DoorbellFactory};
use crate::sys::futex;
use crate::sys::memory::{Mapping, PAGE, SharedMemory};
use crate::sys::socket::Socket;
use crate::sys::wait_clock::SenderWaits;
use crate::terms::Overflow;

use super::former_paths::{DEPARTED_MAX, FormerPaths, Stopped};
use super::handshake::Hello;
use super::{Attention, PortPosition};

/// The offset of the sender's words in the cursor page.
const SENDER_WORDS_OFFSET: usize = PAGE / 2;
const _: () = assert!(size_of::<Cursor>() <= SENDER_WORDS_OFFSET);

/// The sender's words for one receiver. Zeros mean that nothing was stored yet. Numbers are stored
/// plus 1, so that 0 means none.
#[repr(C)]
struct SenderWords {
    resume_from: AtomicU64,
    first_sequence: AtomicU64,
    first_sample: AtomicU64,
    /// The sample index of the packet `resume_from`; also 0 if the sender cannot determine it.
    resume_sample: AtomicU64,
}

/// The mapped ring. Every user of the ring's addresses holds it.
pub(crate) struct RingMemory {
    mapping: Mapping,
    /// The bytes of a page; the first page is the control page.
    page: usize,
    pub(super) capacity: usize,
    /// Whether frames in the ring can be kept while the sender continues. No frame can be kept if
    /// the ring is locked or uses huge pages.
    keeps_frames: bool,
}

impl RingMemory {
    /// Maps the memory of a ring, locked if requested.
    pub(super) fn map(memory: &SharedMemory, capacity: usize, writable: bool, locked: bool) -> Result<Self> {
        let mapping = memory.map_mirrored(writable)?;
        if locked {
            mapping.lock()?;
        }
        let keeps_frames = !writable && !locked && memory.page() == PAGE;
        Ok(Self { mapping, page: memory.page(), capacity, keeps_frames })
    }

    /// Maps the same memory once more.
    fn duplicate(&self) -> Result<Self> {
        let mapping = self.mapping.duplicate(self.page + self.capacity)?;
        Ok(Self { mapping, page: self.page, capacity: self.capacity, keeps_frames: true })
    }

    fn control(&self) -> NonNull<Control> {
        self.mapping.start().cast()
    }

    fn data(&self) -> NonNull<u8> {
        self.mapping.at(self.page)
    }
}

/// A receiver's mapped cursor page.
pub(super) struct CursorPage {
    mapping: Mapping,
    /// The waits of the sender for this receiver, for inspection of the sender's process.
    waits: SenderWaits,
}

impl CursorPage {
    /// Maps a cursor page, and locks it if the ring is locked.
    pub(super) fn map(memory: &SharedMemory, locked: bool) -> Result<Self> {
        let mapping = memory.map()?;
        if locked {
            mapping.lock()?;
        }
        Ok(Self { mapping, waits: SenderWaits::default() })
    }

    fn cursor(&self) -> NonNull<Cursor> {
        self.mapping.start().cast()
    }

    // Relaxed throughout: the sender stores the words before it publishes the receiver's first
    // frame, and the receiver loads them after it has seen a frame.

    /// Returns the place after the last packet that the connection's previous receiver had taken.
    fn resume_from(&self) -> Option<PortPosition> {
        let words = self.sender_words();
        let sequence = words.resume_from.load(Ordering::Relaxed).checked_sub(1)?;
        Some(PortPosition { sequence, sample: words.resume_sample.load(Ordering::Relaxed).checked_sub(1) })
    }

    fn set_resume_from(&self, position: PortPosition) {
        let words = self.sender_words();
        words.resume_from.store(position.sequence.saturating_add(1), Ordering::Relaxed);
        let sample = position.sample.map_or(0, |sample| sample.saturating_add(1));
        words.resume_sample.store(sample, Ordering::Relaxed);
    }

    /// Returns the sequence number and sample index of the first frame published for this receiver.
    fn first_sent(&self) -> Option<(u64, u64)> {
        let first = self.sender_words().first_sequence.load(Ordering::Relaxed).checked_sub(1)?;
        Some((first, self.sender_words().first_sample.load(Ordering::Relaxed)))
    }

    fn set_first_sent(&self, header: &Header) {
        self.sender_words().first_sample.store(header.sample_index, Ordering::Relaxed);
        self.sender_words().first_sequence.store(header.sequence.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns the word that the receiver parks on.
    fn park_word(&self) -> &AtomicU32 {
        // SAFETY: the word is mapped as long as `self`, and both sides use atomics only.
        unsafe { self.cursor().as_ref() }.park_word()
    }

    /// Wakes the receiver if it is parked. The caller must already have published the reason
    /// for waking it.
    pub(super) fn unpark(&self) -> bool {
        // SAFETY: see `park_word`.
        let parked = unsafe { self.cursor().as_ref() }.unpark();
        if parked {
            futex::wake(self.park_word());
        }
        parked
    }

    fn sender_words(&self) -> &SenderWords {
        // SAFETY: the words lie within the page and are aligned, they are mapped as long as `self`,
        // and both sides use atomics only.
        unsafe { self.mapping.at(SENDER_WORDS_OFFSET).cast::<SenderWords>().as_ref() }
    }
}

impl futex::ParkWaker for CursorPage {
    fn wake(&self) {
        if !self.unpark() {
            // A sender may have been killed between withdrawing the announcement and the wake-up.
            // The receiver is then parked without an announcement.
            futex::wake(self.park_word());
        }
    }
}

/// The mapped page of the word that the receivers of one process share.
#[derive(Clone)]
pub(super) struct SleepersPage(pub Arc<Mapping>);

impl SleepersPage {
    fn sleepers(&self) -> NonNull<Sleepers> {
        self.0.start().cast()
    }
}

/// A reader after the handshake, pending until the writer attaches it.
pub(super) struct PendingReader {
    token: u64,
    connection: String,
    cursor: Arc<CursorPage>,
    sleepers: SleepersPage,
    doorbell: Doorbell,
    mode: Mode,
    low: u32,
    pub membarrier: bool,
    /// The socket to close when the reader violates the protocol, if it is in another process.
    pub peer: Option<Socket>,
    /// Whether the reader continues from another path of the port, and so has no predecessor.
    moves: bool,
    /// The position at which the reader's predecessor has stopped on the paths that the port has
    /// left.
    stopped: Option<Stopped>,
}

#[derive(Default)]
struct Changes {
    added: Vec<PendingReader>,
    removed: Vec<u64>,
    /// Connections of receivers that were killed before they were attached, and the positions at
    /// which their predecessors had stopped.
    unmet: Vec<(String, Option<Stopped>)>,
}

impl Changes {
    /// Keeps the connection of a receiver that was never attached.
    fn add_unmet(&mut self, PendingReader { connection, stopped, .. }: PendingReader) {
        if self.unmet.len() < DEPARTED_MAX && self.unmet.iter().all(|(other, _)| *other != connection) {
            self.unmet.push((connection, stopped));
        }
    }
}

/// The state that the sending port's thread shares with the threads that accept receivers.
pub(super) struct RingShared {
    pub capacity: usize,
    pub memory: SharedMemory,
    /// Whether both sides lock their mappings.
    pub locked: bool,
    /// Whether the writer runs a barrier on all processors before it sleeps.
    pub membarrier: bool,
    /// The doorbell for space: the end that the writer sleeps on, and the end to ring.
    pub space_wait: Doorbell,
    pub space_notify: Doorbell,
    /// The factory of the doorbells that reach the readers.
    doorbells: DoorbellFactory,
    tokens: AtomicU64,
    changed: AtomicBool,
    /// Whether the writer waits for room, for inspection.
    room_awaited: AtomicBool,
    changes: Mutex<Changes>,
    readers: inspect::ReaderList,
    /// The shared words, by the process of the receivers.
    sleepers: Mutex<HashMap<Option<u32>, SharedSleepers>>,
    /// The paths that the port has left.
    former_paths: Arc<FormerPaths>,
}

/// The page of one process's receivers. The page is kept as long as any of these receivers exists.
struct SharedSleepers {
    memory: Arc<SharedMemory>,
    page: Weak<Mapping>,
}

/// The handles that a receiver needs in order to read.
pub(super) struct ReaderHandles {
    pub token: u64,
    pub cursor: SharedMemory,
    pub sleepers: Arc<SharedMemory>,
    pub doorbell: Doorbell,
}

impl RingShared {
    fn new(
        memory: SharedMemory,
        capacity: usize,
        locked: bool,
        membarrier: bool,
        doorbells: DoorbellFactory,
        former_paths: Arc<FormerPaths>,
    ) -> Result<Self> {
        let [space_notify, space_wait] = doorbells()?;
        Ok(Self {
            capacity,
            memory,
            locked,
            membarrier,
            space_wait,
            space_notify,
            doorbells,
            tokens: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            room_awaited: AtomicBool::new(false),
            changes: Mutex::default(),
            readers: inspect::ReaderList::default(),
            sleepers: Mutex::default(),
            former_paths,
        })
    }

    /// Makes the handles of a receiver, in the process `pid` if it is given.
    pub(super) fn prepare_reader(
        &self,
        hello: &Hello,
        pid: Option<u32>,
    ) -> Result<(ReaderHandles, PendingReader)> {
        let cursor = SharedMemory::new("stripline-cursor", PAGE)?;
        cursor.seal_size()?;
        let [notify, doorbell] = (self.doorbells)()?;
        // Relaxed: the numbers need only differ.
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        let mode = match hello.overflow {
            // The depth in frames is one more than the packets: the description of the stream may
            // be unread before them.
            Overflow::Block => Mode::Blocking { depth: hello.checked_watermarks().high() + 1 },
            Overflow::DropOldest | Overflow::DropNewest | Overflow::Eject => Mode::Lossy,
        };
        let (page, sleepers) = self.sleepers_of(pid)?;
        let cursor_page = Arc::new(CursorPage::map(&cursor, self.locked)?);
        self.readers.add(token, hello, pid, &cursor_page);
        let pending = PendingReader {
            token,
            connection: hello.connection.clone(),
            cursor: cursor_page,
            sleepers: page,
            doorbell: notify,
            mode,
            low: hello.checked_watermarks().low(),
            membarrier: hello.membarrier,
            peer: None,
            moves: hello.moves,
            stopped: None,
        };
        Ok((ReaderHandles { token, cursor, sleepers, doorbell }, pending))
    }

    /// Queues a receiver, which is attached before the next packet is published. `welcome` sends
    /// the handles to the receiver.
    ///
    /// Neither side may proceed before the other can. A receiver that was welcomed must miss no
    /// packet, so it is announced first. A writer must not count a receiver that dies before the
    /// welcome, so the lock is held until the welcome is sent.
    pub(super) fn queue_reader<E>(
        &self,
        mut pending: PendingReader,
        welcome: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if !pending.moves {
            pending.stopped = self.former_paths.take(&pending.connection);
        }
        let mut changes = self.changes();
        // Release: see `signal_change`.
        self.changed.store(true, Ordering::Release);
        let outcome = welcome();
        match outcome {
            Ok(()) => changes.added.push(pending),
            Err(_) if pending.stopped.is_some() => changes.add_unmet(pending),
            Err(_) => return outcome,
        }
        self.signal_change(changes);
        outcome
    }

    /// Returns the word that the receivers of one process share. The process id may be reused while
    /// a receiver of the old process still exists. In this case both processes, which have the same
    /// user, share the word. Neither process can do more harm with it than to its own receivers.
    fn sleepers_of(&self, pid: Option<u32>) -> Result<(SleepersPage, Arc<SharedMemory>)> {
        let mut known = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, shared| shared.page.strong_count() > 0);
        if let Some(shared) = known.get(&pid)
            && let Some(page) = shared.page.upgrade()
        {
            return Ok((SleepersPage(page), Arc::clone(&shared.memory)));
        }
        let memory = SharedMemory::new("stripline-sleepers", PAGE)?;
        memory.seal_size()?;
        let (page, memory) = (Arc::new(memory.map()?), Arc::new(memory));
        let shared = SharedSleepers { memory: Arc::clone(&memory), page: Arc::downgrade(&page) };
        known.insert(pid, shared);
        Ok((SleepersPage(page), memory))
    }

    /// Records that a receiver is gone. A receiver that was not attached yet leaves at most a name
    /// behind, even if the writer never checks again.
    pub(super) fn remove_reader(&self, token: u64) {
        self.readers.remove(token);
        let mut changes = self.changes();
        match changes.added.iter().position(|pending| pending.token == token) {
            Some(index) => {
                let pending = changes.added.remove(index);
                if !pending.cursor.has_left() {
                    changes.add_unmet(pending);
                }
            }
            None => changes.removed.push(token),
        }
        self.signal_change(changes);
    }

    fn signal_change(&self, changes: MutexGuard<'_, Changes>) {
        drop(changes);
        // Release: the writer that sees the flag takes the lock, which orders the rest.
        self.changed.store(true, Ordering::Release);
        // A writer may be waiting for the space that a dead receiver holds.
        self.space_notify.notify();
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        // Entries are valid even if the last holder panicked.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attention for RingShared {
    fn request_attention(&self) {
        // Release: see `signal_change`. A writer that waits for room gets the request later.
        self.changed.store(true, Ordering::Release);
    }
}

/// A reader's registration. The reader is removed at the latest when the registration is dropped.
pub(super) struct ReaderRegistration {
    shared: Arc<RingShared>,
    token: u64,
}

impl ReaderRegistration {
    pub(super) fn new(shared: &Arc<RingShared>, token: u64) -> Self {
        Self { shared: Arc::clone(shared), token }
    }

    pub(super) fn remove(&self) {
        self.shared.remove_reader(self.token);
    }
}

impl Drop for ReaderRegistration {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::futex::ParkWaker;
    use super::*;

    /// Checks the state that a sender leaves behind if it is killed in the middle of a wake-up.
    #[test]
    fn the_alarm_wakes_whom_a_dead_sender_has_half_woken() {
        let memory = SharedMemory::new("stripline-cursor", PAGE).unwrap();
        let (ours, theirs) =
            (CursorPage::map(&memory, false).unwrap(), CursorPage::map(&memory, false).unwrap());
        ours.park_word().store(Cursor::PARKED, Ordering::Relaxed);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                while futex::wait(ours.park_word(), Cursor::PARKED, None).is_ok()
                    && ours.park_word().load(Ordering::Relaxed) == Cursor::PARKED
                {}
            });
            let state = format!("/proc/self/task/{}/stat", told.recv().unwrap());
            while !std::fs::read_to_string(&state).unwrap().contains(") S ") {
                std::thread::yield_now();
            }
            theirs.park_word().store(0, Ordering::Relaxed);
            theirs.wake();
        });
    }
}
