//! Checks the records of the components, packet by packet, for each connection.

use std::collections::{BTreeMap, BTreeSet};

use super::log::{Origin, Record, WRONG};
use super::plan::{Connection, Plan, connection_name};

/// The life of a component from one start to its end.
#[derive(Default)]
pub struct Life {
    /// The times at which the component was created and started.
    made_ns: u64,
    started_ns: u64,
    /// The time at which the component was killed.
    killed_ns: Option<u64>,
    /// Whether no process of the component was killed before this start.
    is_first: bool,
    /// The number of packets that the component began to send.
    begun: u64,
    /// The number of packets sent: each send has returned.
    sent: u64,
    /// The number of packets sent, if the component returned without an error.
    done: Option<u64>,
    /// The received packets and gaps, in order.
    events: Vec<Record>,
}

impl Life {
    /// Returns whether all streams to this component have ended.
    fn has_ended(&self) -> bool {
        self.events.contains(&Record::Ended)
    }
}

/// Splits the records of a component at the starts. `kills` are the times at which the component
/// was killed.
///
/// # Errors
/// When a record breaks the contract by itself.
pub fn lives(records: &[Record], kills: &[u64]) -> Result<Vec<Life>, String> {
    let mut lives: Vec<Life> = Vec::new();
    for record in records {
        if let Record::Started { at_ns, made_ns } = record {
            lives.push(Life { made_ns: *made_ns, started_ns: *at_ns, ..Life::default() });
            continue;
        }
        if matches!(record, Record::Dies { .. }) {
            // The death may have been before the start.
            continue;
        }
        let life = lives.last_mut().ok_or("a log that begins without a start")?;
        match *record {
            Record::Begun(sequence) if sequence == life.begun => life.begun += 1,
            Record::Sent(sequence) if sequence + 1 == life.begun => life.sent = life.begun,
            Record::Begun(_) | Record::Sent(_) => return Err(format!("{record:?} after {}", life.begun)),
            // A stop may come before or after the packet is sent.
            Record::Done(sent) if sent == life.begun || sent == life.sent => life.done = Some(sent),
            Record::Done(_) => return Err(format!("{record:?}, with {} begun", life.begun)),
            Record::Wrong(what) => {
                return Err(WRONG.get(what as usize).copied().unwrap_or("an unknown record").into());
            }
            event => life.events.push(event),
        }
    }
    let starts: Vec<_> = lives.iter().skip(1).map(|life| life.started_ns).chain([u64::MAX]).collect();
    for (index, (life, next)) in lives.iter_mut().zip(starts).enumerate() {
        life.is_first = index == 0 && kills.iter().all(|at| *at > life.started_ns);
        life.killed_ns = kills.iter().copied().find(|at| (life.started_ns..next).contains(at));
    }
    Ok(lives)
}

/// The figures of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets sent, including packets that the sender was sending when it died.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets that were reported missing.
    pub missing: u64,
    /// Gaps reported.
    pub gaps: u64,
    /// Whether neither end was killed and the receiver got the end of the stream.
    pub is_whole: bool,
}

impl Count {
    /// Adds the figures of another connection, except for `is_whole`.
    pub fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.missing += other.missing;
        self.gaps += other.gaps;
    }

    /// Returns the number of packets that were neither received nor reported, in ways that the
    /// contract allows.
    pub fn unaccounted(&self) -> u64 {
        self.sent.saturating_sub(self.received + self.missing)
    }
}

/// Checks one connection.
///
/// # Errors
/// The first violation of the contract.
pub fn check(plan: &Plan, connection: &Connection, lives: &[Vec<Life>]) -> Result<Count, String> {
    let Connection { from, to, .. } = *connection;
    let (senders, receivers) = (&lives[from], &lives[to]);
    let sent = senders.iter().map(|life| life.begun).sum();
    let mut checker = Checker {
        connection,
        senders,
        inputs: plan.connections.iter().filter(|other| other.to == to).count(),
        positions: BTreeMap::new(),
        taken: BTreeMap::new(),
        count: Count { sent, ..Count::default() },
    };
    for (index, life) in receivers.iter().enumerate() {
        checker.receiver(life).map_err(|wrong| {
            let name = connection_name(from, to);
            format!("{name}, receiver started {index} times before: {wrong}\n{connection:?}")
        })?;
    }
    if let ([sender], [receiver]) = (&senders[..], &receivers[..]) {
        let is_untouched = |life: &Life| life.is_first && life.killed_ns.is_none();
        let is_untouched = is_untouched(sender) && is_untouched(receiver);
        if let Some(sent) = sender.done.filter(|_| is_untouched && receiver.has_ended()) {
            // A packet that could not be sent because of a stop does not count.
            checker.count = Count { sent, is_whole: true, ..checker.count };
        }
    }
    Ok(checker.count)
}

