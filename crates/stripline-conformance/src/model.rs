//! Any sequence of operations on one thread, compared with the simplest model: a queue for each
//! receiver.

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use stripline::node::{Node, Publisher, Subscriber};
use stripline::{Error, Gap, GapReason, Received};

use crate::support::{await_that, expect_end, node, take};

/// The number of packets that may wait on every transport. `send` is only called if it cannot
/// block.
const DEPTH: usize = 8;
/// The number of packets left in the queue when a sender that was refused as full resumes.
const LOW: usize = 6;
const TOPIC: &str = "modelled";

#[derive(Clone, Debug)]
enum Operation {
    Send(usize),
    TrySend(usize),
    SendTooMuch,
    /// A number of packets, and the samples of each.
    SendMany(usize, usize),
    Loan {
        samples: usize,
        sent: bool,
    },
    Describe(u8),
    /// Receives with one of the present receivers.
    Receive(usize),
    TryReceive(usize),
    /// Receives up to this number of packets with one of the receivers.
    Drain(usize, usize),
    Join,
    Leave(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{
        Describe, Drain, Join, Leave, Loan, Receive, Send, SendMany, SendTooMuch, TryReceive, TrySend,
    };
    prop_oneof![
        6 => (0..500_usize).prop_map(Send),
        6 => (0..500_usize).prop_map(TrySend),
        1 => Just(SendTooMuch),
        6 => (1..6_usize, 0..500_usize).prop_map(|(packets, samples)| SendMany(packets, samples)),
        2 => (0..500_usize, any::<bool>()).prop_map(|(samples, sent)| Loan { samples, sent }),
        1 => (0..3_u8).prop_map(Describe),
        10 => any::<usize>().prop_map(Receive),
        3 => any::<usize>().prop_map(TryReceive),
        5 => (any::<usize>(), 1..10_usize).prop_map(|(index, limit)| Drain(index, limit)),
        1 => Just(Join),
        1 => any::<usize>().prop_map(Leave),
    ]
}

pub fn any_sequence_of_operations_matches_the_model(transport: &'static str) {
    // A loan that found no room blocks the sender down to the low watermark, like a send.
    let send = || Operation::TrySend(1);
    let mut refused_loan = vec![Operation::Join, send(), Operation::Receive(0), Operation::TryReceive(0)];
    refused_loan.extend((0..9).map(|_| send()));
    refused_loan.push(Operation::Loan { samples: 1, sent: true });
    refused_loan.extend([Operation::Receive(0), Operation::Receive(0), Operation::Send(1)]);
    perform_all(transport, &refused_loan);
    let config = Config { cases: 40, failure_persistence: None, ..Config::default() };
    let operations = proptest::collection::vec(operation(), 1..120);
    let outcome = TestRunner::new(config).run(&operations, |operations| {
        perform_all(transport, &operations);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn perform_all(transport: &str, operations: &[Operation]) {
    let node = node(transport, &format!("depth = {DEPTH}\nbuffer = 65536\nflow = \"transport\""));
    let mut model =
        Model::new(&node, ["mqueue", "zeromq", "iceoryx2", "zenoh", "dds", "corba"].contains(&transport));
    operations.iter().for_each(|operation| model.perform(&node, operation));
    model.end();
}

#[derive(Clone, Debug, PartialEq)]
struct Expected {
    sequence: u64,
    samples: Vec<u16>,
    stream: String,
}

struct Seat {
    subscriber: Subscriber<u16>,
    queue: VecDeque<Expected>,
    /// The most stream descriptions that may be unread among the packets.
    descriptions: usize,
    /// Whether the queue may have been full. The queue then takes nothing until it is down to the
    /// low watermark.
    held: bool,
    /// Whether this receiver took the place of a receiver that left, and gets the gap of that
    /// receiver.
    may_resume: bool,
}

struct Model {
    publisher: Publisher<u16>,
    seats: Vec<Seat>,
    sequence: u64,
    stream: String,
    /// Whether every receiver has got the stream description.
    described: bool,
    somebody_left: bool,
    /// Whether a receiver's room is counted in messages or packets, not in bytes.
    counts_messages: bool,
}

impl Model {
    fn new(node: &Node, counts_messages: bool) -> Self {
        let publisher = node.publisher(TOPIC).unwrap();
        let (seats, stream) = (Vec::new(), TOPIC.into());
        let (described, somebody_left) = (false, false);
        Self { publisher, seats, sequence: 0, stream, described, somebody_left, counts_messages }
    }

    /// Returns whether every receiver is certain to take another packet. A description may wait in
    /// addition to the packets.
    fn has_room(&self) -> bool {
        self.has_room_for(1)
    }

    fn has_room_for(&self, packets: usize) -> bool {
        let spare = if self.counts_messages { DEPTH / 2 } else { 0 };
        let needed = packets - 1 + usize::from(!self.described) + spare;
        self.seats.iter().all(|seat| seat.has_room(needed))
    }

    /// Records an attempt to send. The pending description is sent first, and stays sent.
    fn describe(&mut self) {
        if !std::mem::replace(&mut self.described, true) {
            self.seats.iter_mut().for_each(|seat| seat.descriptions += 1);
        }
    }

    fn await_seats(&mut self) {
        let count = self.seats.len();
        await_that("present receivers are attached", || self.publisher.receivers() == count);
    }

    fn accepted(&mut self, samples: Vec<u16>) {
        let expected = Expected { sequence: self.sequence, samples, stream: self.stream.clone() };
        for seat in &mut self.seats {
            seat.queue.push_back(expected.clone());
            seat.held = false;
        }
        self.sequence += 1;
    }

    /// Records that a packet found no room.
    fn refused(&mut self, error: &Error, had_room: bool) {
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert!(!had_room, "full although every receiver has space");
        self.seats.iter_mut().for_each(|seat| seat.held |= !seat.has_room(1));
        // The description may have found no room, and is then still pending.
        self.described = false;
    }

    fn perform(&mut self, node: &Node, operation: &Operation) {
        use Operation::{Loan, Send, TrySend};
        let samples = |count: usize, sequence: u64| vec![sequence as u16; count];
        let had_room = self.has_room();
        if matches!(operation, Send(_) | TrySend(_) | Loan { .. }) {
            self.describe();
            if had_room && self.counts_messages {
                // A thread may still hold a packet that was sent while the queue was full.
                await_that("there is room again", || self.publisher.try_loan(1).is_ok());
            }
        }
        match *operation {
            Operation::Send(count) if had_room => {
                let samples = samples(count, self.sequence);
                self.publisher.send(&samples).unwrap();
                self.accepted(samples);
            }
            Operation::Send(count) | Operation::TrySend(count) => {
                let samples = samples(count, self.sequence);
                match self.publisher.try_send(&samples) {
                    Ok(()) => self.accepted(samples),
                    Err(error) => self.refused(&error, had_room),
                }
            }
            Operation::SendTooMuch => {
                let samples = vec![0; self.publisher.in_place_samples_max() + 1];
                assert!(matches!(self.publisher.try_send(&samples), Err(Error::TooLarge { .. })));
            }
            Operation::SendMany(packets, count) if self.has_room_for(packets) => {
                self.describe();
                let first = self.sequence;
                let write = |index: usize, place: &mut [u16]| place.fill(first as u16 + index as u16);
                self.publisher.send_many(packets, count, write).unwrap();
                for sequence in first..first + packets as u64 {
                    self.accepted(samples(count, sequence));
                }
            }
            Operation::Loan { samples: count, sent } => {
                let samples = samples(count, self.sequence);
                let loaned = self.publisher.try_loan(count).map(|mut loan| {
                    loan.copy_from_slice(&samples);
                    if sent { loan.send() } else { Ok(()) }
                });
                match loaned {
                    Ok(outcome) if sent => {
                        outcome.unwrap();
                        self.accepted(samples);
                    }
                    Ok(_) => {}
                    Err(error) => self.refused(&error, had_room),
                }
            }
            Operation::Describe(number) => {
                let stream = format!("stream {number}");
                self.described &= stream == self.stream;
                self.stream = stream;
                self.publisher.set_stream(stripline::StreamInfo::new(&self.stream));
            }
            Operation::Receive(index) | Operation::TryReceive(index) if !self.seats.is_empty() => {
                let index = index % self.seats.len();
                let waits = matches!(operation, Operation::Receive(_));
                self.seats[index].receive(waits);
            }
            Operation::Drain(index, limit) if !self.seats.is_empty() => {
                let index = index % self.seats.len();
                self.seats[index].drain(limit);
            }
            Operation::Join if self.seats.len() < 4 => {
                let subscriber = node.subscriber(TOPIC).unwrap();
                let may_resume = self.somebody_left;
                self.seats.push(Seat {
                    subscriber,
                    queue: VecDeque::new(),
                    descriptions: 0,
                    held: false,
                    may_resume,
                });
                self.described = false;
                self.await_seats();
            }
            Operation::Leave(index) if !self.seats.is_empty() => {
                self.seats.swap_remove(index % self.seats.len());
                self.somebody_left = true;
                self.await_seats();
            }
            Operation::Receive(_)
            | Operation::TryReceive(_)
            | Operation::Drain(..)
            | Operation::SendMany(..)
            | Operation::Join
            | Operation::Leave(_) => {}
        }
        assert_eq!(self.publisher.sequence(), self.sequence);
    }

    fn end(self) {
        let Self { publisher, mut seats, .. } = self;
        // The end needs room, too.
        for seat in &mut seats {
            while !seat.queue.is_empty() {
                seat.receive(true);
            }
        }
        publisher.finish().unwrap();
        seats.iter_mut().for_each(|seat| expect_end(&mut seat.subscriber));
    }
}

impl Seat {
    /// Returns whether the receiver is certain to take that many packets.
    fn has_room(&self, needed: usize) -> bool {
        let waiting = self.queue.len() + self.descriptions;
        waiting + needed <= DEPTH && !(self.held && waiting > LOW)
    }

    fn receive(&mut self, waits: bool) {
        let Some(expected) = self.queue.pop_front() else {
            assert!(matches!(self.subscriber.try_receive().unwrap(), Received::Empty));
            self.descriptions = 0;
            return;
        };
        if !waits && let Received::Packet(packet) = self.subscriber.try_receive().unwrap() {
            assert_eq!((packet.sequence(), packet.to_vec()), (expected.sequence, expected.samples));
            self.may_resume = false;
            return;
        }
        // While the kernel delivers, a receive without waiting may come too early, so this waits.
        let parcel = take(&mut self.subscriber);
        let got = Expected { sequence: parcel.sequence, samples: parcel.samples, stream: parcel.stream };
        assert_eq!(got, expected);
        self.check_gap(&expected, parcel.gap.as_ref());
    }

    fn drain(&mut self, limit: usize) {
        if self.queue.is_empty() {
            return self.receive(false);
        }
        let mut drained = Vec::new();
        let packets = self.subscriber.drain(limit, |packet| {
            let (sequence, stream) = (packet.sequence(), packet.stream().id.clone());
            drained.push((Expected { sequence, samples: packet.to_vec(), stream }, packet.gap().copied()));
        });
        assert_eq!(packets.unwrap(), drained.len());
        assert!((1..=limit).contains(&drained.len()));
        for (got, gap) in drained {
            let expected = self.queue.pop_front().unwrap();
            assert_eq!(got, expected);
            self.check_gap(&expected, gap.as_ref());
        }
    }

    fn check_gap(&mut self, before: &Expected, gap: Option<&Gap>) {
        if let Some(gap) = gap {
            assert!(self.may_resume, "{gap:?}");
            assert_eq!((gap.reason, gap.first + gap.packets), (GapReason::PeerRestart, before.sequence));
        }
        self.may_resume = false;
    }
}
