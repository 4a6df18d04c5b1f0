//! The layout of a sample in memory, and the text of a layout, for example
//! `det{range_bin:u32,level_db:f32}`.
//!
//! `docs/layouts.md` has the grammar. A [`Layout`] cannot be invalid: offsets and sizes follow from
//! the fields and are not part of the text.

use std::fmt;

use super::payload::TypeName;
use super::scalar::{Scalar, ScalarValue};
use crate::error::Error;

/// The layout of a sample: a built-in number, or consecutive named fields without padding.
///
/// The layout has the names, offsets, kinds and counts that a program needs to print, record or
/// plot samples of a type that is unknown to it at compile time.
///
/// ```
/// use stripline::payload::Layout;
///
/// let layout: Layout = "det{range_bin:u32,doppler_bin:s32,level_db:f32}".parse()?;
/// assert_eq!((layout.name(), layout.size()), ("det", 12));
/// let level = &layout.fields()[2];
/// assert_eq!((level.name(), level.offset(), level.layout().name()), ("level_db", 8, "f32"));
///
/// let bytes = [7u32.to_le_bytes(), (-3i32).to_le_bytes(), 12.5f32.to_le_bytes()].concat();
/// let mut texts = Vec::new();
/// for sample in layout.samples(&bytes).expect("whole samples") {
///     for place in layout.scalars() {
///         texts.push(format!("{}={}", place.path, place.read(sample).expect("within the sample")));
///     }
/// }
/// assert_eq!(texts, ["range_bin=7", "doppler_bin=-3", "level_db=12.5"]);
/// # Ok::<(), stripline::payload::BadLayout>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout {
    name: String,
    /// The number of a built-in type, which has no fields.
    scalar: Option<Scalar>,
    fields: Vec<Field>,
    size: usize,
    align: usize,
}

/// A named part of a [`Layout`]: one element, or an array of them.
///
/// ```
/// use stripline::payload::Layout;
///
/// let layout: Layout = "map{bins:cf32[4][16]}".parse()?;
/// let bins = &layout.fields()[0];
/// assert_eq!((bins.dimensions(), bins.count(), bins.size()), (&[4, 16][..], 64, 512));
/// # Ok::<(), stripline::payload::BadLayout>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field {
    name: String,
    offset: usize,
    dimensions: Vec<usize>,
    layout: Layout,
}

/// The place of a number in a sample.
///
/// ```
/// use stripline::payload::Layout;
///
/// let layout: Layout = "track{at:point{x:f32,y:f32}[2]}".parse()?;
/// let last = layout.scalars().last().expect("a number");
/// assert_eq!((last.path.as_str(), last.offset), ("at[1].y", 12));
/// # Ok::<(), stripline::payload::BadLayout>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalarPlace {
    /// The path of fields to the number, for example `at[1].y`; empty for a built-in type.
    pub path: String,
    /// The offset of the first byte in the sample.
    pub offset: usize,
    /// The kind of number.
    pub scalar: Scalar,
}

impl ScalarPlace {
    /// Reads the value of this number from a sample; `None` if the sample is too short.
    pub fn read(&self, sample: &[u8]) -> Option<ScalarValue> {
        self.scalar.read(sample.get(self.offset..)?)
    }
}

impl Layout {
    /// The longest text, in bytes.
    pub const TEXT_MAX: usize = 2048;
    /// The most fields, including the fields of nested layouts.
    pub const FIELDS_MAX: usize = 256;
    /// The most layouts nested in each other.
    pub const NESTING_MAX: usize = 8;
    /// The most dimensions of an array.
    pub const DIMENSIONS_MAX: usize = 4;
    /// The largest sample, in bytes.
    pub const SIZE_MAX: usize = 1 << 20;

    /// Returns the layout of a built-in type.
    ///
    /// ```
    /// use stripline::payload::{Layout, Scalar};
    ///
    /// let layout = Layout::of_scalar(Scalar::parse("cf32").expect("a built-in type"));
    /// assert_eq!((layout.to_string(), layout.size()), ("cf32".to_string(), 8));
    /// ```
    pub fn of_scalar(scalar: Scalar) -> Self {
        let (size, align) = (scalar.size(), scalar.align());
        Self { name: scalar.to_string(), scalar: Some(scalar), fields: Vec::new(), size, align }
    }

