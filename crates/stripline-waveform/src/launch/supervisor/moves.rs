//! Moves of running connections to another transport: `set component.port:transport=NAME`.
//!
//! The sending port is opened over the new transport, then the receivers connect to it, and then
//! the sender moves before its next packet. Until the move itself is ordered, any failure leaves
//! everything unchanged.

use std::collections::BTreeSet;

use stripline::component::{Direction, Value};
use stripline::internal::control::{Ask, LauncherCommand, OutputAssignment, RequestAnswer};
use stripline::internal::{Endpoint, SenderOptions};
use stripline::{Error, transport};

use super::requests::{BatchKind, part_for};
use super::{ComponentState, ConnectionState, Supervisor};
use crate::control::{ChangeState, ComponentChange, NewValue, Setting};
use crate::text::{did_you_mean, listed, quoted};
use crate::transport_choice::SAME_PROCESS;

/// The suffix of a port's name in a setting of the transport.
const TRANSPORT: &str = ":transport";

/// A sending port, and the transport to which it is to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortMove {
    pub member: usize,
    pub port: String,
    pub transport: String,
}

/// A move in progress.
pub(super) struct MoveState {
    /// The number of this part of a request.
    number: u64,
    wanted: PortMove,
    endpoint: Option<Endpoint>,
    step: MoveStep,
}

#[derive(PartialEq, Eq)]
enum MoveStep {
    /// The sender is opening the transport.
    Preparing,
    /// These connections are being made over the new transport.
    Connecting(BTreeSet<String>),
    /// The sender will move before its next packet.
    Moving,
}

impl MoveState {
    /// Returns whether this move concerns the connection.
    pub(super) fn is_of(&self, link: &ConnectionState) -> bool {
        link.from == self.wanted.member && link.plan.from.port == self.wanted.port
    }
}

