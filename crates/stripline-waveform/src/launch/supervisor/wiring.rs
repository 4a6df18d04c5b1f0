//! Connects components that have been created, and starts components that are connected.

use std::collections::BTreeMap;
use std::time::Instant;

use stripline::internal::SenderOptions;
use stripline::internal::control::{Assignment, InputAssignment, LauncherCommand, OutputAssignment};

use super::{ComponentState, ConnectionState, LaunchedComponent, Phase, Supervisor};
use crate::launch::Step;
use crate::restart::RestartWhen;

/// The maximum number of consecutive failures, a quarter of a second apart, before a connection is
/// given up.
const ATTEMPTS_MAX: u32 = 20;

impl Supervisor<'_> {
    /// Returns the assignment for the process of a component. Connections from components that have
    /// ended are left out.
    pub(super) fn assignment(&self, index: usize) -> Assignment {
        let member = &self.members[index];
        let plan = member.plan;
        let mut outputs: BTreeMap<(&str, &str), OutputAssignment> = BTreeMap::new();
        for link in self.connections.iter().filter(|link| link.from == index) {
            let connection = link.plan;
            let options = SenderOptions::from(&connection.options);
            // Several receivers share the port, which gets the strongest options that any of them
            // needs.
            outputs
                .entry((&connection.from.port, &link.transport))
                .and_modify(|output| output.options = output.options.merged(options))
                .or_insert_with(|| OutputAssignment {
                    port: connection.from.port.clone(),
                    transport: link.transport.clone(),
                    options,
                });
        }
        let exists = |from: usize| !self.members[from].state.is_over();
        let inputs = self.connections.iter().filter(|link| link.to == index && exists(link.from));
        let input = |link: &ConnectionState| InputAssignment {
            port: link.plan.to.port.clone(),
            connection: link.name.clone(),
            options: link.plan.options,
        };
        Assignment {
            name: plan.name.clone(),
            type_name: plan.spec.name.clone(),
            properties: member.properties.clone(),
            port_types: plan.port_types.clone(),
            outputs: outputs.into_values().collect(),
            inputs: inputs.map(input).collect(),
            priority: plan.priority,
            cpus: plan.cpus.clone(),
            dispatch: plan.dispatch,
            sampling: self.options.sampling,
            waveform: self.waveform.name.clone(),
            quiet: self.options.quiet,
            keeps_streams: self.keeps_streams(index),
            restarts: self.groups[member.group].history.total,
        }
    }

    /// Returns whether the streams of a component continue after it has ended its work.
    fn keeps_streams(&self, index: usize) -> bool {
        let member = &self.members[index];
        let is_running = matches!(self.phase, Phase::Starting | Phase::Running);
        member.plan.restart.when() == RestartWhen::Always && is_running && !member.is_stopping
    }

    pub(super) fn connect_failed(&mut self, connection: &str, problem: &str) {
        let phase = self.phase;
        let Some(link) = self.connections.iter_mut().find(|link| link.name == connection) else { return };
        // The end of the sender may not have been detected yet. The next attempt tries again, or
        // gives up.
        let sender = &self.members[link.from];
        // A stopped sender is late, but not gone.
        if !self.groups[sender.group].process.as_ref().is_some_and(|process| process.is_stopped()) {
            link.attempts += 1;
        }
        let restarts = sender.plan.restart.when() != RestartWhen::Never;
        let definite = phase == Phase::Starting && !restarts;
        if !definite && link.attempts < ATTEMPTS_MAX {
            link.ordered = false;
        } else if !matches!(phase, Phase::Stopping(_)) {
            self.fail(format!("connection {connection}: {problem}"));
        }
    }

    /// Orders the receivers of all connections that have both ends to connect.
    pub(super) fn connect_ready(&mut self) {
        for link in &mut self.connections {
            // A receiver that came back waits until the move has ended.
            if self.moves.iter().any(|state| state.is_of(link)) {
                continue;
            }
            let (sender, receiver) = (&self.members[link.from], &self.members[link.to]);
            if link.ordered || !receiver.state.is_alive() {
                continue;
            }
            let key = (link.plan.from.port.clone(), link.transport.clone());
            let order = match sender.endpoints.get(&key).filter(|_| sender.state.is_alive()) {
                Some(endpoint) => {
                    link.order();
                    link.connect(endpoint.clone(), false)
                }
                None if sender.state.is_over() => {
                    (link.ordered, link.connected) = (true, true);
                    link.abandon()
                }
                None => continue,
            };
            if let Some(process) = &mut self.groups[receiver.group].process {
                process.order(&order);
            }
        }
    }

    /// Starts all components once everything is connected. Later, starts each restarted component
    /// once the receivers of its outputs are connected.
    pub(super) fn start_ready(&mut self) {
        // Components are also started while the sources finish, because packets wait for restarted
        // components.
        if matches!(self.phase, Phase::Stopping(_)) {
            return;
        }
        if self.phase == Phase::Starting {
            let is_made =
                |m: &LaunchedComponent| matches!(m.state, ComponentState::Initialized) || m.state.is_over();
            let is_connected =
                |link: &ConnectionState| link.connected || self.members[link.to].state.is_over();
            if !self.members.iter().all(is_made) || !self.connections.iter().all(is_connected) {
                return;
            }
            self.phase = Phase::Running;
            self.started = Some(Instant::now());
            self.observer.started();
        }
        for index in 0..self.members.len() {
            let member = &self.members[index];
            // A component waits only for its receivers to connect, not for its senders. As a
            // receiver it can start and read what arrives in the meantime, since a sender may be
            // stopped.
            let waits = self.connections.iter().any(|link| {
                let receiver = self.members[link.to].state;
                let exists = !receiver.is_over() && receiver != ComponentState::Absent;
                link.from == index && !link.connected && exists
            });
            if member.state == ComponentState::Initialized && !waits {
                let order = LauncherCommand::Start { component: member.plan.name.clone() };
                let (group, is_stopping) = (member.group, member.is_stopping);
                self.order(group, &order);
                self.members[index].state = ComponentState::Running;
                self.observer.step(&self.members[index].plan.name, &Step::Running);
                // The order to stop came before the component was created.
                if is_stopping {
                    self.stop(index);
                }
            }
        }
    }
}
