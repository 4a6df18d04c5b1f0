//! The sending side of a byte stream.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::answers::{Ear, has_goodbye};
use super::flusher::{Flusher, Tail};
use super::sign::{Sign, Waits};
use super::{AlignedBuffer, frame_max};
use crate::error::{Error, Result};
use crate::link::{Flow, Overflow, Scope, flow};
use crate::packet::{Header, Kind};
use crate::payload::TypeName;
use crate::sys::clock::now_ns;
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::socket::{Listener, Socket};
use crate::transport::answer::Awaited;
use crate::transport::handshake::{self, Answer, Hello, Welcome};
use crate::transport::reception::{Greeter, Reception};
use crate::transport::{Bind, Endpoint, Outlet, Stop, Wait};

/// Connections above which those whose receivers left are forgotten.
const SEATS_MAX: usize = 1024;

/// One port's receivers over sockets.
pub(in crate::transport) struct StreamOutlet {
    endpoint: Endpoint,
    pub(super) receivers: Vec<Receiver>,
    pub(super) lobby: Arc<Lobby>,
    frame: AlignedBuffer,
    frame_max: usize,
    flusher: Option<Flusher>,
    /// The number of the next packet.
    next_sequence: u64,
    /// Whether more pieces of the packet published last are to come.
    in_packet: bool,
    /// How long a send waits for room.
    timeout: Option<Duration>,
    /// Its scope, which says whether receivers answer.
    scope: Scope,
    pub(super) stop: Stop,
    reception: Option<Reception>,
    /// Held for those who look from outside.
    _sign: Arc<Sign>,
}

pub(super) struct Receiver {
    pub(super) socket: Arc<Socket>,
    pub(super) connection: String,
    blocks: bool,
    /// A frame that the socket took only in part.
    tail: Option<Arc<Tail>>,
    /// What one that does not block could not be told yet, but must be: the stream and the end.
    postponed: Vec<u8>,
    /// Whether one that does not block got the beginning of the packet being sent: then it gets all of it.
    follows: bool,
    /// Number after the last packet that the socket took whole or in part; [`NOTHING_YET`] until it is let in.
    next_sequence: Arc<AtomicU64>,
    pub(super) dead: bool,
    pub(super) ear: Ear,
    /// Its answer is waited for.
    pub(super) awaited: bool,
    /// Said of its seat when it has left for good.
    has_left: Arc<AtomicBool>,
    /// Set while the sender sleeps for its sake.
    pub(super) waits: Arc<Waits>,
}

pub(super) const NOTHING_YET: u64 = u64::MAX;

/// What is remembered of a connection, also when its receiver is gone.
struct Seat {
    connection: String,
    socket: Weak<Socket>,
    next_sequence: Arc<AtomicU64>,
    has_left: Arc<AtomicBool>,
}

impl Seat {
    /// Of one that is free: whether nobody comes in the place of who had it.
    fn is_given_up(&self) -> bool {
        self.has_left.load(Ordering::Relaxed) || self.socket.upgrade().is_some_and(|s| has_goodbye(&s))
    }

    fn is_free(&self) -> bool {
        self.socket.upgrade().is_none_or(|socket| socket.has_hung_up())
    }
}

pub(super) struct Lobby {
    changed: AtomicBool,
    pub(super) bell: Doorbell,
    arrivals: Mutex<Vec<Receiver>>,
    seats: Mutex<Vec<Seat>>,
}

impl StreamOutlet {
    pub(in crate::transport) fn new(request: Bind, endpoint: Endpoint, listener: Listener) -> Result<Self> {
        let lobby = Arc::new(Lobby {
            changed: AtomicBool::new(false),
            bell: Doorbell::new()?,
            arrivals: Mutex::default(),
            seats: Mutex::default(),
        });
        let sign = Sign::hang(&request, &endpoint);
        let greeter = StreamGreeter {
            sign: Arc::clone(&sign),
            lobby: Arc::clone(&lobby),
            payload: request.payload,
            keys: endpoint.keys,
            buffer: request.buffer,
            listens: request.scope > Scope::Transport,
        };
        Ok(Self {
            endpoint,
            receivers: Vec::new(),
            lobby,
            frame: AlignedBuffer::default(),
            frame_max: frame_max(request.buffer),
            flusher: None,
            next_sequence: 0,
            in_packet: false,
            timeout: request.send_timeout,
            scope: request.scope,
            stop: request.stop,
            reception: Some(Reception::open(listener, greeter)?),
            _sign: sign,
        })
    }

