//! A group against a plain model, for any order of losses, repetitions, overtaking, joins and
//! leaves. A member that holds the window gets everything from its first datagram on. The other
//! members get whole frames in order, each once, and every frame that must not be lost.

use proptest::prelude::*;

use super::*;

const TOKEN: u64 = 9;
const LATE_NS: u64 = 1000;
const BUFFER: u64 = 32 * 1024;

/// A step of a run.
#[derive(Clone, Debug)]
enum Step {
    /// Sends a frame of `parts` datagrams, with a fate for each member and datagram. `kept`: the
    /// frame must not be lost.
    Send { parts: usize, kept: bool, fates: Vec<u8> },
    /// Adds a member of one of three kinds.
    Join(u8),
    /// Removes a member.
    Leave(usize),
    /// Passes records, asks, repairs and acknowledgements on, for one member.
    Settle(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let fates = proptest::collection::vec(0..8_u8, 12);
    prop_oneof![
        6 => (1..4_usize, 0..8_u8, fates)
            .prop_map(|(parts, kept, fates)| Step::Send { parts, kept: kept == 0, fates }),
        2 => (0..3_u8).prop_map(Step::Join),
        1 => (0..4_usize).prop_map(Step::Leave),
        3 => (0..4_usize).prop_map(Step::Settle),
    ]
}

fn terms(kind: u8) -> MemberTerms {
    MemberTerms { buffer: BUFFER, holds: kind == 0, is_repaired: kind < 2 }
}

/// A member, and the data in transit between the sender and the member.
struct Member {
    id: u64,
    terms: MemberTerms,
    receiver: SessionReceiver,
    /// The frames sent before the member came.
    first: usize,
    overtaken: Option<(DatagramHeader, Vec<u8>)>,
    to_receiver: Vec<u8>,
    records: RecordReader,
    asks: RecordReader,
    is_started: bool,
    parts: Vec<u8>,
    delivered: Vec<u8>,
    now_ns: u64,
}

impl Member {
    fn join(sender: &mut GroupSender, id: u64, kind: u8, first: usize) -> Self {
        let terms = terms(kind);
        let mut to_receiver = Vec::new();
        sender.join(id, terms, &DatagramCharges::default()).encode_to(&mut to_receiver);
        let mut member = Self {
            id,
            terms,
            receiver: SessionReceiver::new(terms.holds, LATE_NS, BUFFER),
            first,
            overtaken: None,
            to_receiver,
            records: RecordReader::new(true, 64),
            asks: RecordReader::new(false, 0),
            is_started: false,
            parts: Vec::new(),
            delivered: Vec::new(),
            now_ns: 0,
        };
        member.read();
        member
    }

    fn datagram(&mut self, header: DatagramHeader, bytes: &[u8], fate: u8) {
        let before = self.overtaken.take();
        match fate {
            0 | 1 => {}
            2 => (0..2).for_each(|_| self.arrive(header, bytes)),
            3 => self.overtaken = Some((header, bytes.to_vec())),
            _ => self.arrive(header, bytes),
        }
        if let Some((header, bytes)) = before {
            self.arrive(header, &bytes);
        }
    }

    fn arrive(&mut self, header: DatagramHeader, bytes: &[u8]) {
        assert!(self.is_started && header.token == TOKEN);
        let arrival = self.receiver.arrive(header.number, header.records).unwrap();
        self.place(arrival, header.number, header.span, bytes);
        self.take();
    }

    fn place(&mut self, arrival: DatagramArrival, number: u64, span: Span, bytes: &[u8]) {
        match arrival {
            DatagramArrival::Next => self.accept(span, bytes),
            DatagramArrival::Early => self.receiver.keep(number, span, bytes, self.now_ns),
            DatagramArrival::Old => {}
        }
    }

    fn accept(&mut self, span: Span, bytes: &[u8]) {
        if !self.receiver.continues(span) {
            return;
        }
        if span.begins {
            self.parts.clear();
        }
        self.parts.extend_from_slice(bytes);
        if span.ends {
            self.delivered.append(&mut self.parts);
        }
    }

