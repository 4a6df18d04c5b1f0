//! The server side of calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::link::{Incoming, PortEvents};
use crate::node::Dispatch;
use crate::sys::clock::now_ns;
use crate::sys::fork::{Local, OwnerProcess};
#[cfg(test)]
use crate::transport::Endpoint;
use crate::transport::duplex::{CallAcceptor, CallListener};
use crate::transport::{StopToken, Wait, random};

use super::ServerOptions;
use super::chain;
use super::clients::{ClientAcceptor, ClientTable, ServerInfo};
use super::replies::{ReplyMessage, ReplySender};
use super::request_queue::{InFlight, QueuedRequest, RequestQueue, ScanScope};
use super::service::{Context, Operation, Service};
use super::wire::{ChainBytes, ChainLink, ReplyStatus, WireRequest};

#[derive(Default)]
pub(super) struct Counts {
    calls: AtomicU64,
    pub refused: AtomicU64,
    panicked: AtomicU64,
    pub cancelled: AtomicU64,
    evicted: AtomicU64,
    pub replies_dropped: AtomicU64,
}

/// The counters of a server.
///
/// ```
/// use stripline::call::{ServerCounts, ServerOptions};
///
/// let node = stripline::node::Node::isolated()?;
/// let server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
/// assert_eq!(server.counts(), ServerCounts::default());
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCounts {
    /// Calls for which a handler was run.
    pub calls: u64,
    /// Calls that were answered without running a handler.
    pub refused: u64,
    /// Handlers that panicked.
    pub panicked: u64,
    /// Calls that their clients cancelled, in time or not.
    pub cancelled: u64,
    /// Clients that were disconnected because of a protocol violation.
    pub evicted: u64,
    /// Replies that a client did not take in time, or that had no client any more.
    pub replies_dropped: u64,
    /// Clients connected now.
    pub clients: u64,
}

/// A server that answers the calls of any number of clients.
///
/// Clients can discover it as soon as it is made; their calls wait until it serves.
///
/// ```
/// use std::time::Duration;
/// use stripline::call::{ClientOptions, ServerOptions, Service};
/// use stripline::node::Node;
///
/// let node = Node::isolated()?;
/// let service = Service::new("adder")?.operation("add", |(a, b): (i64, i64)| Ok::<i64, String>(a + b))?;
/// let mut server = node.service_server(service, ServerOptions::default())?;
/// let adder = node.service_client("adder", ClientOptions::default())?;
/// let add = adder.operation::<(i64, i64), i64, String>("add")?;
/// let sum = add.start(&(2, 3)).expect("a server is there");
/// assert!(server.serve_one(Duration::from_secs(5))?);
/// assert_eq!(sum.wait().expect("it was served"), 5);
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Server<'h> {
    // Dropped in this order: first no client can find the listener, then none can connect.
    _offer: Local<Box<dyn Send>>,
    listener: Local<CallListener>,
    handlers: Handlers<'h>,
    requests: RequestReceiver,
    scratch: Vec<u8>,
}

/// The state that all threads of a server share.
struct Handlers<'h> {
    service: Service<'h>,
    id: u64,
    counts: Arc<Counts>,
    clients: Arc<ClientTable>,
    process: OwnerProcess,
}

/// The state of the thread that receives.
pub(super) struct RequestReceiver {
    pub(super) incoming: Incoming,
    /// By the index of the incoming link's connections.
    pub(super) slots: Vec<Option<ClientSlot>>,
    /// How many connections had closed when the client table was last updated.
    closed_count: u16,
    clients: Arc<ClientTable>,
    pub(super) counts: Arc<Counts>,
    /// The requests read ahead.
    pub(super) queue: RequestQueue,
}

pub(super) struct ClientSlot {
    pub(super) connection: u16,
    pub(super) replies: Arc<ReplySender>,
}

