//! Files that are written as packets arrive.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use stripline::{Error, Result};

use crate::formats::FormatError;

/// A file. What a packet gives is written at once, so that the file can be followed.
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
    written: u64,
}

impl LineFile {
    pub fn create(path: PathBuf) -> Result<Self, FormatError> {
        match File::create(&path) {
            Ok(file) => Ok(Self { path, file, written: 0 }),
            Err(source) => Err(FormatError::open(&path, "create", source)),
        }
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), FormatError> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(self.failed(ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.written += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// Waits until a regular file is on the disk. Some file systems report only then that it is
    /// full.
    pub fn finish(self) -> Result<(), FormatError> {
        let is_regular = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let synced = if is_regular { self.file.sync_all() } else { Ok(()) };
        synced.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> FormatError {
        FormatError::Write { path: self.path.clone(), written: self.written, source }
    }
}

/// A file, or standard output.
pub(super) enum Destination {
    File(LineFile),
    Stdout,
}

impl Destination {
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        LineFile::create(path.to_owned()).map(Self::File).map_err(Error::failed)
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        match self {
            Self::File(file) => file.write(bytes).map_err(Error::failed),
            Self::Stdout => {
                let mut out = std::io::stdout().lock();
                let written = out.write_all(bytes).and_then(|()| out.flush());
                written
                    .map_err(|error| Error::failed(format!("cannot write to the standard output: {error}")))
            }
        }
    }

    pub fn finish(self) -> Result<()> {
        match self {
            Self::File(file) => file.finish().map_err(Error::failed),
            Self::Stdout => Ok(()),
        }
    }
}

/// Standard output.
pub(super) struct Screen {
    pub is_open: bool,
    /// Whether printing is the component's only task.
    pub is_all: bool,
}

impl Screen {
    /// Prints. A closed reader is an error only if printing is the component's only task.
    pub fn print(&mut self, text: impl Display) -> Result<()> {
        if !self.is_open {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match write!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) => {
                self.is_open = false;
                if self.is_all || error.kind() != ErrorKind::BrokenPipe {
                    return Err(Error::failed(format!("cannot print to the standard output: {error}")));
                }
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_the_file_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frames.avr");
        let mut file = LineFile::create(path.clone()).unwrap();
        file.write(b"*02e19838bf1a56;\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "*02e19838bf1a56;\n");
        file.finish().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_with_path_and_bytes() {
        let mut file = LineFile::create("/dev/full".into()).unwrap();
        let message = file.write(b"*02e19838bf1a56;\n").unwrap_err().to_string();
        assert!(message.starts_with("/dev/full: cannot write after 0 bytes: No space left"), "{message}");
    }
}
