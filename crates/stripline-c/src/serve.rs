//! Handlers, and waits for several subscribers.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

use stripline::Error as LinkError;
use stripline::node::{PacketView, SingleThread, Waitable, wait_any};
use stripline::payload::Dynamic;

use crate::error::{Error, Failure};
use crate::handle::{AtEnd, panicked};
use crate::packet::{Content, Packet};
use crate::status::Status;
use crate::subscriber::{Source, Subscriber};
use crate::text;
use crate::time::timeout;

/// A handler of packets: gets the context and a packet. The packet is valid until the handler
/// returns.
///
/// It returns 0 to continue, and `STRIPLINE_STOPPED` to end the call that runs it. Any other number
/// is a failure: a sender that waits for the packet fails, and the call ends with
/// `STRIPLINE_HANDLER`. The handler must return: no `longjmp`, no exception of C++. It may use
/// other handles. The only thing that it may do with the subscriber that called it is to free it.
/// The subscriber is then freed at the end of the call.
pub type PacketHandler = unsafe extern "C" fn(context: *mut c_void, packet: *mut Packet) -> i32;

/// A subscriber and a handler for the packets.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Served {
    /// The subscriber, made without `hold` and `windowed`.
    pub subscriber: *mut Subscriber,
    /// The handler.
    pub handler: Option<PacketHandler>,
    /// The context of the handler; may be NULL.
    pub context: *mut c_void,
}

/// The maximum number of subscribers in one call.
const PORTS_MAX: usize = 4096;

/// Runs handlers for the packets of `count` subscribers on this thread, until the stream of each
/// has ended. Two handlers never run at the same time. The subscribers take turns, packet by
/// packet.
///
/// Returns `STRIPLINE_ENDED` at the end. Fails with `STRIPLINE_HANDLER` if a handler fails, with
/// `STRIPLINE_STOPPED` if the node is stopped or a handler returns it, and otherwise like
/// `stripline_subscriber_receive`. Packets that were not handled stay for a later call.
///
/// - Ownership: the subscribers stay the caller's, unless their handler frees them. `ports` is not
///   kept.
/// - Blocking: until the end of all streams.
/// - Threads: one at a time for each of the subscribers. Handlers run on the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_serve(
    ports: *const Served,
    count: usize,
    error: *mut *mut Error,
) -> Status {
    let mut begun: Vec<*const Subscriber> = Vec::new();
    let serve = || {
        // SAFETY: the program follows the header's rule for pointers.
        let ports = unsafe { list(ports, count, "ports") }?;
        for port in ports {
            // SAFETY: the program follows the header's rule for handles.
            unsafe { begin(port.subscriber) }?;
            begun.push(port.subscriber);
        }
        let mut threads = SingleThread::new();
        for port in ports {
            let (Some(handler), context) = (port.handler, port.context) else {
                return Err(Failure::null("handler"));
            };
            // SAFETY: the call has begun above, so no other call has a reference.
            let Source::One(source) = (unsafe { (*port.subscriber).source() }) else {
                return Err(Subscriber::has_no_handler());
            };
            threads = threads.packets(source, move |packet| handle(packet, handler, context));
        }
        threads.run()?;
        Ok(Status::Ended)
    };
    let outcome = catch_unwind(AssertUnwindSafe(serve));
    end_all(&begun, outcome.is_err());
    let outcome = outcome.unwrap_or_else(|panic| Err(panicked(panic)));
    // SAFETY: the program follows the header's rule for `error`.
    outcome.unwrap_or_else(|failure| unsafe { failure.report(error) })
}

/// Runs a handler for a packet.
pub(crate) fn handle(
    packet: PacketView<'_, Dynamic>,
    handler: PacketHandler,
    context: *mut c_void,
) -> stripline::Result<()> {
    // SAFETY: the packet's handle ends before this function returns, and the header forbids later
    // use.
    let view =
        unsafe { std::mem::transmute::<PacketView<'_, Dynamic>, PacketView<'static, Dynamic>>(packet) };
    let mut handle = Packet::new(Content::View(view), null());
    // SAFETY: the program promises that the handler may be called with this context.
    outcome_of(unsafe { handler(context, &mut handle) })
}

