//! The loop that starts, connects, watches and stops the components of a waveform.

mod ending;
mod reports;
mod requests;
mod restarting;
mod settings;
mod wiring;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use stripline::Result;
use stripline::component::{Properties, Value};
use stripline::internal::Endpoint;
use stripline::internal::PollSet;
use stripline::internal::control::LauncherCommand;

use super::connection_state::ConnectionState;
use super::process::{ComponentProcess, exit_text};
use super::report::{ComponentResult, ConnectionResult, Progress, RunReport};
use super::request_inbox::RequestInbox;
use super::signals::Signals;
use super::{Observer, RunOptions};
use crate::assign;
use crate::control::ControlService;
use crate::plan::{Placement, Program, Waveform};
use requests::Requests;

/// A process must have registered within this time.
const REGISTER_TIME: Duration = Duration::from_secs(10);
/// All components must be created and connected within this time.
const CONNECT_TIME: Duration = Duration::from_secs(60);
/// After the sources were commanded to stop, the rest is too after this time, and killed after
/// twice this time.
const STOP_TIME: Duration = Duration::from_secs(5);
/// After a failure, the others have this time to end.
const FAILURE_TIME: Duration = Duration::from_secs(2);
/// The interval between requests for counters.
const POLL_TIME: Duration = Duration::from_millis(250);
/// A component that fails more often than this within [`RESTART_WINDOW`] is not started again.
const RESTARTS_MAX: usize = 5;
const RESTART_WINDOW: Duration = Duration::from_secs(10);

pub(super) struct Supervisor<'a> {
    waveform: &'a Waveform,
    options: &'a RunOptions,
    observer: &'a mut dyn Observer,
    groups: Vec<ProcessGroup>,
    members: Vec<LaunchedComponent>,
    connections: Vec<ConnectionState>,
    signals: Signals,
    phase: Phase,
    launched: Instant,
    started: Option<Instant>,
    ended: Option<Instant>,
    next_poll: Instant,
    failure: Option<String>,
    stopped: Option<String>,
    inbox: RequestInbox,
    requests: Requests,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Until every component is created and every connection made.
    Starting,
    Running,
    /// The sources were commanded to stop at this time.
    Draining(Instant),
    /// All components were commanded to stop; those that have not by this time are killed.
    Stopping(Instant),
}

/// A process and the components in it.
struct ProcessGroup {
    program: PathBuf,
    members: Vec<usize>,
    process: Option<ComponentProcess>,
    spawned: Instant,
    registered: bool,
    /// The time at which it is started again.
    restart_at: Option<Instant>,
    failures: Vec<Instant>,
    /// Its report of its failure, before it was killed to be started again.
    problem: Option<String>,
    restarts: u32,
}

struct LaunchedComponent {
    group: usize,
    endpoints: BTreeMap<(String, String), Endpoint>,
    state: ComponentState,
    /// It has reported the number of packets sent.
    counted: bool,
    /// Its properties from the file, or as they were set since.
    properties: Properties,
    /// The values set since the start.
    set: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ComponentState {
    /// Its process is missing or has not created it yet.
    Absent,
    Initialized,
    Running,
    Ended,
    Failed,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        waveform: &'a Waveform,
        options: &'a RunOptions,
        observer: &'a mut dyn Observer,
    ) -> Result<Self> {
        let mut groups: Vec<ProcessGroup> = Vec::new();
        let mut members = Vec::new();
        let mut threads = None;
        let now = Instant::now();
        for (index, component) in waveform.components.iter().enumerate() {
            let shared = (component.placement == Placement::Thread).then_some(threads).flatten();
            let group = shared.unwrap_or_else(|| {
                groups.push(ProcessGroup {
                    program: match &component.program {
                        Program::Stock => options.host.clone(),
                        Program::Executable(path) => path.clone(),
                    },
                    members: Vec::new(),
                    process: None,
                    spawned: now,
                    registered: false,
                    restart_at: None,
                    failures: Vec::new(),
                    problem: None,
                    restarts: 0,
                });
                groups.len() - 1
            });
            if component.placement == Placement::Thread {
                threads = Some(group);
            }
            groups[group].members.push(index);
            members.push(LaunchedComponent {
                group,
                endpoints: BTreeMap::new(),
                state: ComponentState::Absent,
                counted: false,
                properties: component.properties.clone(),
                set: BTreeMap::new(),
            });
        }
        Ok(Self {
            connections: waveform.connections.iter().map(|_| ConnectionState::new()).collect(),
            waveform,
            options,
            observer,
            groups,
            members,
            signals: Signals::catch()?,
            phase: Phase::Starting,
            launched: now,
            started: None,
            ended: None,
            next_poll: now,
            failure: None,
            stopped: None,
            inbox: RequestInbox::new()?,
            requests: Requests::default(),
        })
    }