    /// Returns the layout with these fields. Each field has dimensions and the layout of an
    /// element.
    ///
    /// # Errors
    /// The rule of `docs/layouts.md` that the fields break.
    ///
    /// ```
    /// use stripline::payload::{Layout, Scalar};
    ///
    /// let f32 = Layout::of_scalar(Scalar::parse("f32").expect("a built-in type"));
    /// let layout = Layout::of_fields("point", [("xyz", vec![3], f32)])?;
    /// assert_eq!(layout.to_string(), "point{xyz:f32[3]}");
    /// # Ok::<(), stripline::payload::BadLayout>(())
    /// ```
    pub fn of_fields<'f>(
        name: &str,
        fields: impl IntoIterator<Item = (&'f str, Vec<usize>, Layout)>,
    ) -> Result<Self, BadLayout> {
        let mut layout = Self::with_name(name).map_err(|problem| BadLayout::new(name, None, problem))?;
        for (field, dimensions, element) in fields {
            layout.add(field, dimensions, element).map_err(|problem| BadLayout::new(name, None, problem))?;
        }
        layout.check_whole().map_err(|problem| BadLayout::new(name, None, problem))?;
        Ok(layout)
    }

    /// Returns the name of the layout, for example `det` or `cf32`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number, if this is a built-in type.
    pub fn scalar(&self) -> Option<Scalar> {
        self.scalar
    }

    /// Returns the fields in memory order; empty for a built-in type.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the size of a sample in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the alignment of a sample, which is the alignment of the widest number.
    pub fn align(&self) -> usize {
        self.align
    }

    /// Returns the places of all numbers, in memory order.
    pub fn scalars(&self) -> impl Iterator<Item = ScalarPlace> {
        self.places(String::new(), 0)
    }

