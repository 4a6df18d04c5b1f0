//! The error object, and the conversion of failures to it.

use std::ffi::{CString, c_char};
use std::ptr;

use stripline::Error as LinkError;

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

/// A failure on the way to the C caller. Small, because it is part of the results of functions that
/// rarely fail.
#[derive(Debug)]
pub(crate) struct Failure(Box<FailureParts>);

#[derive(Debug)]
struct FailureParts {
    status: Status,
    message: String,
    connection: String,
    os_code: i32,
    is_sent: bool,
}

impl Failure {
    #[cold]
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        let (message, connection) = (message.into(), String::new());
        Self(Box::new(FailureParts { status, message, connection, os_code: 0, is_sent: false }))
    }

    #[cold]
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(Status::InvalidArgument, message)
    }

    #[cold]
    pub fn null(what: &str) -> Self {
        Self::argument(format!("`{what}` is NULL"))
    }

    /// Converts an error object to a failure, and frees it. For NULL, the failure has only the
    /// status.
    ///
    /// # Safety
    /// `error` must be NULL, or made by [`Failure::report`], and the caller must not use it again.
    pub unsafe fn of_error(status: Status, error: *mut Error) -> Self {
        if error.is_null() {
            return Self::new(status, "a member of the wait set failed");
        }
        // SAFETY: the caller makes the same promise.
        let error = unsafe { Box::from_raw(error) };
        let text = |text: &CString| text.to_string_lossy().into_owned();
        Self(Box::new(FailureParts {
            status,
            message: text(&error.message),
            connection: text(&error.connection),
            os_code: error.os_code,
            is_sent: error.is_sent,
        }))
    }

    /// Returns what failed, in one sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the failure as the failure of a component.
    #[cold]
    pub fn into_failed(self) -> LinkError {
        LinkError::failed(self.0.message)
    }

    /// Writes the error object, if the caller has a place for one.
    ///
    /// # Safety
    /// `place` must be NULL, or a place that can be written and is aligned.
    #[cold]
    pub unsafe fn report(self, place: *mut *mut Error) -> Status {
        let status = self.0.status;
        if !place.is_null() {
            let error = Box::into_raw(Box::new(Error::from(self)));
            // SAFETY: the pointer is not NULL; the caller promises the rest.
            unsafe { ptr::write(place, error) };
        }
        status
    }
}

impl From<LinkError> for Failure {
    #[cold]
    fn from(error: LinkError) -> Self {
        Self(Box::new(FailureParts {
            status: Status::of(error.code()),
            message: error.to_string(),
            connection: error.connection().unwrap_or("").into(),
            os_code: error.os_code().unwrap_or(0),
            is_sent: matches!(error, LinkError::Interrupted { sent: true, .. }),
        }))
    }
}

impl From<Failure> for Error {
    fn from(Failure(parts): Failure) -> Self {
        let FailureParts { status, message, connection, os_code, is_sent } = *parts;
        let remedy = Status::describe(status as i32).map_or("", |(_, remedy)| remedy);
        Self {
            status,
            message: terminated(message),
            remedy: terminated(remedy.into()),
            connection: terminated(connection),
            os_code,
            is_sent,
        }
    }
}

/// Returns the text with a NUL at the end. Names from other processes may contain NULs.
fn terminated(text: String) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Returns the status that the failed call returned; `STRIPLINE_OK` for NULL.
///
/// - Ownership: the error stays the caller's.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_error_status(error: *const Error) -> Status {
    // SAFETY: `error` is NULL, or an error that is not freed.
    unsafe { error.as_ref() }.map_or(Status::Ok, |error| error.status)
}

/// Returns one sentence that names what failed, where, and the remedy. Never NULL.
///
/// - Ownership: the text is valid until the error is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_error_message(error: *const Error) -> *const c_char {
    // SAFETY: as above.
    unsafe { error.as_ref() }.map_or(c"no error".as_ptr(), |error| error.message.as_ptr())
}

/// Returns the usual remedy for an error of this status. Never NULL, and empty for NULL.
///
/// - Ownership: the text is valid until the error is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_error_remedy(error: *const Error) -> *const c_char {
    // SAFETY: as above.
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.remedy.as_ptr())
}

/// Returns the connection, or the peer, that the error is about, as `from -> to`. Never NULL. It is
/// empty if the error is not about a connection.
///
/// - Ownership: the text is valid until the error is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_error_connection(error: *const Error) -> *const c_char {
    // SAFETY: as above.
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.connection.as_ptr())
}

/// Returns the error number of the operating system (`errno`), or 0 without one.
///
/// - Ownership: the error stays the caller's.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_error_os_code(error: *const Error) -> i32 {
    // SAFETY: as above.
    unsafe { error.as_ref() }.map_or(0, |error| error.os_code)
}

/// Returns 1 if the wait was interrupted after the packet or call had been sent, so that it must
/// not be sent again; otherwise 0.
///
/// - Ownership: the error stays the caller's.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_error_is_sent(error: *const Error) -> i32 {
    // SAFETY: as above.
    unsafe { error.as_ref() }.map_or(0, |error| error.is_sent.into())
}

/// Frees an error; NULL is allowed.
///
/// - Ownership: ends here, also of the texts. A second call with the same error is undefined.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_error_free(error: *mut Error) {
    if !error.is_null() {
        // SAFETY: made by `Failure::report`, and freed once.
        drop(unsafe { Box::from_raw(error) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_library_keeps_its_parts() {
        let source = std::io::Error::from_raw_os_error(24);
        let error = Error::from(Failure::from(LinkError::system("cannot open", source)));
        assert_eq!((error.status, error.os_code), (Status::System, 24));
        let full = LinkError::Full { connection: "a\0b -> c".into() };
        let error = Error::from(Failure::from(full));
        assert_eq!(error.connection.to_str(), Ok("a\u{fffd}b -> c"));
        assert!(!error.remedy.is_empty());
    }
}
