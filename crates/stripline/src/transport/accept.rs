//! The thread of a sending port that accepts receivers and detects when they close, so that the
//! port's own thread never has to.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::carrier::{Opening, Sink};
use super::handshake::{self, FirstHello, Hello, HelloReply, PartHello};
use super::session_parts::PendingParts;
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::sys::doorbell::Doorbell;
use crate::sys::pending::{Admission, PendingPeers, Woken, name_of};
use crate::sys::poller::Interest;
use crate::sys::refusal::{PeerRefusal, ViolationLog};
use crate::sys::socket::{Listener, Socket};
use crate::sys::thread::JoinedThread;

/// The poller's token of the request to end. The tokens of peers are below it.
const SHUTDOWN: u64 = 1 << 62;
/// The first of the poller's tokens for paths that are being probed.
const PROBES: u64 = 1 << 61;
/// The pause between two probes.
const PROBE_PERIOD: Duration = Duration::from_millis(10);
/// The time for which a path is probed. After it, the receiver is to try again. A receiver waits
/// longer than this for the reply.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// The most receivers with paths that are being probed.
const PROBED_MAX: usize = 64;

/// A port's handling of receivers that have sent their hello.
pub(super) trait Acceptor: Send + 'static {
    /// Returns the keys of the endpoint, if receivers may join sockets of a session before their
    /// hello.
    fn keys_of_parts(&self) -> Option<[u64; 2]> {
        None
    }

    /// Opens the path to a receiver on a carrier, with the descriptors that came with the hello.
    ///
    /// # Errors
    /// See [`Acceptor::accept`].
    fn open_path(&mut self, _hello: &Hello, _fds: &mut Vec<OwnedFd>) -> Result<Option<Sink>, PeerRefusal> {
        Ok(None)
    }

    /// Accepts a receiver. Returns `Some(token)` if [`Acceptor::closed`] is to be called when the
    /// receiver closes the socket. Returns `None` if the acceptor has kept the socket for itself.
    ///
    /// # Errors
    /// The reason of the refusal, in words for the receiver.
    fn accept(&mut self, arrival: ArrivedReceiver, socket: &Socket) -> Result<Option<u64>, PeerRefusal>;

    /// Returns the event that shows the end of a receiver with a token from [`Acceptor::accept`].
    fn interest(&self) -> Interest {
        Interest::Readable
    }

    /// Removes a receiver that has closed the socket, if [`Acceptor::accept`] returns tokens.
    fn closed(&mut self, _token: u64) {}
}

/// A receiver that has sent a hello.
pub(super) struct ArrivedReceiver {
    pub hello: Hello,
    /// The descriptors that came with the hello, except the descriptors of the path.
    pub fds: Vec<OwnedFd>,
    /// The path to the receiver on a carrier. A probe has passed through it.
    pub path: Option<Sink>,
}

/// A receiver with a path that is being opened.
struct ProbedReceiver {
    token: u64,
    arrival: ArrivedReceiver,
    socket: Socket,
    /// A copy of the descriptor that shows that another step can be taken.
    steps: OwnedFd,
    next: Instant,
    deadline: Instant,
}

/// The running thread, which is ended and joined when dropped.
pub(super) struct AcceptThread {
    _thread: JoinedThread,
    shutdown: Doorbell,
}

impl AcceptThread {
    /// Starts the thread for a port. Log lines contain the port's name.
    pub(super) fn start(port: &str, listener: Listener, acceptor: impl Acceptor) -> Result<Self> {
        let shutdown = Doorbell::new()?;
        let pending = PendingPeers::new(listener, handshake::message_length)?;
        pending.poller().add(shutdown.as_fd(), SHUTDOWN, Interest::Readable)?;
        let accept_loop = AcceptLoop {
            pending,
            acceptor,
            peers: HashMap::new(),
            parts: PendingParts::default(),
            probed: Vec::new(),
            last_probed: PROBES,
            violations: ViolationLog::new("stripline::transport", format!("port {port}")),
        };
        let thread = JoinedThread::spawn("stripline-accept", move || accept_loop.run())?;
        Ok(Self { _thread: thread, shutdown })
    }
}

