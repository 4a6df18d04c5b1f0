//! The check of a message against its schema: one walk over the CBOR, without an allocation unless
//! the message is refused.

use std::fmt;

use super::payload::{NESTING_MAX, Schema};

/// The check of messages against a [`Schema`].
///
/// A publisher of [`Dynamic`](crate::payload::Dynamic) messages with a schema makes it for each message. A
/// program can make it before that, or for messages that it has received.
///
/// ```
/// use stripline::payload::{MessageCheck, Schema};
///
/// let schema: Schema = "detection{a:f64,note:text?}".parse()?;
/// let check = MessageCheck::new(&schema);
/// let refused = check.check(b"\xa1\x64note\xf6").unwrap_err();
/// assert_eq!(refused, "`detection.a`: a float is missing");
/// assert!(check.check(b"\xa2\x64note\xf6\x61a\xf9\x3c\x00").is_ok());
/// # Ok::<(), stripline::payload::BadLayout>(())
/// ```
#[derive(Debug)]
pub struct MessageCheck {
    name: Box<str>,
    form: Form,
}

/// The form of a value: a schema that was parsed.
#[derive(Debug)]
pub(super) enum Form {
    /// A whole number from 0, of that many bits.
    Unsigned(u32),
    /// A whole number of that many bits.
    Signed(u32),
    Float,
    Bool,
    Text,
    Bytes,
    Null,
    Any,
    Optional(Box<Form>),
    List(Box<Form>, Option<usize>),
    Tuple(Vec<Form>),
    Map(Box<(Form, Form)>),
    Fields(Vec<FieldForm>),
    Variants(Vec<VariantForm>),
}

#[derive(Debug)]
pub(super) struct FieldForm {
    pub name: Box<str>,
    may_be_missing: bool,
    form: Form,
    /// The name in CBOR, as most messages have it.
    key: Box<[u8]>,
}

impl FieldForm {
    pub(super) fn new(name: &str, may_be_missing: bool, form: Form) -> Self {
        // A name has at most 64 bytes.
        let length = name.len() as u8;
        let head = if length < 24 { vec![0x60 | length] } else { vec![0x78, length] };
        let key = [&head, name.as_bytes()].concat().into();
        Self { name: name.into(), may_be_missing, form, key }
    }
}

#[derive(Debug)]
pub(super) struct VariantForm {
    pub name: Box<str>,
    pub content: Option<Form>,
}

impl Form {
    /// Returns the form of a built-in kind.
    pub(super) fn built_in(name: &str) -> Self {
        let bits = || name[1..].parse().unwrap_or(64);
        match name {
            "f32" | "f64" => Self::Float,
            "bool" => Self::Bool,
            "text" => Self::Text,
            "bytes" => Self::Bytes,
            "null" => Self::Null,
            "any" => Self::Any,
            _ if name.starts_with('u') => Self::Unsigned(bits()),
            _ => Self::Signed(bits()),
        }
    }

    /// Returns the form of a structure of values: null, the value itself, or an array.
    pub(super) fn of_values(mut values: Vec<Self>) -> Self {
        match values.len() {
            0 => Self::Null,
            1 => values.remove(0),
            _ => Self::Tuple(values),
        }
    }

    /// Returns the highest number of whole numbers.
    fn highest(bits: u32) -> u64 {
        u64::MAX >> (64 - bits)
    }
}

/// Describes a value as in "a float is missing".
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Unsigned(bits) => return write!(f, "a whole number from 0 to {}", Self::highest(*bits)),
            Self::Signed(bits) => {
                let highest = Self::highest(*bits - 1);
                return write!(f, "a whole number from -{} to {highest}", u128::from(highest) + 1);
            }
            Self::List(_, Some(length)) => return write!(f, "a list of {length}"),
            Self::Tuple(values) => return write!(f, "a list of {}", values.len()),
            Self::Optional(form) => return write!(f, "{form}, or null,"),
            Self::Float => "a float",
            Self::Bool => "a boolean",
            Self::Text => "text",
            Self::Bytes => "a byte string",
            Self::Null => "null",
            Self::Any => "a value",
            Self::List(..) => "a list",
            Self::Map(_) => "a map",
            Self::Fields(_) => "a structure",
            Self::Variants(_) => "a variant",
        };
        f.write_str(words)
    }
}

