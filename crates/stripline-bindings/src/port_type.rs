//! Types of ports that a program names at run time.

use stripline::component::{ComponentSpec, PortTypes, Ports};
use stripline::node::PortName;
use stripline::payload::{Dynamic, SampleType, TypeName};

use crate::Failure;

/// The type of a port's packets: samples, or messages as bytes.
///
/// ```
/// use stripline::payload::{SampleType, TypeName};
/// use stripline_bindings::PortType;
///
/// let node = stripline::node::Node::isolated()?;
/// let cf32 = PortType::Samples(SampleType::parse("cf32")?);
/// let mut publisher = node.publisher(cf32.at("iq"))?;
/// assert_eq!(publisher.loan(2)?.len(), 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub enum PortType {
    /// Samples.
    Samples(SampleType),
    /// Messages in CBOR.
    Messages(TypeName),
}

impl PortType {
    /// Returns the type with that name, or with that layout or schema.
    ///
    /// # Errors
    /// Samples of a type without a layout.
    pub fn of(name: &TypeName) -> Result<Self, Failure> {
        if name.is_message() {
            return Ok(Self::Messages(name.clone()));
        }
        let samples = SampleType::try_from(name.clone());
        samples.map(Self::Samples).map_err(|error| Failure::argument(error.to_string()))
    }

    /// Returns the type that the waveform gives a port of a component, or else the declared type.
    ///
    /// # Errors
    /// As [`PortType::of`].
    pub fn of_port(spec: &ComponentSpec, ports: &Ports, port: &str) -> Result<Self, Failure> {
        let declared = match spec.find_port(port).map(|port| &port.types) {
            Some(PortTypes::OneOf(types)) if types.len() == 1 => types.first(),
            _ => None,
        };
        match ports.payload(port).or(declared) {
            Some(name) => Self::of(name),
            // The port is not connected, so any type is right.
            None => Self::of(&TypeName::of::<u8>()),
        }
    }

    /// Returns the name of a topic or port together with this type.
    pub fn at<'a>(&'a self, name: &'a str) -> PortName<'a, Dynamic> {
        match self {
            Self::Samples(samples) => (name, samples).into(),
            Self::Messages(messages) => (name, messages).into(),
        }
    }
}

/// Parses a type of messages.
///
/// # Errors
/// A text that is not a type, or a type of samples.
///
/// ```
/// assert!(stripline_bindings::message_type("message/cbor").is_ok());
/// assert!(stripline_bindings::message_type("cf32").is_err());
/// ```
pub fn message_type(text: &str) -> Result<TypeName, Failure> {
    let found = TypeName::parse(text).map_err(|error| Failure::argument(error.to_string()))?;
    if !found.is_message() {
        return Err(Failure::argument(format!(
            "`{text}` is not a type of messages; use one as `message/cbor` or `message/tune{{hz:f64}}`"
        )));
    }
    Ok(found)
}