    fn take(&mut self) {
        while let Some(taken) = self.receiver.take() {
            match taken {
                Taken::Datagram(span, bytes) => self.accept(span, &bytes),
                Taken::Lost => self.parts.clear(),
            }
        }
    }

    /// Takes the records that have arrived.
    fn read(&mut self) {
        self.records.feed(&std::mem::take(&mut self.to_receiver));
        while let Some(record) = self.records.next().unwrap() {
            match record {
                SessionRecord::Start { number, token } => {
                    assert_eq!((token, self.is_started), (TOKEN, false));
                    self.is_started = true;
                    self.receiver.start_at(number);
                }
                SessionRecord::Data { number, span, bytes } => {
                    let arrival = self.receiver.arrive_record(number).unwrap();
                    self.place(arrival, number, span, &bytes);
                }
                SessionRecord::Lost { number, count } => {
                    assert!(!self.terms.holds, "{number} is lost");
                    self.receiver.lose(number, count).unwrap();
                }
                SessionRecord::Sent { number } => self.receiver.announced(number, self.now_ns).unwrap(),
                SessionRecord::Ask { .. } => unreachable!(),
            }
            self.take();
        }
    }

    /// Passes everything on, both ways, and lets the time for missing datagrams pass.
    fn settle(&mut self, sender: &mut GroupSender) {
        if let Some(record) = sender.announce(self.id) {
            record.encode_to(&mut self.to_receiver);
        }
        for _ in 0..3 {
            self.read();
            self.now_ns += LATE_NS;
            if let Due::Ask(ranges) = self.receiver.due(self.now_ns, false) {
                let mut bytes = Vec::new();
                for (number, count) in ranges {
                    SessionRecord::Ask { number, count }.encode_to(&mut bytes);
                }
                self.asks.feed(&bytes);
            }
            while let Some(record) = self.asks.next().unwrap() {
                let SessionRecord::Ask { number, count } = record else { unreachable!() };
                for record in sender.answer(self.id, number, count) {
                    record.encode_to(&mut self.to_receiver);
                }
            }
        }
        sender.acknowledge(self.id, self.receiver.next()).unwrap();
    }

