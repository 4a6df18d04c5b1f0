//! The options of clients and servers.

use std::time::Duration;

use crate::terms::{LinkOptions, WaitStrategy};

/// The options of a client. The server chooses the transport of the calls.
///
/// ```
/// use std::time::Duration;
/// use stripline::call::ClientOptions;
///
/// assert_eq!(ClientOptions::default().deadline, Duration::from_secs(5));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// The longest time from a call to the reply, including the wait for a server: at most an hour.
    pub deadline: Duration,
    /// The strategy of waits for replies and for room for requests.
    pub wait: WaitStrategy,
    /// The number of calls that may be outstanding at each server: 1 to
    /// [`ClientOptions::OUTSTANDING_MAX`].
    pub outstanding: u32,
    /// The size of the buffer for requests in bytes, like [`LinkOptions::buffer`]. Larger requests
    /// are sent in fragments.
    pub buffer: u32,
}

impl ClientOptions {
    /// The most calls outstanding at one server.
    pub const OUTSTANDING_MAX: u32 = 16_384;
    /// The longest deadline.
    pub const DEADLINE_MAX: Duration = Duration::from_secs(3600);
    /// The most servers of one service that a client calls.
    pub const SERVERS_MAX: usize = 64;

    /// Checks the numbers against their ranges.
    ///
    /// # Errors
    /// A sentence that names the number and the allowed range.
    ///
    /// ```
    /// use stripline::call::ClientOptions;
    ///
    /// let options = ClientOptions { outstanding: 0, ..ClientOptions::default() };
    /// assert_eq!(options.check().unwrap_err(), "outstanding is 0; it must be from 1 to 16384");
    /// ```
    pub fn check(&self) -> Result<(), String> {
        if self.outstanding == 0 || self.outstanding > Self::OUTSTANDING_MAX {
            let max = Self::OUTSTANDING_MAX;
            return Err(format!("outstanding is {}; it must be from 1 to {max}", self.outstanding));
        }
        if self.deadline.is_zero() || self.deadline > Self::DEADLINE_MAX {
            return Err(format!(
                "a deadline of {:?}; it must be at most an hour, and not zero",
                self.deadline
            ));
        }
        LinkOptions { buffer: self.buffer, ..LinkOptions::default() }.check()
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            wait: WaitStrategy::Adaptive,
            outstanding: 1024,
            buffer: 1 << 18,
        }
    }
}

/// The options of single calls: [`Client::with`](super::Client::with).
///
/// ```
/// use std::time::Duration;
/// use stripline::call::CallOptions;
///
/// let deadline = Duration::from_millis(20);
/// let both = CallOptions { key: Some(7), deadline: Some(deadline) };
/// assert_eq!(CallOptions::key(7), CallOptions { deadline: None, ..both });
/// assert_eq!(CallOptions::deadline(deadline), CallOptions { key: None, ..both });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// The key that selects the server. With the same servers, a key always selects the same
    /// server. When a server is added or removed, only the keys of this server move. `None`: the
    /// servers take turns.
    pub key: Option<u64>,
    /// The longest time that the call may take: at most [`ClientOptions::DEADLINE_MAX`]. `None`:
    /// [`ClientOptions::deadline`] of the client.
    pub deadline: Option<Duration>,
}

impl CallOptions {
    /// Returns options with this key and otherwise the client's options.
    pub fn key(key: u64) -> Self {
        Self { key: Some(key), ..Self::default() }
    }

    /// Returns options with this deadline and otherwise the client's options.
    pub fn deadline(deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..Self::default() }
    }
}

/// The options of a server.
///
/// ```
/// use stripline::call::ServerOptions;
///
/// let options = ServerOptions { transport: Some("uds".into()), ..ServerOptions::default() };
/// assert_eq!(options.clients, 256);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// The name of the transport, or [`AUTO`](crate::transport::AUTO), which is `shm`. `None`: the
    /// transport that the domain's topics specify for the name of the service.
    pub transport: Option<String>,
    /// The name of this server, 1 to 64 bytes. With a name, calls with a key reach the same server
    /// again after a restart. `None`: a unique name is generated.
    pub name: Option<String>,
    /// The strategy of waits for requests.
    pub wait: WaitStrategy,
    /// The size of the buffer for the replies to each client in bytes, like
    /// [`LinkOptions::buffer`]. Larger replies are sent in fragments.
    pub buffer: u32,
    /// The most clients connected at the same time: 1 to 4096.
    pub clients: u32,
    /// The number of calls that may wait behind the next one, at most
    /// [`ServerOptions::WAITING_MAX`]. Further calls are refused with
    /// [`Refusal::Overloaded`](super::Refusal::Overloaded) as soon as a thread is free to reply.
    /// `None`: calls wait, as many as the clients may have outstanding.
    pub waiting: Option<u32>,
}

impl ServerOptions {
    /// The most clients connected at the same time.
    pub const CLIENTS_MAX: u32 = 4096;
    /// The most calls that may wait before further calls are refused. Before the server starts a
    /// call, it reads ahead up to that many requests, or 4 MiB, to check for cancellations.
    pub const WAITING_MAX: u32 = 4096;

    /// Checks the numbers against their ranges.
    ///
    /// # Errors
    /// A sentence that names the number that is out of range.
    ///
    /// ```
    /// use stripline::call::ServerOptions;
    ///
    /// let options = ServerOptions { clients: 0, ..ServerOptions::default() };
    /// assert_eq!(options.check().unwrap_err(), "clients is 0; it must be from 1 to 4096");
    /// ```
    pub fn check(&self) -> Result<(), String> {
        if self.clients == 0 || self.clients > Self::CLIENTS_MAX {
            return Err(format!("clients is {}; it must be from 1 to {}", self.clients, Self::CLIENTS_MAX));
        }
        if self.waiting.is_some_and(|waiting| waiting > Self::WAITING_MAX) {
            return Err(format!("waiting is out of range; it must be at most {}", Self::WAITING_MAX));
        }
        if let Some(name) = &self.name
            && (name.is_empty() || name.len() > 64)
        {
            return Err(format!("a server's name has from 1 to 64 bytes, not {}", name.len()));
        }
        LinkOptions { buffer: self.buffer, ..LinkOptions::default() }.check()
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            transport: None,
            name: None,
            wait: WaitStrategy::Adaptive,
            buffer: 1 << 18,
            clients: 256,
            waiting: None,
        }
    }
}
