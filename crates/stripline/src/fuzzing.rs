//! Access to private code for the fuzz targets, compiled only under `cfg(fuzzing)` and not part of
//! the interface. Each function takes bytes that a peer may have sent and returns values that the
//! target can check.

pub use crate::packet::header::{HEADER_BYTES, Header, Kind};

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::component::control::{ControlChannel, LauncherCommand, Report};
use crate::flow;
use crate::flow::AckWait;
use crate::flow::session::{
    DatagramArrival, DatagramHeader, GroupSender, MemberTerms, RecordReader, SessionAcks, SessionProbe,
    SessionReceiver, SessionRecord, Span,
};
use crate::link::policy;
use crate::link::{
    ConnectionOptions, ConnectionReport, ConnectionStats, FullReport, Incoming, PortEvent, PortEvents,
};
use crate::node::Subscriber;
use crate::node::rendezvous::{DiscoveryMessage, Offer, OfferSink, Offers, RendezvousHost, RendezvousPeer};
use crate::packet::content::PortType;
use crate::packet::payload::{Content, TypeName};
use crate::sys::fork::Descriptor;
use crate::sys::pending::{Admission, PendingPeers};
use crate::sys::socket::{Listener, Socket, connect_unix};
use crate::terms::{Flow, LinkOptions, Overflow, Scope, WaitStrategy, Watermarks};
use crate::transport::handshake::{self, FirstHello, Hello, HelloReply, Welcome};
use crate::transport::signalling::AckReader;
use crate::transport::stream::StreamInlet;
use crate::transport::{AnyInlet, ConnectRequest, Endpoint, Next, PortPosition, StopToken, random};
use crate::{Error, Result};

/// The keys of every endpoint in this module.
pub const KEYS: [u64; 2] = [1, 2];

fn endpoint() -> Endpoint {
    Endpoint { transport: "uds".into(), address: "fuzz".into(), keys: KEYS }
}

fn connect(socket: UnixStream, connection: &str, overflow: Overflow) -> Result<AnyInlet> {
    let options = LinkOptions { overflow, depth: 4, ..LinkOptions::default() };
    let request = ConnectRequest::new(connection.into(), TypeName::of::<u8>(), options);
    let (socket, endpoint) = (Socket::from(socket), endpoint());
    let hello = Hello::new(&endpoint, &request);
    let (welcome, _) = handshake::exchange_hello(&socket, &endpoint, &hello, &[], |_| Ok(()))?;
    let inlet = StreamInlet::connect(socket, None, &welcome, &endpoint, &request)?;
    policy::with_policy(AnyInlet::other(inlet), &request)
}

/// Returns the reply that accepts a receiver.
pub fn welcome(ring: u32, resume_from: Option<u64>) -> Vec<u8> {
    // The sample index is as hostile as the number.
    let resume_from = resume_from.map(|sequence| PortPosition { sequence, sample: Some(!sequence) });
    handshake::encode(&HelloReply::Welcome(Welcome::new(KEYS[1], resume_from, ring))).unwrap_or_default()
}

/// Parses a process's information about ports.
///
/// # Errors
/// A description of the problem with the bytes.
pub fn process(bytes: &[u8]) -> Result<crate::inspect::Process, String> {
    crate::inspect::parse(bytes)
}

/// Returns the state of a packet's acknowledgement, from bytes in the pieces in which they arrive:
/// pending, done, or the reason for a refusal.
///
/// # Errors
/// A description of the problem with the bytes.
pub fn answer(sequence: u64, parts: &[&[u8]]) -> Result<Option<Result<(), String>>, String> {
    let mut acks = AckReader::default();
    acks.expect(&AckWait::new(sequence, Scope::Target, Duration::ZERO));
    parts.iter().try_for_each(|part| acks.feed(part))?;
    Ok(acks.ack())
}

/// Passes a receiver's flow control, from bytes in the pieces in which they arrive, to a sender
/// that has sent a number of packets. Returns how many more packets it may send, limited to `most`,
/// and the bytes of each message encoded again.
///
/// # Errors
/// A description of the problem with the bytes.
pub fn flow(
    credits: bool,
    lossy: bool,
    sent: u64,
    most: u64,
    bytes: &[u8],
) -> Result<(u64, Vec<u8>), String> {
    let kind = if credits { Flow::Credit } else { Flow::StopResume };
    let channel = if lossy { flow::ChannelKind::Lossy } else { flow::ChannelKind::Ordered };
    let (marks, own) = (Watermarks::of_depth(8), flow::Incarnation::ONLY);
    let mut sender = flow::Sender::new(kind, marks, channel, own, Some(own)).ok_or("no flow control")?;
    (0..sent).for_each(|_| sender.send());
    let mut receiver = flow::Receiver::new(kind, marks, own, Some(own)).ok_or("no flow control")?;
    let mut again = Vec::new();
    for bytes in bytes.as_chunks::<{ flow::MESSAGE_BYTES }>().0 {
        let message = flow::FlowMessage::parse(bytes)?;
        again.extend(message.encode());
        // The same bytes may arrive at either side.
        match receiver.receive(&message) {
            Ok(_) => {}
            Err(_) => sender.receive(&message)?,
        }
    }
    let more = (0..most).take_while(|_| {
        let may = sender.may_send();
        sender.send();
        may
    });
    Ok((more.count() as u64, again))
}

