//! Handlers, and waits for several subscribers.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

use stripline::Error as LinkError;
use stripline::node::{PacketView, SingleThread, Waitable, wait_any};
use stripline::payload::Dynamic;

use crate::border::{ErrorOut, Out};
use crate::error::{Failure, missing};
use crate::handle::{AtEnd, Headed, panicked};
use crate::packet::{Content, Packet};
use crate::status::Status;
use crate::subscriber::{Source, Subscriber};
use crate::time::timeout;

/// A handler of packets: gets the context and a packet. The packet is valid until the handler
/// returns.
///
/// The handler returns 0 to continue, and `STRIPLINE_STOPPED` to end the call that runs it. Any
/// other number is a failure: a sender that waits for the packet fails, and the call ends with
/// `STRIPLINE_HANDLER`. The handler must return: no `longjmp`, no exception of C++. The handler may
/// use other handles. The only thing that it may do with the subscriber that called it is to free
/// it. The subscriber is then freed at the end of the call.
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
/// - Ownership: the caller keeps the subscribers, unless their handler frees them. `ports` is not
///   kept.
/// - Blocking: until the end of all streams.
/// - Threads: one at a time for each of the subscribers. Handlers run on the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_serve(ports: *const Served, count: usize, error: ErrorOut) -> Status {
    // SAFETY: the program follows the header's rule for pointers.
    let ports = match unsafe { list(ports, count, "ports") } {
        Ok(ports) => ports,
        Err(failure) => return error.report(failure),
    };
    let served = during(ports.iter().map(|port| port.subscriber), || {
        let mut threads = SingleThread::new();
        for port in ports {
            let (Some(handler), context) = (port.handler, port.context) else {
                return Err(missing("handler"));
            };
            // SAFETY: the call has begun, so no other call has a reference.
            let Source::One(source) = (unsafe { (*port.subscriber).source() }) else {
                return Err(Subscriber::has_no_handler());
            };
            threads = threads.packets(source, move |packet| handle(packet, handler, context));
        }
        threads.run()?;
        Ok(Status::Ended)
    });
    error.finish(served)
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
/// - Blocking: up to `timeout_ns`, as for `stripline_subscriber_receive`. The call allocates.
/// - Threads: one at a time for each of the subscribers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_wait_any(
    subscribers: *const *mut Subscriber,
    count: usize,
    timeout_ns: i64,
    ready: Out<u8>,
    error: ErrorOut,
) -> Status {
    // SAFETY: the program follows the header's rule for pointers.
    let listed = unsafe { list(subscribers, count, "subscribers") };
    let subscribers = match ready.check("ready").and(listed) {
        Ok(subscribers) => subscribers,
        Err(failure) => return error.report(failure),
    };
    let waited = during(subscribers.iter().copied(), || {
        let mut ports: Vec<&mut dyn Waitable> = Vec::new();
        for subscriber in subscribers {
            // SAFETY: the call has begun, so no other call has a reference.
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
            unsafe { ready.pointer().add(index).write(found.contains(&index).into()) };
        }
        Ok(if found.is_empty() { Status::Empty } else { Status::Ok })
    });
    error.finish(waited)
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
        return Err(missing(what));
    }
    // SAFETY: the pointer is not NULL; the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Runs a call of subscribers without a lent packet, in which functions of the program run. If one
/// of these functions frees a subscriber, it is freed at the end of the call.
pub(crate) fn during(
    subscribers: impl Iterator<Item = *mut Subscriber> + Clone,
    call: impl FnOnce() -> Result<Status, Failure>,
) -> Result<Status, Failure> {
    let mut begun = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        for subscriber in subscribers.clone() {
            // SAFETY: the subscriber is NULL or valid, by the header's rule for handles.
            let found = unsafe { subscriber.as_ref() }.ok_or_else(|| missing(Subscriber::NAME))?;
            found.head().begin()?;
            begun += 1;
            if found.is_lent() {
                return Err(found.still_lent());
            }
        }
        call()
    }));
    for subscriber in subscribers.take(begun) {
        // SAFETY: the call has begun, so the subscriber is not freed yet.
        if unsafe { (*subscriber).head().end(outcome.is_err()) } == AtEnd::Free {
            // SAFETY: the program has freed the subscriber, and does not use it again.
            unsafe { Subscriber::free_after_call(subscriber) };
        }
    }
    outcome.unwrap_or_else(|panic| Err(panicked(panic)))
}
