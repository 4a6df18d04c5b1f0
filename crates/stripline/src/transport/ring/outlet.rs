//! The sending side of the ring transports.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stripline_ring::{ReaderId, ReserveError, Writer};

use super::{CursorPage, DEPARTED_MAX, Lobby, RingMemory};
use crate::error::{Error, Result};
use crate::packet::Header;
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::memory::{PAGE, SharedMemory};
use crate::transport::{Bind, Endpoint, Outlet, Stop, Wait};

/// A ring and its receivers.
pub(in crate::transport) struct RingOutlet {
    // Dropped in this order: the writer before the memory it writes; the door before the lobby it fills.
    writer: Writer,
    readers: Vec<Attached>,
    _door: Box<dyn Send>,
    lobby: Arc<Lobby>,
    memory: Arc<RingMemory>,
    endpoint: Endpoint,
    stop: Stop,
    port: String,
}

struct Attached {
    id: ReaderId,
    token: u64,
    connection: String,
    bell: Doorbell,
    lossy: bool,
    // Keeps the page mapped while the writer holds its address.
    _cursor: CursorPage,
}

impl RingOutlet {
    /// Allocates the ring. `open` makes the way in (a socket, or an entry in a table) that is closed when what
    /// it returns is dropped.
    pub(in crate::transport) fn new<D: Send + 'static>(
        request: Bind,
        endpoint: Endpoint,
        open: impl FnOnce(Arc<Lobby>) -> Result<D>,
    ) -> Result<Self> {
        let capacity = request.buffer as usize;
        let shared = SharedMemory::new("stripline-ring", PAGE + capacity)?;
        let memory = Arc::new(RingMemory::new(shared.map_mirrored(true)?, capacity));
        shared.seal_read_only()?;
        let lobby = Arc::new(Lobby::new(shared, capacity)?);
        // SAFETY: the mapping is fresh (zero), mirrored, of `capacity` ring bytes, lives in `memory` as long as
        // the writer, and this is the only writer: later writable mappings are sealed off.
        let writer = unsafe { Writer::new(memory.control(), memory.data(), capacity) };
        let door = Box::new(open(Arc::clone(&lobby))?);
        Ok(Self {
            writer,
            readers: Vec::new(),
            _door: door,
            lobby,
            memory,
            endpoint,
            stop: request.stop,
            port: request.port,
        })
    }

    fn detach(&mut self, index: usize) {
        let reader = self.readers.swap_remove(index);
        if let Some(sequence) = self.next_unread(reader.id) {
            let mut changes = self.lobby.changes();
            if changes.departed.len() < DEPARTED_MAX || changes.departed.contains_key(&reader.connection) {
                changes.departed.insert(reader.connection, sequence);
            }
        }
        self.writer.detach(reader.id);
    }

    /// The sequence number of the first packet that a reader has not released.
    fn next_unread(&self, reader: ReaderId) -> Option<u64> {
        let (position, _) = self.writer.released(reader)?;
        let head = self.writer.position();
        if position >= head {
            return None;
        }
        let offset = position as usize % self.memory.capacity;
        // SAFETY: the frame at `position` is published and, being unread by a blocking reader, not overwritten
        // (for a lossy one the number may be garbage-free but newer: this thread is the only writer, so the
        // bytes are stable now). A frame has a 16-byte ring header and then ours, all within the mirror.
        let header = unsafe {
            let at = self.memory.data().as_ptr().add(offset + 16);
            std::slice::from_raw_parts(at, crate::packet::HEADER_BYTES)
        };
        Header::read(header).map(|header| header.sequence)
    }

    /// Throws out a reader that broke the rules.
    fn expel(&mut self, id: ReaderId, deed: &str) {
        if let Some(index) = self.readers.iter().position(|reader| reader.id == id) {
            let connection = self.readers[index].connection.clone();
            eprintln!("stripline: {}", Error::misbehaved(connection, deed));
            let reader = self.readers.swap_remove(index);
            self.writer.detach(reader.id);
            reader.bell.ring();
        }
    }

    fn connection_of(&self, id: ReaderId) -> String {
        let found = self.readers.iter().find(|reader| reader.id == id);
        found.map_or_else(|| self.port.clone(), |reader| reader.connection.clone())
    }

    /// Sleeps until a reader has made space, a reader came or went, or the wait is over.
    fn sleep(&mut self, slowest: ReaderId, wait: Wait) -> Result<()> {
        if matches!(wait, Wait::Never) {
            return Err(Error::Full { connection: self.connection_of(slowest) });
        }
        let mut sleep = Sleep::default();
        sleep.readable(self.lobby.space.as_fd());
        if wait.heeds_stop() {
            sleep.readable(self.stop.bell().as_fd());
        }
        let fired = sleep.until(wait.deadline())?;
        self.lobby.space.quiet();
        if !fired {
            return Err(Error::Full { connection: self.connection_of(slowest) });
        }
        Ok(())
    }

    /// Makes room; on return `writer` holds a reservation.
    fn make_room(&mut self, bytes: usize, wait: Wait) -> Result<()> {
        let mut waiting = false;
        let outcome = loop {
            self.admit();
            if wait.heeds_stop() && self.stop.is_stopped() {
                break Err(Error::Stopped);
            }
            match self.writer.try_reserve(bytes).map(|_| ()) {
                Ok(()) => break Ok(()),
                Err(ReserveError::TooLarge { max }) => {
                    break Err(Error::TooLarge { bytes, bytes_max: max });
                }
                Err(ReserveError::Misbehaved { reader, deed }) => self.expel(reader, &deed.to_string()),
                Err(ReserveError::Full { slowest }) => {
                    if !waiting {
                        waiting = true;
                        // Announce first, look once more, then sleep: a release in between rings the bell.
                        self.writer.wait_for_space_begin();
                    } else if let Err(error) = self.sleep(slowest, wait) {
                        break Err(error);
                    } else {
                        self.writer.wait_for_space_begin();
                    }
                }
                Err(error) => break Err(Error::failed(error)),
            }
        };
        if waiting {
            self.writer.wait_for_space_end();
        }
        outcome
    }
}

