//! A checked waveform: all parts exist and fit together.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stripline::component::{ComponentSpec, Properties};
use stripline::node::Dispatch;
use stripline::packet::payload::TypeName;
use stripline::terms::LinkOptions;

use crate::placement::Placement;
use crate::program_command::ProgramCommand;
use crate::restart::Restart;
use crate::transport_choice::TransportChoice;

/// A waveform that has passed every check and can be started.
///
/// ```
/// use stripline_waveform::Waveform;
///
/// /// The names of the components that run in processes of their own.
/// fn processes(waveform: &Waveform) -> Vec<&str> {
///     let plans = waveform.components.iter();
///     let alone = plans.filter(|plan| plan.placement == stripline_waveform::Placement::Process);
///     alone.map(|plan| plan.name.as_str()).collect()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Waveform {
    /// The name, or the stem of the file if the file gives no name.
    pub name: String,
    /// A sentence for users; may be empty.
    pub description: String,
    /// The file from which the waveform was read.
    pub path: PathBuf,
    /// The components, in the order of the file.
    pub components: Vec<ComponentPlan>,
    /// The connections, in the order of the file.
    pub connections: Vec<ConnectionPlan>,
}

/// A component of a waveform.
///
/// ```
/// use stripline_waveform::{ComponentPlan, Program};
///
/// fn summary(plan: &ComponentPlan) -> String {
///     match &plan.program {
///         Program::Stock => format!("{}: {}", plan.name, plan.spec.name),
///         Program::Executable(command) => format!("{}: {}", plan.name, command),
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ComponentPlan {
    /// The name in the waveform.
    pub name: String,
    /// A stock type or an executable of the user.
    pub program: Program,
    /// The specification.
    pub spec: ComponentSpec,
    /// The checked properties.
    pub properties: Properties,
    /// The placement.
    pub placement: Placement,
    /// The rule for restarts.
    pub restart: Restart,
    /// Real-time priority (`SCHED_FIFO`), 1 to 99.
    pub priority: Option<u8>,
    /// The processors on which the component may run; empty if it may run on any.
    pub cpus: Vec<usize>,
    /// The dispatch of the component's code.
    pub dispatch: Dispatch,
    /// The payload type of every connected port.
    pub port_types: BTreeMap<String, TypeName>,
}

/// The program of a component.
///
/// ```
/// use stripline_waveform::Program;
///
/// assert_ne!(Program::Stock, Program::Executable("target/debug/gain".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// A type from the launcher's own registry.
    Stock,
    /// An executable that links the library, or a script in a language that has a binding.
    Executable(ProgramCommand),
}

/// A connection of a waveform.
///
/// ```
/// use stripline::terms::LinkOptions;
/// use stripline::payload::TypeName;
/// use stripline_waveform::{ConnectionPlan, PortRef, TransportChoice};
///
/// let plan = ConnectionPlan {
///     from: PortRef { component: "source".into(), port: "out".into() },
///     to: PortRef { component: "sink".into(), port: "in".into() },
///     transport: "shm".into(),
///     choice: TransportChoice::default(),
///     options: LinkOptions::default(),
///     age_limit_ms: None,
///     payload: TypeName::of::<f32>(),
/// };
/// assert_eq!(format!("{} -> {}", plan.from, plan.to), "source.out -> sink.in");
/// ```
#[derive(Clone, Debug)]
pub struct ConnectionPlan {
    /// The sending port.
    pub from: PortRef,
    /// The receiving port.
    pub to: PortRef,
    /// The transport's name in the registry.
    pub transport: String,
    /// The candidates from which the transport was chosen.
    pub choice: TransportChoice,
    /// The options of the link.
    pub options: LinkOptions,
    /// The age of samples above which the launcher warns, in milliseconds; `None`: no limit.
    pub age_limit_ms: Option<u32>,
    /// The payload type.
    pub payload: TypeName,
}

/// A port of a component in a waveform, written `component.port`.
///
/// ```
/// let port = stripline_waveform::PortRef { component: "source".into(), port: "out".into() };
/// assert_eq!(port.to_string(), "source.out");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortRef {
    /// The name of the component in the waveform.
    pub component: String,
    /// The name of the port.
    pub port: String,
}

impl fmt::Display for PortRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.component, self.port)
    }
}
