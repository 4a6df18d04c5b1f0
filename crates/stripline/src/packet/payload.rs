//! The payload of a packet: samples as plain memory, or one message in CBOR.
//!
//! A port has one payload type, named by a short text ([`TypeName`]) that both ends compare when
//! they connect. For samples, the type includes the [`Layout`]. On one host samples are never
//! serialised; the bytes are in the machine's representation.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use num_complex::Complex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Derives the [layout](Layout) of a structure, and makes the structure a [`Sample`].
///
/// ```
/// use stripline::Complex;
/// use stripline::Sample;
///
/// #[derive(Clone, Copy, Sample)]
/// #[repr(C)]
/// struct Point { x: f32, y: f32 }
///
/// #[derive(Clone, Copy, Sample)]
/// #[repr(C)]
/// #[sample(name = "radar/track")]
/// struct Track { id: u64, path: [Point; 3], gain: Complex<f32> }
///
/// let text = "radar/track{id:u64,path:point{x:f32,y:f32}[3],gain:cf32}";
/// assert_eq!(Track::layout().map(|layout| layout.to_string()), Some(text.to_string()));
/// ```
///
/// The name is the one in `#[sample(name = "...")]`, or else the structure's name in lower case.
/// The derive also implements [`bytemuck::Pod`] and [`bytemuck::Zeroable`], so do not derive these
/// too. The grammar and limits of the text are in `docs/layouts.md`. A structure beyond the limits
/// causes a panic when a port of the type is made.
///
/// # Types that are not samples
/// The compiler reports the place and the remedy. A structure that leaves the order of fields to
/// the compiler:
///
/// ```compile_fail
/// #[derive(Clone, Copy, stripline::Sample)]
/// struct Detection { level_db: f32 } // error: a sample needs `#[repr(C)]`
/// ```
///
/// a structure with padding:
///
/// ```compile_fail
/// #[derive(Clone, Copy, stripline::Sample)]
/// #[repr(C)]
/// struct Detection { bin: u8, level_db: f32 } // error: `Detection` has padding
/// ```
///
/// a generic structure:
///
/// ```compile_fail
/// #[derive(Clone, Copy, stripline::Sample)]
/// #[repr(C)]
/// struct Detection<T> { level: T } // error: a sample cannot be generic
/// ```
///
/// pointers and references:
///
/// ```compile_fail
/// #[derive(Clone, Copy, stripline::Sample)]
/// #[repr(C)]
/// struct Detection { name: &'static str } // error: a reference points into its own process
/// ```
///
/// types for which some bit patterns are invalid, such as `bool`, `char` and enums:
///
/// ```compile_fail
/// #[derive(Clone, Copy, stripline::Sample)]
/// #[repr(C)]
/// struct Detection { is_new: bool } // error: not every byte is a `bool`: use `u8`
/// ```
///
/// ```compile_fail
/// #[derive(Clone, Copy, stripline::Sample)]
/// #[repr(u8)]
/// enum Kind { Plane = 1, Bird = 2 } // error: an enum cannot be a sample
/// ```
///
/// unions:
///
/// ```compile_fail
/// #[derive(Clone, Copy, stripline::Sample)]
/// #[repr(C)]
/// union Level { db: f32, raw: u32 } // error: only a struct can be a sample
/// ```
///
/// and structures without a layout:
///
/// ```compile_fail
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Level { db: f32 }
///
/// #[derive(Clone, Copy, stripline::Sample)]
/// #[repr(C)]
/// struct Detection { level: Level } // error: `Level` cannot be a field of a sample
/// ```
pub use stripline_macros::Sample;

pub use super::content::{Cbor, Content, Dynamic, NoSchema, Sendable, WithSchema};
pub use super::layout::{BadLayout, Field, Layout, ScalarPlace};
pub use super::message::MessageSchema;
pub use super::message_check::MessageCheck;
pub use super::message_json::message_json;
pub use super::sample_type::{BadSampleType, SampleType};
pub use super::scalar::{Number, Numeric, Scalar, ScalarValue};
#[doc(hidden)]
pub use super::schema::DerivedSchema;
pub use super::schema::Schema;

