//! Files that are written as packets arrive.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use stripline::component::{FileLog, FileReport};
use stripline::{Error, Result};

use super::output_file::Target;
use crate::formats::{Durability, Existing, FormatError, OutputFile, sync_names};

/// A file. What a packet gives is written at once, so that the file can be followed.
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
    is_regular: bool,
    written: u64,
    durability: Durability,
    synced: Option<Instant>,
    /// Whether the name of the file is on the disk.
    is_named: bool,
    /// Whether a write has failed.
    is_cut: bool,
}

impl LineFile {
    /// Opens the file. `is_text`: a last line that was written in part is ended first.
    pub fn open(target: &Target, is_text: bool) -> Result<Self, FormatError> {
        let OutputFile { path, file, length, is_regular } = OutputFile::open(&target.path, target.existing)?;
        let durability = target.durability;
        let mut opened = Self {
            path,
            file,
            is_regular,
            written: 0,
            durability,
            synced: None,
            is_named: false,
            is_cut: false,
        };
        let mut last = [b'\n'];
        if is_text && target.existing == Existing::Append && length > 0 {
            let read = opened.file.read_exact_at(&mut last, length - 1);
            read.map_err(|source| FormatError::open(&opened.path, "open", source))?;
        }
        if last != [b'\n'] {
            opened.write(b"\n")?;
        }
        Ok(opened)
    }

    /// Returns the path, with the number that the file has got.
    pub fn path(&self) -> &Path {
        &self.path
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
                Err(error) => {
                    self.is_cut = true;
                    return Err(self.failed(error));
                }
            }
        }
        if self.durability.is_due(self.synced) {
            self.sync()?;
            self.synced = Some(Instant::now());
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FormatError> {
        if !self.is_regular {
            return Ok(());
        }
        let names = || if self.is_named { Ok(()) } else { sync_names(&self.file, &self.path) };
        self.file.sync_all().and_then(|()| names()).map_err(|source| self.failed(source))?;
        self.is_named = true;
        Ok(())
    }

    /// Waits until a regular file is on the disk. Some file systems report only then that it is
    /// full.
    pub fn finish(mut self) -> Result<(), FormatError> {
        // The name may have changed since it was checked.
        self.is_named = false;
        self.sync()?;
        if self.is_cut { Err(self.failed(ErrorKind::WriteZero.into())) } else { Ok(()) }
    }

    fn failed(&self, source: io::Error) -> FormatError {
        FormatError::Write { path: self.path.clone(), written: self.written, source }
    }
}

/// A file, or standard output.
pub(super) enum Destination {
    File {
        file: LineFile,
        target: Target,
        /// What has ended the file, if the component ends alone.
        problem: Option<String>,
    },
    Stdout,
}

impl Destination {
    /// Opens it, and reports the file.
    pub fn open(target: &Target, is_text: bool, files: &FileLog) -> Result<Self> {
        if target.path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let file = LineFile::open(target, is_text).map_err(Error::failed)?;
        files.report(FileReport::new(file.path().to_string_lossy()));
        Ok(Self::File { file, target: target.clone(), problem: None })
    }

    /// Returns the path of a file; `None`: standard output.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File { file, .. } => Some(file.path()),
            Self::Stdout => None,
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        match self {
            Self::File { file, target, problem } => {
                file.write(bytes).map_err(|error| target.failed(error, problem))
            }
            Self::Stdout => {
                let mut out = std::io::stdout().lock();
                let written = out.write_all(bytes).and_then(|()| out.flush());
                written.map_err(|error| not_printed(&error))
            }
        }
    }

    /// Completes the file. Returns what has ended it early, if the component is to end alone.
    pub fn finish(self) -> Result<Option<String>> {
        match self {
            Self::File { file, target, mut problem } => match file.finish() {
                _ if problem.is_some() => Ok(problem),
                Err(error) => match target.failed(error, &mut problem) {
                    Error::Stopped => Ok(problem),
                    error => Err(error),
                },
                Ok(()) => Ok(problem),
            },
            Self::Stdout => Ok(None),
        }
    }
}

/// Returns the error of a write to standard output. A reader that has closed it, as `head`, ends
/// the component in order.
fn not_printed(error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::BrokenPipe => Error::Stopped,
        _ => Error::failed(format!("cannot write to the standard output: {error}")),
    }
}

/// Standard output.
pub(super) struct Screen {
    pub is_open: bool,
    /// Whether printing is the component's only task.
    pub is_all: bool,
}

impl Screen {
    /// Prints. A closed reader ends the component only if printing is its only task.
    pub fn print(&mut self, text: impl Display) -> Result<()> {
        if !self.is_open {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match write!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) => {
                self.is_open = false;
                if self.is_all || error.kind() != ErrorKind::BrokenPipe {
                    Err(not_printed(&error))
                } else {
                    Ok(())
                }
            }
            Ok(()) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &Path, existing: Existing) -> Target {
        Target { path: path.into(), existing, durability: Durability::End, ends_alone: false }
    }

    #[test]
    fn a_line_that_a_killed_writer_left_is_ended_before_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        for (before, after) in [("", "next"), ("whole\n", "whole\nnext"), ("in pa", "in pa\nnext")] {
            std::fs::write(&path, before).unwrap();
            LineFile::open(&target(&path, Existing::Append), true).unwrap().write(b"next").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
    }

    #[test]
    fn lines_are_in_the_file_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frames.avr");
        let mut file = LineFile::open(&target(&path, Existing::Refuse), true).unwrap();
        file.write(b"*02e19838bf1a56;\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "*02e19838bf1a56;\n");
        file.finish().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_with_path_and_bytes() {
        let mut file = LineFile::open(&target(Path::new("/dev/full"), Existing::Refuse), true).unwrap();
        let message = file.write(b"*02e19838bf1a56;\n").unwrap_err().to_string();
        assert!(message.starts_with("/dev/full: cannot write after 0 bytes: No space left"), "{message}");
    }
}
