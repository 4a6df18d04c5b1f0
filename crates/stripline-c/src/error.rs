//! The error object, and the conversion of failures to it.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

pub(crate) use stripline_bindings::Failure;

use crate::border::{Handle, Ref};
use crate::status::Status;

/// The description of a failed call. Functions write an error to `*error` when they fail, and leave
/// `*error` alone when they succeed. Pass NULL if the status is enough.
pub struct Error {
    status: Status,
    message: CString,
    remedy: CString,
    connection: CString,
    os_code: i32,
    is_sent: bool,
}

/// Returns the failure for a pointer that must not be NULL.
#[cold]
pub(crate) fn missing(what: &str) -> Failure {
    Failure::argument(format!("`{what}` is NULL"))
}

/// Writes the error object of a failure to a place, unless the place is NULL.
///
/// # Safety
/// `place` must be NULL, or a place that can be written and is aligned.
#[cold]
pub(crate) unsafe fn report(failure: Failure, place: *mut *mut Error) -> Status {
    let status = Status::of(failure.code);
    if !place.is_null() {
        let error = Box::into_raw(Box::new(Error::from(failure)));
        // SAFETY: the pointer is not NULL; the caller promises the rest.
        unsafe { ptr::write(place, error) };
    }
    status
}

impl Error {
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    pub(crate) fn message(&self) -> &CStr {
        &self.message
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let parts = failure.into_parts();
        Self {
            status: Status::of(parts.code),
            message: terminated(&parts.message),
            remedy: terminated(parts.code.remedy()),
            connection: terminated(parts.connection.as_deref().unwrap_or("")),
            os_code: parts.os_code.unwrap_or(0),
            is_sent: parts.is_sent,
        }
    }
}

/// Returns the text with a NUL at the end. Names from other processes may contain NULs.
fn terminated(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Returns the status that the failed call returned; `STRIPLINE_OK` for NULL.
///
/// - Ownership: the caller keeps the error.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_error_status(error: Ref<Error>) -> Status {
    error.as_ref().map_or(Status::Ok, |error| error.status)
}

/// Returns one sentence that names the failure, the place and the remedy. Never NULL.
///
/// - Ownership: the text is valid until the error is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_error_message(error: Ref<Error>) -> *const c_char {
    error.as_ref().map_or(c"no error".as_ptr(), |error| error.message.as_ptr())
}

/// Returns the usual remedy for an error of this status. Never NULL, and empty for NULL.
///
/// - Ownership: the text is valid until the error is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_error_remedy(error: Ref<Error>) -> *const c_char {
    error.as_ref().map_or(c"".as_ptr(), |error| error.remedy.as_ptr())
}

/// Returns the connection, or the peer, that the error is about, as `from -> to`. The text is never
/// NULL, and empty if the error is not about a connection.
///
/// - Ownership: the text is valid until the error is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_error_connection(error: Ref<Error>) -> *const c_char {
    error.as_ref().map_or(c"".as_ptr(), |error| error.connection.as_ptr())
}

/// Returns the error number of the operating system (`errno`), or 0 without one.
///
/// - Ownership: the caller keeps the error.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_error_os_code(error: Ref<Error>) -> i32 {
    error.as_ref().map_or(0, |error| error.os_code)
}

/// Returns 1 if the wait was interrupted after the packet or call had been sent, so that it must
/// not be sent again; otherwise 0.
///
/// - Ownership: the caller keeps the error.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_error_is_sent(error: Ref<Error>) -> i32 {
    error.as_ref().map_or(0, |error| error.is_sent.into())
}

/// Frees an error; NULL is allowed.
///
/// - Ownership: ends with this call, also for the texts. A second call with the same error is
///   undefined.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_error_free(error: Handle<Error>) {
    drop(error.into_box());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_all_parts_of_the_failure() {
        let failed = stripline::Error::system("cannot open", std::io::Error::from_raw_os_error(24));
        let error = Error::from(Failure::from(failed));
        assert_eq!((error.status, error.os_code), (Status::System, 24));
        let full = stripline::Error::Full { connection: "a\0b -> c".into() };
        let error = Error::from(Failure::from(full));
        assert_eq!(error.connection.to_str(), Ok("a\u{fffd}b -> c"));
        assert!(!error.remedy.is_empty());
    }
}