/// Derives the [schema](Schema) of a structure or an enum, by implementing [`MessageSchema`].
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use stripline::payload::MessageSchema;
///
/// #[derive(Serialize, Deserialize, stripline::Message)]
/// struct Point { x: f32, y: f32 }
///
/// #[derive(Serialize, Deserialize, stripline::Message)]
/// #[serde(rename_all = "kebab-case")]
/// enum Kind { Lost, KeptFor(u32) }
///
/// #[derive(Serialize, Deserialize, stripline::Message)]
/// #[message(name = "radar/detection")]
/// #[serde(rename_all = "camelCase")]
/// struct Detection {
///     range_bin: u32,
///     #[serde(default, skip_serializing_if = "Option::is_none")]
///     note: Option<String>,
///     path: Vec<Point>,
///     kind: Kind,
///     #[serde(skip)]
///     seen: bool,
/// }
///
/// let text = "radar/detection{rangeBin:u32,note?:text?,path:point{x:f32,y:f32}[],\
///             kind:kind<lost|kept-for(u32)>}";
/// assert_eq!(Detection::schema().as_str(), text);
/// ```
///
/// The name is the one in `#[message(name = "...")]`, or else the type's name in lower case. The
/// schema has the names that serde writes. The schema leaves out a field with `skip`, and puts a
/// `?` behind the name of a field with `skip_serializing_if`. The grammar and limits of the text
/// are in `docs/layouts.md`. A type that is beyond the limits or contains itself causes a panic
/// when a port of the type is made.
///
/// # Types without a schema
/// The compiler reports the place and the remedy. A generic type:
///
/// ```compile_fail
/// #[derive(stripline::Message)]
/// struct Detection<T> { level: T } // error: a message with a schema cannot be generic
/// ```
///
/// serde attributes that a schema cannot describe, such as `flatten`, `tag`, `untagged`, `with`,
/// `from`, `into` and `remote`:
///
/// ```compile_fail
/// #[derive(serde::Serialize, stripline::Message)]
/// #[serde(untagged)] // error: a schema cannot describe serde's `untagged`
/// enum Level { Db(f32), Raw(u32) }
/// ```
///
/// and a field of a type without a schema:
///
/// ```compile_fail
/// #[derive(stripline::Message)]
/// struct Detection { at: std::time::Instant } // error: `Instant` has no schema
/// ```
pub use stripline_macros::Message;

/// A sample type: plain memory of a fixed size above 0, with any bit pattern valid. Ports refuse
/// types with an alignment over 16 bytes.
///
/// Implemented for `i8` to `f64` and for [`Complex`] of each. A component may add a plain
/// structure, which then travels as an array without being serialised. Derive it:
///
/// ```
/// use stripline::Sample;
/// use stripline::payload::TypeName;
///
/// #[derive(Clone, Copy, Sample)]
/// #[repr(C)]
/// #[sample(name = "det")]
/// struct Detection { range_bin: u32, doppler_bin: i32, level_db: f32 }
///
/// let text = "det{range_bin:u32,doppler_bin:s32,level_db:f32}";
/// assert_eq!(TypeName::of::<Detection>().full_text(), text);
/// ```
///
/// Both ends of a link compare this [`Layout`] together with the name. So a structure with other
/// fields, or with the same fields in another order, is refused.
///
/// An implementation by hand has no layout unless [`Sample::layout`] returns one. Without a layout,
/// only the name can be compared, so the type is refused between programs that are built
/// differently. `types-without-layout` allows it by name (`docs/layouts.md`).
pub trait Sample: Pod + Send + Sync {
    /// The name that ports compare, at most [`TypeName::LENGTH_MAX`] characters of `a-z 0-9 - / .`.
    const TYPE: &'static str;

