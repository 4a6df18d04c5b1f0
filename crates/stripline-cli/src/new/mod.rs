//! `stripline new`: makes the start of a component or a waveform.

pub(crate) mod arguments;
mod place;
#[cfg(test)]
mod templates;

use std::path::Path;

use arguments::{ComponentKind, NewArguments, NewCommand, PlaceArguments};
use place::Place;

use crate::failure::{Failure, Outcome};
use crate::show::print;

/// A module of the new crate.
#[derive(Clone, Copy)]
struct Module {
    /// The name of the file, and of the component in the waveform file.
    name: &'static str,
    /// The name of the component's Rust type.
    component: &'static str,
    text: &'static str,
}

const FILTER: Module =
    Module { name: "filter", component: "Filter", text: include_str!("templates/filter.rs") };
const MIXER: Module = Module { name: "mixer", component: "Mixer", text: include_str!("templates/mixer.rs") };
const SOURCE: Module =
    Module { name: "source", component: "Source", text: include_str!("templates/source.rs") };
const POWER: Module = Module { name: "power", component: "Power", text: include_str!("templates/power.rs") };
const DETECTOR: Module =
    Module { name: "detector", component: "Detector", text: include_str!("templates/detector.rs") };
const SINK: Module = Module { name: "sink", component: "Sink", text: include_str!("templates/sink.rs") };

pub(crate) fn new(arguments: &NewArguments) -> Outcome {
    let (place, files) = match &arguments.command {
        NewCommand::Component(arguments) => {
            (&arguments.place, component(&arguments.place.name, arguments.kind))
        }
        NewCommand::Waveform(arguments) => (&arguments.place, waveform(&arguments.place.name)),
    };
    let folder = make(place, files)?;
    Ok(print(&next_steps(&place.name, &folder)))
}

/// A path within the folder, and the text of the file.
type File = (String, String);

fn make(arguments: &PlaceArguments, files: Vec<File>) -> Result<std::path::PathBuf, Failure> {
    let name = &arguments.name;
    place::check_name(name)?;
    let dependency = place::dependency(arguments.stripline.as_deref())?;
    let place = Place::new(arguments.path.as_deref().unwrap_or(Path::new(name)))?;
    place.write("Cargo.toml", &manifest(name, &dependency))?;
    place.write(".gitignore", "/target\n")?;
    for (path, text) in files {
        place.write(&path, &text)?;
    }
    Ok(place.into_folder())
}

/// Returns the files of a crate with one component.
fn component(name: &str, kind: ComponentKind) -> Vec<File> {
    let module = match kind {
        ComponentKind::Filter => FILTER,
        ComponentKind::Mixer => MIXER,
        ComponentKind::Source => SOURCE,
        ComponentKind::Windowed => POWER,
        ComponentKind::Detector => DETECTOR,
    };
    let Module { name: file, component, text } = module;
    let spec = format!("ComponentSpec::new(\"{file}\"");
    let text = text.replacen(&spec, &format!("ComponentSpec::new(\"{name}\""), 1);
    let input = if matches!(kind, ComponentKind::Mixer) { "cf32" } else { "f32" };
    let main = format!(
        "//! The component `{name}`, as an executable for waveforms.\n\nmod {file};\n\n\
         fn main() -> std::process::ExitCode {{\n    stripline::component::main::<{file}::{component}>()\n}}\n"
    );
    let waveform = match kind {
        ComponentKind::Source => format!(
            "{}\n[component.component]\nexec = \"target/debug/{name}\"\n\
             properties = {{ rate = 48e3, duration_s = 2.0 }}\n",
            head(name)
        ),
        _ => format!(
            "{}\n[component.generator]\ntype = \"signal-generator\"\n\
             properties = {{ output = \"{input}\", rate = 48e3, packet = 480, duration_s = 2.0 }}\n\n\
             [component.component]\nexec = \"target/debug/{name}\"\n\n\
             [[connection]]\nfrom = \"generator.out\"\nto = \"component.in\"\n",
            head(name)
        ),
    };
    // A detector sends few messages, and the user wants to see them.
    let sink = if matches!(kind, ComponentKind::Detector) { "print-sink" } else { "null-sink" };
    let waveform = format!(
        "{waveform}\n[component.end]\ntype = \"{sink}\"\n\n\
         [[connection]]\nfrom = \"component.out\"\nto = \"end.in\"\n"
    );
    vec![("src/main.rs".into(), main), (format!("src/{file}.rs"), text), (format!("{name}.toml"), waveform)]
}

/// Returns the files of a crate with all components of a waveform.
fn waveform(name: &str) -> Vec<File> {
    let modules = [DETECTOR, POWER, SINK, SOURCE];
    let declared: String = modules.iter().map(|module| format!("mod {};\n", module.name)).collect();
    let registered: String = modules
        .iter()
        .map(|module| format!("        .with::<{}::{}>()", module.name, module.component))
        .collect::<Vec<_>>()
        .join("\n");
    let main = format!(
        "//! The components of the waveform `{name}`, as one executable.\n\n{declared}\n\
         use stripline::component::{{Registry, main_of}};\n\n\
         fn main() -> std::process::ExitCode {{\n    let registry = Registry::new()\n{registered};\n    \
         main_of(&registry)\n}}\n"
    );
    let order = [
        (SOURCE, "properties = { rate = 48e3, duration_s = 1.0 }\n"),
        (POWER, ""),
        (DETECTOR, "properties = { threshold = 0.05 }\n"),
        (SINK, ""),
    ];
    let mut text = head(name);
    for (module, properties) in order {
        let module = module.name;
        text += &format!("\n[component.{module}]\nexec = \"target/debug/{name}\"\ntype = \"{module}\"\n");
        text += properties;
    }
    for pair in order.windows(2) {
        let (from, to) = (pair[0].0.name, pair[1].0.name);
        text += &format!("\n[[connection]]\nfrom = \"{from}.out\"\nto = \"{to}.in\"\n");
    }
    let mut files = vec![("src/main.rs".into(), main), (format!("{name}.toml"), text)];
    files.extend(modules.map(|module| (format!("src/{}.rs", module.name), module.text.into())));
    files
}

/// Returns the beginning of a waveform file.
fn head(name: &str) -> String {
    format!("# Build first: cargo build. Then: stripline run {name}.toml\n\n[waveform]\nname = \"{name}\"\n")
}

fn manifest(name: &str, dependency: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nrust-version = \"1.88\"\n\
         publish = false\n\n[dependencies]\nserde = {{ version = \"1\", features = [\"derive\"] }}\n\
         stripline = {dependency}\n\n\
         # Signal processing in unoptimised code is slow.\n[profile.dev]\nopt-level = 1\n\n\
         [profile.dev.package.\"*\"]\nopt-level = 2\n\n\
         # The crate is not part of a workspace around it.\n[workspace]\n"
    )
}

fn next_steps(name: &str, folder: &Path) -> String {
    let shown = place::shown(folder);
    // Quoted, if a shell would split or expand it.
    let is_plain = shown.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./+@%:,".contains(&b));
    let quoted = if is_plain { shown.clone() } else { format!("'{}'", shown.replace('\'', "'\\''")) };
    format!(
        "made {shown}; next:\n    cd {quoted}\n    cargo test                     its tests\n    \
         cargo build\n    stripline check {name}.toml\n    stripline run {name}.toml\n"
    )
}
