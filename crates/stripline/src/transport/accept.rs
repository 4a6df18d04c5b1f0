//! The thread of a sending port that accepts receivers and notices when they close, so that the
//! port's own thread never has to.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::carrier::PathSink;
use super::handshake::{self, FirstHello, Hello, HelloReply, PartHello};
use super::parts::PendingParts;
use crate::error::Result;
use crate::fail_point::fail_point;
use crate::sys::doorbell::Doorbell;
use crate::sys::pending::{Admission, PendingPeers, Woken};
use crate::sys::poller::Interest;
use crate::sys::socket::{Listener, Socket};
use crate::sys::thread::JoinedThread;

/// The poller's token of the request to end. Those of peers are below it.
const SHUTDOWN: u64 = 1 << 62;
/// The poller's tokens of paths that are probed begin here.
const PROBES: u64 = 1 << 61;
/// The pause between two probes.
const PROBE_PERIOD: Duration = Duration::from_millis(10);
/// How long a path is probed before its receiver is to try again. A receiver waits longer for its
/// reply.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// The most receivers with paths that are being probed.
const PROBED_MAX: usize = 64;

/// A port's handling of receivers that sent their hello.
pub(super) trait Acceptor: Send + 'static {
    /// Returns the keys of the endpoint, where receivers may join sockets of a session before
    /// their hello.
    fn keys_of_parts(&self) -> Option<[u64; 2]> {
        None
    }

    /// Opens the path to a receiver on a carrier, with the descriptors that came with its hello.
    ///
    /// # Errors
    /// As [`Acceptor::accept`].
    fn open_path(
        &mut self,
        _hello: &Hello,
        _fds: &mut Vec<OwnedFd>,
    ) -> Result<Option<Arc<dyn PathSink>>, String> {
        Ok(None)
    }

    /// Accepts a receiver. Returns `Some(token)` if [`Acceptor::closed`] is to be called when it
    /// closes its socket. Returns `None` if the acceptor has kept the socket for itself.
    ///
    /// # Errors
    /// Why it is refused, in words for the receiver.
    fn accept(&mut self, arrival: ArrivedReceiver, socket: &Socket) -> Result<Option<u64>, String>;

    /// Returns what ends a receiver for which [`Acceptor::accept`] returned a token.
    fn interest(&self) -> Interest {
        Interest::Readable
    }

    /// Removes a receiver that has closed its socket, where [`Acceptor::accept`] returns tokens.
    fn closed(&mut self, _token: u64) {}
}

/// A receiver that has sent its hello.
pub(super) struct ArrivedReceiver {
    pub hello: Hello,
    /// The descriptors that came with it, unless they are part of the path.
    pub fds: Vec<OwnedFd>,
    /// The path to it on a carrier, through which a probe has come.
    pub path: Option<Arc<dyn PathSink>>,
}

/// A receiver with a path that is being probed.
struct Probed {
    token: u64,
    arrival: ArrivedReceiver,
    socket: Socket,
    next: Instant,
    deadline: Instant,
}

/// The running thread; ended and joined when dropped.
pub(super) struct AcceptThread {
    _thread: JoinedThread,
    shutdown: Doorbell,
}

