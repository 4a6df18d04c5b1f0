//! The receiving side of a byte stream.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::padded;
use crate::error::{Error, Result};
use crate::flow;
use crate::flow::AckSender;
use crate::inspect::Ages;
use crate::packet::{HEADER_BYTES, Header};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::socket::Socket;
use crate::terms::{LinkOptions, Overflow};
use crate::transport::carrier::{ReadRoom, ReadWait, Source, violation_in};
use crate::transport::handshake::{Welcome, is_other_clock};
use crate::transport::signalling::{SocketAckSender, say_goodbye};
use crate::transport::{
    ConnectRequest, Endpoint, Inlet, InletParts, Next, Parked, PortPosition, StartPosition,
};

/// The timeout of a blocking read. A receiver that waits for nothing else first blocks in the read
/// itself, which takes one system call instead of three. Nothing can interrupt the read, so it is
/// short; a longer wait uses `poll`.
const READ_TIMEOUT: Duration = Duration::from_millis(10);
/// Processor pauses before a blocking read, about a tenth of a microsecond in total. Over a local
/// socket a reply often arrives that soon, and a core that goes idle just before takes microseconds
/// to wake.
const SPINS: u32 = 4;
/// The place of the first byte from a source, in a buffer that begins near the start of a page. A
/// message in the kernel also begins there. On some processors `rep movsb` takes several times as
/// long if the destination is a few bytes after the source, modulo 4096. On AMD EPYC this distance
/// raised 8000 B over `mqueue` from 125,000 to 336,000 packets/s.
const FIRST_OF_SOURCE: usize = 384;
/// The number of empty reads of a source in memory after which the sender's end is polled again.
/// The poll takes a system call, and a spinning receiver should not pay it at each read.
const EMPTY_READS: u32 = 32;
/// The bytes per read when frames are small.
const READ_BYTES: usize = 256 * 1024;

/// The frames of one connection, read in large blocks and used in place.
pub(crate) struct StreamInlet {
    /// The signalling socket, which also carries the frames unless there is a source.
    socket: Arc<Socket>,
    source: Option<Source>,
    /// Whether frames are read in the memory of the source.
    is_in_memory: bool,
    /// The number of empty reads since bytes last arrived from the source. After a wait, an empty
    /// read also polls the sender's end.
    times_empty: u32,
    /// Whether the socket is also written to, by an outlet that ends with this inlet.
    is_of_pair: bool,
    /// The flow control of the sender, until the port's queue takes it.
    flow: Option<flow::Receiver>,
    /// Set if the sender reads acknowledgements, or the link keeps flow control.
    acks: Option<Arc<SocketAckSender>>,
    connection: String,
    buffer: AlignedBuffer,
    /// Where the first byte goes when the buffer is empty.
    first: usize,
    start: usize,
    end: usize,
    /// The bytes of the frame at `start` with padding, while the frame is lent out.
    lent: usize,
    frame_max: usize,
    resume_from: Option<PortPosition>,
    /// Whether the sender's stamps come from another clock. If so, they are removed.
    is_other_clock: bool,
    /// The ages of samples with a time, by the receiver's clock, if the sender has another one.
    ages: Arc<Ages>,
    closed: bool,
    /// The sender's violation of the rules of the path. After it, nothing is read any more.
    violation: Option<String>,
    /// Whether the last blocking read timed out.
    read_timed_out: bool,
}

