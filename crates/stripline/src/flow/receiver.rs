//! The receiving side of flow control, which withholds permission.

use super::message::NUMBER_MAX;
use super::{Body, FlowMessage, Incarnation};
use crate::terms::{Flow, Watermarks};

/// The state that a receiver keeps of its sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Receiver {
    high: u64,
    low: u64,
    own: Incarnation,
    /// Zero: no sender has been seen yet.
    sender: Incarnation,
    /// All packets with smaller numbers have arrived or been given up.
    pub(super) arrived: u64,
    /// The packets that have arrived and are not taken yet.
    pub(super) waiting: u64,
    announced: Announced,
    is_over: bool,
}

/// The permission that the receiver last announced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Announced {
    Granted(u64),
    Running { epoch: u64, is_stopped: bool },
}

/// The result of a packet's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Whether the packet goes to the queue. Otherwise it is a duplicate, late, or for another
    /// incarnation.
    pub is_taken: bool,
    /// Packets before this one that did not arrive and will no longer be accepted.
    pub lost: u64,
    /// The message to send to the sender.
    pub reply: Option<FlowMessage>,
}

impl Receiver {
    /// Returns a receiver with these watermarks. `sender` is the incarnation learned in the
    /// handshake. Without it, the receiver takes the first sender from which a packet comes.
    ///
    /// `None`: the link keeps no flow control.
    pub(crate) fn new(
        flow: Flow,
        marks: Watermarks,
        own: Incarnation,
        sender: Option<Incarnation>,
    ) -> Option<Self> {
        let (high, low) = (u64::from(marks.high()), u64::from(marks.low()));
        let announced = match flow {
            Flow::Transport => return None,
            Flow::Credit => Announced::Granted(if sender.is_some() { high } else { 0 }),
            Flow::StopResume => Announced::Running { epoch: 0, is_stopped: false },
        };
        let sender = sender.unwrap_or_default();
        Some(Self { high, low, own, sender, arrived: 0, waiting: 0, announced, is_over: false })
    }

    /// Records the arrival of the next packet, on a transport that loses no packets.
    ///
    /// # Errors
    /// A description of the sender's violation.
    pub(crate) fn arrive_next(&mut self) -> Result<Option<FlowMessage>, String> {
        self.arrive(self.sender, self.own, self.arrived).map(|arrival| arrival.reply)
    }

    /// Records the arrival of a packet with this sender, receiver and number.
    ///
    /// # Errors
    /// A description of the sender's violation.
    pub(crate) fn arrive(
        &mut self,
        sender: Incarnation,
        receiver: Incarnation,
        number: u64,
    ) -> Result<Arrival, String> {
        if number >= NUMBER_MAX {
            return Err(format!("sent packet {number}, beyond the limit of a connection"));
        }
        let is_for_us = receiver == self.own || receiver == Incarnation::default();
        if sender < self.sender {
            return Ok(Arrival { is_taken: false, lost: 0, reply: None });
        }
        if sender > self.sender {
            self.meet(sender, if is_for_us { 0 } else { number + 1 });
        }
        if !is_for_us {
            // The sender has not seen this receiver yet: all packets so far were for the
            // predecessor.
            let (lost, _) = self.give_up(number + 1);
            return Ok(Arrival { is_taken: false, lost, reply: Some(self.position()) });
        }
        if let Announced::Granted(until) = self.announced
            && number >= until
        {
            return Err(format!("sent packet {number}, where packets up to {until} were granted"));
        }
        if number < self.arrived {
            return Ok(Arrival { is_taken: false, lost: 0, reply: None });
        }
        let lost = number - self.arrived;
        self.arrived = number + 1;
        self.waiting += 1;
        let reply = match &mut self.announced {
            // Lost packets need no room, so a grant may be due already.
            Announced::Granted(_) => self.grant(),
            Announced::Running { epoch, is_stopped } => {
                let above = self.waiting.checked_sub(self.high);
                let stops = above.is_some() && !*is_stopped;
                if stops {
                    (*epoch, *is_stopped) = (*epoch + 1, true);
                }
                // A packet after the stop may mean that the stop was lost. Repeat the stop, at
                // growing intervals.
                (stops || above.is_some_and(u64::is_power_of_two)).then(|| self.position())
            }
        };
        Ok(Arrival { is_taken: true, lost, reply })
    }

