//! The handshake: the first messages on every connection, before any frame.
//!
//! ```text
//! offset bytes
//! 0      4     "SLNK"
//! 4      2     version, little-endian: 5
//! 6      2     kind, little-endian: 0, or 1 for a part of a session
//! 8      4     length of the body, little-endian, at most 8192
//! 12     ...   body, JSON: Hello or PartHello from the receiving side, then HelloReply from the
//!              sending side
//! ```

use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::flow;
use crate::inspect::Reader;
use crate::packet::payload::TypeName;
use crate::sys::clock;
use crate::sys::membarrier;
use crate::sys::memory::PAGE;
use crate::sys::refusal::PeerRefusal;
use crate::sys::socket::{Socket, receive_with_fds, send_with_fds};
use crate::terms::{Flow, Overflow, Watermarks};

use super::build_rule::ReceiverBuild;
use super::{BindRequest, ConnectRequest, Endpoint, PortPosition};

pub(crate) const VERSION: u16 = 5;
pub(crate) const PREFIX_BYTES: usize = 12;
/// Room for a connection's name, and for two layouts in a refusal.
pub(crate) const BODY_MAX: usize = 8192;
/// The longest reply of a server of calls.
const REPLY_MAX: usize = 64 * 1024;
/// The longest wait of a connecting receiver for the sender's reply.
const REPLY_TIME: Duration = Duration::from_secs(5);
const MAGIC: &[u8; 4] = b"SLNK";

/// The first message, from the receiving side.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hello {
    pub key: u64,
    /// The connection's name; at most [`Hello::CONNECTION_MAX`] bytes.
    pub connection: String,
    pub payload: TypeName,
    pub overflow: Overflow,
    pub depth: u32,
    /// Packets at which the sender stops and at which it resumes; `None`: the watermarks of the
    /// depth.
    #[serde(default)]
    pub watermarks: Option<Watermarks>,
    /// The kind of flow control.
    #[serde(default)]
    pub flow: Flow,
    /// Whether the receiver runs a barrier on all processors before it sleeps.
    #[serde(default)]
    pub membarrier: bool,
    /// Whether the receiver continues from another path of the port, after a move.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moves: bool,
    /// The receiver's build, for a type without a layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<ReceiverBuild>,
    /// On a carrier: the address of the receiver's source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The token of the session, with sockets that were joined before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// The identity of the receiver's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<u64>,
    /// The additional part from a client of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallHello>,
}

impl Hello {
    pub(crate) fn new(endpoint: &Endpoint, request: &ConnectRequest) -> Self {
        Self {
            key: endpoint.keys[0],
            connection: request.connection.clone(),
            payload: request.payload.clone(),
            overflow: request.options.overflow,
            depth: request.options.depth,
            watermarks: Some(request.options.watermarks()),
            flow: request.options.flow,
            membarrier: membarrier::is_used_with(request.options.wait),
            moves: request.moves,
            build: ReceiverBuild::of_port(&request.payload, request.options.any_build),
            path: None,
            session: None,
            clock: clock::identity(),
            call: None,
        }
    }

    pub(crate) const CONNECTION_MAX: usize = 512;

    /// Returns the packets at which the sender stops and at which it resumes.
    pub(crate) fn checked_watermarks(&self) -> Watermarks {
        self.watermarks.unwrap_or(Watermarks::of_depth(self.depth))
    }

    /// Returns the constant part of the receiver's inspection view.
    pub(super) fn reader(&self) -> Reader {
        Reader::new(&self.connection, self.overflow, self.depth, &self.checked_watermarks())
    }

    /// Returns the flow control for this receiver on a byte stream, if the link keeps it.
    pub(crate) fn flow_sender(&self) -> Option<flow::Sender> {
        let (own, ordered) = (flow::Incarnation::ONLY, flow::ChannelKind::Ordered);
        if self.overflow != Overflow::Block {
            return None;
        }
        flow::Sender::new(self.flow, self.checked_watermarks(), ordered, own, Some(own))
    }