    /// The sending end of a socket that also has a receiving one.
    pub(in crate::transport) fn of_pair(
        request: Bind,
        endpoint: Endpoint,
        socket: Arc<Socket>,
        connection: &str,
    ) -> Result<Self> {
        let lobby = Lobby {
            changed: AtomicBool::new(false),
            bell: Doorbell::new()?,
            arrivals: Mutex::default(),
            seats: Mutex::default(),
        };
        let sign = Sign::hang(&request, &endpoint);
        let next_sequence = Arc::new(AtomicU64::new(NOTHING_YET));
        let receiver = Receiver {
            waits: sign.enter(
                connection,
                (Overflow::Block, request.watermarks.high(), request.watermarks.high()),
                &socket,
                &next_sequence,
            ),
            has_left: Arc::default(),
            socket,
            connection: connection.into(),
            blocks: true,
            tail: None,
            postponed: Vec::new(),
            follows: false,
            next_sequence,
            dead: false,
            ear: Ear::default(),
            awaited: false,
        };
        Ok(Self {
            endpoint,
            receivers: vec![receiver],
            lobby: Arc::new(lobby),
            frame: AlignedBuffer::default(),
            frame_max: frame_max(request.buffer),
            flusher: None,
            next_sequence: 0,
            in_packet: false,
            timeout: None,
            scope: Scope::Transport,
            stop: request.stop,
            reception: None,
            _sign: sign,
        })
    }

    pub(super) fn bury(&mut self) {
        self.receivers.retain(|receiver| {
            if receiver.dead {
                if receiver.ear.has_left() || has_goodbye(&receiver.socket) {
                    // Relaxed: the lock of the seats orders what matters; seen late, a newcomer is told of a gap.
                    receiver.has_left.store(true, Ordering::Relaxed);
                }
                receiver.socket.close();
            }
            !receiver.dead
        });
    }

    /// Whether the receiver's socket is free for another frame; what was postponed goes first.
    fn settle(&mut self, index: usize) -> bool {
        if !self.receivers[index].settle() {
            return false;
        }
        let postponed = std::mem::take(&mut self.receivers[index].postponed);
        if postponed.is_empty() {
            return true;
        }
        if self.hand_over(index, &postponed).is_err() {
            self.receivers[index].dead = true;
        }
        false
    }

    /// Waits until no receiver that counts has a frame on its way.
    fn await_tails(&mut self, wait: Wait, counts: fn(&Receiver) -> bool) -> Result<()> {
        loop {
            let busy = (0..self.receivers.len())
                .find(|&index| counts(&self.receivers[index]) && !self.settle(index));
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
            let fired = self.receivers[busy].waited_for(|| sleep.until(wait.deadline()))?;
            if !fired {
                return Err(full);
            }
            self.lobby.bell.quiet();
        }
    }

    fn hand_over(&mut self, index: usize, rest: &[u8]) -> Result<()> {
        let flusher = match &self.flusher {
            Some(flusher) => flusher,
            None => self.flusher.insert(Flusher::start(self.lobby.bell.clone())?),
        };
        let receiver = &mut self.receivers[index];
        receiver.tail = Some(flusher.finish(Arc::clone(&receiver.socket), rest));
        Ok(())
    }

    /// Hands over the rest of the frame being sent.
    fn hand_over_from(&mut self, index: usize, sent: usize, bytes: usize) -> Result<()> {
        let rest = self.frame.bytes()[sent..bytes].to_vec();
        self.hand_over(index, &rest)
    }

