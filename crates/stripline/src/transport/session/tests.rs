//! Both ends of a session over a path in memory that loses the datagrams that a test names.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use super::*;
use crate::flow::session::{DATAGRAM_HEADER, DatagramHeader, SessionRecord, Span};
use crate::packet::{Header, Kind};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::doorbell::Doorbell;
use crate::sys::mutex::lock;
use crate::sys::own_process::{in_own_process, logged};
use crate::transport::carrier::{Frames, PathRequest, PathSink, PathSource, SessionEnd, violation_in};
use crate::transport::stream::padded;
use crate::transport::test_path::{ReadBytes, WriteBytes};

pub(super) const DATAGRAM_MAX: usize = 1024;
pub(super) const BUFFER: u64 = 256 * 1024;

/// A path in memory.
#[derive(Clone)]
pub(super) struct Path {
    datagrams: Arc<Mutex<VecDeque<Vec<u8>>>>,
    doorbell: Doorbell,
    /// The numbers of datagrams that are lost.
    pub(super) lost: Arc<Mutex<Vec<u64>>>,
    /// The most datagrams of one receive.
    joins: usize,
}

impl Path {
    /// Returns a path that loses the datagrams with these numbers.
    pub(super) fn losing(lost: &[u64]) -> Self {
        Self {
            datagrams: Arc::default(),
            doorbell: Doorbell::new().unwrap(),
            lost: Arc::new(Mutex::new(lost.into())),
            joins: 1,
        }
    }
}

impl DatagramSink for Path {
    fn send(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        let number = u64::from_le_bytes(header[8..16].try_into().unwrap());
        if !lock(&self.lost).contains(&number) {
            lock(&self.datagrams).push_back([header, payload].concat());
            self.doorbell.notify();
        }
        Ok(())
    }

    fn poll_room<'a>(&'a self, _poll_set: &mut PollSet<'a>) {}
}

impl DatagramSource for Path {
    fn receive(
        &mut self,
        header: &mut [u8],
        payload: &mut [u8],
        _blocks: bool,
        more: &mut Vec<Range<usize>>,
    ) -> io::Result<usize> {
        more.clear();
        let mut datagrams = lock(&self.datagrams);
        let Some(datagram) = datagrams.pop_front() else {
            self.doorbell.drain();
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let head = datagram.len().min(header.len());
        header[..head].copy_from_slice(&datagram[..head]);
        let mut end = datagram.len() - head;
        payload[..end].copy_from_slice(&datagram[head..]);
        while more.len() + 1 < self.joins
            && datagrams.front().is_some_and(|next| end + next.len() <= payload.len())
            && let Some(next) = datagrams.pop_front()
        {
            let place = end..end + next.len();
            payload[place.clone()].copy_from_slice(&next);
            end = place.end;
            more.push(place);
        }
        Ok(datagram.len())
    }

    fn arrivals(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

/// Returns the request of a receiver without options.
pub(super) fn request(is_complete: bool) -> PathRequest<'static> {
    let options = Default::default();
    PathRequest {
        connection: "a -> b",
        packets_max: None,
        is_complete,
        is_of_calls: false,
        options,
        buffer: 1 << 21,
        runs_barrier: false,
        endpoint: None,
    }
}

fn ends(is_repaired: bool, lost: &[u64]) -> (Path, Arc<SessionSink>, SessionSource) {
    ends_over(Path::losing(lost), is_repaired)
}

fn ends_over(path: Path, is_repaired: bool) -> (Path, Arc<SessionSink>, SessionSource) {
    let request = request(is_repaired);
    let sockets = SessionSockets::open(&request).unwrap();
    let (path_end, address) = (Box::new(path.clone()), "memory".into());
    let (source, ticket) =
        SessionSource::new(path_end, sockets, address, BUFFER, DATAGRAM_MAX, &request, false).unwrap();
    let (ticket, sockets) = SessionTicket::of_peer(ticket).unwrap();
    assert_eq!((ticket.is_repaired, ticket.buffer, &ticket.address[..]), (is_repaired, BUFFER, "memory"));
    let sink = SessionSink::open(&ticket, sockets, Box::new(path.clone()), DATAGRAM_MAX, false).unwrap();
    (path, sink, source)
}

pub(super) fn frame(kind: Kind, sequence: u64, payload: usize) -> Vec<u8> {
    let header = Header {
        sequence,
        sample_index: 0,
        time_ns: 0,
        intended_ns: 0,
        sent_ns: 0,
        length: payload as u32,
        stream: 0,
        kind: kind as u8,
        flags: 0,
    };
    let mut bytes = bytemuck::bytes_of(&header).to_vec();
    bytes.resize(padded(payload), sequence as u8);
    bytes
}

/// Reads to the end, and returns the frames' kinds, numbers and lengths.
pub(super) fn read_all(mut source: SessionSource) -> Vec<(u8, u64, u32)> {
    let (mut bytes, mut into) = (Vec::new(), vec![0; 4096]);
    loop {
        match source.read_bytes(&mut into) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&into[..read]),
            Err(e) => {
                // Sleep only now: no descriptor shows frames that were kept.
                assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
                let mut poll_set = PollSet::default();
                source.poll_bytes(&mut poll_set);
                poll_set.wait(None).unwrap();
            }
        }
    }
    let (mut rest, mut frames) = (&bytes[..], Vec::new());
    while let Some(header) = Header::read(rest) {
        let (frame, behind) = rest.split_at(padded(header.length as usize));
        assert!(frame[48..48 + header.length as usize].iter().all(|byte| *byte == header.sequence as u8));
        frames.push((header.kind, header.sequence, header.length));
        rest = behind;
    }
    assert!(rest.is_empty());
    frames
}

