//! Handles in a program's own loop: one descriptor each, and what makes it ready.

use std::os::fd::AsRawFd;

use stripline::call::Server as RustServer;
use stripline::node::{ReadyDescriptor, Waitable};

use crate::call::{Client, Server};
use crate::error::{Error, Failure};
use crate::handle::guard;
use crate::publisher::Publisher;
use crate::status::Status;
use crate::subscriber::{Source, Subscriber};
use crate::text;

/// Returns the status of what was armed.
fn armed(is_armed: bool) -> Status {
    if is_armed { Status::Empty } else { Status::Ok }
}

/// Gives the number of a descriptor.
///
/// # Safety
/// The header's rule for results.
unsafe fn give(place: *mut i32, descriptor: &ReadyDescriptor) -> Result<Status, Failure> {
    // SAFETY: the caller's promise is the same.
    unsafe { text::put(place, "descriptor", descriptor.as_raw_fd()) }?;
    Ok(Status::Ok)
}

/// Gives a subscriber's descriptor, for `poll`, epoll or a toolkit. It is the same each time. It
/// can be read when the subscriber has to be asked, once `stripline_subscriber_arm` has returned
/// `STRIPLINE_EMPTY`. It is level-triggered, and nothing is ever read from it.
///
/// Fails with `STRIPLINE_SYSTEM` if the process has no descriptors left: it takes four.
///
/// - Ownership: the descriptor is the subscriber's, and is closed with it. Do not close it.
/// - Blocking: never.
/// - Threads: one at a time. Any may wait for the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_subscriber_ready_descriptor(
    subscriber: *mut Subscriber,
    descriptor: *mut i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for results and handles.
    let find = |found: &Subscriber| unsafe { give(descriptor, &subscriber_descriptor(found)?) };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Subscriber::call(subscriber, error, find) }
}

/// Returns a subscriber's descriptor.
///
/// # Safety
/// The call has entered the head, and nothing is lent.
pub(crate) unsafe fn subscriber_descriptor(found: &Subscriber) -> Result<ReadyDescriptor, Failure> {
    // SAFETY: the caller's promise is the same.
    Ok(match unsafe { found.source() } {
        Source::One(source) => source.ready_descriptor()?,
        Source::Holding(source) => source.ready_descriptor()?,
        Source::Windowed(source) => source.ready_descriptor()?,
    })
}

/// Makes a subscriber's descriptor ready once there may be a packet, the end of stream or an error.
/// For a windowed one, `samples` is the length of the window that is awaited; for others it is 0.
///
/// Returns `STRIPLINE_EMPTY` if there is nothing so far: wait for the descriptor. Returns
/// `STRIPLINE_OK` if there is something already: receive it first. Call this each time before the
/// loop waits. The descriptor stays ready until the next call of this. Any other call of the
/// subscriber may end what this has prepared.
///
/// Fails with `STRIPLINE_STOPPED` when the node is stopped and with `STRIPLINE_INTERRUPTED` by a
/// waker, which make the descriptor ready as well. Fails with `STRIPLINE_TOO_MANY_HELD` while a
/// packet is out, of a subscriber made without `hold`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_subscriber_arm(
    subscriber: *mut Subscriber,
    samples: usize,
    error: *mut *mut Error,
) -> Status {
    let arm = |found: &Subscriber| {
        // SAFETY: the call has entered the head, and nothing is lent.
        let source = unsafe { found.source() };
        if samples != 0 && !matches!(source, Source::Windowed(_)) {
            return Err(Failure::argument("`samples` is of a windowed subscriber; pass 0"));
        }
        Ok(armed(match source {
            Source::One(source) => source.arm()?,
            Source::Holding(source) => source.arm()?,
            Source::Windowed(source) => source.arm(samples)?,
        }))
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Subscriber::call(subscriber, error, arm) }
}

