//! A client's connection to one server. Any number of threads call over the connection. A leader
//! among the waiting threads receives for all (the Leader/Followers pattern; Schmidt et al., 2000).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::link::{Incoming, LatencyReport, Outgoing, Polled, PortEvents, RawLatencies};
use crate::node::{OfferConsumer, Reconnector};
use crate::sys::fork::Local;
use crate::sys::mutex::{lock, try_lock};
use crate::transport::{Endpoint, Interrupt, Wait};

use super::Operation;
use super::chain;
use super::client_ready::ClientReady;
use super::deadline::CallDeadline;
use super::error::Refusal;
use super::pending::{PendingCalls, ReplyOutcome, WaitOutcome};
use super::wire::{CHAIN_MAX, HEAD_BYTES, WireReply, call_words, cancel, put_head, put_message};

/// The interval at which a follower checks for a missed wake-up. A wake-up can be missed because
/// the receiver role is handed over without a fence.
pub(super) const RECHECK_INTERVAL: Duration = Duration::from_millis(10);
/// A number that belongs to no call.
const NO_CALL: u64 = u64::MAX;
/// The interval at which a thread checks for replies to abandoned calls while another thread
/// receives.
const LATE_POLL: Duration = Duration::from_micros(100);
/// The number of calls between two checks for replies to abandoned calls.
const CALLS_PER_DRAIN: u64 = 64;

#[derive(Default)]
pub(super) struct ServerConnection {
    is_alive: AtomicBool,
    /// The hash of the server's name.
    hash: AtomicU64,
    sender: Mutex<Option<RequestSender>>,
    receiver: Mutex<Option<Incoming>>,
    /// The events of the receiver, for threads that do not hold it.
    events: Mutex<Weak<PortEvents>>,
    /// Present since the first server.
    pending: OnceLock<PendingCalls>,
    /// The number of threads that wait for a reply while another thread receives.
    followers: AtomicU32,
    queue: Mutex<VecDeque<u64>>,
    /// The name of the server for display.
    label: Mutex<Arc<str>>,
    ready: Arc<ClientReady>,
}

/// A server that a client calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerReport {
    /// The server's name.
    pub server: String,
    /// Whether the server is connected, as far as the client has detected.
    pub connected: bool,
    /// Calls that are outstanding, or answered but not yet taken.
    pub outstanding: u64,
    /// Replies that arrived after the calls were abandoned.
    pub late: u64,
    /// Round trips of calls, in nanoseconds. The options of the topic with the service's name set
    /// whether every call or an unbiased sample is measured.
    pub round_trips: LatencyReport,
    /// The operations of the server. Empty when the server is not connected.
    pub operations: Vec<Operation>,
}

/// The state of the sending thread.
pub(super) struct RequestSender {
    pub outgoing: Outgoing,
    /// The number at this server of each operation of the client, or the reason why the operation
    /// is missing.
    pub operations: Vec<Result<u16, (Refusal, String)>>,
    /// All operations of the server.
    pub offered: Vec<Operation>,
    /// The number of the server, for chains.
    pub server: u64,
    pub next_slot: usize,
    /// A guard that reconnects to the server when it is dropped.
    pub _reconnect: Local<ReconnectOnDrop>,
}

/// A guard that reconnects a client when it is dropped, if the server is still offered.
pub(super) struct ReconnectOnDrop {
    pub reconnector: Reconnector,
    pub consumer: Weak<dyn OfferConsumer>,
    pub endpoint: Endpoint,
}

impl Drop for ReconnectOnDrop {
    fn drop(&mut self) {
        if let Some(consumer) = self.consumer.upgrade() {
            self.reconnector.connect(&consumer, &self.endpoint);
        }
    }
}

/// The reason why a call could not be started.
pub(super) enum SendError {
    /// The server has gone. The client may try another server.
    Closed,
    TooMany,
    Refused(Refusal, String),
    Full,
    Link(Error),
}

impl ServerConnection {
    /// Returns a connection without a server, for the client with the given descriptor.
    pub(super) fn new(ready: Arc<ClientReady>) -> Self {
        Self { ready, ..Self::default() }
    }

    /// Returns whether a server is connected, as far as has been detected.
    pub(super) fn is_alive(&self) -> bool {
        // Relaxed: a thread that reads an old value finds under the lock that the sender is gone.
        self.is_alive.load(Ordering::Relaxed)
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash.load(Ordering::Relaxed)
    }

    /// Returns the name of the server for display.
    pub(super) fn label(&self) -> Arc<str> {
        Arc::clone(&lock(&self.label))
    }

