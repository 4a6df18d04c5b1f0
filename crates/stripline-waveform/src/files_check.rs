//! The check that no two components write one file or standard output, and that none writes a file
//! that another reads.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stripline::component::PropertyKind;

use super::components::CheckedComponent;
use super::diagnostics::{Code, Diagnostic, Diagnostics, Place};

/// A file that a component uses.
struct Use<'c> {
    component: &'c str,
    place: &'c Place,
    path: PathBuf,
    identity: Identity,
    is_written: bool,
}

/// The identity of a file: by device and inode, so that links count. A file that does not exist has
/// that of its folder, and its name.
#[derive(PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    name: Option<PathBuf>,
}

impl Identity {
    /// Returns the identity of a regular file; `None` for another kind, or without a folder.
    fn of(path: &Path) -> Option<Self> {
        if let Ok(metadata) = path.metadata() {
            let (device, inode) = (metadata.dev(), metadata.ino());
            return metadata.is_file().then_some(Self { device, inode, name: None });
        }
        // A link to a file that does not exist is that file.
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

/// The path that is standard input or output.
const STANDARD: &str = "-";

/// Reports each file that a component writes and another one uses.
pub(super) fn check(components: &[CheckedComponent], found: &mut Diagnostics) {
    check_standard_output(components, found);
    let uses: Vec<Use> = components.iter().flat_map(uses).collect();
    let mut reported: Vec<(&str, &str)> = Vec::new();
    for (index, first) in uses.iter().enumerate() {
        for second in &uses[index + 1..] {
            let names = (first.component, second.component);
            let is_shared = first.identity == second.identity && names.0 != names.1;
            if !is_shared || !(first.is_written || second.is_written) || reported.contains(&names) {
                continue;
            }
            reported.push(names);
            let (writer, other) = if second.is_written { (second, first) } else { (first, second) };
            let verb = if other.is_written { "writes" } else { "reads" };
            let (name, other_name, path) = (writer.component, other.component, other.path.display());
            let message = format!("`{name}` writes the file that `{other_name}` {verb}: {path}");
            let error = Diagnostic::error(Code::FileShared, writer.place, message);
            let error = error.also(other.place, format!("`{other_name}` {verb} it"));
            found.push(error.help(format!("set the `path` of `{name}` to another file")));
        }
    }
}

/// Reports a component that needs standard output for itself, and another one that writes there.
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

/// Returns the files of a component. A path among its properties is a file that it reads, unless
/// the component's facts have it as written.
fn uses<'c>(component: &'c CheckedComponent) -> Vec<Use<'c>> {
    let (Some(spec), Some(properties)) = (component.spec.as_deref(), &component.properties) else {
        return Vec::new();
    };
    let name = component.name.value.as_str();
    let place = |property: &str| properties.places.get(property).unwrap_or(&component.name.place);
    let written = &properties.facts.writes;
    let file = |path: PathBuf, place: &'c Place, is_written: bool| {
        if path == Path::new(STANDARD) {
            return None;
        }
        let identity = Identity::of(&path)?;
        Some(Use { component: name, place, path, identity, is_written })
    };
    let paths = spec.properties.iter().filter(|property| property.kind == PropertyKind::Path);
    let read = paths.filter_map(|property| {
        let path = properties.values.path(&property.name).filter(|path| !written.contains(path))?;
        file(path, place(&property.name), false)
    });
    let written = written.iter().filter_map(|path| file(path.clone(), place("path"), true));
    written.chain(read).collect()
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
            let is_equal =
                Identity::of(&path(one)).is_some() && Identity::of(&path(one)) == Identity::of(&path(other));
            assert_eq!(is_equal, is_same, "{one} {other}");
        }
        assert!(Identity::of(Path::new("/dev/null")).is_none() && Identity::of(folder.path()).is_none());
    }
}