/// Gives a publisher's descriptor, as `stripline_subscriber_ready_descriptor` does. It can be read
/// when the publisher has to be asked, once `stripline_publisher_arm` or
/// `stripline_publisher_arm_for_receivers` has returned `STRIPLINE_EMPTY`.
///
/// - Ownership: the descriptor is the publisher's, and is closed with it. Do not close it.
/// - Blocking: never.
/// - Threads: one at a time. Any may wait for the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_ready_descriptor(
    publisher: *mut Publisher,
    descriptor: *mut i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles, results and `error`.
    unsafe { Publisher::call(publisher, error, |link, _| give(descriptor, &link.ready_descriptor()?)) }
}

/// Makes a publisher's descriptor ready once there may be room for a packet of `samples` samples,
/// or an error.
///
/// Returns `STRIPLINE_EMPTY` if there is no room so far: wait for the descriptor. Returns
/// `STRIPLINE_OK` if there is some already: call `stripline_publisher_try_loan` first. Call this
/// each time before the loop waits. The descriptor stays ready until the next call of this. Any
/// other call of the publisher may end what this has prepared. A receiver that was full has room
/// again at its low watermark.
///
/// Fails with `STRIPLINE_TOO_LARGE` above `stripline_publisher_samples_in_place`, with
/// `STRIPLINE_PORT` while a loan is open and after the end of the stream. Fails with
/// `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` as `stripline_subscriber_arm`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_arm(
    publisher: *mut Publisher,
    samples: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, |link, _| Ok(armed(link.arm(samples)?))) }
}

/// Makes a publisher's descriptor ready once at least `count` receivers may be connected. It takes
/// the place of what `stripline_publisher_arm` has prepared.
///
/// Returns `STRIPLINE_OK` if they are connected already, and `STRIPLINE_EMPTY` if not. Otherwise as
/// `stripline_publisher_arm`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_arm_for_receivers(
    publisher: *mut Publisher,
    count: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, |link, _| Ok(armed(link.arm_for_receivers(count)?))) }
}

/// Gives a client's descriptor, as `stripline_subscriber_ready_descriptor` does. It can be read
/// when pending calls have to be asked, once `stripline_client_arm` has returned `STRIPLINE_EMPTY`.
///
/// - Ownership: the descriptor is the client's. Do not close it.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_client_ready_descriptor(
    client: *const Client,
    descriptor: *mut i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles and results.
    let find = || unsafe { give(descriptor, &Client::get(client)?.ready_descriptor()?) };
    // SAFETY: the header's rule for `error`.
    unsafe { guard(error, find) }
}

/// Makes a client's descriptor ready once a reply may have arrived, or a server has come or gone.
///
/// Returns `STRIPLINE_EMPTY` if nothing has come so far: wait for the descriptor. Returns
/// `STRIPLINE_OK` if something has: ask the pending calls first. Call this each time before the
/// loop waits, and after each call that was started. Deadlines do not make it ready.
///
/// Fails with `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` as `stripline_subscriber_arm`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_client_arm(client: *const Client, error: *mut *mut Error) -> Status {
    // SAFETY: the header's rule for handles.
    let arm = || Ok(armed(unsafe { Client::get(client) }?.arm()?));
    // SAFETY: the header's rule for `error`.
    unsafe { guard(error, arm) }
}

/// Gives a server's descriptor, as `stripline_subscriber_ready_descriptor` does. It can be read
/// when `stripline_server_serve_one` has something to do, once `stripline_server_arm` has returned
/// `STRIPLINE_EMPTY`.
///
/// - Ownership: the descriptor is the server's, and is closed with it. Do not close it.
/// - Blocking: never.
/// - Threads: one at a time. Any may wait for the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_ready_descriptor(
    server: *mut Server,
    descriptor: *mut i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rule for results.
    let find = |server: &mut RustServer<'static>| unsafe { give(descriptor, &server.ready_descriptor()?) };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Server::call(server, error, find) }
}

/// Makes a server's descriptor ready once there may be a call.
///
/// Returns `STRIPLINE_EMPTY` if no call is there so far: wait for the descriptor. Returns
/// `STRIPLINE_OK` if there is something already: serve it first. Call this each time before the
/// loop waits.
///
/// Fails with `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` as `stripline_subscriber_arm`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_arm(server: *mut Server, error: *mut *mut Error) -> Status {
    let arm = |server: &mut RustServer<'static>| Ok(armed(server.arm()?));
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Server::call(server, error, arm) }
}
