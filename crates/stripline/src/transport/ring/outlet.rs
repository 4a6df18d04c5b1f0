//! The sending side of the ring transports.

use std::collections::HashMap;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stripline_ring::{ReaderId, ReserveError, Writer};

use super::inspect::RingPortView;
use super::{Attention, DEPARTED_MAX, PendingReader, RingMemory, RingShared};
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::flow::{AckState, AckWait};
use crate::packet::{HEADER_BYTES, Header, Kind, SampleSize};
use crate::sys::adaptive_spin::AdaptiveSpin;
use crate::sys::doorbell::{DoorbellFactory, PollSet};
use crate::sys::futex;
use crate::sys::membarrier;
use crate::sys::memory::SharedMemory;
use crate::sys::mutex::lock;
use crate::sys::socket::Socket;
use crate::terms::{Flow, LinkOptions, Overflow, Scope};
use crate::transport::former_paths::Stopped;
use crate::transport::{
    Admitted, Awaited, BindRequest, Capabilities, Departed, Departures, Endpoint, Flush, NextPacket, Outlet,
    OutletTraits, PortPosition, Prepared, Reach, StopToken, Wait,
};

/// The interval at which a writer that waits for room polls its readers even without a doorbell. A
/// reader that violates the protocol may not ring, and a hostile reader may break the doorbell for
/// the others.
pub(super) const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A ring and its receivers.
pub(crate) struct RingOutlet {
    // Dropped in this order: the writer before its memory; the listener before the shared state
    // that it fills.
    writer: Writer,
    pub(super) readers: Vec<AttachedReader>,
    /// The position at which the last receiver of each connection has stopped.
    departed: HashMap<String, Departed>,
    /// The position of the port when it last admitted receivers.
    admitted_at: PortPosition,
    /// The number of the first packet of the stream at that time.
    stream_start: u64,
    /// The size of the port's samples; `None`: unknown.
    sample_size: Option<SampleSize>,
    /// Whether there are readers for which nothing has been published yet.
    fresh: bool,
    listener: Option<Box<dyn Send>>,
    pub(in crate::transport) shared: Arc<RingShared>,
    memory: Arc<RingMemory>,
    endpoint: Endpoint,
    pub(super) stop: StopToken,
    pub(super) spinner: AdaptiveSpin,
    port: String,
    /// Whether the doorbell for space is broken.
    pub(super) doorbell_broken: bool,
    /// Whether the readers were asked to ring for space, for a wait elsewhere.
    is_armed: bool,
    /// The reader that must give room to the waiting writer.
    room_of: Option<ReaderId>,
    /// The first error of the wait for acknowledgements.
    pub(super) problem: Option<Error>,
    /// Held for inspection.
    _view: Arc<RingPortView>,
}

pub(super) struct AttachedReader {
    pub(super) id: ReaderId,
    pub(super) lossy: bool,
    /// Whether nothing has been published for the reader yet.
    fresh: bool,
    /// The start position that was sent to the reader.
    resumed: Option<PortPosition>,
    /// The number of the first packet for the reader, once there is one.
    first: Option<u64>,
    /// The acknowledgement that the sender waits for.
    pub(super) ack_wait: Option<AckWait>,
    // This field also keeps the pages mapped while the writer holds their addresses.
    reader: PendingReader,
}

impl Deref for AttachedReader {
    type Target = PendingReader;

    fn deref(&self) -> &PendingReader {
        &self.reader
    }
}

impl AttachedReader {
    /// Wakes the reader for another reason than a packet.
    fn wake(&self) {
        if !self.cursor.unpark() {
            self.doorbell.notify();
        }
    }

    /// Returns the error for the missing acknowledgement of this reader, now that it has left.
    /// `None`: the sender waits for no acknowledgement.
    fn final_ack(&self) -> Option<Error> {
        let ack_wait = self.ack_wait?;
        let state = match self.cursor.ack_state(&ack_wait) {
            AckState::Pending => AckState::PeerGone,
            state => state,
        };
        ack_wait.outcome(&self.connection, state)?.err()
    }
}