    /// Sends the next piece of a packet to a receiver that does not block: if it got the beginning, it gets the rest,
    /// too, lest a packet larger than the socket's buffer never arrive. What the socket does not take waits here,
    /// one packet at most.
    fn follow_up(&mut self, index: usize, bytes: usize) {
        let receiver = &mut self.receivers[index];
        if !receiver.follows {
            return;
        }
        let mut sent = 0;
        while sent < bytes && receiver.settle() {
            match (&mut &*receiver.socket).write(&self.frame.bytes()[sent..bytes]) {
                Ok(written) => sent += written,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    receiver.dead = true;
                    return;
                }
            }
        }
        // Relaxed: a hint for the one who comes after it.
        receiver.next_sequence.store(self.next_sequence, Ordering::Relaxed);
        if sent < bytes && self.hand_over_from(index, sent, bytes).is_err() {
            self.receivers[index].dead = true;
        }
    }

    /// Writes what is left of the frame to one receiver as the wait allows; `outcome` is that of the first attempt.
    #[cold]
    fn send_rest(
        &mut self,
        index: usize,
        bytes: usize,
        mut outcome: io::Result<usize>,
        mut wait: Wait,
    ) -> Result<()> {
        let mut sent = 0;
        loop {
            let receiver = &mut self.receivers[index];
            match outcome {
                Ok(written) => sent += written,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !receiver.blocks {
                        // All or nothing: its loss is counted by the receiver from the sequence numbers.
                        return if sent == 0 {
                            receiver.postpone(&self.frame.bytes()[..bytes]);
                            Ok(())
                        } else {
                            self.hand_over_from(index, sent, bytes)
                        };
                    }
                    let stopped = wait.heeds_stop() && self.stop.is_stopped();
                    if stopped || matches!(wait, Wait::Never) {
                        return self.hand_over_from(index, sent, bytes);
                    }
                    if let (Wait::Until(None), Some(timeout)) = (wait, self.timeout) {
                        wait = Wait::within(timeout);
                    }
                    let mut sleep = Sleep::default();
                    sleep.writable(receiver.socket.as_fd());
                    if wait.heeds_stop() {
                        sleep.readable(self.stop.bell().as_fd());
                    }
                    if !receiver.waited_for(|| sleep.until(wait.deadline()))? {
                        return self.hand_over_from(index, sent, bytes);
                    }
                }
                // Broken pipe or reset: the receiver died; what it had is its own loss.
                Err(_) => {
                    receiver.dead = true;
                    return Ok(());
                }
            }
            if sent >= bytes {
                return Ok(());
            }
            let receiver = &self.receivers[index];
            outcome = (&mut &*receiver.socket).write(&self.frame.bytes()[sent..bytes]);
        }
    }
}

impl Receiver {
    /// Whether nothing is on its way to it.
    #[inline]
    fn is_free(&self) -> bool {
        self.tail.is_none() && self.postponed.is_empty()
    }

    /// Whether the socket is free for another frame.
    fn settle(&mut self) -> bool {
        if self.tail.as_ref().is_some_and(|tail| tail.is_done()) {
            self.tail = None;
        }
        self.tail.is_none()
    }

    /// Whether it got the packet published last, or will.
    pub(super) fn has_packet(&self) -> bool {
        self.blocks || self.follows
    }

    /// Sleeps for its sake, for all to see.
    pub(super) fn waited_for<T>(&self, sleep: impl FnOnce() -> T) -> T {
        // Relaxed: a hint for people. Beside it is a system call.
        self.waits.room.store(true, Ordering::Relaxed);
        let slept = sleep();
        self.waits.room.store(false, Ordering::Relaxed);
        slept
    }

    /// Remembers a frame that had no room, if it is one that must not be lost.
    fn postpone(&mut self, frame: &[u8]) {
        match Header::read(frame).and_then(|header| Kind::parse(header.kind)) {
            // No packet goes before what is postponed: of two descriptions, the older describes nothing.
            Some(Kind::Stream) => self.postponed = frame.to_vec(),
            Some(Kind::End) => self.postponed.extend_from_slice(frame),
            Some(Kind::Data) | None => self.follows = false,
        }
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
        self.receivers.iter().filter(|receiver| !receiver.socket.has_hung_up()).count()
    }

