//! Section 5: an end that is killed at every step, while the other end holds packets or a loan.
//!
//! Packets that were sent arrive, the next end resumes, and nothing is left behind.

use std::collections::BTreeSet;

use crate::languages::End;
use crate::leftovers::{abstract_names, meeting_point, names_of};
use crate::model::{Stream, behind, line};
use crate::pair::Pair;
use crate::support::{await_asleep, await_that};

/// The moments at which the end is killed: after the answer to the last command, or right after it
/// got the command.
const MOMENTS: [bool; 2] = [true, false];

/// Returns the steps, and the moments at each, at which the end is killed. Over memory, these are
/// all. Over sockets, each kill takes as long and leaves the rest to the system: there, the end is
/// killed once, while it holds the most.
fn kills(pair: &Pair, steps: usize) -> Vec<(usize, bool)> {
    let all = (1..=steps).flat_map(|step| MOMENTS.map(|moment| (step, moment)));
    all.filter(|kill| !pair.is_stream() || *kill == (steps, true)).collect()
}

/// The commands of a sender, with the number of packets of each. The last command leaves a loan
/// open.
const SENDER: [(&str, usize); 6] = [
    ("publish out numbers u8", 0),
    ("receivers out 1", 0),
    ("send out 1 40", 1),
    ("send out 2 40", 2),
    ("send out 20 40", 20),
    ("loan out 40", 0),
];

/// The commands of a receiver.
const RECEIVER: [&str; 6] = [
    "subscribe in numbers u8 4",
    "hold in a 60000",
    "hold in b 60000",
    "release a",
    "take in 3 60000",
    "hold in c 60000",
];

/// Executes the commands of an end; `is_answered` is whether the last one has been answered.
fn perform<'a>(end: &mut End, commands: impl Iterator<Item = &'a str>, is_answered: bool) {
    let mut commands = commands.peekable();
    while let Some(command) = commands.next() {
        end.begin(command);
        if is_answered || commands.peek().is_some() {
            end.answer();
        }
    }
}

pub fn a_sender_killed_at_every_step(pair: &mut Pair) {
    let before = Inventory::of_warm(pair, "in");
    for (steps, is_answered) in kills(pair, SENDER.len()) {
        pair.open("");
        pair.receiver().ok("subscribe in numbers u8 4");
        perform(pair.sender(), SENDER[..steps].iter().map(|step| step.0), is_answered);
        let names = pair.names();
        pair.kill_sender();
        let most: usize = SENDER[..steps].iter().map(|step| step.1).sum();
        let least = if is_answered { most } else { SENDER[..steps - 1].iter().map(|step| step.1).sum() };
        // The receiver holds the first packets while the rest arrives.
        let tokens = Stream::default().send(most, &[40]);
        let mut held = Vec::new();
        for key in ["a", "b"] {
            // Packets that were sent arrive at once; of a send under way, perhaps none.
            let wait = if held.len() < least { "60000" } else { "0" };
            let token = pair.receiver().order(&format!("hold in {key} {wait}"));
            if token == "empty" {
                break;
            }
            held.push((key, token));
        }
        let mut found: Vec<String> = held.iter().map(|held| held.1.clone()).collect();
        let rest = least.saturating_sub(found.len());
        let answer = pair.receiver().order(&format!("take in {rest} 60000"));
        found.extend(answer.split(' ').filter(|word| *word != "done").map(String::from));
        let receiver = pair.receiver();
        await_that("the end is noticed", || {
            let answer = receiver.order("take in 1 0");
            found.extend(
                answer.split(' ').filter(|word| !matches!(*word, "done" | "empty")).map(String::from),
            );
            answer == "empty" && receiver.order("peers in") == "ok 0"
        });
        assert!(found.len() >= least, "{steps} {is_answered}: {found:?}");
        assert_eq!(found, tokens[..found.len()], "{steps} {is_answered}");
        for (key, token) in &held {
            pair.receiver().expect(&format!("check {key}"), token);
        }
        // The next sender continues where the first one ended.
        pair.sender().ok("publish out numbers u8");
        pair.sender().ok("receivers out 1");
        pair.sender().expect("send out 2 40", "ok 2");
        pair.sender().ok("finish out 60000");
        for (key, _) in &held {
            pair.receiver().ok(&format!("release {key}"));
        }
        let plain = Stream::default().send(2, &[40]);
        let resumed = behind(&format!("peer-restart:{}:0:0", found.len()), plain.clone());
        let answer = pair.receiver().order("take in 3 60000");
        // A sender that was killed early may not have been connected.
        let is_plain = found.is_empty() && answer == line(&plain, "ended");
        assert!(is_plain || answer == line(&resumed, "ended"), "{steps} {is_answered}: {answer}");
        pair.close();
        before.is_all(&names, pair.receiver());
    }
}

