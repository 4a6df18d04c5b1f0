//! `stripline call`: one call of an operation, with JSON.

use std::fmt;
use std::io::Read;
use std::time::Duration;

use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use stripline::call::{CallError, ClientOptions, Refusal};
use stripline::terms::WaitStrategy;
use stripline_waveform::internal::suggestion;

use crate::arguments::CallArguments;
use crate::control::print_json;
use crate::failure::{Failure, Outcome};
use crate::format::printable;
use crate::services::{discovered, domain, join};

/// The longest name in a message, in characters.
const NAME_MAX: usize = 64;
/// The longest text of a server in a line of standard error.
const TEXT_MAX: usize = 2000;
/// The largest request that is read from standard input, in bytes.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn call(arguments: &CallArguments) -> Outcome {
    let request = request(&arguments.request).map_err(Failure::usage)?;
    let timeout = Duration::from_secs_f64(arguments.timeout);
    if timeout > ClientOptions::DEADLINE_MAX {
        return Err(Failure::usage("--timeout is an hour at most"));
    }
    let domain = domain(arguments.domain.as_deref())?;
    let node = join(&domain)?;
    let service = arguments.service.as_str();
    let known: Vec<String> = discovered(&node)?.into_iter().map(|offer| offer.service).collect();
    if !known.iter().any(|name| name == service) {
        return Err(Failure::usage(no_such_service(service, &domain, &known)));
    }
    let options = ClientOptions { deadline: timeout, wait: WaitStrategy::Block, ..ClientOptions::default() };
    let client = node.service_client(service, options);
    let operation = client.and_then(|client| client.operation::<Value, Reply, Reply>(&arguments.operation));
    let outcome = operation.map_err(Failure::usage)?.call(&request);
    let reply = outcome.map_err(|error| failure(&error, service, &arguments.operation, &request))?;
    Ok(print_json(&reply))
}

/// Reads the request: the argument, or standard input.
fn request(argument: &str) -> Result<Value, String> {
    let mut text = argument.to_string();
    if argument == "-" {
        text.clear();
        let read = std::io::stdin().lock().take(REQUEST_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| format!("cannot read the request from standard input: {error}"))?;
        if text.len() as u64 > REQUEST_BYTES_MAX {
            return Err(format!("a request has at most {REQUEST_BYTES_MAX} bytes"));
        }
    }
    serde_json::from_str(&text).map_err(|error| {
        let text = printable(&text, NAME_MAX);
        format!("the request `{text}` is not JSON: {error}; a text is written in quotes, as '\"left\"'")
    })
}

fn no_such_service(service: &str, domain: &str, known: &[String]) -> String {
    let (service, domain) = (printable(service, NAME_MAX), printable(domain, NAME_MAX));
    let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
    names.dedup();
    let remedy = match suggestion(&service, names.iter().copied()) {
        Some(meant) => format!("did you mean `{}`?", printable(meant, NAME_MAX)),
        None if names.is_empty() => {
            "there is no server at all; start one, or name its domain with --domain".into()
        }
        None => format!("there are {}", printable(&names.join(", "), TEXT_MAX)),
    };
    format!("there is no server of `{service}` in domain `{domain}`; {remedy}")
}

/// Returns the reason that there is no reply, in the words of the server.
fn failure(error: &CallError<Reply>, service: &str, operation: &str, request: &Value) -> Failure {
    match error {
        CallError::User(error) => Failure::new(format!("`{service}.{operation}`: {error}")),
        CallError::Refused { refusal: Refusal::WrongType, .. } => {
            let remedy = if has_whole_number(request) {
                "; a number with a fraction is written with a point, as 2.0"
            } else if request.is_null() {
                "; the request is the third argument, as JSON"
            } else {
                "; `stripline services` shows the type of the request"
            };
            Failure::usage(format!("{error}{remedy}"))
        }
        CallError::Refused { refusal: Refusal::UnknownOperation, .. } => Failure::usage(error),
        error => Failure::new(error),
    }
}