/// Converts the number that a function of the program has returned to an outcome.
pub(crate) fn outcome_of(returned: i32) -> stripline::Result<()> {
    match returned {
        0 => Ok(()),
        stopped if stopped == Status::Stopped as i32 => Err(LinkError::Stopped),
        failed => {
            let word = Status::describe(failed).map_or("no status", |(word, _)| word);
            Err(LinkError::failed(format!("it returned {failed} ({word})")))
        }
    }
}

/// Waits until one of `count` subscribers has a packet or the end of stream. `ready` has `count`
/// bytes. Each gets 1 if its subscriber is ready, and 0 if not.
///
/// Returns `STRIPLINE_OK` if a subscriber is ready, and `STRIPLINE_EMPTY` if none is ready in time.
/// Fails like `stripline_subscriber_receive`.
///
/// - Ownership: nothing is kept. `ready` is written for `STRIPLINE_OK` and `STRIPLINE_EMPTY`.
/// - Blocking: up to `timeout_ns`, as for `stripline_subscriber_receive`. It allocates.
/// - Threads: one at a time for each of the subscribers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_wait_any(
    subscribers: *const *mut Subscriber,
    count: usize,
    timeout_ns: i64,
    ready: *mut u8,
    error: *mut *mut Error,
) -> Status {
    let mut begun: Vec<*const Subscriber> = Vec::new();
    let wait = || {
        text::check_place(ready, "ready")?;
        // SAFETY: the program follows the header's rule for pointers.
        let subscribers = unsafe { list(subscribers, count, "subscribers") }?;
        let mut ports: Vec<&mut dyn Waitable> = Vec::new();
        for subscriber in subscribers {
            // SAFETY: the program follows the header's rule for handles.
            unsafe { begin(*subscriber) }?;
            begun.push(*subscriber);
            // SAFETY: the call has begun above, so no other call has a reference.
            match unsafe { (**subscriber).source() } {
                Source::One(source) => ports.push(source),
                Source::Holding(source) => ports.push(source),
                Source::Windowed(_) => {
                    return Err(Failure::new(Status::Port, "a windowed subscriber cannot be waited for"));
                }
            }
        }
        let found = wait_any(&mut ports, timeout(timeout_ns))?;
        for index in 0..count {
            // SAFETY: the caller's array has `count` bytes.
            unsafe { ready.add(index).write(found.contains(&index).into()) };
        }
        Ok(if found.is_empty() { Status::Empty } else { Status::Ok })
    };
    let outcome = catch_unwind(AssertUnwindSafe(wait));
    end_all(&begun, outcome.is_err());
    let outcome = outcome.unwrap_or_else(|panic| Err(panicked(panic)));
    // SAFETY: the program follows the header's rule for `error`.
    outcome.unwrap_or_else(|failure| unsafe { failure.report(error) })
}

/// Returns an array that the program has passed.
///
/// # Safety
/// `first` must be NULL, or have `count` values that live for `'a`.
unsafe fn list<'a, T>(first: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 || count > PORTS_MAX {
        return Err(Failure::argument(format!("`count` is {count}; it must be from 1 to {PORTS_MAX}")));
    }
    if first.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: the pointer is not NULL; the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Begins a call of a subscriber that has no packet lent.
///
/// # Safety
/// The caller must follow the header's rule for handles.
pub(crate) unsafe fn begin(subscriber: *const Subscriber) -> Result<(), Failure> {
    // SAFETY: the caller makes the same promise.
    let found = unsafe { Subscriber::get(subscriber) }?;
    found.head().begin()?;
    if found.is_lent() {
        found.head().end(false);
        return Err(found.still_lent());
    }
    Ok(())
}

/// Ends a call that has begun.
///
/// # Safety
/// The call must have begun. The caller must not use the subscriber again if the handler has freed
/// it.
pub(crate) unsafe fn end(subscriber: *const Subscriber, has_panicked: bool) {
    // SAFETY: the call has begun, so the subscriber is not freed yet.
    if unsafe { (*subscriber).head().end(has_panicked) } == AtEnd::Free {
        // SAFETY: the handler has freed the subscriber, and does not use it again.
        unsafe { Subscriber::free_at_end(subscriber) };
    }
}

fn end_all(begun: &[*const Subscriber], has_panicked: bool) {
    // SAFETY: each call has begun, and the subscriber is not used again.
    begun.iter().for_each(|subscriber| unsafe { end(*subscriber, has_panicked) });
}
