//! Components made of a handler: the waveform selects the threads that run it.

use std::sync::{Arc, Mutex};

use super::{Component, ComponentSpec, Direction, Ports, Properties};
use crate::error::{Error, InvalidProperties, Result};
use crate::node::PacketView;
use crate::packet::payload::Sample;
use crate::sys::mutex::lock;

/// A component that makes one packet from each received packet. A handler has exactly one input and
/// at most one output. The waveform chooses the thread that runs it with `dispatch` (see
/// [`Dispatch`](crate::node::Dispatch)).
///
/// [`HandlerComponent`] turns it into a [`Component`], for [`main`](super::main) or a
/// [`Registry`](super::Registry). The output is written to reused memory and copied into the
/// transport.
///
/// A component that must avoid this copy, or has more ports, runs its own loop. The loop calls
/// [`Subscriber::serve_then`](crate::node::Subscriber::serve_then) with
/// [`Subscriber::dispatch`](crate::node::Subscriber::dispatch), and the specification sets
/// [`ComponentSpec::any_dispatch`].
///
/// ```no_run
/// use stripline::Result;
/// use stripline::component::{ComponentSpec, HandlerComponent, Handler, PortTypes, Properties};
/// use stripline::node::PacketView;
///
/// struct Square;
///
/// impl Handler for Square {
///     type In = f32;
///     type Out = f32;
///
///     fn describe() -> ComponentSpec {
///         ComponentSpec::new("square", "Squares every sample.")
///             .input("in", PortTypes::of::<f32>(), "samples")
///             .output("out", PortTypes::of::<f32>(), "their squares")
///     }
///
///     fn new(_: &Properties) -> Result<Self> {
///         Ok(Self)
///     }
///
///     fn handle(&self, packet: PacketView<'_, f32>, made: &mut Vec<f32>) -> Result<()> {
///         made.extend(packet.iter().map(|x| x * x));
///         Ok(())
///     }
/// }
///
/// fn main() -> std::process::ExitCode {
///     stripline::component::main::<HandlerComponent<Square>>()
/// }
/// ```
pub trait Handler: Sized + Send + Sync + 'static {
    /// The sample type of the input.
    type In: Sample;
    /// The sample type of the output; ignored without an output.
    type Out: Sample;

    /// Returns the specification, as [`Component::describe`] does.
    fn describe() -> ComponentSpec;

    /// Creates an instance, as [`Component::new`] does.
    ///
    /// # Errors
    /// Same as [`Component::new`].
    fn new(properties: &Properties) -> Result<Self>;

    /// Makes a packet from a received one. With a pool it runs on several threads at once.
    ///
    /// `made` is empty at first. The content is sent with the stream, sample index, time and order
    /// of `packet`. An empty packet is sent too, so that no receiver waits for it. A useless packet
    /// can be [refused](PacketView::refuse).
    ///
    /// # Errors
    /// An error makes the component fail.
    fn handle(&self, packet: PacketView<'_, Self::In>, made: &mut Vec<Self::Out>) -> Result<()>;

    /// Takes new values of properties that the specification declares
    /// [changeable](super::PropertySpec::changeable). `_properties` is the new set of all
    /// properties. The function is called between two packets of one thread; with a pool, other
    /// threads may still be handling packets. The default implementation refuses all changes.
    ///
    /// # Errors
    /// The reason for refusing the values, as a text for the user. The old values stay in effect.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use stripline::Result;
    /// use stripline::component::{ComponentSpec, Handler, PortTypes, Properties, PropertySpec};
    /// use stripline::node::PacketView;
    ///
    /// struct Gain(AtomicU64);
    ///
    /// impl Handler for Gain {
    ///     type In = f32;
    ///     type Out = f32;
    ///
    ///     fn describe() -> ComponentSpec {
    ///         ComponentSpec::new("gain", "Multiplies every sample.")
    ///             .input("in", PortTypes::of::<f32>(), "samples")
    ///             .output("out", PortTypes::of::<f32>(), "multiplied")
    ///             .property(PropertySpec::float("factor", 1.0, "by what").changeable())
    ///     }
    ///
    ///     fn new(properties: &Properties) -> Result<Self> {
    ///         Ok(Self(AtomicU64::new(properties.float("factor").to_bits())))
    ///     }
    ///
    ///     fn handle(&self, packet: PacketView<'_, f32>, made: &mut Vec<f32>) -> Result<()> {
    ///         let factor = f64::from_bits(self.0.load(Ordering::Relaxed)) as f32;
    ///         made.extend(packet.iter().map(|x| factor * x));
    ///         Ok(())
    ///     }
    ///
    ///     fn configure(&self, properties: &Properties) -> Result<()> {
    ///         self.0.store(properties.float("factor").to_bits(), Ordering::Relaxed);
    ///         Ok(())
    ///     }
    /// }
    /// assert_eq!(Gain::describe().properties[0].name, "factor");
    /// ```
    fn configure(&self, _properties: &Properties) -> Result<()> {
        Err(InvalidProperties::new("it does not take new values while it runs").into())
    }
}

