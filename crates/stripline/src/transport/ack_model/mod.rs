//! A model of the wait for acknowledgements (scopes `server` and `target`). The model explores
//! every order in which receivers take packets, acknowledge, refuse and die, the deadline passes,
//! and late acknowledgements arrive. The real code makes the decisions: [`AckWait::outcome`],
//! [`AckWait::result`], the parser of a stream and the decoder of a ring's words. The waiting
//! around them is modelled step by step.

mod ring;
mod streams;

use std::time::Duration;

use crate::error::Error;
use crate::flow::AckWait;
use crate::terms::Scope;

const NAMES: [&str; 2] = ["first", "second"];

fn awaited(sequence: u64, scope: Scope) -> AckWait {
    AckWait::new(sequence, scope, Duration::ZERO)
}

/// The real outcome of the packets, whether or not the sender has received it.
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

/// Checks that the end of a wait is true of the receivers that were waited for.
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
        // The receiver may have done all it had to, and died before it could acknowledge.
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
    /// Whether the deadline may pass, receivers may die, and receivers may refuse packets.
    may_be_late: bool,
    may_die: bool,
    may_refuse: bool,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    None,
    /// Receivers never acknowledge finished packets.
    AckForgotten,
    /// The end of a socket is not checked.
    DeathUnnoticed,
    /// An acknowledgement of any packet is taken as the acknowledgement of the newest.
    NumbersIgnored,
    /// A ring's sender runs no fence between the announcement of sleep and the last poll.
    SenderFenceForgotten,
    /// A ring's receiver runs no fence between the acknowledgement and the check for a sleeper.
    ReceiverFenceForgotten,
    /// A ring's sender sleeps without a last poll.
    LastPollForgotten,
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
