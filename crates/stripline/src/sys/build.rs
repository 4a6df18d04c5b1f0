//! The build of a program: a hash of the content of the executable.
//!
//! The same program has the same build wherever the file is. Hashes are compared only for equality,
//! and never across two algorithms: programs with the same content use the same algorithm.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

/// The file from which the kernel started this program, even if another file has that name now.
const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// The build of a program. The text of a build is 16 hexadecimal digits, in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Build(u64);

impl Build {
    /// The length of the text of a build, in bytes.
    const TEXT_BYTES: usize = 16;

    /// Returns the build of this program, computed by the first call. `None`: the executable cannot
    /// be read.
    pub(crate) fn own() -> Option<Self> {
        static OWN: OnceLock<Option<Build>> = OnceLock::new();
        *OWN.get_or_init(|| Self::of_file(Path::new(OWN_EXECUTABLE)).ok())
    }

    /// Returns the build of the program in a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let (mut hasher, mut piece) = (DefaultHasher::new(), vec![0; 1 << 18]);
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(Self(hasher.finish())),
                Ok(read) => hasher.write(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns whether two programs have the same build; `None` is this program. A program that cannot
/// be read equals no other program.
pub(crate) fn is_same(one: Option<&Path>, other: Option<&Path>) -> bool {
    let build = |path: Option<&Path>| path.map_or_else(Build::own, |path| Build::of_file(path).ok());
    one == other || build(one).is_some_and(|known| build(other) == Some(known))
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Build {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let fits = text.len() == Self::TEXT_BYTES && text.bytes().all(is_digit);
        let number = u64::from_str_radix(text, 16).ok().filter(|_| fits);
        number.map(Self).ok_or_else(|| "a build has 16 hexadecimal digits in lower case".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_build_and_a_changed_program_another() {
        let folder = tempfile::tempdir().unwrap();
        let (copy, changed) = (folder.path().join("copy"), folder.path().join("changed"));
        let mut bytes = std::fs::read(OWN_EXECUTABLE).unwrap();
        std::fs::write(&copy, &bytes).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&changed, &bytes).unwrap();
        let own = Build::own().unwrap();
        assert_eq!(Build::of_file(&copy).unwrap(), own);
        assert_ne!(Build::of_file(&changed).unwrap(), own);
        assert!(is_same(None, Some(&copy)) && is_same(Some(&changed), Some(&changed)));
        assert!(!is_same(Some(&changed), Some(&copy)));
        assert!(!is_same(None, Some(&folder.path().join("none"))), "an unknown build equals nothing");
    }

    #[test]
    fn a_build_is_read_back_from_its_text_and_nothing_else_is() {
        for build in [Build(0), Build(0xabc), Build(u64::MAX)] {
            assert_eq!(build.to_string().parse(), Ok(build));
        }
        for text in
            ["", "abc", "000000000000000G", "+00000000000000a", "ABCDEF0123456789", "00000000000000000"]
        {
            assert!(text.parse::<Build>().is_err(), "{text}");
        }
    }
}
