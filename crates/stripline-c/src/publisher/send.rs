//! Packets that are copied and sent by one call.

use std::ffi::c_void;

use stripline::node::{Loan as RustLoan, Publisher as RustPublisher};
use stripline::payload::Dynamic;

use crate::error::{Error, Failure};
use crate::status::Status;

use super::{Loan, Publisher, SendOptions};

/// Sends a copy of `count` samples as a packet.
///
/// Fails like `stripline_publisher_loan` and `stripline_loan_commit`.
///
/// - Ownership: nothing is kept. `samples` may be NULL if `count` is 0. `options` may be NULL.
/// - Blocking: while a receiver with policy `block` has no room, and until the scope is reached.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_send(
    publisher: *mut Publisher,
    samples: *const c_void,
    count: usize,
    options: *const SendOptions,
    error: *mut *mut Error,
) -> Status {
    let send = |link: &mut RustPublisher<Dynamic>, _: &Loan| {
        // SAFETY: the program follows the header's rules for structures and pointers.
        unsafe { fill_and_send(|| link.loan(count), samples, count, options) }
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, send) }
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
pub unsafe extern "C" fn stripline_publisher_try_send(
    publisher: *mut Publisher,
    samples: *const c_void,
    count: usize,
    options: *const SendOptions,
    error: *mut *mut Error,
) -> Status {
    let send = |link: &mut RustPublisher<Dynamic>, _: &Loan| {
        // SAFETY: the program follows the header's rules for structures and pointers.
        unsafe { fill_and_send(|| link.try_loan(count), samples, count, options) }
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, send) }
}

/// Copies the samples into a loan, and sends it.
///
/// # Safety
/// `samples` must be NULL, or have as many samples as the loan. The caller must follow the header's
/// rule for structures.
unsafe fn fill_and_send<'a>(
    loan: impl FnOnce() -> stripline::Result<RustLoan<'a, Dynamic>>,
    samples: *const c_void,
    count: usize,
    options: *const SendOptions,
) -> Result<Status, Failure> {
    // SAFETY: the caller makes the same promise.
    let options = unsafe { SendOptions::read(options) }?;
    if samples.is_null() && count != 0 {
        return Err(Failure::null("samples"));
    }
    let mut loan = loan()?;
    if !samples.is_null() {
        // SAFETY: `samples` has as many bytes as the loan, and only this function uses the loan's
        // memory.
        unsafe { loan.as_mut_ptr().copy_from_nonoverlapping(samples.cast(), loan.len()) };
    }
    options.apply(loan).send()?;
    Ok(Status::Ok)
}
