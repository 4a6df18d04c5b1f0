//! Servers of calls.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stripline::call::{Server as RustServer, ServerOptions as RustOptions};
use stripline::node::Dispatch;

use crate::border::{ErrorOut, Handle, Out, Ref, Str};
use crate::error::Failure;
use crate::handle::{AtEnd, Head, drop_quietly, panicked};
use crate::node::Node;
use crate::sized;
use crate::status::Status;
use crate::time::timeout;
use crate::wait_set::MemberSlot;
use crate::waker::Waker;

use super::Service;

/// A server, which answers the calls of any number of clients. Only one thread at a time may use
/// it.
pub struct Server {
    head: Head,
    server: UnsafeCell<RustServer<'static>>,
    pub(crate) member: MemberSlot<Self>,
}

/// Options of a server.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ServerOptions {
    /// `sizeof(stripline_server_options)`.
    pub size: usize,
    /// The name of the transport. NULL: the transport that the domain's topics set for the name of
    /// the service.
    pub transport: Str,
    /// The name of the server, 1 to 64 bytes. NULL: a unique name.
    pub name: Str,
    /// The size of the buffer for the replies to each client, in bytes; 0: 256 KiB.
    pub buffer: u32,
    /// The number of clients at a time: 1 to 4096; 0: 256.
    pub clients: u32,
    /// The number of calls that may wait behind the next one, at most 4096. Further calls are
    /// refused with `STRIPLINE_OVERLOADED`. 0: no limit.
    pub waiting: u32,
}

sized::sized!(
    ServerOptions, "stripline_server_options",
    size: usize, transport: Str, name: Str, buffer: u32, clients: u32, waiting: u32,
);

/// The counters of a server.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ServerCounts {
    /// `sizeof(stripline_server_counts)`, set by the caller.
    pub size: usize,
    /// Calls for which a handler was run.
    pub calls: u64,
    /// Calls that were answered without running a handler.
    pub refused: u64,
    /// Calls that their clients cancelled, whether in time or too late.
    pub cancelled: u64,
    /// Clients that were disconnected because they broke the protocol.
    pub evicted: u64,
    /// Replies that a client did not take in time, and replies to clients that had left.
    pub replies_dropped: u64,
    /// Clients that are connected now.
    pub clients: u64,
}

sized::sized!(
    ServerCounts, "stripline_server_counts",
    size: usize, calls: u64, refused: u64, cancelled: u64, evicted: u64, replies_dropped: u64, clients: u64,
);

/// Makes a server of a service. Clients find it from now on. Their calls wait until the server
/// serves.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an option out of range, and with `STRIPLINE_SYSTEM`
/// or `STRIPLINE_UNSUPPORTED` if the transport cannot be opened.
///
/// - Ownership: the caller frees the server, before or after the node and the service. `options`
///   may be NULL and is not kept.
/// - Blocking: until the node's own clients are connected.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_server_new(
    node: Ref<Node>,
    service: Ref<Service>,
    options: Ref<ServerOptions>,
    server: Out<*mut Server>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        server.check("server")?;
        let (node, service, given) = (node.link()?, service.make()?, options.read()?);
        let (transport, name) = (given.transport.optional("transport")?, given.name.optional("name")?);
        let (transport, name) = (transport.map(String::from), name.map(String::from));
        let mut options = RustOptions { transport, name, ..RustOptions::default() };
        if given.buffer != 0 {
            options.buffer = given.buffer;
        }
        if given.clients != 0 {
            options.clients = given.clients;
        }
        options.waiting = (given.waiting != 0).then_some(given.waiting);
        let made = UnsafeCell::new(node.service_server(service, options)?);
        server.give("server", Server { head: Head::new(), server: made, member: MemberSlot::new() })
    })
}