impl RingOutlet {
    /// The capabilities of the transports that share the ring.
    pub(in crate::transport) const CAPABILITIES: Capabilities = Capabilities {
        name: "",
        summary: "",
        reach: Reach::Process,
        copies: "none",
        depth: "packets in the ring",
        flows: &Flow::ALL,
        scopes: &Scope::ALL,
        overflows: &Overflow::ALL,
        ring: true,
        groups: true,
        trust: "",
        library: None,
    };

    /// Allocates the ring. `doorbells` makes the doorbells that reach the readers.
    pub(in crate::transport) fn new(
        request: BindRequest,
        endpoint: Endpoint,
        doorbells: DoorbellFactory,
    ) -> Result<Self> {
        let capacity = request.options.buffer as usize;
        let ring_memory = SharedMemory::ring("stripline-ring", capacity, request.options.huge_pages)?;
        let memory = Arc::new(RingMemory::map(&ring_memory, capacity, true, request.options.locked)?);
        fail_point!("create-memory");
        ring_memory.seal_read_only()?;
        fail_point!("create-sealed");
        let membarrier = membarrier::is_used_with(request.options.wait);
        let sample_size = request.sample_size();
        let (locked, former_paths) = (request.options.locked, request.former_paths.clone());
        let shared = RingShared::new(ring_memory, capacity, locked, membarrier, doorbells, former_paths)
            .map(Arc::new)?;
        let start = crate::fail_point::start();
        // SAFETY: the mapping is fresh (zero), mirrored, of `capacity` ring bytes, and lives in
        // `memory` as long as the writer. The writer is the only writer: later writable mappings
        // are sealed off.
        let writer =
            unsafe { Writer::with_start(memory.control(), memory.data(), capacity, start.0, start.1) };
        let view = RingPortView::register(&request, &endpoint, &shared, &memory);
        Ok(Self {
            writer,
            readers: Vec::new(),
            departed: HashMap::new(),
            admitted_at: PortPosition::default(),
            stream_start: 0,
            sample_size,
            fresh: false,
            listener: None,
            shared,
            memory,
            endpoint,
            stop: request.stop,
            spinner: AdaptiveSpin::new(request.options.wait),
            port: request.port,
            doorbell_broken: false,
            is_armed: false,
            room_of: None,
            problem: None,
            _view: view,
        })
    }

    /// Keeps the listener (a socket, or an entry in a table). The listener is closed when the
    /// outlet is dropped.
    pub(in crate::transport) fn hold(&mut self, listener: impl Send + 'static) {
        self.listener = Some(Box::new(listener));
        fail_point!("create-door");
    }

    /// Reserves like [`Outlet::try_reserve_fast`].
    #[inline(always)]
    pub(crate) fn try_reserve_fast(&mut self, bytes: usize) -> Option<&mut [u8]> {
        fail_point!("loan");
        // Relaxed: the lock that `admit` takes orders the rest.
        if self.shared.changed.load(Ordering::Relaxed) { None } else { self.writer.try_reserve_fast(bytes) }
    }

    /// Publishes like [`Outlet::publish`], and first writes `words` to the start of the frame. No
    /// receiver may be waiting for its first frame.
    #[inline(always)]
    pub(crate) fn publish_with<const WORDS: usize>(&mut self, bytes: usize, words: [u64; WORDS]) {
        debug_assert!(!self.fresh);
        fail_point!("publish");
        self.writer.publish_with(bytes, words);
        fail_point!("publish-committed");
        if self.writer.may_have_sleepers() {
            self.wake_sleepers();
        }
        fail_point!("publish-woken");
    }

    /// Publishes like [`RingOutlet::publish_with`], but leaves the count and the check for sleepers
    /// to [`RingOutlet::finish_publishing`]. No receiver may be lossy.
    #[inline(always)]
    pub(crate) fn publish_later_with<const WORDS: usize>(&mut self, bytes: usize, words: [u64; WORDS]) {
        debug_assert!(!self.fresh);
        fail_point!("publish");
        self.writer.publish_later_with(bytes, words);
        fail_point!("publish-committed");
    }

