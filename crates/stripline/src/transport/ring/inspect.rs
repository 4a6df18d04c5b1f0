//! The inspection view of a port on a ring. All values are read from the pages of the ring, which
//! the port keeps for its readers in any case.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use stripline_ring::{Lag, Snapshot};

use super::{CursorPage, RingMemory, RingShared};
use crate::inspect::{self, InspectPort, PortSnapshot, Reader, RegistryGuard, SendingPort};
use crate::packet::{HEADER_BYTES, Kind};
use crate::transport::handshake::Hello;
use crate::transport::{BindRequest, Endpoint};

/// The attempts to read a value that changes all the time.
const ATTEMPTS: usize = 8;
/// The bytes of the ring's header before the packet header. Together they fill the first line of a
/// frame.
const RING_HEADER: usize = stripline_ring::HEADER;
const _: () = assert!(RING_HEADER + HEADER_BYTES <= stripline_ring::LINE);

/// The readers of a port, including readers that the port's thread has not attached yet.
#[derive(Default)]
pub(super) struct ReaderList(Mutex<Vec<ReaderEntry>>);

struct ReaderEntry {
    token: u64,
    /// The constant part.
    reader: Reader,
    /// Invalid once the reader is gone.
    page: Weak<CursorPage>,
}

impl ReaderList {
    pub(super) fn add(&self, token: u64, hello: &Hello, pid: Option<u32>, page: &Arc<CursorPage>) {
        let mut entries = self.entries();
        entries.retain(|entry| entry.page.strong_count() > 0);
        let reader = Reader { pid, ..hello.reader() };
        entries.push(ReaderEntry { token, reader, page: Arc::downgrade(page) });
    }

    pub(super) fn remove(&self, token: u64) {
        self.entries().retain(|entry| entry.token != token);
    }

    fn entries(&self) -> MutexGuard<'_, Vec<ReaderEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The port as inspection shows it.
pub(super) struct RingPortView {
    /// The constant part.
    port: SendingPort,
    shared: Arc<RingShared>,
    memory: Arc<RingMemory>,
    _registered: RegistryGuard,
}

impl RingPortView {
    pub(super) fn register(
        request: &BindRequest,
        endpoint: &Endpoint,
        shared: &Arc<RingShared>,
        memory: &Arc<RingMemory>,
    ) -> Arc<Self> {
        let view = Arc::new(Self {
            port: request.inspection(endpoint),
            shared: Arc::clone(shared),
            memory: Arc::clone(memory),
            _registered: RegistryGuard,
        });
        inspect::register(&view);
        view
    }

    fn ring(&self) -> Option<Snapshot> {
        // SAFETY: the page is mapped as long as `memory`, and all words in it are atomics.
        unsafe { self.memory.control().as_ref() }.snapshot()
    }

    /// Returns the number of packets published.
    fn packets(&self) -> Option<u64> {
        for _ in 0..ATTEMPTS {
            let newest = self.ring()?.newest;
            let Some(position) = newest else { return Some(0) };
            let (sequence, kind) = self.header_at(position);
            // The newest frame lasts until the frame after the next one is written. If it is still
            // the newest frame, the header was read correctly. The fence keeps this check after the
            // reads.
            fence(Ordering::Acquire);
            if self.ring()?.newest == newest {
                return Some(sequence.saturating_add(u64::from(kind == Kind::Data as u8)));
            }
        }
        None
    }

    /// Returns the sequence number and kind of the frame at `position`. The caller must check that
    /// the frame was not overwritten in the meantime.
    fn header_at(&self, position: u64) -> (u64, u8) {
        let line = (position as usize % self.memory.capacity) & !(stripline_ring::LINE - 1);
        let word = |at: usize| {
            // SAFETY: this is a line below the capacity, and an aligned word of the packet header
            // in it. The load is atomic, because the writer may be storing there. With the writer's
            // plain stores this is the race of every lossy reader, see the ring.
            unsafe { self.memory.data().add(line + RING_HEADER + at).cast::<AtomicU64>().as_ref() }
                .load(Ordering::Relaxed)
        };
        // The second word of the header: length u32, stream u16, kind u8, flags u8.
        (word(0), word(8).to_ne_bytes()[6])
    }

    fn reader(&self, entry: &ReaderEntry, packets: Option<u64>) -> Option<(Reader, Option<Lag>)> {
        let page = entry.page.upgrade()?;
        // SAFETY: the page is mapped as long as it is held, and all words in it are atomics.
        let snapshot = || unsafe { page.cursor().as_ref() }.snapshot();
        let cursor = snapshot();
        let lag = self.ring().and_then(|ring| cursor.lag(&ring));
        let mut lag_packets = lag.map(|lag| lag.frames);
        if let (true, Some(lag), Some(packets)) = (entry.reader.blocks(), lag, packets)
            && lag.bytes > 0
        {
            // Frames are packets and descriptions; the sequence number of the first unread frame
            // counts packets. No frame overwrites it before the reader has moved on.
            let (first, _) = self.header_at(cursor.position);
            fence(Ordering::Acquire);
            if snapshot().position == cursor.position {
                lag_packets = Some(packets.saturating_sub(first));
            }
        }
        let reader = Reader {
            attached: cursor.attached,
            position: cursor.attached.then_some(cursor.position),
            lag_packets,
            lag_bytes: lag.map(|lag| lag.bytes),
            sleeps: Some(cursor.sleeping),
            room_waited_ns: page.waits.room.total_ns(),
            answer_awaited: page.waits.ack.is_running(),
            answer_waited_ns: page.waits.ack.total_ns(),
            ..entry.reader.clone()
        };
        Some((reader, lag))
    }
}

impl InspectPort for RingPortView {
    fn snapshot(&self) -> PortSnapshot {
        let mut port = self.port.clone();
        let entries = self.shared.readers.entries();
        port.packets = self.packets();
        let mut readers: Vec<(Reader, Option<Lag>, bool)> = entries
            .iter()
            .filter_map(|entry| {
                let (reader, lag) = self.reader(entry, port.packets)?;
                // The frame limit is one more than the packets, as in the reader's mode.
                let high = reader.high_watermark.unwrap_or(reader.depth);
                let full = lag.is_some_and(|lag| lag.frames > u64::from(high));
                let full = full && reader.blocks();
                Some((reader, lag, full))
            })
            .collect();
        drop(entries);
        let ring = self.ring();
        port.position = ring.map(|ring| ring.position);
        // Relaxed: a momentary value. The ring's own word is set only while the writer sleeps.
        port.waits = self.shared.room_awaited.load(Ordering::Relaxed);
        if port.waits {
            // The writer waits for the readers with full queues. If no queue is full, the ring is
            // full, and the writer waits for the reader furthest behind.
            let furthest = readers
                .iter()
                .filter(|(reader, ..)| reader.blocks())
                .filter_map(|(_, lag, _)| lag.map(|lag| lag.bytes))
                .max();
            let any_full = readers.iter().any(|(.., full)| *full);
            for (reader, lag, full) in &mut readers {
                reader.waited_for = if any_full {
                    *full
                } else {
                    reader.blocks() && lag.is_some_and(|lag| lag.bytes > 0 && Some(lag.bytes) == furthest)
                };
            }
        }
        port.readers = readers.into_iter().map(|(reader, ..)| reader).collect();
        port.waits |= port.readers.iter().any(|reader| reader.answer_awaited);
        PortSnapshot::Sending(port)
    }
}