    /// Returns the layout of the type in memory; `None` if only the name is compared.
    fn layout() -> Option<Layout> {
        None
    }
}

/// A type that a field of a derived [`Sample`] may have: a built-in sample type, an array, or
/// another derived structure.
///
/// ```
/// use stripline::payload::SampleField;
///
/// let (dimensions, layout) = <[[f32; 2]; 3]>::form();
/// assert_eq!((dimensions, layout.name()), (vec![3, 2], "f32"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a sample",
    note = "a field is u8..u64, i8..i64, f32, f64, Complex of one of these, an array, or a struct that derives `stripline::Sample`"
)]
pub trait SampleField: Pod {
    /// Returns the lengths of the array, outermost first, and the layout of an element. Empty
    /// lengths mean a single element.
    fn form() -> (Vec<usize>, Layout);
}

impl<T: SampleField, const N: usize> SampleField for [T; N] {
    fn form() -> (Vec<usize>, Layout) {
        let (inner, layout) = T::form();
        ([vec![N], inner].concat(), layout)
    }
}

macro_rules! samples {
    ($($type:ty => $name:literal, $complex:literal;)*) => {
        samples!($($type => $name; Complex<$type> => $complex;)*);
    };
    ($($type:ty => $name:literal;)*) => {$(
        impl Sample for $type {
            const TYPE: &'static str = $name;
            fn layout() -> Option<Layout> { Scalar::parse($name).map(Layout::of_scalar) }
        }
        impl SampleField for $type {
            fn form() -> (Vec<usize>, Layout) { (Vec::new(), derived_layout::<$type>()) }
        }
    )*};
}

samples! {
    i8 => "s8", "cs8";
    u8 => "u8", "cu8";
    i16 => "s16", "cs16";
    u16 => "u16", "cu16";
    i32 => "s32", "cs32";
    u32 => "u32", "cu32";
    i64 => "s64", "cs64";
    u64 => "u64", "cu64";
    f32 => "f32", "cf32";
    f64 => "f64", "cf64";
}

/// Returns the layout of a type that has one. For the code generated by
/// `#[derive(stripline::Sample)]`.
#[doc(hidden)]
pub fn derived_layout<T: Sample>() -> Layout {
    match T::layout() {
        Some(layout) => layout,
        None => panic!("{} has no layout", T::TYPE),
    }
}

