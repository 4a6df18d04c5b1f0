//! A model that explores, with the real [`Sender`] and [`Receiver`], every order of events. Packets
//! and messages arrive, are lost, repeated or overtaken, and either side restarts. The numbers of
//! packets are small, but every state is visited.

use crate::explorer::{System, explore};

use super::{Body, ChannelKind, FlowMessage, Incarnation, Receiver, Sender};
use crate::terms::{Flow, Watermarks};

/// The events that are possible in a model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Rules {
    flow: Flow,
    high: u32,
    low: u32,
    /// Packets to be sent.
    packets: u8,
    /// The most packets, and the most messages in either direction, in transit.
    under_way: usize,
    /// Whether messages of flow control may be lost, repeated and overtaken.
    loses_messages: bool,
    /// Whether packets may be lost, repeated and overtaken.
    loses_packets: bool,
    /// The number of times that each side may restart.
    sender_restarts: u8,
    receiver_restarts: u8,
    /// The packets that have room above the high watermark.
    headroom: u64,
    fault: Fault,
}

/// The fault that is injected, to check that the model finds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    None,
    /// The receiver never sends a resume.
    ResumeForgotten,
    /// Grants are increments.
    GrantsAddUp,
    /// A sender without permission never asks for a position.
    NoProbes,
    /// Credit is given for queued packets, as if they were taken.
    CreditForNothing,
    /// The sender acts on the last message received, however old.
    StopsHaveNoNumbers,
}

const SOUND: Rules = Rules {
    flow: Flow::Credit,
    high: 2,
    low: 1,
    packets: 5,
    under_way: 2,
    loses_messages: false,
    loses_packets: false,
    sender_restarts: 0,
    receiver_restarts: 0,
    headroom: 0,
    fault: Fault::None,
};

/// A packet in transit. The content is the packet's place in the stream; the number is not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Packet {
    from: Incarnation,
    to: Incarnation,
    number: u64,
    content: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    rules: Rules,
    sender: Sender,
    /// The sender's own incarnation, which packets carry.
    life: Incarnation,
    receiver: Receiver,
    receiver_life: Incarnation,
    /// The content of the next packet.
    next: u8,
    packets: Vec<Packet>,
    grants: Vec<FlowMessage>,
    probes: Vec<FlowMessage>,
    queue: Vec<u8>,
    /// The packet delivered last, the packets delivered, and the packets reported lost.
    newest: Option<u8>,
    delivered: u8,
    lost: u64,
    /// The sum of grants in a faulty sender.
    added_up: u64,
}

const FIRST: Incarnation = Incarnation(1);

impl World {
    fn new(rules: Rules) -> Self {
        let marks = Watermarks::new(rules.high, None, Some(rules.low)).unwrap();
        Self {
            rules,
            sender: Sender::new(rules.flow, marks, Self::channel(&rules), FIRST, Some(FIRST)).unwrap(),
            life: FIRST,
            receiver: Receiver::new(rules.flow, marks, FIRST, Some(FIRST)).unwrap(),
            receiver_life: FIRST,
            next: 0,
            packets: Vec::new(),
            grants: Vec::new(),
            probes: Vec::new(),
            queue: Vec::new(),
            newest: None,
            delivered: 0,
            lost: 0,
            added_up: 0,
        }
    }

    fn channel(rules: &Rules) -> ChannelKind {
        if rules.loses_messages { ChannelKind::Lossy } else { ChannelKind::Ordered }
    }

    fn restarts(&self) -> bool {
        self.rules.sender_restarts + self.rules.receiver_restarts > 0
            || (self.life, self.receiver_life) != (FIRST, FIRST)
    }

    /// Sends a message of the receiver, which may be lost.
    fn reply(&mut self, message: Option<FlowMessage>) {
        let Some(message) = message else { return };
        let goes_on = matches!(message.body, Body::Resume { .. } | Body::Grant { .. });
        let forgotten = self.rules.fault == Fault::ResumeForgotten && goes_on;
        if !forgotten {
            self.grants.push(message);
        }
    }

    fn has_space_to_reply(&self) -> bool {
        // If nothing may be lost, the side that sends waits for room. More than 8 messages never
        // pile up.
        self.grants.len() < if self.rules.loses_messages { self.rules.under_way } else { 8 }
    }

    /// Returns the indices of the items in transit that may arrive next. Without reordering, only
    /// the first item may arrive next. With reordering, each item may, and the order in transit is
    /// irrelevant.
    fn arrivals(&self, lossy: bool, len: usize) -> std::ops::Range<usize> {
        0..if lossy { len } else { len.min(1) }
    }

    fn send(&self) -> Option<Self> {
        let may = self.sender.may_send() && self.next < self.rules.packets;
        if !may || self.packets.len() >= self.rules.under_way {
            return None;
        }
        let mut after = self.clone();
        after.packets.push(Packet {
            from: self.life,
            to: self.sender.receiver,
            number: self.sender.sent,
            content: self.next,
        });
        after.sender.send();
        after.next += 1;
        Some(after)
    }

