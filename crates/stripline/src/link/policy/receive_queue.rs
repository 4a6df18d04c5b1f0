//! A receive queue in front of the component, filled by a pump. `drop-oldest`, `drop-newest` and
//! `eject` need it if the transport itself would block the sender. `block` needs it if the sender
//! waits for acknowledgements from the port's queue.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::ThreadId;

use super::pump::{Pump, ReceiveProgress};
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::flow;
use crate::flow::Ack;
use crate::flow::AckSender;
use crate::inspect::Ages;
use crate::packet::{Header, Kind, LastSent};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::fork::OwnerProcess;
use crate::sys::mutex::lock;
use crate::sys::scoped_call::CallSlot;
use crate::sys::thread::JoinedThread;
use crate::terms::{Flow, Overflow};
use crate::transport::{AnyInlet, ConnectRequest, Inlet, InletParts, Next, QueueProbe, StartPosition};

/// Returns the inlet itself under `block`, unless it needs a queue. Otherwise, wraps the inlet in a
/// queue.
pub(crate) fn with_policy(mut inlet: AnyInlet, request: &ConnectRequest) -> Result<AnyInlet> {
    let parts = inlet.parts();
    match request.options.overflow {
        Overflow::Block if !parts.needs_receive_queue => Ok(inlet),
        _ => Ok(AnyInlet::other(ReceiveQueue::start(inlet, parts, request)?)),
    }
}

/// The reason that is sent for a dropped packet.
const DROPPED: &str = "its queue was full, and its policy dropped it";

struct ReceiveQueue {
    thread: JoinedThread,
    shared: Arc<ReceiveShared>,
    shutdown: Doorbell,
    current: Option<QueuedFrame>,
    process: OwnerProcess,
}

/// A frame in the queue.
struct QueuedFrame {
    bytes: Vec<u8>,
    kind: Option<Kind>,
    /// The packet's number, if the sender waits until the component has finished with the packet.
    ack_awaited: Option<u64>,
}

pub(super) struct ReceiveShared {
    queue: Mutex<FrameQueue>,
    /// Set before the first frame is queued.
    pub(super) start_position: OnceLock<StartPosition>,
    /// Set before the queue ends.
    pub(super) last_sent: OnceLock<LastSent>,
    doorbell: Doorbell,
    /// Under `block`, the doorbell that rings when there is room again.
    pub(super) space: Option<Doorbell>,
    acks: Option<Arc<dyn AckSender>>,
    /// Whether the sender's stamps come from another clock.
    is_other_clock: bool,
    ages: Option<Arc<Ages>>,
    /// Whether the frames of the sender may have short headers.
    short_headers: bool,
    /// The slot for the function that a middleware's thread calls, if such a thread fills the
    /// queue.
    call_slot: Option<Arc<CallSlot>>,
    /// The thread that fills the queue by such a call at present.
    pub(super) caller: Mutex<Option<ThreadId>>,
    pub(super) over: AtomicBool,
    /// Whether to send a goodbye when the queue ends.
    pub(super) says_goodbye: AtomicBool,
    pub(super) connection: String,
    pub(super) overflow: Overflow,
    depth: usize,
    /// Under `block`, the number of packets at which the queue stops taking from the transport, and
    /// the number at which it resumes.
    limit: usize,
    low: usize,
}

#[derive(Default)]
struct FrameQueue {
    frames: VecDeque<QueuedFrame>,
    packets: usize,
    spare: Vec<Vec<u8>>,
    /// Whether the queue waits for room.
    is_full: bool,
    /// The flow control of the sender.
    flow: Option<flow::Receiver>,
    end: Option<Result<()>>,
}

impl ReceiveQueue {
    fn start(inlet: AnyInlet, parts: InletParts, request: &ConnectRequest) -> Result<Self> {
        let blocks = request.options.overflow == Overflow::Block;
        let (marks, flow) = (request.options.watermarks(), parts.flow);
        let limit = match request.options.flow {
            Flow::Transport => marks.high(),
            // A sender that keeps to its credits never reaches the limit, and a sender that does
            // not is detected.
            Flow::Credit => u32::MAX,
            // The rest of the depth is for packets in transit at the stop.
            Flow::StopResume => request.options.depth,
        };
        let shared = Arc::new(ReceiveShared {
            queue: Mutex::new(FrameQueue { flow, ..FrameQueue::default() }),
            limit: limit as usize,
            low: marks.low() as usize,
            start_position: OnceLock::new(),
            last_sent: OnceLock::new(),
            doorbell: Doorbell::new()?,
            space: if blocks { Some(Doorbell::new()?) } else { None },
            acks: parts.acks,
            is_other_clock: parts.is_other_clock,
            ages: parts.ages,
            short_headers: parts.short_headers,
            call_slot: parts.call_slot.is_some().then(Arc::default),
            caller: Mutex::new(None),
            over: AtomicBool::new(false),
            says_goodbye: AtomicBool::new(false),
            connection: request.connection.clone(),
            overflow: request.options.overflow,
            depth: request.options.depth as usize,
        });
        let shutdown = Doorbell::new()?;
        let pump = Pump::new(Arc::clone(&shared), inlet, shutdown.clone());
        let thread = JoinedThread::spawn("stripline-pump", move || pump.run(parts.call_slot.as_deref()))?;
        Ok(Self { shared, shutdown, thread, current: None, process: OwnerProcess::current() })
    }
}

