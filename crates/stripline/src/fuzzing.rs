//! Doors for the fuzz targets to what is private: compiled under `cfg(fuzzing)` only, and no part of the
//! interface. Each takes what a peer may have sent and answers with what the target can check.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::Payload;
use crate::component::control::{Channel, Order, Report};
use crate::component::{ComponentSpec, Properties, PropertySpec, Value};
use crate::link::flow;
use crate::link::{
    ConnectionReport, ConnectionStats, Delivery, Incoming, LinkOptions, Mailbox, Overflow, ReportWithTimes,
    Scope, Terms, WaitStrategy,
};
use crate::node::rendezvous::{Guest, Host, Household, Offer};
use crate::node::{MessageSubscriber, Subscriber};
use crate::payload::TypeName;
use crate::sys::fork::Descriptor;
use crate::sys::socket::{Listener, Socket};
use crate::transport::handshake::{self, Answer, Collector, Hello, Welcome};
use crate::transport::stream::{Ear, StreamInlet};
use crate::transport::{Awaited, Connect, Endpoint, Inlet, Next, Stop, pump, random};
use crate::{Error, Result, Sample};

/// The keys of every endpoint here.
pub const KEYS: [u64; 2] = [1, 2];

fn endpoint() -> Endpoint {
    Endpoint { transport: "uds".into(), address: "fuzz".into(), keys: KEYS }
}

fn connect(socket: UnixStream, connection: &str, overflow: Overflow) -> Result<Box<dyn Inlet>> {
    let options = LinkOptions { overflow, depth: 4, ..LinkOptions::default() };
    let request = Connect { connection: connection.into(), payload: TypeName::of::<u8>(), options };
    let inlet = StreamInlet::connect(Socket::from(socket), &endpoint(), &request)?;
    pump::for_policy(Box::new(inlet), &request)
}

/// The answer that lets a receiver in.
pub fn welcome(ring: u32, resume_from: Option<u64>) -> Vec<u8> {
    handshake::encode(&Answer::Welcome(Welcome::new(KEYS[1], resume_from, ring))).unwrap_or_default()
}

/// What a process says of its ports.
///
/// # Errors
/// What is wrong with it.
pub fn process(bytes: &[u8]) -> Result<crate::introspect::Process, String> {
    crate::introspect::parse(bytes)
}

/// What is heard of a packet that is waited for, from bytes as they come: nothing, that it is done, or why not.
///
/// # Errors
/// What is wrong with them.
pub fn answer(sequence: u64, parts: &[&[u8]]) -> Result<Option<Result<(), String>>, String> {
    let mut ear = Ear::default();
    ear.expect(&Awaited::new(sequence, Scope::Target, Duration::ZERO));
    parts.iter().try_for_each(|part| ear.hear(part))?;
    Ok(ear.answer())
}

/// What a sender that has sent so many packets makes of what its receiver says of flow control, from bytes as they come:
/// how many more it may send, `most` at most, and the bytes of each message said again.
///
/// # Errors
/// What is wrong with them.
pub fn flow(
    credits: bool,
    lossy: bool,
    sent: u64,
    most: u64,
    bytes: &[u8],
) -> Result<(u64, Vec<u8>), String> {
    let kind = if credits { flow::Flow::Credit } else { flow::Flow::StopResume };
    let channel = if lossy { flow::Channel::Lossy } else { flow::Channel::Ordered };
    let (marks, own) = (flow::Watermarks::of_depth(8), flow::Incarnation::ONLY);
    let mut sender = flow::Sender::new(kind, marks, channel, own, Some(own)).ok_or("no flow control")?;
    (0..sent).for_each(|_| sender.send());
    let mut receiver = flow::Receiver::new(kind, marks, own, Some(own)).ok_or("no flow control")?;
    let mut again = Vec::new();
    for bytes in bytes.as_chunks::<{ flow::MESSAGE_BYTES }>().0 {
        let message = flow::Message::parse(bytes)?;
        again.extend(message.encode());
        // The same bytes may come to either side.
        match receiver.hear(&message) {
            Ok(_) => {}
            Err(_) => sender.hear(&message)?,
        }
    }
    let more = (0..most).take_while(|_| {
        let may = sender.may_send();
        sender.send();
        may
    });
    Ok((more.count() as u64, again))
}

/// The payload of a request as a server of calls takes it.
///
/// # Errors
/// What is wrong with it.
pub fn request(bytes: &[u8]) -> Result<&[u8], String> {
    crate::call::parsing::request(bytes)
}

/// Whether a client with so many calls outstanding takes it for a reply to one of them.
///
/// # Errors
/// What is wrong with it.
pub fn reply(bytes: &[u8], outstanding: u32) -> Result<bool, String> {
    crate::call::parsing::reply(bytes, outstanding)
}

