//! The core shared by the handles of a client: the connections to the servers, and the selection of
//! a server.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::link::{Incoming, Outgoing};
use crate::sys::fork::{Local, OwnerProcess};
use crate::sys::mutex::lock;
use crate::transport::{StopToken, Wait};

use super::ClientOptions;
use super::client_ready::ClientReady;
use super::clients::ServerInfo;
use super::deadline::CallDeadline;
use super::error::Refusal;
use super::server_connection::{ReconnectOnDrop, RequestSender, SendError, ServerConnection, ServerReport};
use super::service::Operation;

/// The interval at which a client that waits for a server checks for a stop and for a wake.
const STOP_POLL: Duration = Duration::from_millis(20);

/// The state shared by all handles of a client of one service.
pub(crate) struct ClientCore {
    pub(super) service: String,
    pub(super) process: OwnerProcess,
    pub(super) options: ClientOptions,
    pub(super) stop: StopToken,
    pub(super) connections: Box<[ServerConnection]>,
    /// The number of connections that have ever been used.
    pub(super) used: AtomicUsize,
    /// The index of the next server in turn.
    pub(super) next_server: AtomicUsize,
    pub(super) operations: Mutex<Vec<Operation>>,
    /// The number of servers found so far.
    pub(super) server_changes: Mutex<u64>,
    pub(super) changed: Condvar,
    pub(super) calls: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) ready: Arc<ClientReady>,
}

/// The reason why a call was not made.
pub(super) enum StartError<'c> {
    NoServer,
    /// The error of this server, which is not [`SendError::Closed`].
    At(&'c ServerConnection, SendError),
    Link(Error),
}

impl ClientCore {
    pub(crate) fn new(service: &str, options: ClientOptions, stop: StopToken) -> Result<Self> {
        super::service::check_name("service", service)?;
        options
            .check()
            .map_err(|problem| Error::InvalidArgument(format!("client of `{service}`: {problem}")))?;
        let ready: Arc<ClientReady> = Arc::default();
        let connection = |_| ServerConnection::new(Arc::clone(&ready));
        Ok(Self {
            service: service.into(),
            process: OwnerProcess::current(),
            options,
            stop,
            connections: (0..ClientOptions::SERVERS_MAX).map(connection).collect(),
            used: AtomicUsize::new(0),
            next_server: AtomicUsize::new(0),
            operations: Mutex::default(),
            server_changes: Mutex::default(),
            changed: Condvar::new(),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            ready,
        })
    }

    /// Checks that this process made the client.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that made the client.
    #[inline]
    pub(super) fn check_own(&self) -> Result<()> {
        self.process.check(|| format!("client of `{}`", self.service))
    }

    /// Adds a server.
    ///
    /// # Errors
    /// The server has no valid self-description, or the limit of servers is reached.
    pub(crate) fn add_server(
        &self,
        outgoing: Outgoing,
        incoming: Incoming,
        server_info: serde_json::Value,
        way_back: ReconnectOnDrop,
    ) -> Result<()> {
        let server_info = ServerInfo::read(server_info, &self.service, incoming.port())?;
        let wanted = lock(&self.operations);
        let operations = wanted.iter().map(|operation| find(operation, &server_info.operations)).collect();
        let sender = RequestSender {
            outgoing,
            operations,
            offered: server_info.operations,
            server: server_info.id,
            next_slot: 0,
            _reconnect: Local::new(way_back),
        };
        let mut ends = Some((sender, incoming));
        for (index, connection) in self.connections.iter().enumerate() {
            if connection.connect(&mut ends, &server_info.server, self.options.outstanding) {
                self.used.fetch_max(index + 1, Ordering::Release);
                *lock(&self.server_changes) += 1;
                self.changed.notify_all();
                self.ready.set_changed();
                return Ok(());
            }
        }
        let max = ClientOptions::SERVERS_MAX;
        Err(Error::Configuration(format!("client of `{}`: there are more than {max} servers", self.service)))
    }

    pub(super) fn register(&self, operation: Operation) -> usize {
        let mut operations = lock(&self.operations);
        if let Some(known) = operations.iter().position(|known| known.is_like(&operation)) {
            return known;
        }
        for connection in &self.connections {
            connection.with_sender(|sender| sender.operations.push(find(&operation, &sender.offered)));
        }
        operations.push(operation);
        operations.len() - 1
    }

