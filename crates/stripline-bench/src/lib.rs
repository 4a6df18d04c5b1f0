//! Measurements of Stripline, compared with the limits of the machine, bare sockets, and other
//! middleware.
//!
//! A [ladder] is one interleaved run that starts at the limits of the machine. An [experiment] runs
//! pipelines of components from a file, and compares each with an ideal. [`instructions`] counts
//! the instructions per packet. A [calibration] has the costs of a packet over each transport.
//! [`compare`] finds the differences of two results.
//! [`bindings`] compares the bindings to other languages with Rust and with other libraries.
//! Everything is measured in new processes. The measuring program starts them from its own
//! executable, so its `main` must begin with [`child_if_launched`].
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
//!         println!("{}: {:?} (target {})", ratio.name, ratio.value, ratio.aim);
//!     }
//!     std::process::ExitCode::SUCCESS
//! }
//! ```
//!
//! With the feature `peers`, iceoryx2 and ZeroMQ are measured as well, from their published crates.
//! The feature needs Rust 1.89 and a C++ compiler: libzmq is built from its sources, and no system
//! package is needed.

pub mod bindings;
pub mod calibration;
pub mod compare;
pub mod experiment;
mod figure;
pub mod instructions;
pub mod ladder;
mod machine;
mod memory;
mod plot;
mod process;
pub mod report;
mod rounds;
mod statistics;
mod timeout;
mod usage;

pub use figure::{Decision, Figure, Null};
pub use machine::Machine;
pub use rounds::Progress;
pub use usage::Disturbance;

use std::process::ExitCode;

/// The version of the JSON form of a ladder's and an experiment's results.
pub(crate) const RESULT_FORMAT: u32 = 1;

/// An error message.
pub(crate) type Problem = String;

/// The share, 0 to 1, above which other programs, the host or waits for a processor disturb a run.
/// See [`Disturbance`].
///
/// ```
/// assert!((0.0..1.0).contains(&stripline_bench::OTHERS_SHARE_MAX));
/// ```
pub const OTHERS_SHARE_MAX: f64 = 0.05;

/// Runs the job of a process that a benchmark started, and returns the exit code. In any other
/// process, returns `None`.
///
/// ```
/// // This process was not started by a benchmark.
/// assert!(stripline_bench::child_if_launched().is_none());
/// ```
pub fn child_if_launched() -> Option<ExitCode> {
    stripline_middleware::register();
    process::child_if_launched()
}

// Compiles the examples of the README, and runs those that can run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