/// The receiving side of a byte stream, from its handshake on. The other end of the socket must have answered
/// already, or hung up.
pub struct Frames(Box<dyn Inlet>);

/// What [`Frames`] has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A frame.
    Frame(Vec<u8>),
    /// Nothing yet.
    Empty,
    /// Nothing will come.
    Gone,
}

impl Frames {
    /// Shakes hands.
    ///
    /// # Errors
    /// As any transport's.
    pub fn connect(socket: UnixStream) -> Result<Self> {
        connect(socket, "a -> b", Overflow::Block).map(Self)
    }

    /// The next frame, already released.
    ///
    /// # Errors
    /// As any transport's.
    pub fn take(&mut self) -> Result<Seen> {
        let seen = match self.0.try_next()? {
            Next::Frame(frame) => Seen::Frame(frame.to_vec()),
            Next::Empty => return Ok(Seen::Empty),
            Next::Gone => return Ok(Seen::Gone),
        };
        self.0.release();
        Ok(seen)
    }
}

/// What connects senders to a port.
pub struct Switchboard {
    mailbox: Arc<Mailbox>,
    stats: Arc<ConnectionStats>,
}

impl Switchboard {
    /// A port that nobody sends to yet; all its connections count together.
    ///
    /// # Errors
    /// When descriptors are lacking.
    pub fn subscriber<T: Sample>(overflow: Overflow) -> Result<(Self, Subscriber<T>)> {
        let (switchboard, incoming) = Self::incoming(overflow, Some(size_of::<T>()))?;
        Ok((switchboard, Subscriber::new(incoming)?))
    }

    /// The same for messages.
    ///
    /// # Errors
    /// When descriptors are lacking.
    pub fn messages<M: DeserializeOwned>() -> Result<(Self, MessageSubscriber<M>)> {
        let (switchboard, incoming) = Self::incoming(Overflow::Block, None)?;
        Ok((switchboard, MessageSubscriber::new(Subscriber::new(incoming)?)))
    }

    fn incoming(overflow: Overflow, sample_bytes: Option<usize>) -> Result<(Self, Incoming)> {
        let (mailbox, stats) = (Arc::new(Mailbox::new()?), Arc::new(ConnectionStats::default()));
        let its = Arc::clone(&stats);
        let terms_for = Arc::new(move |_: &str| Terms {
            stats: Arc::clone(&its),
            overflow,
            wait: WaitStrategy::Adaptive,
            depth: 4,
            resequence: None,
        });
        let incoming =
            Incoming::new("in".into(), Arc::clone(&mailbox), terms_for, Stop::new()?, true, sample_bytes);
        Ok((Self { mailbox, stats }, incoming))
    }

    /// Connects a sender, whose end of the socket is returned: what is written there are frames.
    ///
    /// # Errors
    /// When descriptors or threads are lacking.
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
        self.mailbox.deliver(Delivery::Connected(connection.into(), inlet));
        Ok(ours)
    }

    /// What has been counted.
    pub fn counters(&self) -> ConnectionReport {
        self.stats.counters("all")
    }
}

/// Reads one handshake message, each piece after one that was not there yet; with what is left of the piece
/// in which it ended.
///
/// # Errors
/// What the other side did wrong.
pub fn collect<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> std::result::Result<Option<(Vec<u8>, &'a [u8])>, String> {
    /// A non-blocking reader whose end is "would block".
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                read => Ok(read),
            }
        }
    }

    let mut collector = Collector::default();
    for piece in pieces {
        let mut from = Trickle(piece);
        if let Some(body) = collector.read(&mut from)? {
            return Ok(Some((body, from.0)));
        }
    }
    Ok(None)
}

/// The length that a handshake's prefix announces.
///
/// # Errors
/// What the other side did wrong.
pub fn body_length(prefix: &[u8; handshake::PREFIX_BYTES]) -> std::result::Result<usize, String> {
    handshake::body_length(prefix)
}

/// A handshake's body as both messages, each said again; whether the sending side would let it in.
pub fn shake(body: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>, bool) {
    let hello = handshake::decode::<Hello>(body).ok();
    let answer = handshake::decode::<Answer>(body).ok();
    let passes = hello.as_ref().is_some_and(|h| h.check(KEYS[0], &TypeName::of::<u8>()).is_ok());
    // Its errors are texts for people.
    let _ = handshake::welcomed(body, &endpoint(), "peer").map_err(|error| error.to_string());
    let said = |message: Option<Result<Vec<u8>>>| message.and_then(Result::ok);
    (said(hello.map(|h| handshake::encode(&h))), said(answer.map(|a| handshake::encode(&a))), passes)
}

/// What a component process hears from these pieces: each word as JSON; and whether all was sound.
pub fn orders<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let (orders, sound) = listen::<Report, Order>(pieces);
    (orders.iter().map(json).collect(), sound)
}

