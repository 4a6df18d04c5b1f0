//! `stripline components` and `stripline transports`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use stripline::component::{ComponentSpec, Registry};
use stripline::transport;
use stripline_middleware::wire_formats;
use stripline_waveform::internal::{describe, render_component, render_component_list, suggestion};
use stripline_waveform::{Overrides, load};

use crate::Exit;
use crate::arguments::{ComponentsArguments, TransportsArguments};
use crate::control::print_json;
use crate::failure::{Failure, Outcome};
use crate::format::printable;
use crate::run::{absent_components, catalog, refused, transport_names};
use crate::table::Table;
use crate::terminal;

pub(crate) fn components(arguments: &ComponentsArguments, registry: &Registry) -> Outcome {
    let name = match &arguments.name {
        None if arguments.json => return Ok(print_json(&registry.specs().values().collect::<Vec<_>>())),
        None => return Ok(print(&render_component_list(registry.specs().values(), terminal::width()))),
        Some(name) => name,
    };
    if name.ends_with(".toml") {
        return components_of(Path::new(name), arguments.json, registry);
    }
    let specs = if name.contains('/') {
        let described = describe(&name.as_str().into()).map(|executable| executable.specs);
        described.map_err(|error| format!("{error}; {}", error.remedy()))
    } else {
        registry.specs().get(name).map(|spec| vec![spec.clone()]).ok_or_else(|| {
            let known: Vec<&str> = registry.specs().keys().map(String::as_str).collect();
            if let Some((_, remedy)) = absent_components().iter().find(|(absent, _)| absent == name) {
                return format!("the stock component `{name}` is not in this program: {remedy}");
            }
            let remedy = match suggestion(name, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None if Path::new(name).is_file() => format!("for the executable here: ./{name}"),
                None => format!("there are {}", known.join(", ")),
            };
            format!("there is no stock component `{}`; {remedy}", printable(name, 60))
        })
    };
    Ok(match &specs.map_err(Failure::usage)?[..] {
        // An executable with several types is printed as a list.
        [spec] if arguments.json => print_json(spec),
        specs => print_specs(&specs.iter().collect::<Vec<_>>(), arguments.json),
    })
}

fn print_specs(specs: &[&ComponentSpec], is_json: bool) -> Exit {
    if is_json {
        return print_json(&specs);
    }
    let texts: Vec<String> = specs.iter().map(|spec| render_component(spec, terminal::width())).collect();
    print(&texts.join("\n"))
}

/// Shows the components that a waveform file uses, each type once.
fn components_of(file: &Path, is_json: bool, registry: &Registry) -> Outcome {
    let names = transport_names();
    let catalog = catalog(registry, &names);
    let (waveform, _) = load(file, &Overrides::default(), &catalog).map_err(|found| refused(&found))?;
    let specs: BTreeMap<&str, &ComponentSpec> =
        waveform.components.iter().map(|component| (&*component.spec.name, &component.spec)).collect();
    Ok(print_specs(&specs.into_values().collect::<Vec<_>>(), is_json))
}

pub(crate) fn transports(arguments: &TransportsArguments) -> Exit {
    if arguments.json {
        let all = transport::all().map(|t| {
            json!({
                "name": t.name,
                "description": t.summary,
                "reach": t.reach.to_string(),
                "copies": t.copies,
                "scopes": t.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>(),
                "overflow": t.overflows.iter().map(|overflow| overflow.as_str()).collect::<Vec<_>>(),
                "flow": t.flows.iter().map(|flow| flow.as_str()).collect::<Vec<_>>(),
                "depth_bounds": t.depth,
                "open_to": t.trust,
                "memory_options": t.ring,
                "groups": t.groups,
                "refused": t.refused(),
                "page": format!("docs/transports/{}.md", t.name),
                "in_program": true,
                "library": t.library.map(|version| version()),
            })
        });
        let absent = transport::absent().into_iter().map(|t| {
            json!({
                "name": t.name,
                "description": t.summary,
                "in_program": false,
                "brought_in_by": t.remedy,
            })
        });
        let formats = wire_formats().iter().map(|format| {
            json!({
                "name": format.name,
                "description": format.summary,
                "components": format.components,
                "lacks": format.lacks,
                "in_program": format.in_program,
                "brought_in_by": (!format.in_program).then_some(format.remedy),
            })
        });
        return print_json(&json!({
            "transports": all.chain(absent).collect::<Vec<_>>(),
            "formats": formats.collect::<Vec<_>>(),
        }));
    }
    let mut table =
        Table::new(&["NAME", "DESCRIPTION", "REACH", "KEEPS", "COPIES", "OPEN TO", "IN THIS PROGRAM"]);
    for t in transport::all() {
        let refused = t.refused();
        let keeps = match refused.is_empty() {
            true => "everything".to_string(),
            false => format!("all but {}", refused.join(", ")),
        };
        let is_here = t.library.map_or_else(|| "yes".into(), |version| format!("yes, {}", version()));
        table.add([t.name, t.summary, &t.reach.to_string(), &keeps, t.copies, t.trust, &is_here]);
    }
    for t in transport::absent() {
        table.add([t.name, t.summary, "", "", "", "", t.remedy]);
    }
    let mut formats = Table::new(&["FORMAT", "DESCRIPTION", "COMPONENTS", "LACKS", "IN THIS PROGRAM"]);
    for format in wire_formats() {
        let is_here = match format.in_program {
            true => "yes".to_string(),
            false => format!("not in this program: {}", format.remedy),
        };
        formats.add([format.name, format.summary, &format.components.join(", "), format.lacks, &is_here]);
    }
    print(&format!("{}\n{}", table.render(), formats.render()))
}

/// Writes to standard output. A reader that closes it early (`| head`) is not a failure.
pub(crate) fn print(text: &str) -> Exit {
    match print_while_read(text) {
        Printed::All | Printed::Unread => Exit::Clean,
        Printed::Failed => Exit::Failure,
    }
}

/// The outcome of a write to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    All,
    /// The reader has gone. A command that prints repeatedly should end.
    Unread,
    /// The error has been printed.
    Failed,
}

/// Writes to standard output, and distinguishes a reader that has closed it.
pub(crate) fn print_while_read(text: &str) -> Printed {
    match std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()) {
        Ok(()) => Printed::All,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Printed::Unread,
        Err(error) => {
            report!("error: cannot write to standard output: {error}");
            Printed::Failed
        }
    }
}
