//! `stripline components` and `stripline transports`.

use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};
use stripline::component::Registry;
use stripline::transport;
use stripline_waveform::internal::{render_component, render_component_list, suggestion};

use crate::Exit;
use crate::format::printable;

pub(crate) fn components(name: Option<&str>, registry: &Registry) -> Exit {
    match name {
        None => print(&render_component_list(registry.specs().values())),
        Some(name) => match registry.specs().get(name) {
            Some(spec) => print(&render_component(spec)),
            None => {
                let known: Vec<&str> = registry.specs().keys().map(String::as_str).collect();
                let meant = suggestion(name, known.iter().copied());
                let remedy = meant.map_or_else(
                    || format!("there are {}", known.join(", ")),
                    |meant| format!("did you mean `{meant}`?"),
                );
                complain!("error: there is no stock component `{}`; {remedy}", printable(name, 60));
                Exit::Usage
            }
        },
    }
}

pub(crate) fn transports() -> Exit {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let titles = [
        "NAME",
        "DESCRIPTION",
        "REACH",
        "COPIES",
        "SCOPES",
        "OVERFLOW",
        "FLOW CONTROL",
        "DEPTH BOUNDS",
        "OPEN TO",
    ];
    table.set_header(titles);
    for t in transport::all() {
        let scopes: Vec<&str> = t.scopes.iter().map(|s| s.as_str()).collect();
        let flows: Vec<&str> = t.flows.iter().map(|f| f.as_str()).collect();
        let overflows: Vec<&str> = t.overflows.iter().map(|o| o.as_str()).collect();
        table.add_row([
            t.name,
            t.summary,
            &t.reach.to_string(),
            t.copies,
            &scopes.join(", "),
            &overflows.join(", "),
            &flows.join(", "),
            t.depth,
            t.trust,
        ]);
    }
    print(&format!("{}\n", table.trim_fmt()))
}

/// Writes to standard output. A reader that closes it early (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Exit {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Exit::Clean,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Clean,
        Err(error) => {
            complain!("error: cannot write to standard output: {error}");
            Exit::Failure
        }
    }
}