/// What the launcher hears from these pieces, likewise; it adds up what the components measured.
pub fn reports<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let (words, sound) = listen::<Order, Report>(pieces);
    let mut sum = ReportWithTimes::default();
    for word in &words {
        if let Report::Ended { reports, .. } = word {
            reports.iter().for_each(|report| sum.add(report));
        }
    }
    let _ = (sum.latency.percentiles(), sum.queued.percentiles(), sum.service.percentiles());
    (words.iter().map(json).collect(), sound)
}

/// What the bytes are as a request to a launcher, or as one of its answers, whichever `kind` says: bytes that mean the
/// same, and what people are shown of it.
pub fn control_words(kind: u8, bytes: &[u8]) -> Option<(Vec<u8>, String)> {
    use crate::waveform::control as c;
    fn word<T: Payload + std::fmt::Debug>(bytes: &[u8]) -> Option<(Vec<u8>, String)> {
        let word = T::decode(bytes).ok()?;
        let mut scratch = Vec::new();
        let again = word.encode(&mut scratch).ok()?.to_vec();
        Some((again, format!("{word:?}")))
    }
    match kind % 10 {
        0 => word::<c::GetRequest>(bytes),
        1 => word::<c::SetRequest>(bytes),
        2 => word::<c::TestRequest>(bytes),
        3 => word::<c::StopRequest>(bytes),
        4 => word::<c::RunningWaveform>(bytes),
        5 => word::<Vec<c::PropertyReading>>(bytes),
        6 => word::<Vec<c::ComponentChange>>(bytes),
        7 => word::<Vec<c::TestRun>>(bytes),
        8 => word::<c::Stopped>(bytes),
        _ => word::<c::Fault>(bytes),
    }
}

/// What `stripline set` makes of one of its words, as it would be written; and what a component with a property of each
/// kind makes of the value, if it can be had at all.
pub fn setting(text: &str) -> Option<(String, Vec<Result<Value, String>>)> {
    let setting: crate::waveform::control::Setting = text.parse().ok()?;
    let kinds = [
        PropertySpec::float("p", 0.5, "").range(0.0, 1.0),
        PropertySpec::integer("p", 0, -5, 5, ""),
        PropertySpec::boolean("p", true, ""),
        PropertySpec::choice("p", &["yes", "no"], "no", ""),
        PropertySpec::text("p", "", ""),
        PropertySpec::path("p", ""),
    ];
    let spec = |kind: PropertySpec| ComponentSpec::new("x", "").property(kind.changeable());
    let taken = kinds.into_iter().map(|kind| {
        let value = kind.parse(&setting.value)?;
        let spec = spec(kind);
        let changes = [("p".to_string(), value)].into();
        let all = Properties::defaults(&spec).and_then(|all| all.changed(&spec, &changes));
        all.map_err(|errors| errors.join("; "))
            .map(|all| all.value("p").cloned().unwrap_or(Value::Boolean(false)))
    });
    let taken = taken.collect();
    Some((format!("{}.{}={}", setting.component, setting.property, setting.value), taken))
}

fn listen<'a, S: Serialize, R: DeserializeOwned>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<R>, bool) {
    let mut words = VecDeque::new();
    let Ok((mut ours, theirs)) = UnixStream::pair() else { return (Vec::new(), true) };
    let mut channel = Channel::<S, R>::new(theirs);
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

/// A host of a domain, without its thread, and what it has heard of.
pub struct Domain {
    host: Host,
    news: News,
}

/// What a [`Domain`] has heard.
#[derive(Default)]
struct News {
    learned: Vec<String>,
    forgotten: usize,
}

impl Household for News {
    fn offers(&mut self) -> (Vec<Offer>, bool) {
        (Vec::new(), false)
    }

    fn learn(&mut self, offer: Offer) {
        self.learned.push(json(&offer));
    }

    fn forget(&mut self, _: &str) {
        self.forgotten += 1;
    }
}

impl Domain {
    /// One without guests.
    ///
    /// # Errors
    /// When descriptors are lacking.
    pub fn new() -> Result<Self> {
        let listener = Listener::unix(&format!("stripline-fuzz-{:016x}", random()?), None)?;
        Ok(Self { host: Host { listener, guests: Vec::new(), own: Vec::new() }, news: News::default() })
    }

    /// Lets a guest in.
    pub fn welcome(&mut self, guest: UnixStream) {
        self.host.welcome(Guest::new(Descriptor::new(guest)));
    }

    /// Hears what the guests have said.
    pub fn hear(&mut self) {
        self.host.hear_all(&mut self.news);
    }

    /// Guests that are there, offers heard of (as JSON), and how many were taken back.
    pub fn state(&self) -> (usize, &[String], usize) {
        (self.host.guests.len(), &self.news.learned, self.news.forgotten)
    }
}