impl Supervisor<'_> {
    /// Reads a setting of a port's transport; `None` if the setting is for a property.
    pub(super) fn read_move(&self, setting: &Setting) -> Option<Result<PortMove, String>> {
        let port = setting.property.strip_suffix(TRANSPORT)?;
        Some(self.checked_move(&setting.component, port, &setting.value))
    }

    /// Checks that a port can move to a transport that can keep the port's connections.
    fn checked_move(&self, component: &str, port: &str, name: &str) -> Result<PortMove, String> {
        let member = self.member_named(component)?;
        let spec = &self.members[member].plan.spec;
        let outputs = || spec.ports.iter().filter(|port| port.direction == Direction::Output);
        if !outputs().any(|output| output.name == port) {
            let remedy = did_you_mean(port, outputs().map(|port| port.name.as_str()), "its outputs are");
            return Err(format!("`{component}` has no output {}; {remedy}", quoted(port)));
        }
        let names: Vec<&str> = transport::all().map(|transport| transport.name).collect();
        if !names.contains(&name) {
            let remedy = did_you_mean(name, names.iter().copied(), "the transports are");
            return Err(format!("there is no transport {}; {remedy}", quoted(name)));
        }
        let mut is_connected = false;
        let is_output = |from: usize, of: &str| from == member && of == port;
        for link in self.connections.iter().filter(|link| is_output(link.from, &link.plan.from.port)) {
            is_connected = true;
            if name == SAME_PROCESS && self.members[link.to].group != self.members[member].group {
                let others = listed(names.iter().copied().filter(|name| *name != SAME_PROCESS), "or");
                return Err(format!(
                    "`{SAME_PROCESS}` joins components of one process, and the components of {} have two; move it to {others}",
                    link.name
                ));
            }
            transport::check(name, &link.plan.options).map_err(|error| match error {
                Error::Unsupported { transport, rule, alternatives } => {
                    format!("`{transport}` cannot keep {rule} of {}; {alternatives}", link.name)
                }
                other => other.to_string(),
            })?;
        }
        if !is_connected {
            return Err(format!("output `{component}.{port}` is not connected, so that nothing can move"));
        }
        Ok(PortMove { member, port: port.into(), transport: name.into() })
    }

    /// Begins a move. Returns the part of the reply for this move.
    pub(super) fn begin_move(&mut self, wanted: PortMove) -> (Option<u64>, ComponentChange) {
        let change = |taken, reason: String| ComponentChange {
            component: self.members[wanted.member].plan.name.clone(),
            values: [self.news_of_move(&wanted)].into(),
            taken,
            reason,
        };
        let (member, port) = (wanted.member, wanted.port.clone());
        if self.transports_of(member, &port) == [wanted.transport.as_str()] {
            return (None, change(ChangeState::Applied, String::new()));
        }
        if self.is_moving(member, &port) {
            let why = format!("`{port}` is being moved already; try again when that is done");
            return (None, change(ChangeState::Refused, why));
        }
        if self.members[member].state == ComponentState::Initialized {
            let why = "the component has not been started yet; try again in a moment".to_string();
            return (None, change(ChangeState::Ended, why));
        }
        let mut pending = change(ChangeState::NotYet, String::new());
        let links = self.connections.iter().filter(|link| link.from == member && link.plan.from.port == port);
        let options = links.map(|link| SenderOptions::from(&link.plan.options)).reduce(SenderOptions::merged);
        let Some(options) = options else { return (None, pending) };
        let output = OutputAssignment { port, transport: wanted.transport.clone(), options };
        match self.ask(member, Some(Ask::PrepareMove(Box::new(output)))) {
            Ok(number) => {
                self.moves.push(MoveState { number, wanted, endpoint: None, step: MoveStep::Preparing });
                (Some(number), pending)
            }
            Err((taken, reason)) => {
                (pending.taken, pending.reason) = (taken, reason);
                (None, pending)
            }
        }
    }

    /// Returns the setting of a move, with the previous transports.
    fn news_of_move(&self, wanted: &PortMove) -> (String, NewValue) {
        let before = self.transports_of(wanted.member, &wanted.port).join(", ");
        let (value, before) = (Value::Text(wanted.transport.clone()), Value::Text(before));
        (format!("{}{TRANSPORT}", wanted.port), NewValue { value, before, unit: String::new() })
    }

    /// Returns the transports of an output, each once.
    fn transports_of(&self, member: usize, port: &str) -> Vec<&str> {
        let links = self.connections.iter().filter(|link| link.from == member && link.plan.from.port == port);
        let names: BTreeSet<&str> = links.map(|link| link.transport.as_str()).collect();
        names.into_iter().collect()
    }

    /// Returns whether an output is being moved. During a move nothing else connects to it.
    pub(super) fn is_moving(&self, member: usize, port: &str) -> bool {
        self.moves.iter().any(|state| state.wanted.member == member && state.wanted.port == port)
    }

    /// Handles the answer of a process to a step of a move.
    pub(super) fn move_answered(&mut self, member: usize, port: &str, answer: RequestAnswer) {
        let is_it = |state: &MoveState| state.wanted.member == member && state.wanted.port == port;
        let Some(index) = self.moves.iter().position(is_it) else { return };
        let is_preparing = self.moves[index].step == MoveStep::Preparing;
        match answer {
            RequestAnswer::MovePrepared(endpoint) if is_preparing => self.connect_there(index, endpoint),
            RequestAnswer::Moved(_) => self.moved(index),
            RequestAnswer::NotTaken(why) => self.cancel_move(index, ChangeState::Refused, why),
            RequestAnswer::StreamEnded => {
                let why = "the output has sent its end of stream".to_string();
                self.cancel_move(index, ChangeState::Ended, why);
            }
            _ => self.cancel_move(index, ChangeState::Ended, "the component ended before it moved".into()),
        }
    }

    /// Orders the receivers to connect to the prepared transport.
    fn connect_there(&mut self, index: usize, endpoint: Endpoint) {
        let PortMove { member, port, .. } = self.moves[index].wanted.clone();
        let mut waiting = BTreeSet::new();
        let mut absent = None;
        for link in &mut self.connections {
            if link.from != member || link.plan.from.port != port || self.members[link.to].state.is_over() {
                continue;
            }
            let process = &mut self.groups[self.members[link.to].group].process;
            match process.as_mut().filter(|_| link.connected) {
                Some(process) => {
                    process.order(&link.connect(endpoint.clone(), true));
                    link.order_move(self.moves[index].number);
                    waiting.insert(link.name.clone());
                }
                None => absent = Some(self.members[link.to].plan.name.clone()),
            }
        }
        let is_complete = waiting.is_empty();
        (self.moves[index].endpoint, self.moves[index].step) =
            (Some(endpoint), MoveStep::Connecting(waiting));
        if let Some(receiver) = absent {
            let why = format!("its receiver `{receiver}` is not connected now; try again in a moment");
            self.cancel_move(index, ChangeState::Refused, why);
        } else if is_complete {
            self.order_move(index);
        }
    }

    /// Handles the result of a connection that was made for a move. The move may have been
    /// cancelled by now.
    pub(super) fn connected_there(&mut self, number: u64, connection: &str, outcome: Result<(), &str>) {
        let waits = |state: &MoveState| {
            state.number == number
                && matches!(&state.step, MoveStep::Connecting(all) if all.contains(connection))
        };
        let Some(index) = self.moves.iter().position(waits) else { return };
        if let Err(problem) = outcome {
            let why = format!("{connection}: {problem}");
            self.cancel_move(index, ChangeState::Refused, why);
        } else if let MoveStep::Connecting(waiting) = &mut self.moves[index].step {
            waiting.remove(connection);
            if waiting.is_empty() {
                self.order_move(index);
            }
        }
    }

    fn order_move(&mut self, index: usize) {
        let PortMove { member, port, .. } = self.moves[index].wanted.clone();
        match self.ask(member, Some(Ask::Move(port))) {
            Ok(_) => self.moves[index].step = MoveStep::Moving,
            Err((taken, reason)) => self.cancel_move(index, taken, reason),
        }
    }

    fn moved(&mut self, index: usize) {
        let MoveState { number, wanted, endpoint, .. } = self.moves.swap_remove(index);
        let news = [self.news_of_move(&wanted)].into();
        let PortMove { member, port, transport } = wanted;
        let endpoints = &mut self.members[member].endpoints;
        endpoints.retain(|(output, _), _| *output != port);
        endpoints.extend(endpoint.map(|endpoint| ((port.clone(), transport.clone()), endpoint)));
        for link in self.connections.iter_mut() {
            if link.from == member && link.plan.from.port == port {
                link.transport.clone_from(&transport);
                link.was_moved = true;
            }
        }
        self.observer.changed(&self.members[member].plan.name, &news);
        self.answer_move(number, ChangeState::Applied, String::new());
        // Connect receivers that came back during the move.
        self.connect_ready();
    }

    /// Leaves everything unchanged. If the sender has ended, each receiver detects the end by
    /// itself.
    fn cancel_move(&mut self, index: usize, taken: ChangeState, why: String) {
        let MoveState { number, wanted, endpoint, .. } = self.moves.swap_remove(index);
        let PortMove { member, port, transport } = wanted;
        if let Some(endpoint) = endpoint.filter(|_| taken == ChangeState::Refused) {
            for link in &self.connections {
                if link.from == member
                    && link.plan.from.port == port
                    && let Some(process) = &mut self.groups[self.members[link.to].group].process
                {
                    process.order(&LauncherCommand::CancelMove {
                        component: link.plan.to.component.clone(),
                        port: link.plan.to.port.clone(),
                        connection: link.name.clone(),
                        endpoint: endpoint.clone(),
                    });
                }
            }
            // Nothing depends on the answer, and a sender that is gone gives none.
            let _ = self.ask(member, Some(Ask::CancelMove(port.clone())));
        }
        if !self.answer_move(number, taken, why.clone()) {
            // The client was informed that the port would move later.
            let name = &self.members[member].plan.name;
            self.observer.warning(name, &format!("`{port}` did not move to {transport}: {why}"));
        }
        self.connect_ready();
    }

    /// Answers the part of a request that stands for a move. Returns false if the client no longer
    /// waits.
    fn answer_move(&mut self, number: u64, taken: ChangeState, reason: String) -> bool {
        let change = self.requests.batches_mut().find_map(|kind| match kind {
            BatchKind::Set(_, changes) => part_for(changes, number),
            _ => None,
        });
        let is_awaited = change.is_some();
        if let Some(change) = change {
            (change.taken, change.reason) = (taken, reason);
        }
        is_awaited
    }

    /// Cancels the moves that involve a component, because the process of the component is gone.
    /// Once the sender has been ordered to move, a receiver is no longer needed.
    pub(super) fn forget_moves(&mut self, member: usize) {
        while let Some(index) = self.moves.iter().position(|state| {
            let receives = |link: &ConnectionState| link.to == member && state.is_of(link);
            let needs = state.step != MoveStep::Moving && self.connections.iter().any(receives);
            state.wanted.member == member || needs
        }) {
            let name = &self.members[member].plan.name;
            let why = format!("the process of `{name}` ended before the move");
            let is_sender = self.moves[index].wanted.member == member;
            let taken = if is_sender { ChangeState::Ended } else { ChangeState::Refused };
            self.cancel_move(index, taken, why);
        }
    }

    /// Returns the reason why a move has not been made within a time limit; `None` if the request
    /// is not a move.
    pub(super) fn late_move(&self, number: u64, time: &str) -> Option<String> {
        let state = self.moves.iter().find(|state| state.number == number)?;
        Some(match &state.step {
            MoveStep::Preparing => self.silence(state.wanted.member),
            MoveStep::Connecting(waiting) => {
                let names = listed(waiting.iter().map(String::as_str), "and");
                format!("{names}: not connected over {} within {time}", state.wanted.transport)
            }
            MoveStep::Moving => format!(
                "the component has sent no packet within {time}: it moves before its next one, if there is room for \
                 that on the old path"
            ),
        })
    }
}