impl StreamInlet {
    /// Returns the receiving end of a connection that received a welcome.
    pub(crate) fn connect(
        socket: Socket,
        source: Option<Source>,
        welcome: &Welcome,
        endpoint: &Endpoint,
        request: &ConnectRequest,
    ) -> Result<Self> {
        let (peer, buffer) = (&request.connection, welcome.buffer);
        if buffer > LinkOptions::BUFFER_MAX {
            return Err(Error::misbehaved(peer, format!("announced a buffer of {buffer} bytes")));
        }
        // Reads that must not wait are explicitly non-blocking.
        socket
            .set_timeout(READ_TIMEOUT)
            .map_err(|e| Error::system(format!("{peer}: the handshake with {endpoint}"), e))?;
        let is_other_clock = is_other_clock(welcome.clock, &socket);
        let socket = Arc::new(socket);
        let mut inlet = Self::over(socket, request.connection.clone(), buffer, welcome.resume_position());
        inlet.is_other_clock = is_other_clock;
        inlet.set_source(source);
        let options = &request.options;
        let own = flow::Incarnation::ONLY;
        if options.overflow == Overflow::Block {
            inlet.flow = flow::Receiver::new(options.flow, options.watermarks(), own, Some(own));
        }
        if welcome.wants_acks || inlet.flow.is_some() {
            let backlog_doorbell = inlet.flow.as_ref().map(|_| Doorbell::new()).transpose()?;
            inlet.acks = Some(Arc::new(SocketAckSender::new(&inlet.socket, backlog_doorbell)));
        }
        Ok(inlet)
    }

    /// Returns the receiving end of a blocking socket that also has a sending end.
    pub(in crate::transport) fn of_pair(
        socket: Arc<Socket>,
        source: Option<Source>,
        connection: &str,
        buffer: u32,
        peer_clock: Option<u64>,
    ) -> Result<Self> {
        // Reads that must not wait are explicitly non-blocking.
        socket
            .set_timeout(READ_TIMEOUT)
            .map_err(|e| Error::system(format!("{connection}: the socket"), e))?;
        let mut inlet = Self::over(socket, connection.into(), buffer, None);
        inlet.is_of_pair = true;
        inlet.is_other_clock = is_other_clock(peer_clock, &inlet.socket);
        inlet.set_source(source);
        Ok(inlet)
    }

    fn set_source(&mut self, source: Option<Source>) {
        if let Some(source) = &source {
            self.is_in_memory = source.is_in_memory;
            self.first = if self.is_in_memory { AlignedBuffer::FRONT } else { FIRST_OF_SOURCE };
            self.buffer.grow(self.first);
            (self.start, self.end) = (self.first, self.first);
        }
        self.source = source;
    }

    fn over(socket: Arc<Socket>, connection: String, buffer: u32, resume_from: Option<PortPosition>) -> Self {
        let frame_max = super::frame_max(buffer.max(LinkOptions::BUFFER_MIN));
        Self {
            socket,
            source: None,
            is_in_memory: false,
            times_empty: 0,
            is_of_pair: false,
            flow: None,
            acks: None,
            connection,
            buffer: AlignedBuffer::default(),
            first: 0,
            start: 0,
            end: 0,
            lent: 0,
            frame_max,
            resume_from,
            is_other_clock: false,
            ages: Arc::default(),
            closed: false,
            violation: None,
            read_timed_out: false,
        }
    }

    /// Lends the frame at `start`; `None`: the frame is incomplete or malformed.
    #[inline(always)]
    fn lend(&mut self) -> Option<&[u8]> {
        if self.is_other_clock {
            self.clear_stamps();
        }
        let there = &self.buffer.bytes()[self.start..self.end];
        let length = Header::length_of(there)? as usize;
        let (bytes, whole) = (HEADER_BYTES + length, padded(length));
        if whole > there.len() || bytes > self.frame_max {
            return None;
        }
        self.lent = whole;
        Some(&there[..bytes])
    }

    /// Removes the stamps of another clock from the frame at `start`, so that nothing subtracts
    /// them.
    #[cold]
    fn clear_stamps(&mut self) {
        let there = &mut self.buffer.bytes_mut()[self.start..self.end];
        let Some(header) = there.get_mut(..HEADER_BYTES) else { return };
        let word = |at: usize| header.get(at..at + 8).and_then(|bytes| bytes.first_chunk().copied());
        // A packet that the sender measures is measured here, too: once, as its stamp is removed.
        if let (Some(time), Some(sent)) = (word(24).map(i64::from_le_bytes), word(40))
            && time != 0
            && sent != [0; 8]
        {
            self.ages.record_now(time);
        }
        let is_ordered = header[15] & Header::ORDERED != 0;
        // `intended_ns`, unless this field has an order stamp, and `sent_ns`.
        header[if is_ordered { 40 } else { 32 }..48].fill(0);
    }

