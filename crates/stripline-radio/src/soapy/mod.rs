//! Receivers and transmitters by SoapySDR.
//!
//! `library` is the border to the library's functions in C. `settings` has the properties,
//! `timeline` the count of samples by hardware times, and `watch` the thread for a driver's calls.

mod library;
mod settings;
mod source;
mod timeline;
mod watch;

pub use source::SoapySource;
