//! The sending end of a session.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};

use super::batch::DatagramBatch;
use super::cut::{DatagramPart, FrameCutter};
use super::kept::KeptBuffers;
use super::service::{self, ServedSession};
use super::{DatagramSink, SessionTicket, unanswered};
use crate::fail_point::fail_point;
use crate::flow::session::{
    DatagramHeader, RecordReader, SessionAcks, SessionProbe, SessionRecord, SessionSender, Span, payload_max,
};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::doorbell::PollSet;
use crate::sys::mutex::{lock, try_lock};
use crate::sys::socket::Socket;
use crate::transport::carrier::{Frames, Opening, PathSink, SessionEnd, violation};

/// The bytes from which on a frame that may be repaired keeps the buffer. Shorter frames are
/// copied.
const LONG: usize = 8 * 1024;
/// The longest wait of an ending sender until the control socket has taken the data in transit.
const FINISH_TIME: Duration = Duration::from_secs(1);
/// The longest wait of an ending sender until the data has reached another host. TCP repeats lost
/// data, later each time.
const DELIVERY_TIME: Duration = Duration::from_secs(10);

/// The sending end.
pub(in crate::transport) struct SessionSink {
    shared: Arc<Sending>,
}

/// The part of the sink that the service thread also uses.
pub(super) struct Sending {
    path: Box<dyn DatagramSink>,
    /// The address of the receiver.
    destination: String,
    token: u64,
    control: Socket,
    state: Mutex<SendingState>,
    /// The socket of acknowledgements.
    acks: Socket,
    /// Whether the service thread checks this session from time to time.
    is_watched: AtomicBool,
    /// The most bytes of a datagram's payload.
    payload_max: usize,
    is_repaired: bool,
}

struct SendingState {
    session: SessionSender,
    /// Long frames that the session has no copies of.
    kept: KeptBuffers,
    cutter: FrameCutter,
    reader: RecordReader,
    acks: SessionAcks,
    /// The probes sent.
    probes: u64,
    /// Whether the path itself was full at the last write.
    is_path_full: bool,
    /// Records that the control socket has not taken.
    backlog: Vec<u8>,
    /// The violation of the receiver. After it, the receiver is no longer served.
    violation: Option<String>,
}

impl SendingState {
    /// Checks that the receiver has not broken the rules.
    #[inline]
    fn check_receiver(&self) -> io::Result<()> {
        match &self.violation {
            None => Ok(()),
            Some(text) => Err(violation(text)),
        }
    }
}

impl SessionSink {
    /// Opens a sink over a path with datagrams of at most `datagram_max` bytes. `is_repaired`: lost
    /// datagrams are repaired, even if the receiver does not need that.
    ///
    /// # Errors
    /// A description of the ticket's fault, for the peer.
    pub(in crate::transport) fn open(
        ticket: &SessionTicket,
        [control, acks]: [Socket; 2],
        path: Box<dyn DatagramSink>,
        datagram_max: usize,
        is_repaired: bool,
    ) -> Result<Arc<Self>, String> {
        let is_repaired = is_repaired || ticket.is_repaired;
        grow_send_buffer(&control, ticket.buffer);
        let mut session = SessionSender::new(ticket.token, ticket.buffer, is_repaired);
        session.count_by(ticket.datagram_charges());
        let shared = Arc::new(Sending {
            path,
            destination: ticket.address.clone(),
            token: ticket.token,
            control,
            state: Mutex::new(SendingState {
                session,
                kept: KeptBuffers::default(),
                cutter: FrameCutter::default(),
                reader: RecordReader::new(false, 0),
                acks: SessionAcks::default(),
                probes: 0,
                is_path_full: false,
                backlog: Vec::new(),
                violation: None,
            }),
            acks,
            is_watched: AtomicBool::new(false),
            payload_max: payload_max(datagram_max, ticket.buffer),
            is_repaired,
        });
        service::add(Arc::clone(&shared) as _).map_err(|e| e.to_string())?;
        Ok(Arc::new(Self { shared }))
    }
}