    /// Completes the publishing that [`RingOutlet::publish_later_with`] has begun.
    pub(crate) fn finish_publishing(&mut self) {
        if !self.writer.finish_publishing() {
            return;
        }
        if self.writer.may_have_sleepers() {
            self.wake_sleepers();
        }
        fail_point!("publish-woken");
    }

    fn detach(&mut self, index: usize) {
        fail_point!("writer-detach");
        let reader = self.readers.swap_remove(index);
        if let Some(problem) = reader.final_ack() {
            self.problem.get_or_insert(problem);
        }
        let next = self.next_unread(reader.id);
        let has_taken = next.zip(reader.first).is_some_and(|(next, first)| next.sequence > first);
        let start = if has_taken { None } else { reader.resumed.or(next) };
        let departed = next.map(|at| Departed { at, start });
        self.writer.detach(reader.id);
        // After a goodbye, the next reader of this connection is a new one.
        if !reader.cursor.has_left() {
            self.remember(&reader.connection, departed);
        }
    }

    fn remember(&mut self, connection: &str, departed: Option<Departed>) {
        if let Some(departed) = departed
            && (self.departed.len() < DEPARTED_MAX || self.departed.contains_key(connection))
        {
            self.departed.insert(connection.into(), departed);
        }
    }

    /// Returns the place of the first packet that a reader has not released, whether it was sent or
    /// not. A reader that was overtaken loses packets by its own policy. In this case, the place of
    /// the next packet is returned.
    fn next_unread(&self, reader: ReaderId) -> Option<PortPosition> {
        let (position, _) = self.writer.released(reader)?;
        let head = self.writer.position();
        if position < head && head - position <= self.memory.capacity as u64 {
            let sequence = self.header_at(position)?.sequence;
            return Some(PortPosition { sequence, sample: self.sample_at(position) });
        }
        self.next_position()
    }

    /// Returns the place of the next packet to be sent.
    fn next_position(&self) -> Option<PortPosition> {
        Some(PortPosition { sequence: self.next_sequence()?, sample: self.sample_at(self.writer.position()) })
    }

