//! Reads and writes that end with the run. Pipes, terminals, devices and connections may block for
//! a long time.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, ioctl_fionread};
use stripline::Error;
use stripline::component::StopSignal;

use crate::formats::{FormatError, shown};

/// The number of bytes that a write to a pipe takes without blocking, once the pipe is writable.
const PIECE_BYTES: usize = 4096;

/// The largest number of pieces that are read from a connection before it is closed.
const UNREAD_PIECES: usize = 256;

/// The errors of a write after the reader has left.
const GONE: [Errno; 5] =
    [Errno::PIPE, Errno::CONNRESET, Errno::CONNABORTED, Errno::TIMEDOUT, Errno::HOSTUNREACH];

/// The interval between attempts to open a file that has no other end.
const PEER_STEP: Duration = Duration::from_millis(20);

/// The time after which the wait for the other end is reported.
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
    /// Whether the file is a connection.
    is_connection: bool,
    /// The writer of a FIFO from which nothing was read yet, for the report of a long wait.
    awaited: Option<String>,
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
        let mut file = Self::at_once(OpenOptions::new().read(true), path)?;
        file.awaited = is_fifo(path).then(|| format!("a program that writes to {}", shown(path)));
        Ok(file)
    }

    /// Opens a file for writing with these options; `-` is standard output. Waits for the reader of
    /// a FIFO.
    pub(crate) fn open_output(options: &mut OpenOptions, path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::stdout();
        }
        let open = || match Self::at_once(options.write(true), path) {
            Err(error) if error.raw_os_error() == Some(NO_READER) && is_fifo(path) => Ok(None),
            opened => opened.map(Some),
        };
        wait_for(&format!("a reader of the pipe {}", shown(path)), open)
    }

    /// Opens a FIFO for the next reader; `None`: there is no reader yet.
    fn open_fifo(path: &Path) -> io::Result<Option<Self>> {
        if !is_fifo(path) {
            return Err(io::Error::other("another program has removed or replaced the pipe"));
        }
        match Self::at_once(OpenOptions::new().write(true), path) {
            Err(error) if error.raw_os_error() == Some(NO_READER) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Returns a connection. The socket must not block.
    pub(crate) fn connection(socket: impl Into<OwnedFd>) -> Self {
        Self {
            file: File::from(socket.into()),
            blocking: Blocking::Refused,
            is_locked: false,
            is_connection: true,
            awaited: None,
        }
    }

    /// Returns the number of written bytes that the reader of a pipe has not read.
    fn unread(&self) -> u64 {
        if self.is_connection { 0 } else { self.waiting() }
    }

    /// Returns the number of bytes that can be read at once.
    pub(crate) fn waiting(&self) -> u64 {
        ioctl_fionread(&self.file).unwrap_or(0)
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
        Ok(again.map_or(own, |file| Self::new(file, Blocking::Refused)))
    }

    /// Returns an open regular file.
    pub(crate) fn regular(file: File) -> Self {
        Self::new(file, Blocking::Never)
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

    fn new(file: File, blocking: Blocking) -> Self {
        Self { file, blocking, is_locked: false, is_connection: false, awaited: None }
    }

    fn at_once(options: &mut OpenOptions, path: &Path) -> io::Result<Self> {
        let file = options.custom_flags(at_once()).open(path)?;
        let blocking = if file.metadata()?.is_file() { Blocking::Never } else { Blocking::Refused };
        Ok(Self::new(file, blocking))
    }

    fn inherited(file: File) -> io::Result<Self> {
        let blocking = if file.metadata()?.is_file() { Blocking::Never } else { Blocking::Unlimited };
        Ok(Self::new(file, blocking))
    }

    /// Waits for the first bytes of a FIFO until the wait was reported.
    fn wait_for_writer(&mut self) -> io::Result<()> {
        let Some(peer) = self.awaited.take() else { return Ok(()) };
        let mut report = LongWait::new();
        while !report.is_reported {
            let now = Timespec::default();
            if rustix::event::poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&now))? > 0 {
                break;
            }
            pause()?;
            report.check(&peer);
        }
        Ok(())
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

/// Waits until `open` returns a file, and reports a long wait for `peer`.
pub(crate) fn wait_for(
    peer: &str,
    mut open: impl FnMut() -> io::Result<Option<StoppableFile>>,
) -> io::Result<StoppableFile> {
    let mut report = LongWait::new();
    loop {
        if let Some(file) = open()? {
            return Ok(file);
        }
        pause()?;
        report.check(peer);
    }
}

/// The single report of a long wait.
struct LongWait {
    report_at: Instant,
    is_reported: bool,
}

impl LongWait {
    fn new() -> Self {
        Self { report_at: Instant::now() + REPORT_TIME, is_reported: false }
    }

    fn check(&mut self, peer: &str) {
        if !self.is_reported && Instant::now() >= self.report_at {
            self.is_reported = true;
            // The message is only for the user.
            let _ = writeln!(io::stderr(), "waiting for {peer}");
        }
    }
}

fn pause() -> io::Result<()> {
    let Some(stop) = StopSignal::of_this_thread() else {
        std::thread::sleep(PEER_STEP);
        return Ok(());
    };
    let waited = if stop.is_ending() { Err(Error::Stopped) } else { stop.sleep(PEER_STEP) };
    waited.map_err(|error| io::Error::new(ErrorKind::BrokenPipe, error))
}

/// Returns whether a write has failed because the reader has left. The end of the run has no code
/// of the system.
fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|code| GONE.contains(&code))
}

