//! The command-line options that replace settings of the file.

use std::path::PathBuf;

use super::Placement;
use super::diagnostics::{At, Code, Diagnostics, Place, Source};

/// The command-line options that replace settings of the file, and the files that other options
/// name.
///
/// ```
/// use stripline_waveform::{Overrides, Placement};
///
/// let overrides = Overrides {
///     set: vec!["source.path=capture.bin".into()],
///     transport: Some("inproc".into()),
///     placement: Some(Placement::Thread),
///     writes: vec![("--output".into(), "result.json".into())],
/// };
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--set`: each is `component.property=value`. If two set the same property, the later one
    /// counts. `component.type=name` replaces a stock component, with all properties that the file
    /// gives it. A relative path is resolved against the current folder.
    pub set: Vec<String>,
    /// `--transport`: the transport of every connection, or `auto`.
    pub transport: Option<String>,
    /// `--placement threads|processes`: the placement of every component.
    pub placement: Option<Placement>,
    /// The files that the launcher writes, each with the option that names it. None of them may be
    /// a file of the waveform.
    pub writes: Vec<(String, PathBuf)>,
}

/// Parsed [`Overrides`]. Each part has a place in the text of the option.
pub(super) struct Options {
    pub set: Vec<SetOption>,
    pub transport: Option<At<String>>,
    pub placement: Option<At<Placement>>,
    pub writes: Vec<At<PathBuf>>,
}

/// One `--set component.property=value`.
pub(super) struct SetOption {
    pub component: At<String>,
    pub property: At<String>,
    pub text: At<String>,
}

/// Parses the options.
pub(super) fn read(overrides: &Overrides, found: &mut Diagnostics) -> Options {
    let whole = |text: String| {
        let source = Source::option(text);
        Place::new(&source, 0..source.text().len())
    };
    let placement = overrides.placement.map(|value| {
        let word = match value {
            Placement::Thread => "threads",
            Placement::Process => "processes",
        };
        At { value, place: whole(format!("--placement {word}")) }
    });
    let transport = overrides
        .transport
        .as_ref()
        .map(|name| At { value: name.clone(), place: whole(format!("--transport {name}")) });
    let set = overrides.set.iter().filter_map(|text| read_set(text, found)).collect();
    let written = |(option, path): &(String, PathBuf)| At {
        value: path.clone(),
        place: whole(format!("{option} {}", path.display())),
    };
    let writes = overrides.writes.iter().map(written).collect();
    Options { set, transport, placement, writes }
}

fn read_set(text: &str, found: &mut Diagnostics) -> Option<SetOption> {
    const OPTION: &str = "--set ";
    let source = Source::option(format!("{OPTION}{text}"));
    // Names have no dot and no equals sign, but the value may have them.
    let parts = text.split_once('=').and_then(|(path, value)| Some((path.split_once('.')?, value)));
    let Some(((component, property), value)) = parts else {
        let place = Place::new(&source, OPTION.len()..source.text().len());
        let message = "`--set` takes component.property=value";
        let remedy = "write it as in --set source.rate=2e6";
        found.error(Code::BadOption, &place, message, remedy);
        return None;
    };
    let mut start = OPTION.len();
    let mut part = |text: &str| {
        let place = Place::new(&source, start..start + text.len());
        start += text.len() + 1;
        At { value: text.to_owned(), place }
    };
    Some(SetOption { component: part(component), property: part(property), text: part(value) })
}
