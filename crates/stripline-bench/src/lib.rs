//! Stripline measured: against the limits of the machine, against bare sockets, and against its peers.
//!
//! A [ladder] is one interleaved run from the limit up; an [experiment] is what a file asks for: pipelines of
//! components, each beside its ideal. Everything is measured in fresh processes, which the program that measures
//! starts from its own executable: its `main` begins with [`child_if_launched`].
//!
//! ```no_run
//! use stripline_bench::ladder::{Settings, run};
//!
//! fn main() -> std::process::ExitCode {
//!     if let Some(code) = stripline_bench::child_if_launched() {
//!         return code;
//!     }
//!     let report = run(&Settings { quick: true, ..Settings::default() }, &mut |_| ()).expect("a report");
//!     for ratio in &report.ratios {
//!         println!("{}: {:?} (target {})", ratio.name, ratio.value, ratio.target);
//!     }
//!     std::process::ExitCode::SUCCESS
//! }
//! ```
//!
//! With the feature `peers`, iceoryx2 and ZeroMQ are measured beside it, from their published crates. That needs Rust
//! 1.89 and a C++ compiler: libzmq is built from its sources, no system package is needed.

pub mod experiment;
pub mod ladder;
mod memory;
mod processes;

use std::process::ExitCode;

/// In a process that a benchmark started: does its part and returns the exit code. In any other process: `None`.
///
/// ```
/// // This one was started by nobody of that kind.
/// assert!(stripline_bench::child_if_launched().is_none());
/// ```
pub fn child_if_launched() -> Option<ExitCode> {
    ladder::child::child_if_launched().or_else(experiment::child_if_launched)
}
