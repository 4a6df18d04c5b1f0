//! The checks of files before they are opened for writing.

use std::fs::{Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::error::FormatError;
use super::output::{Existing, NUMBER_MAX, folder, is_special, numbered};
use crate::stoppable::StoppableFile;

/// The flag `O_CLOEXEC` in `/proc/self/fdinfo`.
const CLOSED_ON_EXEC: u32 = 0o2_000_000;

/// Checks that a file can be opened for writing, as far as possible without changing it.
///
/// # Errors
/// The path is a folder, or the parent folder does not exist or is not writable. The name is too
/// long, or would be too long with a number. The file exists and `existing` refuses that, cannot be
/// written, or has another writer.
///
/// ```
/// use stripline_components::formats::{Existing, check_output};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("samples.cf32");
/// check_output(&path, Existing::Refuse)?;
/// std::fs::write(&path, "")?;
/// assert!(check_output(&path, Existing::Refuse).is_err());
/// check_output(&path, Existing::Append)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_output(path: &Path, existing: Existing) -> Result<(), FormatError> {
    if path == Path::new("-") {
        return Ok(());
    }
    if path.is_dir() {
        return Err(FormatError::Directory { path: path.into() });
    }
    check_name(path)?;
    check_descriptor(path, existing)?;
    if path.symlink_metadata().is_err() {
        return check_folder(path);
    }
    if is_special(path) {
        // Opening a FIFO would wait for a reader.
        return Ok(());
    }
    match existing {
        Existing::Refuse => return Err(FormatError::Exists { path: path.into() }),
        Existing::Number => {
            let mut paths = (2..NUMBER_MAX).map(|number| numbered(path, number));
            let free = paths.find(|path| path.symlink_metadata().is_err());
            return free.map_or(Ok(()), |free| check_name(&free).and_then(|()| check_folder(&free)));
        }
        Existing::Append | Existing::Replace => {}
    }
    match (path.metadata(), path.read_link()) {
        // A link to nothing becomes the file that it names.
        (Err(error), Ok(target)) if error.kind() == ErrorKind::NotFound => {
            return check_output(&folder(path).join(target), existing);
        }
        (Err(source), _) => return Err(FormatError::open(path, "write", source)),
        (Ok(_), _) => {}
    }
    let opened = OpenOptions::new().read(existing == Existing::Append).write(true).open(path);
    opened.map_err(|source| FormatError::open(path, "write", source))?;
    if StoppableFile::has_writer(path) {
        return Err(FormatError::Busy { path: path.into() });
    }
    Ok(())
}

/// Checks that a file can be created in its folder.
fn check_folder(path: &Path) -> Result<(), FormatError> {
    let folder = folder(path);
    let problem = |problem: String, remedy: &str| FormatError::Recording {
        path: path.into(),
        problem,
        remedy: remedy.into(),
    };
    if !folder.is_dir() {
        return Err(problem(format!("there is no folder {}", folder.display()), "create it first"));
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        let error = io::Error::from(error);
        let text = format!("cannot create a file in the folder {}, {error}", folder.display());
        problem(text, "name a folder that you may write to")
    })
}

/// Checks that a file that exists can be replaced by another one in its folder.
pub(super) fn check_replaced(path: &Path) -> Result<(), FormatError> {
    check_folder(path)?;
    let user = geteuid().as_raw();
    match (folder(path).metadata(), path.metadata()) {
        (Ok(folder), Ok(file)) if is_kept(&folder, &file, user) => Err(FormatError::Recording {
            path: path.into(),
            problem: "in this folder, only the owner of the file may replace it (sticky bit)".into(),
            remedy: "set `existing` to number".into(),
        }),
        _ => Ok(()),
    }
}

/// Returns whether a sticky folder keeps this user from replacing a file.
fn is_kept(folder: &Metadata, file: &Metadata, user: u32) -> bool {
    folder.mode() & 0o1000 != 0 && ![0, folder.uid(), file.uid()].contains(&user)
}

/// Checks that a name is neither too long nor the name of a folder.
pub(super) fn check_name(path: &Path) -> Result<(), FormatError> {
    let unfit = |problem: &str, remedy: &str| FormatError::Recording {
        path: path.into(),
        problem: problem.into(),
        remedy: remedy.into(),
    };
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(unfit("the name ends in a slash", "name a file"));
    }
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::InvalidFilename => {
            Err(unfit("the name is too long", "name a file of at most 255 bytes"))
        }
        _ => Ok(()),
    }
}