    /// Records that a packet was taken from the queue. Returns the message to send, if any.
    pub(crate) fn take(&mut self) -> Option<FlowMessage> {
        self.waiting = self.waiting.saturating_sub(1);
        let is_low = self.waiting <= self.low;
        match &mut self.announced {
            Announced::Granted(_) => self.grant(),
            Announced::Running { is_stopped, .. } if *is_stopped && is_low => {
                *is_stopped = false;
                self.reply()
            }
            Announced::Running { .. } => None,
        }
    }

    /// Gives up the packets with numbers below `until` that have not arrived. Returns their number,
    /// and the message to send.
    pub(crate) fn give_up(&mut self, until: u64) -> (u64, Option<FlowMessage>) {
        let lost = until.saturating_sub(self.arrived);
        self.arrived += lost;
        let reply = if let Announced::Granted(_) = self.announced { self.grant() } else { None };
        (lost, reply)
    }

    /// Handles a message of the sender. Returns the message to send, if any.
    ///
    /// # Errors
    /// A description of the sender's violation.
    #[cfg_attr(not(test), allow(dead_code, reason = "for transports of datagrams; walked by the model"))]
    pub(crate) fn receive(&mut self, message: &FlowMessage) -> Result<Option<FlowMessage>, String> {
        let Body::Probe { sent, yours } = message.body else {
            return Err("sent a message that only a receiver sends".into());
        };
        if message.sender < self.sender {
            return Ok(None);
        }
        let knows_us = message.receiver == self.own;
        if message.sender > self.sender {
            self.meet(message.sender, sent);
        } else if knows_us && yours < u32::MAX {
            // The packets before these were for the predecessor.
            self.give_up(sent.saturating_sub(u64::from(yours)));
        } else if !knows_us && message.receiver != Incarnation::default() {
            // All packets were for the predecessor.
            self.give_up(sent);
        }
        Ok(Some(self.position()))
    }

    /// Records the end of the stream. Returns the last message to send.
    pub(crate) fn end(&mut self) -> FlowMessage {
        self.is_over = true;
        let body = Body::Over { arrived: self.arrived };
        FlowMessage { sender: self.sender, receiver: self.own, body }
    }

    /// Records the first contact with a sender that has sent `arrived` packets before, none of them
    /// for this receiver.
    fn meet(&mut self, sender: Incarnation, arrived: u64) {
        (self.sender, self.arrived) = (sender, arrived);
        self.announced = match self.announced {
            Announced::Granted(_) => Announced::Granted(self.until()),
            // The new sender counts its stops from 1 again.
            Announced::Running { .. } => Announced::Running { epoch: 0, is_stopped: false },
        };
    }

    /// Returns the number of packets that may be sent in total: the packets that have arrived, plus
    /// the free room.
    fn until(&self) -> u64 {
        self.arrived + self.high.saturating_sub(self.waiting)
    }

    /// Returns a new grant if credit and queued packets together have fallen to the low watermark.
    fn grant(&mut self) -> Option<FlowMessage> {
        let until = self.until();
        let Announced::Granted(granted) = &mut self.announced else { return None };
        if until < granted.saturating_add(self.high - self.low) {
            return None;
        }
        *granted = until;
        self.reply()
    }

    fn reply(&self) -> Option<FlowMessage> {
        (!self.is_over).then(|| self.position())
    }

