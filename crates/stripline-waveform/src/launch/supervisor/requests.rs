//! Requests of clients to a running waveform. The launcher answers from its own state, or passes
//! them on to the components.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use stripline::component::{Access, TestResult, Value};
use stripline::internal::control::{Ask, LauncherCommand, RequestAnswer};

use super::{ComponentState, Phase, Supervisor};
use crate::RunReport;
use crate::control::{
    ChangeState, ComponentChange, GetRequest, PropertyReading, RequestFault, RunPhase, RunningComponent,
    RunningWaveform, SetRequest, StopRequest, Stopped, TestRequest, TestRun, WaveformReply, WaveformRequest,
};
use crate::launch::request_inbox::InboxEntry;

/// The most requests that are in progress.
const BATCHES_MAX: usize = 64;
/// The most requests that may be open at one component.
const OPEN_MAX: usize = 64;
/// The longest that a request waits for a component.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// Time limit of a process for its read-only properties, which it reads without its components.
const QUERY_TIME: Duration = Duration::from_secs(1);
/// Time limit of the clients that stopped a waveform, for acknowledging its report.
const ACK_TIME: Duration = Duration::from_secs(1);
/// Time limit of a single component that must stop.
const END_TIME: Duration = Duration::from_secs(10);

/// The requests in progress.
#[derive(Default)]
pub(super) struct Requests {
    next: u64,
    /// Requests passed on without a final answer, by number.
    open: BTreeMap<u64, Open>,
    batches: Vec<Batch>,
    /// The clients that wait for the report of the waveform's end.
    stoppers: Vec<Sender<WaveformReply>>,
}

/// A request passed on to a component.
struct Open {
    member: usize,
    what: What,
    /// Whether the component polls for requests, if the request is queued there; `None`: its
    /// process has not acknowledged the request.
    polls: Option<bool>,
}

#[derive(Clone, PartialEq)]
enum What {
    Configure(BTreeMap<String, Value>),
    Test(String),
    Query,
}

/// A request that waits for components.
struct Batch {
    reply: Sender<WaveformReply>,
    deadline: Instant,
    /// Its time limit.
    time: Duration,
    kind: BatchKind,
}

/// The state of a request, each part with the number of the request passed on for it.
pub(super) enum BatchKind {
    /// Numbers of the requests to processes, with the members concerned.
    Get(Vec<PropertyReading>, BTreeMap<u64, usize>),
    Set(Vec<(Option<u64>, ComponentChange)>),
    Test(Vec<(Option<u64>, TestRun)>),
    /// Until this component has ended.
    Stop(usize),
}

