//! What others ask of a running waveform: answered from what the launcher knows, or passed on to the components.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::{Phase, State, Supervisor};
use crate::component::control::{Answer, Ask, Order};
use crate::component::{Access, TestResult, Value};
use crate::waveform::RunReport;
use crate::waveform::control::{
    ComponentChange, Fault, GetRequest, PropertyReading, Reply, Request, RunPhase, RunningComponent,
    RunningWaveform, SetRequest, StopRequest, Stopped, Taken, TestRequest, TestRun,
};
use crate::waveform::launch::desk::Visit;

/// The most requests that are in progress.
const CASES_MAX: usize = 64;
/// The most that may be on its way to one component.
const OPEN_MAX: usize = 64;
/// The longest that a request waits for a component.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// How long a process may take to say its read-only properties, which takes nothing of its components.
const QUERY_TIME: Duration = Duration::from_secs(1);
/// How long those who have stopped a waveform may take to hear what it did.
const HEAR_TIME: Duration = Duration::from_secs(1);
/// How long one component that is asked to stop is waited for.
const END_TIME: Duration = Duration::from_secs(10);

/// Requests in progress.
#[derive(Default)]
pub(super) struct Requests {
    next: u64,
    /// What was passed on and not answered for good, by number.
    open: BTreeMap<u64, Open>,
    cases: Vec<Case>,
    /// Who wants to know how the waveform ended.
    stoppers: Vec<Sender<Reply>>,
}

/// Something that a component was asked.
struct Open {
    member: usize,
    what: What,
    /// Whether it waits for the component, and whether that has said that it looks; `None`: its process has not even
    /// heard of it.
    looks: Option<bool>,
}

#[derive(Clone, PartialEq)]
enum What {
    Configure(BTreeMap<String, Value>),
    Test(String),
    Query,
}

/// A request that waits for components.
struct Case {
    reply: Sender<Reply>,
    deadline: Instant,
    /// How long it was to wait.
    time: Duration,
    kind: Kind,
}

/// What is waited for, each part with the number of what was passed on for it.
pub(super) enum Kind {
    /// Numbers of the processes' answers, with the members that they are about.
    Get(Vec<PropertyReading>, BTreeMap<u64, usize>),
    Set(Vec<(Option<u64>, ComponentChange)>),
    Test(Vec<(Option<u64>, TestRun)>),
    /// Until this component has ended.
    Stop(usize),
}

