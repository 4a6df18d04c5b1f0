//! Every order in which receivers can take packets, answer, refuse and die while their sender waits for them (scopes `server`
//! and `target`), its deadline passes and late answers come: walked with the real decisions ([`Awaited::outcome`],
//! [`Awaited::verdict`], the ear of a stream, the judgement of a ring's words), and the waiting around them step by step.

mod ring;
mod streams;

use std::time::Duration;

use super::answer::Awaited;
use crate::error::Error;
use crate::link::Scope;

const NAMES: [&str; 2] = ["first", "second"];

fn awaited(sequence: u64, scope: Scope) -> Awaited {
    Awaited::new(sequence, scope, Duration::ZERO)
}

/// What has really become of the packets, whatever is heard of it.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
struct Truth {
    accepted: Vec<u64>,
    finished: Vec<u64>,
    refused: Vec<u64>,
    dead: bool,
}

impl Truth {
    fn has_done(&self, sequence: u64, scope: Scope) -> bool {
        if scope == Scope::Target {
            self.finished.contains(&sequence)
        } else {
            self.accepted.contains(&sequence)
        }
    }
}

/// Whether the end of a wait tells the truth of those that were waited for.
fn check_end(
    outcome: &Result<(), Error>,
    sequence: u64,
    scope: Scope,
    truth: &[(&'static str, &Truth)],
    has_passed: bool,
) -> Result<(), String> {
    let done = |truth: &Truth| truth.has_done(sequence, scope);
    let of = |name: &str| truth.iter().find(|(known, _)| *known == name).map(|(_, truth)| *truth);
    let is_true = match outcome {
        Ok(()) => truth.iter().all(|(_, truth)| done(truth)),
        Err(Error::PacketRefused { connection, .. }) => {
            of(connection).is_some_and(|truth| truth.refused.contains(&sequence))
        }
        // It may have done all it had to, and died before it could say so.
        Err(Error::ReceiverGone { connection, .. }) => of(connection).is_some_and(|truth| truth.dead),
        Err(Error::Unanswered { connection, .. }) => {
            has_passed && connection.split(", ").all(|name| of(name).is_some())
        }
        Err(_) => false,
    };
    if is_true { Ok(()) } else { Err(format!("packet {sequence} ended with {outcome:?}")) }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Rules {
    receivers: usize,
    packets: u64,
    scope: Scope,
    /// Whether the deadline may pass, receivers die, and refuse what they take.
    may_be_late: bool,
    may_die: bool,
    may_refuse: bool,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    None,
    /// Receivers do not answer for what they finish.
    AnswerForgotten,
    /// An end of the socket is not looked for.
    DeathUnnoticed,
    /// An answer for any packet is taken for the newest.
    NumbersIgnored,
    /// A ring's sender does not run its fence between the announcement of its sleep and its last look.
    SenderFenceForgotten,
    /// A ring's receiver does not run its fence between its answer and its look who sleeps.
    ReceiverFenceForgotten,
    /// A ring's sender sleeps without a last look.
    LastLookForgotten,
}

const SOUND: Rules = Rules {
    receivers: 2,
    packets: 2,
    scope: Scope::Target,
    may_be_late: true,
    may_die: true,
    may_refuse: true,
    fault: Fault::None,
};
