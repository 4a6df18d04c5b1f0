//! The values of a component's properties.

use std::ffi::c_char;

use stripline::component::{ComponentSpec, Properties as RustProperties, Value};

use crate::error::{Error, Failure};
use crate::handle::guard;
use crate::status::Status;
use crate::text::{self, Text};

/// The values of all properties of a component. They conform to the specification. They are valid
/// until the function that got them returns.
pub struct Properties {
    component: String,
    values: RustProperties,
    /// The values of text properties, each with a NUL at the end, by name.
    texts: Vec<(String, String)>,
    changed: Vec<String>,
}

impl Properties {
    pub(crate) fn new(spec: &ComponentSpec, values: &RustProperties, changed: Vec<String>) -> Self {
        let texts = spec.properties.iter().filter_map(|property| match values.value(&property.name) {
            Some(Value::Text(text)) => Some((property.name.clone(), format!("{text}\0"))),
            _ => None,
        });
        let texts = texts.collect();
        Self { component: spec.name.clone(), values: values.clone(), texts, changed }
    }

    /// Writes the value that `read` finds in the named property.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles, texts, results and `error`.
    unsafe fn give<T>(
        properties: *const Self,
        name: *const c_char,
        place: *mut T,
        kind: &str,
        error: *mut *mut Error,
        read: impl FnOnce(&Self, &str, &Value) -> Option<T>,
    ) -> Status {
        let give = || {
            // SAFETY: the caller makes the same promise.
            let (found, name) = unsafe { (properties.as_ref(), text::required(name, "name")?) };
            let found = found.ok_or_else(|| Failure::null("properties"))?;
            let value = found.values.value(name).ok_or_else(|| {
                let component = &found.component;
                Failure::argument(format!("component type `{component}` declares no property `{name}`"))
            })?;
            let read = read(found, name, value).ok_or_else(|| {
                let noun = value.noun();
                Failure::argument(format!("property `{name}` is {noun}; it was declared as no {kind}"))
            })?;
            // SAFETY: the caller makes the same promise.
            unsafe { text::put(place, "value", read) }?;
            Ok(Status::Ok)
        };
        // SAFETY: the caller makes the same promise.
        unsafe { guard(error, give) }
    }
}

/// Gets the value of a real number.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that is not declared, or has another
/// kind.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the function that got the properties.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_properties_float(
    properties: *const Properties,
    name: *const c_char,
    value: *mut f64,
    error: *mut *mut Error,
) -> Status {
    let read = |_: &Properties, _: &str, value: &Value| match value {
        Value::Float(number) => Some(*number),
        _ => None,
    };
    // SAFETY: the program follows the header's rules.
    unsafe { Properties::give(properties, name, value, "float", error, read) }
}

/// Gets the value of a whole number, like `stripline_properties_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the function that got the properties.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_properties_integer(
    properties: *const Properties,
    name: *const c_char,
    value: *mut i64,
    error: *mut *mut Error,
) -> Status {
    let read = |_: &Properties, _: &str, value: &Value| match value {
        Value::Integer(number) => Some(*number),
        _ => None,
    };
    // SAFETY: the program follows the header's rules.
    unsafe { Properties::give(properties, name, value, "integer", error, read) }
}

/// Gets the value of a boolean, 0 or 1, like `stripline_properties_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the function that got the properties.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_properties_boolean(
    properties: *const Properties,
    name: *const c_char,
    value: *mut i32,
    error: *mut *mut Error,
) -> Status {
    let read = |_: &Properties, _: &str, value: &Value| match value {
        Value::Boolean(is_set) => Some(i32::from(*is_set)),
        _ => None,
    };
    // SAFETY: the program follows the header's rules.
    unsafe { Properties::give(properties, name, value, "boolean", error, read) }
}

/// Gets the value of a text, a choice or a path, like `stripline_properties_float`. It has a NUL
/// after the last byte. An empty path names no file.
///
/// - Ownership: the text is valid until the function that got the properties returns.
/// - Blocking: never.
/// - Threads: the thread of the function that got the properties.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_properties_text(
    properties: *const Properties,
    name: *const c_char,
    value: *mut Text,
    error: *mut *mut Error,
) -> Status {
    let read = |found: &Properties, name: &str, _: &Value| {
        let (_, text) = found.texts.iter().find(|(known, _)| known == name)?;
        Some(Text::of(&text[..text.len() - 1]))
    };
    // SAFETY: the program follows the header's rules.
    unsafe { Properties::give(properties, name, value, "text", error, read) }
}

/// Gets 1 if a change at run time names the property, even with the old value, and otherwise 0.
///
/// Fails like `stripline_properties_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the function that got the properties.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_properties_is_changed(
    properties: *const Properties,
    name: *const c_char,
    is_changed: *mut i32,
    error: *mut *mut Error,
) -> Status {
    let read = |found: &Properties, name: &str, _: &Value| {
        Some(i32::from(found.changed.iter().any(|changed| changed == name)))
    };
    // SAFETY: the program follows the header's rules.
    unsafe { Properties::give(properties, name, is_changed, "property", error, read) }
}
