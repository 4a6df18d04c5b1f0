//! A group over a path in memory, with members that stop, die, or lose the datagrams that a test
//! names.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::tests::{BUFFER, DATAGRAM_MAX, Path, frame, read_all, request};
use super::*;
use crate::packet::Kind;
use crate::sys::mutex::lock;
use crate::transport::carrier::{PathSink, PortGroups, SessionEnd, violation_in};
use crate::transport::test_path::{ReadBytes, WriteBytes};

/// A path to all members.
#[derive(Clone, Default)]
struct Bus {
    members: Arc<Mutex<Vec<Path>>>,
    sends: Arc<AtomicUsize>,
}

impl DatagramSink for Bus {
    fn send(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        self.sends.fetch_add(1, Ordering::Relaxed);
        lock(&self.members).iter().try_for_each(|path| path.send(header, payload))
    }

    fn poll_room<'a>(&'a self, _poll_set: &mut PollSet<'a>) {}
}

/// The sending side of a port.
#[derive(Default)]
struct Port {
    bus: Bus,
    groups: PortGroups,
    sinks: Vec<Arc<GroupSink>>,
    units: u64,
}

impl Port {
    /// Adds a member that must get everything, or that may drop frames.
    fn join(&mut self, holds: bool, lost: &[u64]) -> SessionSource {
        let path = Path::losing(lost);
        lock(&self.bus.members).push(path.clone());
        let request = request(holds);
        let sockets = SessionSockets::open(&request).unwrap();
        let (path, address) = (Box::new(path), "bus".into());
        let (source, ticket) =
            SessionSource::new(path, sockets, address, BUFFER, DATAGRAM_MAX, &request, true).unwrap();
        let (ticket, sockets) = SessionTicket::of_peer(ticket).unwrap();
        let bus = self.bus.clone();
        let open = || Ok((Box::new(bus) as _, DATAGRAM_MAX));
        self.sinks.push(GroupSink::open(&self.groups, &ticket, sockets, false, open).unwrap());
        source
    }

    /// Writes to every member once, and returns the bytes that each member took.
    fn write(&mut self, bytes: &[u8]) -> Vec<io::Result<usize>> {
        self.units += 1;
        self.sinks.iter().for_each(|sink| sink.begin(self.units));
        self.sinks.iter().map(|sink| sink.write_bytes(bytes)).collect()
    }

    /// Writes a frame to every member, and waits for room.
    fn write_all(&mut self, bytes: &[u8]) {
        let first = self.write(bytes);
        for (sink, mut outcome) in self.sinks.iter().zip(first) {
            let mut written = 0;
            loop {
                match outcome {
                    Ok(more) => written += more,
                    Err(e) => {
                        assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
                        let mut poll_set = PollSet::default();
                        sink.poll_room(&mut poll_set);
                        poll_set.wait(None).unwrap();
                    }
                }
                if written == bytes.len() {
                    break;
                }
                outcome = sink.write_bytes(&bytes[written..]);
            }
        }
    }

    fn has_room(&self, index: usize) -> bool {
        let mut poll_set = PollSet::default();
        self.sinks[index].poll_room(&mut poll_set);
        poll_set.wait(Some(Instant::now())).unwrap()
    }
}

fn data(sequence: u64, payload: usize) -> Vec<u8> {
    frame(Kind::Data, sequence, payload)
}

/// Writes packets of one datagram and of three, with descriptions and an end.
fn write_frames(port: &mut Port, numbers: std::ops::Range<u64>) -> Vec<(u8, u64, u32)> {
    let mut frames = vec![(Kind::Stream as u8, numbers.start, 40)];
    for sequence in numbers.clone() {
        frames.push((Kind::Data as u8, sequence, if sequence % 3 == 1 { 2500 } else { 100 }));
    }
    frames.push((Kind::End as u8, numbers.end, 0));
    for (kind, sequence, length) in &frames {
        port.write_all(&frame(Kind::parse(*kind).unwrap(), *sequence, *length as usize));
    }
    frames
}

