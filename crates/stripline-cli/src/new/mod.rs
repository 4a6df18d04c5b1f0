//! `stripline new`: makes the start of a component or a waveform.

pub(crate) mod arguments;
mod place;
mod project;
#[cfg(test)]
mod templates;

use std::path::Path;

use arguments::{ComponentKind, NewArguments, NewCommand, PlaceArguments};
use place::Place;
use project::Module;

use crate::failure::{Failure, Outcome};
use crate::show::print;

pub(crate) fn new(arguments: &NewArguments) -> Outcome {
    let place = match &arguments.command {
        NewCommand::Component(arguments) => &arguments.place,
        NewCommand::Waveform(arguments) => &arguments.place,
    };
    place::check_name(&place.name, place.lang)?;
    let files = match &arguments.command {
        NewCommand::Component(arguments) => component(place, arguments.kind)?,
        NewCommand::Waveform(_) => waveform(place)?,
    };
    let folder = Place::new(place.path.as_deref().unwrap_or(Path::new(&place.name)))?;
    files.iter().try_for_each(|(path, text)| folder.write(path, text))?;
    Ok(print(&next_steps(place, &folder.into_folder())))
}

/// A path within the folder, and the text of the file.
type File = (String, String);

/// Returns the files of a project with one component.
fn component(arguments: &PlaceArguments, kind: ComponentKind) -> Result<Vec<File>, Failure> {
    let (name, project) = (&arguments.name, arguments.lang.project());
    let Some(module) = project.modules.iter().find(|module| module.kind == Some(kind)) else {
        let kinds = project.modules.iter().filter_map(|module| module.kind);
        let kinds: Vec<String> = kinds.map(|kind| format!("`{}`", arguments::word(kind))).collect();
        return Err(Failure::usage(format!(
            "there is no template `{}` in {}: choose {}, or another `--lang`",
            arguments::word(kind),
            arguments.lang.title(),
            kinds.join(" or ")
        )));
    };
    let input = if kind == ComponentKind::Mixer { "cf32" } else { "f32" };
    let own = format!("[component.component]\nexec = {}\n", (project.exec)(name, module));
    let waveform = match kind {
        ComponentKind::Source => {
            format!("{}\n{own}properties = {{ rate = 48e3, duration_s = 2.0 }}\n", head(arguments))
        }
        _ => format!(
            "{}\n[component.generator]\ntype = \"signal-generator\"\n\
             properties = {{ output = \"{input}\", rate = 48e3, packet = 480, duration_s = 2.0 }}\n\n{own}\n\
             [[connection]]\nfrom = \"generator.out\"\nto = \"component.in\"\n",
            head(arguments)
        ),
    };
    // A detector sends few messages, and the user wants to see them.
    let sink = if kind == ComponentKind::Detector { "print-sink" } else { "null-sink" };
    let mut files = sources(arguments, &[module])?;
    // The component has the name of the project: the first text of that form in the first file.
    let (_, text) = &mut files[0];
    *text = text.replacen(&format!("\"{}\"", module.name), &format!("\"{name}\""), 1);
    files.push((format!("{name}.toml"), format!("{waveform}{}", end("component", sink))));
    Ok(files)
}

/// Returns the files of a project with all components of a waveform.
fn waveform(arguments: &PlaceArguments) -> Result<Vec<File>, Failure> {
    let (name, project) = (&arguments.name, arguments.lang.project());
    let modules: Vec<&Module> = project.order.iter().map(|(module, _)| *module).collect();
    let mut text = head(arguments);
    for (module, properties) in project.order {
        text += &format!("\n[component.{}]\nexec = {}\n", module.name, (project.exec)(name, module));
        if project.is_one_program {
            text += &format!("type = \"{}\"\n", module.name);
        }
        text += properties;
    }
    for pair in modules.windows(2) {
        text += &format!("\n[[connection]]\nfrom = \"{}.out\"\nto = \"{}.in\"\n", pair[0].name, pair[1].name);
    }
    if let Some(last) = modules.last().filter(|last| last.name != "sink") {
        text += &end(last.name, "null-sink");
    }
    let mut files = sources(arguments, &modules)?;
    files.push((format!("{name}.toml"), text));
    Ok(files)
}

/// Returns the files of modules, and the files that build them. The first file is the component of
/// the first module.
fn sources(arguments: &PlaceArguments, modules: &[&Module]) -> Result<Vec<File>, Failure> {
    let project = arguments.lang.project();
    let files = modules.iter().flat_map(|module| module.files);
    let mut files: Vec<File> =
        files.map(|(path, text)| (format!("{}{path}", project.folder), text.to_string())).collect();
    files.extend((project.build)(arguments, modules)?);
    Ok(files)
}

/// Returns the beginning of a waveform file.
fn head(arguments: &PlaceArguments) -> String {
    let PlaceArguments { name, lang, .. } = arguments;
    let steps = lang.project().steps.iter().copied();
    let build: Vec<&str> = steps.filter(|command| !is_test(command)).collect();
    let first = if build.is_empty() { "Run it" } else { &format!("Build first: {}. Then", build.join("; ")) };
    format!("# {first}: stripline run {name}.toml\n\n[waveform]\nname = \"{name}\"\n")
}

/// Returns the last component of a waveform file, with its connection.
fn end(from: &str, sink: &str) -> String {
    format!(
        "\n[component.end]\ntype = \"{sink}\"\n\n[[connection]]\nfrom = \"{from}.out\"\nto = \"end.in\"\n"
    )
}

fn next_steps(arguments: &PlaceArguments, folder: &Path) -> String {
    let PlaceArguments { name, lang, .. } = arguments;
    let shown = place::shown(folder);
    // Quoted, if a shell would split or expand it.
    let is_plain = shown.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./+@%:,".contains(&b));
    let quoted = if is_plain { shown.clone() } else { format!("'{}'", shown.replace('\'', "'\\''")) };
    let mut text = format!("made {shown}; next:\n    cd {quoted}\n");
    for command in lang.project().steps {
        text += &if is_test(command) {
            format!("    {command:<31}its tests\n")
        } else {
            format!("    {command}\n")
        };
    }
    text + &format!("    stripline check {name}.toml\n    stripline run {name}.toml\n")
}

fn is_test(command: &str) -> bool {
    command.contains("test")
}
