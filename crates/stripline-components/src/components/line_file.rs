//! Files that are written while packets arrive.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use stripline::component::{FileLog, FileReport, StopSignal};
use stripline::{Error, Result};

use super::output_file::{Target, TimedOutput};
use crate::formats::{Existing, FormatError, OutputFile, PassTimer};
use crate::stoppable::{StoppableFile, ended};

/// A unit of a file. A file has whole units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Line,
    /// The bytes of a sample, 1 or more.
    Sample(u64),
}

impl Unit {
    /// Returns the number of bytes in whole units among the first `taken` bytes. There are `before`
    /// bytes before them.
    fn whole(self, before: u64, bytes: &[u8], taken: usize) -> u64 {
        match self {
            Self::Line => {
                let end = bytes[..taken].iter().rposition(|byte| *byte == b'\n');
                end.map_or(0, |end| end + 1) as u64
            }
            Self::Sample(size) => (taken as u64).saturating_sub((before + taken as u64) % size),
        }
    }
}

/// A file. The output for a packet is written at once, so that the file can be followed.
pub(super) struct LineFile {
    output: OutputFile,
    written: u64,
    timer: PassTimer,
    unit: Unit,
    /// Whether a write or a wait for the disk has failed.
    is_failed: bool,
}

impl LineFile {
    /// Opens the file. An incomplete last line is ended first, and an incomplete sample is removed.
    pub fn open(target: &Target, unit: Unit) -> Result<Self, FormatError> {
        let mut output = OutputFile::open(&target.path, target.existing)?;
        let length = output.length;
        match unit {
            Unit::Line | Unit::Sample(1) => output.note_found(length, "byte", 0),
            Unit::Sample(size) => output.note_found(length / size, "sample", length % size),
        }
        if let Unit::Sample(size) = unit
            && length % size != 0
        {
            output.length -= length % size;
            let cut = output.cut(output.length);
            cut.map_err(|source| FormatError::open(&output.path, "create", source))?;
        }
        if target.keeps_readers {
            output.keep_readers();
        }
        let mut opened = Self::of(output, target, unit);
        let mut last = [b'\n'];
        if unit == Unit::Line && target.existing == Existing::Append && length > 0 {
            let read = opened.output.file.file().read_exact_at(&mut last, length - 1);
            read.map_err(|source| FormatError::open(&opened.output.path, "open", source))?;
        }
        if last != [b'\n'] {
            opened.write(b"\n")?;
            let found = opened.output.found.get_or_insert_default();
            found.push_str(" behind an end for its last line, which had none");
        }
        Ok(opened)
    }

    /// Returns an open file.
    pub fn of(output: OutputFile, target: &Target, unit: Unit) -> Self {
        let (written, timer, is_failed) = (0, PassTimer::new(target.durability), false);
        Self { output, written, timer, unit, is_failed }
    }

    /// Writes the bytes. If a full disk cuts them, a regular file keeps the whole units.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        let before = self.written;
        if let Err(error) = self.output.write_all(bytes, &mut self.written) {
            self.is_failed = true;
            if self.output.is_regular {
                let taken = usize::try_from(self.written - before).unwrap_or(bytes.len());
                let whole = self.unit.whole(before, bytes, taken);
                // An error of `cut` is ignored: the error of the write is returned.
                if self.output.cut(self.output.length + before + whole).unwrap_or(false) {
                    self.written = before + whole;
                }
            }
            return Err(self.failed(error));
        }
        // The system has the data already, because nothing is buffered here.
        if self.timer.is_to_disk() && self.timer.written() { self.sync() } else { Ok(()) }
    }

    /// Waits until the file is on the disk, if written data is a second old.
    pub fn pass_due(&mut self) -> Result<(), FormatError> {
        if self.timer.is_due() { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), FormatError> {
        if let Err(source) = self.output.sync() {
            // The system may return such an error only once.
            self.is_failed = true;
            return Err(self.failed(source));
        }
        self.timer.passed();
        Ok(())
    }

    /// Waits until a regular file is on the disk. Some file systems report only at this point that
    /// they are full.
    pub fn finish(mut self) -> Result<(), FormatError> {
        self.output.forget_names();
        self.sync()
    }

    fn failed(&self, source: io::Error) -> FormatError {
        FormatError::Write { path: self.output.path.clone(), written: self.written, source }
    }
}

/// A file, or standard output.
///
/// A pipe may have no reader, or a reader that does not read. When the run ends, the rest is
/// counted as missing.
pub(super) struct Destination {
    /// The file; `None`: a pipe never got a reader.
    file: Option<LineFile>,
    path: PathBuf,
    /// A note about an earlier file at this path.
    found: Option<String>,
    target: Target,
    unit: Unit,
    /// The number of lines that could not be written.
    lines_missing: u64,
    /// Whether no more data is accepted.
    is_over: bool,
    /// The reason why the file ended early; `None` if it did not, or if the component fails.
    problem: Option<String>,
}

