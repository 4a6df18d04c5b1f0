//! Read-only properties, which a component sets while it runs.

use stripline::Result;
use stripline::component::{Ports, Status, Value};

/// A read-only property of a running component. Setting a number costs one store.
///
/// ```
/// use stripline::component::{ComponentSpec, Ports, Properties, PropertySpec, Registry, Value};
/// use stripline::component::harness::Harness;
/// use stripline_bindings::Readout;
///
/// let level = PropertySpec::float("level", 0.0, "measured level").read_only();
/// let meter = ComponentSpec::new("meter", "Measures a level.").property(level);
/// let registry = Registry::new().with_value(meter, |_: &Properties| {
///     Ok(|ports: Ports| {
///         let level = Readout::new(&ports, "level")?;
///         assert!(level.set(Value::Float(0.5)) && !level.set(Value::Integer(1)));
///         Ok(())
///     })
/// });
/// let values = Harness::of_type(&registry, "meter").start()?.finish()?;
/// assert_eq!(values["level"], Value::Float(0.5));
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Readout {
    name: String,
    place: Place,
}

enum Place {
    Boolean(Status<bool>),
    /// `set` and `add` are the same place.
    Integer {
        set: Status<i64>,
        add: Status<u64>,
    },
    Float(Status<f64>),
    Text(Status<String>),
}

impl Readout {
    /// Finds the property with that name.
    ///
    /// # Errors
    /// The component has declared no read-only property with that name.
    pub fn new(ports: &Ports, name: &str) -> Result<Self> {
        let place = if let Ok(status) = ports.status(name) {
            Place::Boolean(status)
        } else if let Ok(add) = ports.status(name) {
            // The last of these calls decides how the value is read: as a signed number.
            Place::Integer { set: ports.status(name)?, add }
        } else if let Ok(status) = ports.status(name) {
            Place::Float(status)
        } else {
            Place::Text(ports.status(name)?)
        };
        Ok(Self { name: name.into(), place })
    }

    /// Returns the name of the property.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the property is a real number.
    pub fn is_float(&self) -> bool {
        matches!(self.place, Place::Float(_))
    }

    /// Returns the kind of the values, for messages.
    pub fn noun(&self) -> &'static str {
        match self.place {
            Place::Boolean(_) => "true or false",
            Place::Integer { .. } => "a whole number",
            Place::Float(_) => "a number",
            Place::Text(_) => "a text",
        }
    }

    /// Sets the value. Returns false for a value of another kind.
    pub fn set(&self, value: Value) -> bool {
        match (&self.place, value) {
            (Place::Boolean(status), Value::Boolean(value)) => status.set(value),
            (Place::Integer { set, .. }, Value::Integer(value)) => set.set(value),
            (Place::Float(status), Value::Float(value)) => status.set(value),
            (Place::Text(status), Value::Text(value)) => status.set(value),
            _ => return false,
        }
        true
    }

    /// Adds to a whole number. Returns false for a property of another kind.
    pub fn add(&self, count: u64) -> bool {
        let Place::Integer { add, .. } = &self.place else { return false };
        add.add(count);
        true
    }
}
