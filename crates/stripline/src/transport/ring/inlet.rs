//! The receiving side of the ring transports.

use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use stripline_ring::{CopyOutcome, Cursor, ReadError, Reader, ReaderMode, frame_stride};

use super::acks::RingAckSender;
use super::{CursorPage, ReaderRegistration, RingMemory, SleepersPage};
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::futex;
use crate::sys::membarrier;
use crate::sys::memory::SharedMemory;
use crate::terms::Overflow;
use crate::transport::peer_monitor::MonitoredPeer;
use crate::transport::{ConnectRequest, Inlet, InletParts, Next, Parked, StartPosition};

/// A reader of a ring.
pub(crate) struct RingInlet {
    // Dropped before the memory that it reads.
    reader: Reader,
    // Dropping it shows the other side that this reader is gone.
    peer: ManuallyDrop<PeerHandle>,
    doorbells: Doorbells,
    acks: Arc<RingAckSender>,
    connection: String,
    /// Whether the reader must never block the sender. The sender may then overtake the reader.
    lossy: bool,
    /// The copy of the frame, unless frames are used in place. A sender may overwrite the frame of
    /// a lossy reader, and a sender of another user could change a frame during validation.
    copy: Option<Box<CopiedFrame>>,
    /// Whether the writer has detached the reader.
    is_detached: bool,
    slept: bool,
    /// Whether the reader runs a barrier on all processors before it sleeps.
    membarrier: bool,
    cursor: Arc<CursorPage>,
    _sleepers: SleepersPage,
    memory: Arc<RingMemory>,
    /// The sender's low watermark, in frames. A sender with no more than this many unread frames
    /// never waits.
    low: u64,
}

/// The mapped memory of a ring's receiver.
pub(in crate::transport) struct RingPages {
    memory: Arc<RingMemory>,
    pub cursor: Arc<CursorPage>,
    sleepers: SleepersPage,
}

impl RingPages {
    /// Maps the pages, and locks them if the ring is locked.
    pub(in crate::transport) fn map(
        ring: &SharedMemory,
        capacity: usize,
        cursor: &SharedMemory,
        sleepers: &SharedMemory,
        locked: bool,
    ) -> Result<Self> {
        Ok(Self {
            memory: Arc::new(RingMemory::map(ring, capacity, false, locked)?),
            cursor: Arc::new(CursorPage::map(cursor, locked)?),
            sleepers: SleepersPage(Arc::new(sleepers.map()?)),
        })
    }
}

/// A handle that ties the lives of the two sides together, and detects the death of the other side.
pub(in crate::transport) enum PeerHandle {
    /// A socket to the other process.
    Socket(MonitoredPeer),
    /// A registration in the same process. Dropping it removes the reader.
    Local(#[expect(dead_code, reason = "held for its drop")] ReaderRegistration),
}

/// The doorbells between the two sides.
pub(in crate::transport) struct Doorbells {
    /// Rung by the writer when there is a packet for a sleeping reader.
    pub data: Doorbell,
    /// Rung by the reader when there is space for a sleeping writer.
    pub space: Doorbell,
}

/// The copy of the current frame.
#[derive(Default)]
struct CopiedFrame {
    bytes: Vec<u8>,
    taken: bool,
}

impl RingInlet {
    pub(in crate::transport) fn new(
        pages: RingPages,
        doorbells: Doorbells,
        peer_handle: PeerHandle,
        membarrier: bool,
        request: &ConnectRequest,
    ) -> Result<Self> {
        let RingPages { memory, cursor, sleepers } = pages;
        let options = request.options;
        // The queue in front of the component drops packets; the ring only must never block for it.
        let lossy = options.overflow != Overflow::Block;
        let mode = if lossy { ReaderMode::Lossy } else { ReaderMode::Blocking };
        let is_other_user = matches!(&peer_handle, PeerHandle::Socket(socket) if socket.is_other_user());
        // SAFETY: the sizes of both mappings were checked when they were mapped. Both live in this
        // value, which drops the reader first.
        let reader =
            unsafe { Reader::new(memory.control(), memory.data(), memory.capacity, cursor.cursor(), mode) };
        let violation = |e| Error::misbehaved(&request.connection, format!("sent unusable memory: {e}"));
        let mut reader = reader.map_err(violation)?;
        // SAFETY: the page is mapped with the required size, and this value holds it.
        unsafe { reader.share_sleepers(sleepers.sleepers()) };
        reader.set_fence(membarrier::publish_fence(membarrier));
        Ok(Self {
            reader,
            peer: ManuallyDrop::new(peer_handle),
            acks: Arc::new(RingAckSender::new(Arc::clone(&cursor), doorbells.space.clone())),
            doorbells,
            connection: request.connection.clone(),
            lossy,
            copy: (lossy || is_other_user).then(Box::default),
            is_detached: false,
            slept: false,
            membarrier: membarrier::is_used_with(options.wait),
            cursor,
            _sleepers: sleepers,
            memory,
            low: u64::from(options.watermarks().low()),
        })
    }
}

impl RingInlet {
    /// Takes a frame like [`Inlet::try_next_fast`], but only a new frame that is used in place.
    #[inline(always)]
    pub(crate) fn try_next_new(&mut self) -> Option<&[u8]> {
        if self.copy.is_none() { self.reader.try_next_fast() } else { None }
    }

