//! The acknowledgements of a receiver on the signalling socket: records, one after the other,
//! little-endian.
//!
//! ```text
//! offset bytes
//! 0      8     sequence number of the packet
//! 8      1     1: accepted, 2: finished, 3: refused; 4: see below
//! 9      1     zero
//! 10     2     bytes of the reason, at most 256; 0 unless refused
//! 12     4     zero
//! 16     ...   the reason, UTF-8
//! ```
//!
//! There is one acknowledgement for each packet that requests it, in any order. A receiver sends
//! acknowledgements only if the sender's welcome announced that the sender reads them. If the
//! receiver's hello requested flow control, flow control messages come in between
//! (`flow/message.rs`). Such messages begin like an acknowledgement. A receiver that has not died
//! ends with a goodbye: a record of kind 4 and otherwise zeros. No successor follows a receiver
//! that has sent a goodbye.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::flow::ack::{REASON_MAX, sanitize, truncate_reason};
use crate::flow::{self, FlowMessage, MESSAGE_BYTES};
use crate::flow::{Ack, AckSender, AckState, AckWait};
use crate::sys::doorbell::Doorbell;
use crate::sys::mutex::lock;
use crate::sys::socket::Socket;
use crate::terms::Scope;

const RECORD_BYTES: usize = 16;
const ACCEPTED: u8 = 1;
const FINISHED: u8 = 2;
const REFUSED: u8 = 3;
const GOODBYE: u8 = 4;
/// The most bytes of acknowledgements that wait for a sender to take them. The acknowledgements
/// belong to more than a thousand packets for which the sender no longer waits.
const BACKLOG_MAX: usize = 64 * 1024;

