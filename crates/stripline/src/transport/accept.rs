//! The thread of a sending port that accepts receivers and notices when they close, so that the
//! port's own thread never has to.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use super::handshake::{self, Hello, HelloReply};
use crate::error::Result;
use crate::sys::doorbell::Doorbell;
use crate::sys::pending::{Admission, PendingPeers, Woken};
use crate::sys::poller::Interest;
use crate::sys::socket::{Listener, Socket};
use crate::sys::thread::JoinedThread;

/// The poller's token of the request to end. Those of peers are below it.
const SHUTDOWN: u64 = 1 << 62;

/// A port's handling of receivers that sent their hello.
pub(super) trait Acceptor: Send + 'static {
    /// Accepts a receiver with the descriptors that came with its hello. Returns `Some(token)` if
    /// [`Acceptor::closed`] is to be called when it closes its socket. Returns `None` if the
    /// acceptor has kept the socket for itself.
    ///
    /// # Errors
    /// Why it is refused, in words for the receiver.
    fn accept(&mut self, hello: Hello, socket: &Socket, fds: Vec<OwnedFd>) -> Result<Option<u64>, String>;

    /// Returns what ends a receiver for which [`Acceptor::accept`] returned a token.
    fn interest(&self) -> Interest {
        Interest::Readable
    }

    /// Removes a receiver that has closed its socket, where [`Acceptor::accept`] returns tokens.
    fn closed(&mut self, _token: u64) {}
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
        let accept_loop = AcceptLoop { pending, acceptor, peers: HashMap::new() };
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
}

impl<A: Acceptor> AcceptLoop<A> {
    fn run(mut self) {
        loop {
            let Woken { tokens, admissions } = match self.pending.wait() {
                Ok(woken) => woken,
                Err(error) => {
                    log::error!(target: "stripline::transport", "no more receivers are accepted: {error}");
                    return;
                }
            };
            if tokens.contains(&SHUTDOWN) {
                return;
            }
            tokens.into_iter().for_each(|token| self.drop_closed(token));
            admissions.into_iter().for_each(|admission| self.handle(admission));
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
            Admission::Message { socket, message, fds, .. } => {
                match handshake::message(&message).and_then(|hello| self.acceptor.accept(hello, &socket, fds))
                {
                    Ok(None) => {}
                    Ok(Some(token)) => self.keep(token, socket),
                    Err(reason) => refuse(&socket, &reason),
                }
            }
            Admission::Rejected(socket, reason) => refuse(&socket, &reason),
            Admission::Late(socket) => reply(&socket, &HelloReply::Late("sent no hello in time".into())),
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
fn reply(mut socket: &Socket, reason: &HelloReply) {
    if let Ok(bytes) = handshake::encode(reason) {
        let _ = std::io::Write::write(&mut socket, &bytes);
    }
    socket.close();
}
