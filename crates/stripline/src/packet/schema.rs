//! The schema of a message, and the text of a schema, for example
//! `detection{range_bin:u32,note:text?}`.
//!
//! `docs/layouts.md` has the grammar. A [`Schema`] cannot be invalid: it is a text that the parser
//! has accepted. Two schemas are equal if their texts are equal.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

use super::layout::BadLayout;
use super::message_check::{FieldForm, Form, VariantForm};
use super::payload::TypeName;

/// The structure of a message in serde and CBOR.
///
/// ```
/// use stripline::payload::Schema;
///
/// let schema: Schema = "detection{range_bin:u32,note:text?,kind:kind<lost|kept(u32)>}".parse()?;
/// assert_eq!(schema.name(), Some("detection"));
/// let error = "detection{range_bin:i32}".parse::<Schema>().unwrap_err();
/// assert!(error.to_string().contains("at byte 20: `i32` is not a built-in kind"));
/// # Ok::<(), stripline::payload::BadLayout>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Schema(String);

impl Schema {
    /// The longest text, in bytes.
    pub const TEXT_MAX: usize = 2048;
    /// The most fields, values and variants, including nested structures.
    pub const FIELDS_MAX: usize = 256;
    /// The most brackets nested in each other.
    pub const NESTING_MAX: usize = 8;
    /// The longest name of a structure, which leaves room for `message/` in front of it.
    pub const NAME_MAX: usize = TypeName::LENGTH_MAX - "message/".len();
    /// The built-in kinds, which cannot be used as names.
    const BUILT_IN: [&'static str; 15] = [
        "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64", "bool", "text", "bytes", "null",
        "any",
    ];

    /// Returns the name of a structure or an enum. `None` for all other kinds.
    ///
    /// ```
    /// use stripline::payload::Schema;
    ///
    /// let name = |text: &str| text.parse::<Schema>().expect("a schema").name().map(String::from);
    /// assert_eq!(name("state<idle|running(u32)>").as_deref(), Some("state"));
    /// assert_eq!((name("state{}[]"), name("u32"), name("(u32,text)")), (None, None, None));
    /// ```
    pub fn name(&self) -> Option<&str> {
        let end = self.0.find(['{', '(', '<']).filter(|end| *end > 0)?;
        let is_whole = self.0.ends_with(['}', ')', '>']);
        is_whole.then(|| &self.0[..end])
    }

    /// Returns the first difference from another schema: the names if they differ, otherwise the
    /// place, this schema there, and the other one. `None` for an equal schema, or without names.
    ///
    /// ```
    /// use stripline::payload::Schema;
    ///
    /// let schema = |text: &str| text.parse::<Schema>().expect("a schema");
    /// let recorded = schema("detection{a:f64,path:point{x:f32}[]}");
    /// let [renamed, narrower] =
    ///     ["detection{a:f64,path:point{y:f32}[]}", "detection{a:f32,path:point{x:f32}[],n:u8}"].map(schema);
    /// assert_eq!(
    ///     recorded.difference(&renamed).as_deref(),
    ///     Some("`detection.path[]` has the field `x:f32`, not `y:f32`")
    /// );
    /// assert_eq!(recorded.difference(&narrower).as_deref(), Some("`detection.a` is f64, not f32"));
    /// assert_eq!(
    ///     recorded.difference(&schema("track{a:f64}")).as_deref(),
    ///     Some("the name is `detection`, not `track`")
    /// );
    /// ```
    pub fn difference(&self, other: &Self) -> Option<String> {
        let (name, also) = self.name().zip(other.name())?;
        if name != also {
            return Some(format!("the name is `{name}`, not `{also}`"));
        }
        (self != other).then(|| difference(name.to_string(), &self.0, &other.0))
    }

    /// Returns the text of the schema.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the form of a message, for a check.
    pub(super) fn form(&self) -> Form {
        let mut parser = SchemaParser { text: &self.0, at: 0, depth: 0, fields: 0 };
        // The text was parsed before.
        parser.value().unwrap_or(Form::Any)
    }

    /// Returns the schema of any value, which compares nothing.
    ///
    /// ```
    /// assert_eq!(stripline::payload::Schema::any().as_str(), "any");
    /// ```
    pub fn any() -> Self {
        Self("any".into())
    }

