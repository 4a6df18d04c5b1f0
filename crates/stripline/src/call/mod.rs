//! Two-way calls: a client sends a request, a server replies.
//!
//! A *service* is a set of named *operations*, each with a type of request, of reply and of error.
//! A server runs their handlers. Any number of clients call them, over one connection each, with
//! any number of calls outstanding. [`Node::client`](crate::node::Node::client) and
//! [`Node::server`](crate::node::Node::server) make both.
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
    use super::pending::{PendingCalls, ReplyOutcome, SlotState};
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
        let mut read = Some(|its: WireReply<'_>| its.payload == reply.payload);
        match table.take(reply.number, &mut read) {
            SlotState::Reply(is_same) if is_delivered => is_same.then_some(true).ok_or("was changed".into()),
            _ if is_delivered => Err("was lost".into()),
            _ => Ok(false),
        }
    }
}