/// Passes datagrams of a sender and bytes of the control socket to the receiving side of a session,
/// a millisecond apart. The number in each pair selects the kind: an even number is a datagram.
///
/// Returns the ranges of numbers that were delivered or given up, and the control records encoded
/// again.
///
/// # Errors
/// The sender's violation.
pub fn session<'a>(
    is_repaired: bool,
    events: impl Iterator<Item = (u8, &'a [u8])>,
) -> Result<(Vec<std::ops::Range<u64>>, Vec<u8>), String> {
    const DATA_MAX: usize = 256;
    let mut receiver = SessionReceiver::new(is_repaired, 1_000_000, 1 << 16);
    let mut reader = RecordReader::new(true, DATA_MAX);
    let (mut delivered, mut again) = (Vec::new(), Vec::new());
    for ((kind, bytes), now_ns) in events.zip((0..).step_by(1_000_000)) {
        let mut place = |receiver: &mut SessionReceiver, arrival, number, span, bytes: &[u8]| match arrival {
            DatagramArrival::Next => delivered.push(number..number + 1),
            DatagramArrival::Early => receiver.keep(number, span, bytes, now_ns),
            DatagramArrival::Old => {}
        };
        if kind & 1 == 0 {
            let Some((header, payload)) = bytes.split_first_chunk() else { continue };
            let Some(header) = DatagramHeader::parse(header) else {
                let probe = SessionProbe::parse(header);
                assert!(probe.is_none_or(|probe| probe.encode() == *header), "a probe changes");
                continue;
            };
            let arrival = receiver.arrive(header.number, header.records)?;
            place(&mut receiver, arrival, header.number, header.span, payload);
        } else {
            reader.feed(bytes);
            while let Some(record) = reader.next()? {
                record.encode_to(&mut again);
                match record {
                    SessionRecord::Data { number, span, bytes } => {
                        let arrival = receiver.arrive_record(number)?;
                        place(&mut receiver, arrival, number, span, &bytes);
                    }
                    SessionRecord::Sent { number } => receiver.announced(number, now_ns)?,
                    SessionRecord::Lost { number, count } => receiver.lose(number, count)?,
                    // This record exists only in a group, as the first one.
                    SessionRecord::Start { .. } => {}
                    SessionRecord::Ask { .. } => return Err("a receiver's record".into()),
                }
            }
        }
        let _ = receiver.due(now_ns, kind & 2 != 0);
        let mut next = receiver.next();
        while receiver.take().is_some() {
            delivered.push(next..receiver.next());
            next = receiver.next();
        }
    }
    Ok((delivered, again))
}

/// Passes bytes of members to the sending side of a group. The number in each pair selects the
/// member and the event. Returns the most bytes of copies in transit to one member, and the most
/// bytes of answers to one member.
///
/// # Errors
/// A member's violation.
pub fn group<'a>(events: impl Iterator<Item = (u8, &'a [u8])>) -> Result<[usize; 2], String> {
    let mut sender = GroupSender::new(1);
    let mut readers = [(); 4].map(|()| (RecordReader::new(false, 0), SessionAcks::default()));
    let (mut in_transit, mut answered) = (0, [0; 4]);
    for (kind, bytes) in events {
        let member = usize::from(kind & 3);
        let (id, (records, acks)) = (member as u64, &mut readers[member]);
        match kind >> 2 & 7 {
            0 => {
                let terms =
                    MemberTerms { buffer: 1 << 14, holds: kind & 32 != 0, is_repaired: kind & 96 != 0 };
                sender.join(id, terms, &Default::default());
            }
            1 => sender.leave(id),
            2 => {
                records.feed(bytes);
                while let Some(record) = records.next()? {
                    if let SessionRecord::Ask { number, count } = record {
                        let answers = sender.answer(id, number, count);
                        let mut encoded = Vec::new();
                        answers.iter().for_each(|record| record.encode_to(&mut encoded));
                        answered[member] += encoded.len();
                    }
                }
            }
            3 => {
                if let Some(number) = acks.feed(bytes) {
                    sender.acknowledge(id, number)?;
                }
            }
            _ if sender.has_room(bytes.len()) => {
                sender.sent(Span { begins: true, ends: true }, bytes);
                answered = [0; 4];
            }
            _ => {}
        }
        for id in 0..4 {
            in_transit = in_transit.max(sender.bytes_in_transit(id, None) as usize);
            let _ = (sender.announce(id), sender.rest(id), sender.is_time_to_look(), sender.is_held());
        }
    }
    Ok([in_transit, answered.into_iter().max().unwrap_or(0)])
}

