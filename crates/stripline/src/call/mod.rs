//! Two-way calls: a client asks, a server answers.
//!
//! A *service* is a set of named *operations*, each with a type of request, of reply and of error. A server runs their
//! handlers; any number of clients calls them over one connection each, with any number of calls outstanding.
//! [`Node::client`](crate::node::Node::client) and [`Node::server`](crate::node::Node::server) make both.
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
//! What goes over the wire, byte by byte, is in `docs/calls.md`.

mod chain;
mod client;
mod error;
mod line;
mod node;
mod options;
mod payload;
mod replies;
mod server;
mod service;
mod table;
mod term;
mod wire;

pub use client::{Client, Pending, ServerReport, ServiceClient};
pub use error::{CallError, Refusal};
pub use options::{ClientOptions, ServerOptions};
pub use payload::{Payload, Plain, Samples};
pub use server::{Server, ServerCounts};
pub use service::{Context, Operation, Service};

use crate::error::Result;
use crate::payload::TypeName;

/// The payload that marks a server of calls among what nodes offer each other.
pub(crate) fn marker() -> Result<TypeName> {
    TypeName::new("stripline/calls").map_err(crate::error::Error::failed)
}
