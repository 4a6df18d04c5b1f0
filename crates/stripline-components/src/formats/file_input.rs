//! The bytes of a file with samples: part of a regular file, or a stream such as a pipe.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use super::error::FormatError;
use super::file_kind::{self, FileKind, HEAD_BYTES};

/// A file with samples.
pub(super) enum Input {
    Regular(Regular),
    Stream(Stream),
}

/// Part of a file with a fixed length.
pub(super) struct Regular {
    file: File,
    /// The position of the first sample byte.
    start: u64,
    /// The size of the whole samples in bytes, at least one sample.
    length: u64,
    /// The number of bytes after the whole samples.
    pub(super) left_over: u64,
    /// The number of bytes left in the current pass.
    left: u64,
    /// The number of passes after the current one; `None`: no end.
    passes: Option<u64>,
}

/// A pipe, a device, the standard input, or a file that is unpacked.
pub(super) struct Stream {
    source: Box<dyn Read + Send>,
    /// Bytes that have arrived but were not returned yet: an incomplete sample, or the bytes that
    /// were read to check the beginning.
    carried: Vec<u8>,
    truncate_partial: bool,
    /// Whether the first bytes were compared with the beginnings of other formats.
    is_checked: bool,
    ended: bool,
}

/// The description of the samples that are read.
pub(super) struct FileFrames<'a> {
    pub(super) path: &'a Path,
    /// The size of a frame (a sample of each channel) in bytes.
    pub(super) size: usize,
    /// The name of the type, for messages.
    pub(super) format: &'a str,
    /// The number of bytes read before, in all passes.
    pub(super) before: u64,
}

impl FileFrames<'_> {
    pub(super) fn partial(&self, left_over: u64, length: u64) -> FormatError {
        let (path, format, size) = (self.path.to_owned(), self.format.to_owned(), self.size);
        FormatError::PartialSample { path, left_over, length, format, size }
    }

    fn failed(&self, filled: usize, source: io::Error) -> FormatError {
        FormatError::Read { path: self.path.to_owned(), read: self.before + filled as u64, source }
    }
}

impl Input {
    /// Reads whole samples into `out`, which has space for at least one sample. Returns the number
    /// of bytes; 0 at the end.
    pub(super) fn read(&mut self, out: &mut [u8], frames: &FileFrames<'_>) -> Result<usize, FormatError> {
        match self {
            Self::Regular(regular) => regular.read(out, frames),
            Self::Stream(stream) => stream.read(out, frames),
        }
    }

    /// Returns the number of bytes in one pass; `None` for a stream.
    pub(super) fn pass_bytes(&self) -> Option<u64> {
        match self {
            Self::Regular(regular) => Some(regular.length),
            Self::Stream(_) => None,
        }
    }
}

impl Regular {
    /// Returns a reader of `length` bytes of a file, followed by `left_over` bytes of an incomplete
    /// sample. The bytes are read `repeat` times; 0: for ever.
    pub(super) fn new(
        mut file: File,
        start: u64,
        length: u64,
        left_over: u64,
        repeat: u64,
    ) -> io::Result<Self> {
        file.seek(SeekFrom::Start(start))?;
        Ok(Self { file, start, length, left_over, left: length, passes: repeat.checked_sub(1) })
    }

    fn read(&mut self, out: &mut [u8], frames: &FileFrames<'_>) -> Result<usize, FormatError> {
        let mut filled = 0;
        while filled < out.len() {
            if self.left == 0 {
                match &mut self.passes {
                    Some(0) => break,
                    Some(passes) => *passes -= 1,
                    None => {}
                }
                self.file
                    .seek(SeekFrom::Start(self.start))
                    .map_err(|source| frames.failed(filled, source))?;
                self.left = self.length;
            }
            let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len() - filled);
            let error = match self.file.read(&mut out[filled..filled + want]) {
                Ok(0) => FormatError::Shrunk {
                    path: frames.path.to_owned(),
                    expected: self.start + self.length + self.left_over,
                    actual: self.start + self.length - self.left,
                },
                Ok(count) => {
                    filled += count;
                    self.left -= count as u64;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => frames.failed(filled, source),
            };
            // Return the whole samples before the error first. The bytes after them are read again,
            // and the error is then returned.
            let partial = filled % frames.size;
            if filled == partial {
                return Err(error);
            }
            self.file
                .seek(SeekFrom::Current(-(partial as i64)))
                .map_err(|source| frames.failed(filled, source))?;
            self.left += partial as u64;
            return Ok(filled - partial);
        }
        Ok(filled)
    }
}

impl Stream {
    pub(super) fn new(source: Box<dyn Read + Send>, truncate_partial: bool, is_checked: bool) -> Self {
        Self { source, carried: Vec::new(), truncate_partial, is_checked, ended: false }
    }

    /// Returns the size of the incomplete sample at the end in bytes; 0 before the end.
    pub(super) fn left_over(&self) -> u64 {
        if self.ended { self.carried.len() as u64 } else { 0 }
    }

    fn read(&mut self, out: &mut [u8], frames: &FileFrames<'_>) -> Result<usize, FormatError> {
        if !self.is_checked {
            self.check_head(out.len(), frames)?;
        }
        let mut filled = self.carried.len().min(out.len());
        out[..filled].copy_from_slice(&self.carried[..filled]);
        self.carried.drain(..filled);
        while filled < frames.size && !self.ended {
            match self.source.read(&mut out[filled..]) {
                Ok(0) => self.ended = true,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let error = frames.failed(filled, source);
                    self.carried.extend_from_slice(&out[..filled]);
                    return Err(error);
                }
            }
        }
        let partial = filled % frames.size;
        // Put the rest of `out` before bytes of the beginning that did not fit into `out`.
        self.carried.splice(..0, out[filled - partial..filled].iter().copied());
        let read = filled - partial;
        if read == 0 && partial != 0 && !self.truncate_partial {
            let left_over = partial as u64;
            return Err(frames.partial(left_over, frames.before + left_over));
        }
        if read == 0 && frames.before == 0 {
            return Err(FormatError::NoSamples { path: frames.path.to_owned() });
        }
        Ok(read)
    }

    /// Checks that the first bytes are samples, and keeps the bytes that have arrived: up to `room`
    /// bytes, and at most 1 MiB.
    fn check_head(&mut self, room: usize, frames: &FileFrames<'_>) -> Result<(), FormatError> {
        let mut arrived = vec![0; room.clamp(HEAD_BYTES, 1 << 20)];
        while self.carried.len() < HEAD_BYTES && !self.ended {
            let room = arrived.len() - self.carried.len();
            match self.source.read(&mut arrived[..room]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.carried.extend_from_slice(&arrived[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(frames.failed(self.carried.len(), source)),
            }
        }
        let (what, remedy) = match file_kind::of_head(&self.carried, frames.path)? {
            None => {
                self.is_checked = true;
                return Ok(());
            }
            Some(FileKind::Gzip) => ("compressed with gzip", "unpack it before the pipe, as with `gunzip`"),
            Some(FileKind::Wav) => ("a WAV file in a pipe", "give the path of a regular file"),
            Some(FileKind::Numpy) => ("a file of numpy in a pipe", "give the path of a regular file"),
        };
        Err(FormatError::Foreign { path: frames.path.to_owned(), what, remedy })
    }
}
