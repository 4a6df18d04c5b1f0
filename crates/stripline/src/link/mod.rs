//! The link: what every connection promises, whatever transport carries it.

mod options;

pub use options::{LinkOptions, Overflow, Scope};