    /// Checks the delivered frames against the frames sent. For each frame, `frames` has the
    /// datagrams, and whether it must not be lost.
    fn check(&self, frames: &[(usize, bool)]) -> Result<(), TestCaseError> {
        let mut rest = &self.delivered[..];
        for (number, (parts, kept)) in frames.iter().enumerate().skip(self.first) {
            let is_it = |first: &[u8]| first.iter().all(|byte| *byte == number as u8);
            match rest.split_at_checked(*parts).filter(|(first, _)| is_it(first)) {
                Some((_, behind)) => rest = behind,
                None => {
                    prop_assert!(!kept && !self.terms.holds, "frame {} is missing: {:?}", number, self.terms)
                }
            }
        }
        prop_assert!(rest.is_empty(), "{:?} of {:?}", self.delivered, frames);
        Ok(())
    }
}

/// Sends a frame. A frame that must not be lost also goes as a record to the members that may miss
/// it.
fn send(sender: &mut GroupSender, members: &mut [Member], number: u8, step: (usize, bool, &[u8])) {
    let (parts, kept, fates) = step;
    let mut fates = fates.iter().cycle();
    for part in 0..parts {
        let span = Span { begins: part == 0, ends: part + 1 == parts };
        let header = sender.header(span);
        assert_eq!(header.number, sender.next());
        for member in &mut *members {
            if kept && !member.terms.holds {
                let bytes = vec![number];
                SessionRecord::Data { number: header.number, span, bytes }.encode_to(&mut member.to_receiver);
            }
            member.datagram(header, &[number], *fates.next().unwrap());
        }
        sender.sent(span, &[number]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn each_member_gets_what_it_asks_for(steps in proptest::collection::vec(step(), 1..60)) {
        let mut sender = GroupSender::new(TOKEN);
        let (mut members, mut frames): (Vec<Member>, Vec<(usize, bool)>) = (Vec::new(), Vec::new());
        let mut next_id = 0;
        for step in steps {
            match step {
                Step::Send { parts, kept, fates } => {
                    if !sender.has_room(parts) {
                        prop_assert!(members.iter().any(|member| member.terms.holds));
                        members.iter_mut().filter(|member| member.terms.holds).for_each(|member| member.settle(&mut sender));
                        prop_assert!(sender.has_room(parts), "a member that drops holds the window");
                    }
                    send(&mut sender, &mut members, frames.len() as u8, (parts, kept, &fates));
                    frames.push((parts, kept));
                }
                Step::Join(kind) => {
                    members.push(Member::join(&mut sender, next_id, kind, frames.len()));
                    next_id += 1;
                }
                Step::Leave(index) if index < members.len() => {
                    let mut member = members.remove(index);
                    for record in sender.rest(member.id) {
                        record.encode_to(&mut member.to_receiver);
                    }
                    sender.leave(member.id);
                    if let Some((header, bytes)) = member.overtaken.take() {
                        member.arrive(header, &bytes);
                    }
                    member.read();
                    // The datagrams that are missing now are given up.
                    while member.receiver.due(member.now_ns, true) == Due::Lost {
                        member.take();
                    }
                    member.check(&frames)?;
                }
                Step::Settle(index) => {
                    if let Some(member) = members.get_mut(index) {
                        member.settle(&mut sender);
                    }
                }
                Step::Leave(_) => {}
            }
            prop_assert_eq!(sender.is_held(), members.iter().any(|member| member.terms.holds));
        }
        for member in &mut members {
            if let Some((header, bytes)) = member.overtaken.take() {
                member.arrive(header, &bytes);
            }
            (0..3).for_each(|_| member.settle(&mut sender));
            prop_assert_eq!(member.receiver.next(), sender.next());
            prop_assert_eq!(sender.bytes_in_transit(member.id, None), 0);
            prop_assert_eq!(sender.announce(member.id), None);
            member.check(&frames)?;
        }
    }
}

#[test]
fn a_member_that_drops_holds_nothing_and_comes_back() {
    let mut sender = GroupSender::new(TOKEN);
    for kind in [1, 2] {
        let mut member = Member::join(&mut sender, u64::from(kind), kind, 0);
        let first = sender.next();
        for _ in 0..100_000 {
            assert!(sender.has_room(1000));
            let header = sender.header(Span::WHOLE);
            sender.sent(Span::WHOLE, &[7]);
            // The member is stopped from the third datagram on.
            if header.number < first + 3 {
                member.arrive(header, &[7]);
            }
        }
        // The member's window bounds the copies that are kept for it.
        assert!(sender.bytes_in_transit(u64::from(kind), None) <= BUFFER);
        let header = sender.header(Span::WHOLE);
        sender.sent(Span::WHOLE, &[8]);
        member.arrive(header, &[8]);
        (0..2).for_each(|_| member.settle(&mut sender));
        assert_eq!(member.receiver.next(), sender.next());
        let header = sender.header(Span::WHOLE);
        sender.sent(Span::WHOLE, &[9]);
        member.arrive(header, &[9]);
        assert_eq!(member.delivered.last(), Some(&9));
    }
}

#[test]
fn the_slowest_member_that_blocks_bounds_the_window() {
    let mut sender = GroupSender::new(TOKEN);
    let [mut fast, slow] = [0, 1].map(|id| Member::join(&mut sender, id, 0, 0));
    let mut sent = 0;
    while sender.has_room(1000) {
        let header = sender.header(Span::WHOLE);
        sender.sent(Span::WHOLE, &[1; 1000]);
        fast.arrive(header, &[1; 1000]);
        fast.settle(&mut sender);
        sent += 1;
    }
    // By the kernel's count, each datagram takes at most 3024 bytes.
    assert_eq!(sent, BUFFER / 4 * 3 / 3024);
    assert_eq!(sender.bytes_in_transit(slow.id, None), sent * 1000);
    assert_eq!(sender.bytes_in_transit(slow.id, Some(sent - 1)), 1000);
    // Only the slow member keeps more from being sent.
    assert!(sender.lets_send(fast.id, 1000, 1000) && !sender.lets_send(slow.id, 1000, 1000));
    // After the refusal, smaller frames wait, too.
    assert!(!sender.lets_send(slow.id, 20_000, 1000));
    sender.acknowledge(slow.id, 2).unwrap();
    assert!(sender.has_room(1000) && !sender.lets_send(slow.id, 1000, 1000));
    sender.sent(Span::WHOLE, &[1; 1000]);
    sender.sent(Span::WHOLE, &[1; 1000]);
    sent += 2;
    sender.acknowledge(fast.id, sent).unwrap();
    // A new member is not charged for datagrams sent before it joined.
    let late = Member::join(&mut sender, 2, 0, 0);
    // The group waits for a member that is stopped, and not for a member that has left.
    assert!(!sender.has_room(1000));
    sender.leave(slow.id);
    assert!(sender.has_room(1000));
    let error = sender.acknowledge(fast.id, sent + 1).unwrap_err();
    assert!(error.contains("which was not sent"), "{error}");
    // A datagram always fits if nothing else is in transit.
    assert!(sender.has_room(BUFFER as usize));
    sender.sent(Span::WHOLE, &[2]);
    assert!(sender.has_room(1000) && !sender.has_room(BUFFER as usize));
    // Half a window is enough for the largest frame, which leaves in parts.
    assert!(sender.lets_send(late.id, 1 << 30, 1000) && sender.lets_send(slow.id, 1000, 1000));
    assert_eq!(sender.announce(late.id), Some(SessionRecord::Sent { number: sent + 1 }));
    assert_eq!(sender.announce(late.id), None);
    // The same request is answered once.
    assert_eq!(sender.answer(fast.id, sent, 5).len(), 1);
    assert!(sender.answer(fast.id, sent, 5).is_empty());
    assert!(sender.answer(7, 0, 5).is_empty());
}

#[test]
fn what_has_come_is_delivered_between_what_is_lost() {
    let mut receiver = SessionReceiver::new(false, LATE_NS, BUFFER);
    receiver.announced(10, 0).unwrap();
    assert_eq!(receiver.due(LATE_NS, false), Due::Ask(vec![(0, 10)]));
    // The record was sent before the answer. Another record is far ahead.
    for number in [7, 1 << 20] {
        assert_eq!(receiver.arrive_record(number), Ok(DatagramArrival::Early));
        receiver.keep(number, Span::WHOLE, &[1], 0);
    }
    assert_eq!(receiver.arrive(1 << 20, 0), Ok(DatagramArrival::Old));
    receiver.lose(0, 10).unwrap();
    assert_eq!((receiver.take(), receiver.next()), (Some(Taken::Lost), 7));
    assert_eq!(receiver.take(), Some(Taken::Datagram(Span::WHOLE, vec![1])));
    assert_eq!((receiver.take(), receiver.next()), (Some(Taken::Lost), 10));
    assert_eq!((receiver.take(), receiver.lost()), (None, 9));
}

#[test]
fn what_was_asked_for_at_the_end_is_given_up() {
    let mut receiver = SessionReceiver::new(false, LATE_NS, BUFFER);
    assert_eq!(receiver.arrive(3, 0), Ok(DatagramArrival::Early));
    receiver.keep(3, Span::WHOLE, &[1], 0);
    assert_eq!(receiver.due(LATE_NS, false), Due::Ask(vec![(0, 3)]));
    assert_eq!(receiver.due(LATE_NS, true), Due::Lost);
    assert_eq!((receiver.take(), receiver.next()), (Some(Taken::Lost), 3));
    assert_eq!(receiver.take(), Some(Taken::Datagram(Span::WHOLE, vec![1])));
    assert_eq!(receiver.due(LATE_NS, true), Due::Nothing);
}