    fn is_alone(&self) -> bool {
        self.receivers.is_empty()
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
        for receiver in arrivals {
            // Relaxed: a hint for the one who comes after it.
            receiver.next_sequence.store(self.next_sequence, Ordering::Relaxed);
            self.receivers.push(receiver);
        }
        arrived
    }

    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]> {
        if bytes > self.frame_max {
            return Err(Error::TooLarge { bytes, bytes_max: self.frame_max });
        }
        if !self.in_packet && self.receivers.iter().any(|receiver| receiver.ear.throttled().is_some()) {
            self.await_leave(wait)?;
        }
        if self.receivers.iter_mut().any(|receiver| receiver.blocks && !receiver.settle()) {
            self.await_tails(wait, |receiver| receiver.blocks)?;
        }
        self.frame.grow(bytes.next_multiple_of(16));
        Ok(&mut self.frame.bytes_mut()[..bytes])
    }

    fn reserve_at_hand(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let is_free = |receiver: &Receiver| {
            receiver.is_free() && receiver.ear.throttled().is_none_or(flow::Sender::may_send_unheard)
        };
        // Relaxed: the lock that `admit` takes orders the rest.
        let is_at_hand = bytes <= self.frame_max
            && !self.lobby.changed.load(Ordering::Relaxed)
            && self.receivers.iter().all(is_free);
        if !is_at_hand {
            return None;
        }
        self.frame.grow(bytes.next_multiple_of(16));
        Some(&mut self.frame.bytes_mut()[..bytes])
    }

    fn reserved(&mut self) -> &mut [u8] {
        self.frame.bytes_mut()
    }

    fn publish(&mut self, bytes: usize, wait: Wait) -> Result<()> {
        let whole = bytes.next_multiple_of(16);
        if bytes < whole {
            self.frame.bytes_mut()[bytes..whole].fill(0);
        }
        let outline = Header::outline(self.frame.bytes());
        self.next_sequence = outline.next_sequence();
        let continued = outline.flags & Header::CONTINUED != 0;
        self.in_packet = outline.flags & Header::MORE != 0;
        let is_packet = !continued && outline.kind == Kind::Data as u8;
        let mut outcome = Ok(());
        for index in 0..self.receivers.len() {
            if continued && !self.receivers[index].blocks {
                self.follow_up(index, whole);
                continue;
            }
            let receiver = &mut self.receivers[index];
            receiver.follows = true;
            if !receiver.is_free() && !self.settle(index) {
                self.receivers[index].postpone(&self.frame.bytes()[..whole]);
                continue;
            }
            let receiver = &mut self.receivers[index];
            receiver.next_sequence.store(self.next_sequence, Ordering::Relaxed);
            if let Some(throttle) = receiver.ear.throttle().filter(|_| is_packet) {
                throttle.send();
            }
            match (&mut &*receiver.socket).write(&self.frame.bytes()[..whole]) {
                Ok(sent) if sent == whole => {}
                first => outcome = self.send_rest(index, whole, first, wait).and(outcome),
            }
        }
        if self.receivers.iter().any(|receiver| receiver.dead) {
            self.bury();
        }
        outcome
    }

    fn cancel(&mut self) {}

    fn confirms(&self, scope: Scope) -> Result<()> {
        if self.scope > Scope::Transport {
            return Ok(());
        }
        // Who reads the socket for the component was settled when the connection was made.
        Err(Error::Unsupported {
            transport: self.endpoint.transport.clone(),
            rule: format!(
                "scope {scope} for a packet of a connection of scope {} (who takes packets off the socket was settled when \
                 it was made)",
                self.scope
            ),
            alternatives: format!("give the connection scope {scope}, and the other packets a weaker one"),
        })
    }

    fn confirm(&mut self, awaited: &Awaited) -> Result<()> {
        self.await_answers(awaited)
    }

    fn held_by(&self, connection: &str) -> Option<(Flow, Duration)> {
        let receiver = self.receivers.iter().find(|receiver| receiver.connection == connection)?;
        let throttle = receiver.ear.throttled()?;
        let since_ns = now_ns().saturating_sub(throttle.held_since()?);
        Some((throttle.flow(), Duration::from_nanos(since_ns)))
    }

    fn flush(&mut self, wait: Wait) -> Result<()> {
        self.await_tails(wait, |_| true)?;
        self.await_late_answers(wait)
    }
}

