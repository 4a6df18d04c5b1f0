//! The receiving end: what the servant does, and where the port reads.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::credit::{CreditPlace, CreditSender};
use super::{BYTES_MAX, CorbaTicket, END, LOW_CHARGE, PROBE, charge};
use crate::error::Result;
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::corba::{CallBytes, CallReceiver, CallServer};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::fork::Local;
use crate::sys::mutex::lock;
use crate::sys::running_limit::RunningLimit;
use crate::sys::scoped_call::CallSlot;
use crate::sys::transit_page::TransitPage;
use crate::transport::carrier::{PathSource, violation};

/// How long what a living sender has handed over is waited for. It takes some microseconds.
const SENT_TIME: Duration = Duration::from_millis(100);
/// How long what a dead sender had given to the kernel is waited for.
const END_TIME: Duration = Duration::from_secs(2);
/// How often the connection of a sender on another host is examined meanwhile.
const END_PERIOD: Duration = Duration::from_millis(10);
/// Memory of calls that is kept for others.
const KEPT_MAX: usize = 16;
/// Calls that may come before one with a lower number: more than omniORB has threads for one
/// connection.
const EARLY_MAX: u64 = 4096;

thread_local! {
    /// Whether this thread is one of omniORB, and runs the port's code.
    static CALLS_BACK: Cell<bool> = const { Cell::new(false) };
}

/// The receiving end.
pub(super) struct CorbaSource {
    /// Dropped first: the servant.
    _server: Local<CallServer>,
    shared: Arc<Local<CallTaker>>,
    /// The call that is read. Also kept by the buffer of the port, while that uses it.
    current: Arc<Current>,
    /// Its bytes that were not read: from there to its end.
    rest: Range<usize>,
    /// Calls taken, in all.
    calls: u64,
    /// The frames in transit at which a sender that waits goes on.
    low: u64,
    /// Whether what the sender has handed over is waited for: a call does not begin before its
    /// cancellation, which was sent, is read.
    awaits_sent: bool,
    /// Whether that has not come in time, and nothing since.
    is_late: bool,
    /// Rings of the doorbell that were drained.
    rings: u64,
}

/// The call that is read. Only the source changes it, and not while a buffer uses it.
#[derive(Default)]
struct Current(Mutex<Option<Box<CallBytes>>>);

/// The parts of a receiving end.
pub(super) struct CallEnds {
    pub page: TransitPage,
    /// The sender's.
    pub doorbell: Doorbell,
    /// Calls to a sender on another host, which has neither.
    pub credits: Option<CreditSender>,
    pub awaits_sent: bool,
}

/// The part that servants and the source share.
struct CallTaker {
    queue: Mutex<CallQueue>,
    /// Rung when a call has come while the end is awaited.
    changed: Condvar,
    /// Rung when a call has come, for a port that sleeps.
    arrivals: Doorbell,
    slot: Arc<CallSlot>,
    page: TransitPage,
    /// The sender's.
    doorbell: Doorbell,
    /// Calls to a sender on another host.
    credits: Option<CreditSender>,
    key: u64,
    calls_max: usize,
}

#[derive(Default)]
struct CallQueue {
    /// In order, with the frames up to their ends.
    ready: VecDeque<(Box<CallBytes>, u64)>,
    /// Those that have overtaken others.
    early: BTreeMap<u64, (Box<CallBytes>, u64)>,
    /// The number of the call that `ready` gets next: how many it has got.
    next: u64,
    /// Calls that have come, in all, and what they took of the kernel's buffer.
    arrived: u64,
    received: u64,
    /// The calls that a sender on another host has made, once it has ended.
    end: Option<u64>,
    /// The boxes of calls: omniORB has their addresses.
    #[allow(clippy::vec_box, reason = "they are given out as boxes")]
    kept: Vec<Box<CallBytes>>,
    /// Whether the port sleeps, or is about to.
    sleeps: bool,
    /// Rings of the doorbell, done or about to be.
    rings: u64,
    /// Whether a thread waits for calls in `await_sent`.
    is_awaited: bool,
    /// Whether the sender has broken a rule.
    is_broken: bool,
}

impl CallQueue {
    /// Keeps memory for another call.
    fn keep(&mut self, call: Box<CallBytes>) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(call);
        }
    }

    /// Puts a call in its place; true: one more is in order.
    fn place(&mut self, call: Box<CallBytes>, number: u64, frames: u64) -> bool {
        if number != self.next {
            if number > self.next + EARLY_MAX {
                self.is_broken = true;
            } else if number > self.next && !self.early.contains_key(&number) {
                self.early.insert(number, (call, frames));
            } else {
                // omniORB sends a call again where it may not have been read.
                self.keep(call);
            }
            return self.is_broken;
        }
        self.ready.push_back((call, frames));
        self.next += 1;
        while let Some(following) = self.early.remove(&self.next) {
            self.ready.push_back(following);
            self.next += 1;
        }
        true
    }
}

