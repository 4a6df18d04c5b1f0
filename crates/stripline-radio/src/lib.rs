//! Receivers and digitisers for Stripline. Each kind of device has a folder with its components and
//! their tests.

pub mod tuner;

use stripline::component::Registry;

/// Adds the components of this crate to a registry.
///
/// ```
/// let registry = stripline_radio::with_components(stripline::component::Registry::new());
/// assert_eq!(registry.specs().len(), 0);
/// ```
#[must_use]
pub fn with_components(registry: Registry) -> Registry {
    registry
}

// Compiles the examples of the README, and runs them.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