    /// Checks the hello for a port of this type and key. `any_build`: whether a type without a
    /// layout may go to a program that is built differently. The error is a text for the other
    /// side.
    pub(crate) fn check(&self, key: u64, payload: &TypeName, any_build: bool) -> Result<(), PeerRefusal> {
        if self.key != key {
            return Err(PeerRefusal::violation("the key is wrong: the endpoint belongs to another port"));
        }
        if !self.payload.fits(payload) {
            let (sent, taken) = (payload.text_for_refusals(), self.payload.text_for_refusals());
            let schemas = payload.schema().zip(self.payload.schema());
            let place = schemas.and_then(|(sent, taken)| sent.difference(&taken));
            let place = place.map_or(String::new(), |place| format!(": {place}"));
            return Err(format!("the sending port has type {sent}, not {taken}{place}").into());
        }
        ReceiverBuild::check(self.build, payload, any_build)?;
        if self.connection.len() > Self::CONNECTION_MAX {
            return Err(PeerRefusal::violation("the connection's name is too long"));
        }
        if self.depth == 0 || self.depth > crate::terms::LinkOptions::DEPTH_MAX {
            return Err(PeerRefusal::violation(format!("depth {} is out of range", self.depth)));
        }
        let high = self.checked_watermarks().high();
        if high > self.depth {
            let above = format!("a high watermark of {high} is above the depth, {}", self.depth);
            return Err(PeerRefusal::Violation(above));
        }
        Ok(())
    }
}

/// The additional part of a hello from a client of calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallHello {
    /// The bytes of the client's buffer, which bounds the client's frames; on `shm`, of the
    /// client's ring.
    pub buffer: u32,
    /// For a ring: the bytes of a page of the ring's memory.
    pub page: u32,
    /// Whether the client runs a barrier on all processors before it sleeps for lack of room.
    pub membarrier: bool,
    /// The most calls that the client will have outstanding.
    pub outstanding: u32,
}

impl CallHello {
    /// Returns the part of a client with a ring.
    pub(super) fn new(bind: &BindRequest) -> Self {
        Self {
            buffer: bind.options.buffer,
            page: PAGE as u32,
            membarrier: membarrier::is_used_with(bind.options.wait),
            outstanding: bind.options.watermarks.high(),
        }
    }
}

/// The reply of the sending side.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HelloReply {
    Welcome(Welcome),
    Refused(String),
    /// The hello came too late, or the path was not found in time, for example on an overloaded
    /// machine. The receiver may try again.
    Late(String),
    /// A part of a session is kept for the hello that follows. The reply has the endpoint's second
    /// key.
    Joined(u64),
}

/// The first message on a further connection of a receiver. The connection becomes a socket of the
/// receiver's session, because no descriptors travel between hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartHello {
    /// The endpoint's first key.
    pub key: u64,
    /// The session's token.
    pub token: u64,
    pub part: SessionPart,
}

/// A socket of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SessionPart {
    Control,
    Acks,
}

/// A first message.
#[derive(Debug)]
pub(crate) enum FirstHello {
    Hello(Box<Hello>),
    Part(PartHello),
}

impl FirstHello {
    /// The kind of a [`PartHello`], in the prefix.
    const PART: u16 = 1;