#[cfg(test)]
impl SessionSink {
    pub(super) fn token(&self) -> u64 {
        self.shared.token
    }

    /// Ends like a process that is killed: nothing is passed on.
    pub(super) fn die(&self) {
        service::remove(&self.shared);
        self.shared.control.close();
        self.shared.acks.close();
    }
}

impl PathSink for SessionSink {
    fn write(&self, frames: &mut Frames<'_>, _longest: Duration) -> io::Result<usize> {
        let shared = &*self.shared;
        let mut state = lock(&shared.state);
        state.check_receiver()?;
        let bytes = frames.len();
        let part = state.cutter.next(frames, shared.payload_max);
        let mut written = 0;
        match frames.buffer().filter(|_| part.bytes == bytes && !shared.is_record(&part)) {
            // The frames are one datagram: the header goes in front of them.
            Some(buffer) => {
                shared.send_buffer(&mut state, &part, buffer)?;
                written = bytes;
            }
            None => {
                while written < bytes {
                    match shared.send_some(&mut state, &frames[written..]) {
                        Ok(some) => written += some,
                        Err(_) if written > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        drop(state);
        shared.watch();
        Ok(written)
    }

    fn open(&self) -> Result<Opening<'_>, String> {
        self.shared.probe()
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.readable(self.shared.acks.as_fd());
        if lock(&self.shared.state).is_path_full {
            self.shared.path.poll_room(poll_set);
        }
    }
}

impl Drop for SessionSink {
    /// Passes the datagrams in transit on to the receiver, because this side cannot repair them
    /// later.
    fn drop(&mut self) {
        service::remove(&self.shared);
        fail_point!("session-end");
        let mut state = lock(&self.shared.state);
        if state.violation.is_some() {
            // Such a receiver could make this sender wait.
            return;
        }
        let SendingState { session, kept, backlog, .. } = &mut *state;
        for number in session.in_transit() {
            if let Some((span, copy)) = session.copy(number).or_else(|| kept.payload(number)) {
                SessionRecord::Data { number, span, bytes: copy.to_vec() }.encode_to(backlog);
            }
        }
        SessionRecord::Sent { number: session.in_transit().end }.encode_to(backlog);
        finish(&self.shared.control, &mut state.backlog);
    }
}

impl SessionEnd for SessionSink {
    fn unread_bytes(&self) -> Option<u64> {
        let state = lock(&self.shared.state);
        Some(state.session.bytes_in_transit(self.shared.arrived_ack(&state)))
    }
}

impl Sending {
    /// Sends a probe, unless a probe was acknowledged.
    fn probe(&self) -> Result<Opening<'_>, String> {
        let mut state = lock(&self.state);
        self.read_acks(&mut state).map_err(|e| format!("the socket of acknowledgements: {e}"))?;
        if let Some((number, charge)) = state.acks.probe() {
            return match (1..=state.probes).contains(&number) {
                true => {
                    state.session.note_probe(charge);
                    Ok(Opening::Done)
                }
                false => Err(format!("acknowledged probe {number}, which was not sent")),
            };
        }
        state.probes += 1;
        let probe = SessionProbe { token: self.token, number: state.probes };
        // A probe that cannot be sent now is sent the next time.
        let _ = self.path.send(&probe.encode(), &[]);
        Ok(unanswered(&self.destination, &self.acks))
    }
}

/// Makes room for a whole window in a control socket. `buffer`: the bytes of the receive buffer.
/// The purpose is not speed: with this room, the end of a sender need not wait.
pub(super) fn grow_send_buffer(control: &Socket, buffer: u64) {
    let _ = sockopt::set_socket_send_buffer_size(control, usize::try_from(buffer).unwrap_or(0));
}

/// Sends as much as the control socket takes. Returns false if the receiver is gone.
pub(super) fn send_backlog(control: &Socket, backlog: &mut Vec<u8>) -> bool {
    while !backlog.is_empty() {
        match io::Write::write(&mut &*control, backlog) {
            Ok(sent) => drop(backlog.drain(..sent)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
    }
    true
}

/// Sends the last records, and ends the control socket. Waits for room in the socket, but not long.
pub(super) fn finish(control: &Socket, backlog: &mut Vec<u8>) {
    let time = if matches!(control, Socket::Tcp(_)) { DELIVERY_TIME } else { FINISH_TIME };
    let until = Instant::now() + time;
    while send_backlog(control, backlog) && !backlog.is_empty() {
        let mut poll_set = PollSet::default();
        poll_set.writable(control.as_fd());
        if !poll_set.wait(Some(until)).unwrap_or(false) {
            log::warn!(
                target: "stripline::transport",
                "a receiver did not take the last {} bytes within {time:?}", backlog.len()
            );
            break;
        }
    }
    fail_point!("session-ended");
    control.close_writing();
    control.await_delivery(until);
}

impl Sending {
    /// Sends a first part of the bytes, and returns the length of this part.
    fn send_some(&self, state: &mut SendingState, bytes: &[u8]) -> io::Result<usize> {
        let part = state.cutter.next(bytes, self.payload_max);
        if part.bytes < bytes.len() && !self.is_record(&part) {
            return self.send_batch(state, bytes);
        }
        self.send_part(state, &part, &bytes[..part.bytes])
    }

    /// Sends a part that is the whole frames of a buffer, with the header in front of them.
    fn send_buffer(
        &self,
        state: &mut SendingState,
        part: &DatagramPart,
        buffer: &mut AlignedBuffer,
    ) -> io::Result<()> {
        let bytes = part.bytes;
        let header = self.next_header(state, part)?.encode();
        self.send_datagram(state, buffer.behind(&header, 0..bytes), &[])?;
        if self.is_repaired && bytes >= LONG {
            let number = state.session.sent_and_kept(bytes);
            state.kept.keep(number, part.span, buffer, bytes);
        } else {
            state.session.sent(part.span, &buffer.frame()[..bytes]);
        }
        state.cutter.take(part);
        Ok(())
    }

    /// Returns whether a part travels on the control socket.
    fn is_record(&self, part: &DatagramPart) -> bool {
        part.is_kept && !self.is_repaired
    }

    /// Sends several datagrams at once, as far as there is room, and returns their bytes.
    fn send_batch(&self, state: &mut SendingState, bytes: &[u8]) -> io::Result<usize> {
        if state.session.is_time_to_look() {
            self.read_acks(state)?;
        }
        let cut = |state: &SendingState| {
            let (first, mut count, mut pending) = (state.session.header(Span::default()), 0, 0);
            DatagramBatch::cut(bytes, self.payload_max, &state.cutter, |part| {
                if self.is_record(part) || !state.session.has_room_behind(pending, part.bytes) {
                    return None;
                }
                pending += state.session.cost_of(part.bytes);
                count += 1;
                Some(first.plus(count - 1, part.span))
            })
        };
        let mut batch = cut(state);
        if batch.is_empty() {
            self.read_acks(state)?;
            batch = cut(state);
        }
        if batch.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let sent = batch.send(&*self.path);
        state.is_path_full = sent.is_err();
        let mut written = 0;
        for (part, payload) in batch.first(sent?) {
            state.session.sent(part.span, payload);
            state.cutter.take(part);
            written += payload.len();
        }
        Ok(written)
    }

    /// Sends a part, and returns the length.
    fn send_part(&self, state: &mut SendingState, part: &DatagramPart, payload: &[u8]) -> io::Result<usize> {
        if self.is_record(part) {
            if !self.send_backlog(state) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if !state.backlog.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let number = state.session.send_record();
            SessionRecord::Data { number, span: part.span, bytes: payload.to_vec() }
                .encode_to(&mut state.backlog);
            self.send_backlog(state);
        } else {
            let header = self.next_header(state, part)?.encode();
            self.send_datagram(state, &header, payload)?;
            state.session.sent(part.span, payload);
        }
        state.cutter.take(part);
        Ok(part.bytes)
    }

    /// Returns the header of the next datagram, once there is room for it.
    #[inline]
    fn next_header(&self, state: &mut SendingState, part: &DatagramPart) -> io::Result<DatagramHeader> {
        if !state.session.has_room(part.bytes) || state.session.is_time_to_look() {
            self.read_acks(state)?;
            if !state.session.has_room(part.bytes) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        Ok(state.session.header(part.span))
    }

    /// Sends the next datagram, in two parts. The caller must then count it as sent.
    #[inline]
    fn send_datagram(&self, state: &mut SendingState, first: &[u8], rest: &[u8]) -> io::Result<()> {
        let sent = self.path.send(first, rest);
        state.is_path_full = sent.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock);
        // A datagram that counts as sent but is lost is repaired or reported like any other.
        if state.is_path_full { sent } else { Ok(()) }
    }

    /// Takes the acknowledgements that have arrived.
    fn read_acks(&self, state: &mut SendingState) -> io::Result<()> {
        let mut buffer = [0; 512];
        loop {
            match recv(&self.acks, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return state.check_receiver().and(Err(io::ErrorKind::BrokenPipe.into())),
                Ok((read, _)) => {
                    if let Some(number) = state.acks.feed(&buffer[..read])
                        && let Err(text) = state.session.acknowledge(number)
                    {
                        state.violation = Some(text);
                    }
                    state.kept.release(state.session.in_transit().start);
                    // There were no more acknowledgements.
                    if read < buffer.len() {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(error) => return Err(error.into()),
            }
        }
        state.check_receiver()
    }

    /// Returns the newest acknowledgement that has arrived. The acknowledgement stays in the
    /// socket, because it wakes a sender that waits for room.
    fn arrived_ack(&self, state: &SendingState) -> Option<u64> {
        let mut buffer = [0; 512];
        let (read, _) = recv(&self.acks, &mut buffer, RecvFlags::DONTWAIT | RecvFlags::PEEK).ok()?;
        state.acks.clone().feed(&buffer[..read])
    }

    fn send_backlog(&self, state: &mut SendingState) -> bool {
        send_backlog(&self.control, &mut state.backlog)
    }

    fn take_records(&self, state: &mut SendingState) -> Result<(), String> {
        while let Some(record) = state.reader.next()? {
            let SessionRecord::Ask { number, count } = record else { continue };
            fail_point!("repair");
            let SendingState { session, kept, backlog, .. } = &mut *state;
            // Datagrams that are not in transit were taken, and an honest receiver asks only once.
            let end = number.saturating_add(u64::from(count)).min(session.in_transit().end);
            for number in number.max(session.in_transit().start)..end {
                match session.copy(number).or_else(|| kept.payload(number)) {
                    Some((span, copy)) => {
                        SessionRecord::Data { number, span, bytes: copy.to_vec() }.encode_to(backlog);
                        session.count_repair();
                    }
                    None if session.is_record(number) => {}
                    None => SessionRecord::Lost { number, count: 1 }.encode_to(backlog),
                }
                if backlog.len() as u64 > 2 * session.window() {
                    return Err("asks again for packets that it has been sent".into());
                }
            }
            self.send_backlog(state);
            fail_point!("repaired");
        }
        Ok(())
    }
}

impl ServedSession for Sending {
    fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    fn is_watched(&self) -> &AtomicBool {
        &self.is_watched
    }

    fn has_backlog(&self) -> Option<bool> {
        try_lock(&self.state).map(|state| !state.backlog.is_empty())
    }

    fn serve(&self) -> bool {
        let mut state = lock(&self.state);
        if !self.send_backlog(&mut state) {
            return false;
        }
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.control, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((read, _)) => {
                    state.reader.feed(&buffer[..read]);
                    if let Err(text) = self.take_records(&mut state) {
                        // The next write returns the violation. A sender that waits for room wakes.
                        state.violation = Some(text);
                        self.acks.close();
                        return false;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return true,
                Err(_) => return false,
            }
        }
    }

    fn announce(&self) -> bool {
        let Some(mut state) = try_lock(&self.state) else { return true };
        let is_news = state.session.announce();
        if is_news {
            SessionRecord::Sent { number: state.session.in_transit().end }.encode_to(&mut state.backlog);
            self.send_backlog(&mut state);
        }
        is_news
    }
}
