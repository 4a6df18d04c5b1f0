//! The check of the files that a waveform uses. Two components must not write one file or both
//! write to standard output, and a component must not write a file that another component reads.
//! The launcher and its options count, too. The name of a file must not promise another sample type
//! than the component receives.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use std::sync::Arc;

use stripline::component::{Direction, PropertyKind, PropertySpec};

use super::check::PortTypesFound;
use super::components::CheckedComponent;
use super::connections::ConnectionEnd;
use super::diagnostics::{At, Code, Diagnostic, Diagnostics, Place, Source};

/// The use of a file by a component or the launcher.
struct Use<'c> {
    /// The name of a component or option in backticks, or the launcher.
    user: String,
    remedy: String,
    place: &'c Place,
    path: PathBuf,
    /// The standard stream that is the file, if the path is `-`.
    stream: Option<Stream>,
    identity: FileIdentity,
    is_written: bool,
}

/// A standard stream, which may be a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Input,
    Output,
    Error,
}

impl Stream {
    /// Returns the path of the stream's open file.
    fn path(self) -> &'static Path {
        Path::new(match self {
            Self::Input => "/proc/self/fd/0",
            Self::Output => "/proc/self/fd/1",
            Self::Error => "/proc/self/fd/2",
        })
    }
}

/// The files of the launcher: the waveform file, and the files that its options write.
pub(super) struct LauncherFiles<'a> {
    source: (Place, &'a Path),
    written: &'a [At<PathBuf>],
}

impl<'a> LauncherFiles<'a> {
    pub fn new(source: &Arc<Source>, path: &'a Path, written: &'a [At<PathBuf>]) -> Self {
        Self { source: (Place::new(source, 0..0), path), written }
    }

    fn uses(&self) -> impl Iterator<Item = Use<'_>> {
        let written = self.written.iter().filter_map(|file| {
            let option = file.place.text().split(' ').next().unwrap_or_default();
            let remedy = format!("name another file with `{option}`");
            let path = Some(file.value.clone()).filter(|path| path != Path::new(STANDARD))?;
            Use::of(format!("`{option}`"), remedy, &file.place, path, true)
        });
        let (place, path) = &self.source;
        let source = Use::of(LAUNCHER.into(), String::new(), place, path.to_path_buf(), false);
        // The launcher prints to these streams.
        let printed = [(Stream::Output, "standard output"), (Stream::Error, "standard error")];
        let printed = printed.into_iter().filter_map(|(stream, name)| {
            let remedy = format!("redirect {name} to another file");
            Use::of_stream(LAUNCHER.into(), remedy, place, stream)
        });
        written.chain(source).chain(printed)
    }
}

impl<'c> Use<'c> {
    /// Returns the use of a file. Returns `None` if it is not a regular file.
    fn of(user: String, remedy: String, place: &'c Place, path: PathBuf, is_written: bool) -> Option<Self> {
        let identity = FileIdentity::of(&path)?;
        Some(Self { user, remedy, place, path, stream: None, identity, is_written })
    }

    /// Returns the use of a standard stream. Returns `None` if the stream is not a regular file.
    fn of_stream(user: String, remedy: String, place: &'c Place, stream: Stream) -> Option<Self> {
        let path = fs::read_link(stream.path()).unwrap_or_else(|_| stream.path().into());
        let identity = FileIdentity::of(stream.path())?;
        let is_written = stream != Stream::Input;
        Some(Self { user, remedy, place, path, stream: Some(stream), identity, is_written })
    }

    fn is_of_launcher(&self) -> bool {
        self.user == LAUNCHER
    }

    fn is_of_option(&self) -> bool {
        self.user.starts_with("`--")
    }
}

/// The identity of a regular file: device and inode, so that two links to a file are equal. A file
/// that does not exist is identified by folder and name.
#[derive(PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    name: Option<PathBuf>,
}

impl FileIdentity {
    /// Returns the identity of a regular file. Returns `None` for another kind of file, or without
    /// a folder.
    pub fn of(path: &Path) -> Option<Self> {
        if let Ok(metadata) = path.metadata() {
            let (device, inode) = (metadata.dev(), metadata.ino());
            return metadata.is_file().then_some(Self { device, inode, name: None });
        }
        // A link to a file that does not exist counts as that file.
        let target = fs::read_link(path).ok().map(|target| path.with_file_name(target));
        let path = target.as_deref().unwrap_or(path);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let metadata = folder.unwrap_or(Path::new(".")).metadata().ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            name: path.file_name().map(PathBuf::from),
        })
    }
}