/// Checks that a path in `/dev/fd` or `/proc/self/fd` names a file that the caller of this program
/// has opened, and that `existing` needs no other name there.
///
/// # Errors
/// There is no such file, this program has opened it itself, or it would get a number.
pub(super) fn check_descriptor(path: &Path, existing: Existing) -> Result<(), FormatError> {
    let own = format!("/proc/{}/fd", std::process::id());
    let Some(folder) = folder(path).canonicalize().ok().filter(|folder| *folder == Path::new(&own)) else {
        return Ok(());
    };
    let refuse = |problem: &str, remedy: &str| {
        Err(FormatError::Recording { path: path.into(), problem: problem.into(), remedy: remedy.into() })
    };
    let info = path.file_name().map(|number| folder.with_file_name("fdinfo").join(number));
    let Some(info) = info.and_then(|info| std::fs::read_to_string(info).ok()) else {
        return refuse("no file is open with this number", "name a file");
    };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    // A file that another program has passed on does not have the flag.
    if flags.is_some_and(|flags| flags & CLOSED_ON_EXEC != 0) {
        return refuse("this program has opened it for itself", "name a file");
    }
    if existing == Existing::Number && !is_special(path) {
        return refuse("an open file gets no number", "set `existing` to append or replace");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::super::output::OutputFile;
    use super::*;

    #[test]
    fn a_check_finds_what_cannot_be_written_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let problem = |path: &Path, existing| check_output(path, existing).unwrap_err().to_string();
        assert!(problem(folder.path(), Existing::Replace).contains("this is a directory"));
        assert!(problem(&path("none/file"), Existing::Refuse).contains("there is no folder"));
        assert!(problem(&path(&"x".repeat(256)), Existing::Refuse).contains("the name is too long"));
        assert!(problem(&path("file/"), Existing::Refuse).ends_with("ends in a slash: name a file"));
        for existing in Existing::ALL {
            check_output(&path("new"), existing).unwrap();
            check_output(Path::new("-"), existing).unwrap();
            check_output(Path::new("/dev/null"), existing).unwrap();
        }
        assert!(!path("new").exists());
        std::fs::write(path("old"), "old").unwrap();
        assert!(problem(&path("old"), Existing::Refuse).contains("exists already"));
        for existing in [Existing::Append, Existing::Number, Existing::Replace] {
            check_output(&path("old"), existing).unwrap();
        }
        std::os::unix::fs::symlink("none/file", path("astray")).unwrap();
        std::os::unix::fs::symlink("circle", path("circle")).unwrap();
        std::os::unix::fs::symlink("new", path("ahead")).unwrap();
        for existing in [Existing::Append, Existing::Replace] {
            assert!(problem(&path("astray"), existing).contains("there is no folder"));
            assert!(problem(&path("circle"), existing).contains("symbolic link"));
            check_output(&path("ahead"), existing).unwrap();
        }
        let _writer = OutputFile::open(&path("old"), Existing::Append).unwrap();
        assert!(problem(&path("old"), Existing::Replace).contains("is being written"));
        assert_eq!(std::fs::read(path("old")).unwrap(), b"old");
        let longest = path(&"x".repeat(255));
        std::fs::write(&longest, "").unwrap();
        assert!(problem(&longest, Existing::Number).contains("the name is too long"));
    }

    #[test]
    fn a_folder_that_takes_no_files_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
        let path = folder.path().join("new.cf32");
        let refused = check_output(&path, Existing::Refuse).map_err(|error| error.to_string());
        // An administrator may write there anyway, and then the check allows it.
        assert_eq!(refused.is_err(), File::create(&path).is_err(), "{refused:?}");
        if let Err(message) = refused {
            assert!(message.contains("cannot create a file in the folder"), "{message}");
        }
    }

    #[test]
    fn a_sticky_folder_keeps_the_files_of_others() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "").unwrap();
        for (mode, keeps) in [(0o777, false), (0o1777, true)] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let (about, file) = (folder.path().metadata().unwrap(), path.metadata().unwrap());
            assert_eq!(is_kept(&about, &file, file.uid() + 1), keeps, "{mode:o}");
            assert!(!is_kept(&about, &file, file.uid()) && !is_kept(&about, &file, 0));
            check_replaced(&path).unwrap();
        }
    }

    #[test]
    fn an_open_file_of_the_program_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("a")).unwrap();
        let problem = |path: &str, existing| {
            check_descriptor(Path::new(path), existing)
                .map_err(|error| error.to_string())
                .err()
                .unwrap_or_default()
        };
        for place in ["/proc/self/fd", "/dev/fd"] {
            let own = format!("{place}/{}", file.as_raw_fd());
            assert!(problem(&own, Existing::Append).contains("has opened it for itself: name a file"));
            assert!(OutputFile::open(Path::new(&own), Existing::Append).is_err());
            rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
            assert_eq!(problem(&own, Existing::Append), "");
            assert!(problem(&own, Existing::Number).ends_with("set `existing` to append or replace"));
            rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC).unwrap();
            assert!(problem(&format!("{place}/999999"), Existing::Refuse).contains("no file is open"));
        }
        assert_eq!(problem(folder.path().join("b").to_str().unwrap(), Existing::Number), "");
    }
}
