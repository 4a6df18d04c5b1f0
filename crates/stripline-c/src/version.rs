//! The version of the library, beside the version of the header.

use crate::text::Text;

/// The major version of this header.
pub const VERSION_MAJOR: u32 = 0;
/// The minor version of this header.
pub const VERSION_MINOR: u32 = 1;
/// The patch level of this header.
pub const VERSION_PATCH: u32 = 0;
/// A timeout without end, for functions with a `timeout_ns`.
pub const FOREVER: i64 = -1;

/// Returns the version of the running library, such as `0.1.0` or `0.1.0-alpha.1`.
/// `STRIPLINE_VERSION_MAJOR`, `_MINOR` and `_PATCH` are the version of the header that a program
/// was compiled with, without the pre-release part.
///
/// - Ownership: the text is static.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_version() -> Text {
    Text::of(env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_version_of_the_crate() {
        let header = format!("{VERSION_MAJOR}.{VERSION_MINOR}.{VERSION_PATCH}");
        // The numbers may be followed by the words of a pre-release.
        let (numbers, _) =
            env!("CARGO_PKG_VERSION").split_once('-').unwrap_or((env!("CARGO_PKG_VERSION"), ""));
        assert_eq!(header, numbers);
    }
}
