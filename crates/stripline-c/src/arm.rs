//! Handles in a program's own loop: a descriptor for each handle, and functions to arm it.

use std::os::fd::AsRawFd;

use stripline::node::{ReadyDescriptor, Waitable};

use crate::border::{ErrorOut, Handle, Out, Ref};
use crate::call::{Client, Server};
use crate::error::Failure;
use crate::handle::caught;
use crate::publisher::Publisher;
use crate::status::Status;
use crate::subscriber::{Source, Subscriber};

/// Returns the status of an attempt to arm: `EMPTY` if the descriptor is armed.
fn armed(is_armed: bool) -> Status {
    if is_armed { Status::Empty } else { Status::Ok }
}

/// Writes the number of a descriptor to `place`.
fn give(place: Out<i32>, descriptor: &ReadyDescriptor) -> Result<Status, Failure> {
    place.put("descriptor", descriptor.as_raw_fd())
}

impl Handle<Subscriber> {
    /// Arms the descriptor.
    pub(crate) fn arm(&self, samples: usize) -> Result<Status, Failure> {
        self.call(|_, source| {
            source.check_window(samples)?;
            Ok(armed(match source {
                Source::One(source) => source.arm()?,
                Source::Holding(source) => source.arm()?,
                Source::Windowed(source) => source.arm(samples)?,
            }))
        })
    }
}

impl Handle<Publisher> {
    /// Arms the descriptor for room for a packet.
    pub(crate) fn arm(&self, samples: usize) -> Result<Status, Failure> {
        self.call(|link, _| Ok(armed(link.arm(samples)?)))
    }

    /// Arms the descriptor for a number of receivers.
    pub(crate) fn arm_for_receivers(&self, count: usize) -> Result<Status, Failure> {
        self.call(|link, _| Ok(armed(link.arm_for_receivers(count)?)))
    }
}

impl Handle<Server> {
    /// Arms the descriptor.
    pub(crate) fn arm(&self) -> Result<Status, Failure> {
        self.call(|server| Ok(armed(server.arm()?)))
    }
}

impl Client {
    /// Arms the descriptor.
    pub(crate) fn arm(&self) -> Result<Status, Failure> {
        caught(|| Ok(armed(self.link.arm()?)))
    }
}

/// Gets a subscriber's descriptor, for `poll`, epoll or a toolkit. Every call gets the same one.
/// Once `stripline_subscriber_arm` has returned `STRIPLINE_EMPTY`, the descriptor becomes readable
/// when the subscriber needs a call. The descriptor is level-triggered. The program only waits for
/// it and never reads from it.
///
/// Fails with `STRIPLINE_SYSTEM` if the process has too few descriptors left: this function needs
/// four.
///
/// - Ownership: the descriptor belongs to the subscriber, and is closed with it. Do not close it.
/// - Blocking: never.
/// - Threads: one at a time. Any thread may wait for the descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_subscriber_ready_descriptor(
    subscriber: Handle<Subscriber>,
    descriptor: Out<i32>,
    error: ErrorOut,
) -> Status {
    error.finish(subscriber.call(|_, source| give(descriptor, &source.ready_descriptor()?)))
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
pub extern "C" fn stripline_subscriber_arm(
    subscriber: Handle<Subscriber>,
    samples: usize,
    error: ErrorOut,
) -> Status {
    error.finish(subscriber.arm(samples))
}

/// Gets a publisher's descriptor, as `stripline_subscriber_ready_descriptor` does for a subscriber.
/// Once `stripline_publisher_arm` or `stripline_publisher_arm_for_receivers` has returned
/// `STRIPLINE_EMPTY`, the descriptor becomes readable when the publisher needs a call.
///
/// - Ownership: the descriptor belongs to the publisher, and is closed with it. Do not close it.
/// - Blocking: never.
/// - Threads: one at a time. Any thread may wait for the descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_ready_descriptor(
    publisher: Handle<Publisher>,
    descriptor: Out<i32>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| give(descriptor, &link.ready_descriptor()?)))
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
pub extern "C" fn stripline_publisher_arm(
    publisher: Handle<Publisher>,
    samples: usize,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.arm(samples))
}

/// Makes a publisher's descriptor ready once at least `count` receivers may be connected. The call
/// replaces an earlier `stripline_publisher_arm`.
///
/// Returns `STRIPLINE_OK` if they are connected already, and `STRIPLINE_EMPTY` if not. In all other
/// respects, it is like `stripline_publisher_arm`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_arm_for_receivers(
    publisher: Handle<Publisher>,
    count: usize,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.arm_for_receivers(count))
}

/// Gets a client's descriptor, as `stripline_subscriber_ready_descriptor` does for a subscriber.
/// Once `stripline_client_arm` has returned `STRIPLINE_EMPTY`, the descriptor becomes readable when
/// the program must check the pending calls.
///
/// - Ownership: the descriptor belongs to the client. Do not close it.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_client_ready_descriptor(
    client: Ref<Client>,
    descriptor: Out<i32>,
    error: ErrorOut,
) -> Status {
    error.guard(|| give(descriptor, &client.link()?.ready_descriptor()?))
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
pub extern "C" fn stripline_client_arm(client: Ref<Client>, error: ErrorOut) -> Status {
    error.guard(|| client.get("client")?.arm())
}

/// Gets a server's descriptor, as `stripline_subscriber_ready_descriptor` does for a subscriber.
/// Once `stripline_server_arm` has returned `STRIPLINE_EMPTY`, the descriptor becomes readable when
/// `stripline_server_serve_one` has something to do.
///
/// - Ownership: the descriptor belongs to the server, and is closed with it. Do not close it.
/// - Blocking: never.
/// - Threads: one at a time. Any thread may wait for the descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_server_ready_descriptor(
    server: Handle<Server>,
    descriptor: Out<i32>,
    error: ErrorOut,
) -> Status {
    error.finish(server.call(|server| give(descriptor, &server.ready_descriptor()?)))
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
pub extern "C" fn stripline_server_arm(server: Handle<Server>, error: ErrorOut) -> Status {
    error.finish(server.arm())
}
