//! The session against a plain model, for any order of losses, repetitions and overtaking. A
//! repaired session delivers everything. A session that reports losses delivers whole frames in
//! order, and counts the rest.

use proptest::prelude::*;

use super::*;

const TOKEN: u64 = 7;
const LATE_NS: u64 = 1000;
const BUFFER: u64 = 64 * 1024;

/// The fate of a datagram.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    IsLost,
    ComesTwice,
    /// The datagram comes after the next one.
    IsOvertaken,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Arrives),
        2 => Just(Fate::IsLost),
        1 => Just(Fate::ComesTwice),
        1 => Just(Fate::IsOvertaken),
    ]
}

/// A frame of `parts` datagrams; `kept`: the frame must not be lost.
#[derive(Clone, Copy, Debug)]
struct Frame {
    parts: usize,
    kept: bool,
}

fn frame() -> impl Strategy<Value = Frame> {
    (1..4_usize, 0..8).prop_map(|(parts, kept)| Frame { parts, kept: kept == 0 })
}

/// Both sides, and the data between them.
struct Run {
    is_repaired: bool,
    sender: SessionSender,
    receiver: SessionReceiver,
    overtaken: Option<(DatagramHeader, Vec<u8>)>,
    to_receiver: Vec<u8>,
    records: RecordReader,
    asks: RecordReader,
    parts: Vec<u8>,
    delivered: Vec<u8>,
    now_ns: u64,
}

impl Run {
    fn new(is_repaired: bool) -> Self {
        Self {
            is_repaired,
            sender: SessionSender::new(TOKEN, BUFFER, is_repaired),
            receiver: SessionReceiver::new(is_repaired, LATE_NS, BUFFER),
            overtaken: None,
            to_receiver: Vec::new(),
            records: RecordReader::new(true, 64),
            asks: RecordReader::new(false, 0),
            parts: Vec::new(),
            delivered: Vec::new(),
            now_ns: 0,
        }
    }

    fn send(&mut self, frame: Frame, number: u8, fates: &mut impl Iterator<Item = Fate>) {
        for part in 0..frame.parts {
            let span = Span { begins: part == 0, ends: part + 1 == frame.parts };
            if frame.kept && !self.is_repaired {
                let number_of_it = self.sender.send_record();
                SessionRecord::Data { number: number_of_it, span, bytes: vec![number] }
                    .encode_to(&mut self.to_receiver);
                continue;
            }
            assert!(self.sender.has_room(1));
            let header = self.sender.header(span);
            self.sender.sent(span, &[number]);
            let again = self.overtaken.take();
            match fates.next().unwrap() {
                Fate::Arrives => self.arrive(header, &[number]),
                Fate::IsLost => {}
                Fate::ComesTwice => (0..2).for_each(|_| self.arrive(header, &[number])),
                Fate::IsOvertaken => self.overtaken = Some((header, vec![number])),
            }
            if let Some((header, bytes)) = again {
                self.arrive(header, &bytes);
            }
        }
    }

