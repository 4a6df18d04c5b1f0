//! The model over a ring: `ring/ack_wait.rs`, `ring/acks.rs`. Stores wait in a store buffer, as on
//! x86, until the processor writes them out or a fence runs. The buffer is the reason for the
//! fences. The other side sees the doorbell at once. The same holds for the kernel's report of a
//! death (`RingShared::remove_reader`: a lock, then the same doorbell). The poll every 100 ms is
//! left out: it exists for hostile peers.

use super::{Fault, NAMES, Rules, SOUND, Truth, awaited, check_end};
use crate::explorer::{System, explore};
use crate::flow::AckState;
use crate::transport::ring::decode_ack;

/// The sender, at a line of `wait_acks`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Publish,
    /// `poll_acks`, `detach_departed`, and the verdict.
    Poll,
    /// `reader.cursor.set_waiting(true)`
    Announce,
    /// `sleep_fence`
    Fence,
    /// `sleep_for_acks`: the sleep on the doorbell.
    Sleep,
    /// `sleep_for_acks`: `drain_doorbell`.
    Drain,
}

/// A receiver, at a line of `RingAckSender::send`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum ReaderStep {
    Nothing,
    Fence,
    CheckWaiting,
    Ring,
}

#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
struct Page {
    // In memory, visible to both: numbers plus 1.
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
    step: ReaderStep,
    /// Whether the reader was there when the packet was sent, and whether the sender still waits
    /// for it.
    is_counted: bool,
    awaited: bool,
    truth: Truth,
    /// Whether the kernel has reported the reader's death, and whether the reader has been
    /// detached.
    departed: bool,
    gone: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Ring {
    rules: Rules,
    readers: Vec<Reader>,
    sent: u64,
    at: At,
    /// Whether the sender has announced sleep in this wait.
    sleeps: bool,
    doorbell: bool,
    has_passed: bool,
    problem: Option<(usize, AckState)>,
}

impl Ring {
    fn new(rules: Rules) -> Self {
        let reader = Reader {
            page: Page::default(),
            queue: Vec::new(),
            step: ReaderStep::Nothing,
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
            doorbell: false,
            has_passed: false,
            problem: None,
        }
    }

    fn publish(&self) -> Option<Self> {
        let mut after = self.clone();
        for reader in &mut after.readers {
            // The sender waits for a dead reader until it is detached.
            (reader.awaited, reader.is_counted) = (!reader.gone, !reader.gone);
            if !reader.truth.dead {
                reader.queue.push(self.sent);
            }
        }
        (after.sent, after.at, after.has_passed) = (self.sent + 1, At::Poll, false);
        (self.sent < self.rules.packets).then_some(after)
    }

    /// Returns the state that the sender reads in a page. The sender's own stores come before the
    /// stores not yet written out.
    fn acked(&self, index: usize) -> AckState {
        let page = &self.readers[index].page;
        decode_ack(self.sent - 1, page.refused, page.done, || "no".into())
    }