/// A call that was received.
struct Call<'a> {
    number: u64,
    operation: u16,
    /// How long the client waits for the reply, in microseconds.
    deadline_us: u32,
    /// Its age in nanoseconds, and when it was sent, if it is measured.
    age: Option<(u64, u64)>,
    chain: ChainBytes<'a>,
    payload: &'a [u8],
    is_cancelled: bool,
}

/// The parts that the node gives a server.
pub(crate) struct ServerParts {
    pub events: Arc<PortEvents>,
    pub incoming: Incoming,
    pub stop: StopToken,
}

impl<'h> Server<'h> {
    /// Creates a server: `open` opens its listener with an acceptor, and announces the result.
    pub(crate) fn new(
        service: Service<'h>,
        options: &ServerOptions,
        parts: ServerParts,
        open: impl FnOnce(Box<dyn CallAcceptor>) -> Result<(CallListener, Box<dyn Send>)>,
    ) -> Result<Self> {
        let id = random()?;
        let server_info = ServerInfo {
            service: service.name().into(),
            server: options.name.clone().unwrap_or_else(|| format!("{id:016x}")),
            id,
            operations: service.describe_operations(),
        };
        let server_info = serde_json::to_value(server_info).map_err(Error::failed)?;
        let clients = Arc::new(ClientTable::new(parts.events));
        let counts: Arc<Counts> = Arc::default();
        let acceptor = ClientAcceptor {
            clients: Arc::clone(&clients),
            counts: Arc::clone(&counts),
            server_info,
            clients_max: options.clients as usize,
            stop: parts.stop,
        };
        let (listener, offer) = open(Box::new(acceptor))?;
        let requests = RequestReceiver {
            incoming: parts.incoming,
            slots: Vec::new(),
            closed_count: 0,
            clients: Arc::clone(&clients),
            counts: Arc::clone(&counts),
            queue: RequestQueue::new(options.waiting),
        };
        let core = Handlers { service, id, counts, clients, process: OwnerProcess::current() };
        let (listener, offer) = (Local::new(listener), Local::new(offer));
        Ok(Self { listener, _offer: offer, handlers: core, requests, scratch: Vec::new() })
    }

    /// Answers calls until the node is stopped. A handler that panics results in
    /// [`Refusal::Panicked`](super::Refusal::Panicked), and serving continues.
    ///
    /// With [`Dispatch::Queue`] and [`Dispatch::Direct`] handlers run on this thread, which also
    /// receives: call by call, with requests in place. With a pool they run on several threads at
    /// once, and replies are sent as they are finished.
    ///
    /// # Errors
    /// A lack of threads, or a pool out of range. A stop is no error.
    pub fn serve(&mut self, dispatch: Dispatch) -> Result<()> {
        dispatch.check().map_err(Error::failed)?;
        match dispatch {
            Dispatch::Queue | Dispatch::Direct => loop {
                match self.serve_within(Wait::FOREVER) {
                    Ok(_) => {}
                    Err(Error::Stopped) => return Ok(()),
                    Err(error) => return Err(error),
                }
            },
            Dispatch::Pool { threads, .. } => self.serve_with(threads),
        }
    }

    /// Answers one call on this thread, if one arrives within the timeout; false: none did.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the node is stopped.
    pub fn serve_one(&mut self, timeout: Duration) -> Result<bool> {
        let until = Instant::now().checked_add(timeout);
        loop {
            if self.serve_within(Wait::Until(until))? {
                return Ok(true);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    }

    /// Returns the counters.
    pub fn counts(&self) -> ServerCounts {
        // Relaxed throughout: each counter is exact by itself.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.handlers.counts;
        ServerCounts {
            calls: read(&counts.calls),
            refused: read(&counts.refused),
            panicked: read(&counts.panicked),
            cancelled: read(&counts.cancelled),
            evicted: read(&counts.evicted),
            replies_dropped: read(&counts.replies_dropped),
            clients: if self.listener.is_current() { self.handlers.clients.count() as u64 } else { 0 },
        }
    }

    /// Returns the service's operations.
    pub fn operations(&self) -> &[Operation] {
        self.handlers.service.operations()
    }

    /// Returns the address where clients connect, for display: `TRANSPORT:ADDRESS`.
    ///
    /// ```
    /// use stripline::call::ServerOptions;
    ///
    /// let options = ServerOptions { transport: Some("uds".into()), ..ServerOptions::default() };
    /// let node = stripline::node::Node::isolated()?;
    /// let server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), options)?;
    /// assert!(server.address().starts_with("uds:"));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn address(&self) -> String {
        self.listener.endpoint.to_string()
    }

    #[cfg(test)]
    pub(super) fn client_count(&self) -> usize {
        self.handlers.clients.len()
    }

    #[cfg(test)]
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.listener.endpoint
    }