    /// Returns the schema of a value that may be missing. An optional value that is itself optional
    /// has the same CBOR.
    ///
    /// ```
    /// let note = stripline::payload::Schema::any().optional();
    /// assert_eq!((note.as_str(), note.clone().optional().as_str()), ("any?", "any?"));
    /// ```
    #[must_use]
    pub fn optional(self) -> Self {
        if self.0.ends_with('?') { self } else { Self(self.0 + "?") }
    }

    /// Returns the schema of a built-in kind.
    pub(super) fn built_in(name: &'static str) -> Self {
        Self::checked(name.into())
    }

    /// Returns the schema of a list of these values, of a fixed or any length.
    pub(super) fn list(self, length: Option<usize>) -> Self {
        let length = length.map(|length| length.to_string()).unwrap_or_default();
        Self::checked(format!("{self}[{length}]"))
    }

    /// Returns the schema of a map.
    pub(super) fn map(key: &Self, value: &Self) -> Self {
        Self::checked(format!("{{{key}:{value}}}"))
    }

    /// Returns the schema of a list of values of different kinds.
    pub(super) fn tuple(values: &[Self]) -> Self {
        let texts: Vec<&str> = values.iter().map(Self::as_str).collect();
        Self::checked(format!("({})", texts.join(",")))
    }

    /// Returns the schema with that text.
    ///
    /// # Panics
    /// Panics if the text breaks a limit, which is a mistake in the program.
    fn checked(text: String) -> Self {
        match text.parse() {
            Ok(schema) => schema,
            Err(error) => panic!("{error}"),
        }
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Schema {
    type Err = BadLayout;

    fn from_str(text: &str) -> Result<Self, BadLayout> {
        let mut parser = SchemaParser { text, at: 0, depth: 0, fields: 0 };
        let parsed = match text.len() > Self::TEXT_MAX {
            true => Err(format!("it is longer than {} bytes", Self::TEXT_MAX)),
            false => parser.value().and_then(|_| parser.end()),
        };
        parsed.map(|()| Self(text.into())).map_err(|problem| BadLayout::of_schema(text, parser.at, problem))
    }
}

/// A function that returns the schema of a type.
#[doc(hidden)]
pub type MakeSchema = fn() -> Schema;

/// A structure or an enum, for the code generated by `#[derive(stripline::Message)]`.
#[doc(hidden)]
pub enum DerivedSchema<'s> {
    /// A variant without values.
    Unit,
    Values(&'s [MakeSchema]),
    /// The fields with their names. A field that may be left out has a `?` behind the name.
    Fields(&'s [(&'s str, MakeSchema)]),
    Variants(&'s [(&'s str, DerivedSchema<'s>)]),
}

impl DerivedSchema<'_> {
    /// Returns the schema with that name.
    ///
    /// # Panics
    /// Panics if the schema contains itself or breaks a limit, which is a mistake in the program.
    pub fn named(&self, name: &str) -> Schema {
        let depth = Depth::enter();
        assert!(
            depth.0 < Schema::NESTING_MAX,
            "the message type `{name}` contains itself, or is nested more than {} deep: implement \
             stripline::payload::MessageSchema by hand, with Schema::any() where it goes on",
            Schema::NESTING_MAX
        );
        Schema::checked(format!("{name}{}", self.text()))
    }

    fn text(&self) -> String {
        match self {
            Self::Unit => String::new(),
            Self::Values(values) => format!("({})", joined(values.iter().map(|of| of().0), ",")),
            Self::Fields(fields) => {
                format!("{{{}}}", joined(fields.iter().map(|(name, of)| format!("{name}:{}", of())), ","))
            }
            Self::Variants(variants) => {
                let texts = variants.iter().map(|(name, body)| format!("{name}{}", body.text()));
                format!("<{}>", joined(texts, "|"))
            }
        }
    }
}

thread_local!(static DEPTH: Cell<usize> = const { Cell::new(0) });

/// The number of nested schemas that this thread is making.
struct Depth(usize);