impl CallReceiver for Local<CallTaker> {
    fn place(
        &self,
        key: u64,
        number: u64,
        bytes: usize,
        connection: Option<BorrowedFd<'_>>,
    ) -> Option<Box<CallBytes>> {
        let bytes_max = match (number, &self.credits) {
            (PROBE, Some(_)) => CreditPlace::BYTES_MAX,
            (PROBE | END, _) => 0,
            _ => BYTES_MAX as usize,
        };
        if key != self.key || bytes > bytes_max {
            return None;
        }
        if let (Some(connection), Some(credits)) = (connection, &self.credits) {
            credits.set_connection(connection);
        }
        let mut queue = lock(&self.queue);
        if queue.is_broken || queue.ready.len() + queue.early.len() > self.calls_max + EARLY_MAX as usize {
            queue.is_broken = true;
            return None;
        }
        let mut call = queue.kept.pop().unwrap_or_default();
        drop(queue);
        call.set_len(bytes);
        Some(call)
    }

    fn arrived(&self, call: Box<CallBytes>, number: u64, frames: u64) {
        let mut queue = lock(&self.queue);
        if number == PROBE {
            drop(queue);
            match &self.credits {
                Some(credits) => credits.answer(call.as_slice()),
                None => {
                    self.page.set_connected();
                    self.doorbell.notify();
                }
            }
            return self.abandoned(call);
        }
        if number == END {
            queue.keep(call);
            queue.end = Some(frames);
            return self.changed.notify_all();
        }
        queue.arrived += 1;
        queue.received += charge(call.as_slice().len());
        let has_room = self.page.set_received(queue.received, LOW_CHARGE);
        let is_ready = queue.place(call, number, frames);
        // A ring is a system call.
        let is_awaited = std::mem::take(&mut queue.is_awaited);
        let received = queue.received;
        drop(queue);
        if has_room {
            self.doorbell.notify();
        }
        if is_awaited {
            self.changed.notify_all();
        }
        if is_ready && !self.call_back() {
            self.ring();
        }
        if let Some(credits) = &self.credits {
            credits.send(None, received, false);
        }
    }

    fn abandoned(&self, call: Box<CallBytes>) {
        lock(&self.queue).keep(call);
    }
}