/// The name of the command itself as a user of files.
const LAUNCHER: &str = "the launcher";

/// The path that means standard input or output.
const STANDARD: &str = "-";

/// Other paths of standard output and standard error, to which the launcher prints.
const PRINTED: [&str; 6] =
    ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"];

/// Reports each file that a component or option writes, and that another one uses.
pub(super) fn check(
    components: &[CheckedComponent],
    launcher: &LauncherFiles<'_>,
    types: &PortTypesFound,
    found: &mut Diagnostics,
) {
    check_standard_output(components, found);
    check_printed(components, found);
    check_names(components, types, found);
    let uses: Vec<Use> = components.iter().flat_map(uses).chain(launcher.uses()).collect();
    let mut reported: Vec<(&str, &str)> = Vec::new();
    for (index, first) in uses.iter().enumerate() {
        for second in &uses[index + 1..] {
            let users = (&*first.user, &*second.user);
            let is_shared = first.identity == second.identity && users.0 != users.1;
            // Two users of one stream are reported elsewhere, and the launcher leaves a stream to a
            // component.
            let is_one_stream = first.stream.is_some() && first.stream == second.stream;
            if !is_shared || is_one_stream || !(first.is_written || second.is_written) {
                continue;
            }
            let is_second = second.is_written && !(first.is_written && second.is_of_launcher());
            let (writer, other) = if is_second { (second, first) } else { (first, second) };
            let is_launchers_stream = other.is_of_launcher() && other.stream.is_some();
            let is_printed = PRINTED.iter().any(|printed| writer.path == Path::new(printed));
            // Such a path of a component is found above.
            if reported.contains(&users) || is_launchers_stream && is_printed && !writer.is_of_option() {
                continue;
            }
            reported.push(users);
            let verb = if other.is_written { "writes" } else { "reads" };
            let (name, other_name, path) = (&writer.user, &other.user, other.path.display());
            let message = format!("{name} writes the file that {other_name} {verb}: {path}");
            let error = Diagnostic::error(Code::FileShared, writer.place, message);
            // The remedy in the error about an existing file would replace the file that is shared.
            found.drop_at(writer.place, Code::PropertiesUnfit);
            found.push(match is_launchers_stream && !is_printed {
                true => error.help(&other.remedy),
                false => error.also(other.place, format!("{other_name} {verb} it")).help(&writer.remedy),
            });
        }
    }
}

/// Reports a component that writes samples to a file with the name of another type.
fn check_names(components: &[CheckedComponent], types: &PortTypesFound, found: &mut Diagnostics) {
    for (index, component) in components.iter().enumerate() {
        let (Some(spec), Some(properties)) = (component.spec.as_deref(), &component.properties) else {
            continue;
        };
        let Some(named) = &properties.facts.named_payload else { continue };
        let input = spec.ports.iter().position(|port| port.direction == Direction::Input);
        let received = input.and_then(|port| types.get(&ConnectionEnd { component: index, port }));
        let Some(received) = received.filter(|received| *received != named) else { continue };
        let name = &component.name.value;
        let place = properties.places.get("path").unwrap_or(&component.name.place);
        let message = format!("the name of the file is of {named} samples, and `{name}` receives {received}");
        let error = Diagnostic::error(Code::FileMisnamed, place, message);
        let converts = |property: &PropertySpec| {
            let PropertyKind::Choice { choices } = &property.kind else { return None };
            let takes = received.as_str() == "cf32" && choices.iter().any(|word| word == named.as_str());
            takes.then(|| format!(", or set `{}` to {named}", property.name))
        };
        let or_convert = spec.properties.iter().find_map(converts).unwrap_or_default();
        found.push(error.help(format!("give the file another ending, as .{received}{or_convert}")));
    }
}

