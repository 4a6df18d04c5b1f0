//! The model over sockets: `signalling/ack_wait.rs`, `signalling/acks.rs`.

use super::{Fault, NAMES, Rules, SOUND, Truth, awaited, check_end};
use crate::explorer::{System, explore};
use crate::flow::{Ack, AckState};
use crate::terms::Scope;
use crate::transport::signalling::{AckReader, record};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ModelReceiver {
    acks: AckReader,
    /// Whether the receiver was there when the packet was sent, whether the sender still waits for
    /// it, and whether it has been removed.
    is_counted: bool,
    awaited: bool,
    removed: bool,
    /// The receiver's queue, and whether it has accepted the first packet already.
    queue: Vec<u64>,
    is_accepted: bool,
    /// Acknowledgements in transit to the sender.
    said: Vec<u8>,
    truth: Truth,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Streams {
    rules: Rules,
    receivers: Vec<ModelReceiver>,
    /// The packets sent; whether the sender waits for the last of them, and is asleep.
    sent: u64,
    waits: bool,
    asleep: bool,
    has_passed: bool,
    /// The problem, kept for the end of the wait.
    problem: Option<(usize, AckState)>,
}

impl Streams {
    fn new(rules: Rules) -> Self {
        let receiver = ModelReceiver {
            acks: AckReader::default(),
            is_counted: false,
            awaited: false,
            removed: false,
            queue: Vec::new(),
            is_accepted: false,
            said: Vec::new(),
            truth: Truth::default(),
        };
        let receivers = vec![receiver; rules.receivers];
        Self { rules, receivers, sent: 0, waits: false, asleep: false, has_passed: false, problem: None }
    }

    /// Models `publish`, and the start of `wait_acks`.
    fn send(&self) -> Option<Self> {
        if self.waits || self.sent == self.rules.packets {
            return None;
        }
        let mut after = self.clone();
        let expected = awaited(self.sent, self.rules.scope);
        for receiver in &mut after.receivers {
            // Writing to a dead peer's socket fails, and the receiver is removed.
            receiver.removed |= receiver.truth.dead;
            (receiver.awaited, receiver.is_counted) = (!receiver.removed, !receiver.removed);
            if receiver.awaited {
                receiver.queue.push(self.sent);
                receiver.acks.expect(&expected);
            }
        }
        (after.sent, after.waits, after.has_passed) = (self.sent + 1, true, false);
        Some(after)
    }

    /// Models one round of the loop of `wait_acks`: a poll of all receivers, then the verdict or
    /// sleep.
    fn poll(&self) -> Result<Option<Self>, String> {
        if !self.waits || self.asleep {
            return Ok(None);
        }
        let mut after = self.clone();
        let expected = awaited(self.sent - 1, self.rules.scope);
        for (index, name) in NAMES.into_iter().enumerate().take(self.receivers.len()) {
            let receiver = &mut after.receivers[index];
            if !receiver.awaited {
                continue;
            }
            let mut said = std::mem::take(&mut receiver.said);
            if self.rules.fault == Fault::NumbersIgnored {
                said.chunks_mut(16)
                    .for_each(|record| record[..8].copy_from_slice(&(self.sent - 1).to_le_bytes()));
            }
            let is_there = !receiver.truth.dead || self.rules.fault == Fault::DeathUnnoticed;
            let listened = receiver.acks.feed(&said).map(|()| is_there);
            let state = receiver.acks.state(&listened);
            receiver.removed |= listened != Ok(true);
            if let AckState::Violation(violation) = &state {
                return Err(format!("an honest receiver {violation}"));
            }
            match expected.outcome(name, state.clone()) {
                None => {}
                Some(Ok(())) => receiver.awaited = false,
                Some(Err(_)) => {
                    receiver.awaited = false;
                    after.problem.get_or_insert((index, state));
                }
            }
        }
        let open = (0..after.receivers.len())
            .filter(|index| after.receivers[*index].awaited)
            .map(|index| NAMES[index]);
        match expected.result(open, None, self.has_passed) {
            None => after.asleep = true,
            Some(result) => {
                let problem = after.problem.take();
                let problem = problem.and_then(|(index, state)| expected.outcome(NAMES[index], state));
                let outcome = problem.unwrap_or(result);
                let counted =
                    NAMES.into_iter().zip(&self.receivers).filter(|(_, receiver)| receiver.is_counted);
                let truth: Vec<_> = counted.map(|(name, receiver)| (name, &receiver.truth)).collect();
                check_end(&outcome, self.sent - 1, self.rules.scope, &truth, self.has_passed)?;
                after.waits = false;
            }
        }
        Ok(Some(after))
    }

    /// Models the wake of `poll`, as long as there are bytes or the end of a socket to read.
    fn wake(&self) -> Option<Self> {
        let sees_ends = self.rules.fault != Fault::DeathUnnoticed;
        let is_readable = |receiver: &ModelReceiver| {
            receiver.awaited && (!receiver.said.is_empty() || receiver.truth.dead && sees_ends)
        };
        if !self.asleep || !(self.has_passed || self.receivers.iter().any(is_readable)) {
            return None;
        }
        Some(Self { asleep: false, ..self.clone() })
    }

    fn pass(&self) -> Option<Self> {
        let may = self.rules.may_be_late && self.waits && !self.has_passed;
        may.then(|| Self { has_passed: true, ..self.clone() })
    }

    /// Returns a receiver's possible next steps.
    fn receive(&self, index: usize) -> Vec<(&'static str, Self)> {
        let mut steps = Vec::new();
        let receiver = &self.receivers[index];
        if receiver.truth.dead {
            return steps;
        }
        let scope = self.rules.scope;
        let mut may = |word, change: &dyn Fn(&mut ModelReceiver)| {
            let mut after = self.clone();
            change(&mut after.receivers[index]);
            steps.push((word, after));
        };
        if self.rules.may_die {
            may("a receiver dies", &|receiver| {
                receiver.truth.dead = true;
                receiver.queue.clear();
            });
        }
        let Some(&sequence) = receiver.queue.first() else { return steps };
        let silent = self.rules.fault == Fault::AckForgotten;
        let acks = |receiver: &mut ModelReceiver, ack| {
            if !silent {
                receiver.said.extend(record(sequence, ack));
            }
        };
        if !receiver.is_accepted {
            may("a receiver accepts", &|receiver| {
                receiver.is_accepted = true;
                receiver.truth.accepted.push(sequence);
                if scope == Scope::Server {
                    acks(receiver, Ack::Accepted);
                }
            });
            if self.rules.may_refuse {
                may("a receiver drops the packet by its policy", &|receiver| {
                    receiver.queue.remove(0);
                    receiver.truth.refused.push(sequence);
                    acks(receiver, Ack::Refused("dropped"));
                });
            }
            return steps;
        }
        may("a receiver finishes", &|receiver| {
            receiver.queue.remove(0);
            receiver.is_accepted = false;
            receiver.truth.finished.push(sequence);
            if scope == Scope::Target {
                acks(receiver, Ack::Finished);
            }
        });
        if self.rules.may_refuse && scope == Scope::Target {
            may("a receiver's component refuses", &|receiver| {
                receiver.queue.remove(0);
                receiver.is_accepted = false;
                receiver.truth.refused.push(sequence);
                acks(receiver, Ack::Refused("no"));
            });
        }
        steps
    }
}

impl System for Streams {
    fn steps(&self) -> Result<Vec<(&'static str, Self)>, String> {
        let mut steps = Vec::new();
        steps.extend(self.send().map(|after| ("a packet is sent", after)));
        steps.extend(self.poll()?.map(|after| ("the sender polls", after)));
        steps.extend(self.wake().map(|after| ("the sender wakes", after)));
        steps.extend(self.pass().map(|after| ("the deadline passes", after)));
        (0..self.receivers.len()).for_each(|index| steps.extend(self.receive(index)));
        Ok(steps)
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.sent == self.rules.packets && !self.waits
    }
}

#[test]
fn every_wait_over_sockets_ends_with_the_truth() {
    for scope in [Scope::Server, Scope::Target] {
        let mut states = 0;
        for may in 0..8 {
            let [may_be_late, may_die, may_refuse] = [1, 2, 4].map(|bit| may & bit != 0);
            let rules = Rules { scope, may_be_late, may_die, may_refuse, ..SOUND };
            states += explore(Streams::new(rules)).unwrap_or_else(|found| panic!("{rules:?}\n{found}"));
        }
        println!("{scope}: {states} states");
        // One receiver, and acknowledgements that are several packets late.
        let rules = Rules { scope, receivers: 1, packets: 4, ..SOUND };
        explore(Streams::new(rules)).unwrap_or_else(|found| panic!("{rules:?}\n{found}"));
    }
}

#[test]
fn faults_over_sockets_are_found() {
    let calm = Rules { may_be_late: false, may_refuse: false, ..SOUND };
    for (fault, rules, finds) in [
        (Fault::AckForgotten, Rules { may_die: false, ..calm }, "nothing leads on"),
        (Fault::DeathUnnoticed, calm, "nothing leads on"),
        (Fault::NumbersIgnored, Rules { may_be_late: true, ..calm }, "packet 1 ended with Ok"),
    ] {
        let found = explore(Streams::new(Rules { fault, ..rules })).expect_err(&format!("{fault:?}"));
        assert!(found.contains(finds), "{fault:?}: {found}");
    }
}
