//! The receiving end: the servant, which enqueues calls, and the source, from which the port reads.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stripline::Result;
use stripline::carrier::fork::Local;
use stripline::carrier::mutex::lock;
use stripline::carrier::running_limit::RunningLimit;
use stripline::carrier::scoped_call::CallSlot;
use stripline::carrier::{Doorbell, PathSource, PollSet, ReadRoom, ReadWait, Source, violation};

use super::credit::{CreditPlace, CreditSender};
use super::{BYTES_MAX, CorbaTicket, END, LOW_CHARGE, PROBE, charge};
use crate::corba::orb::{CallBytes, CallReceiver, CallServer};
use crate::transit::TransitPage;

/// The longest wait for calls that a living sender has handed over. Such calls take some
/// microseconds.
const SENT_TIME: Duration = Duration::from_millis(100);
/// The longest wait for calls that a dead sender had given to the kernel.
const END_TIME: Duration = Duration::from_secs(2);
/// The interval at which the connection of a sender on another host is examined during that wait.
const END_PERIOD: Duration = Duration::from_millis(10);
/// The most memory of calls, in calls, that is kept for later calls.
const KEPT_MAX: usize = 16;
/// The most calls that may come before a call with a lower number: more than omniORB has threads
/// for one connection.
const EARLY_MAX: u64 = 4096;

thread_local! {
    /// Whether this thread belongs to omniORB and runs the port's code.
    static CALLS_BACK: Cell<bool> = const { Cell::new(false) };
}

/// The receiving end.
pub(super) struct CorbaSource {
    /// The servant, which is dropped first.
    _server: Local<CallServer>,
    shared: Arc<Local<CallTaker>>,
    /// The call that is being read. The port's buffer also keeps it, while it uses the memory of
    /// the call.
    current: Arc<Current>,
    /// The unread bytes of the call.
    rest: Range<usize>,
    /// The calls taken, in total.
    calls: u64,
    /// The frames in transit at which a waiting sender resumes.
    low: u64,
    /// Whether to wait for calls that the sender has handed over. A call of an operation then does
    /// not begin before a cancellation that was sent is read.
    awaits_sent: bool,
    /// Whether the last such wait ended without a call, and no call has arrived since.
    is_late: bool,
    /// The rings of the doorbell that were drained.
    rings: u64,
}

/// The call that is being read. Only the source changes it, and not while a buffer uses it.
#[derive(Default)]
struct Current(Mutex<Option<Box<CallBytes>>>);

/// The parts of a receiving end.
pub(super) struct CallEnds {
    pub page: TransitPage,
    /// The sender's doorbell.
    pub doorbell: Doorbell,
    /// The credits to a sender on another host. Such a sender shares neither page nor doorbell.
    pub credits: Option<CreditSender>,
    pub awaits_sent: bool,
}

/// The part of the receiving end that the servant and the source share.
struct CallTaker {
    queue: Mutex<CallQueue>,
    /// Notified when a call arrives while a thread waits for calls.
    changed: Condvar,
    /// Rung when a call arrives, for a port that sleeps.
    arrivals: Doorbell,
    slot: Arc<CallSlot>,
    page: TransitPage,
    /// The sender's doorbell.
    doorbell: Doorbell,
    /// The credits to a sender on another host.
    credits: Option<CreditSender>,
    key: u64,
    calls_max: usize,
}

#[derive(Default)]
struct CallQueue {
    /// Calls in order, each with the frame count up to the end of the call.
    ready: VecDeque<(Box<CallBytes>, u64)>,
    /// Calls that have overtaken others.
    early: BTreeMap<u64, (Box<CallBytes>, u64)>,
    /// The number of the call that `ready` gets next, which is also the number of calls it has got.
    next: u64,
    /// The calls that have arrived, in total, and their charges of the kernel's buffer.
    arrived: u64,
    received: u64,
    /// The number of calls that a sender on another host has made, set once the sender has ended.
    end: Option<u64>,
    /// Memory of calls, in boxes, because omniORB has the addresses.
    #[allow(clippy::vec_box, reason = "they are given out as boxes")]
    kept: Vec<Box<CallBytes>>,
    /// Whether the port sleeps, or is about to.
    sleeps: bool,
    /// Rings of the doorbell, done or about to be done.
    rings: u64,
    /// Whether a thread waits for calls, in `await_sent` or `await_close`.
    is_awaited: bool,
    /// Whether the sender has broken a rule.
    is_broken: bool,
}