impl Drop for AcceptThread {
    fn drop(&mut self) {
        self.shutdown.notify();
    }
}

struct AcceptLoop<A> {
    pending: PendingPeers,
    acceptor: A,
    /// Receivers with a token.
    peers: HashMap<u64, Socket>,
    parts: PendingParts,
    /// The paths that are being probed, the oldest first.
    probed: Vec<ProbedReceiver>,
    last_probed: u64,
    violations: ViolationLog,
}

impl<A: Acceptor> AcceptLoop<A> {
    fn run(mut self) {
        loop {
            let until = self.probed.iter().map(|probed| probed.next).chain(self.parts.deadline()).min();
            let Woken { tokens, admissions } = match self.pending.wait(until) {
                Ok(woken) => woken,
                Err(error) => {
                    log::error!(target: "stripline::transport", "no more receivers are accepted: {error}");
                    return;
                }
            };
            if tokens.contains(&SHUTDOWN) {
                return;
            }
            for token in &tokens {
                self.drop_closed(*token);
            }
            admissions.into_iter().for_each(|admission| self.handle(admission));
            let now = Instant::now();
            self.parts.expire(now);
            self.probe(now, &tokens);
        }
    }

    fn drop_closed(&mut self, token: u64) {
        if let Some(socket) = self.peers.remove(&token) {
            self.pending.poller().remove(socket.as_fd());
            socket.close();
            self.acceptor.closed(token);
        }
    }

    fn handle(&mut self, admission: Admission) {
        match admission {
            Admission::Message { socket, process, message, fds } => match FirstHello::parse(&message) {
                Ok(FirstHello::Hello(hello)) => {
                    let connection = hello.connection.clone();
                    match self.open(*hello, fds) {
                        Ok(arrival) => self.admit(arrival, socket),
                        Err(refusal) => self.refuse_receiver(&socket, &connection, &refusal),
                    }
                }
                Ok(FirstHello::Part(part)) => match self.join(&part, &socket) {
                    Ok(key) => send(&socket, &HelloReply::Joined(key)),
                    Err(refusal) => self.refuse(&socket, &name_of(&socket, process), &refusal),
                },
                Err(violation) => {
                    self.refuse(&socket, &name_of(&socket, process), &PeerRefusal::Violation(violation));
                }
            },
            Admission::Rejected { socket, process, refusal } => {
                self.refuse(&socket, &name_of(&socket, process), &refusal);
            }
            Admission::Late { socket, process, bytes } => {
                // A hello is sent at once: a part of one will not be completed.
                if bytes > 0 {
                    let cut = format!("sent {bytes} bytes of a hello, and not the rest in time");
                    self.violations.violation(&name_of(&socket, process), &cut);
                }
                reply(&socket, &HelloReply::Late("sent no hello in time".into()));
            }
        }
    }

    /// Opens the path to a receiver.
    fn open(&mut self, hello: Hello, mut fds: Vec<OwnedFd>) -> Result<ArrivedReceiver, PeerRefusal> {
        if let Some(token) = hello.session {
            fds = self.parts.take(token)?;
        }
        let path = self.acceptor.open_path(&hello, &mut fds)?;
        Ok(ArrivedReceiver { hello, fds, path })
    }

