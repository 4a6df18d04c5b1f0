//! Servers of calls.

use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stripline::call::{Server as RustServer, ServerOptions as RustOptions};
use stripline::node::Dispatch;

use crate::error::{Error, Failure};
use crate::handle::{AtEnd, Head, drop_quietly, guard, panicked};
use crate::node::Node;
use crate::sized;
use crate::status::Status;
use crate::text;
use crate::time::timeout;
use crate::wait_set::MemberSlot;
use crate::waker::Waker;

use super::Service;

/// A server. It answers the calls of any number of clients. Only one thread at a time may use it.
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
    pub transport: *const c_char,
    /// The name of the server, 1 to 64 bytes. NULL: a unique name.
    pub name: *const c_char,
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
    size: usize, transport: *const c_char, name: *const c_char, buffer: u32, clients: u32, waiting: u32,
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
/// Fails with `STRIPLINE_FAILED` for an option out of range, and with `STRIPLINE_SYSTEM` or
/// `STRIPLINE_UNSUPPORTED` if the transport cannot be opened.
///
/// - Ownership: the caller frees the server, before or after the node and the service. `options`
///   may be NULL and is not kept.
/// - Blocking: until the node's own clients are connected.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_new(
    node: *const Node,
    service: *const Service,
    options: *const ServerOptions,
    server: *mut *mut Server,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(server, "server")?;
        // SAFETY: the program follows the header's rules for handles, structures and texts.
        let (node, service, given) =
            unsafe { (Node::get(node)?, Service::make(service)?, sized::read(options)?) };
        // SAFETY: the program follows the header's rule for texts.
        let (transport, name) =
            unsafe { (text::optional(given.transport, "transport")?, text::optional(given.name, "name")?) };
        let (transport, name) = (transport.map(String::from), name.map(String::from));
        let mut options = RustOptions { transport, name, ..RustOptions::default() };
        if given.buffer != 0 {
            options.buffer = given.buffer;
        }
        if given.clients != 0 {
            options.clients = given.clients;
        }
        options.waiting = (given.waiting != 0).then_some(given.waiting);
        let made = node.service_server(service, options)?;
        let made =
            Box::new(Server { head: Head::new(), server: UnsafeCell::new(made), member: MemberSlot::new() });
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(server, "server", Box::into_raw(made)) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, make) }
}

impl Server {
    /// Runs a call in which handlers of the program may run.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    pub(crate) unsafe fn call(
        server: *mut Self,
        error: *mut *mut Error,
        call: impl FnOnce(&mut RustServer<'static>) -> Result<Status, Failure>,
    ) -> Status {
        // SAFETY: the caller makes the same promise.
        let begun = unsafe { server.as_ref() }.ok_or_else(|| Failure::null("server"));
        let found = match begun.and_then(|found| found.head.begin().map(|()| found)) {
            Ok(found) => found,
            // SAFETY: the caller makes the same promise.
            Err(failure) => return unsafe { failure.report(error) },
        };
        // SAFETY: the call has begun above, so no other call has a reference.
        let outcome = catch_unwind(AssertUnwindSafe(|| call(unsafe { &mut *found.server.get() })));
        if found.head.end(outcome.is_err()) == AtEnd::Free {
            // SAFETY: made by `stripline_server_new`, and freed by a handler, which does not use it
            // again.
            drop_quietly(unsafe { Box::from_raw(server) });
        }
        let outcome = outcome.unwrap_or_else(|panic| Err(panicked(panic)));
        // SAFETY: the caller makes the same promise.
        outcome.unwrap_or_else(|failure| unsafe { failure.report(error) })
    }
}

/// Answers calls until the node is stopped. `threads` is the number of threads that run handlers,
/// at most 64; 0 runs the handlers on this thread, one after the other.
///
/// Returns `STRIPLINE_STOPPED` when the node is stopped, and `STRIPLINE_INTERRUPTED` when a waker
/// ends the wait. Calls that still wait are kept for the next call of this function.
///
/// - Ownership: the server stays the caller's, unless a handler frees it.
/// - Blocking: until the node is stopped or a waker ends the wait.
/// - Threads: one at a time. Handlers run on the calling thread, or on threads of the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_serve(
    server: *mut Server,
    threads: usize,
    error: *mut *mut Error,
) -> Status {
    let serve = |server: &mut RustServer<'static>| {
        let dispatch = match threads {
            0 => Dispatch::Queue,
            _ => Dispatch::pool(threads).map_err(|error| Failure::argument(error.to_string()))?,
        };
        server.serve(dispatch)?;
        Err(stripline::Error::Stopped.into())
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Server::call(server, error, serve) }
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
pub unsafe extern "C" fn stripline_server_serve_one(
    server: *mut Server,
    timeout_ns: i64,
    error: *mut *mut Error,
) -> Status {
    let serve = |server: &mut RustServer<'static>| {
        let time = timeout(timeout_ns).unwrap_or(std::time::Duration::MAX);
        Ok(if server.serve_one(time)? { Status::Ok } else { Status::Empty })
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Server::call(server, error, serve) }
}

/// Makes a waker, which ends waits of the server. Handlers that have begun finish first.
///
/// - Ownership: the caller frees the waker, before or after the server.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_waker(
    server: *mut Server,
    waker: *mut *mut Waker,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe { Server::call(server, error, |server| Waker::give(waker, || server.waker())) }
}

/// Gets the counters of a server.
///
/// - Ownership: nothing is kept.
/// - Blocking: only for a lock of the server.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_get_counts(
    server: *mut Server,
    counts: *mut ServerCounts,
    error: *mut *mut Error,
) -> Status {
    let give = |server: &mut RustServer<'static>| {
        let its = server.counts();
        let value = ServerCounts {
            size: 0,
            calls: its.calls,
            refused: its.refused,
            cancelled: its.cancelled,
            evicted: its.evicted,
            replies_dropped: its.replies_dropped,
            clients: its.clients,
        };
        // SAFETY: the program follows the header's rule for structures.
        unsafe { sized::write(counts, &value) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Server::call(server, error, give) }
}

/// Frees a server; NULL is allowed. Clients with an outstanding call get `STRIPLINE_SERVER_GONE`.
/// If a handler of the server frees it, it is freed when the serving call returns.
///
/// - Ownership: ends here. A second call with the same server is undefined. The program still frees
///   the responders. Their answers have no effect.
/// - Blocking: only for the replies that are being sent.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_free(server: *mut Server) {
    // SAFETY: the program follows the header's rule for handles.
    let Some(found) = (unsafe { server.as_ref() }) else { return };
    found.member.end();
    if found.head.begin_free() {
        // SAFETY: made by `stripline_server_new`, and freed once.
        drop_quietly(unsafe { Box::from_raw(server) });
    }
}
