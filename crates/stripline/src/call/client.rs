//! The client side of calls: handles of a client, and pending calls.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::Result;

use super::client_core::{ClientCore, StartError};
use super::deadline::CallDeadline;
use super::pending::WaitOutcome;
use super::server_connection::{SendError, ServerConnection, ServerReport};
use super::service::Operation;
use super::wire::{ReplyStatus, WireReply};
use super::{CallError, CallOptions, ClientOptions, OwnedPending, Payload, RawBytes};

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::default();
}

/// A client of a service, which makes handles for the operations.
///
/// ```
/// use stripline::call::{CallError, ClientOptions, Refusal, ServerOptions, Service};
/// use stripline::node::{Dispatch, Node};
///
/// let node = Node::isolated()?;
/// let service = Service::new("adder")?.operation("add", |(a, b): (i64, i64)| Ok::<i64, String>(a + b))?;
/// let mut server = node.service_server(service, ServerOptions::default())?;
/// let adder = node.service_client("adder", ClientOptions::default())?;
/// let add = adder.operation::<(i64, i64), i64, String>("add")?;
/// let multiply = adder.operation::<(i64, i64), i64, String>("multiply")?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| server.serve(Dispatch::Queue));
///     assert_eq!(add.call(&(2, 3)).expect("it is served"), 5);
///     let error = multiply.call(&(2, 3)).unwrap_err();
///     assert!(matches!(error, CallError::Refused { refusal: Refusal::UnknownOperation, .. }));
///     node.stop();
/// });
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone)]
pub struct ServiceClient {
    pub(super) core: Arc<ClientCore>,
}

/// A handle that calls one operation, from any number of threads.
///
/// With several servers of the service, calls go to the servers in turn, or to a server chosen by a
/// key. Among threads that wait at the same time, one receives for all.
///
/// ```
/// use stripline::call::{ClientOptions, ServerOptions};
/// use stripline::node::{Dispatch, Node};
///
/// let node = Node::isolated()?;
/// let mut server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
/// let double = node.client::<f64, f64, String>("double", ClientOptions::default())?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| server.serve(Dispatch::Queue));
///     let pending: Vec<_> = (0..100).map(|x| double.start(&f64::from(x)).expect("a server is there")).collect();
///     let sum: f64 = pending.into_iter().map(|reply| reply.wait().expect("it was served")).sum();
///     assert_eq!(sum, 9900.0);
///     node.stop();
/// });
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Client<Req, Rep, E = String> {
    pub(super) core: Arc<ClientCore>,
    operation: usize,
    name: Arc<str>,
    of: PhantomData<fn(Req) -> Result<Rep, E>>,
}

impl<Req, Rep, E> Clone for Client<Req, Rep, E> {
    fn clone(&self) -> Self {
        let (core, name) = (Arc::clone(&self.core), Arc::clone(&self.name));
        Self { core, operation: self.operation, name, of: PhantomData }
    }
}

/// A view of a [`Client`] that calls with other options: [`Client::with`].
///
/// ```
/// use stripline::call::{CallError, CallOptions, Client};
///
/// fn names(client: &Client<(), String>, keys: &[u64]) -> Result<Vec<String>, CallError<String>> {
///     keys.iter().map(|key| client.with(CallOptions::key(*key)).call(&())).collect()
/// }
/// ```
pub struct ClientView<'c, Req, Rep, E = String> {
    client: &'c Client<Req, Rep, E>,
    options: CallOptions,
}

/// A call in progress. Dropping it cancels the call.
///
/// ```
/// use std::time::Duration;
/// use stripline::call::{CallError, ClientOptions, ServerOptions};
///
/// let node = stripline::node::Node::isolated()?;
/// let mut server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
/// let double = node.client::<f64, f64, String>("double", ClientOptions::default())?;
/// let mut four = double.start(&2.0).expect("a server is there");
/// assert!(four.try_take().is_none());
/// assert!(four.wait_timeout(Duration::from_millis(1)).is_none());
/// double.start(&3.0).expect("a server is there").cancel();
/// server.serve_one(Duration::from_secs(5))?;
/// assert_eq!(four.wait().expect("it was served"), 4.0);
/// # Ok::<(), stripline::Error>(())
/// ```
#[must_use = "a call that is dropped is cancelled"]
pub struct Pending<'c, Req: Payload, Rep: Payload, E: Payload> {
    pub(super) client: &'c Client<Req, Rep, E>,
    pub(super) connection: &'c ServerConnection,
    pub(super) number: u64,
    pub(super) deadline: CallDeadline,
    pub(super) is_over: bool,
}