    /// Accepts a receiver, or first starts to open the path.
    fn admit(&mut self, arrival: ArrivedReceiver, socket: Socket) {
        let steps = match arrival.path.as_ref().map(|path| path.end.open()) {
            None | Some(Ok(Opening::Done)) => return self.accept(arrival, socket),
            Some(Ok(Opening::Waits { on, .. })) => on.try_clone_to_owned(),
            Some(Err(reason)) => {
                let refusal = PeerRefusal::Unfit(reason);
                return self.refuse_receiver(&socket, &arrival.hello.connection, &refusal);
            }
        };
        fail_point!("probe");
        self.last_probed += 1;
        let (token, now) = (self.last_probed, Instant::now());
        let steps = steps.map_err(|e| Error::system("cannot copy a descriptor", e)).and_then(|steps| {
            self.pending.poller().add(steps.as_fd(), token, Interest::Readable)?;
            Ok(steps)
        });
        let steps = match steps {
            Ok(steps) => steps,
            Err(error) => {
                return self.refuse_receiver(&socket, &arrival.hello.connection, &PeerRefusal::from(error));
            }
        };
        if self.probed.len() >= PROBED_MAX {
            let oldest = self.probed.remove(0);
            self.pending.poller().remove(oldest.steps.as_fd());
            reply(&oldest.socket, &HelloReply::Late("too many paths are being probed".into()));
        }
        let (next, deadline) = (now + PROBE_PERIOD, now + PROBE_TIME);
        self.probed.push(ProbedReceiver { token, arrival, socket, steps, next, deadline });
    }

    /// Takes the next step for the paths that are due, and for the paths with an answer.
    fn probe(&mut self, now: Instant, answered: &[u64]) {
        for mut probed in std::mem::take(&mut self.probed) {
            if probed.next > now && !answered.contains(&probed.token) {
                self.probed.push(probed);
                continue;
            }
            let Some(path) = &probed.arrival.path else { continue };
            fail_point!("probe");
            let opened = match path.end.open() {
                Ok(Opening::Waits { .. }) if now < probed.deadline => {
                    probed.next = now + PROBE_PERIOD;
                    self.probed.push(probed);
                    continue;
                }
                Ok(Opening::Waits { lacks, remedy, .. }) => {
                    Err(PeerRefusal::Lack(format!("{lacks} within {PROBE_TIME:?}; {remedy}")))
                }
                Ok(Opening::Done) => Ok(()),
                Err(reason) => Err(PeerRefusal::Unfit(reason)),
            };
            self.pending.poller().remove(probed.steps.as_fd());
            match opened {
                Ok(()) => {
                    fail_point!("probe-answered");
                    self.accept(probed.arrival, probed.socket);
                }
                Err(PeerRefusal::Lack(reason)) => reply(&probed.socket, &HelloReply::Late(reason)),
                Err(refusal) => {
                    self.refuse_receiver(&probed.socket, &probed.arrival.hello.connection, &refusal);
                }
            }
        }
    }

    fn accept(&mut self, arrival: ArrivedReceiver, socket: Socket) {
        let connection = arrival.hello.connection.clone();
        match self.acceptor.accept(arrival, &socket) {
            Ok(None) => {}
            Ok(Some(token)) => self.keep(token, socket),
            Err(refusal) => self.refuse_receiver(&socket, &connection, &refusal),
        }
    }

    /// Keeps a socket of a session for the hello that follows. Returns the endpoint's second key.
    fn join(&mut self, part: &PartHello, socket: &Socket) -> Result<u64, PeerRefusal> {
        let Some([key, second_key]) = self.acceptor.keys_of_parts() else {
            return Err(PeerRefusal::violation("no sessions are joined here"));
        };
        if key != part.key {
            return Err(PeerRefusal::violation("the key is wrong: the endpoint is of another port"));
        }
        let kept =
            socket.try_clone().map_err(|e| Error::system("cannot keep the peer's socket", e).to_string())?;
        self.parts.add(part, kept, Instant::now())?;
        Ok(second_key)
    }

    /// Refuses the receiver of a connection.
    fn refuse_receiver(&mut self, socket: &Socket, connection: &str, refusal: &PeerRefusal) {
        self.refuse(socket, &format!("the receiver of `{connection:.100}`"), refusal);
    }