    fn places(&self, path: String, offset: usize) -> Box<dyn Iterator<Item = ScalarPlace> + '_> {
        if let Some(scalar) = self.scalar {
            return Box::new(std::iter::once(ScalarPlace { path, offset, scalar }));
        }
        Box::new(self.fields.iter().flat_map(move |field| {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", field.name);
            (0..field.count()).flat_map(move |index| {
                let path = format!("{path}{}", field.index_text(index));
                field.layout.places(path, offset + field.offset + index * field.layout.size)
            })
        }))
    }

    /// Returns the samples in a packet's bytes, one by one; `None` unless the bytes are whole
    /// samples.
    ///
    /// ```
    /// let layout: stripline::payload::Layout = "point{x:s16,y:s16}".parse()?;
    /// assert_eq!(layout.samples(&[0; 8]).map(Iterator::count), Some(2));
    /// assert!(layout.samples(&[0; 9]).is_none());
    /// # Ok::<(), stripline::payload::BadLayout>(())
    /// ```
    pub fn samples<'b>(&self, bytes: &'b [u8]) -> Option<std::slice::ChunksExact<'b, u8>> {
        bytes.len().is_multiple_of(self.size).then(|| bytes.chunks_exact(self.size))
    }

    /// Checks that a type of `bytes` bytes can have this layout.
    ///
    /// # Errors
    /// The sizes differ. The error has both.
    ///
    /// ```
    /// let layout: stripline::payload::Layout = "point{x:s16,y:s16}".parse()?;
    /// assert!(layout.check_size(4).is_ok());
    /// assert!(layout.check_size(8).unwrap_err().to_string().contains("4 bytes, and the type 8"));
    /// # Ok::<(), stripline::payload::BadLayout>(())
    /// ```
    pub fn check_size(&self, bytes: usize) -> Result<(), BadLayout> {
        if self.size == bytes {
            return Ok(());
        }
        let problem = format!("it has {} bytes, and the type {bytes}", self.size);
        Err(BadLayout::new(&self.to_string(), None, problem))
    }

    fn with_name(name: &str) -> Result<Self, String> {
        if TypeName::new(name).is_err() {
            return Err("its name must be 1 to 64 characters of a-z, 0-9, `-`, `/`, `.`".into());
        }
        if Scalar::parse(name).is_some() {
            return Err(format!("`{name}` is the name of a built-in type"));
        }
        if name.starts_with("message/") {
            return Err("names that begin with `message/` are for messages".into());
        }
        Ok(Self { name: name.into(), scalar: None, fields: Vec::new(), size: 0, align: 1 })
    }

    /// Adds a field behind the others.
    fn add(&mut self, name: &str, dimensions: Vec<usize>, layout: Layout) -> Result<(), String> {
        let is_letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
        let first_fits = name.bytes().next().is_some_and(is_letter);
        if !first_fits || name.len() > 64 || !name.bytes().all(|b| is_letter(b) || b.is_ascii_digit()) {
            return Err(
                "a field's name must be 1 to 64 of a-z, A-Z, 0-9, `_`, and not begin with a digit".into()
            );
        }
        if self.fields.iter().any(|field| field.name == name) {
            return Err(format!("two fields have the name `{name}`"));
        }
        if dimensions.len() > Self::DIMENSIONS_MAX {
            return Err(format!("`{name}` has more than {} dimensions", Self::DIMENSIONS_MAX));
        }
        if dimensions.contains(&0) {
            return Err(format!("`{name}` is an array of no elements"));
        }
        if !self.size.is_multiple_of(layout.align) {
            return Err(format!(
                "`{name}` at offset {} is not at a multiple of {}: padding would be before it",
                self.size, layout.align
            ));
        }
        let bytes = dimensions.iter().try_fold(layout.size, |bytes, count| bytes.checked_mul(*count));
        let size =
            bytes.and_then(|bytes| bytes.checked_add(self.size)).filter(|size| *size <= Self::SIZE_MAX);
        let Some(size) = size else {
            return Err(format!("up to `{name}` it has more than {} bytes", Self::SIZE_MAX));
        };
        self.align = self.align.max(layout.align);
        self.fields.push(Field { name: name.into(), offset: self.size, dimensions, layout });
        self.size = size;
        if self.fields_in_all() > Self::FIELDS_MAX {
            return Err(format!("it has more than {} fields", Self::FIELDS_MAX));
        }
        Ok(())
    }

    /// Checks the rules that apply to all fields together.
    fn check_whole(&self) -> Result<(), String> {
        if self.fields.is_empty() {
            return Err(format!("`{}` has no fields", self.name));
        }
        if !self.size.is_multiple_of(self.align) {
            return Err(format!(
                "`{}` has {} bytes, which is not a multiple of {}: padding would be at its end",
                self.name, self.size, self.align
            ));
        }
        if self.depth() > Self::NESTING_MAX {
            return Err(format!("it is nested more than {} deep", Self::NESTING_MAX));
        }
        if self.to_string().len() > Self::TEXT_MAX {
            return Err(format!("its text is longer than {} bytes", Self::TEXT_MAX));
        }
        Ok(())
    }

    fn fields_in_all(&self) -> usize {
        self.fields.iter().map(|field| 1 + field.layout.fields_in_all()).sum()
    }

    fn depth(&self) -> usize {
        self.fields.iter().map(|field| 1 + field.layout.depth()).max().unwrap_or(0)
    }
}

impl Field {
    /// Returns the name of the field.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the offset of the field in the layout that contains it.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the lengths of an array, outermost first; empty for a single element.
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions
    }

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.dimensions.iter().product()
    }

    /// Returns the layout of an element.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the size of all elements in bytes.
    pub fn size(&self) -> usize {
        self.count() * self.layout.size
    }

    /// Returns the text of an element's place in the array, for example `[1][2]`.
    fn index_text(&self, index: usize) -> String {
        let mut below = self.count();
        let indices = self.dimensions.iter().map(|length| {
            below /= length;
            format!("[{}]", index / below % length)
        });
        indices.collect()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (index, field) in self.fields.iter().enumerate() {
            f.write_str(if index == 0 { "{" } else { "," })?;
            write!(f, "{}:{}", field.name, field.layout)?;
            field.dimensions.iter().try_for_each(|length| write!(f, "[{length}]"))?;
        }
        f.write_str(if self.fields.is_empty() { "" } else { "}" })
    }
}