impl ServiceClient {
    /// Returns a handle for one of the service's operations. The first call checks that the
    /// operation exists with these types.
    ///
    /// # Errors
    /// An invalid name.
    pub fn operation<Req: Payload, Rep: Payload, E: Payload>(
        &self,
        name: &str,
    ) -> Result<Client<Req, Rep, E>> {
        self.core.check_own()?;
        let operation = self.core.register(Operation::of::<Req, Rep, E>(name)?);
        let name = format!("`{}.{name}`", self.core.service).into();
        Ok(Client { core: Arc::clone(&self.core), operation, name, of: PhantomData })
    }

    /// Returns a handle for an operation with types by value. Requests, replies and errors are
    /// bytes of these types, which the program encodes. The first call checks that the operation
    /// exists.
    ///
    /// # Errors
    /// An invalid name.
    ///
    /// ```
    /// use stripline::call::{ClientOptions, Operation, ServerOptions, Service};
    /// use stripline::node::{Dispatch, Node};
    ///
    /// let node = Node::isolated()?;
    /// let service = Service::new("root")?.operation("root", |x: f64| Ok::<f64, String>(x.sqrt()))?;
    /// let mut server = node.service_server(service, ServerOptions::default())?;
    /// let client = node.service_client("root", ClientOptions::default())?;
    /// // A language without types uses the operations that the server describes.
    /// assert!(client.wait_for_servers(1, std::time::Duration::from_secs(5))?);
    /// let root = client.operation_of(&client.servers()[0].operations[0])?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| server.serve(Dispatch::Queue));
    ///     // 16 and 4 in CBOR, as floating-point numbers of 16 bits.
    ///     let reply = root.call(&vec![0xf9, 0x4c, 0x00].into()).expect("it is served");
    ///     assert_eq!(reply.0, [0xf9, 0x44, 0x00]);
    ///     node.stop();
    /// });
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn operation_of(&self, operation: &Operation) -> Result<Client<RawBytes, RawBytes, RawBytes>> {
        self.core.check_own()?;
        let Operation { name, request, reply, error, .. } = operation.clone();
        let operation = self.core.register(Operation::new(&name, request, reply, error)?);
        let name = format!("`{}.{name}`", self.core.service).into();
        Ok(Client { core: Arc::clone(&self.core), operation, name, of: PhantomData })
    }

    /// Returns the number of calls made, and of calls that failed: neither a reply nor the
    /// operation's own error arrived. The first number is inexact if several threads call at the
    /// same time.
    pub fn counts(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.core.calls), read(&self.core.failures))
    }

    /// Blocks until that many servers are connected. Returns false if the timeout passes first.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped) when the node is stopped.
    pub fn wait_for_servers(&self, count: usize, timeout: Duration) -> Result<bool> {
        self.core.wait_for_servers(count, Instant::now().checked_add(timeout))
    }

    /// Returns the servers that are or were connected.
    pub fn servers(&self) -> Vec<ServerReport> {
        self.core.servers()
    }
}

impl<Req: Payload, Rep: Payload, E: Payload> Client<Req, Rep, E> {
    /// Calls, and blocks until the reply arrives or the deadline passes.
    ///
    /// # Errors
    /// [`CallError::User`] is the operation's own error. All other errors describe the outcome of
    /// the call and which side failed. After [`Error::Interrupted`](crate::Error::Interrupted) with
    /// `sent`, in a [`CallError::Link`], the call was made and is cancelled. To keep a call after a
    /// wake, use [`Client::start`] and [`Pending::wait_timeout`].
    #[inline]
    pub fn call(&self, request: &Req) -> Result<Rep, CallError<E>> {
        self.with(CallOptions::default()).call(request)
    }

