//! Shared parts of clients and servers of calls: operations with types named at run time.

mod client;
mod pending;
mod responder;
mod server;
mod service;

use std::ffi::{c_char, c_void};

use stripline::call::{CallError, Operation as RustOperation, RawBytes};
use stripline::payload::TypeName;

use crate::error::Failure;
use crate::sized;
use crate::status::Status;
use crate::text;

pub use client::{CallOptions, Client, ClientOptions, Operation};
pub use pending::{Pending, Reply};
pub use responder::{CallHandler, Responder};
pub use server::{Server, ServerCounts, ServerOptions};
pub use service::Service;

/// An operation of a service: the name, and the types that client and server compare.
///
/// A type is `message/cbor` for any value in CBOR (the meaning of NULL), or `message/` and a
/// schema. It may also be a type of samples: then the bytes are samples as plain memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OperationType {
    /// `sizeof(stripline_operation_type)`.
    pub size: usize,
    /// The name of the operation: 1 to 64 letters, digits, hyphens, underscores and dots.
    pub name: *const c_char,
    /// The type of the requests.
    pub request: *const c_char,
    /// The type of the replies.
    pub reply: *const c_char,
    /// The type of the operation's own errors.
    pub error: *const c_char,
}

sized::sized!(
    OperationType, "stripline_operation_type",
    size: usize, name: *const c_char, request: *const c_char, reply: *const c_char, error: *const c_char,
);

/// Reads an operation that the program has passed.
///
/// # Safety
/// The caller must follow the header's rules for structures and texts.
unsafe fn operation(from: *const OperationType) -> Result<RustOperation, Failure> {
    if from.is_null() {
        return Err(Failure::null("operation"));
    }
    // SAFETY: the caller makes the same promise.
    let given = unsafe { sized::read(from) }?;
    let of = |place: *const c_char, what: &str| {
        // SAFETY: the caller makes the same promise.
        let text = unsafe { text::optional(place, what) }?.unwrap_or("message/cbor");
        TypeName::parse(text).map_err(|error| Failure::argument(format!("`{what}`: {error}")))
    };
    // SAFETY: the caller makes the same promise.
    let name = unsafe { text::required(given.name, "operation->name") }?;
    let request = of(given.request, "operation->request")?;
    let (reply, error) = (of(given.reply, "operation->reply")?, of(given.error, "operation->error")?);
    RustOperation::new(name, request, reply, error).map_err(|error| Failure::argument(error.to_string()))
}

/// Returns bytes that the program has passed.
///
/// # Safety
/// `data` must be NULL, or point to `bytes` bytes that live for `'a`.
unsafe fn slice<'a>(data: *const c_void, bytes: usize, what: &str) -> Result<&'a [u8], Failure> {
    match (data.is_null(), bytes) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::null(what)),
        // SAFETY: the pointer is not NULL; the caller promises the rest.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data.cast(), bytes) }),
    }
}

/// Returns the failure of a call that ends without bytes.
fn failure(error: CallError<RawBytes>) -> Failure {
    let code = Status::of(error.code());
    match error {
        CallError::Link(error) => error.into(),
        other => Failure::new(code, other.to_string()),
    }
}