    /// Sends a call to one of the servers. Returns the connection to the server and the number of
    /// the call.
    pub(super) fn start(
        &self,
        operation: usize,
        payload: &[u8],
        key: Option<u64>,
        call_deadline: &mut CallDeadline,
    ) -> Result<(&ServerConnection, u64), StartError<'_>> {
        self.check_own().map_err(StartError::Link)?;
        loop {
            let Some(connection) = self.select_server(key) else {
                let there =
                    self.wait_for_servers(1, Some(call_deadline.until())).map_err(StartError::Link)?;
                if there { continue } else { return Err(StartError::NoServer) }
            };
            match connection.start(operation, payload, call_deadline) {
                Ok(number) => {
                    // Inexact if several threads call at the same time, because `calls` is only for
                    // display.
                    self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    return Ok((connection, number));
                }
                Err(SendError::Closed) => {}
                Err(error) => return Err(StartError::At(connection, error)),
            }
        }
    }

    /// Returns the server for the next call, if a server is connected.
    #[inline]
    fn select_server(&self, key: Option<u64>) -> Option<&ServerConnection> {
        let connections = self.used_connections();
        if let Some(key) = key {
            // Highest random weight (Thaler and Ravishankar, 1998).
            let living = connections.iter().filter(|connection| connection.is_alive());
            return living.max_by_key(|connection| mixed(connection.hash() ^ mixed(key)));
        }
        if let [only] = connections {
            return only.is_alive().then_some(only);
        }
        // Inexact if several threads call at the same time, which affects only the turn.
        let turn = self.next_server.load(Ordering::Relaxed);
        let used = connections.len();
        let index =
            (0..used).map(|step| (turn + step) % used).find(|&index| connections[index].is_alive())?;
        self.next_server.store(index + 1, Ordering::Relaxed);
        Some(&connections[index])
    }

    /// Returns the connections that have ever been used.
    #[inline]
    pub(super) fn used_connections(&self) -> &[ServerConnection] {
        &self.connections[..self.used.load(Ordering::Acquire)]
    }

    pub(super) fn wait_for_servers(&self, count: usize, until: Option<Instant>) -> Result<bool> {
        self.check_own()?;
        let mut server_changes = lock(&self.server_changes);
        loop {
            self.stop.check(Wait::FOREVER)?;
            let is_alive = |connection: &&ServerConnection| connection.is_alive();
            let connections = self.used_connections();
            connections.iter().filter(is_alive).for_each(ServerConnection::drain_late);
            if connections.iter().filter(is_alive).count() >= count {
                return Ok(true);
            }
            let time = until.map_or(STOP_POLL, |until| until.saturating_duration_since(Instant::now()));
            if time.is_zero() {
                return Ok(false);
            }
            let time = time.min(STOP_POLL);
            server_changes =
                self.changed.wait_timeout(server_changes, time).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn servers(&self) -> Vec<ServerReport> {
        if !self.process.is_current() {
            return Vec::new();
        }
        self.used_connections().iter().map(ServerConnection::report).collect()
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the number of an operation among the operations of a server.
fn find(wanted: &Operation, offered: &[Operation]) -> Result<u16, (Refusal, String)> {
    let Some(number) = offered.iter().position(|operation| operation.name == wanted.name) else {
        let there: Vec<&str> = offered.iter().map(|operation| operation.name.as_str()).collect();
        return Err((Refusal::UnknownOperation, format!("it has {}", there.join(", "))));
    };
    let offer = &offered[number];
    for (what, wanted, offered) in [
        ("request", &wanted.request, &offer.request),
        ("reply", &wanted.reply, &offer.reply),
        ("error", &wanted.error, &offer.error),
    ] {
        if wanted != offered {
            return Err((
                Refusal::WrongType,
                format!("its {what} is {}, and not {}", offered.full_text(), wanted.full_text()),
            ));
        }
    }
    u16::try_from(number).map_err(|_| (Refusal::UnknownOperation, "it has too many operations".into()))
}

/// Mixes all bits (splitmix64; Steele et al. 2014).
fn mixed(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