    /// Returns the sample index of the packet with a frame at `position` in the ring. Short headers
    /// carry no index: their samples are counted up to the first frame with an index, or up to the
    /// next packet. `None`: the index of the next packet or the size of the samples is unknown.
    fn sample_at(&self, mut position: u64) -> Option<u64> {
        let mut samples = 0_u64;
        let count = |bytes: u64| {
            let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= LinkOptions::PACKET_MAX)?;
            Some(self.sample_size?.samples_in(bytes))
        };
        while position < self.writer.position() {
            let header = self.header_at(position)?;
            let length = u64::from(header.length);
            if header.flags == Header::SHORT {
                samples += count(length)?;
            } else if header.kind == Kind::Data as u8 && !header.is_continued() {
                return Some(header.sample_index.wrapping_sub(samples));
            } else if header.is_continued() && header.flags & Header::MORE == 0 {
                // The packet ends with this frame. The offset plus the length is the length of the
                // whole packet.
                samples += count(header.sample_index.saturating_add(length))?;
            }
            position += self.stride_at(position);
        }
        let next = self.admitted_at;
        let given = next.sample.filter(|_| self.next_sequence() == Some(next.sequence));
        Some(given.or_else(|| self.sample_after_newest())?.wrapping_sub(samples))
    }

    /// Returns the sample index after the newest frame, if that frame is a whole packet with an
    /// index.
    fn sample_after_newest(&self) -> Option<u64> {
        let header = self.header_at(self.writer.newest()?)?;
        let parts = Header::SHORT | Header::MORE | Header::CONTINUED;
        let is_whole = header.kind == Kind::Data as u8 && header.flags & parts == 0;
        let bytes = Some(header.length as usize).filter(|bytes| *bytes <= LinkOptions::PACKET_MAX);
        let samples = self.sample_size?.samples_in(bytes?);
        (is_whole && header.sequence >= self.stream_start).then(|| header.sample_index.wrapping_add(samples))
    }

    /// Returns the bytes of the ring that the frame at `position` takes.
    fn stride_at(&self, position: u64) -> u64 {
        let offset = position as usize % self.memory.capacity;
        // SAFETY: a frame has a 16-byte ring header with its length in the second word, and lies
        // within the mirrored mapping. This thread is the only writer, so the bytes are stable.
        let length = unsafe { self.memory.data().as_ptr().add(offset + 8).cast::<u32>().read() };
        stripline_ring::frame_stride(length as usize) as u64
    }

    /// Returns the sequence number of the next packet to be sent.
    fn next_sequence(&self) -> Option<u64> {
        let after = |newest| Some(self.header_at(newest)?.next_sequence());
        self.writer.newest().map_or(Some(self.admitted_at.sequence), after)
    }

    /// Returns the header of the frame at `position`, which must not have been overwritten.
    fn header_at(&self, position: u64) -> Option<Header> {
        let offset = position as usize % self.memory.capacity;
        // SAFETY: a frame has a 16-byte ring header followed by the packet header, and both lie
        // within the mirrored mapping. The frame is published and not overwritten, and this thread
        // is the only writer, so the bytes are stable.
        let header = unsafe {
            let at = self.memory.data().as_ptr().add(offset + 16);
            std::slice::from_raw_parts(at, HEADER_BYTES)
        };
        Header::read(header)
    }

    /// Announces the first frame to the fresh readers, because a lossy reader may never see it.
    #[cold]
    fn announce_first_frame(&mut self) {
        self.fresh = false;
        let Some(header) = Header::read(self.writer.reserved()) else { return };
        for reader in self.readers.iter_mut().filter(|reader| reader.fresh) {
            reader.fresh = false;
            reader.first = Some(header.sequence);
            reader.cursor.set_first_sent(&header);
        }
    }

    /// Detaches the readers that left, and frees their slots. New readers wait until their stream
    /// can be described.
    pub(super) fn detach_departed(&mut self) {
        let departures = std::mem::take(&mut self.shared.changes().removed);
        let mut early = Vec::new();
        for token in departures {
            match self.readers.iter().position(|reader| reader.token == token) {
                Some(index) => self.detach(index),
                None => early.push(token),
            }
        }
        // A reader that left before it was attached must not be attached.
        let mut changes = self.shared.changes();
        changes.added.retain(|pending| !early.contains(&pending.token));
        // A receiver that was killed before it was attached has missed the packets since the
        // predecessor stopped. Without a predecessor it has missed nothing yet.
        let unmet = std::mem::take(&mut changes.unmet);
        drop(changes);
        for (connection, stopped) in unmet {
            let own = self.departed.get(&connection).copied();
            let next = self.next_position();
            let start = Stopped::or_on(stopped, own).or(next);
            self.remember(&connection, next.or(start).map(|at| Departed { at, start }));
        }
    }

    #[cold]
    fn wake_sleepers(&mut self) {
        let readers = &self.readers;
        self.writer.for_each_sleeper(|sleeper| {
            match readers.iter().find(|reader| reader.id == sleeper.reader) {
                Some(reader) if sleeper.is_parked => futex::wake(reader.cursor.park_word()),
                Some(reader) => reader.doorbell.notify(),
                None => {}
            }
        });
    }

    /// Evicts a reader that violated the protocol.
    pub(super) fn evict(&mut self, id: ReaderId, violation: &str) {
        if let Some(index) = self.readers.iter().position(|reader| reader.id == id) {
            let reader = self.readers.swap_remove(index);
            log::warn!(target: "stripline::transport", "{}", Error::misbehaved(&*reader.connection, violation));
            self.writer.detach(reader.id);
            reader.wake();
            if let Some(peer) = &reader.peer {
                peer.close();
            }
            let start = reader.resumed;
            self.remember(&reader.connection, start.map(|at| Departed { at, start }));
        }
    }

    fn connection_of(&self, id: ReaderId) -> String {
        let found = self.readers.iter().find(|reader| reader.id == id);
        found.map_or_else(|| self.port.clone(), |reader| reader.connection.clone())
    }

    /// Sleeps until a reader has made space, a reader has attached or left, or the wait is over.
    fn sleep(&mut self, slowest: ReaderId, wait: Wait) -> Result<()> {
        // Check before each sleep: a reader can make its doorbell ring all the time.
        if wait.is_expired() {
            return Err(Error::Full { connection: self.connection_of(slowest) });
        }
        let mut poll_set = PollSet::default();
        if !self.doorbell_broken {
            poll_set.readable(self.shared.space_wait.as_fd());
        }
        self.stop.add_to(&mut poll_set, wait);
        let look_again = Instant::now() + RECHECK_INTERVAL;
        let deadline = wait.deadline().map_or(look_again, |deadline| deadline.min(look_again));
        poll_set.wait(Some(deadline))?;
        fail_point!("writer-wake");
        self.drain_doorbell();
        Ok(())
    }

    /// Drains the doorbell for space.
    pub(super) fn drain_doorbell(&mut self) {
        if !self.doorbell_broken && !self.shared.space_wait.drain() {
            log::warn!(
                target: "stripline::transport",
                "{}: a receiver has broken the doorbell that all receivers share; they are polled instead",
                self.port
            );
            self.doorbell_broken = true;
        }
    }

    /// Spins, for as long as the port's wait strategy allows, until a reader has made enough room
    /// or another event has occurred. Returns false if it is time to sleep. A change that was there
    /// before does not end the spinning, because new readers wait until there is room.
    fn spin_for_space(&mut self, slowest: ReaderId, wait: Wait, has_changed: bool) -> bool {
        let mut spins = 0;
        while self.spinner.spin_backoff(spins) {
            spins += 1;
            if self.writer.is_worth_resuming(slowest)
                || !has_changed && self.shared.changed.load(Ordering::Relaxed)
                || self.stop.ends(wait)
                || wait.is_expired()
            {
                return true;
            }
        }
        false
    }

    /// Attaches the readers that came, and detaches the readers that left. Returns true if some
    /// came.
    fn attach_pending(&mut self, stream_start: u64) -> bool {
        // Relaxed: the lock below orders the rest.
        if !self.shared.changed.load(Ordering::Relaxed) {
            return false;
        }
        self.shared.changed.swap(false, Ordering::Acquire);
        self.disarm();
        // Departed readers first: a new reader may take the place of a departed one.
        self.detach_departed();
        let added = std::mem::take(&mut self.shared.changes().added);
        let arrived = !added.is_empty();
        for pending in added {
            fail_point!("admit");
            let own = self.departed.remove(&pending.connection);
            let resumed = Stopped::or_on(pending.stopped, own);
            if let Some(position) = resumed {
                pending.cursor.set_resume_from(position.in_stream_from(stream_start));
                fail_point!("admit-returned");
            }
            let (cursor, sleepers) = (pending.cursor.cursor(), pending.sleepers.sleepers());
            // SAFETY: the pages have the required sizes, the cursor page is fresh, and both stay
            // mapped until the reader is detached.
            let id = unsafe { self.writer.attach_sharing(cursor, sleepers, pending.mode) };
            // The cursors count packets exactly, under any kind of flow control. A stalled writer
            // needs no wake-up before the low watermark.
            self.writer.set_low_watermark(id, pending.low);
            fail_point!("admit-attached");
            let lossy = matches!(pending.mode, stripline_ring::Mode::Lossy);
            self.readers.push(AttachedReader {
                id,
                lossy,
                fresh: true,
                resumed,
                first: None,
                ack_wait: None,
                reader: pending,
            });
            self.fresh = true;
        }
        self.writer.set_fence(membarrier::publish_fence(self.readers.iter().all(|reader| reader.membarrier)));
        self.wake_sleepers();
        arrived
    }

    /// Asks the readers to ring for space, like a writer that sleeps. Returns false if there is
    /// space already. The next packet is not reserved on the fast path, which ends the asking.
    fn arm_for_space(&mut self, bytes: usize) -> Result<bool> {
        let membarrier = self.shared.membarrier;
        self.is_armed = true;
        self.writer.wait_for_space_begin_with(|| membarrier::fence_before_sleep(membarrier));
        loop {
            match self.writer.try_reserve(bytes).map(|_| ()) {
                Ok(()) => break,
                Err(ReserveError::Full { slowest }) => {
                    self.await_room_of(Some(slowest));
                    self.shared.request_attention();
                    return Ok(true);
                }
                Err(ReserveError::TooLarge { max }) => {
                    self.disarm();
                    return Err(Error::TooLarge { bytes, bytes_max: max });
                }
                Err(ReserveError::Misbehaved { reader, violation }) => {
                    self.evict(reader, &violation.to_string());
                }
                Err(error) => {
                    self.disarm();
                    return Err(Error::of_system(error));
                }
            }
        }
        self.disarm();
        Ok(false)
    }

    fn disarm(&mut self) {
        if std::mem::take(&mut self.is_armed) {
            self.writer.wait_for_space_end();
            self.await_room_of(None);
        }
    }

    /// Records the reader that must give room, if the writer waits.
    fn await_room_of(&mut self, slowest: Option<ReaderId>) {
        let before = std::mem::replace(&mut self.room_of, slowest);
        if before != slowest {
            for reader in &self.readers {
                reader.cursor.waits.room.set(Some(reader.id) == slowest);
            }
        }
    }

    /// Waits for room and returns it.
    #[cold]
    fn wait_for_space(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]> {
        let mut waiting = false;
        let membarrier = self.shared.membarrier;
        let outcome = loop {
            // Relaxed: the lock orders the rest.
            let has_changed = self.shared.changed.load(Ordering::Relaxed);
            if waiting || has_changed {
                self.detach_departed();
            }
            if let Err(error) = self.stop.check(wait) {
                break Err(error);
            }
            match self.writer.try_reserve(bytes).map(|_| ()) {
                Ok(()) => break Ok(()),
                Err(ReserveError::TooLarge { max }) => {
                    break Err(Error::TooLarge { bytes, bytes_max: max });
                }
                Err(ReserveError::Misbehaved { reader, violation }) => {
                    self.evict(reader, &violation.to_string())
                }
                Err(ReserveError::Full { slowest }) => {
                    // Do not announce the wait: the announcement costs a barrier on all processors,
                    // and a ring of the reader's doorbell.
                    if matches!(wait, Wait::Never) {
                        return Err(Error::Full { connection: self.connection_of(slowest) });
                    }
                    // Relaxed: information for inspection only.
                    self.shared.room_awaited.store(true, Ordering::Relaxed);
                    self.await_room_of(Some(slowest));
                    if !waiting && self.spin_for_space(slowest, wait, has_changed) {
                        if wait.is_expired() {
                            break Err(Error::Full { connection: self.connection_of(slowest) });
                        }
                        continue;
                    }
                    // Announce first, poll once more, then sleep: a release in between rings the
                    // doorbell.
                    if waiting && let Err(error) = self.sleep(slowest, wait) {
                        break Err(error);
                    }
                    self.writer.wait_for_space_begin_with(|| membarrier::fence_before_sleep(membarrier));
                    if !waiting {
                        self.spinner.gave_up();
                        waiting = true;
                        fail_point!("writer-sleep");
                    }
                }
                Err(error) => break Err(Error::of_system(error)),
            }
        };
        self.shared.room_awaited.store(false, Ordering::Relaxed);
        self.await_room_of(None);
        if waiting {
            self.writer.wait_for_space_end();
        } else {
            self.spinner.succeeded();
        }
        outcome.map(|()| self.writer.reserved())
    }
}

