//! The receiving end of a session.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::{DatagramSource, LATE, SessionSockets, SessionTicket};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::fail_point::fail_point;
use crate::flow::session::{
    DATAGRAM_HEADER, DatagramArrival, DatagramCharges, DatagramHeader, Due, RecordReader, SessionProbe,
    SessionReceiver, SessionRecord, Span, Taken, payload_max,
};
use crate::sys::clock::now_ns;
use crate::sys::doorbell::PollSet;
use crate::sys::poller::{Interest, Poller};
use crate::sys::socket::Socket;
use crate::sys::timer::Timer;
use crate::transport::carrier::{PathRequest, PathSource, ReadRoom, ReadWait, Source, Ticket, violation};

/// The number of empty reads from one read of the control socket to the next. A read of the control
/// socket takes a system call, and the reads of a receiver that spins are mostly empty.
const CONTROL_PERIOD: u32 = 16;
/// The polls before a read that blocks, while datagrams keep coming. The polls take a few
/// microseconds. Waking a receiver costs the sender as much as sending one or two datagrams.
const POLLS: u32 = 8;
/// The processor pauses after each poll.
const PAUSES: u32 = 8;
/// The longest time from a sender's hang-up to the end of the control socket, longer than the
/// sender waits for room in that socket.
const END_TIME: Duration = Duration::from_secs(2);
/// The same time for a sender on another host. Such a sender waits longer, until TCP has delivered
/// the rest.
const REMOTE_END_TIME: Duration = Duration::from_secs(12);

/// The receiving end.
pub(in crate::transport) struct SessionSource {
    path: Box<dyn DatagramSource>,
    control: Socket,
    /// The socket of acknowledgements.
    acks: Socket,
    /// The token of the ticket, which probes carry.
    token: u64,
    is_of_group: bool,
    /// The number that the sender of a group has announced. The number is acknowledged once all
    /// datagrams below it are here.
    ack_at: Option<u64>,
    session: SessionReceiver,
    reader: RecordReader,
    /// The token of the datagrams; `None` until the sender of a group has sent it.
    data_token: Option<u64>,
    /// The room that a read needs.
    room: usize,
    /// The places of the datagrams that came with the last one received.
    more: Vec<Range<usize>>,
    is_repaired: bool,
    /// Frames to deliver, and the bytes of them that were delivered.
    ready: Vec<u8>,
    ready_from: usize,
    /// The first parts of a frame that is not repaired.
    parts: Vec<u8>,
    /// Records that the control socket has not taken.
    backlog: Vec<u8>,
    /// Whether the control socket has ended.
    is_over: bool,
    /// The violation of the sender. Nothing that arrived after it is taken.
    violation: Option<String>,
    /// Whether a probe was acknowledged.
    is_probed: bool,
    /// Whether a datagram without a session has arrived.
    has_foreign: bool,
    empty_reads: u32,
    /// Whether the last wait for a datagram has found one.
    is_flowing: bool,
    /// Whether the caller may have slept on the descriptors of this source since the last read.
    has_slept: Cell<bool>,
    timer: Timer,
    poller: Poller,
}

impl SessionSource {
    /// Makes a source over a path with datagrams of at most `datagram_max` bytes, and a receive
    /// buffer of `buffer` bytes by the kernel's count. Returns the source, and the ticket for the
    /// sink. `is_of_group`: the sender begins with the token.
    pub(in crate::transport) fn new(
        path: Box<dyn DatagramSource>,
        mut sockets: SessionSockets,
        address: String,
        buffer: u64,
        datagram_max: usize,
        request: &PathRequest<'_>,
        is_of_group: bool,
    ) -> io::Result<(Self, Ticket)> {
        let failed = |e: crate::Error| io::Error::other(e.to_string());
        let is_repaired = request.is_complete;
        let reorder_ms = request.options.udp.and_then(|udp| udp.reorder_ms);
        let late = reorder_ms.map_or(LATE, |ms| Duration::from_millis(ms.into()));
        let charges = path.charges(&mut DatagramCharges::sizes());
        let ticket = SessionTicket { address, token: sockets.token, buffer, is_repaired, charges };
        let mut session = SessionReceiver::new(is_repaired, late.as_nanos() as u64, buffer);
        session.count_by(ticket.datagram_charges());
        let ticket = sockets.ticket(&ticket)?;
        let SessionSockets { token, control, acks, .. } = sockets;
        let timer = Timer::new()?;
        let poller = Poller::new().map_err(failed)?;
        for fd in [path.arrivals(), control.as_fd(), timer.as_fd()] {
            poller.add(fd, 0, Interest::Readable).map_err(failed)?;
        }
        let payload_max = payload_max(datagram_max, buffer);
        let room = payload_max.max(path.room_needed());
        let source = Self {
            path,
            control,
            acks,
            session,
            reader: RecordReader::new(true, payload_max),
            token,
            is_of_group,
            ack_at: None,
            data_token: (!is_of_group).then_some(token),
            room,
            more: Vec::new(),
            is_repaired,
            ready: Vec::new(),
            ready_from: 0,
            parts: Vec::new(),
            backlog: Vec::new(),
            is_over: false,
            violation: None,
            is_probed: false,
            has_foreign: false,
            empty_reads: 0,
            is_flowing: false,
            has_slept: Cell::new(false),
            timer,
            poller,
        };
        Ok((source, ticket))
    }

