//! `stripline components` and `stripline transports`.

use std::io::Write;

use stripline::component::Registry;
use stripline::transport;
use stripline_waveform::internal::{render_component, render_component_list, suggestion};

use crate::Exit;
use crate::format::printable;
use crate::table::Table;
use crate::terminal;

pub(crate) fn components(name: Option<&str>, registry: &Registry) -> Exit {
    match name {
        None => print(&render_component_list(registry.specs().values(), terminal::width())),
        Some(name) => match registry.specs().get(name) {
            Some(spec) => print(&render_component(spec, terminal::width())),
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
    let mut table = Table::new(&[
        "NAME",
        "DESCRIPTION",
        "REACH",
        "COPIES",
        "SCOPES",
        "OVERFLOW",
        "FLOW CONTROL",
        "DEPTH BOUNDS",
        "OPEN TO",
    ]);
    for t in transport::all() {
        let scopes: Vec<&str> = t.scopes.iter().map(|s| s.as_str()).collect();
        let flows: Vec<&str> = t.flows.iter().map(|f| f.as_str()).collect();
        let overflows: Vec<&str> = t.overflows.iter().map(|o| o.as_str()).collect();
        table.add([
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
    print(&table.render())
}

/// Writes to standard output. A reader that closes it early (`| head`) is no failure.
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
    /// Its reader has gone: what prints repeatedly ends.
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
            complain!("error: cannot write to standard output: {error}");
            Printed::Failed
        }
    }
}