fn write_all(sink: &SessionSink, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match sink.write_bytes(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

/// Writes frames of one datagram and of three datagrams, and descriptions in between.
fn write_frames(sink: &SessionSink) -> Vec<(u8, u64, u32)> {
    let mut frames = vec![(Kind::Stream as u8, 0, 40)];
    for sequence in 0..20 {
        frames.push((Kind::Data as u8, sequence, if sequence % 3 == 1 { 2500 } else { 100 }));
    }
    frames.insert(11, (Kind::Stream as u8, 10, 90));
    frames.push((Kind::End as u8, 20, 0));
    for (kind, sequence, length) in &frames {
        write_all(sink, &frame(Kind::parse(*kind).unwrap(), *sequence, *length as usize));
    }
    frames
}

#[test]
fn what_is_lost_is_repaired() {
    let all = [&[][..], &[0], &[3, 4, 5], &[1, 2, 10, 11, 20, 30], &[35, 36, 37, 38, 39]];
    for (lost, joins) in all.into_iter().flat_map(|lost| [(lost, 1), (lost, 4)]) {
        let (_, sink, source) = ends_over(Path { joins, ..Path::losing(lost) }, true);
        let reader = std::thread::spawn(move || read_all(source));
        let frames = write_frames(&sink);
        drop(sink);
        assert_eq!(reader.join().unwrap(), frames, "{lost:?}");
    }
}

#[test]
fn what_is_lost_without_repair_is_whole_frames() {
    // Datagram 0 is the description on the control socket; 1 is packet 0; 2 to 4 are packet 1.
    let all = [(&[][..], &[][..]), (&[1], &[0]), (&[3], &[1]), (&[2, 3, 4, 5], &[1, 2])];
    for ((lost, missing), joins) in all.into_iter().flat_map(|case| [(case, 1), (case, 4)]) {
        let (_, sink, source) = ends_over(Path { joins, ..Path::losing(lost) }, false);
        let reader = std::thread::spawn(move || read_all(source));
        let mut frames = write_frames(&sink);
        drop(sink);
        frames.retain(|(kind, number, _)| *kind != Kind::Data as u8 || !missing.contains(number));
        assert_eq!(reader.join().unwrap(), frames, "{lost:?}");
    }
}

/// Checks datagrams that came with others: whole frames, parts, early and repeated ones.
#[test]
fn joined_datagrams_are_taken_one_by_one() {
    for is_repaired in [true, false] {
        let (path, sink, mut source) = ends_over(Path { joins: 9, ..Path::losing(&[]) }, is_repaired);
        let frames = [100, 2500, 100, 0, 900];
        for (sequence, payload) in frames.iter().enumerate() {
            write_all(&sink, &frame(Kind::Data, sequence as u64, *payload));
        }
        let mut datagrams = lock(&path.datagrams);
        assert_eq!(datagrams.len(), 7);
        datagrams.swap(1, 2);
        let again = datagrams[0].clone();
        datagrams.insert(5, again);
        datagrams.insert(3, vec![7; 3]);
        drop(datagrams);
        let (mut into, mut bytes) = (vec![0; 8192], Vec::new());
        while let Ok(read) = source.read_bytes(&mut into) {
            bytes.extend_from_slice(&into[..read]);
        }
        let expected: Vec<u8> =
            (0..).zip(frames).flat_map(|(number, payload)| frame(Kind::Data, number, payload)).collect();
        assert_eq!(bytes, expected, "{is_repaired}");
    }
}

#[test]
fn a_killed_senders_whole_frames_are_read() {
    for is_repaired in [true, false] {
        let (path, sink, source) = ends(is_repaired, &[]);
        write_all(&sink, &frame(Kind::Data, 0, 100));
        write_all(&sink, &frame(Kind::Data, 1, 2500));
        // The process died in the middle of a frame: the frame's last datagram was not sent.
        lock(&path.datagrams).pop_back();
        sink.die();
        let mut source = source;
        let mut into = vec![0; 4096];
        assert_eq!(source.read_bytes(&mut into).unwrap(), padded(100));
        while !matches!(source.read_bytes(&mut into), Ok(0)) {
            source.await_end();
        }
    }
}

#[test]
fn an_end_that_comes_instead_of_an_answer_is_read() {
    let path = Path::losing(&[0]);
    let request = request(false);
    let sockets = SessionSockets::open(&request).unwrap();
    let (path_end, address) = (Box::new(path.clone()), "memory".into());
    let (mut source, ticket) =
        SessionSource::new(path_end, sockets, address, BUFFER, DATAGRAM_MAX, &request, false).unwrap();
    let (ticket, [control, _acks]) = SessionTicket::of_peer(ticket).unwrap();
    for number in 0..2 {
        let header = DatagramHeader { token: ticket.token, number, records: 0, span: Span::WHOLE };
        path.send(&header.encode(), &frame(Kind::Data, number, 100)).unwrap();
    }
    let mut into = vec![0; 4096];
    let is_asked = || {
        let mut poll_set = PollSet::default();
        poll_set.readable(control.as_fd());
        poll_set.wait(Some(std::time::Instant::now())).unwrap()
    };
    while !is_asked() {
        assert_eq!(source.read_bytes(&mut into).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
    let mut records = Vec::new();
    let end = SessionRecord::Data { number: 2, span: Span::WHOLE, bytes: frame(Kind::End, 2, 0) };
    for record in [end, SessionRecord::Sent { number: 3 }] {
        record.encode_to(&mut records);
    }
    io::Write::write_all(&mut &control, &records).unwrap();
    control.close_writing();
    source.await_end();
    let mut frames = Vec::new();
    loop {
        match source.read_bytes(&mut into).unwrap() {
            0 => break,
            read => frames.push(Header::read(&into[..read]).unwrap().sequence),
        }
    }
    assert_eq!(frames, [1, 2]);
}

/// Reads until there is an error other than a lack of bytes. Returns the bytes before the error.
fn read_to_error(source: &mut SessionSource) -> (Vec<u8>, io::Error) {
    let (mut bytes, mut into) = (Vec::new(), vec![0; 8192]);
    loop {
        match source.read_bytes(&mut into) {
            Ok(0) => panic!("a violation is not an end"),
            Ok(read) => bytes.extend_from_slice(&into[..read]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return (bytes, error),
        }
    }
}

#[test]
fn a_datagram_that_violates_the_rules_is_an_error_behind_those_before_it() {
    for joins in [1, 9] {
        let (path, sink, mut source) = ends_over(Path { joins, ..Path::losing(&[]) }, true);
        let frames = [frame(Kind::Data, 0, 100), frame(Kind::Data, 1, 2500)];
        frames.iter().for_each(|frame| write_all(&sink, frame));
        let far = DatagramHeader { token: sink.token(), number: 1 << 40, records: 0, span: Span::WHOLE };
        path.send(&far.encode(), &frame(Kind::Data, 2, 100)).unwrap();
        write_all(&sink, &frame(Kind::Data, 2, 100));
        let (bytes, error) = read_to_error(&mut source);
        assert!(bytes == frames.concat(), "{joins}");
        let text = violation_in(&error).unwrap();
        assert_eq!(text, "sent datagram 1099511627776, and 4 is the next");
    }
}

/// Checks records that are read before and after the sender's hang-up is detected.
#[test]
fn a_record_that_violates_the_rules_is_an_error_behind_those_before_it() {
    for awaits_end in [false, true] {
        let path = Path::losing(&[]);
        let request = request(false);
        let sockets = SessionSockets::open(&request).unwrap();
        let (path_end, address) = (Box::new(path), "memory".into());
        let (mut source, ticket) =
            SessionSource::new(path_end, sockets, address, BUFFER, DATAGRAM_MAX, &request, false).unwrap();
        let (_, [control, _acks]) = SessionTicket::of_peer(ticket).unwrap();
        let mut records = Vec::new();
        let data = SessionRecord::Data { number: 0, span: Span::WHOLE, bytes: frame(Kind::Data, 0, 100) };
        for record in [data, SessionRecord::Lost { number: 9, count: 1 }] {
            record.encode_to(&mut records);
        }
        io::Write::write_all(&mut &control, &records).unwrap();
        control.close_writing();
        if awaits_end {
            source.await_end();
        }
        let (bytes, error) = read_to_error(&mut source);
        assert_eq!(bytes, frame(Kind::Data, 0, 100), "{awaits_end}");
        assert_eq!(violation_in(&error).unwrap(), "lost datagram 9, which was not missing");
    }
}

#[test]
fn a_violation_of_the_receiver_fails_every_later_write() {
    let sent = frame(Kind::Data, 0, 900);
    let (_, sink, source) = ends(true, &[]);
    source.forge_ack(1 << 40);
    let error = std::iter::repeat_with(|| sink.write_bytes(&sent)).find_map(Result::err).unwrap();
    assert_eq!(violation_in(&error).unwrap(), "acknowledged datagram 1099511627776, which was not sent");
    assert!(violation_in(&sink.write_bytes(&sent).unwrap_err()).is_some());
    // A sender that waits for room wakes.
    let (_, sink, source) = ends(true, &[]);
    while sink.write_bytes(&sent).is_ok() {}
    source.forge_record();
    let mut poll_set = PollSet::default();
    sink.poll_room(&mut poll_set);
    poll_set.wait(None).unwrap();
    let error = sink.write_bytes(&sent).unwrap_err();
    assert_eq!(violation_in(&error).unwrap(), "sent a control record of kind 9");
    let mut buffer = AlignedBuffer::default();
    let mut frames = Frames::of_buffer(&mut buffer, 0);
    assert!(violation_in(&sink.write(&mut frames, Duration::ZERO).unwrap_err()).is_some());
}

#[test]
fn counting_unread_bytes_leaves_a_senders_wake() {
    let (_, sink, mut source) = ends(true, &[]);
    let sent = frame(Kind::Data, 0, 900);
    let written = (0..).find(|_| sink.write_bytes(&sent).is_err()).unwrap();
    assert_eq!(sink.unread_bytes(), Some(written * sent.len() as u64));
    let mut into = vec![0; 4096];
    (0..written).for_each(|_| assert_eq!(source.read_bytes(&mut into).unwrap(), sent.len()));
    // Fewer bytes are unread than the receiver takes between two acknowledgements.
    assert!(sink.unread_bytes().unwrap() < BUFFER / 8);
    let mut poll_set = PollSet::default();
    sink.poll_room(&mut poll_set);
    assert!(poll_set.wait(Some(std::time::Instant::now())).unwrap());
    assert_eq!(sink.write_bytes(&sent).unwrap(), sent.len());
}

#[test]
fn datagrams_of_others_are_ignored() {
    let (path, sink, source) = ends(true, &[]);
    let mut stranger = vec![7; DATAGRAM_HEADER + 20];
    for bytes in [0, 5, DATAGRAM_HEADER, stranger.len()] {
        lock(&path.datagrams).push_back(stranger[..bytes].to_vec());
    }
    stranger[20..24].fill(0);
    lock(&path.datagrams).push_back(stranger);
    let reader = std::thread::spawn(move || read_all(source));
    let frames = write_frames(&sink);
    drop(sink);
    assert_eq!(reader.join().unwrap(), frames);
}

#[test]
fn tickets_that_lie_are_refused() {
    let ticket = |address: &str, fds: Vec<OwnedFd>| SessionTicket::of_peer(Ticket::new(address.into(), fds));
    let fds = || {
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        vec![OwnedFd::from(a), OwnedFd::from(b)]
    };
    let good = r#"{"address": "a", "token": 1, "buffer": 4096, "is_repaired": true}"#;
    assert!(ticket(good, fds()).is_ok());
    assert!(ticket(good, Vec::new()).unwrap_err().contains("two descriptors"));
    assert!(ticket("{}", fds()).unwrap_err().contains("does not parse"));
    assert!(ticket(&good.replace("4096", "1"), fds()).unwrap_err().contains("receive buffer of 1"));
    let files = [(); 2].map(|()| OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
    assert!(ticket(good, files.into()).unwrap_err().contains("not of a socket"));
}

#[test]
fn a_probe_shows_that_the_path_leads_to_the_receiver() {
    // Probes 1 and 2 are lost.
    let (path, sink, mut source) = ends(true, &[1, 2]);
    let is_open = || matches!(sink.open().unwrap(), Opening::Done);
    for _ in 0..2 {
        assert!(!is_open());
    }
    // This probe is of another session.
    lock(&path.datagrams)
        .push_back(crate::flow::session::SessionProbe { token: 0, number: 1 }.encode().into());
    let answered = std::thread::spawn(move || {
        while source.open().unwrap().is_some() {
            std::thread::yield_now();
        }
        source
    });
    while !is_open() {
        std::thread::yield_now();
    }
    let mut source = answered.join().unwrap();
    // Further probes are neither answered nor data.
    lock(&path.lost).clear();
    let again = crate::flow::session::SessionProbe { token: sink.token(), number: 9 };
    lock(&path.datagrams).push_back(again.encode().into());
    path.doorbell.notify();
    assert_eq!(source.read_bytes(&mut vec![0; 4096]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let reader = std::thread::spawn(move || read_all(source));
    assert!(is_open());
    let frames = write_frames(&sink);
    drop(sink);
    assert_eq!(reader.join().unwrap(), frames);
}

#[test]
fn strangers_are_logged_once() {
    in_own_process("transport::session::tests::strangers_are_logged_once", "log", || {
        let lines = logged();
        let (path, _sink, mut source) = ends(true, &[]);
        for _ in 0..3 {
            lock(&path.datagrams).extend([vec![0xa5; 5], vec![0xa5; 100]]);
            path.doorbell.notify();
            assert_eq!(source.read_bytes(&mut vec![0; 4096]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        let line = lines.try_recv().unwrap();
        assert!(line.starts_with("datagrams of strangers come"), "{line}");
        assert!(lines.try_recv().is_err());
    });
}
