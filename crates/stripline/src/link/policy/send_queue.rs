//! A send queue for scope `none` over a transport with a blocking send: a queue in the sender's
//! process, and a thread that empties it.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::packet::{HEADER_BYTES, Header, Kind};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::mutex::lock;
use crate::sys::thread::JoinedThread;
use crate::terms::{Scope, Watermarks};
use crate::transport::{
    Admitted, AnyOutlet, BindRequest, Endpoint, Outlet, OutletTraits, StopToken, Transport, Wait,
};

/// The interval at which a full queue checks for a stop of its component.
const STOP_POLL: Duration = Duration::from_millis(20);

/// Opens the sending side of a port. It is behind a queue where its strongest scope is `none` and
/// a send of the transport may block in the system.
pub(super) fn with_scope(transport: &dyn Transport, request: BindRequest) -> Result<AnyOutlet> {
    if request.options.scope != Scope::None || transport.capabilities().ring {
        return transport.bind(request);
    }
    let (watermarks, stop) = (request.options.watermarks, request.stop.clone());
    // The queue's thread continues when the component is stopped: queued packets are still sent.
    let give_up = StopToken::new()?;
    let inner = transport.bind(BindRequest { stop: give_up.clone(), ..request })?;
    Ok(AnyOutlet::other(SendQueue::start(inner, watermarks, stop, give_up)?))
}

struct SendQueue {
    _thread: JoinedThread,
    shared: Arc<SendShared>,
    endpoint: Endpoint,
    frame: AlignedBuffer,
    frame_max: usize,
    stop: StopToken,
    /// Frees the thread from a receiver that takes nothing.
    give_up: StopToken,
}

struct SendShared {
    queue: Mutex<PendingFrames>,
    changed: Condvar,
    watermarks: Watermarks,
    port: String,
}

#[derive(Default)]
struct PendingFrames {
    frames: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    sending: bool,
    /// Packets waiting: the fragments of one count once.
    packets: usize,
    /// Whether there was no room, so that sends wait for the low watermark.
    is_stalled: bool,
    /// Whether another fragment of the packet queued last is to come.
    open: bool,
    receivers: usize,
    /// Whether the number of receivers is to be refreshed.
    refresh_receivers: bool,
    over: bool,
    failed: Option<Error>,
}

impl SendQueue {
    fn start(inner: AnyOutlet, watermarks: Watermarks, stop: StopToken, give_up: StopToken) -> Result<Self> {
        let OutletTraits { endpoint, frame_max, .. } = inner.traits();
        let shared = Arc::new(SendShared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            watermarks,
            port: endpoint.to_string(),
        });
        let its = Arc::clone(&shared);
        let thread = JoinedThread::spawn("stripline-queue", move || its.run(inner))?;
        let frame = AlignedBuffer::default();
        Ok(Self { shared, endpoint, frame, frame_max, stop, give_up, _thread: thread })
    }

    /// Waits until `done`, as the wait specifies.
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
            if wait.is_stoppable() && self.stop.is_stopped() {
                return Err(Error::Stopped);
            }
            let over = wait.deadline().is_some_and(|deadline| Instant::now() >= deadline);
            if over || matches!(wait, Wait::Never) {
                return Err(Error::Full { connection: self.shared.port.clone() });
            }
            let look = self.shared.changed.wait_timeout(queue, STOP_POLL);
            queue = look.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl PendingFrames {
    /// Returns whether another packet may be queued, or the rest of one.
    fn has_space(&mut self, watermarks: Watermarks) -> bool {
        // One more than packets: the description of the stream may wait before them.
        let most = if self.is_stalled { watermarks.low() } else { watermarks.high() } as usize;
        self.is_stalled = !self.open && self.packets > most;
        !self.is_stalled
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
        }
    }

    fn receivers(&self, _: bool) -> usize {
        // The thread has the number and is asked to refresh it. A caller that waits for receivers
        // asks again.
        let mut queue = lock(&self.shared.queue);
        queue.refresh_receivers = true;
        self.shared.changed.notify_all();
        queue.receivers
    }

    fn admit(&mut self) -> Admitted {
        // Asking the thread would cost more than the rare description that this saves.
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
        let mut queue = lock(&self.shared.queue);
        queue.packets += usize::from(header.is_none_or(|header| !header.is_continued()));
        queue.open = header.is_some_and(|header| header.flags & Header::MORE != 0);
        // The thread accepts receivers before it sends, but must not between two fragments of a
        // packet.
        queue.refresh_receivers = false;
        let mut copy = queue.spare.pop().unwrap_or_default();
        copy.extend_from_slice(&self.frame.bytes()[..bytes]);
        queue.frames.push_back(copy);
        drop(queue);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn flush(&mut self, wait: Wait) -> Result<()> {
        self.wait_for(wait, |queue| queue.frames.is_empty() && !queue.sending).map(drop)
    }
}

impl Drop for SendQueue {
    fn drop(&mut self) {
        lock(&self.shared.queue).over = true;
        self.shared.changed.notify_all();
        self.give_up.stop();
    }
}

impl SendShared {
    fn run(&self, mut outlet: AnyOutlet) {
        // The description of the current stream, for receivers that connect later.
        let mut described: Option<Vec<u8>> = None;
        let mut newcomers = false;
        loop {
            let mut frame = {
                let mut queue = lock(&self.queue);
                queue.sending = false;
                self.changed.notify_all();
                loop {
                    if queue.over {
                        return;
                    }
                    if let Some(frame) = queue.frames.pop_front() {
                        queue.sending = true;
                        let starts = Header::read(&frame).is_none_or(|header| !header.is_continued());
                        queue.packets -= usize::from(starts);
                        // The transport may hold this frame up for long, and there is room now.
                        if queue.is_stalled {
                            self.changed.notify_all();
                        }
                        break frame;
                    }
                    if std::mem::take(&mut queue.refresh_receivers) {
                        newcomers |= outlet.admit().is_new;
                        queue.receivers = outlet.receivers(true);
                    }
                    queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            };
            let is_end = Header::read(&frame).is_some_and(|header| header.kind == Kind::End as u8);
            let mut outcome = send(&mut *outlet, &mut described, &frame, &mut newcomers);
            if is_end {
                // The last messages of receivers must be read. A socket that is closed with unread
                // bytes discards what its receiver has not read. `give_up` ends this wait.
                outcome = outcome.and_then(|()| outlet.flush(Wait::FOREVER));
            }
            frame.clear();
            let mut queue = lock(&self.queue);
            queue.failed = outcome.err().or(queue.failed.take());
            queue.spare.push(frame);
            queue.receivers = outlet.receivers(true);
        }
    }
}

fn send(
    outlet: &mut dyn Outlet,
    described: &mut Option<Vec<u8>>,
    frame: &[u8],
    newcomers: &mut bool,
) -> Result<()> {
    let header = Header::read(frame);
    if header.is_some_and(|header| header.is_continued()) {
        return put(outlet, frame);
    }
    *newcomers |= outlet.admit().is_new;
    if header.is_some_and(|header| header.kind == Kind::Stream as u8) {
        *described = Some(frame.to_vec());
        *newcomers = false;
    }
    if std::mem::take(newcomers)
        && let Some(description) = described
    {
        // As if it had been sent just now: sequence and sample index of the frame that follows.
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
