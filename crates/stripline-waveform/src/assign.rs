//! The conversion of a plan into the assignments of each component process.

use std::collections::BTreeMap;

use stripline::internal::control::{
    Assignment, ConnectionAssignment, InputAssignment, LauncherCommand, OutputAssignment,
};
use stripline::internal::{Endpoint, SenderOptions};
use stripline::link::Sampling;

use super::plan::{ComponentPlan, ConnectionPlan};

/// Returns a connection's name, the same in every report.
pub(super) fn name(plan: &ConnectionPlan) -> String {
    format!("{} -> {}", plan.from, plan.to)
}

/// Returns the assignment for a component's process. Connections from components that are `gone`
/// are left out.
pub(super) fn assignment(
    plan: &ComponentPlan,
    connections: &[ConnectionPlan],
    gone: impl Fn(&str) -> bool,
    sampling: Sampling,
) -> Assignment {
    let mut outputs: BTreeMap<(&str, &str), OutputAssignment> = BTreeMap::new();
    for connection in connections.iter().filter(|c| c.from.component == plan.name) {
        let options = SenderOptions::from(&connection.options);
        // Several receivers share the port: it keeps the strongest options that any of them needs.
        outputs
            .entry((&connection.from.port, &connection.transport))
            .and_modify(|output| output.options = output.options.merged(options))
            .or_insert_with(|| OutputAssignment {
                port: connection.from.port.clone(),
                transport: connection.transport.clone(),
                options,
            });
    }
    let inputs = connections
        .iter()
        .filter(|c| c.to.component == plan.name && !gone(&c.from.component))
        .map(|c| InputAssignment { port: c.to.port.clone(), connection: name(c), options: c.options });
    Assignment {
        name: plan.name.clone(),
        type_name: plan.spec.name.clone(),
        properties: plan.properties.clone(),
        port_types: plan.port_types.clone(),
        outputs: outputs.into_values().collect(),
        inputs: inputs.collect(),
        priority: plan.priority,
        cpus: plan.cpus.clone(),
        dispatch: plan.dispatch,
        sampling,
        // The launcher fills this in.
        waveform: String::new(),
        quiet: false,
    }
}

/// Returns the command not to wait for a connection after its sender has ended.
pub(super) fn abandon(plan: &ConnectionPlan) -> LauncherCommand {
    LauncherCommand::Abandon {
        component: plan.to.component.clone(),
        port: plan.to.port.clone(),
        connection: name(plan),
    }
}

/// Returns the parameters with which the receiver connects.
pub(super) fn connection(plan: &ConnectionPlan, endpoint: Endpoint) -> ConnectionAssignment {
    ConnectionAssignment {
        component: plan.to.component.clone(),
        port: plan.to.port.clone(),
        connection: name(plan),
        payload: plan.payload.clone(),
        options: plan.options,
        endpoint,
    }
}