    fn receive(&mut self, into: &mut [u8], blocks: bool) -> io::Result<usize> {
        let mut polls = if blocks && self.is_flowing { POLLS } else { 0 };
        loop {
            if self.ready_from < self.ready.len() {
                return Ok(self.deliver_ready(into));
            }
            match self.session.take() {
                Some(Taken::Datagram(span, bytes)) => {
                    self.accept_copy(span, &bytes);
                    continue;
                }
                Some(Taken::Lost) => {
                    self.parts.clear();
                    self.send_ack();
                    continue;
                }
                None => {}
            }
            if let Some(text) = self.violation.take() {
                return Err(violation(text));
            }
            let mut header = [0; DATAGRAM_HEADER];
            // If datagrams are missing, they are due before the time of the read ends.
            let may_block = blocks && self.session.deadline().is_none() && self.backlog.is_empty();
            let blocks = may_block && polls == 0;
            match self.path.receive(&mut header, into, blocks, &mut self.more) {
                Ok(bytes) => {
                    self.empty_reads = 0;
                    self.is_flowing |= may_block;
                    let arrived = self.arrived(&header, into, bytes);
                    let delivered = self.unless_violated(arrived).unwrap_or(0);
                    let delivered =
                        if self.more.is_empty() { delivered } else { self.take_more(into, delivered) };
                    if delivered > 0 {
                        return Ok(delivered);
                    }
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if may_block && polls > 0 {
                        (0..PAUSES).for_each(|_| std::hint::spin_loop());
                        polls -= 1;
                        continue;
                    }
                    self.is_flowing &= !blocks;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
                // The error reports something that was sent back before.
                Err(_) => continue,
            }
            self.empty_reads += 1;
            let is_pending = self.session.deadline().is_some() || !self.backlog.is_empty();
            let is_time = self.has_slept.get() || self.empty_reads >= CONTROL_PERIOD;
            // After the end, datagrams that were asked for are due at once, and the datagrams after
            // them are next.
            if blocks || is_pending || is_time || self.is_over {
                (self.empty_reads, _) = (0, self.has_slept.replace(false));
                let has_read = self.read_control();
                if self.unless_violated(has_read) || self.violation.is_some() || self.settle()? {
                    continue;
                }
            }
            if self.is_over {
                return Ok(0);
            }
            return Err(io::ErrorKind::WouldBlock.into());
        }
    }

    /// Returns the outcome of a step. A violation of the sender is kept instead, because bytes that
    /// arrived before it are delivered first.
    #[inline]
    fn unless_violated<T: Default>(&mut self, outcome: Result<T, String>) -> T {
        outcome.unwrap_or_else(|text| {
            self.violation = Some(text);
            T::default()
        })
    }

    fn deliver_ready(&mut self, into: &mut [u8]) -> usize {
        let bytes = into.len().min(self.ready.len() - self.ready_from);
        into[..bytes].copy_from_slice(&self.ready[self.ready_from..][..bytes]);
        self.ready_from += bytes;
        if self.ready_from == self.ready.len() {
            self.ready.clear();
            self.ready_from = 0;
        }
        bytes
    }

    /// Takes a datagram that was received into `into`. Returns the bytes of it that are delivered
    /// there.
    ///
    /// # Errors
    /// A description of the sender's violation.
    fn arrived(
        &mut self,
        header: &[u8; DATAGRAM_HEADER],
        into: &[u8],
        bytes: usize,
    ) -> Result<Option<usize>, String> {
        let Some(bytes) = bytes.checked_sub(DATAGRAM_HEADER) else {
            self.drop_foreign();
            return Ok(None);
        };
        if self.data_token.is_none() {
            // The token was sent before the first datagram with it.
            self.read_control()?;
        }
        let own = DatagramHeader::parse(header).filter(|header| Some(header.token) == self.data_token);
        let Some(DatagramHeader { number, records, span, .. }) = own else {
            // A probe, a datagram of another program, or a late datagram of another session.
            if !self.take_probe(header, 0) && DatagramHeader::parse(header).is_none() {
                self.drop_foreign();
            }
            return Ok(None);
        };
        match self.session.arrive(number, records)? {
            DatagramArrival::Next => {
                let is_whole = self.is_repaired
                    || span.begins && span.ends && self.parts.is_empty() && self.session.continues(span);
                if is_whole {
                    self.count(bytes);
                    return Ok(Some(bytes));
                }
                self.accept_copy(span, &into[..bytes]);
            }
            DatagramArrival::Early => self.session.keep(number, span, &into[..bytes], now_ns()),
            DatagramArrival::Old => {}
        }
        if self.session.awaits_records() {
            self.read_control()?;
        }
        Ok(None)
    }

    /// Takes the datagrams that came with the last one. `delivered` bytes of the last one are
    /// delivered already. Returns the bytes delivered in total.
    #[cold]
    fn take_more(&mut self, into: &mut [u8], mut delivered: usize) -> usize {
        let more = std::mem::take(&mut self.more);
        for place in more.iter().cloned() {
            if self.violation.is_some() {
                break;
            }
            let Some((header, bytes)) = into[place.clone()].split_first_chunk() else { continue };
            let header = *header;
            let arrived = self.arrived(&header, bytes, place.len());
            let Some(bytes) = self.unless_violated(arrived) else { continue };
            let from = place.start + DATAGRAM_HEADER;
            if self.ready.is_empty() {
                into.copy_within(from..from + bytes, delivered);
                delivered += bytes;
            } else {
                self.ready.extend_from_slice(&into[from..from + bytes]);
            }
        }
        self.more = more;
        delivered
    }

    /// Drops a datagram without a session. Only the first is logged, because any program can send
    /// more.
    #[cold]
    fn drop_foreign(&mut self) {
        if !std::mem::replace(&mut self.has_foreign, true) {
            log::warn!(
                target: "stripline::transport",
                "datagrams of strangers come to a connection over datagrams; they are dropped"
            );
        }
    }

    /// Acknowledges a probe, if it is the first one. `charge`: the bytes that the probe took of the
    /// buffer; 0: not measured. Returns false if the datagram is not a probe.
    #[cold]
    fn take_probe(&mut self, header: &[u8; DATAGRAM_HEADER], charge: u64) -> bool {
        let probe = SessionProbe::parse(header);
        let own = probe.as_ref().filter(|probe| probe.token == self.token);
        if let Some(probe) = own.filter(|_| !self.is_probed) {
            self.is_probed = true;
            self.session.note_probe(charge);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            // Nothing was sent on this socket before, so there is room.
            let _ = send(&self.acks, &probe.acknowledgement(charge), flags);
            fail_point!("probed");
        }
        probe.is_some()
    }

    /// Takes the payload of the next datagram.
    fn accept_copy(&mut self, span: Span, bytes: &[u8]) {
        self.count(bytes.len());
        if self.is_repaired {
            self.ready.extend_from_slice(bytes);
            return;
        }
        if !self.session.continues(span) {
            return;
        }
        if span.begins {
            self.parts.clear();
        }
        self.parts.extend_from_slice(bytes);
        if span.ends {
            self.ready.append(&mut self.parts);
        }
    }

    /// Counts bytes as taken, and acknowledges from time to time.
    fn count(&mut self, bytes: usize) {
        if self.session.counts_ack(bytes) || self.ack_at.is_some_and(|number| number <= self.session.next()) {
            self.ack_at = None;
            self.send_ack();
        }
    }

    /// Acknowledges. The sender reads often enough that the socket has room.
    fn send_ack(&self) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = send(&self.acks, &self.session.next().to_le_bytes(), flags);
    }