    fn poll(&self) -> Result<Self, String> {
        let mut after = self.clone();
        let expected = awaited(self.sent - 1, self.rules.scope);
        for (index, name) in NAMES.into_iter().enumerate().take(self.readers.len()) {
            let state = self.acked(index);
            if let AckState::Violation(violation) = &state {
                return Err(format!("an honest receiver {violation}"));
            }
            let reader = &mut after.readers[index];
            // `detach_departed`, `final_ack`.
            let is_seen_out = reader.departed && !reader.gone;
            reader.gone |= reader.departed;
            if !reader.awaited {
                continue;
            }
            let state = if is_seen_out && state == AckState::Pending { AckState::PeerGone } else { state };
            if let Some(outcome) = expected.outcome(name, state.clone()) {
                reader.awaited = false;
                if outcome.is_err() {
                    after.problem.get_or_insert((index, state));
                }
            }
        }
        let open =
            (0..after.readers.len()).filter(|index| after.readers[*index].awaited).map(|index| NAMES[index]);
        match expected.result(open, None, self.has_passed) {
            None => after.at = if self.sleeps { At::Sleep } else { At::Announce },
            Some(result) => {
                let problem = after.problem.take();
                let problem = problem.and_then(|(index, state)| expected.outcome(NAMES[index], state));
                let counted = NAMES.into_iter().zip(&self.readers).filter(|(_, reader)| reader.is_counted);
                let truth: Vec<_> = counted.map(|(name, reader)| (name, &reader.truth)).collect();
                let outcome = problem.unwrap_or(result);
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

    /// Returns the state after the sender's next step.
    fn proceed(&self) -> Result<Option<Self>, String> {
        let mut after = self.clone();
        match self.at {
            At::Publish => return Ok(self.publish()),
            At::Poll => return self.poll().map(Some),
            At::Announce => {
                after.readers.iter_mut().for_each(|reader| reader.page.sleeps_buffered = Some(true));
                (after.at, after.sleeps) = (At::Fence, true);
            }
            At::Fence => {
                if self.rules.fault != Fault::SenderFenceForgotten {
                    after.readers.iter_mut().for_each(Reader::write_out_sleeps);
                }
                after.at = if self.rules.fault == Fault::LastPollForgotten { At::Sleep } else { At::Poll };
            }
            At::Sleep if self.doorbell || self.has_passed => after.at = At::Drain,
            At::Sleep => return Ok(None),
            At::Drain => {
                after.doorbell = false;
                after.at = At::Poll;
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
                // `RingShared::remove_reader`, on the thread that the kernel wakes.
                may("a death is reported", &|ring| {
                    ring.readers[index].departed = true;
                    ring.doorbell = true;
                });
            }
            return steps;
        }
        if self.rules.may_die {
            may("a receiver dies", &|ring| {
                let reader = &mut ring.readers[index];
                // The reader's stores are not lost when it dies.
                reader.write_out();
                reader.truth.dead = true;
                reader.queue.clear();
            });
        }
        match reader.step {
            ReaderStep::Nothing => {
                let Some(&sequence) = reader.queue.first() else { return steps };
                may("a receiver finishes", &|ring| ring.readers[index].ack(sequence, false));
                if self.rules.may_refuse {
                    may("a receiver refuses", &|ring| ring.readers[index].ack(sequence, true));
                }
            }
            ReaderStep::Fence => may("a receiver runs its fence", &|ring| {
                if ring.rules.fault != Fault::ReceiverFenceForgotten {
                    ring.readers[index].write_out();
                }
                ring.readers[index].step = ReaderStep::CheckWaiting;
            }),
            ReaderStep::CheckWaiting => may("a receiver checks for a sleeper", &|ring| {
                let reader = &mut ring.readers[index];
                reader.step = if reader.page.sleeps { ReaderStep::Ring } else { ReaderStep::Nothing };
            }),
            ReaderStep::Ring => may("a receiver rings", &|ring| {
                ring.readers[index].step = ReaderStep::Nothing;
                ring.doorbell = true;
            }),
        }
        steps
    }
}

impl Reader {
    fn ack(&mut self, sequence: u64, refuses: bool) {
        // A later store is written out after an earlier one.
        self.write_out();
        self.queue.remove(0);
        self.page.buffered = Some((refuses, sequence + 1));
        if refuses {
            self.truth.refused.push(sequence);
        } else {
            self.truth.accepted.push(sequence);
            self.truth.finished.push(sequence);
        }
        self.step = ReaderStep::Fence;
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
    // Late acknowledgements of two readers, and deaths between two packets.
    walk(Rules { may_die: false, may_refuse: false, ..SOUND });
    walk(Rules { may_be_late: false, may_refuse: false, ..SOUND });
    println!("{states} states");
}

#[test]
fn faults_over_a_ring_are_found() {
    let calm = Rules { may_be_late: false, may_die: false, may_refuse: false, ..SOUND };
    for fault in [Fault::SenderFenceForgotten, Fault::ReceiverFenceForgotten, Fault::LastPollForgotten] {
        let found = explore(Ring::new(Rules { fault, ..calm })).expect_err(&format!("{fault:?}"));
        assert!(found.contains("nothing leads on"), "{fault:?}: {found}");
    }
}
