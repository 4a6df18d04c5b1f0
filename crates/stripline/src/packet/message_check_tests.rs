//! Tests of the check of messages: mistakes by place, and a plain model.

use ciborium::Value;
use proptest::prelude::*;

use super::payload::{MessageCheck, decode_message};

fn check(schema: &str) -> MessageCheck {
    MessageCheck::new(&schema.parse().unwrap())
}

fn bytes(message: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(message, &mut bytes).unwrap();
    bytes
}

/// Returns the mistake of a message in JSON.
fn mistake(schema: &str, message: serde_json::Value) -> String {
    check(schema).check(&bytes(&message)).unwrap_err()
}

#[test]
fn a_mistake_has_the_place_and_the_remedy() {
    use serde_json::json;
    let schema =
        "detection{a:f64,n:u8,path:point{x:s16}[]?,kind:kind<lost|kept(u32)>,m:{text:bool},p?:f32[2]}";
    let with = |name: &str, value: serde_json::Value| {
        let mut message =
            json!({"a": 0.5, "n": 1, "path": [{"x": -1}], "kind": "lost", "m": {"k": true}, "p": [0.5, 1.5]});
        match value.as_str() {
            Some("missing") => drop(message.as_object_mut().unwrap().remove(name)),
            _ => message[name] = value,
        }
        message
    };
    for fits in [
        with("a", json!(-1e300)),
        with("path", json!(null)),
        with("kind", json!({"kept": 4_294_967_295u32})),
        with("p", json!("missing")),
    ] {
        check(schema).check(&bytes(&fits)).unwrap();
    }
    for (name, value, mistake_there) in [
        ("a", json!("missing"), "`detection.a`: a float is missing"),
        ("a", json!("x"), "`detection.a`: a float must be here, not text"),
        ("a", json!(-2), "`detection.a`: a float must be here, as -2.0, not the whole number -2"),
        ("b", json!(1), "`detection`: the schema has no field `b`"),
        ("n", json!(256), "`detection.n`: a whole number from 0 to 255 must be here, not 256"),
        ("n", json!(-1), "`detection.n`: a whole number from 0 to 255 must be here, not -1"),
        ("n", json!(1.5), "`detection.n`: a whole number from 0 to 255 must be here, not a float"),
        (
            "path",
            json!([{"x": 1}, {"x": 32768}]),
            "`detection.path[1].x`: a whole number from -32768 to 32767 must be here, not 32768",
        ),
        ("path", json!("missing"), "`detection.path`: a list, or null, is missing"),
        ("kind", json!("found"), "`detection.kind`: the schema has no variant `found`, but `lost`, `kept`"),
        (
            "kind",
            json!("kept"),
            "`detection.kind`: the variant `kept` needs content: a whole number from 0 to",
        ),
        ("kind", json!({"lost": null}), "`detection.kind`: the variant `lost` has no content"),
        ("kind", json!({"kept": null}), "`detection.kind.kept`: a whole number from 0 to 4294967295 must be"),
        ("kind", json!({}), "`detection.kind`: a variant must be here, not an empty map"),
        ("m", json!({"k": 1}), "`detection.m[\"k\"]`: a boolean must be here, not a whole number"),
        ("p", json!([0.5]), "`detection.p`: a list of 2 must be here, not 1"),
        ("p", json!(null), "`detection.p`: a list of 2 must be here, not null"),
    ] {
        let found = mistake(schema, with(name, value));
        assert!(found.starts_with(mistake_there), "{found}");
    }
    assert_eq!(mistake("cbor((text,u8))", json!(["a", -1])).split(':').next(), Some("`message[1]`"));
    assert!(mistake("u8", json!(null)).starts_with("`message`: a whole number"));
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let any = check("any");
    for (bytes, mistake) in [
        (&b""[..], "ends early"),
        (b"\x82\x01", "ends early"),
        (b"\x62a", "ends early"),
        (b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff", "ends early"),
        (b"\x01\x02", "1 bytes follow"),
        (b"\x61\xff", "not UTF-8"),
        (b"\x1c", "not CBOR (RFC 8949) at byte 0"),
        (b"\x7f\x41a\xff", "text in parts has a part of another kind"),
        (&[0x81; 1000], "nested more than 128 deep"),
    ] {
        let found = any.check(bytes).unwrap_err();
        assert!(found.contains(mistake), "{found}");
    }
    // Open lengths, texts in parts and tags.
    for bytes in [&b"\xc1\x9f\x01\xbf\x61a\x7f\x61b\x60\xff\xff\xff"[..], b"\x5f\x41\xff\xff"] {
        any.check(bytes).unwrap();
    }
    let pair = check("pair(u8,u8)");
    pair.check(b"\x9f\x01\x02\xff").unwrap();
    assert!(
        pair.check(b"\x9f\x01\x02\x03\xff")
            .unwrap_err()
            .contains("a list of 2 must be here, not a longer one")
    );
    assert!(pair.check(b"\x9f\x01\xff").unwrap_err().contains("a list of 2 must be here, not 1"));
    let twice = check("a{x:u8}").check(b"\xa2\x61x\x01\x61x\x01").unwrap_err();
    assert_eq!(twice, "`a`: the field `x` is there twice");
    let big = check("a{x:f64}").check(b"\xa1\x61x\xc2\x41\x01").unwrap_err();
    assert_eq!(big, "`a.x`: a float must be here, not a whole number beyond 64 bits");
}

#[test]
fn whole_numbers_become_floats_without_a_loss() {
    let check = check("a{x:f64,y:u8,z:(f32,text)[]}");
    let [whole, exact]: [serde_json::Value; 2] = [
        serde_json::json!({"x": -3, "y": 4, "z": [[1, "a"], [0.5, "b"]]}),
        serde_json::json!({"x": -3.0, "y": 4, "z": [[1.0, "a"], [0.5, "b"]]}),
    ];
    let made = check.with_floats(&bytes(&whole)).unwrap();
    assert_eq!(ciborium::from_reader::<serde_json::Value, _>(&made[..]).unwrap(), exact);
    assert_eq!(check.with_floats(&bytes(&exact)).unwrap(), bytes(&exact));
    let beyond = serde_json::json!({"x": (1u64 << 53) + 1, "y": 4, "z": []});
    assert!(
        check
            .with_floats(&bytes(&beyond))
            .unwrap_err()
            .contains("a float must be here, as 9007199254740993.0")
    );
}

/// A plain model of a schema, and random choices, which come from bytes.
#[derive(Debug)]
enum Model {
    Whole(&'static str, i128, i128),
    Kind(&'static str),
    Optional(Box<Model>),
    List(Box<Model>, Option<usize>),
    Tuple(Vec<Model>),
    Map(Box<Model>),
    Fields(Vec<(bool, Model)>),
    Variants(Vec<Option<Model>>),
}

struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn of(&mut self, count: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % count
    }

    fn model(&mut self, depth: usize) -> Model {
        let some =
            |choices: &mut Self| (0..=choices.of(3)).map(|_| choices.model(depth - 1)).collect::<Vec<_>>();
        match self.of(if depth == 0 { 12 } else { 18 }) {
            0 => Model::Whole("u8", 0, 255),
            1 => Model::Whole("s8", -128, 127),
            2 => Model::Whole("u64", 0, u64::MAX.into()),
            3 => Model::Whole("s64", i64::MIN.into(), i64::MAX.into()),
            kind @ 4..12 => {
                Model::Kind(["f32", "f64", "bool", "text", "bytes", "null", "any", "f64"][kind - 4])
            }
            12 => match self.model(depth - 1) {
                optional @ Model::Optional(_) => optional,
                other => Model::Optional(other.into()),
            },
            13 => {
                let length = [None, Some(1), Some(2)][self.of(3)];
                Model::List(self.model(depth - 1).into(), length)
            }
            14 => Model::Tuple(some(self)),
            15 => Model::Map(self.model(depth - 1).into()),
            16 => Model::Fields(some(self).into_iter().map(|of| (self.of(2) == 0, of)).collect()),
            _ => Model::Variants(some(self).into_iter().map(|of| (self.of(2) == 0).then_some(of)).collect()),
        }
    }

    /// Returns a value that fits the model, or nearly does.
    fn value(&mut self, of: &Model) -> Value {
        let names = ["f0", "f1", "f2", "f3", "x"];
        if self.of(16) == 15 {
            let other = self.model(1);
            return self.value(&other);
        }
        match of {
            Model::Whole(_, low, high) => {
                let number = [*low, 0, *high, *low - 1, *high + 1][self.of(5)];
                ciborium::value::Integer::try_from(number).map_or(Value::Null, Value::Integer)
            }
            Model::Kind("f32" | "f64") => Value::Float([0.5, -0.0, f64::NAN, 1e300][self.of(4)]),
            Model::Kind("bool") => Value::Bool(self.of(2) == 0),
            Model::Kind("text") => Value::Text(names[self.of(5)].into()),
            Model::Kind("bytes") => Value::Bytes(vec![0; self.of(30)]),
            Model::Kind("any") => {
                let other = self.model(2);
                self.value(&other)
            }
            Model::Kind(_) => Value::Null,
            Model::Optional(of) if self.of(2) == 0 => self.value(of),
            Model::Optional(_) => Value::Null,
            Model::List(of, length) => {
                let count = if self.of(8) == 0 { self.of(4) } else { length.unwrap_or(self.of(4)) };
                Value::Array((0..count).map(|_| self.value(of)).collect())
            }
            Model::Tuple(of) => Value::Array(of.iter().map(|of| self.value(of)).collect()),
            Model::Map(of) => {
                Value::Map((0..self.of(3)).map(|n| (Value::Text(names[n].into()), self.value(of))).collect())
            }
            Model::Fields(of) => {
                let mut fields = Vec::new();
                for (n, (may_be_missing, of)) in of.iter().enumerate() {
                    if self.of(if *may_be_missing { 2 } else { 12 }) != 1 {
                        fields.push((Value::Text(names[n].into()), self.value(of)));
                    }
                }
                match self.of(8) {
                    0 => fields.reverse(),
                    1 => fields.push((Value::Text(names[self.of(5)].into()), Value::Null)),
                    _ => {}
                }
                Value::Map(fields)
            }
            Model::Variants(of) => {
                let n = self.of(of.len());
                let name = Value::Text(names[n].into());
                match &of[n] {
                    Some(content) => Value::Map(vec![(name, self.value(content))]),
                    None => name,
                }
            }
        }
    }
}

impl Model {
    fn text(&self) -> String {
        let joined = |texts: Vec<String>, between| texts.join(between);
        match self {
            Self::Whole(text, ..) | Self::Kind(text) => (*text).into(),
            Self::Optional(of) => format!("{}?", of.text()),
            Self::List(of, None) => format!("{}[]", of.text()),
            Self::List(of, Some(length)) => format!("{}[{length}]", of.text()),
            Self::Tuple(of) => format!("({})", joined(of.iter().map(Self::text).collect(), ",")),
            Self::Map(of) => format!("{{text:{}}}", of.text()),
            Self::Fields(of) => {
                let field = |(n, (may_be_missing, of)): (usize, &(bool, Self))| {
                    format!("f{n}{}:{}", if *may_be_missing { "?" } else { "" }, of.text())
                };
                format!("a{{{}}}", joined(of.iter().enumerate().map(field).collect(), ","))
            }
            Self::Variants(of) => {
                let variant = |(n, of): (usize, &Option<Self>)| {
                    format!("f{n}{}", of.as_ref().map_or(String::new(), |of| format!("({})", of.text())))
                };
                format!("b<{}>", joined(of.iter().enumerate().map(variant).collect(), "|"))
            }
        }
    }

    fn fits(&self, value: &Value) -> bool {
        let number = |name: &Value| {
            let name = name.as_text().filter(|name| name.starts_with('f'))?;
            name[1..].parse::<usize>().ok()
        };
        match (self, value) {
            (Self::Whole(_, low, high), Value::Integer(number)) => {
                (*low..=*high).contains(&i128::from(*number))
            }
            (Self::Kind("f32" | "f64"), Value::Float(_))
            | (Self::Kind("bool"), Value::Bool(_))
            | (Self::Kind("text"), Value::Text(_))
            | (Self::Kind("bytes"), Value::Bytes(_))
            | (Self::Kind("null") | Self::Optional(_), Value::Null)
            | (Self::Kind("any"), _) => true,
            (Self::Optional(of), value) => of.fits(value),
            (Self::List(of, length), Value::Array(items)) => {
                length.is_none_or(|length| items.len() == length) && items.iter().all(|item| of.fits(item))
            }
            (Self::Tuple(of), Value::Array(items)) => {
                of.len() == items.len() && of.iter().zip(items).all(|(of, item)| of.fits(item))
            }
            (Self::Map(of), Value::Map(entries)) => {
                entries.iter().all(|(key, value)| key.is_text() && of.fits(value))
            }
            (Self::Fields(of), Value::Map(entries)) => {
                let known = |(name, value): &(Value, Value)| {
                    number(name).and_then(|n| of.get(n)).is_some_and(|(_, of)| of.fits(value))
                };
                let count = |n| entries.iter().filter(|(name, _)| number(name) == Some(n)).count();
                let mut counts =
                    of.iter().enumerate().map(|(n, (may_be_missing, _))| (count(n), may_be_missing));
                entries.iter().all(known)
                    && counts.all(|(count, may_be_missing)| count == 1 || (count == 0 && *may_be_missing))
            }
            (Self::Variants(of), Value::Text(_)) => {
                number(value).and_then(|n| of.get(n)).is_some_and(Option::is_none)
            }
            (Self::Variants(of), Value::Map(entries)) => match &entries[..] {
                [(name, value)] => {
                    let content = number(name).and_then(|n| of.get(n)).and_then(Option::as_ref);
                    content.is_some_and(|of| of.fits(value))
                }
                _ => false,
            },
            _ => false,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn the_check_is_that_of_a_plain_model(bytes_of in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut choices = Choices(bytes_of.iter());
        let model = choices.model(3);
        let text = model.text();
        let value = choices.value(&model);
        let found = check(&text).check(&bytes(&value));
        prop_assert_eq!(found.is_ok(), model.fits(&value), "{}: {:?}: {:?}", text, value, found);
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_any_takes_what_a_receiver_takes(
        message in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let _ = check("a{b:u8,c?:text[2],d:e<f|g(any)>}").with_floats(&message);
        let taken = decode_message::<Value>(&message);
        let checked = check("any").check(&message);
        prop_assert!(taken.is_err() || checked.is_ok(), "{:?}: {:?}", taken, checked);
    }
}
