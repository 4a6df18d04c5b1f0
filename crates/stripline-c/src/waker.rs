//! Wakers, which end waits.

use stripline::node::Waker as RustWaker;

use crate::border::{ErrorOut, Handle, Out, Ref};
use crate::error::Failure;
use crate::handle::drop_quietly;
use crate::status::Status;

/// Ends waits of one publisher, subscriber, client or server: of the thread that waits now, or of
/// the next call that may wait. That call returns `STRIPLINE_INTERRUPTED`, and can be repeated:
/// nothing is lost. Several wakes before such a call count as one.
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

/// Ends one wait: the one under way, or else the next. Calls that never wait (with a timeout of 0,
/// or with `try` in the name) leave the wake to the next call that may wait.
///
/// If the interrupted call was a send that waits for acknowledgements, `stripline_error_is_sent` is
/// 1 if the packet was sent. If the owner of the waker was freed, and in a child of a fork, this
/// does nothing. Fails only for NULL.
///
/// - Ownership: the waker stays the caller's.
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

/// Frees a waker; NULL is allowed. A wake that has not ended a wait yet still does.
///
/// - Ownership: ends here. A second call with the same waker is undefined.
/// - Blocking: never.
/// - Threads: any, once no thread or signal handler uses it. Not in a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_waker_free(waker: Handle<Waker>) {
    drop_quietly(waker.into_box());
}