    fn probe(&self) -> Option<Self> {
        if self.rules.fault == Fault::NoProbes || self.probes.len() >= self.rules.under_way.min(1) {
            return None;
        }
        // Ask a copy of the sender, at time 0: the interval between two asks is always over.
        let ask = self.sender.clone().next_probe(0)?;
        let mut after = self.clone();
        after.probes.push(ask);
        Some(after)
    }

    fn packet_comes(&self, index: usize) -> Result<Option<Self>, String> {
        let room = u64::from(self.rules.high) + self.rules.headroom;
        let is_full = self.receiver.waiting >= room;
        // A stream holds a packet back. A datagram that finds no room is lost.
        if is_full && !self.rules.loses_packets || !self.has_space_to_reply() {
            return Ok(None);
        }
        let mut after = self.clone();
        let packet = after.packets.remove(index);
        if is_full && self.rules.flow == Flow::StopResume {
            return Ok(Some(after));
        }
        let arrival = after.receiver.arrive(packet.from, packet.to, packet.number)?;
        after.lost += arrival.lost;
        if arrival.is_taken {
            after.queue.push(packet.content);
        }
        after.reply(arrival.reply);
        if self.rules.fault == Fault::CreditForNothing {
            after.reply(after.receiver.clone().take());
        }
        Ok(Some(after))
    }

    fn take(&self) -> Result<Option<Self>, String> {
        if self.queue.is_empty() || !self.has_space_to_reply() {
            return Ok(None);
        }
        let mut after = self.clone();
        let content = after.queue.remove(0);
        if self.newest.is_some_and(|newest| newest >= content) {
            return Err(format!("packet {content} was delivered twice, or after a later one"));
        }
        after.newest = Some(content);
        after.delivered += 1;
        let reply = after.receiver.take();
        after.reply(reply);
        Ok(Some(after))
    }

    fn is_received(&self, index: usize) -> Result<Self, String> {
        let mut after = self.clone();
        let mut message = after.grants.remove(index);
        match (self.rules.fault, &mut message.body) {
            (Fault::GrantsAddUp, Body::Grant { until }) => {
                // Add one packet each time, as if a grant were for one packet.
                after.added_up += 1;
                *until = u64::from(self.rules.high) + after.added_up;
            }
            (Fault::StopsHaveNoNumbers, Body::Stop { epoch } | Body::Resume { epoch }) => {
                *epoch = self.added_up + 1;
                after.added_up += 1;
            }
            _ => {}
        }
        after.sender.receive(&message)?;
        Ok(after)
    }

    fn is_probed(&self, index: usize, gives_up: bool) -> Result<Self, String> {
        let mut after = self.clone();
        let ask = after.probes.remove(index);
        let reply = after.receiver.receive(&ask)?;
        if gives_up && let (Body::Probe { sent, .. }, Some(_)) = (ask.body, reply) {
            let (lost, news) = after.receiver.give_up(sent);
            after.lost += lost;
            after.reply(news.or(reply));
        } else {
            after.reply(reply);
        }
        Ok(after)
    }

    fn sender_restarts(&self) -> Option<Self> {
        let mut after = self.clone();
        after.rules.sender_restarts = self.rules.sender_restarts.checked_sub(1)?;
        after.life = Incarnation(self.life.0 + 1);
        let marks = Watermarks::new(self.rules.high, None, Some(self.rules.low)).unwrap();
        after.sender = Sender::new(self.rules.flow, marks, ChannelKind::Lossy, after.life, None).unwrap();
        Some(after)
    }

    fn receiver_restarts(&self) -> Option<Self> {
        let mut after = self.clone();
        after.rules.receiver_restarts = self.rules.receiver_restarts.checked_sub(1)?;
        after.receiver_life = Incarnation(self.receiver_life.0 + 1);
        let marks = Watermarks::new(self.rules.high, None, Some(self.rules.low)).unwrap();
        after.receiver = Receiver::new(self.rules.flow, marks, after.receiver_life, None).unwrap();
        after.queue.clear();
        Some(after)
    }

