//! The receiving end.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::{LAST, PREFIX_BYTES, ZeromqTicket};
use crate::error::{Error, Result};
use crate::packet::LastSent;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::transit_page::TransitPage;
use crate::sys::zeromq::{Monitored, SocketEvent, ZeromqSocket, path_error};
use crate::terms::LinkOptions;
use crate::transport::carrier::{PathSource, WAIT_MAX};
use crate::transport::stream::frame_max;

/// How long the end of a dead sender is waited for. The kernel still has what its socket took.
const END_TIME: Duration = Duration::from_secs(2);
/// Bytes of a message, at most: one frame, or several that were kept to be sent together.
const MESSAGE_MAX: usize = frame_max(LinkOptions::BUFFER_MAX) + 128 * 1024;

/// The receiving end.
pub(super) struct ZeromqSource {
    socket: ZeromqSocket<()>,
    message: zmq::Message,
    /// Where the rest of that message begins; its end: there is no rest.
    rest: usize,
    /// The frames up to the end of that message, in all.
    number: u64,
    page: TransitPage,
    /// The sender's.
    doorbell: Doorbell,
    key: u64,
    /// The frames in transit at which a sender that waits goes on.
    low: u64,
    /// The connection of the sender, once a message has come.
    sender: Option<u32>,
    has_ended: bool,
    /// Whether a connection has ended before that.
    has_other_ended: bool,
    /// Messages without the key.
    foreign: u64,
}

impl ZeromqSource {
    /// Binds the name of a ticket.
    pub(super) fn bind(
        ticket: &ZeromqTicket,
        page: TransitPage,
        doorbell: Doorbell,
        connection: &str,
    ) -> Result<Self> {
        let mut socket = ZeromqSocket::new(zmq::PULL, ticket.messages_max(), ())?;
        let failed =
            |e: io::Error| Error::system(format!("{connection}: cannot bind {}", ticket.address()), e);
        let wait_ms = i32::try_from(WAIT_MAX.as_millis()).unwrap_or(1);
        let bind = |socket: &zmq::Socket| {
            socket.set_maxmsgsize(MESSAGE_MAX as i64)?;
            socket.set_rcvtimeo(wait_ms)?;
            socket.bind(&ticket.address())
        };
        if let Some(ends) = socket.get_mut() {
            ends.socket().and_then(|socket| bind(socket).map_err(path_error)).map_err(failed)?;
        }
        Ok(Self {
            socket,
            message: zmq::Message::new(),
            rest: 0,
            number: 0,
            page,
            doorbell,
            key: ticket.key,
            low: ticket.frames - (ticket.frames / 16).max(1),
            sender: None,
            has_ended: false,
            has_other_ended: false,
            foreign: 0,
        })
    }

    fn ends(&mut self) -> io::Result<&mut Monitored<()>> {
        self.socket.get_mut().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Receives a message of the sender, unless there is the rest of one.
    fn receive(&mut self, flags: i32) -> io::Result<()> {
        while self.rest == self.message.len() {
            let ends = self.socket.get_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            if let Err(error) = ends.socket()?.recv(&mut self.message, flags) {
                // Nothing is left of it, or it was taken before.
                self.rest = self.message.len();
                return Err(path_error(error));
            }
            let prefix = self.message.first_chunk::<PREFIX_BYTES>().copied();
            let [key, number]: [u64; 2] = prefix.map_or([0; 2], bytemuck::cast);
            if prefix.is_none() || u64::from_le(key) != self.key {
                // Of another process, which has found the name. It is not in the page's counts.
                self.foreign += 1;
                if self.foreign == 1 {
                    log::warn!(
                        target: "stripline::transport",
                        "messages without the key come to a socket of ZeroMQ; they are dropped"
                    );
                }
                self.rest = self.message.len();
                continue;
            }
            if self.sender.is_none() {
                self.sender = self.message.gets("__fd").and_then(|number| number.parse().ok());
            }
            if u64::from_le(number) == LAST || self.message.len() == PREFIX_BYTES {
                self.rest = self.message.len();
                continue;
            }
            self.number = u64::from_le(number);
            self.rest = PREFIX_BYTES;
        }
        Ok(())
    }

    /// Counts the message as taken.
    fn take(&mut self) {
        if self.page.set_taken(self.number, self.low) {
            self.doorbell.notify();
        }
    }

    fn read_with(&mut self, into: &mut [u8], flags: i32) -> io::Result<usize> {
        if let Err(error) = self.receive(flags) {
            let is_broken = self.has_ended && error.kind() == io::ErrorKind::WouldBlock;
            return Err(if is_broken { io::ErrorKind::ConnectionAborted.into() } else { error });
        }
        let rest = &self.message[self.rest..];
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.rest += bytes;
        if self.rest == self.message.len() {
            self.take();
        }
        Ok(bytes)
    }

    /// Takes note of connections that have ended.
    fn take_events(&mut self) {
        let sender = self.sender;
        let Ok(ends) = self.ends() else { return };
        let (mut has_ended, mut has_other_ended) = (false, false);
        while let Some(event) = ends.next_event() {
            if let SocketEvent::Disconnected(number) = event {
                has_ended |= sender == Some(number);
                has_other_ended |= sender.is_none();
            }
        }
        self.has_ended |= has_ended;
        self.has_other_ended |= has_other_ended;
    }
}

impl PathSource for ZeromqSource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_with(into, zmq::DONTWAIT)
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn read_within(&mut self, into: &mut [u8], longest: Duration) -> io::Result<usize> {
        self.read_with(into, if longest < WAIT_MAX { zmq::DONTWAIT } else { 0 })
    }

    fn await_end(&mut self) -> bool {
        let until = Instant::now() + END_TIME;
        loop {
            self.take_events();
            let is_there = self.ends().is_ok_and(|ends| ends.has_message());
            // What the page counts and does not come was in the sender's memory.
            let has_ended = self.has_ended || self.has_other_ended && self.sender.is_none();
            if is_there || has_ended || self.page.sent() <= self.number {
                return true;
            }
            let mut poll_set = PollSet::default();
            poll_set.readable(self.socket.messages());
            poll_set.readable(self.socket.events());
            if !poll_set.wait(Some(until)).unwrap_or(false) {
                return true;
            }
        }
    }

    fn last_sent(&self) -> Option<LastSent> {
        self.page.last_sent()
    }

    fn bytes(&self) -> BorrowedFd<'_> {
        self.socket.messages()
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) {
        self.take_events();
        let has_rest = self.rest < self.message.len();
        let is_there = has_rest || self.has_ended || self.ends().is_ok_and(|ends| ends.has_message());
        poll_set.readable(self.socket.messages());
        poll_set.readable(self.socket.events());
        if is_there {
            // Ready at once: it is one of a pair of sockets, or an eventfd, with room.
            poll_set.writable(self.socket.events());
        }
    }
}