impl Destination {
    /// Opens the file or standard output, and reports it.
    pub fn open(target: &Target, unit: Unit, files: &FileLog) -> Result<Self> {
        Self::of(LineFile::open(target, unit), target, unit, files)
    }

    /// Takes an opened file, and reports it.
    pub fn of(
        opened: Result<LineFile, FormatError>,
        target: &Target,
        unit: Unit,
        files: &FileLog,
    ) -> Result<Self> {
        let file = match opened {
            Ok(file) => Some(file),
            Err(error) if is_untaken(&error) => None,
            Err(error) => return Err(not_opened(error, target, files)),
        };
        let path = file.as_ref().map_or(&target.path, |file| &file.output.path).clone();
        let found = file.as_ref().and_then(|file| file.output.found.clone());
        let is_over = file.is_none();
        let (lines_missing, target, problem) = (0, target.clone(), None);
        let own = Self { file, path, found, target, unit, lines_missing, is_over, problem };
        files.report(own.report());
        Ok(own)
    }

    /// Returns the report of the file, without the counts of samples.
    pub fn report(&self) -> FileReport {
        let report = FileReport::new(self.path.to_string_lossy());
        FileReport { lines_missing: self.lines_missing, found: self.found.clone(), ..report }
    }

    /// Returns whether the destination is standard output.
    pub fn is_printed(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Returns the number of bytes that a reader finds in the file, or that a pipe has taken.
    pub fn bytes_found(&self) -> u64 {
        let found = |file: &LineFile| file.output.readable(file.output.length + file.written);
        self.file.as_ref().map_or(0, found)
    }

    /// Returns the number of readers of a pipe or a connection that have left.
    pub fn readers_left(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.output.untaken().1)
    }

    /// Writes the bytes. If the reader of a pipe has closed it, the component is done.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| !self.is_over) else {
            self.miss(bytes);
            return Ok(());
        };
        let before = file.written;
        let Err(error) = file.write(bytes) else { return Ok(()) };
        let taken = usize::try_from(file.written - before).unwrap_or(bytes.len());
        self.miss(bytes.get(taken..).unwrap_or_default());
        if is_untaken(&error) {
            self.is_over = true;
            return Ok(());
        }
        Err(self.target.failed(error, &mut self.problem))
    }

    fn miss(&mut self, bytes: &[u8]) {
        // Samples have no lines, though some of their bytes may be the same.
        if self.unit == Unit::Line {
            self.lines_missing += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
    }

    /// Completes the file, and reports it with these counts of samples.
    ///
    /// # Errors
    /// The file cannot be completed, and the component fails.
    pub fn finish(self, files: &FileLog, counts: FileReport) -> Result<()> {
        let FileReport { path, lines_missing, found, .. } = self.report();
        let finished = self.complete();
        let problem = finished.as_ref().ok().cloned().flatten();
        let is_finished = finished.is_ok() && problem.is_none();
        files.report(FileReport { path, lines_missing, found, problem, finished: is_finished, ..counts });
        finished.map(drop)
    }

    /// Completes the file. Returns the reason why it ended early, if the component does not fail.
    fn complete(mut self) -> Result<Option<String>> {
        let Some(file) = self.file else { return Err(Error::Stopped) };
        let is_failed = file.is_failed;
        match file.finish() {
            // This error has already ended the component.
            _ if is_failed => self.problem.map_or(Err(Error::Stopped), |problem| Ok(Some(problem))),
            Err(error) if self.problem.is_none() => match self.target.failed(error, &mut self.problem) {
                Error::Stopped if self.problem.is_some() => Ok(self.problem),
                error => Err(error),
            },
            _ => Ok(self.problem),
        }
    }
}

impl TimedOutput for Destination {
    fn wait_time(&self) -> Duration {
        self.file.as_ref().map_or(Duration::MAX, |file| file.timer.left())
    }

    fn pass_due(&mut self) -> Result<()> {
        let passed = self.file.as_mut().map_or(Ok(()), LineFile::pass_due);
        passed.map_err(|error| self.target.failed(error, &mut self.problem))
    }
}

/// Returns the error for the component, and reports the reason if the component ends in order.
fn not_opened(error: FormatError, target: &Target, files: &FileLog) -> Error {
    let mut problem = None;
    let error = target.failed(error, &mut problem);
    if problem.is_some() {
        files.report(FileReport { problem, ..FileReport::new(target.path.to_string_lossy()) });
    }
    error
}

/// Returns whether the run ends before the other end of a pipe has taken everything.
fn is_untaken(error: &FormatError) -> bool {
    let (FormatError::Open { source, .. } | FormatError::Write { source, .. }) = error else { return false };
    source.kind() == ErrorKind::BrokenPipe
        && StopSignal::of_this_thread().is_some_and(|stop| stop.is_ending())
}

/// Standard output.
pub(super) struct Screen {
    out: Option<StoppableFile>,
    /// Whether printing is the only task of the component.
    is_all: bool,
}

