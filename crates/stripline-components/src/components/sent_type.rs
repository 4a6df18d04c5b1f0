//! The property `output` of a source: samples are sent in the type of the data, or as floats.

use stripline::component::{InvalidProperties, Properties, PropertySpec};
use stripline::payload::{Number, Scalar};
use stripline::{Error, Result};

use crate::formats::encoding::TYPES;

/// Describes the property. `data` names the type of the data.
pub(super) fn property(data: &str) -> PropertySpec {
    let summary =
        format!("type sent: cf32 converts complex samples, f32 real ones; any other is the type of {data}");
    PropertySpec::choice("output", &TYPES, TYPES[0], &summary)
}

/// Returns the type of a property.
pub(super) fn scalar(properties: &Properties, name: &str) -> Result<Scalar> {
    Scalar::parse(properties.text(name)).ok_or_else(|| {
        InvalidProperties::new(format!("`{name}` is not a type of samples")).property(name).into()
    })
}

/// Checks whether samples of the type `found` can be sent as `sent`. `message` is the error.
pub(super) fn check(found: Scalar, sent: Scalar, message: impl FnOnce() -> String) -> Result<()> {
    if sent == found || is_f32(sent) && sent.is_complex() == found.is_complex() {
        return Ok(());
    }
    let float = if found.is_complex() { "cf32" } else { "f32" };
    let or_convert = match is_f32(found) {
        true => String::new(),
        false => format!(", or to \"{float}\" to convert them"),
    };
    let remedy = format!("set the property `output` to \"{found}\"{or_convert}");
    Err(Error::from(InvalidProperties::new(message()).property("output").remedy(remedy)))
}

/// Returns whether other types can be converted to this type.
fn is_f32(scalar: Scalar) -> bool {
    matches!(scalar.number(), Number::Float(4))
}
