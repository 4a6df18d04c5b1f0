//! Loans: room for a packet, written in place.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;

use stripline::internal::fast_path;
use stripline::node::Loan as RustLoan;
use stripline::payload::Dynamic;

use crate::border::{ErrorOut, Handle, Out, Ref};
use crate::error::{Failure, missing};
use crate::handle::drop_quietly;
use crate::packet::{Content, Packet};
use crate::status::Status;

use super::{Publisher, SendOptions, send_options};

/// Room for the samples of one packet, to be written in place. The loan belongs to the thread of
/// its publisher. A publisher has one loan at a time.
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
///   The address is aligned for their type, and valid until then.
/// - Blocking: while a receiver has no room.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_loan(
    publisher: Handle<Publisher>,
    samples: usize,
    memory: Out<*mut c_void>,
    loan: Out<*mut Loan>,
    error: ErrorOut,
) -> Status {
    let fast = |link: &mut _, handle: &_| {
        // The places are checked before the loan is made.
        let has_places = memory.check("memory").is_ok() && loan.check("loan").is_ok();
        has_places && fast_path::loan(link, samples).is_some_and(|l| lend(l, handle, &memory, &loan).is_ok())
    };
    match publisher.call_fast(error, fast) {
        Some(status) => status,
        None => lend_slow(publisher, samples, memory, loan, error),
    }
}

#[inline(never)]
fn lend_slow(
    publisher: Handle<Publisher>,
    samples: usize,
    memory: Out<*mut c_void>,
    loan: Out<*mut Loan>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, handle| lend(link.loan(samples)?, handle, &memory, &loan)))
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
pub extern "C" fn stripline_publisher_try_loan(
    publisher: Handle<Publisher>,
    samples: usize,
    memory: Out<*mut c_void>,
    loan: Out<*mut Loan>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, handle| lend(link.try_loan(samples)?, handle, &memory, &loan)))
}

/// Stores a loan in the publisher's handle for it.
#[inline(always)]
fn lend(
    mut lent: RustLoan<'_, Dynamic>,
    handle: &Loan,
    memory: &Out<*mut c_void>,
    loan: &Out<*mut Loan>,
) -> Result<Status, Failure> {
    // This check comes first: if there is no place, the loan is cancelled.
    loan.check("loan")?;
    let place = lent.as_mut_ptr().cast();
    memory.put("memory", place)?;
    // SAFETY: the loan refers to the publisher, which neither moves nor is freed before the loan is
    // closed. Until then, an open loan blocks other calls.
    let lent = unsafe { std::mem::transmute::<RustLoan<'_, Dynamic>, RustLoan<'static, Dynamic>>(lent) };
    // SAFETY: this is the publisher's thread. No loan is open, so there is nothing to drop.
    unsafe { ptr::write(handle.content.get(), Some(lent)) };
    loan.put("loan", ptr::from_ref(handle).cast_mut())
}

