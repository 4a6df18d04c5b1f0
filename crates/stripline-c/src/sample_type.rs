//! Sample types by value.

use std::ffi::c_char;

use stripline::payload::SampleType as RustType;

use crate::error::Failure;
use crate::sized;
use crate::text;

/// The type of a topic's samples. Both ends of a connection compare it.
///
/// `name` is a built-in type or a layout as `det{range_bin:u32,level_db:f32}` (`docs/layouts.md`).
/// Built in are `s8` to `u64`, `f32` and `f64`, and the complex ones with a `c` in front: `cf32`.
/// With `sample_size` 0, size and alignment are those of the name. Otherwise they must equal them:
/// set both with `sizeof` and `alignof`, and a structure with another layout is refused at once.
///
/// A name that is neither is compared alone, and needs both numbers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SampleType {
    /// `sizeof(stripline_sample_type)`.
    pub size: usize,
    /// The name, or the layout.
    pub name: *const c_char,
    /// The bytes of a sample, or 0.
    pub sample_size: usize,
    /// The alignment of a sample in bytes: 1, 2, 4, 8 or 16; 0 with `sample_size` 0.
    pub sample_align: usize,
}

sized::sized!(
    SampleType, "stripline_sample_type",
    size: usize, name: *const c_char, sample_size: usize, sample_align: usize,
);

/// Reads a sample type that the program has passed.
///
/// # Safety
/// The header's rules for structures and texts.
pub(crate) unsafe fn read(from: *const SampleType) -> Result<RustType, Failure> {
    if from.is_null() {
        return Err(Failure::null("type"));
    }
    // SAFETY: the caller's promise is the same.
    let SampleType { name, sample_size, sample_align, .. } = unsafe { sized::read(from) }?;
    // SAFETY: the caller's promise is the same.
    let name = unsafe { text::required(name, "type->name") }?;
    let refused = |error| Failure::argument(format!("`type`: {error}"));
    let is_given = (sample_size, sample_align) != (0, 0);
    match RustType::parse(name) {
        Ok(parsed) if is_given && (parsed.size(), parsed.align()) != (sample_size, sample_align) => {
            Err(Failure::argument(format!(
                "`type`: a sample of `{parsed}` has {} bytes aligned to {}, but that of the program has {sample_size} \
                 aligned to {sample_align}; give the layout that the structure has, with its padding as fields",
                parsed.size(),
                parsed.align()
            )))
        }
        Ok(parsed) => Ok(parsed),
        // A name alone, or a mistake in it, which the second names better.
        Err(_) if is_given && !name.contains(['{', '(', '<']) => {
            RustType::new(name, sample_size, sample_align).map_err(|error| refused(error.to_string()))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}
