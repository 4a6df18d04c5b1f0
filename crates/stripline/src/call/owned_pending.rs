//! Calls that were started, without a borrow of their client.

use std::fmt;
use std::time::Duration;

use super::client::{Client, Pending};
use super::deadline::CallDeadline;
use super::{CallError, Payload};

/// A [`Pending`] call that owns a handle of the client. Dropping it cancels the call.
///
/// ```
/// use stripline::call::{ClientOptions, ServerOptions};
/// use stripline::node::{Dispatch, Node};
///
/// let node = Node::isolated()?;
/// let mut server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
/// let started = {
///     let double = node.client::<f64, f64, String>("double", ClientOptions::default())?;
///     double.start(&2.0).expect("a server is there").into_owned()
/// };
/// let waiting = std::thread::spawn(move || started.wait().expect("it was served"));
/// server.serve_one(std::time::Duration::from_secs(5))?;
/// assert_eq!(waiting.join().expect("it does not panic"), 4.0);
/// # Ok::<(), stripline::Error>(())
/// ```
#[must_use = "a call that is dropped is cancelled"]
pub struct OwnedPending<Req: Payload, Rep: Payload, E: Payload> {
    client: Client<Req, Rep, E>,
    /// The index of the connection among the connections of the client.
    connection: usize,
    number: u64,
    deadline: CallDeadline,
    is_over: bool,
}

impl<Req: Payload, Rep: Payload, E: Payload> OwnedPending<Req, Rep, E> {
    pub(super) fn new(mut pending: Pending<'_, Req, Rep, E>) -> Self {
        // The call continues without `pending`.
        let is_over = std::mem::replace(&mut pending.is_over, true);
        let client = pending.client.clone();
        let connections = &client.core.connections;
        let connection = connections.iter().position(|other| std::ptr::eq(other, pending.connection));
        let Some(connection) = connection else { unreachable!("it is one of its client's connections") };
        Self { connection, number: pending.number, deadline: pending.deadline, is_over, client }
    }

    /// Blocks until the reply arrives or the deadline passes, as [`Pending::wait`] does.
    ///
    /// # Errors
    /// Same as [`Client::call`].
    pub fn wait(mut self) -> Result<Rep, CallError<E>> {
        let is_over = std::mem::replace(&mut self.is_over, true);
        self.borrowed(is_over).wait()
    }

    /// Returns the reply if it has arrived, and only once.
    pub fn try_take(&mut self) -> Option<Result<Rep, CallError<E>>> {
        self.with(|pending| pending.try_take())
    }

    /// Blocks until the reply arrives or the timeout passes. After a timeout the call stays
    /// outstanding.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<Rep, CallError<E>>> {
        self.with(|pending| pending.wait_timeout(timeout))
    }

    /// Cancels the call, as [`Pending::cancel`] does.
    pub fn cancel(self) {}

    fn with<R>(&mut self, work: impl FnOnce(&mut Pending<'_, Req, Rep, E>) -> R) -> R {
        let mut pending = self.borrowed(self.is_over);
        let result = work(&mut pending);
        // The call continues after this, unless it is over: only dropping `self` cancels it.
        let is_over = std::mem::replace(&mut pending.is_over, true);
        drop(pending);
        self.is_over = is_over;
        result
    }

    fn borrowed(&self, is_over: bool) -> Pending<'_, Req, Rep, E> {
        let Self { client, number, deadline, .. } = self;
        let connection = &client.core.connections[self.connection];
        Pending { client, connection, number: *number, deadline: *deadline, is_over }
    }
}

impl<Req: Payload, Rep: Payload, E: Payload> Drop for OwnedPending<Req, Rep, E> {
    fn drop(&mut self) {
        drop(self.borrowed(self.is_over));
    }
}

impl<Req: Payload, Rep: Payload, E: Payload> fmt::Debug for OwnedPending<Req, Rep, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPending").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

/// A call may move to another thread.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<OwnedPending<f64, f64, String>>();
};
