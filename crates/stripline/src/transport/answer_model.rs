//! Every order in which receivers can take packets, answer, refuse and die while their sender waits for them (scopes `server`
//! and `target`), its deadline passes and late answers come: walked with the real decisions ([`Awaited::outcome`],
//! [`Awaited::verdict`], the ear of a stream, the judgement of a ring's words), and the waiting around them step by step.

use std::time::Duration;

use super::answer::{Awaited, Fate, Heard};
use super::ring::judge;
use super::stream::{Ear, record};
use crate::error::Error;
use crate::explorer::{System, explore};
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

// --- Over sockets: `stream/confirm.rs`, `stream/answers.rs`.

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

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Guest {
    ear: Ear,
    /// Whether it was there when the packet was sent; whether it is still waited for, and has been let go.
    is_counted: bool,
    awaited: bool,
    buried: bool,
    /// Its queue, and whether it has accepted the first of it already.
    queue: Vec<u64>,
    is_accepted: bool,
    /// Answers on their way to the sender.
    said: Vec<u8>,
    truth: Truth,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Streams {
    rules: Rules,
    guests: Vec<Guest>,
    /// Packets sent; whether the sender waits for the last of them, and is asleep.
    sent: u64,
    waits: bool,
    asleep: bool,
    has_passed: bool,
    /// Kept for the end of the wait.
    problem: Option<(usize, Heard)>,
}

impl Streams {
    fn new(rules: Rules) -> Self {
        let guest = Guest {
            ear: Ear::default(),
            is_counted: false,
            awaited: false,
            buried: false,
            queue: Vec::new(),
            is_accepted: false,
            said: Vec::new(),
            truth: Truth::default(),
        };
        let guests = vec![guest; rules.receivers];
        Self { rules, guests, sent: 0, waits: false, asleep: false, has_passed: false, problem: None }
    }

    /// `publish`, and the beginning of `await_answers`.
    fn send(&self) -> Option<Self> {
        if self.waits || self.sent == self.rules.packets {
            return None;
        }
        let mut after = self.clone();
        let expected = awaited(self.sent, self.rules.scope);
        for guest in &mut after.guests {
            // Writing to a dead peer's socket fails, which buries it.
            guest.buried |= guest.truth.dead;
            (guest.awaited, guest.is_counted) = (!guest.buried, !guest.buried);
            if guest.awaited {
                guest.queue.push(self.sent);
                guest.ear.expect(&expected);
            }
        }
        (after.sent, after.waits, after.has_passed) = (self.sent + 1, true, false);
        Some(after)
    }

    /// One round of the loop of `await_answers`: a look at all, then the verdict or sleep.
    fn look(&self) -> Result<Option<Self>, String> {
        if !self.waits || self.asleep {
            return Ok(None);
        }
        let mut after = self.clone();
        let expected = awaited(self.sent - 1, self.rules.scope);
        for (index, name) in NAMES.into_iter().enumerate().take(self.guests.len()) {
            let guest = &mut after.guests[index];
            if !guest.awaited {
                continue;
            }
            let mut said = std::mem::take(&mut guest.said);
            if self.rules.fault == Fault::NumbersIgnored {
                said.chunks_mut(16)
                    .for_each(|record| record[..8].copy_from_slice(&(self.sent - 1).to_le_bytes()));
            }
            let is_there = !guest.truth.dead || self.rules.fault == Fault::DeathUnnoticed;
            let listened = guest.ear.hear(&said).map(|()| is_there);
            let heard = guest.ear.heard(&listened);
            guest.buried |= listened != Ok(true);
            if let Heard::Lied(deed) = &heard {
                return Err(format!("an honest receiver {deed}"));
            }
            match expected.outcome(name, heard.clone()) {
                None => {}
                Some(Ok(())) => guest.awaited = false,
                Some(Err(_)) => {
                    guest.awaited = false;
                    after.problem.get_or_insert((index, heard));
                }
            }
        }
        let open =
            (0..after.guests.len()).filter(|index| after.guests[*index].awaited).map(|index| NAMES[index]);
        match expected.verdict(open, false, self.has_passed) {
            None => after.asleep = true,
            Some(verdict) => {
                let problem = after.problem.take();
                let problem = problem.and_then(|(index, heard)| expected.outcome(NAMES[index], heard));
                let outcome = problem.unwrap_or(verdict);
                let counted = NAMES.into_iter().zip(&self.guests).filter(|(_, guest)| guest.is_counted);
                let truth: Vec<_> = counted.map(|(name, guest)| (name, &guest.truth)).collect();
                check_end(&outcome, self.sent - 1, self.rules.scope, &truth, self.has_passed)?;
                after.waits = false;
            }
        }
        Ok(Some(after))
    }

    /// `poll`: as long as there is something to read or the end of a socket to see, it does not sleep on.
    fn wake(&self) -> Option<Self> {
        let sees_ends = self.rules.fault != Fault::DeathUnnoticed;
        let is_readable =
            |guest: &Guest| guest.awaited && (!guest.said.is_empty() || guest.truth.dead && sees_ends);
        if !self.asleep || !(self.has_passed || self.guests.iter().any(is_readable)) {
            return None;
        }
        Some(Self { asleep: false, ..self.clone() })
    }

    fn pass(&self) -> Option<Self> {
        let may = self.rules.may_be_late && self.waits && !self.has_passed;
        may.then(|| Self { has_passed: true, ..self.clone() })
    }

    /// What a receiver does next.
    fn receive(&self, index: usize) -> Vec<(&'static str, Self)> {
        let mut steps = Vec::new();
        let guest = &self.guests[index];
        if guest.truth.dead {
            return steps;
        }
        let scope = self.rules.scope;
        let mut may = |word, change: &dyn Fn(&mut Guest)| {
            let mut after = self.clone();
            change(&mut after.guests[index]);
            steps.push((word, after));
        };
        if self.rules.may_die {
            may("a receiver dies", &|guest| {
                guest.truth.dead = true;
                guest.queue.clear();
            });
        }
        let Some(&sequence) = guest.queue.first() else { return steps };
        let silent = self.rules.fault == Fault::AnswerForgotten;
        let answers = |guest: &mut Guest, fate| {
            if !silent {
                guest.said.extend(record(sequence, fate));
            }
        };
        if !guest.is_accepted {
            may("a receiver accepts", &|guest| {
                guest.is_accepted = true;
                guest.truth.accepted.push(sequence);
                if scope == Scope::Server {
                    answers(guest, Fate::Accepted);
                }
            });
            if self.rules.may_refuse {
                may("a receiver drops the packet by its policy", &|guest| {
                    guest.queue.remove(0);
                    guest.truth.refused.push(sequence);
                    answers(guest, Fate::Refused("dropped"));
                });
            }
            return steps;
        }
        may("a receiver finishes", &|guest| {
            guest.queue.remove(0);
            guest.is_accepted = false;
            guest.truth.finished.push(sequence);
            if scope == Scope::Target {
                answers(guest, Fate::Finished);
            }
        });
        if self.rules.may_refuse && scope == Scope::Target {
            may("a receiver's component refuses", &|guest| {
                guest.queue.remove(0);
                guest.is_accepted = false;
                guest.truth.refused.push(sequence);
                answers(guest, Fate::Refused("no"));
            });
        }
        steps
    }
}

impl System for Streams {
    fn steps(&self) -> Result<Vec<(&'static str, Self)>, String> {
        let mut steps = Vec::new();
        steps.extend(self.send().map(|after| ("a packet is sent", after)));
        steps.extend(self.look()?.map(|after| ("the sender looks", after)));
        steps.extend(self.wake().map(|after| ("the sender wakes", after)));
        steps.extend(self.pass().map(|after| ("the deadline passes", after)));
        (0..self.guests.len()).for_each(|index| steps.extend(self.receive(index)));
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
        // One receiver, and answers that are several packets late.
        let rules = Rules { scope, receivers: 1, packets: 4, ..SOUND };
        explore(Streams::new(rules)).unwrap_or_else(|found| panic!("{rules:?}\n{found}"));
    }
}

#[test]
fn faults_over_sockets_are_found() {
    let calm = Rules { may_be_late: false, may_refuse: false, ..SOUND };
    for (fault, rules, finds) in [
        (Fault::AnswerForgotten, Rules { may_die: false, ..calm }, "nothing leads on"),
        (Fault::DeathUnnoticed, calm, "nothing leads on"),
        (Fault::NumbersIgnored, Rules { may_be_late: true, ..calm }, "packet 1 ended with Ok"),
    ] {
        let found = explore(Streams::new(Rules { fault, ..rules })).expect_err(&format!("{fault:?}"));
        assert!(found.contains(finds), "{fault:?}: {found}");
    }
}

// --- Over a ring: `ring/confirm.rs`, `ring/answers.rs`. Stores wait in a buffer until the processor writes them out, as they
// do on x86, or a fence is run; that is what the fences are for. The bell of the other side, and the kernel's word of a
// death (`Lobby::leave`: a lock, then the same bell), are seen at once. The look every 100 ms does not happen here: it is for
// peers that lie.

/// The sender, at a line of `await_answers`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Publish,
    /// `look_for_answers`, `see_out`, and the verdict.
    Look,
    /// `reader.cursor.set_sleeps(true)`
    Announce,
    /// `announced()`
    Fence,
    /// `sleep_for_answers`: on the bell,
    Sleep,
    /// and `quiet`.
    Quiet,
}

