//! Opening files for writing: all writers do it here.

use std::cmp::Ordering;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fcntl_setfl, linkat};
use rustix::io::Errno;

use super::error::FormatError;
use super::output_check::{check_descriptor, check_name};
use super::whole_file::replace_file;
use crate::stoppable::{Readers, StoppableFile};
use crate::text::counted;

/// The highest number in the name of a file.
pub(super) const NUMBER_MAX: u32 = 100_000;

/// The handling of a file that already exists.
///
/// ```
/// use stripline_components::formats::Existing;
///
/// assert_eq!("number".parse(), Ok(Existing::Number));
/// assert_eq!(Existing::default().as_str(), "refuse");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// The writer fails.
    #[default]
    Refuse,
    /// The writer continues at the end of the file.
    Append,
    /// The file stays, and the writer creates a file with the next free number: `NAME.2.EXTENSION`.
    Number,
    /// The file is replaced.
    Replace,
}

impl Existing {
    /// All ways of handling.
    pub const ALL: [Self; 4] = [Self::Refuse, Self::Append, Self::Number, Self::Replace];

    /// Returns the word for this handling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Append => "append",
            Self::Number => "number",
            Self::Replace => "replace",
        }
    }

    /// Returns the handling for a file without a given name: the file gets a number.
    ///
    /// ```
    /// use stripline_components::formats::Existing;
    ///
    /// assert_eq!(Existing::Refuse.without_path(), Existing::Number);
    /// assert_eq!(Existing::Replace.without_path(), Existing::Replace);
    /// ```
    #[must_use]
    pub const fn without_path(self) -> Self {
        match self {
            Self::Refuse => Self::Number,
            given => given,
        }
    }

    /// Returns the handling for a writer that is started again. The writer neither replaces the
    /// data of its first run nor fails because of it.
    ///
    /// ```
    /// use stripline_components::formats::Existing;
    ///
    /// assert_eq!(Existing::Replace.after_restart(), Existing::Number);
    /// assert_eq!(Existing::Append.after_restart(), Existing::Append);
    /// ```
    #[must_use]
    pub const fn after_restart(self) -> Self {
        match self {
            Self::Append => Self::Append,
            Self::Refuse | Self::Number | Self::Replace => Self::Number,
        }
    }
}

impl FromStr for Existing {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|existing| existing.as_str() == word);
        known.ok_or_else(|| format!("use one of {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

/// Writes a file whole or not at all, and waits until it is on the disk. Returns the path, with the
/// number if the file got one.
///
/// A replaced file keeps its content until the new file is complete, even if the disk is full or
/// the process is killed. If the folder takes no further file, the file is written in place. A pipe
/// or a device gets the bytes directly.
///
/// # Errors
/// The file exists and `existing` refuses that, another writer has it open, or it cannot be
/// written.
///
/// ```
/// use stripline_components::formats::{Existing, write_whole};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("picture.png");
/// write_whole(&path, Existing::Refuse, b"first")?;
/// assert!(write_whole(&path, Existing::Number, b"second")?.ends_with("picture.2.png"));
/// write_whole(&path, Existing::Replace, b"third")?;
/// assert_eq!(std::fs::read(&path)?, b"third");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_whole(path: &Path, existing: Existing, bytes: &[u8]) -> Result<PathBuf, FormatError> {
    if existing == Existing::Replace && path.is_file() {
        if StoppableFile::has_writer(path) {
            return Err(FormatError::Busy { path: path.into() });
        }
        // A symbolic link stays a link.
        let target = path.canonicalize().map_err(|source| FormatError::open(path, "write", source))?;
        match target.metadata().and_then(|about| replace_file(&target, Some(&about), bytes, true)) {
            // The folder takes no other file, but this one may be writable.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            Err(source) => return Err(FormatError::open(path, "write", source)),
            Ok(_) => return Ok(path.into()),
        }
    }
    let mut output = OutputFile::open_with_head(path, existing, bytes)?;
    let mut written = 0;
    let rest = if output.has_head { &[] } else { bytes };
    let outcome = output.write_all(rest, &mut written).and_then(|()| output.sync());
    outcome.map_err(|source| FormatError::Write { path: output.path.clone(), written, source })?;
    Ok(output.path)
}

/// Returns the remedy for a truncated file; `parts` names the parts of the file.
pub(super) fn truncation_remedy(path: &Path, parts: &str) -> String {
    // Opening a pipe would wait for the other end.
    if path.is_file() && StoppableFile::has_writer(path) {
        return "another program is writing it: wait until it is complete".into();
    }
    format!("the {parts} before that are whole; if this is a copy, copy it again")
}

/// Returns the folder of a file.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that is open for writing, with its real path.
///
/// A regular file is locked (`flock`), so that it has only one writer at a time. A pipe or a device
/// is only opened: a FIFO waits for a reader. The path `-` is standard output.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// The path, with the number if the file got one.
    pub path: PathBuf,
    /// The file, positioned at the end.
    pub file: StoppableFile,
    /// The number of bytes in the file when it was opened.
    pub length: u64,
    /// Whether the file is a regular file of this writer, which has a length and can be
    /// synchronised.
    pub is_regular: bool,
    /// Whether the file was created with its first bytes.
    pub has_head: bool,
    /// A note about an earlier file at this path.
    pub found: Option<String>,
    /// Whether the name of the file is on the disk.
    is_named: bool,
    /// The readers of a pipe or a connection; `None`: a reader that leaves is an error.
    readers: Option<Readers>,
}

