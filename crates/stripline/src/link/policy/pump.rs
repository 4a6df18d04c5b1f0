//! What fills a receive queue: a thread of its own, or that of a middleware that calls back.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::receive_queue::ReceiveShared;
use crate::error::{Error, Result};
use crate::flow::Ack;
use crate::link::{Called, Reassembler, Reassembly, run_called};
use crate::packet::Header;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::mutex::lock;
use crate::sys::ready_set::ReadySet;
use crate::sys::scoped_call::{CallSlot, ScopedCall};
use crate::terms::Overflow;
use crate::transport::{AnyInlet, Next};

/// The reason for a packet larger than the ring, with parts overwritten before they were taken.
const OVERTAKEN: &str =
    "it was overtaken in the middle of the packet, and its policy dropped it; raise `buffer`";

/// The way of frames from an inlet to the queue.
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
    /// The sequence number that comes next, once set.
    pub next: Option<u64>,
}

/// A poll of the inlet.
enum Pumped {
    Frame,
    Empty,
    /// No frame will ever come again.
    Closed,
}

/// Returns the number of a packet that its sender waits for.
fn ack_awaited(header: Header) -> Option<u64> {
    (header.flags & (Header::SERVER | Header::TARGET) != 0).then_some(header.sequence)
}

impl Pump {
    pub(super) fn new(shared: Arc<ReceiveShared>, inlet: AnyInlet, shutdown: Doorbell) -> Self {
        let reassembler = Reassembler::new(shared.overflow != Overflow::Block);
        Self { shared, inlet, shutdown, progress: ReceiveProgress::default(), reassembler }
    }

    /// Fills the queue until one of its ends is over. With a slot, most of it on the threads that
    /// call there.
    pub(super) fn run(mut self, call_slot: Option<&CallSlot>) {
        let end = match call_slot {
            None => self.fill(),
            Some(slot) => self.fill_called(slot),
        };
        let Self { shared, mut inlet, .. } = self;
        // Relaxed: a thread that ends this one by its doorbell has stored it before.
        if shared.says_goodbye.load(Ordering::Relaxed) {
            inlet.say_goodbye();
        }
        if let (Ok(()), Some(last)) = (&end, inlet.parts().last_sent) {
            // Only this thread sets it, once.
            let _ = shared.last_sent.set(last);
        }
        // The link is closed first: the port then finds it closed when it reads the end.
        drop(inlet);
        shared.end(end);
    }

    /// Fills it on this thread.
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

    /// Fills it where the middleware calls.
    fn fill_called(&mut self, slot: &CallSlot) -> Result<()> {
        let work = Mutex::new(CalledPump { pump: self, slot, end: None, is_blocked: false });
        let outcome = run_called(&work);
        let end = work.into_inner().unwrap_or_else(PoisonError::into_inner).end;
        outcome.and(end.unwrap_or(Ok(())))
    }

    /// Returns whether the queue is dropped.
    fn is_over(&self) -> bool {
        // Acquire: with it comes whether to send a goodbye. A late read costs one more frame; the
        // doorbell wakes a sleeping thread.
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
            // The middle of a packet gives no start position.
            let starts = header.is_none_or(|header| !header.is_continued());
            if starts && shared.start_position.get().is_none() {
                let first = header.map(|header| (header.sequence, header.sample_index));
                let mut start_position = inlet.parts().start;
                start_position.first_sent = start_position.first_sent.or(first);
                progress.next = start_position.first_sent.map(|first| first.0);
                // Only the pump sets it, once. The same frame comes again.
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

/// A pump that works where the middleware calls.
struct CalledPump<'a> {
    pump: &'a mut Pump,
    /// The place for the call.
    slot: &'a CallSlot,
    end: Option<Result<()>>,
    /// Whether the queue was full at the end of the last work, so that the inlet may have frames.
    is_blocked: bool,
}

impl Called for CalledPump<'_> {
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
    /// Fills the queue while there are frames and there is room; false: it is over.
    fn fill(&mut self) -> bool {
        if let Some(room) = &self.pump.shared.space {
            room.drain();
        }
        self.is_blocked = false;
        while self.end.is_none() {
            if self.pump.is_over() {
                self.end = Some(Ok(()));
            } else if !self.pump.shared.has_space() {
                // The middleware waits meanwhile, with what it brings.
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
