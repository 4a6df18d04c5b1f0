//! The sending end.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stripline_ring::Fence;

use stripline::carrier::aligned_buffer::AlignedBuffer;
use stripline::carrier::fork::Local;
use stripline::carrier::mutex::lock;
use stripline::carrier::packet::{Header, Kind};
use stripline::carrier::{Doorbell, Frames, Opening, PathSink, PollSet, membarrier};

use super::{IceoryxTicket, MessageFront};
use crate::iceoryx2::service::{ConnectionNames, PublisherEnd};
use crate::transit::MessageFrames;
use crate::transit::TransitPage;

/// The sending end.
pub(super) struct IceoryxSink {
    /// The port's buffer also keeps this state, while the buffer uses memory of iceoryx2.
    state: Arc<Local<Mutex<PublishState>>>,
    page: TransitPage,
    /// Rung by the receiver once there is room, or once the receiver has connected. Rung by this
    /// end when the receiver sleeps.
    doorbell: Doorbell,
    names: ConnectionNames,
    frames_max: u64,
    /// The most bytes of frames in a message.
    bytes_max: usize,
    /// The fence between a message and the check for a receiver that sleeps.
    fence: Fence,
}

struct PublishState {
    publisher: PublisherEnd,
    /// The frames of packets handed over, in total.
    sent: u64,
    /// The frames taken, as last read.
    taken: u64,
    /// Whether a wait for room was announced.
    is_waiting: bool,
    /// The bytes of the last cut frame that are still to be sent.
    rest: usize,
}

impl IceoryxSink {
    /// Opens the service of a receiver.
    pub(super) fn open(
        names: ConnectionNames,
        ticket: &IceoryxTicket,
        page: TransitPage,
        doorbell: Doorbell,
    ) -> Result<Self, String> {
        let sizes = ticket.sizes();
        let publisher = PublisherEnd::open(&names, sizes)?;
        let state = PublishState { publisher, sent: 0, taken: 0, is_waiting: false, rest: 0 };
        page.set_opened();
        // A receiver of calls has no probe: it connects when it wakes.
        doorbell.notify();
        Ok(Self {
            state: Arc::new(Local::new(Mutex::new(state))),
            page,
            doorbell,
            names,
            frames_max: u64::from(ticket.frames),
            bytes_max: 64 * sizes.lines - AlignedBuffer::FRONT,
            fence: membarrier::publish_fence(ticket.barrier),
        })
    }

    /// Returns the frames that there is room for.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room. The doorbell rings once there is room.
    #[inline]
    fn admit(&self, state: &mut PublishState, bytes: &[u8]) -> io::Result<MessageFrames> {
        let admitted = |state: &PublishState| {
            let in_transit = state.sent.saturating_sub(state.taken);
            let room = self.frames_max.saturating_sub(in_transit);
            MessageFrames::new(bytes, state.rest, room, self.bytes_max)
        };
        let first = admitted(state);
        if first.bytes == bytes.len() && !state.is_waiting {
            return Ok(first);
        }
        // This word is on a line that the receiver writes, so it is read only when it matters.
        if std::mem::take(&mut state.is_waiting) {
            self.doorbell.drain();
        }
        state.taken = self.page.taken();
        let second = admitted(state);
        if second.bytes > 0 {
            return Ok(second);
        }
        self.page.set_sent(state.sent, state.sent, None);
        state.taken = self.page.announce_wait();
        let last = admitted(state);
        if last.bytes > 0 {
            return Ok(last);
        }
        if state.sent.saturating_sub(state.taken) < self.frames_max {
            return Err(io::Error::other("the bytes are not whole frames"));
        }
        state.is_waiting = true;
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Counts a message that was sent, and wakes a receiver that sleeps.
    #[inline]
    fn sent(&self, state: &mut PublishState, admitted: &MessageFrames) -> usize {
        state.sent += admitted.frames;
        state.rest = admitted.rest;
        if self.page.ends_sleep(self.fence) {
            self.doorbell.notify();
        }
        admitted.bytes
    }

    fn send_copy(&self, state: &mut PublishState, bytes: &[u8]) -> io::Result<usize> {
        let admitted = self.admit(state, bytes)?;
        let front = front(state, &admitted);
        state.publisher.send_copy(&front.line(), &bytes[..admitted.bytes]).map_err(broken)?;
        Ok(self.sent(state, &admitted))
    }
}

fn front(state: &PublishState, admitted: &MessageFrames) -> MessageFront {
    MessageFront { number: state.sent + admitted.frames, bytes: admitted.bytes as u64 }
}

/// Returns the error of a send that failed although there was room. The receiver is gone, or counts
/// wrongly.
#[cold]
fn broken(error: String) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}

impl PathSink for IceoryxSink {
    fn write(&self, frames: &mut Frames<'_>, _longest: Duration) -> io::Result<usize> {
        if !self.state.is_current() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let state = &mut *lock(&self.state);
        let bytes = frames.len();
        // The port may read the end of a stream again, so this frame stays in the buffer.
        let may_lend = Header::outline(frames).kind == Kind::Data as u8;
        let Some(buffer) = frames.buffer().filter(|_| may_lend) else {
            return self.send_copy(state, frames);
        };
        let frames = &buffer.frame()[..bytes];
        let written = if buffer.is_lent_by(&self.state) {
            let admitted = self.admit(state, frames)?;
            if admitted.bytes < bytes {
                let front = front(state, &admitted);
                state.publisher.send_copy(&front.line(), &frames[..admitted.bytes]).map_err(broken)?;
                return Ok(self.sent(state, &admitted));
            }
            let front = front(state, &admitted).line();
            buffer.bytes_mut()[..AlignedBuffer::FRONT].copy_from_slice(&front.0);
            if let Err(error) = state.publisher.send() {
                buffer.take_back();
                return Err(broken(error));
            }
            self.sent(state, &admitted)
        } else {
            let written = self.send_copy(state, frames)?;
            if written < bytes {
                return Ok(written);
            }
            written
        };
        match state.publisher.place() {
            // SAFETY: the publisher must keep the place while the buffer uses it. The publisher
            // keeps the place until it has sent it, which only happens above, and writes to other
            // places until then. `self.state` keeps the publisher.
            Ok((start, lines)) => unsafe { buffer.lend(start, lines, &self.state) },
            // All places are in use until the receiver has taken more messages.
            Err(_) => buffer.take_back(),
        }
        Ok(written)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.readable(self.doorbell.as_fd());
    }

    fn open(&self) -> Result<Opening<'_>, String> {
        self.doorbell.drain();
        if self.page.is_connected() {
            return Ok(Opening::Done);
        }
        self.doorbell.notify();
        Ok(Opening::Waits {
            on: self.doorbell.as_fd(),
            lacks: "the receiver has not found the publisher of iceoryx2".into(),
            remedy: "start both processes with one /dev/shm",
        })
    }
}

impl Drop for IceoryxSink {
    fn drop(&mut self) {
        if self.state.is_current() && !self.page.is_connected() {
            // The receiver may have died before it could remove the names.
            self.names.remove();
        }
    }
}
