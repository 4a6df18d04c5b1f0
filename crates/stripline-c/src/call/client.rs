//! Clients of calls.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use stripline::call::{
    CallOptions as RustOptions, Client as RustOperation, ClientOptions as RustClientOptions, RawBytes,
    ServiceClient,
};

use crate::error::{Error, Failure};
use crate::handle::{drop_quietly, guard};
use crate::node::Node;
use crate::sized;
use crate::status::Status;
use crate::text;
use crate::time::timeout;
use crate::wait_set::MemberSlot;
use crate::waker::Waker;

use super::{OperationType, Pending, Reply, slice};

/// A client of a service. It calls the servers of the service in turn. Several threads may use it
/// at once.
pub struct Client {
    link: ServiceClient,
    member: MemberSlot<Self>,
}

impl Client {
    /// Returns the client behind a handle.
    ///
    /// # Safety
    /// The caller must follow the header's rule for handles.
    pub(crate) unsafe fn get<'a>(client: *const Self) -> Result<&'a ServiceClient, Failure> {
        // SAFETY: the caller makes the same promise.
        unsafe { client.as_ref() }.map(|found| &found.link).ok_or_else(|| Failure::null("client"))
    }

    /// Returns the slot by which wait sets find the handle.
    ///
    /// # Safety
    /// The caller must follow the header's rule for handles.
    pub(crate) unsafe fn member_of<'a>(client: *const Self) -> Result<&'a MemberSlot<Self>, Failure> {
        // SAFETY: the caller makes the same promise.
        unsafe { client.as_ref() }.map(|found| &found.member).ok_or_else(|| Failure::null("client"))
    }
}

/// An operation of a client's service, for calls. Several threads may call it at once.
pub struct Operation(RustOperation<RawBytes, RawBytes, RawBytes>);

/// Options of a client.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ClientOptions {
    /// `sizeof(stripline_client_options)`.
    pub size: usize,
    /// The time limit of a call, which includes the wait for a server: at most an hour; 0: five
    /// seconds.
    pub deadline_ns: u64,
    /// The number of calls that may be outstanding at each server: 1 to 16384; 0: 1024.
    pub outstanding: u32,
    /// The size of the buffer for requests, in bytes; 0: 256 KiB. Larger requests are sent in
    /// fragments.
    pub buffer: u32,
}

sized::sized!(
    ClientOptions, "stripline_client_options",
    size: usize, deadline_ns: u64, outstanding: u32, buffer: u32,
);

/// Options of one call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CallOptions {
    /// `sizeof(stripline_call_options)`.
    pub size: usize,
    /// The time limit of the call: at most an hour; 0: the client's limit.
    pub deadline_ns: u64,
    /// Not 0: `key` selects the server, and the same key selects the same server each time. 0: the
    /// servers take turns.
    pub has_key: u32,
    /// The key.
    pub key: u64,
}

sized::sized!(
    CallOptions, "stripline_call_options",
    size: usize, deadline_ns: u64, has_key: u32, key: u64,
);

impl CallOptions {
    /// Reads the structure that the program has passed.
    ///
    /// # Safety
    /// The caller must follow the header's rule for structures.
    unsafe fn read(from: *const Self) -> Result<RustOptions, Failure> {
        // SAFETY: the caller makes the same promise.
        let given = unsafe { sized::read(from) }?;
        Ok(RustOptions {
            key: (given.has_key != 0).then_some(given.key),
            deadline: (given.deadline_ns != 0).then(|| Duration::from_nanos(given.deadline_ns)),
        })
    }
}

/// Makes a client of a service. It connects to every present and future server of the service.
///
/// Fails with `STRIPLINE_FAILED` for an invalid name or option. The message names the mistake.
///
/// - Ownership: the caller frees the client, before or after the node. `options` may be NULL.
/// - Blocking: until the servers that are present have answered, or for a few seconds.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_client_new(
    node: *const Node,
    service: *const c_char,
    options: *const ClientOptions,
    client: *mut *mut Client,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(client, "client")?;
        // SAFETY: the program follows the header's rules for handles, texts and structures.
        let (node, service, given) =
            unsafe { (Node::get(node)?, text::required(service, "service")?, sized::read(options)?) };
        let mut options = RustClientOptions::default();
        if given.deadline_ns != 0 {
            options.deadline = Duration::from_nanos(given.deadline_ns);
        }
        if given.outstanding != 0 {
            options.outstanding = given.outstanding;
        }
        if given.buffer != 0 {
            options.buffer = given.buffer;
        }
        let made =
            Box::new(Client { link: node.service_client(service, options)?, member: MemberSlot::new() });
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(client, "client", Box::into_raw(made)) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, make) }
}