    /// Decodes a whole message.
    ///
    /// # Errors
    /// A description of the other side's violation.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        match bytes.get(6..8) {
            Some([0, 0]) => message(bytes).map(|hello| Self::Hello(Box::new(hello))),
            Some(kind) if *kind == Self::PART.to_le_bytes() => message(bytes).map(Self::Part),
            _ => Err("sent a first message of an unknown kind".into()),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub key: u64,
    /// The sequence number after the last packet that this connection's previous receiver had
    /// taken, as far as the sender can determine it. (A ring has this number in the cursor page.)
    pub resume_from: Option<u64>,
    /// The sample index of the packet `resume_from`, if the sender can determine it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_sample: Option<u64>,
    /// The bytes of the sending port's buffer, which bounds the port's frames; on `shm`, of the
    /// port's ring.
    pub buffer: u32,
    /// Whether the sender runs a barrier on all processors before it sleeps.
    #[serde(default)]
    pub membarrier: bool,
    /// For a ring: the bytes of a page of the ring's memory, more than usual if it is made of huge
    /// pages.
    #[serde(default = "ordinary_page")]
    pub page: u32,
    /// For a ring: whether both sides lock the ring into memory.
    #[serde(default)]
    pub locked: bool,
    /// For a byte stream: whether the sender reads acknowledgements of packets.
    #[serde(default)]
    pub wants_acks: bool,
    /// From a server of calls on a carrier: the address of the server's source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The identity of the sender's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<u64>,
    /// The additional part from a server of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallWelcome>,
}

impl Welcome {
    pub(crate) fn new(key: u64, resume_from: Option<PortPosition>, buffer: u32) -> Self {
        Self {
            key,
            resume_from: resume_from.map(|position| position.sequence),
            resume_sample: resume_from.and_then(|position| position.sample),
            buffer,
            page: ordinary_page(),
            locked: false,
            membarrier: false,
            wants_acks: false,
            path: None,
            clock: clock::identity(),
            call: None,
        }
    }

    /// Returns the position at which a predecessor of the receiver has stopped, if there was one.
    pub(super) fn resume_position(&self) -> Option<PortPosition> {
        Some(PortPosition { sequence: self.resume_from?, sample: self.resume_sample })
    }
}

/// The additional part of a welcome from a server of calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallWelcome {
    /// Whether the server runs a barrier on all processors before it sleeps for lack of requests.
    pub membarrier: bool,
    /// The server's information for clients.
    pub server: serde_json::Value,
}

fn ordinary_page() -> u32 {
    PAGE as u32
}

/// Returns whether a peer's stamps come from another clock. If a clock has no identity, a peer on
/// another host counts as having another clock.
pub(super) fn is_other_clock(peer_clock: Option<u64>, socket: &Socket) -> bool {
    match (clock::identity(), peer_clock) {
        (Some(own), Some(peer_clock)) => own != peer_clock,
        _ => socket.addresses().is_some_and(|[_, peer]| !peer.ip().is_loopback()),
    }
}

/// Encodes one message.
pub(crate) fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    encode_within(message, BODY_MAX)
}

/// Encodes a reply. The reply of a server of calls lists the server's operations, so the limit is
/// larger.
pub(super) fn encode_reply(answer: &HelloReply) -> Result<Vec<u8>> {
    encode_within(answer, REPLY_MAX)
}

fn encode_within(message: &impl Serialize, max: usize) -> Result<Vec<u8>> {
    let body = serde_json::to_vec(message).map_err(|e| Error::InvalidArgument(format!("handshake: {e}")))?;
    if body.len() > max {
        return Err(Error::InvalidArgument("handshake: a name is too long".into()));
    }
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// Encodes the first message of a part.
pub(crate) fn encode_part(part: &PartHello) -> Result<Vec<u8>> {
    let mut bytes = encode(part)?;
    bytes[6..8].copy_from_slice(&FirstHello::PART.to_le_bytes());
    Ok(bytes)
}

/// Returns the length of the body that follows a prefix.
///
/// # Errors
/// A description of the other side's violation.
pub(crate) fn body_length(prefix: &[u8; PREFIX_BYTES]) -> Result<usize, String> {
    body_length_within(prefix, BODY_MAX)
}

fn body_length_within(prefix: &[u8; PREFIX_BYTES], max: usize) -> Result<usize, String> {
    let [m0, m1, m2, m3, v0, v1, _, _, l0, l1, l2, l3] = *prefix;
    if [m0, m1, m2, m3] != *MAGIC {
        return Err("does not use this protocol".into());
    }
    let version = u16::from_le_bytes([v0, v1]);
    if version != VERSION {
        return Err(format!("uses version {version} of the protocol, not {VERSION}"));
    }
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > max {
        return Err(format!("announced a handshake of {length} bytes (at most {max} are allowed)"));
    }
    Ok(length)
}

/// Returns the length of the message that begins with these bytes, once the prefix has been read.
///
/// # Errors
/// A description of the other side's violation.
pub(crate) fn message_length(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(prefix) = bytes.first_chunk() else { return Ok(None) };
    Ok(Some(PREFIX_BYTES + body_length(prefix)?))
}

/// Decodes a whole message.
///
/// # Errors
/// A description of the other side's violation.
pub(crate) fn message<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    decode(bytes.get(PREFIX_BYTES..).unwrap_or_default())
}

