//! A sample type that is defined at run time.

use std::fmt;

use super::content::DynamicForm;
use super::payload::{BadLayout, Sample, TypeName};
use super::scalar::Scalar;
use crate::error::Error;
use crate::terms::LinkOptions;

/// A sample type by value: the name, the layout if there is one, and the size and alignment of a
/// sample. Nodes and components make ports with it: see [`Dynamic`](super::payload::Dynamic).
///
/// Ports of this type connect to ports of a Rust type with the same name and layout, in both
/// directions. Like Rust types, types without a layout are connected only within one build, or with
/// `types-without-layout`.
///
/// ```
/// use stripline::payload::SampleType;
///
/// let det = SampleType::parse("det{range_bin:u32,level_db:f32}")?;
/// assert_eq!((det.name().as_str(), det.size(), det.align()), ("det", 8, 4));
/// assert_eq!(SampleType::parse("cf32")?, SampleType::of::<stripline::Complex<f32>>());
///
/// // A type without a layout: only the name is compared.
/// let plot = SampleType::new("plot", 24, 8)?;
/// assert_eq!((plot.size(), plot.align(), plot.name().layout()), (24, 8, None));
/// # Ok::<(), stripline::payload::BadSampleType>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SampleType {
    name: TypeName,
    size: usize,
    align: usize,
}

impl SampleType {
    /// The largest alignment of a sample in bytes, which is the alignment of the transports'
    /// memory.
    pub const ALIGN_MAX: usize = 16;

    /// Returns the sample type of a Rust type.
    ///
    /// # Panics
    /// Same as [`TypeName::of`]. Also if a port would refuse the type because it has no size or an
    /// alignment above [`SampleType::ALIGN_MAX`], which is a mistake in the program.
    ///
    /// ```
    /// use stripline::payload::SampleType;
    ///
    /// assert_eq!(SampleType::of::<i16>().to_string(), "s16");
    /// ```
    pub fn of<T: Sample>() -> Self {
        match Self::checked(TypeName::of::<T>(), size_of::<T>(), align_of::<T>()) {
            Ok(found) => found,
            Err(error) => panic!("{error}"),
        }
    }

    /// Parses the name of a built-in type, for example `cf32`, or the text of a layout, for example
    /// `det{range_bin:u32,level_db:f32}`. Size and alignment follow from the layout.
    ///
    /// # Errors
    /// The problem with the text, and the byte where it is. A bare name that is not built-in has no
    /// size: pass it to [`SampleType::new`]. A message has no size either.
    ///
    /// ```
    /// use stripline::payload::SampleType;
    ///
    /// let error = SampleType::parse("det").unwrap_err().to_string();
    /// assert!(error.contains("`det` is a name without a layout"), "{error}");
    /// ```
    pub fn parse(text: &str) -> Result<Self, BadSampleType> {
        TypeName::parse(text)?.try_into()
    }

    /// Returns a type without a layout: samples of `size` bytes at addresses divisible by `align`.
    /// Only the name is compared, so the fields may differ at the two ends. If there is a layout,
    /// use [`SampleType::parse`].
    ///
    /// # Errors
    /// An invalid name, or the name of a message. A size that is not from 1 to
    /// [`LinkOptions::PACKET_MAX`], or not a multiple of the alignment. An alignment that is not a
    /// power of two, or above [`SampleType::ALIGN_MAX`]. For the name of a built-in type, a size or
    /// alignment that differs from this type.
    ///
    /// ```
    /// use stripline::payload::SampleType;
    ///
    /// let why = |size, align| SampleType::new("plot", size, align).unwrap_err().to_string();
    /// assert!(why(0, 1).contains("0 bytes"));
    /// assert!(why(32, 32).contains("aligned to 32 bytes; it must be 1, 2, 4, 8 or 16"));
    /// assert!(why(20, 8).contains("20 bytes, which 8 does not divide"));
    /// assert!(SampleType::new("f32", 8, 8).unwrap_err().to_string().contains("built-in"));
    /// ```
    pub fn new(name: &str, size: usize, align: usize) -> Result<Self, BadSampleType> {
        let text = name;
        let name = TypeName::new(name).map_err(|error| BadSampleType(error.to_string()))?;
        if let Some(scalar) = Scalar::parse(text)
            && (scalar.size(), scalar.align()) != (size, align)
        {
            let (built_in_size, built_in_align) = (scalar.size(), scalar.align());
            return Err(BadSampleType(format!(
                "`{name}` is a built-in type of {built_in_size} bytes aligned to {built_in_align}, not {size} aligned to \
                 {align}; use another name"
            )));
        }
        Self::checked(name, size, align)
    }

    /// Returns the name of the type, with the layout if there is one.
    pub fn name(&self) -> &TypeName {
        &self.name
    }

    /// Returns the size of a sample in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the alignment of a sample in bytes. The samples of loans and packets have it.
    pub fn align(&self) -> usize {
        self.align
    }

    pub(crate) fn form(&self) -> DynamicForm {
        DynamicForm::new(self)
    }

