//! The handling of processes that have ended: restart or not.

use std::time::{Duration, Instant};

use super::{ComponentState, Phase, RESTART_WINDOW, RESTARTS_MAX, Supervisor, exit_text};
use crate::launch::Step;
use crate::plan::Restart;

impl Supervisor<'_> {
    /// Handles the end of a process.
    pub(super) fn record_exit(&mut self, group: usize) {
        let names = self.names(group);
        let Some(process) = self.groups[group].process.take() else { return };
        let members = self.groups[group].members.clone();
        members.iter().for_each(|index| self.forget(*index));
        let mut unfinished =
            members.iter().map(|index| &self.members[*index]).filter(|m| !m.state.is_over()).peekable();
        if unfinished.peek().is_none() {
            return;
        }
        let restart = unfinished.all(|member| member.plan.restart == Restart::OnFailure);
        let how = process.exit.map_or_else(|| "ended".into(), exit_text);
        self.observe_group(group, &Step::Exited(how.clone()));
        if restart && self.may_restart(group) {
            self.prepare_restart(group, &names, &how);
            return;
        }
        self.mark_failed(group);
        if self.stopped.is_none() || self.failure.is_none() {
            let registered = self.groups[group].register_by.is_none();
            let hint = if registered { "" } else { " before it registered" };
            let mut text = format!("component {names} {how}{hint}{}", self.given_up(group));
            if !process.stderr_tail.is_empty() {
                text.push_str("; its last output:");
                process.stderr_tail.iter().for_each(|line| text.push_str(&format!("\n    {line}")));
            }
            self.fail(text);
        }
    }

    /// Returns the addition to the last failure of a component that was started too often.
    pub(super) fn given_up(&self, group: usize) -> String {
        match self.groups[group].failures.len() {
            0 => String::new(),
            count => {
                let seconds = RESTART_WINDOW.as_secs();
                format!(" (after {count} restarts within {seconds} s it is given up)")
            }
        }
    }

    pub(super) fn may_restart(&mut self, group: usize) -> bool {
        let now = Instant::now();
        let failures = &mut self.groups[group].failures;
        failures.retain(|at| now.duration_since(*at) < RESTART_WINDOW);
        !matches!(self.phase, Phase::Stopping(_)) && failures.len() < RESTARTS_MAX
    }

    pub(super) fn prepare_restart(&mut self, group: usize, names: &str, how: &str) {
        let now = Instant::now();
        let entry = &mut self.groups[group];
        let pause = Duration::from_millis(20 << entry.failures.len().min(6));
        entry.failures.push(now);
        entry.restarts += 1;
        entry.restart_at = Some(now + pause);
        // A component that reported its failure was then killed from here: that is not reported
        // again.
        let how = entry.problem.take().unwrap_or_else(|| how.into());
        let (count, wait) = (entry.failures.len(), pause.as_millis());
        let mut again = format!("{how}; it is started again ({count} of {RESTARTS_MAX}) in {wait} ms");
        // A process that is started again has one component.
        for (name, value) in entry.members.iter().flat_map(|index| &self.members[*index].set) {
            again.push_str(&format!(", with {name} = {value} as it was set"));
        }
        let step = Step::Restarting { count: entry.restarts };
        self.observer.warning(names, &again);
        self.observer.step(names, &step);
        for &index in &entry.members {
            let member = &mut self.members[index];
            for link in &mut self.connections {
                if link.to == index {
                    link.settle();
                }
                if link.from == index && !member.counted {
                    link.sent = None;
                }
                if link.to == index || link.from == index {
                    link.disconnect();
                }
            }
            (member.state, member.counted) = (ComponentState::Absent, false);
            member.endpoints.clear();
        }
    }
}