/// Returns the layout of these fields. For the code generated by `#[derive(stripline::Sample)]`.
///
/// # Panics
/// Panics if the fields break a limit of [`Layout`], which is a mistake in the program.
#[doc(hidden)]
pub fn layout_of_fields<const N: usize>(name: &str, fields: [(&str, (Vec<usize>, Layout)); N]) -> Layout {
    let fields = fields.into_iter().map(|(field, (dimensions, layout))| (field, dimensions, layout));
    match Layout::of_fields(name, fields) {
        Ok(layout) => layout,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the size in bytes and complexness of a built-in sample type, or `None` for any other
/// type name.
///
/// ```
/// assert_eq!(stripline::payload::builtin("cf32"), Some((8, true)));
/// assert_eq!(stripline::payload::builtin("detection"), None);
/// ```
pub fn builtin(name: &str) -> Option<(usize, bool)> {
    Scalar::parse(name).map(|scalar| (scalar.size(), scalar.is_complex()))
}

/// The name of a payload type: 1 to 64 characters of `a-z 0-9 - / .`. The [`Layout`] of a sample or
/// the [`Schema`] of a message belongs to it, if there is one. Two types are equal if the names are
/// and the layouts or schemas are.
///
/// ```
/// use stripline::payload::TypeName;
///
/// assert_eq!(TypeName::of::<num_complex::Complex<f32>>().as_str(), "cf32");
/// assert!(TypeName::new("no spaces").is_err());
///
/// let det = TypeName::parse("det{range_bin:u32,level_db:f32}")?;
/// assert_eq!((det.as_str(), det.layout().map(|layout| layout.size())), ("det", Some(8)));
/// assert_ne!(det, TypeName::parse("det{level_db:f32,range_bin:u32}")?);
/// # Ok::<(), stripline::payload::BadLayout>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TypeName {
    /// The name, or the text of the layout or schema, which begins with the name.
    text: String,
    layout: Option<Arc<Layout>>,
}

impl TypeName {
    /// The longest name, in bytes.
    pub const LENGTH_MAX: usize = 64;
    /// The characters that end the name and begin a layout or schema.
    const BRACKETS: [char; 3] = ['{', '(', '<'];

    /// Checks a name.
    ///
    /// # Errors
    /// The offending name, if it is empty, too long or has another character.
    pub fn new(name: impl Into<String>) -> Result<Self, BadTypeName> {
        let name = name.into();
        let fits = !name.is_empty()
            && name.len() <= Self::LENGTH_MAX
            && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'/' | b'.'));
        if !fits {
            return Err(BadTypeName(name.chars().take(80).collect()));
        }
        let layout = Scalar::parse(&name).map(|scalar| Arc::new(Layout::of_scalar(scalar)));
        Ok(Self { text: name, layout })
    }

    /// The beginning of every name of a message type.
    const MESSAGE: &'static str = "message/";
    /// The name of messages without a schema on a topic.
    const ANY_MESSAGE: &'static str = "message/cbor";

    /// Returns the name of messages without a schema.
    pub(crate) fn any_message() -> Self {
        Self { text: Self::ANY_MESSAGE.into(), layout: None }
    }

    /// Parses a name, or the text of a layout or of a message's schema.
    ///
    /// # Errors
    /// The problem with the text, and the byte where it is.
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// assert_eq!(TypeName::parse("det{range_bin:u32}").expect("a layout").as_str(), "det");
    /// assert_eq!(TypeName::parse("detection").expect("a name").layout(), None);
    /// assert!(TypeName::parse("det{range_bin:i32}").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, BadLayout> {
        match (text.strip_prefix(Self::MESSAGE), text.contains(Self::BRACKETS)) {
            (Some(schema), true) => Self::of_schema(&schema.parse()?).ok_or_else(|| {
                BadLayout::of_schema(schema, 0, "a name must be here, as `detection{`".into())
            }),
            (None, true) => text.parse::<Layout>().map(Self::from),
            (_, false) => Self::new(text).map_err(|error| BadLayout::new(text, None, error.to_string())),
        }
    }

    /// Returns the message type of a schema, if the schema has a name.
    fn of_schema(schema: &Schema) -> Option<Self> {
        schema.name()?;
        Some(Self { text: format!("{}{schema}", Self::MESSAGE), layout: None })
    }

    /// Returns the name of a message type, with the schema. A type that has no name, such as a
    /// number or a tuple, is called `cbor`.
    ///
    /// # Panics
    /// Panics if the schema breaks a limit or the type contains itself, which is a mistake in the
    /// program.
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// let name = TypeName::of_message::<(String, u32)>();
    /// assert_eq!(name.full_text(), "message/cbor((text,u32))");
    /// ```
    pub fn of_message<M: MessageSchema>() -> Self {
        let schema = M::schema();
        let named = Self::of_schema(&schema);
        named.unwrap_or_else(|| match Self::parse(&format!("{}({schema})", Self::ANY_MESSAGE)) {
            Ok(name) => name,
            Err(error) => panic!("{error}"),
        })
    }

    /// Returns the name of a sample type.
    ///
    /// # Panics
    /// Panics if the type's [`Sample::TYPE`] breaks the rules above, or if [`Sample::layout`] has
    /// another name or size. The mistake is in the program, not in the input.
    pub fn of<T: Sample>() -> Self {
        match Self::checked::<T>() {
            Ok(name) => name,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the name of a sample type, or the mistake in it.
    pub(crate) fn checked<T: Sample>() -> Result<Self, String> {
        let name = Self::new(T::TYPE).map_err(|error| error.to_string())?;
        let Some(layout) = T::layout() else { return Ok(name) };
        layout.check_size(size_of::<T>()).map_err(|error| error.to_string())?;
        if layout.name() != T::TYPE {
            return Err(format!("the type `{}` has a layout of another name, `{layout}`", T::TYPE));
        }
        Ok(Self::from(layout))
    }

    /// Returns the name of a message type: `message/` and the given name.
    ///
    /// # Errors
    /// Same as [`TypeName::new`].
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// assert_eq!(TypeName::message("tune").unwrap().as_str(), "message/tune");
    /// ```
    pub fn message(name: &str) -> Result<Self, BadTypeName> {
        Self::new(format!("message/{name}"))
    }

    /// Returns the name as text, without the layout or the schema.
    pub fn as_str(&self) -> &str {
        self.text.split(Self::BRACKETS).next().unwrap_or_default()
    }

    /// Returns the text that both ends of a link compare: the layout or the schema, or the name
    /// alone.
    pub fn full_text(&self) -> &str {
        &self.text
    }

    /// Returns the layout of a sample; `None` for a message, and for a type that was implemented
    /// without a layout.
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_deref()
    }

    /// Returns the schema of a message; `None` for a sample, and for a message without a schema.
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// let tune = TypeName::parse("message/tune{hz:f64}")?;
    /// assert_eq!(tune.as_str(), "message/tune");
    /// assert_eq!(tune.schema().expect("a schema").as_str(), "tune{hz:f64}");
    /// assert_eq!(TypeName::parse("message/tune")?.schema(), None);
    /// # Ok::<(), stripline::payload::BadLayout>(())
    /// ```
    pub fn schema(&self) -> Option<Schema> {
        let text = self.text.strip_prefix(Self::MESSAGE).filter(|_| self.has_schema());
        text.and_then(|text| text.parse().ok())
    }

    /// Returns whether this is only a name: of a sample without a layout, or of a message without a
    /// schema.
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// let is_alone = |text| TypeName::parse(text).is_ok_and(|name| name.is_name_alone());
    /// assert!(is_alone("det") && is_alone("message/tune"));
    /// assert!(!is_alone("f32") && !is_alone("det{a:u32}") && !is_alone("message/tune{hz:f64}"));
    /// ```
    pub fn is_name_alone(&self) -> bool {
        self.layout.is_none() && !self.has_schema()
    }

    /// Returns whether this is a message type, with or without a schema.
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// let is_message = |text| TypeName::parse(text).is_ok_and(|name| name.is_message());
    /// assert!(is_message("message/cbor") && is_message("message/tune{hz:f64}") && !is_message("f32"));
    /// ```
    pub fn is_message(&self) -> bool {
        self.text.len() > Self::MESSAGE.len() && self.text.starts_with(Self::MESSAGE)
    }

    fn has_schema(&self) -> bool {
        self.text.starts_with(Self::MESSAGE) && self.text.contains(Self::BRACKETS)
    }

    /// Returns whether a link may join two ports of these types. The types must be equal, or one
    /// type must be a message type without a schema. In the second case, the names must be equal,
    /// or the type without a schema must be `message/cbor`, the type of a topic's messages.
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// let [bare, any, hz, mhz] =
    ///     ["message/tune", "message/cbor", "message/tune{hz:f64}", "message/tune{mhz:f64}"]
    ///         .map(|text| TypeName::parse(text).expect("a type"));
    /// assert!(hz.fits(&hz) && hz.fits(&bare) && bare.fits(&hz) && any.fits(&hz));
    /// assert!(!hz.fits(&mhz) && !bare.fits(&any));
    /// ```
    pub fn fits(&self, other: &Self) -> bool {
        let is_open = |bare: &Self, with: &Self| {
            let is_name = bare.text == with.as_str() || bare.text == Self::ANY_MESSAGE;
            with.has_schema() && is_name
        };
        self == other || is_open(self, other) || is_open(other, self)
    }
}