/// Waits until at least `count` servers of the service are connected.
///
/// Returns `STRIPLINE_OK` if they are connected in time, and `STRIPLINE_EMPTY` if not.
///
/// - Ownership: nothing is kept.
/// - Blocking: up to `timeout_ns`, but at most an hour, even for `STRIPLINE_FOREVER`.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_client_wait_for_servers(
    client: *const Client,
    count: usize,
    timeout_ns: i64,
    error: *mut *mut Error,
) -> Status {
    let wait = || {
        // SAFETY: the program follows the header's rule for handles.
        let client = unsafe { Client::get(client) }?;
        let longest = RustClientOptions::DEADLINE_MAX;
        let time = timeout(timeout_ns).map_or(longest, |time| time.min(longest));
        Ok(if client.wait_for_servers(count, time)? { Status::Ok } else { Status::Empty })
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, wait) }
}

/// Makes a waker, which ends waits of the client: in calls, in pending calls, and in
/// `stripline_client_wait_for_servers`. One wake ends one wait, even if several threads wait.
///
/// An interrupted `stripline_operation_call` is cancelled: `stripline_error_is_sent` is 1 if the
/// call had been sent. An interrupted `stripline_pending_wait` can be repeated.
///
/// - Ownership: the caller frees the waker, before or after the client.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_client_waker(
    client: *const Client,
    waker: *mut *mut Waker,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        // SAFETY: the program follows the header's rules for handles and results.
        unsafe {
            let client = Client::get(client)?;
            Waker::give(waker, || client.waker())
        }
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, make) }
}

/// Makes a handle for an operation of the service. The first call checks that the server has the
/// operation with these types.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid name or type.
///
/// - Ownership: the caller frees the operation, before or after the client. Nothing else is kept.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_client_operation(
    client: *const Client,
    r#type: *const OperationType,
    operation: *mut *mut Operation,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(operation, "operation")?;
        // SAFETY: the program follows the header's rules for handles and structures.
        let (client, of) = unsafe { (Client::get(client)?, super::operation(r#type)?) };
        let made = Box::new(Operation(client.operation_of(&of)?));
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(operation, "operation", Box::into_raw(made)) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, make) }
}

/// Calls an operation, and waits for the reply. `request` has `bytes` bytes, which are a request of
/// the operation's type. It may be NULL if `bytes` is 0.
///
/// Returns `STRIPLINE_OK` with the reply. For `STRIPLINE_USER_ERROR`, `reply` is written as well:
/// it contains the operation's own error. All other failures have no reply: `STRIPLINE_NO_SERVER`
/// and the statuses that follow it.
///
/// - Ownership: the caller frees the reply. Nothing else is kept.
/// - Blocking: until the reply arrives, up to the deadline.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_operation_call(
    operation: *const Operation,
    request: *const c_void,
    bytes: usize,
    options: *const CallOptions,
    reply: *mut *mut Reply,
    error: *mut *mut Error,
) -> Status {
    let call = || {
        text::check_place(reply, "reply")?;
        // SAFETY: the program follows the header's rules for handles, structures and pointers.
        let (found, options, request) = unsafe {
            let found = operation.as_ref().ok_or_else(|| Failure::null("operation"))?;
            (found, CallOptions::read(options)?, slice(request, bytes, "request")?)
        };
        let outcome = found.0.with(options).call(&request.to_vec().into());
        // SAFETY: the program follows the header's rule for results.
        unsafe { Reply::give(outcome, reply) }
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, call) }
}

/// Starts a call without waiting for the reply. `request` is the same as for
/// `stripline_operation_call`.
///
/// If the call cannot be sent, fails like `stripline_operation_call`.
///
/// - Ownership: the caller frees the pending call, which cancels a call that is outstanding.
///   Nothing else is kept.
/// - Blocking: while no server is connected or there is no room, up to the deadline.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_operation_start(
    operation: *const Operation,
    request: *const c_void,
    bytes: usize,
    options: *const CallOptions,
    pending: *mut *mut Pending,
    error: *mut *mut Error,
) -> Status {
    let start = || {
        text::check_place(pending, "pending")?;
        // SAFETY: the program follows the header's rules for handles, structures and pointers.
        let (found, options, request) = unsafe {
            let found = operation.as_ref().ok_or_else(|| Failure::null("operation"))?;
            (found, CallOptions::read(options)?, slice(request, bytes, "request")?)
        };
        let request = request.to_vec().into();
        let started = found.0.with(options).start(&request).map_err(super::failure)?;
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(pending, "pending", Pending::new(started.into_owned())) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, start) }
}

/// Frees an operation; NULL is allowed. Pending calls of the operation continue.
///
/// - Ownership: ends here. A second call with the same operation is undefined.
/// - Blocking: never.
/// - Threads: any, once no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_operation_free(operation: *mut Operation) {
    if !operation.is_null() {
        // SAFETY: made by `stripline_client_operation`, and freed once.
        drop_quietly(unsafe { Box::from_raw(operation) });
    }
}

/// Frees a client; NULL is allowed. The connections end with the last of the client's operations
/// and pending calls.
///
/// - Ownership: ends here. A second call with the same client is undefined.
/// - Blocking: never.
/// - Threads: any, once no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_client_free(client: *mut Client) {
    if !client.is_null() {
        // SAFETY: made by `stripline_client_new`, and freed once.
        drop_quietly(unsafe { Box::from_raw(client) });
    }
}
