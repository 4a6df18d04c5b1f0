//! Handles in a program's own loop: a descriptor for each handle, and functions to arm it.

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

/// Returns the status of an attempt to arm: `EMPTY` if the descriptor is armed.
fn armed(is_armed: bool) -> Status {
    if is_armed { Status::Empty } else { Status::Ok }
}

/// Writes the number of a descriptor to `place`.
///
/// # Safety
/// The caller must follow the header's rule for results.
unsafe fn give(place: *mut i32, descriptor: &ReadyDescriptor) -> Result<Status, Failure> {
    // SAFETY: the caller makes the same promise.
    unsafe { text::put(place, "descriptor", descriptor.as_raw_fd()) }?;
    Ok(Status::Ok)
}

/// Gets a subscriber's descriptor, for `poll`, epoll or a toolkit. Every call gets the same one.
/// Once `stripline_subscriber_arm` has returned `STRIPLINE_EMPTY`, the descriptor becomes readable
/// when the subscriber needs a call. It is level-triggered. The program only waits for it and never
/// reads from it.
///
/// Fails with `STRIPLINE_SYSTEM` if the process has too few descriptors left: this function needs
/// four.
///
/// - Ownership: the descriptor belongs to the subscriber, and is closed with it. Do not close it.
/// - Blocking: never.
/// - Threads: one at a time. Any thread may wait for the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_subscriber_ready_descriptor(
    subscriber: *mut Subscriber,
    descriptor: *mut i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rules for results and handles.
    let find = |found: &Subscriber| unsafe { give(descriptor, &subscriber_descriptor(found)?) };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Subscriber::call(subscriber, error, find) }
}

/// Returns a subscriber's descriptor.
///
/// # Safety
/// The caller must have entered the subscriber's head, and no packet may be lent.
pub(crate) unsafe fn subscriber_descriptor(found: &Subscriber) -> Result<ReadyDescriptor, Failure> {
    // SAFETY: the caller makes the same promise.
    Ok(match unsafe { found.source() } {
        Source::One(source) => source.ready_descriptor()?,
        Source::Holding(source) => source.ready_descriptor()?,
        Source::Windowed(source) => source.ready_descriptor()?,
    })
}

/// Makes a subscriber's descriptor ready once there may be a packet, the end of the stream or an
/// error. For a windowed subscriber, `samples` is the length of the window to wait for. For any
/// other subscriber it is 0.
///
/// Returns `STRIPLINE_EMPTY` if nothing has arrived yet: wait for the descriptor. Returns
/// `STRIPLINE_OK` if something has arrived already: receive it first. Call this function each time
/// before the loop waits. The descriptor stays ready until the next call of this function. Any
/// other call of the subscriber may undo the preparation.
///
/// Fails with `STRIPLINE_STOPPED` when the node is stopped, and with `STRIPLINE_INTERRUPTED` when a
/// waker ends the wait. Both also make the descriptor ready. For a subscriber made without `hold`,
/// it fails with `STRIPLINE_TOO_MANY_HELD` until the program releases the packet that it has.
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
        // SAFETY: this call has entered the head, and no packet is lent.
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
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Subscriber::call(subscriber, error, arm) }
}

/// Gets a publisher's descriptor, as `stripline_subscriber_ready_descriptor` does for a subscriber.
/// Once `stripline_publisher_arm` or `stripline_publisher_arm_for_receivers` has returned
/// `STRIPLINE_EMPTY`, the descriptor becomes readable when the publisher needs a call.
///
/// - Ownership: the descriptor belongs to the publisher, and is closed with it. Do not close it.
/// - Blocking: never.
/// - Threads: one at a time. Any thread may wait for the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_ready_descriptor(
    publisher: *mut Publisher,
    descriptor: *mut i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe { Publisher::call(publisher, error, |link, _| give(descriptor, &link.ready_descriptor()?)) }
}

/// Makes a publisher's descriptor ready once there may be room for a packet of `samples` samples,
/// or an error.
///
/// Returns `STRIPLINE_EMPTY` if there is no room yet: wait for the descriptor. Returns
/// `STRIPLINE_OK` if there is room already: call `stripline_publisher_try_loan` first. Call this
/// function each time before the loop waits. The descriptor stays ready until the next call of this
/// function. Any other call of the publisher may undo the preparation. A receiver that was full has
/// room again at the low watermark.
///
/// Fails with `STRIPLINE_TOO_LARGE` above `stripline_publisher_samples_in_place`, and with
/// `STRIPLINE_PORT` while a loan is open and after the end of the stream. Fails with
/// `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` like `stripline_subscriber_arm`.
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
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, |link, _| Ok(armed(link.arm(samples)?))) }
}

/// Makes a publisher's descriptor ready once at least `count` receivers may be connected. This
/// replaces an earlier `stripline_publisher_arm`.
///
/// Returns `STRIPLINE_OK` if they are connected already, and `STRIPLINE_EMPTY` if not. In all other
/// respects, it is like `stripline_publisher_arm`.
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
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, |link, _| Ok(armed(link.arm_for_receivers(count)?))) }
}

/// Gets a client's descriptor, as `stripline_subscriber_ready_descriptor` does for a subscriber.
/// Once `stripline_client_arm` has returned `STRIPLINE_EMPTY`, the descriptor becomes readable when
/// the program must check the pending calls.
///
/// - Ownership: the descriptor belongs to the client. Do not close it.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_client_ready_descriptor(
    client: *const Client,
    descriptor: *mut i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rules for handles and results.
    let find = || unsafe { give(descriptor, &Client::get(client)?.ready_descriptor()?) };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, find) }
}

/// Makes a client's descriptor ready once a reply may have arrived, or a server has connected or
/// left.
///
/// Returns `STRIPLINE_EMPTY` if nothing has arrived yet: wait for the descriptor. Returns
/// `STRIPLINE_OK` if something has: check the pending calls first. Call this function each time
/// before the loop waits, and after each call that was started. Deadlines do not make the
/// descriptor ready.
///
/// Fails with `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` like `stripline_subscriber_arm`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_client_arm(client: *const Client, error: *mut *mut Error) -> Status {
    // SAFETY: the program follows the header's rule for handles.
    let arm = || Ok(armed(unsafe { Client::get(client) }?.arm()?));
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, arm) }
}

/// Gets a server's descriptor, as `stripline_subscriber_ready_descriptor` does for a subscriber.
/// Once `stripline_server_arm` has returned `STRIPLINE_EMPTY`, the descriptor becomes readable when
/// `stripline_server_serve_one` has something to do.
///
/// - Ownership: the descriptor belongs to the server, and is closed with it. Do not close it.
/// - Blocking: never.
/// - Threads: one at a time. Any thread may wait for the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_ready_descriptor(
    server: *mut Server,
    descriptor: *mut i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rule for results.
    let find = |server: &mut RustServer<'static>| unsafe { give(descriptor, &server.ready_descriptor()?) };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Server::call(server, error, find) }
}

/// Makes a server's descriptor ready once there may be a call.
///
/// Returns `STRIPLINE_EMPTY` if no call has arrived yet: wait for the descriptor. Returns
/// `STRIPLINE_OK` if a call has arrived: serve it first. Call this function each time before the
/// loop waits.
///
/// Fails with `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` like `stripline_subscriber_arm`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_server_arm(server: *mut Server, error: *mut *mut Error) -> Status {
    let arm = |server: &mut RustServer<'static>| Ok(armed(server.arm()?));
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Server::call(server, error, arm) }
}