/// Returns the payload of a request as a server of calls parses it.
///
/// # Errors
/// A description of the problem with the bytes.
pub fn request(bytes: &[u8]) -> Result<&[u8], String> {
    crate::call::fuzzing::request(bytes)
}

/// Returns whether a client with `outstanding` calls takes these bytes for a reply to one of them.
///
/// # Errors
/// A description of the problem with the bytes.
pub fn reply(bytes: &[u8], outstanding: u32) -> Result<bool, String> {
    crate::call::fuzzing::reply(bytes, outstanding)
}

/// The receiving side of a byte stream, starting with the handshake. The other end of the socket
/// must already have replied or hung up.
pub struct StreamFrames(AnyInlet);

/// The result of polling [`StreamFrames`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A frame.
    Frame(Vec<u8>),
    /// No frame yet.
    Empty,
    /// No frame follows.
    Gone,
}

impl StreamFrames {
    /// Exchanges the handshake.
    ///
    /// # Errors
    /// The errors of any transport.
    pub fn connect(socket: UnixStream) -> Result<Self> {
        connect(socket, "a -> b", Overflow::Block).map(Self)
    }

    /// Returns the next frame, already released.
    ///
    /// # Errors
    /// The errors of any transport.
    pub fn take(&mut self) -> Result<Seen> {
        let seen = match self.0.try_next()? {
            Next::Frame(frame) => Seen::Frame(frame.to_vec()),
            Next::Empty => return Ok(Seen::Empty),
            Next::Closed => return Ok(Seen::Gone),
        };
        self.0.release();
        Ok(seen)
    }
}

/// A connector of senders to a port.
pub struct Switchboard {
    mailbox: Arc<PortEvents>,
    stats: Arc<ConnectionStats>,
}

impl Switchboard {
    /// Creates a port without senders. All connections share one set of counters.
    ///
    /// # Errors
    /// A lack of descriptors.
    pub fn subscriber<C: Content>(overflow: Overflow) -> Result<(Self, Subscriber<C>)> {
        let found = C::port_type(None).map_err(|problem| Error::port("fuzz", problem))?;
        let PortType { sample_bytes, form, .. } = found;
        let (switchboard, incoming) = Self::incoming(overflow, sample_bytes)?;
        Ok((switchboard, Subscriber::of(incoming, form)))
    }

    fn incoming(overflow: Overflow, sample_bytes: Option<usize>) -> Result<(Self, Incoming)> {
        let (events, stats) = (Arc::new(PortEvents::new()?), Arc::new(ConnectionStats::default()));
        let port_stats = Arc::clone(&stats);
        let terms_for = Arc::new(move |_: &str| ConnectionOptions {
            stats: Arc::clone(&port_stats),
            overflow,
            wait: WaitStrategy::Adaptive,
            depth: 4,
            resequence: None,
        });
        let incoming =
            Incoming::new("in".into(), Arc::clone(&events), terms_for, StopToken::new()?, true, sample_bytes);
        Ok((Self { mailbox: events, stats }, incoming))
    }

    /// Connects a sender and returns the sender's end of the socket. Frames are written to this
    /// end.
    ///
    /// # Errors
    /// A lack of descriptors or threads.
    pub fn connect(
        &self,
        connection: &str,
        overflow: Overflow,
        resume_from: Option<u64>,
    ) -> Result<UnixStream> {
        let (mut ours, theirs) = UnixStream::pair().map_err(|e| Error::system("socketpair", e))?;
        let answer = welcome(LinkOptions::BUFFER_MIN, resume_from);
        ours.write_all(&answer).map_err(|e| Error::system("write", e))?;
        let inlet = connect(theirs, connection, overflow)?;
        self.mailbox.push(PortEvent::Connected(connection.into(), inlet));
        Ok(ours)
    }

    /// Returns the counters.
    pub fn counters(&self) -> ConnectionReport {
        self.stats.counters("all")
    }
}

