//! Connecting what exists and starting what is connected.

use std::time::Instant;

use super::{Phase, State, Supervisor};
use crate::component::control::Order;
use crate::waveform::assign;
use crate::waveform::plan::Restart;

impl Supervisor<'_> {
    pub(super) fn connect_failed(&mut self, connection: &str, problem: &str) {
        let Some(index) = self.waveform.connections.iter().position(|c| assign::name(c) == connection) else {
            return;
        };
        // A sender that may be started again may just have died: the next look tries again.
        let from = &self.waveform.connections[index].from.component;
        let restarts = self.member_of(from).map(|i| self.waveform.components[i].restart);
        if self.phase == Phase::Running && restarts == Some(Restart::OnFailure) {
            self.observer.warning(from, &format!("connection {connection}: {problem}; it is tried again"));
            self.links[index].ordered = false;
            return;
        }
        if matches!(self.phase, Phase::Starting | Phase::Running) {
            self.fail(format!("connection {connection}: {problem}"));
        }
    }

    /// Orders every connection whose two ends exist.
    pub(super) fn connect_what_can_be(&mut self) {
        let present = |state| matches!(state, Some(State::Initialized | State::Running));
        for (index, plan) in self.waveform.connections.iter().enumerate() {
            if self.links[index].ordered || !present(self.state_of(&plan.to.component)) {
                continue;
            }
            let Some(from) = self.member_of(&plan.from.component) else { continue };
            let key = (plan.from.port.clone(), plan.transport.clone());
            let Some(endpoint) = self.members[from].endpoints.get(&key).cloned() else { continue };
            if !present(Some(self.members[from].state)) {
                continue;
            }
            self.links[index].ordered = true;
            if let Some(to) = self.member_of(&plan.to.component) {
                self.order(self.members[to].group, &Order::Connect(assign::connection(plan, endpoint)));
            }
        }
    }

    /// Starts everything once everything is connected; later, what was started again once its own connections
    /// are.
    pub(super) fn start_what_can_be(&mut self) {
        // While the sources run dry, too: what was started again has packets waiting for it.
        if matches!(self.phase, Phase::Stopping(_)) {
            return;
        }
        if self.phase == Phase::Starting {
            let made = self.members.iter().all(|m| matches!(m.state, State::Initialized | State::Ended));
            if !made || !self.links.iter().all(|link| link.connected) {
                return;
            }
            self.phase = Phase::Running;
            self.started = Some(Instant::now());
            self.observer.started();
        }
        for index in 0..self.members.len() {
            if self.members[index].state != State::Initialized {
                continue;
            }
            let name = &self.waveform.components[index].name;
            let waits = self.waveform.connections.iter().zip(&self.links).any(|(plan, link)| {
                let (from, to) = (&plan.from.component, &plan.to.component);
                let other = if from == name { to } else { from };
                let exists = !matches!(self.state_of(other), Some(State::Ended | State::Absent) | None);
                (from == name || to == name) && exists && !link.connected
            });
            if !waits {
                self.members[index].state = State::Running;
                self.order(self.members[index].group, &Order::Start { component: name.clone() });
            }
        }
    }
}
