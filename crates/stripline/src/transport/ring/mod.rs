//! The memory ring, shared by the transports `inproc` and `shm`: one sealed memfd per sending port, mapped
//! twice in a row, and one small page per receiver for its cursor.
//!
//! ```text
//! ring memfd:   | Control page (4096) | ring (capacity) |   mapped as | Control | ring | ring again |
//!               (of huge pages: the first of them)
//! cursor memfd: | Cursor page (4096) |                      written by both, believed by neither
//! sleepers memfd: one word for all receivers in one process, likewise
//! ```
//!
//! The second half of the cursor page holds what the sender says to this receiver alone, before its first frame:
//! where it goes on if it came back, and the number and sample of that first frame; and behind it what the receiver
//! answers (`answers.rs`).
//!
//! Descriptors and names: nothing of this is visible in the file system, and all of it is gone with the last
//! process that uses it.

mod answers;
mod confirm;
mod inlet;
mod outlet;
mod sign;

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use stripline_ring::{Control, Cursor, Mode, Sleepers};

#[cfg(test)]
pub(super) use answers::judge;
pub(super) use inlet::{Bells, Pages, RingInlet, Tie};
pub(super) use outlet::RingOutlet;

use crate::error::Result;
use crate::link::Overflow;
use crate::packet::Header;
use crate::sys::doorbell::{Doorbell, Foundry};
use crate::sys::futex;
use crate::sys::memory::{Mapping, PAGE, SharedMemory};
use crate::sys::socket::Socket;

use super::handshake::Hello;

/// The most connections whose position is remembered after their receiver left.
const DEPARTED_MAX: usize = 1024;

/// Where in the cursor page the sender's words lie.
const WORDS_OFFSET: usize = PAGE / 2;
const _: () = assert!(size_of::<Cursor>() <= WORDS_OFFSET);

/// What the sender says to one receiver. Zeroed: nothing yet. Numbers are stored plus 1, so that 0 is none.
#[repr(C)]
struct Words {
    resume_from: AtomicU64,
    first_sequence: AtomicU64,
    first_sample: AtomicU64,
}

/// The mapped ring; whoever uses its addresses holds it.
pub(super) struct RingMemory {
    mapping: Mapping,
    /// Bytes of a page, the first of which is the control page.
    page: usize,
    pub capacity: usize,
}

impl RingMemory {
    /// Maps the memory of a ring, locked if asked.
    pub(super) fn map(memory: &SharedMemory, capacity: usize, writable: bool, locked: bool) -> Result<Self> {
        let mapping = memory.map_mirrored(writable)?;
        if locked {
            mapping.lock()?;
        }
        Ok(Self { mapping, page: memory.page(), capacity })
    }

    fn control(&self) -> NonNull<Control> {
        self.mapping.start().cast()
    }

    fn data(&self) -> NonNull<u8> {
        self.mapping.at(self.page)
    }
}

/// A receiver's mapped cursor page.
pub(super) struct CursorPage(Mapping);

impl CursorPage {
    /// Maps a cursor, locked if its ring is.
    pub(super) fn map(memory: &SharedMemory, locked: bool) -> Result<Self> {
        let mapping = memory.map()?;
        if locked {
            mapping.lock()?;
        }
        Ok(Self(mapping))
    }

    fn cursor(&self) -> NonNull<Cursor> {
        self.0.start().cast()
    }

    // Relaxed throughout: the sender stores the words before it publishes the receiver's first frame, and the
    // receiver loads them after it has seen a frame.

    /// The sequence number after the last packet that the connection's previous receiver had taken.
    fn resume_from(&self) -> Option<u64> {
        self.words().resume_from.load(Ordering::Relaxed).checked_sub(1)
    }

    fn set_resume_from(&self, sequence: u64) {
        self.words().resume_from.store(sequence.saturating_add(1), Ordering::Relaxed);
    }

    /// Sequence number and sample index of the first frame that was published for this receiver.
    fn first_sent(&self) -> Option<(u64, u64)> {
        let first = self.words().first_sequence.load(Ordering::Relaxed).checked_sub(1)?;
        Some((first, self.words().first_sample.load(Ordering::Relaxed)))
    }