    /// Returns the bytes of the whole frame at `start` with padding, or of the header while the
    /// header has not arrived.
    ///
    /// # Errors
    /// No valid sender announces such a length.
    fn wanted(&self) -> Result<usize> {
        let Some(length) = Header::length_of(&self.buffer.bytes()[self.start..self.end]) else {
            return Ok(HEADER_BYTES);
        };
        let length = length as usize;
        if HEADER_BYTES + length > self.frame_max {
            return Err(Error::misbehaved(
                &self.connection,
                format!("announced a frame of {length} bytes (at most {} are allowed)", self.frame_max),
            ));
        }
        Ok(padded(length))
    }

    /// Reads the available bytes; false: none. `blocks`: waits for them, at most [`READ_TIMEOUT`].
    fn read(&mut self, wanted: usize, blocks: bool) -> bool {
        if self.source.is_some() {
            return self.read_source(wanted, blocks);
        }
        let flags = if blocks { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        self.make_space(wanted, 1);
        let end = self.end;
        match recv(self.socket.as_fd(), &mut self.buffer.bytes_mut()[end..], flags) {
            // A frame cut short was never fully sent.
            Ok((0, _)) => self.closed = true,
            Ok((read, _)) => {
                self.end += read;
                self.read_timed_out = false;
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => return false,
            // Reset by a peer that died.
            Err(_) => self.closed = true,
        }
        true
    }

    /// Reads from the source; false: nothing. A separate function, so that a read of the socket
    /// does not pay for the size of this function.
    #[inline(never)]
    fn read_source(&mut self, wanted: usize, blocks: bool) -> bool {
        let mut wait = if blocks { ReadWait::Short } else { ReadWait::Never };
        loop {
            match self.read_from_source(wanted, wait) {
                Ok(read) => {
                    self.times_empty = 0;
                    self.read_timed_out = false;
                    self.closed = read == 0;
                    return true;
                }
                // The source does not show the sender's end. The end is polled if the source stays
                // empty, so that bytes written before the end are read first. In calls the next
                // read may be late, so the end is polled at once.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && wait != ReadWait::Rest => {
                    if !self.is_due_for_end() || !self.socket.has_hung_up() {
                        return false;
                    }
                    wait = ReadWait::Rest;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return false,
                Err(error) => {
                    self.violation = violation_in(&error);
                    self.closed = true;
                    return true;
                }
            }
        }
    }

    /// Returns the outcome after the last whole frame.
    ///
    /// # Errors
    /// The sender's violation.
    #[cold]
    fn take_end(&mut self) -> Result<Next<'static>> {
        match self.violation.take() {
            Some(violation) => Err(Error::misbehaved(&self.connection, violation)),
            None => Ok(Next::Closed),
        }
    }

    /// Counts an empty read of the source, and returns whether the sender's end is to be polled.
    fn is_due_for_end(&mut self) -> bool {
        let before = self.times_empty;
        self.times_empty = before.wrapping_add(1);
        match self.is_in_memory {
            true => before % EMPTY_READS == EMPTY_READS - 1,
            false => before > 0 || self.is_of_pair,
        }
    }

    /// Reads from the source: in memory that the source lends, or into the buffer.
    fn read_from_source(&mut self, wanted: usize, wait: ReadWait) -> io::Result<usize> {
        let Some(source) = &mut self.source else { return Ok(0) };
        let room_needed = source.room_needed;
        if self.is_in_memory {
            if self.start == self.end && !self.is_other_clock {
                let read = source.end.read(&mut ReadRoom::of_buffer(&mut self.buffer, room_needed), wait)?;
                (self.start, self.end) = (AlignedBuffer::FRONT, AlignedBuffer::FRONT + read);
                return Ok(read);
            }
            // The buffer already holds the first part of a frame: the rest goes after it.
            self.buffer.take_back();
        }
        self.make_space(wanted, room_needed);
        let Some(source) = &mut self.source else { return Ok(0) };
        let read = source.end.read(&mut ReadRoom::from(&mut self.buffer.bytes_mut()[self.end..]), wait)?;
        self.end += read;
        Ok(read)
    }

    /// Makes room for the rest of a frame of `wanted` bytes, and for a read of `least` bytes. The
    /// buffer grows with the bytes that arrived, never with bytes that were only announced.
    fn make_space(&mut self, wanted: usize, least: usize) {
        let have = self.end - self.start;
        if self.start > self.first && self.start + wanted.max(READ_BYTES) > self.buffer.len() {
            self.buffer.bytes_mut().copy_within(self.start..self.end, self.first);
            (self.start, self.end) = (self.first, self.first + have);
        }
        if self.end + least > self.buffer.len() || self.buffer.len() < READ_BYTES {
            self.buffer.grow(self.first + READ_BYTES.max(wanted.min(2 * have) + READ_BYTES));
        }
    }
}

impl Drop for StreamInlet {
    fn drop(&mut self) {
        // The outlet of a pair also has the socket. So does, for a moment, a process that another
        // thread is starting. Shutting the socket down lets the other end detect the end now.
        self.socket.close();
    }
}

impl Inlet for StreamInlet {
    fn parts(&mut self) -> InletParts {
        let acks = self.acks.clone().map(|acks| acks as Arc<dyn AckSender>);
        InletParts {
            needs_receive_queue: acks.is_some(),
            acks,
            flow: self.flow.take(),
            is_other_clock: self.is_other_clock,
            ages: self.is_other_clock.then(|| Arc::clone(&self.ages)),
            polls_without_syscall: self.is_in_memory,
            call_slot: self.source.as_ref().and_then(|source| source.call_slot.clone()),
            last_sent: self.source.as_ref().and_then(|source| source.last_sent.as_ref()?()),
            start: StartPosition { resume_from: self.resume_from, first_sent: None },
            ..InletParts::default()
        }
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        if let Some(acks) = &self.acks {
            acks.retry();
        }
        loop {
            let wanted = self.wanted()?;
            if wanted <= self.end - self.start {
                break;
            }
            if self.closed {
                return self.take_end();
            }
            if !self.read(wanted, false) {
                return Ok(Next::Empty);
            }
        }
        Ok(self.lend().map_or(Next::Empty, Next::Frame))
    }

