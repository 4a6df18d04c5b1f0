//! The ports of components with several inputs of one type: `in1`, `in2` and so on.

use stripline::component::{ComponentSpec, Direction, PortSpec, PortTypes, Ports};

/// The most inputs.
const INPUTS_MAX: usize = 8;

/// Describes the inputs. The first two must be connected.
pub(super) fn describe(mut spec: ComponentSpec, types: PortTypes, summary: &str) -> ComponentSpec {
    for number in 1..=INPUTS_MAX {
        let types = if number == 1 { types.clone() } else { PortTypes::SameAs("in1".into()) };
        let port = PortSpec::new(&format!("in{number}"), Direction::Input, types, summary);
        spec = spec.port(if number <= 2 { port } else { port.optional() });
    }
    spec
}

/// Returns the names of the inputs that are connected.
pub(super) fn connected(ports: &Ports) -> Vec<String> {
    let names = (1..=INPUTS_MAX).map(|number| format!("in{number}"));
    names.filter(|name| ports.is_connected(name)).collect()
}
