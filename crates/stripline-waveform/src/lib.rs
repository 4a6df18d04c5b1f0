//! Waveforms: components of [`stripline`] that are joined by connections, as described in a file.
//!
//! [`load`] reads a file and checks it completely before anything starts. The result is a plan, a
//! [`Waveform`]. [`run`] launches and supervises the waveform, and returns a [`RunReport`].
//! [`control`] reads and changes a waveform that another process runs. The `stripline` command is
//! built from these parts. A component does not depend on them: a component depends on the crate
//! [`stripline`] alone.
//!
//! ```
//! use stripline::component::Registry;
//! use stripline_waveform::{Catalog, Overrides, parse_bytes};
//!
//! // A program with components of its own adds them to the registry.
//! let registry = Registry::new();
//! let catalog = Catalog::new(registry.specs(), &["inproc", "shm"]);
//! let text = b"[component.clock]\ntype = \"ticker\"";
//! let found = parse_bytes(text, "clock.toml".as_ref(), &Overrides::default(), &catalog).unwrap_err();
//! assert!(found.to_string().contains("ticker"));
//! ```

mod at_once;
mod build_check;
mod catalog;
mod check;
mod components;
mod connections;
pub mod control;
mod describe;
mod diagnostics;
mod file;
mod files_check;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod launch;
mod listing;
mod machine_check;
mod options_check;
mod order_check;
mod overrides;
mod placement;
mod plan;
mod program_command;
mod rate_check;
mod resequence_check;
mod restart;
mod schema;
mod spec_check;
mod synonyms;
mod text;
mod toml_reader;
mod topics;
mod transport_choice;
mod type_inference;

pub use catalog::Catalog;
pub use check::{load, parse_bytes};
pub use describe::{DescribeError, ExecutableSpecs};
pub use diagnostics::{Code, Diagnostic, Diagnostics, Level};
pub use launch::{
    ComponentOutput, ComponentResult, ConnectionResult, HeldUp, Observer, PaceResult, PathPart, PathTimes,
    Progress, RunOptions, RunReport, Step, host_if_launched, run,
};
pub use overrides::Overrides;
pub use placement::Placement;
pub use plan::{ComponentPlan, ConnectionPlan, PortRef, Program, Waveform};
pub use program_command::ProgramCommand;
pub use restart::{AfterGivingUp, GiveUp, InvalidRestart, Restart, RestartWhen};
pub use transport_choice::{Candidate, ChosenBy, TransportChoice};

/// Functions beyond the public interface for the command and for tests. Any release may change or
/// remove them.
#[doc(hidden)]
pub mod internal {
    pub use crate::at_once::at_once;
    pub use crate::check::load_named;
    pub use crate::control::Announcement;
    pub use crate::describe::describe;
    pub use crate::file::{FILE_BYTES_MAX, nearest, read_bytes};
    pub use crate::files_check::FileIdentity;
    pub use crate::launch::run_announced;
    pub use crate::listing::{render_component, render_component_list};
    pub use crate::schema::{topics_schema, waveform_schema};
    pub use crate::spec_check::check_spec;
    pub use crate::synonyms::{did_you_mean_key, meant_key};
    pub use crate::text::{age, quantity, suggestion, time, wrapped};
    pub use crate::topics::{TopicChoice, check_topics, topic_choices};
}

// Compiles the examples of the README, and runs those that can run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