impl Supervisor<'_> {
    /// Returns the earliest time limit of the requests in progress.
    pub(super) fn request_deadline(&self) -> Option<Instant> {
        self.requests.batches.iter().map(|batch| batch.deadline).min()
    }

    /// Serves new requests, and answers those that have reached their time limit.
    pub(super) fn handle_requests(&mut self) {
        for InboxEntry { request, reply } in self.inbox.take() {
            match self.serve(request, &reply) {
                Ok(Some((kind, time))) => {
                    let time = time.min(TIME_MAX);
                    self.requests.batches.push(Batch { reply, deadline: Instant::now() + time, time, kind });
                }
                Ok(None) => {}
                // A client that closed its connection gets no answer.
                Err(answer) => drop(reply.send(answer)),
            }
        }
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

    /// Serves a request; `Err` is an immediate answer.
    fn serve(
        &mut self,
        request: WaveformRequest,
        reply: &Sender<WaveformReply>,
    ) -> Result<Option<(BatchKind, Duration)>, WaveformReply> {
        let time = Duration::from_millis;
        match request {
            WaveformRequest::Show => Err(WaveformReply::Shown(self.show())),
            WaveformRequest::Acknowledged => Err(WaveformReply::Acknowledged),
            WaveformRequest::Stop(StopRequest { component: None, now }) => {
                self.stop_waveform(now);
                self.requests.stoppers.push(reply.clone());
                Ok(None)
            }
            _ if self.requests.batches.len() >= BATCHES_MAX => {
                let why = format!("{BATCHES_MAX} requests are in progress already; try again");
                Err(WaveformReply::Failed(RequestFault::Cannot(why)))
            }
            WaveformRequest::Get(GetRequest { component, property }) => {
                let kind = self.get(component.as_deref(), property.as_deref())?;
                Ok(Some((kind, QUERY_TIME)))
            }
            WaveformRequest::Set(SetRequest { folder, settings, timeout_ms }) => {
                Ok(Some((self.set(folder.as_deref(), settings)?, time(timeout_ms))))
            }
            WaveformRequest::Test(TestRequest { component, tests, timeout_ms }) => {
                Ok(Some((self.test(&component, &tests)?, time(timeout_ms))))
            }
            WaveformRequest::Stop(StopRequest { component: Some(component), now }) => {
                Ok(Some((self.stop_component(&component, now)?, END_TIME)))
            }
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
        let component = |(plan, member): (&crate::ComponentPlan, &super::LaunchedComponent)| {
            let group = &self.groups[member.group];
            RunningComponent {
                name: plan.name.clone(),
                type_name: plan.spec.name.clone(),
                placement: plan.placement,
                pid: group.process.as_ref().map(super::ComponentProcess::pid),
                state: match (member.state, &group.process) {
                    (ComponentState::Initialized | ComponentState::Running, Some(process))
                        if process.is_stopped() =>
                    {
                        RunningComponent::SUSPENDED.into()
                    }
                    (other, _) => state(other).into(),
                },
                restarts: group.restarts,
                tests: plan.spec.tests.iter().map(|test| test.name.clone()).collect(),
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
            components: self.waveform.components.iter().zip(&self.members).map(component).collect(),
            packets,
            lost,
        }
    }

    fn stop_waveform(&mut self, now: bool) {
        if now {
            self.fail(RunReport::ENDED_NOW.into());
            self.stop_all(Duration::ZERO);
            return;
        }
        match self.phase {
            Phase::Starting => {
                self.stopped = Some("stripline stop".into());
                self.observer.stopping("stripline stop");
                self.stop_all(Duration::ZERO);
            }
            Phase::Running => {
                self.stopped = Some("stripline stop".into());
                self.drain("stripline stop");
            }
            // It is already stopping: this client waits for the end as well.
            Phase::Draining(_) | Phase::Stopping(_) => {}
        }
    }

    fn stop_component(&mut self, component: &str, now: bool) -> Result<BatchKind, WaveformReply> {
        let member = self.member_named(component).map_err(refuse)?;
        if now {
            let why = "--now ends a whole waveform; one component is stopped in order".to_string();
            return Err(refuse(why));
        }
        self.stop(member);
        Ok(BatchKind::Stop(member))
    }

    /// Passes a request on to a component, or returns the reason against it.
    pub(super) fn ask(&mut self, member: usize, ask: Ask) -> Result<u64, (ChangeState, String)> {
        let what = match &ask {
            Ask::Configure(values) => What::Configure(values.clone()),
            Ask::Test(test) => What::Test(test.clone()),
        };
        self.pass(member, what, |component, number| LauncherCommand::Ask { component, number, ask })
    }

    /// Requests a component's read-only properties from its process.
    pub(super) fn query(&mut self, member: usize) -> Result<u64, (ChangeState, String)> {
        self.pass(member, What::Query, |component, number| LauncherCommand::Query { component, number })
    }

    fn pass(
        &mut self,
        member: usize,
        what: What,
        order: impl FnOnce(String, u64) -> LauncherCommand,
    ) -> Result<u64, (ChangeState, String)> {
        let group = self.members[member].group;
        let ended = |how: &str| (ChangeState::Ended, format!("the component {how}"));
        match self.members[member].state {
            // Its process still has the last values.
            ComponentState::Ended if what == What::Query => {}
            ComponentState::Ended => return Err(ended("has ended")),
            ComponentState::Failed => return Err(ended("has failed")),
            ComponentState::Absent if self.groups[group].restarts > 0 => {
                return Err(ended("is being started again; try again in a moment"));
            }
            ComponentState::Absent => return Err(ended("is not there yet; try again in a moment")),
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
        process.order(&order(self.waveform.components[member].name.clone(), number));
        self.requests.open.insert(number, Open { member, what, polls: None });
        Ok(number)
    }

    /// Handles a process's answer to a request.
    pub(super) fn answered(&mut self, member: usize, number: u64, answer: RequestAnswer) {
        // The request was not cancelled meanwhile, and is the member's own.
        let Some(open) = self.requests.open.get_mut(&number).filter(|open| open.member == member) else {
            return;
        };
        if let RequestAnswer::Waiting { looks: polls } = answer {
            open.polls = Some(polls);
            return;
        }
        let Some(Open { what, .. }) = self.requests.open.remove(&number) else { return };
        let nonsense = || "its process answered with something else".to_string();
        match (what, answer) {
            (What::Configure(values), answer) => {
                let (taken, reason) = match answer {
                    RequestAnswer::Configured(Ok(())) => (ChangeState::Applied, String::new()),
                    RequestAnswer::Configured(Err(reason)) | RequestAnswer::NotTaken(reason) => {
                        (ChangeState::Refused, reason)
                    }
                    RequestAnswer::Ended => {
                        (ChangeState::Ended, "the component ended before it took the request".into())
                    }
                    _ => (ChangeState::Refused, nonsense()),
                };
                self.configured(member, number, values, taken, reason);
            }
            (What::Test(_), answer) => {
                let result = match answer {
                    RequestAnswer::Tested(result) => Ok(result),
                    RequestAnswer::NotTaken(reason) => Err(reason),
                    RequestAnswer::Ended => Err("the component ended before it took the request".into()),
                    _ => Err(nonsense()),
                };
                self.tested(number, result);
            }
            (What::Query, RequestAnswer::Values(values)) => self.answer_test(member, number, values),
            // Values that it does not send stay unknown.
            (What::Query, _) => self.answer_test(member, number, Vec::new()),
        }
    }

    /// Handles a component's answer to new values.
    fn configured(
        &mut self,
        member: usize,
        number: u64,
        values: BTreeMap<String, Value>,
        taken: ChangeState,
        reason: String,
    ) {
        let component = &self.waveform.components[member];
        let batch = self.requests.batches.iter_mut().find_map(|batch| match &mut batch.kind {
            BatchKind::Set(changes) => changes.iter_mut().find(|(open, _)| *open == Some(number)),
            _ => None,
        });
        if taken == ChangeState::Applied {
            let news = self.members[member].take(component, values);
            self.observer.changed(&component.name, &news);
        } else if batch.is_none() {
            // The client was informed that they would be taken later.
            let names: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            self.observer.warning(&component.name, &format!("did not take {}: {reason}", names.join(", ")));
        }
        if let Some((open, change)) = batch {
            (*open, change.taken, change.reason) = (None, taken, reason);
        }
    }

    fn tested(&mut self, number: u64, outcome: Result<TestResult, String>) {
        let found = self.requests.batches.iter_mut().find_map(|batch| match &mut batch.kind {
            BatchKind::Test(runs) => runs.iter_mut().find(|(open, _)| *open == Some(number)),
            _ => None,
        });
        if let Some((open, run)) = found {
            *open = None;
            match outcome {
                Ok(result) => run.result = Some(result),
                Err(problem) => run.problem = Some(problem),
            }
        }
    }

    /// Handles the read-only properties of a component.
    fn answer_test(&mut self, member: usize, number: u64, values: Vec<(String, Option<Value>)>) {
        let spec = &self.waveform.components[member].spec;
        let name = &self.waveform.components[member].name;
        for batch in &mut self.requests.batches {
            let BatchKind::Get(readings, open) = &mut batch.kind else { continue };
            if open.remove(&number).is_none() {
                continue;
            }
            for reading in readings.iter_mut().filter(|reading| reading.component == *name) {
                let Some(property) = spec.find_property(&reading.property) else { continue };
                if property.access == Access::ReadOnly {
                    let said = values.iter().find(|(known, _)| *known == reading.property);
                    // The process is not trusted: a value that does not fit is left out.
                    reading.value = said.and_then(|(_, value)| property.check(value.as_ref()?).ok());
                    reading.problem = reading.value.is_none().then(|| "it is out of its range".into());
                }
            }
        }
    }

    /// Answers all requests to a component that has ended.
    pub(super) fn forget(&mut self, member: usize, how: &str) {
        let numbers: Vec<u64> =
            self.requests.open.iter().filter(|(_, open)| open.member == member).map(|(n, _)| *n).collect();
        for number in numbers {
            match self.requests.open.remove(&number).map(|open| open.what) {
                Some(What::Configure(values)) => {
                    let reason = format!("the component {how} before it took the request");
                    self.configured(member, number, values, ChangeState::Ended, reason);
                }
                Some(What::Test(_)) => {
                    self.tested(number, Err(format!("the component {how} before it took the request")))
                }
                Some(What::Query) => self.answer_test(member, number, Vec::new()),
                None => {}
            }
        }
    }

    /// Answers a request, even if parts of the answer are missing.
    fn close(&mut self, batch: Batch) {
        let Batch { reply, time, kind, .. } = batch;
        let answer = match kind {
            BatchKind::Stop(member) if !self.has_ended(member) => {
                let (component, waveform) = (&self.waveform.components[member].name, &self.waveform.name);
                let time = time.as_secs_f64();
                let silent = self.groups[self.members[member].group].process.as_ref();
                let why = silent.filter(|process| process.is_stopped()).map(super::ComponentProcess::silence);
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                WaveformReply::Failed(RequestFault::Cannot(format!(
                    "`{component}` was asked to stop and has not ended within {time} s{why}; `stripline stop \
                     {waveform}` ends what does not stop"
                )))
            }
            BatchKind::Stop(member) => WaveformReply::Stopped(Stopped::Component {
                component: self.waveform.components[member].name.clone(),
                state: if self.members[member].state == ComponentState::Ended { "ended" } else { "failed" }
                    .into(),
            }),
            BatchKind::Get(mut readings, open) => {
                for (number, member) in open {
                    self.requests.open.remove(&number);
                    let (name, silence) = (&self.waveform.components[member].name, self.silence(member));
                    for reading in readings.iter_mut().filter(|reading| reading.component == *name) {
                        if reading.access == Access::ReadOnly {
                            reading.problem = Some(silence.clone());
                        }
                    }
                }
                WaveformReply::Got(readings)
            }
            BatchKind::Set(changes) => {
                let told = changes.into_iter().map(|(number, mut change)| {
                    if let Some(number) = number {
                        // It stays open: the component takes the values when it polls.
                        change.taken = ChangeState::NotYet;
                        change.reason = self.late(number, time);
                    }
                    change
                });
                WaveformReply::Set(told.collect())
            }
            BatchKind::Test(runs) => {
                let mut told = Vec::new();
                for (number, mut run) in runs {
                    if let Some(number) = number {
                        run.problem = Some(self.late(number, time));
                        if let Some(open) = self.requests.open.remove(&number) {
                            let component = self.waveform.components[open.member].name.clone();
                            let order = LauncherCommand::Withdraw { component, number };
                            self.order(self.members[open.member].group, &order);
                        }
                    }
                    told.push(run);
                }
                WaveformReply::Tested(told)
            }
        };
        let _ = reply.send(answer);
    }

    /// Returns the reason that a request has no answer after its time limit.
    fn late(&self, number: u64, time: Duration) -> String {
        let Some(open) = self.requests.open.get(&number) else { return "it has no answer".into() };
        let time = format!("{} s", time.as_secs_f64());
        match open.polls {
            None => self.silence(open.member),
            Some(_) if self.members[open.member].state == ComponentState::Initialized => {
                "the component has not been started yet: it waits for others to be made and connected".into()
            }
            Some(false) => format!(
                "the component has not begun to poll for requests within {time}: it does so with `Ports::live`"
            ),
            Some(true) => format!(
                "the component has not polled for requests within {time}: it waits for a packet, for space to send one or for its \
                 time, or is busy"
            ),
        }
    }

    /// Returns the probable reason that a component's process sends no reports.
    fn silence(&self, member: usize) -> String {
        let process = self.groups[self.members[member].group].process.as_ref();
        process.map_or_else(|| "the component has no process now".into(), super::ComponentProcess::silence)
    }

    /// Sends the final answers to all clients; those that stopped the waveform get its report.
    pub(super) fn stop_processes(&mut self) {
        let members = 0..self.members.len();
        members.for_each(|member| self.forget(member, "ended"));
        for batch in std::mem::take(&mut self.requests.batches) {
            self.close(batch);
        }
    }

    /// Returns the report, and sends it to the clients that stopped the waveform.
    pub(super) fn final_report(mut self) -> RunReport {
        let (inbox, mut stoppers) = (self.inbox.clone(), std::mem::take(&mut self.requests.stoppers));
        let report = self.report();
        // A request to stop that arrives now is already fulfilled.
        let stops = |request: &WaveformRequest| matches!(request, WaveformRequest::Stop(stop) if stop.component.is_none());
        let late = inbox.close().into_iter().filter(|entry| stops(&entry.request));
        stoppers.extend(late.map(|entry| entry.reply));
        let stopped = || WaveformReply::Stopped(Stopped::Waveform(Box::new(report.clone())));
        let told = stoppers.into_iter().filter(|stopper| stopper.send(stopped()).is_ok()).count();
        inbox.wait_until_acknowledged(told, ACK_TIME);
        report
    }

    pub(super) fn has_ended(&self, member: usize) -> bool {
        match self.members[member].state {
            ComponentState::Ended => true,
            // A failed component may be started again.
            ComponentState::Failed => self.groups[self.members[member].group].restart_at.is_none(),
            ComponentState::Absent | ComponentState::Initialized | ComponentState::Running => false,
        }
    }

    /// Returns the value that was set and that the component has not taken yet.
    pub(super) fn waiting_for(&self, member: usize, property: &str) -> Option<&Value> {
        let open = self.requests.open.values().rev().filter(|open| open.member == member);
        open.filter_map(|open| match &open.what {
            What::Configure(values) => values.get(property),
            _ => None,
        })
        .next()
    }
}

impl Batch {
    fn is_complete(&self, supervisor: &Supervisor<'_>) -> bool {
        match &self.kind {
            BatchKind::Stop(member) => supervisor.has_ended(*member),
            BatchKind::Get(_, open) => open.is_empty(),
            BatchKind::Set(changes) => changes.iter().all(|(number, _)| number.is_none()),
            BatchKind::Test(runs) => runs.iter().all(|(number, _)| number.is_none()),
        }
    }
}

/// Builds the reply for one fault of a request.
pub(super) fn refuse(fault: String) -> WaveformReply {
    WaveformReply::Failed(RequestFault::Wrong(vec![fault]))
}
