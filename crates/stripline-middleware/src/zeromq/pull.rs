//! The receiving end.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stripline::carrier::running_limit::RunningLimit;
use stripline::carrier::{
    Doorbell, LastSentReader, PathRequest, PathSource, PollSet, ReadRoom, ReadWait, Source, WAIT_MAX,
    frame_max,
};
use stripline::terms::LinkOptions;
use stripline::{Error, Result};

use super::{LAST, ZeromqTicket};
use crate::transit::PlainStream;
use crate::transit::TransitPage;
use crate::transit::{PREFIX_BYTES, TransitBound};
use crate::zeromq::socket::{MonitoredSocket, SocketEvent, ZeromqSocket, path_error};

/// The longest wait for the end of a dead sender, counting only time in which this process runs.
/// The kernel still has the bytes that the sender's socket took.
const END_TIME: Duration = Duration::from_secs(2);
/// The longest wait for messages that a living sender has handed over. Such messages take some
/// microseconds.
const SENT_TIME: Duration = Duration::from_millis(100);
/// The most bytes of a message: one frame, or several frames that were kept to be sent together.
const MESSAGE_MAX: usize = frame_max(LinkOptions::BUFFER_MAX) + 128 * 1024;

/// The receiving end.
pub(super) struct ZeromqSource {
    socket: ZeromqSocket<()>,
    message: zmq::Message,
    /// The whole form of `message`, if it is one plain packet.
    whole: Vec<u8>,
    is_plain: bool,
    plain: PlainStream,
    /// The place where the unread rest of the message begins. At the end of the message there is no
    /// rest.
    rest: usize,
    /// The frame count up to the end of the message.
    number: u64,
    /// The messages received, in total.
    messages: u64,
    /// Whether there is a message although the page counts none, perhaps from a stranger.
    is_due: bool,
    page: Arc<TransitPage>,
    /// The sender's doorbell.
    doorbell: Doorbell,
    bound: TransitBound,
    /// The open connections, including connections of strangers, and whether there has been any.
    connections: Vec<u32>,
    has_accepted: bool,
    /// The connection of the sender, once a message has arrived.
    sender: Option<u32>,
    /// Whether the sender's connection has ended.
    has_ended: bool,
    /// Whether to wait for messages that the sender has handed over. A call then does not begin
    /// before a cancellation that was sent is read.
    awaits_sent: bool,
    /// Whether the last such wait ended without a message, and no message has arrived since.
    is_late: bool,
    /// The number of messages without the key.
    foreign: u64,
}