/// Kills a sender that waits for room, because the receiver takes nothing. The packets of all sends
/// that returned arrive.
pub fn a_sender_killed_while_it_waits_for_room(pair: &mut Pair) {
    pair.open("flow = 'transport';");
    pair.receiver().ok("subscribe in numbers u8 4");
    for command in ["publish out numbers u8", "receivers out 1"] {
        pair.sender().ok(command);
    }
    let mut sent = 0;
    loop {
        pair.sender().begin("send out 1 60000");
        await_asleep(pair.sender().id());
        if pair.sender().is_silent() {
            break;
        }
        sent += 1;
    }
    pair.kill_sender();
    let tokens = Stream::default().send(sent, &[60000]);
    let answer = pair.receiver().order(&format!("take in {sent} 60000"));
    assert_eq!(answer, line(&tokens, "done"));
    pair.close();
}

pub fn a_receiver_killed_at_every_step(pair: &mut Pair) {
    let before = Inventory::of_warm(pair, "out");
    for (steps, is_answered) in kills(pair, RECEIVER.len()) {
        pair.open("");
        pair.sender().ok("publish out numbers u8");
        let (first, rest) = RECEIVER[..steps].split_at(1);
        perform(pair.receiver(), first.iter().copied(), is_answered || steps > 1);
        if is_answered || steps > 1 {
            pair.sender().ok("receivers out 1");
        }
        pair.sender().expect("send out 8 40", "ok 8");
        pair.sender().expect("loan out 40", "lent");
        perform(pair.receiver(), rest.iter().copied(), is_answered);
        let names = pair.names();
        pair.kill_receiver();
        // The loan still belongs to the sender, and the send waits for nothing.
        pair.sender().expect("commit", "ok 9");
        Pair::await_peers(pair.sender(), "out", 0);
        pair.sender().expect("send out 2000 40", "ok 2009");
        pair.receiver().ok("subscribe in numbers u8 0");
        pair.sender().ok("receivers out 1");
        pair.sender().expect("send out 2 40", "ok 2011");
        pair.sender().ok("finish out 60000");
        let answer = pair.receiver().order("take in 3 60000");
        let gap = answer.strip_suffix(" 2010/80400/40 ended").and_then(|it| it.strip_prefix("2009/80360/40"));
        let gap = gap.unwrap_or_else(|| panic!("{steps} {is_answered}: {answer}"));
        if is_answered || steps > 1 {
            // The gap reaches from the first packet that was not finished to the first packet that
            // arrives.
            let numbers = gap.strip_prefix("/peer-restart:").unwrap_or_else(|| panic!("{steps}: {answer}"));
            let numbers: Vec<u64> = numbers.split(':').map(|number| number.parse().unwrap()).collect();
            // Packets that the kernel had accepted for the receiver were lost with it.
            let first_max = if pair.is_stream() { 9 } else { 6 };
            let counts = (numbers[0] + numbers[1], numbers[2]);
            assert!(numbers[0] <= first_max, "{steps}: {answer}");
            assert_eq!(counts, (2009, 40 * numbers[1]), "{steps}: {answer}");
        }
        pair.close();
        before.is_all(&names, pair.sender());
    }
}

/// The descriptors and threads of a process.
struct Inventory {
    descriptors: usize,
    threads: usize,
}

impl Inventory {
    /// Counts for an end which has waited for a packet before, and has ended everything. The
    /// descriptors and threads that the language keeps for all waits then exist.
    fn of_warm(pair: &mut Pair, name: &str) -> Self {
        pair.link("", 4);
        pair.receiver().begin("take in 2 60000");
        crate::support::await_asleep(pair.receiver().id());
        pair.sender().expect("send out 1 40", "ok 1");
        pair.sender().ok("finish out 60000");
        assert_eq!(pair.receiver().answer(), "0/0/40 ended");
        pair.close();
        let end = if name == "in" { pair.receiver() } else { pair.sender() };
        Self { descriptors: count(end, "fd"), threads: count(end, "task") }
    }

    /// Checks that the sockets are gone, and that the end has no more descriptors and threads than
    /// before.
    fn is_all(&self, names: &BTreeSet<String>, end: &End) {
        await_that("no socket is left", || abstract_names().is_disjoint(names));
        await_that("no thread is left", || count(end, "task") <= self.threads);
        await_that("no descriptor is left", || count(end, "fd") <= self.descriptors);
    }
}

fn count(end: &End, what: &str) -> usize {
    std::fs::read_dir(format!("/proc/{}/{what}", end.id())).unwrap().count()
}

impl Pair {
    /// Returns the names of the sockets of both ends, and of their domain.
    fn names(&mut self) -> BTreeSet<String> {
        let both = [self.sender().id(), self.receiver().id()];
        let mut names = names_of(both.into_iter());
        names.insert(meeting_point(self.domain()));
        names
    }
}
