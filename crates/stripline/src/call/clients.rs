//! The table of a server's clients, with the acceptor that adds them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::link::{Incoming, Outgoing, PortEvent, PortEvents, Sampling};
use crate::sys::mutex::lock;
use crate::sys::refusal::PeerRefusal;
use crate::transport::StopToken;
use crate::transport::duplex::{CallAcceptor, Duplex};
use crate::transport::handshake::Hello;

use super::counts::Counts;
use super::replies::ReplySender;
use super::{ClientOptions, Operation};

/// The information that a server sends to each client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerInfo {
    pub service: String,
    pub server: String,
    pub id: u64,
    pub operations: Vec<Operation>,
}

impl ServerInfo {
    /// Parses the information sent by a server of the given service.
    ///
    /// # Errors
    /// The information is invalid or describes another service.
    pub(super) fn read(server_info: serde_json::Value, service: &str, peer: &str) -> Result<Self> {
        let server_info: Self = serde_json::from_value(server_info)
            .map_err(|e| Error::misbehaved(peer, format!("sent no valid server information: {e}")))?;
        if server_info.service != service {
            return Err(Error::misbehaved(peer, format!("serves `{}`", server_info.service)));
        }
        Ok(server_info)
    }
}

/// The reply senders of the connected clients.
pub(super) struct ClientTable {
    clients: Mutex<HashMap<String, Arc<ReplySender>>>,
    events: Arc<PortEvents>,
}

/// The acceptor of clients.
pub(super) struct ClientAcceptor {
    pub clients: Arc<ClientTable>,
    pub counts: Arc<Counts>,
    pub server_info: serde_json::Value,
    pub clients_max: usize,
    pub stop: StopToken,
}

impl ClientTable {
    pub(super) fn new(events: Arc<PortEvents>) -> Self {
        Self { clients: Mutex::default(), events }
    }

    /// Returns the reply sender of the client with this connection.
    pub(super) fn replies_for(&self, connection: &str) -> Option<Arc<ReplySender>> {
        lock(&self.clients).get(connection).cloned()
    }

    /// Returns the number of connected clients, by system calls.
    pub(super) fn count(&self) -> usize {
        lock(&self.clients).values().filter(|replies| !replies.is_over()).count()
    }

    /// Closes the reply senders of clients that have left the port. Returns false while a client is
    /// about to be accepted, because such a client must not be mistaken for a client that has left.
    pub(super) fn close_departed(&self, port: &Incoming) -> bool {
        let mut clients = lock(&self.clients);
        // This check is made under the lock: the port has either handled the connection of each
        // client, or has it among the events.
        if self.events.is_pending() {
            return false;
        }
        clients.retain(|connection, replies| {
            let stays = port.is_connected(connection);
            if !stays {
                replies.close();
            }
            stays
        });
        true
    }

    /// Closes the reply senders of all clients.
    pub(super) fn close_all(&self) {
        lock(&self.clients).drain().for_each(|(_, replies)| replies.close());
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.clients).len()
    }
}

impl CallAcceptor for ClientAcceptor {
    fn server_info(&self) -> serde_json::Value {
        self.server_info.clone()
    }

    fn check(&mut self, hello: &Hello) -> Result<(), PeerRefusal> {
        let outstanding = hello.call.as_ref().map_or(0, |call| call.outstanding);
        if outstanding == 0 || outstanding > 4 * ClientOptions::OUTSTANDING_MAX {
            return Err(PeerRefusal::violation(format!("{outstanding} calls outstanding are out of range")));
        }
        let mut clients = lock(&self.clients.clients);
        // The serving thread removes closed clients with the next request. So a check is not needed
        // at every accept, which saves a system call.
        if clients.len() >= self.clients_max || clients.contains_key(&hello.connection) {
            clients.retain(|_, replies| !replies.is_over());
        }
        if clients.contains_key(&hello.connection) {
            return Err("a client of that name is connected already".into());
        }
        if clients.len() >= self.clients_max {
            return Err(format!("{} clients are connected already, which is the limit", clients.len()).into());
        }
        Ok(())
    }

    fn accept(&mut self, hello: &Hello, duplex: Duplex) {
        let name = hello.connection.clone();
        // The duration of a call in both directions is measured by the client.
        let mut outgoing = Outgoing::new(name.clone(), vec![duplex.outlet], Sampling::Off, self.stop.clone());
        outgoing.admit();
        let outstanding = hello.call.as_ref().map_or(0, |call| call.outstanding);
        let replies = ReplySender::new(name.clone(), outstanding, outgoing, Arc::clone(&self.counts));
        let mut clients = lock(&self.clients.clients);
        clients.insert(name.clone(), Arc::new(replies));
        self.clients.events.push(PortEvent::Connected(name, duplex.inlet));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::call::{Client, ServerOptions};
    use crate::message_queue_turn::MessageQueueTurn;
    use crate::node::Node;
    use crate::transport;

    use super::*;

    #[test]
    fn what_clients_leave_behind_goes_with_the_calls_of_others() {
        for transport in transport::all().map(|transport| transport.name) {
            let _turn = MessageQueueTurn::take(transport);
            let node = Node::isolated().unwrap();
            let options = ServerOptions { transport: Some(transport.into()), ..ServerOptions::default() };
            let mut server = node.server("echo", Ok::<u32, String>, options).unwrap();
            let mut call = |client: &Client<u32, u32>| {
                let pending = client.start(&7).unwrap();
                while !server.serve_one(Duration::from_millis(1)).unwrap() {}
                assert_eq!(pending.wait().unwrap(), 7, "{transport}");
                server.client_count()
            };
            let client = || -> Client<u32, u32> { node.client("echo", ClientOptions::default()).unwrap() };
            let stays = client();
            let leave = [client(), client()];
            let ways_back = leave.iter().chain([&stays]).map(&mut call).max();
            assert_eq!(ways_back, Some(3), "{transport}");
            drop(leave);
            let end = Instant::now() + Duration::from_secs(20);
            while call(&stays) > 1 {
                assert!(Instant::now() < end, "{transport}: they are still there");
            }
        }
    }
}