    pub(super) fn report(&self) -> ServerReport {
        self.drain_late();
        let pending = self.pending.get();
        let round_trips = pending.map(|pending| RawLatencies(pending.round_trips.pairs()).percentiles());
        ServerReport {
            server: self.label().to_string(),
            connected: self.is_alive(),
            outstanding: pending.map_or(0, |pending| pending.outstanding() as u64),
            late: pending.map_or(0, PendingCalls::late_replies),
            round_trips: round_trips.unwrap_or_default(),
            operations: self.with_sender(|sender| sender.offered.clone()).unwrap_or_default(),
        }
    }

    /// Takes both ends of a connection. Returns false and leaves the ends if there is a connection
    /// already.
    pub(super) fn connect(
        &self,
        ends: &mut Option<(RequestSender, Incoming)>,
        server: &str,
        outstanding: u32,
    ) -> bool {
        if self.is_alive() {
            return false;
        }
        self.pending.get_or_init(|| PendingCalls::new(outstanding));
        // The receiver is locked first, because a receiving thread locks the sender after it.
        let Some(mut receiver) = try_lock(&self.receiver) else { return false };
        if receiver.is_some() {
            // Cleans up the remains of a server that has gone.
            let _ = self.lead(&mut receiver, NO_CALL, None, &mut |_| ());
        }
        let mut place = lock(&self.sender);
        if place.is_some() || receiver.is_some() {
            return false;
        }
        (*place, *receiver) = ends.take().unzip();
        *lock(&self.events) =
            receiver.as_ref().map_or_else(Weak::new, |receiver| Arc::downgrade(&receiver.port_events()));
        *lock(&self.label) = server.chars().take(64).collect::<String>().into();
        let hash = server.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.hash.store(hash, Ordering::Relaxed);
        // Release: a thread that sees this finds the rest behind the lock.
        self.is_alive.store(true, Ordering::Release);
        true
    }

    /// Calls a function with the sender, if there is one.
    pub(super) fn with_sender<R>(&self, act: impl FnOnce(&mut RequestSender) -> R) -> Option<R> {
        lock(&self.sender).as_mut().map(act)
    }

    /// Sends a call and returns the number of the call. Blocks while there is no room.
    pub(super) fn start(
        &self,
        operation: usize,
        payload: &[u8],
        call_deadline: &mut CallDeadline,
    ) -> Result<u64, SendError> {
        let Some(pending) = self.pending.get() else { return Err(SendError::Closed) };
        if pending.too_many_abandoned() {
            self.wait_abandoned(pending, call_deadline)?;
        }
        let mut sender = lock(&self.sender);
        let Some(requests) = sender.as_mut() else { return Err(SendError::Closed) };
        // The sender has an entry for each operation that the client has registered.
        let operation_number = match &requests.operations[operation] {
            Ok(number) => *number,
            Err((refusal, reason)) => return Err(SendError::Refused(*refusal, reason.clone())),
        };
        let number = pending.allocate(&mut requests.next_slot).ok_or(SendError::TooMany)?;
        fail_point!("call-numbered");
        let sent_ns = requests.outgoing.reserve_timestamp();
        if sent_ns != 0 {
            pending.set_sent(number, sent_ns);
        }
        let sent = chain::with(|chain| {
            let links = chain::length(chain);
            if links > CHAIN_MAX {
                let reason = format!("a chain of more than {CHAIN_MAX} nested calls");
                return Err(SendError::Refused(Refusal::Cycle, reason));
            }
            if links > 0 && chain::is_exhausted(chain, requests.server) {
                let reason = "the server waits in this same chain of nested calls".to_string();
                return Err(SendError::Refused(Refusal::Cycle, reason));
            }
            let words = call_words(number, operation_number, links as u8, call_deadline.deadline_us());
            let sent = match put(&mut requests.outgoing, words, chain.0, payload, Wait::Never) {
                Err(Error::Full { .. } | Error::TooLarge { .. }) => {
                    requests.outgoing.cancel_timestamp();
                    let wait = Wait::Until(Some(call_deadline.until()));
                    put(&mut requests.outgoing, words, chain.0, payload, wait)
                }
                outcome => outcome,
            };
            sent.map_err(|error| match error {
                Error::Full { .. } => SendError::Full,
                error => SendError::Link(error),
            })
        });
        match sent {
            Ok(()) if !requests.outgoing.has_no_receivers() => {
                fail_point!("call-sent");
                drop(sender);
                if pending.abandoned() > 0 && (number >> 16).is_multiple_of(CALLS_PER_DRAIN) {
                    self.drain_late();
                }
                Ok(number)
            }
            Ok(()) => {
                pending.free(number);
                // No more calls go to this server. Replies that have been sent can still be
                // received, followed by the end.
                self.is_alive.store(false, Ordering::Relaxed);
                let requests = sender.take();
                drop(sender);
                drop(requests);
                Err(SendError::Closed)
            }
            Err(error) => {
                requests.outgoing.cancel_timestamp();
                pending.free(number);
                Err(error)
            }
        }
    }