impl Outlet for RingOutlet {
    fn traits(&self) -> OutletTraits {
        OutletTraits {
            endpoint: self.endpoint.clone(),
            frame_max: stripline_ring::max_frame(self.memory.capacity),
            short_headers: true,
            scope_max: None,
            attention: Some(Arc::clone(&self.shared) as _),
            departures: None,
        }
    }

    fn receivers(&self, _: bool) -> usize {
        self.readers.len()
    }

    fn admit(&mut self, next: NextPacket) -> Admitted {
        let is_unused = self.writer.newest().is_none();
        let sequence = if is_unused { next.sequence } else { self.next_sequence().unwrap_or(0) };
        self.admitted_at = PortPosition { sequence, sample: next.sample };
        self.stream_start = next.stream_start;
        let is_new = self.attach_pending(next.stream_start);
        Admitted { is_new, is_lossy: self.readers.iter().any(|reader| reader.lossy) }
    }

    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]> {
        fail_point!("loan");
        self.wait_for_space(bytes, wait)
    }

    fn try_reserve_fast(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.try_reserve_fast(bytes)
    }

    fn reserved(&mut self) -> &mut [u8] {
        self.writer.reserved()
    }

    fn publish(&mut self, bytes: usize, _: Wait) -> Result<()> {
        if self.fresh {
            self.announce_first_frame();
        }
        self.publish_with(bytes, []);
        Ok(())
    }

    fn wait_acks(&mut self, ack_wait: &AckWait) -> Result<()> {
        self.wait_acks(ack_wait)
    }

    fn prepare_wait<'a>(&'a mut self, awaited: Awaited, poll_set: &mut PollSet<'a>) -> Result<Prepared> {
        // Drain before the checks: a ring that comes later then ends the wait.
        self.drain_doorbell();
        // Relaxed: the lock that `admit` takes orders the rest.
        if self.shared.changed.load(Ordering::Relaxed) {
            return Ok(Prepared::Now);
        }
        if let Awaited::Room(bytes) = awaited
            && !self.arm_for_space(bytes)?
        {
            return Ok(Prepared::Now);
        }
        // See `sleep`: a reader may not ring, and the doorbell may be broken.
        if !self.doorbell_broken {
            poll_set.readable(self.shared.space_wait.as_fd());
        }
        let polls = self.doorbell_broken || matches!(awaited, Awaited::Room(_));
        Ok(Prepared::Until(polls.then(|| Instant::now() + RECHECK_INTERVAL)))
    }

    fn flush(&mut self, _: Flush, _: Wait) -> Result<()> {
        // A published frame is in the readers' memory already.
        Ok(())
    }
}