impl Depth {
    fn enter() -> Self {
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        Self(depth)
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}

/// Returns the first difference between the schemas at a place, which are not equal.
fn difference(mut place: String, mut one: &str, mut other: &str) -> String {
    for (suffix, step) in [("[]", "[]"), ("?", ""), ("[]", "[]")] {
        if let (Some(shorter), Some(also)) = (one.strip_suffix(suffix), other.strip_suffix(suffix)) {
            (one, other) = (shorter, also);
            place += step;
        }
    }
    let (Some((name, fields)), Some((other_name, others))) = (fields_of(one), fields_of(other)) else {
        return format!("`{place}` is {one}, not {other}");
    };
    if name != other_name {
        return format!("`{place}` is `{name}`, not `{other_name}`");
    }
    for index in 0..fields.len().max(others.len()) {
        match (fields.get(index), others.get(index)) {
            (Some(field), Some(other)) if field == other => {}
            (Some((field, one)), Some((also, other))) if field == also => {
                return difference(format!("{place}.{field}"), one, other);
            }
            (Some((field, one)), Some((also, other))) => {
                return format!("`{place}` has the field `{field}:{one}`, not `{also}:{other}`");
            }
            (Some((field, one)), None) => return format!("`{place}` has one more field, `{field}:{one}`"),
            (None, Some((field, one))) => return format!("`{place}` has no field `{field}:{one}`"),
            (None, None) => {}
        }
    }
    format!("`{place}` is {one}, not {other}")
}

/// Splits the schema of a structure with fields into the name and the fields.
fn fields_of(text: &str) -> Option<(&str, Vec<(&str, &str)>)> {
    let (name, inside) = text.strip_suffix('}')?.split_once('{')?;
    if name.is_empty() || name.contains(['(', '<']) {
        return None;
    }
    let (mut fields, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, byte) in inside.bytes().chain([b',']).enumerate() {
        match byte {
            b'{' | b'(' | b'<' => depth += 1,
            b'}' | b')' | b'>' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                fields.extend(inside[start..at].split_once(':'));
                start = at + 1;
            }
            _ => {}
        }
    }
    Some((name, fields))
}

fn joined(texts: impl Iterator<Item = String>, between: &str) -> String {
    texts.collect::<Vec<_>>().join(between)
}

/// A text, and the place up to which it is parsed.
struct SchemaParser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    fields: usize,
}

impl<'t> SchemaParser<'t> {
    fn value(&mut self) -> Result<Form, String> {
        let mut form = self.item()?;
        let mut is_optional = false;
        loop {
            match self.peek() {
                Some(b'?') if is_optional => return Err("`?` stands once".into()),
                Some(b'?') => {
                    self.at += 1;
                    is_optional = true;
                    form = Form::Optional(form.into());
                }
                Some(b'[') => {
                    form = Form::List(form.into(), self.length()?);
                    is_optional = false;
                }
                _ => return Ok(form),
            }
        }
    }