    fn arrive(&mut self, header: DatagramHeader, bytes: &[u8]) {
        let header = DatagramHeader::parse(&header.encode()).unwrap();
        match self.receiver.arrive(header.number, header.records).unwrap() {
            DatagramArrival::Next => self.accept(header.span, bytes),
            DatagramArrival::Early => self.receiver.keep(header.number, header.span, bytes, self.now_ns),
            DatagramArrival::Old => {}
        }
        self.take();
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

    /// Passes the records on, and lets the time for missing datagrams pass.
    fn settle(&mut self) {
        if self.sender.announce() {
            SessionRecord::Sent { number: self.sender.in_transit().end }.encode_to(&mut self.to_receiver);
        }
        for _ in 0..3 {
            self.records.feed(&std::mem::take(&mut self.to_receiver));
            while let Some(record) = self.records.next().unwrap() {
                match record {
                    SessionRecord::Data { number, span, bytes } => {
                        match self.receiver.arrive_record(number).unwrap() {
                            DatagramArrival::Next => self.accept(span, &bytes),
                            DatagramArrival::Early => self.receiver.keep(number, span, &bytes, self.now_ns),
                            DatagramArrival::Old => {}
                        }
                    }
                    SessionRecord::Lost { number, count } => self.receiver.lose(number, count).unwrap(),
                    SessionRecord::Sent { number } => self.receiver.announced(number, self.now_ns).unwrap(),
                    SessionRecord::Start { .. } | SessionRecord::Ask { .. } => unreachable!(),
                }
                self.take();
            }
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
                for number in number..number + u64::from(count) {
                    match self.sender.copy(number) {
                        Some((span, copy)) => {
                            let bytes = copy.to_vec();
                            self.sender.count_repair();
                            SessionRecord::Data { number, span, bytes }.encode_to(&mut self.to_receiver);
                        }
                        None if self.sender.is_record(number) => {}
                        None => SessionRecord::Lost { number, count: 1 }.encode_to(&mut self.to_receiver),
                    }
                }
            }
        }
        self.sender.acknowledge(self.receiver.next()).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_in_silence(
        frames in proptest::collection::vec(frame(), 1..20),
        fates in proptest::collection::vec(fate(), 60),
        settles in proptest::collection::vec(any::<bool>(), 20),
        is_repaired: bool,
    ) {
        let mut run = Run::new(is_repaired);
        let mut fates = fates.into_iter();
        for (number, (frame, settles)) in frames.iter().zip(settles).enumerate() {
            run.send(*frame, number as u8, &mut fates);
            if settles {
                run.settle();
            }
        }
        (0..3).for_each(|_| run.settle());
        prop_assert!(run.sender.in_transit().is_empty(), "{:?}", run.sender.in_transit());
        let all: Vec<u8> =
            frames.iter().enumerate().flat_map(|(number, frame)| vec![number as u8; frame.parts]).collect();
        if is_repaired {
            prop_assert_eq!(&run.delivered, &all);
        }
        // The delivered frames are whole, in order and without repetition. All frames that must
        // not be lost were delivered.
        let mut rest = &run.delivered[..];
        let mut missing = 0;
        for (number, frame) in frames.iter().enumerate() {
            let (number, parts) = (number as u8, frame.parts);
            match rest.split_at_checked(parts).filter(|(first, _)| first.iter().all(|byte| *byte == number)) {
                Some((_, behind)) => rest = behind,
                None => {
                    prop_assert!(!frame.kept, "frame {} is missing", number);
                    missing += 1;
                }
            }
        }
        prop_assert!(rest.is_empty(), "{:?} of {:?}", run.delivered, all);
        prop_assert!(missing <= run.receiver.lost());
    }

    #[test]
    fn arbitrary_records_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), of_sender: bool) {
        let mut reader = RecordReader::new(of_sender, 64);
        reader.feed(&bytes);
        let mut receiver = SessionReceiver::new(true, LATE_NS, BUFFER);
        while let Ok(Some(record)) = reader.next() {
            let _ = match record {
                SessionRecord::Data { number, .. } => receiver.arrive_record(number).map(drop),
                SessionRecord::Sent { number } => receiver.announced(number, 0),
                SessionRecord::Lost { number, count } => receiver.lose(number, count),
                SessionRecord::Start { .. } | SessionRecord::Ask { .. } => Ok(()),
            };
            let _ = receiver.due(LATE_NS, false);
        }
    }

    #[test]
    fn a_header_is_read_back(token: u64, number in 0..1_u64 << 62, records: u32, begins: bool, ends: bool) {
        let header = DatagramHeader { token, number, records, span: Span { begins, ends } };
        prop_assert_eq!(DatagramHeader::parse(&header.encode()), Some(header));
    }

    #[test]
    fn acknowledgements_survive_any_cut(numbers in proptest::collection::vec(0..1_u64 << 63, 1..9), cut in 0..64_usize) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let cut = cut.min(bytes.len());
        let mut acks = SessionAcks::default();
        let first = acks.feed(&bytes[..cut]);
        prop_assert_eq!(acks.feed(&bytes[cut..]).or(first), numbers.last().copied());
    }
}