    pub(super) fn run(mut self) -> Result<RunReport> {
        // A waveform without a control service works as well.
        let service = ControlService::start(&self.waveform.name, self.inbox.clone()).map_err(|e| {
            self.observer.warning("stripline", &format!("it serves no requests while it runs: {e}"))
        });
        for group in 0..self.groups.len() {
            self.spawn(group);
        }
        while !self.is_over() {
            self.sleep()?;
            self.handle_signals();
            for group in 0..self.groups.len() {
                self.read_reports(group);
            }
            self.handle_time();
            self.handle_requests();
        }
        self.ended.get_or_insert_with(Instant::now);
        self.stop_processes();
        self.release_processes();
        let report = self.final_report();
        // Only after all clients have the final report.
        drop(service);
        Ok(report)
    }

    fn is_over(&self) -> bool {
        self.members
            .iter()
            .all(|member| matches!(member.state, ComponentState::Ended | ComponentState::Failed))
            || self.groups.iter().all(|group| group.process.is_none() && group.restart_at.is_none())
    }

    fn spawn(&mut self, group: usize) {
        let names = self.names(group);
        let entry = &mut self.groups[group];
        entry.restart_at = None;
        entry.registered = false;
        entry.spawned = Instant::now();
        match ComponentProcess::spawn(&entry.program, &names) {
            Ok(process) => entry.process = Some(process),
            Err(error) => {
                self.mark_failed(group);
                self.fail(format!("component {names}: {error}"));
            }
        }
    }

    /// Sleeps until a process reports or dies, a request arrives, or a time is reached.
    fn sleep(&self) -> Result<()> {
        let mut deadline = self.next_poll;
        for group in &self.groups {
            deadline = group.restart_at.map_or(deadline, |at| deadline.min(at));
        }
        if let (Some(started), Some(duration)) = (self.started, self.options.duration) {
            deadline = started.checked_add(duration).map_or(deadline, |end| deadline.min(end));
        }
        deadline = self.request_deadline().map_or(deadline, |at| deadline.min(at));
        let mut poll_set = PollSet::default();
        poll_set.readable(self.signals.as_fd());
        poll_set.readable(self.inbox.as_fd());
        self.groups.iter().filter_map(|g| g.process.as_ref()).for_each(|p| p.sleep_on(&mut poll_set));
        poll_set.wait(Some(deadline.max(Instant::now()))).map(drop)
    }

    fn handle_signals(&mut self) {
        for signal in self.signals.pending() {
            let name = match signal {
                signal_hook::consts::SIGINT => "Ctrl-C",
                signal_hook::consts::SIGHUP => "SIGHUP",
                _ => "SIGTERM",
            };
            match self.phase {
                Phase::Starting => {
                    self.stopped = Some(name.into());
                    self.observer.stopping(name);
                    self.stop_all(Duration::ZERO);
                }
                Phase::Running => {
                    self.stopped = Some(name.into());
                    self.drain(name);
                }
                Phase::Draining(_) | Phase::Stopping(_) => {
                    self.fail(format!("ended at once on a second {name}; packets on their way are lost"));
                    self.stop_all(Duration::ZERO);
                }
            }
        }
    }