fn has_whole_number(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(values) => values.iter().any(has_whole_number),
        Value::Object(values) => values.values().any(has_whole_number),
        _ => false,
    }
}

/// A reply of any shape, as JSON. Values that JSON does not have are converted: bytes become an
/// array of numbers, and keys that are not texts become texts.
#[derive(Debug, PartialEq)]
struct Reply(Value);

/// Formats a text as it is, and everything else as JSON.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(words) => f.write_str(words),
            value => value.fmt(f),
        }
    }
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Reply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReplyVisitor).map(Self)
    }
}

struct ReplyVisitor;

impl<'de> DeserializeSeed<'de> for ReplyVisitor {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ReplyVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    // Numbers beyond 64 bits keep their digits as a text.
    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(value.to_string().into())
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(value.to_string().into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // JSON has neither infinities nor NaN.
        Ok(if value.is_finite() { value.into() } else { value.to_string().into() })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        // No memory is reserved for the length that a peer states.
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(Self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = entries.next_key_seed(Self)? {
            let name = match key {
                Value::String(name) => name,
                key => key.to_string(),
            };
            let value = entries.next_value_seed(Self)?;
            if values.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!(
                    "the key `{}` comes twice",
                    printable(&name, NAME_MAX)
                )));
            }
        }
        Ok(Value::Object(values))
    }
}

/// A reply is a payload of calls: it is sent and received as CBOR.
const _: fn() = || {
    fn is_payload<T: Serialize + DeserializeOwned>() {}
    is_payload::<Reply>();
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stripline::call::Payload;

    use super::*;

    fn received(value: &impl Payload) -> Value {
        let mut scratch = Vec::new();
        let bytes = value.encode(&mut scratch).expect("it encodes").to_vec();
        <Reply as Payload>::decode(&bytes).expect("it decodes").0
    }

    #[test]
    fn replies_of_any_shape_are_json() {
        let value = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
        assert_eq!(received(&()), Value::Null);
        assert_eq!(
            received(&(1u8, -2i64, 2.5f32, "é".to_string(), true)),
            value("[1, -2, 2.5, \"é\", true]")
        );
        assert_eq!(received(&Some(vec![Some(1), None])), value("[1, null]"));
        assert_eq!(received(&BTreeMap::from([(7u32, 'x')])), value("{\"7\": \"x\"}"));
        assert_eq!(received(&u64::MAX), value("18446744073709551615"));
        assert_eq!(received(&f64::NEG_INFINITY), value("\"-inf\""));
    }

    #[test]
    fn what_cbor_has_and_json_has_not_is_converted() {
        let decode = |bytes: &[u8]| <Reply as Payload>::decode(bytes).map(|reply| reply.0.to_string());
        // Three bytes; a number of 128 bits; a map with one key twice; a cut array; deep nesting.
        assert_eq!(decode(&[0x43, 1, 2, 255]).expect("bytes"), "[1,2,255]");
        let bignum = [&[0xc2, 0x49, 1][..], &[0; 8]].concat();
        assert_eq!(decode(&bignum).expect("a number"), "\"18446744073709551616\"");
        assert!(decode(&[0xa2, 0x61, b'a', 1, 0x61, b'a', 2]).unwrap_err().contains("`a` comes twice"));
        assert!(decode(&[0x9b, 255, 255, 255, 255, 255, 255, 255, 255, 1]).is_err());
        assert!(decode(&[0x81; 100_000]).unwrap_err().contains("nested"));
    }

    #[test]
    fn requests_are_json() {
        assert_eq!(request("433.92e6").expect("a number").as_f64(), Some(433.92e6));
        assert!(request("left").unwrap_err().contains("a text is written in quotes"));
        assert!(request("\u{1b}[2J").unwrap_err().contains("\\u{1b}"));
        assert!(request("").is_err());
    }

    #[test]
    fn whole_numbers_are_found_everywhere() {
        let has = |text: &str| has_whole_number(&request(text).expect("it is JSON"));
        assert!(has("2") && has("[1.5, {\"a\": 2}]"));
        assert!(!has("2.0") && !has("[\"2\", null]"));
    }
}