    /// Adds the steps that only the channel takes, for one kind of item in transit.
    fn meddle<T: Copy>(
        &self,
        steps: &mut Vec<(&'static str, Self)>,
        words: [&'static str; 2],
        of: fn(&mut Self) -> &mut Vec<T>,
    ) {
        let len = of(&mut self.clone()).len();
        for index in 0..len {
            let mut after = self.clone();
            of(&mut after).remove(index);
            steps.push((words[0], after));
            if len < self.rules.under_way {
                let mut after = self.clone();
                let again = of(&mut after)[index];
                of(&mut after).push(again);
                steps.push((words[1], after));
            }
        }
    }
}

impl System for World {
    fn steps(&self) -> Result<Vec<(&'static str, Self)>, String> {
        let (messages, packets) = (self.rules.loses_messages, self.rules.loses_packets);
        let mut steps = Vec::new();
        let mut may = |word, after: Option<Self>| steps.extend(after.map(|after| (word, after)));
        may("a packet is sent", self.send());
        may("the sender asks", self.probe());
        may("a packet is taken", self.take()?);
        may("the sender restarts", self.sender_restarts());
        may("the receiver restarts", self.receiver_restarts());
        for index in self.arrivals(packets, self.packets.len()) {
            may("a packet comes", self.packet_comes(index)?);
        }
        for index in self.arrivals(messages, self.grants.len()) {
            may("the sender gets a message", Some(self.is_received(index)?));
        }
        for index in self.arrivals(messages, self.probes.len()) {
            if self.has_space_to_reply() {
                may("the receiver gets an ask", Some(self.is_probed(index, false)?));
                if packets {
                    may("the receiver gets an ask, and gives up", Some(self.is_probed(index, true)?));
                }
            }
        }
        if messages {
            self.meddle(&mut steps, ["a message is lost", "a message comes twice"], |world| {
                &mut world.grants
            });
            self.meddle(&mut steps, ["an ask is lost", "an ask comes twice"], |world| &mut world.probes);
        }
        if packets {
            self.meddle(&mut steps, ["a packet is lost", "a packet comes twice"], |world| &mut world.packets);
        }
        for (_, after) in &mut steps {
            // If the order in transit is irrelevant, states that differ only in this order are the
            // same.
            if messages {
                after.grants.sort();
                after.probes.sort();
            }
            if packets {
                after.packets.sort();
            }
        }
        Ok(steps)
    }

    fn check(&self) -> Result<(), String> {
        let waiting = self.queue.len() as u64;
        if waiting > u64::from(self.rules.high) + self.rules.headroom {
            return Err(format!("{waiting} packets wait"));
        }
        let gone = u64::from(self.delivered) + self.lost;
        if !self.restarts() && gone + waiting != self.receiver.arrived {
            return Err("packets are missing that were not reported".into());
        }
        if !self.rules.loses_packets && !self.restarts() && self.lost > 0 {
            return Err("packets were given up that come".into());
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.next == self.rules.packets && self.queue.is_empty() && self.packets.is_empty()
    }
}

fn states(rules: Rules) -> usize {
    let states = explore(World::new(rules)).unwrap_or_else(|found| panic!("{rules:?}\n{found}"));
    println!("{states} states: {rules:?}");
    states
}

/// The watermarks that a queue of two or three packets can have.
const WATERMARKS: [(u32, u32); 4] = [(1, 0), (2, 0), (2, 1), (3, 1)];

#[test]
fn nothing_is_lost_and_nobody_waits_for_ever_on_a_stream() {
    for flow in [Flow::Credit, Flow::StopResume] {
        for (high, low) in WATERMARKS {
            for under_way in [1, 3] {
                states(Rules { flow, high, low, under_way, packets: 8, ..SOUND });
            }
        }
    }
}

#[test]
fn messages_may_be_lost_repeated_and_overtaken() {
    for flow in [Flow::Credit, Flow::StopResume] {
        for (high, low) in WATERMARKS {
            assert!(states(Rules { flow, high, low, loses_messages: true, ..SOUND }) > 500);
        }
    }
}

#[test]
fn packets_may_be_lost_as_well() {
    for (high, low) in [(1, 0), (2, 0), (2, 1)] {
        let packets = if high == 1 { 3 } else { 4 };
        let rules = Rules { high, low, packets, loses_messages: true, loses_packets: true, ..SOUND };
        assert!(states(rules) > 1000);
        // Packets in transit at the stop need room above the high watermark. If there is no room,
        // they are lost and counted.
        for headroom in [0, 1] {
            states(Rules { flow: Flow::StopResume, headroom, ..rules });
        }
    }
}

#[test]
fn either_side_may_restart_at_any_time() {
    for flow in [Flow::Credit, Flow::StopResume] {
        for (sender_restarts, receiver_restarts) in [(1, 0), (0, 1), (1, 1)] {
            let rules = Rules { flow, loses_messages: true, sender_restarts, receiver_restarts, ..SOUND };
            states(Rules { packets: 3, ..rules });
            if sender_restarts + receiver_restarts == 1 {
                states(Rules { packets: 3, loses_packets: true, headroom: 1, ..rules });
            }
        }
    }
}

/// Checks that the model finds each injected fault.
#[test]
fn faults_are_found() {
    let lossy = Rules { loses_messages: true, ..SOUND };
    let stops = Rules { flow: Flow::StopResume, ..SOUND };
    for (fault, rules, finds) in [
        (Fault::ResumeForgotten, stops, "nothing leads on"),
        (Fault::ResumeForgotten, SOUND, "nothing leads on"),
        (Fault::GrantsAddUp, lossy, "granted packets up to"),
        (Fault::NoProbes, lossy, "nothing leads on"),
        (Fault::NoProbes, Rules { flow: Flow::StopResume, ..lossy }, "nothing leads on"),
        (Fault::CreditForNothing, Rules { headroom: 1, ..SOUND }, "where packets up to"),
        (Fault::StopsHaveNoNumbers, Rules { flow: Flow::StopResume, loses_packets: true, ..lossy }, ""),
    ] {
        let found =
            explore(World::new(Rules { fault, ..rules })).expect_err(&format!("{fault:?}: {rules:?}"));
        assert!(found.contains(finds), "{fault:?}: {found}");
    }
}
