//! The component types of a program, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Component, ComponentSpec, Ports, Properties};
use crate::error::Result;

/// A function that runs a created component.
pub(crate) type Run = Box<dyn FnOnce(Ports) -> Result<()> + Send>;

/// A function that creates a component.
type Make = Arc<dyn Fn(&Properties) -> Result<Run> + Send + Sync>;

/// A table of component types by name.
///
/// ```
/// # use stripline::component::{Component, ComponentSpec, Ports, Properties, Registry};
/// # struct Null;
/// # impl Component for Null {
/// #     fn describe() -> ComponentSpec { ComponentSpec::new("null", "Does nothing.") }
/// #     fn new(_: &Properties) -> stripline::Result<Self> { Ok(Self) }
/// #     fn run(self, _: Ports) -> stripline::Result<()> { Ok(()) }
/// # }
/// let registry = Registry::new().with::<Null>();
/// assert!(registry.specs().contains_key("null"));
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    specs: BTreeMap<String, ComponentSpec>,
    makers: BTreeMap<String, Make>,
}

impl Registry {
    /// Creates a registry without types.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the type `C` under the name in the specification, replacing any type with that name.
    #[must_use]
    pub fn with<C: Component>(self) -> Self {
        self.with_value(C::describe(), |properties| {
            let component = C::new(properties)?;
            Ok(|ports| component.run(ports))
        })
    }

    /// Adds a type by value: its specification, and a function that creates an instance. The
    /// instance is itself a function, which runs the component: see [`Component::new`] and
    /// [`Component::run`]. Replaces any type with that name.
    ///
    /// A type by value is for programs that determine their components at run time, and for
    /// bindings to other languages. The functions are called on threads of the library.
    ///
    /// ```no_run
    /// use stripline::component::{ComponentSpec, PortTypes, Ports, Properties, PropertySpec, Registry, main_of};
    ///
    /// let gain = ComponentSpec::new("gain", "Multiplies every sample by a factor.")
    ///     .input("in", PortTypes::of::<f32>(), "samples")
    ///     .output("out", PortTypes::of::<f32>(), "samples times the factor")
    ///     .property(PropertySpec::float("factor", 1.0, "linear gain").range(0.0, 1e6));
    /// let registry = Registry::new().with_value(gain, |properties: &Properties| {
    ///     let factor = properties.float("factor") as f32;
    ///     Ok(move |mut ports: Ports| {
    ///         let (mut input, mut output) = (ports.input::<f32>("in")?, ports.output::<f32>("out")?);
    ///         while let Some(packet) = input.receive()? {
    ///             let mut out = output.loan(packet.len())?;
    ///             out.iter_mut().zip(&*packet).for_each(|(y, x)| *y = x * factor);
    ///             out.send_like(&packet)?;
    ///         }
    ///         Ok(())
    ///     })
    /// });
    /// main_of(&registry);
    /// ```
    #[must_use]
    pub fn with_value<R>(
        mut self,
        spec: ComponentSpec,
        make: impl Fn(&Properties) -> Result<R> + Send + Sync + 'static,
    ) -> Self
    where
        R: FnOnce(Ports) -> Result<()> + Send + 'static,
    {
        let make: Make = Arc::new(move |properties| Ok(Box::new(make(properties)?)));
        self.makers.insert(spec.name.clone(), make);
        self.specs.insert(spec.name.clone(), spec);
        self
    }

    /// Returns the specifications of the types.
    pub fn specs(&self) -> &BTreeMap<String, ComponentSpec> {
        &self.specs
    }

    /// Creates an instance; `None` for an unknown type.
    pub(crate) fn make(&self, type_name: &str, properties: &Properties) -> Option<Result<Run>> {
        self.makers.get(type_name).map(|make| make(properties))
    }
}
