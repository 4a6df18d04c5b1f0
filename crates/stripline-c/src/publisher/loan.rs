//! Loans: room for a packet, written in place.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;

use stripline::internal::inlined;
use stripline::node::Loan as RustLoan;
use stripline::payload::Dynamic;

use crate::error::{Error, Failure};
use crate::handle::{drop_quietly, guard};
use crate::packet::{Content, Packet};
use crate::status::Status;
use crate::text;

use super::{Publisher, SendOptions};

/// Room for the samples of one packet, to be written in place. It belongs to the thread of its
/// publisher. A publisher has one loan at a time.
pub struct Loan {
    pub(super) content: UnsafeCell<Option<RustLoan<'static, Dynamic>>>,
    pub(super) owner: *const Publisher,
}

/// Lends room for `samples` samples. On shared memory, they are written where the receivers read
/// them. The initial content is unspecified.
///
/// Waits while a receiver with policy `block` has no room. Fails with `STRIPLINE_PORT` while
/// another loan is open or after the end of the stream, and with `STRIPLINE_TOO_LARGE`,
/// `STRIPLINE_STALLED`, `STRIPLINE_STOPPED` and `STRIPLINE_SYSTEM`.
///
/// - Ownership: the caller commits or cancels the loan. `memory` gets the address of the samples.
///   It is aligned for their type, and valid until then.
/// - Blocking: while a receiver has no room.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_loan(
    publisher: *mut Publisher,
    samples: usize,
    memory: *mut *mut c_void,
    loan: *mut *mut Loan,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe {
        let fast = |link: &mut _, handle: &_| {
            // The places are checked before the loan is made.
            let has_places = !memory.is_null() && !loan.is_null();
            has_places && inlined::loan(link, samples).is_some_and(|l| lend(l, handle, memory, loan).is_ok())
        };
        match Publisher::call_fast(publisher, error, fast) {
            Some(status) => status,
            None => lend_slow(publisher, samples, memory, loan, error),
        }
    }
}

#[inline(never)]
unsafe fn lend_slow(
    publisher: *mut Publisher,
    samples: usize,
    memory: *mut *mut c_void,
    loan: *mut *mut Loan,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe {
        Publisher::call(publisher, error, |link, handle| lend(link.loan(samples)?, handle, memory, loan))
    }
}

/// Lends room as `stripline_publisher_loan` does, without waiting.
///
/// Fails with `STRIPLINE_FULL` when a receiver with policy `block` has no room, and with
/// `STRIPLINE_TOO_LARGE` above `stripline_publisher_samples_in_place`; otherwise like
/// `stripline_publisher_loan`.
///
/// - Ownership: as for `stripline_publisher_loan`.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_try_loan(
    publisher: *mut Publisher,
    samples: usize,
    memory: *mut *mut c_void,
    loan: *mut *mut Loan,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe {
        Publisher::call(publisher, error, |link, handle| lend(link.try_loan(samples)?, handle, memory, loan))
    }
}

/// Stores a loan in the publisher's handle for it.
#[inline(always)]
fn lend(
    mut lent: RustLoan<'_, Dynamic>,
    handle: &Loan,
    memory: *mut *mut c_void,
    loan: *mut *mut Loan,
) -> Result<Status, Failure> {
    // This check comes first: if there is no place, the loan is cancelled.
    text::check_place(loan, "loan")?;
    let place = lent.as_mut_ptr().cast();
    // SAFETY: the program follows the header's rule for results.
    unsafe { text::put(memory, "memory", place) }?;
    // SAFETY: the loan refers to the publisher, which neither moves nor is freed before the loan is
    // closed. Until then, an open loan blocks other calls.
    let lent = unsafe { std::mem::transmute::<RustLoan<'_, Dynamic>, RustLoan<'static, Dynamic>>(lent) };
    // SAFETY: this is the publisher's thread. No loan is open, so there is nothing to drop.
    unsafe { ptr::write(handle.content.get(), Some(lent)) };
    // SAFETY: the place is not NULL, and the program follows the header's rule for results.
    unsafe { text::put(loan, "loan", ptr::from_ref(handle).cast_mut()) }?;
    Ok(Status::Ok)
}

impl Loan {
    /// Returns the publisher that contains this handle.
    pub(crate) fn owner(&self) -> &Publisher {
        // SAFETY: the loan's handle is part of the publisher.
        unsafe { &*self.owner }
    }

    /// Sends the loan, if it is the next packet of a steady stream. Returns `None` if nothing was
    /// done.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    #[inline(always)]
    unsafe fn send_fast(loan: *mut Self, error: *mut *mut Error) -> Option<Status> {
        // SAFETY: the caller makes the same promise.
        let found = unsafe { loan.as_ref() }?;
        // SAFETY: the loan's handle is part of the publisher.
        let owner = unsafe { &*found.owner };
        if owner.is_freed.get() {
            return None;
        }
        let send = || {
            // SAFETY: the program calls on the publisher's thread, as the header requires.
            let content = unsafe { &mut *found.content.get() };
            let is_sent = content.as_mut().is_some_and(inlined::send);
            if is_sent {
                std::mem::forget(content.take());
            }
            is_sent
        };
        // SAFETY: the caller makes the same promise.
        unsafe { owner.head.enter_fast(error, send) }
    }