impl TypeName {
    /// Returns the size in bytes of a sample of a built-in type, or of a type with a layout.
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// assert_eq!(TypeName::new("cf32")?.sample_bytes(), Some(8));
    /// assert_eq!(TypeName::new("det")?.sample_bytes(), None);
    /// # Ok::<(), stripline::payload::BadTypeName>(())
    /// ```
    pub fn sample_bytes(&self) -> Option<usize> {
        let of_layout = self.layout().map(Layout::size);
        of_layout.or_else(|| Scalar::parse(self.as_str()).map(Scalar::size))
    }

    /// Returns whether this is a sample type that was implemented without a layout, so that only
    /// the name is compared.
    pub fn is_without_layout(&self) -> bool {
        let marks = ["message/", "stripline/"];
        self.layout.is_none() && !marks.iter().any(|mark| self.text.starts_with(mark))
    }

    /// Parses the name of a sample type without a layout, as used in `types-without-layout`.
    ///
    /// # Errors
    /// The problem with the text, and the remedy: it is not a name, has a layout, or is not a type
    /// of samples.
    ///
    /// ```
    /// use stripline::payload::TypeName;
    ///
    /// assert_eq!(TypeName::without_layout("det").expect("a name").as_str(), "det");
    /// assert_eq!(TypeName::without_layout("f32").unwrap_err(), "`f32` has a layout; leave it out");
    /// ```
    pub fn without_layout(text: &str) -> Result<Self, String> {
        let name = Self::new(text).map_err(|BadTypeName(text)| {
            format!(
                "`{text}` is not a valid payload type name; use 1 to 64 characters of a-z, 0-9, `-`, `/`, `.`"
            )
        })?;
        match (name.layout(), name.is_without_layout()) {
            (Some(_), _) => Err(format!("`{name}` has a layout; leave it out")),
            (None, false) => Err(format!("`{name}` is not a type of samples; leave it out")),
            (None, true) => Ok(name),
        }
    }

