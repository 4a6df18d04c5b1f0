//! Reading raw files of samples of any built-in type.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use stripline::payload::Scalar;

use super::error::FormatError;
use super::iq_reader::Source;

/// A reader of a raw file of samples of any built-in type, of a pipe or device, or of standard
/// input (`-`). The samples are as they are in memory: little-endian, a complex one with the real
/// part first.
///
/// For complex samples to be converted, and for SigMF, there is
/// [`IqFileReader`](super::IqFileReader).
///
/// ```
/// use stripline::payload::Scalar;
/// use stripline_components::formats::RawFileReader;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("levels.s16");
/// # std::fs::write(&path, [1, 0, 2, 0])?;
///
/// let scalar = Scalar::parse("s16").expect("a built-in type");
/// let mut reader = RawFileReader::open(&path, scalar, 2, false)?;
/// let mut bytes = [0; 100];
/// assert_eq!(reader.read(&mut bytes)?, 8);
/// assert_eq!(bytes[..8], [1, 0, 2, 0, 1, 0, 2, 0]);
/// assert_eq!(reader.read(&mut bytes)?, 0, "the end");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RawFileReader {
    path: PathBuf,
    scalar: Scalar,
    source: Source,
    /// Passes after this one; `None`: no end.
    passes: Option<u64>,
    truncate_partial: bool,
    /// Bytes of a sample that is not complete.
    carried: Vec<u8>,
    /// Bytes read.
    bytes: u64,
    /// Whether this pass had a whole sample.
    is_filled: bool,
}

impl RawFileReader {
    /// Opens a file to be played `repeat` times; 0: for ever. `truncate_partial` drops an
    /// incomplete sample at its end, which is an error otherwise.
    ///
    /// # Errors
    /// A missing or empty file, a directory, an incomplete sample, or a repetition of a pipe or
    /// device.
    pub fn open(
        path: &Path,
        scalar: Scalar,
        repeat: u64,
        truncate_partial: bool,
    ) -> Result<Self, FormatError> {
        let not_seekable = || FormatError::RepeatNotSeekable { path: path.to_owned(), repeat };
        let is_repeated = repeat != 1;
        let source = if path == Path::new("-") {
            (!is_repeated).then(|| Source::Stdin(io::stdin())).ok_or_else(not_seekable)?
        } else {
            let failed = |source| FormatError::open(path, "open", source);
            // Before opening, because a FIFO that cannot be repeated should not be waited for.
            let metadata = path.metadata().map_err(failed)?;
            if metadata.is_dir() {
                return Err(FormatError::Directory { path: path.to_owned() });
            }
            if metadata.is_file() {
                check_length(path, metadata.len(), scalar, truncate_partial)?;
            } else if is_repeated {
                return Err(not_seekable());
            }
            Source::File(File::open(path).map_err(failed)?)
        };
        Ok(Self {
            path: path.to_owned(),
            scalar,
            source,
            passes: repeat.checked_sub(1),
            truncate_partial,
            carried: Vec::new(),
            bytes: 0,
            is_filled: false,
        })
    }

    /// Reads whole samples into `out`, which has room for at least one. Returns their bytes; 0 at
    /// the end of the last pass. From a pipe, it returns what has arrived.
    ///
    /// # Errors
    /// Reading fails, or the file ends inside a sample.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, FormatError> {
        let size = self.scalar.size();
        let whole = out.len() - out.len() % size;
        let out = &mut out[..whole];
        let mut filled = self.carried.len().min(whole);
        out[..filled].copy_from_slice(&self.carried[..filled]);
        self.carried.drain(..filled);
        while filled < whole {
            match self.source.read(&mut out[filled..]) {
                Ok(0) => {
                    let left_over = filled % size;
                    if left_over > 0 && !self.truncate_partial {
                        return Err(self.partial(left_over));
                    }
                    filled -= left_over;
                    self.is_filled |= filled > 0;
                    if !self.rewind()? {
                        break;
                    }
                }
                Ok(count) => {
                    self.bytes += count as u64;
                    filled += count;
                    // From a pipe, what has arrived is returned.
                    if filled >= size && self.passes == Some(0) {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let path = self.path.clone();
                    return Err(FormatError::Read { path, read: self.bytes, source });
                }
            }
        }
        let left_over = filled % size;
        filled -= left_over;
        self.carried.extend_from_slice(&out[filled..filled + left_over]);
        self.is_filled |= filled > 0;
        Ok(filled)
    }