    /// Polls `polls` times for a frame. Returns whether there is one.
    #[inline]
    pub(crate) fn spin_for_frame(&self, polls: u32) -> bool {
        self.reader.spin(polls)
    }

    /// Releases a frame like [`Inlet::release`], if no frame is kept.
    #[inline(always)]
    pub(crate) fn release(&mut self) {
        debug_assert!(!self.reader.keeps_frames(), "their room is given back first");
        if self.copy.is_some() && self.release_copy() {
            return;
        }
        fail_point!("release");
        if self.reader.release() {
            self.notify_space();
        }
    }

    /// Releases a frame used in place, but leaves the store of the cursor to
    /// [`RingInlet::finish_releases`]. A copied frame is released at once.
    #[inline(always)]
    pub(crate) fn release_later(&mut self) {
        if self.copy.is_some() {
            return self.release();
        }
        fail_point!("release");
        if self.reader.release_later() {
            self.notify_space();
        }
    }

    /// Stores the cursor, if [`RingInlet::release_later`] has left the store to do.
    pub(crate) fn finish_releases(&mut self) {
        if self.reader.finish_releases() {
            self.notify_space();
        }
    }

    /// Returns the memory of the current frame, if a port that keeps up to `frames` frames may keep
    /// this frame. The payload must be in place there, and the frame small enough.
    #[inline]
    pub(crate) fn keepable(&self, payload: *const u8, frames: usize) -> Option<&Arc<RingMemory>> {
        let frame = self.reader.current_frame();
        let may_keep = self.copy.is_none()
            && self.memory.keeps_frames
            && frame.as_ptr_range().contains(&payload)
            && frames as u64 <= self.low
            && frame_stride(frame.len()).saturating_mul(frames) <= self.memory.capacity / 2;
        may_keep.then_some(&self.memory)
    }

    /// Moves on past the current frame, which stays in use under the number `token`.
    #[inline]
    pub(crate) fn keep(&mut self, token: u64) {
        self.reader.keep(token);
    }

    /// Returns whether frames before the current one are in use.
    pub(crate) fn keeps_frames(&self) -> bool {
        self.reader.keeps_frames()
    }

    /// Returns whether finished frames may be given back later, because they hold up no sender. A
    /// reader that finds no frame gives them back before it sleeps.
    #[inline(always)]
    pub(crate) fn may_settle_later(&self) -> bool {
        let lag = self.reader.kept_lag();
        lag.frames <= self.low / 4 && lag.bytes <= self.memory.capacity as u64 / 8
    }

    /// Gives back the frames before the oldest frame that is still in use.
    ///
    /// If half of the ring lies between the oldest frame in use and the next frame, the sender
    /// would soon wait. In this case the pages of all frames in use become private, and this reader
    /// continues in another mapping.
    ///
    /// # Errors
    /// Errors of the system. The state is as before the call, and the next call tries again.
    pub(crate) fn settle(&mut self, is_over: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        if !self.reader.keeps_frames() {
            return Ok(());
        }
        let mut wakes = self.reader.settle(|frame| is_over(frame.token()));
        let lag = self.reader.kept_lag();
        if lag.frames > self.low || lag.bytes > self.memory.capacity as u64 / 2 {
            let memory = Arc::new(self.memory.duplicate()?);
            self.make_kept_private(is_over)?;
            // SAFETY: `memory` maps the same ring and lives as long as the reader. The frames in
            // use were copied.
            wakes |= unsafe { self.reader.remap(memory.control(), memory.data()) };
            self.memory = memory;
        }
        if wakes {
            self.notify_space();
        }
        Ok(())
    }

    /// Makes the pages of all frames in use private.
    fn make_kept_private(&self, is_over: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        for frame in self.reader.kept_frames().filter(|frame| !is_over(frame.token())) {
            // SAFETY: the frame lies in the memory of this inlet, and is not given back.
            self.memory.mapping.make_private(unsafe { frame.bytes() })?;
        }
        Ok(())
    }

    #[cold]
    fn notify_space(&self) {
        fail_point!("release-stored");
        self.doorbells.space.notify();
    }

    /// Releases the copy of a frame. Returns true if the reader has released the frame itself.
    #[cold]
    fn release_copy(&mut self) -> bool {
        if let Some(copy) = &mut self.copy {
            copy.taken = false;
        }
        self.lossy
    }

    /// Returns whether there is a frame.
    #[inline]
    fn poll(&mut self) -> Result<bool> {
        let found = match &mut self.copy {
            None => self.reader.try_next().map(|frame| frame.is_some()),
            Some(copy) if copy.taken => Ok(true),
            Some(copy) => {
                let found = if self.lossy {
                    let copied = self.reader.try_copy(0, &mut copy.bytes);
                    copied.map(|outcome| outcome != CopyOutcome::Empty)
                } else {
                    self.reader.try_next_copied(&mut copy.bytes)
                };
                copy.taken = found == Ok(true);
                found
            }
        };
        if found == Err(ReadError::Detached) {
            // The other end has detached this reader: it is leaving, or has reported the reason
            // elsewhere.
            self.is_detached = true;
            return Ok(false);
        }
        found.map_err(|error| Error::misbehaved(&self.connection, format!("broke the ring's rules: {error}")))
    }

