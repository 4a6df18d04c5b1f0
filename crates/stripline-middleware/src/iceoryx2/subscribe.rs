//! The receiving end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use stripline::carrier::aligned_buffer::{AlignedBuffer, CacheLine};
use stripline::carrier::{Doorbell, PathSource, PollSet, ReadRoom, ReadWait, Source, violation};
use stripline::fail_point;

use super::{IceoryxTicket, MessageFront};
use crate::iceoryx2::service::{ConnectionNames, SubscriberEnd};
use crate::system::sole_owner::SoleOwner;
use crate::transit::TransitPage;

/// The receiving end.
pub(super) struct IceoryxSource {
    /// The port's buffer also keeps the subscriber, while the buffer uses memory of iceoryx2.
    subscriber: SoleOwner<SubscriberEnd>,
    page: TransitPage,
    /// Rung by the sender once there is a message for a receiver that sleeps. Rung by this end once
    /// there is room.
    doorbell: Doorbell,
    names: ConnectionNames,
    /// Whether the sender was found, so that the names are removed.
    is_connected: bool,
    /// Whether the sender may have read that this end sleeps.
    is_sleeping: bool,
    /// The frames in transit at which a waiting sender resumes.
    low: u64,
    /// The most bytes of frames in a message.
    bytes_max: usize,
    /// Whether the sender leaves the fence to this end.
    runs_barrier: bool,
}

impl IceoryxSource {
    /// Makes the service of a ticket.
    pub(super) fn new(
        names: ConnectionNames,
        ticket: &IceoryxTicket,
        page: TransitPage,
        doorbell: Doorbell,
    ) -> Result<Self, String> {
        let sizes = ticket.sizes();
        let made = SubscriberEnd::new(&names, sizes);
        let subscriber = made.inspect_err(|_| names.remove())?;
        fail_point!("iceoryx2-names");
        let frames = u64::from(ticket.frames);
        Ok(Self {
            subscriber: SoleOwner::new(subscriber),
            page,
            doorbell,
            names,
            is_connected: false,
            is_sleeping: false,
            low: frames - (frames / 16).max(1),
            bytes_max: 64 * sizes.lines - AlignedBuffer::FRONT,
            runs_barrier: ticket.barrier,
        })
    }

    /// Connects to the sender if it is present, and then removes the names.
    #[cold]
    fn connect(&mut self) -> io::Result<bool> {
        if !self.subscriber.is_current() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.page.is_opened() {
            self.subscriber.get_mut().connect(&self.names).map_err(io::Error::other)?;
            self.is_connected = true;
            fail_point!("iceoryx2-connected");
            self.names.remove();
            self.page.set_connected();
            self.doorbell.notify();
        }
        Ok(self.is_connected)
    }

    /// Ends the sleep, if there was one, and connects if that is still to be done.
    #[inline]
    fn begin_read(&mut self) -> io::Result<()> {
        if self.is_sleeping {
            self.is_sleeping = false;
            self.page.end_sleep();
            self.doorbell.drain();
        }
        if !self.is_connected && !self.connect()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.subscriber.is_current() { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Counts the frames up to `number` as taken.
    #[inline]
    fn take(&self, number: u64) {
        if self.page.set_taken(number, number, self.low) {
            self.doorbell.notify();
        }
    }
}

/// Receives a message. Returns the front, and all lines of the message.
#[inline]
fn receive(subscriber: &mut SubscriberEnd) -> io::Result<(MessageFront, &[CacheLine])> {
    let message = subscriber.receive().map_err(io::Error::other)?.ok_or(io::ErrorKind::WouldBlock)?;
    let front = MessageFront::of(message)
        .ok_or_else(|| violation("sent a message that is empty, or announces more bytes than it has"))?;
    Ok((front, message))
}

impl PathSource for IceoryxSource {
    fn read(&mut self, room: &mut ReadRoom<'_>, _wait: ReadWait) -> io::Result<usize> {
        self.begin_read()?;
        let (front, message) = receive(self.subscriber.get_mut())?;
        let bytes = front.bytes as usize;
        if room.may_lend() {
            let (start, lines) = (NonNull::from(message).cast(), message.len());
            // SAFETY: the message must stay valid and unchanged until the next read. The message
            // stays valid until the next message is received, which happens only here.
            // `self.subscriber` keeps the message, which iceoryx2 maps for reading.
            unsafe { room.lend(start, lines, self.subscriber.keeper()) };
        } else {
            let frames = &bytemuck::cast_slice::<CacheLine, u8>(message)[AlignedBuffer::FRONT..][..bytes];
            let into = room.bytes().get_mut(..bytes);
            into.ok_or_else(|| violation("sent a message that is too large"))?.copy_from_slice(frames);
        }
        self.take(front.number);
        Ok(bytes)
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        self.is_sleeping = true;
        self.page.announce_sleep(self.runs_barrier);
        poll_set.readable(self.doorbell.as_fd());
        !(self.subscriber.is_current() && self.subscriber.get_mut().has_message())
    }

    /// Connects to the sender once it has opened the service.
    fn open(&mut self) -> io::Result<Option<BorrowedFd<'_>>> {
        self.doorbell.drain();
        Ok(if self.connect()? { None } else { Some(self.doorbell.as_fd()) })
    }
}

impl From<IceoryxSource> for Source {
    fn from(end: IceoryxSource) -> Self {
        let room_needed = end.bytes_max;
        Self { is_in_memory: true, room_needed, ..Self::new(end) }
    }
}

impl Drop for IceoryxSource {
    fn drop(&mut self) {
        if self.subscriber.is_current() && !self.is_connected {
            self.names.remove();
        }
    }
}