    /// Goes back to the beginning, if there is another pass.
    fn rewind(&mut self) -> Result<bool, FormatError> {
        // A file that is empty by now would be read for ever.
        let is_filled = std::mem::take(&mut self.is_filled);
        match &mut self.passes {
            Some(0) => return Ok(false),
            _ if !is_filled => return Err(FormatError::Empty { path: self.path.clone() }),
            Some(passes) => *passes -= 1,
            None => {}
        }
        if let Source::File(file) = &mut self.source {
            let path = || self.path.clone();
            file.rewind().map_err(|source| FormatError::Read { path: path(), read: self.bytes, source })?;
        }
        Ok(true)
    }

    fn partial(&self, left_over: usize) -> FormatError {
        let (path, scalar) = (self.path.clone(), self.scalar.to_string());
        let size = self.scalar.size();
        FormatError::PartialScalar { path, left_over: left_over as u64, length: self.bytes, scalar, size }
    }
}

fn check_length(path: &Path, length: u64, scalar: Scalar, truncate: bool) -> Result<(), FormatError> {
    let size = scalar.size();
    let left_over = length % size as u64;
    if left_over != 0 && !truncate {
        let (path, scalar) = (path.to_owned(), scalar.to_string());
        return Err(FormatError::PartialScalar { path, left_over, length, scalar, size });
    }
    if length < size as u64 {
        return Err(FormatError::Empty { path: path.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scalar(name: &str) -> Scalar {
        Scalar::parse(name).unwrap()
    }

    #[test]
    fn what_cannot_be_played_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let message = |name: &str, repeat| {
            RawFileReader::open(&dir.path().join(name), scalar("f64"), repeat, false).unwrap_err().to_string()
        };
        std::fs::write(dir.path().join("odd"), [0; 17]).unwrap();
        std::fs::write(dir.path().join("empty"), []).unwrap();
        assert!(message("odd", 1).contains("1 of its 17 bytes are left over, as a f64 sample has 8"));
        assert!(message("empty", 1).contains("the file is empty"));
        assert!(message("missing", 1).contains("there is no such file"));
        assert!(message("", 1).contains("directory"));
        let repeated = RawFileReader::open(Path::new("/dev/zero"), scalar("u8"), 2, false);
        assert!(repeated.unwrap_err().to_string().contains("cannot be repeated"));
    }

    #[test]
    fn a_pipe_gives_whole_samples_as_they_arrive() {
        use std::io::Write;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut fifo = std::fs::File::options().write(true).open(path).unwrap();
                fifo.write_all(&[1, 2, 3]).unwrap();
                fifo.write_all(&[4, 5, 6, 7]).unwrap();
            }
        });
        let mut reader = RawFileReader::open(&path, scalar("u16"), 1, true).unwrap();
        let (mut bytes, mut all) = ([0; 8], Vec::new());
        loop {
            let count = reader.read(&mut bytes).unwrap();
            assert_eq!(count % 2, 0);
            all.extend_from_slice(&bytes[..count]);
            if count == 0 {
                break;
            }
        }
        writer.join().unwrap();
        assert_eq!(all, [1, 2, 3, 4, 5, 6]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_pass_is_read_whole_in_any_pieces(
            name in prop::sample::select(vec!["u8", "s16", "f32", "cf64"]),
            samples in 1usize..40,
            over in 0usize..16,
            repeat in 1u64..4,
            room in 1usize..20,
        ) {
            let scalar = scalar(name);
            let over = over % scalar.size();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x");
            let bytes: Vec<u8> = (0..samples * scalar.size() + over).map(|n| n as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let mut reader = RawFileReader::open(&path, scalar, repeat, true).unwrap();
            let mut out = vec![0; room * scalar.size()];
            let mut all = Vec::new();
            loop {
                let count = reader.read(&mut out).unwrap();
                if count == 0 {
                    break;
                }
                prop_assert_eq!(count % scalar.size(), 0);
                all.extend_from_slice(&out[..count]);
            }
            prop_assert_eq!(all, bytes[..samples * scalar.size()].repeat(repeat as usize));
        }
    }
}
