//! Receivers and digitisers for Stripline. Each kind of device has a folder with its components and
//! their tests.

mod address;
mod devices;
mod host_clock;
mod queue_memory;
pub mod rtl_tcp;
mod samples;
#[cfg(feature = "soapy")]
mod soapy;
pub mod tuner;
pub mod vita49;

use stripline::component::Registry;

/// Items for the stock components, outside of the public interface. Any release may change or
/// remove them.
#[doc(hidden)]
pub mod internal {
    pub use crate::queue_memory::QueueMemory;
}

pub use devices::{DeviceList, FoundDevice, find_devices};
#[cfg(feature = "soapy")]
pub use soapy::{SoapySink, SoapySource};

/// Adds the components of this crate to a registry.
///
/// ```
/// let registry = stripline_radio::with_components(stripline::component::Registry::new());
/// assert!(registry.specs().contains_key("rtl-tcp-source"));
/// for (name, _) in stripline_radio::absent_components() {
///     assert!(!registry.specs().contains_key(*name));
/// }
/// ```
#[must_use]
pub fn with_components(registry: Registry) -> Registry {
    let registry =
        registry.with::<rtl_tcp::RtlTcpSink>().with::<rtl_tcp::RtlTcpSource>().with::<tuner::Scanner>();
    #[cfg(feature = "soapy")]
    let registry = registry.with::<SoapySink>().with::<SoapySource>();
    vita49::add(registry)
}

/// Returns the components that this build lacks, each with the way to add it.
///
/// ```
/// let has_soapy = stripline_radio::absent_components().is_empty();
/// let registry = stripline_radio::with_components(stripline::component::Registry::new());
/// assert_eq!(registry.specs().contains_key("soapy-source"), has_soapy);
/// ```
pub fn absent_components() -> &'static [(&'static str, &'static str)] {
    #[cfg(feature = "soapy")]
    return &[];
    #[cfg(not(feature = "soapy"))]
    &[("soapy-sink", SOAPY_REMEDY), ("soapy-source", SOAPY_REMEDY)]
}

/// The way to add SoapySDR to a program.
#[cfg(not(feature = "soapy"))]
const SOAPY_REMEDY: &str =
    "build it with the feature `soapy`, which takes SoapySDR (libsoapysdr-dev, pkg-config)";

// Compiles the examples of the README, and runs them.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
