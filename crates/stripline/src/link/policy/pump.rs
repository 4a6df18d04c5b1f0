//! The pump that fills a receive queue, on a dedicated thread or on the threads of a middleware
//! with callbacks.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::receive_queue::ReceiveShared;
use crate::error::{Error, Result};
use crate::flow::Ack;
use crate::link::{CallbackWork, Reassembler, Reassembly, run_callback_work};
use crate::packet::Header;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::mutex::lock;
use crate::sys::ready_set::ReadySet;
use crate::sys::scoped_call::{CallSlot, ScopedCall};
use crate::terms::Overflow;
use crate::transport::{AnyInlet, Next};

/// The reason for the loss of a packet larger than the ring, when parts of it were overwritten
/// before they were taken.
const OVERTAKEN: &str =
    "it was overtaken in the middle of the packet, and its policy dropped it; raise `buffer`";

/// The way of frames from an inlet to a queue.
pub(super) struct Pump {
    shared: Arc<ReceiveShared>,
    inlet: AnyInlet,
    /// Rung when the queue is dropped.
    shutdown: Doorbell,
    progress: ReceiveProgress,
    reassembler: Reassembler,
}

/// The memory of earlier frames.
#[derive(Default)]
pub(super) struct ReceiveProgress {
    /// The stream that was described last.
    pub stream: Option<u16>,
    /// The next expected sequence number, once set.
    pub next: Option<u64>,
}

/// The result of a poll of the inlet.
enum Pumped {
    Frame,
    Empty,
    /// No frame will arrive any more.
    Closed,
}

/// Returns the number of a packet that the sender waits for.
fn ack_awaited(header: Header) -> Option<u64> {
    (header.flags & (Header::SERVER | Header::TARGET) != 0).then_some(header.sequence)
}

impl Pump {
    pub(super) fn new(shared: Arc<ReceiveShared>, inlet: AnyInlet, shutdown: Doorbell) -> Self {
        let reassembler = Reassembler::new(shared.overflow != Overflow::Block);
        Self { shared, inlet, shutdown, progress: ReceiveProgress::default(), reassembler }
    }

    /// Fills the queue until the queue or the inlet has ended. With a slot, the threads that call
    /// there do most of the work.
    pub(super) fn run(mut self, call_slot: Option<&CallSlot>) {
        let end = match call_slot {
            None => self.fill(),
            Some(slot) => self.fill_called(slot),
        };
        let Self { shared, mut inlet, .. } = self;
        // Relaxed: a thread that ends this pump by the doorbell has already stored the flag.
        if shared.says_goodbye.load(Ordering::Relaxed) {
            inlet.say_goodbye();
        }
        if let (Ok(()), Some(last)) = (&end, inlet.parts().last_sent) {
            // Only this thread sets the value, once.
            let _ = shared.last_sent.set(last);
        }
        // The link is closed first, so that the port finds it closed when it reads the end.
        drop(inlet);
        shared.end(end);
    }