    /// Returns the text for a refusal: the full text, and a note if there is no layout.
    pub(crate) fn text_for_refusals(&self) -> String {
        let note = if self.is_without_layout() { " (no layout)" } else { "" };
        format!("{}{note}", self.text)
    }
}

impl From<Layout> for TypeName {
    fn from(layout: Layout) -> Self {
        Self { text: layout.to_string(), layout: Some(Arc::new(layout)) }
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<String> for TypeName {
    type Error = BadLayout;
    fn try_from(text: String) -> Result<Self, BadLayout> {
        Self::parse(&text)
    }
}

impl From<TypeName> for String {
    fn from(name: TypeName) -> String {
        name.text
    }
}

/// An error: a text that is not a valid [`TypeName`]. The error has the first 80 characters.
///
/// ```
/// use stripline::payload::{BadTypeName, TypeName};
///
/// assert_eq!(TypeName::new("Cf32"), Err(BadTypeName("Cf32".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTypeName(pub String);

impl fmt::Display for BadTypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a valid payload type name: use 1 to 64 characters of a-z, 0-9, `-`, `/`, `.`",
            self.0
        )
    }
}

impl std::error::Error for BadTypeName {}

impl From<BadTypeName> for Error {
    fn from(bad: BadTypeName) -> Self {
        Self::InvalidArgument(bad.to_string())
    }
}

/// The nesting limit of a message. Deeper nesting is refused before the stack runs out.
pub(super) const NESTING_MAX: usize = 128;