/// The position at which the receivers of a dead sender stopped: the minimum and the maximum.
type Position = (u64, u64);

struct Checker<'a> {
    connection: &'a Connection,
    senders: &'a [Life],
    /// The number of connections of the receiver.
    inputs: usize,
    /// The position of earlier receivers, by start of the sender.
    positions: BTreeMap<usize, Position>,
    /// The packet after the last one received, by start of the sender.
    taken: BTreeMap<usize, u64>,
    count: Count,
}

/// The state of one start of the receiver.
struct View<'a> {
    life: &'a Life,
    /// The start of the sender, the first packet of that start that was received or reported, and
    /// the next expected packet.
    current: Option<(usize, u64, u64)>,
    released: Option<u64>,
    is_ejected: bool,
}

impl Checker<'_> {
    fn receiver(&mut self, life: &Life) -> Result<(), String> {
        let mut view = View { life, current: None, released: None, is_ejected: false };
        let mut gap = None;
        let mut last_is_ours = false;
        let mut ends = BTreeSet::new();
        for event in &life.events {
            match *event {
                Record::Gap { sender, first, packets, is_restart } if sender == self.connection.from => {
                    gap = Some((first, packets, is_restart));
                }
                Record::Packet { origin: Origin { component, life }, sequence } => {
                    last_is_ours = component == self.connection.from;
                    if last_is_ours {
                        let gap = gap.take();
                        let known = view.current.map(|(life, _, next)| (life, next));
                        let before = self.positions.get(&life).copied();
                        self.packet(&mut view, life, sequence, gap).map_err(|wrong| {
                            format!(
                                "packet {sequence} of start {life} of the sender, gap {gap:?}: {wrong}; next \
                                 {known:?}, taken by the receiver before {before:?}"
                            )
                        })?;
                    }
                }
                Record::Released if last_is_ours => {
                    view.released = view.current.map(|(_, _, next)| next);
                }
                Record::Ejected(sender) if sender == self.connection.from => {
                    if self.connection.overflow != "eject" {
                        return Err("ejected without being asked".into());
                    }
                    self.leave(&mut view);
                    view.is_ejected = true;
                }
                Record::GapAtEnd { first, packets } => {
                    let is_new = ends.insert((first, packets));
                    if !is_new && self.inputs == 1 {
                        return Err("a gap at the end was reported twice".into());
                    }
                }
                Record::Ended => self.end(&view, &ends)?,
                _ => {}
            }
        }
        self.leave(&mut view);
        self.leave_unseen(life);
        Ok(())
    }

    fn packet(
        &mut self,
        view: &mut View<'_>,
        start: usize,
        sequence: u64,
        gap: Option<(u64, u64, bool)>,
    ) -> Result<(), &'static str> {
        let sender = self.senders.get(start).ok_or("its sender was never started")?;
        if sequence >= sender.begun {
            return Err("it was never sent");
        }
        if self.taken.insert(start, sequence + 1).is_some_and(|taken| sequence < taken) {
            return Err("it came twice, or out of order");
        }
        let missing = gap.filter(|(_, packets, _)| *packets > 0);
        let from = missing.map_or(sequence, |(first, _, _)| first);
        if missing.is_some_and(|(first, packets, _)| first.checked_add(packets) != Some(sequence)) {
            return Err("the gap does not end where the packet begins");
        }
        let first = match view.current {
            Some((current, first, expected)) if current == start => {
                if gap.is_some() && !self.connection.is_lossy() {
                    return Err("a receiver that blocks must not lose anything");
                }
                if gap.is_some_and(|(_, packets, is_restart)| is_restart || packets == 0) {
                    return Err("a restart was reported that did not happen");
                }
                if from != expected {
                    return Err("lost, or reported missing, other than the missing packets");
                }
                first
            }
            Some((current, ..)) if current > start => return Err("an older sender came back"),
            current => {
                let is_reported = gap.is_some_and(|(_, _, is_restart)| is_restart);
                if current.is_some_and(|(start, _, next)| !is_reported && !self.has_ended(start, next)) {
                    return Err("the sender's restart was not reported");
                }
                if current.is_some() {
                    self.outlived(view)?;
                }
                self.begin(view, start, from)?;
                self.leave(view);
                view.is_ejected = false;
                from
            }
        };
        self.count.received += 1;
        if let Some((_, packets, _)) = gap {
            self.count.missing += packets;
            self.count.gaps += 1;
        }
        view.current = Some((start, first, sequence + 1));
        Ok(())
    }

    /// Returns whether a start of the sender ended the stream before this packet number.
    ///
    /// A sender that is killed after the end of its stream is started again. The receiver has the
    /// whole stream, and the new stream begins without a gap.
    fn has_ended(&self, start: usize, next: u64) -> bool {
        self.senders[start].done == Some(next)
    }

    /// Checks the first packet of a sender that is received or reported missing.
    fn begin(&self, view: &View<'_>, start: usize, from: u64) -> Result<(), &'static str> {
        match self.positions.get(&start) {
            Some((least, _)) if from < *least => {
                Err("reported packets missing that the one before it has taken")
            }
            Some((_, most)) if from > *most && self.connection.resumes_exactly() => {
                Err("the gap does not begin where the one before it had stopped")
            }
            None if self.was_there(view.life, start) && from > 0 => Err("lost at the beginning"),
            _ => Ok(()),
        }
    }

    /// Returns whether the sender waited for this receiver before its first packet.
    ///
    /// A sender waits for all receivers that are running when it is created. At the start of a
    /// waveform, all components wait for each other.
    fn was_there(&self, receiver: &Life, start: usize) -> bool {
        let sender = &self.senders[start];
        receiver.started_ns < sender.made_ns || receiver.is_first && sender.is_first
    }

    /// Checks that the receiver has received all packets that the sender had sent before it died.
    fn outlived(&self, view: &View<'_>) -> Result<(), &'static str> {
        let (start, position) = match view.current {
            Some((start, _, next)) => (start, next),
            None => return Ok(()),
        };
        let lost = position < self.senders[start].sent;
        match lost && self.connection.outlives_sender() {
            true => Err("a dead sender's packets are missing that were fully sent"),
            false => Ok(()),
        }
    }

    /// Records the position of a receiver.
    fn leave(&mut self, view: &mut View<'_>) {
        // A packet is released before the next packet is received.
        if let Some((start, first, next)) = view.current.take() {
            let least = view.released.unwrap_or(first).min(next);
            self.positions.insert(start, (least, next));
        }
        view.released = None;
    }

    /// Records that a killed receiver got nothing from the senders that were started while it ran.
    fn leave_unseen(&mut self, life: &Life) {
        let Some(killed_ns) = life.killed_ns else { return };
        for (start, sender) in self.senders.iter().enumerate() {
            if life.started_ns < sender.made_ns && sender.started_ns < killed_ns {
                self.positions.entry(start).or_insert((0, 0));
            }
        }
    }

    /// Checks the end of all streams.
    fn end(&mut self, view: &View<'_>, gaps: &BTreeSet<(u64, u64)>) -> Result<(), String> {
        if view.is_ejected {
            return Ok(());
        }
        let Some((last, sender)) = self.senders.iter().enumerate().next_back() else { return Ok(()) };
        if view.current.is_some_and(|(start, _, next)| start != last && self.has_ended(start, next)) {
            return Ok(());
        }
        let sent = sender.done.ok_or("the end of the stream, and the sender has not ended it")?;
        let position = match view.current {
            Some((start, _, next)) if start == last => next,
            _ if self.was_there(view.life, last) => {
                self.outlived(view)?;
                0
            }
            // The receiver started after the sender had ended, or the receiver's last stream was an
            // earlier one.
            _ => return self.outlived(view).map_err(Into::into),
        };
        let at_end = gaps.iter().find(|(first, packets)| *first == position && first + packets == sent);
        if let Some((_, packets)) = at_end.filter(|(_, packets)| *packets > 0) {
            if !self.connection.is_lossy() {
                return Err("a receiver that blocks must not lose anything at the end".into());
            }
            self.count.missing += packets;
            self.count.gaps += 1;
        } else if position != sent {
            return Err(format!("the end after {position} of {sent} packets; gaps there: {gaps:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a plan with a connection from component 0 to component 1.
    fn plan(transport: &'static str, overflow: &'static str) -> Plan {
        let mut plan = Plan::new(0);
        let settings = Connection {
            from: 0,
            to: 1,
            transport,
            overflow,
            may_move: false,
            ..plan.connections[0].clone()
        };
        plan.connections = vec![Connection { scope: "transport", flow: "transport", ..settings }];
        plan
    }

    fn started(at_ns: u64) -> Record {
        Record::Started { at_ns, made_ns: at_ns }
    }

    /// Returns the records of a sender of `packets` packets.
    fn sends(at_ns: u64, packets: u64, done: bool) -> Vec<Record> {
        let packets = (0..packets).flat_map(|n| [Record::Begun(n), Record::Sent(n)]);
        let end = done.then_some(Record::Done(packets.clone().count() as u64 / 2));
        [started(at_ns)].into_iter().chain(packets).chain(end).collect()
    }

    /// Returns the records of packets, received and released, from one start of the sender.
    fn takes(life: usize, packets: impl IntoIterator<Item = u64>) -> Vec<Record> {
        let origin = Origin { component: 0, life };
        packets
            .into_iter()
            .flat_map(|sequence| [Record::Packet { origin, sequence }, Record::Released])
            .collect()
    }

    fn gap(first: u64, packets: u64, is_restart: bool) -> Vec<Record> {
        vec![Record::Gap { sender: 0, first, packets, is_restart }]
    }

    /// Checks the records of a sender and a receiver. `kills` has the times at which each was
    /// killed.
    fn judge(
        plan: &Plan,
        sender: &[Record],
        receiver: &[Vec<Record>],
        kills: [&[u64]; 2],
    ) -> Result<Count, String> {
        let lives = [lives(sender, kills[0])?, lives(&receiver.concat(), kills[1])?];
        check(plan, &plan.connections[0], &lives)
    }

    #[test]
    fn all_that_was_sent_is_received_once_and_in_order() {
        let plan = plan("shm", "block");
        let sender = sends(2, 5, true);
        let receiver = |events: Vec<Record>| vec![vec![started(1)], events, vec![Record::Ended]];
        let judge = |events| judge(&plan, &sender, &receiver(events), [&[], &[]]);
        let count = judge(takes(0, 0..5)).expect("nothing is wrong with it");
        assert_eq!((count.sent, count.received, count.unaccounted(), count.is_whole), (5, 5, 0, true));
        // A stop came before the last packet was sent.
        let stopped = [&sender[..sender.len() - 1], &[Record::Begun(5), Record::Done(5)]].concat();
        let count = super::tests::judge(&plan, &stopped, &receiver(takes(0, 0..5)), [&[], &[]]);
        assert_eq!(count.map(|count| (count.sent, count.is_whole)), Ok((5, true)));
        let bad = [
            takes(0, 0..4),
            takes(0, 1..5),
            takes(0, [0, 1, 3, 4]),
            takes(0, [0, 1, 1, 2, 3, 4]),
            takes(0, [0, 2, 1, 3, 4]),
            takes(0, 0..6),
            takes(1, 0..5),
            [takes(0, 0..2), gap(2, 1, false), takes(0, 3..5)].concat(),
            [takes(0, 0..2), gap(2, 0, true), takes(0, 2..5)].concat(),
            [takes(0, 0..5), vec![Record::Wrong(0)]].concat(),
        ];
        for events in bad {
            assert!(judge(events.clone()).is_err(), "{events:?}");
        }
    }

    #[test]
    fn a_receiver_that_drops_packets_is_told_each_of_them() {
        let plan = plan("tcp", "drop-oldest");
        let sender = sends(2, 5, true);
        let receiver = |events: Vec<Record>| vec![vec![started(1)], events, vec![Record::Ended]];
        let judge = |events| judge(&plan, &sender, &receiver(events), [&[], &[]]);
        let at_end = |first, packets| vec![Record::GapAtEnd { first, packets }];
        let good = [
            [gap(0, 2, false), takes(0, 2..5)].concat(),
            [takes(0, 0..2), gap(2, 1, false), takes(0, 3..5)].concat(),
            [takes(0, 0..2), at_end(2, 3)].concat(),
            at_end(0, 5),
        ];
        for events in good {
            let count = judge(events.clone()).unwrap_or_else(|wrong| panic!("{events:?}: {wrong}"));
            assert_eq!((count.received + count.missing, count.gaps), (5, 1));
        }
        let bad = [
            [gap(0, 1, false), takes(0, 2..5)].concat(),
            [takes(0, 0..2), gap(1, 2, false), takes(0, 3..5)].concat(),
            [takes(0, 0..2), at_end(2, 2)].concat(),
            vec![],
        ];
        for events in bad {
            assert!(judge(events.clone()).is_err(), "{events:?}");
        }
    }

    #[test]
    fn the_next_receiver_is_told_what_the_killed_one_had_not_taken() {
        let sender = sends(2, 9, true);
        let first = [vec![started(1)], takes(0, 0..3)];
        let unreleased = Record::Packet { origin: Origin { component: 0, life: 0 }, sequence: 3 };
        let judge = |transport, next: Vec<Record>| {
            let first = first.concat();
            let receiver = [first, vec![unreleased, started(9)], next, vec![Record::Ended]];
            judge(&plan(transport, "block"), &sender, &receiver, [&[], &[5]])
        };
        for transport in ["shm", "uds"] {
            for from in [3, 4] {
                let next = [gap(from, 6 - from, true), takes(0, 6..9)].concat();
                assert!(judge(transport, next).is_ok(), "{transport} {from}");
            }
            assert!(judge(transport, [gap(2, 4, true), takes(0, 6..9)].concat()).is_err());
            assert!(judge(transport, takes(0, 3..9)).is_err(), "the fourth packet twice");
        }
        // Packets that the kernel had accepted for the dead receiver count as received.
        let later = || [gap(5, 1, true), takes(0, 6..9)].concat();
        assert_eq!(judge("uds", later()).expect("that is allowed").unaccounted(), 1);
        assert!(judge("shm", later()).is_err());
    }

    #[test]
    fn a_dead_senders_packets_are_all_received() {
        let plan = plan("uds", "block");
        let sender = [sends(2, 5, false), sends(9, 1, true)].concat();
        let judge = |taken: u64, told: Vec<Record>| {
            let receiver = [vec![started(1)], takes(0, 0..taken), told, takes(1, 0..1), vec![Record::Ended]];
            judge(&plan, &sender, &receiver, [&[5], &[]])
        };
        assert!(judge(5, gap(5, 0, true)).is_ok());
        assert!(judge(5, vec![]).is_err(), "its restart was not reported");
        assert!(judge(4, gap(4, 0, true)).is_err(), "the last packet is missing");
        let early = [vec![started(1)], takes(0, 0..5), vec![Record::Ended]];
        let sender = sends(2, 5, false);
        let of_dead = super::tests::judge(&plan, &sender, &early, [&[5], &[]]);
        assert!(of_dead.is_err(), "the end of a stream that its sender has not ended");
        // The sender was killed after its end of stream, and the receiver took the whole stream.
        let sender = [sends(2, 5, true), sends(9, 1, true)].concat();
        let of_both = |taken| {
            let receiver = [vec![started(1)], takes(0, 0..taken), takes(1, 0..1), vec![Record::Ended]];
            super::tests::judge(&plan, &sender, &receiver, [&[5], &[]])
        };
        assert!(of_both(5).is_ok(), "{:?}", of_both(5));
        assert!(of_both(4).is_err(), "the last packet is missing");
        // The next start of the sender was killed before it could end the stream.
        let sender = [sends(2, 5, true), sends(9, 1, false)].concat();
        let of_first = super::tests::judge(&plan, &sender, &early, [&[5], &[]]);
        assert!(of_first.is_ok(), "{of_first:?}");
    }
}