    /// Refuses the peer named `peer`. Each refusal passes through here.
    fn refuse(&mut self, socket: &Socket, peer: &str, refusal: &PeerRefusal) {
        self.violations.refused(peer, refusal);
        let reason = refusal.reason().chars().take(1000).collect();
        reply(
            socket,
            &match refusal {
                PeerRefusal::Lack(_) => HelloReply::Late(reason),
                _ => HelloReply::Refused(reason),
            },
        );
    }

    /// Waits for the end of a receiver from now on.
    fn keep(&mut self, token: u64, socket: Socket) {
        match self.pending.poller().add(socket.as_fd(), token, self.acceptor.interest()) {
            Ok(()) => drop(self.peers.insert(token, socket)),
            Err(error) => {
                log::error!(target: "stripline::transport", "a receiver is disconnected: {error}");
                socket.close();
                self.acceptor.closed(token);
            }
        }
    }
}

/// Sends the reason, as far as the socket takes it without blocking, and closes the socket.
fn reply(socket: &Socket, reason: &HelloReply) {
    send(socket, reason);
    socket.close();
}

fn send(mut socket: &Socket, answer: &HelloReply) {
    if let Ok(bytes) = handshake::encode(answer) {
        let _ = std::io::Write::write(&mut socket, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::os::fd::BorrowedFd;
    use std::sync::Arc;

    use super::*;
    use crate::packet::payload::TypeName;
    use crate::sys::doorbell::PollSet;
    use crate::sys::memory::{PAGE, SharedMemory};
    use crate::sys::own_process::{in_own_process, logged};
    use crate::sys::{socket, socket_names};
    use crate::terms::{LinkOptions, Overflow, SenderOptions, Watermarks};
    use crate::transport::carrier::{Frames, PathSink};
    use crate::transport::duplex::{CallAcceptor, Duplex};
    use crate::transport::handshake::{CallHello, SessionPart};
    use crate::transport::{BindRequest, ConnectRequest, Endpoint, StopToken, find};

    /// An acceptor with paths that lead nowhere.
    struct Nowhere;

    impl Acceptor for Nowhere {
        fn open_path(&mut self, _: &Hello, _: &mut Vec<OwnedFd>) -> Result<Option<Sink>, PeerRefusal> {
            Ok(Some(Sink::new(PathToNowhere(Doorbell::new().unwrap()))))
        }

        fn accept(&mut self, _: ArrivedReceiver, _: &Socket) -> Result<Option<u64>, PeerRefusal> {
            Err("it was accepted".into())
        }
    }

    struct PathToNowhere(Doorbell);

    impl PathSink for PathToNowhere {
        fn write(&self, _: &mut Frames<'_>, _: Duration) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn poll_room<'a>(&'a self, _: &mut PollSet<'a>) {}

        fn open(&self) -> Result<Opening<'_>, String> {
            let (lacks, remedy) = ("it leads nowhere".into(), "turn round");
            Ok(Opening::Waits { on: self.0.as_fd(), lacks, remedy })
        }
    }

    #[test]
    fn a_receiver_whose_path_is_not_found_may_try_again() {
        let name = format!("stripline-nowhere-{}", socket_names::unique_suffix().unwrap());
        let _thread = AcceptThread::start("nowhere", Listener::unix(&name, None).unwrap(), Nowhere).unwrap();
        let endpoint = Endpoint { transport: "uds".into(), address: name.clone(), keys: [1, 2] };
        let options = LinkOptions::default();
        let request = ConnectRequest::new("a -> b".into(), TypeName::of::<u8>(), options);
        let socket = Socket::Unix(socket::connect_unix(&name, None).unwrap());
        let hello = Hello::new(&endpoint, &request);
        let error = handshake::exchange_hello(&socket, &endpoint, &hello, &[], |_| Ok(())).unwrap_err();
        assert!(handshake::is_late(&error) && error.to_string().contains("nowhere within 2s"), "{error}");
    }

    /// A server that takes no client.
    struct NoCalls;

    impl CallAcceptor for NoCalls {
        fn server_info(&self) -> serde_json::Value {
            serde_json::Value::Null
        }

        fn check(&mut self, _: &Hello) -> Result<(), PeerRefusal> {
            Ok(())
        }

        fn accept(&mut self, _: &Hello, _: Duplex) {}
    }

    fn bind_request() -> BindRequest {
        BindRequest {
            port: "levels".into(),
            payload: TypeName::of::<u8>(),
            options: SenderOptions::from(&LinkOptions::default()),
            stop: StopToken::new().unwrap(),
            former_paths: Arc::default(),
        }
    }

    fn hello_for(endpoint: &Endpoint) -> Hello {
        let (payload, options) = (TypeName::of::<u8>(), LinkOptions::default());
        Hello::new(endpoint, &ConnectRequest::new("a -> levels".into(), payload, options))
    }

    /// Sends a first message to an endpoint, and returns the reply once the connection has ended.
    fn reply_to(endpoint: &Endpoint, message: &[u8], fds: &[BorrowedFd<'_>]) -> String {
        let stream = socket::connect_address(&endpoint.address, None).unwrap();
        match fds {
            [] => (&*stream).write_all(message).unwrap(),
            fds => socket::send_with_fds(&stream, message, fds).unwrap(),
        }
        let mut reply = Vec::new();
        // The connection may be reset, because not all of the message was read.
        let _ = (&*stream).read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    #[test]
    fn each_malformed_first_message_is_logged() {
        let test = "transport::accept::tests::each_malformed_first_message_is_logged";
        in_own_process(test, "log", send_malformed_first_messages);
    }

    fn send_malformed_first_messages() {
        let lines = logged();
        let outlet = find("uds").unwrap().bind(bind_request()).unwrap();
        let endpoint = outlet.traits().endpoint;
        let own = hello_for(&endpoint);
        let encoded = |hello: Hello| handshake::encode(&hello).unwrap();
        let with = |at: usize, byte: u8| {
            let mut bytes = encoded(own.clone());
            bytes[at] = byte;
            bytes
        };
        let mut unknown_key = encoded(own.clone());
        let text = String::from_utf8(unknown_key.split_off(handshake::PREFIX_BYTES)).unwrap();
        let text = text.replacen("{", "{\"\\u001b[2J\":1,", 1);
        unknown_key[8..].copy_from_slice(&(text.len() as u32).to_le_bytes());
        unknown_key.extend_from_slice(text.as_bytes());
        let part = PartHello { key: endpoint.keys[0], token: 7, part: SessionPart::Acks };
        let cases = [
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "does not use this protocol"),
            (with(4, 99), "uses version 99 of the protocol"),
            (with(11, 0xff), "announced a handshake of 42"),
            (with(6, 7), "sent a first message of an unknown kind"),
            (with(12, b'x'), "sent a handshake that does not parse"),
            (unknown_key, "unknown field `\\u{1b}[2J`"),
            (encoded(own.clone())[..9].to_vec(), "sent 9 bytes of a hello, and not the rest in time"),
            (encoded(Hello { key: own.key ^ 1, ..own.clone() }), "the key is wrong"),
            (encoded(Hello { connection: "x".repeat(600), ..own.clone() }), "name is too long"),
            (encoded(Hello { depth: 0, ..own.clone() }), "depth 0 is out of range"),
            (
                encoded(Hello { depth: 4, watermarks: Some(Watermarks::of_depth(9)), ..own.clone() }),
                "a high watermark of 9 is above the depth, 4",
            ),
            (handshake::encode_part(&part).unwrap(), "no sessions are joined here"),
        ];
        let named = |named: &str| {
            let line = lines.try_recv().expect(named);
            assert!(line.starts_with("port levels: ") && line.contains(named), "{named}: {line}");
            assert!(!line.contains(char::is_control), "{line:?}");
            assert!(lines.try_recv().is_err(), "{named}: two lines");
            line
        };
        for (message, fault) in cases {
            let reply = reply_to(&endpoint, &message, &[]);
            assert!(reply.contains("SLNK"), "{fault}: {reply}");
            let line = named(fault);
            assert!(line.contains("broke the protocol, so that its connection is closed"), "{line}");
        }
        // A peer that merely does not fit gets the reason itself, and so does the peer's program.
        let other = Hello { payload: TypeName::of::<f32>(), ..own.clone() };
        assert!(reply_to(&endpoint, &encoded(other), &[]).contains("has type"));
        drop(socket::connect_address(&endpoint.address, None).unwrap());
        assert!(reply_to(&endpoint, &encoded(Hello { key: 0, ..own }), &[]).contains("key"));
        named("the key is wrong");

        let outlet = find("mqueue").unwrap().bind(bind_request()).unwrap();
        let endpoint = outlet.traits().endpoint;
        let own = hello_for(&endpoint);
        reply_to(&endpoint, &encoded(own.clone()), &[]);
        named("the handshake has no ticket for the data path");
        reply_to(&endpoint, &encoded(Hello { path: Some("queue".into()), ..own }), &[]);
        named("the receiver of `a -> levels` is refused: a message queue is one descriptor");
    }

    #[test]
    fn each_malformed_hello_of_a_client_is_logged() {
        let test = "transport::accept::tests::each_malformed_hello_of_a_client_is_logged";
        in_own_process(test, "log", send_malformed_client_hellos);
    }

    fn send_malformed_client_hellos() {
        let lines = logged();
        let listener = find("shm").unwrap().listen_calls(bind_request(), Box::new(NoCalls)).unwrap();
        let endpoint = listener.endpoint.clone();
        let call = CallHello { buffer: 1 << 16, page: PAGE as u32, membarrier: false, outstanding: 4 };
        let own = Hello { call: Some(call.clone()), ..hello_for(&endpoint) };
        let ring = SharedMemory::ring("ring", 1 << 16, false).unwrap();
        ring.seal_read_only().unwrap();
        let page = SharedMemory::new("page", PAGE).unwrap();
        page.seal_size().unwrap();
        let [event, bell] = [Doorbell::new().unwrap(), Doorbell::between().unwrap()[0].clone()];
        let [ring, page, event, bell] = [ring.as_fd(), page.as_fd(), event.as_fd(), bell.as_fd()];
        let buffer = CallHello { buffer: 5, ..call.clone() };
        let odd_page = CallHello { page: 5, ..call };
        let cases: [(Hello, &[BorrowedFd<'_>], &str); 8] = [
            (Hello { call: None, ..own.clone() }, &[], "this is a server of calls, not a topic"),
            (Hello { overflow: Overflow::Eject, ..own.clone() }, &[], "overflow must be `block`"),
            (Hello { call: Some(buffer), ..own.clone() }, &[], "a buffer of 5 bytes is out of range"),
            (
                Hello { call: Some(odd_page), ..own.clone() },
                &[ring, page, page, bell, bell],
                "pages of 5 bytes",
            ),
            (own.clone(), &[bell], "sent 1 descriptors, not 5"),
            (own.clone(), &[bell, page, page, bell, bell], "a descriptor that is not shared memory"),
            (own.clone(), &[ring, ring, page, bell, bell], "bytes of shared memory"),
            (own, &[ring, page, page, bell, event], "a descriptor that cannot be a doorbell"),
        ];
        for (hello, fds, fault) in cases {
            let reply = reply_to(&endpoint, &handshake::encode(&hello).unwrap(), fds);
            assert!(reply.contains("refused"), "{fault}: {reply}");
            let line = lines.try_recv().expect(fault);
            let blames = "port levels: the receiver of `a -> levels` broke the protocol";
            assert!(line.starts_with(blames) && line.contains(fault), "{fault}: {line}");
            assert!(lines.try_recv().is_err(), "{fault}: two lines");
        }
    }
}