    fn try_next_fast(&mut self, reads: bool) -> Option<Next<'_>> {
        if reads {
            if let Some(acks) = &self.acks {
                acks.retry();
            }
            let wanted = self.wanted().ok()?;
            let is_missing = wanted > self.end - self.start && !self.closed;
            if is_missing && !self.read(wanted, false) {
                return Some(Next::Empty);
            }
        }
        self.lend().map(Next::Frame)
    }

    fn release(&mut self) {
        self.start += std::mem::take(&mut self.lent);
        if self.start == self.end {
            (self.start, self.end) = (self.first, self.first);
        }
    }

    fn spin(&mut self, polls: u32) -> bool {
        if polls > 0 {
            std::hint::spin_loop();
        }
        self.start + self.lent != self.end
    }

    fn park(
        &mut self,
        deadline: Option<Instant>,
        _interrupt: Option<&AtomicU32>,
        may_park: &mut dyn FnMut() -> bool,
    ) -> Result<Parked> {
        if self.source.as_ref().is_some_and(|source| source.is_filled_by_threads) {
            std::thread::yield_now();
        }
        let is_near = |deadline: Instant| deadline <= Instant::now() + READ_TIMEOUT;
        let can_wait = self.source.as_ref().is_none_or(|source| source.can_wait);
        if !can_wait || self.read_timed_out || deadline.is_some_and(is_near) {
            // There is no blocking read, or it has timed out before, or it would miss the deadline.
            return Ok(Parked::Unable);
        }
        let wanted = self.wanted()?;
        if wanted <= self.end - self.start || self.closed || !may_park() {
            return Ok(Parked::Woken);
        }
        (0..SPINS).for_each(|_| std::hint::spin_loop());
        self.read_timed_out = !self.read(wanted, true);
        Ok(Parked::Woken)
    }

