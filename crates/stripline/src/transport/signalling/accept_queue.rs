//! The accept queue of receivers, and the records of their connections.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::acks::peek_goodbye;
use super::remote_receiver::{ReceiverProgress, RemoteReceiver};
use crate::error::Result;
use crate::fail_point::fail_point;
use crate::packet::payload::TypeName;
use crate::sys::doorbell::Doorbell;
use crate::sys::mutex::lock;
use crate::sys::poller::Interest;
use crate::sys::refusal::PeerRefusal;
use crate::sys::socket::Socket;
use crate::transport::accept::{Acceptor, ArrivedReceiver};
use crate::transport::carrier::Sink;
use crate::transport::former_paths::{DEPARTED_MAX, Stopped};
use crate::transport::handshake::{self, Hello, HelloReply, Welcome};
use crate::transport::{Attention, Departed, Departures, FormerPaths, PortPosition};

/// The accept queue, and the records of connections.
pub(in crate::transport) struct AcceptQueue<R> {
    changed: AtomicBool,
    pub doorbell: Doorbell,
    accepted: Mutex<Vec<R>>,
    records: Mutex<Vec<ConnectionRecord>>,
    /// The number of the first packet of the present stream.
    stream_start: AtomicU64,
}

/// A factory that makes a port's receivers from accepted connections.
pub(in crate::transport) trait ReceiverFactory: Send + 'static {
    type Receiver: AsRef<RemoteReceiver> + Send + 'static;

    /// Opens the path to a receiver on a carrier, with the descriptors that came with the hello.
    ///
    /// # Errors
    /// The reason of the refusal, in words for the receiver.
    fn open_path(&self, hello: &Hello, fds: &mut Vec<OwnedFd>) -> Result<Option<Sink>, PeerRefusal>;

    /// Makes a receiver with a data path.
    fn receiver(&self, hello: &Hello, socket: Arc<Socket>, path: Option<Sink>) -> Self::Receiver;

    /// Returns the flag to set when this receiver hangs up. `None`: the next frame shows the
    /// hang-up.
    fn watch(&self, receiver: &mut Self::Receiver) -> Option<Arc<AtomicBool>>;
}

impl<R> AcceptQueue<R> {
    pub fn new() -> Result<Self> {
        Ok(Self {
            changed: AtomicBool::new(false),
            doorbell: Doorbell::new()?,
            accepted: Mutex::default(),
            records: Mutex::default(),
            stream_start: AtomicU64::new(0),
        })
    }

    /// Returns whether a receiver has been accepted.
    #[inline]
    pub fn has_accepted(&self) -> bool {
        // Relaxed: the lock of the queue orders the rest.
        self.changed.load(Ordering::Relaxed)
    }

    /// Completes the records of receivers that have stopped at one of these positions.
    pub fn complete_records(&self, positions: [PortPosition; 2], stream_start: u64) {
        // Relaxed: the lock orders the rest.
        self.stream_start.store(stream_start, Ordering::Relaxed);
        for record in &*lock(&self.records) {
            positions.iter().for_each(|position| record.progress.complete(*position));
        }
    }

    /// Takes the receivers accepted since the last call; `None`: there are no new ones.
    pub fn accepted(&self) -> Option<Vec<R>> {
        if !self.has_accepted() {
            return None;
        }
        self.changed.swap(false, Ordering::Acquire);
        Some(std::mem::take(&mut *lock(&self.accepted)))
    }
}

impl<R: Send> Departures for AcceptQueue<R> {
    fn take(&self, connection: Option<&str>) -> Vec<(String, Departed)> {
        take_departed(&mut lock(&self.records), connection)
    }
}

impl<R: Send> Attention for AcceptQueue<R> {
    fn request_attention(&self) {
        // Release: see `SignallingAcceptor::accept`. A thread that waits for room gets the request
        // later.
        self.changed.store(true, Ordering::Release);
    }
}

/// The record of a connection, kept after the receiver is gone.
struct ConnectionRecord {
    connection: String,
    socket: Weak<Socket>,
    progress: Arc<ReceiverProgress>,
}

impl ConnectionRecord {
    /// Returns whether the receiver of a free record sent a goodbye, so that no successor comes.
    fn is_given_up(&self) -> bool {
        self.progress.has_left.load(Ordering::Relaxed)
            || self.socket.upgrade().is_some_and(|s| peek_goodbye(&s))
    }

    fn is_free(&self) -> bool {
        self.socket.upgrade().is_none_or(|socket| socket.has_hung_up())
    }
}

