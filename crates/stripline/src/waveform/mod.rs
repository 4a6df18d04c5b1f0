//! Waveforms: the description file, its checking, launching and supervision.

mod plan;

pub use plan::{ComponentPlan, ConnectionPlan, Placement, PortRef, Program, Restart, Waveform};
