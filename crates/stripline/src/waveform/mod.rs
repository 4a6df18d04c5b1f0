//! Waveforms: the description file, its checking, launching and supervision.

mod assign;
mod check;
mod components;
mod connections;
pub mod control;
mod describe;
mod diagnostics;
mod file;
mod launch;
mod listing;
mod overrides;
mod plan;
mod resequence_check;
mod spec_check;
mod text;
mod toml_reader;
mod type_inference;

pub use check::{Catalog, load, parse_bytes};
pub use describe::{DescribeError, ask_validity, describe};
pub use diagnostics::{Code, Diagnostic, Diagnostics, Level};
pub use launch::{ComponentResult, ConnectionResult, Observer, Progress, RunOptions, RunReport, run};
pub use listing::{render_component, render_component_list};
pub use overrides::Overrides;
pub use plan::{ComponentPlan, ConnectionPlan, Placement, PortRef, Program, Restart, Waveform};
pub use spec_check::check_spec;
pub use text::suggestion;
