//! A send queue for scope `none` over a transport with a blocking send: a queue in the sender's
//! process, and a thread that empties it. Small frames are sent many at a time.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::packet::{HEADER_BYTES, Header, Kind};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::mutex::lock;
use crate::sys::thread::JoinedThread;
use crate::terms::{Scope, Watermarks};
use crate::transport::{
    Admitted, AnyOutlet, Awaited, BindRequest, Departures, Endpoint, Flush, NextPacket, Outlet, OutletTraits,
    Prepared, StopToken, Transport, Wait,
};

/// The interval at which a full queue checks for a stop of the component, and for a wake.
const STOP_POLL: Duration = Duration::from_millis(20);
/// The interval at which a wait outside the port requests the number of receivers from the thread.
/// The doorbell of new receivers belongs to the thread.
const RECEIVERS_POLL: Duration = Duration::from_millis(5);
/// The maximum number of bytes of frames that are sent together. A larger frame is sent alone.
const BATCH_BYTES: usize = 64 * 1024;

/// Opens the sending side of a port. The side gets a queue if the strongest scope is `none` and a
/// send of the transport may block in the system.
pub(super) fn with_scope(transport: &dyn Transport, request: BindRequest) -> Result<AnyOutlet> {
    if request.options.scope != Scope::None || transport.capabilities().ring {
        return transport.bind(request);
    }
    let (watermarks, stop) = (request.options.watermarks, request.stop.clone());
    // The queue's thread continues after the component is stopped, as queued packets are still
    // sent.
    let give_up = StopToken::new()?;
    let inner = transport.bind(BindRequest { stop: give_up.clone(), ..request })?;
    Ok(AnyOutlet::other(SendQueue::start(inner, watermarks, stop, give_up)?))
}

struct SendQueue {
    _thread: JoinedThread,
    shared: Arc<SendShared>,
    endpoint: Endpoint,
    departures: Option<Arc<dyn Departures>>,
    frame: AlignedBuffer,
    frame_max: usize,
    stop: StopToken,
    /// The token that frees the thread from a receiver that takes nothing.
    give_up: StopToken,
}

struct SendShared {
    queue: Mutex<PendingFrames>,
    /// Wakes the thread.
    work: Condvar,
    /// Wakes the sender.
    room: Condvar,
    /// A doorbell that rings together with `room`, once the sender has waited outside the port.
    doorbell: OnceLock<Doorbell>,
    watermarks: Watermarks,
    port: String,
    /// The number of the first packet of the port's current stream.
    stream_start: AtomicU64,
    /// The number of the port's next packet.
    next_sequence: AtomicU64,
}

#[derive(Default)]
struct PendingFrames {
    batches: VecDeque<Batch>,
    spare: Vec<Batch>,
    is_sending: bool,
    /// Whether the thread sleeps.
    is_asleep: bool,
    /// Whether the sender waits, for room or until the queue is empty.
    is_awaited: bool,
    /// The number of waiting packets. The fragments of a packet count once.
    packets: usize,
    /// Whether there was no room, so that sends wait for the low watermark.
    is_stalled: bool,
    /// Whether another fragment of the packet queued last will follow.
    open: bool,
    receivers: usize,
    /// Whether the number of receivers should be refreshed.
    refresh_receivers: bool,
    over: bool,
    failed: Option<Error>,
}

/// Frames that are sent together, one behind the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// The end of each frame.
    ends: Vec<usize>,
    /// The number of packets that begin in the batch.
    packets: usize,
}

impl SendQueue {
    fn start(inner: AnyOutlet, watermarks: Watermarks, stop: StopToken, give_up: StopToken) -> Result<Self> {
        let OutletTraits { endpoint, frame_max, departures, .. } = inner.traits();
        let shared = Arc::new(SendShared {
            queue: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            doorbell: OnceLock::new(),
            watermarks,
            port: endpoint.to_string(),
            stream_start: AtomicU64::new(0),
            next_sequence: AtomicU64::new(0),
        });
        let queue = Arc::clone(&shared);
        let thread = JoinedThread::spawn("stripline-queue", move || queue.run(inner))?;
        let frame = AlignedBuffer::default();
        Ok(Self { shared, endpoint, departures, frame, frame_max, stop, give_up, _thread: thread })
    }

