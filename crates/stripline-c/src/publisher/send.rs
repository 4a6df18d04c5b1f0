//! Packets that are copied and sent by one call.

use stripline::node::Loan as RustLoan;
use stripline::payload::Dynamic;

use crate::border::{Data, ErrorOut, Handle, Ref};
use crate::error::{Failure, missing};
use crate::status::Status;

use super::{Publisher, SendOptions, send_options};

/// Sends a copy of `count` samples as a packet.
///
/// Fails like `stripline_publisher_loan` and `stripline_loan_commit`.
///
/// - Ownership: nothing is kept. `samples` may be NULL if `count` is 0. `options` may be NULL.
/// - Blocking: while a receiver with policy `block` has no room, and until the scope is reached.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_send(
    publisher: Handle<Publisher>,
    samples: Data,
    count: usize,
    options: Ref<SendOptions>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| fill_and_send(|| link.loan(count), samples, count, options)))
}

/// Sends like `stripline_publisher_send`, but does not wait for room: either all receivers get the
/// packet, or none.
///
/// Fails like `stripline_publisher_try_loan` and `stripline_loan_commit`.
///
/// - Ownership: as for `stripline_publisher_send`.
/// - Blocking: only until the scope is reached, for the scopes `server` and `target`.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_try_send(
    publisher: Handle<Publisher>,
    samples: Data,
    count: usize,
    options: Ref<SendOptions>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| fill_and_send(|| link.try_loan(count), samples, count, options)))
}

/// Copies the samples into a loan, and sends it.
fn fill_and_send<'a>(
    loan: impl FnOnce() -> stripline::Result<RustLoan<'a, Dynamic>>,
    samples: Data,
    count: usize,
    options: Ref<SendOptions>,
) -> Result<Status, Failure> {
    let (samples, options) = (samples.first(), options.stamps()?);
    if samples.is_none() && count != 0 {
        return Err(missing("samples"));
    }
    let mut loan = loan()?;
    if let Some(samples) = samples {
        // SAFETY: the program passes as many samples as the loan has, and only this function uses
        // the loan's memory.
        unsafe { loan.as_mut_ptr().copy_from_nonoverlapping(samples, loan.len()) };
    }
    send_options::send(loan, options)?;
    Ok(Status::Ok)
}