impl Inlet for ReceiveQueue {
    fn parts(&mut self) -> InletParts {
        let probe: Weak<ReceiveShared> = Arc::downgrade(&self.shared);
        InletParts {
            acks: self.shared.acks.clone(),
            queue_probe: Some(probe),
            call_slot: self.shared.call_slot.clone(),
            is_other_clock: self.shared.is_other_clock,
            ages: self.shared.ages.clone(),
            short_headers: self.shared.short_headers,
            last_sent: self.shared.last_sent.get().copied(),
            start: self.shared.start_position.get().copied().unwrap_or_default(),
            ..InletParts::default()
        }
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        if self.current.is_none() {
            let mut queue = lock(&self.shared.queue);
            let Some(frame) = queue.frames.pop_front() else {
                // An error is returned only once.
                let end = queue.end.as_mut().map(|end| std::mem::replace(end, Ok(())));
                return end.map_or(Ok(Next::Empty), |end| end.map(|()| Next::Closed));
            };
            if frame.kind == Some(Kind::Data) {
                queue.packets -= 1;
                let say = queue.flow.as_mut().and_then(flow::Receiver::take);
                self.shared.send_flow(say);
            }
            if queue.is_full
                && queue.packets <= self.shared.low
                && let Some(room) = &self.shared.space
            {
                queue.is_full = false;
                room.notify();
            }
            self.current = Some(frame);
        }
        Ok(self.current.as_ref().map_or(Next::Empty, |frame| Next::Frame(&frame.bytes)))
    }

    fn release(&mut self) {
        // A packet that was held during a fork is also given back in the child, where the queue may
        // be locked for ever.
        if let Some(QueuedFrame { mut bytes, .. }) = self.current.take()
            && self.process.is_current()
        {
            bytes.clear();
            lock(&self.shared.queue).spare.push(bytes);
        }
    }

    fn say_goodbye(&mut self) {
        // Relaxed: `over`, which is stored later, ends the thread, and the thread is joined.
        self.shared.says_goodbye.store(true, Ordering::Relaxed);
    }

    fn prepare_sleep<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        self.shared.doorbell.drain();
        poll_set.readable(self.shared.doorbell.as_fd());
        let queue = lock(&self.shared.queue);
        queue.frames.is_empty() && queue.end.is_none()
    }

    fn is_peer_gone(&mut self) -> bool {
        lock(&self.shared.queue).end.is_some()
    }
}

impl QueueProbe for ReceiveShared {
    fn packets(&self) -> usize {
        lock(&self.queue).packets
    }
}

impl Drop for ReceiveQueue {
    fn drop(&mut self) {
        if *lock(&self.shared.caller) == Some(std::thread::current().id()) {
            // The thread waits for the end of this very call, and then ends without a join.
            self.thread.detach();
        }
        // Release: the store also publishes `says_goodbye`.
        self.shared.over.store(true, Ordering::Release);
        self.shutdown.notify();
    }
}

impl ReceiveShared {
    /// Returns whether there is room for a packet. A full queue stays full until the low watermark.
    /// Then the doorbell of `space` rings.
    pub(super) fn has_space(&self) -> bool {
        if self.space.is_none() {
            return true;
        }
        let mut queue = lock(&self.queue);
        queue.is_full |= queue.packets >= self.limit;
        !queue.is_full
    }

    /// Ends the queue behind the frames that are in it.
    pub(super) fn end(&self, end: Result<()>) {
        lock(&self.queue).end = Some(end);
        self.doorbell.notify();
    }

    /// Sends a message of flow control. Called with the queue locked, so that messages keep their
    /// order.
    fn send_flow(&self, say: Option<flow::FlowMessage>) {
        if let (Some(acks), Some(message)) = (&self.acks, say) {
            acks.send_flow(message);
        }
    }

