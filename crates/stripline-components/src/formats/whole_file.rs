//! Files that are complete as soon as they have their name.

use std::fs::{Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::output::folder;

/// Replaces the regular file `before` by another file with the same owner and permissions. `None`:
/// creates a file, unless it exists. With `sync`, waits until the bytes are on the disk.
pub(super) fn replace_file(
    path: &Path,
    before: Option<&Metadata>,
    bytes: &[u8],
    sync: bool,
) -> io::Result<Metadata> {
    let mut partial = tempfile::Builder::new();
    partial.prefix(".stripline-").suffix(".part").permissions(Permissions::from_mode(0o666));
    let mut file = partial.tempfile_in(folder(path))?;
    if let Some(before) = before {
        // The owner stays the same if the system permits it.
        let _ = fchown(file.as_file(), Some(before.uid()), Some(before.gid()));
        file.as_file().set_permissions(before.permissions())?;
    }
    file.as_file_mut().write_all(bytes)?;
    if sync {
        file.as_file().sync_all()?;
    }
    let named = match before {
        Some(_) => file.persist(path),
        None => file.persist_noclobber(path).or_else(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => Err(error),
            // Some file systems can only replace.
            _ => error.file.persist(path),
        }),
    };
    named?.metadata()
}

/// Returns the path of the file that a symbolic link names, also if there is no such file.
pub(super) fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // The system follows at most 40 links, too.
    for _ in 0..40 {
        let Ok(target) = path.read_link() else { break };
        path = folder(&path).join(target);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_replaces_none_and_has_usual_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (path, usual) = (folder.path().join("a"), folder.path().join("usual"));
        std::fs::write(&usual, "").unwrap();
        let about = replace_file(&path, None, b"first", true).unwrap();
        assert_eq!(about.permissions(), usual.metadata().unwrap().permissions());
        let taken = replace_file(&path, None, b"second", false).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }
}
