//! Ports by the type that the program, the waveform or the component names.

use stripline::component::{ComponentSpec, PortTypes, Ports as RustPorts};
use stripline::node::{Publisher, Subscriber};
use stripline::payload::{Dynamic, SampleType, TypeName};

use crate::error::Failure;
use crate::subscriber::SubscriberOptions;

/// The type of a port's packets.
pub(super) enum PortType {
    /// Samples.
    Samples(SampleType),
    /// Messages as bytes.
    Messages(TypeName),
}

/// Returns the type that the program gives, or else the waveform's type, or else the declared one.
pub(super) fn resolved(
    spec: &ComponentSpec,
    ports: &RustPorts,
    port: &str,
    given: Option<PortType>,
) -> Result<PortType, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    let declared = match spec.find_port(port).map(|port| &port.types) {
        Some(PortTypes::OneOf(types)) if types.len() == 1 => types.first(),
        _ => None,
    };
    match ports.payload(port).or(declared) {
        Some(name) => PortType::of(name),
        // The port is not connected, so any type is right.
        None => PortType::of(&TypeName::of::<u8>()),
    }
}

impl PortType {
    pub fn of(name: &TypeName) -> Result<Self, Failure> {
        if name.is_message() {
            return Ok(Self::Messages(name.clone()));
        }
        let samples = SampleType::try_from(name.clone());
        samples.map(Self::Samples).map_err(|error| Failure::argument(format!("`type` is NULL: {error}")))
    }

    /// Checks that the options are allowed for this type.
    ///
    /// # Safety
    /// The caller must follow the header's rule for structures.
    pub unsafe fn check_options(&self, options: *const SubscriberOptions) -> Result<(), Failure> {
        match self {
            Self::Samples(_) => Ok(()),
            // SAFETY: the caller makes the same promise.
            Self::Messages(_) => unsafe { SubscriberOptions::check_for_messages(options) },
        }
    }

    pub fn input(&self, ports: &mut RustPorts, port: &str) -> stripline::Result<Subscriber<Dynamic>> {
        match self {
            Self::Samples(samples) => ports.input::<Dynamic>((port, samples)),
            Self::Messages(messages) => ports.input::<Dynamic>((port, messages)),
        }
    }

    pub fn output(&self, ports: &mut RustPorts, port: &str) -> stripline::Result<Publisher<Dynamic>> {
        match self {
            Self::Samples(samples) => ports.output::<Dynamic>((port, samples)),
            Self::Messages(messages) => ports.output::<Dynamic>((port, messages)),
        }
    }
}