impl Loan {
    /// Returns the publisher that contains this handle.
    pub(crate) fn owner(&self) -> &Publisher {
        // SAFETY: the loan's handle is part of the publisher.
        unsafe { &*self.owner }
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

impl Handle<Loan> {
    /// Sends the loan, if it is the next packet of a steady stream. Returns `None` if nothing was
    /// done.
    #[inline(always)]
    fn send_fast(&self, error: ErrorOut) -> Option<Status> {
        let found = self.as_ref()?;
        let owner = found.owner();
        if owner.is_freed.get() {
            return None;
        }
        let send = || {
            // SAFETY: the program calls on the publisher's thread, as the header requires.
            let content = unsafe { &mut *found.content.get() };
            let is_sent = content.as_mut().is_some_and(fast_path::send);
            if is_sent {
                std::mem::forget(content.take());
            }
            is_sent
        };
        owner.head.enter_fast(error, send)
    }

    /// Sends the loan, and closes it.
    fn send(
        &self,
        error: ErrorOut,
        send: impl FnOnce(RustLoan<'static, Dynamic>) -> Result<(), Failure>,
    ) -> Status {
        self.close(error, |lent, is_freed| if is_freed { Err(Loan::without_publisher()) } else { send(lent) })
    }

    /// Takes the loan out of the handle, for a call that closes it.
    #[inline(always)]
    fn close(
        &self,
        error: ErrorOut,
        close: impl FnOnce(RustLoan<'static, Dynamic>, bool) -> Result<(), Failure>,
    ) -> Status {
        let Some(found) = self.as_ref() else { return error.report(missing("loan")) };
        let (owner, place) = (found.owner(), found.owner);
        let closed = owner.head.enter(|| {
            // SAFETY: the program calls on the publisher's thread, as the header requires.
            let lent = unsafe { &mut *found.content.get() }.take();
            close(lent.ok_or_else(Loan::closed)?, owner.is_freed.get())?;
            Ok(Status::Ok)
        });
        if owner.is_freed.get() && (!owner.is_loan_open() || owner.head.is_poisoned()) {
            // SAFETY: made by `Publisher::new`, and freed once: here.
            drop_quietly(unsafe { Box::from_raw(place.cast_mut()) });
        }
        error.finish(closed)
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
/// - Ownership: ends with this call, for the loan and the memory. `options` may be NULL and is not
///   kept.
/// - Blocking: as described above.
/// - Threads: the thread of the publisher.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_loan_commit(
    loan: Handle<Loan>,
    options: Ref<SendOptions>,
    error: ErrorOut,
) -> Status {
    if options.pointer().is_null()
        && let Some(status) = loan.send_fast(error)
    {
        return status;
    }
    commit_slow(loan, options, error)
}

#[inline(never)]
fn commit_slow(loan: Handle<Loan>, options: Ref<SendOptions>, error: ErrorOut) -> Status {
    loan.send(error, |lent| send_options::send(lent, options.stamps()?))
}

/// Sends the samples of a loan as `stripline_loan_commit` does, with the stream, sample index, time
/// and order of a received packet.
///
/// Fails with `STRIPLINE_PORT` for a packet that was released; otherwise like
/// `stripline_loan_commit`.
///
/// - Ownership: ends with this call, for the loan and the memory. The caller keeps the packet.
/// - Blocking: as for `stripline_loan_commit`.
/// - Threads: the thread of the publisher, which must also own the packet.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_loan_commit_like(
    loan: Handle<Loan>,
    packet: Ref<Packet>,
    error: ErrorOut,
) -> Status {
    loan.send(error, |lent| {
        match packet.get("packet")?.content()? {
            Content::Free => return Err(Packet::released()),
            Content::Lent(packet) => lent.send_like(packet)?,
            Content::Held(packet, _) => lent.send_like(packet)?,
            Content::View(packet) => lent.send_like(packet)?,
            Content::Window(packet) => lent.send_like(packet)?,
        }
        Ok(())
    })
}

/// Keeps only the first `samples` samples of a loan. A number above the length of the loan changes
/// nothing.
///
/// Fails with `STRIPLINE_PORT` for a loan that is closed.
///
/// - Ownership: the caller keeps the loan.
/// - Blocking: never.
/// - Threads: the thread of the publisher.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_loan_truncate(loan: Handle<Loan>, samples: usize, error: ErrorOut) -> Status {
    error.guard(|| {
        let found = loan.get("loan")?;
        // SAFETY: the program calls on the publisher's thread, as the header requires.
        let lent = unsafe { &mut *found.content.get() }.as_mut().ok_or_else(Loan::closed)?;
        lent.truncate(samples);
        Ok(Status::Ok)
    })
}

/// Closes a loan without sending anything; NULL is allowed.
///
/// - Ownership: ends with this call, for the loan and the memory.
/// - Blocking: never, unless the publisher was freed before: then the publisher ends in this call,
///   which may block as `stripline_publisher_free` does.
/// - Threads: the thread of the publisher.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_loan_cancel(loan: Handle<Loan>, error: ErrorOut) -> Status {
    if loan.pointer().is_null() {
        return Status::Ok;
    }
    loan.close(error, |lent, _| {
        drop(lent);
        Ok(())
    })
}
