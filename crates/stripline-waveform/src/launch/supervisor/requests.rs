//! Requests of clients to a running waveform. The launcher answers a request itself, or passes it
//! on to the components.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stripline::component::{Access, TestResult, Value};
use stripline::internal::control::{Ask, LauncherCommand, RequestAnswer};

use super::{ComponentProcess, ComponentState, LaunchedComponent, Phase, ProcessGroup, Supervisor};
use crate::RunReport;
use crate::control::{
    ChangeState, ComponentChange, PropertyReading, ReplySender, RequestFault, RunPhase, RunningComponent,
    RunningWaveform, StopRequest, Stopped, TapReply, TestRun, WaveformRequest,
};

/// The maximum number of requests in progress.
const BATCHES_MAX: usize = 64;
/// The maximum number of open requests at one component.
const OPEN_MAX: usize = 64;
/// The longest time for which a request waits for a component.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// Time limit for the read-only properties of a process, which the process reads without asking the
/// components.
const QUERY_TIME: Duration = Duration::from_secs(1);
/// Time limit for clients that stopped a waveform to acknowledge the report.
const ACK_TIME: Duration = Duration::from_secs(1);
/// Time limit for a single component to stop.
const END_TIME: Duration = Duration::from_secs(10);

/// The requests in progress.
#[derive(Default)]
pub(super) struct Requests {
    next: u64,
    /// Requests that were passed on and have no final answer yet, by number.
    open: BTreeMap<u64, Open>,
    batches: Vec<Batch>,
    /// The clients that wait for the final report of the waveform.
    stoppers: Vec<ReplySender<Stopped>>,
}

/// A request that was passed on to a component.
struct Open {
    member: usize,
    /// `None` is a request for the read-only properties.
    ask: Option<Ask>,
    /// Whether the component polls for requests, once the request is queued there; `None` if the
    /// process has not acknowledged the request.
    polls: Option<bool>,
}

/// A request that waits for components.
struct Batch {
    deadline: Instant,
    /// The time limit of the request.
    time: Duration,
    kind: BatchKind,
}

/// The state of a request.
pub(super) enum BatchKind {
    Get(ReplySender<Vec<PropertyReading>>, Parts<Vec<PropertyReading>>),
    Set(ReplySender<Vec<ComponentChange>>, Parts<ComponentChange>),
    Test(ReplySender<Vec<TestRun>>, Parts<TestRun>),
    /// Has one part.
    Tap(ReplySender<TapReply>, Parts<TapReply>),
    /// Waits until this component has ended.
    Stop(ReplySender<Stopped>, usize),
}

/// Parts of a reply, one for each component or self-test. An open part has the number of the
/// request that was passed on for it.
pub(super) type Parts<T> = Vec<(Option<u64>, T)>;

impl Requests {
    pub(super) fn batches_mut(&mut self) -> impl Iterator<Item = &mut BatchKind> {
        self.batches.iter_mut().map(|batch| &mut batch.kind)
    }
}

