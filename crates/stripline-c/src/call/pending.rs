//! Pending calls, and replies.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null;

use stripline::call::{CallError, ClientOptions, OwnedPending, RawBytes};

use crate::border::{ErrorOut, Handle, Out, Ref};
use crate::error::Failure;
use crate::handle::{Head, Headed, drop_quietly};
use crate::status::Status;
use crate::time::timeout;

/// A call that was started. Only one thread at a time may use it.
pub struct Pending {
    head: Head,
    /// `None` once the outcome of the call was returned.
    call: UnsafeCell<Option<OwnedPending<RawBytes, RawBytes, RawBytes>>>,
}

/// The bytes of a reply, or of an operation's own error.
pub struct Reply(Vec<u8>);

impl Out<*mut Reply> {
    /// Passes the outcome of a call to the program: writes the reply, or the operation's own error.
    pub(super) fn reply(&self, outcome: Result<RawBytes, CallError<RawBytes>>) -> Result<Status, Failure> {
        match outcome {
            Ok(RawBytes(bytes)) => self.give("reply", Reply(bytes)),
            Err(CallError::User(RawBytes(bytes))) => {
                self.give("reply", Reply(bytes))?;
                Err(CallError::User(RawBytes::default()).into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Pending {
    pub(super) fn new(call: OwnedPending<RawBytes, RawBytes, RawBytes>) -> Self {
        Self { head: Head::new(), call: UnsafeCell::new(Some(call)) }
    }
}

impl Headed for Pending {
    const NAME: &'static str = "pending";

    fn head(&self) -> &Head {
        &self.head
    }
}

/// Waits for the reply of a call.
///
/// Returns `STRIPLINE_EMPTY` if the reply does not arrive in time: the call then stays outstanding,
/// and so it does after `STRIPLINE_INTERRUPTED`. In all other cases, it returns the statuses of
/// `stripline_operation_call`, and later calls of this function fail with `STRIPLINE_PORT`.
///
/// - Ownership: the caller frees the reply, and still frees the pending call.
/// - Blocking: up to `timeout_ns` (0: not at all), and up to the deadline of the call.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_pending_wait(
    pending: Handle<Pending>,
    timeout_ns: i64,
    reply: Out<*mut Reply>,
    error: ErrorOut,
) -> Status {
    error.finish(pending.enter(|found| {
        reply.check("reply")?;
        // SAFETY: the call has entered the head.
        let slot = unsafe { &mut *found.call.get() };
        let call = slot.as_mut().ok_or_else(|| {
            Failure::new(Status::Port, "the outcome of the call was returned before: make another call")
        })?;
        let outcome = match timeout(timeout_ns) {
            Some(time) if time.is_zero() => call.try_take(),
            // Without a limit, the deadline of the call ends the wait. A deadline is never longer
            // than this.
            limit => call.wait_timeout(limit.unwrap_or(ClientOptions::DEADLINE_MAX)),
        };
        let Some(outcome) = outcome else { return Ok(Status::Empty) };
        if !matches!(outcome, Err(CallError::Link(stripline::Error::Interrupted { .. }))) {
            *slot = None;
        }
        reply.reply(outcome)
    }))
}

/// Frees a pending call; NULL is allowed. An outstanding call is cancelled: a server that has not
/// started it never starts it.
///
/// - Ownership: ends with this call. A second call with the same pending call is undefined.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_pending_free(pending: Handle<Pending>) {
    drop_quietly(pending.into_box());
}

/// Returns the bytes of a reply; NULL for NULL.
///
/// - Ownership: the bytes are read only, and valid until the reply is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_reply_data(reply: Ref<Reply>) -> *const c_void {
    reply.as_ref().map_or(null(), |Reply(bytes)| bytes.as_ptr().cast())
}

/// Returns the number of bytes of a reply; 0 for NULL.
///
/// - Ownership: the caller keeps the reply.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_reply_length(reply: Ref<Reply>) -> usize {
    reply.as_ref().map_or(0, |Reply(bytes)| bytes.len())
}

/// Frees a reply; NULL is allowed.
///
/// - Ownership: ends with this call. A second call with the same reply is undefined.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_reply_free(reply: Handle<Reply>) {
    drop_quietly(reply.into_box());
}
