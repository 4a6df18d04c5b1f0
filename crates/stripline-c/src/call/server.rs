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

/// A server, which answers the calls of any number of clients. One thread at a time may use it.
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
    /// The transport's name. NULL: as the domain's topics have it for the name of the service.
    pub transport: *const c_char,
    /// The server's own name, 1 to 64 bytes. NULL: a unique one.
    pub name: *const c_char,
    /// Bytes of the buffer for the replies to each client; 0: 256 KiB.
    pub buffer: u32,
    /// Clients at a time: 1 to 4096; 0: 256.
    pub clients: u32,
    /// Calls that may wait behind the next one, at most 4096; others are refused with
    /// `STRIPLINE_OVERLOADED`. 0: all wait.
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
    /// Calls that their clients cancelled, in time or not.
    pub cancelled: u64,
    /// Clients that were disconnected because they broke the protocol.
    pub evicted: u64,
    /// Replies that a client did not take in time, or that had no client any more.
    pub replies_dropped: u64,
    /// Clients connected now.
    pub clients: u64,
}

sized::sized!(
    ServerCounts, "stripline_server_counts",
    size: usize, calls: u64, refused: u64, cancelled: u64, evicted: u64, replies_dropped: u64, clients: u64,
);

/// Makes a server of a service. Clients find it from now on; their calls wait until it serves.
///
/// Fails with `STRIPLINE_FAILED` for an option out of range, and with `STRIPLINE_SYSTEM` or
/// `STRIPLINE_UNSUPPORTED` if its transport cannot be opened.
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
        // SAFETY: the header's rules for handles, structures and texts.
        let (node, service, given) =
            unsafe { (Node::get(node)?, Service::make(service)?, sized::read(options)?) };
        // SAFETY: the header's rule for texts.
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
        // SAFETY: the header's rule for results.
        unsafe { text::put(server, "server", Box::into_raw(made)) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the header's rule for `error`.
    unsafe { guard(error, make) }
}

impl Server {
    /// Runs a call in which handlers of the program may run.
    ///
    /// # Safety
    /// The header's rules for handles and `error`.
    pub(crate) unsafe fn call(
        server: *mut Self,
        error: *mut *mut Error,
        call: impl FnOnce(&mut RustServer<'static>) -> Result<Status, Failure>,
    ) -> Status {
        // SAFETY: the caller's promise is the same.
        let begun = unsafe { server.as_ref() }.ok_or_else(|| Failure::null("server"));
        let found = match begun.and_then(|found| found.head.begin().map(|()| found)) {
            Ok(found) => found,
            // SAFETY: the caller's promise is the same.
            Err(failure) => return unsafe { failure.report(error) },
        };
        // SAFETY: begun above, so that no other call has a reference.
        let outcome = catch_unwind(AssertUnwindSafe(|| call(unsafe { &mut *found.server.get() })));
        if found.head.end(outcome.is_err()) == AtEnd::Free {
            // SAFETY: made by `stripline_server_new`, and its handler has given it up.
            drop_quietly(unsafe { Box::from_raw(server) });
        }
        let outcome = outcome.unwrap_or_else(|panic| Err(panicked(panic)));
        // SAFETY: the caller's promise is the same.
        outcome.unwrap_or_else(|failure| unsafe { failure.report(error) })
    }
}

/// Answers calls until the node is stopped. `threads` is how many run handlers at once, at most 64;
/// 0 runs them on this thread, one by one.
///
/// Returns `STRIPLINE_STOPPED` when the node is stopped, and `STRIPLINE_INTERRUPTED` when a waker
/// ends it. Calls that wait then are kept for the next one.
///
/// - Ownership: the server stays the caller's, unless a handler frees it.
/// - Blocking: until then.
/// - Threads: one at a time. Handlers run on it, or on threads of the library.
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
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Server::call(server, error, serve) }
}

/// Answers one call on this thread.
///
/// Returns `STRIPLINE_EMPTY` if none arrives in time. Fails as `stripline_server_serve`.
///
/// - Ownership: as for `stripline_server_serve`.
/// - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) is without end.
///   Then until the handler returns.
/// - Threads: one at a time. The handler runs on it.
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
    // SAFETY: the header's rules for handles and `error`.
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
    // SAFETY: the header's rules for handles, results and `error`.
    unsafe { Server::call(server, error, |server| Waker::give(waker, || server.waker())) }
}

/// Gives the counters of a server.
///
/// - Ownership: nothing is kept.
/// - Blocking: no longer than for a lock of the server.
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
        // SAFETY: the header's rule for structures.
        unsafe { sized::write(counts, &value) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Server::call(server, error, give) }
}

/// Frees a server; NULL is allowed. Its clients get `STRIPLINE_SERVER_GONE` for calls without an
/// answer. From its own handler, it is freed when the call that serves returns.
///
/// - Ownership: ends here. A second call with the same server is undefined. Responders are still
///   freed; their answers have no effect.
/// - Blocking: no longer than for the replies that are being sent.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_free(server: *mut Server) {
    // SAFETY: the header's rule for handles.
    let Some(found) = (unsafe { server.as_ref() }) else { return };
    found.member.end();
    if found.head.begin_free() {
        // SAFETY: made by `stripline_server_new`, and freed once.
        drop_quietly(unsafe { Box::from_raw(server) });
    }
}
