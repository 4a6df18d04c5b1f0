//! The reason why a component's function failed.

use std::cell::RefCell;

use stripline::{Error as LinkError, ErrorCode};
use stripline_bindings::Code;

use crate::border::{Handle, Str};
use crate::error::{Error, Failure};
use crate::status::Status;

/// The place for the reason, in words for the user, why a component's function fails. The place is
/// valid until the function returns.
pub struct Reason(RefCell<String>);

impl Reason {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(String::new()))
    }

    /// Returns the words.
    pub(crate) fn text(self) -> String {
        self.0.into_inner()
    }

    /// Converts the number that a function has returned to an outcome.
    ///
    /// # Errors
    /// Returns a stop, or the failure with the reason.
    pub(crate) fn outcome(self, returned: i32) -> stripline::Result<()> {
        match returned {
            // A negative number is an outcome, not an error.
            ..=0 => Ok(()),
            stopped if stopped == Status::Stopped as i32 => Err(LinkError::Stopped),
            failed => {
                let code = Code::from_number(failed).unwrap_or(ErrorCode::Failed.into());
                Err(Failure::new(code, self.words(failed)).into())
            }
        }
    }

    /// Returns the words, or a default if the function has set none.
    pub(crate) fn words(self, returned: i32) -> String {
        let text = self.text();
        if !text.is_empty() {
            return text;
        }
        let word = Status::describe(returned).map_or("no status", |(word, _)| word);
        format!("it returned {returned} ({word}) without a reason")
    }
}

/// Sets the reason for a failure, or the remark of a self-test. The text replaces any earlier text.
/// Invalid UTF-8 is replaced. NULL for either argument has no effect.
///
/// Returns `STRIPLINE_FAILED`, for the function to return.
///
/// - Ownership: `text` is not kept.
/// - Blocking: never.
/// - Threads: the thread of the component's function.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_reason_set(reason: Handle<Reason>, text: Str) -> Status {
    if let (Some(reason), Some(text)) = (reason.as_ref(), text.bytes()) {
        reason.0.replace(text.to_string_lossy().into_owned());
    }
    Status::Failed
}

/// Sets the reason to the message of an error, and frees the error.
///
/// Returns the error's status, for the function to return: `STRIPLINE_OK` for NULL. A function that
/// returns `STRIPLINE_STOPPED` ends cleanly.
///
/// - Ownership: ends with this call, for the error.
/// - Blocking: never.
/// - Threads: the thread of the component's function.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_reason_take(reason: Handle<Reason>, error: Handle<Error>) -> Status {
    let Some(error) = error.into_box() else { return Status::Ok };
    if let Some(reason) = reason.as_ref() {
        reason.0.replace(error.message().to_string_lossy().into_owned());
    }
    error.status()
}
