//! What all handles share: a state that refuses misuse, and the border that no panic crosses.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Failure};
use crate::status::Status;

/// No call is under way.
const IDLE: u32 = 0x5354_524c;
/// A call is under way.
const BUSY: u32 = 0x5354_5242;
/// A call is under way, and a handler of it has freed the handle.
const FREED: u32 = 0x5354_5246;
/// A call has panicked.
const POISONED: u32 = 0x5354_5250;

/// The state of a handle that one thread uses at a time.
///
/// Loads and stores are relaxed, and no read-modify-write: on the way of a packet, they cost next
/// to nothing. A handler that uses its own handle is always found. Two threads at once are found
/// if one sees the store of the other; the header forbids them.
pub(crate) struct Head(AtomicU32);

/// The fate of a handle at the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// Nothing: it stays.
    Keep,
    /// Frees it: a handler that ran in the call has asked for that.
    Free,
}

impl Head {
    pub const fn new() -> Self {
        Self(AtomicU32::new(IDLE))
    }

    /// Runs a call of the handle. A panic in it poisons the handle.
    ///
    /// # Safety
    /// `error` is NULL, or can be written and is aligned.
    #[inline(always)]
    pub unsafe fn enter(
        &self,
        error: *mut *mut Error,
        call: impl FnOnce() -> Result<Status, Failure>,
    ) -> Status {
        if self.0.load(Ordering::Relaxed) != IDLE {
            // SAFETY: the caller's promise is the same.
            return unsafe { self.refuse(error) };
        }
        self.0.store(BUSY, Ordering::Relaxed);
        // What a panic left half changed is not used again: the handle is poisoned.
        let outcome = catch_unwind(AssertUnwindSafe(call));
        match outcome {
            Ok(outcome) => {
                self.0.store(IDLE, Ordering::Relaxed);
                match outcome {
                    Ok(status) => status,
                    // SAFETY: the caller's promise is the same.
                    Err(failure) => unsafe { failure.report(error) },
                }
            }
            // SAFETY: the caller's promise is the same.
            Err(panic) => unsafe { self.poison(panic, error) },
        }
    }

    /// Runs the short part of a call, in which nothing of the program runs. False: it has done
    /// nothing. `None`: the long part is to run, by [`Head::enter`].
    ///
    /// # Safety
    /// As for [`Head::enter`].
    #[inline(always)]
    pub unsafe fn enter_fast(&self, error: *mut *mut Error, call: impl FnOnce() -> bool) -> Option<Status> {
        if self.0.load(Ordering::Relaxed) != IDLE {
            return None;
        }
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(true) => Some(Status::Ok),
            Ok(false) => None,
            // SAFETY: the caller's promise is the same.
            Err(panic) => Some(unsafe { self.poison(panic, error) }),
        }
    }

    #[cold]
    unsafe fn poison(&self, panic: Box<dyn Any + Send>, error: *mut *mut Error) -> Status {
        self.0.store(POISONED, Ordering::Relaxed);
        // SAFETY: the caller's promise is the same.
        unsafe { panicked(panic).report(error) }
    }

    /// Begins a call in which handlers of the program run, and which ends with [`Head::end`].
    ///
    /// # Errors
    /// The reason why no call may begin.
    pub fn begin(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) != IDLE {
            return Err(self.refusal());
        }
        self.0.store(BUSY, Ordering::Relaxed);
        Ok(())
    }

    /// Ends a call that has begun.
    pub fn end(&self, has_panicked: bool) -> AtEnd {
        let is_freed = self.0.load(Ordering::Relaxed) == FREED;
        self.0.store(if has_panicked { POISONED } else { IDLE }, Ordering::Relaxed);
        if is_freed { AtEnd::Free } else { AtEnd::Keep }
    }

    /// Returns whether a free may go on. One from the handle's own handler may not: the call that
    /// runs the handler frees the handle at its end.
    pub fn begin_free(&self) -> bool {
        if self.0.load(Ordering::Relaxed) == BUSY {
            self.0.store(FREED, Ordering::Relaxed);
            return false;
        }
        self.0.load(Ordering::Relaxed) != FREED
    }

    pub fn is_poisoned(&self) -> bool {
        self.0.load(Ordering::Relaxed) == POISONED
    }

    #[cold]
    fn refusal(&self) -> Failure {
        match self.0.load(Ordering::Relaxed) {
            POISONED => Failure::new(
                Status::Panicked,
                "an earlier call of this handle panicked; free it, and report that call's text as a bug",
            ),
            BUSY | FREED => Failure::new(
                Status::InUse,
                "the handle is in use; call it from one thread at a time, and not from its own handler",
            ),
            _ => Failure::argument("this is no handle of that kind, or one that was freed"),
        }
    }

    #[cold]
    unsafe fn refuse(&self, error: *mut *mut Error) -> Status {
        // SAFETY: the caller's promise is the same.
        unsafe { self.refusal().report(error) }
    }
}

/// Runs a call without a handle of its own, or of one that several threads may use.
///
/// # Safety
/// `error` is NULL, or can be written and is aligned.
pub(crate) unsafe fn guard(error: *mut *mut Error, call: impl FnOnce() -> Result<Status, Failure>) -> Status {
    // What a panic left half changed is behind locks, which refuse it, or dropped with the call.
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic)));
    // SAFETY: the caller's promise is the same.
    outcome.unwrap_or_else(|failure| unsafe { failure.report(error) })
}

/// Drops what is behind a handle. A panic of a drop ends there.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        log::error!(target: "stripline::c", "a free panicked: {}", panic_text(&*panic));
    }
}

#[cold]
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Failure {
    let text = format!("a bug of the library: it panicked: {}", panic_text(&*panic));
    // A drop of the payload may panic as well.
    std::mem::forget(panic);
    Failure::new(Status::Panicked, text)
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    fn enter(head: &Head, call: impl FnOnce() -> Result<Status, Failure>) -> Status {
        // SAFETY: NULL is allowed.
        unsafe { head.enter(null_mut(), call) }
    }

    #[test]
    fn a_panic_poisons_its_handle_and_nothing_else() {
        let (one, other) = (Head::new(), Head::new());
        assert_eq!(enter(&one, || panic!("in a test")), Status::Panicked);
        assert_eq!(enter(&one, || unreachable!("it is poisoned")), Status::Panicked);
        assert!(one.is_poisoned() && one.begin_free());
        assert_eq!(enter(&other, || Ok(Status::Ended)), Status::Ended);
    }

    #[test]
    fn a_handler_that_uses_its_own_handle_is_refused() {
        let head = Head::new();
        let inner = enter(&head, || Ok(enter(&head, || Ok(Status::Ok))));
        assert_eq!(inner, Status::InUse);
        assert_eq!(enter(&head, || Ok(Status::Ok)), Status::Ok);
    }

    #[test]
    fn a_handle_that_its_handler_frees_is_freed_at_the_end() {
        let head = Head::new();
        head.begin().unwrap();
        assert!(!head.begin_free());
        assert!(!head.begin_free(), "a second free has no effect");
        assert_eq!(head.end(false), AtEnd::Free);
        head.begin().unwrap();
        assert_eq!((head.end(true), head.is_poisoned()), (AtEnd::Keep, true));
    }
}
