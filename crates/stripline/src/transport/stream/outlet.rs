//! The sending side of a byte stream.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::flusher::{Flusher, Tail};
use super::{AlignedBuffer, frame_max};
use crate::error::{Error, Result};
use crate::link::Overflow;
use crate::packet::Header;
use crate::payload::TypeName;
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::socket::{Listener, Socket};
use crate::transport::handshake::{self, Answer, Hello, Welcome};
use crate::transport::reception::{Greeter, Reception};
use crate::transport::{Bind, Endpoint, Outlet, Stop, Wait};

/// The most connections whose position is remembered after their receiver left.
const DEPARTED_MAX: usize = 1024;

/// One port's receivers over sockets.
pub(in crate::transport) struct StreamOutlet {
    endpoint: Endpoint,
    receivers: Vec<Receiver>,
    lobby: Arc<Lobby>,
    frame: AlignedBuffer,
    frame_max: usize,
    flusher: Option<Flusher>,
    stop: Stop,
    _reception: Reception,
}

struct Receiver {
    socket: Socket,
    connection: String,
    blocks: bool,
    /// A frame that the socket took only in part.
    tail: Option<Arc<Tail>>,
    /// Number after the last packet that the socket took whole or in part.
    next_sequence: u64,
    dead: bool,
}

struct Lobby {
    changed: AtomicBool,
    bell: Doorbell,
    arrivals: Mutex<Vec<Receiver>>,
    departed: Mutex<HashMap<String, u64>>,
}

impl StreamOutlet {
    pub(in crate::transport) fn new(request: Bind, endpoint: Endpoint, listener: Listener) -> Result<Self> {
        let lobby = Arc::new(Lobby {
            changed: AtomicBool::new(false),
            bell: Doorbell::new()?,
            arrivals: Mutex::default(),
            departed: Mutex::default(),
        });
        let greeter = StreamGreeter {
            lobby: Arc::clone(&lobby),
            payload: request.payload,
            keys: endpoint.keys,
            buffer: request.buffer,
        };
        Ok(Self {
            endpoint,
            receivers: Vec::new(),
            lobby,
            frame: AlignedBuffer::default(),
            frame_max: frame_max(request.buffer),
            flusher: None,
            stop: request.stop,
            _reception: Reception::open(listener, greeter)?,
        })
    }

    fn bury(&mut self) {
        let departed = &self.lobby.departed;
        self.receivers.retain(|receiver| {
            if receiver.dead {
                let mut departed = lock(departed);
                if departed.len() < DEPARTED_MAX || departed.contains_key(&receiver.connection) {
                    departed.insert(receiver.connection.clone(), receiver.next_sequence);
                }
                receiver.socket.close();
            }
            !receiver.dead
        });
    }

    /// Waits until no blocking receiver has a frame on its way.
    fn await_tails(&mut self, wait: Wait) -> Result<()> {
        loop {
            self.admit();
            let busy = self.receivers.iter_mut().position(|receiver| receiver.blocks && !receiver.settle());
            let Some(busy) = busy else { return Ok(()) };
            let full = Error::Full { connection: self.receivers[busy].connection.clone() };
            if matches!(wait, Wait::Never) {
                return Err(full);
            }
            if wait.heeds_stop() && self.stop.is_stopped() {
                return Err(Error::Stopped);
            }
            let mut sleep = Sleep::default();
            sleep.readable(self.lobby.bell.as_fd());
            if wait.heeds_stop() {
                sleep.readable(self.stop.bell().as_fd());
            }
            if !sleep.until(wait.deadline())? {
                return Err(full);
            }
            self.lobby.bell.quiet();
        }
    }

    fn hand_over(&mut self, index: usize, sent: usize, bytes: usize) -> Result<()> {
        if self.flusher.is_none() {
            self.flusher = Some(Flusher::start(self.lobby.bell.clone())?);
        }
        let receiver = &mut self.receivers[index];
        if let Some(flusher) = &self.flusher {
            let socket =
                receiver.socket.try_clone().map_err(|e| Error::system("cannot duplicate a socket", e))?;
            receiver.tail = Some(flusher.finish(socket, &self.frame.bytes()[sent..bytes]));
        }
        Ok(())
    }