/// The [`Component`] that runs a [`Handler`] as the waveform specifies.
///
/// ```
/// # struct Square;
/// # impl stripline::component::Handler for Square {
/// #     type In = f32;
/// #     type Out = f32;
/// #     fn describe() -> stripline::component::ComponentSpec {
/// #         stripline::component::ComponentSpec::new("square", "Squares every sample.")
/// #     }
/// #     fn new(_: &stripline::component::Properties) -> stripline::Result<Self> { Ok(Self) }
/// #     fn handle(&self, _: stripline::node::PacketView<'_, f32>, _: &mut Vec<f32>) -> stripline::Result<()> { Ok(()) }
/// # }
/// use stripline::component::{HandlerComponent, Registry};
///
/// let registry = Registry::new().with::<HandlerComponent<Square>>();
/// assert!(registry.specs()["square"].any_dispatch);
/// ```
pub struct HandlerComponent<H> {
    handler: H,
    input: String,
    output: Option<String>,
}

impl<H: Handler> Component for HandlerComponent<H> {
    fn describe() -> ComponentSpec {
        H::describe().any_dispatch()
    }

    fn new(properties: &Properties) -> Result<Self> {
        let spec = H::describe();
        let ports = |direction| {
            let ports = spec.ports.iter().filter(move |port| port.direction == direction);
            ports.map(|port| port.name.clone()).collect::<Vec<_>>()
        };
        let (inputs, outputs) = (ports(Direction::Input), ports(Direction::Output));
        let ([input], [] | [_]) = (&inputs[..], &outputs[..]) else {
            let (inputs, outputs) = (inputs.len(), outputs.len());
            return Err(Error::InvalidArgument(format!(
                "`{}` has {inputs} inputs and {outputs} outputs; a handler has one input and at most one output",
                spec.name
            )));
        };
        let (input, output) = (input.clone(), outputs.into_iter().next());
        Ok(Self { handler: H::new(properties)?, input, output })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let Self { handler, input, output } = self;
        let (requests, handler) = (ports.requests(), Arc::new(handler));
        let mut input = ports.input::<H::In>(&input)?;
        // The hook is also called while no packet arrives.
        let (pending, waiting) = (requests.clone(), Arc::clone(&handler));
        input.on_request(move || pending.apply_changes(|new| waiting.configure(new)));
        let mut output = output.map(|port| ports.output::<H::Out>(&port)).transpose()?;
        let spare = Mutex::new(Vec::new());
        input.serve_then(
            input.dispatch(),
            |packet| {
                requests.apply_changes(|new| handler.configure(new));
                let mut made: Vec<H::Out> = lock(&spare).pop().unwrap_or_default();
                handler.handle(packet, &mut made)?;
                Ok(made)
            },
            |packet, mut made| {
                if let Some(output) = &mut output {
                    let mut loan = output.loan(made.len())?;
                    loan.copy_from_slice(&made);
                    loan.send_like(&packet)?;
                }
                made.clear();
                lock(&spare).push(made);
                Ok(())
            },
        )
    }
}