impl MessageCheck {
    /// Makes the check of a schema.
    pub fn new(schema: &Schema) -> Self {
        let name = schema.name().filter(|name| *name != "cbor").unwrap_or("message");
        Self { name: name.into(), form: schema.form() }
    }

    /// Checks a message in CBOR.
    ///
    /// # Errors
    /// The first mistake, with the place in the message.
    pub fn check(&self, message: &[u8]) -> Result<(), String> {
        self.walk(message, None)
    }

    /// Checks a message, and returns it with floats in place of whole numbers where the schema has
    /// floats. For languages in which a whole number is also a float.
    ///
    /// # Errors
    /// The first mistake, with the place in the message.
    ///
    /// ```
    /// use stripline::payload::{MessageCheck, Schema};
    ///
    /// let check = MessageCheck::new(&"f64[]".parse::<Schema>()?);
    /// assert_eq!(check.with_floats(&[0x81, 0x02]).as_deref(), Ok(&b"\x81\xfb\x40\0\0\0\0\0\0\0"[..]));
    /// # Ok::<(), stripline::payload::BadLayout>(())
    /// ```
    pub fn with_floats(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let mut floats = Floats { made: Vec::with_capacity(message.len() + 64), copied: 0 };
        self.walk(message, Some(&mut floats))?;
        floats.made.extend_from_slice(&message[floats.copied..]);
        Ok(floats.made)
    }

    fn walk(&self, message: &[u8], floats: Option<&mut Floats>) -> Result<(), String> {
        let mut walk = Walk { bytes: message, at: 0, depth: 0, floats };
        let walked = walk.value(&self.form).and_then(|()| match message.len() - walk.at {
            0 => Ok(()),
            more => Wrong::of(format!("{more} bytes follow the message")),
        });
        walked.map_err(|problem| {
            let steps: String = problem.0.steps.iter().rev().map(String::as_str).collect();
            format!("`{}{steps}`: {}", self.name, problem.0.text)
        })
    }
}

/// The copy of a message with floats in place of whole numbers.
struct Floats {
    made: Vec<u8>,
    /// The number of bytes of the message that were copied.
    copied: usize,
}

/// A mistake in a message, boxed because few messages have one.
#[derive(Debug)]
struct Wrong(Box<Mistake>);

#[derive(Debug)]
struct Mistake {
    /// The path to the value, from the inside out.
    steps: Vec<String>,
    text: String,
}

impl Wrong {
    #[cold]
    fn of<T>(text: impl Into<String>) -> Result<T, Self> {
        Err(Self(Box::new(Mistake { steps: Vec::new(), text: text.into() })))
    }

    #[cold]
    fn within(mut self, step: String) -> Self {
        self.0.steps.push(step);
        self
    }
}

/// The beginning of a value.
#[derive(Clone, Copy)]
struct Head {
    /// The kind of CBOR, from 0 to 7.
    major: u8,
    /// The number, or the length; `None`: the length is open.
    argument: Option<u64>,
    /// The lowest five bits of the first byte.
    low: u8,
}

impl Head {
    const BREAK: u8 = 0xff;

    fn is_null(self) -> bool {
        self.major == 7 && matches!(self.low, 22 | 23)
    }

    /// Describes the value as in "not text".
    fn words(self) -> &'static str {
        match (self.major, self.low) {
            (0 | 1, _) => "a whole number",
            (2, _) => "a byte string",
            (3, _) => "text",
            (4, _) => "a list",
            (5, _) => "a map",
            (7, 20 | 21) => "a boolean",
            (7, 22 | 23) => "null",
            (7, 25..=27) => "a float",
            _ => "a value of another kind",
        }
    }
}

/// The place in a message up to which it is checked.
struct Walk<'b, 'f> {
    bytes: &'b [u8],
    at: usize,
    depth: usize,
    floats: Option<&'f mut Floats>,
}