    /// Acknowledges a packet, if the sender waits for it.
    pub(super) fn ack(&self, packet: Option<u64>, ack: Ack<'_>) {
        if let (Some(acks), Some(packet)) = (&self.acks, packet) {
            acks.send(packet, ack);
        }
    }

    /// Queues a copy of the frame, or drops a packet according to the policy. Any thread may call
    /// it, but only one at a time.
    ///
    /// # Errors
    /// The sender has violated the protocol, or the receiver is ejected.
    pub(super) fn accept(&self, frame: &[u8], progress: &mut ReceiveProgress) -> Result<()> {
        let header = Header::read(frame);
        let kind = header.and_then(|header| Kind::parse(header.kind));
        let packet = header.filter(|header| header.kind == Kind::Data as u8);
        let marked = |mark| packet.filter(|packet| packet.flags & mark != 0).map(|packet| packet.sequence);
        let (server, target) = (marked(Header::SERVER), marked(Header::TARGET));
        let mut dropped = None;
        let mut queue = lock(&self.queue);
        match (header, kind) {
            (Some(header), Some(Kind::Data)) => {
                let missed = progress.next.is_some_and(|next| header.sequence > next);
                progress.next = Some(header.sequence.wrapping_add(1));
                if self.overflow == Overflow::Eject && (missed || queue.packets >= self.depth) {
                    let depth = u32::try_from(self.depth).unwrap_or(u32::MAX);
                    return Err(Error::Ejected { connection: self.connection.clone(), depth });
                }
                if self.overflow != Overflow::Block && progress.stream != Some(header.stream) {
                    // The description of the packet's stream was missed, and is sent again soon.
                    self.ack(server.or(target), Ack::Refused("the description of its stream was lost"));
                    return Ok(());
                }
                if queue.packets >= self.depth && self.overflow != Overflow::Block {
                    if self.overflow == Overflow::DropNewest {
                        drop(queue);
                        self.ack(server.or(target), Ack::Refused(DROPPED));
                        return Ok(());
                    }
                    dropped = queue.drop_oldest();
                }
            }
            (Some(header), Some(Kind::Stream)) => {
                progress.stream = Some(header.stream);
                queue.supersede();
            }
            _ => {}
        }
        let mut bytes = queue.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(frame);
        queue.packets += usize::from(kind == Some(Kind::Data));
        let say = match (kind, &mut queue.flow) {
            (Some(Kind::Data), Some(flow)) => {
                flow.arrive_next().map_err(|violation| Error::misbehaved(&self.connection, violation))?
            }
            (Some(Kind::End), Some(flow)) => Some(flow.end()),
            _ => None,
        };
        self.send_flow(say);
        queue.frames.push_back(QueuedFrame { bytes, kind, ack_awaited: target });
        drop(queue);
        if self.call_slot.is_none() {
            self.doorbell.notify();
        }
        self.ack(dropped, Ack::Refused(DROPPED));
        if server.is_some() {
            fail_point!("queue");
            self.ack(server, Ack::Accepted);
            fail_point!("queue-accepted");
        }
        if self.call_slot.as_ref().is_some_and(|slot| !slot.call()) {
            self.doorbell.notify();
        }
        Ok(())
    }
}

impl FrameQueue {
    /// Removes the oldest packet, and a description that has no packet left to describe. Returns
    /// the packet's number, if the sender waits for it.
    fn drop_oldest(&mut self) -> Option<u64> {
        let oldest = self.frames.iter().position(|frame| frame.kind == Some(Kind::Data))?;
        let ack_wait = self.remove(oldest);
        self.packets -= 1;
        let describes = |frame: Option<&QueuedFrame>| frame.is_some_and(|f| f.kind == Some(Kind::Stream));
        if oldest > 0 && describes(self.frames.get(oldest - 1)) && describes(self.frames.get(oldest)) {
            self.remove(oldest - 1);
        }
        ack_wait
    }

    /// Removes the description queued last if another one follows at once, because it describes no
    /// packet.
    fn supersede(&mut self) {
        if self.frames.back().is_some_and(|frame| frame.kind == Some(Kind::Stream)) {
            self.remove(self.frames.len() - 1);
        }
    }

    fn remove(&mut self, index: usize) -> Option<u64> {
        let QueuedFrame { mut bytes, ack_awaited: ack_wait, .. } = self.frames.remove(index)?;
        bytes.clear();
        self.spare.push(bytes);
        ack_wait
    }
}