    fn prepare_sleep<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        // Unread bytes make the socket readable, which ends the sleep at once.
        let is_quiet = match &mut self.source {
            None => {
                poll_set.readable(self.socket.as_fd());
                true
            }
            Some(source) => {
                // The event that ends the wait may be the sender's end.
                self.times_empty = EMPTY_READS - 1;
                poll_set.hung_up(self.socket.as_fd());
                source.end.poll_bytes(poll_set)
            }
        };
        let (doorbell, is_backlogged) =
            self.acks.as_ref().map_or((None, false), |acks| acks.backlog_doorbell());
        if let Some(doorbell) = doorbell {
            poll_set.readable(doorbell.as_fd());
        }
        if is_backlogged {
            poll_set.writable(self.socket.as_fd());
        }
        is_quiet && !self.closed
    }

    fn is_peer_gone(&mut self) -> bool {
        self.closed || self.socket.has_hung_up()
    }

    fn say_goodbye(&mut self) {
        say_goodbye(&self.socket);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;
    use crate::packet::Kind;
    use crate::transport::carrier::{PathSource, violation};

    fn frame(sequence: u64, payload: &[u8]) -> Vec<u8> {
        let header = Header {
            sequence,
            sample_index: 0,
            time_ns: 0,
            intended_ns: 0,
            sent_ns: 0,
            length: payload.len() as u32,
            stream: 0,
            kind: Kind::Data as u8,
            flags: 0,
        };
        let mut bytes = bytemuck::bytes_of(&header).to_vec();
        bytes.extend_from_slice(payload);
        bytes.resize(padded(payload.len()), 0);
        bytes
    }

    fn inlet() -> (UnixStream, StreamInlet) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        (ours, StreamInlet::over(Arc::new(Socket::from(theirs)), "a -> b".into(), 4096, None))
    }

    #[test]
    fn the_end_of_a_receiver_is_detected_while_its_process_starts_another() {
        let (ours, inlet) = inlet();
        // A process has such a copy between fork and exec.
        let copy = inlet.socket.try_clone().unwrap();
        let ours = Socket::from(ours);
        assert!(!ours.has_hung_up());
        drop(inlet);
        assert!(ours.has_hung_up());
        drop(copy);
    }

    #[test]
    fn stamps_of_another_clock_are_taken_out() {
        use crate::packet::payload::TypeName;
        use crate::sys::clock;
        let own = clock::identity().unwrap();
        for (sender_clock, is_other) in [(Some(own), false), (Some(own ^ 1), true), (None, false)] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let welcome = Welcome { clock: sender_clock, ..Welcome::new(1, None, 4096) };
            let (connection, payload) = ("a -> b".into(), TypeName::of::<u8>());
            let request = ConnectRequest::new(connection, payload, LinkOptions::default());
            let endpoint = Endpoint { transport: "uds".into(), address: "test".into(), keys: [0, 1] };
            let mut inlet =
                StreamInlet::connect(Socket::from(theirs), None, &welcome, &endpoint, &request).unwrap();
            assert_eq!(inlet.parts().is_other_clock, is_other);
            for flags in [0, Header::ORDERED] {
                let mut bytes = frame(3, b"four");
                bytes[15] = flags;
                bytes[24..32].copy_from_slice(&9_i64.to_le_bytes());
                bytes[32..40].copy_from_slice(&5_u64.to_le_bytes());
                bytes[40..48].copy_from_slice(&7_u64.to_le_bytes());
                ours.write_all(&bytes).unwrap();
                let Next::Frame(frame) = inlet.try_next().unwrap() else { panic!("it is there") };
                let header = Header::read(frame).unwrap();
                let intended = if is_other && flags == 0 { 0 } else { 5 };
                let sent = if is_other { 0 } else { 7 };
                assert_eq!((header.sequence, header.intended_ns, header.sent_ns), (3, intended, sent));
                assert_eq!(&frame[HEADER_BYTES..], b"four");
                inlet.release();
                let ages = inlet.parts().ages.and_then(|ages| ages.report());
                assert_eq!(ages.map(|ages| ages.samples), is_other.then_some(if flags == 0 { 1 } else { 2 }));
            }
        }
    }

    #[test]
    fn an_oversized_length_is_refused_by_name() {
        let (mut ours, mut inlet) = inlet();
        let mut bytes = frame(0, &[]);
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        ours.write_all(&bytes).unwrap();
        let error = inlet.try_next().unwrap_err().to_string();
        assert!(error.contains("4294967295"), "{error}");
    }

    /// A source with bytes, and an error after them.
    struct Failing {
        bytes: Vec<u8>,
        error: Option<io::Error>,
        doorbell: Doorbell,
    }

    impl PathSource for Failing {
        fn read(&mut self, room: &mut ReadRoom<'_>, _wait: ReadWait) -> io::Result<usize> {
            let bytes = std::mem::take(&mut self.bytes);
            if bytes.is_empty() {
                return Err(self.error.take().unwrap_or(io::ErrorKind::WouldBlock.into()));
            }
            room.bytes()[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }

        fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
            poll_set.readable(self.doorbell.as_fd());
            true
        }
    }

    #[test]
    fn a_violation_on_the_path_is_an_error_behind_whole_frames_and_another_failure_an_end() {
        for (error, is_violation) in
            [(violation("sent nonsense"), true), (io::ErrorKind::BrokenPipe.into(), false)]
        {
            let (_ours, mut inlet) = inlet();
            let bytes = [frame(0, b"four"), frame(1, b"half")[..20].to_vec()].concat();
            let doorbell = Doorbell::new().unwrap();
            inlet.set_source(Some(Source::new(Failing { bytes, error: Some(error), doorbell })));
            assert!(matches!(inlet.try_next().unwrap(), Next::Frame(frame) if frame.ends_with(b"four")));
            inlet.release();
            match inlet.try_next() {
                Ok(end) => assert!(matches!(end, Next::Closed) && !is_violation),
                Err(Error::PeerMisbehaved { peer, violation }) => {
                    assert_eq!((&*peer, &*violation, is_violation), ("a -> b", "sent nonsense", true));
                }
                Err(error) => panic!("{error}"),
            }
            assert!(inlet.is_peer_gone());
        }
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut(
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..20),
            cuts in proptest::collection::vec(1usize..400, 1..20),
        ) {
            let (mut ours, mut inlet) = inlet();
            let bytes: Vec<u8> =
                payloads.iter().enumerate().flat_map(|(i, p)| frame(i as u64, p)).collect();
            let mut rest = &bytes[..];
            let mut cuts = cuts.iter().cycle();
            let mut seen = Vec::new();
            while seen.len() < payloads.len() {
                let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                ours.write_all(now).unwrap();
                rest = later;
                while let Next::Frame(frame) = inlet.try_next().unwrap() {
                    seen.push(frame[HEADER_BYTES..].to_vec());
                    inlet.release();
                }
            }
            prop_assert_eq!(seen, payloads);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let (mut ours, mut inlet) = inlet();
            ours.write_all(&bytes).unwrap();
            drop(ours);
            for _ in 0..bytes.len() + 2 {
                match inlet.try_next() {
                    Ok(Next::Frame(_)) => inlet.release(),
                    Ok(_) => break,
                    Err(error) => {
                        prop_assert!(error.to_string().contains("announced"));
                        break;
                    }
                }
            }
        }
    }
}
