//! The parts that the bindings of Stripline for C and Python share. No item depends on a language.
//!
//! A binding converts arguments and results, and adds the rules for memory and threads of its
//! language. The checks, states and outcomes between are here.
//!
//! ```
//! use stripline_bindings::Failure;
//!
//! let failure = Failure::from(stripline::Error::Stopped);
//! assert_eq!(failure.code.word(), "stopped");
//! ```

mod answer;
mod component;
mod failure;
mod harness;
mod node;
mod pace;
mod port_type;
mod readout;
mod stamps;

pub use answer::Answer;
pub use component::{Class, Instance, Requests, USAGE, add_class, main, only_port, run_handler};
pub use failure::{Code, Failure, Parts};
pub use harness::{Harness, measured};
pub use node::join;
pub use pace::Pace;
pub use port_type::{PortType, message_type};
pub use readout::Readout;
pub use stamps::Stamps;

// Compiles the examples of the README, and runs them.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
