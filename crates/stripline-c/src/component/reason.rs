//! The reason why a component's function failed.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};

use stripline::Error as LinkError;

use crate::error::{Error, stripline_error_free, stripline_error_message, stripline_error_status};
use crate::status::Status;

/// The place for the reason, in words for the user, why a component's function fails. It is valid
/// until the function returns.
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
            failed => Err(LinkError::failed(self.words(failed))),
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

/// Sets the reason for a failure, or the remark of a self-test. It replaces any earlier text.
/// Invalid UTF-8 is replaced. NULL for either argument has no effect.
///
/// Returns `STRIPLINE_FAILED`, for the function to return.
///
/// - Ownership: `text` is not kept.
/// - Blocking: never.
/// - Threads: the thread of the component's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_reason_set(reason: *mut Reason, text: *const c_char) -> Status {
    // SAFETY: the program follows the header's rules for handles and texts.
    if let (Some(reason), false) = (unsafe { reason.as_ref() }, text.is_null()) {
        // SAFETY: the text is not NULL; the program follows the header's rule for texts.
        let text = unsafe { CStr::from_ptr(text) };
        reason.0.replace(text.to_string_lossy().into_owned());
    }
    Status::Failed
}

/// Sets the reason to the message of an error, and frees the error.
///
/// Returns the error's status, for the function to return: `STRIPLINE_OK` for NULL. A function that
/// returns `STRIPLINE_STOPPED` ends cleanly.
///
/// - Ownership: of the error, ends here.
/// - Blocking: never.
/// - Threads: the thread of the component's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_reason_take(reason: *mut Reason, error: *mut Error) -> Status {
    // SAFETY: the program follows the header's rules for handles; the error is freed after the last
    // use.
    unsafe {
        let status = stripline_error_status(error);
        if !error.is_null() {
            stripline_reason_set(reason, stripline_error_message(error));
            stripline_error_free(error);
        }
        status
    }
}
