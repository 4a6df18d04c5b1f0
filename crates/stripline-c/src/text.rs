//! Texts across the border: UTF-8 with a length, and texts that C programs pass in.

use std::ffi::c_char;

/// A text in UTF-8. The text has no NUL at the end: print it with
/// `"%.*s", (int)text.length, text.data`.
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
