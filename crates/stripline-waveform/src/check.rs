//! The check of a whole waveform, before any part of it starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stripline::packet::payload::TypeName;

use super::catalog::Catalog;
use super::components::CheckedComponent;
use super::connections::ResolvedConnection;
use super::diagnostics::Diagnostics;
use super::file::{self, NAME_BYTES_MAX};
use super::files_check::LauncherFiles;
use super::machine_check::{self, Limits};
use super::overrides::{self, Overrides};
use super::plan::{ComponentPlan, ConnectionPlan, PortRef, Program, Waveform};
use super::{build_check, components, connections, files_check, order_check, rate_check, type_inference};

/// Reads and checks a waveform file. Returns the waveform together with any warnings.
///
/// Runs the executables that the file names with `--describe`. Executables that have
/// [`validates`](stripline::component::ComponentSpec::validates) in their specification are also run with `--check`. No
/// other program starts. Files that properties name are checked too.
///
/// # Errors
/// All problems of the file, not only the first.
///
/// ```
/// use std::collections::BTreeMap;
/// use stripline_waveform::{Catalog, Code, Overrides, load};
///
/// let components = BTreeMap::new();
/// let catalog = Catalog::new(&components, &["shm"]);
/// let found = load("no/such/file.toml".as_ref(), &Overrides::default(), &catalog).unwrap_err();
/// assert_eq!(found.iter().next().unwrap().code(), Code::Unreadable);
/// ```
pub fn load(
    path: &Path,
    overrides: &Overrides,
    catalog: &Catalog,
) -> Result<(Waveform, Diagnostics), Diagnostics> {
    load_named(path, overrides, catalog, &mut |_| ())
}

/// Loads a file as [`load`] does, and calls `named` with the waveform's name before the check of
/// the components, which may take seconds.
pub fn load_named(
    path: &Path,
    overrides: &Overrides,
    catalog: &Catalog,
    named: &mut dyn FnMut(&str),
) -> Result<(Waveform, Diagnostics), Diagnostics> {
    parse_named(&file::read_bytes(path)?, path, overrides, catalog, named)
}

/// Checks a waveform file that has already been read; `path` is its nominal path.
///
/// # Errors
/// The same as for [`load`].
///
/// ```
/// use stripline::component::{ComponentSpec, PortTypes};
/// use stripline_waveform::{Catalog, Overrides, parse_bytes};
///
/// let ramp = ComponentSpec::new("ramp", "Counts.").output("out", PortTypes::of::<f32>(), "numbers");
/// let null = ComponentSpec::new("null", "Takes anything.").input("in", PortTypes::Any, "anything");
/// let components = [ramp, null].map(|spec| (spec.name.clone(), spec)).into();
/// let catalog = Catalog::new(&components, &["inproc", "shm"]);
/// let text = br#"
///     [component.source]
///     type = "ramp"
///
///     [component.sink]
///     type = "null"
///
///     [[connection]]
///     from = "source.out"
///     to = "sink.in"
/// "#;
/// let (waveform, warnings) =
///     parse_bytes(text, "count.toml".as_ref(), &Overrides::default(), &catalog).expect("it is right");
/// assert_eq!((waveform.name.as_str(), waveform.components.len()), ("count", 2));
/// assert_eq!(waveform.connections[0].payload.as_str(), "f32");
/// assert!(warnings.is_empty());
/// ```
pub fn parse_bytes(
    bytes: &[u8],
    path: &Path,
    overrides: &Overrides,
    catalog: &Catalog,
) -> Result<(Waveform, Diagnostics), Diagnostics> {
    parse_named(bytes, path, overrides, catalog, &mut |_| ())
}

