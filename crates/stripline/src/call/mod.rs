//! Two-way calls: a client sends a request, a server replies.
//!
//! A *service* is a set of named *operations*, each with a type of request, of reply and of error.
//! A server runs their handlers. Any number of clients call them, over one connection each, with
//! any number of calls outstanding. [`Node::client`] and [`Node::server`] make both.
//!
//! ```
//! use stripline::call::{CallError, ClientOptions, ServerOptions};
//! use stripline::node::{Dispatch, Node};
//!
//! let node = Node::isolated()?;
//! let root = |x: f64| if x < 0.0 { Err("negative".to_string()) } else { Ok(x.sqrt()) };
//! let mut server = node.server("root", root, ServerOptions::default())?;
//! let client = node.client::<f64, f64, String>("root", ClientOptions::default())?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| server.serve(Dispatch::Queue));
//!     assert_eq!(client.call(&16.0).expect("it has a root"), 4.0);
//!     assert!(matches!(client.call(&-1.0), Err(CallError::User(words)) if words == "negative"));
//!     node.stop();
//! });
//! # Ok::<(), stripline::Error>(())
//! ```
//!
//! A trait with the attribute [`stripline::service`](macro@crate::service) defines a service with
//! less code.
//!
//! | type | what it is | made by |
//! | --- | --- | --- |
//! | [`Service`] | named operations and their handlers, connected to nothing | [`Service::new`] |
//! | [`Server`] | serves one service to all its clients | [`Node::service_server`], [`Node::server`] |
//! | [`ServiceClient`] | the connections to all servers of a service | [`Node::service_client`] |
//! | [`Client`] | calls one operation of them | [`ServiceClient::operation`], [`Node::client`] |
//! | [`ClientView`] | the same with a key or a deadline of its own | [`Client::with`] |
//! | [`Pending`] | a call that was started | [`Client::start`], [`ClientView::start`] |
//!
//! `Node::server` and `Node::client` are for a service with one operation.
//! [`Node::known_servers`] lists the servers of all services in the domain.
//!
//! [`Node::server`]: crate::node::Node::server
//! [`Node::client`]: crate::node::Node::client
//! [`Node::service_server`]: crate::node::Node::service_server
//! [`Node::service_client`]: crate::node::Node::service_client
//! [`Node::known_servers`]: crate::node::Node::known_servers
//!
//! `docs/calls.md` describes the wire format byte by byte.

mod chain;
mod client;
mod client_core;
mod clients;
mod connect;
mod deadline;
mod error;
#[cfg(test)]
mod hostile;
mod options;
mod payload;
mod pending;
mod replies;
mod request_queue;
mod request_receiver;
mod server;
mod server_connection;
mod service;
mod wire;

pub use client::{Client, ClientView, Pending, ServerReport, ServiceClient};
pub use connect::{ServerDescription, ServerOffer};
pub use error::{CallError, NoError, Refusal};
pub use options::{CallOptions, ClientOptions, ServerOptions};
pub use payload::{Payload, Plain, Samples};
pub use server::{Server, ServerCounts};
pub use service::{Context, Operation, Service};

/// The parsers of a peer's messages, for the fuzz targets.
#[cfg(fuzzing)]
pub(crate) mod parsing {
    use super::pending::{PendingCalls, ReplyOutcome};
    use super::wire::{WireReply, WireRequest};

    /// Returns the payload of a valid request; otherwise what is wrong with it.
    pub(crate) fn request(bytes: &[u8]) -> Result<&[u8], String> {
        match WireRequest::parse(bytes)? {
            WireRequest::Call { payload, chain, .. } => {
                // Every link can be read.
                let _ = chain.links().count();
                Ok(payload)
            }
            WireRequest::Cancel { .. } => Ok(&[]),
        }
    }

    /// Returns whether a client with so many calls outstanding takes this for a reply to one of
    /// them. The error describes what is wrong with it.
    pub(crate) fn reply(bytes: &[u8], outstanding: u32) -> Result<bool, String> {
        let table = PendingCalls::new(outstanding);
        let mut hint = 0;
        let numbers: Vec<u64> = std::iter::from_fn(|| table.allocate(&mut hint)).collect();
        let reply = WireReply::parse(bytes)?;
        let is_delivered = table.deliver(&reply) == ReplyOutcome::Stored;
        if is_delivered != numbers.contains(&reply.number) {
            return Err("was taken for a reply to another call".into());
        }
        let mut is_same = None;
        let _ = table.take(reply.number, &mut |its| is_same = Some(its.payload == reply.payload));
        match is_same {
            Some(is_same) if is_delivered => is_same.then_some(true).ok_or("was changed".into()),
            _ if is_delivered => Err("was lost".into()),
            _ => Ok(false),
        }
    }
}
