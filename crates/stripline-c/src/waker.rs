//! Wakers, which end waits.

use stripline::node::Waker as RustWaker;

use crate::border::{ErrorOut, Handle, Out, Ref};
use crate::error::Failure;
use crate::handle::drop_quietly;
use crate::status::Status;

/// A handle that ends waits of one publisher, subscriber, client or server. A wake interrupts the
/// call that waits now, or else the next call that may wait. The interrupted call returns
/// `STRIPLINE_INTERRUPTED`, and can be repeated: nothing is lost. Several wakes before such a call
/// count as one.
pub struct Waker(RustWaker);

impl Out<*mut Waker> {
    /// Writes a new waker.
    pub(crate) fn waker(
        &self,
        make: impl FnOnce() -> stripline::Result<RustWaker>,
    ) -> Result<Status, Failure> {
        self.check("waker")?;
        self.give("waker", Waker(make()?))
    }
}

/// Ends one wait: the current wait, or else the next wait. Calls that never wait (with a timeout of
/// 0, or with `try` in the name) leave the wake to the next call that may wait.
///
/// If the interrupted call was a send that waits for acknowledgements, `stripline_error_is_sent` is
/// 1 if the packet was sent. The function does nothing after the owner of the waker was freed, and
/// in a child of a fork. The function fails only if `waker` is NULL.
///
/// - Ownership: the caller keeps the waker.
/// - Blocking: never.
/// - Threads: any, several at once, and signal handlers: for a waker that is not NULL, the function
///   is async-signal-safe, and does not change `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_waker_wake(waker: Ref<Waker>, error: ErrorOut) -> Status {
    error.guard(|| {
        waker.get("waker")?.0.wake();
        Ok(Status::Ok)
    })
}

/// Frees a waker; NULL is allowed. A wake that has not ended a wait yet stays in effect.
///
/// - Ownership: ends with this call. A second call with the same waker is undefined.
/// - Blocking: never.
/// - Threads: any, once no thread or signal handler uses the waker. Not in a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_waker_free(waker: Handle<Waker>) {
    drop_quietly(waker.into_box());
}
