//! The component types that a program contains, by name.

use std::collections::BTreeMap;

use super::{Component, ComponentSpec, Ports, Properties};
use crate::error::Result;

/// A function that runs a created component.
pub(crate) type Run = Box<dyn FnOnce(Ports) -> Result<()> + Send>;

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
    makers: BTreeMap<String, fn(&Properties) -> Result<Run>>,
}

impl Registry {
    /// Creates a registry without types.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the type `C` under the name in its specification; it replaces a type of the same name.
    #[must_use]
    pub fn with<C: Component>(mut self) -> Self {
        let spec = C::describe();
        self.makers.insert(spec.name.clone(), |properties| {
            let component = C::new(properties)?;
            Ok(Box::new(move |ports| component.run(ports)))
        });
        self.specs.insert(spec.name.clone(), spec);
        self
    }

    /// Returns the specifications of the types.
    pub fn specs(&self) -> &BTreeMap<String, ComponentSpec> {
        &self.specs
    }

    /// Creates an instance; `None`: there is no such type.
    pub(crate) fn make(&self, type_name: &str, properties: &Properties) -> Option<Result<Run>> {
        self.makers.get(type_name).map(|make| make(properties))
    }
}
