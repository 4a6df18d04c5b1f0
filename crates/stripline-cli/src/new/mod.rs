//! `stripline new`: makes the start of a component or a waveform.

pub(crate) mod arguments;
mod place;
mod project;
#[cfg(test)]
mod templates;

use std::path::Path;

use arguments::{ComponentKind, Language, NewArguments, NewCommand, PlaceArguments};
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
            kinds.join(", ")
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
    let mut files = sources(arguments, &[module])?;
    // The component has the name of the project: the first text of that form in the first file.
    let (_, text) = &mut files[0];
    *text = text.replacen(&format!("\"{}\"", module.name), &format!("\"{name}\""), 1);
    files.push((format!("{name}.toml"), format!("{waveform}{}", end("component", module))));
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
        text += &end(last.name, last);
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
    let name = &arguments.name;
    let build = steps(arguments).into_iter().filter(|(_, is_test)| !is_test);
    let build: Vec<String> = build.map(|(command, _)| command).collect();
    let first = if build.is_empty() { "Run it" } else { &format!("Build first: {}. Then", build.join("; ")) };
    format!("# {first}: stripline run {name}.toml\n\n[waveform]\nname = \"{name}\"\n")
}

/// Returns the last component of a waveform file, with its connection.
fn end(from: &str, last: &Module) -> String {
    // A detector sends few messages, and the user wants to see them.
    let sink = if last.kind == Some(ComponentKind::Detector) { "print-sink" } else { "null-sink" };
    format!(
        "\n[component.end]\ntype = \"{sink}\"\n\n[[connection]]\nfrom = \"{from}.out\"\nto = \"end.in\"\n"
    )
}

fn next_steps(arguments: &PlaceArguments, folder: &Path) -> String {
    let name = &arguments.name;
    let shown = place::shown(folder);
    // The language may be the default, and not the user's choice.
    let others = match arguments.lang {
        Language::Rust => " (`--lang python`, `cpp` or `c` for others)",
        _ => "",
    };
    let language = arguments.lang.title();
    let mut text = format!("made {shown} in {language}{others}; next:\n    cd {}\n", quoted(&shown));
    for (command, is_test) in steps(arguments) {
        text += &if is_test { format!("    {command:<30} its tests\n") } else { format!("    {command}\n") };
    }
    text + &format!("    stripline check {name}.toml\n    stripline run {name}.toml\n")
}

/// Returns the commands that build and test the project, and whether each is the test. A command
/// has the place of the library that was installed together with this program.
fn steps(arguments: &PlaceArguments) -> Vec<(String, bool)> {
    let project = arguments.lang.project();
    let package = project.package.as_ref().filter(|_| arguments.stripline.is_none());
    let found = package.and_then(|package| Some((place::prefix(package.file)?, package)));
    let step = |step: &&str| {
        let command = match &found {
            Some((prefix, package)) => (package.step)(step, &quoted(prefix)),
            None => step.to_string(),
        };
        (command, step.contains("test"))
    };
    project.steps.iter().map(step).collect()
}

/// Returns a text in quotes if a shell would split or expand it.
fn quoted(text: &str) -> String {
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./+@%:,".contains(&b));
    if is_plain { text.into() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
