//! Pending calls, and replies.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null;

use stripline::call::{CallError, ClientOptions, OwnedPending, RawBytes};

use crate::error::{Error, Failure};
use crate::handle::{Head, drop_quietly};
use crate::status::Status;
use crate::text;
use crate::time::timeout;

/// A call that was started. Only one thread at a time may use it.
pub struct Pending {
    head: Head,
    /// `None` once the outcome of the call was returned.
    call: UnsafeCell<Option<OwnedPending<RawBytes, RawBytes, RawBytes>>>,
}

/// The bytes of a reply, or of an operation's own error.
pub struct Reply(Vec<u8>);

impl Reply {
    /// Passes the outcome of a call to the program: writes the reply, or the operation's own error,
    /// to `place`.
    ///
    /// # Safety
    /// The caller must follow the header's rule for results.
    pub(super) unsafe fn give(
        outcome: Result<RawBytes, CallError<RawBytes>>,
        place: *mut *mut Self,
    ) -> Result<Status, Failure> {
        let put = |RawBytes(bytes)| {
            // SAFETY: the caller makes the same promise.
            unsafe { text::put(place, "reply", Box::into_raw(Box::new(Self(bytes)))) }
        };
        match outcome {
            Ok(bytes) => put(bytes).map(|()| Status::Ok),
            Err(CallError::User(bytes)) => {
                put(bytes)?;
                Err(super::failure(CallError::User(RawBytes::default())))
            }
            Err(error) => Err(super::failure(error)),
        }
    }
}

impl Pending {
    pub(super) fn new(call: OwnedPending<RawBytes, RawBytes, RawBytes>) -> *mut Self {
        Box::into_raw(Box::new(Self { head: Head::new(), call: UnsafeCell::new(Some(call)) }))
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
pub unsafe extern "C" fn stripline_pending_wait(
    pending: *mut Pending,
    timeout_ns: i64,
    reply: *mut *mut Reply,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rule for handles.
    let Some(found) = (unsafe { pending.as_ref() }) else {
        // SAFETY: the program follows the header's rule for `error`.
        return unsafe { Failure::null("pending").report(error) };
    };
    let wait = || {
        text::check_place(reply, "reply")?;
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
        // SAFETY: the program follows the header's rule for results.
        unsafe { Reply::give(outcome, reply) }
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { found.head.enter(error, wait) }
}

/// Frees a pending call; NULL is allowed. An outstanding call is cancelled: a server that has not
/// started it never starts it.
///
/// - Ownership: ends here. A second call with the same pending call is undefined.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_pending_free(pending: *mut Pending) {
    if !pending.is_null() {
        // SAFETY: made by `stripline_operation_start`, and freed once.
        drop_quietly(unsafe { Box::from_raw(pending) });
    }
}

/// Returns the bytes of a reply; NULL for NULL.
///
/// - Ownership: the bytes are read only, and valid until the reply is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_reply_data(reply: *const Reply) -> *const c_void {
    // SAFETY: the program follows the header's rule for handles.
    unsafe { reply.as_ref() }.map_or(null(), |Reply(bytes)| bytes.as_ptr().cast())
}

/// Returns the number of bytes of a reply; 0 for NULL.
///
/// - Ownership: the reply stays the caller's.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_reply_length(reply: *const Reply) -> usize {
    // SAFETY: the program follows the header's rule for handles.
    unsafe { reply.as_ref() }.map_or(0, |Reply(bytes)| bytes.len())
}

/// Frees a reply; NULL is allowed.
///
/// - Ownership: ends here. A second call with the same reply is undefined.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_reply_free(reply: *mut Reply) {
    if !reply.is_null() {
        // SAFETY: made by `Reply::give`, and freed once.
        drop_quietly(unsafe { Box::from_raw(reply) });
    }
}