impl OutputFile {
    /// Opens a file.
    ///
    /// # Errors
    /// The file exists and `existing` refuses that, another writer has it open, or it cannot be
    /// created.
    pub fn open(path: &Path, existing: Existing) -> Result<Self, FormatError> {
        Self::open_as(path, existing, &[], |_| None)
    }

    /// Opens a file that cannot be read without its first bytes, `head`. A new file gets a name
    /// after these bytes are written, on file systems that support it.
    ///
    /// # Errors
    /// The errors of [`OutputFile::open`].
    pub fn open_with_head(path: &Path, existing: Existing, head: &[u8]) -> Result<Self, FormatError> {
        Self::open_as(path, existing, head, |_| None)
    }

    /// Opens one file of a pair. `other` returns the path of the other file. If `path` must not
    /// exist, the other path must not exist either.
    ///
    /// # Errors
    /// The errors of [`OutputFile::open`].
    pub fn open_beside(
        path: &Path,
        existing: Existing,
        other: impl Fn(&Path) -> Option<PathBuf>,
    ) -> Result<Self, FormatError> {
        Self::open_as(path, existing, &[], other)
    }

    fn open_as(
        path: &Path,
        existing: Existing,
        head: &[u8],
        other: impl Fn(&Path) -> Option<PathBuf>,
    ) -> Result<Self, FormatError> {
        check_descriptor(path, existing)?;
        if is_special(path) {
            return Self::locked(path, &mut OpenOptions::new());
        }
        let new = |path: &Path| {
            // Another rate adds a number to a name.
            check_name(path)?;
            if let Some(taken) = other(path).filter(|other| other.symlink_metadata().is_ok()) {
                return Err(FormatError::Exists { path: taken });
            }
            if let Some(created) = Self::created(path, head) {
                return created;
            }
            Self::locked(path, OpenOptions::new().create_new(true))
        };
        match existing {
            Existing::Refuse => new(path),
            Existing::Number => {
                for number in 1..NUMBER_MAX {
                    match new(&numbered(path, number)) {
                        Err(FormatError::Exists { .. }) => {}
                        Ok(opened) if number > 1 => {
                            // Of a pair, the other one may be there alone.
                            let alone = other(path).filter(|_| path.symlink_metadata().is_err());
                            let taken = alone.unwrap_or_else(|| path.into());
                            let (taken, written) = (taken.display(), opened.path.display());
                            let found = format!("{taken}, which stays as it is, and wrote {written}");
                            return Ok(Self { found: Some(found), ..opened });
                        }
                        opened => return opened,
                    }
                }
                Err(FormatError::Exists { path: numbered(path, NUMBER_MAX) })
            }
            Existing::Append if path.symlink_metadata().is_err() => match new(path) {
                // Another writer has created the file first.
                Err(FormatError::Exists { .. }) => Self::locked(path, OpenOptions::new().read(true)),
                created => created,
            },
            Existing::Append => Self::locked(path, OpenOptions::new().read(true).create(true)),
            Existing::Replace => {
                let output = Self::locked(path, OpenOptions::new().create(true))?;
                // Empty the file only after it is locked: a file of another writer stays unchanged.
                let mut file = output.file.file();
                let emptied = file.set_len(0).and_then(|()| file.rewind());
                emptied.map_err(|source| FormatError::open(path, "create", source))?;
                Ok(Self { length: 0, ..output })
            }
        }
    }

