//! Stock components of Stripline: sources, sinks and signal processing.
//!
//! | module | content |
//! | --- | --- |
//! | [`components`] | the components: ports, properties, and loops around the other modules |
//! | [`adsb`] | ADS-B and Mode S: demodulation, decoding, tracking, simulation |
//! | [`dsp`] | filters, demodulators, generators, spectra |
//! | [`gnuradio`] | messages and tags of GNU Radio |
//! | [`wire_formats()`] | the wire formats of other programs, and the components that translate
//! them |
//! | [`formats`] | files: I/Q, other samples, recordings of ports, WAV, waterfalls |
//!
//! All modules but the first are independent of ports and links, and can be used alone.

pub mod adsb;
pub mod components;
pub mod dsp;
pub mod formats;
pub mod gnuradio;
mod stoppable;
mod terminal;
mod text;
mod wire_formats;

pub use components::registry;
pub use wire_formats::{WireFormat, wire_formats};

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
