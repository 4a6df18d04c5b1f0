//! Many packets at a time.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use stripline::Error as LinkError;

use crate::border::{ErrorOut, Handle, Out};
use crate::error::{Failure, missing};
use crate::publisher::Publisher;
use crate::serve::{self, PacketHandler};
use crate::status::Status;
use crate::subscriber::{Source, Subscriber};

/// A function that writes the packets of `stripline_publisher_send_many`. The function gets the
/// context, the index of the packet in this call, from 0, and the memory for the samples.
///
/// The function returns 0 to continue. Any other number ends the call with `STRIPLINE_HANDLER`, and
/// this packet is not sent. The function must return: no `longjmp`, no exception of C++. The
/// function may use other handles, but not the publisher that called it.
pub type PacketWriter = unsafe extern "C" fn(context: *mut c_void, index: usize, samples: *mut c_void) -> i32;

/// Sends `packets` packets of `samples` samples each. `writer` writes them in place. The effect
/// equals a loan and a commit in a loop, at a lower cost for each packet. A receiver that sleeps is
/// woken once, and over sockets many packets leave with one system call.
///
/// Fails like `stripline_publisher_loan` and `stripline_loan_commit`, and with `STRIPLINE_HANDLER`
/// if the writer fails. The packets before the failure stay sent. Their number is the increase of
/// `stripline_publisher_sequence`.
///
/// - Ownership: nothing is kept. `context` may be NULL.
/// - Blocking: as `stripline_publisher_send`, for each packet.
/// - Threads: one at a time. The writer runs on the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_send_many(
    publisher: Handle<Publisher>,
    packets: usize,
    samples: usize,
    writer: Option<PacketWriter>,
    context: *mut c_void,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| {
        let writer = writer.ok_or_else(|| missing("writer"))?;
        let write = |index: usize, place: &mut [u8]| {
            // SAFETY: the program promises that the writer may be called with this context.
            let outcome = unsafe { writer(context, index, place.as_mut_ptr().cast()) };
            serve::outcome_of(outcome).unwrap_or_else(stop);
        };
        match run(|| link.send_many(packets, samples, write)) {
            Ok(()) => Ok(Status::Ok),
            Err(EarlyEnd::Link(error)) => Err(error.into()),
            Err(EarlyEnd::Callback(reason)) => {
                Err(Failure::new(Status::Handler, format!("the writer failed: {reason}")))
            }
        }
    }))
}

/// Waits until a packet arrives, as `stripline_subscriber_receive` does without a time limit. Then
/// passes this packet, and the packets behind it that have already arrived, to `handler`: up to
/// `limit` packets.
///
/// Returns `STRIPLINE_OK`, and `STRIPLINE_ENDED` at the end of the stream. The handler returns
/// `STRIPLINE_STOPPED` to leave later packets for the next call. If the handler fails, the call
/// fails with `STRIPLINE_HANDLER`: the packet of the failure is finished, and later packets stay.
/// Fails with `STRIPLINE_PORT` for a limit of 0, or for a subscriber with `hold` or `windowed`, and
/// otherwise like `stripline_subscriber_receive`. A receiver that is killed in this call loses up
/// to a quarter of the ring or depth.
///
/// - Ownership: `packets` gets the number of packets passed to the handler, in every outcome.
///   `packets` and `context` may be NULL. The handler may free the subscriber that called it. The
///   subscriber is then freed at the end of the call.
/// - Blocking: until a packet arrives.
/// - Threads: one at a time. The handler runs on the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_subscriber_drain(
    subscriber: Handle<Subscriber>,
    limit: usize,
    handler: Option<PacketHandler>,
    context: *mut c_void,
    packets: Out<usize>,
    error: ErrorOut,
) -> Status {
    let mut found = 0;
    let place = subscriber.pointer();
    let drained = serve::during(std::iter::once(place), || {
        let handler = handler.ok_or_else(|| missing("handler"))?;
        // SAFETY: the call has begun, so no other call has a reference.
        let Source::One(source) = (unsafe { (*place).source() }) else {
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
            Ok(_) | Err(EarlyEnd::Callback(LinkError::Stopped)) => Ok(Status::Ok),
            Err(EarlyEnd::Link(error)) => Err(error.into()),
            Err(EarlyEnd::Callback(reason)) => {
                Err(Failure::new(Status::Handler, format!("the handler failed: {reason}")))
            }
        }
    });
    // The place may be NULL.
    let _ = packets.put("packets", found);
    error.finish(drained)
}

/// The cause of the early end of a call.
enum EarlyEnd {
    Link(LinkError),
    /// A failure of a function of the program.
    Callback(LinkError),
}

/// The error with which a function of the program ends the call. The panic unwinds through the
/// link.
struct Stop(LinkError);

fn stop(reason: LinkError) {
    // Unlike a panic, this prints nothing.
    resume_unwind(Box::new(Stop(reason)));
}

fn run<T>(call: impl FnOnce() -> stripline::Result<T>) -> Result<T, EarlyEnd> {
    // The documentation of the link states that it stays valid if the function that it calls
    // unwinds.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(outcome) => outcome.map_err(EarlyEnd::Link),
        Err(panic) => match panic.downcast::<Stop>() {
            Ok(stopped) => Err(EarlyEnd::Callback(stopped.0)),
            Err(panic) => resume_unwind(panic),
        },
    }
}