    /// Returns a message that repeats the receiver's position.
    fn position(&self) -> FlowMessage {
        let body = match self.announced {
            Announced::Granted(until) => Body::Grant { until },
            Announced::Running { epoch, is_stopped: true } => Body::Stop { epoch },
            Announced::Running { epoch, is_stopped: false } => Body::Resume { epoch },
        };
        FlowMessage { sender: self.sender, receiver: self.own, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Incarnation = Incarnation(3);
    const THEM: Incarnation = Incarnation(7);

    fn receiver(flow: Flow) -> Receiver {
        Receiver::new(flow, Watermarks::new(4, None, Some(1)).unwrap(), ME, Some(THEM)).unwrap()
    }

    fn bodies(messages: impl IntoIterator<Item = Option<FlowMessage>>) -> Vec<Option<Body>> {
        messages.into_iter().map(|message| message.map(|message| message.body)).collect()
    }

    #[test]
    fn credit_comes_at_the_low_watermark() {
        let mut receiver = receiver(Flow::Credit);
        for round in 0..3 {
            let queued = bodies((0..if round == 0 { 4 } else { 3 }).map(|_| receiver.arrive_next().unwrap()));
            assert!(queued.iter().all(Option::is_none), "{queued:?}");
            assert_eq!(receiver.waiting, 4);
            let announced = bodies((0..3).map(|_| receiver.take()));
            assert_eq!(announced, [None, None, Some(Body::Grant { until: 4 + 3 * (round + 1) })]);
        }
        assert_eq!(receiver.end().body, Body::Over { arrived: 10 });
        assert_eq!(bodies((0..1).map(|_| receiver.take())), [None]);
    }

    #[test]
    fn stop_and_resume_come_at_the_watermarks() {
        let mut receiver = receiver(Flow::StopResume);
        for epoch in 1..4 {
            let queued = bodies((receiver.waiting..4).map(|_| receiver.arrive_next().unwrap()));
            let (last, before) = queued.split_last().unwrap();
            assert_eq!(*last, Some(Body::Stop { epoch }));
            assert!(before.iter().all(Option::is_none));
            // These packets were in transit; the stop is repeated now and then.
            let late = bodies((0..8).map(|_| receiver.arrive_next().unwrap()));
            let again = Some(Body::Stop { epoch });
            assert_eq!(late, [again, again, None, again, None, None, None, again]);
            let taken = bodies((0..11).map(|_| receiver.take()));
            let (last, before) = taken.split_last().unwrap();
            assert_eq!(*last, Some(Body::Resume { epoch }));
            assert!(before.iter().all(Option::is_none));
        }
    }

    #[test]
    fn what_is_lost_takes_no_credit() {
        let mut receiver = receiver(Flow::Credit);
        let arrival = receiver.arrive(THEM, ME, 2).unwrap();
        assert_eq!((arrival.is_taken, arrival.lost, arrival.reply), (true, 2, None));
        // Late packets, and duplicates.
        for number in [0, 1, 2] {
            assert!(!receiver.arrive(THEM, ME, number).unwrap().is_taken);
        }
        assert_eq!(bodies([receiver.take()]), [Some(Body::Grant { until: 7 })]);
        let (lost, reply) = receiver.give_up(7);
        assert_eq!((lost, bodies([reply])), (4, vec![Some(Body::Grant { until: 11 })]));
    }

    #[test]
    fn a_sender_that_overruns_its_credit_is_named() {
        let mut receiver = receiver(Flow::Credit);
        (0..4).for_each(|_| assert_eq!(receiver.arrive_next(), Ok(None)));
        let error = receiver.arrive_next().unwrap_err();
        assert_eq!(error, "sent packet 4, where packets up to 4 were granted");
        assert!(
            receiver.arrive(THEM, ME, u64::MAX).unwrap_err().contains("beyond the limit of a connection")
        );
        let grant = FlowMessage { sender: THEM, receiver: ME, body: Body::Grant { until: 1 } };
        assert!(receiver.receive(&grant).unwrap_err().contains("only a receiver"));
    }

    #[test]
    fn a_sender_that_restarts_gets_what_room_there_is() {
        let mut receiver = receiver(Flow::Credit);
        (0..3).for_each(|_| assert_eq!(receiver.arrive_next(), Ok(None)));
        let ask = |sender, receiver, sent| FlowMessage {
            sender,
            receiver,
            body: Body::Probe { sent, yours: sent as u32 },
        };
        let answer = receiver.receive(&ask(Incarnation(8), Incarnation(0), 0)).unwrap();
        assert_eq!(bodies([answer]), [Some(Body::Grant { until: 1 })]);
        assert_eq!(receiver.receive(&ask(THEM, ME, 4)), Ok(None), "messages of the predecessor are ignored");
        assert!(!receiver.arrive(THEM, ME, 3).unwrap().is_taken);
        assert!(receiver.arrive(Incarnation(8), ME, 0).unwrap().is_taken);
    }

    #[test]
    fn who_comes_in_a_dead_receivers_place_says_so() {
        let marks = Watermarks::new(4, None, None).unwrap();
        let mut successor = Receiver::new(Flow::Credit, marks, Incarnation(4), None).unwrap();
        let arrival = successor.arrive(THEM, ME, 9).unwrap();
        assert!(!arrival.is_taken);
        assert_eq!(bodies([arrival.reply]), [Some(Body::Grant { until: 14 })]);
        // The sender asks the predecessor for its position, and has sent more packets in the
        // meantime.
        let ask = FlowMessage { sender: THEM, receiver: ME, body: Body::Probe { sent: 12, yours: 3 } };
        let answer = successor.receive(&ask).unwrap();
        assert_eq!((bodies([answer]), successor.arrived), (vec![Some(Body::Grant { until: 16 })], 12));
    }
}
