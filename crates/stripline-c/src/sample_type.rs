//! Sample types that are named at run time.

use stripline::payload::SampleType as RustType;
use stripline_bindings::PortType;

use crate::border::{Ref, Str};
use crate::error::Failure;
use crate::sized;

/// The type of a topic's samples. Both ends of a connection compare it.
///
/// `name` is a built-in type or a layout such as `det{range_bin:u32,level_db:f32}`
/// (`docs/layouts.md`). The built-in types are `s8` to `u64`, `f32` and `f64`, and the complex
/// types with a `c` in front, such as `cf32`. With `sample_size` 0, the name determines size and
/// alignment. Otherwise both numbers must match the name. Set them with `sizeof` and `alignof`, and
/// a structure with another layout is refused at once.
///
/// A name that is neither a built-in type nor a layout is compared only as a name, and needs both
/// numbers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SampleType {
    /// `sizeof(stripline_sample_type)`.
    pub size: usize,
    /// The name, or the layout.
    pub name: Str,
    /// The bytes of a sample, or 0.
    pub sample_size: usize,
    /// The alignment of a sample in bytes: 1, 2, 4, 8 or 16; 0 with `sample_size` 0.
    pub sample_align: usize,
}

sized::sized!(
    SampleType, "stripline_sample_type",
    size: usize, name: Str, sample_size: usize, sample_align: usize,
);

impl Ref<SampleType> {
    /// Returns the type of a port that the program has passed.
    pub(crate) fn port_type(&self) -> Result<PortType, Failure> {
        read(self.read_given("type")?).map(PortType::Samples)
    }

    /// Returns the type that the program has passed; `None` for NULL.
    pub(crate) fn given_type(&self) -> Option<Result<PortType, Failure>> {
        (!self.pointer().is_null()).then(|| self.port_type())
    }
}

fn read(given: SampleType) -> Result<RustType, Failure> {
    let SampleType { name, sample_size, sample_align, .. } = given;
    let name = name.required("type->name")?;
    let refused = |error| Failure::argument(format!("`type`: {error}"));
    let is_given = (sample_size, sample_align) != (0, 0);
    match RustType::parse(name) {
        Ok(parsed) if is_given && (parsed.size(), parsed.align()) != (sample_size, sample_align) => {
            Err(Failure::argument(format!(
                "`type`: a sample of `{parsed}` has {} bytes aligned to {}, but the program's sample has {sample_size} \
                 aligned to {sample_align}; give the layout that the structure has, with its padding as fields",
                parsed.size(),
                parsed.align()
            )))
        }
        Ok(parsed) => Ok(parsed),
        // Either a plain name or an invalid one. The second call gives a better message for an
        // invalid name.
        Err(_) if is_given && !name.contains(['{', '(', '<']) => {
            RustType::new(name, sample_size, sample_align).map_err(|error| refused(error.to_string()))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}