impl Departures for Mutex<RingOutlet> {
    fn take(&self, connection: Option<&str>) -> Vec<(String, Departed)> {
        let mut ring = lock(self);
        ring.detach_departed();
        let Some(connection) = connection else { return ring.departed.drain().collect() };
        // A process that has ended closes all its sockets, but the thread that notices this here
        // may not have run yet.
        let is_gone = |reader: &AttachedReader| {
            reader.connection == connection && reader.peer.as_ref().is_some_and(Socket::has_hung_up)
        };
        if let Some(index) = ring.readers.iter().position(is_gone) {
            ring.detach(index);
        }
        ring.departed.remove_entry(connection).into_iter().collect()
    }
}

impl Drop for RingOutlet {
    fn drop(&mut self) {
        self.listener = None;
        let newest = self.writer.newest().and_then(|position| self.header_at(position));
        if self.attach_pending(0)
            && let Some(end) = newest.filter(|header| header.kind == Kind::End as u8)
            && let Ok(place) = self.writer.try_reserve(HEADER_BYTES)
        {
            // A reader attached after the end must still get it. A reader that has already got it
            // reads no further.
            place.copy_from_slice(bytemuck::bytes_of(&end));
            self.writer.publish(HEADER_BYTES);
        }
        self.writer.close();
        fail_point!("end-closed");
        self.readers.iter().for_each(AttachedReader::wake);
    }
}
