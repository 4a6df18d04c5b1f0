//! Lines of a component's standard error or output.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use stripline::internal::parse_launched;

/// The maximum length of a line; a longer line is split.
const LINE_MAX: usize = 4096;
/// Bytes read per call, so that a component that prints continuously does not block the launcher.
const READ_MAX: usize = 1 << 20;

/// The read end of a pipe, split into lines.
pub(super) struct LineReader {
    pipe: File,
    is_open: bool,
    partial: Vec<u8>,
}

impl LineReader {
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe: File::from(pipe), is_open: true, partial: Vec::new() })
    }

    /// Returns whether the other end may still write.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the complete lines since the last call. A line that is too long is returned in
    /// pieces.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut piece = [0; 4096];
        let mut total = 0;
        while self.is_open && total < READ_MAX {
            match self.pipe.read(&mut piece) {
                Ok(0) => self.is_open = false,
                Ok(read) => {
                    total += read;
                    self.partial.extend_from_slice(&piece[..read]);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_open = false,
            }
            while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.partial.drain(..=end).collect();
                lines.push(text(&line));
            }
            if self.partial.len() > LINE_MAX {
                lines.push(text(&std::mem::take(&mut self.partial)));
            }
        }
        if !self.is_open && !self.partial.is_empty() {
            lines.push(text(&std::mem::take(&mut self.partial)));
        }
        lines
    }
}

impl AsFd for LineReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Returns a line as users see it: a log record without the level and the target.
pub(super) fn plain(line: &str) -> String {
    parse_launched(line).map_or_else(|| line.into(), |(_, _, message)| format!("stripline: {message}"))
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_come_whole_and_the_last_one_without_its_end() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut writer = File::from(writer);
        let mut reader = LineReader::new(reader).unwrap();
        writer.write_all(b"one\ntw").unwrap();
        assert_eq!(reader.lines(), ["one"]);
        writer.write_all(&[b"o\n\xff\n", &[b'x'; LINE_MAX + 1][..], b"end"].concat()).unwrap();
        drop(writer);
        let lines = reader.lines();
        assert_eq!(lines[..2], ["two", "\u{fffd}"]);
        assert_eq!(lines[2..].concat(), "x".repeat(LINE_MAX + 1) + "end");
        assert!(!reader.is_open() && reader.lines().is_empty());
    }
}
