//! The server side of calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::link::Incoming;
use crate::node::Dispatch;
use crate::sys::clock::now_ns;
use crate::sys::fork::{Local, OwnerProcess};
use crate::sys::mutex::lock;
#[cfg(test)]
use crate::transport::Endpoint;
use crate::transport::duplex::{CallAcceptor, CallListener};
use crate::transport::{StopToken, Wait, random};

use super::chain;
use super::clients::{ClientAcceptor, ClientTable, ServerInfo};
use super::counts::{Counts, ServerCounts};
use super::replies::{ReplyMessage, ReplySender};
use super::request_queue::{InFlight, QueuedRequest};
use super::request_receiver::RequestReceiver;
use super::service::{Context, Operation, Service};
use super::wire::{CallHead, ChainBytes, ChainLink, ReplyStatus, WireRequest};
use super::{Refusal, ServerOptions};

/// A server that answers the calls of any number of clients.
///
/// Clients can discover a server as soon as it is made. Their calls wait until it serves.
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
    // The fields are dropped in this order: first no client can find the listener, then no client
    // can connect, and then each client gets the end of stream behind the last reply.
    _offer: Local<Box<dyn Send>>,
    listener: Local<CallListener>,
    _replies: Local<CloseReplies>,
    pub(super) handlers: Handlers<'h>,
    pub(super) requests: RequestReceiver,
    scratch: Vec<u8>,
}

/// The end of all replies, sent when this is dropped.
///
/// The guard is dropped before the receiving ends. Otherwise a sending end would detach the client,
/// which may not have attached yet and would then miss the replies already sent.
struct CloseReplies {
    /// The stop token for replies that wait for room at their clients.
    stop: StopToken,
    clients: Arc<ClientTable>,
}

impl Drop for CloseReplies {
    fn drop(&mut self) {
        self.stop.stop();
        self.clients.close_all();
    }
}

/// The state shared by all threads of a server.
pub(super) struct Handlers<'h> {
    service: Service<'h>,
    id: u64,
    counts: Arc<Counts>,
    clients: Arc<ClientTable>,
    process: OwnerProcess,
}

/// A received call.
struct Call<'a> {
    head: CallHead,
    /// The age of the call in nanoseconds, and the time at which it was sent, if it is measured.
    age: Option<(u64, u64)>,
    chain: ChainBytes<'a>,
    payload: &'a [u8],
    is_cancelled: bool,
    replies: &'a Arc<ReplySender>,
    /// The number of calls that the server works on at once.
    threads: u32,
    /// Set when the call is cancelled while the handler runs, if the server detects this.
    cancelled: Option<&'a AtomicBool>,
}

impl<'h> Server<'h> {
    /// Creates a server. `open` opens the listener with an acceptor and announces the result.
    pub(super) fn new(
        service: Service<'h>,
        options: &ServerOptions,
        incoming: Incoming,
        clients: ClientTable,
        stop_replies: StopToken,
        open: impl FnOnce(Box<dyn CallAcceptor>) -> Result<(CallListener, Box<dyn Send>)>,
    ) -> Result<Self> {
        let id = random()?;
        let server_info = ServerInfo {
            service: service.name().into(),
            server: options.name.clone().unwrap_or_else(|| format!("{id:016x}")),
            id,
            operations: service.describe_operations(),
        };
        let server_info =
            serde_json::to_value(server_info).map_err(|e| Error::InvalidArgument(e.to_string()))?;
        let clients = Arc::new(clients);
        let counts: Arc<Counts> = Arc::default();
        let acceptor = ClientAcceptor {
            clients: Arc::clone(&clients),
            counts: Arc::clone(&counts),
            server_info,
            clients_max: options.clients as usize,
            stop: stop_replies.clone(),
        };
        let (listener, offer) = open(Box::new(acceptor))?;
        let (table, counters) = (Arc::clone(&clients), Arc::clone(&counts));
        let requests = RequestReceiver::new(incoming, table, counters, options.waiting);
        let handlers = Handlers { service, id, counts, clients, process: OwnerProcess::current() };
        let (listener, _offer) = (Local::new(listener), Local::new(offer));
        let clients = Arc::clone(&handlers.clients);
        let _replies = Local::new(CloseReplies { stop: stop_replies, clients });
        Ok(Self { _offer, listener, _replies, handlers, requests, scratch: Vec::new() })
    }

