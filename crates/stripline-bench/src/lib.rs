//! Stripline measured: against the limits of the machine, against bare sockets, and against its peers.
//!
//! A [ladder] is one interleaved run from the limit up. Every rung is measured by fresh processes, which the
//! program that runs it starts from its own executable: its `main` begins with [`child_if_launched`].
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

pub mod ladder;
mod memory;

pub use ladder::child_if_launched;