    /// Sends a call without waiting for the reply. Blocks while there is no server or no room,
    /// until the deadline.
    ///
    /// # Errors
    /// The reason why the call could not be made.
    pub fn start(&self, request: &Req) -> Result<Pending<'_, Req, Rep, E>, CallError<E>> {
        self.with(CallOptions::default()).start(request)
    }

    /// Sends a call without waiting for a server, for room or for the reply. For a program with its
    /// own event loop ([`ServiceClient::arm`]).
    ///
    /// # Errors
    /// The reason why the call could not be made: [`CallError::NoServer`] if no server is
    /// connected; [`Error::Full`](crate::Error::Full) in a [`CallError::Link`] if there is no room.
    /// Without room, a request of several fragments may have been sent in part. The server drops
    /// such a request.
    ///
    /// ```
    /// use stripline::call::{CallError, ClientOptions, ServerOptions};
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let double = node.client::<f64, f64, String>("double", ClientOptions::default())?;
    /// assert!(matches!(double.try_start(&2.0), Err(CallError::NoServer { .. })));
    /// let mut server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
    /// let pending = double.try_start(&2.0).expect("a server is there");
    /// server.serve_one(std::time::Duration::from_secs(5))?;
    /// assert_eq!(pending.wait().expect("it was served"), 4.0);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn try_start(&self, request: &Req) -> Result<Pending<'_, Req, Rep, E>, CallError<E>> {
        self.with(CallOptions::default()).try_start(request)
    }

    /// Returns a view of the client that calls with these options.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::call::{CallError, CallOptions, ClientOptions, ServerOptions};
    /// use stripline::node::{Dispatch, Node};
    ///
    /// let node = Node::isolated()?;
    /// let mut server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
    /// let double = node.client::<f64, f64, String>("double", ClientOptions::default())?;
    /// // The server does not reply yet.
    /// let soon = double.with(CallOptions::deadline(Duration::from_millis(1)));
    /// assert!(matches!(soon.call(&2.0), Err(CallError::Unanswered { .. } | CallError::NoServer { .. })));
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| server.serve(Dispatch::Queue));
    ///     assert_eq!(double.with(CallOptions::key(7)).call(&2.0).expect("it is served"), 4.0);
    ///     let pending = double.with(CallOptions::key(7)).start(&3.0).expect("a server is there");
    ///     assert_eq!(pending.wait().expect("it was served"), 6.0);
    ///     node.stop();
    /// });
    /// # Ok::<(), stripline::Error>(())
    /// ```
    #[inline]
    pub fn with(&self, options: CallOptions) -> ClientView<'_, Req, Rep, E> {
        ClientView { client: self, options }
    }

    #[cold]
    fn why(&self, not_made: StartError<'_>, deadline: Duration) -> CallError<E> {
        let service = self.core.service.clone();
        let (connection, error) = match not_made {
            StartError::NoServer => return CallError::NoServer { service, waited: deadline },
            StartError::Link(error) => return CallError::Link(error),
            StartError::At(connection, error) => (connection, error),
        };
        let call = self.label(connection);
        match error {
            SendError::Closed => CallError::ServerGone { call },
            SendError::TooMany => {
                CallError::TooMany { service, outstanding_max: self.core.options.outstanding }
            }
            SendError::Refused(refusal, reason) => CallError::Refused { call, refusal, reason },
            SendError::Full => CallError::Unanswered { call, deadline },
            SendError::Link(error) => CallError::Link(error),
        }
    }

    fn label(&self, connection: &ServerConnection) -> String {
        format!("{} at `{}`", self.name, connection.label())
    }

    /// Reads a reply. Inlined so that the value is written to the final place. On the path of a
    /// call, no value is copied in chunks that differ from the chunks in which it was written.
    #[inline(always)]
    fn read(&self, connection: &ServerConnection, reply: WireReply<'_>) -> Result<Rep, CallError<E>> {
        match reply.status {
            ReplyStatus::Done => Rep::decode(reply.payload)
                .map_err(|reason| CallError::Decode { call: self.label(connection), reason }),
            _ => Err(self.read_error(connection, reply)),
        }
    }

    #[cold]
    fn read_error(&self, connection: &ServerConnection, reply: WireReply<'_>) -> CallError<E> {
        let call = self.label(connection);
        let ReplyStatus::Refused(refusal) = reply.status else {
            return E::decode(reply.payload)
                .map_or_else(|reason| CallError::Decode { call, reason }, CallError::User);
        };
        // A peer may send a text of any length, so only the start is read.
        let words = &reply.payload[..reply.payload.len().min(1024)];
        CallError::Refused { call, refusal, reason: String::from_utf8_lossy(words).into_owned() }
    }
}

