//! The names that a component or program needs first: `use stripline::prelude::*;`.
//!
//! | name | meaning |
//! | --- | --- |
//! | [`Component`] | the trait that a component implements: description, creation and run |
//! | [`ComponentSpec`], [`PortTypes`], [`PropertySpec`] | the description: ports and properties |
//! | [`Properties`], [`Ports`] | the values and the connected ports of a component |
//! | [`Input`], [`Output`] | a port that receives packets, and a port that sends them |
//! | [`Node`] | makes the same ports for topics, in a program without a waveform |
//! | [`Cbor`], [`Complex`] | the content of a port of messages; a complex sample |
//! | [`Received`], [`StreamInfo`] | a packet, none yet, or the end; the description of samples |
//! | [`Error`], [`Result`] | an error of this library |
//!
//! All other names are in the module to which they belong: [`component`](crate::component),
//! [`node`](crate::node), [`payload`](crate::payload), [`call`](crate::call).
//!
//! ```
//! use stripline::prelude::*;
//!
//! /// Multiplies every sample by a factor.
//! struct Gain(f32);
//!
//! impl Component for Gain {
//!     fn describe() -> ComponentSpec {
//!         ComponentSpec::new("gain", "Multiplies every sample by a factor.")
//!             .input("in", PortTypes::of::<f32>(), "samples")
//!             .output("out", PortTypes::of::<f32>(), "samples times the factor")
//!             .property(PropertySpec::float("factor", 1.0, "linear gain").range(0.0, 1e6))
//!     }
//!
//!     fn new(properties: &Properties) -> Result<Self> {
//!         Ok(Self(properties.float("factor") as f32))
//!     }
//!
//!     fn run(self, mut ports: Ports) -> Result<()> {
//!         let (mut input, mut output) = (ports.input::<f32>("in")?, ports.output::<f32>("out")?);
//!         while let Some(packet) = input.receive()? {
//!             let mut loan = output.loan(packet.len())?;
//!             loan.iter_mut().zip(&*packet).for_each(|(y, x)| *y = x * self.0);
//!             loan.send_like(&packet)?;
//!         }
//!         Ok(())
//!     }
//! }
//! ```

pub use crate::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec};
pub use crate::node::{Input, Node, Output, Received};
pub use crate::packet::StreamInfo;
pub use crate::packet::payload::Cbor;
pub use crate::{Complex, Error, Result};
