//! Texts across the border: UTF-8 with a length, and texts that C programs pass in.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::error::Failure;

/// A text in UTF-8. It has no NUL at the end: print it with `"%.*s", (int)text.length, text.data`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    /// The first byte; never NULL.
    pub data: *const c_char,
    /// The number of bytes.
    pub length: usize,
}

impl Text {
    pub(crate) fn of(text: &str) -> Self {
        Self { data: text.as_ptr().cast(), length: text.len() }
    }
}

/// Returns a text that the caller has passed in, or `None` for NULL.
///
/// # Safety
/// `text` must be NULL or point to bytes with a NUL at the end. They must live and stay unchanged
/// for `'a`.
pub(crate) unsafe fn optional<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the pointer is not NULL; the caller promises the rest.
    let bytes = unsafe { CStr::from_ptr(text) };
    match bytes.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(Failure::argument(format!(
            "`{what}` is no UTF-8 from its byte {} on; pass the text in UTF-8",
            error.valid_up_to()
        ))),
    }
}

/// Returns a text that the caller has passed in, and that may not be NULL.
///
/// # Safety
/// The caller must follow the rule of [`optional`].
pub(crate) unsafe fn required<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller makes the same promise.
    unsafe { optional(text, what) }?.ok_or_else(|| Failure::null(what))
}

/// Writes through a pointer that the caller has passed in, and that may not be NULL.
///
/// # Safety
/// `place` must be NULL, or a place that can be written and is aligned.
#[inline(always)]
pub(crate) unsafe fn put<T>(place: *mut T, what: &'static str, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: the pointer is not NULL; the caller promises the rest. The old content is not
    // dropped, because the place may be uninitialized.
    unsafe { ptr::write(place, value) };
    Ok(())
}

/// Checks that the caller has passed a place for a result, before anything is done.
#[inline(always)]
pub(crate) fn check_place<T>(place: *mut T, what: &'static str) -> Result<(), Failure> {
    if place.is_null() { Err(Failure::null(what)) } else { Ok(()) }
}
