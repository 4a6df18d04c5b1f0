//! Receivers and transmitters by SoapySDR.
//!
//! `library` is the border to the library's functions in C. `settings` has the properties,
//! `timeline` the count of samples by hardware times, `receiver` the loop of the source, `tuning`
//! the service that tunes it, and `watch` the thread for a driver's calls.

mod claim;
mod find;
mod library;
mod packet_clock;
mod receiver;
mod settings;
mod sink;
mod source;
mod timeline;
mod tuning;
mod watch;

pub(crate) use find::find_devices;
pub use sink::SoapySink;
pub use source::SoapySource;