    /// Answers the next call; false: none arrived, or the packet was not a call.
    fn serve_within(&mut self, wait: Wait) -> Result<bool> {
        let Self { handlers: core, requests, scratch, .. } = self;
        core.check_own()?;
        let scope = if requests.queue.is_empty() {
            if !requests.receive(wait)? {
                return Ok(false);
            }
            let scope = requests.scan_new();
            if scope == ScanScope::None {
                return Ok(core.serve_in_place(requests, scratch));
            }
            requests.enqueue(&[]);
            scope
        } else {
            requests.scan_again()
        };
        requests.fill(scope, &[])?;
        let Some(next) = requests.queue.pop() else { return Ok(false) };
        let served = match requests.replies_to(&next) {
            Some(replies) => core.answer_waiting(&next, 1, &replies, None, scratch),
            None => false,
        };
        requests.queue.recycle(next.request);
        fail_point!("call-released");
        Ok(served)
    }

    fn serve_with(&mut self, threads: usize) -> Result<()> {
        let Self { handlers: core, requests, .. } = self;
        core.check_own()?;
        let in_flight = (0..threads).map(|_| InFlight::default()).collect();
        let pool = ServerPool {
            handlers: core,
            requests: Mutex::new(requests),
            in_flight,
            failure: Mutex::new(None),
        };
        std::thread::scope(|scope| {
            for in_flight in &pool.in_flight {
                let thread = std::thread::Builder::new().name("stripline-serve".into());
                if let Err(error) = thread.spawn_scoped(scope, || pool.run(in_flight)) {
                    pool.fail(Error::system("cannot start a thread of a pool", error));
                    break;
                }
            }
        });
        pool.failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// A pool of threads that answer calls. They take turns at receiving.
struct ServerPool<'a, 'h> {
    handlers: &'a Handlers<'h>,
    requests: Mutex<&'a mut RequestReceiver>,
    in_flight: Vec<InFlight>,
    failure: Mutex<Option<Error>>,
}

impl ServerPool<'_, '_> {
    /// Runs one thread.
    fn run(&self, in_flight: &InFlight) {
        let (mut spare, mut scratch) = (Vec::new(), Vec::new());
        loop {
            match self.next(in_flight, &mut spare) {
                Ok(Some((next, replies))) => {
                    let threads = self.in_flight.len() as u32;
                    let cancelled = Some(&in_flight.cancelled);
                    self.handlers.answer_waiting(&next, threads, &replies, cancelled, &mut scratch);
                    in_flight.end();
                    spare = next.request;
                }
                Ok(None) => {}
                Err(Error::Stopped) => return,
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Returns the next call; `None`: the packet was not a call.
    fn next(
        &self,
        in_flight: &InFlight,
        spare: &mut Vec<u8>,
    ) -> Result<Option<(QueuedRequest, Arc<ReplySender>)>> {
        // In a child that a handler forked, the lock may be held for ever.
        self.handlers.check_own()?;
        // No user code runs under this lock.
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.queue.recycle(std::mem::take(spare));
        let scope = if requests.queue.is_empty() {
            if !requests.receive(Wait::FOREVER)? {
                return Ok(None);
            }
            let scope = requests.scan_new();
            requests.enqueue(&self.in_flight);
            scope
        } else {
            requests.scan_again()
        };
        requests.fill(scope, &self.in_flight)?;
        let Some(next) = requests.queue.pop() else { return Ok(None) };
        in_flight.begin(&next);
        Ok(requests.replies_to(&next).map(|replies| (next, replies)))
    }

    fn fail(&self, error: Error) {
        if !self.handlers.process.is_current() {
            return;
        }
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl Handlers<'_> {
    /// Checks that this process made the server.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that made it.
    fn check_own(&self) -> Result<()> {
        self.process.check(|| format!("server of `{}`", self.service.name()))
    }

    /// Answers the request that was just received, in place; false: it is not a call.
    #[inline(always)]
    fn serve_in_place(&self, requests: &mut RequestReceiver, scratch: &mut Vec<u8>) -> bool {
        let RequestReceiver { incoming, slots, .. } = &mut *requests;
        let Some(slot) = slots.get(incoming.connection_index().0).and_then(|slot| slot.as_ref()) else {
            incoming.release();
            return false;
        };
        let age = incoming.age_ns().zip(incoming.taken_ns());
        let outcome = match WireRequest::parse(incoming.payload()) {
            Ok(WireRequest::Call { number, operation, deadline_us, chain, payload }) => {
                let is_cancelled = false;
                let call = Call { number, operation, deadline_us, age, chain, payload, is_cancelled };
                self.answer(&call, 1, &slot.replies, None, scratch);
                Ok(true)
            }
            Ok(WireRequest::Cancel { .. }) => {
                self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            }
            Err(violation) => Err(violation),
        };
        match outcome {
            Ok(served) => {
                incoming.release();
                fail_point!("call-released");
                served
            }
            Err(violation) => {
                requests.evict(&violation);
                false
            }
        }
    }

    /// Answers a call that was queued; false: it was cancelled or could not be started.
    fn answer_waiting(
        &self,
        waiting: &QueuedRequest,
        threads: u32,
        replies: &Arc<ReplySender>,
        cancelled: Option<&AtomicBool>,
        scratch: &mut Vec<u8>,
    ) -> bool {
        // Parsed before it was queued.
        let Ok(WireRequest::Call { number, operation, deadline_us, chain, payload }) =
            WireRequest::parse(&waiting.request)
        else {
            return false;
        };
        let age = (waiting.sent_ns != 0).then(|| {
            let now_ns = now_ns();
            (now_ns.saturating_sub(waiting.sent_ns), now_ns)
        });
        let is_cancelled = waiting.is_cancelled;
        let call = Call { number, operation, deadline_us, age, chain, payload, is_cancelled };
        self.answer(&call, threads, replies, cancelled, scratch);
        !is_cancelled
    }
}

impl RequestReceiver {
    /// Receives the next request and ensures its client slot; false: none arrived.
    pub(super) fn receive(&mut self, wait: Wait) -> Result<bool> {
        match self.incoming.receive(wait) {
            Ok(crate::link::Polled::Packet) => {}
            Ok(_) => return Ok(false),
            Err(error @ Error::PeerMisbehaved { .. }) => {
                self.report_evicted(&error);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        if self.incoming.closed_count() != self.closed_count {
            self.close_departed();
        }
        Ok(self.has_slots())
    }

    /// Releases the state of clients that are gone.
    #[cold]
    fn close_departed(&mut self) {
        let departures = self.incoming.closed_count();
        if !self.clients.close_departed(&self.incoming) {
            return;
        }
        self.closed_count = departures;
        for (place, slot) in self.slots.iter_mut().enumerate() {
            let is_gone = |slot: &mut ClientSlot| !self.incoming.is_there(place, slot.connection);
            if let Some(gone) = slot.take_if(is_gone) {
                self.queue.set_successor(place, &gone.replies);
            }
        }
    }

    /// Ensures the slot of the client that sent the request; false: the client was disconnected.
    #[inline]
    pub(super) fn has_slots(&mut self) -> bool {
        let (place, connection) = self.incoming.connection_index();
        match self.slots.get(place) {
            Some(Some(slot)) if slot.connection == connection && !slot.replies.is_backlogged() => true,
            _ => self.assign_slot(place, connection),
        }
    }

    /// Ensures the slot when it has to be made or checked; see [`RequestReceiver::has_slots`].
    #[cold]
    fn assign_slot(&mut self, place: usize, connection: u16) -> bool {
        if !matches!(self.slots.get(place), Some(Some(slot)) if slot.connection == connection) {
            self.set_slot(place, connection);
        }
        if self.slots[place].as_ref().is_some_and(|slot| slot.replies.is_over_limit()) {
            self.evict("has more calls outstanding than announced, and takes no replies");
            return false;
        }
        true
    }

    fn set_slot(&mut self, place: usize, connection: u16) {
        let replies = self.clients.replies_for(self.incoming.connection());
        if self.slots.len() <= place {
            self.slots.resize_with(place + 1, || None);
        }
        if let Some(before) = &self.slots[place] {
            self.queue.set_successor(place, &before.replies);
        }
        self.slots[place] = replies.map(|replies| ClientSlot { connection, replies });
    }

    /// Disconnects the client that sent the request.
    #[cold]
    pub(super) fn evict(&mut self, violation: &str) {
        let place = self.incoming.connection_index().0;
        let error = self.incoming.evict(violation);
        if let Some(slot) = self.slots.get_mut(place).and_then(Option::take) {
            self.queue.set_successor(place, &slot.replies);
            slot.replies.close();
        }
        self.report_evicted(&error);
    }

    fn report_evicted(&self, error: &Error) {
        self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        log::warn!(target: "stripline::call", "{error}");
    }
}

impl Handlers<'_> {
    /// Carries a call out and answers it.
    #[inline]
    fn answer(
        &self,
        call: &Call<'_>,
        threads: u32,
        replies: &Arc<ReplySender>,
        cancelled: Option<&AtomicBool>,
        scratch: &mut Vec<u8>,
    ) {
        let (number, deadline_us) = (call.number, call.deadline_us);
        let send =
            |status, payload: &[u8]| replies.send(&ReplyMessage { number, status, payload, deadline_us });
        let deadline_ns = u64::from(deadline_us) * 1000;
        let refuse = |status, words: &str| {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            send(status, words.as_bytes());
        };
        let Some(handler) = self.service.handlers.get(usize::from(call.operation)) else {
            let count = self.service.handlers.len();
            return refuse(
                ReplyStatus::UnknownOperation,
                &format!("operation {} of {count} is not there", call.operation),
            );
        };
        if call.is_cancelled {
            return refuse(ReplyStatus::Cancelled, "it was cancelled before it was started");
        }
        if call.age.is_some_and(|(age_ns, _)| age_ns > deadline_ns) {
            return refuse(ReplyStatus::DeadlinePassed, "it came too late");
        }
        if chain::is_exhausted(call.chain, self.id) {
            return refuse(ReplyStatus::Cycle, "this server waits in the same chain of calls");
        }
        if threads == 1 {
            // No locked instruction: only this thread counts.
            self.counts.calls.store(self.counts.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.counts.calls.fetch_add(1, Ordering::Relaxed);
        }
        let until_ns = call.age.map(|(age_ns, then_ns)| then_ns.saturating_add(deadline_ns - age_ns));
        let context = Context { client: &replies.connection, deadline_us, cancelled };
        scratch.clear();
        fail_point!("call-begun");
        let entered = chain::enter(call.chain, ChainLink { server: self.id, threads }, until_ns);
        let mut sink = send;
        let outcome = catch_unwind(AssertUnwindSafe(|| handler(call.payload, &context, scratch, &mut sink)));
        drop(entered);
        if let Err(panic) = outcome {
            self.counts.panicked.fetch_add(1, Ordering::Relaxed);
            let words = crate::error::panic_message(&*panic);
            send(ReplyStatus::Panicked, words.as_bytes());
        }
    }
}