    /// Returns the frame that the last poll found.
    #[inline]
    fn current_frame(&mut self) -> Next<'_> {
        match &self.copy {
            Some(copy) => Next::Frame(&copy.bytes),
            None => Next::Frame(self.reader.current_frame()),
        }
    }

    /// Returns whether no further frame will be published.
    #[inline]
    fn is_over(&self) -> bool {
        self.is_detached
            || self.reader.is_closed()
            || matches!(&*self.peer, PeerHandle::Socket(monitored) if monitored.is_closed())
    }
}

impl Drop for RingInlet {
    fn drop(&mut self) {
        fail_point!("reader-detach");
        // Once this reader is gone, the sender overwrites frames that are still in use.
        if let Err(error) = self.make_kept_private(&mut |_| false) {
            log::error!(
                target: "stripline::transport",
                "connection {}: its packets in use cannot be copied, so its sender waits for them: {error}",
                self.connection
            );
            return;
        }
        // SAFETY: `peer` is not used again.
        unsafe { ManuallyDrop::drop(&mut self.peer) };
    }
}

impl Inlet for RingInlet {
    fn parts(&mut self) -> InletParts {
        let acks: Arc<RingAckSender> = Arc::clone(&self.acks);
        let page: Arc<CursorPage> = Arc::clone(&self.cursor);
        InletParts {
            acks: Some(acks),
            waker: Some(page),
            polls_without_syscall: true,
            short_headers: true,
            start: StartPosition {
                resume_from: self.cursor.resume_from(),
                first_sent: self.cursor.first_sent(),
            },
            ..InletParts::default()
        }
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        if self.poll()? {
            return Ok(self.current_frame());
        }
        if !self.is_over() {
            // Before each sleep: the sender may wait for frames that were passed here.
            self.settle(&mut |_| false)?;
            return Ok(Next::Empty);
        }
        // Every frame published before the end is visible now.
        Ok(if self.poll()? { self.current_frame() } else { Next::Closed })
    }

    fn try_next_fast(&mut self, _reads: bool) -> Option<Next<'_>> {
        if self.copy.is_some() {
            return None;
        }
        self.reader.try_next().unwrap_or(None).map(Next::Frame)
    }

    fn release(&mut self) {
        if self.reader.keeps_frames() {
            fail_point!("release");
            self.reader.pass();
        } else {
            self.release();
        }
    }

    fn spin(&mut self, polls: u32) -> bool {
        if polls > 0 {
            self.reader.spin(polls);
        }
        // A poll of memory takes no system call.
        true
    }

    fn park(
        &mut self,
        deadline: Option<Instant>,
        interrupt: Option<&AtomicU32>,
        may_park: &mut dyn FnMut() -> bool,
    ) -> Result<Parked> {
        let membarrier = self.membarrier;
        let parks = self.reader.prepare_park_with(|| membarrier::fence_before_sleep(membarrier));
        // After the announcement: unlike a doorbell, a wake-up does not persist.
        let parks = parks && !self.is_over();
        fail_point!("reader-sleep");
        if !parks || !may_park() {
            return Ok(Parked::Woken);
        }
        let word = self.cursor.park_word();
        let outcome = match interrupt {
            None => futex::wait(word, Cursor::PARKED, deadline).map(Some),
            Some(interrupt) => futex::wait_either(word, Cursor::PARKED, interrupt, deadline),
        };
        fail_point!("reader-wake");
        // The thread that woke this side has withdrawn the announcement, unless that thread was the
        // port's waker.
        if !matches!(outcome, Ok(Some(true))) || interrupt.is_some() {
            self.reader.cancel_sleep();
        }
        self.reader.prefetch();
        Ok(match outcome? {
            Some(true) => Parked::Woken,
            Some(false) => Parked::TimedOut,
            None => Parked::Unable,
        })
    }

    fn prepare_sleep<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        let membarrier = self.membarrier;
        self.slept =
            !self.is_over() && self.reader.prepare_sleep_with(|| membarrier::fence_before_sleep(membarrier));
        fail_point!("reader-sleep");
        // The doorbell is also rung when the other end is gone.
        poll_set.readable(self.doorbells.data.as_fd());
        self.slept
    }

    fn cancel_sleep(&mut self) {
        if std::mem::take(&mut self.slept) {
            fail_point!("reader-wake");
            self.reader.cancel_sleep();
            self.doorbells.data.drain();
        }
    }

    fn is_peer_gone(&mut self) -> bool {
        let gone = matches!(&*self.peer, PeerHandle::Socket(monitored) if monitored.check());
        gone || self.reader.is_closed()
    }

    fn say_goodbye(&mut self) {
        self.cursor.set_left();
    }
}
