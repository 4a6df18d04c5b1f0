//! The base of all handles: a state that detects misuse, and the border that no panic crosses.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::border::{ErrorOut, Handle};
use crate::error::Failure;
use crate::status::Status;

/// No call is under way.
const IDLE: u32 = 0x5354_524c;
/// A call is under way.
const BUSY: u32 = 0x5354_5242;
/// A call is under way, and a handler within it has freed the handle.
const FREED: u32 = 0x5354_5246;
/// A call has panicked.
const POISONED: u32 = 0x5354_5250;

/// The state of a handle that one thread uses at a time.
///
/// The state is only loaded and stored, with relaxed ordering and without read-modify-write. On the
/// path of a packet, this costs almost nothing. The state always detects a handler that uses the
/// handle that called it. The state detects two threads at once if one sees the store of the other;
/// the header forbids this use.
pub struct Head(AtomicU32);

/// The fate of a handle at the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// The handle stays.
    Keep,
    /// The handle is freed, because a handler within the call has asked for that.
    Free,
}

impl Head {
    pub const fn new() -> Self {
        Self(AtomicU32::new(IDLE))
    }

    /// Runs a call of the handle. A panic in the call poisons the handle.
    #[inline(always)]
    pub fn enter(&self, call: impl FnOnce() -> Result<Status, Failure>) -> Result<Status, Failure> {
        if self.0.load(Ordering::Relaxed) != IDLE {
            return Err(self.refusal());
        }
        self.0.store(BUSY, Ordering::Relaxed);
        // The handle is poisoned, so data that a panic left half changed is not used again.
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(outcome) => {
                self.0.store(IDLE, Ordering::Relaxed);
                outcome
            }
            Err(panic) => Err(self.poison(panic)),
        }
    }

    /// Runs the short part of a call, in which no function of the program runs. `call` returns true
    /// if it has completed the call, and false if it has done nothing. If this returns `None`,
    /// nothing was done, and the caller must run the long part by [`Head::enter`].
    #[inline(always)]
    pub fn enter_fast(&self, error: ErrorOut, call: impl FnOnce() -> bool) -> Option<Status> {
        if self.0.load(Ordering::Relaxed) != IDLE {
            return None;
        }
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(true) => Some(Status::Ok),
            Ok(false) => None,
            Err(panic) => Some(error.report(self.poison(panic))),
        }
    }

    #[cold]
    fn poison(&self, panic: Box<dyn Any + Send>) -> Failure {
        self.0.store(POISONED, Ordering::Relaxed);
        panicked(panic)
    }

    /// Begins a call in which handlers of the program run. [`Head::end`] ends it.
    ///
    /// # Errors
    /// Returns the reason why no call may begin.
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

    /// Returns whether the handle may be freed now. If a handler within a call frees the handle
    /// that called it, it may not: the call frees the handle at the end.
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
            _ => Failure::argument("the handle is of another kind, or was freed"),
        }
    }
}

/// A handle that one thread uses at a time.
pub trait Headed {
    /// The name of the handle in the header's parameters.
    const NAME: &'static str;

    fn head(&self) -> &Head;
}

impl<T: Headed> Handle<T> {
    /// Runs a call of the handle, like [`Head::enter`].
    #[inline(always)]
    pub(crate) fn enter(&self, call: impl FnOnce(&T) -> Result<Status, Failure>) -> Result<Status, Failure> {
        let found = self.get(T::NAME)?;
        found.head().enter(|| call(found))
    }
}

/// Runs a call. A panic of the call is a failure.
pub(crate) fn caught<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic)))
}

/// Drops the content of a handle. A panic of the drop ends here.
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
    use super::*;

    fn enter(head: &Head, call: impl FnOnce() -> Result<Status, Failure>) -> Status {
        head.enter(call).unwrap_or_else(|failure| Status::of(failure.code))
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
