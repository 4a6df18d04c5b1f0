//! Messages as JSON, for people and scripts.

use ciborium::Value as Cbor;
use serde_json::{Map, Number, Value};

use super::payload::decode_message;

/// Returns a message (CBOR, RFC 8949) as JSON.
///
/// Values that JSON cannot express become texts: bytes as hexadecimal digits, integers beyond 64
/// bits, numbers that are not finite, and keys of a map that are not text. Tags are left out.
///
/// # Errors
/// A description of the problem with the bytes.
///
/// ```
/// use stripline::payload::message_json;
///
/// assert_eq!(message_json(&[0x82, 0x01, 0x61, b'a']).map(|json| json.to_string()), Ok("[1,\"a\"]".into()));
/// assert!(message_json(&[0x82, 0x01]).is_err());
/// ```
pub fn message_json(bytes: &[u8]) -> Result<Value, String> {
    decode_message(bytes).map(json)
}

/// Returns a value as JSON. [`decode_message`] has limited the nesting of the value.
fn json(value: Cbor) -> Value {
    match value {
        Cbor::Integer(number) => {
            let number = i128::from(number);
            let fits =
                i64::try_from(number).map(Number::from).or_else(|_| u64::try_from(number).map(Into::into));
            fits.map_or_else(|_| Value::String(number.to_string()), Value::Number)
        }
        Cbor::Bytes(bytes) => Value::String(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        Cbor::Float(number) => {
            Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
        }
        Cbor::Text(text) => Value::String(text),
        Cbor::Bool(flag) => Value::Bool(flag),
        Cbor::Tag(_, inner) => json(*inner),
        Cbor::Array(items) => Value::Array(items.into_iter().map(json).collect()),
        Cbor::Map(entries) => {
            let key = |key| match json(key) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            Value::Object(
                entries.into_iter().map(|(name, value)| (key(name), json(value))).collect::<Map<_, _>>(),
            )
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &impl serde::Serialize) -> Value {
        let mut bytes = Vec::new();
        ciborium::ser::into_writer(value, &mut bytes).unwrap();
        message_json(&bytes).unwrap()
    }

    #[test]
    fn messages_of_any_kind_become_json() {
        assert_eq!(of(&("tune", -7, 1.5, true, None::<u8>)).to_string(), r#"["tune",-7,1.5,true,null]"#);
        let map = std::collections::BTreeMap::from([(1, u64::MAX), (2, 0)]);
        assert_eq!(of(&map).to_string(), r#"{"1":18446744073709551615,"2":0}"#);
        assert_eq!(of(&Cbor::Bytes(vec![0, 255])).to_string(), r#""00ff""#);
        assert_eq!(of(&f64::NAN).to_string(), r#""NaN""#);
        assert_eq!(of(&Cbor::Tag(0, Box::new(Cbor::Text("x".into())))).to_string(), r#""x""#);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        assert!(message_json(&[]).unwrap_err().contains("ends early"));
        assert!(message_json(&[0x82, 1]).unwrap_err().contains("ends early"));
        assert!(message_json(&[1, 1]).unwrap_err().contains("1 bytes follow"));
        assert!(message_json(&[0x81; 1000]).unwrap_err().contains("nested"));
    }
}
