//! Two-way connections for calls: an outlet and an inlet, made by one handshake.
//!
//! On `uds` and `tcp` both directions share one socket. On `shm` each side has a separate ring: the
//! client sends the descriptors of a ring with the hello, the server with the welcome. On `inproc`
//! a table leads to the server.

use super::handshake::{CallHello, CallWelcome, Hello, Welcome};
use super::{AnyInlet, AnyOutlet, Endpoint};
use crate::error::{Error, Result};
use crate::packet::payload::TypeName;
use crate::sys::refusal::PeerRefusal;
use crate::terms::{LinkOptions, Overflow};

/// An acceptor of clients.
pub(crate) trait CallAcceptor: Send {
    /// Returns the information sent to every client.
    fn server_info(&self) -> serde_json::Value;

    /// Checks whether a client may connect.
    ///
    /// # Errors
    /// The reason for a refusal, as a text for the client.
    fn check(&mut self, hello: &Hello) -> Result<(), PeerRefusal>;

    /// Takes a client that has been welcomed. The client's first requests may have arrived already.
    fn accept(&mut self, hello: &Hello, duplex: Duplex);
}

/// Both ends of this side of a connection.
pub(crate) struct Duplex {
    pub outlet: AnyOutlet,
    pub inlet: AnyInlet,
}

/// The listener of a server, closed when dropped.
pub(crate) struct CallListener {
    pub endpoint: Endpoint,
    _accepting: Box<dyn Send>,
}

impl CallListener {
    pub(super) fn new(endpoint: Endpoint, way_in: impl Send + 'static) -> Self {
        Self { endpoint, _accepting: Box::new(way_in) }
    }
}

/// The client's side of a new connection.
pub(crate) struct CallConnection {
    pub duplex: Duplex,
    pub server_info: serde_json::Value,
}

/// Checks a client with the options of the direction to the client. Returns the client's part of
/// the hello.
///
/// # Errors
/// The reason for a refusal, as a text for the client.
pub(super) fn check_client<'a>(
    hello: &'a Hello,
    key: u64,
    payload: &TypeName,
    acceptor: &mut dyn CallAcceptor,
) -> Result<&'a CallHello, PeerRefusal> {
    hello.check(key, payload, false)?;
    let no_call = || PeerRefusal::violation("this is a server of calls, not a topic");
    let call = hello.call.as_ref().ok_or_else(no_call)?;
    if hello.overflow != Overflow::Block {
        return Err(PeerRefusal::violation("replies are not to be dropped: overflow must be `block`"));
    }
    if !is_valid_buffer(call.buffer) {
        return Err(PeerRefusal::violation(format!("a buffer of {} bytes is out of range", call.buffer)));
    }
    acceptor.check(hello)?;
    Ok(call)
}

pub(super) fn is_valid_buffer(bytes: u32) -> bool {
    (LinkOptions::BUFFER_MIN..=LinkOptions::BUFFER_MAX).contains(&bytes) && bytes.is_power_of_two()
}

/// Returns the server's part of the welcome.
///
/// # Errors
/// A welcome that is not from a server of calls.
pub(super) fn call_welcome(peer: &str, welcome: &Welcome) -> Result<CallWelcome> {
    let server_info = welcome.call.clone();
    server_info.ok_or_else(|| Error::misbehaved(peer, "answered as a topic and not as a server of calls"))
}