impl CallTaker {
    /// Waits until a call is in order, or all that the sender has handed over has come; true:
    /// neither in that time. A thread of omniORB does not wait: it may be the one to bring it.
    fn await_sent<'a>(
        &'a self,
        mut queue: MutexGuard<'a, CallQueue>,
        longest: Duration,
    ) -> (MutexGuard<'a, CallQueue>, bool) {
        let mut limit = None;
        while queue.ready.is_empty() && !queue.is_broken && self.page.messages() > queue.arrived {
            let limit = limit.get_or_insert_with(|| RunningLimit::new(longest));
            let Some(left) = limit.next_wait().filter(|_| !CALLS_BACK.get()) else { return (queue, true) };
            queue.is_awaited = true;
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        (queue, false)
    }

    /// Waits until a call is in order, or all has come that the connection to another host had;
    /// true: neither in that time. A thread of omniORB does not wait.
    fn await_close(&self, credits: &CreditSender) -> bool {
        let mut limit = RunningLimit::new(END_TIME);
        let mut queue = lock(&self.queue);
        // What was read from a connection that has ended is on a thread of omniORB.
        let mut quiet: Option<(u64, Instant)> = None;
        loop {
            let has_all = queue.end.is_some_and(|calls| queue.next >= calls);
            if has_all || queue.is_broken || !queue.ready.is_empty() {
                return false;
            }
            let now = Instant::now();
            match quiet {
                Some((arrived, since)) if arrived == queue.arrived => {
                    if now.duration_since(since) >= SENT_TIME {
                        return false;
                    }
                }
                _ => quiet = credits.has_closed().then_some((queue.arrived, now)),
            }
            if CALLS_BACK.get() || limit.next_wait().is_none() {
                return true;
            }
            queue.is_awaited = true;
            let waited = self.changed.wait_timeout(queue, END_PERIOD);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wakes a port that sleeps.
    fn ring(&self) {
        let mut queue = lock(&self.queue);
        if std::mem::take(&mut queue.sleeps) {
            queue.rings += 1;
            drop(queue);
            self.arrivals.notify();
        }
    }

    /// Runs what waits for calls; false: nothing does, and the doorbell has to ring.
    fn call_back(&self) -> bool {
        let before = CALLS_BACK.replace(true);
        let is_called = self.slot.call();
        CALLS_BACK.set(before);
        is_called
    }
}

impl CorbaSource {
    /// Activates the servant of a ticket.
    pub(super) fn new(ticket: &CorbaTicket, ends: CallEnds) -> Result<Self> {
        let CallEnds { page, doorbell, credits, awaits_sent } = ends;
        let shared = CallTaker {
            queue: Mutex::default(),
            changed: Condvar::new(),
            arrivals: Doorbell::new()?,
            slot: Arc::default(),
            page,
            doorbell,
            credits,
            key: ticket.key,
            calls_max: usize::try_from(ticket.calls_max()).unwrap_or(usize::MAX / 2),
        };
        let shared = Arc::new(Local::new(shared));
        let server = CallServer::new(&ticket.object, &shared)?;
        Ok(Self {
            _server: Local::new(server),
            shared,
            current: Arc::default(),
            rest: 0..0,
            calls: 0,
            low: ticket.low(),
            awaits_sent,
            is_late: false,
            rings: 0,
        })
    }

    /// Takes the next call, in place of the last one.
    fn next_call(&mut self) -> io::Result<()> {
        let mut queue = lock(&self.shared.queue);
        queue.sleeps = false;
        if queue.rings != self.rings {
            // One that has not rung yet is drained the next time.
            self.rings += self.shared.arrivals.drain_counted();
        }
        if self.awaits_sent && !self.is_late && queue.ready.is_empty() {
            (queue, self.is_late) = self.shared.await_sent(queue, SENT_TIME);
        }
        if let Some((call, frames)) = queue.ready.pop_front() {
            self.is_late = false;
            self.rest = 0..call.as_slice().len();
            if let Some(last) = lock(&self.current.0).replace(call) {
                queue.keep(last);
            }
            let received = queue.received;
            drop(queue);
            self.calls += 1;
            if self.shared.page.set_taken(frames, self.calls, self.low) {
                self.shared.doorbell.notify();
            }
            if let Some(credits) = &self.shared.credits {
                credits.send(Some([frames, self.calls]), received, false);
            }
            return Ok(());
        }
        if queue.is_broken {
            return Err(violation("sent calls that the receiver has no room for"));
        }
        if let Some(credits) = &self.shared.credits {
            let received = queue.received;
            drop(queue);
            credits.send(None, received, true);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn check_process(&self) -> io::Result<()> {
        if self.shared.is_current() { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

impl PathSource for CorbaSource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.check_process()?;
        while self.rest.is_empty() {
            self.next_call()?;
        }
        let current = lock(&self.current.0);
        let rest = current.as_ref().map_or(&[][..], |call| &call.as_slice()[self.rest.clone()]);
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.rest.start += bytes;
        Ok(bytes)
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    fn read_in_place(&mut self, buffer: &mut AlignedBuffer) -> io::Result<Range<usize>> {
        self.check_process()?;
        if !self.rest.is_empty() {
            // The port has read a part of it before.
            buffer.take_back();
            buffer.grow(AlignedBuffer::FRONT + BYTES_MAX as usize);
            let first = AlignedBuffer::FRONT;
            let read = self.read(&mut buffer.bytes_mut()[first..])?;
            return Ok(first..first + read);
        }
        while self.rest.is_empty() {
            self.next_call()?;
        }
        let current = lock(&self.current.0);
        let call = current.as_ref().ok_or(io::ErrorKind::WouldBlock)?;
        let (lines, bytes) = (call.lines(), call.as_slice().len());
        // SAFETY: the call stays where it is until the next one takes its place. That is here, or
        // in `read`, before which the buffer was taken back. `self.current` keeps it. An inlet does
        // not write to what is lent.
        unsafe { buffer.lend(NonNull::from(lines).cast(), lines.len(), &self.current) };
        self.rest = bytes..bytes;
        let first = AlignedBuffer::FRONT;
        Ok(first..first + bytes)
    }

    fn room_needed(&self) -> usize {
        BYTES_MAX as usize
    }

    fn await_end(&mut self) -> bool {
        if !self.shared.is_current() {
            return true;
        }
        let is_late = match &self.shared.credits {
            Some(credits) => self.shared.await_close(credits),
            None => self.shared.await_sent(lock(&self.shared.queue), END_TIME).1,
        };
        !is_late || !CALLS_BACK.get()
    }

    fn bytes(&self) -> BorrowedFd<'_> {
        self.shared.arrivals.as_fd()
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        poll_set.readable(self.shared.arrivals.as_fd());
        if !self.shared.is_current() {
            return true;
        }
        let mut queue = lock(&self.shared.queue);
        queue.sleeps = queue.ready.is_empty() && !queue.is_broken;
        queue.sleeps
    }

    fn is_filled_by_threads(&self) -> bool {
        true
    }

    fn call_slot(&self) -> Option<&Arc<CallSlot>> {
        Some(&self.shared.slot)
    }
}
