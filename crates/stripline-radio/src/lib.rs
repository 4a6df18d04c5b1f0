//! Receivers and digitisers for Stripline. Each kind of device has a folder with its components and
//! their tests.

mod address;
pub mod rtl_tcp;
pub mod tuner;

use stripline::component::Registry;

/// Adds the components of this crate to a registry.
///
/// ```
/// let registry = stripline_radio::with_components(stripline::component::Registry::new());
/// assert!(registry.specs().contains_key("rtl-tcp-source"));
/// ```
#[must_use]
pub fn with_components(registry: Registry) -> Registry {
    registry.with::<rtl_tcp::RtlTcpSink>().with::<rtl_tcp::RtlTcpSource>()
}

// Compiles the examples of the README, and runs them.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