impl ZeromqSource {
    /// Binds the name of a ticket.
    pub(super) fn bind(
        ticket: &ZeromqTicket,
        page: TransitPage,
        doorbell: Doorbell,
        request: &PathRequest<'_>,
    ) -> Result<Self> {
        let connection = request.connection;
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
            whole: Vec::new(),
            is_plain: false,
            plain: PlainStream::default(),
            rest: 0,
            number: 0,
            messages: 0,
            is_due: false,
            page: Arc::new(page),
            doorbell,
            bound: ticket.bound,
            connections: Vec::new(),
            has_accepted: false,
            sender: None,
            has_ended: false,
            awaits_sent: request.is_of_calls,
            is_late: false,
            foreign: 0,
        })
    }

    fn ends(&mut self) -> io::Result<&mut MonitoredSocket<()>> {
        self.socket.get_mut().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Receives a message of the sender, unless the rest of one is still unread.
    fn receive(&mut self, flags: i32) -> io::Result<()> {
        while self.rest == self.bytes_of_message().len() {
            self.is_plain = false;
            let ends = self.socket.get_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            if let Err(error) = ends.socket()?.recv(&mut self.message, flags) {
                // No bytes of the message are left, or they were taken before.
                self.rest = self.message.len();
                return Err(path_error(error));
            }
            if self.bound.number_of(&self.message).is_none() {
                self.is_plain = self.plain.write_whole(self.bound, &self.message, &mut self.whole);
            }
            let Some(number) = self.bound.number_of(self.bytes_of_message()) else {
                // The message is from another process, which has found the name. The page does not
                // count it.
                self.foreign += 1;
                if self.foreign == 1 {
                    log::warn!(
                        target: "stripline::transport",
                        "messages without the key come to a socket of ZeroMQ; they are dropped"
                    );
                }
                self.rest = self.message.len();
                continue;
            };
            if self.sender.is_none() {
                self.sender = self.message.gets("__fd").and_then(|number| number.parse().ok());
            }
            self.messages += 1;
            if number == LAST || self.bytes_of_message().len() == PREFIX_BYTES {
                self.rest = self.bytes_of_message().len();
                continue;
            }
            self.number = number;
            self.rest = PREFIX_BYTES;
            self.is_late = false;
            let message = if self.is_plain { &self.whole } else { &*self.message };
            self.plain.note(number, &message[PREFIX_BYTES..]);
        }
        Ok(())
    }

    /// Returns the message that was received last, in the whole form.
    fn bytes_of_message(&self) -> &[u8] {
        if self.is_plain { &self.whole } else { &self.message }
    }

    /// Counts the message as taken.
    fn take(&mut self) {
        if self.page.set_taken(self.number, self.messages, self.bound.low()) {
            self.doorbell.notify();
        }
    }

    /// Waits for messages that the sender has handed over, if that matters. Returns false if none
    /// has arrived.
    fn await_sent(&mut self) -> bool {
        let until = Instant::now() + SENT_TIME;
        while self.page.sent() > self.number && !self.is_late {
            self.take_events();
            if self.ends().is_ok_and(|ends| ends.has_message()) {
                return true;
            }
            if self.is_over() {
                return false;
            }
            let mut poll_set = PollSet::default();
            poll_set.readable(self.socket.messages());
            poll_set.readable(self.socket.events());
            // A sender that is stopped is waited for only once.
            self.is_late = !poll_set.wait(Some(until)).unwrap_or(false);
        }
        false
    }

    fn read_with(&mut self, into: &mut [u8], flags: i32) -> io::Result<usize> {
        let is_empty = |outcome: &io::Result<()>| {
            outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        let mut outcome = self.receive(flags);
        if self.awaits_sent && is_empty(&outcome) && self.await_sent() {
            outcome = self.receive(flags);
        }
        if self.has_ended && is_empty(&outcome) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        outcome?;
        let rest = &self.bytes_of_message()[self.rest..];
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.rest += bytes;
        if self.rest == self.bytes_of_message().len() {
            self.take();
        }
        Ok(bytes)
    }

    /// Returns whether nothing more can come, because the sender's connection has ended, or all
    /// connections have.
    fn is_over(&self) -> bool {
        self.has_ended || self.has_accepted && self.connections.is_empty()
    }

    /// Records the connections that have begun or ended.
    fn take_events(&mut self) {
        while let Some(event) = self.ends().ok().and_then(|ends| ends.next_event()) {
            match event {
                SocketEvent::Accepted(number) => {
                    self.connections.push(number);
                    self.has_accepted = true;
                }
                SocketEvent::Disconnected(number) => self.connections.retain(|open| *open != number),
                _ => {}
            }
        }
        self.has_ended = self.sender.is_some_and(|sender| !self.connections.contains(&sender));
    }

    /// Waits, after the sender has hung up, until no more messages can come.
    fn await_end(&mut self) {
        let mut limit = RunningLimit::new(END_TIME);
        loop {
            self.take_events();
            let is_there = self.ends().is_ok_and(|ends| ends.has_message());
            self.is_due = is_there;
            // Messages that the page counts but that do not come were in the sender's memory.
            if is_there || self.is_over() || self.page.messages() <= self.messages {
                return;
            }
            let mut poll_set = PollSet::default();
            poll_set.readable(self.socket.messages());
            poll_set.readable(self.socket.events());
            let Some(longest) = limit.next_wait() else { return };
            if poll_set.wait(Some(Instant::now() + longest)).is_err() {
                return;
            }
        }
    }
}

impl PathSource for ZeromqSource {
    fn read(&mut self, room: &mut ReadRoom<'_>, wait: ReadWait) -> io::Result<usize> {
        if wait == ReadWait::Short {
            return self.read_with(room.bytes(), 0);
        }
        if wait == ReadWait::Rest {
            self.await_end();
        }
        // An empty receive costs a system call. The page shows that there is nothing to receive.
        let is_there = self.rest < self.bytes_of_message().len() || self.page.messages() > self.messages;
        if !is_there && !self.has_ended && !std::mem::take(&mut self.is_due) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.read_with(room.bytes(), zmq::DONTWAIT)
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        self.take_events();
        let has_rest = self.rest < self.bytes_of_message().len();
        self.is_due = self.ends().is_ok_and(|ends| ends.has_message());
        poll_set.readable(self.socket.messages());
        poll_set.readable(self.socket.events());
        !(has_rest || self.has_ended || self.is_due)
    }
}

impl From<ZeromqSource> for Source {
    fn from(end: ZeromqSource) -> Self {
        let page = Arc::clone(&end.page);
        let last_sent: LastSentReader = Box::new(move || page.last_sent());
        Self { can_wait: true, last_sent: Some(last_sent), ..Self::new(end) }
    }
}
