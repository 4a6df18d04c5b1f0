//! The answer to one call, given at once or later.

use std::ffi::c_void;

use stripline::call::{Refusal, Responder as RustResponder};
use stripline_bindings::Answer;

use crate::border::{Data, ErrorOut, Handle, Ref, Str};
use crate::error::Failure;
use crate::handle::drop_quietly;
use crate::status::Status;

/// The right and the duty to answer one call, on any thread and at any time, even after the handler
/// has returned. An answer never blocks, and has no effect if the client has left, or the server
/// was freed.
pub struct Responder(pub(super) Answer);

/// A handler of calls: gets the context, the bytes of the request, and the responder for the
/// answer.
///
/// The request is valid until the handler returns. The responder belongs to the program, which
/// frees it in the handler or later. The handler must return: no `longjmp`, no exception of C++.
/// The handler may use other handles. The only thing that it may do with the server that called it
/// is to free it. The server is then freed at the end of the serving call.
pub type CallHandler = unsafe extern "C" fn(
    context: *mut c_void,
    request: *const c_void,
    bytes: usize,
    responder: *mut Responder,
);

impl Handle<Responder> {
    /// Sends the one answer of the call.
    fn answer(&self, answer: impl FnOnce(RustResponder)) -> Result<Status, Failure> {
        let found = self.get("responder")?.0.take();
        answer(found.ok_or_else(|| Failure::new(Status::Port, "the call was answered before"))?);
        Ok(Status::Ok)
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
pub extern "C" fn stripline_responder_reply(
    responder: Handle<Responder>,
    reply: Data,
    bytes: usize,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let reply = reply.slice(bytes, "reply")?;
        responder.answer(|answer| answer.reply(reply))
    })
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
pub extern "C" fn stripline_responder_fail(
    responder: Handle<Responder>,
    failed: Data,
    bytes: usize,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let failed = failed.slice(bytes, "failed")?;
        responder.answer(|answer| answer.fail(failed))
    })
}

/// Refuses a call, with a reason for people to read. The client gets `STRIPLINE_REPLY_FAILED`.
///
/// Fails like `stripline_responder_reply`.
///
/// - Ownership: nothing is kept. The caller still frees the responder.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_responder_refuse(
    responder: Handle<Responder>,
    reason: Str,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let reason = reason.required("reason")?;
        responder.answer(|answer| answer.refuse(reason))
    })
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
pub extern "C" fn stripline_responder_refuse_as(
    responder: Handle<Responder>,
    kind: i32,
    reason: Str,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let (reason, refusal) = (reason.required("reason")?, refusal(kind)?);
        responder.answer(|answer| answer.refuse_as(refusal, reason))
    })
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
        Failure::argument(problem)
    })
}

/// Returns the time that the client waits for the reply, in nanoseconds from the start of the call.
/// Returns 0 for NULL, and after the answer.
///
/// - Ownership: the program keeps the responder.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_responder_deadline_ns(responder: Ref<Responder>) -> u64 {
    responder.as_ref().map_or(0, |found| found.0.deadline().as_nanos() as u64)
}

/// Frees a responder; NULL is allowed. A call without an answer is refused, so that the client does
/// not wait until the deadline.
///
/// - Ownership: ends with this call. A second call with the same responder is undefined.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_responder_free(responder: Handle<Responder>) {
    drop_quietly(responder.into_box());
}