impl<'c, Req: Payload, Rep: Payload, E: Payload> ClientView<'c, Req, Rep, E> {
    /// Calls like [`Client::call`], with the view's options.
    ///
    /// # Errors
    /// Same as [`Client::call`].
    #[inline]
    pub fn call(&self, request: &Req) -> Result<Rep, CallError<E>> {
        let mut deadline = CallDeadline::lazy(self.deadline());
        let (connection, number) = self.begin(request, &mut deadline)?;
        // The usual reply has a separate variable. As part of a larger value, it would be moved in
        // chunks that differ from the chunks in which it was written, which stalls the processor.
        let (mut usual, mut error) = (None, None);
        let interrupt = self.client.core.stop.interrupt();
        let waited = connection.wait(number, &mut deadline, interrupt, |reply| match decode(&reply) {
            Some(value) => usual = Some(value),
            None => error = Some(self.client.read(connection, reply)),
        });
        match (waited, usual) {
            (WaitOutcome::Reply, Some(value)) => Ok(value),
            (waited, _) => {
                let client = self.client;
                let mut pending = Pending { client, connection, number, deadline, is_over: false };
                let settled = pending.settle(waited, error);
                pending.conclude(settled)
            }
        }
    }

    /// Starts a call like [`Client::start`], with the view's options.
    ///
    /// # Errors
    /// Same as [`Client::start`].
    pub fn start(&self, request: &Req) -> Result<Pending<'c, Req, Rep, E>, CallError<E>> {
        let mut deadline = CallDeadline::starting_now(self.deadline());
        let (connection, number) = self.begin(request, &mut deadline)?;
        Ok(Pending { client: self.client, connection, number, deadline, is_over: false })
    }

    /// Starts a call like [`Client::try_start`], with the view's options.
    ///
    /// # Errors
    /// Same as [`Client::try_start`].
    pub fn try_start(&self, request: &Req) -> Result<Pending<'c, Req, Rep, E>, CallError<E>> {
        let deadline = CallDeadline::starting_now(self.deadline());
        let (connection, number) =
            self.begin(request, &mut deadline.expired()).map_err(|error| match error {
                CallError::NoServer { service, .. } => {
                    CallError::NoServer { service, waited: Duration::ZERO }
                }
                CallError::Unanswered { call, .. } => {
                    CallError::Link(crate::Error::Full { connection: call })
                }
                error => error,
            })?;
        Ok(Pending { client: self.client, connection, number, deadline, is_over: false })
    }

    /// Sends the call.
    #[inline]
    fn begin(
        &self,
        request: &Req,
        deadline: &mut CallDeadline,
    ) -> Result<(&'c ServerConnection, u64), CallError<E>> {
        let (client, key) = (self.client, self.options.key);
        let mut start = |bytes: &[u8]| client.core.start(client.operation, bytes, key, deadline);
        let started = match request.as_bytes() {
            Some(bytes) => start(bytes),
            None => encode(request, start),
        };
        started.map_err(|error| {
            client.core.failed();
            client.why(error, deadline.deadline)
        })
    }

    #[inline]
    fn deadline(&self) -> Duration {
        let own = self.options.deadline.map(|deadline| deadline.min(ClientOptions::DEADLINE_MAX));
        own.unwrap_or(self.client.core.options.deadline)
    }
}

#[cfg(test)]
impl<Req: Payload, Rep: Payload, E: Payload> Client<Req, Rep, E> {
    /// Sends bytes that are not a request. Returns false if no connection has room, or none is
    /// open. A connection that has ended may still be in the list.
    pub(super) fn misbehave(&self, bytes: &[u8]) -> bool {
        let send = |sender: &mut super::server_connection::RequestSender| {
            let wait = crate::transport::Wait::Never;
            sender.outgoing.send_bytes(bytes.len(), wait, |place| place.copy_from_slice(bytes))
        };
        self.core.connections.iter().any(|connection| matches!(connection.with_sender(send), Some(Ok(()))))
    }
}