/// Accepts one connection with a handshake message in these pieces. Returns the body of the
/// message, and the bytes behind it that were left unread.
///
/// # Errors
/// A description of the other side's violation.
pub fn collect<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> std::result::Result<Option<(Vec<u8>, Vec<u8>)>, String> {
    let failed = |error: Error| error.to_string();
    let name = format!("stripline-fuzz-{:016x}", random().map_err(failed)?);
    let listener = Listener::unix(&name, None).map_err(failed)?;
    let mut pending = PendingPeers::new(listener, handshake::message_length).map_err(failed)?;
    let peer = connect_unix(&name, None).map_err(failed)?;
    for piece in pieces {
        // The write fails once the peer has been rejected.
        let _ = (&*peer).write_all(piece);
        for admission in pending.poll().map_err(failed)? {
            match admission {
                Admission::Message { socket, mut message, .. } => {
                    let mut rest = Vec::new();
                    // The read ends with "would block".
                    let _ = (&socket).read_to_end(&mut rest);
                    return Ok(Some((message.split_off(handshake::PREFIX_BYTES), rest)));
                }
                Admission::Rejected { refusal, .. } => return Err(refusal.to_string()),
                Admission::Late { .. } => return Ok(None),
            }
        }
    }
    Ok(None)
}

/// Returns the length that a handshake's prefix announces.
///
/// # Errors
/// A description of the other side's violation.
pub fn body_length(prefix: &[u8; handshake::PREFIX_BYTES]) -> std::result::Result<usize, String> {
    handshake::body_length(prefix)
}

/// Parses a handshake's body as each of the two messages. Returns each message encoded again, and
/// whether the sending side would accept the body.
pub fn shake(body: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>, bool) {
    let hello = handshake::decode::<Hello>(body).ok();
    let answer = handshake::decode::<HelloReply>(body).ok();
    let passes = hello.as_ref().is_some_and(|h| h.check(KEYS[0], &TypeName::of::<u8>(), false).is_ok());
    // The errors are texts for display.
    let _ = handshake::welcomed(body, &endpoint(), "peer").map_err(|error| error.to_string());
    let said = |message: Option<Result<Vec<u8>>>| message.and_then(Result::ok);
    (said(hello.map(|h| handshake::encode(&h))), said(answer.map(|a| handshake::encode(&a))), passes)
}

/// Parses the first message of a part of a session, and returns it encoded again; `None`: it is a
/// different message.
pub fn part(message: &[u8]) -> Option<Vec<u8>> {
    match FirstHello::parse(message) {
        Ok(FirstHello::Part(part)) => handshake::encode_part(&part).ok(),
        Ok(FirstHello::Hello(_)) | Err(_) => None,
    }
}

/// Parses the launcher's messages in these chunks. Returns each message as JSON, and whether all
/// were valid.
pub fn orders<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let (orders, sound) = listen::<Report, LauncherCommand>(pieces);
    (orders.iter().map(json).collect(), sound)
}

/// Parses the components' messages in these chunks in the same way, and adds up the measurements.
pub fn reports<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let (words, sound) = listen::<LauncherCommand, Report>(pieces);
    let mut sum = FullReport::default();
    for word in &words {
        if let Report::Ended { reports, .. } = word {
            reports.iter().for_each(|report| sum.add(report));
        }
    }
    let _ = (sum.latency.percentiles(), sum.queued.percentiles(), sum.service.percentiles());
    (words.iter().map(json).collect(), sound)
}

fn listen<'a, S: Serialize, R: DeserializeOwned>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<R>, bool) {
    let mut words = VecDeque::new();
    let Ok((mut ours, theirs)) = UnixStream::pair() else { return (Vec::new(), true) };
    let mut channel = ControlChannel::<S, R>::new(theirs);
    for piece in pieces.filter(|piece| !piece.is_empty()) {
        if ours.write_all(piece).is_err() || channel.receive(&mut words).is_err() {
            return (words.into(), false);
        }
    }
    (words.into(), true)
}

fn json(word: &impl Serialize) -> String {
    serde_json::to_string(word).unwrap_or_default()
}

/// A host of a domain, without its thread, and the offers that it received.
#[derive(Default)]
pub struct Domain {
    host: RendezvousHost,
    news: News,
}

/// The offers that a [`Domain`] received.
#[derive(Default)]
struct News {
    learned: Vec<String>,
    forgotten: usize,
}

impl OfferSink for News {
    fn offers(&mut self) -> Offers {
        Offers::default()
    }

    fn changes(&mut self) -> Option<Vec<DiscoveryMessage>> {
        Some(Vec::new())
    }

    fn learn(&mut self, offer: Offer) {
        self.learned.push(json(&offer));
    }

    fn forget(&mut self, _: &str) {
        self.forgotten += 1;
    }
}

impl Domain {
    /// Adds a node that has joined.
    pub fn add(&mut self, peer: UnixStream) {
        self.host.add(RendezvousPeer::new(Descriptor::new(peer), None), &mut self.news);
    }

    /// Receives the pending messages of the nodes.
    pub fn receive(&mut self) {
        for token in self.host.peers().collect::<Vec<_>>() {
            self.host.receive(token, &mut self.news);
        }
    }

    /// Returns the number of nodes, the offers received (as JSON), and the number of withdrawn
    /// offers.
    pub fn state(&self) -> (usize, &[String], usize) {
        (self.host.peers().count(), &self.news.learned, self.news.forgotten)
    }
}
