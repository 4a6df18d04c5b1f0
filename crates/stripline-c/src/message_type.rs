//! Message types, parsed from text.

use std::ffi::c_char;

use stripline::payload::TypeName;

use crate::error::Failure;
use crate::text;

/// Reads a message type. NULL is the type of any message.
///
/// # Safety
/// The caller must follow the header's rule for texts.
pub(crate) unsafe fn read(from: *const c_char) -> Result<TypeName, Failure> {
    // SAFETY: the caller makes the same promise.
    let text = unsafe { text::optional(from, "type") }?.unwrap_or("message/cbor");
    let found = TypeName::parse(text).map_err(|error| Failure::argument(format!("`type`: {error}")))?;
    if !found.is_message() {
        return Err(Failure::argument(format!(
            "`type`: `{text}` is no type of messages; use one as `message/cbor` or `message/tune{{hz:f64}}`"
        )));
    }
    Ok(found)
}