impl<Req: Payload, Rep: Payload, E: Payload> Pending<'_, Req, Rep, E> {
    /// Blocks until the reply arrives or the deadline passes.
    ///
    /// # Errors
    /// Same as [`Client::call`].
    pub fn wait(mut self) -> Result<Rep, CallError<E>> {
        if self.is_over {
            return Err(CallError::Cancelled);
        }
        let settled = self.receive(Some(self.deadline));
        self.conclude(settled)
    }

    /// Returns the reply if it has arrived, and only once.
    pub fn try_take(&mut self) -> Option<Result<Rep, CallError<E>>> {
        self.receive(None)
    }

    /// Blocks until the reply arrives or the timeout passes. After a timeout the call stays
    /// outstanding. The call also stays outstanding after
    /// [`Error::Interrupted`](crate::Error::Interrupted) in a [`CallError::Link`]; in this case,
    /// wait again.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<Rep, CallError<E>>> {
        self.receive(Some(self.deadline.capped(timeout)))
    }

    /// Returns the same call without a borrow of the client, so that it can be stored beside the
    /// client and moved to another thread.
    pub fn into_owned(self) -> OwnedPending<Req, Rep, E> {
        OwnedPending::new(self)
    }

    /// Cancels the call. A server that has not started the call will not start it. Whether it had
    /// started is unknown here; its reply is dropped and counted.
    pub fn cancel(mut self) {
        self.give_up();
    }

    /// Receives the reply until the deadline. Without a deadline, takes only a reply that has
    /// already arrived. Returns `None` if the call is still outstanding, or was already over.
    fn receive(&mut self, deadline: Option<CallDeadline>) -> Option<Result<Rep, CallError<E>>> {
        if self.is_over {
            return None;
        }
        let (client, connection, mut outcome) = (self.client, self.connection, None);
        let read = |reply: WireReply<'_>| outcome = Some(client.read(connection, reply));
        let waited = match (client.core.check_own(), deadline) {
            (Err(error), _) => WaitOutcome::Link(error),
            (Ok(()), Some(mut deadline)) => {
                connection.wait(self.number, &mut deadline, client.core.stop.interrupt(), read)
            }
            (Ok(()), None) => connection.try_take(self.number, read),
        };
        self.settle(waited, outcome)
    }

    /// Returns the outcome of a wait with no limit but the deadline of the call.
    fn conclude(mut self, settled: Option<Result<Rep, CallError<E>>>) -> Result<Rep, CallError<E>> {
        settled.unwrap_or_else(|| {
            self.give_up();
            self.client.core.failed();
            let call = self.client.label(self.connection);
            Err(CallError::Unanswered { call, deadline: self.deadline.deadline })
        })
    }

    /// Returns the outcome of a wait; `None`: the call is still outstanding.
    fn settle(
        &mut self,
        waited: WaitOutcome,
        outcome: Option<Result<Rep, CallError<E>>>,
    ) -> Option<Result<Rep, CallError<E>>> {
        let outcome = match (waited, outcome) {
            (WaitOutcome::TimedOut, _) => return None,
            (WaitOutcome::Reply, Some(outcome)) => outcome,
            (WaitOutcome::Reply, None) | (WaitOutcome::Closed, _) => {
                Err(CallError::ServerGone { call: self.client.label(self.connection) })
            }
            // After an interruption the call is still outstanding.
            (WaitOutcome::Link(error @ crate::Error::Interrupted { .. }), _) => {
                return Some(Err(CallError::Link(error)));
            }
            (WaitOutcome::Link(error), _) => {
                self.give_up();
                Err(CallError::Link(error))
            }
        };
        self.is_over = true;
        if !matches!(outcome, Ok(_) | Err(CallError::User(_))) {
            self.client.core.failed();
        }
        Some(outcome)
    }

    fn give_up(&mut self) {
        let is_over = std::mem::replace(&mut self.is_over, true);
        if !is_over && self.client.core.process.is_current() {
            self.connection.abandon(self.number);
        }
    }
}

impl<Req: Payload, Rep: Payload, E: Payload> Drop for Pending<'_, Req, Rep, E> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Encodes a request and passes it to `send`.
fn encode<'c, R>(
    request: &impl Payload,
    send: impl FnOnce(&[u8]) -> Result<R, StartError<'c>>,
) -> Result<R, StartError<'c>> {
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let sent = match request.encode(&mut scratch) {
        Ok(bytes) => send(bytes),
        Err(error) => Err(StartError::Link(error)),
    };
    SCRATCH.set(scratch);
    sent
}

/// Decodes the value of a successful reply.
#[inline(always)]
fn decode<Rep: Payload>(reply: &WireReply<'_>) -> Option<Rep> {
    if reply.status == ReplyStatus::Done { Rep::decode(reply.payload).ok() } else { None }
}
