//! Helpers for sinks that write files.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};
use stripline::component::{
    ComponentSpec, InvalidProperties, Ports, Properties, PropertyFacts, PropertySpec, Value,
};
use stripline::payload::Content;
use stripline::{Error, Input, Packet, Received, Result};

use crate::formats::{Durability, Existing, FormatError, folder, numbered};
use crate::stoppable::{StoppableFile, ended};

/// The file of a sink, and the handling of one that exists.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub path: PathBuf,
    pub existing: Existing,
    pub durability: Durability,
    /// Whether a full disk ends this component alone.
    pub ends_alone: bool,
}

impl Target {
    /// Returns the file of the properties `path` and `existing`; `None` without a path.
    ///
    /// # Errors
    /// As [`check`].
    pub fn optional(properties: &Properties) -> Result<Option<Self>> {
        let Some(path) = properties.path("path") else { return Ok(None) };
        check(&path)?;
        Ok(Some(Self::new(path, existing(properties), properties)))
    }

    fn new(path: PathBuf, existing: Existing, properties: &Properties) -> Self {
        // Not every sink has these properties.
        let word = |name| match properties.value(name) {
            Some(Value::Text(word)) => word.as_str(),
            _ => "",
        };
        let durability = word("sync").parse().unwrap_or_default();
        Self { path, existing, durability, ends_alone: word("disk_full") == DISK_FULL[1] }
    }

    /// Returns the file as [`Target::optional`] does. Without a path it is `default` in the current
    /// folder, or the next free number of it.
    ///
    /// # Errors
    /// As [`check`]. Also if there is no path and no default.
    pub fn required(properties: &Properties, default: Option<&str>) -> Result<Self> {
        if let Some(target) = Self::optional(properties)? {
            return Ok(target);
        }
        let path = default.ok_or_else(|| {
            InvalidProperties::new("`path` is empty").property("path").remedy("set it to the file to write")
        })?;
        check(Path::new(path))?;
        Ok(Self::new(path.into(), existing(properties).without_path(), properties))
    }

    /// Returns the file for a component that runs. A component that was started before in this
    /// run keeps its earlier file.
    pub fn of_run(mut self, ports: &Ports) -> Self {
        if ports.restarts() > 0 {
            self.existing = self.existing.after_restart();
        }
        self
    }

    /// Returns the error of a file, which ends the component. If a full disk is to end the
    /// component alone, the end is in order, and `problem` gets the reason for the report.
    pub fn failed(&self, error: FormatError, problem: &mut Option<String>) -> Error {
        if self.ends_alone && error.is_full() {
            problem.get_or_insert_with(|| error.to_string());
            return Error::Stopped;
        }
        ended(error)
    }

    /// Checks that the file does not exist, if it must not, and has a name with a number, if it
    /// would get one. No writer may have a file that is to be continued or replaced.
    ///
    /// # Errors
    /// It exists, or that name would be too long, or another writer has it.
    pub fn check_existing(&self, files: impl Fn(&Path) -> Vec<PathBuf>) -> Result<()> {
        let is_taken = |path: &Path| path.symlink_metadata().is_ok() && (path.is_file() || !path.exists());
        let files = files(&self.path);
        let Some(taken) = files.iter().find(|path| is_taken(path)) else { return Ok(()) };
        let error = match self.existing {
            Existing::Refuse => Some(FormatError::Exists { path: taken.clone() }),
            Existing::Number => {
                let mut paths = (2..).map(|number| numbered(&self.path, number));
                let free = paths.find(|path| path.symlink_metadata().is_err());
                return free.map_or(Ok(()), |path| check_name(&path));
            }
            Existing::Append | Existing::Replace => {
                let busy = files.iter().find(|path| path.is_file() && StoppableFile::has_writer(path));
                busy.map(|path| FormatError::Busy { path: path.clone() })
            }
        };
        error.map_or(Ok(()), |error| Err(super::property_errors::file(error)))
    }
}

fn existing(properties: &Properties) -> Existing {
    properties.text("existing").parse().unwrap_or_default()
}

