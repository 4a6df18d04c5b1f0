//! The pointers that a program passes, as types of parameters. Each type stands for the header's
//! rule for such a pointer, so that the functions of the header need no `unsafe` to follow it.
//!
//! Only calls of a program make such values. Rust code makes them by an `unsafe` function, and
//! follows the header's rule itself.

use std::ffi::{CStr, c_char, c_void};

use crate::error::{Error, Failure, missing, report};
use crate::handle::caught;
use crate::status::Status;

/// A value that a function reads, or a handle that several threads may use: `const T *`.
#[repr(transparent)]
pub struct Ref<T>(*const T);

/// A handle that one thread uses at a time: `T *`.
#[repr(transparent)]
pub struct Handle<T>(*mut T);

/// A place for a result: `T *`.
#[repr(transparent)]
pub struct Out<T>(*mut T);

/// A text in UTF-8 with a NUL at the end: `const char *`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Str(*const c_char);

/// Bytes, with a length in another parameter: `const void *`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Data(*const c_void);

/// A place for an error, or NULL: `stripline_error **`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ErrorOut(*mut *mut Error);

macro_rules! pointer {
    ($of:ident$(<$parameter:ident>)?, $pointer:ty) => {
        impl$(<$parameter>)? $of$(<$parameter>)? {
            /// Passes a pointer from Rust.
            ///
            /// # Safety
            /// The caller must follow the header's rule for such a pointer while the value is used.
            pub const unsafe fn new(pointer: $pointer) -> Self {
                Self(pointer)
            }
        }
    };
}

pointer!(Ref<T>, *const T);
pointer!(Handle<T>, *mut T);
pointer!(Out<T>, *mut T);
pointer!(Str, *const c_char);
pointer!(Data, *const c_void);
pointer!(ErrorOut, *mut *mut Error);

impl<T> Ref<T> {
    /// Returns the pointer.
    pub(crate) fn pointer(&self) -> *const T {
        self.0
    }

    /// Returns the value; `None` for NULL.
    #[inline(always)]
    pub(crate) fn as_ref(&self) -> Option<&T> {
        // SAFETY: the value is NULL, or valid during the call, by the header's rule for pointers.
        unsafe { self.0.as_ref() }
    }

    /// Returns the value.
    #[inline(always)]
    pub(crate) fn get(&self, what: &'static str) -> Result<&T, Failure> {
        self.as_ref().ok_or_else(|| missing(what))
    }
}

impl<T> Handle<T> {
    /// Returns the pointer.
    #[inline(always)]
    pub(crate) fn pointer(&self) -> *mut T {
        self.0
    }

    /// Returns the value behind the handle; `None` for NULL.
    #[inline(always)]
    pub(crate) fn as_ref(&self) -> Option<&T> {
        // SAFETY: the handle is NULL, or not freed, by the header's rule for handles.
        unsafe { self.0.as_ref() }
    }

    /// Returns the value behind the handle.
    #[inline(always)]
    pub(crate) fn get(&self, what: &'static str) -> Result<&T, Failure> {
        self.as_ref().ok_or_else(|| missing(what))
    }

    /// Returns the value for a function that frees the handle; `None` for NULL.
    pub(crate) fn into_box(self) -> Option<Box<T>> {
        // SAFETY: every handle was made by a box, and is freed once, by the header's rule for
        // handles.
        (!self.0.is_null()).then(|| unsafe { Box::from_raw(self.0) })
    }
}

impl<T> Out<T> {
    /// Returns the pointer.
    pub(crate) fn pointer(&self) -> *mut T {
        self.0
    }

    /// Checks that the program has passed a place, before anything is done.
    #[inline(always)]
    pub(crate) fn check(&self, what: &'static str) -> Result<(), Failure> {
        if self.0.is_null() { Err(missing(what)) } else { Ok(()) }
    }

    /// Writes a result.
    #[inline(always)]
    pub(crate) fn put(&self, what: &'static str, value: T) -> Result<Status, Failure> {
        self.check(what)?;
        // SAFETY: the place is not NULL, and can be written by the header's rule for results. The
        // place may be uninitialized, so nothing is dropped.
        unsafe { self.0.write(value) };
        Ok(Status::Ok)
    }
}

impl<T> Out<*mut T> {
    /// Writes a new handle.
    pub(crate) fn give(&self, what: &'static str, value: T) -> Result<Status, Failure> {
        self.check(what)?;
        self.put(what, Box::into_raw(Box::new(value)))
    }
}

impl Str {
    /// Returns the text; `None` for NULL.
    pub(crate) fn optional(&self, what: &str) -> Result<Option<&str>, Failure> {
        let Some(text) = self.bytes() else { return Ok(None) };
        text.to_str().map(Some).map_err(|error| {
            let valid = error.valid_up_to();
            Failure::argument(format!(
                "`{what}` is not UTF-8 from its byte {valid} on; pass the text in UTF-8"
            ))
        })
    }

    /// Returns the text.
    pub(crate) fn required(&self, what: &str) -> Result<&str, Failure> {
        self.optional(what)?.ok_or_else(|| missing(what))
    }

    /// Returns the bytes of the text; `None` for NULL.
    pub(crate) fn bytes(&self) -> Option<&CStr> {
        // SAFETY: the text ends with NUL and stays during the call, by the header's rule.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }
}

impl Data {
    /// Returns the bytes. NULL has no bytes.
    pub(crate) fn slice(&self, bytes: usize, what: &str) -> Result<&[u8], Failure> {
        match (self.0.is_null(), bytes) {
            (_, 0) => Ok(&[]),
            (true, _) => Err(missing(what)),
            // SAFETY: the pointer is not NULL, and points to that many bytes by the header's rule.
            (false, _) => Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), bytes) }),
        }
    }

    /// Returns the first byte; `None` for NULL.
    pub(crate) fn first(&self) -> Option<*const u8> {
        (!self.0.is_null()).then(|| self.0.cast())
    }
}

impl ErrorOut {
    /// Runs a call without a handle, or of a handle that several threads may use.
    pub(crate) fn guard(self, call: impl FnOnce() -> Result<Status, Failure>) -> Status {
        // Data that a panic left half changed is behind locks, which refuse it, or is dropped with
        // the call.
        self.finish(caught(call))
    }

    /// Returns the status of a call. If the call has failed, writes the error.
    #[inline(always)]
    pub(crate) fn finish(self, outcome: Result<Status, Failure>) -> Status {
        outcome.unwrap_or_else(|failure| self.report(failure))
    }

    /// Writes the error object, if the program has a place for one.
    #[cold]
    pub(crate) fn report(self, failure: Failure) -> Status {
        // SAFETY: the place is NULL, or can be written by the header's rule for `error`.
        unsafe { report(failure, self.0) }
    }
}
