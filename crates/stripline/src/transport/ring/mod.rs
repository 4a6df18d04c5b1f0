//! The memory ring, shared by the transports `inproc` and `shm`: one sealed memfd per sending port, mapped
//! twice in a row, and one small page per receiver for its cursor.
//!
//! ```text
//! ring memfd:   | Control page (4096) | ring (capacity) |   mapped as | Control | ring | ring again |
//! cursor memfd: | Cursor page (4096) |                      written by both, believed by neither
//! ```
//!
//! Descriptors and names: nothing of this is visible in the file system, and all of it is gone with the last
//! process that uses it.

mod inlet;
mod outlet;

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stripline_ring::{Control, Cursor, Mode};

pub(super) use inlet::{Bells, RingInlet, Tie};
pub(super) use outlet::RingOutlet;

use crate::error::Result;
use crate::link::Overflow;
use crate::sys::doorbell::Doorbell;
use crate::sys::memory::{Mapping, PAGE, SharedMemory};

use super::handshake::Hello;

/// The most connections whose position is remembered after their receiver left.
const DEPARTED_MAX: usize = 1024;

/// The mapped ring; whoever uses its addresses holds it.
pub(super) struct RingMemory {
    mapping: Mapping,
    pub capacity: usize,
}

impl RingMemory {
    pub(super) fn new(mapping: Mapping, capacity: usize) -> Self {
        Self { mapping, capacity }
    }

    fn control(&self) -> NonNull<Control> {
        self.mapping.start().cast()
    }

    fn data(&self) -> NonNull<u8> {
        self.mapping.at(PAGE)
    }
}

/// A receiver's mapped cursor page.
pub(super) struct CursorPage(pub Mapping);

impl CursorPage {
    fn cursor(&self) -> NonNull<Cursor> {
        self.0.start().cast()
    }
}

/// A receiver on its way in.
struct Arrival {
    token: u64,
    connection: String,
    cursor: CursorPage,
    bell: Doorbell,
    mode: Mode,
}

#[derive(Default)]
struct Changes {
    arrivals: Vec<Arrival>,
    departures: Vec<u64>,
    /// By connection: the sequence number after the last packet its receiver had taken.
    departed: HashMap<String, u64>,
}

/// What the sending port's thread shares with those who bring receivers.
pub(super) struct Lobby {
    pub capacity: usize,
    pub memory: SharedMemory,
    /// Wakes the writer when it waits for space.
    pub space: Doorbell,
    tokens: AtomicU64,
    changed: AtomicBool,
    changes: Mutex<Changes>,
}

/// What a receiver needs from the lobby to read.
pub(super) struct Ticket {
    pub token: u64,
    pub cursor: SharedMemory,
    pub bell: Doorbell,
    pub resume_from: Option<u64>,
}

impl Lobby {
    fn new(memory: SharedMemory, capacity: usize) -> Result<Self> {
        Ok(Self {
            capacity,
            memory,
            space: Doorbell::new()?,
            tokens: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            changes: Mutex::default(),
        })
    }

    /// Queues a receiver: it is attached before the next packet is published.
    pub(super) fn enter(&self, hello: &Hello) -> Result<Ticket> {
        let cursor = SharedMemory::new("stripline-cursor", PAGE)?;
        cursor.seal_size()?;
        let bell = Doorbell::new()?;
        // Relaxed: the numbers need only differ.
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        let mode = match hello.overflow {
            Overflow::Block => Mode::Blocking { depth: hello.depth },
            Overflow::DropOldest | Overflow::DropNewest | Overflow::Eject => Mode::Lossy,
        };
        let page = CursorPage(cursor.map()?);
        let arrival =
            Arrival { token, connection: hello.connection.clone(), cursor: page, bell: bell.clone(), mode };
        let mut changes = self.changes();
        let resume_from = changes.departed.get(&hello.connection).copied();
        changes.arrivals.push(arrival);
        self.announce(changes);
        Ok(Ticket { token, cursor, bell, resume_from })
    }

    /// A receiver is gone.
    pub(super) fn leave(&self, token: u64) {
        let mut changes = self.changes();
        changes.departures.push(token);
        self.announce(changes);
    }

    fn announce(&self, changes: MutexGuard<'_, Changes>) {
        drop(changes);
        // Release: the writer that sees the flag takes the lock, which orders the rest.
        self.changed.store(true, Ordering::Release);
        // A writer may be waiting for the space that a dead receiver holds.
        self.space.ring();
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        // Whoever panicked with the lock left whole entries behind.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