/// The readers of an output that come and go. Without a reader, bytes are dropped and counted.
pub(crate) struct Readers {
    /// Returns the output for the next reader; `None`: there is no reader yet.
    next: Box<dyn FnMut() -> io::Result<Option<StoppableFile>> + Send>,
    is_away: bool,
    /// The number of bytes that no reader has taken, as far as the system counts them.
    pub(crate) untaken: u64,
    /// The number of readers that have left.
    pub(crate) left: u64,
}

impl Readers {
    pub(crate) fn new(next: impl FnMut() -> io::Result<Option<StoppableFile>> + Send + 'static) -> Self {
        Self { next: Box::new(next), is_away: false, untaken: 0, left: 0 }
    }

    /// Returns the readers of the path, if the path is a FIFO.
    pub(crate) fn of_fifo(path: &Path) -> Option<Self> {
        let owned = path.to_owned();
        is_fifo(path).then(|| Self::new(move || StoppableFile::open_fifo(&owned)))
    }

    /// Returns whether `bytes` can be written to `file`, which may become the output for the next
    /// reader. Otherwise, they are counted.
    pub(crate) fn are_there(&mut self, file: &mut StoppableFile, bytes: &[u8]) -> io::Result<bool> {
        if self.is_away {
            match (self.next)()? {
                Some(next) => (*file, self.is_away) = (next, false),
                None => self.untaken += bytes.len() as u64,
            }
        }
        Ok(!self.is_away)
    }

    /// Checks whether `error` means that the reader has left. If so, counts the bytes that were not
    /// written, and closes the output. Returns the number of written bytes that the reader has left
    /// behind.
    ///
    /// # Errors
    /// The error has another cause.
    pub(crate) fn has_left(
        &mut self,
        error: io::Error,
        file: &mut StoppableFile,
        bytes: &[u8],
    ) -> io::Result<u64> {
        if !is_gone(&error) {
            return Err(error);
        }
        let unread = file.unread();
        // An open output would keep the unread bytes, and the next reader could begin within a
        // sample.
        *file = StoppableFile::regular(File::open("/dev/null")?);
        self.is_away = true;
        self.untaken += unread + bytes.len() as u64;
        self.left += 1;
        Ok(unread)
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("untaken", &self.untaken).field("left", &self.left).finish()
    }
}

impl Drop for StoppableFile {
    /// Unlocks the file, and discards the unread bytes of a connection.
    fn drop(&mut self) {
        // Otherwise, a process that another thread starts would share the lock until it executes
        // its program.
        if self.is_locked {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
        // A connection that is closed with unread bytes is reset, and the peer may lose the end of
        // the stream.
        let mut unread = [0; PIECE_BYTES];
        for _ in 0..UNREAD_PIECES {
            if !self.is_connection || !self.file.read(&mut unread).is_ok_and(|count| count > 0) {
                break;
            }
        }
    }
}

impl Read for StoppableFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            // Wait before the first read: a FIFO without a writer would seem to be at the end.
            if self.blocking != Blocking::Never {
                self.wait_for_writer()?;
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
            if source.kind() == ErrorKind::BrokenPipe || is_gone(source) =>
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