/// Takes the records of receivers that are gone, either of all connections or of the given one.
/// Records of receivers without a successor are dropped.
fn take_departed(records: &mut Vec<ConnectionRecord>, connection: Option<&str>) -> Vec<(String, Departed)> {
    records.retain(|record| !(record.is_free() && record.is_given_up()));
    let is_wanted = |record: &mut ConnectionRecord| {
        connection.is_none_or(|wanted| wanted == record.connection) && record.is_free()
    };
    let taken = records.extract_if(.., is_wanted);
    taken.filter_map(|record| Some((record.connection, record.progress.departed()?))).collect()
}

/// An acceptor of receivers, on a separate thread.
pub(in crate::transport) struct SignallingAcceptor<F: ReceiverFactory> {
    pub factory: F,
    pub queue: Arc<AcceptQueue<F::Receiver>>,
    pub payload: TypeName,
    /// Whether a type without a layout may go to a program that is built differently.
    pub any_build: bool,
    pub keys: [u64; 2],
    pub buffer: u32,
    pub wants_acks: bool,
    /// The paths that the port has left.
    pub former_paths: Arc<FormerPaths>,
    /// Whether receivers join the sockets of sessions here.
    pub takes_parts: bool,
    /// The flags of receivers by their tokens, and the token given last.
    pub hung_up_flags: (HashMap<u64, Arc<AtomicBool>>, u64),
}

impl<F: ReceiverFactory> Acceptor for SignallingAcceptor<F> {
    fn keys_of_parts(&self) -> Option<[u64; 2]> {
        self.takes_parts.then_some(self.keys)
    }

    fn open_path(&mut self, hello: &Hello, fds: &mut Vec<OwnedFd>) -> Result<Option<Sink>, PeerRefusal> {
        hello.check(self.keys[0], &self.payload, self.any_build)?;
        self.factory.open_path(hello, fds)
    }

    fn accept(&mut self, arrival: ArrivedReceiver, socket: &Socket) -> Result<Option<u64>, PeerRefusal> {
        let ArrivedReceiver { hello, path, .. } = arrival;
        let resume_from = if hello.moves { None } else { self.resume_position(&hello.connection) };
        let welcome = Welcome::new(self.keys[1], resume_from, self.buffer);
        let answer = HelloReply::Welcome(Welcome { wants_acks: self.wants_acks, ..welcome });
        let bytes = handshake::encode(&answer).map_err(|e| e.to_string())?;
        let kept = Arc::new(socket.try_clone().map_err(|e| e.to_string())?);
        let mut receiver = self.factory.receiver(&hello, Arc::clone(&kept), path);
        if let Some(position) = resume_from {
            receiver.as_ref().progress.resume(position);
        }
        fail_point!("greet");
        // Take the lock and set the flag before the welcome: once the receiver has the welcome, it
        // gets the very next packet.
        let mut accepted = lock(&self.queue.accepted);
        // Release: pairs with the writer's load, after which the writer takes the lock.
        self.queue.changed.store(true, Ordering::Release);
        (&mut &*socket).write_all(&bytes).map_err(|e| e.to_string())?;
        fail_point!("greet-welcomed");
        let remote = receiver.as_ref();
        lock(&self.queue.records).push(ConnectionRecord {
            connection: hello.connection,
            socket: Arc::downgrade(&kept),
            progress: Arc::clone(&remote.progress),
        });
        let flag = self.factory.watch(&mut receiver);
        accepted.push(receiver);
        fail_point!("greet-entered");
        drop(accepted);
        self.queue.doorbell.notify();
        Ok(flag.map(|flag| {
            let (flags, last) = &mut self.hung_up_flags;
            *last += 1;
            flags.insert(*last, flag);
            *last
        }))
    }

    fn interest(&self) -> Interest {
        // The receiver's acknowledgements are read elsewhere.
        Interest::HangUp
    }

    fn closed(&mut self, token: u64) {
        if let Some(flag) = self.hung_up_flags.0.remove(&token) {
            // Relaxed: a sender that reads it late writes frames that no receiver takes.
            flag.store(true, Ordering::Relaxed);
            self.queue.doorbell.notify();
        }
    }
}

impl<F: ReceiverFactory> SignallingAcceptor<F> {
    /// Returns the start position for a receiver of `connection`, if an earlier receiver is gone.
    fn resume_position(&self, connection: &str) -> Option<PortPosition> {
        let mut records = lock(&self.queue.records);
        let own = take_departed(&mut records, Some(connection)).pop();
        if records.len() >= DEPARTED_MAX
            && let Some(oldest) = records.iter().position(ConnectionRecord::is_free)
        {
            records.remove(oldest);
        }
        drop(records);
        let own = own.map(|(_, departed)| departed);
        let position = Stopped::or_on(self.former_paths.take(connection), own);
        // Relaxed: stored before the lock of the records was released.
        let stream_start = self.queue.stream_start.load(Ordering::Relaxed);
        position.map(|position| position.in_stream_from(stream_start))
    }
}
