//! Wakers, which end waits.

use stripline::node::Waker as RustWaker;

use crate::error::{Error, Failure};
use crate::handle::{drop_quietly, guard};
use crate::status::Status;
use crate::text;

/// Ends waits of one publisher, subscriber, client or server: of the thread that waits now, or of
/// the next call that may wait. That call returns `STRIPLINE_INTERRUPTED`, and can be repeated:
/// nothing is lost. Several wakes before such a call count as one.
pub struct Waker(RustWaker);

impl Waker {
    /// Writes a new waker to the caller's place.
    ///
    /// # Safety
    /// The caller must follow the header's rule for results.
    pub(crate) unsafe fn give(
        place: *mut *mut Self,
        make: impl FnOnce() -> stripline::Result<RustWaker>,
    ) -> Result<Status, Failure> {
        text::check_place(place, "waker")?;
        let made = Box::into_raw(Box::new(Self(make()?)));
        // SAFETY: the caller makes the same promise.
        unsafe { text::put(place, "waker", made) }?;
        Ok(Status::Ok)
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
pub unsafe extern "C" fn stripline_waker_wake(waker: *const Waker, error: *mut *mut Error) -> Status {
    let wake = || {
        // SAFETY: the program follows the header's rule for handles.
        unsafe { waker.as_ref() }.ok_or_else(|| Failure::null("waker"))?.0.wake();
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`. Without a failure, it takes no
    // lock and no memory.
    unsafe { guard(error, wake) }
}

/// Frees a waker; NULL is allowed. A wake that has not ended a wait yet still does.
///
/// - Ownership: ends here. A second call with the same waker is undefined.
/// - Blocking: never.
/// - Threads: any, once no thread or signal handler uses it. Not in a signal handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_waker_free(waker: *mut Waker) {
    if !waker.is_null() {
        // SAFETY: made by `Waker::give`, and freed once.
        drop_quietly(unsafe { Box::from_raw(waker) });
    }
}
