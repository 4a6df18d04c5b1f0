//! Many packets at a time.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use stripline::Error as LinkError;
use stripline::node::Publisher as RustPublisher;
use stripline::payload::Dynamic;

use crate::error::{Error, Failure};
use crate::handle::panicked;
use crate::publisher::{Loan, Publisher};
use crate::serve::{self, PacketHandler};
use crate::status::Status;
use crate::subscriber::{Source, Subscriber};
use crate::text;

/// A function that writes the packets of `stripline_publisher_send_many`. It gets its context, the
/// index of the packet in this call, from 0, and the place of its samples.
///
/// It returns 0 to go on. Any other number ends the call with `STRIPLINE_HANDLER`, and this packet
/// is not sent. It must return: no `longjmp`, no exception of C++. It may use other handles, and
/// not its own publisher.
pub type PacketWriter = unsafe extern "C" fn(context: *mut c_void, index: usize, samples: *mut c_void) -> i32;

/// Sends `packets` packets of `samples` samples each, which `writer` writes in place. It is a loan
/// and a commit in a loop, and costs less for each packet. A receiver that sleeps is woken once,
/// and over sockets many packets leave with one system call.
///
/// Fails as `stripline_publisher_loan` and `stripline_loan_commit`, and with `STRIPLINE_HANDLER` if
/// the writer fails. The packets before the failure stay sent: the increase of
/// `stripline_publisher_sequence` is their number.
///
/// - Ownership: nothing is kept. `context` may be NULL.
/// - Blocking: as `stripline_publisher_send`, for each packet.
/// - Threads: one at a time. The writer runs on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_send_many(
    publisher: *mut Publisher,
    packets: usize,
    samples: usize,
    writer: Option<PacketWriter>,
    context: *mut c_void,
    error: *mut *mut Error,
) -> Status {
    let send = |link: &mut RustPublisher<Dynamic>, _: &Loan| {
        let writer = writer.ok_or_else(|| Failure::null("writer"))?;
        let write = |index: usize, place: &mut [u8]| {
            // SAFETY: the program promises that its writer may be called with this context.
            let outcome = unsafe { writer(context, index, place.as_mut_ptr().cast()) };
            serve::outcome_of(outcome).unwrap_or_else(stop);
        };
        match run(|| link.send_many(packets, samples, write)) {
            Ok(()) => Ok(Status::Ok),
            Err(Ended::Link(error)) => Err(error.into()),
            Err(Ended::Callback(reason)) => {
                Err(Failure::new(Status::Handler, format!("the writer failed: {reason}")))
            }
        }
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, send) }
}

/// Waits until a packet is there, as `stripline_subscriber_receive` does without a time limit. Then
/// passes it, and those behind it that are there already, to `handler`: up to `limit` packets.
///
/// Returns `STRIPLINE_OK`, and `STRIPLINE_ENDED` at the end of the stream. The handler returns
/// `STRIPLINE_STOPPED` to leave later packets for the next call. Fails with `STRIPLINE_HANDLER` if
/// it fails; its packet is finished, and later ones stay. Otherwise fails as
/// `stripline_subscriber_receive`; with `STRIPLINE_PORT` for a limit of 0, or for a subscriber with
/// `hold` or `windowed`. A receiver that is killed in this call has lost up to a quarter of its
/// ring or depth.
///
/// - Ownership: `packets` gets the number of packets that the handler got, in every outcome; it may
///   be NULL, and `context` too. The handler may free its own subscriber, which happens at the end
///   of the call.
/// - Blocking: until a packet is there.
/// - Threads: one at a time. The handler runs on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_subscriber_drain(
    subscriber: *mut Subscriber,
    limit: usize,
    handler: Option<PacketHandler>,
    context: *mut c_void,
    packets: *mut usize,
    error: *mut *mut Error,
) -> Status {
    let mut found = 0;
    let mut has_begun = false;
    let drain = || {
        let handler = handler.ok_or_else(|| Failure::null("handler"))?;
        // SAFETY: the header's rule for handles.
        unsafe { serve::begin(subscriber) }?;
        has_begun = true;
        // SAFETY: begun, so that no other call has a reference.
        let Source::One(source) = (unsafe { (*subscriber).source() }) else {
            return Err(Subscriber::has_no_handler());
        };
        let drained = run(|| {
            source.drain(limit, |packet| {
                found += 1;
                serve::handle(packet, handler, context).unwrap_or_else(stop);
            })
        });
        match drained {
            Ok(0) => Ok(Status::Ended),
            Ok(_) | Err(Ended::Callback(LinkError::Stopped)) => Ok(Status::Ok),
            Err(Ended::Link(error)) => Err(error.into()),
            Err(Ended::Callback(reason)) => {
                Err(Failure::new(Status::Handler, format!("the handler failed: {reason}")))
            }
        }
    };
    let outcome = catch_unwind(AssertUnwindSafe(drain));
    if has_begun {
        // SAFETY: begun above.
        unsafe { serve::end(subscriber, outcome.is_err()) };
    }
    if !packets.is_null() {
        // SAFETY: the header's rule for results.
        let _ = unsafe { text::put(packets, "packets", found) };
    }
    let outcome = outcome.unwrap_or_else(|panic| Err(panicked(panic)));
    // SAFETY: the header's rule for `error`.
    outcome.unwrap_or_else(|failure| unsafe { failure.report(error) })
}

/// The early end of a call, and its cause.
enum Ended {
    Link(LinkError),
    /// A function of the program.
    Callback(LinkError),
}

/// The reason of a function of the program to end its call. It unwinds through the link.
struct Stop(LinkError);

fn stop(reason: LinkError) {
    // It prints nothing, unlike a panic.
    resume_unwind(Box::new(Stop(reason)));
}

fn run<T>(call: impl FnOnce() -> stripline::Result<T>) -> Result<T, Ended> {
    // The link keeps its state where the function that it calls unwinds, as its documentation
    // states.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(outcome) => outcome.map_err(Ended::Link),
        Err(panic) => match panic.downcast::<Stop>() {
            Ok(stopped) => Err(Ended::Callback(stopped.0)),
            Err(panic) => resume_unwind(panic),
        },
    }
}