/// A receiver, at a line of `RingAnswers::say`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Says {
    Nothing,
    Fence,
    LookWhoSleeps,
    Ring,
}

#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
struct Page {
    // In memory, for both to see: numbers plus 1.
    done: u64,
    refused: u64,
    sleeps: bool,
    // Not written out yet, by the receiver and by the sender.
    buffered: Option<(bool, u64)>,
    sleeps_buffered: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Reader {
    page: Page,
    queue: Vec<u64>,
    says: Says,
    /// Whether it was there when the packet was sent, and whether it is still waited for.
    is_counted: bool,
    awaited: bool,
    truth: Truth,
    /// The kernel has told of its death; it has been seen out.
    departed: bool,
    gone: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Ring {
    rules: Rules,
    readers: Vec<Reader>,
    sent: u64,
    at: At,
    /// Whether it has announced its sleep in this wait.
    sleeps: bool,
    bell: bool,
    has_passed: bool,
    problem: Option<(usize, Heard)>,
}

impl Ring {
    fn new(rules: Rules) -> Self {
        let reader = Reader {
            page: Page::default(),
            queue: Vec::new(),
            says: Says::Nothing,
            is_counted: false,
            awaited: false,
            truth: Truth::default(),
            departed: false,
            gone: false,
        };
        Self {
            rules,
            readers: vec![reader; rules.receivers],
            sent: 0,
            at: At::Publish,
            sleeps: false,
            bell: false,
            has_passed: false,
            problem: None,
        }
    }

    fn publish(&self) -> Option<Self> {
        let mut after = self.clone();
        for reader in &mut after.readers {
            // One that is dead and has not been seen out yet is waited for until it is.
            (reader.awaited, reader.is_counted) = (!reader.gone, !reader.gone);
            if !reader.truth.dead {
                reader.queue.push(self.sent);
            }
        }
        (after.sent, after.at, after.has_passed) = (self.sent + 1, At::Look, false);
        (self.sent < self.rules.packets).then_some(after)
    }

    /// What the sender sees in a page: its own stores come before those that it has not written out.
    fn heard(&self, index: usize) -> Heard {
        let page = &self.readers[index].page;
        judge(self.sent - 1, page.refused, page.done, || "no".into())
    }

    fn look(&self) -> Result<Self, String> {
        let mut after = self.clone();
        let expected = awaited(self.sent - 1, self.rules.scope);
        for (index, name) in NAMES.into_iter().enumerate().take(self.readers.len()) {
            let heard = self.heard(index);
            if let Heard::Lied(deed) = &heard {
                return Err(format!("an honest receiver {deed}"));
            }
            let reader = &mut after.readers[index];
            // `see_out`, `last_word`.
            let is_seen_out = reader.departed && !reader.gone;
            reader.gone |= reader.departed;
            if !reader.awaited {
                continue;
            }
            let heard = if is_seen_out && heard == Heard::Nothing { Heard::Gone } else { heard };
            if let Some(outcome) = expected.outcome(name, heard.clone()) {
                reader.awaited = false;
                if outcome.is_err() {
                    after.problem.get_or_insert((index, heard));
                }
            }
        }
        let open =
            (0..after.readers.len()).filter(|index| after.readers[*index].awaited).map(|index| NAMES[index]);
        match expected.verdict(open, false, self.has_passed) {
            None => after.at = if self.sleeps { At::Sleep } else { At::Announce },
            Some(verdict) => {
                let problem = after.problem.take();
                let problem = problem.and_then(|(index, heard)| expected.outcome(NAMES[index], heard));
                let counted = NAMES.into_iter().zip(&self.readers).filter(|(_, reader)| reader.is_counted);
                let truth: Vec<_> = counted.map(|(name, reader)| (name, &reader.truth)).collect();
                let outcome = problem.unwrap_or(verdict);
                check_end(&outcome, self.sent - 1, self.rules.scope, &truth, self.has_passed)?;
                for reader in &mut after.readers {
                    reader.awaited = false;
                    if self.sleeps {
                        reader.page.sleeps_buffered = Some(false);
                    }
                }
                (after.at, after.sleeps) = (At::Publish, false);
            }
        }
        Ok(after)
    }

    /// The sender's next step.
    fn proceed(&self) -> Result<Option<Self>, String> {
        let mut after = self.clone();
        match self.at {
            At::Publish => return Ok(self.publish()),
            At::Look => return self.look().map(Some),
            At::Announce => {
                after.readers.iter_mut().for_each(|reader| reader.page.sleeps_buffered = Some(true));
                (after.at, after.sleeps) = (At::Fence, true);
            }
            At::Fence => {
                if self.rules.fault != Fault::SenderFenceForgotten {
                    after.readers.iter_mut().for_each(Reader::write_out_sleeps);
                }
                after.at = if self.rules.fault == Fault::LastLookForgotten { At::Sleep } else { At::Look };
            }
            At::Sleep if self.bell || self.has_passed => after.at = At::Quiet,
            At::Sleep => return Ok(None),
            At::Quiet => {
                after.bell = false;
                after.at = At::Look;
            }
        }
        Ok(Some(after))
    }

    fn pass(&self) -> Option<Self> {
        let may = self.rules.may_be_late && self.at != At::Publish && !self.has_passed;
        may.then(|| Self { has_passed: true, ..self.clone() })
    }

    fn receive(&self, index: usize) -> Vec<(&'static str, Self)> {
        let mut steps = Vec::new();
        let reader = &self.readers[index];
        let mut may = |word, change: &dyn Fn(&mut Self)| {
            let mut after = self.clone();
            change(&mut after);
            steps.push((word, after));
        };
        if reader.page.buffered.is_some() {
            may("a receiver's store is written out", &|ring| ring.readers[index].write_out());
        }
        if reader.page.sleeps_buffered.is_some() {
            may("a sender's store is written out", &|ring| ring.readers[index].write_out_sleeps());
        }
        if reader.truth.dead {
            if !reader.departed {
                // `Lobby::leave`, by the thread that the kernel tells.
                may("a death is told", &|ring| {
                    ring.readers[index].departed = true;
                    ring.bell = true;
                });
            }
            return steps;
        }
        if self.rules.may_die {
            may("a receiver dies", &|ring| {
                let reader = &mut ring.readers[index];
                // What it has stored is not lost with it.
                reader.write_out();
                reader.truth.dead = true;
                reader.queue.clear();
            });
        }
        match reader.says {
            Says::Nothing => {
                let Some(&sequence) = reader.queue.first() else { return steps };
                may("a receiver finishes", &|ring| ring.readers[index].answer(sequence, false));
                if self.rules.may_refuse {
                    may("a receiver refuses", &|ring| ring.readers[index].answer(sequence, true));
                }
            }
            Says::Fence => may("a receiver runs its fence", &|ring| {
                if ring.rules.fault != Fault::ReceiverFenceForgotten {
                    ring.readers[index].write_out();
                }
                ring.readers[index].says = Says::LookWhoSleeps;
            }),
            Says::LookWhoSleeps => may("a receiver looks who sleeps", &|ring| {
                let reader = &mut ring.readers[index];
                reader.says = if reader.page.sleeps { Says::Ring } else { Says::Nothing };
            }),
            Says::Ring => may("a receiver rings", &|ring| {
                ring.readers[index].says = Says::Nothing;
                ring.bell = true;
            }),
        }
        steps
    }
}

impl Reader {
    fn answer(&mut self, sequence: u64, refuses: bool) {
        // A store behind another goes out behind it.
        self.write_out();
        self.queue.remove(0);
        self.page.buffered = Some((refuses, sequence + 1));
        if refuses {
            self.truth.refused.push(sequence);
        } else {
            self.truth.accepted.push(sequence);
            self.truth.finished.push(sequence);
        }
        self.says = Says::Fence;
    }

    fn write_out(&mut self) {
        match self.page.buffered.take() {
            Some((true, number)) => self.page.refused = self.page.refused.max(number),
            Some((false, number)) => self.page.done = self.page.done.max(number),
            None => {}
        }
    }

    fn write_out_sleeps(&mut self) {
        if let Some(sleeps) = self.page.sleeps_buffered.take() {
            self.page.sleeps = sleeps;
        }
    }
}

impl System for Ring {
    fn steps(&self) -> Result<Vec<(&'static str, Self)>, String> {
        let mut steps = Vec::new();
        steps.extend(self.proceed()?.map(|after| ("the sender goes on", after)));
        steps.extend(self.pass().map(|after| ("the deadline passes", after)));
        (0..self.readers.len()).for_each(|index| steps.extend(self.receive(index)));
        Ok(steps)
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.sent == self.rules.packets && self.at == At::Publish
    }
}

#[test]
fn every_wait_over_a_ring_ends_with_the_truth_and_nobody_oversleeps() {
    let mut states = 0;
    let mut walk = |rules| {
        states += explore(Ring::new(rules)).unwrap_or_else(|found| panic!("{rules:?}\n{found}"));
    };
    for may in 0..8 {
        let [may_be_late, may_die, may_refuse] = [1, 2, 4].map(|bit| may & bit != 0);
        let rules = Rules { may_be_late, may_die, may_refuse, ..SOUND };
        walk(Rules { packets: 1, ..rules });
        walk(Rules { receivers: 1, packets: 3, ..rules });
    }
    // Late answers of two, and deaths between two packets.
    walk(Rules { may_die: false, may_refuse: false, ..SOUND });
    walk(Rules { may_be_late: false, may_refuse: false, ..SOUND });
    println!("{states} states");
}

#[test]
fn faults_over_a_ring_are_found() {
    let calm = Rules { may_be_late: false, may_die: false, may_refuse: false, ..SOUND };
    for fault in [Fault::SenderFenceForgotten, Fault::ReceiverFenceForgotten, Fault::LastLookForgotten] {
        let found = explore(Ring::new(Rules { fault, ..calm })).expect_err(&format!("{fault:?}"));
        assert!(found.contains("nothing leads on"), "{fault:?}: {found}");
    }
}