    fn item(&mut self) -> Result<Form, String> {
        let start = self.at;
        let name = self.word(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'/' | b'.'));
        let is_built_in = Schema::BUILT_IN.contains(&name);
        match self.peek() {
            Some(b'{' | b'(' | b'<') if is_built_in || name.len() > Schema::NAME_MAX => {
                self.at = start;
                Err(match is_built_in {
                    true => format!("`{name}` is a built-in kind, not a name"),
                    false => format!("a name has at most {} characters", Schema::NAME_MAX),
                })
            }
            Some(b'{') if name.is_empty() => self.nested(Self::map),
            Some(b'{') => self.nested(Self::fields).map(Form::Fields),
            Some(b'(') if name.is_empty() => self.nested(|parser| parser.values(false)).map(Form::Tuple),
            Some(b'(') => self.nested(|parser| parser.values(true)).map(Form::of_values),
            Some(b'<') if !name.is_empty() => self.nested(Self::variants).map(Form::Variants),
            _ if is_built_in => Ok(Form::built_in(name)),
            _ => {
                self.at = start;
                Err(match name {
                    "" => "a value must be here, as `u32`".into(),
                    name => format!("`{name}` is not a built-in kind, and has no brackets"),
                })
            }
        }
    }

    /// Parses the inside of brackets.
    fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == Schema::NESTING_MAX {
            return Err(format!("it is nested more than {} deep", Schema::NESTING_MAX));
        }
        self.depth += 1;
        self.at += 1;
        let found = inside(self)?;
        self.depth -= 1;
        Ok(found)
    }

    fn map(&mut self) -> Result<Form, String> {
        self.count()?;
        let key = self.value()?;
        self.expect(b':')?;
        self.count()?;
        let value = self.value()?;
        self.expect(b'}')?;
        Ok(Form::Map(Box::new((key, value))))
    }

    fn fields(&mut self) -> Result<Vec<FieldForm>, String> {
        let mut fields: Vec<FieldForm> = Vec::new();
        if self.peek() == Some(b'}') {
            return self.expect(b'}').map(|()| fields);
        }
        loop {
            let what = "a field must be here, as `level_db:f32`";
            let name = self.member(|name| fields.iter().any(|field| *field.name == *name), what)?;
            let may_be_missing = self.peek() == Some(b'?');
            if may_be_missing {
                self.at += 1;
            }
            if self.peek() != Some(b':') {
                return Err(what.into());
            }
            self.at += 1;
            fields.push(FieldForm::new(name, may_be_missing, self.value()?));
            if !self.goes_on(b',', b'}')? {
                return Ok(fields);
            }
        }
    }

    fn values(&mut self, may_be_empty: bool) -> Result<Vec<Form>, String> {
        let mut values = Vec::new();
        if may_be_empty && self.peek() == Some(b')') {
            return self.expect(b')').map(|()| values);
        }
        loop {
            self.count()?;
            values.push(self.value()?);
            if !self.goes_on(b',', b')')? {
                return Ok(values);
            }
        }
    }

    fn variants(&mut self) -> Result<Vec<VariantForm>, String> {
        let mut variants: Vec<VariantForm> = Vec::new();
        loop {
            let what = "a variant must be here, as `kept(u32)`";
            let name = self.member(|name| variants.iter().any(|variant| *variant.name == *name), what)?;
            let content = match self.peek() {
                Some(b'(') => Some(Form::of_values(self.nested(|parser| parser.values(false))?)),
                Some(b'{') => Some(Form::Fields(self.nested(Self::fields)?)),
                _ => None,
            };
            variants.push(VariantForm { name: name.into(), content });
            if !self.goes_on(b'|', b'>')? {
                return Ok(variants);
            }
        }
    }

    /// Parses the name of a field or a variant.
    fn member(&mut self, is_taken: impl Fn(&str) -> bool, what: &str) -> Result<&'t str, String> {
        let start = self.at;
        let name = self.word(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        let first_fits = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        let problem = match () {
            () if !first_fits => Some(what.to_string()),
            () if name.len() > TypeName::LENGTH_MAX => {
                Some(format!("a name has at most {} characters", TypeName::LENGTH_MAX))
            }
            () if is_taken(name) => Some(format!("two have the name `{name}`")),
            () => None,
        };
        if let Some(problem) = problem {
            self.at = start;
            return Err(problem);
        }
        self.count().map(|()| name)
    }

    fn length(&mut self) -> Result<Option<usize>, String> {
        self.at += 1;
        let start = self.at;
        let digits = self.word(|b| b.is_ascii_digit());
        let length = digits.parse::<u32>().ok();
        let fits = digits.is_empty() || (!digits.starts_with('0') && length.is_some());
        if !fits || self.peek() != Some(b']') {
            self.at = start;
            return Err("`]` or a length must be here, as `[16]`, without zeros before it".into());
        }
        self.expect(b']').map(|()| length.map(|length| length as usize))
    }

    fn count(&mut self) -> Result<(), String> {
        self.fields += 1;
        match self.fields > Schema::FIELDS_MAX {
            true => Err(format!("it has more than {} fields", Schema::FIELDS_MAX)),
            false => Ok(()),
        }
    }

    /// Takes the byte between two parts, or the byte behind the last part. Returns whether another
    /// part follows.
    fn goes_on(&mut self, between: u8, last: u8) -> Result<bool, String> {
        match self.peek() {
            Some(byte) if byte == between || byte == last => {
                self.at += 1;
                Ok(byte == between)
            }
            _ => Err(format!("`{}` or `{}` must be here", between as char, last as char)),
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.peek() != Some(byte) {
            return Err(format!("`{}` must be here", byte as char));
        }
        self.at += 1;
        Ok(())
    }

    fn end(&self) -> Result<(), String> {
        if self.at == self.text.len() { Ok(()) } else { Err("nothing may follow the schema".into()) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes the bytes that fit, which are all ASCII.
    fn word(&mut self, fits: impl Fn(u8) -> bool) -> &'t str {
        let start = self.at;
        while self.peek().is_some_and(&fits) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::payload::MessageSchema;

    fn refused(text: &str) -> String {
        text.parse::<Schema>().unwrap_err().to_string()
    }

    #[test]
    fn built_in_types_have_the_texts_of_their_cbor() {
        use std::collections::{BTreeMap, HashMap};
        for (schema, text) in [
            (<(u8, i16, f32)>::schema(), "(u8,s16,f32)"),
            (<(char,)>::schema(), "(text)"),
            (<Vec<Option<String>>>::schema(), "text?[]"),
            (<Option<Option<bool>>>::schema(), "bool?"),
            (<Option<Vec<Box<u64>>>>::schema(), "u64[]?"),
            (<[[f64; 2]; 3]>::schema(), "f64[2][3]"),
            (<BTreeMap<String, usize>>::schema(), "{text:u64}"),
            (<HashMap<isize, ()>>::schema(), "{s64:null}"),
        ] {
            assert_eq!(schema.as_str(), text);
        }
    }

    /// Checks the table of parts against the CBOR that serde makes.
    #[test]
    fn each_part_has_the_cbor_that_the_document_describes() {
        use serde::Serialize;
        use serde_json::json;

        #[derive(Serialize)]
        struct Ping;
        #[derive(Serialize)]
        struct Level(f32);
        #[derive(Serialize)]
        struct Pair(u8, bool);
        #[derive(Serialize)]
        #[serde(rename_all = "kebab-case")]
        enum State {
            Idle,
            BusyFor(u32),
            Between(u8, char),
            At { x: Option<f32> },
        }
        #[derive(Serialize)]
        struct Tune {
            hz: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            gain: Option<f32>,
        }
        fn json_of(message: &impl Serialize) -> serde_json::Value {
            let mut bytes = Vec::new();
            ciborium::into_writer(message, &mut bytes).unwrap();
            crate::packet::payload::message_json(&bytes).unwrap()
        }
        assert_eq!(json_of(&(Ping, Level(1.5), Pair(1, true))), json!([null, 1.5, [1, true]]));
        let states = [State::Idle, State::BusyFor(3), State::Between(1, 'a'), State::At { x: None }];
        let texts = json!(["idle", {"busy-for": 3}, {"between": [1, "a"]}, {"at": {"x": null}}]);
        assert_eq!(json_of(&states), texts);
        assert_eq!(json_of(&Tune { hz: 1.0, gain: None }), json!({"hz": 1.0}));
        assert_eq!(json_of(&Tune { hz: 1.0, gain: Some(2.0) }), json!({"hz": 1.0, "gain": 2.0}));
        let map = std::collections::BTreeMap::from([("a", ())]);
        assert_eq!(json_of(&(map, Some([1, 2]), [(1u8,)])), json!([{"a": null}, [1, 2], [[1]]]));
    }

    #[test]
    fn limits_are_kept() {
        let fields = |count: usize| {
            let fields: Vec<String> = (0..count).map(|n| format!("f{n}:u8")).collect();
            format!("a{{{}}}", fields.join(","))
        };
        let nested = |depth: usize| format!("{}u8{}", "a(".repeat(depth), ")".repeat(depth));
        assert!(fields(200).parse::<Schema>().is_ok());
        assert!(refused(&fields(400)).contains("longer than 2048 bytes"));
        assert!(refused(&format!("({}u8)", "u8,".repeat(256))).contains("more than 256 fields"));
        assert!(nested(Schema::NESTING_MAX).parse::<Schema>().is_ok());
        assert!(refused(&nested(Schema::NESTING_MAX + 1)).contains("nested more than 8 deep"));
        assert!(refused(&"(".repeat(2000)).contains("nested more than 8 deep"));
        let name = "x".repeat(Schema::NAME_MAX);
        assert!(format!("{name}()").parse::<Schema>().is_ok());
        assert!(refused(&format!("{name}x()")).contains("at most 56 characters"));
        assert!(refused(&format!("a{{{}:u8}}", "x".repeat(65))).contains("at most 64 characters"));
    }

    #[test]
    fn a_type_that_contains_itself_is_a_mistake_in_the_program() {
        struct List;
        impl MessageSchema for List {
            fn schema() -> Schema {
                DerivedSchema::Fields(&[("next", <Option<Box<List>>>::schema)]).named("list")
            }
        }
        for _ in 0..2 {
            let panic = std::panic::catch_unwind(List::schema).unwrap_err();
            let words = panic.downcast_ref::<String>().unwrap();
            assert!(words.contains("`list` contains itself") && words.contains("Schema::any()"), "{words}");
        }
    }

    #[test]
    fn docs_match_the_code() {
        let document = include_str!("../../../../docs/layouts.md");
        let items = |lead: &str| -> Vec<(String, String)> {
            let (_, list) = document.split_once(lead).unwrap();
            let list = list.split("\n\n").next().unwrap();
            let items = list.trim_start_matches("- ").split("\n- ").map(|item| {
                let item = item.split_whitespace().collect::<Vec<_>>().join(" ");
                let (text, rest) = item.strip_prefix('`').unwrap().split_once("`: ").unwrap();
                (text.to_string(), rest.trim_end_matches('.').to_string())
            });
            items.collect()
        };
        let valid = items("\nSchemas and types:\n\n");
        assert!(valid.len() >= 8);
        for (text, _) in valid {
            assert_eq!(text.parse::<Schema>().unwrap().to_string(), text);
        }
        let invalid = items("\nRefused schemas:\n\n");
        assert!(invalid.len() >= 8);
        for (text, words) in invalid {
            assert!(!words.is_empty() && refused(&text).contains(&words), "{text}: {}", refused(&text));
        }
        for limit in [
            ("bytes of a schema", Schema::TEXT_MAX),
            ("fields, values and variants, including the parts of nested structures", Schema::FIELDS_MAX),
            ("brackets within each other", Schema::NESTING_MAX),
            ("characters of a structure's name", Schema::NAME_MAX),
        ] {
            assert!(document.contains(&format!("- {}: {}.", limit.0, limit.1)), "{limit:?}");
        }
    }

    fn schemas() -> impl Strategy<Value = String> {
        let leaf = proptest::sample::select(&Schema::BUILT_IN[..]).prop_map(String::from);
        leaf.prop_recursive(4, 32, 3, |inner| {
            let some = proptest::collection::vec(inner.clone(), 1..4);
            prop_oneof![
                inner.clone().prop_map(|of| format!("{of}[]")),
                inner.clone().prop_map(|of| format!("{of}[3]")),
                inner.clone().prop_map(|of| format!("{}?", of.trim_end_matches('?'))),
                (inner.clone(), inner).prop_map(|(key, value)| format!("{{{key}:{value}}}")),
                some.clone().prop_map(|values| format!("({})", values.join(","))),
                some.clone().prop_map(|values| {
                    let fields = values.iter().enumerate().map(|(n, of)| format!("f{n}?:{of}"));
                    format!("a{{{}}}", fields.collect::<Vec<_>>().join(","))
                }),
                some.prop_map(|values| {
                    let variants = values.iter().enumerate().map(|(n, of)| format!("V-{n}({of})|W{n}"));
                    format!("a/b<{}>", variants.collect::<Vec<_>>().join("|"))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_the_grammar_makes_parses_and_prints_the_same(text in schemas()) {
            let schema = text.parse::<Schema>();
            if text.len() <= Schema::TEXT_MAX {
                prop_assert_eq!(schema.unwrap().to_string(), text.clone());
                let full = format!("message/x({text})");
                if let Ok(name) = TypeName::parse(&full) {
                    prop_assert_eq!(name.as_str(), "message/x");
                    prop_assert_eq!(name.full_text(), full);
                }
            }
        }

        #[test]
        fn different_schemas_of_one_name_have_a_difference(one in schemas(), other in schemas()) {
            let named = |of: &str| format!("a{{first:u8,x:{of}}}").parse::<Schema>();
            if let (Ok(one), Ok(other)) = (named(&one), named(&other)) {
                let found = one.difference(&other);
                prop_assert_eq!(found.is_some(), one != other);
                prop_assert!(found.is_none_or(|place| place.starts_with("`a.x")));
            }
        }

        #[test]
        fn arbitrary_texts_never_panic(text in "[a-z0-9{}()<>|:,?\\[\\]]{0,60}") {
            if let Ok(schema) = text.parse::<Schema>() {
                prop_assert_eq!(schema.to_string(), text);
            }
        }
    }
}
