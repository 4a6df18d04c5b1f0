//! The orderly stop, failures, and the cleanup.

use std::time::{Duration, Instant};

use stripline::internal::PollSet;
use stripline::internal::control::LauncherCommand;
use stripline::terms::Overflow;

use crate::launch::Step;

use super::{
    ComponentProcess, ComponentState, ConnectionState, DRAIN_TIME, Drain, EndWait, FAILURE_TIME, Phase,
    REPORT_TIME, Supervisor, WaitShare,
};
use crate::restart::Restart;

impl Supervisor<'_> {
    /// Stops the waveform without losing packets in transit. Returns false if the waveform is
    /// stopping already.
    pub(super) fn stop_in_order(&mut self, reason: &str) -> bool {
        if !matches!(self.phase, Phase::Starting | Phase::Running) {
            return false;
        }
        self.stopped = Some(reason.into());
        self.observer.stopping(reason);
        if self.phase == Phase::Starting {
            self.stop_all(Duration::ZERO);
        } else {
            self.drain();
        }
        true
    }

    /// Stops the sources. The other components end when they have received everything.
    fn drain(&mut self) {
        let now = Instant::now();
        self.phase = Phase::Draining(Drain { until: now + DRAIN_TIME, taken: (now, self.taken()) });
        let waits = self.connections.iter().map(ConnectionState::waits).collect();
        self.ending.get_or_insert(EndWait { since: now, waits });
        let is_source = |index: &usize| !self.connections.iter().any(|link| link.to == *index);
        let mut sources: Vec<usize> = (0..self.members.len()).filter(is_source).collect();
        if sources.is_empty() {
            sources = (0..self.members.len()).collect();
        }
        for index in 0..self.members.len() {
            let member = &self.members[index];
            // Also wakes a component that waits for the other end of a pipe.
            let component = member.plan.name.clone();
            self.order(member.group, &LauncherCommand::EndStreams { component });
            if sources.contains(&index) {
                self.stop(index);
            } else {
                self.give_up_late_restart(index);
            }
        }
    }

    /// Reports each component that holds up the end of the waveform, once.
    pub(super) fn report_unended(&mut self, now: Instant) {
        let Some(ending) = self.ending.as_ref().filter(|ending| now >= ending.since + REPORT_TIME) else {
            return;
        };
        let seconds = now.duration_since(ending.since).as_secs();
        let is_unended = |index: &usize| self.process_of_unfinished(*index).is_some();
        let unended: Vec<usize> = (0..self.members.len()).filter(is_unended).collect();
        // A component that mostly waits for packets, or for a receiver, holds nothing up.
        let is_most = |now: WaitShare, then| now.since(then).get().is_some_and(|share| share > 0.5);
        let waits = |index: &usize| {
            self.connections.iter().zip(&ending.waits).any(|(link, then)| {
                let now = link.waits();
                link.from == *index && is_most(now[0], then[0])
                    || link.to == *index && is_most(now[1], then[1])
            })
        };
        let (waiting, busy): (Vec<usize>, Vec<usize>) = unended.into_iter().partition(waits);
        for index in if busy.is_empty() { waiting } else { busy } {
            let member = &mut self.members[index];
            if !std::mem::replace(&mut member.is_wait_reported, true) {
                let text = format!("has not ended {seconds} s after the stop, which waits for it");
                self.observer.warning(&member.plan.name, &text);
            }
        }
    }

    pub(super) fn stop_all(&mut self, grace: Duration) {
        self.phase = Phase::Stopping(Instant::now() + grace);
        self.give_up_restarts();
        (0..self.members.len()).for_each(|index| self.stop(index));
    }

    pub(super) fn stop(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.is_stopping = true;
        let (group, component) = (member.group, member.plan.name.clone());
        if member.state.is_alive() {
            self.observer.step(&component, &Step::Stopping);
        }
        self.order(group, &LauncherCommand::Stop { component });
        if !matches!(self.phase, Phase::Stopping(_)) {
            self.give_up_late_restart(index);
        }
    }

    /// Ends a component that waits for a restart, unless the restart is soon. A component that is
    /// restarted ends the streams itself, so that the receivers miss nothing.
    fn give_up_late_restart(&mut self, index: usize) {
        let group = self.members[index].group;
        let late = Instant::now() + Restart::PAUSE_MAX_DEFAULT;
        if self.groups[group].restart_at.take_if(|at| *at > late).is_some() {
            self.mark_failed(group);
            self.abandon(index);
        }
    }

    pub(super) fn give_up_restarts(&mut self) {
        for group in 0..self.groups.len() {
            if self.groups[group].restart_at.take().is_some() {
                self.mark_failed(group);
            }
        }
    }

    pub(super) fn kill_all(&mut self) {
        let stuck: Vec<usize> =
            (0..self.members.len()).filter(|index| self.process_of_unfinished(*index).is_some()).collect();
        stuck.iter().for_each(|index| self.cut_files(*index));
        if self.failure.is_none() && self.stopped.is_some() && self.started.is_some() && !stuck.is_empty() {
            self.fail(self.unstopped(&stuck));
        }
        for group in 0..self.groups.len() {
            if let Some(process) = &mut self.groups[group].process {
                process.kill();
            }
            self.mark_failed(group);
        }
    }

    /// Returns the process of a component that has not ended.
    fn process_of_unfinished(&self, index: usize) -> Option<&ComponentProcess> {
        let member = &self.members[index];
        let process = self.groups[member.group].process.as_ref();
        process.filter(|_| !member.state.is_over())
    }

    /// Distinguishes components that did not stop from components that only wait for them. A
    /// stopping component still delivers the packets that it has sent to receivers that take them.
    fn unstopped(&self, stuck: &[usize]) -> String {
        let name = |index: &usize| self.members[*index].plan.name.as_str();
        let is_stopped =
            |index: &usize| self.process_of_unfinished(*index).is_some_and(ComponentProcess::is_stopped);
        let waits = |index: &usize| {
            self.connections.iter().any(|link| {
                let blocks = link.plan.options.overflow == Overflow::Block;
                link.from == *index && blocks && link.to != *index && stuck.contains(&link.to)
            })
        };
        let (mut waiting, mut guilty): (Vec<usize>, Vec<usize>) =
            stuck.iter().partition(|index| !is_stopped(index) && waits(index));
        if guilty.is_empty() {
            // In a circle, any component may be the cause.
            std::mem::swap(&mut waiting, &mut guilty);
        }
        let names = |list: &[usize]| list.iter().map(name).collect::<Vec<_>>().join(", ");
        let mut text = format!("{} did not stop and had to be killed", names(&guilty));
        for process in guilty.iter().filter(|index| is_stopped(index)) {
            let pid = self.process_of_unfinished(*process).map_or(0, ComponentProcess::pid);
            text += &format!("; process {pid} of {} was suspended (SIGSTOP)", name(process));
        }
        if !waiting.is_empty() {
            text += &format!("; {} waited for {} to take packets", names(&waiting), names(&guilty));
        }
        text
    }

    /// Records the failure of a component and stops the others in order, so that packets that the
    /// component has sent still arrive.
    pub(super) fn fail_in_order(&mut self, index: usize, what: String) {
        if self.phase != Phase::Running {
            return self.fail(what);
        }
        self.failure.get_or_insert(what);
        self.abandon(index);
        self.drain();
    }

    /// Records the failure if it is the first, and stops the other components.
    pub(super) fn fail(&mut self, what: String) {
        if self.failure.is_none() {
            self.failure = Some(what);
        }
        if !matches!(self.phase, Phase::Stopping(_)) {
            self.stop_all(FAILURE_TIME);
        }
    }

    pub(super) fn mark_failed(&mut self, group: usize) {
        for index in self.groups[group].members.clone() {
            self.mark_member_failed(index);
        }
    }

    pub(super) fn mark_member_failed(&mut self, index: usize) {
        let member = &mut self.members[index];
        if member.state.is_over() {
            return;
        }
        let has_run = member.state == ComponentState::Running;
        member.state = ComponentState::Failed;
        for link in self.connections.iter_mut().filter(|_| has_run) {
            if link.from == index && !member.counted {
                link.sent = None;
            }
            link.partial |= link.to == index && link.last.is_none();
        }
    }

    /// Ends processes that have finished their work.
    pub(super) fn release_processes(&mut self) {
        self.order_all(&LauncherCommand::Release);
        let deadline = Instant::now() + FAILURE_TIME;
        for group in 0..self.groups.len() {
            let names = self.names(group);
            loop {
                let process = self.groups[group].process.as_mut();
                let exited = process.is_none_or(ComponentProcess::has_exited);
                self.observe_lines(group, &names);
                if exited {
                    self.groups[group].process = None;
                }
                let Some(process) = &self.groups[group].process else { break };
                let mut poll_set = PollSet::default();
                process.sleep_on(&mut poll_set);
                if !poll_set.wait(Some(deadline)).unwrap_or(false) {
                    // Dropping a process kills it and waits for it.
                    self.groups[group].process = None;
                }
            }
        }
    }
}
