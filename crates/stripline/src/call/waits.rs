//! Wakers that end the waits of clients and servers from other threads.

use std::sync::Arc;

use crate::error::Result;
use crate::node::{NoAttention, Waker};

use super::client_core::ClientCore;
use super::server_connection::ServerConnection;
use super::{Client, Server, ServiceClient};

fn waker_of(core: &ClientCore) -> Result<Waker> {
    core.check_own()?;
    let waker = Waker::new((Arc::clone(core.stop.interrupt()), Arc::new(NoAttention)))?;
    // A thread may already be in a wait that no waker could end until now.
    core.used_connections().iter().for_each(ServerConnection::renew_wait);
    Ok(waker)
}

impl ServiceClient {
    /// Returns a handle with which other threads end a wait of this client in any handle: a call, a
    /// pending call, [`ServiceClient::wait_for_servers`]. Each wake ends one wait, even if several
    /// threads wait. A wake takes up to 10 ms to end the wait of a thread for which another thread
    /// receives.
    ///
    /// The interrupted function returns [`Error::Interrupted`](crate::Error::Interrupted), for
    /// calls in a [`CallError::Link`](super::CallError::Link). With `sent`, the call was made.
    ///
    /// # Errors
    /// Same as [`Publisher::waker`](crate::node::Publisher::waker).
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::call::ClientOptions;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let tuner = node.service_client("tuner", ClientOptions::default())?;
    /// let waker = tuner.waker()?;
    /// std::thread::spawn(move || waker.wake());
    /// assert!(tuner.wait_for_servers(1, Duration::from_secs(3600)).is_err());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn waker(&self) -> Result<Waker> {
        waker_of(&self.core)
    }
}

impl<Req, Rep, E> Client<Req, Rep, E> {
    /// Returns a handle with which other threads end a wait of this client, as
    /// [`ServiceClient::waker`] does. All handles of a client share the waker.
    ///
    /// # Errors
    /// Same as [`ServiceClient::waker`].
    pub fn waker(&self) -> Result<Waker> {
        waker_of(&self.core)
    }
}

impl Server<'_> {
    /// Returns a handle with which other threads end a wait of this server: in [`Server::serve`],
    /// also with a pool, and in [`Server::serve_one`]. Handlers that have begun finish first.
    /// Waiting calls are kept.
    ///
    /// # Errors
    /// Same as [`Publisher::waker`](crate::node::Publisher::waker).
    ///
    /// ```
    /// use stripline::call::ServerOptions;
    /// use stripline::node::Dispatch;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
    /// let waker = server.waker()?;
    /// std::thread::spawn(move || waker.wake());
    /// assert!(matches!(server.serve(Dispatch::Queue), Err(stripline::Error::Interrupted { .. })));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn waker(&mut self) -> Result<Waker> {
        self.handlers.check_own()?;
        Waker::new(self.requests.incoming.interrupt())
    }
}
