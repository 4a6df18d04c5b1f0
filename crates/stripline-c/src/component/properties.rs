//! The values of a component's properties.

use stripline::component::{ComponentSpec, Properties as RustProperties, Value};

use crate::border::{ErrorOut, Out, Ref, Str};
use crate::error::Failure;
use crate::status::Status;
use crate::text::Text;

/// The values of all properties of a component. The values conform to the specification, and are
/// valid until the function that got them returns.
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
}

impl Ref<Properties> {
    /// Writes the value that `read` finds in the named property.
    fn give<T>(
        &self,
        name: Str,
        place: Out<T>,
        kind: &str,
        error: ErrorOut,
        read: impl FnOnce(&Properties, &str, &Value) -> Option<T>,
    ) -> Status {
        error.guard(|| {
            let (name, found) = (name.required("name")?, self.get("properties")?);
            let value = found.values.value(name).ok_or_else(|| {
                let component = &found.component;
                Failure::argument(format!("component type `{component}` declares no property `{name}`"))
            })?;
            let read = read(found, name, value).ok_or_else(|| {
                let noun = value.noun();
                Failure::argument(format!("property `{name}` is {noun}; it was not declared as {kind}"))
            })?;
            place.put("value", read)
        })
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
pub extern "C" fn stripline_properties_float(
    properties: Ref<Properties>,
    name: Str,
    value: Out<f64>,
    error: ErrorOut,
) -> Status {
    properties.give(name, value, "a float", error, |_, _, value| match value {
        Value::Float(number) => Some(*number),
        _ => None,
    })
}

/// Gets the value of a whole number, like `stripline_properties_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the function that got the properties.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_properties_integer(
    properties: Ref<Properties>,
    name: Str,
    value: Out<i64>,
    error: ErrorOut,
) -> Status {
    properties.give(name, value, "an integer", error, |_, _, value| match value {
        Value::Integer(number) => Some(*number),
        _ => None,
    })
}

/// Gets the value of a boolean, 0 or 1, like `stripline_properties_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the function that got the properties.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_properties_boolean(
    properties: Ref<Properties>,
    name: Str,
    value: Out<i32>,
    error: ErrorOut,
) -> Status {
    properties.give(name, value, "a boolean", error, |_, _, value| match value {
        Value::Boolean(is_set) => Some(i32::from(*is_set)),
        _ => None,
    })
}

/// Gets the value of a text, a choice or a path, like `stripline_properties_float`. The text has a
/// NUL after the last byte. An empty path names no file.
///
/// - Ownership: the text is valid until the function that got the properties returns.
/// - Blocking: never.
/// - Threads: the thread of the function that got the properties.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_properties_text(
    properties: Ref<Properties>,
    name: Str,
    value: Out<Text>,
    error: ErrorOut,
) -> Status {
    properties.give(name, value, "a text", error, |found, name, _| {
        let (_, text) = found.texts.iter().find(|(known, _)| known == name)?;
        Some(Text::of(&text[..text.len() - 1]))
    })
}

/// Gets 1 if a change at run time names the property, even with the old value, and otherwise 0.
///
/// Fails like `stripline_properties_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the function that got the properties.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_properties_is_changed(
    properties: Ref<Properties>,
    name: Str,
    is_changed: Out<i32>,
    error: ErrorOut,
) -> Status {
    properties.give(name, is_changed, "property", error, |found, name, _| {
        Some(i32::from(found.changed.iter().any(|changed| changed == name)))
    })
}