    /// Takes the loan out of the handle, for a call that closes it.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    #[inline(always)]
    unsafe fn close(
        loan: *mut Self,
        error: *mut *mut Error,
        close: impl FnOnce(RustLoan<'static, Dynamic>, bool) -> Result<Status, Failure>,
    ) -> Status {
        // SAFETY: the caller makes the same promise.
        let Some(found) = (unsafe { loan.as_ref() }) else {
            // SAFETY: the caller makes the same promise.
            return unsafe { Failure::null("loan").report(error) };
        };
        // SAFETY: the loan's handle is part of the publisher.
        let owner = unsafe { &*found.owner };
        let inside = || {
            // SAFETY: the program calls on the publisher's thread, as the header requires.
            let lent = unsafe { &mut *found.content.get() }.take();
            close(lent.ok_or_else(Self::closed)?, owner.is_freed.get())
        };
        // SAFETY: the caller makes the same promise.
        let status = unsafe { owner.head.enter(error, inside) };
        if owner.is_freed.get() && (!owner.is_loan_open() || owner.head.is_poisoned()) {
            // SAFETY: made by `stripline_publisher_new`, and freed once: here.
            drop_quietly(unsafe { Box::from_raw(found.owner.cast_mut()) });
        }
        status
    }

    #[cold]
    fn closed() -> Failure {
        Failure::new(Status::Port, "the loan is closed: it was committed or cancelled before")
    }

    #[cold]
    fn without_publisher() -> Failure {
        Failure::new(Status::Port, "the publisher was freed before its loan was committed: nothing was sent")
    }
}

/// Sends the samples of a loan as a packet, and closes the loan, even if it fails.
///
/// Waits while a receiver with policy `block` has no room, if the loan may wait, and then until the
/// scope is reached. Fails like `stripline_publisher_loan`, and with `STRIPLINE_UNSUPPORTED` for a
/// scope that the transport does not support. If the scope is not reached, the packet stays sent,
/// and the status is `STRIPLINE_UNANSWERED`, `STRIPLINE_RECEIVER_GONE` or
/// `STRIPLINE_PACKET_REFUSED`.
///
/// - Ownership: of the loan and the memory, ends here. `options` may be NULL and is not kept.
/// - Blocking: as described above.
/// - Threads: the thread of the publisher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_loan_commit(
    loan: *mut Loan,
    options: *const SendOptions,
    error: *mut *mut Error,
) -> Status {
    if options.is_null() {
        // SAFETY: the program follows the header's rules for handles and `error`.
        if let Some(status) = unsafe { Loan::send_fast(loan, error) } {
            return status;
        }
    }
    // SAFETY: the program follows the header's rules for handles, structures and `error`.
    unsafe { commit_slow(loan, options, error) }
}

#[inline(never)]
unsafe fn commit_slow(loan: *mut Loan, options: *const SendOptions, error: *mut *mut Error) -> Status {
    let commit = |lent: RustLoan<'static, Dynamic>, is_freed| {
        if is_freed {
            return Err(Loan::without_publisher());
        }
        if options.is_null() {
            lent.send()?;
        } else {
            // SAFETY: the program follows the header's rule for structures.
            let options = unsafe { SendOptions::read(options) }?;
            options.apply(lent).send()?;
        }
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Loan::close(loan, error, commit) }
}

/// Sends the samples of a loan as `stripline_loan_commit` does, with the stream, sample index, time
/// and order of a received packet.
///
/// Fails with `STRIPLINE_PORT` for a packet that was released; otherwise like
/// `stripline_loan_commit`.
///
/// - Ownership: of the loan and the memory, ends here. The packet stays the caller's.
/// - Blocking: as for `stripline_loan_commit`.
/// - Threads: the thread of the publisher, which must also own the packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_loan_commit_like(
    loan: *mut Loan,
    packet: *const Packet,
    error: *mut *mut Error,
) -> Status {
    let commit = |lent: RustLoan<'static, Dynamic>, is_freed| {
        if is_freed {
            return Err(Loan::without_publisher());
        }
        // SAFETY: the program follows the header's rule for handles.
        match unsafe { Packet::get(packet) }? {
            Content::Free => return Err(Packet::released()),
            Content::Lent(packet) => lent.send_like(packet)?,
            Content::Held(packet, _) => lent.send_like(packet)?,
            Content::View(packet) => lent.send_like(packet)?,
            Content::Window(packet) => lent.send_like(packet)?,
        }
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Loan::close(loan, error, commit) }
}

/// Keeps only the first `samples` samples of a loan. A number above the length of the loan changes
/// nothing.
///
/// Fails with `STRIPLINE_PORT` for a loan that is closed.
///
/// - Ownership: the loan stays the caller's.
/// - Blocking: never.
/// - Threads: the thread of the publisher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_loan_truncate(
    loan: *mut Loan,
    samples: usize,
    error: *mut *mut Error,
) -> Status {
    let truncate = || {
        // SAFETY: the program follows the header's rule for handles.
        let found = unsafe { loan.as_ref() }.ok_or_else(|| Failure::null("loan"))?;
        // SAFETY: the program calls on the publisher's thread, as the header requires.
        let lent = unsafe { &mut *found.content.get() }.as_mut().ok_or_else(Loan::closed)?;
        lent.truncate(samples);
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, truncate) }
}

/// Closes a loan without sending anything; NULL is allowed.
///
/// - Ownership: of the loan and the memory, ends here.
/// - Blocking: never, unless the publisher was freed before: then it ends here, which may block as
///   `stripline_publisher_free` does.
/// - Threads: the thread of the publisher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_loan_cancel(loan: *mut Loan, error: *mut *mut Error) -> Status {
    if loan.is_null() {
        return Status::Ok;
    }
    let cancel = |lent, _| {
        drop(lent);
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Loan::close(loan, error, cancel) }
}