    fn locked(path: &Path, options: &mut OpenOptions) -> Result<Self, FormatError> {
        let open = |source: io::Error| match source.kind() {
            ErrorKind::AlreadyExists => FormatError::Exists { path: path.into() },
            _ => FormatError::open(path, "create", source),
        };
        let mut file = StoppableFile::open_output(options, path).map_err(open)?;
        // If standard output is a file, the rest of the content does not belong to this writer.
        let is_regular = file.is_regular() && path != Path::new("-");
        let mut length = 0;
        if is_regular {
            if !file.lock() {
                return Err(FormatError::Busy { path: path.into() });
            }
            append_only(file.file(), true).map_err(open)?;
            length = file.file().seek(SeekFrom::End(0)).map_err(open)?;
        }
        // A program that was started without standard output has this device as standard output.
        let is_null = path == Path::new("-")
            && file.file().metadata().ok().is_some_and(|about| Some(about.rdev()) == null_device());
        let found = is_null.then(|| "that standard output is /dev/null, which keeps nothing".into());
        let (path, has_head, is_named, readers) = (path.into(), false, false, None);
        Ok(Self { path, file, length, is_regular, has_head, found, is_named, readers })
    }

    /// Creates a file with its first bytes, and then gives it a name. Returns `None` if the file
    /// system does not support that, or `head` is empty.
    fn created(path: &Path, head: &[u8]) -> Option<Result<Self, FormatError>> {
        if head.is_empty() {
            return None;
        }
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::APPEND | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder(path), flags, Mode::from_raw_mode(0o666)).ok()?;
        let mut file = StoppableFile::regular(file.into());
        file.lock();
        if let Err(source) = file.write_all(head) {
            return Some(Err(FormatError::Write { path: path.into(), written: 0, source }));
        }
        let own = format!("/proc/self/fd/{}", file.file().as_raw_fd());
        match linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Some(Err(FormatError::Exists { path: path.into() })),
            Err(_) => return None,
        }
        let (path, is_regular, has_head, found) = (path.into(), true, true, None);
        Some(Ok(Self { path, file, length: 0, is_regular, has_head, found, is_named: false, readers: None }))
    }

    /// Returns the output of a connection. With `readers`, a reader may leave.
    pub fn connected(path: &Path, file: StoppableFile, readers: Option<Readers>) -> Self {
        let (path, is_regular, has_head, found) = (path.into(), false, false, None);
        Self { path, file, length: 0, is_regular, has_head, found, is_named: false, readers }
    }

    /// Lets the readers of a pipe come and go.
    pub fn keep_readers(&mut self) {
        self.readers = Readers::of_fifo(&self.path);
    }

    /// Returns the number of bytes that no reader has taken, and the number of readers that have
    /// left.
    pub fn untaken(&self) -> (u64, u64) {
        self.readers.as_ref().map_or((0, 0), |readers| (readers.untaken, readers.left))
    }

    /// Sets the note that an earlier file is continued after `before` units, and that an incomplete
    /// unit of `cut` bytes was removed at the end.
    pub fn note_found(&mut self, before: u64, unit: &str, cut: u64) {
        if self.found.is_some() || self.length == 0 {
            return;
        }
        let part = match cut {
            0 => String::new(),
            cut => format!(" and {} of a partial {unit}, which the run removed", counted(cut, "byte")),
        };
        let continued =
            format!("{} with {}{part}, and continued it", self.path.display(), counted(before, unit));
        self.found = Some(continued);
    }

    /// Writes all bytes, and adds the number of bytes that the system took to `written`, also on
    /// error. Bytes that no reader of a pipe takes are not added.
    pub fn write_all(&mut self, mut bytes: &[u8], written: &mut u64) -> io::Result<()> {
        self.check_length()?;
        if let Some(readers) = &mut self.readers
            && !readers.are_there(&mut self.file, bytes)?
        {
            return Ok(());
        }
        while !bytes.is_empty() {
            match self.append(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    *written += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let Some(readers) = &mut self.readers else { return Err(error) };
                    let unread = readers.has_left(error, &mut self.file, bytes)?;
                    *written = written.saturating_sub(unread);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Writes bytes at the end of the file, wherever it is: no hole and no overwritten bytes if
    /// another program has changed the length since the last check. The bytes are removed then.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_regular {
            return self.file.write(bytes);
        }
        let start = self.file.file().stream_position()?;
        let count = self.file.write(bytes)?;
        let mut file = self.file.file();
        let (found, expected) = (file.stream_position()?, start + count as u64);
        if found != expected {
            if file.metadata()?.len() == found {
                file.set_len(found - count as u64)?;
            }
            file.seek(SeekFrom::Start(start))?;
            changed_length(expected.cmp(&found))?;
        }
        Ok(count)
    }

    /// Writes the first bytes of a regular file again.
    pub fn write_head(&self, head: &[u8]) -> io::Result<()> {
        let file = self.file.file();
        append_only(file, false)?;
        let written = file.write_all_at(head, 0);
        append_only(file, true).and(written)
    }

    /// Waits until a regular file and its name are on the disk.
    ///
    /// # Errors
    /// The errors of [`OutputFile::sync_names`].
    pub fn sync(&mut self) -> io::Result<()> {
        self.sync_data()?;
        self.sync_names()
    }

    /// Waits until the bytes of a regular file are on the disk.
    pub fn sync_data(&self) -> io::Result<()> {
        if self.is_regular { self.file.file().sync_all() } else { Ok(()) }
    }

    /// Waits, once, until the name of a regular file is on the disk.
    ///
    /// # Errors
    /// The path no longer names this file, or the disk fails. No error is returned if the folder
    /// may not be read, or the file system does not support the wait.
    pub fn sync_names(&mut self) -> io::Result<()> {
        self.check_length()?;
        if !self.is_regular || self.is_named {
            return Ok(());
        }
        if !self.has_name() {
            return Err(changed("the file was removed or replaced", "set another `path`"));
        }
        sync_folder(folder(&self.path))?;
        self.is_named = true;
        Ok(())
    }

    /// Compares the end of the written bytes with the length of the file. `Less`: another program
    /// has appended bytes. `Greater`: another program has shortened the file.
    fn compare_length(&self) -> io::Result<Ordering> {
        let mut file = self.file.file();
        if !self.is_regular {
            return Ok(Ordering::Equal);
        }
        Ok(file.stream_position()?.cmp(&file.metadata()?.len()))
    }

    fn check_length(&self) -> io::Result<()> {
        changed_length(self.compare_length()?)
    }

    /// Shortens a regular file to at most `end`, and continues there. A file that another program
    /// has changed stays unchanged. Returns whether the file is as this writer left it.
    pub fn cut(&self, end: u64) -> io::Result<bool> {
        let mut file = self.file.file();
        if !self.is_regular || self.compare_length()? != Ordering::Equal {
            return Ok(!self.is_regular);
        }
        let end = end.min(file.metadata()?.len());
        file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end))).map(|_| true)
    }

    /// Returns whether the path still names this file and the file has all written bytes. Always
    /// true for a file that is not regular.
    pub fn is_in_place(&self) -> bool {
        let all = self.file.file().stream_position().unwrap_or(0);
        self.readable(all) == all
    }

    /// Returns whether the path still names this file. Always true for a file that is not regular.
    pub fn has_name(&self) -> bool {
        let identity = |metadata: io::Result<Metadata>| metadata.ok().map(|about| (about.dev(), about.ino()));
        !self.is_regular || identity(self.path.metadata()) == identity(self.file.file().metadata())
    }

    /// Returns the number of bytes that a reader finds of the first `bytes` bytes: 0 if the path
    /// names another file, and fewer if another program has shortened the file.
    pub fn readable(&self, bytes: u64) -> u64 {
        match self.file.file().metadata() {
            _ if !self.has_name() => 0,
            Ok(about) if self.is_regular => bytes.min(about.len()),
            _ => bytes,
        }
    }

    /// Makes the next call of [`OutputFile::sync_names`] check the path again, because the path may
    /// name another file by then.
    pub fn forget_names(&mut self) {
        self.is_named = false;
    }
}

