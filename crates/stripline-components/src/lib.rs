//! Stock components of Stripline: sources, sinks and signal processing.
//!
//! | module | content |
//! | --- | --- |
//! | [`components`] | the components: ports, properties, and loops around the other modules |
//! | [`adsb`] | ADS-B and Mode S: demodulation, decoding, tracking, simulation |
//! | [`dsp`] | filters, demodulators, generators, spectra |
//! | [`formats`] | files: I/Q, other samples, recordings of ports, WAV, waterfalls |
//!
//! All modules but the first are independent of ports and links, and can be used alone.

pub mod adsb;
pub mod components;
pub mod dsp;
pub mod formats;
mod stoppable;
mod terminal;
mod text;

pub use components::registry;

/// Items for the command, outside of the public interface. Any release may change or remove them.
#[doc(hidden)]
pub mod internal {
    pub use crate::terminal::width;
    pub use crate::text::{counted, grouped, packets, printable};
}

// Compile the examples of the README, and run them where possible.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
