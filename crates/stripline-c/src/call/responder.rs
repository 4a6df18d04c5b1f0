//! The answer to one call, given at once or later.

use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};

use stripline::call::{Refusal, Responder as RustResponder};

use crate::error::{Error, Failure};
use crate::handle::{drop_quietly, guard};
use crate::status::Status;
use crate::text;

use super::slice;

/// The right and the duty to answer one call, on any thread and at any time, even after the handler
/// has returned. An answer never blocks. It has no effect if the client has left, or the server was
/// freed.
pub struct Responder {
    /// `None` once the call is answered.
    answer: Mutex<Option<RustResponder>>,
}

/// A handler of calls: gets the context, the bytes of the request, and the responder for the
/// answer.
///
/// The request is valid until the handler returns. The responder belongs to the program, which
/// frees it in the handler or later. The handler must return: no `longjmp`, no exception of C++. It
/// may use other handles. The only thing that it may do with the server that called it is to free
/// it. The server is then freed at the end of the serving call.
pub type CallHandler = unsafe extern "C" fn(
    context: *mut c_void,
    request: *const c_void,
    bytes: usize,
    responder: *mut Responder,
);

impl Responder {
    pub(super) fn new(answer: RustResponder) -> *mut Self {
        Box::into_raw(Box::new(Self { answer: Mutex::new(Some(answer)) }))
    }

    /// Sends the one answer of the call.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    unsafe fn answer(
        responder: *const Self,
        error: *mut *mut Error,
        give: impl FnOnce(RustResponder) -> Result<(), Failure>,
    ) -> Status {
        let answer = || {
            // SAFETY: the caller makes the same promise.
            let found = unsafe { responder.as_ref() }.ok_or_else(|| Failure::null("responder"))?;
            let answer = found.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
            give(answer.ok_or_else(|| Failure::new(Status::Port, "the call was answered before"))?)?;
            Ok(Status::Ok)
        };
        // SAFETY: the caller makes the same promise.
        unsafe { guard(error, answer) }
    }
}

/// Sends the reply of a call: `bytes` bytes, which are a reply of the operation's type.
///
/// Fails with `STRIPLINE_PORT` for a call that was answered before.
///
/// - Ownership: nothing is kept. The caller still frees the responder.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_responder_reply(
    responder: *mut Responder,
    reply: *const c_void,
    bytes: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rule for pointers.
    let reply = unsafe { slice(reply, bytes, "reply") };
    let reply = match reply {
        Ok(reply) => reply,
        // SAFETY: the program follows the header's rule for `error`.
        Err(failure) => return unsafe { failure.report(error) },
    };
    let give = |answer: RustResponder| {
        answer.reply(reply);
        Ok(())
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Responder::answer(responder, error, give) }
}

/// Sends the operation's own error: `bytes` bytes, which are an error of the operation's type. The
/// client gets `STRIPLINE_USER_ERROR`.
///
/// Fails like `stripline_responder_reply`.
///
/// - Ownership: nothing is kept. The caller still frees the responder.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_responder_fail(
    responder: *mut Responder,
    failed: *const c_void,
    bytes: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rule for pointers.
    let failed = match unsafe { slice(failed, bytes, "failed") } {
        Ok(failed) => failed,
        // SAFETY: the program follows the header's rule for `error`.
        Err(failure) => return unsafe { failure.report(error) },
    };
    let give = |answer: RustResponder| {
        answer.fail(failed);
        Ok(())
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Responder::answer(responder, error, give) }
}

/// Refuses a call, with a reason for people to read. The client gets `STRIPLINE_REPLY_FAILED`.
///
/// Fails like `stripline_responder_reply`.
///
/// - Ownership: nothing is kept. The caller still frees the responder.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_responder_refuse(
    responder: *mut Responder,
    reason: *const c_char,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rule for texts.
    let reason = match unsafe { text::required(reason, "reason") } {
        Ok(reason) => reason,
        // SAFETY: the program follows the header's rule for `error`.
        Err(failure) => return unsafe { failure.report(error) },
    };
    let give = |answer: RustResponder| {
        answer.refuse(reason);
        Ok(())
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Responder::answer(responder, error, give) }
}

/// Refuses a call, with a kind of refusal and a reason for people to read. The client gets `kind`
/// as the status. Use `STRIPLINE_WRONG_TYPE` for a request that does not decode, and
/// `STRIPLINE_HANDLER_PANICKED` for a handler that failed by an exception. `STRIPLINE_REPLY_FAILED`
/// has the effect of `stripline_responder_refuse`.
///
/// Fails like `stripline_responder_reply`, and with `STRIPLINE_INVALID_ARGUMENT` for any other
/// kind.
///
/// - Ownership: nothing is kept. The caller still frees the responder.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_responder_refuse_as(
    responder: *mut Responder,
    kind: i32,
    reason: *const c_char,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rule for texts.
    let given = unsafe { text::required(reason, "reason") }.and_then(|reason| Ok((refusal(kind)?, reason)));
    let (refusal, reason) = match given {
        Ok(given) => given,
        // SAFETY: the program follows the header's rule for `error`.
        Err(failure) => return unsafe { failure.report(error) },
    };
    let give = |answer: RustResponder| {
        answer.refuse_as(refusal, reason);
        Ok(())
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Responder::answer(responder, error, give) }
}

/// Returns the kind of refusal with the status `kind`.
fn refusal(kind: i32) -> Result<Refusal, Failure> {
    let all = [
        (Status::WrongType, Refusal::WrongType),
        (Status::HandlerPanicked, Refusal::Panicked),
        (Status::ReplyFailed, Refusal::Failed),
    ];
    let found = all.into_iter().find(|(status, _)| *status as i32 == kind);
    found.map(|(_, refusal)| refusal).ok_or_else(|| {
        let problem = format!(
            "`kind` is {kind}, which refuses no call: use STRIPLINE_WRONG_TYPE, STRIPLINE_HANDLER_PANICKED \
             or STRIPLINE_REPLY_FAILED"
        );
        Failure::new(Status::InvalidArgument, problem)
    })
}

/// Returns the time that the client waits for the reply, in nanoseconds from the start of the call.
/// Returns 0 for NULL, and after the answer.
///
/// - Ownership: the responder stays the program's.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_responder_deadline_ns(responder: *const Responder) -> u64 {
    // SAFETY: the program follows the header's rule for handles.
    let Some(found) = (unsafe { responder.as_ref() }) else { return 0 };
    let answer = found.answer.lock().unwrap_or_else(PoisonError::into_inner);
    answer.as_ref().map_or(0, |answer| answer.deadline().as_nanos() as u64)
}

/// Frees a responder; NULL is allowed. A call without an answer is refused, so that the client does
/// not wait until the deadline.
///
/// - Ownership: ends here. A second call with the same responder is undefined.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_responder_free(responder: *mut Responder) {
    if !responder.is_null() {
        // SAFETY: made for a handler, and freed once.
        drop_quietly(unsafe { Box::from_raw(responder) });
    }
}