    fn checked(name: TypeName, size: usize, align: usize) -> Result<Self, BadSampleType> {
        let refuse = |problem: String| Err(BadSampleType(format!("sample type `{name}`: {problem}")));
        if name.layout().is_none() && !name.is_without_layout() {
            return refuse("it is not a type of samples".into());
        }
        if !(1..=LinkOptions::PACKET_MAX).contains(&size) {
            let most = LinkOptions::PACKET_MAX;
            return refuse(format!("a sample has {size} bytes; it must have from 1 to {most}"));
        }
        if !align.is_power_of_two() || align > Self::ALIGN_MAX {
            return refuse(format!("a sample is aligned to {align} bytes; it must be 1, 2, 4, 8 or 16"));
        }
        if !size.is_multiple_of(align) {
            return refuse(format!(
                "a sample has {size} bytes, which {align} does not divide; fill it up to a multiple of its alignment"
            ));
        }
        Ok(Self { name, size, align })
    }
}

/// Converts a parsed name as [`SampleType::parse`] does, for example the type of a component's
/// port.
impl TryFrom<TypeName> for SampleType {
    type Error = BadSampleType;

    fn try_from(name: TypeName) -> Result<Self, BadSampleType> {
        let Some((size, align)) = name.layout().map(|layout| (layout.size(), layout.align())) else {
            let problem = match name.is_without_layout() {
                true => "is a name without a layout; give its fields, as `det{level_db:f32}`, or its size",
                false => "is not a type of samples",
            };
            return Err(BadSampleType(format!("`{}` {problem}", name.full_text())));
        };
        Self::checked(name, size, align)
    }
}

/// Writes the name and the layout, as [`SampleType::parse`] takes them.
impl fmt::Display for SampleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.full_text())
    }
}

/// An error: a sample type that is not possible. The error has the problem and the remedy.
///
/// ```
/// use stripline::payload::SampleType;
///
/// let error = SampleType::new("plot", 3, 2).unwrap_err();
/// assert!(error.to_string().starts_with("sample type `plot`: a sample has 3 bytes"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSampleType(String);

impl fmt::Display for BadSampleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSampleType {}

impl From<BadSampleType> for Error {
    fn from(bad: BadSampleType) -> Self {
        Self::InvalidArgument(bad.to_string())
    }
}

impl From<BadLayout> for BadSampleType {
    fn from(error: BadLayout) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::super::content::SampleForm;
    use super::*;

    #[test]
    fn a_type_by_value_equals_the_rust_type() {
        for (value, text) in [
            (SampleType::of::<Complex<f32>>(), "cf32"),
            (SampleType::of::<u8>(), "u8"),
            (SampleType::of::<Complex<f64>>(), "cf64"),
        ] {
            assert_eq!(SampleType::parse(text).unwrap(), value);
            assert_eq!(SampleType::new(text, value.size(), value.align()).unwrap(), value);
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_sample_type_is_refused_by_name() {
        let refused = |found: Result<SampleType, BadSampleType>, why: &str| {
            let error = found.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(SampleType::parse("det"), "`det` is a name without a layout");
        refused(SampleType::parse("det{a:x}"), "`x` is not a built-in type");
        refused(SampleType::parse("message/tune"), "`message/tune` is not a type of samples");
        refused(SampleType::parse("message/tune{hz:f64}"), "is not a type of samples");
        refused(SampleType::new("message/tune", 8, 8), "not a type of samples");
        refused(SampleType::new("stripline/calls", 8, 8), "not a type of samples");
        refused(SampleType::new("Det", 8, 8), "`Det` is not a valid payload type name");
        refused(SampleType::new("det{a:u32}", 4, 4), "is not a valid payload type name");
        refused(SampleType::new("det", 0, 1), "0 bytes; it must have from 1 to");
        refused(SampleType::new("det", usize::MAX, 1), "it must have from 1 to");
        refused(SampleType::new("det", 8, 0), "aligned to 0 bytes");
        refused(SampleType::new("det", 12, 3), "aligned to 3 bytes");
        refused(SampleType::new("det", 32, 32), "aligned to 32 bytes");
        refused(SampleType::new("det", 12, 8), "12 bytes, which 8 does not divide");
        refused(SampleType::new("cf32", 8, 8), "a built-in type of 8 bytes aligned to 4, not 8 aligned to 8");
    }

    #[test]
    fn samples_are_counted_whole_and_aligned() {
        #[repr(align(16))]
        struct Aligned([u8; 64]);
        let memory = Aligned([0; 64]);
        let start = memory.0.as_ptr();
        let form = SampleType::new("det", 12, 4).unwrap().form();
        assert_eq!((form.size(), form.items(3), form.samples(35), form.samples(36)), (12, 36, 2, 3));
        assert_eq!((form.whole(0), form.whole(36), form.whole(37)), (Some(0), Some(3), None));
        // A number beyond any packet is counted too, and is not a mistake in the program.
        assert_eq!(form.whole(usize::MAX), None);
        assert_eq!(form.whole(12 << 40), Some(1 << 40));
        assert!(form.fits(start, 24) && !form.fits(start, 25));
        assert!(form.fits(start.wrapping_add(4), 24) && !form.fits(start.wrapping_add(2), 24));
    }
}