impl Drop for StreamOutlet {
    fn drop(&mut self) {
        self.reception = None;
        let end = Header::read(self.frame.bytes()).filter(|header| header.kind == Kind::End as u8);
        let before = self.receivers.len();
        if self.admit()
            && let Some(end) = end
        {
            // Who came after the end must still hear of it. A fresh socket has room for it.
            for receiver in &self.receivers[before..] {
                let _ = (&mut &*receiver.socket).write(bytemuck::bytes_of(&end));
            }
        }
        if let Some(flusher) = self.flusher.take() {
            flusher.stop();
        }
    }
}

struct StreamGreeter {
    sign: Arc<Sign>,
    lobby: Arc<Lobby>,
    payload: TypeName,
    keys: [u64; 2],
    buffer: u32,
    listens: bool,
}

impl Greeter for StreamGreeter {
    fn greet(&mut self, hello: Hello, socket: &Socket, _: Vec<OwnedFd>) -> Result<Option<u64>, String> {
        hello.check(self.keys[0], &self.payload)?;
        let resume_from = self.take_seat(&hello.connection);
        let welcome = Welcome::new(self.keys[1], resume_from, self.buffer);
        let answer = Answer::Welcome(Welcome { listens: self.listens, ..welcome });
        let bytes = handshake::encode(&answer).map_err(|e| e.to_string())?;
        let kept = Arc::new(socket.try_clone().map_err(|e| e.to_string())?);
        let next_sequence = Arc::new(AtomicU64::new(NOTHING_YET));
        // Flag and lock first: once the receiver has its answer, it gets the very next packet.
        let mut arrivals = lock(&self.lobby.arrivals);
        // Release: pairs with the writer's look, which then takes the lock.
        self.lobby.changed.store(true, Ordering::Release);
        (&mut &*socket).write_all(&bytes).map_err(|e| e.to_string())?;
        let throttle = hello.throttle();
        let (connection, its) = (hello.connection.clone(), Arc::clone(&next_sequence));
        let has_left = Arc::new(AtomicBool::new(false));
        lock(&self.lobby.seats).push(Seat {
            connection,
            socket: Arc::downgrade(&kept),
            next_sequence: its,
            has_left: Arc::clone(&has_left),
        });
        let terms = (hello.overflow, hello.depth, hello.marks().high());
        let waits = self.sign.enter(&hello.connection, terms, &kept, &next_sequence);
        arrivals.push(Receiver {
            socket: kept,
            connection: hello.connection,
            blocks: hello.overflow == Overflow::Block,
            tail: None,
            postponed: Vec::new(),
            follows: false,
            next_sequence,
            dead: false,
            ear: Ear::with(throttle),
            awaited: false,
            has_left,
            waits,
        });
        drop(arrivals);
        self.lobby.bell.ring();
        Ok(None)
    }

    fn gone(&mut self, _: u64) {}
}

impl StreamGreeter {
    /// If a receiver of that connection is gone: where the one who comes in its place goes on.
    fn take_seat(&self, connection: &str) -> Option<u64> {
        let mut seats = lock(&self.lobby.seats);
        seats.retain(|seat| !(seat.is_free() && seat.is_given_up()));
        let free = seats.iter().position(|seat| seat.connection == connection && seat.is_free());
        let next = free.map(|index| seats.remove(index).next_sequence.load(Ordering::Relaxed));
        if seats.len() >= SEATS_MAX
            && let Some(oldest) = seats.iter().position(Seat::is_free)
        {
            seats.remove(oldest);
        }
        next.filter(|next| *next != NOTHING_YET)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are whole whatever happened to the last holder.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
