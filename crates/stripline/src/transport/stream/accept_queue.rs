//! The accept queue of receivers over sockets, and the records of their connections.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::acks::{AckReader, peek_goodbye};
use super::inspect::StreamPortView;
use super::receiver::{NOTHING_YET, StreamReceiver};
use crate::error::Result;
use crate::packet::payload::TypeName;
use crate::sys::doorbell::Doorbell;
use crate::sys::mutex::lock;
use crate::sys::socket::Socket;
use crate::transport::Attention;
use crate::transport::accept::Acceptor;
use crate::transport::handshake::{self, Hello, HelloReply, Welcome};

/// Connections above which the records of departed receivers are dropped.
const RECORDS_MAX: usize = 1024;

/// The accept queue, and the records of connections.
pub(super) struct AcceptQueue {
    changed: AtomicBool,
    pub(super) doorbell: Doorbell,
    accepted: Mutex<Vec<StreamReceiver>>,
    records: Mutex<Vec<ConnectionRecord>>,
}

impl AcceptQueue {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            changed: AtomicBool::new(false),
            doorbell: Doorbell::new()?,
            accepted: Mutex::default(),
            records: Mutex::default(),
        })
    }

    /// Returns whether a receiver has been accepted.
    #[inline]
    pub(super) fn has_accepted(&self) -> bool {
        // Relaxed: the lock of the queue orders the rest.
        self.changed.load(Ordering::Relaxed)
    }

    /// Takes the receivers accepted since the last call; `None`: none.
    pub(super) fn accepted(&self) -> Option<Vec<StreamReceiver>> {
        if !self.has_accepted() {
            return None;
        }
        self.changed.swap(false, Ordering::Acquire);
        Some(std::mem::take(&mut *lock(&self.accepted)))
    }
}

impl Attention for AcceptQueue {
    fn request_attention(&self) {
        // Release: as in `StreamAcceptor::accept`. A thread that waits for room gets it later.
        self.changed.store(true, Ordering::Release);
    }
}

/// The record of a connection, kept after its receiver is gone.
struct ConnectionRecord {
    connection: String,
    socket: Weak<Socket>,
    next_sequence: Arc<AtomicU64>,
    has_left: Arc<AtomicBool>,
}

impl ConnectionRecord {
    /// Returns whether the receiver of a free record sent a goodbye, so that no successor comes.
    fn is_given_up(&self) -> bool {
        self.has_left.load(Ordering::Relaxed) || self.socket.upgrade().is_some_and(|s| peek_goodbye(&s))
    }

    fn is_free(&self) -> bool {
        self.socket.upgrade().is_none_or(|socket| socket.has_hung_up())
    }
}

/// An acceptor of receivers, on a thread of its own.
pub(super) struct StreamAcceptor {
    pub(super) view: Arc<StreamPortView>,
    pub(super) queue: Arc<AcceptQueue>,
    pub(super) payload: TypeName,
    /// Whether a type without a layout may go to a program that is built differently.
    pub(super) any_build: bool,
    pub(super) keys: [u64; 2],
    pub(super) buffer: u32,
    pub(super) wants_acks: bool,
}

impl Acceptor for StreamAcceptor {
    fn accept(&mut self, hello: Hello, socket: &Socket, _: Vec<OwnedFd>) -> Result<Option<u64>, String> {
        hello.check(self.keys[0], &self.payload, self.any_build)?;
        let resume_from = self.resume_position(&hello.connection);
        let welcome = Welcome::new(self.keys[1], resume_from, self.buffer);
        let answer = HelloReply::Welcome(Welcome { wants_acks: self.wants_acks, ..welcome });
        let bytes = handshake::encode(&answer).map_err(|e| e.to_string())?;
        let kept = Arc::new(socket.try_clone().map_err(|e| e.to_string())?);
        // Flag and lock first: once the receiver has its welcome, it gets the very next packet.
        let mut accepted = lock(&self.queue.accepted);
        // Release: pairs with the writer's load, after which it takes the lock.
        self.queue.changed.store(true, Ordering::Release);
        (&mut &*socket).write_all(&bytes).map_err(|e| e.to_string())?;
        let acks = AckReader::with(hello.flow_sender());
        let receiver = StreamReceiver::new(hello.reader(), Arc::clone(&kept), &self.view, acks);
        lock(&self.queue.records).push(ConnectionRecord {
            connection: hello.connection,
            socket: Arc::downgrade(&kept),
            next_sequence: Arc::clone(&receiver.next_sequence),
            has_left: Arc::clone(&receiver.has_left),
        });
        accepted.push(receiver);
        drop(accepted);
        self.queue.doorbell.notify();
        Ok(None)
    }
}

impl StreamAcceptor {
    /// Returns the start position for a receiver of that connection, if an earlier one is gone.
    fn resume_position(&self, connection: &str) -> Option<u64> {
        let mut records = lock(&self.queue.records);
        records.retain(|record| !(record.is_free() && record.is_given_up()));
        let free = records.iter().position(|record| record.connection == connection && record.is_free());
        let next = free.map(|index| records.remove(index).next_sequence.load(Ordering::Relaxed));
        if records.len() >= RECORDS_MAX
            && let Some(oldest) = records.iter().position(ConnectionRecord::is_free)
        {
            records.remove(oldest);
        }
        next.filter(|next| *next != NOTHING_YET)
    }
}
