//! The samples of packets as values.

use serde_json::{Number, Value};
use stripline::payload::{Field, Layout, Numeric, Scalar, ScalarValue, TypeName, message_json};

/// The content of a packet.
#[derive(Debug, PartialEq)]
pub(crate) enum PacketValues {
    /// The number of samples, and the first samples. A complex number is an array of two numbers,
    /// and a structure is an object.
    Samples { count: usize, values: Vec<Value> },
    /// A message.
    Message(Value),
    /// Bytes of a type without a layout, in hexadecimal digits.
    Hex(String),
    /// An error: the bytes are not of their type.
    Invalid(String),
}

/// Returns the content of a packet, with up to `max` samples. Only this function decodes packets of
/// every type.
pub(crate) fn content(payload: &TypeName, bytes: &[u8], max: usize) -> PacketValues {
    let name = payload.as_str();
    let builtin = Scalar::parse(name).map(Layout::of_scalar);
    if let Some(layout) = builtin.as_ref().or(payload.layout()) {
        let Some(samples) = layout.samples(bytes) else {
            return PacketValues::Invalid(format!(
                "{} bytes are not a whole number of {name} samples",
                bytes.len()
            ));
        };
        let count = samples.len();
        return PacketValues::Samples {
            count,
            values: samples.take(max).map(|it| sample(layout, it)).collect(),
        };
    }
    if name.starts_with("message/") {
        return match message_json(bytes) {
            Ok(message) => PacketValues::Message(message),
            Err(problem) => PacketValues::Invalid(format!("it is not a message: {problem}")),
        };
    }
    // The size of a sample is unknown here: `max` counts words of 8 bytes.
    PacketValues::Hex(bytes.iter().take(max.saturating_mul(8)).map(|byte| format!("{byte:02x}")).collect())
}

/// Returns a sample: a number, or an object of its fields.
fn sample(layout: &Layout, bytes: &[u8]) -> Value {
    match layout.scalar() {
        Some(scalar) => match scalar.read(bytes) {
            Some(ScalarValue::Real(number)) => real(number),
            Some(ScalarValue::Complex(re, im)) => Value::Array(vec![real(re), real(im)]),
            None => Value::Null,
        },
        None => layout.fields().iter().map(|field| (field.name(), field_value(field, bytes))).collect(),
    }
}

fn field_value(field: &Field, sample: &[u8]) -> Value {
    let bytes = sample.get(field.offset()..).and_then(|rest| rest.get(..field.size()));
    array(field.dimensions(), field.layout(), bytes.unwrap_or_default())
}

/// Returns an element, or the array of elements with these dimensions.
fn array(dimensions: &[usize], element: &Layout, bytes: &[u8]) -> Value {
    let [length, inner @ ..] = dimensions else { return sample(element, bytes) };
    let part = (bytes.len() / length.max(&1)).max(1);
    bytes.chunks_exact(part).map(|bytes| array(inner, element, bytes)).collect()
}

fn real(number: Numeric) -> Value {
    match number {
        Numeric::Unsigned(number) => number.into(),
        Numeric::Signed(number) => number.into(),
        // Print as many digits as the shorter type needs: 0.1, not 0.10000000149011612.
        Numeric::F32(_) | Numeric::F64(_) => float(number.to_string()),
    }
}

/// Returns a number from its digits; a number that is not finite stays a text.
fn float(digits: String) -> Value {
    let number = digits.parse().ok().and_then(Number::from_f64);
    number.map_or(Value::String(digits), Value::Number)
}

/// Returns values for a line of text: `1.5`, `(1.5, -2.0)` or `{bin: 7, level: -3.5}`, separated by
/// spaces.
pub(crate) fn text(values: &[Value]) -> String {
    fn one(value: &Value) -> String {
        match value {
            Value::Array(parts) => format!("({})", parts.iter().map(one).collect::<Vec<String>>().join(", ")),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}: {}", one(value)));
                format!("{{{}}}", fields.collect::<Vec<String>>().join(", "))
            }
            Value::String(text) => text.clone(),
            value => value.to_string(),
        }
    }
    values.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(name: &str, bytes: &[u8], max: usize) -> PacketValues {
        content(&TypeName::new(name).unwrap(), bytes, max)
    }

    #[test]
    fn samples_of_every_builtin_type_are_decoded() {
        let values = |name: &str, bytes: &[u8]| match of(name, bytes, 8) {
            PacketValues::Samples { values, .. } => Value::Array(values),
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
    fn structures_are_objects_of_their_fields() {
        let payload = TypeName::parse("det{bin:u32,at:point{x:s16,y:s16}[2],iq:cf32}").unwrap();
        let bytes = [
            &7u32.to_le_bytes()[..],
            &[1, 0, 2, 0, 0xff, 0xff, 4, 0],
            &1.5f32.to_le_bytes(),
            &f32::NAN.to_le_bytes(),
        ]
        .concat();
        let expected =
            json!({ "bin": 7, "at": [{ "x": 1, "y": 2 }, { "x": -1, "y": 4 }], "iq": [1.5, "NaN"] });
        let all = [&bytes[..], &bytes].concat();
        let content = |bytes: &[u8]| content(&payload, bytes, 1);
        assert_eq!(content(&all), PacketValues::Samples { count: 2, values: vec![expected.clone()] });
        assert!(matches!(content(&all[1..]), PacketValues::Invalid(_)));
        let line = "{at: ({x: 1, y: 2}, {x: -1, y: 4}), bin: 7, iq: (1.5, NaN)}";
        assert_eq!(text(&[expected]), line);
    }

    #[test]
    fn only_so_many_samples_are_decoded_and_all_are_counted() {
        assert_eq!(
            of("u8", &[1, 2, 3], 2),
            PacketValues::Samples { count: 3, values: vec![1.into(), 2.into()] }
        );
        assert_eq!(of("detection", &[1, 2, 255], 8), PacketValues::Hex("0102ff".into()));
        assert_eq!(of("message/tune", &[0x63, b'a', b'b', b'c'], 0), PacketValues::Message("abc".into()));
        assert!(matches!(of("message/tune", &[0xff], 0), PacketValues::Invalid(_)));
        assert!(matches!(of("f32", &[1], 0), PacketValues::Invalid(_)));
    }
}
