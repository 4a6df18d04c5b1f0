//! The handling of reports from component processes.

use stripline::internal::control::{self, LauncherCommand, Report, WaitTimes};
use stripline::internal::parse_launched;

use super::{ComponentState, Supervisor};
use crate::launch::Step;
use crate::launch::connection_state::ConnectReport;
use crate::restart::RestartWhen;

/// The smallest delay of a source that causes a warning during the run, in seconds.
const WARNED_S_MIN: f64 = 1.0;

/// The reason why the counts may differ from the content of a file.
const CUT: &str =
    "the process was killed or failed; the file may have more or fewer samples than its last report";

impl Supervisor<'_> {
    /// Passes the lines and log records of a process to the observer.
    pub(super) fn observe_lines(&mut self, group: usize, names: &str) {
        let Some(process) = &mut self.groups[group].process else { return };
        for line in process.lines() {
            match parse_launched(&line) {
                Some((level, target, message)) => self.observer.record(names, level, target, message),
                None => self.observer.line(names, &line),
            }
        }
        process.output().iter().for_each(|line| self.observer.output(names, line));
    }

    /// Passes a step of all components of a process to the observer.
    pub(super) fn observe_group(&mut self, group: usize, step: &Step) {
        for &index in &self.groups[group].members {
            self.observer.step(&self.members[index].plan.name, step);
        }
    }

    pub(super) fn read_reports(&mut self, group: usize) {
        let Some(process) = &mut self.groups[group].process else { return };
        // Check the exit first: all reports that were sent before it are then certainly readable.
        let exited = process.has_exited();
        let reports = process.reports();
        let names = self.names(group);
        self.observe_lines(group, &names);
        match reports {
            Ok(reports) => reports.into_iter().for_each(|report| self.handle_report(group, report)),
            Err(violation) => {
                if let Some(process) = &mut self.groups[group].process {
                    process.kill();
                }
                self.fail(format!("component {names}: {violation}"));
            }
        }
        if exited {
            self.record_exit(group);
        }
    }

    pub(super) fn handle_report(&mut self, group: usize, report: Report) {
        match report {
            Report::Registered { version } if version == control::VERSION => {
                let entry = &mut self.groups[group];
                (entry.register_by, entry.has_registered) = (None, true);
                let orders = self.groups[group].members.iter().map(|index| self.assignment(*index));
                let order = LauncherCommand::Assign(orders.collect());
                self.order(group, &order);
            }
            Report::Registered { version } => {
                let names = self.names(group);
                self.fail(format!(
                    "component {names}: its executable uses version {version} of the launcher's protocol, not \
                     {}; build it against this version of stripline",
                    control::VERSION
                ));
            }
            Report::Initialized { component, endpoints } => {
                if let Some(index) = self.index_in(group, &component) {
                    let map =
                        endpoints.into_iter().map(|o| ((o.port, o.endpoint.transport.clone()), o.endpoint));
                    self.members[index].endpoints = map.collect();
                    self.members[index].state = ComponentState::Initialized;
                    self.observer.step(&component, &Step::Ready);
                    self.connect_ready();
                    self.start_ready();
                }
            }
            Report::Connected { component, connection } => {
                if self.index_in(group, &component).is_some()
                    && let Some(link) = self.connection_mut(&connection)
                {
                    match link.answer() {
                        ConnectReport::Connection => {
                            (link.connected, link.attempts) = (true, 0);
                            self.start_ready();
                        }
                        ConnectReport::Move(number) => self.connected_there(number, &connection, Ok(())),
                        ConnectReport::Earlier => {}
                    }
                }
            }
            Report::ConnectFailed { component, connection, problem } => {
                if self.index_in(group, &component).is_some()
                    && let Some(link) = self.connection_mut(&connection)
                {
                    match link.answer() {
                        ConnectReport::Connection => self.connect_failed(&connection, &problem),
                        ConnectReport::Move(number) => {
                            self.connected_there(number, &connection, Err(&problem));
                        }
                        ConnectReport::Earlier => {}
                    }
                }
            }
            Report::Warning { component, text } => self.observer.warning(&component, &text),
            Report::Counters { inputs, waits, paces, files } => {
                for (component, pace) in paces {
                    if let Some(index) = self.index_in(group, &component)
                        && self.members[index].state == ComponentState::Running
                    {
                        self.members[index].set_pace(Some(pace));
                        self.report_delay(index);
                    }
                }
                self.measure_waits(group, &waits);
                for (component, files) in files {
                    if let Some(index) = self.index_in(group, &component)
                        && self.members[index].state == ComponentState::Running
                    {
                        self.members[index].files = files;
                    }
                }
                for counters in inputs {
                    if let Some(link) = self.connection_mut(&counters.connection)
                        && link.last.is_none()
                    {
                        link.counters = counters;
                    }
                }
            }
            Report::Answer { component, number, answer } => {
                if let Some(index) = self.index_in(group, &component) {
                    self.answered(index, number, answer);
                }
            }
            Report::Ended { component, outcome, lasting, reports, sent, pace, files } => {
                if let Some(index) = self.index_in(group, &component) {
                    let member = &mut self.members[index];
                    member.counted = true;
                    member.set_pace(pace);
                    member.files = files;
                    // A component that was never created has sent nothing.
                    let has_run = self.members[index].state == ComponentState::Running;
                    for link in self.connections.iter_mut().filter(|link| link.from == index && has_run) {
                        let count = sent.iter().find(|(port, _)| *port == link.plan.from.to_string());
                        link.sent =
                            link.sent.zip(count).map(|(before, (_, now))| before.saturating_add(*now));
                    }
                    for report in reports {
                        if let Some(link) = self.connection_mut(&report.counters.connection) {
                            link.last = Some(report);
                        }
                    }
                    self.report_files(index);
                    self.component_ended(group, index, outcome, lasting);
                }
            }
        }
    }

    /// Warns once about a source that is far behind its pace.
    fn report_delay(&mut self, index: usize) {
        let delay = self.delay_of(index).filter(|behind_s| *behind_s >= WARNED_S_MIN);
        let member = &mut self.members[index];
        if let Some(behind_s) = delay
            && !std::mem::replace(&mut member.is_delay_reported, true)
        {
            let text = format!(
                "is {behind_s:.1} s behind its pace; `stripline links` shows the connection that holds it up"
            );
            self.observer.warning(&member.plan.name, &text);
        }
    }

    /// Warns about data that the files of a component lack.
    fn report_files(&mut self, index: usize) {
        let member = &self.members[index];
        for text in member.files.iter().map(ToString::to_string).filter(|text| !text.is_empty()) {
            self.observer.warning(&member.plan.name, &text);
        }
    }

    /// Marks the counts of a component's files as older than the end of the process.
    pub(super) fn cut_files(&mut self, index: usize) {
        for file in self.members[index].files.iter_mut().filter(|file| !file.finished) {
            file.problem.get_or_insert_with(|| CUT.into());
        }
        self.report_files(index);
    }

    /// Adds the waits of the running components of a process since the report before.
    fn measure_waits(&mut self, group: usize, waits: &WaitTimes) {
        let is_late = (0..self.members.len()).any(|index| self.delay_of(index).is_some());
        let members = &self.members;
        let runs =
            |index: usize| members[index].group == group && members[index].state == ComponentState::Running;
        for link in &mut self.connections {
            let sender = waits.senders.iter().filter(|(name, ..)| runs(link.from) && *name == link.name);
            // During a move, the port has two paths.
            let sum = sender
                .map(|(_, room, ack)| (*room, *ack))
                .reduce(|one, other| (one.0.saturating_add(other.0), one.1.saturating_add(other.1)));
            if let Some((room_ns, ack_ns)) = sum {
                link.room.read(waits.at_ns, room_ns, is_late);
                link.ack.read(waits.at_ns, ack_ns, is_late);
            }
            let port = link.plan.to.to_string();
            let mut receivers = waits.receivers.iter();
            if let Some((_, ns)) = receivers.find(|(name, _)| runs(link.to) && *name == port) {
                link.idle.read(waits.at_ns, *ns, is_late);
            }
        }
    }

    fn component_ended(&mut self, group: usize, index: usize, outcome: Result<(), String>, lasting: bool) {
        let component = self.members[index].plan;
        let failed = |problem: &String| Step::Failed(problem.clone());
        self.observer.step(&component.name, &outcome.as_ref().err().map_or(Step::Ended, failed));
        let lasting = lasting && self.is_first_start(group);
        let again = !lasting && self.may_restart(group, outcome.is_err());
        match outcome {
            _ if again => {
                let reported = outcome.map_err(|problem| format!("failed: {problem}"));
                self.groups[group].reported = Some(reported);
                self.kill(group);
            }
            // The component has not ended the streams, unless it was ordered to stop in time.
            Ok(()) if component.restart.when() == RestartWhen::Always => self.end_for_good(index),
            Ok(()) => {
                self.members[index].state = ComponentState::Ended;
                // The remaining connections will never be made, so receivers need not wait for
                // them.
                self.connect_ready();
                self.start_ready();
            }
            Err(problem) => {
                let name = &component.name;
                let text = format!("component {name} failed: {problem}{}", self.given_up(group, lasting));
                if self.goes_on_without(index) {
                    self.go_on_without(index, &text);
                    // The process has no other component.
                    if self.groups[group].members.len() == 1 {
                        self.kill(group);
                    }
                } else {
                    self.members[index].state = ComponentState::Failed;
                    self.fail_in_order(index, text);
                }
            }
        }
    }

    fn kill(&mut self, group: usize) {
        if let Some(process) = &mut self.groups[group].process {
            process.kill();
        }
    }
}