    fn handle_time(&mut self) {
        let now = Instant::now();
        for group in 0..self.groups.len() {
            if self.groups[group].restart_at.is_some_and(|at| now >= at) {
                self.spawn(group);
            }
            let entry = &self.groups[group];
            if entry.process.is_some() && !entry.registered && now >= entry.spawned + REGISTER_TIME {
                let names = self.names(group);
                let program = entry.program.display();
                self.fail(format!(
                    "component {names}: {program} did not register within {} s; does its main call \
                     stripline::component::main?",
                    REGISTER_TIME.as_secs()
                ));
            }
        }
        match self.phase {
            Phase::Starting if now >= self.launched + CONNECT_TIME => {
                let slow: Vec<&str> = self
                    .waveform
                    .components
                    .iter()
                    .zip(&self.members)
                    .filter(|(_, member)| member.state == ComponentState::Absent)
                    .map(|(component, _)| component.name.as_str())
                    .collect();
                self.fail(format!("not ready after {} s: {}", CONNECT_TIME.as_secs(), slow.join(", ")));
            }
            Phase::Running => {
                if let (Some(started), Some(duration)) = (self.started, self.options.duration)
                    && now.duration_since(started) >= duration
                {
                    let reason = format!("the duration of {} s is over", duration.as_secs_f64());
                    self.stopped = Some(reason.clone());
                    self.drain(&reason);
                }
            }
            Phase::Draining(since) if now >= since + STOP_TIME => self.stop_all(STOP_TIME),
            Phase::Stopping(deadline) if now >= deadline => self.kill_all(),
            Phase::Starting | Phase::Draining(_) | Phase::Stopping(_) => {}
        }
        if now >= self.next_poll {
            self.next_poll = now + POLL_TIME;
            if self.started.is_some() {
                self.connect_ready();
                self.start_ready();
                self.groups
                    .iter_mut()
                    .filter_map(|g| g.process.as_mut())
                    .for_each(|p| p.order(&LauncherCommand::Poll));
                let progress = self.progress();
                self.observer.progress(&progress);
            }
        }
    }

    fn order(&mut self, group: usize, order: &LauncherCommand) {
        if let Some(process) = &mut self.groups[group].process {
            process.order(order);
        }
    }

    fn names(&self, group: usize) -> String {
        let names = self.groups[group].members.iter().map(|i| self.waveform.components[*i].name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    fn member_of(&self, component: &str) -> Option<usize> {
        self.waveform.components.iter().position(|c| c.name == component)
    }

    fn state_of(&self, component: &str) -> Option<ComponentState> {
        self.member_of(component).map(|index| self.members[index].state)
    }

    /// Finds a component by name, if it belongs to that group: a process reports for its own
    /// components only.
    fn index_in(&self, group: usize, component: &str) -> Option<usize> {
        self.member_of(component).filter(|index| self.members[*index].group == group)
    }

    fn connection_mut(&mut self, connection: &str) -> Option<&mut ConnectionState> {
        let index = self.waveform.connections.iter().position(|c| assign::name(c) == connection)?;
        Some(&mut self.connections[index])
    }

    fn progress(&self) -> Progress {
        let ended = self
            .members
            .iter()
            .filter(|m| matches!(m.state, ComponentState::Ended | ComponentState::Failed))
            .count();
        Progress {
            elapsed_s: self.elapsed().as_secs_f64(),
            connections: self.connections.iter().map(|link| link.total().counters).collect(),
            ended: (ended, self.members.len()),
        }
    }

    fn elapsed(&self) -> Duration {
        self.started
            .map_or(Duration::ZERO, |started| self.ended.unwrap_or_else(Instant::now).duration_since(started))
    }

    fn report(self) -> RunReport {
        let duration_s = self.elapsed().as_secs_f64();
        let components = self.waveform.components.iter().zip(&self.members);
        let connections = self.waveform.connections.iter().zip(&self.connections);
        let outcome = |state| match state {
            ComponentState::Ended => "ended",
            ComponentState::Failed if self.failure.is_some() => "failed",
            ComponentState::Failed => "stopped",
            ComponentState::Absent | ComponentState::Initialized | ComponentState::Running => "stopped",
        };
        RunReport {
            waveform: self.waveform.name.clone(),
            duration_s,
            components: components
                .map(|(plan, m)| {
                    let restarts = self.groups[m.group].restarts;
                    ComponentResult::new(plan, restarts, outcome(m.state), m.set.clone())
                })
                .collect(),
            connections: connections
                .map(|(plan, link)| ConnectionResult::new(plan, link, duration_s))
                .collect(),
            failure: self.failure,
            stopped: self.stopped,
        }
    }
}
