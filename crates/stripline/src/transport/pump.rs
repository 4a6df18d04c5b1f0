//! A queue in front of the component, filled by a thread: what `drop-oldest`, `drop-newest` and `eject` need
//! where the transport itself would hold the sender up.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::{Connect, Inlet, Next};
use crate::error::{Error, Result};
use crate::link::Overflow;
use crate::packet::{Header, Kind};
use crate::sys::clock::now_ns;
use crate::sys::doorbell::{Doorbell, Sleep};

/// Stream descriptions that may wait besides the packets; a sender that floods is cut off.
const DESCRIPTIONS_MAX: usize = 1024;

/// The inlet itself under `block`, otherwise behind a pump.
pub(super) fn for_policy(inlet: Box<dyn Inlet>, request: &Connect) -> Result<Box<dyn Inlet>> {
    match request.options.overflow {
        Overflow::Block => Ok(inlet),
        _ => Ok(Box::new(Pump::start(inlet, request)?)),
    }
}

struct Pump {
    shared: Arc<Shared>,
    shutdown: Doorbell,
    thread: Option<JoinHandle<()>>,
    current: Option<Waiting>,
    resume_from: Option<u64>,
}

/// A frame in the queue.
struct Waiting {
    bytes: Vec<u8>,
    /// When it came, if it is one that is measured.
    received_ns: Option<u64>,
    packet: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    bell: Doorbell,
    connection: String,
    overflow: Overflow,
    depth: usize,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Waiting>,
    packets: usize,
    spare: Vec<Vec<u8>>,
    end: Option<Result<()>>,
}

impl Pump {
    fn start(inlet: Box<dyn Inlet>, request: &Connect) -> Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            bell: Doorbell::new()?,
            connection: request.connection.clone(),
            overflow: request.options.overflow,
            depth: request.options.depth as usize,
        });
        let shutdown = Doorbell::new()?;
        let resume_from = inlet.resume_from();
        let (its, bell) = (Arc::clone(&shared), shutdown.clone());
        let thread = std::thread::Builder::new()
            .name("stripline-pump".into())
            .spawn(move || its.run(inlet, &bell))
            .map_err(|e| Error::system("cannot start a thread", e))?;
        Ok(Self { shared, shutdown, thread: Some(thread), current: None, resume_from })
    }
}

impl Inlet for Pump {
    fn try_next(&mut self) -> Result<Next<'_>> {
        if self.current.is_none() {
            let mut queue = self.shared.queue();
            match queue.frames.pop_front() {
                Some(frame) => {
                    queue.packets -= usize::from(frame.packet);
                    self.current = Some(frame);
                }
                None => {
                    return match &queue.end {
                        None => Ok(Next::Empty),
                        Some(Ok(())) => Ok(Next::Gone),
                        Some(Err(_)) => match queue.end.replace(Ok(())) {
                            Some(Err(error)) => Err(error),
                            _ => Ok(Next::Gone),
                        },
                    };
                }
            }
        }
        Ok(self.current.as_ref().map_or(Next::Empty, |frame| Next::Frame(&frame.bytes)))
    }

    fn release(&mut self) {
        if let Some(Waiting { mut bytes, .. }) = self.current.take() {
            bytes.clear();
            self.shared.queue().spare.push(bytes);
        }
    }

    fn prepare_sleep(&mut self) -> bool {
        self.shared.bell.quiet();
        let queue = self.shared.queue();
        queue.frames.is_empty() && queue.end.is_none()
    }

    fn cancel_sleep(&mut self) {}

    fn sleep_on<'a>(&'a self, sleep: &mut Sleep<'a>) {
        sleep.readable(self.shared.bell.as_fd());
    }

    fn check_peer(&mut self) {
        // The thread does.
    }

    fn received_ns(&self) -> Option<u64> {
        self.current.as_ref().and_then(|frame| frame.received_ns)
    }

    fn resume_from(&self) -> Option<u64> {
        self.resume_from
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.shutdown.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, mut inlet: Box<dyn Inlet>, shutdown: &Doorbell) {
        let end = loop {
            match inlet.try_next() {
                Ok(Next::Frame(frame)) => {
                    let outcome = self.accept(frame);
                    inlet.release();
                    if let Err(error) = outcome {
                        break Err(error);
                    }
                }
                Ok(Next::Empty) => {
                    if inlet.prepare_sleep() {
                        let mut sleep = Sleep::default();
                        sleep.readable(shutdown.as_fd());
                        inlet.sleep_on(&mut sleep);
                        let slept = sleep.until(None);
                        let over = sleep.fired(0);
                        inlet.cancel_sleep();
                        inlet.check_peer();
                        if over || slept.is_err() {
                            break slept.map(|_| ());
                        }
                    }
                }
                Ok(Next::Gone) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // First the link, then the news: whoever hears it finds the link closed.
        drop(inlet);
        self.queue().end = Some(end);
        self.bell.ring();
    }

    /// Queues a copy of the frame, or drops what the policy says.
    fn accept(&self, frame: &[u8]) -> Result<()> {
        let header = Header::read(frame);
        let packet = header.is_some_and(|header| header.kind == Kind::Data as u8);
        let measured = header.is_some_and(|header| header.sent_ns != 0);
        let received_ns = measured.then(now_ns);
        let mut queue = self.queue();
        if packet && queue.packets >= self.depth {
            match self.overflow {
                Overflow::DropNewest => return Ok(()),
                Overflow::DropOldest => {
                    if let Some(oldest) = queue.frames.iter().position(|frame| frame.packet) {
                        queue.frames.remove(oldest);
                        queue.packets -= 1;
                    }
                }
                Overflow::Eject | Overflow::Block => {
                    let depth = u32::try_from(self.depth).unwrap_or(u32::MAX);
                    return Err(Error::Ejected { connection: self.connection.clone(), depth });
                }
            }
        }
        if !packet && queue.frames.len() >= queue.packets + DESCRIPTIONS_MAX {
            return Err(Error::misbehaved(&self.connection, "floods the link with stream descriptions"));
        }
        let mut bytes = queue.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(frame);
        queue.frames.push_back(Waiting { bytes, received_ns, packet });
        queue.packets += usize::from(packet);
        drop(queue);
        self.bell.ring();
        Ok(())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