impl Outlet for RingOutlet {
    fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    fn frame_max(&self) -> usize {
        stripline_ring::max_frame(self.memory.capacity)
    }

    fn receivers(&self) -> usize {
        self.readers.len()
    }

    fn is_lossy(&self) -> bool {
        self.readers.iter().any(|reader| reader.lossy)
    }

    fn admit(&mut self) -> bool {
        // Relaxed first: a plain load on the hot path. Acquire only orders what the lock orders anyway.
        if !self.lobby.changed.load(Ordering::Relaxed) {
            return false;
        }
        self.lobby.changed.swap(false, Ordering::Acquire);
        let (arrivals, departures) = {
            let mut changes = self.lobby.changes();
            (std::mem::take(&mut changes.arrivals), std::mem::take(&mut changes.departures))
        };
        let arrived = !arrivals.is_empty();
        for arrival in arrivals {
            // SAFETY: the page is fresh, of a Cursor's size, and stays mapped in `_cursor` until detached.
            let id = unsafe { self.writer.attach(arrival.cursor.cursor(), arrival.mode) };
            self.readers.push(Attached {
                id,
                token: arrival.token,
                connection: arrival.connection,
                bell: arrival.bell,
                lossy: matches!(arrival.mode, stripline_ring::Mode::Lossy),
                _cursor: arrival.cursor,
            });
        }
        for token in departures {
            if let Some(index) = self.readers.iter().position(|reader| reader.token == token) {
                self.detach(index);
            }
        }
        arrived
    }

    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]> {
        // The first try is the hot path: no flag raised, nobody told.
        match self.writer.try_reserve(bytes).map(|_| ()) {
            Ok(()) => {}
            Err(_) => self.make_room(bytes, wait)?,
        }
        Ok(self.writer.reserved())
    }

    fn reserved(&mut self) -> &mut [u8] {
        self.writer.reserved()
    }

    fn publish(&mut self, bytes: usize, _: Wait) -> Result<()> {
        self.writer.publish(bytes);
        let readers = &self.readers;
        self.writer.for_each_sleeper(|id| {
            if let Some(reader) = readers.iter().find(|reader| reader.id == id) {
                reader.bell.ring();
            }
        });
        Ok(())
    }

    fn cancel(&mut self) {
        self.writer.cancel();
    }

    fn flush(&mut self, _: Wait) -> Result<()> {
        // Published is in the readers' memory already.
        Ok(())
    }
}

impl Drop for RingOutlet {
    fn drop(&mut self) {
        self.admit();
        self.writer.close();
        self.readers.iter().for_each(|reader| reader.bell.ring());
    }
}