#[test]
fn one_send_reaches_every_member() {
    let mut port = Port::default();
    let sources = [
        port.join(true, &[]),
        port.join(true, &[0, 1, 7, 8, 30]),
        // The description, packet 0, and a part of packet 4 are lost.
        port.join(false, &[0, 1, 9]),
        port.join(false, &[]),
    ];
    let readers = sources.map(|source| std::thread::spawn(move || read_all(source)));
    let frames = write_frames(&mut port, 0..200);
    let datagrams = 202 + 67 * 2;
    assert_eq!(port.bus.sends.load(Ordering::Relaxed), datagrams);
    port.sinks.clear();
    let [first, second, third, fourth] = readers.map(|reader| reader.join().unwrap());
    assert_eq!(first, frames);
    assert_eq!(second, frames);
    let missing =
        |number: u64| third.iter().all(|(kind, other, _)| *kind != Kind::Data as u8 || *other != number);
    let lost: Vec<u64> = (0..200).filter(|number| missing(*number)).collect();
    assert_eq!(lost, [0, 4]);
    let whole: Vec<_> = frames
        .iter()
        .filter(|(kind, number, _)| *kind != Kind::Data as u8 || !lost.contains(number))
        .collect();
    assert!(whole.into_iter().eq(&third));
    assert_eq!(fourth, frames);
}

#[test]
fn a_member_begins_with_the_next_frame() {
    let mut port = Port::default();
    let first = port.join(true, &[]);
    port.write_all(&data(0, 100));
    let second = port.join(true, &[]);
    let third = port.join(false, &[]);
    port.write_all(&data(1, 2500));
    let fourth = port.join(false, &[]);
    port.write_all(&data(2, 100));
    port.sinks.clear();
    let numbers: [Vec<u64>; 4] =
        [first, second, third, fourth].map(|source| read_all(source).iter().map(|frame| frame.1).collect());
    assert_eq!(numbers, [vec![0, 1, 2], vec![1, 2], vec![1, 2], vec![2]]);
}

/// Checks that a member acknowledges less than an eighth of the buffer when the sender announces
/// it. A sender that counts more than the member does may have no window left.
#[test]
fn a_member_acknowledges_what_the_sender_names() {
    let mut port = Port::default();
    let mut source = port.join(true, &[]);
    port.write_all(&data(0, 100));
    let (mut into, mut read) = (vec![0; 4096], 0);
    while port.sinks[0].unread_bytes() != Some(0) {
        read += source.read_bytes(&mut into).unwrap_or(0);
        std::thread::yield_now();
    }
    assert_eq!(read, data(0, 100).len());
}

#[test]
fn a_stopped_member_holds_the_others_until_it_leaves() {
    let mut port = Port::default();
    let (mut reading, stopped) = (port.join(true, &[]), port.join(true, &[]));
    let mut into = vec![0; 4096];
    let mut sent = 0;
    while port.write(&data(sent, 900)).iter().all(|outcome| outcome.is_ok()) {
        while reading.read_bytes(&mut into).is_ok() {}
        sent += 1;
    }
    assert!(sent > 10 && !port.has_room(0));
    // The member's process ends.
    drop(stopped);
    assert!(port.has_room(0));
    assert_eq!(
        port.write(&data(sent, 900)).iter().map(|outcome| outcome.is_ok()).collect::<Vec<_>>(),
        [true, false]
    );
    // The member's connection ends first, as the hang-up shows.
    let stopped = port.join(true, &[]);
    while port.write(&data(sent, 900))[0].is_ok() {
        while reading.read_bytes(&mut into).is_ok() {}
    }
    assert!(!port.has_room(0));
    port.sinks[2].receiver_left();
    assert!(port.has_room(0));
    assert!(port.write(&data(sent, 900))[0].is_ok());
    drop(stopped);
}