impl CallQueue {
    /// Keeps the memory of a call for another one.
    fn keep(&mut self, call: Box<CallBytes>) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(call);
        }
    }

    /// Puts a call in its place. Returns true if a further call is in order, or the sender has
    /// broken a rule.
    fn place(&mut self, call: Box<CallBytes>, number: u64, frames: u64) -> bool {
        if number != self.next {
            if number > self.next + EARLY_MAX {
                self.is_broken = true;
            } else if number > self.next && !self.early.contains_key(&number) {
                self.early.insert(number, (call, frames));
            } else {
                // omniORB sends a call again if the first attempt may not have been read.
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
        // Ring only if it is needed: a ring is a system call.
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
    /// Waits until a call is in order, or all calls that the sender has handed over have arrived.
    /// Returns true if neither happens in time. A thread of omniORB does not wait, because the
    /// missing call may have to arrive on this thread.
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

    /// Waits until a call is in order, or all calls on the connection to another host have
    /// arrived. Returns true if neither happens in time. A thread of omniORB does not wait.
    fn await_close(&self, credits: &CreditSender) -> bool {
        let mut limit = RunningLimit::new(END_TIME);
        let mut queue = lock(&self.queue);
        // After a connection has ended, the bytes read from it may still be on a thread of omniORB.
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

    /// Runs the code that waits for calls. Returns false if no code waits, so that the doorbell has
    /// to ring.
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
            // A ring that is still to come is drained the next time.
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

impl CorbaSource {
    /// Waits, after the sender has hung up, until no more calls can come. Returns false if this
    /// thread cannot wait, because it is a thread of omniORB that brings the calls.
    fn await_end(&self) -> bool {
        let is_late = match &self.shared.credits {
            Some(credits) => self.shared.await_close(credits),
            None => self.shared.await_sent(lock(&self.shared.queue), END_TIME).1,
        };
        !is_late || !CALLS_BACK.get()
    }
}

impl PathSource for CorbaSource {
    fn read(&mut self, room: &mut ReadRoom<'_>, wait: ReadWait) -> io::Result<usize> {
        self.check_process()?;
        if wait == ReadWait::Rest && !self.await_end() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // The port may already have read a part of the current call.
        let is_cut = !self.rest.is_empty();
        while self.rest.is_empty() {
            self.next_call()?;
        }
        let current = lock(&self.current.0);
        let call = current.as_ref().ok_or(io::ErrorKind::WouldBlock)?;
        if room.may_lend() && !is_cut {
            let (lines, bytes) = (call.lines(), call.as_slice().len());
            // SAFETY: the memory must stay valid, in place and unchanged until the next read.
            // `self.current` keeps the call until the next call takes its place, which happens only
            // here.
            unsafe { room.lend(NonNull::from(lines).cast(), lines.len(), &self.current) };
            self.rest = bytes..bytes;
            return Ok(bytes);
        }
        let rest = &call.as_slice()[self.rest.clone()];
        let into = room.bytes();
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.rest.start += bytes;
        Ok(bytes)
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
}

impl From<CorbaSource> for Source {
    fn from(end: CorbaSource) -> Self {
        let call_slot = Some(Arc::clone(&end.shared.slot));
        let room_needed = BYTES_MAX as usize;
        Self { is_in_memory: true, is_filled_by_threads: true, room_needed, call_slot, ..Self::new(end) }
    }
}
