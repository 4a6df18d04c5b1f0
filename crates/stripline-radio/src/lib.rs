//! Receivers and digitisers for Stripline. Each kind of device has a folder with its components and
//! their tests.

pub mod vita49;

use stripline::component::Registry;

/// Adds the components of this crate to a registry.
///
/// ```
/// let registry = stripline_radio::with_components(stripline::component::Registry::new());
/// assert!(registry.specs().contains_key("vita49-source"));
/// ```
#[must_use]
pub fn with_components(registry: Registry) -> Registry {
    vita49::add(registry)
}

// Compiles the examples of the README, and runs them.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