impl AcceptThread {
    pub(super) fn start(listener: Listener, acceptor: impl Acceptor) -> Result<Self> {
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
    /// The oldest first.
    probed: Vec<Probed>,
    last_probed: u64,
}

impl<A: Acceptor> AcceptLoop<A> {
    fn run(mut self) {
        loop {
            let until = self.probed.iter().map(|probed| probed.next).chain(self.parts.deadline()).min();
            let Woken { tokens, admissions } = match self.pending.wait_within(until) {
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
            Admission::Message { socket, message, fds, .. } => match FirstHello::parse(&message) {
                Ok(FirstHello::Hello(hello)) => match self.open(*hello, fds) {
                    Ok(arrival) => self.admit(arrival, socket),
                    Err(reason) => refuse(&socket, &reason),
                },
                Ok(FirstHello::Part(part)) => self.join(&part, socket),
                Err(reason) => refuse(&socket, &reason),
            },
            Admission::Rejected(socket, reason) => refuse(&socket, &reason),
            Admission::Late(socket) => reply(&socket, &HelloReply::Late("sent no hello in time".into())),
        }
    }

    /// Opens the path to a receiver.
    fn open(&mut self, hello: Hello, mut fds: Vec<OwnedFd>) -> Result<ArrivedReceiver, String> {
        if let Some(token) = hello.session {
            fds = self.parts.take(token)?;
        }
        let path = self.acceptor.open_path(&hello, &mut fds)?;
        Ok(ArrivedReceiver { hello, fds, path })
    }

    /// Accepts a receiver, or has its path probed first.
    fn admit(&mut self, arrival: ArrivedReceiver, socket: Socket) {
        let Some(probe) = arrival.path.as_ref().and_then(|path| path.probe()) else {
            return self.accept(arrival, socket);
        };
        self.last_probed += 1;
        let (token, now) = (self.last_probed, Instant::now());
        if let Err(error) = self.pending.poller().add(probe.answers(), token, Interest::Readable) {
            return refuse(&socket, &error.to_string());
        }
        if self.probed.len() >= PROBED_MAX {
            let Probed { arrival, socket, .. } = self.probed.remove(0);
            self.forget(&arrival);
            reply(&socket, &HelloReply::Late("too many paths are being probed".into()));
        }
        self.probed.push(Probed { token, arrival, socket, next: now, deadline: now + PROBE_TIME });
    }

    /// Probes the paths that it is time for, and those that were answered.
    fn probe(&mut self, now: Instant, answered: &[u64]) {
        for mut probed in std::mem::take(&mut self.probed) {
            if probed.next > now && !answered.contains(&probed.token) {
                self.probed.push(probed);
                continue;
            }
            let Some(probe) = probed.arrival.path.as_ref().and_then(|path| path.probe()) else { continue };
            fail_point!("probe");
            match probe.try_once() {
                Ok(true) => {
                    fail_point!("probe-answered");
                    self.forget(&probed.arrival);
                    self.accept(probed.arrival, probed.socket);
                }
                Ok(false) if now < probed.deadline => {
                    probed.next = now + PROBE_PERIOD;
                    self.probed.push(probed);
                }
                Ok(false) => {
                    self.forget(&probed.arrival);
                    reply(&probed.socket, &HelloReply::Late(probe.failure(PROBE_TIME)));
                }
                Err(reason) => {
                    self.forget(&probed.arrival);
                    refuse(&probed.socket, &reason);
                }
            }
        }
    }

    /// Waits no longer for the answer to a probe.
    fn forget(&self, arrival: &ArrivedReceiver) {
        if let Some(probe) = arrival.path.as_ref().and_then(|path| path.probe()) {
            self.pending.poller().remove(probe.answers());
        }
    }

    fn accept(&mut self, arrival: ArrivedReceiver, socket: Socket) {
        match self.acceptor.accept(arrival, &socket) {
            Ok(None) => {}
            Ok(Some(token)) => self.keep(token, socket),
            Err(reason) => refuse(&socket, &reason),
        }
    }

    /// Keeps a socket of a session for the hello that follows.
    fn join(&mut self, part: &PartHello, socket: Socket) {
        let joined = match self.acceptor.keys_of_parts() {
            Some([key, _]) if key != part.key => {
                Err("the key is wrong: the endpoint is of another port".into())
            }
            Some([_, key]) => socket.try_clone().map_err(|e| e.to_string()).map(|kept| (key, kept)),
            None => Err("no sessions are joined here".to_string()),
        };
        let kept = joined.and_then(|(key, kept)| {
            self.parts.add(part, kept, Instant::now())?;
            Ok(key)
        });
        match kept {
            Ok(key) => send(&socket, &HelloReply::Joined(key)),
            Err(reason) => refuse(&socket, &reason),
        }
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

fn refuse(socket: &Socket, reason: &str) {
    reply(socket, &HelloReply::Refused(reason.chars().take(1000).collect()));
}

/// Sends the reason, as far as the socket takes it without blocking, and closes.
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
    use std::io;
    use std::os::fd::BorrowedFd;

    use super::*;
    use crate::packet::payload::TypeName;
    use crate::sys::doorbell::PollSet;
    use crate::sys::{socket, socket_names};
    use crate::terms::LinkOptions;
    use crate::transport::carrier::PathProbe;
    use crate::transport::{ConnectRequest, Endpoint};

    /// An acceptor with paths that lead nowhere.
    struct Nowhere;

    impl Acceptor for Nowhere {
        fn open_path(
            &mut self,
            _: &Hello,
            _: &mut Vec<OwnedFd>,
        ) -> Result<Option<Arc<dyn PathSink>>, String> {
            Ok(Some(Arc::new(PathToNowhere(Doorbell::new().unwrap()))))
        }

        fn accept(&mut self, _: ArrivedReceiver, _: &Socket) -> Result<Option<u64>, String> {
            Err("it was accepted".into())
        }
    }

    struct PathToNowhere(Doorbell);

    impl PathSink for PathToNowhere {
        fn write(&self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn poll_room<'a>(&'a self, _: &mut PollSet<'a>) {}

        fn probe(&self) -> Option<&dyn PathProbe> {
            Some(self)
        }
    }

    impl PathProbe for PathToNowhere {
        fn try_once(&self) -> Result<bool, String> {
            Ok(false)
        }

        fn answers(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn failure(&self, within: Duration) -> String {
            format!("it leads nowhere within {within:?}")
        }
    }

    #[test]
    fn a_receiver_whose_path_is_not_found_may_try_again() {
        let name = format!("stripline-nowhere-{}", socket_names::unique_suffix().unwrap());
        let _thread = AcceptThread::start(Listener::unix(&name, None).unwrap(), Nowhere).unwrap();
        let endpoint = Endpoint { transport: "uds".into(), address: name.clone(), keys: [1, 2] };
        let options = LinkOptions::default();
        let request = ConnectRequest { connection: "a -> b".into(), payload: TypeName::of::<u8>(), options };
        let socket = Socket::Unix(socket::connect_unix(&name, None).unwrap());
        let hello = Hello::new(&endpoint, &request);
        let error = handshake::exchange_hello(&socket, &endpoint, &hello, &[], |_| Ok(())).unwrap_err();
        assert!(handshake::is_late(&error) && error.to_string().contains("nowhere within 2s"), "{error}");
    }
}