    /// Writes the frame to one receiver as the wait allows.
    fn send_to(&mut self, index: usize, bytes: usize, wait: Wait) -> Result<()> {
        let mut sent = 0;
        while sent < bytes {
            let receiver = &mut self.receivers[index];
            match (&receiver.socket).write(&self.frame.bytes()[sent..bytes]) {
                Ok(written) => sent += written,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !receiver.blocks {
                        // All or nothing: its loss is counted by the receiver from the sequence numbers.
                        return if sent == 0 { Ok(()) } else { self.hand_over(index, sent, bytes) };
                    }
                    let stopped = wait.heeds_stop() && self.stop.is_stopped();
                    if stopped || matches!(wait, Wait::Never) {
                        return self.hand_over(index, sent, bytes);
                    }
                    let mut sleep = Sleep::default();
                    sleep.writable(receiver.socket.as_fd());
                    if wait.heeds_stop() {
                        sleep.readable(self.stop.bell().as_fd());
                    }
                    if !sleep.until(wait.deadline())? {
                        return self.hand_over(index, sent, bytes);
                    }
                }
                // Broken pipe or reset: the receiver died; what it had is its own loss.
                Err(_) => {
                    receiver.dead = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Receiver {
    /// Whether the socket is free for another frame.
    fn settle(&mut self) -> bool {
        if self.tail.as_ref().is_some_and(|tail| tail.is_done()) {
            self.tail = None;
        }
        self.tail.is_none()
    }
}

impl Outlet for StreamOutlet {
    fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    fn frame_max(&self) -> usize {
        self.frame_max
    }

    fn receivers(&self) -> usize {
        self.receivers.len()
    }

    fn is_lossy(&self) -> bool {
        self.receivers.iter().any(|receiver| !receiver.blocks)
    }

    fn admit(&mut self) -> bool {
        // Relaxed: the lock below orders the rest.
        if !self.lobby.changed.load(Ordering::Relaxed) {
            return false;
        }
        self.lobby.changed.swap(false, Ordering::Acquire);
        let arrivals = std::mem::take(&mut *lock(&self.lobby.arrivals));
        let arrived = !arrivals.is_empty();
        self.receivers.extend(arrivals);
        arrived
    }

    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]> {
        if bytes > self.frame_max {
            return Err(Error::TooLarge { bytes, bytes_max: self.frame_max });
        }
        if self.receivers.iter_mut().any(|receiver| receiver.blocks && !receiver.settle()) {
            self.await_tails(wait)?;
        }
        self.frame.grow(bytes.next_multiple_of(16));
        Ok(&mut self.frame.bytes_mut()[..bytes])
    }

    fn reserved(&mut self) -> &mut [u8] {
        self.frame.bytes_mut()
    }

    fn publish(&mut self, bytes: usize, wait: Wait) -> Result<()> {
        let whole = bytes.next_multiple_of(16);
        self.frame.bytes_mut()[bytes..whole].fill(0);
        let sequence = Header::read(self.frame.bytes()).map_or(0, |header| header.sequence);
        let mut outcome = Ok(());
        for index in 0..self.receivers.len() {
            if !self.receivers[index].settle() {
                continue;
            }
            self.receivers[index].next_sequence = sequence.wrapping_add(1);
            if let Err(error) = self.send_to(index, whole, wait) {
                outcome = Err(error);
            }
        }
        if self.receivers.iter().any(|receiver| receiver.dead) {
            self.bury();
        }
        outcome
    }

    fn cancel(&mut self) {}

    fn flush(&mut self, wait: Wait) -> Result<()> {
        self.await_tails(wait)
    }
}

impl Drop for StreamOutlet {
    fn drop(&mut self) {
        if let Some(flusher) = self.flusher.take() {
            flusher.stop();
        }
    }
}

struct StreamGreeter {
    lobby: Arc<Lobby>,
    payload: TypeName,
    keys: [u64; 2],
    buffer: u32,
}

impl Greeter for StreamGreeter {
    fn greet(&mut self, hello: Hello, socket: &Socket) -> Result<Option<u64>, String> {
        hello.check(self.keys[0], &self.payload)?;
        let resume_from = lock(&self.lobby.departed).get(&hello.connection).copied();
        let answer = Answer::Welcome(Welcome { key: self.keys[1], resume_from, ring: self.buffer });
        let bytes = handshake::encode(&answer).map_err(|e| e.to_string())?;
        (&mut &*socket).write_all(&bytes).map_err(|e| e.to_string())?;
        lock(&self.lobby.arrivals).push(Receiver {
            socket: socket.try_clone().map_err(|e| e.to_string())?,
            connection: hello.connection,
            blocks: hello.overflow == Overflow::Block,
            tail: None,
            next_sequence: 0,
            dead: false,
        });
        // Release: pairs with the writer's look, which then takes the lock.
        self.lobby.changed.store(true, Ordering::Release);
        self.lobby.bell.ring();
        Ok(None)
    }

    fn gone(&mut self, _: u64) {}
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are whole whatever happened to the last holder.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