impl std::str::FromStr for Layout {
    type Err = BadLayout;

    fn from_str(text: &str) -> Result<Self, BadLayout> {
        let mut parser = Parser { text, at: 0 };
        let parsed = match text.len() > Self::TEXT_MAX {
            true => Err(format!("it is longer than {} bytes", Self::TEXT_MAX)),
            false => parser.layout(0).and_then(|layout| parser.end().map(|()| layout)),
        };
        parsed.map_err(|problem| BadLayout::new(text, Some(parser.at), problem))
    }
}

/// A text, and the place up to which it is parsed.
struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn layout(&mut self, depth: usize) -> Result<Layout, String> {
        let start = self.at;
        let name = self.word(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'/' | b'.'));
        if self.peek() != Some(b'{') {
            let scalar = Scalar::parse(name);
            if scalar.is_none() {
                self.at = start;
            }
            let none = || match name {
                "" => "a name must be here".into(),
                name => format!("`{name}` is not a built-in type, and has no fields in braces"),
            };
            return scalar.map(Layout::of_scalar).ok_or_else(none);
        }
        if depth == Layout::NESTING_MAX {
            return Err(format!("it is nested more than {} deep", Layout::NESTING_MAX));
        }
        let mut layout = Layout::with_name(name)?;
        self.at += 1;
        loop {
            let start = self.at;
            let field = self.word(|b| b.is_ascii_alphanumeric() || b == b'_');
            if self.peek() != Some(b':') {
                return Err("a field must be here, as `level_db:f32`".into());
            }
            self.at += 1;
            let element = self.layout(depth + 1)?;
            let dimensions = self.dimensions()?;
            layout.add(field, dimensions, element).inspect_err(|_| self.at = start)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err("`,` or `}` must be here".into()),
            }
        }
        layout.check_whole()?;
        self.at += 1;
        Ok(layout)
    }

    fn dimensions(&mut self) -> Result<Vec<usize>, String> {
        let mut dimensions = Vec::new();
        while self.peek() == Some(b'[') && dimensions.len() <= Layout::DIMENSIONS_MAX {
            let start = self.at + 1;
            self.at = start;
            let digits = self.word(|b| b.is_ascii_digit());
            let length = digits.parse().ok().filter(|_| !digits.starts_with('0'));
            let Some(length) = length.filter(|_| self.peek() == Some(b']')) else {
                self.at = start;
                return Err("a length must be here, as `[16]`, without zeros before it".into());
            };
            dimensions.push(length);
            self.at += 1;
        }
        Ok(dimensions)
    }

    fn end(&self) -> Result<(), String> {
        if self.at == self.text.len() { Ok(()) } else { Err("nothing may follow the layout".into()) }
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

/// An error: a text that is not a [`Layout`] or a [`Schema`](super::schema::Schema), or fields that
/// cannot form one.
///
/// ```
/// use stripline::payload::{BadLayout, Layout};
///
/// let error: BadLayout = "det{bin:u8,level_db:f32}".parse::<Layout>().unwrap_err();
/// let reason = "`level_db` at offset 1 is not at a multiple of 4: padding would be before it";
/// assert_eq!(error.to_string(), format!("`det{{bin:u8,level_db:f32}}` is not a layout: at byte 11: {reason}"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLayout {
    text: String,
    /// The form that the text should have.
    what: &'static str,
    at: Option<usize>,
    problem: String,
}

impl BadLayout {
    pub(super) fn new(text: &str, at: Option<usize>, problem: String) -> Self {
        Self { text: text.chars().take(80).collect(), what: "layout", at, problem }
    }

    pub(super) fn of_schema(text: &str, at: usize, problem: String) -> Self {
        Self { what: "schema", ..Self::new(text, Some(at), problem) }
    }
}

impl fmt::Display for BadLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a {}: ", self.text.escape_debug(), self.what)?;
        self.at.map_or(Ok(()), |at| write!(f, "at byte {at}: "))?;
        f.write_str(&self.problem)
    }
}

impl std::error::Error for BadLayout {}

