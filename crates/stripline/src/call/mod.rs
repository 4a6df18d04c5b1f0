//! Two-way calls: a client sends a request, and a server replies.
//!
//! A *service* is a set of named *operations*. Each operation has a type of request, of reply and
//! of error. A server runs the handlers of the operations. Any number of clients call them, over
//! one connection each, with any number of calls outstanding. [`Node::client`] makes a client, and
//! [`Node::server`] a server.
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
//! The attribute [`stripline::service`](macro@crate::service) on a trait defines a service with
//! less code.
//!
//! | type | what it is | made by |
//! | --- | --- | --- |
//! | [`Service`] | named operations and their handlers, connected to nothing | [`Service::new`] |
//! | [`Server`] | serves one service to all clients | [`Node::service_server`], [`Node::server`] |
//! | [`ServiceClient`] | the connections to all servers of a service | [`Node::service_client`] |
//! | [`Client`] | calls an operation of a service | [`ServiceClient::operation`], [`Node::client`] |
//! | [`ClientView`] | the same with a key or another deadline | [`Client::with`] |
//! | [`Pending`] | a call that was started | [`Client::start`], [`ClientView::start`] |
//! | [`OwnedPending`] | the same without a borrow of the client | [`Pending::into_owned`] |
//! | [`Responder`] | the right to reply to one call, later | [`Service::operation_of`] |
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
mod client_ready;
mod clients;
mod connect;
mod counts;
mod deadline;
mod error;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
#[cfg(test)]
mod hostile;
mod options;
mod owned_pending;
mod payload;
mod pending;
mod ready;
mod replies;
mod request_queue;
mod request_receiver;
mod responder;
mod server;
mod server_connection;
mod service;
mod waits;
mod wire;

pub use client::{Client, ClientView, Pending, ServiceClient};
pub use connect::{ServerDescription, ServerOffer};
pub use counts::ServerCounts;
pub use error::{CallError, NoError, Refusal};
pub use options::{CallOptions, ClientOptions, ServerOptions};
pub use owned_pending::OwnedPending;
pub use payload::{Payload, Plain, RawBytes, Samples};
pub use responder::Responder;
pub use server::Server;
pub use server_connection::ServerReport;
pub use service::{Context, Operation, Service};