impl Supervisor<'_> {
    /// When the first of those who wait is to be told that it waits in vain.
    pub(super) fn request_deadline(&self) -> Option<Instant> {
        self.requests.cases.iter().map(|case| case.deadline).min()
    }

    /// Serves whoever has come, and answers whose time has come.
    pub(super) fn heed_requests(&mut self) {
        for Visit { request, reply } in self.desk.take() {
            match self.serve(request, &reply) {
                Ok(Some((kind, time))) => {
                    let time = time.min(TIME_MAX);
                    self.requests.cases.push(Case { reply, deadline: Instant::now() + time, time, kind });
                }
                Ok(None) => {}
                // Whoever has hung up is not told.
                Err(answer) => drop(reply.send(answer)),
            }
        }
        let now = Instant::now();
        let mut index = 0;
        while let Some(case) = self.requests.cases.get(index) {
            if case.is_complete(self) || now >= case.deadline {
                let case = self.requests.cases.swap_remove(index);
                self.close(case);
            } else {
                index += 1;
            }
        }
    }

    /// `Err`: the answer.
    fn serve(&mut self, request: Request, reply: &Sender<Reply>) -> Result<Option<(Kind, Duration)>, Reply> {
        let time = Duration::from_millis;
        match request {
            Request::Show => Err(Reply::Shown(self.shown())),
            Request::Heard => Err(Reply::Heard),
            Request::Stop(StopRequest { component: None, now }) => {
                self.stop_waveform(now);
                self.requests.stoppers.push(reply.clone());
                Ok(None)
            }
            _ if self.requests.cases.len() >= CASES_MAX => {
                let why = format!("{CASES_MAX} requests are in progress already; try again");
                Err(Reply::Failed(Fault::Cannot(why)))
            }
            Request::Get(GetRequest { component, property }) => {
                let kind = self.get(component.as_deref(), property.as_deref())?;
                Ok(Some((kind, QUERY_TIME)))
            }
            Request::Set(SetRequest { folder, settings, timeout_ms }) => {
                Ok(Some((self.set(folder.as_deref(), settings)?, time(timeout_ms))))
            }
            Request::Test(TestRequest { component, tests, timeout_ms }) => {
                Ok(Some((self.test(&component, &tests)?, time(timeout_ms))))
            }
            Request::Stop(StopRequest { component: Some(component), now }) => {
                Ok(Some((self.stop_component(&component, now)?, END_TIME)))
            }
        }
    }

    fn shown(&self) -> RunningWaveform {
        let state = |state: State| match state {
            State::Absent => "starting",
            State::Initialized => "ready",
            State::Running => "running",
            State::Ended => "ended",
            State::Failed => "failed",
        };
        let component = |(plan, member): (&crate::waveform::ComponentPlan, &super::Member)| {
            let group = &self.groups[member.group];
            RunningComponent {
                name: plan.name.clone(),
                type_name: plan.spec.name.clone(),
                placement: plan.placement,
                pid: group.process.as_ref().map(super::ComponentProcess::pid),
                state: match (member.state, &group.process) {
                    (State::Initialized | State::Running, Some(process)) if process.is_stopped() => {
                        RunningComponent::SUSPENDED.into()
                    }
                    (other, _) => state(other).into(),
                },
                restarts: group.restarts,
                tests: plan.spec.tests.iter().map(|test| test.name.clone()).collect(),
            }
        };
        let totals = self.links.iter().map(|link| link.total().counters);
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
            // It is being stopped already: who asks again wants to see the end of it.
            Phase::Draining(_) | Phase::Stopping(_) => {}
        }
    }

    fn stop_component(&mut self, component: &str, now: bool) -> Result<Kind, Reply> {
        let member = self.member_named(component).map_err(wrong)?;
        if now {
            let why = "--now ends a whole waveform; one component is stopped in order".to_string();
            return Err(wrong(why));
        }
        self.stop(member);
        Ok(Kind::Stop(member))
    }

    /// Passes something on to a component, or says why not.
    pub(super) fn ask(&mut self, member: usize, ask: Ask) -> Result<u64, (Taken, String)> {
        let what = match &ask {
            Ask::Configure(values) => What::Configure(values.clone()),
            Ask::Test(test) => What::Test(test.clone()),
        };
        self.pass(member, what, |component, number| Order::Ask { component, number, ask })
    }

    /// Asks a process what a component's read-only properties are.
    pub(super) fn query(&mut self, member: usize) -> Result<u64, (Taken, String)> {
        self.pass(member, What::Query, |component, number| Order::Query { component, number })
    }

    fn pass(
        &mut self,
        member: usize,
        what: What,
        order: impl FnOnce(String, u64) -> Order,
    ) -> Result<u64, (Taken, String)> {
        let group = self.members[member].group;
        let ended = |how: &str| (Taken::Ended, format!("the component {how}"));
        match self.members[member].state {
            // Its process still knows what it said last.
            State::Ended if what == What::Query => {}
            State::Ended => return Err(ended("has ended")),
            State::Failed => return Err(ended("has failed")),
            State::Absent if self.groups[group].restarts > 0 => {
                return Err(ended("is being started again; try again in a moment"));
            }
            State::Absent => return Err(ended("is not there yet; try again in a moment")),
            State::Initialized | State::Running => {}
        }
        let Some(process) = &mut self.groups[group].process else { return Err(ended("has no process")) };
        if self.requests.open.values().filter(|open| open.member == member).count() >= OPEN_MAX {
            return Err((Taken::Refused, format!("{OPEN_MAX} requests wait for it already")));
        }
        if !process.listens() {
            return Err((Taken::Refused, process.silence()));
        }
        self.requests.next += 1;
        let number = self.requests.next;
        process.order(&order(self.waveform.components[member].name.clone(), number));
        self.requests.open.insert(number, Open { member, what, looks: None });
        Ok(number)
    }

    /// What a process says of a request.
    pub(super) fn answered(&mut self, member: usize, number: u64, answer: Answer) {
        // Not withdrawn meanwhile, and its own.
        let Some(open) = self.requests.open.get_mut(&number).filter(|open| open.member == member) else {
            return;
        };
        if let Answer::Waiting { looks } = answer {
            open.looks = Some(looks);
            return;
        }
        let Some(Open { what, .. }) = self.requests.open.remove(&number) else { return };
        let nonsense = || "its process answered with something else".to_string();
        match (what, answer) {
            (What::Configure(values), answer) => {
                let (taken, reason) = match answer {
                    Answer::Configured(Ok(())) => (Taken::Applied, String::new()),
                    Answer::Configured(Err(reason)) | Answer::NotTaken(reason) => (Taken::Refused, reason),
                    Answer::Ended => (Taken::Ended, "the component ended before it looked".into()),
                    _ => (Taken::Refused, nonsense()),
                };
                self.configured(member, number, values, taken, reason);
            }
            (What::Test(_), answer) => {
                let result = match answer {
                    Answer::Tested(result) => Ok(result),
                    Answer::NotTaken(reason) => Err(reason),
                    Answer::Ended => Err("the component ended before it looked".into()),
                    _ => Err(nonsense()),
                };
                self.tested(number, result);
            }
            (What::Query, Answer::Values(values)) => self.said(member, number, values),
            // What it is not said to be stays unknown.
            (What::Query, _) => self.said(member, number, Vec::new()),
        }
    }

    /// A component has taken values, or will not.
    fn configured(
        &mut self,
        member: usize,
        number: u64,
        values: BTreeMap<String, Value>,
        taken: Taken,
        reason: String,
    ) {
        let component = &self.waveform.components[member];
        let case = self.requests.cases.iter_mut().find_map(|case| match &mut case.kind {
            Kind::Set(changes) => changes.iter_mut().find(|(open, _)| *open == Some(number)),
            _ => None,
        });
        if taken == Taken::Applied {
            let news = self.members[member].take(component, values);
            self.observer.changed(&component.name, &news);
        } else if case.is_none() {
            // Whoever set them was told that they would be taken later.
            let names: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            self.observer.warning(&component.name, &format!("did not take {}: {reason}", names.join(", ")));
        }
        if let Some((open, change)) = case {
            (*open, change.taken, change.reason) = (None, taken, reason);
        }
    }

    fn tested(&mut self, number: u64, outcome: Result<TestResult, String>) {
        let found = self.requests.cases.iter_mut().find_map(|case| match &mut case.kind {
            Kind::Test(runs) => runs.iter_mut().find(|(open, _)| *open == Some(number)),
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

    /// What a component says of its read-only properties.
    fn said(&mut self, member: usize, number: u64, values: Vec<(String, Option<Value>)>) {
        let spec = &self.waveform.components[member].spec;
        let name = &self.waveform.components[member].name;
        for case in &mut self.requests.cases {
            let Kind::Get(readings, open) = &mut case.kind else { continue };
            if open.remove(&number).is_none() {
                continue;
            }
            for reading in readings.iter_mut().filter(|reading| reading.component == *name) {
                let Some(property) = spec.find_property(&reading.property) else { continue };
                if property.access == Access::ReadOnly {
                    let said = values.iter().find(|(known, _)| *known == reading.property);
                    // It is a process that says so: what does not fit is not shown.
                    reading.value = said.and_then(|(_, value)| property.check(value.as_ref()?).ok());
                    reading.problem = reading.value.is_none().then(|| "it is out of its range".into());
                }
            }
        }
    }

    /// A component is gone with all that waited for it.
    pub(super) fn forget(&mut self, member: usize, how: &str) {
        let numbers: Vec<u64> =
            self.requests.open.iter().filter(|(_, open)| open.member == member).map(|(n, _)| *n).collect();
        for number in numbers {
            match self.requests.open.remove(&number).map(|open| open.what) {
                Some(What::Configure(values)) => {
                    let reason = format!("the component {how} before it looked");
                    self.configured(member, number, values, Taken::Ended, reason);
                }
                Some(What::Test(_)) => {
                    self.tested(number, Err(format!("the component {how} before it looked")))
                }
                Some(What::Query) => self.said(member, number, Vec::new()),
                None => {}
            }
        }
    }

    /// Answers a request, also if not everything that it waits for has come.
    fn close(&mut self, case: Case) {
        let Case { reply, time, kind, .. } = case;
        let answer = match kind {
            Kind::Stop(member) if !self.has_ended(member) => {
                let (component, waveform) = (&self.waveform.components[member].name, &self.waveform.name);
                let time = time.as_secs_f64();
                let silent = self.groups[self.members[member].group].process.as_ref();
                let why = silent.filter(|process| process.is_stopped()).map(super::ComponentProcess::silence);
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                Reply::Failed(Fault::Cannot(format!(
                    "`{component}` was asked to stop and has not ended within {time} s{why}; `stripline stop \
                     {waveform}` ends what does not stop"
                )))
            }
            Kind::Stop(member) => Reply::Stopped(Stopped::Component {
                component: self.waveform.components[member].name.clone(),
                state: if self.members[member].state == State::Ended { "ended" } else { "failed" }.into(),
            }),
            Kind::Get(mut readings, open) => {
                for (number, member) in open {
                    self.requests.open.remove(&number);
                    let (name, silence) = (&self.waveform.components[member].name, self.silence(member));
                    for reading in readings.iter_mut().filter(|reading| reading.component == *name) {
                        if reading.access == Access::ReadOnly {
                            reading.problem = Some(silence.clone());
                        }
                    }
                }
                Reply::Got(readings)
            }
            Kind::Set(changes) => {
                let told = changes.into_iter().map(|(number, mut change)| {
                    if let Some(number) = number {
                        // It stays open: the component takes them when it looks.
                        change.taken = Taken::NotYet;
                        change.reason = self.late(number, time);
                    }
                    change
                });
                Reply::Set(told.collect())
            }
            Kind::Test(runs) => {
                let mut told = Vec::new();
                for (number, mut run) in runs {
                    if let Some(number) = number {
                        run.problem = Some(self.late(number, time));
                        if let Some(open) = self.requests.open.remove(&number) {
                            let component = self.waveform.components[open.member].name.clone();
                            let order = Order::Withdraw { component, number };
                            self.order(self.members[open.member].group, &order);
                        }
                    }
                    told.push(run);
                }
                Reply::Tested(told)
            }
        };
        let _ = reply.send(answer);
    }

    /// Why something has no answer after so long.
    fn late(&self, number: u64, time: Duration) -> String {
        let Some(open) = self.requests.open.get(&number) else { return "it has no answer".into() };
        let time = format!("{} s", time.as_secs_f64());
        match open.looks {
            None => self.silence(open.member),
            Some(_) if self.members[open.member].state == State::Initialized => {
                "the component has not been started yet: it waits for others to be made and connected".into()
            }
            Some(false) => format!(
                "the component has not begun to look for requests within {time}: it does so with `Ports::live`"
            ),
            Some(true) => format!(
                "the component has not looked within {time}: it waits for a packet, for room to send one or for its \
                 time, or is busy"
            ),
        }
    }

    /// Why a component's process says nothing.
    fn silence(&self, member: usize) -> String {
        let process = self.groups[self.members[member].group].process.as_ref();
        process.map_or_else(|| "the component has no process now".into(), super::ComponentProcess::silence)
    }

    /// The waveform has ended: tells everybody, those who stopped it what it did.
    pub(super) fn farewell(&mut self) {
        let members = 0..self.members.len();
        members.for_each(|member| self.forget(member, "ended"));
        for case in std::mem::take(&mut self.requests.cases) {
            self.close(case);
        }
    }

    /// The end, told to those who have stopped the waveform.
    pub(super) fn conclude(mut self) -> RunReport {
        let (desk, mut stoppers) = (self.desk.clone(), std::mem::take(&mut self.requests.stoppers));
        let report = self.report();
        // Whoever wants it stopped just now has what it wants.
        let stops = |request: &Request| matches!(request, Request::Stop(stop) if stop.component.is_none());
        let late = desk.close().into_iter().filter(|visit| stops(&visit.request));
        stoppers.extend(late.map(|visit| visit.reply));
        let stopped = || Reply::Stopped(Stopped::Waveform(Box::new(report.clone())));
        let told = stoppers.into_iter().filter(|stopper| stopper.send(stopped()).is_ok()).count();
        desk.wait_until_heard(told, HEAR_TIME);
        report
    }

    pub(super) fn has_ended(&self, member: usize) -> bool {
        match self.members[member].state {
            State::Ended => true,
            // It may come back.
            State::Failed => self.groups[self.members[member].group].restart_at.is_none(),
            State::Absent | State::Initialized | State::Running => false,
        }
    }

    /// What a component was set to and has not taken yet.
    pub(super) fn waiting_for(&self, member: usize, property: &str) -> Option<&Value> {
        let open = self.requests.open.values().rev().filter(|open| open.member == member);
        open.filter_map(|open| match &open.what {
            What::Configure(values) => values.get(property),
            _ => None,
        })
        .next()
    }
}

impl Case {
    fn is_complete(&self, supervisor: &Supervisor<'_>) -> bool {
        match &self.kind {
            Kind::Stop(member) => supervisor.has_ended(*member),
            Kind::Get(_, open) => open.is_empty(),
            Kind::Set(changes) => changes.iter().all(|(number, _)| number.is_none()),
            Kind::Test(runs) => runs.iter().all(|(number, _)| number.is_none()),
        }
    }
}

/// One fault of a request.
pub(super) fn wrong(fault: String) -> Reply {
    Reply::Failed(Fault::Wrong(vec![fault]))
}
