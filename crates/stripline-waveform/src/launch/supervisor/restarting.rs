//! The handling of processes that have ended: restart or not.

use std::time::Instant;

use super::{CONNECT_TIME, ComponentState, Phase, Supervisor, exit_text};
use crate::launch::Step;
use crate::restart::{AfterGivingUp, GiveUp, Restart, RestartWhen};

/// The suffix for a failure that a restart would only repeat.
const LASTING: &str =
    " (not restarted: the same configuration fails again; correct it, then run the waveform again)";

impl Supervisor<'_> {
    /// Handles the end of a process.
    pub(super) fn record_exit(&mut self, group: usize) {
        let names = self.names(group);
        let Some(process) = self.groups[group].process.take() else { return };
        let members = self.groups[group].members.clone();
        members.iter().for_each(|index| self.forget(*index));
        members.iter().for_each(|index| self.forget_moves(*index));
        let reported = self.groups[group].reported.take();
        let unfinished: Vec<usize> =
            members.into_iter().filter(|index| !self.members[*index].state.is_over()).collect();
        if unfinished.is_empty() {
            return;
        }
        let how = process.exit.map_or_else(|| "ended".into(), exit_text);
        // If a result was reported, the launcher itself killed the process, if anything did.
        if reported.is_none() {
            self.observe_group(group, &Step::Exited(how.clone()));
            unfinished.iter().for_each(|index| self.cut_files(*index));
        }
        let has_failed = reported != Some(Ok(()));
        // A program that ends by itself before it has registered for the first time cannot begin:
        // its script, a module or the call of `main` is missing.
        let exited = process.exit.is_some_and(|exit| exit.code().is_some());
        let lasting = exited && !self.groups[group].has_registered && self.is_first_start(group);
        if !lasting && self.may_restart(group, has_failed) {
            // The reason is the result that the component reported: the launcher then killed the
            // process itself.
            let how = match reported {
                Some(Ok(())) => "ended".into(),
                Some(Err(problem)) => problem,
                None => how,
            };
            self.prepare_restart(group, &names, &how, has_failed);
            return;
        }
        if !has_failed {
            unfinished.into_iter().for_each(|index| self.end_for_good(index));
            return;
        }
        let registered = self.groups[group].register_by.is_none();
        let hint = if registered { "" } else { " before it registered" };
        let mut text = format!("component {names} {how}{hint}{}", self.given_up(group, lasting));
        if !process.stderr_tail.is_empty() {
            text.push_str("; its last output:");
            process.stderr_tail.iter().for_each(|line| text.push_str(&format!("\n    {line}")));
        }
        if unfinished.iter().all(|index| self.goes_on_without(*index)) {
            unfinished.into_iter().for_each(|index| self.go_on_without(index, &text));
            return;
        }
        self.mark_failed(group);
        if self.stopped.is_none() || self.failure.is_none() {
            self.fail(text);
        }
    }

    /// Returns the restart rule of a process, which is the rule of the only component in it.
    fn rule(&self, group: usize) -> Restart {
        match self.groups[group].members[..] {
            [only] => self.members[only].plan.restart,
            _ => Restart::default(),
        }
    }

    /// Returns whether a failure that the same configuration repeats is final. A component that has
    /// run before may run again, and a rule that never gives up waits for files and devices.
    pub(super) fn is_first_start(&self, group: usize) -> bool {
        self.groups[group].history.total == 0 && self.rule(group).give_up() != GiveUp::Never
    }

    /// Returns the suffix for the last failure of a component that has failed too often, or that
    /// would fail again (`lasting`).
    pub(super) fn given_up(&self, group: usize, lasting: bool) -> String {
        let rule = self.rule(group);
        match lasting && rule.when() != RestartWhen::Never {
            true => LASTING.into(),
            false => self.groups[group].history.given_up(&rule),
        }
    }

    /// Returns whether a process that fails or ends now is started again.
    pub(super) fn may_restart(&mut self, group: usize, has_failed: bool) -> bool {
        let rule = self.rule(group);
        match (rule.when(), has_failed) {
            (RestartWhen::Never, _) | (RestartWhen::OnFailure, false) => false,
            (_, true) if matches!(self.phase, Phase::Stopping(_)) => false,
            (_, true) => self.groups[group].history.may_restart(&rule, Instant::now()),
            (RestartWhen::Always, false) => {
                self.phase == Phase::Running
                    && self.groups[group].members.iter().all(|index| self.has_work(*index))
            }
        }
    }

    /// Returns whether a component that has ended its work would find more: it is a source, or has
    /// a sender that has not ended.
    fn has_work(&self, index: usize) -> bool {
        let mut inputs = self.connections.iter().filter(|link| link.to == index).peekable();
        let is_source = inputs.peek().is_none();
        let has_sender = inputs.any(|link| !self.members[link.from].state.is_over());
        !self.members[index].is_stopping && (is_source || has_sender)
    }

    pub(super) fn prepare_restart(&mut self, group: usize, names: &str, how: &str, has_failed: bool) {
        let (now, rule) = (Instant::now(), self.rule(group));
        let entry = &mut self.groups[group];
        let pause = entry.history.restart(&rule, has_failed, now);
        entry.restart_at = Some(now + pause);
        entry.last_end = Some(how.into());
        self.connect_by = self.connect_by.max(now + pause + CONNECT_TIME);
        let (count, wait) = (entry.history.count(&rule, has_failed), pause.as_millis());
        let mut again = format!("{how}; it is started again ({count}) in {wait} ms");
        // A restarted process has exactly one component.
        for (name, value) in entry.members.iter().flat_map(|index| &self.members[*index].set) {
            again.push_str(&format!(", with {name} = {value} as it was set"));
        }
        let step = Step::Restarting { count: entry.history.total };
        self.observer.warning(names, &again);
        self.observer.step(names, &step);
        for &index in &entry.members {
            let member = &mut self.members[index];
            let has_run = member.state == ComponentState::Running;
            for link in &mut self.connections {
                if link.to == index {
                    link.settle(has_run);
                }
                if link.from == index && has_run && !member.counted {
                    link.sent = None;
                }
                if link.to == index || link.from == index {
                    link.disconnect();
                    link.attempts = 0;
                }
            }
            let files = std::mem::take(&mut member.files);
            member.earlier_files.extend(files);
            (member.state, member.counted) = (ComponentState::Absent, false);
            member.endpoints.clear();
        }
    }

    /// Records that a component with a restart rule has ended for good.
    pub(super) fn end_for_good(&mut self, index: usize) {
        self.members[index].state = ComponentState::Ended;
        self.abandon(index);
    }

    /// Returns whether the waveform goes on when this component has failed.
    pub(super) fn goes_on_without(&self, index: usize) -> bool {
        let rule = &self.members[index].plan.restart;
        rule.after_giving_up() == AfterGivingUp::GoOn && !matches!(self.phase, Phase::Stopping(_))
    }

    /// Records the failure of a component that the waveform goes on without.
    pub(super) fn go_on_without(&mut self, index: usize, problem: &str) {
        self.mark_member_failed(index);
        let member = &mut self.members[index];
        member.given_up = Some(problem.into());
        let name = &member.plan.name;
        self.observer.warning(name, &format!("{problem}; the waveform goes on without it"));
        self.abandon(index);
    }

    /// Ends the streams of a component that does not come back, on behalf of the receivers.
    pub(super) fn abandon(&mut self, index: usize) {
        for link in self.connections.iter_mut().filter(|link| link.from == index) {
            link.disconnect();
        }
        self.connect_ready();
        self.start_ready();
    }
}