    fn set_first_sent(&self, header: &Header) {
        self.words().first_sample.store(header.sample_index, Ordering::Relaxed);
        self.words().first_sequence.store(header.sequence.saturating_add(1), Ordering::Relaxed);
    }

    /// What the receiver naps on.
    fn word(&self) -> &AtomicU32 {
        // SAFETY: mapped as long as `self`, and atomics only, for both sides.
        unsafe { self.cursor().as_ref() }.word()
    }

    /// Wakes the receiver if it naps, after what it is woken for has been made known.
    pub(super) fn end_nap(&self) -> bool {
        // SAFETY: as above.
        let naps = unsafe { self.cursor().as_ref() }.end_nap();
        if naps {
            futex::wake(self.word());
        }
        naps
    }

    fn words(&self) -> &Words {
        // SAFETY: within the page, aligned, mapped as long as `self`, and atomics only, for both sides.
        unsafe { self.0.at(WORDS_OFFSET).cast::<Words>().as_ref() }
    }
}

impl futex::Alarm for CursorPage {
    fn raise(&self) {
        if !self.end_nap() {
            // A sender that was killed between taking the announcement back and waking has left a receiver asleep that
            // does not look so any more.
            futex::wake(self.word());
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

/// A receiver on its way in.
pub(super) struct Arrival {
    token: u64,
    connection: String,
    cursor: Arc<CursorPage>,
    sleepers: SleepersPage,
    bell: Doorbell,
    mode: Mode,
    low: u32,
    pub barriers: bool,
    /// What is closed when it breaks the rules, if it is in another process.
    pub tie: Option<Socket>,
}

#[derive(Default)]
struct Changes {
    arrivals: Vec<Arrival>,
    departures: Vec<u64>,
    /// Connections of receivers that were killed before they were let in.
    unmet: Vec<String>,
}

/// What the sending port's thread shares with those who bring receivers.
pub(super) struct Lobby {
    pub capacity: usize,
    pub memory: SharedMemory,
    /// Whether every side locks its mapping.
    pub locked: bool,
    /// Whether the writer runs a barrier on all processors before it sleeps.
    pub barriers: bool,
    /// Wakes the writer when it waits for space: what it sleeps on, and what is rung.
    pub space: Doorbell,
    pub space_rope: Doorbell,
    /// How bells are made that reach its readers.
    bells: Foundry,
    tokens: AtomicU64,
    changed: AtomicBool,
    changes: Mutex<Changes>,
    roster: sign::Roster,
    /// By the receivers' process.
    sleepers: Mutex<HashMap<Option<u32>, SharedSleepers>>,
}

/// The page of one process's receivers, as long as one of them is there.
struct SharedSleepers {
    memory: Arc<SharedMemory>,
    page: Weak<Mapping>,
}

/// What a receiver needs from the lobby to read.
pub(super) struct Ticket {
    pub token: u64,
    pub cursor: SharedMemory,
    pub sleepers: Arc<SharedMemory>,
    pub bell: Doorbell,
}

impl Lobby {
    fn new(
        memory: SharedMemory,
        capacity: usize,
        locked: bool,
        barriers: bool,
        bells: Foundry,
    ) -> Result<Self> {
        let [space_rope, space] = bells()?;
        Ok(Self {
            capacity,
            memory,
            locked,
            barriers,
            space,
            space_rope,
            bells,
            tokens: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            changes: Mutex::default(),
            roster: sign::Roster::default(),
            sleepers: Mutex::default(),
        })
    }

    /// Makes what a receiver needs, of that process if it is known.
    pub(super) fn prepare(&self, hello: &Hello, pid: Option<u32>) -> Result<(Ticket, Arrival)> {
        let cursor = SharedMemory::new("stripline-cursor", PAGE)?;
        cursor.seal_size()?;
        let [rope, bell] = (self.bells)()?;
        // Relaxed: the numbers need only differ.
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        let mode = match hello.overflow {
            // One frame more than packets: the description of the stream may lie unread before them.
            Overflow::Block => Mode::Blocking { depth: hello.marks().high() + 1 },
            Overflow::DropOldest | Overflow::DropNewest | Overflow::Eject => Mode::Lossy,
        };
        let (page, sleepers) = self.sleepers_of(pid)?;
        let cursor_page = Arc::new(CursorPage::map(&cursor, self.locked)?);
        self.roster.enter(token, hello, pid, &cursor_page);
        let arrival = Arrival {
            token,
            connection: hello.connection.clone(),
            cursor: cursor_page,
            sleepers: page,
            bell: rope,
            mode,
            low: hello.marks().low(),
            barriers: hello.barriers,
            tie: None,
        };
        Ok((Ticket { token, cursor, sleepers, bell }, arrival))
    }

    /// Queues a receiver: it is attached before the next packet is published. `welcome` hands it what it needs, and
    /// neither side may go on before the other can: a receiver that has been welcomed misses no packet, so it is
    /// announced first; and a writer that counts on it has sent nothing into the void if it dies, so it finds the
    /// lobby locked until the welcome is said.
    pub(super) fn enter<E>(
        &self,
        arrival: Arrival,
        welcome: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut changes = self.changes();
        // Release: as in `announce`.
        self.changed.store(true, Ordering::Release);
        welcome()?;
        changes.arrivals.push(arrival);
        self.announce(changes);
        Ok(())
    }

    /// The word that the receivers of one process share. Should the number come to mean another process of the same
    /// user while a receiver of the old one is still here, the two share the word: no harm between them is possible
    /// that one could not do to its own.
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

    /// A receiver is gone. One that was not let in yet leaves at most its name behind, even if the writer never looks again.
    pub(super) fn leave(&self, token: u64) {
        self.roster.leave(token);
        let mut changes = self.changes();
        match changes.arrivals.iter().position(|arrival| arrival.token == token) {
            Some(index) => {
                let Arrival { connection, cursor, .. } = changes.arrivals.remove(index);
                let is_new = changes.unmet.len() < DEPARTED_MAX && !changes.unmet.contains(&connection);
                if is_new && !cursor.has_left() {
                    changes.unmet.push(connection);
                }
            }
            None => changes.departures.push(token),
        }
        self.announce(changes);
    }

    fn announce(&self, changes: MutexGuard<'_, Changes>) {
        drop(changes);
        // Release: the writer that sees the flag takes the lock, which orders the rest.
        self.changed.store(true, Ordering::Release);
        // A writer may be waiting for the space that a dead receiver holds.
        self.space_rope.ring();
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        // Whoever panicked with the lock left whole entries behind.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's presence in a lobby; it leaves at the latest when this is dropped.
pub(super) struct Presence {
    lobby: Arc<Lobby>,
    token: u64,
}

impl Presence {
    pub(super) fn new(lobby: &Arc<Lobby>, token: u64) -> Self {
        Self { lobby: Arc::clone(lobby), token }
    }

    pub(super) fn leave(&self) {
        self.lobby.leave(self.token);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::futex::Alarm;
    use super::*;

    /// What a sender that is killed in the middle of waking leaves behind.
    #[test]
    fn the_alarm_wakes_whom_a_dead_sender_has_half_woken() {
        let memory = SharedMemory::new("stripline-cursor", PAGE).unwrap();
        let (ours, theirs) =
            (CursorPage::map(&memory, false).unwrap(), CursorPage::map(&memory, false).unwrap());
        ours.word().store(Cursor::NAPPING, Ordering::Relaxed);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                while futex::wait(ours.word(), Cursor::NAPPING, None).is_ok()
                    && ours.word().load(Ordering::Relaxed) == Cursor::NAPPING
                {}
            });
            let state = format!("/proc/self/task/{}/stat", told.recv().unwrap());
            while !std::fs::read_to_string(&state).unwrap().contains(") S ") {
                std::thread::yield_now();
            }
            theirs.word().store(0, Ordering::Relaxed);
            theirs.raise();
        });
    }
}
