//! The samples of packets as values.

use serde_json::{Number, Value};
use stripline::internal::message_json;
use stripline::payload::{TypeName, builtin};

/// The content of a packet.
#[derive(Debug, PartialEq)]
pub(super) enum Content {
    /// Samples: how many there are, and the first of them. A complex one is an array of two.
    Samples { count: usize, values: Vec<Value> },
    /// A message.
    Message(Value),
    /// Bytes of another type, in hexadecimal digits.
    Hex(String),
    /// Bytes that are none of their type.
    Invalid(String),
}

/// Returns the content of a packet, up to `max` samples of it. Every type is decoded here and
/// nowhere else.
pub(super) fn content(payload: &TypeName, bytes: &[u8], max: usize) -> Content {
    let name = payload.as_str();
    if let Some((size, complex)) = builtin(name) {
        if !bytes.len().is_multiple_of(size) {
            return Content::Invalid(format!("{} bytes are no whole number of {name} samples", bytes.len()));
        }
        let scalar = if complex { &name[1..] } else { name };
        let values = bytes.chunks_exact(size).take(max).map(|sample| match sample.split_at(size / 2) {
            (re, im) if complex => Value::Array(vec![number(scalar, re), number(scalar, im)]),
            _ => number(scalar, sample),
        });
        return Content::Samples { count: bytes.len() / size, values: values.collect() };
    }
    if name.starts_with("message/") {
        return match message_json(bytes) {
            Ok(message) => Content::Message(message),
            Err(problem) => Content::Invalid(format!("it is no message: {problem}")),
        };
    }
    // The size of a sample is unknown here: `max` counts words of 8 bytes.
    Content::Hex(bytes.iter().take(max.saturating_mul(8)).map(|byte| format!("{byte:02x}")).collect())
}

/// Returns a number of a built-in type. The bytes are the machine's own.
fn number(scalar: &str, bytes: &[u8]) -> Value {
    macro_rules! of {
        ($type:ty) => {
            bytes.try_into().map(<$type>::from_ne_bytes).unwrap_or_default()
        };
    }
    match scalar {
        "s8" => of!(i8).into(),
        "u8" => of!(u8).into(),
        "s16" => of!(i16).into(),
        "u16" => of!(u16).into(),
        "s32" => of!(i32).into(),
        "u32" => of!(u32).into(),
        "s64" => of!(i64).into(),
        "u64" => of!(u64).into(),
        // As many digits as the shorter type needs: 0.1, not 0.10000000149011612.
        "f32" => float(of!(f32).to_string()),
        _ => float(of!(f64).to_string()),
    }
}

/// Returns a number from its digits; one that is not finite stays a text.
fn float(digits: String) -> Value {
    let number = digits.parse().ok().and_then(Number::from_f64);
    number.map_or(Value::String(digits), Value::Number)
}

/// Returns values for a line of text: `1.5` or `(1.5, -2.0)`, separated by spaces.
pub(super) fn text(values: &[Value]) -> String {
    let scalar = |value: &Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
    let one = |value: &Value| match value {
        Value::Array(parts) => format!("({})", parts.iter().map(scalar).collect::<Vec<String>>().join(", ")),
        value => scalar(value),
    };
    values.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(name: &str, bytes: &[u8], max: usize) -> Content {
        content(&TypeName::new(name).unwrap(), bytes, max)
    }

    #[test]
    fn samples_of_every_builtin_type_are_decoded() {
        let values = |name: &str, bytes: &[u8]| match of(name, bytes, 8) {
            Content::Samples { values, .. } => Value::Array(values),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(values("u8", &[0, 255]), json!([0, 255]));
        assert_eq!(values("s8", &[255]), json!([-1]));
        assert_eq!(values("cs16", &[1, 0, 255, 255]), json!([[1, -1]]));
        assert_eq!(values("u64", &u64::MAX.to_ne_bytes()), json!([u64::MAX]));
        assert_eq!(values("s64", &i64::MIN.to_ne_bytes()), json!([i64::MIN]));
        assert_eq!(values("f32", &0.1f32.to_ne_bytes()).to_string(), "[0.1]");
        assert_eq!(values("f64", &f64::NEG_INFINITY.to_ne_bytes()), json!(["-inf"]));
        let both = [1.5f64.to_ne_bytes(), (-2f64).to_ne_bytes()].concat();
        assert_eq!(values("cf64", &both), json!([[1.5, -2.0]]));
        assert_eq!(text(&[json!([1.5, -2.0]), json!("NaN"), json!(3)]), "(1.5, -2.0) NaN 3");
    }

    #[test]
    fn only_so_many_samples_are_decoded_and_all_are_counted() {
        assert_eq!(of("u8", &[1, 2, 3], 2), Content::Samples { count: 3, values: vec![1.into(), 2.into()] });
        assert_eq!(of("detection", &[1, 2, 255], 8), Content::Hex("0102ff".into()));
        assert_eq!(of("message/tune", &[0x63, b'a', b'b', b'c'], 0), Content::Message("abc".into()));
        assert!(matches!(of("message/tune", &[0xff], 0), Content::Invalid(_)));
        assert!(matches!(of("f32", &[1], 0), Content::Invalid(_)));
    }
}