    /// Waits for the reply to a call and passes it to `read`.
    pub(super) fn wait(
        &self,
        number: u64,
        call_deadline: &mut CallDeadline,
        interrupt: &Interrupt,
        mut read: impl FnMut(WireReply<'_>),
    ) -> WaitOutcome {
        loop {
            if let Err(error) = interrupt.take(true) {
                return WaitOutcome::Link(error);
            }
            if let Some(outcome) = self.try_lead(number, Some(call_deadline), &mut read) {
                return outcome;
            }
            let (now, until) = (Instant::now(), call_deadline.until());
            if now >= until {
                return WaitOutcome::TimedOut;
            }
            if let Some(outcome) = self.follow(number, until.min(now + RECHECK_INTERVAL), &mut read) {
                return outcome;
            }
        }
    }

    /// Passes the reply to a call to `read`, if it has arrived.
    pub(super) fn try_take(&self, number: u64, mut read: impl FnMut(WireReply<'_>)) -> WaitOutcome {
        let outcome = self.try_lead(number, None, &mut read);
        let outcome = outcome.or_else(|| self.pending.get()?.take(number, &mut read));
        outcome.unwrap_or(WaitOutcome::TimedOut)
    }

    /// Abandons a call, and sends a cancellation if there is room for it.
    pub(super) fn abandon(&self, number: u64) {
        let is_open = self.pending.get().is_some_and(|pending| pending.abandon(number));
        if !is_open {
            return;
        }
        fail_point!("call-given-up");
        self.with_sender(|sender| {
            let put = |place: &mut [u8]| place.copy_from_slice(&cancel(number));
            // Without room the cancellation is skipped. The server then replies, and the reply
            // counts as late.
            let _ = sender.outgoing.send_bytes(HEAD_BYTES, Wait::Never, put);
        });
        fail_point!("call-taken-back");
    }

    /// Receives for all threads until the reply to one call arrives; `None`: another thread
    /// receives.
    #[inline]
    fn try_lead(
        &self,
        mine: u64,
        call_deadline: Option<&mut CallDeadline>,
        read: &mut impl FnMut(WireReply<'_>),
    ) -> Option<WaitOutcome> {
        let mut receiver = try_lock(&self.receiver)?;
        let outcome = self.lead(&mut receiver, mine, call_deadline, read);
        drop(receiver);
        self.promote_follower();
        self.ready.notify();
        Some(outcome)
    }

    /// Waits until the leader has received the reply to a call. `None`: no result has arrived, or
    /// this thread may lead.
    fn follow(
        &self,
        number: u64,
        until: Instant,
        read: &mut impl FnMut(WireReply<'_>),
    ) -> Option<WaitOutcome> {
        let Some(pending) = self.pending.get() else { return Some(WaitOutcome::Closed) };
        // Join the queue before the next attempt: a leader that stops receiving afterwards finds
        // this thread in the queue.
        self.followers.fetch_add(1, Ordering::SeqCst);
        lock(&self.queue).push_back(number);
        let is_free = try_lock(&self.receiver).is_some();
        let outcome = if is_free { None } else { pending.sleep(number, until, read) };
        lock(&self.queue).retain(|waiting| *waiting != number);
        self.followers.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    /// Receives as the leader; see [`ServerConnection::try_lead`].
    fn lead(
        &self,
        receiver: &mut Option<Incoming>,
        mine: u64,
        mut call_deadline: Option<&mut CallDeadline>,
        read: &mut impl FnMut(WireReply<'_>),
    ) -> WaitOutcome {
        let Some(pending) = self.pending.get() else { return WaitOutcome::Closed };
        // The previous leader may have received the reply.
        if mine != NO_CALL
            && pending.is_filled(mine)
            && let Some(outcome) = pending.take(mine, read)
        {
            return outcome;
        }
        let Some(incoming) = receiver else { return WaitOutcome::Closed };
        let error = loop {
            match next(incoming, call_deadline.as_deref_mut()) {
                Ok(Polled::Packet) => {}
                Ok(Polled::Empty) => return WaitOutcome::TimedOut,
                Ok(Polled::Ended) => break None,
                Err(Error::Stopped) => return WaitOutcome::Link(Error::Stopped),
                Err(Error::Interrupted { port, .. }) => {
                    let sent = mine != NO_CALL;
                    return WaitOutcome::Link(Error::Interrupted { port, sent });
                }
                Err(error) => break Some(error),
            }
            let lent = ReleaseOnDrop(incoming);
            let violation = match WireReply::parse(lent.0.payload()) {
                Ok(reply) if reply.number == mine => {
                    fail_point!("call-replied");
                    pending.measure(mine);
                    read(reply);
                    pending.free(mine);
                    return WaitOutcome::Reply;
                }
                Ok(reply) => match pending.deliver(&reply) {
                    ReplyOutcome::Late if mine == NO_CALL && pending.abandoned() == 0 => {
                        return WaitOutcome::TimedOut;
                    }
                    ReplyOutcome::Stored => {
                        self.ready.set_changed();
                        None
                    }
                    ReplyOutcome::Late => None,
                    ReplyOutcome::Unsolicited => {
                        Some(format!("sent a reply to call {:#x}, which is not outstanding", reply.number))
                    }
                },
                Err(violation) => Some(violation),
            };
            drop(lent);
            if let Some(violation) = violation {
                break Some(Error::misbehaved(format!("server `{}`", self.label()), violation));
            }
        };
        if let Some(error) = error {
            log::warn!(target: "stripline::call", "{error}");
        }
        *receiver = None;
        self.close(pending);
        pending.take(mine, read).unwrap_or(WaitOutcome::Closed)
    }

    /// Waits for late replies while too many abandoned calls are unanswered.
    #[cold]
    fn wait_abandoned(
        &self,
        pending: &PendingCalls,
        call_deadline: &mut CallDeadline,
    ) -> Result<(), SendError> {
        while pending.too_many_abandoned() {
            if Instant::now() >= call_deadline.until() {
                return Err(SendError::TooMany);
            }
            match self.try_lead(NO_CALL, Some(call_deadline), &mut |_| ()) {
                Some(WaitOutcome::Closed) => return Err(SendError::Closed),
                Some(WaitOutcome::Link(error)) => return Err(SendError::Link(error)),
                Some(WaitOutcome::Reply | WaitOutcome::TimedOut) => {}
                // The leader takes late replies as well.
                None => std::thread::sleep(LATE_POLL),
            }
        }
        Ok(())
    }

    /// Returns the receiver, unless another thread has it.
    pub(super) fn try_receiver(&self) -> Option<MutexGuard<'_, Option<Incoming>>> {
        try_lock(&self.receiver)
    }

    /// Handles everything that has already arrived, without waiting, and detects whether the server
    /// has gone.
    pub(super) fn drain_late(&self) {
        let _ = self.try_lead(NO_CALL, None, &mut |_| ());
    }

    /// Fails all outstanding calls, because the server has gone. Only the receiving thread may call
    /// this.
    #[cold]
    fn close(&self, pending: &PendingCalls) {
        let mut place = lock(&self.sender);
        self.is_alive.store(false, Ordering::Relaxed);
        // Fail the calls under the lock, so that calls of the next connection are not affected.
        pending.fail_all();
        let sender = place.take();
        drop(place);
        drop(sender);
        self.ready.set_changed();
    }

    /// Makes the receiving thread prepare the wait again, if it waits.
    pub(super) fn renew_wait(&self) {
        let events = lock(&self.events).upgrade();
        events.iter().for_each(|events| events.renew_wait());
    }

    /// Promotes a follower to receive.
    #[inline]
    fn promote_follower(&self) {
        // SeqCst, like the follower's accesses: at least one of the two threads sees the other.
        // `RECHECK_INTERVAL` covers the remaining cases.
        while self.followers.load(Ordering::SeqCst) > 0 {
            let Some(next) = lock(&self.queue).pop_front() else { return };
            if self.pending.get().is_some_and(|pending| pending.promote(next)) {
                return;
            }
        }
    }
}

/// Sends a request.
// Always inlined: a `Wait` passed on would be copied in chunks that differ from the writes.
#[inline(always)]
fn put(outgoing: &mut Outgoing, words: [u64; 2], chain: &[u8], payload: &[u8], wait: Wait) -> Result<()> {
    let before = HEAD_BYTES + chain.len();
    let bytes = before + payload.len();
    outgoing.send_bytes(bytes, wait, |place| {
        if chain.is_empty() {
            return put_message(place, words, payload);
        }
        put_head(place, words);
        place[HEAD_BYTES..before].copy_from_slice(chain);
        place[before..].copy_from_slice(payload);
    })
}

/// Returns the next packet within the deadline. Without a deadline, returns only a packet that is
/// there.
#[inline]
fn next(incoming: &mut Incoming, call_deadline: Option<&mut CallDeadline>) -> Result<Polled> {
    let Some(call_deadline) = call_deadline else { return incoming.receive(|| Wait::Never) };
    match incoming.receive_spinning()? {
        Polled::Empty => incoming.receive(|| Wait::Until(Some(call_deadline.until()))),
        found => Ok(found),
    }
}

/// A guard for a reply that is read in place, which releases the frame on every path.
struct ReleaseOnDrop<'a>(&'a mut Incoming);

impl Drop for ReleaseOnDrop<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}
