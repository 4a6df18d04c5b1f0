//! Components: what they say of themselves, their ports, and how one runs.

mod spec;

pub use spec::{
    ComponentSpec, Direction, PortSpec, PortTypes, Properties, PropertyKind, PropertySpec, Value,
};
