//! A file that receives lines while a waveform runs, and never delays the waveform.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// A file, or a pipe with a reader. Lines that do not fit into a full pipe are lost and counted.
pub(crate) struct LineFile {
    path: PathBuf,
    file: File,
    /// The number of bytes written.
    written: u64,
    lost: u64,
    /// Whether the last line was written only in part. Then the next one must begin on a new line.
    is_torn: bool,
}

impl LineFile {
    /// Opens a file to append lines. With `is_new`, a file that exists is refused.
    ///
    /// # Errors
    /// The problem, with the name of the file.
    pub(crate) fn open(path: &Path, is_new: bool) -> Result<Self, String> {
        let mut options = OpenOptions::new();
        // Pipes and devices always exist before.
        let is_special = path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir());
        options.create(true).create_new(is_new && !is_special).append(true);
        // Neither the open nor a write waits for the reader of a pipe.
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
        let shown = path.display();
        let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => format!("cannot write {shown}: it is a pipe without a reader, or a socket"),
            Some(Errno::EXIST) => format!("{shown}: the file exists already: name another one, or remove it"),
            _ => format!("cannot write {shown}: {error}"),
        })?;
        Ok(Self { path: path.into(), file, written: 0, lost: 0, is_torn: false })
    }

    /// Writes a line and the line end in one call. `missing` returns the line that reports the
    /// number of lines lost before.
    ///
    /// # Errors
    /// The problem, for the first line that is lost. Further lost lines are only counted.
    pub(crate) fn write(&mut self, line: &str, missing: impl Fn(u64) -> String) -> Result<(), String> {
        let mut text = String::new();
        if self.is_torn {
            text.push('\n');
        }
        if self.lost > 0 {
            text.push_str(&missing(self.lost));
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
        let mut rest = text.as_bytes();
        let error = loop {
            match self.file.write(rest) {
                Ok(written) if written == rest.len() => {
                    self.written += written as u64;
                    (self.lost, self.is_torn) = (0, false);
                    return Ok(());
                }
                Ok(0) => break std::io::ErrorKind::WriteZero.into(),
                Ok(written) => {
                    self.written += written as u64;
                    rest = &rest[written..];
                    self.is_torn = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
        };
        self.lost += 1;
        match self.lost {
            1 => Err(format!("cannot write {}: {error}", self.path.display())),
            _ => Ok(()),
        }
    }

    /// Returns the number of lines lost since the last line that was written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Checks at the end that a regular file still has a name and, with `is_alone`, that no other
    /// program has changed it. A file that was renamed is whole.
    ///
    /// # Errors
    /// The problem, with the name of the file.
    pub(crate) fn check(&self, is_alone: bool) -> Result<(), String> {
        let Ok(about) = self.file.metadata() else { return Ok(()) };
        let problem = match about.is_file() {
            true if about.nlink() == 0 => "was removed or replaced while it was written: its lines are lost",
            true if is_alone && about.len() != self.written => {
                "was changed by another program while it was written"
            }
            _ => return Ok(()),
        };
        Err(format!("{} {problem}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn missing(count: u64) -> String {
        format!("{count} missing")
    }

    #[test]
    fn a_full_pipe_loses_lines_and_counts_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let problem = LineFile::open(&path, false).err().unwrap();
        assert!(problem.contains("a pipe without a reader"), "{problem}");
        let mut reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut file = LineFile::open(&path, true).unwrap();
        let mut piece = vec![0; 1 << 16];
        // The pipe takes a line of 4000 bytes completely or not at all, and a longer line in part.
        for (length, before) in [(4000, ""), (10_000, "\n")] {
            let line = "x".repeat(length);
            let mut written = 0;
            while file.write(&line, missing).is_ok() {
                written += 1;
            }
            assert!(written > 0 && file.write(&line, missing).is_ok() && file.lost() == 2);
            let mut waiting = reader.read(&mut piece).unwrap();
            while rustix::io::ioctl_fionread(&reader).unwrap() > 0 {
                waiting += reader.read(&mut piece).unwrap();
            }
            assert!(waiting >= written * length);
            file.write("last", missing).unwrap();
            let read = reader.read(&mut piece).unwrap();
            assert_eq!(String::from_utf8_lossy(&piece[..read]), format!("{before}2 missing\nlast\n"));
        }
    }

    #[test]
    fn a_file_that_is_removed_or_changed_is_reported_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["a.log", "b.log"].map(|name| folder.path().join(name));
        let mut file = LineFile::open(&path, true).unwrap();
        file.write("first", missing).unwrap();
        std::fs::rename(&path, &other).unwrap();
        assert_eq!(file.check(true), Ok(()));
        std::fs::write(&other, "").unwrap();
        assert_eq!(file.check(false), Ok(()));
        let problem = file.check(true).unwrap_err();
        assert!(problem.contains("a.log was changed by another program"), "{problem}");
        std::fs::write(&path, "of another program").unwrap();
        std::fs::rename(&path, &other).unwrap();
        let problem = file.check(false).unwrap_err();
        assert!(problem.contains("a.log was removed or replaced while it was written"), "{problem}");
        assert_eq!(LineFile::open(Path::new("/dev/null"), true).unwrap().check(true), Ok(()));
    }

    #[test]
    fn a_full_disk_is_reported_once() {
        let mut file = LineFile::open(Path::new("/dev/full"), true).unwrap();
        let problem = file.write("x", missing).unwrap_err();
        assert!(problem.contains("/dev/full") && problem.contains("space"), "{problem}");
        assert_eq!((file.write("x", missing), file.lost()), (Ok(()), 2));
    }
}
