//! The words of a component's function that fails.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};

use stripline::Error as LinkError;

use crate::error::{Error, stripline_error_free, stripline_error_message, stripline_error_status};
use crate::status::Status;

/// The place for the words of a function of a component, for its user to read. It is valid until
/// the function returns.
pub struct Reason(RefCell<String>);

impl Reason {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(String::new()))
    }

    /// Returns the words.
    pub(crate) fn text(self) -> String {
        self.0.into_inner()
    }

    /// Returns the outcome of a function that has returned this number.
    ///
    /// # Errors
    /// A stop, or its failure with its words.
    pub(crate) fn outcome(self, returned: i32) -> stripline::Result<()> {
        match returned {
            // A negative number is an outcome that is no error.
            ..=0 => Ok(()),
            stopped if stopped == Status::Stopped as i32 => Err(LinkError::Stopped),
            failed => Err(LinkError::failed(self.words(failed))),
        }
    }

    /// Returns the words, or others where the function has set none.
    pub(crate) fn words(self, returned: i32) -> String {
        let text = self.text();
        if !text.is_empty() {
            return text;
        }
        let word = Status::describe(returned).map_or("no status", |(word, _)| word);
        format!("it returned {returned} ({word}) without a reason")
    }
}

/// Sets the words of a function that fails, or those of a self-test. They replace the words before.
/// Bytes that are no UTF-8 are replaced. NULL for either has no effect.
///
/// Returns `STRIPLINE_FAILED`, for the function to return.
///
/// - Ownership: `text` is not kept.
/// - Blocking: never.
/// - Threads: that of the function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_reason_set(reason: *mut Reason, text: *const c_char) -> Status {
    // SAFETY: the header's rules for handles and texts.
    if let (Some(reason), false) = (unsafe { reason.as_ref() }, text.is_null()) {
        // SAFETY: not NULL; the header's rule for texts.
        let text = unsafe { CStr::from_ptr(text) };
        reason.0.replace(text.to_string_lossy().into_owned());
    }
    Status::Failed
}

/// Sets the words to the message of an error, and frees the error.
///
/// Returns the error's status, for the function to return: `STRIPLINE_OK` for NULL. A function that
/// returns `STRIPLINE_STOPPED` has ended as its component should.
///
/// - Ownership: that of the error ends here.
/// - Blocking: never.
/// - Threads: that of the function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_reason_take(reason: *mut Reason, error: *mut Error) -> Status {
    // SAFETY: the header's rules for handles; the error is freed after its use.
    unsafe {
        let status = stripline_error_status(error);
        if !error.is_null() {
            stripline_reason_set(reason, stripline_error_message(error));
            stripline_error_free(error);
        }
        status
    }
}