    /// Waits until `done` returns true, as `wait` specifies.
    fn wait_for(
        &self,
        wait: Wait,
        mut done: impl FnMut(&mut PendingFrames) -> bool,
    ) -> Result<MutexGuard<'_, PendingFrames>> {
        let mut queue = lock(&self.shared.queue);
        loop {
            if let Some(error) = queue.failed.take() {
                return Err(error);
            }
            if done(&mut queue) {
                return Ok(queue);
            }
            self.stop.check(wait)?;
            let over = wait.deadline().is_some_and(|deadline| Instant::now() >= deadline);
            if over || matches!(wait, Wait::Never) {
                return Err(Error::Full { connection: self.shared.port.clone() });
            }
            queue.is_awaited = true;
            let look = self.shared.room.wait_timeout(queue, STOP_POLL);
            queue = look.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl PendingFrames {
    /// Returns whether another packet, or the rest of a packet, may be queued.
    fn has_space(&mut self, watermarks: Watermarks) -> bool {
        // The bound allows one packet more, because the description of the stream may wait before
        // the packets.
        let most = if self.is_stalled { watermarks.low() } else { watermarks.high() } as usize;
        self.is_stalled = !self.open && self.packets > most;
        !self.is_stalled
    }

    fn push(&mut self, frame: &[u8], starts: bool) {
        let has_room = |last: &&mut Batch| last.bytes.len() + frame.len() <= BATCH_BYTES;
        if self.batches.back_mut().filter(has_room).is_none() {
            self.batches.push_back(self.spare.pop().unwrap_or_default());
        }
        if let Some(last) = self.batches.back_mut() {
            last.push(frame, starts);
        }
        self.packets += usize::from(starts);
    }
}

impl Batch {
    fn push(&mut self, frame: &[u8], starts: bool) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
        self.packets += usize::from(starts);
    }

    fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.packets = 0;
    }
}

impl Outlet for SendQueue {
    fn traits(&self) -> OutletTraits {
        OutletTraits {
            endpoint: self.endpoint.clone(),
            frame_max: self.frame_max,
            short_headers: false,
            scope_max: Some(Scope::None),
            attention: None,
            departures: self.departures.clone(),
        }
    }

    fn receivers(&self, _: bool) -> usize {
        // The thread has the number, and refreshes it on request. A caller that waits for receivers
        // calls again.
        let mut queue = lock(&self.shared.queue);
        queue.refresh_receivers = true;
        self.shared.wake_thread(&mut queue);
        queue.receivers
    }

    fn admit(&mut self, next: NextPacket) -> Admitted {
        // Relaxed: the lock of the queue orders the store before the packet.
        self.shared.stream_start.store(next.stream_start, Ordering::Relaxed);
        self.shared.next_sequence.store(next.sequence, Ordering::Relaxed);
        // A request to the thread would cost more than the rare description that it would save.
        Admitted { is_new: false, is_lossy: true }
    }

    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]> {
        if bytes > self.frame_max {
            return Err(Error::TooLarge { bytes, bytes_max: self.frame_max });
        }
        let watermarks = self.shared.watermarks;
        drop(self.wait_for(wait, |queue| queue.has_space(watermarks))?);
        self.frame.grow(bytes);
        Ok(&mut self.frame.bytes_mut()[..bytes])
    }

    fn reserved(&mut self) -> &mut [u8] {
        self.frame.bytes_mut()
    }

    fn publish(&mut self, bytes: usize, _: Wait) -> Result<()> {
        let header = Header::read(self.frame.bytes());
        let starts = header.is_none_or(|header| !header.is_continued());
        let mut queue = lock(&self.shared.queue);
        queue.push(&self.frame.bytes()[..bytes], starts);
        queue.open = header.is_some_and(|header| header.flags & Header::MORE != 0);
        // The thread accepts receivers before it sends, but must not do so between two fragments of
        // a packet.
        queue.refresh_receivers = false;
        self.shared.wake_thread(&mut queue);
        Ok(())
    }

    fn prepare_wait<'a>(&'a mut self, awaited: Awaited, poll_set: &mut PollSet<'a>) -> Result<Prepared> {
        let shared = &*self.shared;
        if awaited == Awaited::Receivers {
            let mut queue = lock(&shared.queue);
            queue.refresh_receivers = true;
            shared.wake_thread(&mut queue);
            return Ok(Prepared::Until(Some(Instant::now() + RECEIVERS_POLL)));
        }
        let doorbell = match shared.doorbell.get() {
            Some(doorbell) => doorbell,
            None => {
                let made = Doorbell::new()?;
                shared.doorbell.get_or_init(|| made)
            }
        };
        doorbell.drain();
        let mut queue = lock(&shared.queue);
        if queue.failed.is_some() || queue.has_space(shared.watermarks) {
            return Ok(Prepared::Now);
        }
        queue.is_awaited = true;
        poll_set.readable(doorbell.as_fd());
        Ok(Prepared::Until(None))
    }

    fn flush(&mut self, what: Flush, wait: Wait) -> Result<()> {
        if what == Flush::Blocking {
            return Ok(());
        }
        self.wait_for(wait, |queue| queue.batches.is_empty() && !queue.is_sending).map(drop)
    }
}