    /// Fills the queue on this thread.
    fn fill(&mut self) -> Result<()> {
        while !self.is_over() {
            if !self.wait_for_space()? {
                return Ok(());
            }
            match self.take()? {
                Pumped::Frame => {}
                Pumped::Closed => return Ok(()),
                Pumped::Empty => {
                    let mut poll_set = PollSet::default();
                    poll_set.readable(self.shutdown.as_fd());
                    if self.inlet.prepare_sleep(&mut poll_set) {
                        let slept = poll_set.wait(None);
                        let over = poll_set.is_ready(0);
                        self.inlet.cancel_sleep();
                        if over || slept.is_err() {
                            return slept.map(|_| ());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Fills the queue on the threads of the middleware.
    fn fill_called(&mut self, slot: &CallSlot) -> Result<()> {
        let work = Mutex::new(CalledPump { pump: self, slot, end: None, is_blocked: false });
        let outcome = run_callback_work(&work);
        let end = work.into_inner().unwrap_or_else(PoisonError::into_inner).end;
        outcome.and(end.unwrap_or(Ok(())))
    }

    /// Returns whether the queue is dropped.
    fn is_over(&self) -> bool {
        // Acquire: `says_goodbye` was stored before `over`. A late read costs one more frame, and
        // the doorbell wakes a sleeping thread.
        self.shared.over.load(Ordering::Acquire)
    }

    /// Waits, under `block`, until there is room for a packet; false: the queue is over.
    fn wait_for_space(&self) -> Result<bool> {
        while !self.shared.has_space() {
            let Some(room) = &self.shared.space else { break };
            let mut poll_set = PollSet::default();
            poll_set.readable(self.shutdown.as_fd());
            poll_set.readable(room.as_fd());
            poll_set.wait(None)?;
            if poll_set.is_ready(0) {
                return Ok(false);
            }
            room.drain();
        }
        Ok(true)
    }

    /// Moves the next frame to the queue.
    fn take(&mut self) -> Result<Pumped> {
        let Self { shared, inlet, progress, reassembler, .. } = self;
        loop {
            let frame = match inlet.try_next()? {
                Next::Frame(frame) => frame,
                Next::Empty => return Ok(Pumped::Empty),
                Next::Closed => return Ok(Pumped::Closed),
            };
            let header = Header::read(frame);
            // A frame in the middle of a packet gives no start position.
            let starts = header.is_none_or(|header| !header.is_continued());
            if starts && shared.start_position.get().is_none() {
                let first = header.map(|header| (header.sequence, header.sample_index));
                let mut start_position = inlet.parts().start;
                start_position.first_sent = start_position.first_sent.or(first);
                progress.next = start_position.first_sent.map(|first| first.0);
                // Only the pump sets the value, once. The next iteration gets the same frame again.
                let _ = shared.start_position.set(start_position);
                continue;
            }
            let outcome = match reassembler.add_frame(frame) {
                Ok(Reassembly::Unfragmented) => shared.accept(frame, progress),
                Ok(Reassembly::Complete) => shared.accept(reassembler.frame(), progress),
                Ok(Reassembly::Partial) => Ok(()),
                Ok(Reassembly::Lost) => {
                    shared.ack(header.and_then(ack_awaited), Ack::Refused(OVERTAKEN));
                    Ok(())
                }
                Err(violation) => Err(Error::misbehaved(&shared.connection, violation)),
            };
            inlet.release();
            return outcome.map(|()| Pumped::Frame);
        }
    }
}

/// A pump that works on the threads of the middleware.
struct CalledPump<'a> {
    pump: &'a mut Pump,
    /// The slot for the call.
    slot: &'a CallSlot,
    end: Option<Result<()>>,
    /// Whether the queue was full at the end of the last work, so that the inlet may still have
    /// frames.
    is_blocked: bool,
}

impl CallbackWork for CalledPump<'_> {
    fn work(&mut self) -> bool {
        let shared = Arc::clone(&self.pump.shared);
        *lock(&shared.caller) = Some(std::thread::current().id());
        let goes_on = self.fill();
        *lock(&shared.caller) = None;
        goes_on
    }

    fn set_call(&mut self, call: Option<&Arc<ScopedCall>>) {
        self.slot.set(call);
    }

    fn arm(&mut self, ready: &ReadySet) -> Result<bool> {
        let Pump { shared, inlet, shutdown, .. } = &mut *self.pump;
        inlet.cancel_sleep();
        let mut poll_set = PollSet::for_ready_set();
        poll_set.readable(shutdown.as_fd());
        let is_quiet = match &shared.space {
            Some(room) if self.is_blocked => {
                poll_set.readable(room.as_fd());
                !shared.has_space()
            }
            _ => inlet.prepare_sleep(&mut poll_set),
        };
        if is_quiet {
            ready.set(&poll_set, None)?;
        }
        Ok(is_quiet)
    }

    fn fail(&mut self, error: Error) {
        self.end = Some(Err(error));
    }
}

impl CalledPump<'_> {
    /// Fills the queue while the inlet has frames and the queue has room; false: the pump has
    /// ended.
    fn fill(&mut self) -> bool {
        if let Some(room) = &self.pump.shared.space {
            room.drain();
        }
        self.is_blocked = false;
        while self.end.is_none() {
            if self.pump.is_over() {
                self.end = Some(Ok(()));
            } else if !self.pump.shared.has_space() {
                // Until there is space, the middleware waits and keeps the frames.
                self.is_blocked = true;
                return true;
            } else {
                self.end = match self.pump.take() {
                    Ok(Pumped::Frame) => None,
                    Ok(Pumped::Empty) => return true,
                    Ok(Pumped::Closed) => Some(Ok(())),
                    Err(error) => Some(Err(error)),
                };
            }
        }
        false
    }
}
