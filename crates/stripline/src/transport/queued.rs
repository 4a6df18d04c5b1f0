//! Scope `none` over a transport whose own send may wait: a queue in the sender's process and a thread that
//! empties it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::stream::AlignedBuffer;
use super::{Bind, Endpoint, Outlet, Stop, Wait};
use crate::error::{Error, Result};
use crate::link::Scope;
use crate::packet::{HEADER_BYTES, Header, Kind};

/// How often a full queue looks whether its component is to stop.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// The outlet itself, or behind a queue when its strongest scope is `none`.
pub(super) fn for_scope(
    request: Bind,
    make: impl FnOnce(Bind) -> Result<Box<dyn Outlet>>,
) -> Result<Box<dyn Outlet>> {
    if request.scope != Scope::None {
        return make(request);
    }
    let (depth, stop) = (request.depth as usize, request.stop.clone());
    // The queue's thread goes on when the component is asked to stop: what was queued is still sent.
    let inner = make(Bind { stop: Stop::new()?, ..request })?;
    Ok(Box::new(Queued::start(inner, depth, stop)?))
}

struct Queued {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    frame: AlignedBuffer,
    frame_max: usize,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    depth: usize,
    port: String,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    sending: bool,
    receivers: usize,
    over: bool,
    failed: Option<Error>,
}

impl Queued {
    fn start(inner: Box<dyn Outlet>, depth: usize, stop: Stop) -> Result<Self> {
        let endpoint = inner.endpoint();
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            depth: depth.max(1),
            port: endpoint.to_string(),
        });
        let its = Arc::clone(&shared);
        let frame_max = inner.frame_max();
        let thread = std::thread::Builder::new()
            .name("stripline-queue".into())
            .spawn(move || its.run(inner))
            .map_err(|e| Error::system("cannot start a thread", e))?;
        Ok(Self { shared, endpoint, frame: AlignedBuffer::default(), frame_max, stop, thread: Some(thread) })
    }

    /// Waits until `done`, in the wait's own way.
    fn wait_for(&self, wait: Wait, done: impl Fn(&Queue) -> bool) -> Result<MutexGuard<'_, Queue>> {
        let mut queue = self.shared.queue();
        loop {
            if let Some(error) = queue.failed.take() {
                return Err(error);
            }
            if done(&queue) {
                return Ok(queue);
            }
            if wait.heeds_stop() && self.stop.is_stopped() {
                return Err(Error::Stopped);
            }
            let over = wait.deadline().is_some_and(|deadline| Instant::now() >= deadline);
            if over || matches!(wait, Wait::Never) {
                return Err(Error::Full { connection: self.shared.port.clone() });
            }
            let look = self.shared.changed.wait_timeout(queue, STOP_LOOK);
            queue = look.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Outlet for Queued {
    fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    fn frame_max(&self) -> usize {
        self.frame_max
    }

    fn receivers(&self) -> usize {
        self.shared.queue().receivers
    }

    fn is_lossy(&self) -> bool {
        // Asking the thread costs more than the rare description that this saves.
        true
    }

    fn admit(&mut self) -> bool {
        // The thread describes the streams to newcomers itself.
        false
    }

    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]> {
        if bytes > self.frame_max {
            return Err(Error::TooLarge { bytes, bytes_max: self.frame_max });
        }
        let depth = self.shared.depth;
        drop(self.wait_for(wait, |queue| queue.frames.len() < depth)?);
        self.frame.grow(bytes);
        Ok(&mut self.frame.bytes_mut()[..bytes])
    }

    fn reserved(&mut self) -> &mut [u8] {
        self.frame.bytes_mut()
    }

    fn publish(&mut self, bytes: usize, _: Wait) -> Result<()> {
        let mut queue = self.shared.queue();
        let mut copy = queue.spare.pop().unwrap_or_default();
        copy.extend_from_slice(&self.frame.bytes()[..bytes]);
        queue.frames.push_back(copy);
        drop(queue);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn cancel(&mut self) {}

    fn flush(&mut self, wait: Wait) -> Result<()> {
        self.wait_for(wait, |queue| queue.frames.is_empty() && !queue.sending).map(drop)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.shared.queue().over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, mut outlet: Box<dyn Outlet>) {
        // The last description of every stream, for those who come later.
        let mut streams: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        loop {
            let mut frame = {
                let mut queue = self.queue();
                queue.sending = false;
                self.changed.notify_all();
                loop {
                    if queue.over {
                        return;
                    }
                    if let Some(frame) = queue.frames.pop_front() {
                        queue.sending = true;
                        break frame;
                    }
                    queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            };
            if let Err(error) = send(&mut *outlet, &mut streams, &frame) {
                let mut queue = self.queue();
                queue.failed = Some(error);
            }
            frame.clear();
            let mut queue = self.queue();
            queue.spare.push(frame);
            queue.receivers = outlet.receivers();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send(outlet: &mut dyn Outlet, streams: &mut BTreeMap<u16, Vec<u8>>, frame: &[u8]) -> Result<()> {
    let header = Header::read(frame);
    if outlet.admit()
        && let Some(next) = header
    {
        for description in streams.values_mut() {
            description[..8].copy_from_slice(&next.sequence.to_ne_bytes());
            put(outlet, description)?;
        }
    }
    if let Some(header) = header
        && header.kind == Kind::Stream as u8
    {
        streams.insert(header.stream, frame.to_vec());
    }
    put(outlet, frame)
}

fn put(outlet: &mut dyn Outlet, frame: &[u8]) -> Result<()> {
    debug_assert!(frame.len() >= HEADER_BYTES);
    outlet.reserve(frame.len(), Wait::FOREVER)?.copy_from_slice(frame);
    outlet.publish(frame.len(), Wait::FOREVER)
}
