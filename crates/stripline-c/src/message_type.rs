//! Types of messages by their text.

use std::ffi::c_char;

use stripline::payload::TypeName;

use crate::error::Failure;
use crate::text;

/// Reads a type of messages; NULL is that of any message.
///
/// # Safety
/// The header's rule for texts.
pub(crate) unsafe fn read(from: *const c_char) -> Result<TypeName, Failure> {
    // SAFETY: the caller's promise is the same.
    let text = unsafe { text::optional(from, "type") }?.unwrap_or("message/cbor");
    let found = TypeName::parse(text).map_err(|error| Failure::argument(format!("`type`: {error}")))?;
    if !found.is_message() {
        return Err(Failure::argument(format!(
            "`type`: `{text}` is no type of messages; use one as `message/cbor` or `message/tune{{hz:f64}}`"
        )));
    }
    Ok(found)
}