impl Handle<Server> {
    /// Runs a call in which handlers of the program may run.
    pub(crate) fn call(
        &self,
        call: impl FnOnce(&mut RustServer<'static>) -> Result<Status, Failure>,
    ) -> Result<Status, Failure> {
        let found = self.get("server")?;
        found.head.begin()?;
        // SAFETY: the call has begun, so no other call has a reference.
        let outcome = catch_unwind(AssertUnwindSafe(|| call(unsafe { &mut *found.server.get() })));
        if found.head.end(outcome.is_err()) == AtEnd::Free {
            // SAFETY: the server was freed by a handler, which does not use it again.
            drop_quietly(unsafe { Box::from_raw(self.pointer()) });
        }
        outcome.unwrap_or_else(|panic| Err(panicked(panic)))
    }
}

/// Answers calls until the node is stopped. `threads` is the number of threads that run handlers,
/// at most 64; 0 runs the handlers on this thread, one after the other.
///
/// Returns `STRIPLINE_STOPPED` when the node is stopped, and `STRIPLINE_INTERRUPTED` when a waker
/// ends the wait. Calls that still wait are kept for the next call of this function.
///
/// - Ownership: the caller keeps the server, unless a handler frees it.
/// - Blocking: until the node is stopped or a waker ends the wait.
/// - Threads: one at a time. Handlers run on the calling thread, or on threads of the library.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_server_serve(server: Handle<Server>, threads: usize, error: ErrorOut) -> Status {
    error.finish(server.call(|server| {
        let dispatch = match threads {
            0 => Dispatch::Queue,
            _ => Dispatch::pool(threads).map_err(|error| Failure::argument(error.to_string()))?,
        };
        server.serve(dispatch)?;
        Err(stripline::Error::Stopped.into())
    }))
}

/// Answers one call on this thread.
///
/// Returns `STRIPLINE_EMPTY` if no call arrives in time. Fails like `stripline_server_serve`.
///
/// - Ownership: as for `stripline_server_serve`.
/// - Blocking: up to `timeout_ns`, and then until the handler returns. `STRIPLINE_FOREVER` (or any
///   negative number) waits without end.
/// - Threads: one at a time. The handler runs on the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_server_serve_one(
    server: Handle<Server>,
    timeout_ns: i64,
    error: ErrorOut,
) -> Status {
    error.finish(server.call(|server| {
        let time = timeout(timeout_ns).unwrap_or(std::time::Duration::MAX);
        Ok(if server.serve_one(time)? { Status::Ok } else { Status::Empty })
    }))
}

/// Makes a waker, which ends waits of the server. Handlers that have begun finish first.
///
/// - Ownership: the caller frees the waker, before or after the server.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_server_waker(
    server: Handle<Server>,
    waker: Out<*mut Waker>,
    error: ErrorOut,
) -> Status {
    error.finish(server.call(|server| waker.waker(|| server.waker())))
}

/// Gets the counters of a server.
///
/// - Ownership: nothing is kept.
/// - Blocking: only for a lock of the server.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_server_get_counts(
    server: Handle<Server>,
    counts: Out<ServerCounts>,
    error: ErrorOut,
) -> Status {
    error.finish(server.call(|server| {
        let current = server.counts();
        let value = ServerCounts {
            size: 0,
            calls: current.calls,
            refused: current.refused,
            cancelled: current.cancelled,
            evicted: current.evicted,
            replies_dropped: current.replies_dropped,
            clients: current.clients,
        };
        counts.write(&value)
    }))
}

/// Frees a server; NULL is allowed. Clients with an outstanding call get `STRIPLINE_SERVER_GONE`.
/// If a handler of the server frees it, it is freed when the serving call returns.
///
/// - Ownership: ends with this call. A second call with the same server is undefined. The program
///   still frees the responders. Their answers have no effect.
/// - Blocking: only for the replies that are being sent.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_server_free(server: Handle<Server>) {
    let Some(found) = server.as_ref() else { return };
    found.member.end();
    if found.head.begin_free() {
        drop_quietly(server.into_box());
    }
}
