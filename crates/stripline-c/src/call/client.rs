//! Clients of calls.

use std::time::Duration;

use stripline::call::{
    CallOptions as RustOptions, Client as RustOperation, ClientOptions as RustClientOptions, ClientView,
    RawBytes, ServiceClient,
};

use crate::border::{Data, ErrorOut, Handle, Out, Ref, Str};
use crate::error::Failure;
use crate::handle::drop_quietly;
use crate::node::Node;
use crate::sized;
use crate::status::Status;
use crate::time::timeout;
use crate::wait_set::MemberSlot;
use crate::waker::Waker;

use super::{OperationType, Pending, Reply};

/// A client of a service, which calls the servers of the service in turn. Several threads may use
/// it at once.
pub struct Client {
    pub(crate) link: ServiceClient,
    pub(crate) member: MemberSlot<Self>,
}

impl Ref<Client> {
    /// Returns the client behind the handle.
    pub(crate) fn link(&self) -> Result<&ServiceClient, Failure> {
        self.get("client").map(|found| &found.link)
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

impl Ref<Operation> {
    /// Returns the operation with the options of one call.
    fn with(
        &self,
        options: &Ref<CallOptions>,
    ) -> Result<ClientView<'_, RawBytes, RawBytes, RawBytes>, Failure> {
        let (found, given) = (self.get("operation")?, options.read()?);
        Ok(found.0.with(RustOptions {
            key: (given.has_key != 0).then_some(given.key),
            deadline: (given.deadline_ns != 0).then(|| Duration::from_nanos(given.deadline_ns)),
        }))
    }
}

/// Makes a client of a service, which connects to every present and future server of the service.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid name or option. The message names the
/// mistake.
///
/// - Ownership: the caller frees the client, before or after the node. `options` may be NULL.
/// - Blocking: until the servers that are present have answered, or for a few seconds.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_client_new(
    node: Ref<Node>,
    service: Str,
    options: Ref<ClientOptions>,
    client: Out<*mut Client>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        client.check("client")?;
        let (node, service, given) = (node.link()?, service.required("service")?, options.read()?);
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
        let link = node.service_client(service, options)?;
        client.give("client", Client { link, member: MemberSlot::new() })
    })
}

/// Waits until at least `count` servers of the service are connected.
///
/// Returns `STRIPLINE_OK` if they are connected in time, and `STRIPLINE_EMPTY` if not.
///
/// - Ownership: nothing is kept.
/// - Blocking: up to `timeout_ns`, but at most an hour, even for `STRIPLINE_FOREVER`.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_client_wait_for_servers(
    client: Ref<Client>,
    count: usize,
    timeout_ns: i64,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let client = client.link()?;
        let longest = RustClientOptions::DEADLINE_MAX;
        let time = timeout(timeout_ns).map_or(longest, |time| time.min(longest));
        Ok(if client.wait_for_servers(count, time)? { Status::Ok } else { Status::Empty })
    })
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
pub extern "C" fn stripline_client_waker(
    client: Ref<Client>,
    waker: Out<*mut Waker>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let client = client.link()?;
        waker.waker(|| client.waker())
    })
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
pub extern "C" fn stripline_client_operation(
    client: Ref<Client>,
    r#type: Ref<OperationType>,
    operation: Out<*mut Operation>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        operation.check("operation")?;
        let (client, of) = (client.link()?, r#type.operation()?);
        operation.give("operation", Operation(client.operation_of(&of)?))
    })
}

/// Calls an operation, and waits for the reply. `request` has `bytes` bytes, which are a request of
/// the operation's type. `request` may be NULL if `bytes` is 0.
///
/// Returns `STRIPLINE_OK` with the reply. For `STRIPLINE_USER_ERROR`, `reply` is written as well:
/// it contains the operation's own error. All other failures have no reply: `STRIPLINE_NO_SERVER`
/// and the statuses that follow it.
///
/// - Ownership: the caller frees the reply. Nothing else is kept.
/// - Blocking: until the reply arrives, up to the deadline.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_operation_call(
    operation: Ref<Operation>,
    request: Data,
    bytes: usize,
    options: Ref<CallOptions>,
    reply: Out<*mut Reply>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        reply.check("reply")?;
        let (view, request) = (operation.with(&options)?, request.slice(bytes, "request")?);
        reply.reply(view.call(&request.to_vec().into()))
    })
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
pub extern "C" fn stripline_operation_start(
    operation: Ref<Operation>,
    request: Data,
    bytes: usize,
    options: Ref<CallOptions>,
    pending: Out<*mut Pending>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        pending.check("pending")?;
        let (view, request) = (operation.with(&options)?, request.slice(bytes, "request")?);
        let started = view.start(&request.to_vec().into())?;
        pending.give("pending", Pending::new(started.into_owned()))
    })
}

/// Frees an operation; NULL is allowed. Pending calls of the operation continue.
///
/// - Ownership: ends with this call. A second call with the same operation is undefined.
/// - Blocking: never.
/// - Threads: any, once no other thread uses it.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_operation_free(operation: Handle<Operation>) {
    drop_quietly(operation.into_box());
}

/// Frees a client; NULL is allowed. The connections end with the last of the client's operations
/// and pending calls.
///
/// - Ownership: ends with this call. A second call with the same client is undefined.
/// - Blocking: never.
/// - Threads: any, once no other thread uses it.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_client_free(client: Handle<Client>) {
    drop_quietly(client.into_box());
}
