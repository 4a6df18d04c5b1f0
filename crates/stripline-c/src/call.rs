//! Shared parts of clients and servers of calls: operations with types named at run time.

mod client;
mod pending;
mod responder;
mod server;
mod service;

use stripline::call::Operation as RustOperation;
use stripline::payload::TypeName;

use crate::border::{Ref, Str};
use crate::error::Failure;
use crate::sized;

pub use client::{CallOptions, Client, ClientOptions, Operation};
pub use pending::{Pending, Reply};
pub use responder::{CallHandler, Responder};
pub use server::{Server, ServerCounts, ServerOptions};
pub use service::Service;

/// An operation of a service: the name, and the types that client and server compare.
///
/// A type is `message/cbor` for any value in CBOR (the meaning of NULL), or `message/` and a
/// schema. The type may also be a type of samples: then the bytes are samples as plain memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OperationType {
    /// `sizeof(stripline_operation_type)`.
    pub size: usize,
    /// The name of the operation: 1 to 64 letters, digits, hyphens, underscores and dots.
    pub name: Str,
    /// The type of the requests.
    pub request: Str,
    /// The type of the replies.
    pub reply: Str,
    /// The type of the operation's own errors.
    pub error: Str,
}

sized::sized!(
    OperationType, "stripline_operation_type",
    size: usize, name: Str, request: Str, reply: Str, error: Str,
);

impl Ref<OperationType> {
    /// Returns the operation that the program has passed.
    fn operation(&self) -> Result<RustOperation, Failure> {
        let given = self.read_given("operation")?;
        let of = |place: &Str, what: &str| {
            let text = place.optional(what)?.unwrap_or("message/cbor");
            TypeName::parse(text).map_err(|error| Failure::argument(format!("`{what}`: {error}")))
        };
        let name = given.name.required("operation->name")?;
        let request = of(&given.request, "operation->request")?;
        let reply = of(&given.reply, "operation->reply")?;
        let made = RustOperation::new(name, request, reply, of(&given.error, "operation->error")?);
        made.map_err(|error| Failure::argument(error.to_string()))
    }
}