impl From<BadLayout> for Error {
    fn from(bad: BadLayout) -> Self {
        Self::InvalidArgument(bad.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DET: &str = "det{range_bin:u32,doppler_bin:s32,level_db:f32}";

    fn parse(text: &str) -> Layout {
        text.parse().unwrap()
    }

    fn refused(text: &str) -> String {
        text.parse::<Layout>().unwrap_err().to_string()
    }

    #[test]
    fn offsets_and_sizes_are_sums() {
        let layout = parse("a{one:u8[4],two:b{x:cf32,y:s16[2][3],z:u32}[2],three:f32}");
        let offsets: Vec<_> = layout.fields().iter().map(|f| (f.name(), f.offset(), f.size())).collect();
        assert_eq!(offsets, [("one", 0, 4), ("two", 4, 48), ("three", 52, 4)]);
        assert_eq!((layout.size(), layout.align()), (56, 4));
        let places: Vec<_> = layout.scalars().map(|place| (place.path, place.offset)).collect();
        assert_eq!(places.len(), 4 + 2 * (1 + 6 + 1) + 1);
        for (path, offset) in [("one[3]", 3), ("two[0].x", 4), ("two[1].y[1][2]", 46), ("three", 52)] {
            assert!(places.contains(&(path.into(), offset)), "{path} at {offset}: {places:?}");
        }
        assert!(places.is_sorted_by_key(|(_, offset)| *offset));
    }

    #[test]
    fn a_built_in_type_is_one_number_without_a_name() {
        let layout = parse("cs16");
        assert_eq!((layout.fields(), layout.size(), layout.to_string()), (&[][..], 4, "cs16".into()));
        let places: Vec<_> = layout.scalars().collect();
        assert_eq!((places.len(), places[0].path.as_str(), places[0].offset), (1, "", 0));
    }

    #[test]
    fn what_breaks_a_rule_is_refused_with_its_place() {
        for (text, at, problem) in [
            ("", 0, "a name must be here"),
            ("det", 0, "`det` is not a built-in type, and has no fields"),
            ("det{}", 4, "a field must be here"),
            ("det{u32}", 7, "a field must be here"),
            ("det{a:u32", 9, "`,` or `}` must be here"),
            ("det{a:u32,}", 10, "a field must be here"),
            ("det{a:u32}x", 10, "nothing may follow"),
            ("det{a:u32 }", 9, "`,` or `}` must be here"),
            ("det{a:i32}", 6, "`i32` is not a built-in type"),
            ("det{a:bool}", 6, "`bool` is not a built-in type"),
            ("det{a:u32,a:u32}", 10, "two fields have the name `a`"),
            ("det{4a:u32}", 4, "not begin with a digit"),
            ("det{a:u32[]}", 10, "a length must be here"),
            ("det{a:u32[0]}", 10, "a length must be here"),
            ("det{a:u32[04]}", 10, "a length must be here"),
            ("det{a:u32[4}", 10, "a length must be here"),
            ("det{a:u8[1][1][1][1][1]}", 4, "more than 4 dimensions"),
            ("det{a:u8[99999999999999999999]}", 9, "a length must be here"),
            ("det{a:u8[1048577]}", 4, "more than 1048576 bytes"),
            ("det{a:u64[4294967295][4294967295]}", 4, "more than 1048576 bytes"),
            ("det{a:u8,b:u16}", 9, "`b` at offset 1 is not at a multiple of 2"),
            ("det{a:u16,b:u8}", 14, "`det` has 3 bytes, which is not a multiple of 2"),
            ("u32{a:u8}", 3, "the name of a built-in type"),
            ("message/x{a:u8}", 9, "are for messages"),
            ("Det{a:u8}", 0, "a name must be here"),
            ("d\u{e9}t{a:u8}", 0, "`d` is not a built-in type"),
        ] {
            let error = refused(text);
            assert!(error.contains(&format!("at byte {at}: ")) && error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn limits_are_kept() {
        let nested = |depth: usize| format!("{}u8{}", "a{a:".repeat(depth), "}".repeat(depth));
        assert_eq!(parse(&nested(8)).depth(), 8);
        assert!(refused(&nested(9)).contains("nested more than 8 deep"));
        assert!(refused(&nested(400)).contains("nested more than 8 deep"));
        let fields = |count: usize| {
            let names = (0..count).map(|n| format!("{}{}:u8", char::from(b'a' + (n % 26) as u8), n / 26));
            format!("a{{{}}}", names.collect::<Vec<_>>().join(","))
        };
        assert_eq!(parse(&fields(256)).size(), 256);
        assert!(refused(&fields(257)).contains("more than 256 fields"));
        assert!(refused(&fields(10_000)).contains("longer than 2048 bytes"));
        // The same limits apply to fields that are not given as text.
        let u8 = Layout::of_scalar(Scalar::parse("u8").unwrap());
        let names: Vec<String> = (0..10_000).map(|n| format!("f{n}")).collect();
        let many = Layout::of_fields("a", names.iter().map(|name| (name.as_str(), vec![], u8.clone())));
        assert!(many.unwrap_err().to_string().contains("more than 256 fields"));
        let long: Vec<String> = (0..40).map(|n| format!("{}{n}", "f".repeat(60))).collect();
        let long = Layout::of_fields("a", long.iter().map(|name| (name.as_str(), vec![], u8.clone())));
        assert!(long.unwrap_err().to_string().contains("longer than 2048 bytes"));
    }

    #[test]
    fn a_wrong_size_is_an_error() {
        assert_eq!(parse(DET).check_size(12), Ok(()));
        let error = parse(DET).check_size(16).unwrap_err().to_string();
        assert!(error.contains(DET) && error.contains("it has 12 bytes, and the type 16"), "{error}");
    }

    /// Checks the examples of `docs/layouts.md`: valid layouts with their size, others with a
    /// reason.
    #[test]
    fn docs_match_the_code() {
        let document = include_str!("../../../../docs/layouts.md");
        let items = |lead: &str| -> Vec<(String, String)> {
            let (_, list) = document.split_once(lead).unwrap();
            let list = list.split("\n\n").next().unwrap();
            let items = list.trim_start_matches("- ").split("\n- ").map(|item| {
                let item = item.split_whitespace().collect::<Vec<_>>().join(" ");
                let (text, rest) = item.strip_prefix('`').unwrap().split_once('`').unwrap();
                (text.to_string(), rest.trim_end_matches('.').to_string())
            });
            items.collect()
        };
        let valid = items("\nTexts with the bytes and the offsets:\n\n");
        assert!(valid.len() >= 5);
        for (text, rest) in valid {
            let layout = parse(&text);
            let offsets: Vec<_> =
                layout.scalars().map(|place| format!("{} {}", place.path, place.offset)).collect();
            assert_eq!(layout.to_string(), text);
            assert_eq!(format!(" ({}): `{}`", layout.size(), offsets.join(", ").trim_start()), rest);
        }
        let invalid = items("\nRefused texts:\n\n");
        assert!(invalid.len() >= 5);
        for (text, words) in invalid {
            let words = words.trim_start_matches(": ");
            assert!(!words.is_empty() && refused(&text).contains(words), "{text}: {}", refused(&text));
        }
        for limit in [
            ("bytes of the text", Layout::TEXT_MAX),
            ("fields, including the fields of nested layouts", Layout::FIELDS_MAX),
            ("layouts within each other", Layout::NESTING_MAX),
            ("dimensions of an array", Layout::DIMENSIONS_MAX),
            ("bytes of a sample", Layout::SIZE_MAX),
        ] {
            assert!(document.contains(&format!("- {}: {}.", limit.0, limit.1)), "{limit:?}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_prints_the_same(text in "[a-c]\\{([a-c]:(u8|u16|cf32|b\\{a:u32\\})(\\[[1-3]\\])?,?){1,4}\\}") {
            if let Ok(layout) = text.parse::<Layout>() {
                prop_assert_eq!(layout.to_string(), text);
                let end = layout.scalars().try_fold(0, |end, place| {
                    (place.offset == end).then_some(end + place.scalar.size())
                });
                prop_assert_eq!(end, Some(layout.size()));
            }
        }

        #[test]
        fn arbitrary_texts_never_panic(text in ".{0,100}") {
            if let Ok(layout) = text.parse::<Layout>() {
                prop_assert_eq!(layout.to_string(), text);
            }
        }
    }
}