impl Supervisor<'_> {
    /// Returns the earliest time limit of the requests in progress.
    pub(super) fn request_deadline(&self) -> Option<Instant> {
        self.requests.batches.iter().map(|batch| batch.deadline).min()
    }

    /// Serves new requests, and answers requests that have reached their time limit.
    pub(super) fn handle_requests(&mut self) {
        self.inbox.take().into_iter().for_each(|request| self.serve(request));
        let now = Instant::now();
        let mut index = 0;
        while let Some(batch) = self.requests.batches.get(index) {
            if batch.is_complete(self) || now >= batch.deadline {
                let batch = self.requests.batches.swap_remove(index);
                self.close(batch);
            } else {
                index += 1;
            }
        }
    }

    // A client that has closed the connection gets no reply.
    fn serve(&mut self, request: WaveformRequest) {
        let time = Duration::from_millis;
        match request {
            WaveformRequest::Show(reply) => drop(reply.send(Ok(self.show()))),
            WaveformRequest::Get(get, reply) => {
                self.begin(reply, QUERY_TIME, |this| this.get(get), BatchKind::Get);
            }
            WaveformRequest::Set(set, reply) => {
                self.begin(reply, time(set.timeout_ms), |this| this.set(set), BatchKind::Set);
            }
            WaveformRequest::Test(test, reply) => {
                self.begin(reply, time(test.timeout_ms), |this| this.test(&test), BatchKind::Test);
            }
            WaveformRequest::Tap(tap, reply) => {
                self.begin(reply, QUERY_TIME, |this| this.tap(&tap), BatchKind::Tap);
            }
            WaveformRequest::Stop(StopRequest { component: Some(component), now }, reply) => {
                self.begin(reply, END_TIME, |this| this.stop_component(&component, now), BatchKind::Stop);
            }
            WaveformRequest::Stop(StopRequest { component: None, now }, reply) => {
                if now {
                    self.fail(RunReport::ENDED_NOW.into());
                    self.stop_all(Duration::ZERO);
                } else {
                    // If the waveform is stopping already, this client waits for the end too.
                    self.stop_in_order("stripline stop");
                }
                self.requests.stoppers.push(reply);
            }
        }
    }

    /// Begins a request to components, or replies with the reason why it cannot begin.
    fn begin<T, P>(
        &mut self,
        reply: ReplySender<T>,
        time: Duration,
        start: impl FnOnce(&mut Self) -> Result<P, RequestFault>,
        kind: fn(ReplySender<T>, P) -> BatchKind,
    ) {
        let parts = if self.requests.batches.len() < BATCHES_MAX {
            start(self)
        } else {
            let why = format!("{BATCHES_MAX} requests are in progress already; try again");
            Err(RequestFault::Cannot(why))
        };
        match parts {
            Ok(parts) => {
                let time = time.min(TIME_MAX);
                let kind = kind(reply, parts);
                self.requests.batches.push(Batch { deadline: Instant::now() + time, time, kind });
            }
            Err(fault) => drop(reply.send(Err(fault))),
        }
    }

    fn show(&self) -> RunningWaveform {
        let state = |state: ComponentState| match state {
            ComponentState::Absent => "starting",
            ComponentState::Initialized => "ready",
            ComponentState::Running => "running",
            ComponentState::Ended => "ended",
            ComponentState::Failed => "failed",
        };
        let component = |(index, member): (usize, &LaunchedComponent)| {
            let group = &self.groups[member.group];
            let process = group.process.as_ref();
            let is_suspended = member.state.is_alive() && process.is_some_and(ComponentProcess::is_stopped);
            RunningComponent {
                name: member.plan.name.clone(),
                type_name: member.plan.spec.name.clone(),
                placement: member.plan.placement,
                pid: process.map(ComponentProcess::pid),
                state: if is_suspended { RunningComponent::SUSPENDED } else { state(member.state) }.into(),
                behind_s: self.delay_of(index),
                restarts: group.history.total,
                next_restart_ms: next_restart(group),
                problem: member.given_up.as_ref().or(group.last_end.as_ref()).cloned(),
                tests: member.plan.spec.tests.iter().map(|test| test.name.clone()).collect(),
            }
        };
        let totals = self.connections.iter().map(|link| link.total().counters);
        let (packets, lost) = totals.fold((0u64, 0u64), |(packets, lost), counters| {
            (packets.saturating_add(counters.packets), lost.saturating_add(counters.lost))
        });
        let file = std::path::absolute(&self.waveform.path).unwrap_or_else(|_| self.waveform.path.clone());
        RunningWaveform {
            name: self.waveform.name.clone(),
            pid: std::process::id(),
            file: file.to_string_lossy().into_owned(),
            phase: match self.phase {
                Phase::Starting => RunPhase::Starting,
                Phase::Running => RunPhase::Running,
                Phase::Draining(_) | Phase::Stopping(_) => RunPhase::Stopping,
            },
            elapsed_s: self.elapsed().as_secs_f64(),
            components: self.members.iter().enumerate().map(component).collect(),
            packets,
            lost,
        }
    }

    fn stop_component(&mut self, component: &str, now: bool) -> Result<usize, RequestFault> {
        let member = self.member_named(component)?;
        if now {
            let why = "--now ends a whole waveform; one component is stopped in order".to_string();
            return Err(why.into());
        }
        self.stop(member);
        Ok(member)
    }

    /// Passes a request on to a component. Without a request, asks the process for the read-only
    /// properties of the component. Returns the number of the request, or the reason why it cannot
    /// be passed on.
    pub(super) fn ask(&mut self, member: usize, ask: Option<Ask>) -> Result<u64, (ChangeState, String)> {
        let group = self.members[member].group;
        let ended = |how: &str| (ChangeState::Ended, format!("the component {how}"));
        match self.members[member].state {
            // The process still has the last values.
            ComponentState::Ended if ask.is_none() => {}
            ComponentState::Ended => return Err(ended("has ended")),
            ComponentState::Failed => return Err(ended("has failed")),
            ComponentState::Absent if self.groups[group].history.total > 0 => {
                let group = &self.groups[group];
                let mut how = "is being started again; try again in a moment".to_string();
                if let Some(ms) = next_restart(group).filter(|ms| *ms >= 1000) {
                    how = format!("is started again in {:.1} s", ms as f64 / 1e3);
                }
                let reason = group.last_end.as_deref().unwrap_or_default();
                return Err(ended(&format!("{how} (restart {}: it {reason})", group.history.total)));
            }
            ComponentState::Absent => return Err((ChangeState::Ended, self.show().starting())),
            ComponentState::Initialized | ComponentState::Running => {}
        }
        let Some(process) = &mut self.groups[group].process else { return Err(ended("has no process")) };
        if self.requests.open.values().filter(|open| open.member == member).count() >= OPEN_MAX {
            return Err((ChangeState::Refused, format!("{OPEN_MAX} requests wait for it already")));
        }
        if !process.reads_commands() {
            return Err((ChangeState::Refused, process.silence()));
        }
        self.requests.next += 1;
        let number = self.requests.next;
        let component = self.members[member].plan.name.clone();
        process.order(&match ask.clone() {
            Some(ask) => LauncherCommand::Ask { component, number, ask },
            None => LauncherCommand::Query { component, number },
        });
        self.requests.open.insert(number, Open { member, ask, polls: None });
        Ok(number)
    }

    /// Handles the answer of a process to a request.
    pub(super) fn answered(&mut self, member: usize, number: u64, answer: RequestAnswer) {
        // The request must not have been cancelled, and must belong to this component.
        let Some(open) = self.requests.open.get_mut(&number).filter(|open| open.member == member) else {
            return;
        };
        if let RequestAnswer::Waiting { looks: polls } = answer {
            open.polls = Some(polls);
            return;
        }
        self.settle(number, answer);
    }

    /// Handles the final answer to a request.
    fn settle(&mut self, number: u64, answer: RequestAnswer) {
        let Some(Open { member, ask, .. }) = self.requests.open.remove(&number) else { return };
        let ended = "the component ended before it took the request".to_string();
        let nonsense = "its process answered with something else".to_string();
        match ask {
            Some(Ask::Configure(values)) => {
                let (taken, reason) = match answer {
                    RequestAnswer::Configured(Ok(())) => (ChangeState::Applied, String::new()),
                    RequestAnswer::Configured(Err(reason)) | RequestAnswer::NotTaken(reason) => {
                        (ChangeState::Refused, reason)
                    }
                    RequestAnswer::Ended => (ChangeState::Ended, ended),
                    _ => (ChangeState::Refused, nonsense),
                };
                self.configured(member, number, values, taken, reason);
            }
            Some(Ask::Test(_)) => self.tested(
                number,
                match answer {
                    RequestAnswer::Tested(result) => Ok(result),
                    RequestAnswer::NotTaken(reason) => Err(reason),
                    RequestAnswer::Ended => Err(ended),
                    _ => Err(nonsense),
                },
            ),
            Some(Ask::Tap(port)) => self.tapped(member, number, &port, answer),
            Some(Ask::PrepareMove(output)) => self.move_answered(member, &output.port, answer),
            Some(Ask::Move(port)) => self.move_answered(member, &port, answer),
            Some(Ask::CancelMove(_)) => {}
            None => {
                // Values that the process does not send stay unknown.
                let values = if let RequestAnswer::Values(values) = answer { values } else { Vec::new() };
                self.queried(member, number, &values);
            }
        }
    }

    /// Handles the answer of a component to new values.
    fn configured(
        &mut self,
        member: usize,
        number: u64,
        values: BTreeMap<String, Value>,
        taken: ChangeState,
        reason: String,
    ) {
        let component = self.members[member].plan;
        let change = self.requests.batches.iter_mut().find_map(|batch| match &mut batch.kind {
            BatchKind::Set(_, changes) => part_for(changes, number),
            _ => None,
        });
        if taken == ChangeState::Applied {
            let news = self.members[member].take(values);
            self.observer.changed(&component.name, &news);
        } else if change.is_none() {
            // The client was informed that the component would apply the values later.
            let names: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            self.observer.warning(&component.name, &format!("did not take {}: {reason}", names.join(", ")));
        }
        if let Some(change) = change {
            (change.taken, change.reason) = (taken, reason);
        }
    }

    fn tested(&mut self, number: u64, outcome: Result<TestResult, String>) {
        let run = self.requests.batches.iter_mut().find_map(|batch| match &mut batch.kind {
            BatchKind::Test(_, runs) => part_for(runs, number),
            _ => None,
        });
        match (run, outcome) {
            (Some(run), Ok(result)) => run.result = Some(result),
            (Some(run), Err(problem)) => run.problem = Some(problem),
            (None, _) => {}
        }
    }

    /// Handles the read-only properties of a component.
    fn queried(&mut self, member: usize, number: u64, values: &[(String, Option<Value>)]) {
        let spec = &self.members[member].plan.spec;
        let readings = self.requests.batches.iter_mut().find_map(|batch| match &mut batch.kind {
            BatchKind::Get(_, parts) => part_for(parts, number),
            _ => None,
        });
        for reading in readings.into_iter().flat_map(|readings| read_only(readings)) {
            let Some(property) = spec.find_property(&reading.property) else { continue };
            let said = values.iter().find(|(known, _)| *known == reading.property);
            // The process is not trusted, so a value that does not fit is left out.
            reading.value = said.and_then(|(_, value)| property.check(value.as_ref()?).ok());
            reading.problem = reading.value.is_none().then(|| "it is out of its range".into());
        }
    }

    /// Answers all requests to a component that has ended.
    pub(super) fn forget(&mut self, member: usize) {
        let open = self.requests.open.iter().filter(|(_, open)| open.member == member);
        let numbers: Vec<u64> = open.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.settle(number, RequestAnswer::Ended));
    }

    /// Replies to a request, even if parts of the reply are missing.
    fn close(&mut self, batch: Batch) {
        let Batch { time, kind, .. } = batch;
        // A client that has closed the connection gets no reply.
        match kind {
            BatchKind::Stop(reply, member) => drop(reply.send(self.stopped(member, time))),
            BatchKind::Get(reply, mut parts) => {
                for (number, readings) in open_parts(&mut parts) {
                    let problem = self.late(number, time);
                    self.requests.open.remove(&number);
                    read_only(readings).for_each(|reading| reading.problem = Some(problem.clone()));
                }
                drop(reply.send(Ok(parts.into_iter().flat_map(|(_, readings)| readings).collect())));
            }
            BatchKind::Set(reply, mut changes) => {
                for (number, change) in open_parts(&mut changes) {
                    // The request stays open: the component applies the values when it polls.
                    (change.taken, change.reason) = (ChangeState::NotYet, self.late(number, time));
                }
                drop(reply.send(Ok(changes.into_iter().map(|(_, change)| change).collect())));
            }
            BatchKind::Test(reply, mut runs) => {
                for (number, run) in open_parts(&mut runs) {
                    run.problem = Some(self.late(number, time));
                    if let Some(open) = self.requests.open.remove(&number) {
                        let member = &self.members[open.member];
                        let component = member.plan.name.clone();
                        self.order(member.group, &LauncherCommand::Withdraw { component, number });
                    }
                }
                drop(reply.send(Ok(runs.into_iter().map(|(_, run)| run).collect())));
            }
            BatchKind::Tap(reply, mut parts) => {
                for (number, part) in open_parts(&mut parts) {
                    *part = TapReply::Refused(self.late(number, time));
                    self.requests.open.remove(&number);
                }
                let part = parts.pop().map_or(TapReply::Late, |(_, part)| part);
                drop(reply.send(Ok(part)));
            }
        }
    }

    /// Returns the result of stopping one component.
    fn stopped(&self, member: usize, time: Duration) -> Result<Stopped, RequestFault> {
        let stopping = &self.members[member];
        let (component, waveform) = (&stopping.plan.name, &self.waveform.name);
        if self.has_ended(member) {
            let state = if stopping.state == ComponentState::Ended { "ended" } else { "failed" }.into();
            return Ok(Stopped::Component { component: component.clone(), state });
        }
        let process = self.groups[stopping.group].process.as_ref().filter(|process| process.is_stopped());
        let why = process.map_or_else(String::new, |process| format!(" ({})", process.silence()));
        Err(RequestFault::Cannot(format!(
            "`{component}` was asked to stop and has not ended within {} s{why}; `stripline stop {waveform}` \
             ends components that do not stop",
            time.as_secs_f64()
        )))
    }

    /// Returns the reason why a request was not answered within the time limit.
    fn late(&self, number: u64, time: Duration) -> String {
        let time = format!("{} s", time.as_secs_f64());
        if let Some(reason) = self.late_move(number, &time) {
            return reason;
        }
        let Some(open) = self.requests.open.get(&number) else { return "it has no answer".into() };
        match open.polls {
            None => self.silence(open.member),
            Some(_) if self.members[open.member].state == ComponentState::Initialized => {
                "the component has not been started yet: it waits for others to be made and connected".into()
            }
            Some(false) => format!(
                "the component has not begun to poll for requests within {time}: it does so with `Ports::requests`"
            ),
            Some(true) => format!(
                "the component has not polled for requests within {time}: it waits for a packet, for space to send one or for its \
                 time, or is busy"
            ),
        }
    }

    /// Returns the probable reason why the process of a component sends no reports.
    pub(super) fn silence(&self, member: usize) -> String {
        let process = self.groups[self.members[member].group].process.as_ref();
        process.map_or_else(|| "the component has no process now".into(), ComponentProcess::silence)
    }

    /// Sends the final replies to all clients. Clients that stopped the waveform get the final
    /// report.
    pub(super) fn stop_processes(&mut self) {
        let members = 0..self.members.len();
        members.for_each(|member| self.forget(member));
        for batch in std::mem::take(&mut self.requests.batches) {
            self.close(batch);
        }
    }

    /// Returns the report, and sends it to the clients that stopped the waveform.
    pub(super) fn final_report(mut self) -> RunReport {
        let (inbox, mut stoppers) = (self.inbox.clone(), std::mem::take(&mut self.requests.stoppers));
        let report = self.report();
        // A request to stop that arrives now has already been fulfilled.
        stoppers.extend(inbox.close().into_iter().filter_map(|request| match request {
            WaveformRequest::Stop(StopRequest { component: None, .. }, reply) => Some(reply),
            _ => None,
        }));
        let stopped = || Ok(Stopped::Waveform(Box::new(report.clone())));
        let told = stoppers.into_iter().filter(|stopper| stopper.send(stopped()).is_ok()).count();
        inbox.wait_until_acknowledged(told, ACK_TIME);
        report
    }

    pub(super) fn has_ended(&self, member: usize) -> bool {
        match self.members[member].state {
            ComponentState::Ended => true,
            // A failed component may be restarted.
            ComponentState::Failed => self.groups[self.members[member].group].restart_at.is_none(),
            ComponentState::Absent | ComponentState::Initialized | ComponentState::Running => false,
        }
    }

    /// Returns a value that was set and that the component has not accepted yet.
    pub(super) fn waiting_for(&self, member: usize, property: &str) -> Option<&Value> {
        let open = self.requests.open.values().rev().filter(|open| open.member == member);
        let mut values = open.filter_map(|open| match &open.ask {
            Some(Ask::Configure(values)) => values.get(property),
            _ => None,
        });
        values.next()
    }
}