/// Waits until the names in a folder are on the disk, as far as the system supports that.
fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(path).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => Ok(()),
        synced => synced,
    }
}

/// The remedy for a file that another program has written, too.
const ONE_WRITER: &str = "let one program write it";

/// Sets whether the system writes all bytes at the end of a file, and ignores other positions.
fn append_only(file: &File, is_set: bool) -> io::Result<()> {
    Ok(fcntl_setfl(file, if is_set { OFlags::APPEND } else { OFlags::empty() })?)
}

/// Returns the error for the result of [`OutputFile::compare_length`].
fn changed_length(end: Ordering) -> io::Result<()> {
    match end {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(changed("another program has appended to the file", ONE_WRITER)),
        Ordering::Greater => Err(changed("the file was shortened by another program", ONE_WRITER)),
    }
}

/// Returns the error of a file that another program has changed.
fn changed(problem: &str, remedy: &str) -> io::Error {
    io::Error::other(format!("{problem} meanwhile: {remedy}"))
}

/// Returns the device number of `/dev/null`.
fn null_device() -> Option<u64> {
    Path::new("/dev/null").metadata().ok().map(|about| about.rdev())
}

/// Returns whether the path is standard output, a pipe or a device: it is neither created nor
/// replaced.
pub(crate) fn is_special(path: &Path) -> bool {
    path == Path::new("-") || path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Returns whether the path is standard output or a pipe: written bytes cannot be changed.
pub(super) fn is_pipe(path: &Path) -> bool {
    let is_fifo = |metadata: Metadata| metadata.file_type().is_fifo() || metadata.file_type().is_socket();
    path == Path::new("-") || path.metadata().is_ok_and(is_fifo)
}

/// Returns the path with a number before the extension. Number 1 is the path without a number.
pub(crate) fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return path.into();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_kept_unless_it_is_to_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.b.raw");
        let write = |existing| {
            let mut output = OutputFile::open(&path, existing)?;
            output.file.write_all(b"new").unwrap();
            Ok::<_, FormatError>((output.path.file_name().unwrap().to_owned(), output.length))
        };
        std::fs::write(&path, "older").unwrap();
        let refused = write(Existing::Refuse).unwrap_err().to_string();
        assert!(refused.contains("a.b.raw: the file exists already"), "{refused}");
        assert_eq!(write(Existing::Number).unwrap(), ("a.b.2.raw".into(), 0));
        assert_eq!(write(Existing::Number).unwrap(), ("a.b.3.raw".into(), 0));
        assert_eq!(std::fs::read(&path).unwrap(), b"older");
        assert_eq!(write(Existing::Append).unwrap(), ("a.b.raw".into(), 5));
        assert_eq!(std::fs::read(&path).unwrap(), b"oldernew");
        assert_eq!(write(Existing::Replace).unwrap(), ("a.b.raw".into(), 0));
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_that_is_being_written_is_not_copied_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let writer = OutputFile::open(&path, Existing::Refuse).unwrap();
        assert!(truncation_remedy(&path, "records").contains("wait until it is complete"));
        drop(writer);
        assert!(truncation_remedy(&path, "records").contains("copy it again"));
        assert!(truncation_remedy(Path::new("-"), "records").contains("copy it again"));
    }

    #[test]
    fn a_file_is_replaced_whole_through_a_link_with_its_permissions() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("link"));
        std::fs::write(&path, "before").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("a", &link).unwrap();
        assert_eq!(write_whole(&link, Existing::Replace, b"after").unwrap(), link);
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"after");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        let _writer = OutputFile::open(&path, Existing::Append).unwrap();
        let busy = write_whole(&link, Existing::Replace, b"later").unwrap_err();
        assert!(matches!(busy, FormatError::Busy { .. }));
        let names = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!((names, std::fs::read(&path).unwrap()), (2, b"after".to_vec()));
    }

    #[test]
    fn a_new_file_has_its_head_when_it_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        let open = |existing| OutputFile::open_with_head(&path, existing, b"head");
        let mut created = open(Existing::Refuse).unwrap();
        created.note_found(0, "sample", 0);
        assert_eq!((created.has_head, created.length, &created.found), (true, 0, &None));
        assert_eq!(std::fs::read(&path).unwrap(), b"head");
        assert!(
            matches!(open(Existing::Append), Err(FormatError::Busy { .. })),
            "it is locked from the start"
        );
        assert!(matches!(open(Existing::Refuse), Err(FormatError::Exists { .. })));
        drop(created);
        let mut continued = open(Existing::Append).unwrap();
        assert_eq!((continued.has_head, continued.length), (false, 4));
        continued.note_found(2, "sample", 1);
        assert!(continued.found.as_ref().unwrap().ends_with(
            "a.wav with 2 samples and 1 byte of a partial sample, which the run removed, and continued it"
        ));
        let mut numbered = open(Existing::Number).unwrap();
        numbered.note_found(0, "sample", 0);
        assert!(numbered.has_head && numbered.path.ends_with("a.2.wav"));
        let found = numbered.found.unwrap();
        assert!(found.contains("a.wav, which stays as it is, and wrote ") && found.ends_with("a.2.wav"));
        drop(continued);
        assert!(!open(Existing::Replace).unwrap().has_head);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_file_has_one_writer_also_by_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        let mut first = OutputFile::open(&path, Existing::Refuse).unwrap();
        first.file.write_all(b"kept").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for existing in [Existing::Replace, Existing::Append] {
            let busy = OutputFile::open(&link, existing).unwrap_err().to_string();
            assert!(busy.contains("is being written"), "{busy}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        drop(first);
        assert_eq!(OutputFile::open(&link, Existing::Append).unwrap().length, 4);
    }

    #[test]
    fn a_writer_that_ends_unlocks_its_file_for_processes_that_have_it_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let first = OutputFile::open(&path, Existing::Refuse).unwrap();
        // A process that is started at this moment inherits such a duplicate.
        let _inherited = first.file.file().try_clone().unwrap();
        drop(first);
        assert!(OutputFile::open(&path, Existing::Append).is_ok());
    }

    #[test]
    fn a_file_that_another_program_shortens_is_no_file_of_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut output = OutputFile::open(&path, Existing::Refuse).unwrap();
        let mut written = 0;
        output.write_all(b"1234", &mut written).unwrap();
        output.sync().unwrap();
        // A header that did not fit on the disk must not leave zeros behind.
        output.cut(10).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"1234");
        File::options().write(true).open(&path).unwrap().set_len(2).unwrap();
        for outcome in [output.write_all(b"5", &mut written), output.sync()] {
            assert!(outcome.unwrap_err().to_string().contains("shortened by another program"));
        }
        assert_eq!((output.is_in_place(), output.readable(4), output.cut(4).unwrap()), (false, 2, false));
        assert_eq!((std::fs::read(&path).unwrap(), written), (b"12".to_vec(), 4));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(output.readable(4), 0);
    }

    #[test]
    fn a_length_that_changes_between_check_and_write_leaves_no_hole() {
        let folder = tempfile::tempdir().unwrap();
        for head in [&b""[..], b"head"] {
            let path = folder.path().join(head.len().to_string());
            let mut output = OutputFile::open_with_head(&path, Existing::Refuse, head).unwrap();
            let mut written = 0;
            output.write_all(b"123456", &mut written).unwrap();
            output.check_length().unwrap();
            let whole = std::fs::read(&path).unwrap();
            File::options().write(true).open(&path).unwrap().set_len(5).unwrap();
            let shortened = output.append(b"78").unwrap_err().to_string();
            assert!(shortened.contains("shortened by another program"), "{shortened}");
            assert_eq!(std::fs::read(&path).unwrap(), whole[..5]);
            output.write_all(b"78", &mut written).unwrap_err();
            assert_eq!((output.is_in_place(), output.readable(99), written), (false, 5, 6));
            std::fs::write(&path, [&whole, &b"mine"[..]].concat()).unwrap();
            let appended = output.append(b"78").unwrap_err().to_string();
            assert!(appended.contains("another program has appended"), "{appended}");
            assert_eq!(std::fs::read(&path).unwrap(), [&whole, &b"mine"[..]].concat());
            output.write_head(b"H").unwrap();
            assert_eq!(std::fs::read(&path).unwrap()[..2], [b'H', whole[1]]);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_opened_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        sync_folder(folder.path()).unwrap();
        sync_folder(&folder.path().join("none")).unwrap_err();
    }

    #[test]
    fn bytes_that_another_program_appends_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut output = OutputFile::open(&path, Existing::Refuse).unwrap();
        let mut written = 0;
        output.write_all(b"1234", &mut written).unwrap();
        File::options().append(true).open(&path).unwrap().write_all(b"mine").unwrap();
        for outcome in [output.write_all(b"5", &mut written), output.sync()] {
            assert!(outcome.unwrap_err().to_string().contains("another program has appended"));
        }
        output.cut(4).unwrap();
        assert!(output.is_in_place(), "its own bytes can be read");
        assert_eq!((std::fs::read(&path).unwrap(), written), (b"1234mine".to_vec(), 4));
    }

    #[test]
    fn a_link_to_nothing_is_something_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("none"), &link).unwrap();
        assert!(matches!(OutputFile::open(&link, Existing::Refuse), Err(FormatError::Exists { .. })));
        assert!(OutputFile::open(&link, Existing::Number).unwrap().path.ends_with("link.2"));
    }

    #[test]
    fn the_other_file_of_a_pair_counts() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.data");
        let meta = |path: &Path| Some(path.with_extension("meta"));
        std::fs::write(folder.path().join("x.meta"), "").unwrap();
        let refused = OutputFile::open_beside(&data, Existing::Refuse, meta).unwrap_err().to_string();
        assert!(refused.contains("x.meta") && !data.exists(), "{refused}");
        let numbered = OutputFile::open_beside(&data, Existing::Number, meta).unwrap();
        assert!(numbered.path.ends_with("x.2.data"));
        assert!(numbered.found.unwrap().contains("x.meta, which stays as it is, and wrote "));
    }

    #[test]
    fn a_device_is_neither_refused_nor_emptied() {
        for existing in Existing::ALL {
            let output = OutputFile::open("/dev/null".as_ref(), existing).unwrap();
            assert!(!output.is_regular && output.path == Path::new("/dev/null"));
        }
    }
}