fn parse_named(
    bytes: &[u8],
    path: &Path,
    overrides: &Overrides,
    catalog: &Catalog,
    named: &mut dyn FnMut(&str),
) -> Result<(Waveform, Diagnostics), Diagnostics> {
    let source = file::source(bytes, path)?;
    let mut found = Diagnostics::default();
    let mut options = overrides::read(overrides, &mut found);
    let Some(mut draft) = file::read(&source, &mut found) else {
        found.sort();
        return Err(found);
    };
    let name = draft.name.unwrap_or_else(|| name_of(path));
    named(&name);
    let folder = folder_of(path);
    components::replace_types(&mut draft.components, &mut options, catalog);
    let components = components::check(draft.components, &options, catalog, &folder, &mut found);
    if components.is_empty() {
        // The cause has been reported; that the connections have no ends adds no information.
        found.sort();
        return Err(found);
    }
    let mut links = connections::check(draft.connections, &components, &options, catalog, &mut found);
    let types = type_inference::resolve(&components, &links, catalog, &mut found);
    let files = LauncherFiles::new(&source, path, &options.writes);
    files_check::check(&components, &files, &types, &mut found);
    let channels = order_check::check(&links, &components, &mut found);
    rate_check::check(&links, &components, &channels, catalog, &mut found);
    build_check::check(&mut links, &components, &types, &mut found);
    machine_check::check(&links, &components, Limits::of_this_process(), &mut found);
    found.sort();
    if found.has_errors() {
        return Err(found);
    }
    let waveform = Waveform {
        name,
        description: draft.description,
        path: path.to_path_buf(),
        connections: connection_plans(&components, links, &types),
        components: component_plans(components, &types),
    };
    Ok((waveform, found))
}

/// Returns the absolute path of the file's folder.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // Without a current folder the path stays relative, and opening the file reports the problem.
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf())
}

/// Returns the stem of the file as a name. A character that a name cannot have becomes `-`.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = stem.chars().map(letter).take(NAME_BYTES_MAX).collect();
    if name.is_empty() { "waveform".into() } else { name }
}

pub(super) type PortTypesFound = BTreeMap<connections::ConnectionEnd, TypeName>;

fn connection_plans(
    components: &[CheckedComponent],
    links: Vec<ResolvedConnection>,
    types: &PortTypesFound,
) -> Vec<ConnectionPlan> {
    // Every link has both ends and a type here; all other cases were errors.
    let plan = |link: ResolvedConnection| {
        let (from, to) = (link.from?, link.to?);
        let port = |end: connections::ConnectionEnd| {
            let component = &components[end.component];
            let port = component.spec.as_ref()?.ports[end.port].name.clone();
            Some(PortRef { component: component.name.value.clone(), port })
        };
        Some(ConnectionPlan {
            from: port(from)?,
            to: port(to)?,
            transport: link.transport,
            choice: link.choice,
            options: link.draft.options,
            age_limit_ms: link.draft.age_limit_ms,
            payload: types.get(&from)?.clone(),
        })
    };
    links.into_iter().filter_map(plan).collect()
}

fn component_plans(components: Vec<CheckedComponent>, types: &PortTypesFound) -> Vec<ComponentPlan> {
    let plan = |(index, component): (usize, CheckedComponent)| {
        let spec = component.spec?.into_owned();
        let ends = types.iter().filter(|(end, _)| end.component == index);
        let port_types = ends.map(|(end, name)| (spec.ports[end.port].name.clone(), name.clone())).collect();
        Some(ComponentPlan {
            name: component.name.value,
            program: component.executable.map_or(Program::Stock, Program::Executable),
            properties: component.properties?.values,
            spec,
            placement: component.placement,
            restart: component.restart,
            priority: component.priority,
            cpus: component.cpus,
            dispatch: component.dispatch,
            port_types,
        })
    };
    components.into_iter().enumerate().filter_map(plan).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_comes_from_the_stem() {
        assert_eq!(name_of(Path::new("a/adsb.toml")), "adsb");
        assert_eq!(name_of(Path::new("my wave (1).toml")), "my-wave--1-");
        assert_eq!(name_of(Path::new("/")), "waveform");
    }
}