impl Drop for SendQueue {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.over = true;
        self.shared.wake_thread(&mut queue);
        drop(queue);
        self.give_up.stop();
    }
}

impl SendShared {
    /// Wakes the thread, if it sleeps.
    fn wake_thread(&self, queue: &mut PendingFrames) {
        if std::mem::take(&mut queue.is_asleep) {
            self.work.notify_one();
        }
    }

    /// Wakes the sender, if it waits.
    fn wake_sender(&self, queue: &mut PendingFrames) {
        if std::mem::take(&mut queue.is_awaited) {
            self.room.notify_one();
            self.doorbell.get().into_iter().for_each(Doorbell::notify);
        }
    }

    fn run(&self, mut outlet: AnyOutlet) {
        // The description of the current stream, for receivers that connect later.
        let mut described: Option<Vec<u8>> = None;
        let mut newcomers = false;
        while let Some(mut batch) = self.next(&mut *outlet, &mut newcomers) {
            // Relaxed: the lock of the queue orders the load.
            let stream_start = self.stream_start.load(Ordering::Relaxed);
            let outcome = send_batch(&mut *outlet, &batch, &mut described, &mut newcomers, stream_start);
            batch.clear();
            let receivers = outlet.receivers(true);
            let mut queue = lock(&self.queue);
            queue.failed = outcome.err().or(queue.failed.take());
            queue.spare.push(batch);
            queue.receivers = receivers;
        }
    }