#[test]
fn a_stopped_member_that_drops_holds_nothing() {
    let mut port = Port::default();
    let (mut reading, stopped) = (port.join(true, &[]), port.join(false, &[]));
    lock(&lock(&port.bus.members)[1].lost).extend(5..100_000);
    let mut into = vec![0; 4096];
    for sequence in 0..5000 {
        let kind = if sequence % 1000 == 999 { Kind::Stream } else { Kind::Data };
        assert!(port.write(&frame(kind, sequence, 900)).iter().all(|outcome| outcome.is_ok()));
        while reading.read_bytes(&mut into).is_ok() {}
    }
    // The member reads again.
    let reader = std::thread::spawn(move || read_all(stopped));
    lock(&lock(&port.bus.members)[1].lost).clear();
    port.write_all(&frame(Kind::End, 5000, 0));
    port.sinks.clear();
    let read: Vec<u64> = reader.join().unwrap().iter().map(|frame| frame.1).collect();
    assert_eq!(read, [0, 1, 2, 3, 4, 999, 1999, 2999, 3999, 4999, 5000]);
}

#[test]
fn a_member_that_dies_in_a_frame_leaves_it_to_the_others() {
    // The frame is larger than the window.
    let large = data(0, 2 * BUFFER as usize);
    for others_hold in [true, false] {
        let mut port = Port::default();
        let (dying, other) = (port.join(true, &[]), port.join(others_hold, &[]));
        let dropping = port.join(false, &[]);
        let first = port.write(&large);
        let written = *first[0].as_ref().unwrap();
        assert!(written > 0 && written < large.len());
        drop(dying);
        port.sinks[0].receiver_left();
        assert_eq!(
            port.sinks[0].write_bytes(&large[written..]).unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
        let readers = [other, dropping].map(|source| std::thread::spawn(move || read_all(source)));
        if others_hold {
            let mut sent = written;
            while sent < large.len() {
                match port.sinks[1].write_bytes(&large[sent..]) {
                    Ok(more) => sent += more,
                    Err(_) => {
                        let mut poll_set = PollSet::default();
                        port.sinks[1].poll_room(&mut poll_set);
                        poll_set.wait(None).unwrap();
                    }
                }
            }
        }
        port.sinks.remove(0);
        port.write_all(&data(1, 2500));
        port.write_all(&data(2, 100));
        port.sinks.clear();
        for (reader, holds) in readers.into_iter().zip([others_hold, false]) {
            let read: Vec<u64> = reader.join().unwrap().iter().map(|frame| frame.1).collect();
            let whole: &[u64] = if others_hold { &[0, 1, 2] } else { &[1, 2] };
            assert_eq!(read, whole, "{others_hold} {holds}");
        }
    }
}

#[test]
fn a_frame_given_up_in_part_cuts_off_those_that_must_miss_nothing() {
    let mut port = Port::default();
    let (holding, dropping) = (port.join(true, &[]), port.join(false, &[]));
    let outcome = port.write(&data(0, 2 * BUFFER as usize));
    assert!(outcome[0].is_ok() && outcome[1].is_ok());
    // The caller continues without the rest of the frame.
    let outcome = port.write(&data(1, 100));
    assert_eq!(outcome[0].as_ref().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert!(outcome[1].is_ok());
    port.sinks.clear();
    assert_eq!(read_all(dropping).iter().map(|frame| frame.1).collect::<Vec<_>>(), [1]);
    drop(holding);
}

#[test]
fn a_member_that_lies_is_cut_off_alone() {
    let mut port = Port::default();
    let (honest, liar) = (port.join(true, &[]), port.join(true, &[]));
    let fault = |outcomes: Vec<io::Result<usize>>| violation_in(outcomes[1].as_ref().unwrap_err()).unwrap();
    liar.forge_ack(1 << 40);
    // The write to the first member reads all acknowledgements.
    assert!(port.write(&data(0, 100))[0].is_ok());
    for sequence in [1, 2] {
        let fault = fault(port.write(&data(sequence, 100)));
        assert_eq!(fault, "acknowledged datagram 1099511627776, which was not sent");
    }
    port.sinks.remove(1);
    let liar = port.join(true, &[]);
    port.write_all(&data(3, 100));
    liar.forge_record();
    // The service thread reads the record.
    while port.sinks[1].write_bytes(&[]).is_ok() {
        std::thread::yield_now();
    }
    assert_eq!(fault(port.write(&data(4, 100))), "sent a control record of kind 9");
    port.sinks.clear();
    assert_eq!(read_all(honest).iter().map(|frame| frame.1).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}