    /// Reads the control socket. Returns true if something was read.
    ///
    /// # Errors
    /// A description of the sender's violation.
    fn read_control(&mut self) -> Result<bool, String> {
        let mut buffer = [0; 16 * 1024];
        let (mut has_read, was_over) = (false, self.is_over);
        loop {
            match recv(&self.control, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => break self.is_over = true,
                Ok((read, _)) => {
                    has_read = true;
                    self.reader.feed(&buffer[..read]);
                    while let Some(record) = self.reader.next()? {
                        self.take_record(record)?;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(_) => break self.is_over = true,
            }
        }
        // Datagrams that were sent before the end may have arrived after the last read.
        Ok(has_read || self.is_over != was_over)
    }

    fn take_record(&mut self, record: SessionRecord) -> Result<(), String> {
        if matches!(record, SessionRecord::Start { .. }) != self.data_token.is_none() {
            return Err("did not begin with the token, or began twice".into());
        }
        match record {
            SessionRecord::Start { number, token } => {
                self.data_token = Some(token);
                self.session.start_at(number);
            }
            SessionRecord::Data { number, span, bytes } => match self.session.arrive_record(number)? {
                DatagramArrival::Next => self.accept_copy(span, &bytes),
                DatagramArrival::Early => self.session.keep(number, span, &bytes, now_ns()),
                DatagramArrival::Old => {}
            },
            SessionRecord::Sent { number } => {
                self.session.announced(number, now_ns())?;
                // The charges of another member may have used up the window before this member's
                // charges did.
                if self.is_of_group && number <= self.session.next() {
                    self.send_ack();
                } else if self.is_of_group {
                    self.ack_at = Some(number);
                }
            }
            SessionRecord::Lost { number, count } => {
                self.session.lose(number, count)?;
            }
            SessionRecord::Ask { .. } => {}
        }
        Ok(())
    }

    /// Takes the step that is due for missing datagrams. Returns true if there is something to
    /// deliver.
    fn settle(&mut self) -> io::Result<bool> {
        let due = self.session.due(now_ns(), self.is_over);
        let has_lost = due == Due::Lost;
        match due {
            Due::Ask(ranges) => {
                fail_point!("missing");
                for (number, count) in ranges {
                    SessionRecord::Ask { number, count }.encode_to(&mut self.backlog);
                }
            }
            Due::Lost | Due::Nothing => {}
        }
        while !self.backlog.is_empty() && !self.is_over {
            match io::Write::write(&mut &self.control, &self.backlog) {
                Ok(sent) => {
                    drop(self.backlog.drain(..sent));
                    fail_point!("missing-asked");
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.backlog.clear(),
            }
        }
        self.timer.set(self.session.deadline())?;
        Ok(has_lost)
    }
}

#[cfg(test)]
impl SessionSource {
    /// Acknowledges a datagram that was never sent.
    pub(super) fn forge_ack(&self, number: u64) {
        send(&self.acks, &number.to_le_bytes(), SendFlags::NOSIGNAL).unwrap();
    }

    /// Sends bytes that are not a record.
    pub(super) fn forge_record(&self) {
        send(&self.control, &[9; 16], SendFlags::NOSIGNAL).unwrap();
    }
}

impl SessionSource {
    /// Waits, after the sender has hung up, until the control socket has ended.
    pub(super) fn await_end(&mut self) {
        let is_remote = matches!(self.control, Socket::Tcp(_));
        let until = Instant::now() + if is_remote { REMOTE_END_TIME } else { END_TIME };
        while !self.is_over {
            let has_read = self.read_control();
            self.unless_violated(has_read);
            if self.violation.is_some() {
                // The next read returns the violation.
                return;
            }
            let mut poll_set = PollSet::default();
            poll_set.readable(self.control.as_fd());
            if !self.is_over && !poll_set.wait(Some(until)).unwrap_or(false) {
                self.is_over = true;
            }
        }
    }
}

impl PathSource for SessionSource {
    fn read(&mut self, room: &mut ReadRoom<'_>, wait: ReadWait) -> io::Result<usize> {
        if wait == ReadWait::Rest {
            self.await_end();
        }
        self.receive(room.bytes(), wait == ReadWait::Short)
    }

    /// Answers the first probe.
    fn open(&mut self) -> io::Result<Option<BorrowedFd<'_>>> {
        while !self.is_probed {
            let mut header = [0; DATAGRAM_HEADER];
            let charge = self.path.queued_charge();
            match self.path.receive(&mut header, &mut [], false, &mut self.more) {
                Ok(bytes) if bytes >= DATAGRAM_HEADER => {
                    self.take_probe(&header, charge);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Some(self.path.arrivals())),
                // A datagram of another program, or an error that reports something sent back
                // before.
                _ => {}
            }
        }
        Ok(None)
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        self.has_slept.set(true);
        poll_set.readable(self.poller.as_fd());
        true
    }
}

impl From<SessionSource> for Source {
    fn from(end: SessionSource) -> Self {
        let room_needed = end.room;
        Self { can_wait: true, room_needed, ..Self::new(end) }
    }
}