#[test]
fn a_probe_is_no_datagram() {
    let probe = SessionProbe { token: 7, number: 3 };
    let mut bytes = probe.encode();
    assert_eq!((DatagramHeader::parse(&bytes), SessionProbe::parse(&bytes)), (None, Some(probe)));
    bytes[20] = 0;
    assert!(DatagramHeader::parse(&bytes).is_some() && SessionProbe::parse(&bytes).is_none());
    for (at, byte) in [(20, 5), (21, 1), (22, 1), (16, 1), (15, 0x80)] {
        let mut bytes = probe.encode();
        bytes[at] = byte;
        assert_eq!(SessionProbe::parse(&bytes), None, "{at}");
    }
    let mut acks = SessionAcks::default();
    let bytes = [probe.acknowledgement(832), 5_u64.to_le_bytes()].concat();
    assert_eq!((acks.feed(&bytes[..9]), acks.probe()), (None, Some((3, 832))));
    assert_eq!((acks.feed(&bytes[9..]), acks.probe()), (Some(5), Some((3, 832))));
}

#[test]
fn violations_are_named() {
    let mut sender = SessionSender::new(TOKEN, BUFFER, true);
    assert!(sender.acknowledge(1).unwrap_err().contains("datagram 1, which was not sent"));
    let mut receiver = SessionReceiver::new(true, LATE_NS, BUFFER);
    assert!(receiver.arrive(1 << 20, 0).unwrap_err().contains("datagram 1048576, and 0 is the next"));
    assert!(receiver.announced(1 << 20, 0).unwrap_err().contains("named datagram 1048576"));
    assert!(receiver.lose(0, 1).unwrap_err().contains("datagram 0, which was not missing"));
    let read = |bytes: &[u8], of_sender| {
        let mut reader = RecordReader::new(of_sender, 64);
        reader.feed(bytes);
        reader.next().unwrap_err()
    };
    let with = |at: usize, byte: u8| {
        let mut bytes = Vec::new();
        SessionRecord::Data { number: 3, span: Span::WHOLE, bytes: vec![1, 2] }.encode_to(&mut bytes);
        bytes[at] = byte;
        bytes
    };
    assert!(read(&with(8, 4), true).contains("kind 4"));
    assert!(read(&with(8, 1), false).contains("kind 1"));
    assert!(read(&with(8, 9), true).contains("kind 9"));
    assert!(read(&with(9, 4), true).contains("mean nothing"));
    assert!(read(&with(10, 1), true).contains("mean nothing"));
    assert!(read(&with(7, 0x80), true).contains("the number"));
    assert!(read(&with(15, 1), true).contains("a repair of 16777218 bytes"));
    let mut ask = Vec::new();
    SessionRecord::Ask { number: 3, count: 0 }.encode_to(&mut ask);
    assert!(read(&ask, false).contains("about 0 datagrams"));
}

#[test]
fn a_window_holds_what_the_buffer_takes() {
    let mut sender = SessionSender::new(TOKEN, BUFFER, false);
    let mut sent = 0;
    while sender.has_room(1000) {
        sender.sent(Span::WHOLE, &[0; 1000]);
        sent += 1;
    }
    // By the kernel's count, each datagram takes at most 3024 bytes.
    assert_eq!(sent, BUFFER / 4 * 3 / 3024);
    sender.acknowledge(1).unwrap();
    assert!(sender.has_room(1000));
    assert_eq!(payload_max(65_507, 1 << 20), 65_472);
    assert!(4 * DatagramCharges::default().of(payload_max(65_507, BUFFER)) <= BUFFER);
}

#[test]
fn what_was_asked_for_is_lost_at_the_end_if_no_answer_came() {
    let mut receiver = SessionReceiver::new(false, LATE_NS, BUFFER);
    let span = Span { begins: true, ends: true };
    assert_eq!(receiver.arrive(0, 0), Ok(DatagramArrival::Next));
    assert_eq!(receiver.arrive(2, 0), Ok(DatagramArrival::Early));
    receiver.keep(2, span, &[7], 0);
    assert_eq!(receiver.due(LATE_NS, false), Due::Ask(vec![(1, 1)]));
    assert_eq!(receiver.due(LATE_NS, true), Due::Lost);
    assert_eq!(receiver.take(), Some(Taken::Lost));
    assert_eq!(receiver.take(), Some(Taken::Datagram(span, vec![7])));
    assert_eq!(receiver.due(LATE_NS, true), Due::Nothing);
}