/// Decodes a body.
///
/// # Errors
/// A description of the other side's violation.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|e| format!("sent a handshake that does not parse: {e}"))
}

/// Performs the receiving side's part on a fresh connection: sends the hello with its descriptors,
/// and receives the reply with the sender's descriptors. In between, it runs `meanwhile`, for which
/// the sender waits. Blocks for [`REPLY_TIME`] at most. Afterwards the socket is blocking.
///
/// # Errors
/// A refusal, a violation of the protocol, or a sender that does not hold the endpoint's second
/// key.
pub(crate) fn exchange_hello(
    mut socket: &Socket,
    endpoint: &Endpoint,
    hello: &Hello,
    fds: &[BorrowedFd<'_>],
    meanwhile: impl FnOnce(&Socket) -> io::Result<()>,
) -> Result<(Welcome, Vec<OwnedFd>)> {
    let peer = &hello.connection;
    let broke = |e: io::Error| Error::system(format!("{peer}: the handshake with {endpoint}"), e);
    let misbehaved = |violation: String| Error::misbehaved(peer, violation);
    let bytes = encode(hello)?;
    let limit = |socket: &Socket| socket.set_nonblocking(false).and(socket.set_timeout(REPLY_TIME));
    limit(socket).map_err(broke)?;
    let said = match socket {
        Socket::Unix(stream) if !fds.is_empty() => send_with_fds(stream, &bytes, fds),
        _ => socket.write_all(&bytes),
    };
    // A receiver may be refused before it has sent anything: then the reply has already arrived.
    if let Some(error) = said.err().filter(|e| e.kind() != io::ErrorKind::BrokenPipe) {
        return Err(broke(error));
    }
    crate::fail_point::fail_point!("connect-hello");
    meanwhile(socket).map_err(broke)?;
    let until = Instant::now() + REPLY_TIME;
    // Read the prefix first, and never a byte more than the reply: frames follow. Descriptors come
    // with the first byte.
    let mut prefix = [0; PREFIX_BYTES];
    let (read, fds) = match socket {
        Socket::Unix(stream) => {
            receive_with_fds(stream, &mut prefix).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => misbehaved(format!("sent {error}")),
                _ => broke(error),
            })?
        }
        Socket::Tcp(_) => (0, Vec::new()),
    };
    // A reply is sent as a whole, even if the sender is killed right afterwards.
    let cut = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => misbehaved("ended in the middle of its reply".into()),
        _ => broke(e),
    };
    read_until(until, socket, &mut prefix[read..]).map_err(|e| if read > 0 { cut(e) } else { broke(e) })?;
    let max = if hello.call.is_some() { REPLY_MAX } else { BODY_MAX };
    let mut body = vec![0; body_length_within(&prefix, max).map_err(misbehaved)?];
    read_until(until, socket, &mut body).map_err(cut)?;
    Ok((welcomed(&body, endpoint, peer)?, fds))
}

