//! Connects components that exist and starts those that are connected.

use std::time::Instant;

use stripline::internal::control::LauncherCommand;

use super::{ComponentState, Phase, Supervisor};
use crate::assign;
use crate::plan::Restart;

/// A connection is given up after this many failures in a row, a quarter of a second apart.
const ATTEMPTS_MAX: u32 = 20;

impl Supervisor<'_> {
    pub(super) fn connect_failed(&mut self, connection: &str, problem: &str) {
        let Some(index) = self.waveform.connections.iter().position(|c| assign::name(c) == connection) else {
            return;
        };
        // The end of a sender may not have been detected yet: the next attempt tries again, or
        // gives up.
        let link = &mut self.connections[index];
        link.attempts += 1;
        let from = &self.waveform.connections[index].from.component;
        let restarts = self.member_of(from).map(|i| self.waveform.components[i].restart);
        let definite = self.phase == Phase::Starting && restarts != Some(Restart::OnFailure);
        if !definite && self.connections[index].attempts < ATTEMPTS_MAX {
            self.connections[index].ordered = false;
        } else if !matches!(self.phase, Phase::Stopping(_)) {
            self.fail(format!("connection {connection}: {problem}"));
        }
    }

    /// Commands the receivers of every connection that has both ends.
    pub(super) fn connect_ready(&mut self) {
        for (index, plan) in self.waveform.connections.iter().enumerate() {
            let (Some(from), Some(to)) =
                (self.member_of(&plan.from.component), self.member_of(&plan.to.component))
            else {
                continue;
            };
            let receiver = &self.members[to];
            if self.connections[index].ordered
                || !matches!(receiver.state, ComponentState::Initialized | ComponentState::Running)
            {
                continue;
            }
            let sender = &self.members[from];
            let key = (plan.from.port.clone(), plan.transport.clone());
            let order = match (sender.state, sender.endpoints.get(&key).cloned()) {
                (ComponentState::Initialized | ComponentState::Running, Some(endpoint)) => {
                    self.connections[index].order();
                    LauncherCommand::Connect(assign::connection(plan, endpoint))
                }
                (ComponentState::Ended, _) => {
                    (self.connections[index].ordered, self.connections[index].connected) = (true, true);
                    assign::abandon(plan)
                }
                _ => continue,
            };
            self.order(receiver.group, &order);
        }
    }

    /// Starts all components once everything is connected; later, restarted ones once their own
    /// connections are made.
    pub(super) fn start_ready(&mut self) {
        // Also while the sources finish: packets wait for restarted components.
        if matches!(self.phase, Phase::Stopping(_)) {
            return;
        }
        if self.phase == Phase::Starting {
            let made = self
                .members
                .iter()
                .all(|m| matches!(m.state, ComponentState::Initialized | ComponentState::Ended));
            if !made || !self.connections.iter().all(|link| link.connected) {
                return;
            }
            self.phase = Phase::Running;
            self.started = Some(Instant::now());
            self.observer.started();
        }
        for index in 0..self.members.len() {
            if self.members[index].state != ComponentState::Initialized {
                continue;
            }
            let name = &self.waveform.components[index].name;
            let waits = self.waveform.connections.iter().zip(&self.connections).any(|(plan, link)| {
                let (from, to) = (&plan.from.component, &plan.to.component);
                let other = if from == name { to } else { from };
                let exists = !matches!(
                    self.state_of(other),
                    Some(ComponentState::Ended | ComponentState::Absent) | None
                );
                (from == name || to == name) && exists && !link.connected
            });
            if !waits {
                self.members[index].state = ComponentState::Running;
                self.order(self.members[index].group, &LauncherCommand::Start { component: name.clone() });
            }
        }
    }
}