/// Describes the property `existing`.
pub(super) fn existing_property() -> PropertySpec {
    PropertySpec::choice(
        "existing",
        &Existing::ALL.map(Existing::as_str),
        Existing::default().as_str(),
        "what becomes of a file that exists: an error; further data at its end; another file, NAME.2; a new file",
    )
}

/// The choices of the property `disk_full`.
const DISK_FULL: [&str; 2] = ["fail", "end"];

/// Describes the properties of a file that is written while packets arrive.
pub(super) fn with_file_properties(spec: ComponentSpec) -> ComponentSpec {
    spec.property(existing_property())
        .property(PropertySpec::choice(
            "sync",
            &Durability::ALL.map(Durability::as_str),
            Durability::default().as_str(),
            "when data is on the disk, also if the machine fails: at the end, a second later at most, with each packet",
        ))
        .property(PropertySpec::choice(
            "disk_full",
            &DISK_FULL,
            DISK_FULL[0],
            "what a full disk does: the component fails; or it ends in order, alone, and the report has the reason",
        ))
}

/// Returns the facts about a sink that writes the file of its property `path`, or has standard
/// output for itself.
pub(super) fn facts(properties: &Properties) -> PropertyFacts {
    PropertyFacts { writes: properties.path("path").into_iter().collect(), ..PropertyFacts::default() }
}

/// Returns whether the property `path` is standard output.
pub(super) fn is_printed(properties: &Properties) -> bool {
    properties.path("path").is_some_and(|path| path == Path::new("-"))
}

/// Returns the file itself, for [`Target::check_existing`].
pub(super) fn alone(path: &Path) -> Vec<PathBuf> {
    vec![path.into()]
}

/// Checks that a file can be written, as far as possible without creating or changing it.
///
/// # Errors
/// A folder, a folder that does not exist or takes no files, or a file without write permission.
pub(super) fn check(path: &Path) -> Result<()> {
    let registered = path.display();
    let invalid = |message: String| InvalidProperties::new(message).property("path");
    if path.is_dir() {
        return Err(invalid(format!("{registered}: this is a folder")).remedy("name a file in it").into());
    }
    check_name(path)?;
    let folder = folder(path);
    if !folder.is_dir() {
        return Err(invalid(format!("{registered}: there is no folder {}", folder.display()))
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
        access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            let error = std::io::Error::from(error);
            invalid(format!("{registered}: cannot create a file in the folder {}: {error}", folder.display()))
                .remedy("name a folder that you may write to")
        })?;
    }
    Ok(())
}

fn check_name(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::InvalidFilename => {
            let problem = InvalidProperties::new(format!("{}: the name is too long", path.display()));
            Err(problem.property("path").remedy("name a file of at most 255 bytes").into())
        }
        _ => Ok(()),
    }
}

/// An output that passes its data on in time, also while no packet comes.
pub(super) trait TimedOutput {
    /// Returns the longest time to wait for the next packet before `pass_due` is called.
    fn wait_time(&self) -> Duration;

    /// Passes all data on, if the oldest of it was written a second ago.
    fn pass_due(&mut self) -> Result<()>;
}

impl<O: TimedOutput> TimedOutput for Option<O> {
    fn wait_time(&self) -> Duration {
        self.as_ref().map_or(Duration::MAX, O::wait_time)
    }

    fn pass_due(&mut self) -> Result<()> {
        self.as_mut().map_or(Ok(()), O::pass_due)
    }
}

/// Receives packets until their end, and calls `write` with the output and each of them.
pub(super) fn receive<T: Content, O: TimedOutput>(
    input: &mut Input<T>,
    output: &mut O,
    mut write: impl FnMut(&mut O, &Packet<'_, T>) -> Result<()>,
) -> Result<()> {
    loop {
        match input.receive_timeout(output.wait_time())? {
            Received::Packet(packet) => write(output, &packet)?,
            Received::Empty => output.pass_due()?,
            Received::Ended => return Ok(()),
        }
    }
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