/// Sends the goodbye of a receiver. If the socket does not take it, the successor reports a gap.
pub(in crate::transport) fn say_goodbye(socket: &Socket) {
    let mut goodbye = [0; RECORD_BYTES];
    goodbye[8] = GOODBYE;
    let _ = send(socket.as_fd(), &goodbye, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Returns whether the other end has sent a goodbye. The bytes are left to be read.
pub(super) fn peek_goodbye(socket: &Socket) -> bool {
    let mut buffer = [0; RECORD_BYTES * 64];
    let peeked = recv(socket.as_fd(), &mut buffer, RecvFlags::DONTWAIT | RecvFlags::PEEK);
    let read = peeked.map_or(0, |(read, _)| read);
    let mut rest = &buffer[..read];
    while let Ok(Some((record, behind))) = parse(rest) {
        if matches!(record, Record::Ack(_, GOODBYE, _)) {
            return true;
        }
        rest = behind;
    }
    false
}

/// The receiver's sender of acknowledgements.
pub(in crate::transport) struct SocketAckSender {
    /// The socket belongs to the link, and is closed with the link, even if packets of the link are
    /// still held.
    socket: Weak<Socket>,
    backlog: Mutex<Backlog>,
    /// Whether the socket did not take a message that cannot wait for the next acknowledgement,
    /// because the sender may be waiting for the message.
    is_backlogged: AtomicBool,
    /// Rung when `is_backlogged` is set.
    backlog_doorbell: Option<Doorbell>,
}

/// The messages that the socket did not take.
#[derive(Default)]
struct Backlog {
    acks: Vec<u8>,
    /// The latest message of flow control, which supersedes all before it.
    flow: Option<FlowMessage>,
}

impl SocketAckSender {
    /// Returns the sender of acknowledgements. With flow control, the doorbell wakes a thread that
    /// [tries again](SocketAckSender::retry).
    pub(in crate::transport) fn new(socket: &Arc<Socket>, backlog_doorbell: Option<Doorbell>) -> Self {
        let (backlog, is_backlogged) = (Mutex::default(), AtomicBool::new(false));
        Self { socket: Arc::downgrade(socket), backlog, is_backlogged, backlog_doorbell }
    }

    /// Returns the doorbell of the thread that tries again, and whether it must wait for room in
    /// the socket.
    pub(in crate::transport) fn backlog_doorbell(&self) -> (Option<&Doorbell>, bool) {
        (self.backlog_doorbell.as_ref(), self.is_backlogged.load(Ordering::Acquire))
    }

    /// Tries again to send the backlog.
    pub(in crate::transport) fn retry(&self) {
        if self.is_backlogged.load(Ordering::Acquire)
            && let Some(doorbell) = &self.backlog_doorbell
        {
            let mut backlog = lock(&self.backlog);
            doorbell.drain();
            self.send(&mut backlog);
        }
    }

    /// Sends as much as the socket takes. A receiver never waits for its sender.
    fn send(&self, backlog: &mut Backlog) {
        let Some(socket) = self.socket.upgrade() else { return };
        loop {
            if backlog.acks.is_empty() {
                match backlog.flow.take() {
                    Some(message) => backlog.acks.extend_from_slice(&message.encode()),
                    None => break,
                }
            }
            match send(socket.as_fd(), &backlog.acks, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(backlog.acks.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                // The link gets the same error and handles it.
                Err(_) => *backlog = Backlog::default(),
            }
        }
        if backlog.acks.len() > BACKLOG_MAX {
            log::warn!(
                target: "stripline::transport",
                "a sender does not take the acknowledgements that it requests; it is disconnected"
            );
            *backlog = Backlog::default();
            socket.close();
        }
        let is_backlogged = self.backlog_doorbell.is_some() && !backlog.acks.is_empty();
        // The lock is still held, so that the doorbell rings only while there is a backlog.
        // Release: a thread that sees the flag finds the backlog.
        if self.is_backlogged.swap(is_backlogged, Ordering::AcqRel) != is_backlogged
            && let Some(doorbell) = &self.backlog_doorbell
        {
            match is_backlogged {
                true => doorbell.notify(),
                false => drop(doorbell.drain()),
            }
        }
    }
}

impl AckSender for SocketAckSender {
    fn send(&self, sequence: u64, ack: Ack<'_>) {
        let mut backlog = lock(&self.backlog);
        backlog.acks.extend_from_slice(&record(sequence, ack));
        self.send(&mut backlog);
    }

    fn send_flow(&self, message: FlowMessage) {
        let mut backlog = lock(&self.backlog);
        backlog.flow =
            backlog.flow.filter(|before| before.body.rank() > message.body.rank()).or(Some(message));
        self.send(&mut backlog);
    }
}

pub(crate) fn record(sequence: u64, ack: Ack<'_>) -> Vec<u8> {
    let (kind, reason) = match ack {
        Ack::Accepted => (ACCEPTED, ""),
        Ack::Finished => (FINISHED, ""),
        Ack::Refused(reason) => (REFUSED, truncate_reason(reason)),
    };
    let mut bytes = Vec::with_capacity(RECORD_BYTES + reason.len());
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&[kind, 0]);
    // The length is at most REASON_MAX, which fits.
    bytes.extend_from_slice(&(reason.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(reason.as_bytes());
    bytes
}

/// A parser of one receiver's acknowledgements, at the sender. Every field is validated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AckReader {
    bytes: Vec<u8>,
    /// The acknowledgements requested, and the acknowledgements that arrived.
    requested: u64,
    received: u64,
    /// The flow control for this receiver, if the link keeps it.
    pub(in crate::transport) flow_sender: Option<flow::Sender>,
    /// The newest packet, for which the sender waits.
    expected: Option<(u64, Scope)>,
    ack: Option<Result<(), String>>,
    /// Whether the receiver has sent a goodbye.
    pub(super) has_left: bool,
}

impl AckReader {
    /// Returns a parser with flow control.
    pub(crate) fn with(flow_sender: Option<flow::Sender>) -> Self {
        Self { flow_sender, ..Self::default() }
    }

    /// Expects an acknowledgement of a packet that is newer than all earlier packets.
    pub(crate) fn expect(&mut self, ack_wait: &AckWait) {
        self.requested += 1;
        (self.expected, self.ack) = (Some((ack_wait.sequence, ack_wait.scope)), None);
    }

    /// Returns whether acknowledgements or flow control are still to come, once everything has been
    /// sent.
    pub(in crate::transport) fn is_open(&self) -> bool {
        self.received < self.requested
            || self.flow_sender.as_ref().is_some_and(|flow_sender| !flow_sender.is_over())
    }

    /// Returns the state of the packet expected last, after a read. `read` is the result of that
    /// read: whether the receiver is there.
    pub(crate) fn state(&mut self, read: &Result<bool, String>) -> AckState {
        match (self.ack(), read) {
            (_, Err(violation)) => AckState::Violation(violation.clone()),
            (Some(Ok(())), Ok(_)) => AckState::Done,
            (Some(Err(reason)), Ok(_)) => AckState::Refused(reason),
            (None, Ok(false)) => AckState::PeerGone,
            (None, Ok(true)) => AckState::Pending,
        }
    }

    /// Takes the acknowledgement of the packet expected last: done, or the reason of a refusal.
    pub(crate) fn ack(&mut self) -> Option<Result<(), String>> {
        self.ack.take()
    }

    /// Reads the available bytes; false: the receiver has hung up.
    ///
    /// # Errors
    /// A description of the receiver's violation.
    pub(in crate::transport) fn read_from(&mut self, socket: &Socket) -> Result<bool, String> {
        loop {
            let mut buffer = [0; RECORD_BYTES + REASON_MAX];
            match recv(socket.as_fd(), &mut buffer, RecvFlags::DONTWAIT).map_err(io::Error::from) {
                Ok((0, _)) => return Ok(false),
                Ok((read, _)) => self.feed(&buffer[..read])?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Ok(e.kind() == ErrorKind::WouldBlock),
            }
        }
    }

    /// Parses bytes as they arrive.
    ///
    /// # Errors
    /// See [`AckReader::read_from`].
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.bytes.extend_from_slice(bytes);
        let mut behind = 0;
        while let Some((record, rest)) = parse(&self.bytes[behind..])? {
            behind = self.bytes.len() - rest.len();
            match record {
                Record::Flow(message) => match &mut self.flow_sender {
                    Some(flow_sender) => flow_sender.receive(&message)?,
                    None => return Err("sent flow control that it did not request".into()),
                },
                Record::Ack(sequence, kind, reason) => {
                    let reason = reason.map(sanitize);
                    self.record(sequence, kind, reason)?;
                }
            }
        }
        self.bytes.drain(..behind);
        Ok(())
    }

    fn record(&mut self, sequence: u64, kind: u8, reason: Option<String>) -> Result<(), String> {
        if kind == GOODBYE {
            self.has_left = true;
            return Ok(());
        }
        let Some((newest, scope)) = self.expected.filter(|(newest, _)| sequence <= *newest) else {
            return Err(format!("acknowledged packet {sequence}, which was not sent"));
        };
        self.received += 1;
        if self.received > self.requested {
            return Err(format!("acknowledged packet {sequence} without a request"));
        }
        if sequence == newest {
            if scope == Scope::Target && kind == ACCEPTED {
                return Err(format!("acknowledged packet {sequence} before it was finished"));
            }
            self.ack = Some(reason.map_or(Ok(()), Err));
        }
        Ok(())
    }
}

/// A message of a receiver.
enum Record<'a> {
    /// A packet's number and outcome, and the reason if it was refused.
    Ack(u64, u8, Option<&'a [u8]>),
    Flow(FlowMessage),
}

/// Returns the first record, and the bytes after it; `None`: the record is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<(Record<'_>, &[u8])>, String> {
    let Some((record, behind)) = bytes.split_first_chunk::<RECORD_BYTES>() else { return Ok(None) };
    if FlowMessage::is_one(record) {
        let Some((message, behind)) = bytes.split_first_chunk::<MESSAGE_BYTES>() else { return Ok(None) };
        return Ok(Some((Record::Flow(FlowMessage::parse(message)?), behind)));
    }
    let [s0, s1, s2, s3, s4, s5, s6, s7, kind, zero, l0, l1, rest @ ..] = *record;
    let length = usize::from(u16::from_le_bytes([l0, l1]));
    if !matches!(kind, ACCEPTED | FINISHED | REFUSED | GOODBYE) || zero != 0 || rest != [0; 4] {
        return Err("sent an invalid acknowledgement".into());
    }
    if length > REASON_MAX || length > 0 && kind != REFUSED {
        return Err(format!("announced a reason of {length} bytes for an acknowledgement of kind {kind}"));
    }
    let Some((reason, behind)) = behind.split_at_checked(length) else { return Ok(None) };
    let sequence = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    Ok(Some((Record::Ack(sequence, kind, (kind == REFUSED).then_some(reason)), behind)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn ear(sequence: u64, scope: Scope) -> AckReader {
        let mut acks = AckReader::default();
        acks.expect(&AckWait::new(sequence, scope, Duration::ZERO));
        acks
    }

    /// Checks the examples of `docs/wire.md`: the lines of 16 hexadecimal numbers after the lines
    /// of the packet.
    #[test]
    fn docs_match_the_code() {
        let document = include_str!("../../../../../docs/wire.md");
        let bytes = |line: &str| -> Option<Vec<u8>> {
            line.split_whitespace().map(|word| u8::from_str_radix(word, 16).ok()).collect()
        };
        let lines = document.lines().filter_map(bytes).filter(|bytes| bytes.len() == 16);
        let examples: Vec<u8> = lines.skip(4).flatten().collect();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        say_goodbye(&Socket::from(theirs));
        let mut goodbye = [0; RECORD_BYTES];
        io::Read::read_exact(&mut &ours, &mut goodbye).unwrap();
        let only = flow::Incarnation::ONLY;
        let grant =
            FlowMessage { sender: only, receiver: only, body: flow::Body::Grant { until: 10 } }.encode();
        assert_eq!(examples, [&record(7, Ack::Finished)[..], &goodbye, &grant].concat());
    }

    #[test]
    fn answers_survive_any_cut() {
        let bytes = [record(7, Ack::Finished), record(8, Ack::Refused("no"))].concat();
        for cut in 0..bytes.len() {
            let mut acks = ear(7, Scope::Target);
            acks.expect(&AckWait::new(8, Scope::Target, Duration::ZERO));
            acks.feed(&bytes[..cut]).unwrap();
            assert!(acks.is_open() && acks.ack().is_none());
            acks.feed(&bytes[cut..]).unwrap();
            assert_eq!((acks.is_open(), acks.ack()), (false, Some(Err("no".into()))));
        }
    }

    #[test]
    fn a_goodbye_is_no_answer() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let [ours, theirs] = [ours, theirs].map(Socket::from);
        let mut acks = ear(5, Scope::Target);
        assert!(!peek_goodbye(&ours));
        send(theirs.as_fd(), &record(5, Ack::Refused("why")), SendFlags::empty()).unwrap();
        say_goodbye(&theirs);
        assert!(peek_goodbye(&ours) && peek_goodbye(&ours));
        drop(theirs);
        assert_eq!(acks.read_from(&ours), Ok(false));
        assert!(acks.has_left && !acks.is_open());
        assert_eq!(acks.ack(), Some(Err("why".into())));
    }

    /// Checks that a backlog that is gone does not keep the receiver's thread awake.
    #[test]
    fn the_doorbell_rings_only_while_there_is_a_backlog() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = Arc::new(Socket::from(ours));
        let sender = SocketAckSender::new(&socket, Some(Doorbell::new().unwrap()));
        let (mut sequence, mut taken) = (0, vec![0; 1 << 20]);
        let rings = || {
            let mut poll_set = crate::sys::doorbell::PollSet::default();
            poll_set.readable(sender.backlog_doorbell().0.unwrap().as_fd());
            poll_set.wait(Some(std::time::Instant::now())).unwrap()
        };
        for retries in [false, true] {
            while !sender.backlog_doorbell().1 {
                AckSender::send(&sender, sequence, Ack::Finished);
                sequence += 1;
            }
            assert!(rings());
            if retries {
                // The socket is still full: the thread waits for room in it.
                sender.retry();
                assert!(!rings() && sender.backlog_doorbell().1);
            }
            assert!(io::Read::read(&mut &theirs, &mut taken).unwrap() > 0);
            if retries {
                sender.retry()
            } else {
                AckSender::send(&sender, sequence, Ack::Finished)
            }
            assert!(!sender.backlog_doorbell().1);
            assert!(!rings(), "with {retries}");
        }
    }

    #[test]
    fn forged_answers_are_named() {
        let with = |at: usize, byte: u8| {
            let mut bytes = record(5, Ack::Refused("why"));
            bytes[at] = byte;
            bytes
        };
        for (forged, violation) in [
            (record(6, Ack::Finished), "acknowledged packet 6, which was not sent"),
            (record(5, Ack::Accepted), "acknowledged packet 5 before it was finished"),
            ([record(5, Ack::Finished), record(4, Ack::Finished)].concat(), "packet 4 without a request"),
            (with(8, 5), "an invalid acknowledgement"),
            (with(9, 1), "an invalid acknowledgement"),
            (with(15, 1), "an invalid acknowledgement"),
            (with(11, 2), "announced a reason of 515 bytes"),
            (with(8, FINISHED), "a reason of 3 bytes for an acknowledgement of kind 2"),
        ] {
            let error = ear(5, Scope::Target).feed(&forged).unwrap_err();
            assert!(error.contains(violation), "{error}");
        }
        let error = AckReader::default().feed(&record(0, Ack::Finished)).unwrap_err();
        assert!(error.contains("not sent"), "{error}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut acks = ear(u64::MAX, Scope::Target);
            let _ = acks.feed(&bytes);
            prop_assert!(acks.bytes.len() <= bytes.len());
        }
    }
}