/// Joins a fresh connection to a session, before the hello. Blocks for [`REPLY_TIME`] at most.
///
/// # Errors
/// See [`exchange_hello`].
pub(crate) fn join_part(
    mut socket: &Socket,
    endpoint: &Endpoint,
    peer: &str,
    part: &PartHello,
) -> Result<()> {
    let broke = |e: io::Error| Error::system(format!("{peer}: the handshake with {endpoint}"), e);
    let misbehaved = |violation: String| Error::misbehaved(peer, violation);
    socket.set_nonblocking(false).and(socket.set_timeout(REPLY_TIME)).map_err(broke)?;
    socket.write_all(&encode_part(part)?).map_err(broke)?;
    let until = Instant::now() + REPLY_TIME;
    let mut prefix = [0; PREFIX_BYTES];
    read_until(until, socket, &mut prefix).map_err(broke)?;
    let mut body = vec![0; body_length(&prefix).map_err(misbehaved)?];
    read_until(until, socket, &mut body).map_err(broke)?;
    match decode(&body).map_err(misbehaved)? {
        HelloReply::Joined(key) if key == endpoint.keys[1] => Ok(()),
        HelloReply::Joined(_) => Err(Error::misbehaved(peer, "does not hold the endpoint's key")),
        // A part that is refused or late is handled like a hello.
        _ => welcomed(&body, endpoint, peer).map(drop),
    }
}

