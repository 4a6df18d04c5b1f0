//! Components, with their specifications and ports, and the runtime that runs them.
//!
//! A user's component is an executable with one line of `main`:
//!
//! ```no_run
//! use stripline::Complex;
//! use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec};
//! use stripline::Result;
//!
//! struct Gain { factor: f32 }
//!
//! impl Component for Gain {
//!     fn describe() -> ComponentSpec {
//!         ComponentSpec::new("gain", "Multiplies every sample by a factor.")
//!             .input("in", PortTypes::of::<Complex<f32>>(), "samples")
//!             .output("out", PortTypes::of::<Complex<f32>>(), "samples times the factor")
//!             .property(PropertySpec::float("factor", 1.0, "linear gain").range(0.0, 1e6))
//!     }
//!
//!     fn new(properties: &Properties) -> Result<Self> {
//!         Ok(Self { factor: properties.float("factor") as f32 })
//!     }
//!
//!     fn run(self, mut ports: Ports) -> Result<()> {
//!         let mut input = ports.input::<Complex<f32>>("in")?;
//!         let mut output = ports.output::<Complex<f32>>("out")?;
//!         while let Some(packet) = input.receive()? {
//!             let mut out = output.loan(packet.len())?;
//!             for (y, x) in out.iter_mut().zip(&*packet) {
//!                 *y = x * self.factor;
//!             }
//!             out.send_like(&packet)?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     stripline::component::main::<Gain>()
//! }
//! ```
//!
//! An executable may have several component types: [`main_of`]. A type can also be a value, which
//! consists of a specification and two functions: [`Registry::with_value`]. A test runs one
//! component in a [`harness`].
//!
//! A component that can be changed or tested while it runs declares this in the specification and
//! polls for requests between packets: [`ControlRequests`]. The component publishes values with a
//! [`Status`].
//!
//! The module [`kit`] has the parts that most components need: a pace, the continuity of streams, a
//! sample rate. `stripline new component NAME` makes a crate with a component and tests. The guide
//! is `docs/write-components.md`.
//!
//! A component that makes one packet from each received packet is a [`Handler`]: the waveform
//! selects the threads that run it. Any other component owns its ports. Such a component can leave
//! the loop to the input ([`Subscriber::serve_then`](crate::node::Subscriber::serve_then)), on one
//! thread or on several:
//!
//! ```no_run
//! use stripline::Result;
//! use stripline::component::Ports;
//! use stripline::node::PacketView;
//!
//! fn run(mut ports: Ports) -> Result<()> {
//!     let mut input = ports.input::<f32>("in")?;
//!     let mut output = ports.output::<f32>("power")?;
//!     let power = |packet: PacketView<'_, f32>| Ok(packet.iter().map(|x| x * x).sum::<f32>());
//!     // As the waveform specifies: the component's specification has `any_dispatch()`.
//!     input.serve_then(input.dispatch(), power, |packet, power| {
//!         let mut out = output.loan(1)?;
//!         out[0] = power;
//!         out.send_like(&packet)
//!     })
//! }
//! ```

pub(crate) mod control;
mod file_log;
mod handler;
pub mod harness;
#[cfg(test)]
mod harness_failure_tests;
#[cfg(test)]
mod harness_order_tests;
#[cfg(test)]
mod harness_tests;
pub(crate) mod host;
pub mod kit;
pub(crate) mod log_filter;
pub(crate) mod log_to_stderr;
mod order_rule;
pub(crate) mod pace_log;
mod ports;
pub(crate) mod properties;
mod rate_rule;
mod registry;
mod requests;
#[cfg(test)]
mod shape_tests;
pub(crate) mod spec;
mod status;
pub(crate) mod units;
mod validate;

pub use crate::error::InvalidProperties;
pub use crate::packet::StreamShape;
pub use file_log::{FileLog, FileReport};
pub use handler::{Handler, HandlerComponent};
pub use host::{main, main_of, main_with_args};
pub use order_rule::OrderRule;
pub use ports::{Ports, StopSignal};
pub use properties::{Access, Properties, Value};
pub use rate_rule::RateRule;
pub use registry::Registry;
pub use requests::{Change, ControlRequests, Request, Test, TestResult};
pub use spec::{ComponentSpec, Direction, PortSpec, PortTypes, PropertyKind, PropertySpec, TestSpec};
pub use status::{Status, StatusValue};
pub use validate::PropertyFacts;

use crate::error::Result;

/// A unit of signal processing with ports, which is created, run once on a separate thread, and
/// dropped.
///
/// At the end of stream `receive` returns `None`. Errors are values: return them with `?`. After a
/// clean return the outputs send an end of stream. After an error they do not, because the
/// component may be started again. See the [module](self) for a complete component.
///
/// ```
/// use stripline::component::{Component, ComponentSpec, Ports, Properties, PropertySpec};
/// use stripline::{Error, Result};
///
/// struct Idle { seconds: f64 }
///
/// impl Component for Idle {
///     fn describe() -> ComponentSpec {
///         let seconds = PropertySpec::float("seconds", 1.0, "how long").range(0.0, 3600.0).unit("s");
///         ComponentSpec::new("idle", "Does nothing for a while.").property(seconds)
///     }
///     fn new(properties: &Properties) -> Result<Self> {
///         Ok(Self { seconds: properties.float("seconds") })
///     }
///     fn run(self, ports: Ports) -> Result<()> {
///         ports.stop_signal().sleep(std::time::Duration::from_secs_f64(self.seconds))
///     }
/// }
///
/// let properties = Properties::defaults(&Idle::describe()).expect("it has defaults");
/// assert_eq!(Idle::new(&properties)?.seconds, 1.0);
/// # Ok::<(), Error>(())
/// ```
pub trait Component: Sized + Send + 'static {
    /// Returns the ports and properties of the type. Called before any instance exists.
    fn describe() -> ComponentSpec;

    /// Creates an instance. Detect as many failures as possible here, before the first packet.
    ///
    /// # Errors
    /// The reason why the component cannot run, as a text for the user.
    fn new(properties: &Properties) -> Result<Self>;

    /// Runs until the input or the component's work ends, or until the component must stop. After a
    /// stop request, `receive` and `loan` return [`Error::Stopped`](crate::Error::Stopped). Return
    /// this error: it counts as a clean end. A component without ports to wait in polls
    /// [`Ports::stop_signal`] from time to time.
    ///
    /// # Errors
    /// The reason for the failure.
    fn run(self, ports: Ports) -> Result<()>;
}