impl Screen {
    /// Returns the screen. If it is not open, prints are ignored.
    pub fn new(is_open: bool, is_all: bool) -> Result<Self> {
        let out = is_open.then(StoppableFile::stdout).transpose().map_err(not_printed)?;
        Ok(Self { out, is_all })
    }

    /// Returns whether the screen is open.
    pub fn is_open(&self) -> bool {
        self.out.is_some()
    }

    /// Prints the text. A closed reader ends the component only if printing is its only task.
    pub fn print(&mut self, text: impl Display) -> Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let Err(error) = out.write_all(text.to_string().as_bytes()) else { return Ok(()) };
        self.out = None;
        if self.is_all || error.kind() != ErrorKind::BrokenPipe { Err(not_printed(error)) } else { Ok(()) }
    }
}

fn not_printed(source: io::Error) -> Error {
    ended(FormatError::Write { path: "standard output".into(), written: 0, source })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use super::*;

    fn target(path: &Path, existing: Existing) -> Target {
        Target { existing, ..Target::stream(path) }
    }

    #[test]
    fn a_line_that_a_killed_writer_left_is_ended_before_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        for (before, after) in [("", "next"), ("whole\n", "whole\nnext"), ("in pa", "in pa\nnext")] {
            std::fs::write(&path, before).unwrap();
            LineFile::open(&target(&path, Existing::Append), Unit::Line).unwrap().write(b"next").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
    }

    #[test]
    fn a_file_of_samples_is_continued_behind_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("structures");
        std::fs::write(&path, [1; 105]).unwrap();
        let files = FileLog::default();
        let append = target(&path, Existing::Append);
        let mut destination = Destination::open(&append, Unit::Sample(32), &files).unwrap();
        let found = destination.report().found.unwrap();
        assert!(found.contains("with 3 samples and 9 bytes of a partial sample"), "{found}");
        assert_eq!(destination.bytes_found(), 96);
        destination.write(&[b'\n'; 64]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [[1; 96].as_slice(), &[b'\n'; 64]].concat());
        // A reader finds no more than another program has left.
        assert_eq!(destination.bytes_found(), 160);
        File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
        assert!(destination.write(&[b'\n'; 64]).is_err());
        assert_eq!((destination.bytes_found(), destination.report().lines_missing), (100, 0));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(destination.bytes_found(), 0);
    }

    #[test]
    fn a_wait_for_the_disk_that_has_failed_once_leaves_no_finished_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let mut destination =
            Destination::open(&target(&path, Existing::Refuse), Unit::Line, &FileLog::default()).unwrap();
        destination.write(b"one\n").unwrap();
        let set_len = |bytes| File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
        set_len(2);
        destination.file.as_mut().unwrap().sync().unwrap_err();
        set_len(4);
        assert!(destination.complete().is_err());
    }

    #[test]
    fn a_disk_without_room_for_a_new_file_ends_the_sink_in_order_if_asked_to() {
        let full = |path: &Path| FormatError::open(path, "create", ErrorKind::StorageFull.into());
        for ends_alone in [false, true] {
            let (path, files) = (Path::new("lines"), FileLog::default());
            let target = Target { ends_alone, ..target(path, Existing::Refuse) };
            let error = not_opened(full(path), &target, &files);
            assert_eq!(matches!(error, Error::Stopped), ends_alone, "{error}");
        }
    }

    #[test]
    fn a_full_disk_keeps_whole_units() {
        for (unit, before, taken, whole) in [
            (Unit::Line, 5, 8, 7),
            (Unit::Line, 5, 2, 0),
            (Unit::Sample(4), 8, 7, 4),
            (Unit::Sample(4), 8, 8, 8),
            (Unit::Sample(4), 9, 2, 0),
        ] {
            assert_eq!(unit.whole(before, b"one\ntw\nthree", taken), whole, "{unit:?} {taken}");
        }
    }

    #[test]
    fn lines_are_in_the_file_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frames.avr");
        let mut file = LineFile::open(&target(&path, Existing::Refuse), Unit::Line).unwrap();
        file.write(b"*02e19838bf1a56;\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "*02e19838bf1a56;\n");
        file.finish().unwrap();
    }

    #[test]
    fn an_end_that_a_continued_line_gets_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        std::fs::write(&path, "in pa").unwrap();
        let opened = LineFile::open(&target(&path, Existing::Append), Unit::Line).unwrap();
        let found = opened.output.found.unwrap();
        assert!(
            found.ends_with("and continued it behind an end for its last line, which had none"),
            "{found}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_with_path_and_bytes() {
        let mut file = LineFile::open(&target(Path::new("/dev/full"), Existing::Refuse), Unit::Line).unwrap();
        let message = file.write(b"*02e19838bf1a56;\n").unwrap_err().to_string();
        assert!(message.starts_with("/dev/full: cannot write after 0 bytes: No space left"), "{message}");
    }
}
