//! Helpers for sinks that write files.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use stripline::component::{InvalidProperties, Properties};
use stripline::{Error, Result};

/// Returns the file of the property `path`, checked as far as possible without creating or changing
/// it.
///
/// # Errors
/// No path, a folder, a folder that does not exist or takes no files, or a file without write
/// permission.
pub(super) fn required_path(properties: &Properties) -> Result<PathBuf> {
    let path = properties.path("path").ok_or_else(|| {
        InvalidProperties::new("`path` is empty").property("path").remedy("set it to the file to write")
    })?;
    check(&path)?;
    Ok(path)
}

/// Checks that a file can be written, as far as possible without creating or changing it.
///
/// # Errors
/// As [`required_path`].
pub(super) fn check(path: &Path) -> Result<()> {
    let registered = path.display();
    let invalid = |message: String| InvalidProperties::new(message).property("path");
    if path.is_dir() {
        return Err(invalid(format!("{registered}: this is a folder")).remedy("name a file in it").into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(invalid(format!("{registered}: there is no folder {folder}"))
            .remedy("create it first")
            .into());
    }
    // Opening a FIFO would wait for its reader.
    if path.is_file() {
        OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(|error| invalid(format!("{registered}: cannot write: {error}")))?;
    } else if path != Path::new("-") && !path.exists() {
        let folder = folder.unwrap_or(Path::new("."));
        access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            let error = std::io::Error::from(error);
            invalid(format!("{registered}: cannot create a file in the folder {}: {error}", folder.display()))
                .remedy("name a folder that you may write to")
        })?;
    }
    Ok(())
}

/// Returns a sink's result: the error that ended receiving, or else the error of finishing the
/// file.
pub(super) fn outcome(received: Result<()>, finished: Result<()>) -> Result<()> {
    match received {
        Ok(()) | Err(Error::Stopped) => finished.and(received),
        failed => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_refused_and_what_can_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let message = |path: &Path| check(path).unwrap_err().to_string();
        assert!(message(dir.path()).contains("this is a folder"));
        assert!(message(&dir.path().join("none/file")).contains("there is no folder"));
        let path = dir.path().join("old");
        check(&path).unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "old").unwrap();
        check(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_folder_that_takes_no_files_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
        let path = dir.path().join("new.cf32");
        let refused = check(&path).map_err(|error| error.to_string());
        // An administrator may write there all the same, and then the check allows it.
        assert_eq!(refused.is_err(), std::fs::File::create(&path).is_err(), "{refused:?}");
        if let Err(message) = refused {
            assert!(message.contains("cannot create a file in the folder"), "{message}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_finished_outweighs_a_clean_end_only() {
        let failed = || Err(Error::failed("disk full"));
        assert!(matches!(outcome(Err(Error::Stopped), Ok(())), Err(Error::Stopped)));
        assert!(matches!(outcome(Err(Error::Stopped), failed()), Err(Error::Failed(_))));
        assert!(matches!(outcome(Ok(()), failed()), Err(Error::Failed(_))));
        let first = outcome(Err(Error::failed("first")), failed()).unwrap_err();
        assert_eq!(first.to_string(), "first");
    }
}
