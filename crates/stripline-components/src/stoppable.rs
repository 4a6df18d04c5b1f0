//! Reads and writes that end with the run. Pipes, terminals and devices may block for a long time.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use stripline::Error;
use stripline::component::StopSignal;

use crate::formats::{FormatError, shown};

/// The number of bytes that a write to a pipe takes without blocking, once the pipe is writable.
const PIECE_BYTES: usize = 4096;

/// The interval between attempts to open a FIFO that has no reader.
const READER_STEP: Duration = Duration::from_millis(20);

/// The time after which the wait for a reader of a FIFO is reported.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// The number of attempts to lock a file, one each millisecond.
const LOCK_TRIES: u32 = 20;

/// A file with reads and writes that end when the component of this thread must stop. Outside of a
/// component, they only block.
///
/// A read or write that was ended this way fails with `BrokenPipe`, as if the pipe had no other
/// end.
#[derive(Debug)]
pub(crate) struct StoppableFile {
    file: File,
    blocking: Blocking,
    is_locked: bool,
}

/// The time for which a read or write of a file may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocking {
    /// Not for long, because the file is regular.
    Never,
    /// Not at all: a read or write returns `WouldBlock` instead.
    Refused,
    /// Until the other end reads or writes.
    Unlimited,
}

impl StoppableFile {
    /// Opens a file for reading; `-` is standard input. A FIFO does not need a writer yet.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::inherited(File::from(io::stdin().as_fd().try_clone_to_owned()?));
        }
        Self::at_once(OpenOptions::new().read(true), path)
    }

    /// Opens a file for writing with these options; `-` is standard output. Waits for the reader of
    /// a FIFO.
    pub(crate) fn open_output(options: &mut OpenOptions, path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::stdout();
        }
        let report_at = Instant::now() + REPORT_TIME;
        let mut is_reported = false;
        loop {
            match Self::at_once(options.write(true), path) {
                Err(error) if error.raw_os_error() == Some(NO_READER) && is_fifo(path) => wait_for_reader()?,
                opened => return opened,
            }
            if !is_reported && Instant::now() >= report_at {
                is_reported = true;
                // The message is only for the user.
                let _ = writeln!(io::stderr(), "waiting for a reader of the pipe {}", shown(path));
            }
        }
    }

    /// Returns standard output without its buffer.
    pub(crate) fn stdout() -> io::Result<Self> {
        let own = Self::inherited(File::from(io::stdout().as_fd().try_clone_to_owned()?))?;
        if own.blocking == Blocking::Never {
            return Ok(own);
        }
        // Other processes share standard output, so the blocking mode is not changed. Open the file
        // again instead.
        let again = OpenOptions::new().write(true).custom_flags(at_once()).open("/proc/self/fd/1");
        Ok(again.map_or(own, |file| Self { file, blocking: Blocking::Refused, is_locked: false }))
    }

    /// Returns an open regular file.
    pub(crate) fn regular(file: File) -> Self {
        Self { file, blocking: Blocking::Never, is_locked: false }
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether the file is regular.
    pub(crate) fn is_regular(&self) -> bool {
        self.blocking == Blocking::Never
    }

    /// Locks the file for this writer (`flock`). Returns false if another writer has locked it. On
    /// a file system without locks, a second writer is not detected.
    pub(crate) fn lock(&mut self) -> bool {
        let mut tries = 1..LOCK_TRIES;
        loop {
            let locked = flock(&self.file, FlockOperation::NonBlockingLockExclusive);
            self.is_locked = locked.is_ok();
            if locked != Err(Errno::WOULDBLOCK) {
                return true;
            }
            if tries.next().is_none() {
                return false;
            }
            // The lock may belong to a check, which holds it only for a moment.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns whether a writer has locked an existing regular file.
    pub(crate) fn has_writer(path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        let mut file = Self::regular(file);
        let locked = flock(&file.file, FlockOperation::NonBlockingLockShared);
        file.is_locked = locked.is_ok();
        locked == Err(Errno::WOULDBLOCK)
    }

    fn at_once(options: &mut OpenOptions, path: &Path) -> io::Result<Self> {
        let file = options.custom_flags(at_once()).open(path)?;
        let blocking = if file.metadata()?.is_file() { Blocking::Never } else { Blocking::Refused };
        Ok(Self { file, blocking, is_locked: false })
    }

    fn inherited(file: File) -> io::Result<Self> {
        let blocking = if file.metadata()?.is_file() { Blocking::Never } else { Blocking::Unlimited };
        Ok(Self { file, blocking, is_locked: false })
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let waited = match StopSignal::of_this_thread() {
            Some(stop) if flags == PollFlags::IN => stop.wait_readable(&self.file),
            Some(stop) => stop.wait_writable(&self.file),
            None => {
                let polled = rustix::event::poll(&mut [PollFd::new(&self.file, flags)], None);
                return polled.map(drop).map_err(io::Error::from);
            }
        };
        waited.map_err(|error| io::Error::new(ErrorKind::BrokenPipe, error))
    }
}

/// `ENXIO`: the FIFO has no reader.
const NO_READER: i32 = Errno::NXIO.raw_os_error();

fn at_once() -> i32 {
    OFlags::NONBLOCK.bits().cast_signed()
}

fn is_fifo(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
}

fn wait_for_reader() -> io::Result<()> {
    let Some(stop) = StopSignal::of_this_thread() else {
        std::thread::sleep(READER_STEP);
        return Ok(());
    };
    let waited = if stop.is_ending() { Err(Error::Stopped) } else { stop.sleep(READER_STEP) };
    waited.map_err(|error| io::Error::new(ErrorKind::BrokenPipe, error))
}

impl Drop for StoppableFile {
    /// Unlocks the file now. Otherwise, a process that another thread starts would share the lock
    /// until it executes its program.
    fn drop(&mut self) {
        if self.is_locked {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl Read for StoppableFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            // Wait before the first read: a FIFO without a writer would seem to be at the end.
            if self.blocking != Blocking::Never {
                self.wait(PollFlags::IN)?;
            }
            match self.file.read(out) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

impl Write for StoppableFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.blocking == Blocking::Unlimited {
            self.wait(PollFlags::OUT)?;
            return self.file.write(&bytes[..bytes.len().min(PIECE_BYTES)]);
        }
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::OUT)?,
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Converts the error of a read or write. If the run has ended, or the other end of a pipe is gone,
/// the component is done.
pub(crate) fn ended(error: FormatError) -> Error {
    match &error {
        FormatError::Open { source, .. }
        | FormatError::Read { source, .. }
        | FormatError::Write { source, .. }
            if source.kind() == ErrorKind::BrokenPipe =>
        {
            Error::Stopped
        }
        _ => Error::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn create(path: &Path) -> io::Result<StoppableFile> {
        StoppableFile::open_output(OpenOptions::new().create(true).truncate(true), path)
    }

    fn fifo(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    #[test]
    fn a_pipe_is_opened_without_a_writer_and_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(&folder);
        let mut reader = StoppableFile::open(&path).unwrap();
        assert!(!reader.is_regular());
        let writer = std::thread::spawn(move || std::fs::write(path, [7; 100_000]).unwrap());
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [7; 100_000]);
        writer.join().unwrap();
    }

    #[test]
    fn a_pipe_is_written_as_far_as_its_reader_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(&folder);
        let fifo_path = path.clone();
        // Opening the FIFO waits for a reader.
        let writer = std::thread::spawn(move || {
            let mut file = create(&fifo_path).unwrap();
            file.write_all(&[7; 300_000]).unwrap();
            file
        });
        let mut reader = File::open(&path).unwrap();
        let mut bytes = vec![0; 300_000];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [7; 300_000]);
        let mut file = writer.join().unwrap();
        drop(reader);
        let source = file.write(&[7]).unwrap_err();
        assert_eq!(source.kind(), ErrorKind::BrokenPipe);
        let error = FormatError::Write { path, written: 0, source };
        assert!(matches!(ended(error), Error::Stopped));
    }

    #[test]
    fn a_regular_file_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = create(&path).unwrap();
        file.write_all(b"text").unwrap();
        assert!(file.is_regular());
        let mut text = String::new();
        StoppableFile::open(&path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert_eq!(StoppableFile::open(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