/// Fills a part of the reply. The limit holds for all bytes of the reply, however slowly they
/// arrive. Bytes that have arrived are read even after the limit: this process may have been
/// stopped. A read after this one waits for [`REPLY_TIME`].
fn read_until(until: Instant, mut socket: &Socket, mut rest: &mut [u8]) -> io::Result<()> {
    while !rest.is_empty() {
        let remaining = until.saturating_duration_since(Instant::now());
        let is_over = remaining.is_zero();
        if is_over { socket.set_nonblocking(true) } else { socket.set_timeout(remaining) }?;
        match socket.read(rest) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => rest = &mut rest[bytes..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && is_over => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    socket.set_nonblocking(false).and(socket.set_timeout(REPLY_TIME))
}

/// The sender's reason for calling a hello or a path late.
#[derive(Debug)]
struct Late(String);

impl std::fmt::Display for Late {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Late {}

/// Returns the error of a handshake to be tried again, like any failure of the system.
pub(crate) fn late(reason: String, endpoint: &Endpoint, peer: &str) -> Error {
    let late = io::Error::new(io::ErrorKind::TimedOut, Late(reason));
    Error::system(format!("{peer}: the handshake with {endpoint}"), late)
}

/// Returns whether the sender found the hello or the path late. Either this process or the machine
/// was overloaded, or the path does not exist.
pub(crate) fn is_late(error: &Error) -> bool {
    matches!(error, Error::System { source, .. } if source.get_ref().is_some_and(|e| e.is::<Late>()))
}

/// Returns the welcome in the reply.
pub(crate) fn welcomed(body: &[u8], endpoint: &Endpoint, peer: &str) -> Result<Welcome> {
    match decode(body).map_err(|violation| Error::misbehaved(peer, violation))? {
        HelloReply::Refused(reason) => Err(Error::Refused { peer: peer.into(), reason }),
        HelloReply::Late(reason) => Err(late(reason, endpoint, peer)),
        HelloReply::Joined(_) => Err(Error::misbehaved(peer, "answered a hello as a part of a session")),
        HelloReply::Welcome(welcome) if welcome.key == endpoint.keys[1] => Ok(welcome),
        HelloReply::Welcome(_) => Err(Error::misbehaved(peer, "does not hold the endpoint's key")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks that the examples of `docs/wire.md` have every key, and decode to the same values.
    #[test]
    fn docs_match_the_code() {
        fn again<T: Serialize + DeserializeOwned>(example: &serde_json::Value) -> serde_json::Value {
            serde_json::to_value(decode::<T>(example.to_string().as_bytes()).unwrap()).unwrap()
        }
        let document = include_str!("../../../../docs/wire.md");
        assert!(document.contains(&format!(": version: {VERSION}.")));
        let examples = &document[document.find("{\"key\": 1").unwrap()..];
        let mut examples = serde_json::Deserializer::from_str(examples).into_iter().map(Result::unwrap);
        let mut next = || examples.next().unwrap();
        let [hello, welcome, refused]: [serde_json::Value; 3] = [next(), next(), next()];
        assert_eq!(again::<Hello>(&hello), hello);
        assert_eq!([again::<HelloReply>(&welcome), again::<HelloReply>(&refused)], [welcome, refused]);
        let line = |part: &str| {
            let line = document.lines().find(|line| line.contains(part)).unwrap();
            serde_json::from_str::<serde_json::Value>(line.trim()).unwrap()
        };
        let [part, joined] = ["\"token\":", "{\"joined\":"].map(line);
        assert_eq!((again::<PartHello>(&part), again::<HelloReply>(&joined)), (part, joined));
    }

    #[test]
    fn a_reply_that_is_there_is_read_after_its_time() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (ours, past) = (Socket::from(ours), Instant::now());
        theirs.write_all(b"whole, part").unwrap();
        let mut whole = [0; 7];
        read_until(past, &ours, &mut whole).unwrap();
        assert_eq!(whole, *b"whole, ");
        let error = read_until(past, &ours, &mut [0; 5]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_build_is_any_or_sixteen_digits() {
        let hello = |build: &str| {
            let rest =
                "\"connection\": \"a -> b\", \"payload\": \"det\", \"overflow\": \"block\", \"depth\": 1";
            decode::<Hello>(format!("{{\"key\": 1, {rest}, \"build\": {build}}}").as_bytes())
        };
        let det = TypeName::new("det").unwrap();
        assert_eq!(hello("\"any\"").unwrap().check(1, &det, false), Ok(()));
        for (build, refused) in [("\"0123456789abcdef\"", "built differently"), ("null", "unknown")] {
            let reason = hello(build).unwrap().check(1, &det, false).unwrap_err();
            assert!(reason.reason().contains(refused), "{reason}");
        }
        for build in
            ["1", "true", "[]", "{}", "\"\"", "\"0123456789abcde\"", "\"0123456789ABCDEF\"", "\"Any\""]
        {
            assert!(hello(build).unwrap_err().contains("does not parse"), "{build}");
        }
        let long = format!("\"{}\"", "0".repeat(4000));
        assert!(hello(&long).unwrap_err().contains("does not parse"));
    }

    #[test]
    fn the_length_of_a_message_is_known_from_its_prefix() {
        let bytes = encode(&HelloReply::Refused("no".into())).unwrap();
        for cut in 0..=bytes.len() {
            let expected = (cut >= PREFIX_BYTES).then_some(bytes.len());
            assert_eq!(message_length(&bytes[..cut]).unwrap(), expected, "{cut}");
        }
        assert!(matches!(message(&bytes), Ok(HelloReply::Refused(_))));
    }

    #[test]
    fn a_part_is_told_apart_from_a_hello() {
        let part = PartHello { key: 1, token: 2, part: SessionPart::Acks };
        let mut bytes = encode_part(&part).unwrap();
        assert!(matches!(FirstHello::parse(&bytes), Ok(FirstHello::Part(read)) if read == part));
        bytes[6] = 0;
        assert!(FirstHello::parse(&bytes).unwrap_err().contains("does not parse"));
        bytes[7] = 1;
        assert!(FirstHello::parse(&bytes).unwrap_err().contains("unknown kind"));
        assert!(FirstHello::parse(&[]).is_err());
    }

    #[test]
    fn oversized_bodies_are_refused_before_they_are_allocated() {
        let mut prefix = *b"SLNK\x05\0\0\0\0\0\0\0";
        prefix[8..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(body_length(&prefix).unwrap_err().contains("4294967295"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (message_length(&bytes), FirstHello::parse(&bytes));
        }
    }
}