/// Decodes a message (CBOR, RFC 8949) as a value of any serde type. For programs with raw messages
/// and calls.
///
/// # Errors
/// A description of the problem with the message. Nesting of more than 128 levels and trailing
/// bytes are errors too.
///
/// ```
/// use stripline::payload::decode_message;
///
/// assert_eq!(decode_message(&[0x82, 0x01, 0x02]), Ok((1, 2)));
/// assert!(decode_message::<u32>(&[0x01, 0x02]).unwrap_err().contains("1 bytes follow"));
/// ```
pub fn decode_message<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, String> {
    let mut rest = bytes;
    let value = from_cbor(&mut rest)?;
    if rest.is_empty() { Ok(value) } else { Err(format!("{} bytes follow the message", rest.len())) }
}

/// Takes the first CBOR value off the bytes.
///
/// # Errors
/// A description of the problem with the bytes.
pub(crate) fn from_cbor<M: DeserializeOwned>(bytes: &mut &[u8]) -> Result<M, String> {
    use ciborium::de::Error;
    ciborium::de::from_reader_with_recursion_limit(bytes, NESTING_MAX).map_err(|error| match error {
        Error::Io(_) => "it ends early".into(),
        Error::Syntax(at) => format!("it is not CBOR (RFC 8949) at byte {at}"),
        Error::Semantic(_, reason) => reason,
        Error::RecursionLimitExceeded => format!("it is nested more than {NESTING_MAX} deep"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_name_is_valid_and_its_size_known() {
        assert_eq!(builtin(<Complex<i16> as Sample>::TYPE), Some((4, true)));
        assert_eq!(builtin(<f64 as Sample>::TYPE), Some((8, false)));
        assert_eq!(builtin(TypeName::of::<Complex<f64>>().as_str()), Some((16, true)));
        assert_eq!(TypeName::of::<Complex<f64>>().layout().map(Layout::size), Some(16));
        assert_eq!(TypeName::of::<Complex<f64>>(), TypeName::new("cf64").unwrap());
    }

    #[test]
    fn a_name_and_a_layout_of_that_name_differ() {
        let [bare, with] = ["det", "det{a:u32}"].map(|text| TypeName::parse(text).unwrap());
        assert_ne!(bare, with);
        assert_eq!((bare.as_str(), bare.full_text()), ("det", "det"));
        assert!(bare.is_without_layout() && !with.is_without_layout());
        assert!(!TypeName::of::<f32>().is_without_layout());
        assert!(!TypeName::message("tune").unwrap().is_without_layout());
        assert_eq!((with.as_str(), with.full_text(), with.to_string()), ("det", "det{a:u32}", "det".into()));
        let json = serde_json::to_string(&with).unwrap();
        assert_eq!(json, "\"det{a:u32}\"");
        assert_eq!(serde_json::from_str::<TypeName>(&json).unwrap(), with);
        let error = serde_json::from_str::<TypeName>("\"det{a:x}\"").unwrap_err().to_string();
        assert!(error.contains("at byte 6") && error.contains("`x` is not a built-in type"), "{error}");
    }

    #[test]
    fn a_layout_with_a_wrong_size_or_name_is_a_mistake() {
        #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(C)]
        struct Wide([u32; 4]);
        impl Sample for Wide {
            const TYPE: &'static str = "wide";
            fn layout() -> Option<Layout> {
                "wide{a:u32[3]}".parse().ok()
            }
        }
        assert!(TypeName::checked::<Wide>().unwrap_err().contains("it has 12 bytes, and the type 16"));

        #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(C)]
        struct Misnamed(u32);
        impl Sample for Misnamed {
            const TYPE: &'static str = "misnamed";
            fn layout() -> Option<Layout> {
                "other{a:u32}".parse().ok()
            }
        }
        assert!(TypeName::checked::<Misnamed>().unwrap_err().contains("another name, `other{a:u32}`"));
    }

    #[test]
    fn bad_names_are_refused() {
        for bad in ["", "Cf32", "a b", &"x".repeat(65)] {
            assert!(TypeName::new(bad).is_err(), "{bad}");
        }
    }
}
