//! Requests for a tap: finds the sending port of a connection, and handles the answer of the
//! process.

use stripline::component::Direction;
use stripline::internal::control::{Ask, RequestAnswer};

use super::requests::{BatchKind, Parts, part_for};
use super::{ComponentState, Supervisor};
use crate::control::{RequestFault, TapReply, TapRequest};
use crate::plan::PortRef;
use crate::text::{did_you_mean, listed, quoted};

impl Supervisor<'_> {
    /// Begins a request for a tap on an output, or on the sender of an input.
    pub(super) fn tap(&mut self, request: &TapRequest) -> Result<Parts<TapReply>, RequestFault> {
        let from = self.sending_port(request)?;
        let member = self.member_named(&from.component)?;
        let refused = match self.members[member].state {
            ComponentState::Ended => TapReply::Ended { port: from.to_string() },
            ComponentState::Failed if self.has_ended(member) => TapReply::Ended { port: from.to_string() },
            _ => match self.ask(member, Some(Ask::Tap(from.port))) {
                Ok(number) => return Ok(vec![(Some(number), TapReply::Late)]),
                Err((_, why)) => TapReply::NotYet(why),
            },
        };
        Ok(vec![(None, refused)])
    }

    /// Returns the sending port that a request means.
    fn sending_port(&self, request: &TapRequest) -> Result<PortRef, RequestFault> {
        let TapRequest { component, port } = request;
        let plan = self.members[self.member_named(component)?].plan;
        let Some(spec) = plan.spec.find_port(port) else {
            let names = plan.spec.ports.iter().map(|port| port.name.as_str());
            let mut remedy = did_you_mean(port, names, "its ports are");
            if plan.spec.ports.is_empty() {
                remedy = "it has no ports at all".into();
            }
            return Err(format!("`{component}` has no port {}; {remedy}", quoted(port)).into());
        };
        let this = PortRef { component: component.clone(), port: port.clone() };
        if spec.direction == Direction::Output {
            return Ok(this);
        }
        let mut senders: Vec<&PortRef> =
            self.waveform.connections.iter().filter(|link| link.to == this).map(|link| &link.from).collect();
        senders.sort();
        senders.dedup();
        match senders[..] {
            [only] => Ok(only.clone()),
            [] => Err(format!("input `{this}` is not connected, so that nothing arrives there").into()),
            _ => {
                let names: Vec<String> = senders.iter().map(ToString::to_string).collect();
                let names = listed(names.iter().map(String::as_str), "and");
                Err(format!("input `{this}` has several senders, {names}; name one of them").into())
            }
        }
    }

    /// Handles the answer of a process to a request for a tap.
    pub(super) fn tapped(&mut self, member: usize, number: u64, port: &str, answer: RequestAnswer) {
        let port = format!("{}.{port}", self.members[member].plan.name);
        let reply = self.requests.batches_mut().find_map(|kind| match kind {
            BatchKind::Tap(_, parts) => part_for(parts, number),
            _ => None,
        });
        if let Some(reply) = reply {
            *reply = match answer {
                RequestAnswer::Tapped(endpoint, payload) => TapReply::Open { port, payload, endpoint },
                RequestAnswer::StreamEnded => TapReply::Ended { port },
                RequestAnswer::NotTaken(why) => TapReply::Refused(why),
                _ => TapReply::NotYet(format!("`{port}` is being ended or started again")),
            };
        }
    }
}