impl Batch {
    fn is_complete(&self, supervisor: &Supervisor<'_>) -> bool {
        match &self.kind {
            BatchKind::Stop(_, member) => supervisor.has_ended(*member),
            BatchKind::Get(_, parts) => parts.iter().all(|(number, _)| number.is_none()),
            BatchKind::Set(_, changes) => changes.iter().all(|(number, _)| number.is_none()),
            BatchKind::Test(_, runs) => runs.iter().all(|(number, _)| number.is_none()),
            BatchKind::Tap(_, parts) => parts.iter().all(|(number, _)| number.is_none()),
        }
    }
}

/// Returns the time until the next restart of a process, if one is pending.
fn next_restart(group: &ProcessGroup) -> Option<u64> {
    let remaining = group.restart_at?.saturating_duration_since(Instant::now());
    u64::try_from(remaining.as_millis()).ok()
}

/// Returns the part that waits for a request, and marks it as answered.
pub(super) fn part_for<T>(parts: &mut Parts<T>, number: u64) -> Option<&mut T> {
    let (open, part) = parts.iter_mut().find(|(open, _)| *open == Some(number))?;
    *open = None;
    Some(part)
}

/// Returns the parts that wait for a request, with the number of the request.
fn open_parts<T>(parts: &mut Parts<T>) -> impl Iterator<Item = (u64, &mut T)> {
    parts.iter_mut().filter_map(|(open, part)| Some(((*open)?, part)))
}

/// Returns the read-only properties among these.
pub(super) fn read_only(readings: &mut [PropertyReading]) -> impl Iterator<Item = &mut PropertyReading> {
    readings.iter_mut().filter(|reading| reading.access == Access::ReadOnly)
}