/// Reports a component that needs standard output for itself if another component writes there.
fn check_standard_output(components: &[CheckedComponent], found: &mut Diagnostics) {
    let facts = |component: &'_ CheckedComponent| match &component.properties {
        Some(properties) => {
            let is_owner = properties.facts.writes.iter().any(|path| path == Path::new(STANDARD));
            (is_owner, is_owner || properties.facts.prints)
        }
        None => (false, false),
    };
    let place = |component: &'_ CheckedComponent| {
        let path = component.properties.as_ref().and_then(|properties| properties.places.get("path"));
        path.unwrap_or(&component.name.place).clone()
    };
    let mut writers = components.iter().filter(|component| facts(component).1);
    while let Some(first) = writers.next() {
        for second in writers.clone() {
            let (owner, other) = if facts(first).0 { (first, second) } else { (second, first) };
            if !facts(owner).0 {
                continue;
            }
            let (name, other_name) = (&owner.name.value, &other.name.value);
            let message = format!("`{name}` and `{other_name}` write to standard output");
            let error = Diagnostic::error(Code::FileShared, &place(owner), message);
            let error = error.also(&place(other), format!("`{other_name}` writes there"));
            found.push(error.help(format!("set the `path` of `{name}` to a file")));
        }
    }
}

/// Reports a component that opens standard output or standard error as a file.
fn check_printed(components: &[CheckedComponent], found: &mut Diagnostics) {
    for component in components {
        let Some(properties) = &component.properties else { continue };
        let is_printed = |path: &&PathBuf| PRINTED.iter().any(|printed| path.as_path() == Path::new(printed));
        let Some(path) = properties.facts.writes.iter().find(is_printed) else { continue };
        let (name, path) = (&component.name.value, path.display());
        let place = properties.places.get("path").unwrap_or(&component.name.place);
        let message = format!("`{name}` writes the file that the launcher prints on: {path}");
        found.drop_at(place, Code::PropertiesUnfit);
        let error = Diagnostic::error(Code::FileShared, place, message);
        found.push(error.help("set `path` to -, which is standard output without other lines, or to a file"));
    }
}

/// Returns the files of a component. A property of the kind path is a file that the component
/// reads, unless the component's facts list it as written.
fn uses<'c>(component: &'c CheckedComponent) -> Vec<Use<'c>> {
    let (Some(spec), Some(properties)) = (component.spec.as_deref(), &component.properties) else {
        return Vec::new();
    };
    let user = format!("`{}`", component.name.value);
    let place = |property: &str| properties.places.get(property).unwrap_or(&component.name.place);
    let written = &properties.facts.writes;
    let file = |path: PathBuf, place: &'c Place, is_written: bool| {
        let remedy = format!("set the `path` of {user} to another file");
        if path != Path::new(STANDARD) {
            return Use::of(user.clone(), remedy, place, path, is_written);
        }
        // A component that prints shares standard output with others.
        let read = (!properties.facts.prints).then_some(Stream::Input);
        let stream = if is_written { Some(Stream::Output) } else { read };
        Use::of_stream(user.clone(), remedy, place, stream?)
    };
    let paths = spec.properties.iter().filter(|property| property.kind == PropertyKind::Path);
    let read = paths.filter_map(|property| {
        let path = properties.values.path(&property.name).filter(|path| !written.contains(path))?;
        file(path, place(&property.name), false)
    });
    let beside = properties.facts.reads.iter().filter_map(|path| file(path.clone(), place("path"), false));
    let written = written.iter().filter_map(|path| file(path.clone(), place("path"), true));
    written.chain(read).chain(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_every_path_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "").unwrap();
        fs::hard_link(path("file"), path("hard")).unwrap();
        std::os::unix::fs::symlink("file", path("soft")).unwrap();
        std::os::unix::fs::symlink("new", path("dangling")).unwrap();
        for (one, other, is_same) in [
            ("file", "hard", true),
            ("file", "soft", true),
            ("file", "./file", true),
            ("new", "dangling", true),
            ("new", "../other/new", false),
            ("new", "newer", false),
            ("file", "new", false),
        ] {
            let is_equal = FileIdentity::of(&path(one)).is_some()
                && FileIdentity::of(&path(one)) == FileIdentity::of(&path(other));
            assert_eq!(is_equal, is_same, "{one} {other}");
        }
        assert!(FileIdentity::of(Path::new("/dev/null")).is_none());
        assert!(FileIdentity::of(folder.path()).is_none());
    }
}
