//! Components: what they say of themselves, their ports, and how one runs.
//!
//! A component of one's own is an executable with one line of `main`:
//!
//! ```no_run
//! use num_complex::Complex;
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
//! One that can be changed or tested while it runs says so in its specification and looks between packets: [`Live`]. What it
//! has to say of itself meanwhile is a [`Status`].
//!
//! One that makes a packet of each that comes is a [`Handler`]: the waveform decides what runs it. In between is one that
//! owns its ports and leaves the loop to its input ([`Subscriber::serve_then`](crate::node::Subscriber::serve_then)), on one
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
//!     // As the waveform says: the component's specification has `any_dispatch()`.
//!     input.serve_then(input.dispatch(), power, |packet, power| {
//!         let mut out = output.loan(1)?;
//!         out[0] = power;
//!         out.send_like(&packet)
//!     })
//! }
//! ```

pub(crate) mod control;
mod handler;
mod host;
mod live;
mod ports;
mod properties;
mod registry;
mod spec;
mod status;
pub(crate) mod units;
mod validate;

pub use handler::{Handled, Handler};
pub use host::{CHECK_OPTION, DESCRIBE_OPTION, host_if_launched, main};
pub use live::{Change, Live, Request, Test, TestResult, TestSpec};
pub use ports::{Ports, StopSignal};
pub use properties::{Access, Properties, Value};
pub use registry::Registry;
pub(crate) use spec::number;
pub use spec::{ComponentSpec, Direction, PortSpec, PortTypes, PropertyKind, PropertySpec};
pub use status::{Status, StatusValue};
pub use validate::Unfit;

use crate::error::Result;

/// A piece of signal processing with ports. It is made, run once on a thread of its own, and dropped.
///
/// End of stream is the end of `receive`; errors are values: return them with `?`. After a clean return the
/// outputs' receivers are told the end of stream; after an error they are not, because the component may be
/// started again. See the [module](self) for a whole one.
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
    /// Says what ports and properties the type has; called before any instance exists.
    fn describe() -> ComponentSpec;

    /// Makes an instance. What can go wrong before the first packet should go wrong here.
    ///
    /// # Errors
    /// What keeps it from running, for its user to read.
    fn new(properties: &Properties) -> Result<Self>;

    /// Runs until the end of its input, of its own work, or until it is asked to stop: from then on `receive`
    /// and `loan` return [`Error::Stopped`](crate::Error::Stopped), which is to be passed on and counts as a
    /// clean end. A component without ports to wait in asks [`Ports::stop_signal`] now and then.
    ///
    /// # Errors
    /// What made it fail.
    fn run(self, ports: Ports) -> Result<()>;
}