impl<'b> Walk<'b, '_> {
    /// Checks the next value.
    fn value(&mut self, form: &Form) -> Result<(), Wrong> {
        match form {
            Form::Any => return self.skip(),
            Form::Optional(form) => {
                let at = self.at;
                if self.head()?.is_null() {
                    return Ok(());
                }
                self.at = at;
                return self.value(form);
            }
            _ => {}
        }
        let start = self.at;
        let head = self.head()?;
        let fits = match (form, head) {
            (Form::Unsigned(bits), Head { major: 0, argument: Some(number), .. }) => {
                number <= Form::highest(*bits) || return self.beyond(form, head)
            }
            (Form::Signed(bits), Head { major: 0 | 1, argument: Some(number), .. }) => {
                number <= Form::highest(*bits - 1) || return self.beyond(form, head)
            }
            (Form::Unsigned(_), Head { major: 1, .. }) => return self.beyond(form, head),
            (Form::Float, Head { major: 7, low: 25..=27, .. }) => true,
            (Form::Float, Head { major: 0 | 1, argument: Some(number), .. }) => {
                return self.whole_float(start, head.major == 1, number);
            }
            (Form::Bool, Head { major: 7, low: 20 | 21, .. }) => true,
            (Form::Null, head) => head.is_null(),
            (Form::Text, Head { major: 3, .. }) | (Form::Bytes, Head { major: 2, .. }) => {
                return self.string(head);
            }
            (Form::List(item, length), Head { major: 4, .. }) => {
                return self.list(head, form, *length, |_| Some(&**item));
            }
            (Form::Tuple(values), Head { major: 4, .. }) => {
                return self.list(head, form, Some(values.len()), |index| values.get(index));
            }
            (Form::Map(entry), Head { major: 5, .. }) => return self.map(head, entry),
            (Form::Fields(fields), Head { major: 5, .. }) => return self.fields(head, fields),
            (Form::Variants(variants), Head { major: 3 | 5, .. }) => return self.variant(head, variants),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        // The tags of CBOR for whole numbers in byte strings.
        let is_big = matches!(self.bytes[start], 0xc2 | 0xc3);
        let words = if is_big { "a whole number beyond 64 bits" } else { head.words() };
        Wrong::of(format!("{form} must be here, not {words}"))
    }

    #[cold]
    fn beyond(&self, form: &Form, head: Head) -> Result<(), Wrong> {
        let number = i128::from(head.argument.unwrap_or(0));
        let number = if head.major == 1 { -1 - number } else { number };
        Wrong::of(format!("{form} must be here, not {number}"))
    }

    /// Replaces a whole number by a float, if the caller wants it.
    #[cold]
    fn whole_float(&mut self, start: usize, is_negative: bool, number: u64) -> Result<(), Wrong> {
        let exact = if is_negative { -1 - i128::from(number) } else { i128::from(number) };
        let float = exact as f64;
        match &mut self.floats {
            Some(floats) if float as i128 == exact => {
                floats.made.extend_from_slice(&self.bytes[floats.copied..start]);
                floats.made.push(0xfb);
                floats.made.extend_from_slice(&float.to_be_bytes());
                floats.copied = self.at;
                Ok(())
            }
            _ => Wrong::of(format!("a float must be here, as {exact}.0, not the whole number {exact}")),
        }
    }

    /// Enters a value with other values in it.
    fn nested(&mut self, inside: impl FnOnce(&mut Self) -> Result<(), Wrong>) -> Result<(), Wrong> {
        if self.depth == NESTING_MAX {
            return Wrong::of(format!("the message is nested more than {NESTING_MAX} deep"));
        }
        self.depth += 1;
        inside(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn list<'a>(
        &mut self,
        head: Head,
        form: &Form,
        length: Option<usize>,
        item: impl Fn(usize) -> Option<&'a Form>,
    ) -> Result<(), Wrong> {
        let wrong = |found: &dyn fmt::Display| Wrong::of(format!("{form} must be here, not {found}"));
        if let (Some(length), Some(found)) = (length, head.argument)
            && found != length as u64
        {
            return wrong(&found);
        }
        let mut count = 0usize;
        self.nested(|walk| {
            while walk.goes_on(head, count)? {
                let Some(item) = item(count).filter(|_| length.is_none_or(|length| count < length)) else {
                    return wrong(&"a longer one");
                };
                walk.value(item).map_err(|problem| problem.within(format!("[{count}]")))?;
                count += 1;
            }
            Ok(())
        })?;
        if length.is_some_and(|length| count != length) { wrong(&count) } else { Ok(()) }
    }

    fn map(&mut self, head: Head, (key, value): &(Form, Form)) -> Result<(), Wrong> {
        let mut count = 0;
        self.nested(|walk| {
            while walk.goes_on(head, count)? {
                let start = walk.at;
                walk.value(key).map_err(|problem| problem.within(".a key".into()))?;
                let end = walk.at;
                walk.value(value).map_err(|problem| problem.within(walk.key_step(start, end)))?;
                count += 1;
            }
            Ok(())
        })
    }

    /// Returns the step to the value of a key in the path.
    #[cold]
    fn key_step(&self, start: usize, end: usize) -> String {
        match super::payload::message_json(&self.bytes[start..end]) {
            Ok(key) => format!("[{key}]"),
            Err(_) => "[…]".into(),
        }
    }

    fn fields(&mut self, head: Head, fields: &[FieldForm]) -> Result<(), Wrong> {
        const WORDS: usize = Schema::FIELDS_MAX.div_ceil(64);
        let mut seen = [0u64; WORDS];
        let (mut next, mut count) = (0, 0);
        self.nested(|walk| {
            while walk.goes_on(head, count)? {
                // Most messages have the fields in the order of the schema.
                let rest = &walk.bytes[walk.at..];
                let index = match fields.get(next).filter(|field| rest.starts_with(&field.key)) {
                    Some(field) => {
                        walk.at += field.key.len();
                        next
                    }
                    None => walk.find(fields)?,
                };
                let (word, bit) = (&mut seen[index / 64], 1u64 << (index % 64));
                if *word & bit != 0 {
                    return Wrong::of(format!("the field `{}` is there twice", fields[index].name));
                }
                *word |= bit;
                next = index + 1;
                let FieldForm { name, form, .. } = &fields[index];
                walk.value(form).map_err(|problem| problem.within(format!(".{name}")))?;
                count += 1;
            }
            Ok(())
        })?;
        if count == fields.len() {
            return Ok(());
        }
        let is_missing = |index: usize| seen[index / 64] & (1 << (index % 64)) == 0;
        let mut numbered = fields.iter().enumerate();
        match numbered.find(|(index, field)| is_missing(*index) && !field.may_be_missing) {
            Some((_, field)) => missing(field),
            None => Ok(()),
        }
    }

    /// Reads the name of a field, and returns the number of the field.
    #[inline(never)]
    fn find(&mut self, fields: &[FieldForm]) -> Result<usize, Wrong> {
        let head = self.head()?;
        let name = self.name(head)?;
        let found = fields.iter().position(|field| *field.name == *name);
        found.map_or_else(|| Wrong::of(format!("the schema has no field `{}`", cut(name))), Ok)
    }

    fn variant(&mut self, head: Head, variants: &[VariantForm]) -> Result<(), Wrong> {
        let has_content = head.major == 5;
        let name = if has_content {
            if !self.goes_on(head, 0)? {
                return Wrong::of("a variant must be here, not an empty map");
            }
            self.head()?
        } else {
            head
        };
        let name = self.name(name)?;
        let Some(variant) = variants.iter().find(|variant| *variant.name == *name) else {
            let known: Vec<String> = variants.iter().map(|variant| format!("`{}`", variant.name)).collect();
            let (name, known) = (cut(name), known.join(", "));
            return Wrong::of(format!("the schema has no variant `{name}`, but {known}"));
        };
        match (&variant.content, has_content) {
            (None, false) => Ok(()),
            (None, true) => Wrong::of(format!("the variant `{name}` has no content")),
            (Some(content), false) => Wrong::of(format!("the variant `{name}` needs content: {content}")),
            (Some(content), true) => self.nested(|walk| {
                walk.value(content).map_err(|problem| problem.within(format!(".{}", variant.name)))?;
                if walk.goes_on(head, 1)? {
                    return Wrong::of(format!("only the variant `{name}` must be here, not a second one"));
                }
                Ok(())
            }),
        }
    }

    /// Skips a value of any kind.
    fn skip(&mut self) -> Result<(), Wrong> {
        let head = self.head()?;
        match head.major {
            2 | 3 => self.string(head),
            major @ (4 | 5) => self.nested(|walk| {
                let mut count = 0;
                while walk.goes_on(head, count)? {
                    (0..major - 3).try_for_each(|_| walk.skip())?;
                    count += 1;
                }
                Ok(())
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether another item follows in a list or a map.
    fn goes_on(&mut self, head: Head, count: usize) -> Result<bool, Wrong> {
        match head.argument {
            Some(length) => Ok((count as u64) < length),
            None if self.bytes.get(self.at) == Some(&Head::BREAK) => {
                self.at += 1;
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// Reads the beginning of a value. Tags before it are left out.
    #[inline]
    fn head(&mut self) -> Result<Head, Wrong> {
        loop {
            let head = self.any_head()?;
            if head.major != 6 {
                return Ok(head);
            }
        }
    }

    #[inline]
    fn any_head(&mut self) -> Result<Head, Wrong> {
        let Some(&first) = self.bytes.get(self.at) else { return Self::early() };
        self.at += 1;
        let (major, low) = (first >> 5, first & 0x1f);
        let argument = match low {
            0..=23 => Some(u64::from(low)),
            24 => Some(u64::from(self.fixed::<1>()?[0])),
            25 => Some(u64::from(u16::from_be_bytes(self.fixed()?))),
            26 => Some(u64::from(u32::from_be_bytes(self.fixed()?))),
            27 => Some(u64::from_be_bytes(self.fixed()?)),
            31 if matches!(major, 2..=5) => None,
            _ => return Wrong::of(format!("the message is not CBOR (RFC 8949) at byte {}", self.at - 1)),
        };
        Ok(Head { major, argument, low })
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let found = self.bytes[self.at..].first_chunk::<N>();
        self.at += N;
        found.map_or_else(Self::early, |bytes| Ok(*bytes))
    }

    #[cold]
    fn early<T>() -> Result<T, Wrong> {
        Wrong::of("the message ends early")
    }

    /// Reads the rest of a byte string or a text, in one or several parts.
    fn string(&mut self, head: Head) -> Result<(), Wrong> {
        if head.argument.is_some() {
            return self.part(head).map(drop);
        }
        while self.goes_on(head, 0)? {
            let part = self.any_head()?;
            if part.major != head.major || part.argument.is_none() {
                return Wrong::of(format!("{} in parts has a part of another kind", head.words()));
            }
            self.part(part)?;
        }
        Ok(())
    }

    /// Reads the rest of a byte string or a text in one part. Returns the text.
    fn part(&mut self, head: Head) -> Result<&'b str, Wrong> {
        let length = head.argument.and_then(|length| usize::try_from(length).ok());
        let Some(bytes) = length.and_then(|length| self.bytes[self.at..].get(..length)) else {
            return Self::early();
        };
        self.at += bytes.len();
        if head.major == 2 {
            return Ok("");
        }
        std::str::from_utf8(bytes).or_else(|_| Wrong::of("the text is not UTF-8"))
    }

    /// Reads the rest of the name of a field or a variant.
    fn name(&mut self, head: Head) -> Result<&'b str, Wrong> {
        if head.major != 3 || head.argument.is_none() {
            return Wrong::of(format!("a name must be text in one part, not {}", head.words()));
        }
        self.part(head)
    }
}

/// Shortens a name that is not one of the schema.
fn cut(name: &str) -> String {
    name.chars().take(80).collect()
}

#[cold]
fn missing(field: &FieldForm) -> Result<(), Wrong> {
    Wrong::of(format!("{} is missing", field.form))
        .map_err(|problem| problem.within(format!(".{}", field.name)))
}