    /// Answers calls until the node is stopped. A call that has begun by then is still answered. If
    /// a handler panics, the call is refused with [`Refusal::Panicked`](super::Refusal::Panicked)
    /// and serving continues.
    ///
    /// With [`Dispatch::Queue`] and [`Dispatch::Direct`], handlers run on this thread, which also
    /// receives: call by call, with requests in place. With a pool they run on several threads at
    /// once, and replies are sent in the order in which handlers finish.
    ///
    /// # Errors
    /// A lack of threads, or a pool out of range. A stop is not an error. [`Error::Interrupted`]
    /// when the [waker](Server::waker) ends it; waiting calls are kept.
    pub fn serve(&mut self, dispatch: Dispatch) -> Result<()> {
        dispatch.check().map_err(Error::InvalidArgument)?;
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

    /// Answers one call on this thread, if one arrives within the timeout. Returns false if none
    /// did.
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

    /// Blocks until there is a call to answer. Returns false if the timeout passes first. For a
    /// program that must prepare for each call, for example by taking a lock. Afterwards,
    /// [`Server::serve_one`] answers the call without waiting.
    ///
    /// # Errors
    /// Same as [`Server::serve_one`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::call::{ClientOptions, ServerOptions};
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
    /// let double = node.client::<f64, f64, String>("double", ClientOptions::default())?;
    /// assert!(!server.wait_for_call(Duration::from_millis(1))?);
    /// let pending = double.start(&2.0).expect("a server is there");
    /// assert!(server.wait_for_call(Duration::from_secs(5))?);
    /// assert!(server.serve_one(Duration::ZERO)?);
    /// assert_eq!(pending.wait().expect("it was served"), 4.0);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn wait_for_call(&mut self, timeout: Duration) -> Result<bool> {
        let Self { handlers, requests, .. } = self;
        handlers.check_own()?;
        requests.incoming.stop().interrupt().take(false)?;
        let wait = Wait::within(timeout);
        while requests.queue.is_empty() {
            if requests.receive(wait)? {
                requests.enqueue(&[]);
            } else if wait.is_expired() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the counters.
    pub fn counts(&self) -> ServerCounts {
        self.counter()()
    }

    /// Returns a function that reads the counters, on any thread and even while this thread serves.
    ///
    /// ```
    /// use stripline::call::ServerOptions;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
    /// let counter = server.counter();
    /// assert_eq!(counter(), server.counts());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn counter(&self) -> impl Fn() -> ServerCounts + Send + Sync + use<> {
        let Handlers { counts, clients, process, .. } = &self.handlers;
        let (counts, clients, process) = (Arc::clone(counts), Arc::clone(clients), *process);
        move || {
            let clients = if process.is_current() { clients.count() as u64 } else { 0 };
            counts.read(clients)
        }
    }

    /// Returns the operations of the service.
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

    /// Answers the next call. Returns false if none arrived, or if the packet was not a call.
    fn serve_within(&mut self, wait: Wait) -> Result<bool> {
        let Self { handlers, requests, scratch, .. } = self;
        handlers.check_own()?;
        requests.incoming.stop().interrupt().take(false)?;
        let mut is_fresh = false;
        if requests.queue.is_empty() {
            if !requests.receive(wait)? {
                return Ok(false);
            }
            is_fresh = requests.is_fresh();
            if is_fresh && requests.is_alone() {
                return Ok(handlers.serve_in_place(requests, scratch));
            }
            requests.enqueue(&[]);
        }
        let Some(next) = requests.next_queued(is_fresh, &[])? else { return Ok(false) };
        let served = !next.is_cancelled;
        handlers.answer_queued(&next, 1, None, scratch);
        requests.queue.recycle(next);
        fail_point!("call-released");
        Ok(served)
    }

    fn serve_with(&mut self, threads: usize) -> Result<()> {
        let Self { handlers, requests, .. } = self;
        handlers.check_own()?;
        let in_flight = (0..threads).map(|_| InFlight::default()).collect();
        let pool = ServerPool {
            handlers,
            requests: Mutex::new(requests),
            in_flight,
            failure: Mutex::new(None),
            is_over: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            for in_flight in &pool.in_flight {
                let thread = std::thread::Builder::new().name("stripline-serve".into());
                if let Err(error) = thread.spawn_scoped(scope, || pool.run(in_flight)) {
                    pool.fail(Error::not_started("cannot start a thread of a pool", error));
                    break;
                }
            }
        });
        pool.failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// A pool of threads that answer calls. The threads take turns at receiving.
struct ServerPool<'a, 'h> {
    handlers: &'a Handlers<'h>,
    requests: Mutex<&'a mut RequestReceiver>,
    in_flight: Vec<InFlight>,
    failure: Mutex<Option<Error>>,
    /// Set under the lock on the requests when a waker ends the pool.
    is_over: AtomicBool,
}

impl ServerPool<'_, '_> {
    /// Runs one thread of the pool.
    fn run(&self, in_flight: &InFlight) {
        let (threads, cancelled) = (self.in_flight.len() as u32, Some(&in_flight.cancelled));
        let (mut finished, mut scratch) = (None, Vec::new());
        loop {
            match self.next(in_flight, finished.take()) {
                Ok(Some(next)) => {
                    self.handlers.answer_queued(&next, threads, cancelled, &mut scratch);
                    in_flight.end();
                    finished = Some(next);
                }
                Ok(None) => {}
                Err(Error::Stopped) => return,
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Returns the next call; `None`: the packet was not a call.
    fn next(&self, in_flight: &InFlight, finished: Option<QueuedRequest>) -> Result<Option<QueuedRequest>> {
        // In a child that a handler forked, the lock may be held for ever.
        self.handlers.check_own()?;
        // No user code runs under this lock.
        let mut requests = lock(&self.requests);
        if let Some(finished) = finished {
            requests.queue.recycle(finished);
        }
        // Relaxed: the flag is accessed under the lock.
        if self.is_over.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let mut is_fresh = false;
        let woken = requests.incoming.stop().interrupt().take(false);
        if woken.is_err() || requests.queue.is_empty() {
            match woken.and_then(|()| requests.receive(Wait::FOREVER)) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => {
                    self.is_over.store(matches!(error, Error::Interrupted { .. }), Ordering::Relaxed);
                    return Err(error);
                }
            }
            is_fresh = requests.is_fresh();
            requests.enqueue(&self.in_flight);
        }
        let next = requests.next_queued(is_fresh, &self.in_flight)?;
        if let Some(next) = &next {
            in_flight.begin(next);
        }
        Ok(next)
    }

    fn fail(&self, error: Error) {
        if !self.handlers.process.is_current() {
            return;
        }
        lock(&self.failure).get_or_insert(error);
    }
}

impl Handlers<'_> {
    /// Checks that this process made the server.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that made it.
    pub(super) fn check_own(&self) -> Result<()> {
        self.process.check(|| format!("server of `{}`", self.service.name()))
    }

    /// Answers the request that was just received, in place. Returns false if it is not a call.
    #[inline(always)]
    fn serve_in_place(&self, requests: &mut RequestReceiver, scratch: &mut Vec<u8>) -> bool {
        let incoming = &requests.incoming;
        let age = incoming.age_ns().zip(incoming.taken_ns());
        let served = match (requests.replies(), WireRequest::parse(incoming.payload())) {
            (Some(replies), Ok(WireRequest::Call { head, chain, payload })) => {
                let (is_cancelled, threads, cancelled) = (false, 1, None);
                let call = Call { head, age, chain, payload, is_cancelled, replies, threads, cancelled };
                self.answer(&call, scratch);
                true
            }
            (Some(_), Ok(WireRequest::Cancel { .. })) => {
                self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
                false
            }
            (Some(_), Err(violation)) => {
                requests.evict(&violation);
                return false;
            }
            (None, _) => false,
        };
        requests.incoming.release();
        fail_point!("call-released");
        served
    }

    /// Answers a queued call.
    fn answer_queued(
        &self,
        queued: &QueuedRequest,
        threads: u32,
        cancelled: Option<&AtomicBool>,
        scratch: &mut Vec<u8>,
    ) {
        let age = (queued.sent_ns != 0).then(|| {
            let now_ns = now_ns();
            (now_ns.saturating_sub(queued.sent_ns), now_ns)
        });
        let QueuedRequest { replies, head, is_cancelled, .. } = queued;
        let (head, is_cancelled) = (*head, *is_cancelled);
        let (chain, payload) = (queued.chain(), queued.payload());
        let call = Call { head, age, chain, payload, is_cancelled, replies, threads, cancelled };
        self.answer(&call, scratch);
    }

    /// Runs a call and answers it.
    #[inline]
    fn answer(&self, call: &Call<'_>, scratch: &mut Vec<u8>) {
        let Call { replies, threads, .. } = *call;
        let CallHead { number, operation, deadline_us } = call.head;
        let send =
            |status, payload: &[u8]| replies.send(&ReplyMessage { number, status, payload, deadline_us });
        let deadline_ns = u64::from(deadline_us) * 1000;
        let refuse = |refusal, words: &str| {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            send(ReplyStatus::Refused(refusal), words.as_bytes());
        };
        let Some(handler) = self.service.handlers.get(usize::from(operation)) else {
            let count = self.service.handlers.len();
            return refuse(
                Refusal::UnknownOperation,
                &format!("operation {operation} of {count} does not exist"),
            );
        };
        if call.is_cancelled {
            return refuse(Refusal::Cancelled, "it was cancelled before it was started");
        }
        if call.age.is_some_and(|(age_ns, _)| age_ns > deadline_ns) {
            return refuse(Refusal::DeadlinePassed, "it came too late");
        }
        if chain::is_exhausted(call.chain, self.id) {
            return refuse(Refusal::Cycle, "this server waits in the same chain of calls");
        }
        if threads == 1 {
            // A store needs no locked instruction, because only this thread counts.
            self.counts.calls.store(self.counts.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.counts.calls.fetch_add(1, Ordering::Relaxed);
        }
        let until_ns = call.age.map(|(age_ns, then_ns)| then_ns.saturating_add(deadline_ns - age_ns));
        let context = Context { replies, number, deadline_us, cancelled: call.cancelled };
        scratch.clear();
        fail_point!("call-begun");
        let entered = chain::enter(call.chain, ChainLink { server: self.id, threads }, until_ns);
        let mut sink = send;
        let outcome = catch_unwind(AssertUnwindSafe(|| handler(call.payload, &context, scratch, &mut sink)));
        drop(entered);
        if let Err(panic) = outcome {
            self.counts.panicked.fetch_add(1, Ordering::Relaxed);
            let words = crate::error::panic_message(&*panic);
            send(ReplyStatus::Refused(Refusal::Panicked), words.as_bytes());
        }
    }
}