    /// Waits for the next batch; `None`: the port has closed.
    fn next(&self, outlet: &mut dyn Outlet, newcomers: &mut bool) -> Option<Batch> {
        let mut queue = lock(&self.queue);
        queue.is_sending = false;
        loop {
            if queue.over {
                return None;
            }
            if let Some(batch) = queue.batches.pop_front() {
                queue.is_sending = true;
                queue.packets -= batch.packets;
                // The transport may hold up these frames for long, and the queue has room now.
                self.wake_sender(&mut queue);
                return Some(batch);
            }
            if std::mem::take(&mut queue.refresh_receivers) {
                // The port's next packet is not in the queue yet. Relaxed: as in `admit`.
                let sequence = self.next_sequence.load(Ordering::Relaxed);
                *newcomers |= outlet.admit(NextPacket { sequence, ..NextPacket::default() }).is_new;
                queue.receivers = outlet.receivers(true);
            }
            // The sender may wait for an empty queue.
            self.wake_sender(&mut queue);
            queue.is_asleep = true;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Sends the frames of a batch, with as few system calls as the outlet can.
fn send_batch(
    outlet: &mut dyn Outlet,
    batch: &Batch,
    described: &mut Option<Vec<u8>>,
    newcomers: &mut bool,
    stream_start: u64,
) -> Result<()> {
    let gathers = batch.ends.len() > 1;
    let mut outcome = if gathers { outlet.gather(true, Wait::FOREVER) } else { Ok(()) };
    for frame in batch.frames() {
        outcome = send(outlet, described, frame, newcomers, stream_start).and(outcome);
        if Header::read(frame).is_some_and(|header| header.kind == Kind::End as u8) {
            // The last messages of receivers must be read: closing a socket with unread bytes
            // discards the bytes that the receiver has not read. `give_up` ends this wait.
            outcome = outcome.and_then(|()| outlet.flush(Flush::All, Wait::FOREVER));
        }
    }
    if gathers { outlet.gather(false, Wait::FOREVER).and(outcome) } else { outcome }
}

fn send(
    outlet: &mut dyn Outlet,
    described: &mut Option<Vec<u8>>,
    frame: &[u8],
    newcomers: &mut bool,
    stream_start: u64,
) -> Result<()> {
    let header = Header::read(frame);
    if header.is_some_and(|header| header.is_continued()) {
        return put(outlet, frame);
    }
    let next = NextPacket {
        sequence: header.map_or(0, |header| header.sequence),
        sample: header.map(|header| header.sample_index),
        stream_start,
    };
    *newcomers |= outlet.admit(next).is_new;
    if header.is_some_and(|header| header.kind == Kind::Stream as u8) {
        *described = Some(frame.to_vec());
        *newcomers = false;
    }
    if std::mem::take(newcomers)
        && let Some(description) = described
    {
        // The description gets the sequence and the sample index of the next frame, as if it had
        // been sent just now.
        for place in [offset_of!(Header, sequence), offset_of!(Header, sample_index)] {
            description[place..][..8].copy_from_slice(&frame[place..][..8]);
        }
        put(outlet, description)?;
    }
    put(outlet, frame)
}

fn put(outlet: &mut dyn Outlet, frame: &[u8]) -> Result<()> {
    debug_assert!(frame.len() >= HEADER_BYTES);
    outlet.reserve(frame.len(), Wait::FOREVER)?.copy_from_slice(frame);
    outlet.publish(frame.len(), Wait::FOREVER)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use crate::terms::LinkOptions;

    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Event {
        Gather(bool),
        /// The sequence number and the length.
        Frame(u64, usize),
    }

    /// An outlet that reports the calls of its methods. Each frame waits for a permission.
    struct GatedOutlet {
        frame: AlignedBuffer,
        events: Sender<Event>,
        permissions: Receiver<()>,
    }

    impl Outlet for GatedOutlet {
        fn traits(&self) -> OutletTraits {
            OutletTraits {
                endpoint: Endpoint { transport: "test".into(), address: String::new(), keys: [0; 2] },
                frame_max: LinkOptions::BUFFER_MAX as usize / 2,
                short_headers: false,
                scope_max: None,
                attention: None,
                departures: None,
            }
        }

        fn receivers(&self, _: bool) -> usize {
            1
        }

        fn admit(&mut self, _: NextPacket) -> Admitted {
            Admitted::default()
        }

        fn reserve(&mut self, bytes: usize, _: Wait) -> Result<&mut [u8]> {
            self.frame.grow(bytes);
            Ok(&mut self.frame.bytes_mut()[..bytes])
        }

        fn reserved(&mut self) -> &mut [u8] {
            self.frame.bytes_mut()
        }

        fn publish(&mut self, bytes: usize, _: Wait) -> Result<()> {
            let sequence = Header::read(self.frame.bytes()).map_or(u64::MAX, |header| header.sequence);
            self.events.send(Event::Frame(sequence, bytes)).unwrap();
            self.permissions.recv().unwrap();
            Ok(())
        }

        fn gather(&mut self, gathers: bool, _: Wait) -> Result<()> {
            self.events.send(Event::Gather(gathers)).unwrap();
            Ok(())
        }

        fn prepare_wait<'a>(&'a mut self, _: Awaited, _: &mut PollSet<'a>) -> Result<Prepared> {
            Ok(Prepared::Now)
        }

        fn flush(&mut self, _: Flush, _: Wait) -> Result<()> {
            Ok(())
        }
    }

    fn send(queue: &mut SendQueue, sequence: u64, payload: usize) {
        let bytes = HEADER_BYTES + payload;
        let kind = Kind::Data as u8;
        let words = [sequence, Header::second_word(payload as u32, 0, kind, 0), 0, 0, 0, 0];
        Header::write_words(queue.reserve(bytes, Wait::FOREVER).unwrap(), words);
        queue.publish(bytes, Wait::FOREVER).unwrap();
    }

    #[test]
    fn what_waits_behind_a_frame_leaves_together_and_a_large_frame_alone() {
        let ((events, seen), (permit, permissions)) = (channel(), channel());
        let outlet = GatedOutlet { frame: AlignedBuffer::default(), events, permissions };
        let token = || StopToken::new().unwrap();
        let inner = AnyOutlet::other(outlet);
        let mut queue = SendQueue::start(inner, Watermarks::of_depth(1000), token(), token()).unwrap();

        send(&mut queue, 0, 8);
        assert_eq!(seen.recv(), Ok(Event::Frame(0, HEADER_BYTES + 8)));
        // The thread waits in the first frame.
        (1..100).for_each(|sequence| send(&mut queue, sequence, 8));
        send(&mut queue, 100, BATCH_BYTES);
        (0..=100).for_each(|_| permit.send(()).unwrap());
        queue.flush(Flush::All, Wait::FOREVER).unwrap();
        drop(queue);

        let small = (1..100).map(|sequence| Event::Frame(sequence, HEADER_BYTES + 8));
        let large = Event::Frame(100, HEADER_BYTES + BATCH_BYTES);
        let together = [Event::Gather(true)].into_iter().chain(small).chain([Event::Gather(false), large]);
        assert_eq!(seen.iter().collect::<Vec<_>>(), together.collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_returns_its_frames_as_they_were_pushed() {
        let mut batch = Batch::default();
        let frames: [&[u8]; 3] = [b"one", b"", b"three"];
        frames.iter().zip([true, false, true]).for_each(|(frame, starts)| batch.push(frame, starts));
        assert_eq!((batch.frames().collect::<Vec<_>>(), batch.packets), (frames.to_vec(), 2));
        batch.clear();
        assert_eq!((batch.frames().count(), batch.packets), (0, 0));
    }
}
